//! Mixes of applications over firewalls on paper: what each part comes to, and that a firewall that drops or holds up one of them is found,
//! however small its share.

use super::simulated::nothing;
use super::*;
use crate::application::{ApplicationOutcome, ApplicationPlaces, PROTOCOLS, Protocol};
use crate::latency::Distribution;
use crate::ledger::{Ledger, Named, Places};
use crate::mix::{Mix, MixOutcome, Part, PartFiles, PartOutcome, SharesOf, Turns};
use crate::open_loop::{Moments, OpenLoop, Sustained};
use crate::trial::WorkloadOutcome;

/// Bytes of each file.
const BYTES: u64 = 1024;
/// Connections a second that the firewall holds.
const CAPACITY: f64 = 1000.0;

fn protocol(name: &str) -> Protocol {
    PROTOCOLS.iter().find(|(known, _)| *known == name).unwrap().1
}

/// Pages by HTTP, so many transactions a connection, and 2 % of files by FTP.
fn mix(transactions: u32) -> Arc<Mix> {
    let part = |name: &str, of: &str, transactions, share| Part {
        name: name.into(),
        protocol: protocol(of),
        files: PartFiles::Kb(vec![1]),
        transactions,
        share,
    };
    Arc::new(Mix {
        name: "m".into(),
        title: "M".into(),
        source: None,
        shares: SharesOf::Transactions,
        parts: vec![part("pages", "http/1.1", transactions, 0.98), part("files", "ftp:get", 1, 0.02)],
    })
}

/// A firewall that holds [`CAPACITY`] connections a second, and does something to the part of files.
#[derive(Clone, Copy)]
struct Firewall {
    cuts_files: bool,
    /// Seconds that every connection of files takes longer.
    holds_up_files: f64,
}

const HONEST: Firewall = Firewall { cuts_files: false, holds_up_files: 0.0 };

/// What became of a part, as it is counted.
#[derive(Default)]
struct Count {
    begun: u64,
    completed: u64,
    moments: Moments,
    transactions: Distribution,
    connections: Distribution,
}

impl Count {
    fn connection(&mut self, due: f64, ended: f64, transactions: u32, is_cut: bool) {
        self.moments.begin(due);
        self.begun += if is_cut { 1 } else { u64::from(transactions) };
        if !is_cut {
            self.completed += u64::from(transactions);
            (0..transactions).for_each(|_| self.moments.transact(ended, BYTES));
            self.transactions.add(((ended - due) * 1e9) as u64, transactions.into());
            self.connections.add(((ended - due) * 1e9) as u64, 1);
        }
        self.moments.end(ended, !is_cut);
    }

    fn sustained(&self, load: &OpenLoop) -> Sustained {
        let times = self.transactions.summary();
        Sustained {
            first_byte_ns: times,
            last_byte_ns: times,
            ..Sustained::of(load, &self.moments, self.connections.summary())
        }
    }
}

