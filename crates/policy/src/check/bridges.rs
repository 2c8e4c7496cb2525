//! `[bridges.NAME]`: interfaces of one network.

use super::Kind;
use crate::bridge::{Bridge, INTERFACES, MOST_SWITCHES, Passes, VLANS, VlanSet};
use crate::model::{Zone, pattern};
use crate::schema;
use crate::settings::Forwarding;
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use toml_reader::{Collector, Located, Section, Value, items, plain_text, shortened, texts};

const KIND: Kind = Kind {
    key: "bridges",
    one: "bridge",
    form: "a table with `interfaces`",
    reserved: &[],
    keys: schema::BRIDGE,
};

pub(super) fn read(
    root: &Section<'_>,
    forwarding: Forwarding,
    zones: &[(Zone, Range<usize>)],
    c: &mut Collector<'_>,
) -> Vec<Bridge> {
    let sections = KIND.sections(root, c);
    if forwarding == Forwarding::Kernel && !sections.is_empty() {
        let help = "leave `forwarding` out, or let the kernel bridge and judge what it forwards".to_owned();
        let message = "where the kernel forwards, this firewall bridges nothing";
        c.report(root.key_span("bridges"), message, Some(help));
        return Vec::new();
    }
    let mut owners = HashMap::new();
    let bridges = sections.iter().map(|(name, section)| bridge(name, section, zones, &mut owners, c));
    let bridges: Vec<Bridge> = bridges.collect::<Vec<_>>().into_iter().flatten().collect();
    if bridges.iter().filter(|bridge| bridge.is_switch()).count() > MOST_SWITCHES {
        let message = format!("at most {MOST_SWITCHES} bridges can have more than two interfaces");
        c.report(root.key_span("bridges"), message, None);
    }
    bridges
}

fn bridge<'t>(
    name: &Located<&'t str>,
    section: &Section<'t>,
    zones: &[(Zone, Range<usize>)],
    owners: &mut HashMap<&'t str, &'t str>,
    c: &mut Collector<'_>,
) -> Option<Bridge> {
    let interfaces = match section.value("interfaces") {
        Some(value) => interfaces(name, value, zones, owners, c),
        None => {
            section.missing("interfaces", "[\"eth1\", \"eth2\"]", c);
            None
        }
    };
    let passes = match section.value("pass") {
        Some(value) if items(value).is_empty() => Some(Vec::new()),
        Some(value) => passes(value, c),
        None => Some(Passes::USUAL.to_vec()),
    };
    let vlans = section.value("vlans").map_or_else(|| Some(VlanSet::default()), |value| vlans(value, c));
    Some(Bridge { name: name.value.to_owned(), interfaces: interfaces?, passes: passes?, vlans: vlans? })
}

fn interfaces<'t>(
    bridge: &Located<&'t str>,
    value: &'t Value<'t>,
    zones: &[(Zone, Range<usize>)],
    owners: &mut HashMap<&'t str, &'t str>,
    c: &mut Collector<'_>,
) -> Option<Vec<String>> {
    let found = texts(value, "interfaces", c)?;
    let mut good = true;
    for interface in &found {
        good &= is_free_end(bridge, interface, zones, owners, c);
    }
    if !INTERFACES.contains(&found.len()) {
        let (least, most) = (INTERFACES.start(), INTERFACES.end());
        let message = format!("the bridge `{}` must have {least} to {most} interfaces", bridge.value);
        c.report(value.span(), message, Some("name those between which it stands".to_owned()));
        return None;
    }
    good.then(|| found.iter().map(|interface| interface.value.to_owned()).collect())
}

/// Whether an interface is of a zone, and of no other bridge.
fn is_free_end<'t>(
    bridge: &Located<&'t str>,
    interface: &Located<&'t str>,
    zones: &[(Zone, Range<usize>)],
    owners: &mut HashMap<&'t str, &'t str>,
    c: &mut Collector<'_>,
) -> bool {
    let shown = shortened(interface.value);
    let mut report = |message: String, help: &str| {
        c.report(interface.span.clone(), message, Some(help.to_owned()));
        false
    };
    if pattern(interface.value).is_some() {
        return report(format!("`{shown}` is a pattern"), "name the interfaces of a bridge one by one");
    }
    if !zones.iter().any(|(zone, _)| zone.named_interfaces().any(|name| name == interface.value)) {
        return report(
            format!("the interface `{shown}` is in no zone"),
            "write it among the `interfaces` of a zone: packets are judged by the zones of both interfaces",
        );
    }
    match owners.insert(interface.value, bridge.value) {
        Some(owner) => report(
            format!("the interface `{shown}` is in the bridge `{owner}` already"),
            "an interface is of one bridge, once",
        ),
        None => true,
    }
}

fn passes(value: &Value<'_>, c: &mut Collector<'_>) -> Option<Vec<Passes>> {
    let words = texts(value, "pass", c)?;
    let found: Vec<Passes> = words
        .iter()
        .filter_map(|word| {
            let known = Passes::NAMES.iter().find(|(name, _)| *name == word.value);
            if known.is_none() {
                let help = c.suggestion(word.value, Passes::NAMES.iter().map(|(name, _)| *name));
                let message = format!("nothing that passes a bridge is called `{}`", shortened(word.value));
                c.report(word.span.clone(), message, help);
            }
            known.map(|(_, passes)| *passes)
        })
        .collect();
    (found.len() == words.len()).then_some(found)
}

