//! The mixes of applications that a suite states, `[[mix]]` with its `[[mix.part]]`: read, and refused where they cannot be.

use super::check::named;
use super::value::OBJECTS;
use crate::application::{MOST_OBJECT_KB, MOST_TRANSACTIONS, Object, PROTOCOLS, Protocol};
use crate::mix::{ALL, MOST_PARTS, Mix, Part, PartFiles, SharesOf};
use std::ops::Range;
use std::sync::Arc;
use toml_reader::{Collector, Section, items, plain_text};

const SHARES: [(&str, SharesOf); 2] =
    [(SharesOf::Transactions.name(), SharesOf::Transactions), (SharesOf::Bytes.name(), SharesOf::Bytes)];
/// Shares are percents with as many decimal places as somebody likes to write.
const ROUNDED: f64 = 1e-6;
/// The smallest share, in percent: of fewer there would be none in a trial.
const LEAST_PERCENT: f64 = 0.01;

/// Every mix that can be, after reporting what is wrong with the others.
pub(super) fn mixes(root: &Section<'_>, c: &mut Collector<'_>) -> Vec<Arc<Mix>> {
    let mut found: Vec<Arc<Mix>> = Vec::new();
    for section in root.sections("mix", c) {
        let span = section.value("name").map_or(section.span.clone(), |name| name.span());
        let Some(mix) = mix(section, &span, c) else { continue };
        if found.iter().any(|other| other.name == mix.name) {
            c.report(span, format!("there is another mix called `{}`", mix.name), None);
        }
        found.push(Arc::new(mix));
    }
    found
}

/// A mix, whose name is at `span`.
fn mix(s: Section<'_>, span: &Range<usize>, c: &mut Collector<'_>) -> Option<Mix> {
    let name = s.required_text("name", "\"office\"", c);
    let name = named(name, "name", c);
    let title = s.required_text("title", "\"What an office fetches\"", c);
    let source = s.text("source", c).map(|source| source.value.to_owned());
    if s.value("shares").is_none() {
        s.missing("shares", "\"transactions\" or \"bytes\": what the shares of its parts are of", c);
    }
    let shares = s.choice("shares", &SHARES, c);
    let sections = s.sections("part", c);
    let count = sections.len();
    let parts = parts(sections, c);
    s.finish(c);
    let shown = name.as_deref().unwrap_or_default();
    if !(2..=MOST_PARTS).contains(&count) {
        let help = "write each under [[mix.part]], with `name`, `protocol` and `share`";
        let message = format!("a mix has 2 to {MOST_PARTS} parts, and `{shown}` has {count}");
        c.report(span.clone(), message, Some(help.into()));
        return None;
    }
    // Of parts that are wrong themselves the sum says nothing.
    let parts = parts?;
    let percent: f64 = parts.iter().map(|part| part.share).sum::<f64>() * 100.0;
    if (percent - 100.0).abs() > ROUNDED {
        let shares: Vec<String> =
            parts.iter().map(|part| format!("{} {}", part.name, rounded(part.share * 100.0))).collect();
        let message =
            format!("the shares of the mix `{shown}` add up to {} %, not to 100 %", rounded(percent));
        c.report(span.clone(), message, Some(format!("they are: {}", shares.join(", "))));
    }
    Some(Mix { name: name?, title: title?.value.to_owned(), source, shares: shares?, parts })
}

