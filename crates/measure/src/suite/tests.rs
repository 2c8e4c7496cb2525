use super::*;
use crate::level::Level;
use crate::plan::{Options, Plan};
use crate::published;
use proptest::prelude::*;

/// A right suite; rows below change one line of it.
const RIGHT: &str = r#"name = "small"
title = "A small suite"
summary = "Shows the least that a suite needs."
published = "tolly"
duts = ["linux"]
[profiles.quick]
rounds = 1
trial_seconds = 0.5
[[test]]
name = "rate"
title = "Throughput"
procedure = "throughput"
factors.frame = [64, 1518]
factors.rules = [0, 4]
factors.match = ["first", "last"]
[test.quick]
factors.frame = 64
"#;

fn outcome(text: &str) -> String {
    let suite = match Suite::parse("small.toml", text) {
        Ok(suite) => suite,
        Err(problems) => return problems.to_string(),
    };
    match Plan::new(&suite, &Options::default()) {
        Ok(plan) => format!("{} cells", plan.cells.len()),
        Err(e) => e.to_string(),
    }
}

/// (what is replaced, by what, what comes of it)
const ROWS: &[(&str, &str, &str)] = &[
    // Without rules the position of the match is nothing, so both levels come to one cell.
    ("", "", "3 cells"),
    (
        "summary = ",
        "sumary = ",
        "small.toml:1:1: a suite has no `summary`\n  write summary = \"What it measures, in a sentence.\"\nsmall.toml:3:1: a suite has no key `sumary`\n  did you mean `summary`?",
    ),
    (
        "duts = [\"linux\"]",
        "duts = []",
        "small.toml:5:8: `duts` is empty\n  write duts = [\"wire\", \"linux\"]",
    ),
    ("duts = [\"linux\"]", "duts = [\"linux\", \"linux\"]", "small.toml:5:18: `linux` is named twice"),
    ("duts = [\"linux\"]", "duts = [4]", "small.toml:5:9: `duts` must be a list of names, not an integer"),
    (
        "\"tolly\"",
        "\"toly\"",
        "small.toml:4:13: no published figures are called `toly`\n  did you mean `tolly`?",
    ),
    (
        "name = \"small\"",
        "name = \"Small suite\"",
        "small.toml:1:8: `name` may not be `Small suite`\n  write lower-case letters, digits and hyphens",
    ),
    (
        "name = \"small\"",
        "name = ",
        "small.toml:1:8: this is not TOML: string values must be quoted, expected literal string\n  write text in quotes: key = \"text\"",
    ),
    ("rounds = 1", "rounds = 0", "small.toml:7:10: `rounds` must lie between 1 and 1000"),
    ("rounds = 1", "rounds = 1.5", "small.toml:7:10: `rounds` must be an integer, not a float"),
    ("rounds = 1", "step = 0.1", "small.toml:6:1: [profiles.quick] has no `rounds`\n  write rounds = 3"),
    (
        "trial_seconds = 0.5",
        "trial_second = 0.5",
        "small.toml:6:1: [profiles.quick] has no `trial_seconds`\n  write trial_seconds = 1\nsmall.toml:8:1: [profiles.quick] has no key `trial_second`\n  did you mean `trial_seconds`?",
    ),
    (
        "trial_seconds = 0.5",
        "trial_seconds = nan",
        "small.toml:8:17: `trial_seconds` must lie between 0.05 and 86400",
    ),
    (
        "[profiles.quick]",
        "[profiles.fast]",
        "small.toml:6:2: a suite needs at least one profile\n  add [profiles.quick] with `rounds` and `trial_seconds`\nsmall.toml:6:11: [profiles] has no key `fast`\n  there are: quick, standard, full\nsmall.toml:16:1: the suite has no [profiles.quick] that [test.quick] could change",
    ),
    (
        "published = \"tolly\"",
        "default_profile = \"full\"",
        "small.toml:4:19: the suite has no profile `full`\n  there are: quick",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"troughput\"",
        "small.toml:12:13: no procedure is called `troughput`\n  did you mean `throughput`?",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"latency\"",
        "small.toml:10:8: profile quick: a latency test needs `loads`\n  write loads = [\"40%\"]: shares of the throughput, or frames a second",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"latency\"\nloads = [\"40 percent\", 0, true]",
        "small.toml:13:10: this is no load\n  a load is frames a second from 1 (100000), a share of the throughput (\"40%\") or of the link (\"40% of link\"), above 0 % and up to 100 %\nsmall.toml:13:24: this is no load\n  a load is frames a second from 1 (100000), a share of the throughput (\"40%\") or of the link (\"40% of link\"), above 0 % and up to 100 %\nsmall.toml:13:27: `loads` must be a list of loads, not a boolean",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"latency\"\nloads = [\"40%\", 1000, \"40.0%\", 1e3]",
        "small.toml:13:23: `loads` has this load twice\n  take one of them out; `latency_repeats` repeats trials\nsmall.toml:13:32: `loads` has this load twice\n  take one of them out; `latency_repeats` repeats trials",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"latency\"\nloads = [\"40% of link\"]",
        "small.toml:10:8: profile quick: a load is a share of the link, but the link has no rate\n  give the factor `link` a rate such as \"100M\"",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"throughput\"\nsearch = \"binary\"",
        "small.toml:13:10: no search is called `binary`\n  there are: mlr, rfc2544, tst009",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"throughput\"\nloads = [\"40%\"]",
        "small.toml:13:1: `loads` means nothing to the procedure `throughput`\n  it belongs to latency",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"throughput\"\nlayout = \"plane\"",
        "small.toml:13:10: no layout is called `plane`\n  did you mean `plain`?",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"throughput\"\nlayout = \"nstl-runs\"\nagainst = \"rate\"",
        "small.toml:14:11: no test before this one is called `rate`\n  there are none",
    ),
    (
        "procedure = \"throughput\"",
        "procedure = \"throughput\"\nagainst = \"other\"",
        "small.toml:13:1: `against` means nothing to this layout\n  write layout = \"nstl-runs\" beside it\nsmall.toml:13:11: no test before this one is called `other`\n  there are none",
    ),
    ("factors.rules", "factors.rule", "small.toml:14:9: no factor is called `rule`\n  did you mean `rules`?"),
    (
        "factors.rules = [0, 4]\n",
        "flows = 10\n",
        "small.toml:14:1: [[test]] number 1 has no key `flows`\n  it is a factor: write factors.flows",
    ),
    (
        "factors.frame = 64\n",
        "cores = 1\n",
        "small.toml:17:1: [test.quick] has no key `cores`\n  it is a factor: write factors.cores",
    ),
    (
        "rounds = 1",
        "rounds = 1\nframe = 64",
        "small.toml:8:1: [profiles.quick] has no key `frame`\n  it is a factor: write factors.frame under a [[test]]",
    ),
    (
        "published = \"tolly\"",
        "rounds = 3",
        "small.toml:4:1: a suite has no key `rounds`\n  it is a parameter: write it under [profiles.quick], or under a [[test]]",
    ),
    (
        "published = \"tolly\"",
        "procedure = \"throughput\"",
        "small.toml:4:1: a suite has no key `procedure`\n  it is a key of a test: write it under [[test]]",
    ),
    (
        "duts = [\"linux\"]\n[profiles.quick]\n",
        "[profiles.quick]\nduts = [\"linux\"]\n",
        "small.toml:1:1: a suite has no `duts`\n  write duts = [\"wire\", \"linux\"]\nsmall.toml:6:1: [profiles.quick] has no key `duts`\n  it is a key of the suite: write it above the first [table]",
    ),
    (
        "factors.rules = [0, 4]",
        "factors.rounds = 3",
        "small.toml:14:9: no factor is called `rounds`\n  it is a parameter: write it without `factors.`",
    ),
    ("[0, 4]", "[0, 4, 0]", "small.toml:14:24: `rules` has the level 0 twice"),
    ("[0, 4]", "[]", "small.toml:14:17: `rules` has no levels\n  it takes 0 (no filter) to 100,000"),
    (
        "[0, 4]",
        "[1.5]",
        "small.toml:14:18: `rules` must be a list of strings, integers or true/false, not a float",
    ),
    (
        "[0, 4]",
        "\"many\"",
        "small.toml:14:17: `many` is no level of `rules`: it takes 0 (no filter) to 100,000",
    ),
    (
        "[64, 1518]",
        "[63]",
        "small.toml:13:18: no Ethernet frame has 63 bytes: sizes go from 64 to 9216, counted with the 4-byte FCS",
    ),
    (
        "[\"first\", \"last\"]",
        "5",
        "small.toml:10:8: profile quick: the match cannot be at rule 5 of a policy without rules: give `rules` a level of 5 or more\n  this is the combination frame = 64, rules = 0, match = 5",
    ),
    (
        "factors.rules = [0, 4]",
        "factors.ip = 6",
        "small.toml:10:8: profile quick: 64 bytes are too few: an IPv6 test frame needs 84 (Ethernet 14 + IPv6 40 + UDP 8 + test payload 18 + FCS 4)\n  this is the combination frame = 64, ip = 6, match = first",
    ),
    ("factors.frame = 64", "skip = true", "small.toml:6:1: every test is left out of quick"),
    ("factors.frame = 64", "skip = 1", "small.toml:17:8: `skip` must be true or false, not an integer"),
    (
        "[[test]]",
        "[[question]]\nask = \"Which?\"\nyes = 'failures != 0'\nof = 'throughput'\n[[test]]",
        "small.toml:10:7: a question is answered from `yes`, or from `of`\n  `yes = 'failures != 0'` for a yes or a no, `of = 'throughput{frame=64}'` for the best firewall, and `by = \"clients\"` beside `of` for the levels of a factor",
    ),
    (
        "[[test]]",
        "[[question]]\nask = \"Which?\"\nof = 'throughput'\nby = \"rule\"\n[[test]]",
        "small.toml:12:6: no factor is called `rule`\n  did you mean `rules`?",
    ),
    ("[[test]]", "[test]", "small.toml:9:1: `test` must be tables, each under [[test]], not a table"),
];

