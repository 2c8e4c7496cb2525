//! A transparent gateway of a running firewall: clients that know of no proxy, at both hooks; whoever else listens on the firewall gets none of their
//! connections, and without its process they are refused.

use crate::bed::{Bed, Outcome, until};
use crate::http_gateway::{children, curl, gateway, kill, nginx, worker};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use testkit::namespace::Background;

const PACKETS: &str = "[[rules]]\nname = 'web'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/8080-8081'\naction = 'allow'\ngateway = 'web'\n\
    [[rules]]\nname = 'echo'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/2525'\naction = 'allow'\n\
    [[rules]]\nname = 'from-gateway'\nfrom = 'self'\nto = 'outside'\nservice = ['tcp/8080', 'udp/53']\naction = 'allow'\n";
const GATEWAY: &str = "[gateways.web]\nprotocol = 'http'\nmode = 'transparent'\nlisten = '[::]:3129'\nports = 8080\nresolvers = '10.81.2.2'\n";
const RULES: &str = "[[gateways.web.rules]]\nname = 'private'\naction = 'deny'\npaths = '/private/*'\n\
    [[gateways.web.rules]]\nname = 'browsing'\naction = 'allow'\nhosts = ['10.81.2.2', '*.test', '10.81.1.1']\nlog = true\n";

/// The status that curl gets without a proxy.
fn status(bed: &Bed, words: &[&str]) -> String {
    let output = curl(bed, &[&["-o", "/dev/null", "-w", "%{http_code}"][..], words].concat());
    String::from_utf8(output.stdout).unwrap()
}

fn names(bed: &Bed) -> Background {
    bed.serve_names(&["--address=/www.test/10.81.2.2", "--address=/else.test/10.81.2.9"])
}

#[test]
fn needs_root_a_transparent_gateway_takes_what_its_rule_hands_it_and_nobody_else_does() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(2525);
        let _nginx = nginx(&bed);
        let _names = names(&bed);
        let policy = bed.policy("p.toml", &format!("{PACKETS}{GATEWAY}{RULES}"));
        assert_eq!(
            bed.rampart(&["check", "--strict", &policy]).0,
            0,
            "{}",
            bed.rampart(&["check", &policy]).1
        );
        // Somebody of this machine who would like to have them.
        let thief = bed.inside("fw", || TcpListener::bind("0.0.0.0:8080").unwrap());
        thief.set_nonblocking(true).unwrap();
        let firewall = bed.up(&policy, hook);
        until("the gateway is up", || gateway(&bed)["is_up"] == true);
        let resolve = |name: &str| format!("{name}:8080:10.81.2.2");
        until("names are answered", || {
            status(&bed, &["--resolve", &resolve("www.test"), "http://www.test:8080/"]) == "200"
        });
        for (words, expected) in [
            (vec!["http://10.81.2.2:8080/"], "200"),
            (vec!["-I", "http://10.81.2.2:8080/large"], "200"),
            (vec!["-0", "http://10.81.2.2:8080/"], "200"),
            (vec!["-d", "a=b", "http://10.81.2.2:8080/post"], "200"),
            (vec!["http://10.81.2.2:8080/private/x"], "403"),
            (vec!["--path-as-is", "http://10.81.2.2:8080/a/../private/x"], "403"),
            // Another host than the one that is connected to, by address, by name and by port.
            (vec!["-H", "Host: 10.81.2.3:8080", "http://10.81.2.2:8080/"], "403"),
            (vec!["-H", "Host: else.test:8080", "http://10.81.2.2:8080/"], "403"),
            (vec!["-H", "Host: www.test:80", "http://10.81.2.2:8080/"], "403"),
            // A port that the packet filter hands over and the gateway does not carry.
            (vec!["http://10.81.2.2:8081/"], "403"),
        ] {
            assert_eq!(status(&bed, &words), expected, "{hook} {words:?}");
        }
        // Flows are the firewall's, and other rules' are not.
        let flows = bed.rampart(&["flows"]).1;
        assert!(flows.contains("10.81.2.2:8080") && flows.contains("inside"), "{hook} {flows}");
        bed.expect(2525, Outcome::Answered, "the packet filter's own");
        bed.expect(2526, Outcome::Silence, "what no rule allows");
        // An open connection ends with a policy that does not hand it over any more.
        let mut held = bed.inside("in", || TcpStream::connect("10.81.2.2:8080").unwrap());
        held.write_all(b"GET / HTTP/1.1\r\nHost: 10.81.2.2:8080\r\n").unwrap();
        let before = worker(firewall.child.id()).unwrap();
        let other =
            bed.policy("other.toml", &format!("{}{GATEWAY}{RULES}", PACKETS.replace("8080-8081", "8081")));
        bed.json(&["apply", &other]);
        held.write_all(b"\r\n").ok();
        assert!(matches!(held.read(&mut [0]), Ok(0) | Err(_)), "{hook}: it is reset");
        bed.json(&["apply", &policy]);
        assert_eq!(worker(firewall.child.id()), Some(before), "{hook}: it is the same process");
        // Without its keeper nobody listens: refused, never open, and never somebody else's.
        kill(children(firewall.child.id(), "keep-gateways")[0]);
        until("no process is left", || worker(firewall.child.id()).is_none());
        bed.until_call(8080, Outcome::Refused);
        bed.expect(8080, Outcome::Refused, "a gateway that is gone");
        assert!(bed.dropped("gateway") > 0, "{hook}");
        bed.expect(2525, Outcome::Answered, "the packet filter goes on");
        assert!(thief.accept().is_err(), "{hook}: nobody else gets a connection");
        // Without the gateway the kernel's rule is gone as well.
        let plain = PACKETS.replace("gateway = 'web'\n", "");
        assert!(bed.host("fw").run("ip", &["rule"]).contains("fwmark"), "{hook}");
        bed.json(&["apply", &bed.policy("plain.toml", &plain)]);
        assert!(!bed.host("fw").run("ip", &["rule"]).contains("fwmark"), "{hook}");
        assert_eq!(status(&bed, &["http://10.81.2.2:8080/private/x"]), "200", "{hook}: forwarded");
    }
}
