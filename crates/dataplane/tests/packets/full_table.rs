//! Many short connections, a table that is full, and budgets that are spent.

use super::*;

/// Opens and closes a connection; `by_reset` by one segment.
fn short_connection(bed: &mut Bed, port: u16, start: u32, by_reset: bool) {
    let to = |flags, sequence, acknowledgement| {
        let tcp = Tcp { ports: (port, 80), flags, sequence, acknowledgement, window: 999, ..Tcp::default() };
        v4(Side::In, 6, tcp.bytes()).bytes()
    };
    let from = |flags, sequence, acknowledgement| {
        let tcp = Tcp { ports: (80, port), flags, sequence, acknowledgement, window: 999, ..Tcp::default() };
        v4(Side::Out, 6, tcp.bytes()).bytes()
    };
    let other = start.wrapping_mul(77);
    let (next, other_next) = (start.wrapping_add(1), other.wrapping_add(1));
    let mut segments = vec![
        (Side::In, to(SYN, start, 0)),
        (Side::Out, from(SYN | ACK, other, next)),
        (Side::In, to(ACK, next, other_next)),
    ];
    if by_reset {
        segments.push((Side::In, to(RST, next, 0)));
    } else {
        segments.push((Side::In, to(ACK | 1, next, other_next)));
        segments.push((Side::Out, from(ACK | 1, other_next, next.wrapping_add(1))));
        segments.push((Side::In, to(ACK, next.wrapping_add(1), other_next.wrapping_add(1))));
    }
    for (side, segment) in segments {
        assert_eq!(bed.send(side, &segment).words(), "pass", "port {port}, start {start}");
    }
}

#[test]
fn needs_root_short_connections_use_ports_again_and_a_small_table_is_enough() {
    let mut bed = Bed::with(Hook::Xdp, &Settings { flows: 1024, rules: 64 }, POLICY);
    for round in 0u32..3 {
        for port in 1000..1600 {
            short_connection(
                &mut bed,
                port,
                round.wrapping_mul(0x7000_0000) + u32::from(port),
                port % 2 == 0,
            );
        }
    }
    // More ports than the table has room for: closed connections give theirs.
    for port in 2000..3000 {
        short_connection(&mut bed, port, 5, port % 2 == 0);
    }
    let flows = bed.flows(&Filter::default()).len();
    assert!(flows <= 1024, "{flows}");
    assert_eq!(bed.tally(Tally::Opened), 2800);
}

#[test]
fn needs_root_a_full_table_refuses_and_keeps_what_is_open() {
    let mut bed = Bed::with(Hook::Xdp, &Settings { flows: 1024, rules: 64 }, POLICY);
    // From many hosts, because none gets all of the table; and answered, because only such flows are open.
    let host = |n: u16| format!("198.18.1.{}", 10 + n % 50);
    let asks = |n: u16| Frame::new(&host(n), OUT, 17, udp((n, 53), 18)).bytes();
    let answers = |n: u16| Frame::new(OUT, &host(n), 17, udp((53, n), 18)).bytes();
    for n in 1..=1024 {
        assert_eq!(bed.send(Side::In, &asks(n)).words(), "pass", "{n}");
        bed.send(Side::Out, &answers(n));
    }
    bed.pass(Duration::from_secs(2));
    for n in 2000..2100 {
        assert_eq!(bed.send(Side::In, &asks(n)).words(), "table-full", "{n}");
    }
    for n in 1..=1024 {
        assert_eq!(bed.send(Side::In, &asks(n)).words(), "pass", "{n}");
    }
    bed.pass(Duration::from_secs(310));
    assert_eq!(bed.firewall().flows.sweep().unwrap(), 1024);
    assert_eq!(bed.send(Side::In, &asks(2000)).words(), "pass");
    assert_eq!(bed.flows(&Filter::default()).len(), 1);
    assert_eq!(bed.tally(Tally::Expired), 1024);
}

#[test]
fn needs_root_half_open_connections_have_a_budget_of_their_own() {
    let policy = format!("[settings]\nhalf_open = 100\n{POLICY}");
    let mut bed = Bed::with(Hook::Tc, &Settings { flows: 1024, rules: 64 }, &policy);
    let open = |port| v4(Side::In, 6, syn((port, 80))).bytes();
    for port in 1..=100 {
        assert_eq!(bed.send(Side::In, &open(port)).words(), "pass", "{port}");
    }
    assert_eq!(bed.send(Side::In, &open(101)).words(), "half-open-full");
    assert_eq!(bed.send(Side::In, &v4(Side::In, 17, udp((5, 6), 8)).bytes()).words(), "pass");
    let refused = Tcp { ports: (80, 1), flags: RST | ACK, acknowledgement: 2, ..Tcp::default() };
    assert_eq!(bed.send(Side::Out, &v4(Side::Out, 6, refused.bytes()).bytes()).words(), "pass");
    assert_eq!(bed.send(Side::In, &open(101)).words(), "pass");
    bed.pass(Duration::from_secs(40));
    // And the datagram, which nobody answered.
    assert_eq!(bed.firewall().flows.sweep().unwrap(), 102);
    for port in 200..300 {
        assert_eq!(bed.send(Side::In, &open(port)).words(), "pass", "{port}");
    }
}

/// A flood of SYN that fills the budget: what is older than an honest handshake gives way, and nothing else does.
#[test]
fn needs_root_a_flood_of_syn_pushes_out_its_own_oldest() {
    let policy = format!("[settings]\nhalf_open = 100\n{POLICY}");
    for hook in HOOKS {
        let mut bed = Bed::with(hook, &Settings { flows: 1024, rules: 64 }, &policy);
        let open = |port| v4(Side::In, 6, syn((port, 80))).bytes();
        let to = |port, flags, sequence, acknowledgement| {
            let tcp =
                Tcp { ports: (port, 80), flags, sequence, acknowledgement, window: 999, ..Tcp::default() };
            v4(Side::In, 6, tcp.bytes()).bytes()
        };
        let answer = |port| {
            let flags = SYN | ACK;
            let tcp = Tcp {
                ports: (80, port),
                flags,
                sequence: 7,
                acknowledgement: 2,
                window: 999,
                ..Tcp::default()
            };
            v4(Side::Out, 6, tcp.bytes()).bytes()
        };
        let establish = |bed: &mut Bed, port| {
            for (side, segment) in
                [(Side::In, open(port)), (Side::Out, answer(port)), (Side::In, to(port, ACK, 2, 8))]
            {
                assert_eq!(bed.send(side, &segment).words(), "pass", "{hook:?}, {port}");
            }
        };
        establish(&mut bed, 1);
        for port in 1000..1100 {
            assert_eq!(bed.send(Side::In, &open(port)).words(), "pass", "{hook:?}, {port}");
        }
        assert_eq!(bed.send(Side::In, &open(2)).words(), "half-open-full", "{hook:?}: all are young");
        bed.pass(Duration::from_secs(2));
        // Twice as many as the budget, and handshakes among them.
        for port in 0..50 {
            establish(&mut bed, 2 + port);
            assert_eq!(bed.send(Side::In, &open(2000 + port)).words(), "pass", "{hook:?}, {port}");
        }
        for port in 1..52 {
            assert_eq!(bed.state(port), "established", "{hook:?}, {port}");
        }
        assert_eq!(bed.send(Side::In, &to(1, ACK, 2, 8)).words(), "pass", "{hook:?}: it is open still");
        let half_open = bed.flows(&Filter::default()).len() - 51;
        assert!(half_open <= 100, "{hook:?}: {half_open}");
    }
}
