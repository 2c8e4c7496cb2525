//! Lists of addresses: what a policy says about them, what is on them, and the table that the data plane asks. A policy names its
//! lists and where they come from; what is on them is read by others, because this crate does no IO, and is given to
//! [`ListTable::build`]. `docs/design/lists.md` describes the table.

mod blocks;
pub mod compiled;
mod ending;
mod runs;
mod table;
mod text;

pub use ending::Contents;
pub use table::{BuildError, DomainTables, ListTable, Start6};
pub use text::{Mistake, Reader, Text};

use crate::address::AddressSet;
use jiff::Timestamp;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

/// The most lists of a policy: each has a bit.
pub const MAX_LISTS: usize = 32;

/// Lists of a policy: a bit each, in its order.
pub type ListSet = u32;

/// What stands before the name of a list where a rule names it instead of addresses.
pub const LIST_PREFIX: &str = "list:";

/// What stands before the code of a country there. Such a country is a list of this name.
pub const COUNTRY_PREFIX: &str = "country:";

/// What stands before the name of a domain there. Such a domain is a list of this name.
pub const DOMAIN_PREFIX: &str = "domain:";

/// What the counter of a list is called, before its name: no rule has such a name beside such a list.
pub const COUNTER_PREFIX: &str = "list:";

/// A list as the policy says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Its name.
    pub name: String,
    /// Where what is on it comes from.
    pub origin: Origin,
    /// Addresses that are on it besides.
    pub entries: AddressSet,
    /// Addresses that are not on it, whatever the file says.
    pub except: AddressSet,
    /// The countries whose addresses are taken from the file, in upper case; empty where the file is no table of countries.
    pub countries: Vec<String>,
    /// Refuses new flows that have an address on it at these ends.
    pub block: Ends,
    /// Refuses new flows that have no address on it at these ends.
    pub require: Ends,
    /// Whether each packet that it refuses is recorded.
    pub log: bool,
    /// What becomes of lines that cannot be read.
    pub broken: Broken,
    /// How often its file is looked at, and read again if it has changed, or how often it is fetched; `None`, which only files may have: it is
    /// read when a policy is applied.
    pub refresh: Option<Duration>,
    /// From when on nothing is on it, also none of its entries that end later.
    pub expires: Option<Timestamp>,
    /// Bytes of the text that name it.
    pub span: Range<usize>,
}

/// Where a list comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The policy itself, which writes its entries.
    Policy,
    /// A file, as the text writes it.
    File(String),
    /// What a command prints: the program and its arguments.
    Command(Vec<String>),
    /// What curl fetches from an address that begins with [`HTTPS`].
    Url(String),
    /// What a gateway of DNS says of a name, in small letters, or of all names below one (`*.example.org`). Its addresses come and go while a policy
    /// is in force, and are in a table of their own.
    Domain(String),
}

/// What the addresses of lists begin with: who could change a list on its way could open the firewall.
pub const HTTPS: &str = "https://";

impl Origin {
    /// The program that fetches the list, and its arguments; `None` if it is not fetched.
    pub fn command(&self) -> Option<Vec<String>> {
        match self {
            Self::Policy | Self::File(_) | Self::Domain(_) => None,
            Self::Command(words) => Some(words.clone()),
            Self::Url(url) => {
                // `-q` keeps settings of a user out, `--globoff` takes brackets as they are; a status of 400 and above is a failure, and so is an
                // answer that stops before its end.
                let curl = "curl -q --fail --silent --show-error --location --globoff --proto =https --proto-redir =https --max-redirs 5 --connect-timeout 30 --url";
                Some(curl.split(' ').map(str::to_owned).chain([url.clone()]).collect())
            }
        }
    }
}

/// The ends of a flow that a list is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Ends {
    /// Who opens the flow.
    pub source: bool,
    /// Who is asked.
    pub destination: bool,
}

impl Ends {
    /// As policies write them.
    pub const NAMES: [(&'static str, Ends); 3] = [
        ("both", Ends { source: true, destination: true }),
        ("source", Ends { source: true, destination: false }),
        ("destination", Ends { source: false, destination: true }),
    ];

    /// Whether it is any end at all.
    pub const fn is_any(self) -> bool {
        self.source || self.destination
    }

    /// For people: `both`, `source`, `destination`, or nothing.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(_, ends)| *ends == self).map(|(name, _)| *name)
    }
}

