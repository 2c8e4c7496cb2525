//! Rules with their hits, and what translates addresses.

use crate::app::{Context, Fault};
use crate::http::Answer;
use crate::pages::policy::in_force;
use rampart_client::Operation;
use rampart_client::api::{RuleCount, Rules};
use rampart_client::policy::translation::{Change, Translation};
use serde_json::json;

/// Rules on a page at most; a search finds the others.
const SHOWN: usize = 500;

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let Rules { generation, rules } = context.ask(Operation::Rules, &[])?;
    let wanted = context.query().get("search").to_lowercase();
    let unused = context.query().get("unused") == "yes";
    let matches = |rule: &&RuleCount| {
        let fields =
            [&rule.name, &rule.action, &rule.from, &rule.to, &rule.source, &rule.destination, &rule.service];
        (wanted.is_empty() || fields.iter().any(|field| field.to_lowercase().contains(&wanted)))
            && (!unused || rule.hits == 0)
    };
    let all = rules.len();
    let found: Vec<_> = rules.iter().enumerate().filter(|(_, rule)| matches(rule)).collect();
    let most = found.iter().map(|(_, rule)| rule.hits).max().unwrap_or(0);
    let row = |(place, rule): &(usize, &RuleCount)| {
        let share = rule.hits.saturating_mul(100).checked_div(most).unwrap_or(0);
        json!({ "number": place + 1, "rule": rule, "share": share })
    };
    let rows: Vec<_> = found.iter().take(SHOWN).map(row).collect();
    context.page(
        "rules.html",
        json!({
            "title": "Rules", "script": "live.js", "help": "rules", "generation": generation, "all": all,
            "matched": found.len(), "rows": rows, "search": context.query().get("search"), "unused": unused,
        }),
    )
}

pub(crate) fn nat(context: &Context<'_>) -> Result<Answer, Fault> {
    let (_, policy) = in_force(context)?;
    let row = |entry: &Translation| {
        json!({
            "name": entry.name, "description": entry.description, "from": entry.written.from, "to": entry.written.to,
            "source": entry.written.source, "destination": entry.written.destination, "service": entry.written.service,
            "change": words(entry), "enabled": entry.enabled,
        })
    };
    let rows: Vec<_> = policy.translations.iter().map(row).collect();
    context
        .page("nat.html", json!({ "title": "Translation of addresses (NAT)", "help": "nat", "rows": rows }))
}

/// What an entry does, in words.
fn words(entry: &Translation) -> String {
    let ports =
        |ports: Option<(u16, u16)>| ports.map(|(a, b)| format!(", ports {a} to {b}")).unwrap_or_default();
    let mapping =
        entry.mapping.map(|it| format!("; one mapping for all destinations, open to: {}", it.name()));
    let change = match entry.change {
        Change::Exempt => "is not translated".to_owned(),
        Change::Masquerade { ports: p } => {
            format!("the source becomes the address of the interface that it leaves by{}", ports(p))
        }
        Change::Source { first, last, ports: p } if first == last => {
            format!("the source becomes {first}{}", ports(p))
        }
        Change::Source { first, last, ports: p } => {
            format!("the source becomes one of {first} to {last}{}", ports(p))
        }
        Change::Destination { address, port: None } => format!("the destination becomes {address}"),
        Change::Destination { address, port: Some(port) } => {
            format!("the destination becomes {address}, port {port}")
        }
        Change::Prefix(prefixes) => {
            let (outside, _) = prefixes.outside();
            format!(
                "each source gets the prefix {}/{} (RFC 6296), and comes back by it",
                std::net::Ipv6Addr::from(outside),
                prefixes.bits()
            )
        }
        Change::OneToOne { first } => format!("each source has an address of its own, from {first} on"),
    };
    change + &mapping.unwrap_or_default()
}
