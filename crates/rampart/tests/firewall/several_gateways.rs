//! Two transparent gateways of one policy at both hooks: each has the connections that its own rules hand it, for as long as they do, also when the order
//! of the policy is another one, when a port is used again at once, and when the other one's process is killed.

use crate::bed::{Bed, OUTSIDE, until};
use crate::gateway_clients::{counted, is_up};
use crate::gateway_weather::until_remembered;
use crate::http_gateway::{children, kill};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use testkit::origin::{Origin, connect_from, read_to_end, request, status};

/// Its name, where it listens, and the path that it alone refuses.
const GATEWAYS: [(&str, &str, &str); 2] =
    [("one", "[::]:3129", "/chunked"), ("two", "10.81.1.1:3130", "/length")];

fn gateway((name, listen, refused): (&str, &str, &str)) -> String {
    format!(
        "[gateways.{name}]\nprotocol = 'http'\nmode = 'transparent'\nlisten = '{listen}'\nports = [8080, 8081]\n\
         [[gateways.{name}.rules]]\nname = 'not'\naction = 'deny'\npaths = '{refused}'\n\
         [[gateways.{name}.rules]]\nname = 'all'\naction = 'allow'\n"
    )
}

/// A policy that hands the two ports to these gateways.
fn policy(bed: &Bed, gateways: &[(&str, &str, &str)], ports: [&str; 2]) -> String {
    let rule = |(port, gateway): (&str, &str)| {
        format!(
            "[[rules]]\nname = 'to-{port}'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/{port}'\naction = 'allow'\n\
             gateway = '{gateway}'\n"
        )
    };
    let out = "[[rules]]\nname = 'from-gateways'\nfrom = 'self'\nto = 'outside'\nservice = 'tcp/8080-8081'\naction = 'allow'\n";
    let all = gateways.iter().map(|it| gateway(*it)).collect::<String>();
    bed.policy("several.toml", &format!("{}{}{out}{all}", rule(("8080", ports[0])), rule(("8081", ports[1]))))
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(OUTSIDE.parse().unwrap(), port)
}

/// What a client gets that connects from this port.
fn ask(bed: &Bed, from: u16, port: u16, path: &str) -> u16 {
    let mut stream = bed.inside("in", || connect_from(from, at(port))).unwrap();
    stream.write_all(request(false, "GET", at(port), path, "Connection: close\r\n\r\n").as_bytes()).unwrap();
    let answer = read_to_end(&mut stream).0;
    drop(stream);
    until_remembered(bed, from, at(port));
    status(&answer)
}

/// A connection on which a request has begun; and whether it still goes on, by the rest of it.
struct Held(TcpStream);

impl Held {
    fn open(bed: &Bed, port: u16, path: &str) -> Self {
        let mut stream = bed.inside("in", || TcpStream::connect(at(port)).unwrap());
        stream.write_all(request(false, "GET", at(port), path, "").as_bytes()).unwrap();
        Self(stream)
    }

    fn goes_on(mut self) -> bool {
        let mut begin = [0; 12];
        self.0.write_all(b"\r\n").is_ok()
            && self.0.read_exact(&mut begin).is_ok()
            && begin == *b"HTTP/1.1 200"
    }
}

#[test]
fn needs_root_each_transparent_gateway_has_what_its_own_rules_hand_it() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        let _origins = [8080, 8081]
            .map(|port| Origin::start(bed.inside("out", || TcpListener::bind((OUTSIDE, port)).unwrap())));
        let firewall = bed.up(&policy(&bed, &GATEWAYS, ["one", "two"]), hook);
        GATEWAYS.iter().for_each(|(name, ..)| until("it is up", || is_up(&bed, name)));
        let expect = |what: &str, rows: [(u16, &str, u16); 4]| {
            for (port, path, wanted) in rows {
                // Twice from the same port, so that the kernel remembers the first one when the second comes.
                for time in ["once", "again"] {
                    let from = 40_000 + port % 2;
                    assert_eq!(ask(&bed, from, port, path), wanted, "{hook} {what}: {port} {path} {time}");
                }
            }
        };
        let both = [
            (8080, "/length", 200),
            (8080, "/chunked", 403),
            (8081, "/length", 403),
            (8081, "/chunked", 200),
        ];
        expect("each its own", both);
        // In another order, and with one more before them.
        let held = [Held::open(&bed, 8080, "/length"), Held::open(&bed, 8081, "/chunked")];
        let more = [("three", "10.81.2.1:3131", "/x"), GATEWAYS[1], GATEWAYS[0]];
        bed.json(&["apply", &policy(&bed, &more, ["one", "two"])]);
        assert_eq!(held.map(Held::goes_on), [true, true], "{hook}: connections go on");
        expect("in another order", both);
        // The other way round.
        let held = [Held::open(&bed, 8080, "/length"), Held::open(&bed, 8081, "/chunked")];
        bed.json(&["apply", &policy(&bed, &more, ["one", "one"])]);
        assert_eq!(held.map(Held::goes_on), [true, false], "{hook}: one is not its gateway's any more");
        expect(
            "one for both",
            [
                (8080, "/length", 200),
                (8080, "/chunked", 403),
                (8081, "/length", 200),
                (8081, "/chunked", 403),
            ],
        );
        bed.json(&["apply", &policy(&bed, &GATEWAYS, ["two", "one"])]);
        expect(
            "the other way round",
            [
                (8080, "/length", 403),
                (8080, "/chunked", 200),
                (8081, "/length", 200),
                (8081, "/chunked", 403),
            ],
        );
        // One process ends, and nobody but its clients notices.
        let open = || GATEWAYS.map(|(name, ..)| counted(&bed, name, "open"));
        // A gateway that a policy took a connection from still waits for the rest of its request.
        until("none has a client", || open() == [0, 0]);
        let held = [Held::open(&bed, 8080, "/chunked"), Held::open(&bed, 8081, "/length")];
        until("both have a client", || open() == [1, 1]);
        kill(children(children(firewall.child.id(), "keep-gateways")[0], "run-gateway")[0]);
        until("it is started again", || {
            GATEWAYS.iter().any(|(name, ..)| counted(&bed, name, "restarts") == 1)
        });
        let killed = counted(&bed, "two", "restarts") == 1;
        assert_eq!(held.map(Held::goes_on), [!killed, killed], "{hook}");
    }
}
