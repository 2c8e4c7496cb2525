//! The firewall on network cards of several drivers. Here the cables are pairs of virtual links; an emulated machine
//! (`scripts/test-kernels`) has cards, and says which in `CARDS`: for each cable `DRIVER FIREWALLS-ADDRESS HOSTS-ADDRESS`, with a
//! semicolon behind each. Both ends of a cable are in one machine, in namespaces of their own: what one card sends leaves the
//! machine and comes in by the other card's queues and interrupts, so the firewall's driver does what it does between two machines.

use crate::bed::{Bed, INSIDE, OUTSIDE, Outcome, serve, until};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use testkit::slowness;

const RULES: &str = "
    [[rules]]
    name = 'all'
    from = ['inside', 'outside']
    to = ['inside', 'outside']
    action = 'allow'
";

/// Two cards with a cable between them, or a pair of virtual links.
#[derive(Debug, Clone)]
struct Cable {
    driver: String,
    /// Ethernet addresses of the cards: the firewall's, the host's.
    cards: Option<[String; 2]>,
}

impl Cable {
    /// Whether the driver has XDP.
    fn takes_xdp(&self) -> bool {
        self.driver != "e1000"
    }

    fn lay(&self, bed: &Bed, host: &str, interface: &str, net: &str, number: &str) {
        let Some(cards) = &self.cards else { return bed.join(host, interface, net, number) };
        for (card, at, name) in [(&cards[0], "fw", interface), (&cards[1], host, "x")] {
            let namespace = bed.namespace(at);
            testkit::namespace::run(
                "ip",
                &["link", "set", &name_of(card), "name", name, "netns", &namespace],
            );
        }
        bed.address(host, interface, net, [&cards[0], &cards[1]]);
    }

    /// Back to where others find the cards, under names that are nobody else's. With their namespace they would come back later.
    fn take(&self, bed: &Bed, host: &str, interface: &str) {
        let Some(cards) = &self.cards else { return };
        for (card, at, name) in [(&cards[0], "fw", interface), (&cards[1], host, "x")] {
            let own = format!("c{}", card.replace(':', ""));
            bed.ip(at, &["link", "set", name, "name", &own, "netns", "1"]);
        }
    }
}

/// The name of the card with an Ethernet address.
fn name_of(card: &str) -> String {
    let mut links = fs::read_dir("/sys/class/net").unwrap().flatten();
    let is_it = |path: std::path::PathBuf| fs::read_to_string(path).is_ok_and(|text| text.trim() == card);
    let found = links.find(|link| is_it(link.path().join("address")));
    found.unwrap_or_else(|| panic!("no card {card}")).file_name().into_string().unwrap()
}

/// Cables by their drivers; the first two are of one driver.
fn cables() -> Vec<Cable> {
    let Ok(cards) = std::env::var("CARDS") else {
        return vec![Cable { driver: "veth".to_owned(), cards: None }; 2];
    };
    let cable = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [driver, firewalls, hosts] = words[..] else { panic!("CARDS: {text}") };
        Cable { driver: driver.to_owned(), cards: Some([firewalls.to_owned(), hosts.to_owned()]) }
    };
    cards.split(';').filter(|text| !text.trim().is_empty()).map(cable).collect()
}

/// The way in, the way out and the MTU, as numbers of cables; of those that are there.
const ROWS: [(usize, usize, u32); 4] = [(0, 1, 1500), (0, 1, 9000), (0, 2, 9000), (2, 1, 1500)];

fn rows() -> Vec<([Cable; 2], u32)> {
    let all = cables();
    let is_there = |(one, other, _): &(usize, usize, u32)| *one.max(other) < all.len();
    ROWS.into_iter()
        .filter(is_there)
        .map(|(one, other, mtu)| ([all[one].clone(), all[other].clone()], mtu))
        .collect()
}

