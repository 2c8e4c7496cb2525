//! Questions for the Ethernet address of addresses that flows are translated to: who gets an answer, byte by byte, on both hooks. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, Fate, Side};
use dataplane::{Hook, Settings, Tally};
use std::net::Ipv4Addr;

const POLICY: &str = r#"
[zones]
inside = { interfaces = "in0", networks = "198.18.1.0/24" }
outside = { interfaces = "out0" }

[[nat]]
name = "elsewhere"
from = "inside"
to = "outside"
source = "198.18.1.128/25"
source_to = "192.0.2.16"

[[nat]]
name = "not-answered"
from = "inside"
to = "outside"
source = "198.18.1.64/26"
source_to = "198.18.2.60"
answer_arp = false

[[nat]]
name = "seen-outside-alone"
from = "inside"
to = "outside"
source = "198.18.1.16/30"
source_to = "198.18.1.240"

[[nat]]
name = "one-to-one"
from = "inside"
to = "outside"
source = "198.18.1.32/30"
one_to_one = "198.18.2.32/30"

[[nat]]
name = "pool"
from = "inside"
to = "outside"
source_to = "198.18.2.16-198.18.2.23"

[[nat]]
name = "pool-with-all-others-in-it"
from = "inside"
to = "outside"
source_to = "198.18.2.192/26"

[[nat]]
name = "web"
from = ["outside", "inside"]
destination = ["198.18.2.40", "198.18.2.48/30"]
service = "tcp/80"
destination_to = "198.18.1.2"

[[nat]]
name = "both"
from = "outside"
destination = "198.18.2.56/30"
service = "tcp/80"
destination_to = "198.18.1.2"
answer_arp = true

[[nat]]
name = "transparent"
from = "inside"
destination = "any"
service = "udp/53"
destination_to = "198.18.2.2"
"#;

const ASKER: [u8; 6] = [2, 0, 0, 0, 9, 9];

/// What is different in a question.
#[derive(Clone, Copy)]
struct Question {
    to_everybody: bool,
    /// A tag that says a priority alone.
    tag: bool,
    /// What its fields say from the kind of the link on.
    kind: [u8; 8],
    asker: [u8; 6],
    sender: &'static str,
}

const USUAL: Question = Question {
    to_everybody: true,
    tag: false,
    kind: [0, 1, 8, 0, 6, 4, 0, 1],
    asker: ASKER,
    sender: "198.18.2.9",
};

fn octets(address: &str) -> [u8; 4] {
    address.parse::<Ipv4Addr>().unwrap().octets()
}

impl Question {
    fn frame(&self, side: Side, target: &str) -> Vec<u8> {
        let to = if self.to_everybody { [0xff; 6] } else { side.link_address() };
        let tag: &[u8] = if self.tag { &[0x81, 0, 0xe0, 0] } else { &[] };
        let sender = octets(self.sender);
        let parts: [&[u8]; 9] =
            [&to, &ASKER, tag, &[8, 6], &self.kind, &self.asker, &sender, &[0; 6], &octets(target)];
        let mut frame = parts.concat();
        frame.resize(60, 0);
        frame
    }

    fn answer(&self, side: Side, target: &str) -> Vec<u8> {
        let (own, sender) = (side.link_address(), octets(self.sender));
        let tag: &[u8] = if self.tag { &[0x81, 0, 0xe0, 0] } else { &[] };
        let reply = [0, 1, 8, 0, 6, 4, 0, 2];
        let parts: [&[u8]; 9] =
            [&self.asker, &own, tag, &[8, 6], &reply, &own, &octets(target), &self.asker, &sender];
        let mut frame = parts.concat();
        frame.resize(60, 0);
        frame
    }
}

