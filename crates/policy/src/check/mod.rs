//! From text to a checked policy. Every part is read even if another part has mistakes, so that all of them are reported together.

mod bridges;
mod exports;
mod gateways;
mod lists;
mod names;
mod nat;
mod rules;
mod scans;
mod schedules;
mod settings;
mod source_ports;
mod syn_proxy;
mod zones;

use crate::model::{Object, Policy, Service};
use crate::schema;
use crate::service::ServiceSet;
use crate::words::ELSEWHERE;
use lists::ListNames;
use names::{Addresses, Names};
use std::ops::Range;
use std::sync::Arc;
use toml_reader::{Collector, DeValue, Located, Problems, Section, Value, parse, shortened, wrong_type};

pub(crate) fn policy(file: &str, text: &str) -> Result<Policy, Problems> {
    let mut c = Collector::knowing(&ELSEWHERE, file, text).with_home(|key, _| schema::home(key));
    let Some(table) = parse(&mut c) else { return Err(c.into_problems()) };
    let root = Section::root(&table, "a policy").only(schema::ROOT.keys, &mut c);
    refuse_later_parts(&root, &mut c);
    match read(&root, file, text, &mut c) {
        Some(policy) if c.is_empty() => Ok(policy),
        _ if c.is_empty() => unreachable!("what could not be read has left a problem"),
        _ => Err(c.into_problems()),
    }
}

fn is_name(name: &str) -> bool {
    let good = |ch: char| ch.is_ascii_alphanumeric() || ch == '-' || ch == '_';
    name.len() <= 63 && name.starts_with(|ch: char| ch.is_ascii_alphabetic()) && name.chars().all(good)
}

/// Returns false after reporting a name that is one of the `reserved` ones. One that is malformed is reported and kept: what it names is
/// looked at all the same, and whatever names it is right about that.
fn check_name(what: &str, name: &Located<&str>, reserved: &[&str], c: &mut Collector<'_>) -> bool {
    let shown = shortened(name.value);
    if reserved.contains(&name.value) {
        c.report(
            name.span.clone(),
            format!("the name `{shown}` is taken"),
            Some(format!("choose another name for this {what}")),
        );
        return false;
    }
    if !is_name(name.value) {
        let help =
            "letters from A to Z, digits, `-` and `_`, no spaces, a letter first, at most 63".to_owned();
        let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        c.report(name.span.clone(), format!("`{shown}` cannot be the name of {article} {what}"), Some(help));
    }
    true
}

fn read(root: &Section<'_>, file: &str, text: &str, c: &mut Collector<'_>) -> Option<Policy> {
    let mut settings = settings::read(root, c);
    settings.exports = exports::read(root, c);
    let mut objects = Names::<Addresses>::read(root, "objects", c);
    objects.lists = ListNames::read(root, c);
    let mut services = Names::<ServiceSet>::read(root, "services", c);
    let zones = zones::read(root, &mut objects, c);
    let bridges = bridges::read(root, settings.forwarding, &zones, c);
    let mut lists = lists::read(root, &mut objects, c);
    let scans = scans::read(root, &mut objects, c);
    let schedules = schedules::read(root, c);
    let gateways = gateways::read(root, &schedules, &mut objects, c);
    let known = gateways::Gateways { root, found: &gateways, forwarding: settings.forwarding };
    let rules = rules::read(root, &zones, &schedules, &mut objects, &mut services, &known, c);
    known.check_data(&rules, c);
    let translations = nat::read(root, settings.forwarding, &zones, &mut objects, &mut services, c);
    let defaults = rules::defaults(root, &zones, c);
    let (objects, list_names) = objects.finish(c);
    let (services, _) = services.finish(c);
    list_names.check_bound(&lists, c);
    lists.extend(list_names.others());
    list_names.check_domains(&gateways, c);
    lists::check_counters(&lists, &rules, c);
    lists::check_pairs(&rules, c);
    if !c.is_empty() {
        return None;
    }
    let mut unused: Vec<(String, Range<usize>)> = Vec::new();
    let mut note = |what: &str, name: &str, span: &Range<usize>| {
        unused.push((format!("the {what} `{name}`"), span.clone()));
    };
    objects.iter().filter(|d| !d.used).for_each(|d| note("object", d.name, &d.span));
    services.iter().filter(|d| !d.used).for_each(|d| note("service", d.name, &d.span));
    for (i, (schedule, span)) in schedules.iter().enumerate() {
        let of_gateways = gateways.iter().flat_map(|gateway| &gateway.rules).map(|rule| rule.schedule);
        if !rules.iter().map(|rule| rule.schedule).chain(of_gateways).any(|used| used == Some(i)) {
            note("schedule", &schedule.name, span);
        }
    }
    if let Some(span) = list_names.unused_countries() {
        unused.push((
            "`[countries]`: no rule names a country, such as \"country:CH\"".to_owned(),
            span.clone(),
        ));
    }
    unused.extend(gateways::users::unused(root));
    if root.value("domains").is_some() && lists.iter().all(|list| list.domain().is_none()) {
        let what = "`[domains]`: no rule names a domain, such as \"domain:updates.example.net\"";
        unused.push((what.to_owned(), root.key_span("domains")));
    }
    Some(Policy {
        file: file.to_owned(),
        text: text.to_owned(),
        folder: None,
        zones: zones.into_iter().map(|(zone, _)| zone).collect(),
        bridges,
        objects: objects
            .into_iter()
            .map(|d| Object {
                name: d.name.to_owned(),
                addresses: d.set.own.clone(),
                lists: d.set.lists,
                span: d.span,
            })
            .collect(),
        services: services
            .into_iter()
            .map(|d| Service { name: d.name.to_owned(), keys: d.set, span: d.span })
            .collect(),
        lists,
        schedules: schedules.into_iter().map(|(schedule, _)| schedule).collect(),
        rules,
        translations,
        gateways,
        defaults,
        scans,
        settings,
        unused,
    })
}

