//! `rampart check`: errors and warnings of a policy.

use crate::api::Problem;
use crate::cli::CheckArgs;
use crate::failure::Failure;
use crate::list_files::{Facts, Loaded};
use crate::output::outln;
use crate::table::grouped;
use policy::gateways::Protocol;
use policy::lists::List;
use policy::tables::{PROMISED_LINES, Tables};
use policy::translation::Translation;
use policy::{Policy, Warning, WarningKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::process::ExitCode;

pub(crate) fn run(args: &CheckArgs, json: bool) -> Result<ExitCode, Failure> {
    let policy = crate::parsed(&args.policy, crate::read_text_or_stdin(&args.policy)?)?;
    // What cannot be built cannot be run: say so here and not when the firewall is started.
    let now = crate::explain::now();
    let tables =
        Tables::build(&policy, now).map_err(|error| Failure::Wrong(format!("{}: {error}", policy.file)))?;
    let lists = crate::list_files::load(&policy, None, now).map_err(Failure::Wrong)?;
    crate::gateways::check_files(&policy, now).map_err(Failure::Wrong)?;
    crate::export::check_files(&policy).map_err(Failure::Wrong)?;
    crate::kernel::can_forward(&policy).map_err(|error| Failure::Machine(error.to_string()))?;
    // An interface that is not here may be one of another machine.
    if let Some((_, why)) = crate::kernel::unfit(&policy).into_iter().next() {
        return Err(Failure::Wrong(format!("{}: {why}", policy.file)));
    }
    let warnings = policy.warnings();
    if json {
        let counts = counts(&warnings);
        let warnings: Vec<Value> = warnings.iter().map(warning_json).collect();
        let [ipv4, ipv6] = tables.bounds();
        let look_up = json!({
            "method": tables.method.name(), "most_lines": { "ipv4": ipv4, "ipv6": ipv6 }, "keeps_promise": tables.keeps_promise(),
        });
        outln!(
            "{:#}",
            json!({
                "ok": true, "errors": [], "warnings": warnings, "warning_counts": counts, "rules": policy.rules.len(), "look_up": look_up,
                "answers_arp": answered_json(&policy),
            })
        );
    } else {
        print(&policy, &warnings, args.all);
        outln!("{}", look_up_words(&tables));
        crate::output::print(&answered_words(&policy));
        lists.iter().for_each(|loaded| crate::output::print(&list_words(&policy, loaded)));
    }
    let fails = args.strict && !warnings.is_empty();
    Ok(if fails { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Warnings of one kind with the same reason that are printed one by one; of more, the first of them and the number of the others.
const ALIKE: usize = 3;

fn print(policy: &Policy, warnings: &[Warning], all: bool) {
    for group in groups(warnings) {
        let shown = if all || group.len() <= ALIKE + 1 { group.len() } else { ALIKE };
        for warning in &group[..shown] {
            outln!("{}: {}", warning.kind.name(), warning.problem);
            if let Some(help) = &warning.problem.help {
                outln!("  {help}");
            }
        }
        if let [.., last] = &group[shown..] {
            let reason = if last.by.is_empty() { "" } else { " because of the same rules" };
            outln!(
                "{}: and {} more{reason}, the last at {}:{} (--all shows each)",
                last.kind.name(),
                grouped((group.len() - shown) as u64),
                policy.file,
                last.problem.line
            );
        }
    }
    let zones: Vec<&str> = policy.zones.iter().map(|zone| zone.name.as_str()).collect();
    outln!(
        "{}: {} between the zones {}: no errors, {}",
        policy.file,
        crate::table::rules(policy.rules.len() as u64),
        zones.join(", "),
        counted(warnings)
    );
}

/// Warnings of the same kind with the same reason together, in the order of the first of each.
fn groups(warnings: &[Warning]) -> Vec<Vec<&Warning>> {
    let mut places: HashMap<(WarningKind, &[String]), usize> = HashMap::new();
    let mut groups: Vec<Vec<&Warning>> = Vec::new();
    for warning in warnings {
        let place = *places.entry((warning.kind, &warning.by)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(warning);
    }
    groups
}

/// "3 warnings (2 shadowed, 1 unused)".
fn counted(warnings: &[Warning]) -> String {
    let kinds = counts(warnings).into_iter().map(|(kind, count)| format!("{} {kind}", grouped(count)));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    match warnings.len() {
        0 => "no warnings".to_owned(),
        1 => format!("1 warning ({kinds})"),
        n => format!("{} warnings ({kinds})", grouped(n as u64)),
    }
}

fn counts(warnings: &[Warning]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    warnings.iter().for_each(|warning| *counts.entry(warning.kind.name()).or_default() += 1);
    counts
}

/// What is on each list.
fn list_words(policy: &Policy, loaded: &Loaded) -> String {
    let speak_dns = policy.gateways.iter().filter(|gateway| matches!(gateway.protocol, Protocol::Dns(_)));
    let gateways: Vec<_> = speak_dns.map(|gateway| format!("the gateway `{}`", gateway.name)).collect();
    let gateways = gateways.join(" or ");
    let line = |(list, facts): (&List, &Facts)| {
        let broken = match facts.broken_lines {
            0 => String::new(),
            lines => format!(", {lines} broken lines left out"),
        };
        let (name, v4, v6) = (&list.name, facts.ipv4_addresses, facts.ipv6_ranges);
        if list.domain().is_some() {
            return format!("the domain `{name}`: what {gateways} says, while the firewall runs\n");
        }
        let expires = match list.expires {
            Some(end) if list.has_expired(facts.read_at) => {
                return format!("the list `{name}`: nothing is on it, because it expired at {end}\n");
            }
            Some(end) => format!(", until {end}"),
            None => String::new(),
        };
        if let Some(trouble) = &facts.trouble {
            return format!("the list `{name}`: {trouble}\n");
        }
        format!("the list `{name}`: {v4} IPv4 addresses, {v6} ranges of IPv6{broken}{expires}\n")
    };
    policy.lists.iter().zip(&loaded.lists).map(line).collect()
}

/// Zones, and addresses of a translation of which the firewall answers ARP there.
fn answered(policy: &Policy) -> Vec<(&str, Vec<&str>, Vec<String>)> {
    let of = |entry: &'_ Translation| {
        let (zones, addresses) = entry.answered();
        let has = |zone: &usize| zones >> zone & 1 != 0;
        let names =
            (0..policy.zones.len()).filter(has).map(|zone| policy.zones[zone].name.as_str()).collect();
        let range = |&(first, last): &(u32, u32)| match [first, last].map(Ipv4Addr::from) {
            [first, last] if first == last => first.to_string(),
            [first, last] => format!("{first}-{last}"),
        };
        let ranges: Vec<String> = addresses.ranges().iter().map(range).collect();
        (names, ranges)
    };
    let all = policy.translations.iter().map(|entry| (entry, of(entry)));
    all.filter(|(_, (_, ranges))| !ranges.is_empty())
        .map(|(entry, (zones, ranges))| (entry.name.as_str(), zones, ranges))
        .collect()
}

fn answered_words(policy: &Policy) -> String {
    let line = |(name, zones, addresses): (&str, Vec<&str>, Vec<String>)| {
        format!(
            "the translation `{name}`: ARP from {} is answered for {}, on links that a route to it ends on, if no interface has it\n",
            zones.join(", "),
            addresses.join(", ")
        )
    };
    answered(policy).into_iter().map(line).collect()
}

fn answered_json(policy: &Policy) -> Value {
    answered(policy)
        .into_iter()
        .map(
            |(name, zones, addresses)| json!({ "translation": name, "zones": zones, "addresses": addresses }),
        )
        .collect()
}

/// What a new flow costs under the policy.
fn look_up_words(tables: &Tables) -> String {
    let [ipv4, ipv6] = tables.bounds();
    let [promised_ipv4, promised_ipv6] = PROMISED_LINES;
    let method = tables.method.words();
    let bounds = format!(
        "a new flow is looked up by {method}: at most {ipv4} lines of memory with IPv4, {ipv6} with IPv6"
    );
    if tables.keeps_promise() {
        return bounds;
    }
    format!(
        "{bounds}. That is above the {promised_ipv4} and {promised_ipv6} that most policies keep, because {}: new flows take longer to open",
        why_above_promise(
            tables.keeps_promise_without_lists(),
            tables.listed.series.len(),
            tables.listed.bounds()
        )
    )
}

/// Which rules take a look-up above what is promised: those without lists, those of so many pairs of lists, which take so many lines, or
/// both together.
fn why_above_promise(others_keep_promise: bool, pairs: usize, [ipv4, ipv6]: [u32; 2]) -> String {
    const OVERLAP: &str = "too many rules overlap in all fields";
    let listed = format!(
        "the rules for each of {pairs} pairs of lists are searched by themselves, which takes up to {ipv4} and {ipv6} of these lines where a \
         packet's ends are on all of the lists"
    );
    match (pairs, others_keep_promise) {
        (0, _) => OVERLAP.to_owned(),
        (_, true) => listed,
        (_, false) => format!("{OVERLAP}, and {listed}"),
    }
}

fn warning_json(warning: &Warning) -> Value {
    let mut value = json!(Problem::from(&warning.problem));
    value["kind"] = json!(warning.kind.name());
    value["rule"] = json!(warning.rule);
    value["by"] = json!(warning.by);
    value
}

#[cfg(test)]
mod tests {
    use super::why_above_promise;

    #[test]
    fn all_that_costs_too_much_is_named() {
        let lists = "the rules for each of 9 pairs of lists are searched by themselves, which takes up to 18 and 27 of these lines";
        let rows = [
            (why_above_promise(false, 0, [0, 0]), "too many rules overlap in all fields".to_owned()),
            (why_above_promise(true, 9, [18, 27]), lists.to_owned()),
            (
                why_above_promise(false, 9, [18, 27]),
                format!("too many rules overlap in all fields, and {lists}"),
            ),
        ];
        for (said, expected) in rows {
            assert!(said.starts_with(&expected), "{said}");
        }
    }
}
