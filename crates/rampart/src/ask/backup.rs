//! `rampart backup` and `restore`: a firewall as a file, and back.

use super::apply::{confirm_of, in_force, refuse_to_cut};
use super::shown;
use crate::api::{Operation, Restored};
use crate::backup::{self, About, Backup};
use crate::cli::{BackupArgs, RestoreArgs};
use crate::failure::Failure;
use crate::table::grouped;
use crate::whole_file;
use rampart_client::Client;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

/// Writes a backup.
pub(crate) fn backup(args: &BackupArgs, json: bool) -> Result<String, Failure> {
    if args.file.is_dir() {
        let file = args.file.display();
        return Err(Failure::Wrong(format!(
            "{file} is a folder: name a file in it, such as {file}/firewall.backup"
        )));
    }
    if holds_something_else(&args.file) {
        let file = args.file.display();
        return Err(Failure::Wrong(format!(
            "{file} is there already, and is no backup, which alone would be replaced: name another file"
        )));
    }
    let bytes = Client::new(args.socket.as_deref())?.fetch(Operation::Backup)?;
    // What cannot be restored is no backup.
    let backup = backup::decode(&bytes)
        .map_err(|why| Failure::Machine(format!("the daemon's backup cannot be read: {why}")))?;
    whole_file::replace(&args.file, 0o600, &bytes).map_err(|error| {
        Failure::Machine(format!(
            "cannot write {}: {error}; what was there before is as it was",
            args.file.display()
        ))
    })?;
    let Backup { about, policy, entries, copies } = backup;
    let value = serde_json::json!({
        "file": args.file, "bytes": bytes.len(), "policy": policy.file, "entries": entries.len(), "lists": copies.len(),
        "entries_left_out": about.entries_left_out, "lists_left_out": about.lists_left_out,
    });
    shown(&value, json, |_| {
        let (file, entries, lists) = (args.file.display(), counted(entries.len() as u64), copies.len());
        format!(
            "{file}: {} bytes, with {}, {entries} of the history and {lists} copies of lists\n{}",
            grouped(bytes.len() as u64),
            policy.file,
            left_out(&about)
        )
    })
}

/// Whether a file has contents that are no backup's: the policy itself, for example, if two names were confused.
fn holds_something_else(path: &Path) -> bool {
    let mut start = Vec::new();
    let is_file = fs::metadata(path).is_ok_and(|there| there.is_file());
    let read = is_file && File::open(path).and_then(|it| it.take(64).read_to_end(&mut start)).is_ok();
    read && !start.is_empty() && !backup::begins(&start)
}

fn counted(entries: u64) -> String {
    format!("{} {}", grouped(entries), if entries == 1 { "entry" } else { "entries" })
}

/// What had no place.
fn left_out(about: &About) -> String {
    let (entries, lists) = (about.entries_left_out, about.lists_left_out);
    match (entries, lists) {
        (0, 0) => String::new(),
        _ => format!(
            "left out, because a backup has no place for them or they cannot be read: {} of the history, {lists} copies of lists\n",
            counted(entries)
        ),
    }
}

/// Restores a backup.
pub(crate) fn restore(args: &RestoreArgs, json: bool) -> Result<String, Failure> {
    let name = args.file.display();
    let bytes = crate::whole_file::read(&args.file)
        .map_err(|error| Failure::Wrong(format!("cannot read {name}: {error}")))?;
    let refused =
        |why: String| Failure::Wrong(format!("{name} is not restored, and nothing is changed: {why}"));
    let Backup { policy, .. } = backup::decode(&bytes).map_err(|why| match is_policy(&bytes) {
        true => refused("it is a policy, which `rampart apply` puts in force".to_owned()),
        false => refused(why),
    })?;
    refuse_to_cut(&args.caution, &policy.file, policy.folder, &policy.text)?;
    let client = Client::new(args.caution.socket.as_deref())?;
    let restored: Restored = client.send_bytes(Operation::Restore, &confirm_of(&args.caution), &bytes)?;
    shown(&restored, json, |restored| {
        let Restored { applied, entries, lists } = restored;
        let entries = counted(*entries);
        in_force(&policy.file, applied)
            + &format!("new here: {entries} of the history, {lists} copies of lists\n")
    })
}

/// Whether a file that is no backup is a policy.
fn is_policy(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| policy::Policy::parse("", text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_takes_the_place_of_a_backup_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(!holds_something_else(&path), "nothing is there");
        let rows = [
            ("", false),
            ("rampart-backup 1 7 cut", false),
            ("rampart-backups", true),
            ("[zones.a]\n", true),
        ];
        for (text, expected) in rows {
            fs::write(&path, text).unwrap();
            assert_eq!(holds_something_else(&path), expected, "{text}");
        }
    }
}
