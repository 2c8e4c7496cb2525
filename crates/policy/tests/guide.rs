//! The guide documents every key and every built-in service, its examples are right, and so are those that ship.

use policy::service::{BUILT_IN, ICMP_TYPES, ICMPV6_TYPES};
use policy::{Policy, Tables, schema};
use std::path::{Path, PathBuf};

const GUIDE: &str = include_str!("../../../docs/guide/policy.md");
/// What parts of policies take for granted.
const ZONES: &str = "[zones.inside]\ninterfaces = 'eth1'\n[zones.outside]\ninterfaces = 'eth0'\n";

/// The parts of a page that are TOML.
fn parts(page: &str) -> impl Iterator<Item = &str> {
    page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next())
}

/// The guide's section about a kind of table: from the heading or row that names it to the next heading.
fn section(header: &str) -> &'static str {
    let name = match header {
        "" => return GUIDE,
        "[rules.limit]" => "### `limit`",
        "[rules.alert]" => "### `alert`",
        "[objects.NAME]" => "## `[objects]`",
        "[services.NAME]" => "## `[services]`",
        "[inspection.NAME]" | "[protection]" => "## What is specified and not in this version",
        other => other,
    };
    let start = GUIDE.find(&format!("# `{name}`")).or_else(|| GUIDE.find(name));
    let start = start.unwrap_or_else(|| panic!("the guide has no section {name}"));
    let rest = &GUIDE[start..];
    &rest[..rest[2..].find("\n#").map_or(rest.len(), |end| end + 2)]
}

#[test]
fn every_key_is_documented() {
    for table in schema::ALL {
        let text = section(table.header);
        for key in table.keys {
            let documented = text.contains(&format!("`{key}`"))
                || (table.header.is_empty()
                    && [format!("`[{key}"), format!("`[[{key}")].iter().any(|k| text.contains(k)));
            assert!(documented, "the guide does not document `{key}` of {:?}", table.header);
        }
    }
}

#[test]
fn every_word_that_is_built_in_is_documented() {
    for (name, parts) in BUILT_IN {
        let parts = parts.iter().map(|part| format!("`{part}`")).collect::<Vec<_>>().join(", ");
        assert!(GUIDE.contains(&format!("| `{name}` | {parts} |")), "{name}");
    }
    for (name, _) in ICMP_TYPES.iter().chain(ICMPV6_TYPES) {
        assert!(section("## `[services]`").contains(name), "{name}");
    }
}

#[test]
fn the_guides_own_policy_has_no_errors_and_no_warnings() {
    no_errors_and_no_warnings(Path::new("guide"), parts(GUIDE).next().unwrap());
}

/// The gateways' guide has parts of policies.
#[test]
fn the_guide_of_gateways_has_policies_without_errors() {
    const GATEWAYS: &str = include_str!("../../../docs/guide/gateways.md");
    let count = parts(GATEWAYS)
        .map(|text| no_errors_and_no_warnings(Path::new("gateways"), &format!("{ZONES}{text}")))
        .count();
    assert_eq!(count, 8);
}

/// What a reader copies from the other guides, and from the parts of the policy's own.
#[test]
fn the_parts_of_policies_in_guides_have_no_errors() {
    for (page, guide, count) in [
        ("policy", GUIDE, 14),
        ("firewall", include_str!("../../../docs/guide/firewall.md"), 1),
        ("logs", include_str!("../../../docs/guide/logs.md"), 2),
        ("metrics", include_str!("../../../docs/guide/metrics.md"), 1),
    ] {
        assert_eq!(parts(guide).count(), count, "{page}");
        for block in parts(guide) {
            let zones = if block.contains("[zones") { "" } else { ZONES };
            let objects = if block.contains("\"trusted\"") { "objects.trusted = '192.0.2.1'\n" } else { "" };
            let text = format!("{objects}{zones}{block}");
            if let Err(problems) = Policy::parse(page, &text) {
                panic!("{problems}\n{text}");
            }
        }
    }
}

fn no_errors_and_no_warnings(path: &Path, text: &str) {
    let name = path.display().to_string();
    let policy = Policy::parse(&name, text).unwrap_or_else(|problems| panic!("{problems}"));
    let warnings: Vec<String> = policy.warnings().iter().map(|w| w.problem.to_string()).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
    assert!(Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH).is_ok());
}

#[test]
fn every_example_has_no_errors_and_no_warnings() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        no_errors_and_no_warnings(&path, &std::fs::read_to_string(&path).unwrap());
        count += 1;
    }
    assert_eq!(count, 12);
}
