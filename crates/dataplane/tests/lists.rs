//! Lists of addresses in the kernel: which list has which address is what the sets say, known flows are cut when an end of them is
//! listed, and lists are exchanged as a whole. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use bed::{Bed, Fate, POLICY, Side, contents};
use dataplane::{DataplaneError, EventKind, Firewall, Hook, Reason, Settings, Tally, Tester, Verdict};
use policy::address::AddressSet;
use policy::interpret::Packet;
use policy::lists::{DomainTables, ListTable, refusing};
use policy::model::Action;
use policy::ranges::RangeSet;
use policy::{Policy, Tables};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use testkit::packet::{Frame, udp};

const AT: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;
const IN: &str = "198.18.1.2";
const OUT: &str = "198.18.2.2";
const OUT_6: &str = "2001:2:0:2::2";
const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];

fn policy(text: &str) -> Policy {
    Policy::parse("lists", text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Puts a policy in force with these lists.
fn apply(firewall: &mut Firewall, policy: &Policy, sets: &[AddressSet]) {
    let tables = Tables::build(policy, AT).unwrap();
    let lists = ListTable::build(&sets.iter().collect::<Vec<_>>()).unwrap();
    firewall.policies.apply_with(&tables, policy, Some(&lists)).unwrap();
}

/// Two zones, everything allowed, and four lists of which each is bound otherwise.
const BOUND: &str = "
[zones]
a = { interfaces = 'e0' }
b = { interfaces = 'e1' }
[lists.bad]
entries = '192.0.2.1'
block = 'both'
[lists.bad-servers]
entries = '192.0.2.1'
block = 'destination'
[lists.clients]
entries = '192.0.2.1'
require = 'source'
[lists.servers]
entries = '192.0.2.1'
require = 'destination'
[[defaults]]
from = 'any'
to = 'any'
action = 'allow'
";

/// Random ranges of few addresses, so that lists overlap and touch, and addresses around them; of both families.
fn ranges() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let end = prop_oneof![0u32..6, (1u32 << 20) - 3..(1 << 20) + 3, u32::MAX - 3..=u32::MAX, any::<u32>()];
    let length = prop_oneof![Just(0u32), 0u32..3, Just(1u32 << 21)];
    proptest::collection::vec(
        (end, length).prop_map(|(first, length)| (first, first.saturating_add(length))),
        0..10,
    )
}

fn address(number: u32, is_v6: bool) -> IpAddr {
    if is_v6 { Ipv6Addr::from(u128::from(number) << 64 | 7).into() } else { Ipv4Addr::from(number).into() }
}

#[test]
fn needs_root_random_lists_refuse_what_the_sets_say() {
    let firewall = Firewall::load_for(&Settings { flows: 1024, rules: 64 }, &[]).unwrap();
    let firewall = std::cell::RefCell::new(firewall);
    let policy = policy(BOUND);
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() };
    let lists = proptest::collection::vec(ranges(), 4);
    let (refused, passed) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let done = TestRunner::new(config).run(&lists, |lists| {
        let wide = |(first, last): (u32, u32)| (u128::from(first) << 64 | 7, u128::from(last) << 64 | 7);
        let set = |ranges: &Vec<(u32, u32)>| AddressSet {
            v4: RangeSet::of(ranges.iter().copied()),
            v6: RangeSet::of(ranges.iter().copied().map(wide)),
        };
        // Of the lists that something must be on, all but a little: else nothing would pass.
        let sets: Vec<AddressSet> = lists
            .iter()
            .enumerate()
            .map(|(i, ranges)| if i < 2 { set(ranges) } else { AddressSet::any().without(&set(ranges)) })
            .collect();
        let firewall = &mut *firewall.borrow_mut();
        apply(firewall, &policy, &sets);
        let table = ListTable::build(&sets.iter().collect::<Vec<_>>()).unwrap();
        let ends: Vec<u32> = lists
            .concat()
            .into_iter()
            .flat_map(|(first, last)| [first, last])
            .flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)])
            .chain([0, 77])
            .collect();
        for (i, source) in ends.iter().enumerate() {
            for is_v6 in [false, true] {
                let destination = ends[(i * 7 + 3) % ends.len()];
                let (source, destination) = (address(*source, is_v6), address(destination, is_v6));
                let packet = Packet {
                    from: 1,
                    to: 2,
                    source,
                    destination,
                    source_port: 5,
                    protocol: 17,
                    selector: 53,
                };
                let judged = firewall.judge(&packet).unwrap().unwrap();
                let by = refusing(&policy.lists, &sets, source, destination).map(|by| by.list);
                prop_assert_eq!(table.refusing(&policy.lists, source, destination), by);
                let expected = by.is_some();
                prop_assert_eq!(judged.is_listed, expected, "{} to {}", source, destination);
                prop_assert_eq!(judged.action == Action::Deny, expected, "{} to {}", source, destination);
                let count = if expected { &refused } else { &passed };
                count.set(count.get() + 1);
            }
        }
        Ok(())
    });
    done.unwrap();
    assert!(
        refused.get() > 1000 && passed.get() > 1000,
        "{} refused, {} passed",
        refused.get(),
        passed.get()
    );
}

