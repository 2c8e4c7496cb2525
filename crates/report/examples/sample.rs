//! Writes the reports of the made-up sample runs, to be looked at: `cargo run -p report --example sample -- DIR`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example that prints where it wrote")]

#[path = "../tests/sample/mod.rs"]
mod sample;

use measure::suite::{Layout, Suite};
use report::{Extras, TestExtras, expectations, terminal};

const FIREWALLS: [&str; 5] = ["linux", "nftables", "iptables", "ipset", "rampart"];

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let runs = [
        ("demo", sample::demo(), Layout::Plain),
        ("eantc", sample::eantc(8), Layout::Eantc),
        ("tolly", sample::tolly(8), Layout::Tolly),
        ("rfc2544", sample::rfc2544(), Layout::Plain),
        ("tolly-http", sample::tolly_http(&FIREWALLS), Layout::TollyHttp),
        ("eantc-tcp", sample::eantc_tcp(&FIREWALLS), Layout::EantcTcp),
        ("poliwall", sample::poliwall(&FIREWALLS), Layout::Poliwall),
        ("checkpoint", sample::checkpoint(&FIREWALLS), Layout::Checkpoint),
    ];
    for (name, results, layout) in runs {
        let dir = dir.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let test = |p: &measure::results::Cell| (p.test.clone(), TestExtras::new("A test", layout));
        let tests: std::collections::BTreeMap<_, _> = results.cells.iter().map(test).collect();
        let report = layout.name().split('-').next().unwrap_or_default();
        let published = measure::published::load(report).ok();
        let suite = measure::suite::builtin(&results.suite).and_then(|text| Suite::parse(name, text).ok());
        let expectations = suite.and_then(|suite| expectations::of_suite(&suite).ok()).unwrap_or_default();
        let extras = Extras { tests, published, expectations, ..Extras::default() };
        for path in report::write_all(&dir, &results, &extras).unwrap() {
            println!("{} ({} bytes)", path.display(), std::fs::metadata(&path).unwrap().len());
        }
    }
    for run in [sample::demo(), sample::eantc_tcp(&FIREWALLS)] {
        println!("{}", terminal::table(&run, &terminal::Options::default()));
    }
}
