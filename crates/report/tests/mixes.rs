//! What a reader gets of a mix of applications: every part beside the whole, in each form of the report.
#![allow(clippy::unwrap_used, reason = "a test")]

mod reader;
mod sample;

use measure::application::{ApplicationOutcome, ApplicationPlaces};
use measure::ledger::{Ledger, Named, Places};
use measure::level::Level;
use measure::mix::{MixOutcome, PartOutcome, SharesOf};
use measure::results::{
    Cell, Detail, LatencySummary, Mark, MarkKind, Metric, Point, Results, Run, Sent, StatedMix, StatedPart,
    Trial,
};
use measure::suite::Suite;
use reader::{page, text_of};
use report::{Extras, Format, render};

/// Seconds of each trial.
const SECONDS: f64 = 6.0;

fn times(p50: f64) -> Option<LatencySummary> {
    Some(LatencySummary { p50, p99: 3.0 * p50, count: 100, ..LatencySummary::default() })
}

/// 900 pages and 100 files, of which so many were reset.
fn outcome(failed: u64) -> (ApplicationOutcome, Ledger) {
    let failures = |count: u64| -> Named {
        [("reset".to_owned(), count)].into_iter().filter(|(_, count)| *count > 0).collect()
    };
    let part = |name: &str, share: f64, begun: u64, failed: u64, bytes: u64, ms: f64| PartOutcome {
        name: name.into(),
        asked: share,
        expected: share,
        each: 1,
        begun,
        completed: begun - failed,
        failed: failures(failed),
        bytes: (begun - failed) * bytes,
        in_time: begun - failed,
        bytes_in_time: (begun - failed) * bytes,
        times_ns: times(ms * 1e6).filter(|_| begun > failed),
        first_byte_ns: times(ms * 5e5).filter(|_| name == "pages"),
        last_byte_ns: times(ms * 7e5).filter(|_| name == "pages"),
        sustained: None,
    };
    let parts = vec![part("pages", 0.9, 900, 0, 1000, 2.0), part("files", 0.1, 100, failed, 9000, 40.0)];
    let completed = 1000 - failed;
    let bytes = parts.iter().map(|part| part.bytes).sum();
    let application = ApplicationOutcome {
        in_time: completed,
        bytes_in_time: bytes,
        requests: completed,
        answers: completed,
        client_bytes: bytes,
        server_bytes: bytes,
        times_ns: times(2e6),
        mix: Some(Box::new(MixOutcome { name: "office".into(), shares: SharesOf::Transactions, parts })),
        ..ApplicationOutcome::default()
    };
    let places = Places::Application(ApplicationPlaces { failed: failures(failed) });
    (application, Ledger { offered: 1000, not_sent: 0, received: completed, places })
}

fn point(dut: &str, part: &str, order: f64, metric: Metric, value: f64) -> Point {
    Point {
        at: [("part".to_owned(), Level { order: Some(order), ..Level::read("part", part) })].into(),
        ..sample::of_one_round(0, dut, metric, value)
    }
}

/// A run of two firewalls, of which the second one resets every file.
fn run() -> Results {
    let mut run = sample::checkpoint(&["linux", "nftables"]);
    run.converted_from = None;
    let part = |name: &str, protocol: &str, share| StatedPart {
        name: name.into(),
        protocol: protocol.into(),
        object: "4, 16".into(),
        transactions: 1,
        share,
    };
    run.mixes = vec![StatedMix {
        name: "office".into(),
        title: "pages and files".into(),
        source: Some("a working day".into()),
        shares: SharesOf::Transactions,
        parts: vec![part("pages", "https", 0.9), part("files", "ftp:get", 0.1)],
    }];
    run.cells = vec![Cell {
        id: 0,
        test: "both".into(),
        workload: Sent::Application,
        factors: [("protocol", "mix:office"), ("clients", "12")]
            .map(|(factor, level)| (factor.to_owned(), Level::read(factor, level)))
            .into(),
        ..run.cells[0].clone()
    }];
    (run.runs, run.points) = (Vec::new(), Vec::new());
    for (dut, failed) in [("linux", 0), ("nftables", 100)] {
        let (application, ledger) = outcome(failed);
        let mix = application.mix.clone().unwrap();
        let minute = 60.0 / SECONDS;
        let mut values = vec![
            point(dut, "all", 0.0, Metric::TransactionsPerMinute, application.in_time as f64 * minute),
            point(dut, "all", 0.0, Metric::FailedTransactions, failed as f64 / 1000.0),
            point(dut, "all", 0.0, Metric::TransactionTime, 2e6),
        ];
        for (place, part) in mix.parts.iter().enumerate() {
            let of = |metric, value| point(dut, &part.name, place as f64 + 1.0, metric, value);
            values.push(of(Metric::TransactionsPerMinute, part.in_time as f64 * minute));
            values.push(of(Metric::FailedTransactions, part.loss_ratio()));
            values.push(of(Metric::TrafficShare, mix.came_out(part, mix.shares).unwrap()));
            values.extend(part.times_ns.map(|times| of(Metric::TransactionTime, times.p50)));
        }
        for value in &mut values {
            let says_so = matches!(value.metric, Metric::FailedTransactions | Metric::TrafficShare);
            if failed > 0 && !says_so {
                value.valid = false;
                value.marks.push(Mark::new(MarkKind::SharesOff, mix.off().join("; ")));
            }
        }
        run.points.extend(values);
        run.runs.push(Run {
            cell: 0,
            dut: dut.into(),
            policy_load_seconds: None,
            trials: vec![Trial {
                offered: 1000.0 / SECONDS,
                seconds: SECONDS,
                received: (1000 - failed) as f64 / SECONDS,
                loss: failed as f64 / 1000.0,
                detail: Some(Box::new(Detail {
                    ledger,
                    application: Some(application),
                    ..Detail::default()
                })),
                ..Trial::default()
            }],
            searches: Vec::new(),
        });
    }
    run
}

