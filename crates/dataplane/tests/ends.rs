//! Packets that are dropped for their addresses whatever the rules say: the programs and `policy::ends` say the same of special addresses. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, Fate, Side};
use dataplane::{Hook, Reason, Settings};
use policy::Policy;
use policy::ends::misfit;
use policy::interpret::Packet;
use policy::model::SELF;
use policy::service::UDP;
use std::net::IpAddr;

const ADDRESSES: [&str; 40] = [
    "0.0.0.0",
    "0.0.0.1",
    "0.255.255.255",
    "1.0.0.0",
    "126.255.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "128.0.0.0",
    "169.254.1.1",
    "198.18.1.2",
    "198.18.2.2",
    "198.51.100.1",
    "223.255.255.255",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.254",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::ffff:255.255.255.255",
    "::ffff:198.18.1.2",
    "::fffe:198.18.1.2",
    "::1:0:0",
    "::1:0:0:0",
    "64:ff9b::c612:102",
    "100::1",
    "2001:2:0:1::2",
    "2001:2:0:2::2",
    "2001:db8::1",
    "fc00::1",
    "fe7f:ffff::1",
    "fe80::1",
    "febf:ffff::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "ff0e::1",
];

/// Everything is allowed, so that addresses alone decide. Other bits of `[settings.integrity]` stand in the place of the line.
fn policy(integrity: &str) -> String {
    format!(
        "[zones]
         inside = {{ interfaces = 'in0', networks = ['198.18.1.0/24', '2001:2:0:1::/64'] }}
         outside = {{ interfaces = 'out0' }}
         [[rules]]
         name = 'all'
         from = ['inside', 'outside']
         to = ['inside', 'outside', 'self']
         action = 'allow'
         [settings]
         reverse_path = 'off'
         [settings.integrity]
         {integrity}
         "
    )
}

/// What the programs say that is a matter of addresses alone.
fn said(fate: Fate) -> Option<&'static str> {
    match fate {
        Fate::Dropped(
            reason @ (Reason::Land | Reason::Source | Reason::Destination | Reason::ZoneSource),
        ) => Some(reason.name()),
        _ => None,
    }
}

#[test]
fn needs_root_programs_and_policy_refuse_the_same_addresses() {
    for hook in [Hook::Xdp, Hook::Tc] {
        for integrity in ["", "land = false", "zones = false"] {
            let text = policy(integrity);
            let parsed = Policy::parse("ends.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
            let mut bed = Bed::with(hook, &Settings { flows: 65_536, rules: 1024 }, &text);
            let (mut wrong, mut refused) = (Vec::new(), 0);
            let addresses = ADDRESSES.map(|text| text.parse::<IpAddr>().unwrap());
            let hosts = [[9, 15, 11], [29, 30, 31]].map(|places| places.map(|place: usize| addresses[place]));
            let pairs = addresses.iter().flat_map(|&end| {
                let hosts = hosts[usize::from(end.is_ipv6())];
                let others = hosts.into_iter().flat_map(move |host| [(end, host), (host, end)]);
                others.chain([(end, end), (IpAddr::from([0; 4]), end)])
            });
            for (source, destination) in pairs.filter(|(source, to)| source.is_ipv4() == to.is_ipv4()) {
                for (side, zone, source_port) in [(Side::In, "inside", 5), (Side::Out, "outside", 7)] {
                    let frame =
                        testkit::packet::frame(&format!("{source} > {destination} udp {source_port}>6"));
                    let fate = bed.send(side, &frame);
                    // Where it goes the bed's routes say; an address of a link alone may go to the firewall itself.
                    let to = match fate {
                        Fate::Up => SELF,
                        _ => parsed.zone(if zone == "inside" { "outside" } else { "inside" }).unwrap(),
                    };
                    let from = parsed.zone(zone).unwrap();
                    let packet =
                        Packet { from, to, source, destination, source_port, protocol: UDP, selector: 6 };
                    let expected = misfit(&parsed, &packet).map(|why| why.name());
                    // Without a route nobody asks whether a link's own address may cross.
                    let is_nowhere = matches!(
                        fate,
                        Fate::Dropped(Reason::NoRoute | Reason::NotAPort) | Fate::Answered(Reason::NoRoute)
                    );
                    if said(fate) != expected && !is_nowhere {
                        wrong
                            .push(format!("{source} > {destination} {zone}: {}, {expected:?}", fate.words()));
                    }
                    refused += usize::from(expected.is_some());
                }
            }
            assert!(wrong.is_empty(), "{hook:?}, {integrity:?}:\n{}", wrong.join("\n"));
            assert!(refused > 150, "{refused}");
        }
    }
}
