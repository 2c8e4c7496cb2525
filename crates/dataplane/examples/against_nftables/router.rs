//! Routers of Linux between two hosts, each in a namespace of its own: with nftables, which is the control, and with Rampart where the kernel
//! forwards. Or a bridge of Linux in the router's place.

use crate::bed::{ENDS, Side, apply_to};
use crate::policy_of;
use dataplane::routes::{AnswerLimits, Routes};
use dataplane::{Filter, Firewall, Hook, Settings};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use testkit::namespace::Namespace;

/// How packets come from one side to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Routed,
    /// By IPv4, and those of inside are translated.
    Masqueraded,
    Bridged,
}

/// The policy of the bed, as its users write it for nftables: strict, as Rampart always is.
const RULES: &str = "table inet rules {
    chain early { type filter hook prerouting priority raw; udp dport 9 notrack; }
    chain forward {
        type filter hook forward priority 0; policy drop;
        udp dport 9 accept
        ct state invalid drop
        ct state established,related accept
        OUTWARD accept
        INWARD tcp dport 80 accept
        INWARD udp dport 53 accept
        INWARD icmp type echo-request accept
        INWARD icmpv6 type echo-request accept
    }
}";

/// A bridge hands its packets to the rules of IP without saying by which of its interfaces they came.
const MARKS: &str = "table netdev sides {
    chain inside { type filter hook ingress device in0 priority 0; meta mark set 1; }
    chain outside { type filter hook ingress device out0 priority 0; meta mark set 2; }
}";

/// Narrow ones, of both firewalls.
pub(crate) const ROUTES: &str = "route add 192.0.2.0/24 via 198.18.2.2 mtu lock 1400
    route add 2001:2:0:5::/64 via 2001:2:0:2::2 mtu lock 1400";

const BRIDGE: &str = "link add br0 type bridge stp_state 0 mcast_snooping 0
    link set in0 mtu 2000 master br0 up
    link set out0 mtu 2000 master br0 up
    link set br0 addrgenmode none up";

/// What hosts of inside look like outside.
const MASQUERADE: &str = "table ip translation {
    chain out { type nat hook postrouting priority srcnat; udp dport 9 accept; oifname out0 masquerade; }
}";

/// A router, and the hosts on both sides of it.
pub(crate) struct Router {
    hosts: Child,
    answers: BufReader<ChildStdout>,
    /// Rampart where the kernel forwards, with who follows the kernel's routes for it.
    rampart: Option<(Firewall, Routes)>,
    router: Namespace,
    _far: Namespace,
}

/// What came of a frame.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Frames that came out at the other side.
    pub(crate) far: Vec<Vec<u8>>,
    /// Frames that came back to its sender.
    pub(crate) near: Vec<Vec<u8>>,
}

impl Seen {
    /// Without errors about packets before, whose hosts the router has looked for in vain.
    pub(crate) fn about(mut self, frame: &[u8]) -> Self {
        const NETWORK: usize = 14;
        let quote = |answer: &[u8]| match (answer.get(NETWORK)? >> 4, answer.get(23)?, answer.get(20)?) {
            (4, 1, _) => Some(answer.get(42..)?.to_vec()),
            (6, _, 58) => Some(answer.get(62..)?.to_vec()),
            _ => None,
        };
        let is_about = |answer: &[u8]| {
            quote(answer).is_none_or(|quote| match frame.get(NETWORK).map(|first| first >> 4) {
                Some(4) => quote.get(12..28) == frame.get(26..42),
                _ => quote.get(8..46) == frame.get(22..60),
            })
        };
        self.near.retain(|answer| is_about(answer));
        self.far.retain(|out| !is_stray(out, frame));
        self
    }
}

/// Whether a frame is an error, and what was sent is none.
fn is_stray(out: &[u8], sent: &[u8]) -> bool {
    let is_error = |frame: &[u8]| match (frame.get(12), frame.get(20), frame.get(23)) {
        (Some(8), _, Some(1)) => frame.get(34).is_some_and(|kind| matches!(kind, 3 | 11 | 12)),
        (Some(0x86), Some(58), _) => frame.get(54).is_some_and(|kind| (1..=4).contains(kind)),
        _ => false,
    };
    is_error(out) && !is_error(sent)
}

impl Router {
    /// Whose rules are those of nftables.
    pub(crate) fn nftables(way: Way) -> Self {
        let mut router = Self::new(way);
        let [outward, inward] = match way {
            Way::Bridged => ["meta mark 1", "meta mark 2"],
            _ => ["iifname in0 oifname out0", "iifname out0 oifname in0"],
        };
        router.router.nft(&RULES.replace("OUTWARD", outward).replace("INWARD", inward));
        router.settle(way);
        router
    }

