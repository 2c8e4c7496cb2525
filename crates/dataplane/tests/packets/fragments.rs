//! Fragments: those that follow their first one, those that come before it, and what floods of them can do.

use super::*;

#[test]
fn needs_root_fragments_follow_their_first() {
    use Side::{In, Out};
    let first = |id| part(v4(In, 17, udp((5, 6), 1000)), id, 0, true);
    let later = |id, offset, more| part(v4(In, 17, vec![0; 200]), id, offset, more);
    let refused = part(v4(Out, 17, udp((5, 6666), 1000)), 7, 0, true);
    check(&[
        ("before its first", In, later(1, 1008, false), "fragment-unknown"),
        ("the first", In, first(1), "pass"),
        ("the second", In, later(1, 1008, true), "pass"),
        ("of another packet", In, later(2, 1008, false), "fragment-unknown"),
        ("from another zone", Out, later(1, 1208, false), "fragment-unknown"),
        ("the last", In, later(1, 1208, false), "pass"),
        ("over the header", In, later(1, 8, false), "fragment-unknown"),
        ("the first of what is denied", Out, refused, "default-deny"),
        ("and its rest", Out, part(v4(Out, 17, vec![0; 200]), 7, 1008, false), "fragment-unknown"),
        ("over IPv6, the first", In, part(v6(In, 17, udp((5, 6), 1000)), 9, 0, true), "pass"),
        ("of another", In, part(v6(In, 17, vec![0; 200]), 10, 1008, false), "fragment-unknown"),
        ("the rest", In, part(v6(In, 17, vec![0; 200]), 9, 1008, false), "pass"),
        ("whole, with a fragment header", In, part(v6(In, 17, udp((5, 6), 10)), 11, 0, false), "pass"),
    ]);
}

/// The longest datagram in the smallest fragments of a link: parts that touch each other are one when there are too many.
#[test]
fn needs_root_a_datagram_may_have_any_number_of_fragments_in_order() {
    const BYTES: u16 = 48;
    const WHOLE: u16 = 65_472;
    for (hook, make) in HOOKS.into_iter().flat_map(|hook| VERSIONS.map(|make| (hook, make))) {
        let mut bed = Bed::new(hook);
        let last = WHOLE - BYTES;
        let mut send = |offset: u16| {
            let payload = if offset == 0 { udp((5, 6), 40) } else { vec![0; BYTES.into()] };
            bed.send(Side::In, &part(make(Side::In, 17, payload), 1, offset, offset < last).bytes()).words()
        };
        for offset in (0..last).step_by(BYTES.into()) {
            assert_eq!(send(offset), "pass", "{hook:?}, {offset}");
        }
        assert_eq!(
            send(BYTES * 3),
            "fragment-duplicate",
            "{hook:?}: among the first ones each is known by itself"
        );
        assert_eq!(send(last), "pass", "{hook:?}");
        assert_eq!(send(last), "fragment-unknown", "{hook:?}: the datagram is whole");
    }
}

#[test]
fn needs_root_a_datagram_has_as_many_holes_as_are_kept_in_mind() {
    for (hook, make) in HOOKS.into_iter().flat_map(|hook| VERSIONS.map(|make| (hook, make))) {
        let mut bed = Bed::new(hook);
        let mut send = |offset: u16| {
            let payload = if offset == 0 { udp((5, 6), 0) } else { vec![0; 8] };
            bed.send(Side::In, &part(make(Side::In, 17, payload), 1, offset, offset < 400).bytes()).words()
        };
        for i in 0..12 {
            assert_eq!(send(i * 16), "pass", "{hook:?}, {i}");
        }
        assert_eq!(send(192), "fragment-holes", "{hook:?}");
        assert_eq!(send(184), "pass", "{hook:?}: it touches the one before");
        assert_eq!(send(8), "pass", "{hook:?}: between two");
        assert_eq!(send(192), "pass", "{hook:?}: it touches what was added to");
        assert_eq!(send(176), "fragment-overlap", "{hook:?}");
    }
}

/// The address of the n-th host.
type Hosts = fn(u32) -> String;

