//! Names for gateways of DNS, from files in the form of `/etc/hosts`.

use super::files::Content;
use crate::whole_file;
use policy::Policy;
use policy::gateways::{HostEntry, Protocol, View};
use policy::hosts;
use std::path::Path;

/// Bytes of a file.
const MOST_BYTES: usize = 4 << 20;

/// Addresses with their names, in the order of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names(pub(super) Vec<HostEntry>);

impl Content for Names {
    const WHAT: &'static str = "names of gateways";

    fn named(policy: &Policy) -> impl Iterator<Item = (&str, &str)> {
        policy.gateways.iter().flat_map(|gateway| {
            let views: &[View] = match &gateway.protocol {
                Protocol::Dns(dns) => &dns.views,
                _ => &[],
            };
            views.iter().flat_map(|view| &view.files).map(|file| (gateway.name.as_str(), file.as_str()))
        })
    }

    fn read(path: &Path) -> Result<Self, String> {
        let bytes = whole_file::open(path).and_then(|file| whole_file::read_within(MOST_BYTES, file));
        let bytes = bytes.map_err(|error| format!("{}: {error}", path.display()))?;
        let text = String::from_utf8(bytes).map_err(|_| format!("{}: it is not text", path.display()))?;
        let entries =
            hosts::read(&text).map_err(|(line, why)| format!("{}:{line}: {why}", path.display()))?;
        Ok(Self(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::{Files, check};
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_leaves_what_was_read_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        let text = "[zones]\ninside = { interfaces = 'eth1' }\n[gateways.names]\nprotocol = 'dns'\nlisten = '10.0.0.1:53'\n\
            views = [{ file = 'hosts' }]\n[[gateways.names.rules]]\nname = 'all'\naction = 'allow'\n";
        let policy = Policy::parse("p", text).unwrap().in_folder(Some(folder.path().to_owned()));
        let mut files = Files::<Names>::default();
        let mut look = |content: Option<&[u8]>| {
            match content {
                Some(content) => std::fs::write(&file, content).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let has_changed = files.read(&policy);
            let names = &files.get(&policy, "hosts").unwrap().0;
            let names: Vec<&str> = names.iter().map(|(_, names)| names[0].as_str()).collect();
            let names = names.join(" ");
            let trouble = files.troubles().next().unwrap_or_default();
            (has_changed, files.read(&policy), names, trouble, check::<Names>(&policy).is_ok())
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
            assert_eq!((has_changed, again), (trouble.is_empty(), false), "{content:?}");
            assert_eq!(found, names, "{content:?}");
            assert_eq!(
                (said.is_empty(), is_good),
                (trouble.is_empty(), trouble.is_empty()),
                "{content:?}: {said}"
            );
            assert!(said.contains(trouble), "{content:?}: {said}");
        }
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(
            !files.read(&policy) && files.troubles().next().unwrap().contains("is no file"),
            "nobody waits"
        );
    }
}
