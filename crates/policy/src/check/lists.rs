//! Lists of addresses: where each comes from and what it is bound to. What is on them is not known here.

use super::names::{Addresses, Names};
use super::settings::duration;
use super::{Kind, named};
use crate::address::AddressSet;
use crate::form::asked_lists;
use crate::gateways::{Gateway, Protocol};
use crate::hosts;
use crate::lists::{
    Broken, COUNTRY_PREFIX, DOMAIN_PREFIX, Ends, HTTPS, LIST_PREFIX, List, ListSet, MAX_LISTS, Origin,
};
use crate::model::Rule;
use crate::schema;
use crate::tables::MAX_LISTED_SERIES;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;
use toml_reader::{Collector, Located, Section, shortened, texts};

const KIND: Kind = Kind {
    key: "lists",
    one: "list",
    form: "a table with `file`, `command`, `url` or `entries`",
    reserved: &[],
    keys: schema::LIST,
};

pub(super) fn read<'t>(
    root: &Section<'t>,
    objects: &mut Names<'t, Addresses>,
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
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<List> {
    let origin = origin(section, c)?;
    let is_read = origin != Origin::Policy;
    let countries = countries(section, is_read, c)?;
    let entries = addresses(section, "entries", objects, c)?;
    let except = addresses(section, "except", objects, c)?;
    let mut ends = |key| section.choice(key, &Ends::NAMES, c).unwrap_or_default();
    let (block, require) = (ends("block"), ends("require"));
    let log = section.flag("log", c).unwrap_or(false);
    let broken = section.choice("broken", &Broken::NAMES, c).unwrap_or_default();
    let refresh = refresh(section, &origin, c);
    let expires = expires(section, c);
    if section.value("log").is_some() && !block.is_any() && !require.is_any() {
        let help = "write log = true in the rules that name the list, and take it out here".to_owned();
        let message = "`log` is about what `block` and `require` refuse, and the list has neither";
        c.report(section.key_span("log"), message, Some(help));
    }
    if !is_read {
        refuse_keys_of_sources(section, c);
    }
    if !is_read && entries.is_empty() {
        let help = "write file = \"bad.txt\", or entries = [\"192.0.2.0/24\"]".to_owned();
        c.report(name.span.clone(), format!("nothing is on the list `{}`", name.value), Some(help));
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
        origin,
        entries,
        except,
        countries,
        block,
        require,
        log,
        broken,
        refresh,
        expires,
        span: name.span.clone(),
    })
}

/// Of a list that the policy itself writes nothing is read again, and no line is broken.
fn refuse_keys_of_sources(section: &Section<'_>, c: &mut Collector<'_>) {
    for (key, why) in [
        ("broken", "what the policy itself writes is refused where it cannot be read"),
        ("refresh", "what the policy itself writes changes with the policy"),
    ] {
        if section.value(key).is_some() {
            let message = format!("`{key}` needs a `file`, a `command` or a `url`");
            c.report(section.key_span(key), message, Some(format!("take `{key}` out: {why}")));
        }
    }
}

fn addresses<'t>(
    section: &Section<'t>,
    key: &'static str,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<AddressSet> {
    let Some(value) = section.value(key) else { return Some(AddressSet::default()) };
    let words = texts(value, key, c)?;
    objects.written_out(&words, c).map(|set| (*set).clone())
}

/// Keys that say where a list comes from, of which it has one.
const ORIGINS: [&str; 3] = ["file", "command", "url"];

/// Words and bytes that a command may have: more is no command, and the kernel has limits, too.
const MOST_WORDS: usize = 64;
const MOST_BYTES: usize = 4096;

