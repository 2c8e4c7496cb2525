//! Hosts of gateways' rules, from files of a line each.

use super::files::Content;
use crate::whole_file;
use gateway::hosts::HostSet;
use policy::{Policy, hosts};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a file: more than a million hosts. All gateways of a policy go to their keeper in one message.
const MOST_BYTES: usize = 32 << 20;

/// Hosts of a file, which gateways share.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HostList(pub(super) Arc<HostSet>);

impl Content for HostList {
    const WHAT: &'static str = "hosts of gateways";

    fn named(policy: &Policy) -> impl Iterator<Item = (&str, &str)> {
        policy.gateways.iter().flat_map(|gateway| {
            let files = gateway.rules.iter().flat_map(|rule| &rule.host_files);
            files.map(|file| (gateway.name.as_str(), file.as_str()))
        })
    }

    fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let bytes = whole_file::open(path).and_then(|file| whole_file::read_within(MOST_BYTES, file));
        let bytes = bytes.map_err(|error| format!("{shown}: {error}"))?;
        let text = String::from_utf8(bytes).map_err(|_| format!("{shown}: it is not text"))?;
        let found = hosts::read_listed(&text).map_err(|(line, why)| format!("{shown}:{line}: {why}"))?;
        if found.is_empty() {
            return Err(format!("{shown}: it names no host"));
        }
        Ok(Self(Arc::new(found.into_iter().collect())))
    }
}
