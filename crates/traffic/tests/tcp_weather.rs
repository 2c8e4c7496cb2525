//! The client and the server through a router that does what firewalls do to connections, on purpose or not: the counts
//! stay right. Needs root, iproute2, ethtool, nftables.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot run")]

#[path = "tcp/bed.rs"]
mod bed;
#[path = "tcp/weather.rs"]
mod weather;

use bed::{Bed, PATIENCE};
use measure::shape::IpVersion;
use std::time::Duration;
use traffic::Watch;
use traffic::tcp::{
    Answer, Close, Ends, Engine, Message, Opening, Side, TcpCounts, TcpPhase, TcpPlan, TcpReading,
};

use weather::{Sky, Weather};

const FORWARD: &str = "chain f { type filter hook forward priority 0 ; RULE ; }";
const TRANSLATE: &str = "chain n { type nat hook prerouting priority -100 ; PRE ; } \
                         chain m { type nat hook postrouting priority 100 ; POST ; }";

struct Row {
    name: &'static str,
    rules: String,
    change: fn(&mut TcpPlan),
    expected: &'static [(&'static str, u64)],
}

fn forward(rule: &str) -> String {
    FORWARD.replace("RULE", rule)
}

fn translate(pre: &str, post: &str) -> String {
    TRANSLATE.replace("PRE", pre).replace("POST", post)
}

fn plan() -> TcpPlan {
    let mut plan = TcpPlan::new(Opening::Scheduled(vec![TcpPhase::constant(2000.0, 0.1)]));
    (plan.grace, plan.settle) = (PATIENCE, PATIENCE);
    plan.close = Close::ClientFin;
    plan
}

/// For rows in which something is lost for good: the first time-out is short, so that the last is soon, and long enough
/// for what does get through.
const SOON: Duration = Duration::from_millis(300);

fn value(counts: &TcpCounts, name: &str) -> u64 {
    if name == "failed" {
        return counts.failed();
    }
    let at = TcpCounts::NAMES.iter().position(|n| *n == name);
    counts.values()[at.unwrap_or_else(|| panic!("no counter {name}"))]
}

const CLEAN: &[(&str, u64)] = &[
    ("closed", 200),
    ("completed", 200),
    ("syn_again", 0),
    ("request_again", 0),
    ("close_again", 0),
    ("stray", 0),
];

const ALL_CLOSED: &[(&str, u64)] =
    &[("opened", 200), ("completed", 200), ("closed", 200), ("wrong_data", 0), ("server_wrong_data", 0)];

/// Drops the first packet of each connection that is meant; `client` are the words for its client's address and port.
fn once(meant: &str, client: &str) -> String {
    let rule = format!("{meant} {client} != @s add @s {{ {client} }}drop");
    format!("set s {{ type ipv4_addr . inet_service ; flags dynamic ; size 65535 ; }} {}", forward(&rule))
}

/// Loses one packet in ten, but no more than eight of one connection: a connection with bad luck at every try would wait
/// twice as long each time, beyond any patience.
fn one_in_ten() -> String {
    let lost = |port: &str, client: &str| {
        format!(
            "iifname {port} numgen random mod 10 == 0 update @s {{ {client} limit rate 1/day burst 8 packets }}drop"
        )
    };
    format!(
        "set s {{ type ipv4_addr . inet_service ; flags dynamic ; size 65535 ; }} {}",
        forward(&format!(
            "{} ; {}",
            lost("left", "ip saddr . tcp sport"),
            lost("right", "ip daddr . tcp dport")
        ))
    )
}

/// For rows in which any frame may be lost, several times in a row: more tries than losses, the first of them soon.
fn lossy(plan: &mut TcpPlan) {
    plan.request = Message::filling(3000, 1).unwrap();
    plan.answer = Answer::Exactly(Message::filling(5000, 2).unwrap());
    plan.retries = 15;
    plan.retry = Duration::from_millis(10);
}

