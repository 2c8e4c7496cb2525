//! What a reader gets of application traffic: the NSTL report's layout, transactions, and no word of frames.
#![allow(clippy::unwrap_used, reason = "a test")]

mod reader;
mod sample;

use measure::application::{ApplicationOutcome, ApplicationPlaces};
use measure::ledger::{Ledger, Places};
use measure::level::Level;
use measure::results::{Cell, Detail, LatencySummary, Metric, Results, Run, Sent, Trial};
use measure::suite::{Layout, Suite, builtin};
use reader::{page, text_of};
use report::terminal::Options;
use report::{Extras, Format, TestExtras, render};

/// Seconds of each trial.
const SECONDS: f64 = 6.0;

/// A run of two firewalls with 1 and 72 clients, in which one of a hundred transactions through nftables fails.
fn run() -> Results {
    let mut run = sample::checkpoint(&["linux", "nftables"]);
    let cells = ["1", "72"].into_iter().zip(0..).map(|(clients, id)| Cell {
        id,
        test: "http".into(),
        workload: Sent::Application,
        factors: [("clients", clients), ("rules", "4")]
            .map(|(factor, level)| (factor.to_owned(), Level::read(factor, level)))
            .into(),
        ..run.cells[0].clone()
    });
    let cells: Vec<Cell> = cells.collect();
    (run.runs, run.points) = (Vec::new(), Vec::new());
    for cell in &cells {
        for (dut, failed) in [("linux", 0), ("nftables", 10)] {
            let trial = trial(failed);
            let values = [
                (Metric::TransactionsPerMinute, 9_900.0),
                (Metric::FailedTransactions, trial.loss),
                (Metric::TransactionTime, 2e6),
            ];
            run.points
                .extend(values.map(|(metric, value)| sample::of_one_round(cell.id, dut, metric, value)));
            run.runs.push(Run {
                cell: cell.id,
                dut: dut.into(),
                policy_load_seconds: None,
                trials: vec![trial],
                searches: Vec::new(),
            });
        }
    }
    run.cells = cells;
    run
}

/// 1,000 transactions, of which so many timed out.
fn trial(failed: u64) -> Trial {
    let completed = 1000 - failed;
    let application = ApplicationOutcome {
        in_time: 990,
        requests: 1000,
        answers: completed,
        times_ns: Some(LatencySummary { p50: 2e6, count: completed, ..LatencySummary::default() }),
        ..ApplicationOutcome::default()
    };
    let failed_by = [("timeout".to_owned(), failed)].into_iter().filter(|(_, count)| *count > 0).collect();
    let ledger = Ledger {
        offered: 1000,
        not_sent: 0,
        received: completed,
        places: Places::Application(ApplicationPlaces { failed: failed_by }),
    };
    Trial {
        offered: 1000.0 / SECONDS,
        seconds: SECONDS,
        received: completed as f64 / SECONDS,
        loss: failed as f64 / 1000.0,
        detail: Some(Box::new(Detail { ledger, application: Some(application), ..Detail::default() })),
        ..Trial::default()
    }
}

#[test]
fn the_layout_is_that_of_the_report_beside_its_printed_runs() {
    let test = TestExtras::new("HTTP", Layout::Nstl);
    let published = measure::published::load("compaq").ok();
    let extras = Extras { tests: [("http".to_owned(), test)].into(), published, ..Extras::default() };
    let markdown = render(&run(), Format::Markdown, &extras).unwrap();
    let sheets = markdown.split("### In the layout of the original report").nth(1).unwrap();
    for needle in [
        "| Clients | linux | nftables |",
        "0 % failed",
        "1.00 % failed",
        "| Clients | base system | DNS look-ups for HTTP off | HTTP cache off | 100 rules |",
        "| 72 | 2145.73 transactions/min (0 % failed) | 2557.15 transactions/min (0 % failed) |",
        "another machine, not comparable",
    ] {
        assert!(sheets.contains(needle), "{needle} in {sheets}");
    }
    assert_eq!(sheets.matches("| 60 | ").count(), 1, "eight rows of printed figures, two measured");
}

