//! Runs of TCP suites: connections a second, established, held open, under resets and floods, second by second.

use super::{Builder, DUTS, Point, Trial, latency, mark};
use measure::connections::{
    AttackOutcome, ConnectionOutcome, ConnectionSecond, ConnectionTimes, IllegalOutcome, ReplacementOutcome,
    ResetKind, ResetOutcome,
};
use measure::ledger::{ConnectionPlaces, Ledger, Places};
use measure::results::{MarkKind, Metric, Results};
use measure::trial::SecondSample;
use std::collections::BTreeMap;

/// Levels that a point has when its test does not set them.
const DEFAULTS: [(&str, &str); 12] = [
    ("flows", "64000"),
    ("clients", "200"),
    ("servers", "10"),
    ("ip", "4"),
    ("rules", "4"),
    ("match", "last"),
    ("stateful", "true"),
    ("nat", "false"),
    ("lists", "0"),
    ("order", "random"),
    ("close", "reset"),
    ("transactions", "1"),
];

/// Tolly's figure 4: the last of 1, 100, 500 and 1,000 rules matches, one and two cores.
pub(crate) fn tolly_http(duts: &[&str]) -> Results {
    let mut run = Builder::new("tolly-http", "standard");
    for dut in duts {
        for rules in ["1", "100", "500", "1000"] {
            for cores in [1, 2] {
                let factors = [("rules", rules)];
                let rate = 5.5e7 / (run.base(dut) + 300.0 + rules.parse::<f64>().unwrap() * run.slope(dut));
                let rate = rate * (1.0 + 0.6 * f64::from(cores - 1));
                let point =
                    run.connections("connection-rate", dut, cores, &factors, Metric::ConnectionRate, rate);
                run.with_times(point);
            }
        }
    }
    run.finish()
}

/// EANTC's TCP tests: 1,000 to 6,144 connections, most parallel sessions, resets, and hash weakness.
pub(crate) fn eantc_tcp(duts: &[&str]) -> Results {
    let mut run = Builder::new("eantc-tcp", "standard");
    for dut in duts {
        for (connections, clients) in
            [("1000", "1"), ("1000", "200"), ("4096", "1"), ("4096", "200"), ("6144", "1"), ("6144", "200")]
        {
            for rules in ["0", "100"] {
                run.established(dut, connections, clients, rules, "0");
            }
        }
        run.established(dut, "1000", "20", "100", "0.8");
        let open = 3e8 / run.base(dut);
        let mut point =
            run.connections("parallel-sessions", dut, 1, &[], Metric::ConcurrentConnections, open.round());
        (point.memory_bytes, point.policy_load_seconds) = (Some(open as u64 * 320), Some(0.004));
        run.results.points.push(point);
        for kind in [ResetKind::OutsideWindow, ResetKind::InsideWindow, ResetKind::Legitimate] {
            run.resets(dut, kind);
        }
        for clients in ["1", "200"] {
            for order in ["sequential", "random"] {
                let weak = if *dut == "iptables" && clients == "1" { 0.4 } else { 1.0 };
                let rate = weak * 4.0e7 / (run.base(dut) + 300.0);
                let factors = [("clients", clients), ("order", order)];
                let point = run.connections("hash", dut, 1, &factors, Metric::ConnectionRate, rate);
                run.results.points.push(point);
            }
        }
    }
    run.finish()
}

/// The PoliWall tests: a given rate with and without lists, under a flood, and with the policy replaced.
pub(crate) fn poliwall(duts: &[&str]) -> Results {
    let mut run = Builder::new("poliwall", "standard");
    for dut in duts {
        for lists in ["0", "30000000"] {
            run.steady(dut, lists);
        }
        run.flood(dut);
        run.replacement(dut);
    }
    run.finish()
}

impl Builder {
    fn base(&self, dut: &str) -> f64 {
        DUTS.iter().find(|d| d.0 == dut).expect("a known firewall").1
    }

    /// ns a rule.
    fn slope(&self, dut: &str) -> f64 {
        if matches!(dut, "nftables" | "iptables" | "external") { 1.1 } else { 0.05 }
    }

    /// A point whose every round attempted ten seconds of connections.
    fn connections(
        &mut self,
        test: &str,
        dut: &str,
        cores: u32,
        factors: &[(&str, &str)],
        metric: Metric,
        value: f64,
    ) -> Point {
        let mut point = self.point(test, dut, cores, factors, metric, value, 0.02);
        point.factors = DEFAULTS.iter().chain(factors).map(|&(k, v)| (k.into(), v.into())).collect();
        let held =
            matches!(metric, Metric::ConcurrentConnections | Metric::Surviving | Metric::ClosedByReset);
        let attempted = if held { point.value } else { point.value * 10.0 } as u64;
        point.connections = Some(outcome(attempted, 12, 40_000.0 + 60.0 * self.base(dut)));
        point.ledger = ledger_of(point.connections.as_ref().expect("just set"));
        if held {
            point.connections.as_mut().expect("just set").verified = Some(attempted);
        } else {
            // The higher trial of every round failed; the lower one decided.
            let deciding = point.trials.iter_mut().filter(|t| t.loss == 0.0);
            deciding.for_each(|t| seconds(t, 10, &|_| 1.0, &|_| 0));
        }
        point
    }