/// A bed over these cables, as long as `work` needs it.
fn on(cables: &[Cable; 2], mtu: u32, work: impl FnOnce(&Bed, &str)) {
    let bed = Bed::unjoined();
    cables[0].lay(&bed, "in", "e1", "10.81.1", "1");
    cables[1].lay(&bed, "out", "e0", "10.81.2", "2");
    for (host, link) in [("in", "x"), ("fw", "e1"), ("fw", "e0"), ("out", "x")] {
        bed.ip(host, &["link", "set", link, "mtu", &mtu.to_string()]);
    }
    let what = format!("{} to {}, MTU {mtu}", cables[0].driver, cables[1].driver);
    until(&format!("{what}: a link comes up"), || ["e0", "e1"].iter().all(|link| is_up(&bed, link)));
    work(&bed, &what);
    assert_eq!(bed.rampart(&["down"]).0, 0, "{what}");
    cables[0].take(&bed, "in", "e1");
    cables[1].take(&bed, "out", "e0");
}

fn is_up(bed: &Bed, link: &str) -> bool {
    bed.host("fw").run("ip", &["-o", "link", "show", "dev", link]).contains("state UP")
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Opens connections one way, and sends a megabyte on one of them and back.
fn expect_tcp(bed: &Bed, [from, to]: [&str; 2], address: &str, what: &str) {
    const CONNECTIONS: usize = 16;
    const BYTES: usize = 1_000_000;
    let listener = bed.inside(to, || TcpListener::bind((address, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut all = Vec::new();
                let _ = stream.read_to_end(&mut all);
                stream.write_all(&all)
            });
        }
    });
    let wanted = content(BYTES);
    for (number, bytes) in [BYTES].into_iter().chain([1000; CONNECTIONS]).enumerate() {
        let mut stream = bed.inside(from, || TcpStream::connect((address, port)).unwrap());
        stream.set_read_timeout(Some(Duration::from_secs(30) * slowness())).unwrap();
        stream.write_all(&wanted[..bytes]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap_or_else(|error| panic!("{what}, {number}: {error}"));
        assert!(back == wanted[..bytes], "{what}, {number}: {} of {bytes} bytes", back.len());
    }
}

/// A datagram as large as the links take arrives as it was sent.
fn expect_udp(bed: &Bed, bytes: usize, what: &str) {
    let server = bed.inside("out", || UdpSocket::bind((OUTSIDE, 0)).unwrap());
    let client = bed.inside("in", || UdpSocket::bind((INSIDE, 0)).unwrap());
    let (sent, mut back) = (content(bytes), vec![0; bytes + 1]);
    client.send_to(&sent, server.local_addr().unwrap()).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10) * slowness())).unwrap();
    let length = server.recv(&mut back).unwrap_or_else(|error| panic!("{what}, {bytes} bytes: {error}"));
    assert!(back[..length] == sent, "{what}: {length} of {bytes} bytes, or others");
}

fn hook(bed: &Bed, interface: &str) -> Value {
    let status = bed.json(&["status"]);
    status["interfaces"].as_array().unwrap().iter().find(|at| at["name"] == interface).unwrap().clone()
}

/// Packets that each queue of a card gave to its XDP program; drivers name these counters as they like, and veth has one queue.
fn by_queue(bed: &Bed, interface: &str) -> Vec<u64> {
    let text = bed.host("fw").run("ethtool", &["-S", interface]);
    let counters = text.lines().filter_map(|line| line.trim().split_once(": "));
    let of_xdp = counters.filter(|(name, _)| name.starts_with("rx") && name.ends_with("xdp_packets"));
    of_xdp.map(|(_, count)| count.parse().unwrap()).collect()
}

