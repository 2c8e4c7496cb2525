//! Removes what killed runs left behind: namespaces with all programs in them, and settings that they had changed. Never touches anything
//! of a run that is alive, nor anything else that no journal names.

use crate::error::TestbedError;
use crate::journal::{self, Change};
use crate::netns;
use std::collections::BTreeSet;

/// Undoes the changes of every run whose process is gone; returns them in the order they were undone.
///
/// # Errors
/// The first change that could not be undone, after all others were tried; its journal stays for the next time.
pub fn remove() -> Result<Vec<Change>, TestbedError> {
    let mut undone = Vec::new();
    let mut first_error = None;
    for (path, owner) in journal::all() {
        if owner.is_alive() {
            continue;
        }
        let mut clean = true;
        for change in journal::read(&path).into_iter().rev() {
            match undo(&change) {
                Ok(()) => undone.push(change),
                Err(error) => {
                    clean = false;
                    first_error.get_or_insert(error);
                }
            }
        }
        if clean {
            // Another bench may have removed it at the same moment; gone is gone.
            let _ = std::fs::remove_file(&path);
        }
    }
    for name in orphans() {
        let change = Change::Namespace(name);
        match undo(&change) {
            Ok(()) => undone.push(change),
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    first_error.map_or(Ok(undone), Err)
}

/// A program is written to the journal once it runs, so a run that is killed in between has one that only its namespace tells.
fn undo(change: &Change) -> Result<(), TestbedError> {
    if let Change::Namespace(name) = change {
        netns::end_processes(name);
    }
    change.undo()
}

/// Namespaces with a bed's name whose process does not exist at all and which no journal names: of a run whose
/// journal was lost.
fn orphans() -> BTreeSet<String> {
    netns::names()
        .into_iter()
        .filter(|name| owner_pid(name).is_some_and(|pid| journal::start_ticks(pid).is_none()))
        .collect()
}

/// The process id in `rb-<pid>-<n>-<zone>`.
fn owner_pid(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix("rb-")?.splitn(3, '-');
    let pid = parts.next()?.parse().ok()?;
    parts.next()?.parse::<u64>().ok()?;
    matches!(parts.next()?, "private" | "dmz" | "hostile" | "firewall" | "link").then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_beds_have_an_owner() {
        let rows = [
            ("rb-12-0-private", Some(12)),
            ("rb-12-34-link", Some(12)),
            ("rb-12-0-mine", None),
            ("rb-x-0-private", None),
            ("rb-12-private", None),
            ("private", None),
        ];
        for (name, expected) in rows {
            assert_eq!(owner_pid(name), expected, "{name}");
        }
    }

    #[test]
    fn needs_root_a_program_that_no_journal_names_ends_with_its_namespace() {
        let mut owner = std::process::Command::new("true").spawn().unwrap();
        owner.wait().unwrap();
        let name = format!("rb-{}-0-link", owner.id());
        let start = || std::process::Command::new("sleep").arg("1000").spawn();
        let mut lost = netns::Namespace::create(&name).unwrap().enter(start).unwrap().unwrap();
        let mut outside = start().unwrap();
        assert!(remove().unwrap().contains(&Change::Namespace(name.clone())));
        assert!(lost.try_wait().unwrap().is_some_and(|status| !status.success()));
        assert!(!netns::names().contains(&name));
        assert_eq!(outside.try_wait().unwrap(), None);
        outside.kill().unwrap();
        outside.wait().unwrap();
    }
}
