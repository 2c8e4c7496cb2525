//! Objects and services: names for sets, made of literals and of other names.

use super::lists::ListNames;
use super::{Defined, check_name, named, source_ports};
use crate::address::AddressSet;
use crate::lists::ListSet;
use crate::schema;
use crate::service::{BUILT_IN, ServiceSet};
use ipnet::Ipv4Subnets;
use rustc_hash::FxHashMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use toml_reader::{Collector, DeValue, Located, Section, Value, shortened, texts};

/// The most groups within groups, so that a hostile text cannot exhaust the stack.
const MAX_NESTING: usize = 16;

/// A kind of set that names stand for.
pub(super) trait NamedSet: Sized {
    /// How messages call such a set.
    const WHAT: &'static str;
    /// Names that a policy may not define.
    fn reserved() -> Vec<&'static str>;
    /// The set that a name stands for in every policy.
    fn built_in(name: &str) -> Option<Self>;
    fn is_literal(word: &str) -> bool;

    /// What somebody may have meant by a word that is neither a literal nor a name.
    fn meant(_word: &str) -> Option<String> {
        None
    }

    /// Names of other parts of a policy that people write here, each with what to do.
    fn elsewhere<'t>(_root: &Section<'t>) -> Vec<(&'t str, String)> {
        Vec::new()
    }

    fn literal<'t>(
        word: &Located<&'t str>,
        lists: &mut ListNames<'t>,
    ) -> Result<Self, (String, Option<String>)>;
    fn union(sets: &[Arc<Self>]) -> Self;
    fn is_empty(&self) -> bool;
    /// The keys of a definition that is a table: its members, and what narrows them.
    const KEYS: schema::Table;
    /// What a definition's members are without what narrows them, and how deep the groups are nested that it names.
    fn narrowed<'t>(
        &self,
        words: &[Located<&'t str>],
        names: &mut Names<'t, Self>,
        depth: usize,
        c: &mut Collector<'_>,
    ) -> Option<(Self, usize)>;
}

/// What may stand where addresses may: addresses, and lists of them.
#[derive(Default)]
pub(super) struct Addresses {
    /// Those that the text writes out.
    pub(super) own: Arc<AddressSet>,
    /// Lists, whose addresses are not known here.
    pub(super) lists: ListSet,
}

impl From<AddressSet> for Addresses {
    fn from(own: AddressSet) -> Self {
        Self { own: Arc::new(own), lists: 0 }
    }
}

impl NamedSet for Addresses {
    const WHAT: &'static str = "object";

    fn reserved() -> Vec<&'static str> {
        vec!["any"]
    }

    fn built_in(name: &str) -> Option<Self> {
        (name == "any").then(|| AddressSet::any().into())
    }

    fn is_literal(word: &str) -> bool {
        is_like_an_address(word)
    }

    fn meant(word: &str) -> Option<String> {
        let is_code = word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        is_code.then(|| format!("write \"country:{word}\" for the addresses of a country"))
    }

    fn elsewhere<'t>(root: &Section<'t>) -> Vec<(&'t str, String)> {
        // What is wrong there is reported there.
        let mut scratch = Collector::new("", "");
        let mut names_of = |key| named(root, key, &mut scratch).into_iter().map(|(name, _)| name.value);
        let lists: Vec<_> = names_of("lists").collect();
        let zones = names_of("zones").chain(["self"]);
        let of_zone = |name: &'t str| {
            (
                name,
                format!(
                    "`{name}` is a zone: zones stand in `from` and `to`, addresses and objects in `source` and `destination`"
                ),
            )
        };
        let of_list = |name: &'t str| (name, format!("write \"list:{name}\": `{name}` is a list"));
        lists.into_iter().map(of_list).chain(zones.map(of_zone)).collect()
    }

    fn literal<'t>(
        word: &Located<&'t str>,
        lists: &mut ListNames<'t>,
    ) -> Result<Self, (String, Option<String>)> {
        if let Some(list) = lists.number_of(word) {
            return Ok(Self { own: Arc::default(), lists: 1 << list? });
        }
        let set = AddressSet::parse(word.value)?;
        match set.mapped() {
            Some((first, last)) => Err(never_on_a_wire(word.value, first, last)),
            None => Ok(set.into()),
        }
    }

    fn union(sets: &[Arc<Self>]) -> Self {
        let own = AddressSet::union(sets.iter().map(|set| set.own.as_ref()));
        Self { own: Arc::new(own), lists: sets.iter().fold(0, |all, set| all | set.lists) }
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.lists == 0
    }

    const KEYS: schema::Table = schema::OBJECT;

    fn narrowed<'t>(
        &self,
        except: &[Located<&'t str>],
        names: &mut Names<'t, Self>,
        depth: usize,
        c: &mut Collector<'_>,
    ) -> Option<(Self, usize)> {
        let (taken_out, height) = names.union_of(except, depth, c)?;
        if self.lists | taken_out.lists != 0 {
            let help = "what is on a list is not known here: give the list itself its `except`, or write a rule above the others that \
                        names what is to be an exception";
            let message = "`except` takes nothing out of a list of addresses, and no list out of addresses";
            c.report(except[0].span.clone(), message, Some(help.to_owned()));
            return None;
        }
        Some((self.own.without(&taken_out.own).into(), height))
    }
}

