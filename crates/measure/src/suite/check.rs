//! From TOML text to a [`Suite`]: reads every table, refuses what it does not know, and goes on after a problem so that
//! one reading tells them all.

use super::mixes::mixes;
use super::{
    Asks, Expectation, FACTORS, Factor, Layout, MAX_COMBINATIONS, Profile, Question, Suite, Test, Value,
    Variant, combination_count, combinations, describe,
};
use crate::mix::Mix;
use crate::procedure::{self, PROCEDURES, Parameters, ProcedureKind, ProcedureRow, own_keys};
use crate::published;
use crate::results::{Tick, TickStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use toml_reader::{Collector, Located, Problems, Section, items, parse, plain_text, wrong_type};

pub(super) fn suite(file: &str, text: &str) -> Result<Suite, Problems> {
    let mut c = Collector::new(file, text).with_home(home);
    let Some(root) = parse(&mut c) else { return Err(c.into_problems()) };
    let root = Section::root(&root, "a suite");
    match read_root(root, file, text, &mut c) {
        Some(suite) if c.is_empty() => Ok(suite),
        _ => Err(c.into_problems()),
    }
}

fn is_parameter(key: &str) -> bool {
    procedure::keys().any(|parameter| parameter.name == key)
}

/// Where a key of one table belongs that stands in another.
fn home(key: &str, table: &str) -> Option<String> {
    const OF_SUITE: [&str; 5] = ["duts", "default_profile", "published", "source", "summary"];
    const OF_TEST: [&str; 4] = ["procedure", "layout", "against", "factors"];
    let is_in_test = table.starts_with("[[test]]") || table.starts_with("[test.");
    let home = if Factor::named(key).is_some() {
        let where_else = if is_in_test { "" } else { " under a [[test]]" };
        format!("it is a factor: write factors.{key}{where_else}")
    } else if is_parameter(key) {
        "it is a parameter: write it under [profiles.quick], or under a [[test]]".to_owned()
    } else if OF_SUITE.contains(&key) {
        "it is a key of the suite: write it above the first [table]".to_owned()
    } else if OF_TEST.contains(&key) {
        "it is a key of a test: write it under [[test]]".to_owned()
    } else {
        return None;
    };
    Some(home)
}

/// `None` only when a problem has been reported.
fn read_root(root: Section<'_>, file: &str, text: &str, c: &mut Collector<'_>) -> Option<Suite> {
    let name = named(root.required_text("name", "\"my-suite\"", c), "name", c);
    let title = root.required_text("title", "\"My suite\"", c);
    let summary = root.required_text("summary", "\"What it measures, in a sentence.\"", c);
    let source = root.text("source", c);
    let published = root.text("published", c);
    if let Some(wanted) = published.as_ref().filter(|p| !published::names().any(|name| name == p.value)) {
        let help = c.suggestion(wanted.value, published::names());
        c.report(wanted.span.clone(), format!("no published figures are called `{}`", wanted.value), help);
    }
    let duts = duts(&root, c);
    let profiles = profiles(&root, c);
    let default_profile = default_profile(&root, &profiles, c);
    let mixes = mixes(&root, c);
    let tests = tests(&root, &profiles, &mixes, c);
    let expectations = expectations(&root, c);
    let questions = questions(&root, c);
    let ticks = ticks(&root, c);
    root.finish(c);
    Some(Suite {
        name: name?,
        title: title?.value.to_owned(),
        summary: summary?.value.to_owned(),
        source: source.map(|s| s.value.to_owned()),
        published: published.map(|p| p.value.to_owned()),
        duts: duts?,
        default_profile: default_profile?,
        profiles: profiles.into_keys().collect(),
        mixes,
        tests,
        expectations,
        questions,
        ticks,
        file: file.to_owned(),
        text: text.to_owned(),
    })
}

pub(super) fn named(name: Option<Located<&str>>, key: &str, c: &mut Collector<'_>) -> Option<String> {
    let name = name?;
    let allowed = |ch: char| ch.is_ascii_lowercase() || ch.is_ascii_digit() || ch == '-';
    if name.value.is_empty() || !name.value.chars().all(allowed) {
        let help = "write lower-case letters, digits and hyphens";
        c.report(name.span, format!("`{key}` may not be `{}`", name.value), Some(help.into()));
        return None;
    }
    Some(name.value.to_owned())
}

fn duts(root: &Section<'_>, c: &mut Collector<'_>) -> Option<Vec<Located<String>>> {
    let Some(value) = root.value("duts") else {
        root.missing("duts", "[\"wire\", \"linux\"]", c);
        return None;
    };
    let mut duts: Vec<Located<String>> = Vec::new();
    for item in items(value) {
        match item.get_ref().as_str() {
            Some(dut) if duts.iter().any(|other| other.value == dut) => {
                c.report(item.span(), format!("`{dut}` is named twice"), None);
            }
            Some(dut) => duts.push(Located { value: dut.to_owned(), span: item.span() }),
            None => {
                wrong_type::<()>(c, "duts", item.span(), item.get_ref(), "a list of names");
            }
        }
    }
    if items(value).is_empty() {
        c.report(value.span(), "`duts` is empty", Some("write duts = [\"wire\", \"linux\"]".into()));
    }
    Some(duts)
}

fn profiles(root: &Section<'_>, c: &mut Collector<'_>) -> BTreeMap<Profile, Located<Parameters>> {
    let mut found = BTreeMap::new();
    let Some(table) = root.section("profiles", "[profiles]", c) else {
        root.missing("profiles", "{ quick = { rounds = 3, trial_seconds = 1 } }", c);
        return found;
    };
    for profile in Profile::ALL {
        let what = format!("[profiles.{}]", profile.name());
        let Some(section) = table.section(profile.name(), what, c) else { continue };
        let parameters = Parameters::read(&section, c);
        for (key, example) in [("rounds", "3"), ("trial_seconds", "1")] {
            if section.value(key).is_none() {
                section.missing(key, example, c);
            }
        }
        let span = section.span.clone();
        section.finish(c);
        found.insert(profile, Located { value: parameters, span });
    }
    if found.is_empty() {
        let help = "add [profiles.quick] with `rounds` and `trial_seconds`";
        c.report(table.span.clone(), "a suite needs at least one profile", Some(help.into()));
    }
    table.finish(c);
    found
}

fn default_profile(
    root: &Section<'_>,
    profiles: &BTreeMap<Profile, Located<Parameters>>,
    c: &mut Collector<'_>,
) -> Option<Profile> {
    let Some(name) = root.text("default_profile", c) else {
        let standard = profiles.contains_key(&Profile::Standard).then_some(Profile::Standard);
        return standard.or_else(|| profiles.keys().next().copied());
    };
    let found = Profile::named(name.value).filter(|profile| profiles.contains_key(profile));
    if found.is_none() {
        let help = c.suggestion(name.value, profiles.keys().map(|p| p.name()));
        c.report(name.span, format!("the suite has no profile `{}`", name.value), help);
    }
    found
}

fn tests(
    root: &Section<'_>,
    profiles: &BTreeMap<Profile, Located<Parameters>>,
    mixes: &[Arc<Mix>],
    c: &mut Collector<'_>,
) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    for section in root.sections("test", c) {
        let Some(test) = test(section, &tests, (profiles, mixes), c) else { continue };
        if tests.iter().any(|other| other.name == test.name) {
            c.report(test.span.clone(), format!("there is another test called `{}`", test.name), None);
        }
        tests.push(test);
    }
    if tests.is_empty() && c.is_empty() {
        c.report(0..0, "a suite needs at least one test", Some("add a [[test]]".into()));
    }
    for (profile, of_profile) in profiles {
        if !tests.is_empty() && tests.iter().all(|test| test.variant(*profile).is_none()) {
            c.report(of_profile.span.clone(), format!("every test is left out of {}", profile.name()), None);
        }
    }
    tests
}