/// What becomes of lines of a list that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Broken {
    /// The list is refused.
    #[default]
    Refuse,
    /// They are left out, and counted.
    Skip,
}

impl Broken {
    /// As policies write them.
    pub const NAMES: [(&'static str, Broken); 2] = [("refuse", Broken::Refuse), ("skip", Broken::Skip)];
}

impl List {
    /// The name of its counter.
    pub fn counter(&self) -> String {
        format!("{COUNTER_PREFIX}{}", self.name)
    }

    /// The domain whose addresses are on it, if it is one's.
    pub fn domain(&self) -> Option<&str> {
        match &self.origin {
            Origin::Domain(name) => Some(name),
            _ => None,
        }
    }

    /// Whether all of its entries have ended at a moment.
    pub fn has_expired(&self, at: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= at)
    }

    /// What is on it, once its file has been read, and unless it has expired.
    pub fn contents(&self, read: AddressSet) -> AddressSet {
        let all = if self.entries.is_empty() { read } else { AddressSet::union([&self.entries, &read]) };
        if self.except.is_empty() { all } else { all.without(&self.except) }
    }
}

/// For each end, source and destination, the lists that are bound to it by `of`: a bit each, in the order of the policy.
pub fn bound(lists: &[List], of: impl Fn(&List) -> Ends) -> [u32; 2] {
    let mask = |is: &dyn Fn(Ends) -> bool| {
        lists.iter().enumerate().filter(|(_, list)| is(of(list))).fold(0, |mask, (i, _)| mask | 1 << i)
    };
    [mask(&|ends| ends.source), mask(&|ends| ends.destination)]
}

/// The first list that refuses a new flow, and why: the reference, which looks at each list in turn. `contents` are the lists' in their
/// order.
pub fn refusing(
    lists: &[List],
    contents: &[AddressSet],
    source: IpAddr,
    destination: IpAddr,
) -> Option<Refusing> {
    let end = |ends: Ends, is: &dyn Fn(IpAddr) -> bool| {
        let (from, to) = (ends.source && is(source), ends.destination && is(destination));
        from.then_some(source).or(to.then_some(destination))
    };
    (0..).zip(lists.iter().zip(contents)).find_map(|(list, (bound, set))| {
        let blocked = end(bound.block, &|address| set.contains(address));
        let missing = || end(bound.require, &|address| !set.contains(address));
        let address = blocked.or_else(missing)?;
        Some(Refusing { list, address, is_on_it: blocked.is_some() })
    })
}

/// The lists that have the ends of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct OnLists {
    /// Those with its source.
    pub source: ListSet,
    /// Those with its destination.
    pub destination: ListSet,
}

impl OnLists {
    /// The reference, which looks at each list in turn. `contents` are the lists' in their order.
    pub fn of(contents: &[AddressSet], source: IpAddr, destination: IpAddr) -> Self {
        let with = |address| {
            contents
                .iter()
                .enumerate()
                .filter(|(_, set)| set.contains(address))
                .fold(0, |all, (i, _)| all | 1 << i)
        };
        Self { source: with(source), destination: with(destination) }
    }
}

/// That a list refuses a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refusing {
    /// The list's place in the policy.
    pub list: usize,
    /// The address that it looked at.
    pub address: IpAddr,
    /// The address is on it; or else it is not, and must be.
    pub is_on_it: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fetches_a_list() {
        assert_eq!((Origin::Policy.command(), Origin::File("x".to_owned()).command()), (None, None));
        let words = ["fetch", "a b", "$(c)"].map(str::to_owned).to_vec();
        assert_eq!(Origin::Command(words.clone()).command(), Some(words));
        let curl = Origin::Url("https://example.org/a?b=[c]".to_owned()).command().unwrap();
        assert_eq!((curl[0].as_str(), curl[1].as_str()), ("curl", "-q"));
        assert_eq!(curl[curl.len() - 2..], ["--url", "https://example.org/a?b=[c]"]);
        assert!(curl.contains(&"--proto-redir".to_owned()), "no answer leads away from https");
    }
}
