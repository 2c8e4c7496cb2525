//! What a reader gets of connections: the layouts of the reports, floods, what got through, and no word of frames.
#![allow(clippy::unwrap_used, reason = "a test")]

mod reader;
mod sample;

use measure::results::Results;
use measure::suite::Layout;
use reader::{FIREWALLS, page, text_of, with_layout};
use report::terminal::Options;
use report::{Extras, Format, render};

/// Needles in the sheets of one test in its layout, as Markdown.
fn sheets(results: &Results, test: &str, layout: Layout) -> String {
    let markdown = render(results, Format::Markdown, &with_layout(test, layout)).unwrap();
    let section = markdown.split(&format!("\n## {test}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    section.split("### In the layout of the original report").nth(1).unwrap().to_string()
}

#[test]
fn tcp_layouts_are_those_of_the_reports() {
    let tolly = sheets(&sample::tolly_http(&FIREWALLS), "connection-rate", Layout::TollyHttp);
    for needle in [
        "| Position of the matching rule | 1 core | 2 cores |",
        "| 1000 | 24.",
        "| 1000 | 33000 connections/s | 55000 connections/s | 97000 connections/s |",
        "printed in The Tolly Group, December 2007",
    ] {
        let needle = needle.replace(", December 2007", "");
        assert!(tolly.contains(&needle), "{needle} in {tolly}");
    }
    let eantc = sample::eantc_tcp(&FIREWALLS);
    let rate = sheets(&eantc, "session-rate", Layout::EantcTcp);
    for needle in [
        "| 4096 legal connections | 1 x 4096 |",
        "| 1607 (39.2 % · 660 µs) |",
        "| 6144 legal connections | 200 x 31 |",
        "| 1000 legal at 4000 illegal connections | 20 x 50 |",
        "nftables: no rules | nftables: 100 rules",
        "| 4096 legal | 1 x 4096 | 1607 (39.23 % · 643 µs) | 1005 (24.54 % · 1348 µs) |",
        "| 1000 legal, 4000 illegal | 20 x 50 | 1000 (100 % · 1042 µs) |",
    ] {
        assert!(rate.contains(needle), "{needle} in {rate}");
    }
    let sessions = sheets(&eantc, "parallel-sessions", Layout::EantcTcp);
    assert!(
        sessions.contains("103000 connections | directly after booting")
            && sessions.contains("370 k connections")
    );
    let resets = sheets(&eantc, "resets", Layout::EantcTcp);
    assert!(
        resets.contains("| external | 12.0 % (1\u{202f}200 of 10\u{202f}000, after 20\u{202f}000 resets)"),
        "{resets}"
    );
}

#[test]
fn a_flood_is_shown_before_during_and_after() {
    let run = sample::poliwall(&["nftables"]);
    let flood = sheets(&run, "flood", Layout::Poliwall);
    for needle in [
        "| nftables | all | before | 10.0 k/s | – | 50.0 kpps |",
        "| nftables | all | during | 8.83 k/s | 11.7 % | 111 kpps |",
        "| 66.5 kpps | 59.8 kpps |",
        "| nftables | all | after | 9.95 k/s |",
        "| 1.00 s |",
        "| PoliWall M10 | 66485 SYN/s | 8829 connections/s | -11.7 % | 110628 frames/s | 404.1 µs (at most 6637 µs) |",
    ] {
        assert!(flood.contains(needle), "{needle} in {flood}");
    }
    let markdown = render(&run, Format::Markdown, &Extras::default()).unwrap();
    assert!(
        markdown.contains("| nftables | 300\u{202f}000 | 287\u{202f}800 | 12\u{202f}200 (reset"),
        "three stretches of one trial are counted once"
    );
    let lists = sheets(&run, "lists", Layout::Poliwall);
    for needle in [
        "| nftables | 30 M listed addresses | 20.0 k/s | 20.0 k/s | 2.52 % |",
        "| 41.0 s | 1.42 GiB |",
        "| PoliWall V01 | 30 M listed addresses | 20000 connections/s |",
    ] {
        assert!(lists.contains(needle), "{needle} in {lists}");
    }
    let page = render(&run, Format::Html, &with_layout("flood", Layout::Poliwall)).unwrap();
    let curves = page.split("id=\"test-flood\"").nth(1).unwrap().split("</section>").next().unwrap();
    let once = curves.matches("<figcaption>Connections completed a second").count();
    assert_eq!(once, 1, "one trial is drawn once, not for every stretch");
    let curves = curves.split("In the layout of the original report").nth(1).unwrap();
    for title in ["TCP connection rate", "Frame rate", "Mean time to the SYN-ACK"] {
        assert!(curves.contains(&format!("<figcaption>{title}</figcaption>")), "{title}");
    }
    assert_eq!(curves.matches("class=\"shaded\"").count(), 3, "the flood is shaded in each");
}

#[test]
fn connections_are_never_called_frames() {
    let run = sample::tolly_http(&FIREWALLS);
    let html = text_of(&page(&run));
    let markdown = render(&run, Format::Markdown, &Extras::default()).unwrap();
    let terminal = report::terminal::table(&run, &Options::default());
    for (name, text) in [("html", &html), ("md", &markdown), ("terminal", &terminal)] {
        assert!(text.contains("24.9 k/s") && text.contains("97.2 µs"), "{name}");
        for wrong in
            ["frames of the deciding trials", "Where the frames went", "Frame sizes count", "no loss"]
        {
            assert!(!text.contains(wrong), "{wrong} in {name}");
        }
    }
    for needle in [
        "What became of the connections",
        "no failure",
        "timeout-connect 9",
        "Connections open",
        "to the last byte",
    ] {
        assert!(html.contains(needle), "{needle}");
    }
    assert!(markdown.contains("| offered | completed | failed | not attempted | unexplained |"));
    assert_eq!(
        html.matches("Connections completed a second").count(),
        2 * 8,
        "once a setting, not once a metric"
    );
}

#[test]
fn what_got_through_is_shown_although_the_point_is_invalid() {
    let run = sample::eantc_tcp(&FIREWALLS);
    let html = page(&run);
    let text = text_of(&html);
    assert!(
        text.contains("Illegal traffic problem 3 of 16 000 attempts got through"),
        "the trust box says so"
    );
    let markdown = render(&run, Format::Markdown, &Extras::default()).unwrap();
    let row = markdown.lines().find(|l| l.starts_with("| external |") && l.contains("| port |")).unwrap();
    assert!(row.ends_with("| 2\u{202f}000 | 3 |"), "{row}");
    assert!(markdown.contains("illegal traffic got through: 3 of 2000 SYN"));
}