fn vlans(value: &Value<'_>, c: &mut Collector<'_>) -> Option<VlanSet> {
    let mut set = VlanSet::default();
    let mut good = true;
    for item in items(value) {
        match plain_text(item.get_ref()).as_deref().and_then(range) {
            Some(vlans) => set.add(vlans),
            None => {
                let help = format!(
                    "write numbers from {} to {}, ranges such as \"10-19\", or \"all\"",
                    VLANS.start(),
                    VLANS.end()
                );
                c.report(item.span(), "this is no VLAN", Some(help));
                good = false;
            }
        }
    }
    good.then_some(set)
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    if text == "all" {
        return Some(VLANS);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && VLANS.contains(&first) && VLANS.contains(&last)).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use crate::Policy;
    use crate::bridge::Passes;

    const ZONES: &str = "[zones]\na = { interfaces = ['e0', 'ppp*'] }\nb = { interfaces = ['e1', 'e2'] }\n";

    #[test]
    fn a_bridge_has_two_interfaces_of_zones_or_more() {
        for (text, why) in [
            ("interfaces = ['e0', 'e1']", None),
            ("interfaces = ['e1', 'e2']", None),
            ("interfaces = 'e0'", Some("must have 2 to 16 interfaces")),
            ("interfaces = ['e0', 'e1', 'e2']", None),
            ("interfaces = ['e0', 'e1', 'e2', 'e1']", Some("`e1` is in the bridge `wire` already")),
            ("interfaces = ['e0', 'e0']", Some("`e0` is in the bridge `wire` already")),
            ("interfaces = ['e0', 'e9']", Some("`e9` is in no zone")),
            ("interfaces = ['e0', 'ppp*']", Some("`ppp*` is a pattern")),
            ("interfaces = ['e0', 'ppp0']", Some("`ppp0` is in no zone")),
            ("", Some("has no `interfaces`")),
            ("interfaces = ['e0', 'e1']\npass = []", None),
            ("interfaces = ['e0', 'e1']\npass = ['apr']", Some("did you mean `arp`?")),
            ("interfaces = ['e0', 'e1']\nvlans = 'all'", None),
            ("interfaces = ['e0', 'e1']\nvlans = [10, '20-29', '4094']", None),
            ("interfaces = ['e0', 'e1']\nvlans = [0]", Some("this is no VLAN")),
            ("interfaces = ['e0', 'e1']\nvlans = ['29-20']", Some("this is no VLAN")),
            ("interfaces = ['e0', 'e1']\nvlans = [4095]", Some("this is no VLAN")),
            ("interfaces = ['e0', 'e1']\nstp = true", Some("stp")),
            (
                "interfaces = ['e0', 'e1']\n[bridges.other]\ninterfaces = ['e2', 'e1']",
                Some("`e1` is in the bridge `wire`"),
            ),
            ("interfaces = ['e0', 'e1']\n[settings]\nforwarding = 'kernel'", Some("bridges nothing")),
        ] {
            let found = Policy::parse("p", &format!("{ZONES}[bridges.wire]\n{text}\n"));
            let said = found.as_ref().err().map(|problems| {
                let all = problems.list().iter();
                all.map(|it| format!("{it} {}\n", it.help.as_deref().unwrap_or_default())).collect::<String>()
            });
            match (why, said) {
                (None, said) => assert_eq!(said, None, "{text}"),
                (Some(why), said) => {
                    assert!(said.as_ref().is_some_and(|it| it.contains(why)), "{text}: {said:?}")
                }
            }
        }
    }

    /// Two bridges share no interface, and numbers of those with more than two are few.
    #[test]
    fn so_many_bridges_may_have_more_than_two_interfaces() {
        for (count, interfaces, why) in
            [(15, 16, None), (16, 3, Some("at most 15 bridges")), (1, 17, Some("2 to 16"))]
        {
            let name = |bridge: usize, interface: usize| format!("'b{bridge}i{interface}'");
            let names =
                |bridge: usize| (0..interfaces).map(|it| name(bridge, it)).collect::<Vec<_>>().join(", ");
            let all = (0..count).map(names).collect::<Vec<_>>().join(", ");
            let bridges = (0..count).map(|it| format!("[bridges.b{it}]\ninterfaces = [{}]\n", names(it)));
            let text = format!("[zones]\na = {{ interfaces = [{all}] }}\n{}", bridges.collect::<String>());
            let said = Policy::parse("p", &text).err().map(|problems| problems.to_string());
            assert_eq!(said.is_some(), why.is_some(), "{count}: {said:?}");
            assert!(why.is_none_or(|why| said.as_ref().is_some_and(|it| it.contains(why))), "{said:?}");
        }
    }

    #[test]
    fn what_passes_and_which_vlans_is_read() {
        let bridge = |more: &str| {
            let text = format!("{ZONES}[bridges.wire]\ninterfaces = ['e0', 'e1']\n{more}");
            Policy::parse("p", &text).unwrap().bridges.remove(0)
        };
        assert_eq!(bridge("").passes, Passes::USUAL);
        assert_eq!(bridge("pass = ['other', 'arp']").passes, [Passes::Other, Passes::Arp]);
        let vlans = bridge("vlans = [10, '20-29', '4094']").vlans;
        let found: Vec<u16> = (0..=4095).filter(|vlan| vlans.contains(*vlan)).collect();
        assert_eq!(found, [10, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 4094]);
        assert_eq!((0..=4095).filter(|vlan| bridge("vlans = 'all'").vlans.contains(*vlan)).count(), 4094);
        assert!((0..=4095).all(|vlan| !bridge("").vlans.contains(vlan)));
        assert_eq!(bridge("").others("e0").collect::<Vec<_>>(), ["e1"]);
        assert_eq!(bridge("").others("e2").collect::<Vec<_>>(), ["e0", "e1"]);
    }
}
