//! The procedure of application traffic, on outcomes made up here, and its points in a campaign.

use super::simulated::nothing;
use super::*;
use crate::application::{ApplicationOutcome, ApplicationPlaces, ApplicationRequest, Arrivals};
use crate::campaign::{self, Cell};
use crate::ledger::{Ledger, Places};
use crate::results::{LatencySummary, Sent};
use crate::trial::{Rig, RigError, WorkloadOutcome};

const SECONDS: f64 = 2.0;

/// A trial whose servers answered `completed` transactions of 1,000 bytes, five of them after the load, and of which `failed` more
/// failed in this way.
fn trial(completed: u64, failed: &str, count: u64) -> TrialOutcome {
    let in_time = completed.saturating_sub(5);
    let times = |p50, p99| (completed > 0).then(|| LatencySummary { p50, p99, ..LatencySummary::default() });
    let application = ApplicationOutcome {
        clients: 12,
        in_time,
        bytes_in_time: in_time * 1000,
        requests: completed,
        answers: completed,
        client_bytes: completed * 1000,
        server_bytes: completed * 1000,
        times_ns: times(3e6, 9e6),
        first_byte_ns: times(1e6, 2e6),
        last_byte_ns: times(2e6, 8e6),
        sustained: None,
        held: None,
        mix: None,
    };
    let failures = [(failed.to_owned(), count)].into_iter().filter(|(_, count)| *count > 0).collect();
    TrialOutcome {
        ledger: Ledger {
            offered: completed + count,
            not_sent: 0,
            received: completed,
            places: Places::Application(ApplicationPlaces { failed: failures }),
        },
        ..nothing(SECONDS, WorkloadOutcome::Application(application))
    }
}

/// Answers every request with the same outcome.
struct Application(&'static str, TrialOutcome);

impl Rig for Application {
    fn dut(&self) -> &str {
        self.0
    }

    fn prove(&mut self) -> Result<(), RigError> {
        Ok(())
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        let asked =
            ApplicationRequest { seconds: SECONDS, limit_seconds: 10.0, arrivals: Arrivals::ClosedLoop };
        assert_eq!(*request, TrialRequest::Application(asked));
        Ok(self.1.clone())
    }
}

/// Every value with whether it is valid, and all that its marks say.
fn run(outcome: TrialOutcome) -> (Vec<(Metric, f64, bool)>, String) {
    run_by(true, outcome)
}

fn run_by(has_http: bool, outcome: TrialOutcome) -> (Vec<(Metric, f64, bool)>, String) {
    let cell = Cell {
        id: 0,
        workload: Sent::Application,
        test: "transactions".into(),
        factors: BTreeMap::from([("clients".into(), Level::read("clients", "12"))]),
        cores: 1,
        placement: Placement::Inline,
        procedure: TransactionsSpec { trial_seconds: SECONDS, limit_seconds: 10.0, has_http, mix: None }
            .into(),
        rounds: 2,
        repeats: 0,
    };
    let mut rigs: Vec<Box<dyn Rig>> = vec![Box::new(Application("linux", outcome))];
    let outcome = campaign::run(&cell, &mut rigs, &mut ());
    let points = outcome.readings();
    let said: Vec<String> = points.iter().flat_map(|p| p.marks.iter().map(|m| m.text.clone())).collect();
    (points.iter().map(|p| (p.metric, p.value, p.valid)).collect(), said.join("; "))
}

#[test]
fn transactions_a_minute_are_of_those_that_ended_in_time() {
    use Metric::{
        FailedTransactions, Goodput, TimeToFirstByte, TimeToLastByte, TransactionTime, TransactionTimeP99,
        TransactionsPerMinute,
    };
    let (values, _) = run(trial(405, "timeout", 95));
    let expected = [
        (TransactionsPerMinute, 400.0 / SECONDS * 60.0),
        (FailedTransactions, 0.19),
        (TransactionTime, 3e6),
        (TransactionTimeP99, 9e6),
        (Goodput, 400_000.0 * 8.0 / SECONDS),
        (TimeToFirstByte, 1e6),
        (TimeToLastByte, 2e6),
    ];
    assert_eq!(values, expected.map(|(metric, value)| (metric, value, true)));
}

/// Points of FTP had no value, because nobody takes the time to the first byte of its answers.
#[test]
fn ftp_has_no_times_of_answers_and_is_valid_without_them() {
    let mut outcome = trial(405, "timeout", 95);
    let WorkloadOutcome::Application(application) = &mut outcome.workload else { panic!("transactions") };
    (application.first_byte_ns, application.last_byte_ns) = (None, None);
    let (values, said) = run_by(false, outcome);
    assert_eq!((values.len(), values.iter().all(|(_, _, valid)| *valid)), (5, true), "{said}");
}

#[test]
fn a_firewall_through_which_nothing_comes_has_no_times() {
    let (values, said) = run(trial(0, "timeout", 12));
    let valid: Vec<bool> = values.iter().map(|(_, _, valid)| *valid).collect();
    assert_eq!(valid, [true, true, false, false, true, false, false], "{said}");
    assert_eq!((values[0].1, values[1].1), (0.0, 1.0));
    assert!(said.contains("no transaction completed"), "{said}");
}

#[test]
fn what_nobody_can_place_and_what_the_servers_did_not_send_cost_the_values() {
    let unbalanced = {
        let mut trial = trial(100, "reset", 3);
        trial.ledger.places = Places::Application(ApplicationPlaces::default());
        trial
    };
    for (outcome, said) in [
        (unbalanced, "3 of 103 offered transactions are unaccounted for"),
        (trial(100, "content", 1), "1 of 101 files came otherwise than they were sent"),
        (trial(0, "", 0), "no transaction was offered"),
    ] {
        let (values, marks) = run(outcome);
        assert!(values.iter().all(|(_, _, valid)| !valid) && marks.contains(said), "{said}: {marks}");
    }
}