fn test(
    s: Section<'_>,
    before: &[Test],
    (profiles, mixes): (&BTreeMap<Profile, Located<Parameters>>, &[Arc<Mix>]),
    c: &mut Collector<'_>,
) -> Option<Test> {
    let name = s.required_text("name", "\"rate\"", c);
    let span = name.as_ref().map_or(s.span.clone(), |n| n.span.clone());
    let name = named(name, "name", c);
    let title = s.required_text("title", "\"Throughput\"", c);
    let procedure = procedure(&s, c);
    let layout = layout(&s, c);
    let against = against(&s, layout, before, c);
    let factors = factors(&s, "[test.factors]", (procedure, mixes), c);
    let parameters = Parameters::read(&s, c);
    refuse_idle_parameters(&s, procedure, c);

    let mut variants = BTreeMap::new();
    for profile in Profile::ALL {
        let of_profile = profiles.get(&profile).map(|p| &p.value);
        let own = own_part(&s, profile, of_profile.is_some(), (procedure, mixes), c);
        let Some(of_profile) = of_profile.filter(|_| !own.skip) else { continue };
        let mut all_factors = factors.clone();
        all_factors.extend(own.factors);
        let parameters = own.parameters.or(&parameters).or(of_profile);
        variants.insert(profile, Variant { factors: all_factors, parameters });
    }
    s.finish(c);

    let test = Test {
        name: name?,
        title: title?.value.to_owned(),
        procedure: procedure?,
        layout: layout?,
        against,
        span,
        variants,
    };
    check_variants(&test, c);
    Some(test)
}

