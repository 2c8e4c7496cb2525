//! What a reader gets: pages and Markdown that are sound, say what the data says, and hide nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

mod sample;

use measure::results::{Mark, MarkKind, Metric, Results};
use measure::suite::Layout;
use report::compare::compare;
use report::terminal::Options;
use report::{Extras, Format, TestExtras, render};
use std::collections::BTreeSet;

fn page(results: &Results) -> String {
    render(results, Format::Html, &Extras::default()).unwrap()
}

fn with_layout(test: &str, layout: Layout) -> Extras {
    let extras = TestExtras { title: "A title <&>".into(), layout };
    let published = measure::published::load(layout.name()).ok();
    Extras { tests: [(test.to_string(), extras)].into(), published, ..Extras::default() }
}

/// The text between tags, so that a figure in the page is found where a reader sees it.
fn text_of(page: &str) -> String {
    let body = page.split("<body>").nth(1).unwrap();
    let mut text = String::new();
    let mut in_tag = false;
    for c in body.chars() {
        match c {
            '<' => in_tag = true,
            '>' => (in_tag, text) = (false, text + " "),
            c if !in_tag => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn pages_are_well_formed() {
    let mut empty = sample::demo();
    empty.points.clear();
    let mut one = sample::demo();
    one.points.truncate(1);
    let mut broken = sample::demo();
    broken.points.iter_mut().for_each(|p| p.valid = false);
    for results in [sample::demo(), sample::eantc(8), sample::tolly(5), sample::rfc2544(), empty, one, broken]
    {
        let page = page(&results);
        let ids = attributes(&page, "id");
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len(), "ids are unique");
        for target in attributes(&page, "href").iter().filter_map(|h| h.strip_prefix('#')) {
            assert!(unique.contains(target), "#{target} leads somewhere");
        }
        for label in attributes(&page, "aria-labelledby").iter().flat_map(|l| l.split(' ')) {
            assert!(unique.contains(label), "{label} names something");
        }
        for tag in
            ["table", "tr", "td", "th", "svg", "section", "details", "figure", "ul", "li", "dl", "p", "div"]
        {
            let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "<{tag}> is closed");
        }
        assert_eq!(page.matches("<svg class=\"chart\"").count(), page.matches("<desc").count());
        let page = page.split("<script>").next().unwrap();
        for wrong in ["NaN", "inf\"", ">inf<", ">inf "] {
            let at = page.find(wrong).map(|i| &page[i.saturating_sub(200)..i + 10]);
            assert_eq!(at, None, "{wrong} is no number");
        }
        headings_do_not_skip(page);
    }
}

fn headings_do_not_skip(page: &str) {
    let mut last = 0;
    for level in page.split("<h").skip(1).filter_map(|h| h.chars().next()?.to_digit(10)) {
        assert!(level <= last + 1, "h{level} after h{last}");
        last = level;
    }
}

#[test]
fn invalid_points_are_told_and_never_shown_as_values() {
    let mut run = sample::demo();
    for point in &mut run.points {
        if point.dut == "iptables" {
            (point.value, point.low, point.high, point.valid) = (7.77e8, 7.77e8, 7.77e8, false);
            point.rounds = vec![7.77e8; 5];
            point.trials.clear();
            point.marks =
                vec![Mark { kind: MarkKind::FirewallFailed, detail: "it <died> in round 2".into() }];
        }
    }
    let text = text_of(&page(&run));
    assert!(text.contains("firewall failed: it &lt;died&gt; in round 2"), "the reason is told, and escaped");
    let markdown = render(&run, Format::Markdown, &Extras::default()).unwrap();
    let terminal = report::terminal::table(&run, &Options::default());
    for (name, text) in [("html", &text), ("md", &markdown), ("terminal", &terminal)] {
        assert!(!text.contains("777"), "{name} shows the value of an invalid point");
        assert!(text.contains("invalid"), "{name}");
    }
    assert!(markdown.contains("it \\<died\\> in round 2") && terminal.contains("it <died> in round 2"));
}

#[test]
fn the_verdict_says_a_loss_as_plainly_as_a_win() {
    // Factor on rampart's throughput, and what must be said of it.
    let rows = [
        (10.0, "rampart forwards the most of the firewalls", "rampart is better:"),
        (0.1, "nftables forwards the most of the firewalls", "rampart is worse:"),
    ];
    for (factor, headline, sentence) in rows {
        let mut run = sample::rfc2544();
        run.points
            .retain(|p| p.metric == Metric::Throughput && matches!(p.dut.as_str(), "nftables" | "rampart"));
        let reference: Vec<Vec<f64>> =
            run.points.iter().filter(|p| p.dut == "nftables").map(|p| p.rounds.clone()).collect();
        for (point, rounds) in run.points.iter_mut().filter(|p| p.dut == "rampart").zip(&reference) {
            point.rounds = rounds.iter().map(|r| r * factor).collect();
            point.value = point.rounds[0];
        }
        let text = text_of(&page(&run));
        assert!(text.contains(headline), "{headline}");
        assert!(text.contains(sentence), "{sentence}");
    }
    let mut run = sample::rfc2544();
    run.points.retain(|p| p.metric == Metric::Throughput && matches!(p.dut.as_str(), "nftables" | "rampart"));
    let rounds = [1.0e6, 0.9e6, 1.1e6, 1.05e6, 0.95e6];
    for point in &mut run.points {
        point.rounds = rounds.into();
        if point.dut == "rampart" {
            point.rounds.reverse();
        }
        point.value = 1.0e6;
    }
    assert!(text_of(&page(&run)).contains("cannot be told apart"));
}

#[test]
fn trust_is_not_claimed_where_it_is_not_due() {
    let good = |edit: fn(&mut Results)| {
        let mut run = sample::demo();
        run.points.iter_mut().for_each(|p| (p.valid, p.marks) = (true, Vec::new()));
        (run.environment.stolen, run.environment.load_before) = (0.0, 0.0);
        run.calibration.iter_mut().for_each(|c| c.met = c.met.map(|_| true));
        edit(&mut run);
        let page = page(&run);
        let trust = page.split("<aside").nth(1).unwrap().split("</aside>").next().unwrap().to_string();
        (trust.matches("<li class=\"good\"").count(), trust.matches("<li").count())
    };
    assert_eq!(good(|_| {}), (6, 6));
    let faults: [fn(&mut Results); 7] = [
        |r| r.points[0].valid = false,
        |r| r.points[0].marks.push(Mark { kind: MarkKind::Unstable, detail: String::new() }),
        |r| r.points[0].marks.push(Mark { kind: MarkKind::GeneratorLimited, detail: String::new() }),
        |r| r.environment.stolen = 0.05,
        |r| r.environment.load_before = 1.5,
        |r| r.calibration[1].met = Some(false),
        |r| r.calibration.clear(),
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        assert_eq!(good(fault), (5, 6), "fault {index} is seen, and only it");
    }
    assert_eq!(good(|r| r.complete = false), (6, 7), "an unfinished run says so");
}

#[test]
fn original_layouts_have_their_rows_columns_and_printed_figures() {
    let rows = [
        (
            sample::eantc(4),
            "throughput",
            Layout::Eantc,
            ["one-way", "two-way", "no rules", "100 rules", "73 Mbit/s on the wire"],
        ),
        (
            sample::tolly(4),
            "udp-throughput",
            Layout::Tolly,
            ["1 core", "2 cores", "8 cores", "IMIX tolly", "16 Gbit/s on the wire"],
        ),
    ];
    for (results, test, layout, needles) in rows {
        let extras = with_layout(test, layout);
        let page = render(&results, Format::Html, &extras).unwrap().replace("&#x2f;", "/");
        let sheets = page.split("In the layout of the original report").nth(1).unwrap();
        for needle in needles {
            assert!(sheets.contains(needle), "{needle}");
        }
        let printed: Vec<&str> = page.split("<div class=\"sheet printed\">").skip(1).collect();
        assert!(!printed.is_empty());
        for sheet in printed {
            assert!(sheet.contains("another machine, not comparable"), "a printed figure says whose it is");
        }
        assert!(page.contains("A title &lt;&amp;&gt;<"), "titles are escaped");
        let markdown = render(&results, Format::Markdown, &extras).unwrap();
        assert!(markdown.contains("another machine, not comparable") && markdown.contains(needles[4]));
    }
    assert!(!page(&sample::eantc(4)).contains("original report"), "no layout, no such tables");
}

#[test]
fn every_suite_that_ships_gives_its_extras() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../suites");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let suite = measure::suite::Suite::parse(path.to_str().unwrap(), &text).unwrap();
            let extras = Extras::of_suite(&suite).unwrap();
            assert_eq!(extras.tests.len(), suite.tests.len());
            assert_eq!(extras.published.is_some(), suite.published.is_some());
            seen += 1;
            for expectation in &suite.expectations {
                report::expr::parse(&expectation.that.value)
                    .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            }
        }
    }
    assert!(seen >= 4, "{seen} suites");
}