/// Where a list comes from; `None` if what is written there cannot be read.
fn origin(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Origin> {
    let written: Vec<_> = ORIGINS.into_iter().filter(|key| section.value(key).is_some()).collect();
    if let [first, second, ..] = written.as_slice() {
        let help = format!("take one out, or make two lists: `{first}` and `{second}` are two sources");
        c.report(section.key_span(second), "a list comes from one place", Some(help));
        return None;
    }
    match written.first().copied() {
        Some("command") => command(section, c).map(Origin::Command),
        Some("url") => url(section, c).map(Origin::Url),
        Some(_) => {
            let file = section.text("file", c)?;
            if file.value.is_empty() {
                let help =
                    "write the file's name, from the folder of the policy on: \"feeds/bad.txt\"".to_owned();
                c.report(file.span, "`file` is empty", Some(help));
            }
            Some(Origin::File(file.value.to_owned()))
        }
        None => Some(Origin::Policy),
    }
}

/// A program and its arguments: no shell reads them.
fn command(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Vec<String>> {
    const HELP: &str = "write each word as a string of its own: command = [\"curl\", \"--fail\", \"https://example.org/bad.txt\"]";
    let words = texts(section.value("command")?, "command", c)?;
    let program = words.first()?;
    let bytes: usize = words.iter().map(|word| word.value.len() + 1).sum();
    let wrong = if words.len() == 1 && program.value.contains(char::is_whitespace) {
        Some("`command` is run without a shell, and this is one word")
    } else if program.value.is_empty() {
        Some("`command` names no program")
    } else if program.value.contains('/') && !program.value.starts_with('/') {
        Some("the program of `command` is neither a plain name nor named from the root on")
    } else if words.iter().any(|word| word.value.contains('\0')) {
        Some("`command` has a byte that no argument can have")
    } else if words.len() > MOST_WORDS || bytes > MOST_BYTES {
        Some("`command` is too long: it may have 64 words and 4096 bytes")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        c.report(program.span.clone(), wrong, Some(HELP.to_owned()));
        return None;
    }
    Some(words.iter().map(|word| word.value.to_owned()).collect())
}

/// An address of the web.
fn url(section: &Section<'_>, c: &mut Collector<'_>) -> Option<String> {
    let url = section.text("url", c)?;
    let is_plain = url.value.bytes().all(|byte| byte.is_ascii_graphic()) && url.value.len() <= MOST_BYTES / 2;
    let host = url.value.strip_prefix(HTTPS).filter(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if host.is_none() || !is_plain {
        let help = "write url = \"https://example.org/bad.txt\"; whoever fetches in another way writes the command: \
                    command = [\"curl\", \"--fail\", \"http://192.0.2.1/bad.txt\"]";
        let message = "`url` is no address that begins with https://".to_owned();
        c.report(url.span, message, Some(help.to_owned()));
        return None;
    }
    Some(url.value.to_owned())
}

/// How often a file is looked at, or a list is fetched, which must be said.
fn refresh(section: &Section<'_>, origin: &Origin, c: &mut Collector<'_>) -> Option<Duration> {
    if origin.command().is_some() && section.value("refresh").is_none() {
        section.missing("refresh", "\"1h\": what a command prints is fetched so often", c);
    }
    duration(section, "refresh", Duration::from_secs(5)..=Duration::from_secs(30 * 86_400), c)
}

/// When all entries end.
fn expires(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Timestamp> {
    let moment = section.text("expires", c)?;
    let found = moment.value.parse().ok();
    if found.is_none() {
        let help = "write expires = \"2026-12-31T23:00:00Z\"".to_owned();
        let message = format!("`{}` is no time with its zone", shortened(moment.value));
        c.report(moment.span, message, Some(help));
    }
    found
}

/// Codes of countries, in upper case.
fn countries(section: &Section<'_>, is_read: bool, c: &mut Collector<'_>) -> Option<Vec<String>> {
    let Some(value) = section.value("countries") else { return Some(Vec::new()) };
    if !is_read {
        let help =
            "write file = \"countries.csv\", with a network and a code a line: 192.0.2.0/24,CH".to_owned();
        c.report(
            section.key_span("countries"),
            "`countries` needs a `file`, a `command` or a `url` that knows them",
            Some(help),
        );
    }
    let codes = texts(value, "countries", c)?;
    for code in &codes {
        if !is_country(code.value) {
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

/// Lists, countries and domains as rules name them.
#[derive(Default)]
pub(super) struct ListNames<'t> {
    /// Of the text, in its order.
    names: Vec<&'t str>,
    /// Those that something has named, by their places.
    named: ListSet,
    /// What else something has named; these lists are behind those of the text.
    others: Vec<(Other, Range<usize>)>,
    /// Where countries are from.
    source: Option<Countries>,
}

/// A list that has no table in the text.
#[derive(PartialEq, Eq)]
enum Other {
    /// In upper case.
    Country(String),
    /// In small letters.
    Domain(String),
}

/// The table of countries.
struct Countries {
    origin: Origin,
    broken: Broken,
    refresh: Option<Duration>,
    span: Range<usize>,
}

type Mistake = (String, Option<String>);

impl<'t> ListNames<'t> {
    pub(super) fn read(root: &Section<'t>, c: &mut Collector<'_>) -> Self {
        let names = named(root, KIND.key, c).into_iter().map(|(name, _)| name.value).collect();
        let source = schema::COUNTRIES.section(root, "countries", c).and_then(|section| {
            let origin = origin(&section, c)?;
            if origin == Origin::Policy {
                section.missing("file", "\"countries.mmdb\", or a table such as \"countries.csv\"", c);
                return None;
            }
            let broken = section.choice("broken", &Broken::NAMES, c).unwrap_or_default();
            let refresh = refresh(&section, &origin, c);
            Some(Countries { origin, broken, refresh, span: section.span.clone() })
        });
        Self { names, source, ..Self::default() }
    }

    /// The place of the list of a word such as `list:bad`, `country:CH` or `domain:example.org`; `None` if it is no such word.
    pub(super) fn number_of(&mut self, word: &Located<&'t str>) -> Option<Result<u8, Mistake>> {
        if let Some(name) = word.value.strip_prefix(LIST_PREFIX) {
            return Some(self.list(name));
        }
        if let Some(name) = word.value.strip_prefix(DOMAIN_PREFIX) {
            return Some(self.domain(name, &word.span));
        }
        let code = word.value.strip_prefix(COUNTRY_PREFIX)?;
        Some(self.country(code, &word.span))
    }

    fn list(&mut self, name: &str) -> Result<u8, Mistake> {
        let place = self.names.iter().position(|other| *other == name).filter(|place| *place < MAX_LISTS);
        let place = place.ok_or_else(|| {
            let help = match self.names.as_slice() {
                [] => "the policy has no lists: write [lists.NAME]".to_owned(),
                names => format!("there are: {}", names.join(", ")),
            };
            (format!("there is no list `{}`", shortened(name)), Some(help))
        })?;
        self.named |= 1 << place;
        Ok(place as u8)
    }

    fn country(&mut self, code: &str, span: &Range<usize>) -> Result<u8, Mistake> {
        if !is_country(code) {
            let help = "write two letters (ISO 3166): \"country:CH\"".to_owned();
            return Err((format!("`{}` is not the code of a country", shortened(code)), Some(help)));
        }
        if self.source.is_none() {
            let help = "write [countries] and below it file = \"countries.mmdb\": a MaxMind DB file, or a table with a network and a code a line";
            return Err((
                "the policy does not say where countries are from".to_owned(),
                Some(help.to_owned()),
            ));
        }
        let help = "give countries that rules treat alike one list: [lists.europe] with file = \"...\" and countries = [\"AT\", \"BE\"], and name it \
                    with \"list:europe\"";
        self.other(Other::Country(code.to_ascii_uppercase()), span, help)
    }

    fn domain(&mut self, name: &str, span: &Range<usize>) -> Result<u8, Mistake> {
        let name = name.to_ascii_lowercase();
        let plain = name.strip_prefix("*.").unwrap_or(&name);
        if !hosts::is_name(plain) {
            let help = "write a name, or `*.` and what names end with: \"domain:updates.example.net\", \"domain:*.example.net\"";
            let message = format!("`{}` is not the name of a domain", shortened(&name));
            return Err((message, Some(help.to_owned())));
        }
        let help = "name what domains have in common, \"domain:*.example.net\", or write the addresses";
        self.other(Other::Domain(name), span, help)
    }

    fn other(&mut self, other: Other, span: &Range<usize>, help: &str) -> Result<u8, Mistake> {
        let place = self.others.iter().position(|(known, _)| *known == other).unwrap_or_else(|| {
            self.others.push((other, span.clone()));
            self.others.len() - 1
        });
        let place = self.names.len() + place;
        if place >= MAX_LISTS {
            let message = format!("the policy has more than {MAX_LISTS} lists, countries and domains");
            return Err((message, Some(help.to_owned())));
        }
        Ok(place as u8)
    }

    /// The lists of the countries and domains that were named, in the order of their numbers.
    pub(super) fn others(&self) -> impl Iterator<Item = List> {
        let empty = |name: String, origin: Origin, span: &Range<usize>| List {
            name,
            origin,
            entries: AddressSet::default(),
            except: AddressSet::default(),
            countries: Vec::new(),
            block: Ends::default(),
            require: Ends::default(),
            log: false,
            broken: Broken::default(),
            refresh: None,
            expires: None,
            span: span.clone(),
        };
        self.others.iter().filter_map(move |(other, span)| match other {
            Other::Country(code) => {
                // One is named only where it is said where they are from.
                let Countries { origin, broken, refresh, .. } = self.source.as_ref()?;
                let list = empty(format!("{COUNTRY_PREFIX}{code}"), origin.clone(), span);
                Some(List { countries: vec![code.clone()], broken: *broken, refresh: *refresh, ..list })
            }
            Other::Domain(name) => {
                Some(empty(format!("{DOMAIN_PREFIX}{name}"), Origin::Domain(name.clone()), span))
            }
        })
    }

    /// Domains have their addresses from a gateway of DNS.
    pub(super) fn check_domains(&self, gateways: &[Gateway], c: &mut Collector<'_>) {
        // A gateway with a mistake is none here.
        if !c.is_empty() || gateways.iter().any(|gateway| matches!(gateway.protocol, Protocol::Dns(_))) {
            return;
        }
        for (other, span) in &self.others {
            if let Other::Domain(name) = other {
                let help = "write one, which clients ask or nobody: [gateways.names] with protocol = \"dns\", listen = \"127.0.0.1:53\" and a rule";
                let message =
                    format!("the addresses of `{name}` come from a gateway of DNS, and the policy has none");
                c.report(span.clone(), message, Some(help.to_owned()));
            }
        }
    }

    /// Where countries are said to be from, if no rule asks for one.
    pub(super) fn unused_countries(&self) -> Option<&Range<usize>> {
        let is_country = |(other, _): &(Other, _)| matches!(other, Other::Country(_));
        self.source.as_ref().filter(|_| !self.others.iter().any(is_country)).map(|source| &source.span)
    }

    /// Whether a list of the text does anything: it is bound to everything, or something names it.
    pub(super) fn check_bound(&self, lists: &[List], c: &mut Collector<'_>) {
        for (place, list) in lists.iter().enumerate() {
            if !list.block.is_any() && !list.require.is_any() && self.named >> place & 1 == 0 {
                let help = format!(
                    "write block = \"both\" to refuse what is on it, require = \"source\" to refuse what is not, or \"{LIST_PREFIX}{}\" in a rule",
                    list.name
                );
                c.report(
                    list.span.clone(),
                    format!("the list `{}` is bound to nothing", list.name),
                    Some(help),
                );
            }
        }
    }
}

/// Rules may ask for so many pairs of lists.
pub(super) fn check_pairs(rules: &[Rule], c: &mut Collector<'_>) {
    let mut pairs = BTreeSet::new();
    for rule in rules.iter().filter(|rule| rule.source_lists | rule.destination_lists != 0) {
        pairs.extend(asked_lists(rule));
        if pairs.len() > MAX_LISTED_SERIES {
            let help = "put lists that rules treat alike together into one: a rule that names two lists of sources and three of destinations asks \
                        for six pairs";
            let message =
                format!("up to this rule the policy asks for more than {MAX_LISTED_SERIES} pairs of lists");
            c.report(rule.span.clone(), message, Some(help.to_owned()));
            return;
        }
    }
}

fn is_country(code: &str) -> bool {
    code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_alphabetic())
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
