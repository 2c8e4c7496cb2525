//! Rules, and what happens where none matches.

use super::gateways::Gateways;
use super::names::{Addresses, Names, is_like_an_address};
use super::settings::duration;
use super::source_ports;
use super::syn_proxy;
use crate::model::{
    Action, Alert, Effect, Limit, Log, MAX_RULES, PairDefault, Per, Rule, SELF, Written, Zone, ZoneSet,
};
use crate::quantity;
use crate::schedule::Schedule;
use crate::schema;
use crate::service::ServiceSet;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use toml_reader::{Collector, DeValue, Located, Section, items, plain_text, shortened, texts, wrong_type};

/// A rule's name may have more signs than other names, but no blank, because logs and tables print it.
pub(super) fn is_rule_name(name: &str) -> bool {
    let good = |ch: char| ch.is_ascii_alphanumeric() || "-_.:/+".contains(ch);
    name.len() <= 63 && name.starts_with(|ch: char| ch.is_ascii_alphanumeric()) && name.chars().all(good)
}

pub(super) fn read<'t>(
    root: &Section<'t>,
    zones: &[(Zone, Range<usize>)],
    schedules: &[(Schedule, Range<usize>)],
    objects: &mut Names<'t, Addresses>,
    services: &mut Names<'t, ServiceSet>,
    gateways: &Gateways<'_>,
    c: &mut Collector<'_>,
) -> Vec<Rule> {
    let sections = schema::RULE.sections(root, "rules", c);
    if let Some(one_too_many) = sections.get(MAX_RULES) {
        let help = format!("it can have {MAX_RULES}; a rule with a group of objects replaces many rules");
        c.report(one_too_many.span.clone(), "the policy has too many rules", Some(help));
        return Vec::new();
    }
    // What is wrong with a schedule was reported where it stands.
    let written = super::named(root, "schedules", &mut Collector::new("", ""))
        .into_iter()
        .map(|(name, _)| (name.value, None));
    let right = schedules.iter().enumerate().map(|(i, (s, _))| (s.name.as_str(), Some(i)));
    let schedule_places = written.chain(right).collect();
    let mut reader = Reader {
        zones,
        schedules: schedule_places,
        objects,
        services,
        gateways,
        narrowed: FxHashMap::default(),
    };
    let mut names: FxHashMap<&str, usize> = FxHashMap::default();
    let mut rules = Vec::with_capacity(sections.len());
    for (i, section) in sections.iter().enumerate() {
        if c.is_full() {
            c.stop(section.span.clone());
            break;
        }
        let rule = reader.rule(section, c);
        if rule.is_none() && c.is_empty() {
            // `rule` reports a problem whenever it returns nothing. If it ever does not, the rule must not be left out in silence.
            c.report(section.span.clone(), "this rule could not be understood", None);
        }
        let name = section.value("name").and_then(|value| Some((value.get_ref().as_str()?, value.span())));
        if let Some((name, span)) = name
            && let Some(first) = names.insert(name, i)
        {
            let message = format!("rule number {} is called `{}` too", first + 1, shortened(name));
            c.report(span, message, Some("give each rule a name of its own: counters follow it".to_owned()));
        }
        rules.extend(rule);
    }
    rules
}