fn rows() -> Vec<Row> {
    let row = |name, rules, change, expected| Row { name, rules, change, expected };
    vec![
        row("routing", forward("accept"), |_| (), CLEAN),
        row("stateful filter", forward("ct state invalid drop"), |_| (), CLEAN),
        row("stateful filter, four-way", forward("ct state invalid drop"), |p| p.four_way = true, CLEAN),
        row(
            "source addresses and ports rewritten",
            translate("accept", "oifname right ip protocol tcp masquerade to :20000-30000 random"),
            |_| (),
            CLEAN,
        ),
        row(
            "destination rewritten",
            translate("iifname left ip protocol tcp dnat to 198.19.9.9:8080", "accept"),
            |p| p.listens = Some(Side { first_host: 0x909, hosts: 1, first_port: 8080, ports: 1 }),
            CLEAN,
        ),
        row(
            "a SYN proxy answers for the server",
            format!(
                "chain p {{ type filter hook prerouting priority -300 ; iifname left tcp flags syn / syn,ack notrack ; }} {}",
                forward(
                    "ct state invalid,untracked synproxy mss 1460 wscale 7 timestamp sack-perm ; ct state invalid drop"
                )
            ),
            |_| (),
            CLEAN,
        ),
        row(
            "every frame to the client doubled",
            "chain d { type filter hook postrouting priority 0 ; oifname left dup to 198.18.0.2 device left ; }".to_owned(),
            |_| (),
            &[("closed", 200), ("completed", 200), ("syn_again", 0), ("wrong_data", 0)],
        ),
        row(
            "every frame doubled in both directions",
            "chain d { type filter hook postrouting priority 0 ; oifname left dup to 198.18.0.2 device left ; \
             oifname right dup to 198.19.0.2 device right ; }"
                .to_owned(),
            |_| (),
            &[("closed", 200), ("completed", 200), ("syn_again", 0), ("wrong_data", 0), ("failed", 0)],
        ),
        row(
            "the listed half refused by RST",
            forward("ip saddr 198.18.1.1 tcp flags syn / syn,ack reject with tcp reset"),
            |p| {
                p.clients = Side { hosts: 2, ..p.clients };
                p.order = traffic::tcp::Order::Sequential;
            },
            &[("refused", 100), ("closed", 100), ("syn_again", 0)],
        ),
        row(
            "every SYN dropped once",
            once("tcp flags syn / syn,ack", "ip saddr . tcp sport"),
            |_| (),
            &[("closed", 200), ("completed", 200), ("syn_again", 200), ("request_again", 0)],
        ),
        row(
            "the server's FIN dropped once, after its acknowledgement of the client's",
            once("iifname right tcp flags & fin == fin", "ip daddr . tcp dport"),
            |p| p.four_way = true,
            &[("closed", 200), ("completed", 200), ("close_again", 200), ("server_fin", 400)],
        ),
        row("one packet in ten lost, client's FIN", one_in_ten(), lossy, ALL_CLOSED),
        row(
            "one packet in ten lost, client's FIN, four-way",
            one_in_ten(),
            |p| {
                lossy(p);
                p.four_way = true;
            },
            ALL_CLOSED,
        ),
        row(
            "one packet in ten lost, server's FIN",
            one_in_ten(),
            |p| {
                lossy(p);
                p.close = Close::ServerFin;
            },
            ALL_CLOSED,
        ),
        row(
            "one packet in ten lost, server's FIN, four-way",
            one_in_ten(),
            |p| {
                lossy(p);
                (p.close, p.four_way) = (Close::ServerFin, true);
            },
            ALL_CLOSED,
        ),
        row(
            "SYN refused by RST",
            forward("tcp flags syn / syn,ack reject with tcp reset"),
            |_| (),
            &[("refused", 200), ("established", 0), ("syn_again", 0)],
        ),
        row(
            "SYN dropped",
            forward("tcp flags syn / syn,ack drop"),
            |p| {
                p.retry = Duration::from_millis(40);
                p.retries = 2;
            },
            &[("timeout_connect", 200), ("syn_again", 400), ("established", 0)],
        ),
        row(
            "answers dropped",
            forward("iifname right tcp flags & psh == psh drop"),
            |p| (p.retry, p.retries) = (SOON, 1),
            &[("timeout_answer", 200), ("established", 200), ("request_again", 200), ("server_request", 400)],
        ),
        row(
            "requests reset",
            forward("iifname left tcp flags & psh == psh reject with tcp reset"),
            |_| (),
            &[("reset", 200), ("established", 200), ("completed", 0)],
        ),
        row(
            "FIN dropped",
            forward("tcp flags & fin == fin drop"),
            |p| (p.retry, p.retries) = (SOON, 1),
            &[("timeout_close", 200), ("completed", 200), ("close_again", 200)],
        ),
    ]
}

#[test]
fn counts_stay_right_in_bad_weather() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    for row in rows() {
        bed.set_rules(&row.rules);
        let mut plan = plan();
        (row.change)(&mut plan);
        let counts = engine.run(&ports, &plan, &mut ()).unwrap().counts;
        for &(name, expected) in row.expected {
            assert_eq!(value(&counts, name), expected, "{}: {name} in {counts:?}", row.name);
        }
        assert_eq!(counts.open(), 0, "{}: {counts:?}", row.name);
        assert!(
            counts.request_again > 0 || row.rules != one_in_ten(),
            "{}: nothing was lost: {counts:?}",
            row.name
        );
    }
}