/// What the user names in a table of tables, such as `[zones]`.
struct Kind {
    /// The table of tables.
    key: &'static str,
    /// One of it, in a message.
    one: &'static str,
    /// What one is written as, in a message.
    form: &'static str,
    /// Names that nobody may choose.
    reserved: &'static [&'static str],
    keys: schema::Table,
}

impl Kind {
    /// Those whose form is right and whose name is free, in the order of the text.
    fn sections<'t>(
        &self,
        root: &Section<'t>,
        c: &mut Collector<'_>,
    ) -> Vec<(Located<&'t str>, Section<'t>)> {
        let mut found = Vec::new();
        for (name, value) in named(root, self.key, c) {
            let DeValue::Table(table) = value.get_ref() else {
                wrong_type(c, name.value, value.span(), value.get_ref(), self.form).unwrap_or(());
                c.refuse(name.value);
                continue;
            };
            if check_name(self.one, &name, self.reserved, c) {
                let what = format!("the {} `{}`", self.one, name.value);
                let section = Section::new(table, name.span.clone(), what).only(self.keys.keys, c);
                found.push((name, section));
            }
        }
        found
    }
}

/// The entries of a table whose keys the user chooses, such as `[zones]`, in the order of the text.
fn named<'t>(
    root: &Section<'t>,
    key: &'static str,
    c: &mut Collector<'_>,
) -> Vec<(Located<&'t str>, &'t Value<'t>)> {
    root.section(key, format!("[{key}]"), c).map_or_else(Vec::new, |section| section.entries())
}

/// Refuses parts of the language that this version cannot carry out, because a policy that is carried out in part is worse than
/// none.
fn refuse_later_parts(root: &Section<'_>, c: &mut Collector<'_>) {
    for (key, what, kind) in schema::LATER {
        let Some(value) = root.value(key) else { continue };
        let help = format!(
            "take `{key}` out: it is specified in docs/guide/policy.md, and comes with a later version"
        );
        c.report(root.key_span(key), format!("this version has no {what}"), Some(help));
        check_later_keys(key, kind, value, c);
    }
}

fn check_later_keys(key: &'static str, kind: schema::Table, value: &Value<'_>, c: &mut Collector<'_>) {
    let open = |value: &Value<'_>, c: &mut Collector<'_>| match value.get_ref() {
        DeValue::Table(table) => {
            Section::new(table, value.span(), kind.header).only(kind.keys, c);
        }
        other => {
            wrong_type(c, key, value.span(), other, &format!("a table, under {}", kind.header)).unwrap_or(())
        }
    };
    match value.get_ref() {
        DeValue::Array(items) => items.iter().for_each(|item| open(item, c)),
        DeValue::Table(table) if kind.header.contains(".NAME") => {
            table.iter().for_each(|(_, item)| open(item, c))
        }
        _ => open(value, c),
    }
}

struct Defined<'t, S> {
    name: &'t str,
    set: Arc<S>,
    span: Range<usize>,
    used: bool,
}