    /// The point, and the mean time to the SYN-ACK of the same trials.
    fn with_times(&mut self, point: Point) {
        let times = point.connections.as_ref().and_then(|s| s.times.established_ns).expect("sampled");
        let mut time = Point {
            metric: Metric::EstablishmentTime,
            unit: Metric::EstablishmentTime.unit().into(),
            value: times.mean,
            rounds: vec![
                times.mean,
                times.mean * 0.99,
                times.mean * 1.01,
                times.mean * 0.98,
                times.mean * 1.02,
            ],
            low: times.mean * 0.98,
            high: times.mean * 1.02,
            ..point.clone()
        };
        time.marks.clear();
        self.results.points.extend([point, time]);
    }

    /// Connections at 5,000 a second; one address is too much for iptables here.
    fn established(&mut self, dut: &str, connections: &str, clients: &str, rules: &str, illegal: &str) {
        let attempted: f64 = connections.parse().expect("a number");
        let weak = dut == "iptables" && clients == "1" && connections != "1000";
        let made = if weak { (attempted * 0.3923).round() } else { attempted };
        let factors =
            [("connections", connections), ("clients", clients), ("rules", rules), ("illegal", illegal)];
        let mut point = self.connections("session-rate", dut, 1, &factors, Metric::Established, made);
        let mut opened =
            outcome(attempted as u64, (attempted - made) as u64, if weak { 600e3 } else { 220e3 });
        opened.established = made as u64;
        if illegal != "0" {
            let attempted = BTreeMap::from([("address".into(), 2000), ("port".into(), 2000)]);
            opened.illegal =
                Some(IllegalOutcome { forbidden: true, attempted, got_through: BTreeMap::new() });
        }
        if illegal != "0" && dut == "external" {
            let through = BTreeMap::from([("port".into(), 3)]);
            opened.illegal.as_mut().expect("just set").got_through = through;
            mark(&mut point, MarkKind::IllegalGotThrough, "3 of 2000 SYN to a port that no rule allows");
        }
        (point.value, point.low, point.high) = (made, made, made);
        point.rounds = vec![made; 5];
        for trial in &mut point.trials {
            (trial.offered, trial.received, trial.loss) =
                (5000.0, 5000.0 * made / attempted, 1.0 - made / attempted);
        }
        (point.ledger, point.connections) = (ledger_of(&opened), Some(opened));
        self.with_times(point);
    }

    fn resets(&mut self, dut: &str, kind: ResetKind) {
        let share = match (kind, dut) {
            (ResetKind::Legitimate, _) => 0.0,
            (ResetKind::InsideWindow, "external") => 0.12,
            _ => 1.0,
        };
        let factors = [("resets", kind.name()), ("connections", "10000")];
        let legitimate = kind == ResetKind::Legitimate;
        let metric = if legitimate { Metric::ClosedByReset } else { Metric::Surviving };
        let mut point = self.connections("resets", dut, 1, &factors, metric, share);
        let alive = (10_000.0 * share) as u64;
        let mut opened = outcome(10_000, 0, 230e3);
        opened.resets = Some(ResetOutcome { open: 10_000, sent: 20_000, forwarded: 10_000 - alive, alive });
        (point.ledger, point.connections) = (ledger_of(&opened), Some(opened));
        let share = if legitimate { 1.0 - share } else { share };
        (point.value, point.low, point.high, point.rounds) = (share, share, share, vec![share; 5]);
        self.results.points.push(point);
    }

    fn steady(&mut self, dut: &str, lists: &str) {
        let factors = [("lists", lists), ("countries", "14999"), ("rules", "4")];
        let mut point = self.connections("lists", dut, 1, &factors, Metric::Failures, 0.0);
        constant(&mut point, 20_000.0, 30, &|second| if second == 12 { 0.974 } else { 1.0 }, &|_| 0);
        let mut opened = outcome(600_000, 0, if lists == "0" { 112e3 } else { 124e3 });
        opened.times.teardown_ns = Some(latency(60e3));
        (point.ledger, point.connections) = (ledger_of(&opened), Some(opened));
        point.policy_load_seconds = Some(if lists == "0" { 0.06 } else { 41.0 });
        point.memory_bytes = Some(if lists == "0" { 3 << 20 } else { 1_450 << 20 });
        self.with_times(point);
    }