    /// Whose policy is Rampart's, while the kernel forwards.
    pub(crate) fn rampart(way: Way) -> Self {
        let mut router = Self::new(way);
        let indices = ["in0", "out0"].map(|name| router.router.ifindex(name));
        router.rampart = Some(router.router.within(|| {
            let settings = Settings { flows: 4096, rules: 1024 };
            let mut firewall = Firewall::load_for(&settings, &[Hook::Netfilter]).unwrap();
            for (interface, zone) in [("in0", "inside"), ("out0", "outside")] {
                firewall.ports.attach(interface, zone, Hook::Netfilter).unwrap();
            }
            let limits = AnswerLimits { resets_per_second: 0, errors_per_second: 0 };
            let routes = Routes::start(firewall.route_maps().unwrap(), &indices, limits).unwrap();
            apply_to(&mut firewall, &policy_of(Way::Routed), jiff::Timestamp::UNIX_EPOCH);
            firewall.ports.open_netfilter().unwrap();
            (firewall, routes)
        }));
        router.settle(way);
        router
    }

    /// What is the same whoever judges.
    fn settle(&mut self, way: Way) {
        if way == Way::Masqueraded {
            self.router.nft(MASQUERADE);
        }
        self.router.set(&[
            ("netfilter/nf_conntrack_tcp_loose", "0"),
            ("netfilter/nf_conntrack_tcp_be_liberal", "0"),
        ]);
    }

    /// Leaves checksums to the ends, as Rampart does.
    pub(crate) fn believe_checksums(&self) {
        self.router.set(&[("netfilter/nf_conntrack_checksum", "0")]);
    }

    fn new(way: Way) -> Self {
        let (router, far) = (Namespace::create("router"), Namespace::create("hosts"));
        let (ends, addresses) = match way {
            Way::Bridged => (BRIDGE.to_owned(), [(3, 1), (3, 2)]),
            _ => (format!("{ENDS}\n{ROUTES}"), [(1, 1), (2, 1)]),
        };
        let [(a, b), (c, d)] = addresses;
        router.ip(&format!(
            "link add in0 address 02:00:00:00:0{a}:0{b} type veth peer name far0 netns {0}
             link add out0 address 02:00:00:00:0{c}:0{d} type veth peer name far1 netns {0}
             {ends}",
            far.name()
        ));
        far.ip("link set far0 mtu 2000 address 02:00:00:00:01:02 up
             link set far1 mtu 2000 address 02:00:00:00:02:02 up");
        router.set(&[
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            // The bed takes a source for which there is any way back.
            ("ipv4/conf/all/rp_filter", "2"),
            ("ipv4/conf/all/send_redirects", "0"),
            ("ipv4/conf/in0/send_redirects", "0"),
            ("ipv4/conf/out0/send_redirects", "0"),
            ("ipv4/icmp_ratelimit", "0"),
            ("ipv6/icmp/ratelimit", "0"),
        ]);
        if way == Way::Bridged {
            router.set(&[("bridge/bridge-nf-call-iptables", "1"), ("bridge/bridge-nf-call-ip6tables", "1")]);
            router.nft(MARKS);
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/against_nftables/hosts.py");
        let mut command = Command::new("python3");
        command.args([script, "far0", "far1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hosts = far.within(|| command.spawn()).unwrap();
        let answers = BufReader::new(hosts.stdout.take().unwrap());
        Self { hosts, answers, rampart: None, router, _far: far }
    }

    /// Whether a frame came out at the other side between the same addresses.
    pub(crate) fn passes(&mut self, side: Side, frame: &[u8]) -> bool {
        self.send(side, frame).far.iter().any(|out| out.get(26..34) == frame.get(26..34))
    }

    /// Ends all flows.
    pub(crate) fn forget(&self) {
        self.router.run("conntrack", &["-F"]);
        if let Some((firewall, _)) = &self.rampart {
            for flow in firewall.flows.matching(&Filter::default(), Duration::ZERO).unwrap() {
                firewall.flows.end(flow.id).unwrap();
            }
        }
    }

    /// Sends a frame in at a side.
    pub(crate) fn send(&mut self, side: Side, frame: &[u8]) -> Seen {
        let (from, to) = match side {
            Side::In => ("far0", "far1"),
            Side::Out => ("far1", "far0"),
        };
        let hex: String = side.addressed(frame).iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.hosts.stdin.as_mut().unwrap(), "{from} {to} {hex}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert!(answer.ends_with('\n'), "the hosts' answer to {hex}");
        let mut seen = Seen::default();
        for word in answer.split_whitespace() {
            let (kind, hex) = word.split_once(':').unwrap();
            let list = if kind == "far" { &mut seen.far } else { &mut seen.near };
            list.push(bytes_of(hex));
        }
        seen
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

impl Drop for Router {
    fn drop(&mut self) {
        // As in the bed.
        let rampart = self.rampart.take();
        self.router.within(|| drop(rampart));
        drop(self.hosts.stdin.take());
        let _ = self.hosts.wait();
    }
}