struct Reader<'a, 't> {
    zones: &'a [(Zone, Range<usize>)],
    /// Those with a mistake have no number.
    schedules: FxHashMap<&'a str, Option<usize>>,
    objects: &'a mut Names<'t, Addresses>,
    services: &'a mut Names<'t, ServiceSet>,
    gateways: &'a Gateways<'a>,
    /// Services from source ports that rules have asked for, by the services and the ports' words.
    narrowed: FxHashMap<(Arc<ServiceSet>, Vec<&'t str>), Arc<ServiceSet>>,
}

pub(super) type Words<'t> = Vec<Located<&'t str>>;

impl<'t> Reader<'_, 't> {
    fn rule(&mut self, section: &Section<'t>, c: &mut Collector<'_>) -> Option<Rule> {
        refuse_later_keys(section, c);
        let name = section.required_text("name", "\"web\"", c);
        if let Some(name) = name.as_ref().filter(|name| !is_rule_name(name.value)) {
            let help =
                "letters from A to Z, digits and - _ . : / +, no spaces, a letter or digit first, at most 63"
                    .to_owned();
            c.report(
                name.span.clone(),
                format!("`{}` cannot be the name of a rule", shortened(name.value)),
                Some(help),
            );
        }
        let from_words = words(section, "from", c);
        let to_words = words(section, "to", c);
        let from = from_words.as_ref().and_then(|words| self.zone_set(section, "from", words, c));
        let to = to_words.as_ref().and_then(|words| self.zone_set(section, "to", words, c));
        if let (Some(from), Some(to)) = (from, to)
            && (from, to) == (1 << SELF, 1 << SELF)
        {
            let help = "packets that the firewall sends to itself do not pass through it".to_owned();
            c.report(section.key_span("to"), "the rule is from `self` to `self`", Some(help));
        }
        let source_words = words(section, "source", c);
        let destination_words = words(section, "destination", c);
        let service_words = words(section, "service", c);
        let source = source_words.as_ref().and_then(|words| self.objects.set(or_any(words), c));
        let destination = destination_words.as_ref().and_then(|words| self.objects.set(or_any(words), c));
        let port_words = words(section, "source_port", c);
        let service = service_words.as_ref().and_then(|words| self.services.set(or_any(words), c));
        let service =
            service.zip(port_words.as_ref()).and_then(|(service, ports)| self.narrowed_to(service, ports, c));
        let schedule = self.schedule(section, c);
        let effect = effect(section, c);
        let gateway = self.gateways.of_rule(section, effect.as_ref(), [from, to], service.as_deref(), c);
        let Gateways { root, forwarding, .. } = self.gateways;
        let proxied = syn_proxy::of_rule(
            root,
            section,
            *forwarding,
            effect.as_ref(),
            [from, to],
            service.as_deref(),
            c,
        );
        let enabled = section.flag("enabled", c).unwrap_or(true);
        let description = section.text("description", c).map(|d| d.value.to_owned());
        let (name, source, destination) = (name?, source?, destination?);
        Some(Rule {
            name: name.value.to_owned(),
            description,
            from: from?,
            to: to?,
            source: source.own.clone(),
            source_lists: source.lists,
            destination: destination.own.clone(),
            destination_lists: destination.lists,
            service: service?,
            schedule: schedule?,
            effect: Effect { gateway: gateway?, syn_proxy: proxied?, ..effect? },
            enabled,
            span: name.span,
            written: Written {
                from: written(&from_words?),
                to: written(&to_words?),
                source: written(&source_words?),
                destination: written(&destination_words?),
                service: written(&service_words?),
                source_port: written(&port_words?),
            },
        })
    }

    /// What of some services is from source ports; all of them where the rule asks for none.
    fn narrowed_to(
        &mut self,
        service: Arc<ServiceSet>,
        ports: &Words<'t>,
        c: &mut Collector<'_>,
    ) -> Option<Arc<ServiceSet>> {
        if ports.is_empty() {
            return Some(service);
        }
        let key = (service.clone(), ports.iter().map(|word| word.value).collect());
        if let Some(known) = self.narrowed.get(&key) {
            return Some(known.clone());
        }
        let narrowed = Arc::new(source_ports::narrow(&service, ports, c)?);
        self.narrowed.insert(key, narrowed.clone());
        Some(narrowed)
    }

    fn zone_set(
        &self,
        section: &Section<'_>,
        key: &'static str,
        words: &Words<'_>,
        c: &mut Collector<'_>,
    ) -> Option<ZoneSet> {
        if section.value(key).is_none() {
            section.missing(key, "\"any\", or the name of a zone", c);
            return None;
        }
        zone_set(self.zones, words, c)
    }

    fn schedule(&self, section: &Section<'_>, c: &mut Collector<'_>) -> Option<Option<usize>> {
        let Some(name) = section.text("schedule", c) else {
            return section.value("schedule").is_none().then_some(None);
        };
        if name.value == "always" {
            return Some(None);
        }
        let found = self.schedules.get(name.value).copied();
        if found.is_none() {
            let help = c.suggestion(name.value, self.schedules.keys().copied());
            c.report(name.span, format!("there is no schedule `{}`", shortened(name.value)), help);
        }
        found?.map(Some)
    }
}

