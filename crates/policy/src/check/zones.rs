//! Zones and their interfaces.

use super::Kind;
use super::names::{Addresses, Names};
use crate::address::AddressSet;
use crate::model::{MAX_ZONES, Zone, pattern};
use crate::schema;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;
use toml_reader::{Collector, Located, Section, shortened, texts};

const KIND: Kind = Kind {
    key: "zones",
    one: "zone",
    form: "a table with `interfaces`",
    reserved: &["any", "self"],
    keys: schema::ZONE,
};

/// The zones, `self` first, each with the bytes that name it.
pub(super) fn read<'t>(
    root: &Section<'t>,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Vec<(Zone, Range<usize>)> {
    let itself = Zone {
        name: "self".to_owned(),
        interfaces: Vec::new(),
        networks: AddressSet::default(),
        description: Some("the firewall itself".to_owned()),
    };
    let mut zones = vec![(itself, 0..0)];
    let mut owners = Owners::default();
    for (name, section) in KIND.sections(root, c) {
        zones.push((zone(&name, &section, objects, &mut owners, c), name.span));
    }
    if root.value("zones").is_none() {
        let help = "write [zones.inside] and below it interfaces = [\"eth1\"]".to_owned();
        c.report(0..0, "the policy has no zones", Some(help));
    }
    if zones.len() > MAX_ZONES {
        let help = format!("it can have {}, besides `self`", MAX_ZONES - 1);
        c.report(zones[MAX_ZONES].1.clone(), "the policy has too many zones", Some(help));
        zones.drain(MAX_ZONES..).for_each(|(zone, _)| c.refuse(&zone.name));
    }
    zones
}

fn zone<'t>(
    name: &Located<&'t str>,
    section: &Section<'t>,
    objects: &mut Names<'t, Addresses>,
    owners: &mut Owners<'t>,
    c: &mut Collector<'_>,
) -> Zone {
    let interfaces = match section.value("interfaces") {
        Some(value) => texts(value, "interfaces", c).unwrap_or_default(),
        None => {
            section.missing("interfaces", "[\"eth1\"]", c);
            Vec::new()
        }
    };
    for interface in &interfaces {
        check_interface(name, interface, owners, c);
    }
    let networks = section.value("networks").and_then(|value| texts(value, "networks", c));
    let networks = networks.and_then(|words| objects.written_out(&words, c));
    Zone {
        name: name.value.to_owned(),
        interfaces: interfaces.iter().map(|i| i.value.to_owned()).collect(),
        networks: networks.map_or_else(AddressSet::default, |set| (*set).clone()),
        description: section.text("description", c).map(|d| d.value.to_owned()),
    }
}

/// Which zones have which interfaces so far.
#[derive(Default)]
struct Owners<'t> {
    names: FxHashMap<&'t str, String>,
    /// By what they begin with; none is the beginning of another.
    patterns: BTreeMap<&'t str, (Range<usize>, String)>,
}

fn check_interface<'t>(
    zone: &Located<&str>,
    interface: &Located<&'t str>,
    owners: &mut Owners<'t>,
    c: &mut Collector<'_>,
) {
    let name = interface.value;
    if name.contains('*') {
        return check_pattern(zone, interface, owners, c);
    }
    // The rule of the kernel: dev_valid_name() in net/core/dev.c.
    let valid = !name.is_empty()
        && name.len() < 16
        && name != "."
        && name != ".."
        && !name.contains(|ch: char| ch == '/' || ch == ':' || ch.is_whitespace());
    if !valid {
        let help = "an interface has 1 to 15 characters, without spaces, `/` and `:`".to_owned();
        c.report(
            interface.span.clone(),
            format!("`{}` is not the name of an interface", shortened(name)),
            Some(help),
        );
        return;
    }
    if let Some(owner) = owners.names.insert(name, zone.value.to_owned()) {
        let message = format!("the interface `{name}` is in the zone `{owner}` already");
        c.report(interface.span.clone(), message, Some("an interface belongs to one zone".to_owned()));
    }
}

/// A name that is given as well comes before a pattern that it matches. But of two patterns that match the same names neither could.
fn check_pattern<'t>(
    zone: &Located<&str>,
    interface: &Located<&'t str>,
    owners: &mut Owners<'t>,
    c: &mut Collector<'_>,
) {
    let written = interface.value;
    let begins = pattern(written).filter(|begins| {
        !begins.is_empty()
            && begins.len() < 15
            && !begins.contains(|ch: char| matches!(ch, '*' | '/' | ':') || ch.is_whitespace())
    });
    let Some(begins) = begins else {
        let help =
            "a pattern is the beginning of names, 1 to 14 characters, and a `*` behind it, as in `ppp*`"
                .to_owned();
        let message = format!("`{}` is no pattern of interfaces", shortened(written));
        c.report(interface.span.clone(), message, Some(help));
        return;
    };
    let before = owners.patterns.range(..begins).next_back().filter(|(other, _)| begins.starts_with(**other));
    let behind = || owners.patterns.range(begins..).next().filter(|(other, _)| other.starts_with(begins));
    if let Some((other, (span, owner))) = before.or_else(behind) {
        let help = || {
            Some(
                "patterns may not overlap; an interface that is named takes itself out of a pattern"
                    .to_owned(),
            )
        };
        let message = |this: &str, that: &str, of: &str| {
            format!("`{this}` matches names that `{that}` of the zone `{of}` matches")
        };
        let other = format!("{other}*");
        c.report(span.clone(), message(&other, written, zone.value), help());
        c.report(interface.span.clone(), message(written, &other, owner), help());
        return;
    }
    owners.patterns.insert(begins, (interface.span.clone(), zone.value.to_owned()));
}
