//! What a reader gets: pages and Markdown that are sound, say what the data says, and hide nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

mod reader;
mod sample;

use reader::{FIREWALLS, page, text_of, with_layout};

use measure::results::{Cell, Mark, MarkKind, Metric, Reading, Results};
use measure::suite::Layout;
use report::compare::compare;
use report::terminal::Options;
use report::{Extras, Format, TestExtras, render};
use std::collections::{BTreeMap, BTreeSet};

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
    let mut floods = sample::poliwall(&FIREWALLS);
    floods.points.iter_mut().filter(|p| p.dut == "iptables").for_each(|p| p.valid = false);
    for results in [
        sample::demo(),
        sample::eantc(8),
        sample::tolly(5),
        sample::rfc2544(),
        sample::tolly_http(&FIREWALLS),
        sample::eantc_tcp(&FIREWALLS),
        floods,
        empty,
        one,
        broken,
    ] {
        let layout = match results.suite.as_str() {
            "poliwall" => Layout::Poliwall,
            "eantc-tcp" => Layout::EantcTcp,
            _ => Layout::Plain,
        };
        let mut extras = Extras::default();
        for cell in &results.cells {
            extras.tests.insert(cell.test.clone(), TestExtras::new("A test", layout));
        }
        let page = render(&results, Format::Html, &extras).unwrap();
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
fn invalid_points_are_named_and_never_shown_as_values() {
    let mut run = sample::demo();
    for point in &mut run.points {
        if point.dut == "iptables" {
            (point.value, point.low, point.high, point.valid) = (7.77e8, 7.77e8, 7.77e8, false);
            point.rounds = vec![7.77e8; 5];
            (point.deciding, point.typical) = (Vec::new(), None);
            point.marks = vec![Mark::new(MarkKind::FirewallFailed, "it <died> in round 2")];
        }
    }
    let text = text_of(&page(&run));
    assert!(text.contains("firewall failed: it &lt;died&gt; in round 2"), "the reason is shown, and escaped");
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
        (10.0, "10 times nftables.", "Rampart is better than nftables: 10x its throughput (95 % interval"),
        (0.1, "nftables forwards", "Rampart is worse than nftables: 0.10x its throughput (95 % interval"),
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
    let mut noisy = |noise: f64, rounds: usize| {
        for point in &mut run.points {
            point.rounds = [0.0, -1.0, 1.0, 0.5, -0.5].map(|n| 1.0e6 * (1.0 + n * noise))[..rounds].to_vec();
            if point.dut == "rampart" {
                point.rounds.reverse();
            }
            point.value = 1.0e6;
        }
        text_of(&page(&run))
    };
    let text = noisy(0.02, 5);
    assert!(text.contains("are level: 1 million frames a second each."), "{text}");
    assert!(text.contains("Rampart and nftables are level: 1.00x (95 % interval"), "{text}");
    for (rounds, why) in [(5, "5 rounds are too few to say"), (2, "2 rounds are too few to say")] {
        let text = noisy(0.2, rounds);
        assert!(text.contains(&format!("is ahead is open ({why}): 1 million frames")), "{text}");
        assert!(text.contains(&format!("but {why} who is ahead.")), "{text}");
    }
    let text = noisy(0.02, 1);
    assert!(text.contains("is ahead is open (one round: no interval)"), "{text}");
    assert!(text.contains("1.00x in one round, which has no interval."), "{text}");
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
    assert_eq!(good(|_| {}), (8, 8));
    let faults: [fn(&mut Results); 8] = [
        |r| r.points[0].valid = false,
        |r| r.points[0].rounds[0] *= 2.0,
        |r| r.points[0].marks.push(Mark::new(MarkKind::GeneratorLimited, "")),
        |r| {
            let nftables = r.points.iter_mut().find(|p| p.dut == "nftables").unwrap();
            nftables.rounds.truncate(1);
        },
        |r| r.environment.stolen = 0.05,
        |r| r.environment.load_before = 1.5,
        |r| r.calibration[1].met = Some(false),
        |r| r.calibration.clear(),
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        assert_eq!(good(fault), (7, 8), "fault {index} is seen, and only it");
    }
    assert_eq!(good(|r| r.complete = false), (8, 9), "an unfinished run says so");
}

#[test]
fn a_summary_says_each_thing_once_and_what_ended_the_search() {
    let edited = |edit: &dyn Fn(&mut Results)| {
        let mut run = sample::demo();
        run.points.retain(|p| p.valid && p.metric == Metric::Throughput);
        edit(&mut run);
        report::terminal::ending(&run, &Options { reference: Some("nftables".into()), ..Options::default() })
    };
    let at_the_most = edited(&|run| {
        for point in &mut run.points {
            point.rounds = vec![1e6; 3];
            (point.value, point.low, point.high) = (1e6, 1e6, 1e6);
            point.marks = vec![Mark::new(MarkKind::NoUpperBound, "")];
        }
    });
    assert!(
        at_the_most.contains("reach the most that was tried: at least 1 million frames a second each."),
        "{at_the_most}"
    );
    let alone = edited(&|run| {
        for point in run.points.iter_mut().filter(|p| p.dut == "nftables") {
            point.rounds = vec![0.0; 3];
            (point.value, point.low, point.high) = (0.0, 0.0, 0.0);
        }
    });
    assert!(alone.contains(" (280 Mbit/s), nftables 0 frames a second."), "{alone}");
    let lines: Vec<&str> = alone.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let headline = lines[0].split(", nftables 0").next().unwrap();
    assert_eq!(lines.iter().filter(|line| line.starts_with(headline)).count(), 1, "{alone}");
}

/// Rounds of a firewall differ on an idle machine as well: that the machine was busy is said where other programs' time was measured.
#[test]
fn a_machine_is_called_busy_only_where_others_took_its_time() {
    let (foreign, stolen) = (MarkKind::ForeignLoad, MarkKind::StolenTime);
    // How much the rounds of each point differ; what is marked; what is said.
    let rows: [(f64, &[MarkKind], &str); 5] = [
        (0.04, &[], "Absolute rates: steady."),
        (0.04, &[foreign], "Absolute rates: steady."),
        (0.3, &[], "Absolute rates: unsteady at 6 of 6 points."),
        (0.3, &[foreign], "Absolute rates: this machine was busy."),
        (0.3, &[stolen], "Absolute rates: this machine was busy."),
    ];
    for (differ, marks, said) in rows {
        let mut run = sample::demo();
        run.points.retain(|p| p.valid && p.metric == Metric::Throughput);
        run.points.truncate(6);
        for point in &mut run.points {
            point.rounds =
                vec![point.value * (1.0 - differ / 2.0), point.value, point.value * (1.0 + differ / 2.0)];
            point.marks = marks.iter().map(|kind| Mark::new(*kind, "")).collect();
        }
        let text = report::terminal::ending(&run, &Options::default());
        assert!(text.contains(said), "{differ} {marks:?}: {text}");
        let page = page(&run);
        let (words, shown) = (format!("there by {:.0} % in the median", differ * 100.0), differ > 0.1);
        assert_eq!(page.contains(&words), shown, "{differ} {marks:?}");
        assert_eq!(
            page.contains("others took no time at 6"),
            shown && marks.is_empty(),
            "{differ} {marks:?}"
        );
    }
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
fn a_firewall_that_only_forwards_says_so_once_and_marks_no_cell() {
    let mut run = sample::demo();
    run.points.retain(|p| matches!(p.dut.as_str(), "linux" | "nftables"));
    for point in &mut run.points {
        (point.valid, point.marks) = (true, Vec::new());
        if point.dut == "linux" {
            let text = "linux only forwards: it stands here without the policy";
            point.marks.push(Mark::new(MarkKind::Baseline, text));
        }
    }
    let texts = |run: &Results| {
        let markdown = render(run, Format::Markdown, &Extras::default()).unwrap();
        [page(run), markdown, report::terminal::table(run, &Options::default())]
    };
    let [html, markdown, terminal] = texts(&run);
    assert!(!html.contains("<sup>") && !markdown.contains(" [n]") && !terminal.contains("[n]"), "{terminal}");
    for text in [&html, &markdown] {
        assert_eq!(text.matches("linux only forwards").count(), 1);
        assert!(!text.contains("a note, in the list of remarks"));
    }
    assert!(terminal.contains("no policy"));
    // Another note, even one that begins alike but is of another firewall, is marked.
    run.points.iter_mut().filter(|p| p.dut == "nftables").for_each(|p| {
        p.marks.push(Mark::new(MarkKind::Note, "linux only forwards, nftables does more"));
    });
    let [html, markdown, terminal] = texts(&run);
    assert!(html.contains("<sup>n</sup>") && markdown.contains(" [n]") && terminal.contains("[n]"));
}

#[test]
fn directions_and_seconds_stand_where_they_were_measured() {
    let two_way = sample::eantc(4);
    let html = page(&two_way);
    assert!(html.contains("<details open><summary>Each direction</summary>"), "open for latency");
    assert!(html.contains("hostile → private") && html.contains("Second by second"));
    let markdown = render(&two_way, Format::Markdown, &Extras::default()).unwrap();
    assert!(markdown.contains("| private → hostile |") && markdown.contains("| IPDV p50 |"));
    let run = sample::demo();
    let html = page(&run);
    assert!(html.contains("<details><summary>Each direction</summary>"), "folded for throughput");
    let mut without = run;
    for trial in without.runs.iter_mut().flat_map(|run| &mut run.trials) {
        trial.per_second.clear();
        trial.detail.iter_mut().for_each(|detail| detail.lanes.clear());
    }
    let html = page(&without);
    assert!(!html.contains("Each direction") && !html.contains("Second by second"), "nothing is made up");
}

#[test]
fn an_interval_that_is_noise_does_not_flatten_a_chart() {
    let mut run = sample::demo();
    sample::retain(&mut run, |p| p.metric == Metric::Cost && sample::is_at(p, "frame", "64"));
    run.points.iter_mut().for_each(|p| (p.valid, p.marks) = (true, Vec::new()));
    let charts = |run: &Results| page(run).split("<svg class=\"chart\"").nth(1).unwrap().to_string();
    let widest = |chart: &str| {
        let bars = chart.split("<rect class=\"b ").skip(1);
        let widths = bars.map(|b| b.split("width=\"").nth(1).unwrap().split('"').next().unwrap());
        widths.map(|w| w.parse::<f64>().unwrap()).fold(0.0, f64::max)
    };
    assert!(!page(&run).contains("class=\"arrow "));
    run.points.iter_mut().for_each(|p| p.high = 1e9);
    let noisy = charts(&run);
    assert!(widest(&noisy) > 150.0, "{} px", widest(&noisy));
    assert!(noisy.contains("class=\"arrow ink\"") && noisy.contains("An arrow: the interval reaches beyond"));
}

/// The custom properties of each palette: light, dark, print.
fn palettes(page: &str) -> Vec<BTreeMap<&str, [f64; 3]>> {
    let channel = |hex: &str| {
        let c = f64::from(u8::from_str_radix(hex, 16).unwrap()) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    let colour = |text: &str| -> Option<[f64; 3]> {
        let hex = text.strip_prefix('#')?;
        let wide: String =
            if hex.len() == 3 { hex.chars().flat_map(|c| [c, c]).collect() } else { hex.into() };
        (wide.len() == 6).then(|| [0, 2, 4].map(|i| channel(&wide[i..i + 2])))
    };
    let blocks = page.split(":root{").skip(1).map(|rest| rest.split('}').next().unwrap());
    blocks
        .map(|block| {
            let properties = block.split(';').filter_map(|p| p.trim().strip_prefix("--")?.split_once(':'));
            properties.filter_map(|(name, value)| Some((name, colour(value)?))).collect()
        })
        .collect()
}

/// WCAG 2.2: 4.5 for text (success criterion 1.4.3), 3 for what a chart is read by (1.4.11).
#[test]
fn every_palette_has_contrast() {
    let page = page(&sample::demo());
    let palettes = palettes(&page);
    assert_eq!(palettes.len(), 3, "light, dark, print");
    let luminance = |[r, g, b]: [f64; 3]| 0.2126 * r + 0.7152 * g + 0.0722 * b;
    let ratio = |a: [f64; 3], b: [f64; 3]| {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    };
    assert!((ratio([1.0; 3], [0.0; 3]) - 21.0).abs() < 1e-9, "white on black, as WCAG defines it");
    let texts = ["ink", "soft", "link", "good", "careful", "bad"];
    let grounds = ["bg", "card", "head"];
    let pairs = texts.iter().flat_map(|t| grounds.iter().map(move |g| (*t, *g, 4.5)));
    let drawn = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"].map(|s| (s, "card", 3.0));
    let pairs: Vec<(&str, &str, f64)> =
        pairs.chain([("ink", "badbg", 4.5), ("soft", "badbg", 4.5)]).chain(drawn).collect();
    for (index, palette) in palettes.iter().enumerate() {
        for (front, ground, least) in &pairs {
            let found = ratio(palette[front], palette[ground]);
            assert!(found >= *least, "palette {index}: {front} on {ground} has {found:.2}, needs {least}");
        }
    }
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
    new.points[0].rounds.iter_mut().for_each(|round| *round *= 2.0);
    let cell = new.readings().nth(1).unwrap().cell;
    let another = Cell { id: new.cells.len() as u32, test: "another".into(), ..cell.clone() };
    new.points[1].cell = another.id;
    new.cells.push(another);
    let comparison = compare(&old, &new);
    assert_eq!(comparison.matched.len(), old.points.len() - 2);
    let points = |of: &[Reading<'_>]| of.iter().map(|p| p.point.clone()).collect::<Vec<_>>();
    assert_eq!(points(&comparison.only_old), [removed, old.points[2].clone()]);
    assert_eq!(points(&comparison.only_new), [new.points[1].clone()]);
    assert!(comparison.warnings.iter().any(|w| w.contains("kernel differs") && w.contains("6.19.0")));
    assert_eq!(comparison.matched[0].ratio().unwrap().value, 2.0);
    assert_eq!(comparison.matched[0].overlap(), Some(false));
    assert_eq!(comparison.matched[1].ratio().unwrap().value, 1.0);
    let invalid = comparison.matched.iter().find(|m| !m.old.valid).unwrap();
    assert_eq!((invalid.ratio(), invalid.overlap()), (None, None));
    let text = comparison.text(&Options::default());
    for needle in
        ["2.00×", "level", "not comparable", "only in the old run: throughput, wire", "warning: kernel"]
    {
        assert!(text.contains(needle), "{needle} in\n{text}");
    }
    let disturbed = Mark::new(MarkKind::ForeignLoad, "other programs used 0.80 of a core");
    new.points[0].marks.push(disturbed);
    let beside_others = compare(&old, &new);
    assert_eq!((beside_others.matched[0].overlap(), beside_others.matched[1].overlap()), (None, Some(true)));
    let text = beside_others.text(&Options::default());
    assert!(text.contains("other programs ran beside the new run") && !text.contains("better"), "{text}");
    let same = compare(&old, &old);
    assert!(same.only_old.is_empty() && same.only_new.is_empty());
    assert!(!same.warnings.iter().any(|w| w.contains("differs")), "{:?}", same.warnings);
    assert!(same.warnings[0].starts_with("this is one run twice"), "{:?}", same.warnings);
}