/// What a test changes for one profile.
#[derive(Default)]
struct OwnPart {
    skip: bool,
    factors: BTreeMap<Factor, Vec<Value>>,
    parameters: Parameters,
}

/// Reads `[test.PROFILE]`; nothing is changed where there is none.
fn own_part(
    test: &Section<'_>,
    profile: Profile,
    suite_has_it: bool,
    (procedure, mixes): (Option<ProcedureKind>, &[Arc<Mix>]),
    c: &mut Collector<'_>,
) -> OwnPart {
    let name = profile.name();
    let Some(s) = test.section(name, format!("[test.{name}]"), c) else { return OwnPart::default() };
    if !suite_has_it {
        let message = format!("the suite has no [profiles.{name}] that [test.{name}] could change");
        c.report(s.span.clone(), message, None);
    }
    let own = OwnPart {
        skip: s.flag("skip", c).unwrap_or(false),
        factors: factors(&s, &format!("[test.{name}.factors]"), (procedure, mixes), c),
        parameters: Parameters::read(&s, c),
    };
    refuse_idle_parameters(&s, procedure, c);
    s.finish(c);
    own
}

fn procedure(s: &Section<'_>, c: &mut Collector<'_>) -> Option<ProcedureKind> {
    let name = s.required_text("procedure", "\"throughput\"", c)?;
    let found = ProcedureRow::named(name.value);
    if found.is_none() {
        let help = c.suggestion(name.value, PROCEDURES.map(|row| row.name));
        c.report(name.span, format!("no procedure is called `{}`", name.value), help);
    }
    found
}

fn layout(s: &Section<'_>, c: &mut Collector<'_>) -> Option<Layout> {
    let Some(name) = s.text("layout", c) else { return Some(Layout::Plain) };
    let found = Layout::named(name.value);
    if found.is_none() {
        let help = c.suggestion(name.value, Layout::ALL.map(Layout::name));
        c.report(name.span, format!("no layout is called `{}`", name.value), help);
    }
    found
}

/// The test that this one is shown as a difference from.
fn against(
    s: &Section<'_>,
    layout: Option<Layout>,
    before: &[Test],
    c: &mut Collector<'_>,
) -> Option<String> {
    let name = s.text("against", c)?;
    if layout.is_some_and(|layout| layout != Layout::NstlRuns) {
        let help = Some(format!("write layout = {:?} beside it", Layout::NstlRuns.name()));
        c.report(s.key_span("against"), "`against` means nothing to this layout", help);
    }
    if !before.iter().any(|test| test.name == name.value) {
        let help = c.suggestion(name.value, before.iter().map(|test| test.name.as_str()));
        c.report(name.span, format!("no test before this one is called `{}`", name.value), help);
    }
    Some(name.value.to_owned())
}

