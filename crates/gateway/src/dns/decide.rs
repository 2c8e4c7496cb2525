//! What becomes of a question: the first rule that matches decides, and where none matches it is refused. No clock and no network here.

use super::answer::Answer;
use super::name::{is_below, is_within};
use super::private::{Special, special};
use super::question::Question;
use super::view;
use crate::config::{Dns, Gateway, Rule};
use domain::base::iana::{OptRcode, Rtype};
use std::net::IpAddr;

/// What becomes of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is answered by what the policy knows; a rule lets it, a place in [`Gateway::rules`].
    Answer(usize, Answer),
    /// Name servers are asked; a rule lets it.
    Ask(usize),
    /// It is refused, by a rule if one has decided.
    Refuse(Option<usize>, Refusal),
}

/// Why a question is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Short identifier.
    pub reason: &'static str,
    /// The code of the answer.
    pub code: OptRcode,
    /// The same for whoever knows explanations (RFC 8914).
    pub why: Option<u16>,
}

/// The explanation that it is blocked.
pub const BLOCKED: u16 = 15;
/// The explanation that the client may not ask.
const PROHIBITED: u16 = 18;

/// Whether a client may ask for anything. Whom no rule knows gets nothing by datagrams: its address may be forged.
pub fn is_known(gateway: &Gateway, client: IpAddr) -> bool {
    gateway.rules.iter().any(|rule| rule.allow && is_from(rule, client))
}

/// Decides about a question.
pub fn decide(gateway: &Gateway, dns: &Dns, client: IpAddr, question: &Question) -> Decision {
    let refused = |reason, why| Refusal { reason, code: OptRcode::REFUSED, why };
    let kind = question.kind.to_string();
    let found = gateway.rules.iter().position(|rule| matches(gateway, rule, client, &question.text, &kind));
    let place = match found {
        Some(place) if gateway.rules[place].allow => place,
        Some(place) => return Decision::Refuse(Some(place), refused("rule-deny", Some(BLOCKED))),
        None => return Decision::Refuse(None, refused("no-rule", Some(PROHIBITED))),
    };
    if !is_of_records(question.kind) {
        return Decision::Refuse(Some(place), refused("type", None));
    }
    if let Some(answer) = view::answer(dns, client, question) {
        return Decision::Answer(place, answer);
    }
    match special(&question.text) {
        Some(Special::Localhost) => return Decision::Answer(place, view::localhost(question)),
        Some(Special::Nobodys(zone)) => return Decision::Answer(place, view::no_such_name(question, zone)),
        Some(Special::OfANetwork(zone)) if !gateway.rules[place].private_answers => {
            return Decision::Answer(place, view::no_such_name(question, zone));
        }
        _ => {}
    }
    if question.kind == Rtype::ANY {
        return Decision::Answer(place, view::of_any(question));
    }
    if !question.recursion {
        // What others have asked for is nobody's business.
        return Decision::Refuse(Some(place), refused("no-recursion", None));
    }
    Decision::Ask(place)
}

/// What the gateway itself finds out of a name, for the packet filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Own {
    /// The policy knows the addresses, for so many seconds.
    Known(Vec<IpAddr>, u32),
    /// Name servers are asked; whether a rule lets them say addresses of private networks to anybody.
    Ask {
        /// It does.
        private_answers: bool,
    },
    /// There is nothing of that name.
    Nobody,
}

/// Decides what the gateway itself finds out of a name. It is what clients could get, of whatever view, and by whatever rule.
pub fn own(gateway: &Gateway, dns: &Dns, name: &str) -> Own {
    let known: Vec<_> = dns.views.iter().filter_map(|view| view.names.get(name)).collect();
    if !known.is_empty() {
        return Own::Known(known.into_iter().flatten().copied().collect(), view::LIFETIME);
    }
    let private_answers = (gateway.rules.iter())
        .any(|rule| rule.allow && rule.private_answers && is_about(gateway, rule, name));
    let is_ours = dns.local.iter().any(|zone| is_within(name, zone));
    match special(name) {
        _ if is_ours => Own::Nobody,
        Some(Special::Localhost | Special::Nobodys(_)) => Own::Nobody,
        Some(Special::OfANetwork(_)) if !private_answers => Own::Nobody,
        _ => Own::Ask { private_answers },
    }
}

/// Types of records, and all of them; others are of the way that messages take, or move whole zones (RFC 6895 section 3.1).
fn is_of_records(kind: Rtype) -> bool {
    kind == Rtype::ANY || (!matches!(kind.to_int(), 0 | 41 | 128..=255))
}

fn is_from(rule: &Rule, client: IpAddr) -> bool {
    rule.source.as_ref().is_none_or(|addresses| addresses.has(client))
}

fn matches(gateway: &Gateway, rule: &Rule, client: IpAddr, name: &str, kind: &str) -> bool {
    let by_kind = rule.methods.is_empty() || rule.methods.iter().any(|known| known == kind);
    by_kind && is_about(gateway, rule, name) && is_from(rule, client)
}

fn is_about(gateway: &Gateway, rule: &Rule, name: &str) -> bool {
    gateway.is_about(rule, |pattern| is_name(pattern, name), |set| set.has_name(name))
}

/// `*.example.com` is every name below `example.com`, and not that itself.
pub fn is_name(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(domain) => is_below(name, domain),
        None => pattern == name,
    }
}
