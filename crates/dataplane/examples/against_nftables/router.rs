//! The control: a router of Linux with nftables between two hosts, each in a namespace of its own.

use crate::bed::{ENDS, Side};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use testkit::namespace::Namespace;

/// The policy of the bed, as its users write it for nftables: strict, as Rampart always is.
const RULES: &str = "table inet rules {
    chain early { type filter hook prerouting priority raw; udp dport 9 notrack; }
    chain forward {
        type filter hook forward priority 0; policy drop;
        udp dport 9 accept
        ct state invalid drop
        ct state established,related accept
        iifname in0 oifname out0 accept
        iifname out0 oifname in0 tcp dport 80 accept
        iifname out0 oifname in0 udp dport 53 accept
        iifname out0 oifname in0 icmp type echo-request accept
        iifname out0 oifname in0 icmpv6 type echo-request accept
    }
}";

/// Narrow ones, of both firewalls.
pub(crate) const ROUTES: &str = "route add 192.0.2.0/24 via 198.18.2.2 mtu lock 1400
    route add 2001:2:0:5::/64 via 2001:2:0:2::2 mtu lock 1400";

/// What hosts of inside look like outside.
const MASQUERADE: &str = "table ip translation {
    chain out { type nat hook postrouting priority srcnat; udp dport 9 accept; oifname out0 masquerade; }
}";

/// A router with nftables, and the hosts on both sides of it.
pub(crate) struct Nftables {
    hosts: Child,
    answers: BufReader<ChildStdout>,
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

impl Nftables {
    pub(crate) fn new(is_masquerading: bool) -> Self {
        let (router, far) = (Namespace::create("router"), Namespace::create("hosts"));
        router.ip(&format!(
            "link add in0 address 02:00:00:00:01:01 type veth peer name far0 netns {0}
             link add out0 address 02:00:00:00:02:01 type veth peer name far1 netns {0}
             {ENDS}
             {ROUTES}",
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
        router.run("nft", &[RULES]);
        if is_masquerading {
            router.run("nft", &[MASQUERADE]);
        }
        router.set(&[
            ("netfilter/nf_conntrack_tcp_loose", "0"),
            ("netfilter/nf_conntrack_tcp_be_liberal", "0"),
        ]);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/against_nftables/hosts.py");
        let mut command = Command::new("python3");
        command.args([script, "far0", "far1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hosts = far.within(|| command.spawn()).unwrap();
        let answers = BufReader::new(hosts.stdout.take().unwrap());
        Self { hosts, answers, router, _far: far }
    }

    /// Whether a frame came out at the other side between the same addresses.
    pub(crate) fn passes(&mut self, side: Side, frame: &[u8]) -> bool {
        self.send(side, frame).far.iter().any(|out| out.get(26..34) == frame.get(26..34))
    }

    /// Ends all flows.
    pub(crate) fn forget(&self) {
        self.router.run("conntrack", &["-F"]);
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

impl Drop for Nftables {
    fn drop(&mut self) {
        drop(self.hosts.stdin.take());
        let _ = self.hosts.wait();
    }
}