/// A percentage without what binary fractions leave behind.
fn rounded(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

/// `None` only when a problem has been reported.
fn parts(sections: Vec<Section<'_>>, c: &mut Collector<'_>) -> Option<Vec<Part>> {
    let count = sections.len();
    let mut found: Vec<Part> = Vec::new();
    for (place, mut section) in sections.into_iter().enumerate() {
        section.what = format!("[[mix.part]] number {}", place + 1);
        let span = section.value("name").map_or(section.span.clone(), |name| name.span());
        let Some(part) = part(section, c) else { continue };
        if part.name == ALL {
            let help = "`all` stands for the whole mix in results: choose another name";
            c.report(span, format!("a part may not be called `{ALL}`"), Some(help.into()));
        } else if found.iter().any(|other| other.name == part.name) {
            c.report(span, format!("there is another part called `{}`", part.name), None);
        }
        found.push(part);
    }
    (found.len() == count).then_some(found)
}

fn part(s: Section<'_>, c: &mut Collector<'_>) -> Option<Part> {
    let name = s.required_text("name", "\"pages\"", c);
    let name = named(name, "name", c);
    let protocol = protocol(&s, c);
    if s.value("share").is_none() {
        s.missing("share", "60, in percent", c);
    }
    let share = s.number("share", LEAST_PERCENT..=100.0, c);
    let transactions = transactions(&s, protocol, c);
    let files = files(&s, protocol, c);
    s.finish(c);
    Some(Part {
        name: name?,
        protocol: protocol?,
        files: files?,
        transactions: transactions?,
        share: share? / 100.0,
    })
}

fn protocol(s: &Section<'_>, c: &mut Collector<'_>) -> Option<Protocol> {
    let text = s.required_text("protocol", "\"http/1.1\"", c)?;
    let found = PROTOCOLS.iter().find(|(name, _)| *name == text.value).map(|(_, protocol)| *protocol);
    if found.is_none() {
        let help = c.suggestion(text.value, PROTOCOLS.iter().map(|(name, _)| *name));
        c.report(text.span, format!("the bench has no protocol `{}`", text.value), help);
    }
    found
}

fn transactions(s: &Section<'_>, protocol: Option<Protocol>, c: &mut Collector<'_>) -> Option<u32> {
    if s.value("transactions").is_none() {
        return Some(1);
    }
    let transactions = s.integer("transactions", 1..=MOST_TRANSACTIONS, c)?;
    let closes = protocol.filter(|protocol| transactions > 1 && !protocol.keeps_alive());
    if let Some(protocol) = closes {
        let message =
            format!("a connection of {} has one transaction: it ends with the file", protocol.name());
        let help = "leave `transactions` out, or use http/1.1, https or http/2";
        c.report(s.key_span("transactions"), message, Some(help.into()));
    }
    Some(transactions)
}

/// A size, a list of sizes, or a word.
fn files(s: &Section<'_>, protocol: Option<Protocol>, c: &mut Collector<'_>) -> Option<PartFiles> {
    const TAKES: &str = "`object` takes 1 to 1,024 KB, a list of such sizes, `nstl`, or by HTTP `mixed`";
    let Some(value) = s.value("object") else { return Some(PartFiles::Nstl) };
    let mut sizes: Vec<u32> = Vec::new();
    let all = items(value);
    if all.is_empty() {
        c.report(value.span(), "`object` is empty", Some(TAKES.into()));
        return None;
    }
    for item in &all {
        let text = plain_text(item.get_ref()).unwrap_or_default();
        let word = OBJECTS.iter().find(|(name, _)| *name == text).map(|(_, object)| *object);
        match word.filter(|_| all.len() == 1) {
            Some(Object::Mixed) if protocol.is_some_and(|protocol| !protocol.is_http()) => {
                let help = "leave `object` out for the files of the NSTL benchmark, or give sizes";
                c.report(
                    item.span(),
                    "`mixed` are objects of HTTP, and FTP transfers none",
                    Some(help.into()),
                );
                return None;
            }
            Some(Object::Mixed) => return Some(PartFiles::Mixed),
            Some(_) => return Some(PartFiles::Nstl),
            None => match text.parse().ok().filter(|kb| (1..=MOST_OBJECT_KB).contains(kb)) {
                Some(kb) if sizes.contains(&kb) => {
                    c.report(
                        item.span(),
                        format!("`object` has {kb} KB twice: each file is as likely as another"),
                        None,
                    );
                    return None;
                }
                Some(kb) => sizes.push(kb),
                None => {
                    c.report(item.span(), format!("`{text}` is no size of files"), Some(TAKES.into()));
                    return None;
                }
            },
        }
    }
    Some(PartFiles::Kb(sizes))
}

#[cfg(test)]
#[path = "mix_tests.rs"]
mod tests;