/// The words of a key: empty if the key is not there, `None` after reporting a problem.
pub(super) fn words<'t>(
    section: &Section<'t>,
    key: &'static str,
    c: &mut Collector<'_>,
) -> Option<Words<'t>> {
    let Some(value) = section.value(key) else { return Some(Vec::new()) };
    let number = items(value).into_iter().find(|item| item.get_ref().is_integer());
    let meant = number.and_then(|number| crate::service::meant(&plain_text(number.get_ref())?));
    if let (Some(number), Some(meant), "service") = (number, meant, key) {
        c.report(number.span(), "a service is a string, not an integer".to_owned(), Some(meant));
        return None;
    }
    texts(value, key, c)
}

/// A key that is not there means `any`.
pub(super) fn or_any<'a, 't>(words: &'a Words<'t>) -> &'a [Located<&'t str>] {
    const ANY: &[Located<&str>] = &[Located { value: "any", span: 0..0 }];
    if words.is_empty() { ANY } else { words }
}

pub(super) fn written(words: &Words<'_>) -> String {
    or_any(words).iter().map(|w| w.value).collect::<Vec<_>>().join(", ")
}

/// `any` is every zone except `self`, because a rule that opens the firewall itself has to say so.
pub(super) fn zone_set(
    zones: &[(Zone, Range<usize>)],
    words: &Words<'_>,
    c: &mut Collector<'_>,
) -> Option<ZoneSet> {
    let all = zones.iter().enumerate().skip(1).fold(0, |set, (i, _)| set | 1 << i);
    let sets = words.iter().map(|word| {
        if word.value == "any" {
            return Some(all);
        }
        let found = zones.iter().position(|(zone, _)| zone.name == word.value);
        if found.is_none() && !c.has_refused(word.value) {
            let names = zones.iter().map(|(zone, _)| zone.name.as_str()).chain(["any"]);
            let message = format!("there is no zone `{}`", shortened(word.value));
            let help = match is_like_an_address(word.value) {
                true => {
                    Some("addresses stand in `source` and `destination`, zones in `from` and `to`".to_owned())
                }
                false => c.suggestion(word.value, names),
            };
            c.report(word.span.clone(), message, help);
        }
        found.map(|i| 1 << i)
    });
    sets.collect::<Vec<_>>().into_iter().try_fold(0, |set, found: Option<ZoneSet>| Some(set | found?))
}

fn refuse_later_keys(section: &Section<'_>, c: &mut Collector<'_>) {
    if section.value("inspection").is_some() {
        let help = "take `inspection` out of the rule: it comes with a later version".to_owned();
        c.report(section.key_span("inspection"), "this version has no inspection", Some(help));
    }
}

