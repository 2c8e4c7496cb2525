//! Files with names for gateways of DNS, in the form of `/etc/hosts`. The daemon reads them, because a gateway's process opens no file, and looks
//! every few seconds whether they have changed. One that cannot be read leaves what was read of it before.

use crate::list_files::Mark;
use policy::Policy;
use policy::gateways::{HostEntry, Protocol, View};
use policy::hosts;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes of a file.
const MOST_BYTES: u64 = 4 << 20;

/// What is known of the files of a policy.
#[derive(Debug, Default)]
pub(super) struct NameFiles {
    files: BTreeMap<PathBuf, Known>,
}

#[derive(Debug)]
struct Known {
    /// The file as it was before it was read.
    mark: Option<Mark>,
    entries: Vec<HostEntry>,
    /// Why they are those of an earlier file, or none.
    trouble: Option<String>,
}

/// Whether all files of a policy can be read.
///
/// # Errors
/// The first that cannot, with its line and what to do.
pub(super) fn check(policy: &Policy) -> Result<(), String> {
    for (gateway, file) in named(policy) {
        let path = super::place_of(policy, file);
        path.and_then(|path| read(&path).map(drop))
            .map_err(|why| format!("{}: the gateway `{gateway}`: {why}", policy.file))?;
    }
    Ok(())
}

/// The files that a policy names, each with its gateway.
fn named(policy: &Policy) -> impl Iterator<Item = (&str, &str)> {
    policy.gateways.iter().flat_map(|gateway| {
        let views: &[View] = match &gateway.protocol {
            Protocol::Dns(dns) => &dns.views,
            _ => &[],
        };
        views.iter().flat_map(|view| &view.files).map(|file| (gateway.name.as_str(), file.as_str()))
    })
}

fn read(path: &Path) -> Result<Vec<HostEntry>, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| wrong(&error))?;
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Err(wrong(&"this is no file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong(&format!("it is larger than {} MiB", MOST_BYTES >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong(&"it is not text"))?;
    hosts::read(&text).map_err(|(line, why)| format!("{}:{line}: {why}", path.display()))
}

impl NameFiles {
    /// Whether a file of a policy is another than the one that was read.
    pub(super) fn has_changed(&self, policy: &Policy) -> bool {
        named(policy)
            .filter_map(|(_, file)| super::place_of(policy, file).ok())
            .any(|path| self.files.get(&path).is_none_or(|known| known.mark != Mark::of(&path)))
    }

    /// Reads the files of a policy that were never read, and `again` those that are other than they were; forgets those that it does not have.
    pub(super) fn read(&mut self, policy: &Policy, again: bool) {
        let mut before = std::mem::take(&mut self.files);
        for path in named(policy).filter_map(|(_, file)| super::place_of(policy, file).ok()) {
            if self.files.contains_key(&path) {
                continue;
            }
            let (mark, earlier) = (Mark::of(&path), before.remove(&path));
            let known = match earlier {
                Some(earlier) if !again || earlier.mark == mark => earlier,
                earlier => match read(&path) {
                    Ok(entries) => Known { mark, entries, trouble: None },
                    Err(why) => {
                        let entries = earlier.map(|it| it.entries).unwrap_or_default();
                        Known { mark, entries, trouble: Some(why) }
                    }
                },
            };
            self.files.insert(path, known);
        }
    }

    /// What a view's files say, in their order.
    pub(super) fn of_view<'a>(
        &'a self,
        policy: &'a Policy,
        view: &'a View,
    ) -> impl Iterator<Item = &'a [HostEntry]> {
        let paths = view.files.iter().filter_map(|file| super::place_of(policy, file).ok());
        paths.filter_map(|path| Some(&self.files.get(&path)?.entries[..]))
    }

    /// What is wrong with files, and what to do.
    pub(super) fn troubles(&self) -> impl Iterator<Item = String> {
        self.files.values().filter_map(|known| {
            let why = known.trouble.as_ref()?;
            Some(format!(
                "names of a gateway could not be read, and stay as they were: {why}; correct the file"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_leaves_what_was_read_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        let text = "[zones]\ninside = { interfaces = 'eth1' }\n[gateways.names]\nprotocol = 'dns'\nlisten = '10.0.0.1:53'\n\
            views = [{ file = 'hosts' }]\n[[gateways.names.rules]]\nname = 'all'\naction = 'allow'\n";
        let policy = Policy::parse("p", text).unwrap().in_folder(Some(folder.path().to_owned()));
        let mut files = NameFiles::default();
        let mut look = |content: Option<&[u8]>| {
            match content {
                Some(content) => std::fs::write(&file, content).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let has_changed = files.has_changed(&policy);
            files.read(&policy, true);
            let Protocol::Dns(dns) = &policy.gateways[0].protocol else { panic!() };
            let names = files.of_view(&policy, &dns.views[0]).flatten().map(|(_, names)| names[0].clone());
            let names: Vec<String> = names.collect();
            let trouble = files.troubles().next().unwrap_or_default();
            (has_changed, files.has_changed(&policy), names.join(" "), trouble, check(&policy).is_ok())
        };
        for (content, names, trouble) in [
            (Some(&b"10.0.0.5 a.lan\n"[..]), "a.lan", ""),
            (Some(b"10.0.0.5 a.lan\n10.0.0.6 b.lan\n"), "a.lan b.lan", ""),
            (Some(b"10.0.0.5 a.lan\n10.0.0.6\n"), "a.lan b.lan", "hosts:2: the address 10.0.0.6 has no name"),
            (Some(b"\xff\n"), "a.lan b.lan", "hosts: it is not text"),
            (None, "a.lan b.lan", "hosts: No such file"),
            (Some(b"10.0.0.7 c.lan"), "c.lan", ""),
        ] {
            let (has_changed, again, found, said, is_good) = look(content);
            assert!(has_changed && !again, "{content:?}");
            assert_eq!(found, names, "{content:?}");
            assert_eq!(
                (said.is_empty(), is_good),
                (trouble.is_empty(), trouble.is_empty()),
                "{content:?}: {said}"
            );
            assert!(said.contains(trouble), "{content:?}: {said}");
        }
    }
}