#[test]
fn the_report_has_what_the_mix_was_and_what_became_of_each_part() {
    let markdown = render(&run(), Format::Markdown, &Extras::default()).unwrap();
    let parts = markdown.split("### The parts of the mix").nth(1).unwrap();
    for needle in [
        "**The mix office: pages and files**",
        "| Part | protocol | objects, KB | transactions a connection | share of the transactions |",
        "| pages | https | 4, 16 | 1 | 90.0 % |",
        "90.0 % of the transactions go over TLS 1.3",
        "The shares are from: a working day",
        "| Firewall | Part | share asked |",
        "| linux | pages | 90.0 % | 90.0 % | 50.0 % | 900 | 0 |",
        "| linux | files | 10.0 % | 10.0 % | 50.0 % | 100 | 0 |",
        "| nftables | files | 10.0 % | 0 % | 0 % | 100 | 100 (reset 100) |",
        "40.0 ms (120 ms)",
    ] {
        assert!(parts.contains(needle), "{needle} in {parts}");
    }
    for needle in [
        "part files had 0.0 % of the completed transactions instead of 10.0 %; 100 of 100 failed (reset 100)",
        "| Part of the mix |",
        "invalid: the parts of the mix did not come out with the shares that were asked for",
    ] {
        assert!(markdown.contains(needle), "{needle} in {markdown}");
    }
}

#[test]
fn pages_tables_and_files_tell_parts_apart() {
    let run = run();
    let text = text_of(&page(&run));
    for needle in ["The parts of the mix", "The mix office: pages and files", "Share of the mix"] {
        assert!(text.contains(needle), "{needle} in {text}");
    }
    let shown =
        report::terminal::table(&run, &report::terminal::Options { width: 200, ..Default::default() });
    assert!(shown.contains("the whole mix") && shown.contains("part files"), "{shown}");
    let csv = render(&run, Format::Csv, &Extras::default()).unwrap();
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let place = rows.headers().unwrap().iter().position(|header| header == "factor.part").unwrap();
    let parts: std::collections::BTreeSet<String> =
        rows.records().map(|row| row.unwrap()[place].to_owned()).collect();
    assert_eq!(parts.into_iter().collect::<Vec<_>>(), ["all", "files", "pages"]);
}

/// The file follows from its trials, and a file in which somebody changed the shares does not.
#[test]
fn results_are_read_again_and_an_edited_share_is_named() {
    let mut run = run();
    let json = render(&run, Format::Json, &Extras::default()).unwrap();
    assert!(json.contains("\"mixes\": [\n"), "{json}");
    let read = report::json::from_str(&json, std::path::Path::new("results.json")).unwrap();
    assert_eq!((read.mixes.len(), read.misfits()), (1, Vec::new()));
    for point in run.points.iter_mut().filter(|point| point.dut == "nftables") {
        (point.valid, point.marks) = (true, Vec::new());
    }
    let misfits: Vec<String> = run.misfits().iter().map(ToString::to_string).collect();
    let said = "the mark is missing that part files had 0.0 % of the completed transactions";
    assert!(misfits.iter().any(|misfit| misfit.contains(said)), "{misfits:?}");
    let share = run.points.iter_mut().find(|point| point.metric == Metric::TrafficShare).unwrap();
    (share.value, share.low, share.high, share.rounds) = (0.5, 0.5, 0.5, vec![0.5]);
    let misfits: Vec<String> = run.misfits().iter().map(ToString::to_string).collect();
    assert!(misfits.iter().any(|misfit| misfit.contains("traffic_share")), "{misfits:?}");
}

/// What the guide's suite expects can be asked for, and a part that no mix has cannot.
#[test]
fn expectations_ask_for_parts_of_the_suites_own_mixes() {
    let guide = include_str!("../../../docs/guide/mixes.md");
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let read = |text: &str| {
        let suite = Suite::parse("guide", text).unwrap();
        report::expectations::of_suite(&suite)
            .map(|found| found.len())
            .map_err(|(_, error)| error.to_string())
    };
    assert_eq!(read(text), Ok(2));
    let wrong = read(&text.replace("part=files", "part=mail")).unwrap_err();
    assert!(wrong.contains("no mix of the suite has a part mail"), "{wrong}");
}