fn effect(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Effect> {
    if section.value("action").is_none() {
        section.missing("action", "\"allow\", \"deny\" or \"reject\"", c);
    }
    let action = section.choice("action", &Action::NAMES, c);
    let log = log(section, action, c);
    let limit = limit(section, action, c);
    let alert = match schema::ALERT.section(section, "alert", c) {
        Some(section) => Some(alert(&section, c)?),
        None => None,
    };
    Some(Effect { action: action?, log: log?, limit: limit?, alert, gateway: None, syn_proxy: None })
}

fn log(section: &Section<'_>, action: Option<Action>, c: &mut Collector<'_>) -> Option<Log> {
    let Some(value) = section.value("log") else { return Some(Log::Nothing) };
    let log = match value.get_ref() {
        DeValue::Boolean(false) => Log::Nothing,
        DeValue::Boolean(true) => Log::Open,
        DeValue::String(_) => {
            section.choice("log", &[("open", Log::Open), ("close", Log::Close), ("both", Log::Both)], c)?
        }
        other => {
            return wrong_type(c, "log", value.span(), other, "true, false, \"open\", \"close\" or \"both\"");
        }
    };
    if matches!(log, Log::Close | Log::Both) && action.is_some_and(|a| a != Action::Allow) {
        let help = "write log = true to log each packet that the rule refuses".to_owned();
        c.report(value.span(), "a rule that refuses has no flows whose end could be logged", Some(help));
        return None;
    }
    Some(log)
}

/// In seconds. A burst that takes longer to come back is a slip.
const TEN_YEARS: u64 = 10 * 365 * 86_400;

fn limit(section: &Section<'_>, action: Option<Action>, c: &mut Collector<'_>) -> Option<Limit> {
    let Some(value) = section.value("limit") else { return Some(Limit::default()) };
    if action.is_some_and(|a| a != Action::Allow) {
        let help = "this rule refuses every packet: take `limit` out, or write action = \"allow\"".to_owned();
        c.report(section.key_span("limit"), "`limit` needs a rule that allows", Some(help));
        return None;
    }
    let limits = schema::LIMIT.section(section, "limit", c)?;
    let rate = match limits.value("rate") {
        Some(_) => Some(rate(&limits.text("rate", c)?, c)?),
        None => None,
    };
    let burst = limits.integer("burst", 1..=10_000_000, c);
    let connections = limits.integer("connections", 1..=16_777_216, c);
    let per = limits.choice("per", &Per::NAMES, c).unwrap_or_default();
    if burst.is_some() && rate.is_none() {
        let help = "write rate = \"100/s\" beside it".to_owned();
        c.report(limits.key_span("burst"), "`burst` needs `rate`", Some(help));
    }
    if let (Some(rate), Some(burst)) = (rate, burst)
        && u64::from(burst).saturating_mul(rate.seconds.into()) / u64::from(rate.events) > TEN_YEARS
    {
        let help = "write a smaller burst, or a higher rate".to_owned();
        let message = format!("a burst of {burst} takes longer than ten years to come back at {rate}");
        c.report(limits.key_span("burst"), message, Some(help));
    }
    if rate.is_none() && limits.value("connections").is_none() {
        let help = "write rate = \"100/s\" or connections = 1000".to_owned();
        c.report(value.span(), "the limit has neither `rate` nor `connections`", Some(help));
    }
    Some(Limit { rate, burst, connections, per })
}

fn rate(text: &Located<&str>, c: &mut Collector<'_>) -> Option<quantity::Rate> {
    let rate = quantity::rate(text.value);
    if rate.is_none() {
        let help = "write how many, and per s, min, h or d: \"100/s\"".to_owned();
        c.report(text.span.clone(), format!("`{}` is not a rate", shortened(text.value)), Some(help));
    }
    rate
}

fn alert(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Alert> {
    if section.value("count").is_none() {
        section.missing("count", "100", c);
    }
    if section.value("within").is_none() {
        section.missing("within", "\"1min\"", c);
    }
    let count = section.integer("count", 1..=1_000_000_000, c);
    let within = duration(section, "within", Duration::from_secs(1)..=Duration::from_secs(86_400), c);
    let per = section.choice("per", &Per::NAMES, c).unwrap_or_default();
    Some(Alert { count: count?, within: within?, per })
}

/// The default of every pair of zones.
pub(super) fn defaults(
    root: &Section<'_>,
    zones: &[(Zone, Range<usize>)],
    c: &mut Collector<'_>,
) -> Vec<PairDefault> {
    let mut defaults =
        vec![PairDefault { action: Action::Deny, log: Log::Nothing }; zones.len() * zones.len()];
    let mut said: Vec<bool> = vec![false; defaults.len()];
    for section in schema::DEFAULT.sections(root, "defaults", c) {
        let Some((from, to, default)) = default(&section, zones, c) else { continue };
        let pairs = (0..zones.len()).flat_map(|f| (0..zones.len()).map(move |t| (f, t)));
        for (f, t) in pairs.filter(|(f, t)| from & 1 << f != 0 && to & 1 << t != 0) {
            let place = f * zones.len() + t;
            if std::mem::replace(&mut said[place], true) {
                let message = format!("`{}` to `{}` has a default already", zones[f].0.name, zones[t].0.name);
                c.report(
                    section.span.clone(),
                    message,
                    Some("take the pair out of one of the two".to_owned()),
                );
                break;
            }
            defaults[place] = default;
        }
    }
    defaults
}

fn default(
    section: &Section<'_>,
    zones: &[(Zone, Range<usize>)],
    c: &mut Collector<'_>,
) -> Option<(ZoneSet, ZoneSet, PairDefault)> {
    let mut side = |key: &'static str| {
        if section.value(key).is_none() {
            section.missing(key, "\"any\", or the name of a zone", c);
        }
        words(section, key, c).and_then(|words| zone_set(zones, &words, c))
    };
    let (from, to) = (side("from"), side("to"));
    if section.value("action").is_none() {
        section.missing("action", "\"allow\", \"deny\" or \"reject\"", c);
    }
    let action = section.choice("action", &Action::NAMES, c);
    let log = log(section, action, c);
    Some((from?, to?, PairDefault { action: action?, log: log? }))
}
