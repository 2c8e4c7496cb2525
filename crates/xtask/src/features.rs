//! Features of libraries. In the whole workspace a library has all the features that any crate asks for, those of tests included, so a
//! program may use what it never asked for: it builds beside the tests, and not by itself.

use std::collections::{BTreeMap, BTreeSet};

/// Features by name and version of a library.
type Features<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// What crates of ours use of others' libraries only because somebody else asks for it, from what `cargo tree --prefix depth --format '{p} {f}'`
/// says of the programs alone and of the whole workspace.
pub(crate) fn borrowed(programs: &str, workspace: &str) -> Vec<String> {
    let (alone, together) = (used_by_ours(programs), used_by_ours(workspace));
    let borrowed = alone.iter().filter_map(|(library, features)| {
        let more: Vec<_> = together.get(library)?.difference(features).copied().collect();
        (!more.is_empty()).then(|| {
            format!(
                "{library} has {} in the whole workspace alone: ask for it where a program uses it, too",
                more.join(", ")
            )
        })
    });
    borrowed.collect()
}

/// Libraries of others that stand right below a crate of ours.
fn used_by_ours(tree: &str) -> Features<'_> {
    let mut features = Features::new();
    // Whether the crate is ours, by depth, from the root down to the line before.
    let mut ours: Vec<bool> = Vec::new();
    for line in tree.lines() {
        let start = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len());
        let (depth, crate_and_features) = line.split_at(start);
        let Ok(depth) = depth.parse::<usize>() else { continue };
        ours.truncate(depth);
        let below_ours = ours.last().copied().unwrap_or(false);
        let is_ours = crate_and_features.contains(" (/");
        ours.push(is_ours);
        if is_ours || !below_ours {
            continue;
        }
        let end = crate_and_features.match_indices(' ').nth(1).map_or(crate_and_features.len(), |(at, _)| at);
        let (library, named) = crate_and_features.split_at(end);
        let named = named.trim().trim_end_matches("(*)").trim_end();
        features.entry(library).or_default().extend(named.split(',').filter(|feature| !feature.is_empty()));
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_only_others_ask_for_are_found() {
        let workspace = "0rampart v0.1.0 (/src/crates/rampart) \n1nix v0.31.0 hostname,poll,user\n2libc v0.2.1 std\n\n\
                         0bench v0.1.0 (/src/crates/bench) \n1nix v0.31.0 hostname,poll,user (*)\n1clap v4.0.0 \n";
        #[rustfmt::skip]
        let rows: [(&str, &str, &[&str]); 4] = [
            ("the same", "0rampart v0.1.0 (/src/crates/rampart) \n1nix v0.31.0 hostname,poll,user\n2libc v0.2.1 std\n", &[]),
            ("asked for by another", "0rampart v0.1.0 (/src/crates/rampart) \n1nix v0.31.0 poll,user\n",
             &["nix v0.31.0 has hostname in the whole workspace alone: ask for it where a program uses it, too"]),
            ("used by others' libraries alone", "0rampart v0.1.0 (/src/crates/rampart) \n1nix v0.31.0 hostname,poll,user\n2libc v0.2.1 \n", &[]),
            ("said once and referred to", "0rampart v0.1.0 (/src/crates/rampart) \n1nix v0.31.0 hostname,poll,user (*)\n1clap v4.0.0 (*)\n", &[]),
        ];
        for (what, programs, expected) in rows {
            assert_eq!(borrowed(programs, workspace), expected, "{what}");
        }
    }
}