#[test]
fn a_suite_is_read_or_every_problem_is_reported_with_its_place() {
    for (from, to, expected) in ROWS {
        assert!(RIGHT.contains(from), "the row replaces something: {from}");
        let text = RIGHT.replacen(from, to, 1);
        assert_eq!(outcome(&text), *expected, "{from} -> {to}");
    }
}

#[test]
fn what_a_suite_says_beside_its_tests_is_carried_over() {
    let text = format!(
        "{RIGHT}\n[[expect]]\nthat = 'median(throughput) > 0'\nbecause = \"it must\"\n[[tick]]\nsection = \"s\"\n\
         asks = \"a\"\nstatus = \"not-run\"\ndetail = \"d\"\n"
    );
    let suite = Suite::parse("small.toml", &text).expect("a suite");
    let expectation = &suite.expectations[0];
    assert_eq!(expectation.that.value, "median(throughput) > 0");
    assert_eq!(&suite.text[expectation.that.span.clone()], "'median(throughput) > 0'");
    assert_eq!(suite.ticks[0].status, crate::results::TickStatus::NotRun);
    assert_eq!(suite.default_profile, Profile::Quick, "the only profile is the default");
    let problem = suite.problem(expectation.that.span.clone(), "no".into(), None);
    assert_eq!(problem.to_string(), "small.toml:20:8: no");
}

