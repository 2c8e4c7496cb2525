//! Who may log in at gateways. The daemon reads the files that a policy names, and again when one has changed: a gateway's process can read none. A file that
//! cannot be used changes nothing of what is known, and is a trouble until it can.

use crate::list_files::Mark;
use gateway::users::{User, Users};
use policy::Policy;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who else may do something with the file: its hashes are worth guessing at, and who writes it lets himself in.
const OTHERS: u32 = 0o077;
/// Bytes of a file at most. All gateways of a policy go to their keeper in one message.
const LARGEST: u64 = 512 * 1024;

/// The files of a policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Files(HashMap<PathBuf, Known>);

#[derive(Debug, Clone, Default)]
struct Known {
    mark: Option<Mark>,
    /// Whether it was tried at all: a file that is not there has no mark.
    is_read: bool,
    users: Arc<Users>,
    trouble: Option<String>,
}

impl Files {
    /// Reads files of a policy that have changed or are new. Returns whether anybody is another one now.
    pub(super) fn read(&mut self, policy: &Policy) -> bool {
        let paths: Vec<PathBuf> = of_policy(policy).filter_map(|(_, path)| path.ok()).collect();
        self.0.retain(|path, _| paths.contains(path));
        let mut is_changed = false;
        for path in paths {
            let known = self.0.entry(path.clone()).or_default();
            let mark = Mark::of(&path);
            if known.is_read && mark == known.mark && mark.is_some() {
                continue;
            }
            (known.is_read, known.mark) = (true, mark);
            match read(&path) {
                Ok(users) => {
                    is_changed |= users != *known.users;
                    (known.users, known.trouble) = (Arc::new(users), None);
                }
                Err(why) => known.trouble = Some(why),
            }
        }
        is_changed
    }

    /// The users of a gateway; `None` if nobody logs in there.
    pub(super) fn of(&self, policy: &Policy, gateway: &policy::gateways::Gateway) -> Option<Users> {
        let path = super::place_of(policy, gateway.users_file.as_ref()?);
        let known = path.ok().and_then(|path| self.0.get(&path));
        Some(known.map(|known| (*known.users).clone()).unwrap_or_default())
    }

    /// What is wrong, and what to do.
    pub(super) fn troubles(&self) -> impl Iterator<Item = String> {
        self.0.values().filter_map(|known| {
            let why = known.trouble.as_ref()?;
            Some(format!("users of gateways could not be read, and stay as they were: {why}"))
        })
    }
}

/// The first file of users of a policy that cannot be used, with its gateway and what to do.
pub(crate) fn check(policy: &Policy) -> Result<(), String> {
    of_policy(policy).try_for_each(|(gateway, path)| {
        let read = path.and_then(|path| read(&path));
        read.map(drop).map_err(|why| format!("{}: the gateway `{gateway}`: {why}", policy.file))
    })
}

fn of_policy(policy: &Policy) -> impl Iterator<Item = (&str, Result<PathBuf, String>)> {
    let with = policy.gateways.iter().filter_map(|gateway| Some((gateway, gateway.users_file.as_ref()?)));
    with.map(|(gateway, file)| (gateway.name.as_str(), super::place_of(policy, file)))
}