#[test]
fn needs_root_drivers_forward_what_comes_in_by_all_their_queues_and_jumbo_frames() {
    for (cables, mtu) in rows() {
        on(&cables, mtu, |bed, what| {
            let _firewall = bed.up(&bed.policy("p.toml", RULES), "xdp");
            for (cable, interface) in cables.iter().zip(["e1", "e0"]) {
                let status = hook(bed, interface);
                // Before Linux 6.3 virtio-net has no XDP for frames beyond a page, and the firewall says so.
                let is_at_xdp = cable.takes_xdp() && status["note"].is_null();
                assert_eq!(status["hook"], if is_at_xdp { "xdp" } else { "tc" }, "{what}: {status}");
                assert!(is_at_xdp || !cable.takes_xdp() || mtu > 1500, "{what}: {status}");
            }
            expect_tcp(bed, ["in", "out"], OUTSIDE, &format!("{what}, from inside"));
            expect_tcp(bed, ["out", "in"], INSIDE, &format!("{what}, from outside"));
            expect_udp(bed, mtu as usize - 28, what);
            let queues = by_queue(bed, "e1");
            if cables[0].driver == "virtio_net" && hook(bed, "e1")["hook"] == "xdp" {
                assert!(queues.iter().filter(|packets| **packets > 0).count() > 1, "{what}: {queues:?}");
            }
        });
    }
}

/// Sends an empty datagram in a frame of VLAN 5, where the kernel may have no VLANs of its own.
const TAGGED: &str = "
import socket, struct
header = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 28, 0, 0, 64, 17, 0, bytes([10, 81, 1, 2]), bytes([10, 81, 2, 2]))
total = sum(struct.unpack('>10H', header))
total = ~((total & 0xffff) + (total >> 16)) & 0xffff
header = header[:10] + struct.pack('>H', total) + header[12:]
frame = bytes.fromhex('020000000101020000000102810000050800') + header + struct.pack('>HHHH', 1, 2, 8, 0)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('x', 0))
link.send(frame + bytes(60 - len(frame)))
";

/// Cards may take tags out of frames before the firewall sees them, and say so beside the frame.
#[test]
fn needs_root_drivers_say_which_frames_are_of_a_vlan() {
    for (cables, mtu) in rows() {
        on(&cables, mtu, |bed, what| {
            let vlan = cables[0].cards.as_ref().map(|[card, _]| Vlan::of(bed, card));
            let firewall = bed.up(&bed.policy("without.toml", RULES), "xdp");
            match &vlan {
                Some(vlan) => vlan.send(bed),
                None => _ = bed.host("in").run("python3", &["-c", TAGGED]),
            }
            until(&format!("{what}: a frame of a VLAN of no zone is dropped"), || bed.dropped("vlan") > 0);
            drop(firewall);
            let Some(vlan) = vlan else { return };
            assert_eq!(bed.rampart(&["down"]).0, 0);
            let with = bed.folder.path().join("with.toml");
            let zones = "[zones]\ninside = { interfaces = 'e1.5' }\noutside = { interfaces = 'e0' }\n";
            fs::write(&with, format!("{zones}{RULES}")).unwrap();
            let _firewall = bed.up(&with.display().to_string(), "auto");
            let what = format!("{what}: a VLAN that is a zone");
            bed.expect_at(Vlan::BEYOND, vlan.port, Outcome::Answered, &what);
        });
    }
}

/// A VLAN on the first cable, and a server that only its hosts have a way to.
struct Vlan {
    port: u16,
}

impl Vlan {
    const BEYOND: &str = "10.81.6.2";

    fn of(bed: &Bed, card: &str) -> Self {
        bed.host("in").ip(&format!(
            "link add link x name x.5 type vlan id 5
             address add 10.81.5.2/24 dev x.5
             link set x.5 up
             neighbour add 10.81.5.1 lladdr {card} dev x.5
             route add 10.81.6.0/24 via 10.81.5.1"
        ));
        bed.host("fw").ip("link add link e1 name e1.5 type vlan id 5
             address add 10.81.5.1/24 dev e1.5
             link set e1.5 up
             route add 10.81.6.0/24 dev e0");
        bed.host("out").ip(&format!("address add {}/24 dev x", Self::BEYOND));
        let listener = bed.inside("out", || TcpListener::bind((Self::BEYOND, 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        serve(listener);
        Self { port }
    }

    fn send(&self, bed: &Bed) {
        let socket = bed.inside("in", || UdpSocket::bind("10.81.5.2:0").unwrap());
        socket.send_to(b"x", (Self::BEYOND, self.port)).unwrap();
    }
}
