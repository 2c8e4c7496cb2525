//! The procedure of applications' concurrent connections, over simulated firewalls with a table of known size.

use super::simulated::nothing;
use super::*;
use crate::application::{ApplicationOutcome, ApplicationPlaces, Arrivals, PAIRS};
use crate::held_open::HeldOutcome;
use crate::ledger::{Ledger, Named, Places};
use crate::trial::WorkloadOutcome;

/// Transactions of a connection that lives to its end.
const EACH: u64 = 3;

/// What a firewall does with connections.
#[derive(Debug, Clone, Copy)]
struct Firewall {
    /// Connections that it has room for; others are not opened.
    room: u64,
    /// Of those in its table, connections that it drops in silence while they are idle.
    drops: u64,
    /// Connections that it has with the servers for each hundred of the clients'.
    per_hundred: u64,
    /// Connections that the bench can have both ends of.
    bench: u64,
    /// What kept the bench from doing what was asked.
    fault: Option<&'static str>,
}

const HONEST: Firewall =
    Firewall { room: u64::MAX, drops: 0, per_hundred: 100, bench: u64::MAX, fault: None };

impl Firewall {
    fn answers(&self, request: &TrialRequest) -> TrialOutcome {
        let TrialRequest::Application(request) = request else { panic!("{request:?}") };
        let Arrivals::Held(asked) = request.arrivals else { panic!("{request:?}") };
        assert_eq!((request.seconds, asked.opening_rate), (asked.seconds(), 100.0));
        let limited_by = (asked.connections > self.bench).then(|| "open files".to_owned());
        let connections = asked.connections.min(self.bench);
        let opened = connections.min(self.room);
        let alive = opened.saturating_sub(self.drops);
        let servers = opened * self.per_hundred / 100;
        // The last transaction of those that were dropped fails, and of the others the first.
        let failed = connections - alive;
        let completed = alive * EACH + (opened - alive) * (EACH - 1);
        let failures: Named =
            [("timeout".to_owned(), failed)].into_iter().filter(|(_, count)| *count > 0).collect();
        let application = ApplicationOutcome {
            in_time: completed,
            requests: completed,
            answers: completed,
            held: Some(Box::new(HeldOutcome {
                asked: connections,
                opened,
                alive,
                accepted: servers,
                open_at_servers: servers,
                relayed: false,
                limited_by,
            })),
            ..ApplicationOutcome::default()
        };
        TrialOutcome {
            ledger: Ledger {
                offered: completed + failed,
                not_sent: 0,
                received: completed,
                places: Places::Application(ApplicationPlaces { failed: failures }),
            },
            faults: self.fault.into_iter().map(str::to_owned).collect(),
            ..nothing(request.seconds, WorkloadOutcome::Application(application))
        }
    }

    /// What the procedure finds, and how many trials it asked for.
    fn measured(&self, max_connections: u64, loss_ratio: Option<f64>) -> (Measured, usize) {
        let spec = ApplicationCapacitySpec {
            search: SearchSpec {
                preset: Preset::Rfc2544,
                trial_seconds: 1.0,
                loss_ratio,
                width: Some(0.0001),
                max_load: None,
            },
            max_connections,
            opening_rate: 100.0,
            hold_seconds: 1.0,
            think_seconds: None,
            limit_seconds: 10.0,
        };
        let mut procedure = spec.start(Placement::Inline);
        for trials in 0..100 {
            match procedure.next() {
                Step::Trial(request) => procedure.record(&request, &self.answers(&request)),
                Step::Done(measured) => {
                    assert_eq!(measured.len(), 1);
                    return (measured[0].clone(), trials);
                }
            }
        }
        panic!("it does not end")
    }
}

#[test]
fn the_capacity_is_what_holds_and_the_end_of_the_search_has_its_reason() {
    type Row = (Firewall, u64, Option<f64>, usize, &'static str);
    let rows: [Row; 10] = [
        (Firewall { room: 1000, ..HONEST }, 10_000, Some(1000.0), 20, ""),
        (Firewall { room: 1, ..HONEST }, 10_000, Some(1.0), 20, ""),
        (
            HONEST,
            10_000,
            Some(10_000.0),
            1,
            "10000 connections: the suite asks for no more (`max_connections`)",
        ),
        (
            HONEST,
            PAIRS as u64,
            Some(f64::from(PAIRS)),
            1,
            "393216 connections: the bench's clients have no more addresses and ports",
        ),
        // The bench is the limit, and where it is not, the firewall.
        (
            Firewall { bench: 700, ..HONEST },
            10_000,
            Some(700.0),
            1,
            "highest load, 700 connections: open files",
        ),
        (Firewall { bench: 700, room: 333, ..HONEST }, 10_000, Some(333.0), 20, ""),
        // Whatever the number, some are dropped while they are idle.
        (Firewall { drops: 2, ..HONEST }, 10_000, None, 20, "no load met the goal of 0 % failures"),
        // It shares its own connections to the servers.
        (
            Firewall { per_hundred: 10, ..HONEST },
            10_000,
            None,
            1,
            "clients had 10000 connections open at once and the servers 1000: somebody else held the others",
        ),
        // It opens connections again that it had dropped.
        (
            Firewall { per_hundred: 150, ..HONEST },
            10_000,
            None,
            1,
            "15000 connections reached the servers and the clients opened 10000: somebody opened them again",
        ),
        (
            Firewall { fault: Some("the bench opened 5 of 10000"), ..HONEST },
            10_000,
            None,
            3,
            "trial failed: the bench opened 5 of 10000",
        ),
    ];
    for (firewall, most, value, trials, said) in rows {
        let (measured, made) = firewall.measured(most, None);
        let marks: Vec<&str> = measured.marks.iter().map(|mark| mark.text.as_str()).collect();
        let what = format!("{firewall:?}: {} {marks:?} after {made}", measured.value);
        assert_eq!(measured.metric, Metric::ConcurrentConnections);
        assert_eq!(measured.valid.then_some(measured.value), value, "{what}");
        assert!(made <= trials, "{what}");
        assert!(if said.is_empty() { marks.is_empty() } else { marks.concat().contains(said) }, "{what}");
    }
}

#[test]
fn a_loss_ratio_is_a_share_of_connections() {
    // Each that fails is one transaction of four, and one connection of two.
    let firewall = Firewall { room: 500, ..HONEST };
    for (ratio, holds) in [(0.49, false), (0.5, true)] {
        let (measured, made) = firewall.measured(1000, Some(ratio));
        let what = format!("{ratio}: {} after {made}", measured.value);
        assert_eq!(made == 1, holds, "{what}");
        assert!(measured.valid && measured.value <= 500.0, "{what}");
    }
}
