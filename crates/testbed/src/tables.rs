//! The size of the kernel's connection table, which all namespaces share: raised for tests with many flows, and put
//! back afterwards.

use crate::error::TestbedError;
use crate::journal::Journal;
use std::fs;
use std::path::Path;

const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
const HEADS: &str = "/sys/module/nf_conntrack/parameters/hashsize";

/// A raised connection table. Dropping it restores the old size, and so does [`crate::leftovers::remove`] when the
/// process is killed. Of two at the same time, drop the younger first: each restores what it found.
#[derive(Debug)]
pub struct ConntrackSize {
    entries: u64,
    _journal: Journal,
}

impl ConntrackSize {
    /// Makes room for `flows` connections and a tenth more, with one head of the hash table for each four entries or
    /// better. Never makes the table smaller. Must be called outside any bed's namespace.
    ///
    /// # Errors
    /// [`TestbedError::MachineCannot`] when the kernel has no connection tracking or refuses the size.
    pub fn raise(flows: u64) -> Result<Self, TestbedError> {
        let wanted = with_room(flows);
        let mut journal = Journal::start()?;
        let before = read(MAX)?;
        if before < wanted {
            write(&mut journal, MAX, wanted)?;
        }
        let heads = (wanted / 4).next_power_of_two();
        if read(HEADS)? < heads {
            write(&mut journal, HEADS, heads)?;
        }
        Ok(Self { entries: before.max(wanted), _journal: journal })
    }

    /// Connections that fit now.
    pub fn entries(&self) -> u64 {
        self.entries
    }
}

/// How many connections a table is to hold for a test with so many at once: a tenth more.
pub(crate) fn with_room(connections: u64) -> u64 {
    connections + connections / 10
}

/// Connections that fit at the moment, or `None` without connection tracking.
pub fn conntrack_max() -> Option<u64> {
    read(MAX).ok()
}

fn read(path: &str) -> Result<u64, TestbedError> {
    let text = fs::read_to_string(path).map_err(|error| cannot(&format!("read {path} ({error})")))?;
    text.trim().parse().map_err(|_| cannot(&format!("understand {path}, which reads {text:?}")))
}

fn write(journal: &mut Journal, path: &str, value: u64) -> Result<(), TestbedError> {
    journal.set(Path::new(path), &value.to_string()).map_err(|error| cannot(&format!("make room: {error}")))
}

fn cannot(what: &str) -> TestbedError {
    TestbedError::MachineCannot {
        what: format!("size its connection table: it cannot {what}"),
        remedy:
            "load nf_conntrack (`modprobe nf_conntrack`), run outside containers, or test with fewer flows"
                .to_owned(),
    }
}