#[test]
fn needs_root_who_asks_for_an_address_of_a_translation_gets_an_answer() {
    let of = |byte: usize, value: u8| {
        let mut question = USUAL;
        question.kind[byte] = value;
        question
    };
    let rows = [
        ("the first of a pool", Side::Out, USUAL, "198.18.2.16", true),
        ("the last", Side::Out, USUAL, "198.18.2.23", true),
        ("before it", Side::Out, USUAL, "198.18.2.15", false),
        ("behind it", Side::Out, USUAL, "198.18.2.24", false),
        ("from the zone that does not see the pool", Side::In, USUAL, "198.18.1.240", false),
        ("one to one", Side::Out, USUAL, "198.18.2.35", true),
        ("a port forwarding", Side::Out, USUAL, "198.18.2.40", true),
        (
            "the same from the other side, where it is not of the network",
            Side::In,
            USUAL,
            "198.18.2.40",
            false,
        ),
        ("a destination that is a network", Side::Out, USUAL, "198.18.2.49", false),
        ("a network that the policy says is answered for", Side::Out, USUAL, "198.18.2.57", true),
        ("everybody's name server", Side::In, USUAL, "198.18.1.77", false),
        ("a pool that is not to be answered for", Side::Out, USUAL, "198.18.2.60", false),
        ("a pool that a router sends here", Side::Out, USUAL, "192.0.2.16", false),
        ("its own address", Side::Out, USUAL, "198.18.2.1", false),
        ("one that a neighbour has", Side::Out, USUAL, "198.18.2.200", false),
        ("the broadcast address", Side::Out, USUAL, "198.18.2.255", false),
        ("any other of that pool", Side::Out, USUAL, "198.18.2.201", true),
        ("asked directly", Side::Out, Question { to_everybody: false, ..USUAL }, "198.18.2.16", true),
        ("with a priority", Side::Out, Question { tag: true, ..USUAL }, "198.18.2.16", true),
        (
            "whoever wants to have it asks",
            Side::Out,
            Question { sender: "0.0.0.0", ..USUAL },
            "198.18.2.16",
            true,
        ),
        (
            "whoever has it says so",
            Side::Out,
            Question { sender: "198.18.2.16", ..USUAL },
            "198.18.2.16",
            false,
        ),
        ("from a group", Side::Out, Question { asker: [0xff; 6], ..USUAL }, "198.18.2.16", false),
        ("an answer", Side::Out, of(7, 2), "198.18.2.16", false),
        ("of another kind of link", Side::Out, of(1, 6), "198.18.2.16", false),
        ("of another protocol", Side::Out, of(3, 6), "198.18.2.16", false),
        ("with long Ethernet addresses", Side::Out, of(4, 8), "198.18.2.16", false),
        ("with long addresses", Side::Out, of(5, 16), "198.18.2.16", false),
    ];
    for hook in [Hook::Xdp, Hook::Tc] {
        let mut bed = Bed::with(hook, &Settings { flows: 4096, rules: 64 }, POLICY);
        bed.namespace().ip("neighbour add 198.18.2.200 lladdr 02:00:00:00:02:02 dev out0");
        let mut answered = 0;
        for (what, side, question, target, is_answered) in rows {
            let frame = question.frame(side, target);
            let expected = if is_answered {
                (Fate::Sent, question.answer(side, target))
            } else {
                (Fate::Up, frame.clone())
            };
            assert_eq!(bed.send_and_see(side, &frame), expected, "{hook:?}: {what}");
            answered += u64::from(is_answered);
        }
        assert_eq!(bed.tally(Tally::ArpAnswered), answered);
        // A frame that ends within the question.
        let cut = &USUAL.frame(Side::Out, "198.18.2.16")[..41];
        assert_eq!(bed.send(Side::Out, cut), Fate::Up);
        bed.namespace().ip("address add 198.18.2.16/24 dev out0");
        bed.namespace().ip("route add 192.0.2.0/24 dev out0");
        let of_pool = |bed: &mut Bed, target| bed.send(Side::Out, &USUAL.frame(Side::Out, target));
        assert_eq!(of_pool(&mut bed, "198.18.2.16"), Fate::Up, "an interface has it now: the kernel answers");
        assert_eq!(of_pool(&mut bed, "192.0.2.16"), Fate::Sent, "its route ends on the link now");
        bed.apply(&POLICY.replace("source_to = \"198.18.2.16", "enabled = false\nsource_to = \"198.18.2.16"));
        assert_eq!(of_pool(&mut bed, "198.18.2.17"), Fate::Up, "the policy has no such pool any more");
    }
}
