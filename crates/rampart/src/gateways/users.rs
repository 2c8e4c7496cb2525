//! Who may log in at gateways.

use super::files::Content;
use crate::whole_file;
use gateway::users::{User, Users};
use policy::Policy;
use std::io::ErrorKind;
use std::path::Path;

/// Bytes of a file at most. All gateways of a policy go to their keeper in one message.
const LARGEST: u64 = 512 * 1024;

impl Content for Users {
    const WHAT: &'static str = "users of gateways";

    fn named(policy: &Policy) -> impl Iterator<Item = (&str, &str)> {
        let with =
            policy.gateways.iter().map(|gateway| (gateway.name.as_str(), gateway.users_file.as_deref()));
        with.filter_map(|(gateway, file)| Some((gateway, file?)))
    }

    fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let make = format!("`rampart user add NAME --file {shown}` makes it");
        let file = whole_file::open(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!("there is no file of users {shown}: {make}"),
            ErrorKind::InvalidInput => format!("{shown} {error}: {make}"),
            _ => format!("{shown}: {error}"),
        })?;
        // Hashes are worth guessing at, and who writes the file lets himself in.
        whole_file::check_secret(&file, &shown)?;
        let about = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
        if about.len() > LARGEST {
            return Err(format!("{shown} has more than {LARGEST} bytes"));
        }
        let users = passwords::file::read::<User>(&file).map_err(|error| format!("{shown}: {error}"))?;
        Users::new(users).map_err(|why| format!("{shown}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::{Files, check};
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
        let mut files = Files::<Users>::default();
        files.read(&policy);
        assert!(files.troubles().next().unwrap().contains("there is no file of users"), "{files:?}");
        let put = |text: &str, mode: u32| {
            fs::write(folder.path().join("new"), text).unwrap();
            fs::set_permissions(folder.path().join("new"), Permissions::from_mode(mode)).unwrap();
            fs::rename(folder.path().join("new"), &path).unwrap();
        };
        put(&document(&[("anna", HASH)]), 0o600);
        assert!(files.read(&policy) && files.troubles().next().is_none());
        let known = |files: &Files<Users>| files.get(&policy, "users.json").cloned().unwrap();
        let anna = known(&files);
        assert!(anna.find("anna").is_some());
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
            assert_eq!(known(&files), anna, "{expected}");
            assert!(check::<Users>(&policy).unwrap_err().contains(expected), "{expected}");
        }
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(!files.read(&policy) && files.troubles().next().unwrap().contains("is no file"));
        fs::remove_file(&path).unwrap();
        assert!(!files.read(&policy), "whoever is known stays known");
        assert_eq!(known(&files), anna);
        put(&ben, 0o600);
        assert!(files.read(&policy) && files.troubles().next().is_none());
        assert!(known(&files).find("anna").is_none());
    }
}
