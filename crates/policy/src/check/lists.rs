//! Lists of addresses: where each comes from and what it is bound to. What is on them is not known here.

use super::Kind;
use super::names::Names;
use crate::address::AddressSet;
use crate::lists::{Broken, Ends, List, MAX_LISTS};
use crate::model::Rule;
use crate::schema;
use toml_reader::{Collector, Located, Section, shortened, texts};

const KIND: Kind = Kind {
    key: "lists",
    one: "list",
    form: "a table with `file` or `entries`",
    reserved: &[],
    keys: schema::LIST,
};

pub(super) fn read<'t>(
    root: &Section<'t>,
    objects: &mut Names<'t, AddressSet>,
    c: &mut Collector<'_>,
) -> Vec<List> {
    let mut lists = Vec::new();
    for (name, section) in KIND.sections(root, c) {
        lists.extend(list(&name, &section, objects, c));
    }
    if let Some(one_too_many) = lists.get(MAX_LISTS) {
        let help = format!("it can have {MAX_LISTS}: put files together, or bind one list to more");
        c.report(one_too_many.span.clone(), "the policy has too many lists", Some(help));
        lists.truncate(MAX_LISTS);
    }
    lists
}

fn list<'t>(
    name: &Located<&'t str>,
    section: &Section<'t>,
    objects: &mut Names<'t, AddressSet>,
    c: &mut Collector<'_>,
) -> Option<List> {
    let file = section.text("file", c);
    if let Some(empty) = file.as_ref().filter(|file| file.value.is_empty()) {
        let help = "write the file's name, from the folder of the policy on: \"feeds/bad.txt\"".to_owned();
        c.report(empty.span.clone(), "`file` is empty", Some(help));
    }
    let countries = countries(section, file.is_some(), c)?;
    let entries = addresses(section, "entries", objects, c)?;
    let except = addresses(section, "except", objects, c)?;
    let mut ends = |key| section.choice(key, &Ends::NAMES, c).unwrap_or_default();
    let (block, require) = (ends("block"), ends("require"));
    let log = section.flag("log", c).unwrap_or(false);
    let broken = section.choice("broken", &Broken::NAMES, c).unwrap_or_default();
    if section.value("file").is_none() && entries.is_empty() {
        let help = "write file = \"bad.txt\", or entries = [\"192.0.2.0/24\"]".to_owned();
        c.report(name.span.clone(), format!("nothing is on the list `{}`", name.value), Some(help));
    }
    let has = |key| section.value(key).is_some();
    if !has("block") && !has("require") {
        let help =
            "write block = \"both\" to refuse what is on it, or require = \"source\" to refuse what is not"
                .to_owned();
        c.report(name.span.clone(), format!("the list `{}` is bound to nothing", name.value), Some(help));
    }
    if (block.source && require.source) || (block.destination && require.destination) {
        let help = "take one of `block` and `require` out, or give each its own end".to_owned();
        c.report(
            section.key_span("require"),
            "nothing would pass: what is on the list is refused, and what is not",
            Some(help),
        );
    }
    Some(List {
        name: name.value.to_owned(),
        file: file.map(|file| file.value.to_owned()),
        entries,
        except,
        countries,
        block,
        require,
        log,
        broken,
        span: name.span.clone(),
    })
}

fn addresses<'t>(
    section: &Section<'t>,
    key: &'static str,
    objects: &mut Names<'t, AddressSet>,
    c: &mut Collector<'_>,
) -> Option<AddressSet> {
    let Some(value) = section.value(key) else { return Some(AddressSet::default()) };
    let words = texts(value, key, c)?;
    objects.set(&words, c).map(|set| (*set).clone())
}

/// Codes of countries, in upper case.
fn countries(section: &Section<'_>, has_file: bool, c: &mut Collector<'_>) -> Option<Vec<String>> {
    let Some(value) = section.value("countries") else { return Some(Vec::new()) };
    if !has_file {
        let help =
            "write file = \"countries.csv\", with a network and a code a line: 192.0.2.0/24,CH".to_owned();
        c.report(section.key_span("countries"), "`countries` needs a `file` that knows them", Some(help));
    }
    let codes = texts(value, "countries", c)?;
    for code in &codes {
        if code.value.len() != 2 || !code.value.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            let help = "write two letters (ISO 3166): \"CH\"".to_owned();
            c.report(
                code.span.clone(),
                format!("`{}` is not the code of a country", shortened(code.value)),
                Some(help),
            );
        }
    }
    Some(codes.iter().map(|code| code.value.to_ascii_uppercase()).collect())
}

/// Counters go by names, and a list has one too.
pub(super) fn check_counters(lists: &[List], rules: &[Rule], c: &mut Collector<'_>) {
    for list in lists {
        let counter = list.counter();
        if let Some(rule) = rules.iter().find(|rule| rule.name == counter) {
            let help = "give the rule another name".to_owned();
            c.report(
                rule.span.clone(),
                format!("`{counter}` is the name of the counter of a list"),
                Some(help),
            );
        }
    }
}
