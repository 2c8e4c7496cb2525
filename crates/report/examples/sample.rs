//! Writes the reports of the made-up sample runs, to be looked at: `cargo run -p report --example sample -- DIR`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example that prints where it wrote")]

#[path = "../tests/sample/mod.rs"]
mod sample;

use measure::suite::Layout;
use report::{Extras, TestExtras, terminal};

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let runs = [
        ("demo", sample::demo(), Layout::Plain),
        ("eantc", sample::eantc(8), Layout::Eantc),
        ("tolly", sample::tolly(8), Layout::Tolly),
        ("rfc2544", sample::rfc2544(), Layout::Plain),
    ];
    for (name, results, layout) in runs {
        let dir = dir.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let names = ["throughput", "udp-throughput", "latency"];
        let tests = names.map(|test| (test.to_string(), TestExtras { title: "A test".into(), layout }));
        let published = measure::published::load(layout.name()).ok();
        let extras = Extras { tests: tests.into(), published, ..Extras::default() };
        for path in report::write_all(&dir, &results, &extras).unwrap() {
            println!("{} ({} bytes)", path.display(), std::fs::metadata(&path).unwrap().len());
        }
    }
    println!("{}", terminal::table(&sample::demo(), &terminal::Options::default()));
}