/// Whatever one source sends, the datagrams of others stay: all but those that share places with it, which are few.
#[test]
fn needs_root_no_source_fills_the_table_of_datagrams_for_others() {
    const OTHERS: u32 = 200;
    const FLOOD: u32 = 10_000;
    let cases: [(Hosts, Hosts, &str); 2] = [
        (|i| format!("198.18.1.{}", 2 + i), |_| "198.18.1.250".to_owned(), OUT),
        // An attacker has as many addresses as it likes, in one /64.
        (|i| format!("2001:2:1:{i:x}::2"), |i| format!("2001:2:2:1::{i:x}"), OUT6),
    ];
    let policy = POLICY.replace(r#", networks = ["198.18.1.0/24", "2001:2:0:1::/64"]"#, "");
    for (hook, (host, attacker, to)) in HOOKS.into_iter().flat_map(|hook| cases.map(|case| (hook, case))) {
        let mut bed = Bed::with(hook, &Settings { flows: 65_536, rules: 64 }, &policy);
        bed.namespace().ip("route add 2001:2::/32 via 2001:2:0:1::2");
        bed.firewall().forget_routes().unwrap();
        let send = |bed: &mut Bed, source: &str, id: u32, offset: u16| {
            let payload = if offset == 0 { udp((5, 6), 40) } else { vec![0; 8] };
            let frame = part(Frame::new(source, to, 17, payload).completed(), id, offset, offset == 0);
            bed.send(Side::In, &frame.bytes()).words()
        };
        for i in 0..OTHERS {
            assert_eq!(send(&mut bed, &host(i), i, 0), "pass", "{hook:?} {}", host(i));
        }
        let (tester, [inside, _], namespace) =
            (bed.firewall().tester(), bed.indices(), Arc::clone(bed.namespace()));
        namespace.within(|| {
            for i in 0..FLOOD {
                let frame = part(Frame::new(&attacker(i % 100), to, 17, udp((5, 6), 40)), i, 0, true);
                let verdict = tester.run(&Side::In.addressed(&frame.bytes()), inside, hook).unwrap();
                assert_eq!(verdict, Verdict::Sent, "{hook:?}");
            }
        });
        let kept = (0..OTHERS).filter(|i| send(&mut bed, &host(*i), *i, 48) == "pass").count();
        assert!(kept > OTHERS as usize * 9 / 10, "{hook:?}: {kept} of {OTHERS} datagrams are left");
    }
}

/// A later fragment says how far its connection has sent. When that is over and another has its record, it says nothing.
#[test]
fn needs_root_a_fragment_extends_no_connection_but_its_own() {
    for hook in HOOKS {
        let mut bed = Bed::new(hook);
        let segment = |ports, flags, sequence, acknowledgement| {
            Tcp { ports, flags, sequence, acknowledgement, window: 9000, ..Tcp::default() }.bytes()
        };
        let part =
            |payload, offset, more| Frame { fragment: Some((1, offset, more)), ..v4(Side::In, 6, payload) };
        let first = [segment((4000, 80), SYN, 5000, 0), vec![0; 4]].concat();
        let first = part(first, 0, true).bytes();
        assert_eq!(bed.send(Side::In, &first).words(), "pass", "{hook:?}");
        let [old] = &bed.flows(&Filter::default())[..] else { panic!("one flow") };
        assert!(bed.firewall().flows.end(old.id).unwrap());
        for (side, ports, flags, sequence, acknowledgement) in [
            (Side::In, (4001, 80), SYN, 100, 0),
            (Side::Out, (80, 4001), SYN | ACK, 7, 101),
            (Side::In, (4001, 80), ACK, 101, 8),
        ] {
            let frame = v4(side, 6, segment(ports, flags, sequence, acknowledgement)).bytes();
            assert_eq!(bed.send(side, &frame).words(), "pass", "{hook:?}");
        }
        let [new] = &bed.flows(&Filter::default())[..] else { panic!("one flow") };
        assert_eq!(new.id.record, old.id.record, "the test wants the record to be used again");
        let rest = part(vec![0; 1000], 24, false).bytes();
        assert_eq!(bed.send(Side::In, &rest).words(), "fragment-unknown", "{hook:?}");
        let unsent = v4(Side::Out, 6, segment((80, 4001), ACK, 8, 3000)).bytes();
        assert_eq!(bed.send(Side::Out, &unsent).words(), "tcp-window", "{hook:?}");
    }
}

/// What its later fragments bring belongs to a segment: the other end may acknowledge it.
#[test]
fn needs_root_a_segment_is_as_long_as_all_of_its_fragments() {
    for (hook, make) in HOOKS.into_iter().flat_map(|hook| VERSIONS.map(|make| (hook, make))) {
        let mut bed = Bed::new(hook);
        let segment = |ports, flags, sequence, acknowledgement, data: usize| {
            let tcp = Tcp { ports, flags, sequence, acknowledgement, window: 9000, ..Tcp::default() };
            [tcp.bytes(), vec![0; data]].concat()
        };
        for (side, payload, place, expected) in [
            (Side::In, segment((4000, 80), SYN, 100, 0, 0), None, "pass"),
            (Side::Out, segment((80, 4000), SYN | ACK, 7, 101, 0), None, "pass"),
            (Side::In, segment((4000, 80), ACK, 101, 8, 1004), Some((0, true)), "pass"),
            (Side::Out, segment((80, 4000), ACK, 8, 1605, 0), None, "tcp-window"),
            (Side::In, vec![0; 500], Some((1024, false)), "pass"),
            (Side::Out, segment((80, 4000), ACK, 8, 1606, 0), None, "tcp-window"),
            (Side::Out, segment((80, 4000), ACK, 8, 1605, 0), None, "pass"),
        ] {
            let frame = make(side, 6, payload);
            let frame = place.map_or(frame.clone(), |(offset, more)| part(frame, 1, offset, more));
            assert_eq!(bed.send(side, &frame.bytes()).words(), expected, "{hook:?}");
        }
    }
}

#[test]
fn needs_root_fragments_wait_half_a_minute_and_those_of_ipv6_a_whole_one() {
    let mut bed = Bed::new(Hook::Xdp);
    for (make, seconds) in VERSIONS.into_iter().zip([30, 60]) {
        for (later, expected) in [(seconds - 1, "pass"), (seconds + 1, "fragment-unknown")] {
            let first = part(make(Side::In, 17, udp((5, 6), 1000)), 1, 0, true);
            assert_eq!(bed.send(Side::In, &first.bytes()).words(), "pass");
            bed.pass(Duration::from_secs(later));
            let last = part(make(Side::In, 17, vec![0; 8]), 1, 1008, false);
            assert_eq!(bed.send(Side::In, &last.bytes()).words(), expected, "{later} s");
        }
    }
}

/// In a source's own share the oldest datagram makes room: of the latest nearly all are known, and of the earliest none.
#[test]
fn needs_root_the_oldest_datagram_of_a_source_makes_room() {
    const DATAGRAMS: u32 = 400;
    for (hook, make) in HOOKS.into_iter().flat_map(|hook| VERSIONS.map(|make| (hook, make))) {
        let mut bed = Bed::new(hook);
        for id in 0..DATAGRAMS {
            let first = part(make(Side::In, 17, udp((5, 6), 1000)), id, 0, true).bytes();
            assert_eq!(bed.send(Side::In, &first).words(), "pass");
            bed.pass(Duration::from_millis(10));
        }
        let mut known = |ids: std::ops::Range<u32>| {
            let later = |id| part(make(Side::In, 17, vec![0; 8]), id, 1008, true).bytes();
            ids.filter(|id| bed.send(Side::In, &later(*id)).words() == "pass").count()
        };
        assert_eq!(known(0..100), 0, "{hook:?}");
        assert!(known(DATAGRAMS - 16..DATAGRAMS) >= 12, "{hook:?}");
    }
}

/// What one source, and all together, may make user space keep; nothing without user space, and nothing that is too large.
#[test]
fn needs_root_a_flood_of_early_fragments_is_bounded() {
    let hosts: [Hosts; 2] =
        [|i| format!("198.18.{}.{}", 4 + i / 200, 1 + i % 200), |i| format!("2001:2:1:{i:x}::2")];
    let policy = POLICY.replace(r#", networks = ["198.18.1.0/24", "2001:2:0:1::/64"]"#, "");
    for (hook, (host, to)) in
        HOOKS.into_iter().flat_map(|hook| hosts.into_iter().zip([OUT, OUT6]).map(move |case| (hook, case)))
    {
        let mut bed = Bed::with(hook, &Settings { flows: 4096, rules: 1024 }, &policy);
        let send = |bed: &mut Bed, source: u32, id: u32, bytes: usize| {
            let frame = Frame::new(&host(source), to, 17, vec![0; bytes]).completed();
            bed.send(Side::In, &part(frame, id, 1008, true).bytes()).words()
        };
        assert_eq!(send(&mut bed, 1, 1, 8), "fragment-unknown", "{hook:?}: nobody keeps it");
        let now = bed.now();
        bed.firewall_mut().keep_early_until(now + Duration::from_secs(60));
        assert_eq!(send(&mut bed, 1, 1, 2400), "fragment-unknown", "{hook:?}: it is too large");
        let flood = |bed: &mut Bed, source: u32, count: u32| {
            (0..count).filter(|id| send(bed, source, *id, 8) == "kept").count()
        };
        assert_eq!(flood(&mut bed, 1, 400), 256, "{hook:?}: of a source at once");
        assert_eq!(flood(&mut bed, 2, 1), 1, "{hook:?}: others have their own");
        bed.pass(Duration::from_millis(100));
        assert_eq!(flood(&mut bed, 1, 400), 95, "{hook:?}: and later as many as ticks went by");
        let all: usize = (3..20).map(|source| flood(&mut bed, source, 200)).sum();
        // The kernel's 8 bytes before each, and struct early_frame.
        let room = (1 << 22) / (8 + 2112);
        assert_eq!(all + 256 + 1 + 95, room, "{hook:?}: nobody reads the ring");
        bed.pass(Duration::from_secs(60));
        assert_eq!(flood(&mut bed, 30, 1), 0, "{hook:?}: whoever kept them is gone");
    }
}