impl Firewall {
    fn answers(&self, mix: &Mix, request: &TrialRequest) -> TrialOutcome {
        let TrialRequest::Application(request) = request else { panic!("{request:?}") };
        let open = request.arrivals.open_loop();
        let load = open.unwrap_or(OpenLoop {
            connection_rate: CAPACITY,
            ramp_up_seconds: 0.0,
            sustain_seconds: request.seconds,
            ramp_down_seconds: 0.0,
        });
        let mut turns = Turns::of(mix);
        let (mut whole, mut parts) = (Count::default(), [Count::default(), Count::default()]);
        let mut free_at = 0.0f64;
        for number in 0..load.connections() {
            let due = load.due_seconds(number);
            let place = turns.next_part().unwrap();
            free_at = free_at.max(due) + 1.0 / CAPACITY;
            let is_files = place == 1;
            let ended = free_at + if is_files { self.holds_up_files } else { 0.0 };
            let is_cut = is_files && self.cuts_files;
            for count in [&mut whole, &mut parts[place]] {
                count.connection(due, ended, mix.parts[place].transactions, is_cut);
            }
        }
        let failed = |count: &Count| -> Named {
            let failed = count.begun - count.completed;
            [("reset".to_owned(), failed)].into_iter().filter(|(_, count)| *count > 0).collect()
        };
        let shares = mix.connection_shares();
        let part = |(place, count): (usize, &Count)| PartOutcome {
            name: mix.parts[place].name.clone(),
            asked: mix.parts[place].share,
            expected: mix.transaction_shares()[place],
            each: mix.parts[place].transactions,
            begun: count.begun,
            completed: count.completed,
            failed: failed(count),
            bytes: count.completed * BYTES,
            in_time: count.completed,
            bytes_in_time: count.completed * BYTES,
            times_ns: count.transactions.summary(),
            first_byte_ns: count.transactions.summary(),
            last_byte_ns: count.transactions.summary(),
            sustained: open.map(|open| {
                let own = OpenLoop { connection_rate: open.connection_rate * shares[place], ..open };
                Box::new(count.sustained(&own))
            }),
        };
        let carried = MixOutcome {
            name: mix.name.clone(),
            shares: mix.shares,
            parts: parts.iter().enumerate().map(part).collect(),
        };
        let application = ApplicationOutcome {
            in_time: whole.completed,
            bytes_in_time: whole.completed * BYTES,
            requests: whole.completed,
            answers: whole.completed,
            client_bytes: whole.completed * BYTES,
            server_bytes: whole.completed * BYTES,
            times_ns: whole.transactions.summary(),
            first_byte_ns: whole.transactions.summary(),
            last_byte_ns: whole.transactions.summary(),
            sustained: open.map(|open| Box::new(whole.sustained(&open))),
            mix: Some(Box::new(carried)),
            ..ApplicationOutcome::default()
        };
        TrialOutcome {
            ledger: Ledger {
                offered: whole.begun,
                not_sent: 0,
                received: whole.completed,
                places: Places::Application(ApplicationPlaces { failed: failed(&whole) }),
            },
            ..nothing(request.seconds, WorkloadOutcome::Application(application))
        }
    }

    fn measured(&self, mix: &Mix, spec: &dyn Spec) -> Vec<Measured> {
        let mut procedure = spec.start(Placement::Inline);
        for _ in 0..100 {
            match procedure.next() {
                Step::Trial(request) => procedure.record(&request, &self.answers(mix, &request)),
                Step::Done(measured) => return measured,
            }
        }
        panic!("it does not end")
    }

    fn closed(&self, mix: &Arc<Mix>) -> Vec<Measured> {
        let spec = TransactionsSpec {
            trial_seconds: 2.0,
            limit_seconds: 10.0,
            has_http: true,
            mix: Some(mix.clone()),
        };
        let measured = self.measured(mix, &spec);
        assert_eq!(keys(&measured), keys(&spec.lost(&[])), "what is lost is what is measured");
        measured
    }

    fn open(&self, mix: &Arc<Mix>) -> Vec<Measured> {
        let search = SearchSpec {
            preset: Preset::Mlr,
            trial_seconds: 1.0,
            loss_ratio: Some(1e-5),
            width: Some(0.05),
            max_load: None,
        };
        let spec = ApplicationRateSpec {
            search,
            ramp_up_seconds: 0.2,
            ramp_down_seconds: 0.1,
            limit_seconds: 10.0,
            latency_share: 0.5,
            transactions: mix.transactions_a_connection(),
            mix: Some(mix.clone()),
        };
        let measured = self.measured(mix, &spec);
        assert_eq!(keys(&measured), keys(&spec.lost(&[])), "what is lost is what is measured");
        measured
    }
}

/// Every value's metric with its levels, by which it differs from the others.
fn keys(values: &[Measured]) -> Vec<(Metric, Vec<String>)> {
    let levels = |value: &Measured| value.at.values().map(|level| level.text.clone()).collect();
    values.iter().map(|value| (value.metric, levels(value))).collect()
}

fn value<'a>(values: &'a [Measured], metric: Metric, part: &str) -> &'a Measured {
    let is = |value: &&Measured| value.metric == metric && value.at["part"].text == part;
    values.iter().find(is).unwrap_or_else(|| panic!("{metric:?} of {part} in {values:?}"))
}