/// A parameter that means nothing to the test's procedure would be a silent slip.
fn refuse_idle_parameters(s: &Section<'_>, procedure: Option<ProcedureKind>, c: &mut Collector<'_>) {
    let Some(procedure) = procedure else { return };
    let takes = |row: ProcedureKind, name| row.keys.iter().any(|key| key.name == name);
    for key in own_keys().filter(|key| !takes(procedure, key.name)) {
        let Some(written) = key.written_in(s) else { continue };
        let users = PROCEDURES.into_iter().filter(|row| takes(row, key.name));
        let names: Vec<&str> = users.map(|row| row.name).collect();
        let message = format!("`{written}` means nothing to the procedure `{}`", procedure.name);
        c.report(s.key_span(written), message, Some(format!("it belongs to {}", names.join(", "))));
    }
}

fn factors(
    s: &Section<'_>,
    what: &str,
    (procedure, mixes): (Option<ProcedureKind>, &[Arc<Mix>]),
    c: &mut Collector<'_>,
) -> BTreeMap<Factor, Vec<Value>> {
    let mut found = BTreeMap::new();
    let Some(table) = s.section("factors", what, c) else { return found };
    for (key, value) in table.entries() {
        let Some(factor) = Factor::named(key.value) else {
            let help = match is_parameter(key.value) {
                true => Some("it is a parameter: write it without `factors.`".to_owned()),
                false => c.suggestion(key.value, Factor::ALL.map(Factor::name)),
            };
            c.report(key.span, format!("no factor is called `{}`", key.value), help);
            continue;
        };
        if let Some(procedure) = procedure.filter(|procedure| !factor.matters_to(procedure)) {
            let message = format!("`{}` means nothing to the procedure `{}`", key.value, procedure.name);
            c.report(key.span, message, Some(format!("it belongs to {}", factor.procedures())));
            continue;
        }
        let mut levels: Vec<Value> = Vec::new();
        for item in items(value) {
            let Some(text) = plain_text(item.get_ref()) else {
                wrong_type::<()>(
                    c,
                    key.value,
                    item.span(),
                    item.get_ref(),
                    "a list of strings, integers or true/false",
                );
                continue;
            };
            match factor.parse_among(&text, mixes) {
                Ok(level) if levels.contains(&level) => {
                    c.report(item.span(), format!("`{}` has the level {level} twice", key.value), None);
                }
                Ok(level) => levels.push(level),
                Err(why) => c.report(item.span(), why, None),
            }
        }
        if items(value).is_empty() {
            let help = format!("it takes {}", factor.levels());
            c.report(value.span(), format!("`{}` has no levels", key.value), Some(help));
        }
        found.insert(factor, levels);
    }
    found
}

/// Whatever is wrong with a combination is wrong with the suite, so it is reported before anything is measured.
fn check_variants(test: &Test, c: &mut Collector<'_>) {
    let mut reported: Vec<String> = Vec::new();
    for (profile, variant) in &test.variants {
        let problem = variant_problem(test, variant);
        let Some((message, help)) = problem.filter(|(message, _)| !reported.contains(message)) else {
            continue;
        };
        reported.push(message.clone());
        c.report(test.span.clone(), format!("profile {}: {message}", profile.name()), help);
    }
}