    /// Ten quiet seconds, ten of 66,485 SYN a second, ten to recover in.
    fn flood(&mut self, dut: &str) {
        let factors = [("lists", "30000000"), ("countries", "14999"), ("attack", "syn")];
        let mut point = self.connections("flood", dut, 1, &factors, Metric::Failures, 0.04);
        let share = |second: u32| match second {
            11..=20 => 0.883,
            21 => 0.95,
            _ => 1.0,
        };
        let attack = |second: u32| if (11..=20).contains(&second) { 66_485 } else { 0 };
        constant(&mut point, 10_000.0, 30, &share, &attack);
        let mut opened = outcome(300_000, 12_200, 150e3);
        opened.attack =
            Some(AttackOutcome { offered: 664_850, sent: 664_850, forwarded: 612_004, answered: 610_977 });
        (point.ledger, point.connections) = (ledger_of(&opened), Some(opened));
        let mut recovery = Point { metric: Metric::Recovery, unit: "s".into(), ..point.clone() };
        (recovery.value, recovery.low, recovery.high, recovery.rounds) = (1.0, 1.0, 1.0, vec![1.0; 5]);
        self.results.points.push(recovery);
        // Each stretch has a value of its own, from the one trial.
        for (phase, value) in [("before", 0.0), ("during", 0.117), ("after", 0.005)] {
            let mut point = point.clone();
            point.factors.insert("phase".into(), phase.into());
            (point.value, point.low, point.high, point.rounds) = (value, value, value, vec![value; 5]);
            self.results.points.push(point);
        }
    }

    fn replacement(&mut self, dut: &str) {
        let mut point = self.connections("replacement", dut, 1, &[], Metric::ReplacementTime, 0.083);
        let mut opened = outcome(100_000, 3, 150e3);
        opened.replacement = Some(ReplacementOutcome {
            command_seconds: 0.071,
            holds_after_seconds: (dut != "iptables").then_some(0.083),
            by_neither: 2,
            probes: 100_000,
        });
        constant(&mut point, 10_000.0, 10, &|_| 1.0, &|_| 0);
        (point.ledger, point.connections) = (ledger_of(&opened), Some(opened));
        self.results.points.push(point);
    }
}

/// One trial a round, at that rate.
fn constant(
    point: &mut Point,
    rate: f64,
    length: u32,
    share: &dyn Fn(u32) -> f64,
    attack: &dyn Fn(u32) -> u64,
) {
    let one = point.trials[1].clone();
    point.trials = (0..5)
        .map(|round| {
            let mut trial = Trial { round, offered: rate, received: rate, loss: 0.0, ..one.clone() };
            seconds(&mut trial, length, share, attack);
            trial
        })
        .collect();
}

fn outcome(attempted: u64, failed: u64, to_syn_ack: f64) -> ConnectionOutcome {
    let failed = failed.min(attempted);
    let done = attempted - failed;
    let by_how =
        BTreeMap::from([("timeout-connect".to_string(), failed - failed / 4), ("reset".into(), failed / 4)]);
    let times = |scale: f64| Some(latency(to_syn_ack * scale));
    ConnectionOutcome {
        attempted,
        established: done,
        completed: done,
        closed: done,
        failed: if failed > 0 { by_how } else { BTreeMap::new() },
        transactions: done,
        retransmitted: failed * 3,
        frames: done * 5,
        bits: done * 5 * 8 * 90,
        times: ConnectionTimes {
            syn_sent_ns: times(0.02),
            established_ns: times(1.0),
            first_byte_ns: times(1.9),
            last_byte_ns: times(1.9),
            closed_ns: times(2.0),
            establishment_ns: times(0.98),
            teardown_ns: None,
        },
        ..ConnectionOutcome::default()
    }
}

fn ledger_of(s: &ConnectionOutcome) -> Ledger {
    let places = Places::Connections(ConnectionPlaces { failed: s.failed.clone() });
    Ledger { offered: s.attempted, not_sent: 0, received: s.completed, places }
}

/// Gives a trial seconds of connections: the share of those attempted that were completed, and attack frames.
fn seconds(trial: &mut Trial, length: u32, share: &dyn Fn(u32) -> f64, attack: &dyn Fn(u32) -> u64) {
    trial.seconds = f64::from(length);
    trial.per_second = (1..=length)
        .map(|second| {
            let sent = trial.offered as u64;
            let received = (trial.offered * share(second)) as u64;
            let attack_sent = attack(second);
            let slow = if attack_sent > 0 { 404.1 / 50.4 } else { 1.0 + f64::from(second % 3) * 0.03 };
            SecondSample {
                at_seconds: f64::from(second),
                sent,
                received,
                latency_ns: None,
                connections: Some(ConnectionSecond {
                    established: received,
                    failed: named("timeout-connect", sent - received),
                    open: received / 5000,
                    frames: received * 5 + attack_sent,
                    bits: (received * 5 + attack_sent) * 8 * 90,
                    established_ns: Some(latency(50_400.0 * slow)),
                    attack_sent,
                    attack_forwarded: attack_sent * 9 / 10,
                }),
            }
        })
        .collect();
}

fn named(how: &str, count: u64) -> BTreeMap<String, u64> {
    if count == 0 { BTreeMap::new() } else { BTreeMap::from([(how.into(), count)]) }
}