/// A packet with such an address is dropped whatever the rules say (RFC 4291 section 2.5.5.2): who writes one means IPv4.
fn never_on_a_wire(text: &str, first: Ipv4Addr, last: Ipv4Addr) -> (String, Option<String>) {
    let ipv4 = match Ipv4Subnets::new(first, last, 0).collect::<Vec<_>>()[..] {
        [network] if network.prefix_len() == 32 => first.to_string(),
        [network] => network.to_string(),
        _ => format!("{first}-{last}"),
    };
    let message = format!("no packet has `{text}`: it is a way for programs to write an address of IPv4");
    (message, Some(format!("write \"{ipv4}\"")))
}

impl NamedSet for ServiceSet {
    const WHAT: &'static str = "service";

    fn reserved() -> Vec<&'static str> {
        std::iter::once("any").chain(BUILT_IN.iter().map(|(name, _)| *name)).collect()
    }

    fn built_in(name: &str) -> Option<Self> {
        ServiceSet::built_in(name)
    }

    fn is_literal(word: &str) -> bool {
        word.contains('/')
    }

    fn meant(word: &str) -> Option<String> {
        crate::service::meant(word)
    }

    fn literal<'t>(
        word: &Located<&'t str>,
        _lists: &mut ListNames<'t>,
    ) -> Result<Self, (String, Option<String>)> {
        ServiceSet::parse(word.value)
    }

    fn union(sets: &[Arc<Self>]) -> Self {
        ServiceSet::union(sets.iter().map(Arc::as_ref))
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    const KEYS: schema::Table = schema::SERVICE;

    fn narrowed<'t>(
        &self,
        ports: &[Located<&'t str>],
        _names: &mut Names<'t, Self>,
        _depth: usize,
        c: &mut Collector<'_>,
    ) -> Option<(Self, usize)> {
        Some((source_ports::narrow(self, ports, c)?, 0))
    }
}

impl<'t> Names<'t, Addresses> {
    /// The addresses of some words where no list may stand.
    pub(super) fn written_out(
        &mut self,
        words: &[Located<&'t str>],
        c: &mut Collector<'_>,
    ) -> Option<Arc<AddressSet>> {
        let set = self.set(words, c)?;
        if set.lists != 0 {
            let help = "write the addresses, or name the list in a rule";
            let message = "lists of addresses, countries and domains can stand in rules alone";
            c.report(words[0].span.clone(), message, Some(help.to_owned()));
            return None;
        }
        Some(set.own.clone())
    }
}

enum State<S> {
    Untouched,
    /// Being resolved now. A name that is met in this state contains itself.
    Open,
    /// The set, and how deep its groups are nested.
    Done(Arc<S>, usize),
    /// A problem has been reported.
    Failed,
}

struct Definition<'t> {
    name: Located<&'t str>,
    members: Vec<Located<&'t str>>,
    /// Words of the key that narrows the members; none if it is not there.
    narrowing: Vec<Located<&'t str>>,
    used: bool,
}

