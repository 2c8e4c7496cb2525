//! The TCP client and server against each other over a bare wire. Needs root, iproute2.

#[path = "tcp/bed.rs"]
mod bed;

use bed::{Bed, PATIENCE};
use measure::shape::IpVersion;
use std::time::Duration;
use traffic::tcp::{
    Answer, Close, Ends, Engine, Message, Opening, Options, Order, Side, TcpCounts, TcpPhase, TcpPlan,
    TcpTime,
};

/// What is talked about, and how its plan differs.
type Row = (&'static str, fn(&mut TcpPlan));

fn at(rate: f64, seconds: f64) -> TcpPlan {
    let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(rate, seconds)]));
    (plan.grace, plan.settle) = (PATIENCE, PATIENCE);
    plan
}

/// Every connection is accounted for once.
fn assert_balanced(name: &str, counts: &TcpCounts) {
    assert_eq!(counts.attempted, counts.no_tuple + counts.opened, "{name}: {counts:?}");
    assert_eq!(counts.open(), 0, "{name}: {counts:?}");
    assert_eq!(counts.ended(), counts.opened, "{name}: {counts:?}");
}

#[test]
fn every_way_to_talk_and_to_close_completes_without_a_retransmission() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let rows: Vec<Row> = vec![
        ("reset", |_| ()),
        ("client's FIN", |p| p.close = Close::ClientFin),
        ("server's FIN", |p| p.close = Close::ServerFin),
        ("client's FIN, four-way", |p| {
            p.close = Close::ClientFin;
            p.four_way = true;
        }),
        ("server's FIN, four-way", |p| {
            p.close = Close::ServerFin;
            p.four_way = true;
        }),
        ("held to the end", |p| p.close = Close::Never),
        ("held for a while, then FIN", |p| {
            p.close = Close::ClientFin;
            p.hold = Duration::from_millis(50);
        }),
        ("held for a while, then reset", |p| p.hold = Duration::from_millis(50)),
        ("no options", |p| {
            p.options = Options { mss: false, ..Options::MSS };
            p.close = Close::ClientFin;
        }),
        ("MSS alone", |p| p.options = Options::MSS),
        ("odd options", |p| {
            p.options = Options { mss: true, window_scale: Some(3), sack: true, timestamps: false };
        }),
        ("timestamps alone", |p| {
            p.options = Options { mss: true, window_scale: None, sack: false, timestamps: true };
        }),
        ("three requests", |p| p.transactions = 3),
        ("three requests, server's FIN", |p| {
            p.transactions = 3;
            p.close = Close::ServerFin;
        }),
        ("no request", |p| p.transactions = 0),
        ("no request, client's FIN", |p| {
            p.transactions = 0;
            p.close = Close::ClientFin;
        }),
        ("no request, held for a while", |p| {
            p.transactions = 0;
            p.hold = Duration::from_millis(50);
        }),
        ("a whole segment each way", |p| {
            p.request = Message::filling(1448, 1).unwrap();
            p.answer = Answer::Exactly(Message::filling(1448, 2).unwrap());
        }),
        ("64 KiB each way", |p| {
            p.request = Message::filling(65_536, 1).unwrap().proved_at(65_520).unwrap();
            p.answer = Answer::Exactly(Message::filling(65_536, 2).unwrap().proved_at(1400).unwrap());
            p.close = Close::ServerFin;
        }),
        ("odd sizes, two requests", |p| {
            p.request = Message::filling(3001, 1).unwrap().proved_at(2984).unwrap();
            p.answer = Answer::Exactly(Message::filling(7777, 2).unwrap().proved_at(0).unwrap());
            p.transactions = 2;
            p.close = Close::ClientFin;
        }),
        ("many addresses in order", |p| {
            p.clients = Side { first_host: 256, hosts: 200, first_port: 5000, ports: 10 };
            p.servers = Side { first_host: 300, hosts: 20, first_port: 8000, ports: 3 };
            p.tuples = 2000;
            p.order = Order::Sequential;
        }),
        ("most addresses", |p| {
            p.clients = Side { first_host: 0, hosts: 65_536, first_port: 5000, ports: 1 };
            p.servers = Side { first_host: 0, hosts: 65_536, first_port: 1, ports: 65_535 };
            p.tuples = 65_536;
        }),
        ("two cores", |p| p.cores = vec![0, 1]),
    ];
    for ip in [IpVersion::V4, IpVersion::V6] {
        for (name, change) in &rows {
            let mut plan = at(2000.0, 0.1);
            plan.ip = ip;
            change(&mut plan);
            if ip == IpVersion::V6 && plan.request.bytes().len() == 1448 {
                plan.request = Message::filling(1428, 1).unwrap();
            }
            let reading = engine.run(&ports, &plan, &mut ()).unwrap();
            let (c, name) = (&reading.counts, format!("{name}, {ip:?}"));
            assert_balanced(&name, c);
            assert_eq!(reading.offered, 200, "{name}");
            for (what, count) in
                [("attempted", c.attempted), ("established", c.established), ("closed", c.closed)]
            {
                assert_eq!(count, 200, "{name}: {what} in {c:?}");
            }
            let answers = 200 * u64::from(plan.transactions);
            assert_eq!((c.answers, c.server_request), (answers, answers), "{name}: {c:?}");
            assert_eq!(c.completed, if plan.transactions > 0 { 200 } else { 0 }, "{name}");
            let again = c.syn_again + c.request_again + c.close_again + c.duplicate + c.out_of_order;
            let odd = c.stray + c.strange_reset + c.contended + c.server_stray + c.server_wrong_data;
            assert_eq!(again + odd + c.deferred_lost, 0, "{name}: {c:?}");
            assert_eq!(
                (c.frames_out, c.frames_in),
                (c.server_frames_in, c.server_frames_out),
                "{name}: {c:?}"
            );
            let served = reading.served().unwrap();
            assert_eq!(
                (served.disagreements(), served.closes.client),
                (Vec::new(), served.closes.server),
                "{name}"
            );
            let timed = |time| reading.histogram(time).iter().map(|(_, n)| n).sum::<u64>();
            for time in [TcpTime::SynSent, TcpTime::Established, TcpTime::Closed, TcpTime::Establishment] {
                assert_eq!(timed(time), 200, "{name}: {time:?}");
            }
        }
    }
}

/// Receivers on threads of their own, which may run on other cores than the generator's.
#[test]
fn connections_complete_where_receivers_have_their_own_threads() {
    let _turn = testkit::turn();
    let bed = Bed::wire();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for namespace in [bed.client(), bed.server()] {
        // Threaded NAPI needs Linux 5.12. `ip netns exec` shows the namespace's own /sys.
        let threaded = "echo 1 > /sys/class/net/wire/threaded";
        testkit::namespace::run("ip", &["netns", "exec", namespace.name(), "sh", "-c", threaded]);
    }
    for (close, four_way) in [(Close::Reset, false), (Close::ServerFin, true), (Close::ClientFin, true)] {
        let mut plan = at(2000.0, 0.5);
        (plan.close, plan.four_way) = (close, four_way);
        plan.answer = Answer::Exactly(Message::filling(20_000, 1).unwrap());
        // A thread that gets no processor for a while loses what its ring does not hold: tries that last as long as the run waits.
        (plan.retry, plan.retries) = (Duration::from_millis(50), 9);
        let c = engine.run(&ports, &plan, &mut ()).unwrap().counts;
        assert_balanced("threads", &c);
        assert_eq!((c.opened, c.closed, c.completed), (1000, 1000, 1000), "{close:?}: {c:?}");
    }
}