#[test]
fn ipv6_connections_complete_through_a_router() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    // Name, rule, who closes, bytes of the answer, counters.
    type Row6 = (&'static str, &'static str, Close, usize, &'static [(&'static str, u64)]);
    let rows: [Row6; 4] = [
        ("routing", "accept", Close::Reset, 1, CLEAN),
        ("stateful", "ct state invalid drop", Close::ClientFin, 1, CLEAN),
        ("stateful, many segments", "ct state invalid drop", Close::ServerFin, 20_000, CLEAN),
        (
            "refused",
            "ip6 saddr fd00:1::/32 tcp flags syn / syn,ack reject with tcp reset",
            Close::Reset,
            1,
            &[("refused", 200), ("established", 0)],
        ),
    ];
    for (name, rule, close, bytes, expected) in rows {
        bed.set_rules_of("ip6", &forward(rule));
        let mut plan = plan();
        (plan.ip, plan.close) = (IpVersion::V6, close);
        plan.answer = Answer::Exactly(Message::filling(bytes, 1).unwrap());
        plan.servers = Side { hosts: 100, ..plan.servers };
        let counts = engine.run(&ports, &plan, &mut ()).unwrap().counts;
        for &(what, count) in expected {
            assert_eq!(value(&counts, what), count, "{name}: {what} in {counts:?}");
        }
        assert_eq!(counts.open(), 0, "{name}: {counts:?}");
    }
}

#[test]
fn a_fin_that_overtakes_an_acknowledgement_closes() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let sky = Sky::over(&bed, Weather::FinFirst);
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let mut plan = plan();
    plan.four_way = true;
    let counts = engine.run(&ports, &plan, &mut ()).unwrap().counts;
    assert_eq!((counts.closed, counts.completed, counts.failed()), (200, 200, 0), "{counts:?}");
    // The acknowledgement arrives when its connection is over.
    assert_eq!((sky.hits(), counts.late, counts.close_again), (200, 200, 0), "{counts:?}");
}

#[test]
fn idle_connections_that_a_firewall_resets_are_counted_as_reset() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let sky = Sky::over(&bed, Weather::ResetIdle { ms: 100 });
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    let mut plan = plan();
    plan.opening = Opening::Scheduled(vec![TcpPhase::constant(500.0, 0.6)]);
    plan.close = Close::Never;
    let reading = engine.run(&ports, &plan, &mut ()).unwrap();
    let c = &reading.counts;
    assert_eq!((c.opened, c.completed, c.open()), (300, 300, 0), "{c:?}");
    assert!(sky.hits() > 0, "{c:?}");
    assert_eq!((c.reset, c.closed), (sky.hits(), 300 - sky.hits()), "{c:?}");
    // A reset each from the firewall or from the client.
    assert_eq!((c.server_reset, c.strange_reset), (300, 0), "{c:?}");
    assert_eq!(reading.failed_by_name(), [("reset".to_owned(), c.reset)].into());
}

/// Takes the router away in the middle of the run.
struct Death<'a>(&'a Bed, bool);

impl Watch<TcpReading> for Death<'_> {
    fn sample_every(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn sample(&mut self, _at_seconds: f64, reading: &TcpReading) {
        // Not before some connections are through, however late the generator begins.
        if !self.1 && reading.counts.closed > 0 {
            self.0.set_rules(&forward("drop"));
            self.1 = true;
        }
    }
}

#[test]
fn a_firewall_that_dies_is_counted_connection_by_connection() {
    let _turn = testkit::turn();
    let bed = Bed::routed();
    let mut engine = Engine::load(70_000).unwrap();
    let ports = engine.attach(&bed.client, &bed.server, Ends::Both).unwrap();
    bed.set_rules(&forward("accept"));
    let mut plan = plan();
    plan.opening = Opening::Scheduled(vec![TcpPhase::constant(200.0, 4.0)]);
    (plan.retry, plan.retries) = (SOON, 2);
    let counts = engine.run(&ports, &plan, &mut Death(&bed, false)).unwrap().counts;
    assert_eq!((counts.opened, counts.open()), (800, 0), "{counts:?}");
    assert!(counts.closed > 0 && counts.timeout_connect > 0, "{counts:?}");
    let timeouts = counts.timeout_connect + counts.timeout_answer + counts.timeout_close;
    assert_eq!(counts.closed + timeouts, 800, "{counts:?}");
}