/// Reads a file of users.
fn read(path: &Path) -> Result<Users, String> {
    let shown = path.display();
    let make = format!("`rampart user add NAME --file {shown}` makes it");
    // A pipe that nobody writes to would be waited for.
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no file of users {shown}: {make}"),
        _ => format!("{shown}: {error}"),
    })?;
    let about = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
    if !about.is_file() {
        return Err(format!("{shown} is no file: {make}"));
    }
    if about.uid() != 0 && about.uid() != nix::unistd::geteuid().as_raw() {
        return Err(format!(
            "{shown} belongs to another user, who could let himself in: `chown root {shown}`"
        ));
    }
    if about.mode() & OTHERS != 0 {
        return Err(format!("others may read or write {shown}: `chmod 600 {shown}`"));
    }
    if about.len() > LARGEST {
        return Err(format!("{shown} has more than {LARGEST} bytes"));
    }
    let users = passwords::file::read::<User>(&file).map_err(|error| format!("{shown}: {error}"))?;
    Users::new(users).map_err(|why| format!("{shown}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$iWh06vD8Fy27wf9npn6FXWiCX4K6pW6Ue1Bnzz07Z8A";

    fn policy(folder: &Path) -> Policy {
        let text = "[zones]\na = { interfaces = 'e0' }\n[gateways.web]\nprotocol = 'http'\nlisten = '10.0.0.1:3128'\n\
                    users_file = 'users.json'\n[[gateways.web.rules]]\nname = 'x'\naction = 'allow'\nusers = '*'\n";
        Policy::parse("p", text).unwrap().in_folder(Some(folder.to_owned()))
    }

    fn document(users: &[(&str, &str)]) -> String {
        let users = users.iter().map(|(name, hash)| format!(r#"{{"name":"{name}","hash":"{hash}"}}"#));
        format!(r#"{{"users":[{}]}}"#, users.collect::<Vec<_>>().join(","))
    }

    /// What becomes of users while their file is replaced by what is none.
    #[test]
    fn a_file_that_cannot_be_used_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.json");
        let policy = policy(folder.path());
        let mut files = Files::default();
        files.read(&policy);
        assert!(files.troubles().next().unwrap().contains("there is no file of users"), "{files:?}");
        let put = |text: &str, mode: u32| {
            fs::write(folder.path().join("new"), text).unwrap();
            fs::set_permissions(folder.path().join("new"), Permissions::from_mode(mode)).unwrap();
            fs::rename(folder.path().join("new"), &path).unwrap();
        };
        put(&document(&[("anna", HASH)]), 0o600);
        assert!(files.read(&policy) && files.troubles().next().is_none());
        let anna = files.of(&policy, &policy.gateways[0]);
        assert!(anna.as_ref().unwrap().find("anna").is_some());
        let ben = document(&[("ben", HASH)]);
        for (text, mode, expected) in [
            (ben.as_str(), 0o644, "others may read"),
            (&ben, 0o620, "others may read or write"),
            ("", 0o600, "EOF"),
            ("{\"users\":[", 0o600, "EOF"),
            (&document(&[("ben", HASH), ("ben", HASH)]), 0o600, "ben twice"),
            (&document(&[("Ben", HASH)]), 0o600, "user number 1"),
            (&document(&[("ben", "x")]), 0o600, "hash of ben"),
            (&document(&[("ben", &HASH.replace("m=8", "m=4000000"))]), 0o600, "too much memory"),
            (&ben.replace("\"name\"", "\"groups\":[\"\"],\"name\""), 0o600, "groups of ben"),
            (&ben.replace("\"name\"", "\"role\":\"x\",\"name\""), 0o600, "unknown field"),
            (&(ben.clone() + &" ".repeat(600_000)), 0o600, "more than"),
        ] {
            put(text, mode);
            assert!(!files.read(&policy), "{expected}");
            let said: Vec<String> = files.troubles().collect();
            assert!(said.len() == 1 && said[0].contains(expected), "{expected}: {said:?}");
            assert_eq!(files.of(&policy, &policy.gateways[0]), anna, "{expected}");
            assert!(check(&policy).unwrap_err().contains(expected), "{expected}");
        }
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(!files.read(&policy) && files.troubles().next().unwrap().contains("is no file"));
        fs::remove_file(&path).unwrap();
        assert!(!files.read(&policy), "whoever is known stays known");
        assert_eq!(files.of(&policy, &policy.gateways[0]), anna);
        put(&ben, 0o600);
        assert!(files.read(&policy) && files.troubles().next().is_none());
        assert!(files.of(&policy, &policy.gateways[0]).unwrap().find("anna").is_none());
    }
}
