//! What is a scan, and what comes of it.

use super::names::{Addresses, Names};
use super::settings::duration;
use crate::address::AddressSet;
use crate::scans::{BLOCK, DIFFERENT, Scans, WINDOW};
use crate::schema;
use std::time::Duration;
use toml_reader::{Collector, Section, texts};

/// In which what a source asks for is counted, unless the policy says otherwise.
const USUAL_WINDOW: Duration = Duration::from_secs(10);

pub(super) fn read<'t>(
    root: &Section<'t>,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<Scans> {
    let section = schema::SCANS.section(root, "scans", c)?;
    let mut different = |key| section.integer(key, DIFFERENT.0..=DIFFERENT.1, c);
    let (ports, hosts) = (different("ports"), different("hosts"));
    if section.value("ports").is_none() && section.value("hosts").is_none() {
        let help = "write ports = 100, hosts = 100, or both: how many different ones are a scan".to_owned();
        c.report(section.span.clone(), "[scans] has neither `ports` nor `hosts`", Some(help));
    }
    let window = duration(&section, "window", WINDOW.0..=WINDOW.1, c).unwrap_or(USUAL_WINDOW);
    let block = duration(&section, "block", BLOCK.0..=BLOCK.1, c);
    let except = section.value("except").and_then(|value| texts(value, "except", c));
    let except = except.and_then(|words| objects.written_out(&words, c));
    let except = except.map_or_else(AddressSet::default, |set| (*set).clone());
    Some(Scans { ports, hosts, window, block, except })
}
