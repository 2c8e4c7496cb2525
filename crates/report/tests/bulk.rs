//! What a reader gets of bulk transfers: the article's layout, bytes, and no word of frames.
#![allow(clippy::unwrap_used, reason = "a test")]

mod reader;
mod sample;

use measure::results::Metric;
use measure::suite::Layout;
use reader::{page, text_of, with_layout};
use report::terminal::Options;
use report::{Format, render};

const DUTS: [&str; 3] = ["wire", "linux", "nftables"];

#[test]
fn the_layout_has_every_sequence_and_the_median_beside_the_printed_figures() {
    let mut run = sample::checkpoint(&DUTS);
    let first = run.points.iter_mut().find(|point| point.metric == Metric::Goodput).unwrap();
    first.rounds = vec![11.1e9, 12.2e9, 0.0, 14.4e9, 15.5e9];
    let markdown = render(&run, Format::Markdown, &with_layout("x", Layout::Checkpoint)).unwrap();
    let sheets = markdown.split("### In the layout of the original report").nth(1).unwrap();
    for needle in [
        "| Connections | Sequence | wire | linux | nftables |",
        "| 1 | 1 | 11.1 Gbit/s |",
        "| 1 | 3 | – |",
        "| 1 | 5 | 15.5 Gbit/s |",
        "| 100 | median | ",
        "8\u{202f}628 sent again",
        "The client's congestion control: cubic",
        "| 50 | none (VMXNET3 adapters) | 54.8 Gbit/s | 1.87 TB | 0 segments | section 2 |",
        "| Connections | Firewall | TCP transfer time ratio | TCP efficiency | Buffer delay | Segments sent again | Core 0 busy |",
        "| 10 | wire | – | 99.8 % | 2400 % | 8\u{202f}628 |",
        "| 10 | nftables | 1.25 times | 99.8 % | 2400 % | 8\u{202f}628 |",
        "Buffer delay: By how much the round trip grew",
        "another machine, not comparable",
        "As printed: one sequence of 300 s each",
    ] {
        assert!(sheets.contains(needle), "{needle} in {sheets}");
    }
    assert_eq!(sheets.matches("| median |").count(), 4, "one for each number of connections");
}

#[test]
fn bytes_are_called_bytes_everywhere() {
    let run = sample::checkpoint(&DUTS);
    let text = text_of(&page(&run));
    for needle in [
        "bytes of the deciding trials: written by the client",
        "under way",
        "Where the bytes went: x",
        "x its goodput (95 % interval",
        "GB&#x2f;s no loss",
    ] {
        assert!(text.contains(needle), "{needle} in {text}");
    }
    for needle in ["frames of the deciding trials", "Frame sizes count"] {
        assert!(!text.contains(needle), "{needle} in {text}");
    }
    let shown = report::terminal::table(&run, &Options::default());
    assert!(shown.contains("x: goodput") && !shown.contains("Bits a second stand"), "{shown}");
    let csv = render(&run, Format::Csv, &report::Extras::default()).unwrap();
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let header = rows.headers().unwrap().clone();
    let row = rows.records().next().unwrap().unwrap();
    let cell = |name: &str| row[header.iter().position(|h| h == name).unwrap()].to_string();
    let found = ["under_way", "retransmitted", "residual", "attempted"].map(cell);
    assert_eq!(found, ["131072", "8628", "0", ""]);
}