/// A full cycle through the numbers of 32 bits: no two are the same.
fn scattered(from: u32, count: u32) -> impl Iterator<Item = u32> {
    (from..from + count).map(|i| i.wrapping_mul(0x9e37_79b1))
}

/// A third of a million on three lists, all of which are asked for.
#[test]
fn needs_root_of_long_lists_every_address_is_refused_and_no_other() {
    let text = BOUND.split("[lists.bad-servers]").next().unwrap();
    let more = "[lists.b]\nentries = '192.0.2.1'\nblock = 'source'\n[lists.c]\nentries = '192.0.2.1'\nblock = 'source'\n";
    let policy = policy(&format!("{text}{more}[[defaults]]\nfrom = 'any'\nto = 'any'\naction = 'allow'\n"));
    let part = |from, count| AddressSet {
        v4: RangeSet::of(scattered(from, count).map(|a| (a, a))),
        ..AddressSet::default()
    };
    let sets = [part(0, 50_000), part(50_000, 100_000), part(150_000, 150_000)];
    let mut firewall = Firewall::load_for(&Settings { flows: 1024, rules: 64 }, &[]).unwrap();
    apply(&mut firewall, &policy, &sets);
    let mut wrong = Vec::new();
    for (number, address) in scattered(0, 400_000).enumerate() {
        let source = IpAddr::from(Ipv4Addr::from(address));
        let destination = Ipv4Addr::new(198, 51, 100, 7).into();
        let packet =
            Packet { from: 1, to: 2, source, destination, source_port: 5, protocol: 6, selector: 80 };
        if firewall.judge(&packet).unwrap().unwrap().is_listed != (number < 300_000) {
            wrong.push(source);
        }
    }
    assert!(wrong.is_empty(), "{} of 400,000, the first {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}

fn listed(entries: &str) -> String {
    format!("{POLICY}\n[lists.bad]\nentries = {entries}\nblock = 'both'\nlog = true\n")
}

#[test]
fn needs_root_a_known_flow_is_cut_when_an_end_of_it_is_listed() {
    for hook in HOOKS {
        for (listed_end, from, to) in
            [(IN, IN, OUT), (OUT, IN, OUT), ("198.18.2.0/24", IN, OUT), (OUT_6, "2001:2:0:1::2", OUT_6)]
        {
            let mut bed = Bed::with(hook, &Settings { flows: 4096, rules: 64 }, &listed("'203.0.113.1'"));
            let (there, back) = (
                Frame::new(from, to, 17, udp((5, 6), 18)).bytes(),
                Frame::new(to, from, 17, udp((6, 5), 18)).bytes(),
            );
            assert_eq!(bed.send(Side::In, &there), Fate::Sent, "{hook:?} {listed_end}");
            assert_eq!(bed.send(Side::Out, &back), Fate::Sent, "{hook:?} {listed_end}");
            bed.apply(&listed(&format!("'{listed_end}'")));
            assert_eq!(bed.send(Side::Out, &back), Fate::Dropped(Reason::List), "{hook:?} {listed_end}");
            assert_eq!(bed.send(Side::In, &there), Fate::Dropped(Reason::List), "{hook:?} {listed_end}");
            assert_eq!(bed.tally(Tally::Revoked), 1, "{hook:?} {listed_end}");
            let events = bed.firewall().events.take().unwrap();
            let named = |event: &dataplane::Event| {
                event.rule.as_deref() == Some("list:bad") && event.kind == EventKind::Refused(Reason::List)
            };
            assert!(events.len() == 2 && events.iter().all(named), "{events:?}");
            let hits = bed.firewall().counters.rule_hits(["list:bad"]).unwrap();
            assert_eq!(hits, [("list:bad", 2)], "{hook:?} {listed_end}");
            // Its counter and everything else go on when it is taken off again.
            bed.apply(&listed("'203.0.113.1'"));
            assert_eq!(bed.send(Side::In, &there), Fate::Sent, "{hook:?} {listed_end}");
            assert_eq!(bed.firewall().counters.rule_hits(["list:bad"]).unwrap(), [("list:bad", 2)]);
        }
    }
}

#[test]
fn needs_root_lists_stay_until_others_take_their_place_and_are_never_missing() {
    let mut bed = Bed::new(Hook::Xdp);
    let frame = Frame::new(IN, OUT, 17, udp((5, 6), 18)).bytes();
    let with_list = policy(&listed("'198.18.2.2'"));
    let tables = Tables::build(&with_list, AT).unwrap();
    // Nothing was ever on it: the policy is refused, and the one before stays.
    let refused = bed.firewall_mut().policies.apply(&tables, &with_list);
    assert!(matches!(refused, Err(DataplaneError::NoLists)), "{refused:?}");
    assert_eq!(bed.send(Side::In, &frame), Fate::Sent);
    let lists = contents(&with_list);
    for turn in 0..5 {
        apply(bed.firewall_mut(), &with_list, &lists);
        assert_eq!(bed.send(Side::In, &frame), Fate::Dropped(Reason::List), "read again, {turn}");
        bed.firewall_mut().policies.apply(&tables, &with_list).unwrap();
        assert_eq!(bed.send(Side::In, &frame), Fate::Dropped(Reason::List), "as they are, {turn}");
    }
    bed.apply(POLICY);
    assert_eq!(bed.send(Side::In, &frame), Fate::Sent, "no lists any more");
    let refused = bed.firewall_mut().policies.apply(&tables, &with_list);
    assert!(matches!(refused, Err(DataplaneError::NoLists)), "{refused:?}");
}

/// Packets of each kind that a thread sends at least while lists are exchanged, and how often they are.
const MEANWHILE: u64 = 10_000;
const EXCHANGES: u32 = 60;

/// An address that is on each of two lists is refused by every packet while one takes the other's place, and one that is on none passes with each,
/// of a known flow and of new ones.
#[test]
fn needs_root_no_packet_is_judged_by_a_part_of_a_list_while_lists_are_exchanged() {
    let _turn = testkit::turn();
    for hook in HOOKS {
        let text = listed("'203.0.113.1'");
        let mut bed = Bed::with(hook, &Settings { flows: 65_536, rules: 64 }, &text);
        let (policy, both) = (policy(&text), AddressSet::parse(IN).unwrap());
        // Long ones, so that the address has another place in each, and the second is written while the first is asked.
        let sets = [0, 40_000].map(|from| {
            let others = AddressSet {
                v4: RangeSet::of(scattered(from, 40_000).map(|a| (a, a))),
                ..Default::default()
            };
            AddressSet::union(&[others, both.clone()])
        });
        let free = "198.18.1.3";
        assert!(sets.iter().all(|set| ![free, OUT].iter().any(|it| set.contains(it.parse().unwrap()))));
        let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let fault = Mutex::new(None);
        let (namespace, index) = (Arc::clone(bed.namespace()), bed.indices()[0]);
        let send = |tester: Tester, source: &str, expected: Verdict| {
            for number in 0u64.. {
                if number >= MEANWHILE && is_over.load(Ordering::Acquire) {
                    return;
                }
                // Every other packet is of the same flow.
                let port = if number % 2 == 0 { 7 } else { 1_000 + (number / 2 % 10_000) as u16 };
                let frame = Side::In.addressed(&Frame::new(source, OUT, 17, udp((port, 9), 4)).bytes());
                let found = tester.run(&frame, index, hook).unwrap();
                if found != expected {
                    fault
                        .lock()
                        .unwrap()
                        .get_or_insert(format!("{hook:?}: {source} is {found:?}, packet {number}"));
                }
                sent.fetch_add(1, Ordering::Relaxed);
            }
        };
        apply(bed.firewall_mut(), &policy, &sets[..1]);
        std::thread::scope(|scope| {
            for (source, expected) in [(IN, Verdict::Drop), (free, Verdict::Sent)] {
                let (tester, send, namespace) = (bed.firewall().tester(), &send, Arc::clone(&namespace));
                scope.spawn(move || namespace.enter(|| send(tester, source, expected)));
            }
            let mut exchanged = 0;
            while exchanged < EXCHANGES || sent.load(Ordering::Relaxed) < 2 * MEANWHILE {
                exchanged += 1;
                apply(bed.firewall_mut(), &policy, &sets[exchanged as usize % 2..][..1]);
            }
            is_over.store(true, Ordering::Release);
        });
        assert_eq!(*fault.lock().unwrap(), None);
    }
}

/// Zones of the bed, and rules of which the first two go by lists.
const RULES: &str = "
[zones.inside]
interfaces = 'in0'
[zones.outside]
interfaces = 'out0'
[lists.bad]
entries = BAD
[lists.friends]
entries = FRIENDS
[[rules]]
name = 'bad'
from = 'inside'
to = 'outside'
source = 'list:bad'
action = 'deny'
log = true
[[rules]]
name = 'friends'
from = 'inside'
to = 'outside'
source = ['list:bad', 'list:friends', '203.0.113.0/24']
destination = ['list:friends', '203.0.113.9']
service = ['udp/6', 'udp/7']
action = 'allow'
log = true
[[rules]]
name = 'others'
from = 'inside'
to = 'outside'
service = 'udp/7'
action = 'allow'
log = true
";

#[test]
fn needs_root_rules_go_by_lists_and_events_name_them() {
    HOOKS.into_iter().for_each(rules_go_by_lists);
}

#[test]
fn needs_root_rules_go_by_lists_at_netfilter() {
    rules_go_by_lists(Hook::Netfilter);
    known_flows_follow_lists(Hook::Netfilter);
}

fn rules_go_by_lists(hook: Hook) {
    let nobody = "'203.0.113.200'";
    let both = |one: &str, other: &str| format!("['{one}', '{other}']");
    let in_6 = "2001:2:0:1::2";
    for (from, to) in [(IN, OUT), (in_6, OUT_6)] {
        let text = |bad: &str, friends: &str| RULES.replace("BAD", bad).replace("FRIENDS", friends);
        let mut bed = Bed::with(hook, &Settings { flows: 4096, rules: 64 }, &text(nobody, nobody));
        let opened = EventKind::Opened;
        let refused = EventKind::Refused(Reason::RuleDeny);
        let friends = || both(from, to);
        for (number, (bad, friends, port, fate, event)) in (0u16..).zip([
            // On no list: no rule that names one matches.
            (nobody, nobody.to_owned(), 7, Fate::Sent, Some((opened, "others", [None, None]))),
            (nobody, nobody.to_owned(), 6, Fate::Dropped(Reason::DefaultDeny), None),
            // At one end alone: not what the rule asks for.
            (nobody, format!("'{from}'"), 6, Fate::Dropped(Reason::DefaultDeny), None),
            (nobody, format!("'{to}'"), 6, Fate::Dropped(Reason::DefaultDeny), None),
            (nobody, format!("'{from}'"), 7, Fate::Sent, Some((opened, "others", [None, None]))),
            (nobody, friends(), 6, Fate::Sent, Some((opened, "friends", [Some("friends"), Some("friends")]))),
            (nobody, friends(), 7, Fate::Sent, Some((opened, "friends", [Some("friends"), Some("friends")]))),
            (nobody, friends(), 8, Fate::Dropped(Reason::DefaultDeny), None),
            // The rule above decides, whatever else matches.
            (
                &format!("'{from}'"),
                friends(),
                6,
                Fate::Dropped(Reason::RuleDeny),
                Some((refused, "bad", [Some("bad"), None])),
            ),
            // A destination is no source.
            (&format!("'{to}'"), nobody.to_owned(), 7, Fate::Sent, Some((opened, "others", [None, None]))),
        ]) {
            bed.apply(&text(bad, &friends));
            let frame = Frame::new(from, to, 17, udp((5 + 100 * number, port), 18)).bytes();
            let what = format!("{hook:?} {bad} {friends} {port}");
            assert_eq!(bed.send(Side::In, &frame), fate, "{what}");
            let events = bed.firewall().events.take().unwrap();
            let seen: Vec<_> = events
                .iter()
                .map(|it| {
                    (it.kind, it.rule.as_deref().unwrap_or("?"), it.lists.each_ref().map(Option::as_deref))
                })
                .collect();
            assert_eq!(seen, event.into_iter().collect::<Vec<_>>(), "{what}");
        }
    }
}

/// A flow that a list let in ends when its end is no longer on the list, and one that a rule let in when a rule above comes to have it.
#[test]
fn needs_root_known_flows_follow_what_is_on_the_lists_of_rules() {
    HOOKS.into_iter().for_each(known_flows_follow_lists);
}

fn known_flows_follow_lists(hook: Hook) {
    let text = |bad: &str, friends: &str| RULES.replace("BAD", bad).replace("FRIENDS", friends);
    let (nobody, friends) = ("'203.0.113.200'", &format!("['{IN}', '{OUT}']"));
    for (before, after, port) in [
        (text(nobody, friends), text(nobody, nobody), 6),
        (text(nobody, nobody), text(&format!("'{IN}'"), nobody), 7),
    ] {
        let mut bed = Bed::with(hook, &Settings { flows: 4096, rules: 64 }, &before);
        let there = Frame::new(IN, OUT, 17, udp((5, port), 18)).bytes();
        let back = Frame::new(OUT, IN, 17, udp((port, 5), 18)).bytes();
        assert_eq!(bed.send(Side::In, &there), Fate::Sent, "{hook:?}");
        assert_eq!(bed.send(Side::Out, &back), Fate::Sent, "{hook:?}");
        // Nothing but a new policy asks the lists again.
        assert_eq!(bed.send(Side::In, &there), Fate::Sent, "{hook:?}");
        bed.apply(&after);
        assert!(matches!(bed.send(Side::Out, &back), Fate::Dropped(_)), "{hook:?}");
        assert_eq!(bed.tally(Tally::Revoked), 1, "{hook:?}");
    }
}

/// Rules that name a domain and a list: the table of domains is exchanged by itself.
const DOMAIN: &str = "
[zones.inside]
interfaces = 'in0'
[zones.outside]
interfaces = 'out0'
[lists.others]
entries = '192.0.2.1'
[gateways.names]
protocol = 'dns'
listen = '127.0.0.1:53'
[[gateways.names.rules]]
name = 'all'
action = 'allow'
[[rules]]
name = 'domain'
from = 'inside'
to = 'outside'
destination = 'domain:www.test'
action = 'allow'
[[rules]]
name = 'others'
from = 'inside'
to = 'outside'
source = 'list:others'
action = 'allow'
";

/// What the domain stands for, now and for known flows.
fn domains(now: &[&str], known: &[&str]) -> DomainTables {
    let table = |words: &[&str]| {
        let sets: Vec<AddressSet> = words.iter().map(|it| AddressSet::parse(it).unwrap()).collect();
        ListTable::build(&[&AddressSet::default(), &AddressSet::union(&sets)]).unwrap()
    };
    DomainTables { now: table(now), known: table(known) }
}

#[test]
fn needs_root_what_a_domain_stands_for_changes_without_the_policy() {
    for (hook, [from, to, other]) in HOOKS
        .into_iter()
        .chain([Hook::Netfilter])
        .flat_map(|hook| [(hook, [IN, OUT, "198.18.2.3"]), (hook, ["2001:2:0:1::2", OUT_6, "2001:2:0:2::3"])])
    {
        let policy = policy(DOMAIN);
        let tables = Tables::build(&policy, AT).unwrap();
        let listed = AddressSet::parse("192.0.2.1").unwrap();
        let lists = ListTable::build(&[&listed, &AddressSet::default()]).unwrap();
        let mut bed = Bed::with(hook, &Settings { flows: 4096, rules: 64 }, DOMAIN);
        let denied = Fate::Dropped(Reason::DefaultDeny);
        let open = Frame::new(from, to, 17, udp((5, 6), 18)).bytes();
        let mut steps = 0;
        let mut expect = |way: &str, [now, known]: [&[&str]; 2], known_flow: Fate, new_flow: Fate| {
            let domains = domains(now, known);
            let policies = &mut bed.firewall_mut().policies;
            if way == "exchanged" {
                policies.exchange_domains(&domains).unwrap();
            } else {
                policies.apply_with_domains(&tables, &policy, Some(&lists), Some(&domains)).unwrap();
            }
            steps += 1;
            let new = Frame::new(from, to, 17, udp((100 + steps, 6), 18)).bytes();
            let found = (bed.send(Side::In, &open), bed.send(Side::In, &new));
            assert_eq!(found, (known_flow, new_flow), "{hook:?} {to}: step {steps}");
        };
        expect("applied", [&[], &[]], denied, denied);
        expect("exchanged", [&[to], &[to]], Fate::Sent, Fate::Sent);
        // Known flows go on, also under another generation, and no new one begins.
        expect("exchanged", [&[other], &[other, to]], Fate::Sent, denied);
        expect("applied", [&[other], &[other, to]], Fate::Sent, denied);
        expect("applied", [&[to], &[to]], Fate::Sent, Fate::Sent);
        expect("exchanged", [&[], &[]], Fate::Sent, denied);
        // What is forgotten altogether is cut when a policy asks.
        expect("applied", [&[], &[]], denied, denied);
    }
}
