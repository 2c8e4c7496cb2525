//! `rampart list`: files of lists, without a firewall.

use crate::failure::Failure;
use crate::list_files::{counts, entries_of};
use crate::output::outln;
use crate::whole_file;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use policy::address::AddressSet;
use policy::lists::{Broken, Contents, Ends, List, Origin, compiled};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Ranges that `diff` shows of each kind; all are counted.
const SHOWN: usize = 100;

/// What can be done with a file of a list. Without a firewall, and without being root.
#[derive(Debug, Subcommand)]
pub(crate) enum ListCommand {
    /// Compile a list, which is read faster then.
    #[command(after_help = "Examples:
  rampart list compile bad.txt bad.list
  rampart list compile countries.csv swiss.list --country CH --country LI")]
    Compile {
        /// The list: text, compressed text, or compiled.
        file: PathBuf,
        /// The compiled list; replaced as a whole.
        to: PathBuf,
        #[command(flatten)]
        how: ListArgs,
    },
    /// Say which addresses are on a list. Exit with status 1 if one of them is not.
    #[command(after_help = "Examples:
  rampart list test bad.txt 192.0.2.1 2001:db8::1")]
    Test {
        /// The list.
        file: PathBuf,
        /// Addresses.
        #[arg(required = true)]
        addresses: Vec<IpAddr>,
        #[command(flatten)]
        how: ListArgs,
    },
    /// Show what one list has and another has not.
    #[command(after_help = "Examples:
  rampart list diff bad.txt bad.new.txt")]
    Diff {
        /// The list before.
        before: PathBuf,
        /// The list after.
        after: PathBuf,
        #[command(flatten)]
        how: ListArgs,
    },
}

/// How the file of a list is read.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The file is a table of countries: take this one's entries. May be given again.
    #[arg(long = "country", value_name = "CODE")]
    pub(crate) countries: Vec<String>,
    /// Leave lines out that cannot be read.
    #[arg(long)]
    pub(crate) skip_broken: bool,
}

pub(crate) fn run(command: &ListCommand, json: bool) -> Result<ExitCode, Failure> {
    match command {
        ListCommand::Compile { file, to, how } => compile(file, to, how, json),
        ListCommand::Test { file, addresses, how } => {
            let list = read(file, how)?.0.at(Timestamp::now());
            let on_it: Vec<bool> = addresses.iter().map(|address| list.contains(*address)).collect();
            if json {
                let rows = addresses.iter().zip(&on_it);
                let rows: Vec<_> =
                    rows.map(|(address, on)| json!({ "address": address, "is_on_it": on })).collect();
                outln!("{:#}", json!(rows));
            } else {
                for (address, on) in addresses.iter().zip(&on_it) {
                    outln!("{address} is {}on {}", if *on { "" } else { "not " }, file.display());
                }
            }
            Ok(if on_it.iter().all(|on| *on) { ExitCode::SUCCESS } else { ExitCode::from(1) })
        }
        ListCommand::Diff { before, after, how } => {
            let now = Timestamp::now();
            let (before, after) = (read(before, how)?.0.at(now), read(after, how)?.0.at(now));
            let (added, removed) = (after.without(&before), before.without(&after));
            if json {
                outln!("{:#}", json!({ "added": words(&added), "removed": words(&removed) }));
            } else {
                show('+', &added);
                show('-', &removed);
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The entries of a file, and how many lines cannot be read.
fn read(file: &Path, how: &ListArgs) -> Result<(Contents, u64), Failure> {
    let list = List {
        name: file.display().to_string(),
        origin: Origin::File(file.display().to_string()),
        entries: AddressSet::default(),
        except: AddressSet::default(),
        countries: how.countries.iter().map(|code| code.to_ascii_uppercase()).collect(),
        block: Ends::default(),
        require: Ends::default(),
        log: false,
        broken: if how.skip_broken { Broken::Skip } else { Broken::Refuse },
        refresh: None,
        expires: None,
        span: 0..0,
    };
    entries_of(&list, file).map_err(|why| Failure::Wrong(in_words_of_options(&why)))
}

/// What is wrong with a file, as policies are spoken to about it, for somebody who has no policy but options.
fn in_words_of_options(why: &str) -> String {
    const WORDS: [(&str, &str); 4] = [
        ("or write broken = \"skip\"", "or leave them out by --skip-broken"),
        ("(countries = [\"CH\"], or \"country:CH\" in a rule)", "(--country CH)"),
        ("(countries = [\"CH\"])", "(--country CH)"),
        (": a list that is to be empty is taken out of the policy", ""),
    ];
    WORDS.iter().fold(why.to_owned(), |why, (policy, option)| why.replace(policy, option))
}

fn compile(file: &Path, to: &Path, how: &ListArgs, json: bool) -> Result<ExitCode, Failure> {
    let (contents, broken_lines) = read(file, how)?;
    let bytes = compiled::encode(&contents);
    whole_file::replace(to, 0o666, &bytes)
        .map_err(|error| Failure::Wrong(format!("cannot write {}: {error}", to.display())))?;
    let (ipv4_addresses, ipv6_ranges) = counts(&contents.at(Timestamp::now()));
    if json {
        outln!(
            "{:#}",
            json!({ "ipv4_addresses": ipv4_addresses, "ipv6_ranges": ipv6_ranges, "broken_lines": broken_lines, "bytes": bytes.len() })
        );
    } else {
        let broken =
            if broken_lines > 0 { format!(", {broken_lines} broken lines left out") } else { String::new() };
        let (to, bytes) = (to.display(), bytes.len());
        outln!("{to}: {ipv4_addresses} IPv4 addresses, {ipv6_ranges} ranges of IPv6, {bytes} bytes{broken}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The ranges as lists have them.
fn words(set: &AddressSet) -> Vec<String> {
    let range = |first: String, last: String| if first == last { first } else { format!("{first}-{last}") };
    let v4 = set
        .v4
        .ranges()
        .iter()
        .map(|(a, b)| range(Ipv4Addr::from(*a).to_string(), Ipv4Addr::from(*b).to_string()));
    let v6 = set
        .v6
        .ranges()
        .iter()
        .map(|(a, b)| range(Ipv6Addr::from(*a).to_string(), Ipv6Addr::from(*b).to_string()));
    v4.chain(v6).collect()
}

fn show(sign: char, set: &AddressSet) {
    let all = words(set);
    all.iter().take(SHOWN).for_each(|range| outln!("{sign} {range}"));
    if let Some(more) = all.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        outln!("{sign} and {more} more, which --json shows");
    }
}