#[test]
fn two_runs_side_by_side() {
    let old = sample::demo();
    let mut new = sample::demo();
    new.environment.kernel = "6.19.0".into();
    let removed = new.points.remove(0);
    new.points[0].value *= 2.0;
    new.points[0].low *= 2.0;
    new.points[0].high *= 2.0;
    new.points[1].test = "another".into();
    let comparison = compare(&old, &new);
    assert_eq!(comparison.matched.len(), old.points.len() - 2);
    assert_eq!(comparison.only_old, [&removed, &old.points[2]]);
    assert_eq!(comparison.only_new, [&new.points[1]]);
    assert!(comparison.warnings.iter().any(|w| w.contains("kernel differs") && w.contains("6.19.0")));
    assert_eq!(comparison.matched[0].ratio().unwrap().value, 2.0);
    assert_eq!(comparison.matched[0].overlap(), Some(false));
    assert_eq!(comparison.matched[1].ratio().unwrap().value, 1.0);
    let invalid = comparison.matched.iter().find(|m| !m.old.valid).unwrap();
    assert_eq!((invalid.ratio(), invalid.overlap()), (None, None));
    let text = comparison.text(&Options::default());
    for needle in [
        "2.00×",
        "cannot be told apart",
        "not comparable",
        "only in the old run: throughput, wire",
        "warning: kernel",
    ] {
        assert!(text.contains(needle), "{needle} in\n{text}");
    }
    let same = compare(&old, &old);
    assert!(same.only_old.is_empty() && same.only_new.is_empty());
    assert!(!same.warnings.iter().any(|w| w.contains("differs")), "{:?}", same.warnings);
}