fn said(value: &Measured) -> String {
    value.marks.iter().map(|mark| mark.text.as_str()).collect::<Vec<_>>().join("; ")
}

/// Whether a value counts, as its point would.
fn counts(value: &Measured) -> bool {
    value.valid && !value.marks.iter().any(|mark| mark.kind.invalidates())
}

#[test]
fn parts_have_values_of_their_own_and_sum_up_to_the_whole() {
    for transactions in [1, 10] {
        let mix = mix(transactions);
        for values in [HONEST.closed(&mix), HONEST.open(&mix)] {
            assert!(values.iter().all(counts), "{values:?}");
            let rate = if values.iter().any(|v| v.metric == Metric::TransactionRate) {
                Metric::TransactionRate
            } else {
                Metric::TransactionsPerMinute
            };
            for metric in [rate, Metric::Goodput] {
                let [all, pages, files] =
                    ["all", "pages", "files"].map(|part| value(&values, metric, part).value);
                assert!((pages + files - all).abs() < all * 0.03, "{metric:?}: {pages} + {files} of {all}");
            }
            let shares = ["pages", "files"].map(|part| value(&values, Metric::TrafficShare, part).value);
            assert!((shares[0] - 0.98).abs() < 0.005 && (shares[1] - 0.02).abs() < 0.005, "{shares:?}");
        }
    }
    // Connections of ten pages or of one file: the rate is one of connections all the same.
    let rate = value(&HONEST.open(&mix(10)), Metric::ConnectionRate, "all").value;
    assert!((0.9..=1.03).contains(&(rate / CAPACITY)), "{rate}");
}

#[test]
fn a_part_that_is_dropped_costs_the_whole_its_values_and_is_named() {
    let mix = mix(1);
    let firewall = Firewall { cuts_files: true, ..HONEST };
    let closed = firewall.closed(&mix);
    for measured in &closed {
        let says_so = matches!(measured.metric, Metric::FailedTransactions | Metric::TrafficShare);
        // No file ever came, so that its times are lost by themselves.
        let is_lost = !measured.valid;
        assert!(counts(measured) == (says_so && !is_lost), "{measured:?}");
    }
    let whole = said(value(&closed, Metric::TransactionsPerMinute, "all"));
    assert!(
        whole.contains(
            "part files had 0.0 % of the completed transactions instead of 2.0 %; 40 of 40 failed (reset 40)"
        ),
        "{whole}"
    );
    assert_eq!(value(&closed, Metric::FailedTransactions, "files").value, 1.0);
    assert_eq!(value(&closed, Metric::FailedTransactions, "pages").value, 0.0);
    assert!((value(&closed, Metric::FailedTransactions, "all").value - 0.02).abs() < 1e-9);

    let open = firewall.open(&mix);
    assert!(open.iter().all(|value| !value.valid), "{:?}", keys(&open));
    let whole = said(value(&open, Metric::ConnectionRate, "all"));
    assert!(
        whole.contains("no load met the goal of 0.001 % failures") && whole.contains("part files: "),
        "{whole}"
    );
}

/// A fiftieth of the connections is less than what a search takes for held, and they end in the end.
#[test]
fn a_small_part_that_is_held_up_is_not_hidden_by_the_others() {
    let mix = mix(1);
    // Longer than a trial: what is due in it ends behind it.
    let open = Firewall { holds_up_files: 5.0, ..HONEST }.open(&mix);
    assert!(open.iter().all(|value| !value.valid), "{:?}", keys(&open));
    let whole = said(value(&open, Metric::ConnectionRate, "all"));
    assert!(whole.contains("part files: 100 % of what was due ended late"), "{whole}");
    // Less than that is a time, which stands beside those of the others.
    let open = Firewall { holds_up_files: 0.1, ..HONEST }.open(&mix);
    let time = |part| value(&open, Metric::TransactionTime, part).value / 1e9;
    assert!(open.iter().all(counts), "{:?}", keys(&open));
    assert!(time("files") > 0.1 && time("pages") < 0.01, "{} {}", time("files"), time("pages"));
    assert_eq!(value(&open, Metric::TransactionTime, "files").at["load"].text, "50%");
}
