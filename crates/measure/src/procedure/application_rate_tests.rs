//! The procedure of applications' rates, over simulated firewalls that hold so many connections a second.

use super::simulated::nothing;
use super::*;
use crate::application::{ApplicationOutcome, ApplicationPlaces};
use crate::latency::Distribution;
use crate::ledger::{Ledger, Named, Places};
use crate::open_loop::{Moments, OpenLoop, Sustained};
use crate::trial::WorkloadOutcome;

const CAPACITY: f64 = 1000.0;
const LIMIT: f64 = 10.0;
/// Bytes of an object.
const BYTES: u64 = 1024;

/// A firewall that holds [`CAPACITY`] connections a second, takes in what is more, and cuts every so-many-th connection.
#[derive(Clone, Copy)]
struct Firewall {
    transactions: u32,
    cuts_every: Option<u64>,
    /// The place that cut connections have.
    failure: &'static str,
}

impl Firewall {
    fn answers(&self, request: &TrialRequest) -> TrialOutcome {
        let TrialRequest::Application(request) = request else { panic!("{request:?}") };
        assert_eq!(request.limit_seconds, LIMIT);
        let open = request.arrivals.open_loop().unwrap_or(OpenLoop {
            connection_rate: CAPACITY,
            ramp_up_seconds: 0.0,
            sustain_seconds: request.seconds,
            ramp_down_seconds: 0.0,
        });
        assert_eq!(request.seconds, open.seconds());
        let (mut moments, mut times) = (Moments::default(), Distribution::new());
        let (mut free_at, mut failed) = (0.0f64, 0);
        for number in 0..open.connections() {
            let due = open.due_seconds(number);
            free_at = free_at.max(due) + 1.0 / CAPACITY;
            moments.begin(due);
            let is_cut = self.cuts_every.is_some_and(|every| number % every == every - 1);
            failed += u64::from(is_cut);
            if !is_cut {
                (0..self.transactions).for_each(|_| moments.transact(free_at, BYTES));
                times.add(((free_at - due) * 1e9) as u64, 1);
            }
            moments.end(free_at, !is_cut);
        }
        let begun =
            open.connections() * u64::from(self.transactions) - failed * u64::from(self.transactions - 1);
        let completed = begun - failed;
        let summary = times.summary();
        let sustained = Sustained {
            first_byte_ns: summary,
            last_byte_ns: summary,
            ..Sustained::of(&open, &moments, summary)
        };
        let failures: Named =
            [(self.failure.to_owned(), failed)].into_iter().filter(|(_, count)| *count > 0).collect();
        let application = ApplicationOutcome {
            in_time: completed,
            requests: completed,
            answers: completed,
            client_bytes: completed * BYTES,
            server_bytes: completed * BYTES,
            times_ns: summary,
            sustained: request.arrivals.open_loop().map(|_| Box::new(sustained)),
            ..ApplicationOutcome::default()
        };
        TrialOutcome {
            ledger: Ledger {
                offered: begun,
                not_sent: 0,
                received: completed,
                places: Places::Application(ApplicationPlaces { failed: failures }),
            },
            ..nothing(request.seconds, WorkloadOutcome::Application(application))
        }
    }

    /// What the procedure finds, and the trials that it asked for.
    fn measured(&self) -> (Vec<Measured>, Vec<TrialRequest>) {
        let spec = ApplicationRateSpec {
            search: SearchSpec {
                preset: Preset::Mlr,
                trial_seconds: 1.0,
                loss_ratio: Some(1e-5),
                width: Some(0.05),
                max_load: None,
            },
            ramp_up_seconds: 0.2,
            ramp_down_seconds: 0.1,
            limit_seconds: LIMIT,
            latency_share: 0.5,
            transactions: self.transactions.into(),
            mix: None,
        };
        let mut procedure = spec.start(Placement::Inline);
        let mut asked = Vec::new();
        loop {
            match procedure.next() {
                Step::Trial(request) => {
                    let outcome = self.answers(&request);
                    procedure.record(&request, &outcome);
                    asked.push(request);
                }
                Step::Done(measured) => return (measured, asked),
            }
            assert!(asked.len() < 100, "it does not end");
        }
    }
}

const HONEST: Firewall = Firewall { transactions: 1, cuts_every: None, failure: "reset" };

#[test]
fn the_rate_is_what_the_firewall_holds_and_times_are_at_half_of_it() {
    for transactions in [1, 10] {
        let (values, asked) = Firewall { transactions, ..HONEST }.measured();
        let value = |metric: Metric| values.iter().find(|value| value.metric == metric).unwrap();
        let rate = value(Metric::ConnectionRate);
        assert!(rate.valid && (0.93..=1.02).contains(&(rate.value / CAPACITY)), "{}", rate.value);
        let lower = rate.search.unwrap().lower;
        assert!(
            (0.93..=1.03).contains(&(lower / CAPACITY)),
            "a load that only a queue took in passed: {lower}"
        );
        let near = |metric: Metric, expected: f64| (value(metric).value / expected - 1.0).abs() < 0.03;
        let each = rate.value * f64::from(transactions);
        assert!(near(Metric::TransactionRate, each), "{}", value(Metric::TransactionRate).value);
        assert!(near(Metric::Goodput, each * BYTES as f64 * 8.0), "{}", value(Metric::Goodput).value);
        for metric in [Metric::TimeToFirstByte, Metric::TimeToLastByte] {
            let time = value(metric);
            assert_eq!(time.at["load"].text, "50%");
            // At half of the rate nobody waits.
            assert!(time.valid && (time.value - 1e9 / CAPACITY).abs() < 1e4, "{}", time.value);
        }
        let open = |request: &TrialRequest| match request {
            TrialRequest::Application(request) => request.arrivals.open_loop(),
            _ => None,
        };
        assert_eq!(open(&asked[0]), None, "the first trial shows what there is to offer");
        assert!(
            asked[1..].iter().all(|request| open(request).is_some_and(|open| open.ramp_up_seconds == 0.2))
        );
        let last = open(asked.last().unwrap()).unwrap();
        assert!((last.connection_rate - rate.value / 2.0).abs() < 1.0, "{last:?}");
    }
}

#[test]
fn more_failures_than_the_standard_allows_cost_the_value() {
    let (values, _) = Firewall { cuts_every: Some(3), ..HONEST }.measured();
    assert!(values.iter().all(|value| !value.valid), "{values:?}");
    let said = &values[0].marks[0].text;
    assert!(said.contains("no load met the goal of 0.001 % failures"), "{said}");
    assert_eq!(values.len(), 5);
}

#[test]
fn a_firewall_that_answers_itself_gets_no_value_at_once() {
    let (values, asked) = Firewall { cuts_every: Some(50), failure: "certificate", ..HONEST }.measured();
    assert!(values.iter().all(|value| !value.valid));
    assert!(values[0].marks[0].text.contains("the firewall answered itself"), "{:?}", values[0].marks);
    assert_eq!(asked.len(), 1, "such a trial is not repeated");
}