#[test]
fn problems_render_with_the_text_and_a_pointer() {
    let problems = Suite::parse("small.toml", &RIGHT.replace("summary", "sumary")).expect_err("wrong");
    let mut out = String::new();
    for report in problems.reports() {
        miette::NarratableReportHandler::new().render_report(&mut out, report.as_ref()).expect("renders");
    }
    assert!(out.contains("did you mean `summary`?"), "{out}");
    assert!(out.contains("sumary = \"Shows"), "{out}");
}

/// (suite, cells in quick, standard and full, most minutes of the quick profile on the suite's own firewalls)
const BUILTIN: &[(&str, [usize; 3], f64)] = &[
    ("demo", [4, 4, 4], 3.0),
    ("rfc2544", [21, 64, 64], 15.0),
    ("eantc-ip", [16, 64, 80], 11.0),
    ("tolly-udp", [18, 24, 24], 7.0),
    ("tolly-http", [8, 8, 8], 6.0),
    ("eantc-tcp", [19, 19, 19], 7.5),
    ("poliwall", [6, 6, 6], 7.0),
    ("rfc3511", [9, 20, 20], 7.0),
    ("under-load", [4, 4, 4], 6.5),
    ("core", [8, 8, 8], 4.3),
    ("kernel-forwarding", [4, 4, 4], 3.0),
    ("layer-2", [4, 4, 4], 2.5),
    ("classbench", [9, 26, 26], 5.5),
    ("checkpoint", [16, 44, 44], 5.9),
    ("nstl", [18, 18, 18], 5.5),
    ("nstl-http", [18, 18, 18], 7.9),
    ("nstl-runs", [27, 72, 72], 7.9),
    ("nstl-gateway-runs", [45, 120, 120], 4.4),
    ("rfc9411", [12, 34, 34], 14.6),
];

