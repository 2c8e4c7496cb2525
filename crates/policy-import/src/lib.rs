//! Rule sets of nftables, iptables and ufw as policies of Rampart: text in, text out, with a list of what was not carried over.
//!
//! ```text
//! text --iptables, ufw, nft--> chains and rules --flatten--> one list a hook --answers--> what may open --write--> policy
//! ```
//!
//! **What is imported never opens what the original denies.** Where this program does not understand a rule, or a policy cannot say it, the rule
//! that accepts is left out, and the rule that drops is written wider, so that less is allowed than before; both are reported with
//! their place. See `docs/decisions/0041-import-allows-less.md`. Pure: reads no files and no clock.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::panic))]

mod answers;
mod cube;
mod fates;
mod flatten;
mod iptables;
mod nft;
mod own;
mod report;
mod ruleset;
mod tcp_flags;
mod translation;
mod ufw;
mod words;
mod write;
mod zones;

pub use own::Own;
pub use report::{Finding, Imported, Kind, Mistake, Rules};

use ruleset::{Place, Ruleset, Wrong};

/// A text and how messages call it.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file's name, or what stands for it.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// In which language the rule set is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `nft list ruleset`.
    Nft,
    /// `iptables-save`, and `ip6tables-save` beside it.
    IptablesSave,
    /// `/etc/ufw/user.rules`, `/etc/ufw/user6.rules` and `/etc/default/ufw`.
    Ufw,
}

/// What the texts do not say.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Further interfaces of the machine, which the texts do not name; patterns too (`eth*`).
    pub interfaces: Vec<String>,
    /// All addresses of the machine, by which `--dst-type LOCAL`, `REDIRECT` and the like are carried over.
    pub addresses: Vec<Own>,
    /// Carry rules over whose answers the original drops.
    pub answers: bool,
}

/// Makes a policy of rule sets.
///
/// # Errors
/// The first mistake that makes the whole unreadable: a wrong format, a truncated file, chains that jump in a circle.
pub fn import(format: Format, sources: &[Source], options: &Options) -> Result<Imported, Mistake> {
    let mut ruleset = match format {
        Format::Nft => nft::read(sources)?,
        Format::IptablesSave => iptables::read(sources)?,
        Format::Ufw => ufw::read(sources)?,
    };
    add_interfaces(&mut ruleset, options);
    let mut report = report::Report::new(sources);
    let (policy, rules) = carried(&mut ruleset, sources, options, &mut report)
        .map_err(|(place, message)| report::mistake(sources, place, message))?;
    Ok(report.imported(policy, rules))
}

fn carried(
    ruleset: &mut Ruleset,
    sources: &[Source],
    options: &Options,
    report: &mut report::Report<'_>,
) -> Result<(String, Rules), Wrong> {
    own::say_kinds_by_addresses(ruleset, &options.addresses);
    own::say_where_redirected(ruleset, &options.addresses);
    ruleset.doubt_what_is_not_tracked();
    ruleset.doubt_ends_that_are_translated();
    let zones = zones::Zones::of(ruleset, report)?;
    for (place, text, why) in std::mem::take(&mut ruleset.remarks) {
        report.add(place, Kind::Note, &text, why);
    }
    let mut fates = fates::Fates::default();
    let mut lists = flatten::hooks(ruleset, &zones, &mut fates, report)?;
    let translations = translation::entries(ruleset, &zones, &mut fates, report)?;
    for list in &mut lists {
        let denied =
            translations.denied.iter().filter(|(way, _)| *way == list.way).map(|(_, row)| row.clone());
        list.new.splice(0..0, denied);
    }
    let ways = answers::kept(ruleset, &lists, options, report);
    let policy = write::policy(ruleset, &zones, &ways, &translations, sources, &mut fates, report);
    let rules = fates::account(ruleset, &fates, report);
    // What is written is read again: a rule set may have what no policy can, such as a limit of billions.
    match policy::Policy::parse("the policy", &policy) {
        Ok(_) => Ok((policy, rules)),
        Err(problems) => Err((Place::default(), format!("a policy cannot say this: {problems}"))),
    }
}

/// Interfaces that a machine usually has, for texts that name none.
const USUAL: [&str; 3] = ["en*", "eth*", "wl*"];

fn add_interfaces(ruleset: &mut Ruleset, options: &Options) {
    for name in &options.interfaces {
        ruleset.interfaces.add(name);
    }
    if ruleset.interfaces.is_empty() {
        for pattern in USUAL {
            ruleset.interfaces.add(pattern);
        }
        let why = format!(
            "no interface is named, so the policy has one zone with {}: write the machine's own into it, or give them with --interface",
            USUAL.join(", ")
        );
        ruleset.remarks.push((Place::default(), String::new(), why));
    }
}