fn variant_problem(test: &Test, variant: &Variant) -> Option<(String, Option<String>)> {
    let count = combination_count(&variant.factors);
    if count > MAX_COMBINATIONS {
        return Some((format!("{count} combinations of levels are more than {MAX_COMBINATIONS}"), None));
    }
    if let Some((key, help)) = variant.parameters.lacks(test.procedure.keys) {
        let message = format!("a {} test needs `{key}`", test.procedure.name);
        return Some((message, Some(help.into())));
    }
    let cells = match combinations(test.procedure, &variant.factors, 0) {
        Ok(cells) => cells,
        Err((levels, problem)) => {
            return Some((problem.to_string(), Some(format!("this is the combination {levels}"))));
        }
    };
    for (levels, setup) in &cells {
        if let Err(problem) = variant.check(test.procedure, levels, setup) {
            let help = format!("this is the combination {}", describe(levels, &variant.factors));
            return Some((problem.to_string(), Some(help)));
        }
    }
    if variant.needs_link() && cells.iter().any(|(_, setup)| setup.link_bits_per_second.is_none()) {
        let help = "give the factor `link` a rate such as \"100M\"";
        return Some(("a load is a share of the link, but the link has no rate".into(), Some(help.into())));
    }
    None
}

fn expectations(root: &Section<'_>, c: &mut Collector<'_>) -> Vec<Expectation> {
    let mut found = Vec::new();
    for section in root.sections("expect", c) {
        let that = section.required_text("that", "'median(throughput) > 0'", c);
        let because = section.text("because", c).map(|b| b.value.to_owned());
        section.finish(c);
        let owned = |that: Located<&str>| Located { value: that.value.to_owned(), span: that.span };
        found.extend(that.map(|that| Expectation { that: owned(that), because }));
    }
    found
}

fn questions(root: &Section<'_>, c: &mut Collector<'_>) -> Vec<Question> {
    let mut found = Vec::new();
    for section in root.sections("question", c) {
        let ask = section.required_text("ask", "\"Does any connection fail?\"", c);
        let (yes, of, by) = (section.text("yes", c), section.text("of", c), section.text("by", c));
        section.finish(c);
        if let Some(by) = by.as_ref().filter(|by| Factor::named(by.value).is_none()) {
            let help = c.suggestion(by.value, FACTORS.iter().map(|row| row.words.key));
            c.report(by.span.clone(), format!("no factor is called `{}`", by.value), help);
        }
        let Some(ask) = ask else { continue };
        let owned = |text: Located<&str>| Located { value: text.value.to_owned(), span: text.span };
        let asks = match (yes, of, &by) {
            (Some(yes), None, None) => Asks::Yes(owned(yes)),
            (None, Some(of), by) => Asks::Of(owned(of), by.as_ref().map(|by| by.value.to_owned())),
            _ => {
                let help = "`yes = 'failures != 0'` for a yes or a no, `of = 'throughput{frame=64}'` for the best firewall, and \
                            `by = \"clients\"` beside `of` for the levels of a factor";
                c.report(ask.span, "a question is answered from `yes`, or from `of`", Some(help.into()));
                continue;
            }
        };
        found.push(Question { ask: ask.value.to_owned(), asks });
    }
    found
}

fn ticks(root: &Section<'_>, c: &mut Collector<'_>) -> Vec<Tick> {
    let mut found = Vec::new();
    for section in root.sections("tick", c) {
        let of = section.required_text("section", "\"RFC 2544 section 26.1\"", c);
        let asks = section.required_text("asks", "\"what it asks for\"", c);
        let status = section.required_text("status", "\"met\"", c).and_then(|s| tick_status(s, c));
        let detail = section.required_text("detail", "\"how it is met\"", c);
        section.finish(c);
        if let (Some(of), Some(asks), Some(status), Some(detail)) = (of, asks, status, detail) {
            found.push(Tick {
                section: of.value.to_owned(),
                asks: asks.value.to_owned(),
                status,
                detail: detail.value.to_owned(),
            });
        }
    }
    found
}

fn tick_status(text: Located<&str>, c: &mut Collector<'_>) -> Option<TickStatus> {
    match text.value {
        "met" => Some(TickStatus::Met),
        "deviated" => Some(TickStatus::Deviated),
        "not-run" => Some(TickStatus::NotRun),
        other => {
            let help = c.suggestion(other, ["met", "deviated", "not-run"]);
            c.report(text.span, format!("no status is called `{other}`"), help);
            None
        }
    }
}