#[test]
fn the_suites_that_ship_plan_as_many_cells_as_they_say_in_as_much_time() {
    assert!(builtin_names().eq(BUILTIN.iter().map(|row| row.0)), "every suite has a row");
    for (name, cells, minutes) in BUILTIN {
        let suite = Suite::parse(name, builtin(name).expect("it ships")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(suite.name, *name);
        for (profile, expected) in Profile::ALL.into_iter().zip(cells) {
            let options = Options { profile: Some(profile), cores_available: Some(2), ..Options::default() };
            let plan = Plan::new(&suite, &options).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(plan.cells.len(), *expected, "{name} {}", profile.name());
            if profile == Profile::Quick {
                let estimate = plan.typical_seconds() / 60.0;
                assert!(
                    estimate > minutes / 2.0,
                    "{name} takes only about {estimate:.1} minutes: its comment is out of date"
                );
                assert!(estimate <= *minutes, "{name} takes about {estimate:.1} minutes");
            }
        }
    }
}

#[test]
fn published_figures_stand_beside_cells_that_ship() {
    let suites: Vec<Suite> = builtin_names()
        .map(|name| Suite::parse(name, builtin(name).expect("it ships")).expect("a suite"))
        .collect();
    for printed in published::names() {
        let figures = published::load(printed).expect("the name exists");
        for row in figures.rows.iter().filter(|row| row.test.is_some()) {
            // A report's figures may stand beside several suites.
            let found =
                suites.iter().filter(|suite| suite.published.as_deref() == Some(printed)).any(|suite| {
                    let options = Options { profile: Some(Profile::Full), ..Options::default() };
                    let plan = Plan::new(suite, &options).expect("a plan");
                    plan.cells.iter().any(|planned| {
                        let mut factors = planned.cell.factors.clone();
                        factors.insert("cores".into(), Level::read("cores", &planned.cell.cores.to_string()));
                        figures.beside(&planned.cell.test, &factors).any(|other| other == row)
                    })
                });
            assert!(found, "{printed}: {} {:?} stands beside no cell", row.place, row.beside);
        }
    }
}

/// The text of `suites/FORMAT.md`.
const FORMAT: &str = include_str!("../../../../suites/FORMAT.md");

#[test]
fn the_format_is_described_in_full_and_its_example_is_right() {
    let example =
        FORMAT.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let suite = Suite::parse("FORMAT.md", example).unwrap_or_else(|e| panic!("{e}"));
    for profile in &suite.profiles {
        let plan = Plan::new(&suite, &Options { profile: Some(*profile), ..Options::default() });
        assert!(!plan.unwrap_or_else(|e| panic!("{e}")).cells.is_empty());
    }
    let described = |name: &str| FORMAT.contains(&format!("| `{name}` |"));
    for name in Factor::ALL.map(Factor::name) {
        assert!(described(name), "factor {name}");
    }
    for name in crate::procedure::keys().map(|key| key.name) {
        assert!(described(name), "parameter {name}");
    }
    for name in
        crate::procedure::PROCEDURES.map(|row| row.name).into_iter().chain(Layout::ALL.map(Layout::name))
    {
        assert!(described(name), "{name}");
    }
    for name in [
        "name",
        "title",
        "summary",
        "source",
        "published",
        "duts",
        "default_profile",
        "skip",
        "shares",
        "part",
        "share",
        "that",
        "because",
    ] {
        assert!(described(name), "key {name}");
    }
}

#[test]
fn the_format_says_how_long_each_suite_takes() {
    for name in builtin_names() {
        let suite = Suite::parse(name, builtin(name).expect("it ships")).expect("a suite");
        let times: Vec<String> = Profile::ALL
            .into_iter()
            .map(|profile| {
                let options = Options { profile: Some(profile), ..Options::default() };
                rough_time(Plan::new(&suite, &options).expect("a plan").typical_seconds())
            })
            .collect();
        let line = format!("| `{name}` | {} |", times.join(" | "));
        assert!(FORMAT.contains(&line), "suites/FORMAT.md should say: {line}");
    }
}

fn rough_time(seconds: f64) -> String {
    if seconds < 3600.0 { format!("{:.0} min", seconds / 60.0) } else { format!("{:.0} h", seconds / 3600.0) }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = Suite::parse("any", &text);
    }

    #[test]
    fn no_damaged_suite_makes_the_parser_or_the_planner_panic(
        which in 0usize..BUILTIN.len(),
        cut in any::<prop::sample::Index>(),
        length in 0usize..40,
        with in r#"[-a-z0-9="\[\]{}.,#é\n ]{0,12}"#,
    ) {
        let name = builtin_names().nth(which).expect("a suite for each row");
        let text = builtin(name).expect("it ships");
        let chars: Vec<char> = text.chars().collect();
        let start = cut.index(chars.len());
        let end = (start + length).min(chars.len());
        let damaged: String = chars[..start].iter().copied().chain(with.chars()).chain(chars[end..].iter().copied()).collect();
        match Suite::parse("damaged", &damaged) {
            Ok(suite) => { let _ = Plan::new(&suite, &Options::default()); }
            Err(problems) => prop_assert!(!problems.list().is_empty()),
        }
    }
}