/// The names that a policy defines. Each is resolved when a rule asks for it first.
pub(super) struct Names<'t, S> {
    definitions: Vec<Definition<'t>>,
    states: Vec<State<S>>,
    by_name: FxHashMap<&'t str, usize>,
    /// The sets that rules have asked for, by their words, because many rules ask for the same.
    asked: FxHashMap<Vec<&'t str>, Arc<S>>,
    built_in: FxHashMap<&'static str, Arc<S>>,
    /// See [`NamedSet::elsewhere`].
    elsewhere: Vec<(&'t str, String)>,
    pub(super) lists: ListNames<'t>,
}

impl<'t, S: NamedSet> Names<'t, S> {
    pub(super) fn read(root: &Section<'t>, key: &'static str, c: &mut Collector<'_>) -> Self {
        let reserved = S::reserved();
        let mut definitions = Vec::new();
        let mut by_name = FxHashMap::default();
        for (name, value) in named(root, key, c) {
            let Some((members, narrowing)) = definition(&name, value, (S::WHAT, S::KEYS), c) else {
                c.refuse(name.value);
                continue;
            };
            if check_name(S::WHAT, &name, &reserved, c) {
                by_name.insert(name.value, definitions.len());
                definitions.push(Definition { name, members, narrowing, used: false });
            }
        }
        let states = definitions.iter().map(|_| State::Untouched).collect();
        let built_in =
            reserved.into_iter().filter_map(|name| Some((name, Arc::new(S::built_in(name)?)))).collect();
        Self {
            definitions,
            states,
            by_name,
            asked: FxHashMap::default(),
            built_in,
            elsewhere: S::elsewhere(root),
            lists: ListNames::default(),
        }
    }