/// The rate of nftables' base run, and of its run with 100 rules: 20 % less with 1 client, and as much with 72.
#[test]
fn a_run_with_one_change_is_shown_by_its_difference_beside_the_printed_one() {
    let mut base = run();
    base.points.retain(|point| point.metric == Metric::TransactionsPerMinute);
    let mut changed = base.clone();
    for (cell, id) in base.cells.iter_mut().zip(0..) {
        (cell.test, cell.id) = ("run-1".into(), id);
    }
    for (cell, id) in changed.cells.iter_mut().zip(2..) {
        (cell.test, cell.id) = ("run-14-gateway".into(), id);
        cell.factors.insert("rules".into(), Level::read("rules", "100"));
    }
    for found in &mut changed.runs {
        found.cell += 2;
    }
    for point in &mut changed.points {
        point.cell += 2;
    }
    for (run, less) in [(&mut base, 1.0), (&mut changed, 0.8)] {
        for point in &mut run.points {
            let share = if point.dut == "nftables" && point.cell % 2 == 0 { less } else { 1.0 };
            point.value *= share;
            point.rounds = [0.99, 1.0, 1.01].map(|noise| point.value * noise).into();
        }
    }
    base.cells.extend(changed.cells);
    base.runs.extend(changed.runs);
    base.points.extend(changed.points);

    let test = |against: Option<&str>| TestExtras {
        against: against.map(str::to_owned),
        ..TestExtras::new("A run", Layout::NstlRuns)
    };
    let tests = [("run-1".to_owned(), test(None)), ("run-14-gateway".to_owned(), test(Some("run-1")))].into();
    let published = measure::published::load("compaq").ok();
    let extras = Extras { tests, published, ..Extras::default() };
    let markdown = render(&base, Format::Markdown, &extras).unwrap();
    let sheets: Vec<&str> = markdown.split("### In the layout of the original report").skip(1).collect();
    assert_eq!(sheets.len(), 2, "{markdown}");
    let difference =
        sheets.iter().find(|sheet| sheet.contains("against those of run-1, in percent")).unwrap();
    for needle in [
        "| Clients | linux | nftables | Raptor Eagle NT 3.06, as printed: another machine |",
        "| 1 | 0 % (",
        "| -20 % (-2",
        // 306.03 instead of 300.26, and 583.23 instead of 573.71.
        "| +1.9 % |",
        "| 72 | 0 % (",
        "| +1.7 % |",
        "| mean | 0 % | -10 % | +1.8 % |",
        "The printed change: 100 rules",
    ] {
        assert!(difference.contains(needle), "{needle} in {difference}");
    }
    let own = sheets.iter().find(|sheet| !sheet.contains("in percent")).unwrap();
    assert!(own.contains("Measured here: transactions a minute"), "{own}");

    // The base run was left out of this one: there is nothing to compare with, and the run shows its own figures.
    base.cells.retain(|cell| cell.test == "run-14-gateway");
    base.runs.retain(|run| run.cell >= 2);
    base.points.retain(|point| point.cell >= 2);
    let markdown = render(&base, Format::Markdown, &extras).unwrap();
    assert!(markdown.contains("Measured here: transactions a minute") && !markdown.contains("in percent**"));
}

#[test]
fn what_has_no_policy_is_not_asked_what_rules_cost() {
    let mut run = run();
    for (cell, rules) in run.cells.iter_mut().zip(["4", "100"]) {
        let levels = [("clients", "1"), ("rules", rules)];
        cell.factors = levels.map(|(factor, level)| (factor.to_owned(), Level::read(factor, level))).into();
    }
    for point in run.points.iter_mut().filter(|point| point.metric == Metric::TransactionsPerMinute) {
        let value = if point.cell == 0 { 9_900.0 } else { 4_950.0 };
        (point.value, point.low, point.high) = (value, value * 0.99, value * 1.01);
        point.rounds = [0.99, 1.0, 1.01, 1.0, 1.0].map(|noise| value * noise).into();
    }
    let suite = Suite::parse("nstl-http", builtin("nstl-http").unwrap()).unwrap();
    let markdown = render(&run, Format::Markdown, &Extras::of_suite(&suite).unwrap()).unwrap();
    let answer = "Yes: nftables has 0.50 times the transactions a minute with 100 rules";
    assert!(markdown.contains(answer), "{markdown}");
}

#[test]
fn transactions_are_called_transactions_everywhere() {
    let text = text_of(&page(&run()));
    for needle in [
        "What became of the transactions: http",
        "transactions of the deciding trials, by what became of them",
        "A transaction asks for a file",
        "9.90 k/min",
    ] {
        assert!(text.contains(needle), "{needle} in {text}");
    }
    for needle in ["frames of the deciding trials", "Frame sizes count", "connections of the deciding trials"]
    {
        assert!(!text.contains(needle), "{needle} in {text}");
    }
    let shown = report::terminal::table(&run(), &Options::default());
    assert!(shown.contains("http: transactions a minute"), "{shown}");
    let csv = render(&run(), Format::Csv, &Extras::default()).unwrap();
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let header = rows.headers().unwrap().clone();
    let row =
        rows.records().map(Result::unwrap).find(|row| row.iter().any(|cell| cell == "nftables")).unwrap();
    let cell = |name: &str| row[header.iter().position(|h| h == name).unwrap()].to_string();
    assert_eq!(["offered", "received", "residual"].map(cell), ["1000", "990", "0"]);
}