    /// The set of some words of the text, or `None` after reporting what is wrong with them.
    pub(super) fn set(&mut self, words: &[Located<&'t str>], c: &mut Collector<'_>) -> Option<Arc<S>> {
        let key: Vec<&str> = words.iter().map(|w| w.value).collect();
        if let Some(set) = self.asked.get(&key) {
            return Some(set.clone());
        }
        let (set, _) = self.union_of(words, 0, c)?;
        self.asked.insert(key, set.clone());
        Some(set)
    }

    /// Resolves what no rule asked for as well, so that its mistakes are reported, and returns all definitions.
    pub(super) fn finish(mut self, c: &mut Collector<'_>) -> (Vec<Defined<'t, S>>, ListNames<'t>) {
        for i in 0..self.definitions.len() {
            self.resolve(i, 0, c);
        }
        let resolved = self.definitions.into_iter().zip(self.states);
        let defined = resolved
            .filter_map(|(d, state)| match state {
                State::Done(set, _) => {
                    Some(Defined { name: d.name.value, set, span: d.name.span, used: d.used })
                }
                _ => None,
            })
            .collect();
        (defined, self.lists)
    }

    fn union_of(
        &mut self,
        words: &[Located<&'t str>],
        depth: usize,
        c: &mut Collector<'_>,
    ) -> Option<(Arc<S>, usize)> {
        let found: Vec<_> = words.iter().map(|word| self.word(word, depth, c)).collect();
        let found = found.into_iter().collect::<Option<Vec<_>>>()?;
        let height = found.iter().map(|(_, height)| *height).max().unwrap_or(0);
        match <[_; 1]>::try_from(found) {
            Ok([(only, _)]) => Some((only, height)),
            Err(many) => {
                let sets: Vec<Arc<S>> = many.into_iter().map(|(set, _)| set).collect();
                Some((Arc::new(S::union(&sets)), height))
            }
        }
    }

    fn word(
        &mut self,
        word: &Located<&'t str>,
        depth: usize,
        c: &mut Collector<'_>,
    ) -> Option<(Arc<S>, usize)> {
        if S::is_literal(word.value) {
            return match S::literal(word, &mut self.lists) {
                Ok(set) => Some((Arc::new(set), 0)),
                Err((message, help)) => {
                    c.report(word.span.clone(), shortened_message(message), help);
                    None
                }
            };
        }
        if let Some(&i) = self.by_name.get(word.value) {
            self.definitions[i].used = true;
            return self.named(i, word, depth, c);
        }
        match self.built_in.get(word.value) {
            Some(set) => Some((set.clone(), 0)),
            None => self.unknown(word, c),
        }
    }

    fn named(
        &mut self,
        i: usize,
        word: &Located<&'t str>,
        depth: usize,
        c: &mut Collector<'_>,
    ) -> Option<(Arc<S>, usize)> {
        if matches!(self.states[i], State::Open) {
            let message = format!("`{}` contains itself", word.value);
            c.report(
                word.span.clone(),
                message,
                Some("take it out of the group, or out of what the group names".to_owned()),
            );
            return None;
        }
        match self.resolve(i, depth + 1, c) {
            State::Done(set, height) if depth + height <= MAX_NESTING => Some((set.clone(), *height)),
            State::Done(..) => {
                too_deep(word.span.clone(), c);
                None
            }
            _ => None,
        }
    }

    fn resolve(&mut self, i: usize, depth: usize, c: &mut Collector<'_>) -> &State<S> {
        if matches!(self.states[i], State::Untouched) {
            self.states[i] = State::Open;
            self.states[i] =
                self.resolved(i, depth, c).map_or(State::Failed, |(set, height)| State::Done(set, height));
        }
        &self.states[i]
    }

    fn resolved(&mut self, i: usize, depth: usize, c: &mut Collector<'_>) -> Option<(Arc<S>, usize)> {
        let span = self.definitions[i].name.span.clone();
        if depth > MAX_NESTING {
            too_deep(span, c);
            return None;
        }
        let members = std::mem::take(&mut self.definitions[i].members);
        let narrowing = std::mem::take(&mut self.definitions[i].narrowing);
        let (mut set, mut height) = self.union_of(&members, depth, c)?;
        if !narrowing.is_empty() {
            let (narrowed, other) = set.narrowed(&narrowing, self, depth, c)?;
            set = Arc::new(narrowed);
            height = height.max(other);
        }
        if set.is_empty() {
            let message = format!("the {} `{}` is empty", S::WHAT, self.definitions[i].name.value);
            c.report(span, message, Some("its `except` takes every member away".to_owned()));
            return None;
        }
        Some((set, height + 1))
    }

    fn unknown<T>(&self, word: &Located<&'t str>, c: &mut Collector<'_>) -> Option<T> {
        if c.has_refused(word.value) {
            return None;
        }
        let mut names: Vec<&str> = self.definitions.iter().map(|d| d.name.value).collect();
        names.extend(S::reserved());
        let elsewhere = self.elsewhere.iter().find(|(name, _)| *name == word.value);
        let help = elsewhere.map(|(_, help)| help.clone());
        let help = help.or_else(|| S::meant(word.value)).or_else(|| c.suggestion(word.value, names));
        c.report(word.span.clone(), format!("there is no {} `{}`", S::WHAT, shortened(word.value)), help);
        None
    }
}

/// Whether a word is written as addresses are, and names are not.
pub(super) fn is_like_an_address(word: &str) -> bool {
    word.contains(['.', ':', '/']) || word.starts_with(|ch: char| ch.is_ascii_digit())
}

fn too_deep(span: Range<usize>, c: &mut Collector<'_>) {
    let help = format!("groups may contain groups, {MAX_NESTING} levels deep");
    c.report(span, "the groups within this group are nested too deep".to_owned(), Some(help));
}

fn shortened_message(message: String) -> String {
    if message.len() > 300 { shortened(&message) } else { message }
}

type Words<'t> = Vec<Located<&'t str>>;

/// `"literal"`, `["a", "b"]`, `{ members = [...], except = [...] }` for an object, `{ members = [...], source_port = [...] }` for a service:
/// the members, and the words that narrow them.
fn definition<'t>(
    name: &Located<&str>,
    value: &'t Value<'t>,
    (what, table): (&str, schema::Table),
    c: &mut Collector<'_>,
) -> Option<(Words<'t>, Words<'t>)> {
    let DeValue::Table(entries) = value.get_ref() else {
        return Some((texts(value, name.value, c)?, Vec::new()));
    };
    let what = format!("the {what} `{}`", shortened(name.value));
    let section = Section::new(entries, value.span(), what).only(table.keys, c);
    let [first, narrows] = table.keys else { return None };
    let Some(members) = section.value(first) else {
        section.missing(first, "what it is made of, in [ ]", c);
        return None;
    };
    let members = texts(members, first, c)?;
    let narrowing = match section.value(narrows) {
        Some(words) => texts(words, narrows, c)?,
        None => Vec::new(),
    };
    Some((members, narrowing))
}
