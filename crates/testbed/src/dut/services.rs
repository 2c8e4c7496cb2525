//! What firewalls whose own programs carry connections need of their surroundings: a name server in the bed, and a folder for their event log.
//! Never decides what a firewall does with them.

use crate::bed::Bed;
use crate::error::TestbedError;
use crate::guest::Guest;
use crate::journal::{Change, Journal};
use crate::layout::ZoneAddresses;
use crate::netns::Namespace;
use measure::application::{CLIENT_MACHINES, SERVER_NAMES};
use measure::shape::{EventLog, IpVersion, Zone};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAM: &str = "dnsmasq";
const PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 53;
/// Seconds that its answers hold: longer than any trial, so that a look-up after the first is answered by the firewall's own memory.
const LIFETIME: u32 = 3600;

/// A name server of the hostile zone that knows the names of servers and of client machines, and their addresses. It ends with its handle.
pub(super) struct NameServer(Guest);

impl NameServer {
    /// Where it is asked.
    pub(super) fn address() -> Ipv4Addr {
        ZoneAddresses::of(Zone::Hostile).own_v4()
    }

    /// Starts it. `folder` is of the firewall that asks it.
    ///
    /// # Errors
    /// The program is not installed, or does not listen.
    pub(super) fn start(bed: &Bed, folder: &Path) -> Result<Self, TestbedError> {
        let port = bed.layout().port(Zone::Hostile).ok_or_else(|| {
            TestbedError::Impossible("a name server needs a bed with a hostile zone".to_owned())
        })?;
        let file = folder.join("names.conf");
        std::fs::write(&file, configuration()).map_err(TestbedError::io("write", &file))?;
        let words = ["--keep-in-foreground".to_owned(), format!("--conf-file={}", file.display())];
        let words = words.each_ref().map(String::as_str);
        let mut program = Guest::start(&port.end.namespace, PROGRAM, &words, &[])?;
        program.wait_until_it_listens(PORT)?;
        Ok(Self(program))
    }

    /// Ends it.
    pub(super) fn stop(self) {
        self.0.end(PATIENCE);
    }

    /// Fails when it has ended.
    ///
    /// # Errors
    /// Its last words.
    pub(super) fn check_runs(&mut self) -> Result<(), TestbedError> {
        self.0.check_runs()
    }
}

/// The name of a client machine, as the NSTL bed has it.
pub(super) fn client_name(index: u32) -> String {
    format!("client{:02}", index + 1)
}

fn configuration() -> String {
    let mut text = format!(
        "no-resolv\nno-hosts\nno-daemon\npid-file=\nuser=root\nbind-interfaces\nlisten-address={}\nport={PORT}\nlocal-ttl={LIFETIME}\n",
        NameServer::address()
    );
    let servers = (0..).zip(SERVER_NAMES).map(|(index, name)| (Zone::Hostile, index, name.to_owned()));
    let clients = (0..CLIENT_MACHINES).map(|index| (Zone::Private, index, client_name(index)));
    for (zone, index, name) in servers.chain(clients) {
        let addresses = ZoneAddresses::of(zone);
        let [v4, v6] = [IpVersion::V4, IpVersion::V6].map(|ip| addresses.host(ip, index));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "host-record={name},{v4},{v6}");
    }
    text
}

/// Makes a folder for an event log, which goes with the journal; `None` where nothing is recorded.
///
/// # Errors
/// The machine has no such place.
pub(super) fn log_folder(place: EventLog, journal: &mut Journal) -> Result<Option<PathBuf>, TestbedError> {
    let (root, in_memory) = match place {
        EventLog::None => return Ok(None),
        EventLog::Memory => ("/dev/shm", true),
        EventLog::Disk => ("/var/tmp", false),
    };
    let is_tmpfs = statfs(root).map(|found| found.filesystem_type() == TMPFS_MAGIC);
    if is_tmpfs != Ok(in_memory) {
        let (is, word) = if in_memory { ("is not", "memory") } else { ("is", "disk") };
        return Err(TestbedError::MachineCannot {
            what: format!("record requests with `event_log = \"{word}\"`: {root} {is} in memory"),
            remedy: if in_memory { "mount a tmpfs there" } else { "mount a disk there" }.to_owned(),
        });
    }
    let path = Path::new(root).join(journal.name());
    journal.record(Change::Folder(path.clone()))?;
    std::fs::create_dir(&path).map_err(TestbedError::io("make", &path))?;
    Ok(Some(path))
}

/// Lets the kernel keep so many KB of what comes in on a connection to the firewall itself, and no others.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn set_receive_buffer(firewall: &Namespace, kb: u32) -> Result<(), TestbedError> {
    let bytes = kb * 1024;
    firewall.set(&[("ipv4/tcp_rmem", &format!("4096 {bytes} {bytes}"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_server_knows_servers_and_clients() {
        let text = configuration();
        for line in [
            "listen-address=198.19.0.2\n",
            "host-record=server01,198.19.1.0,2001:2:0:2::100\n",
            "host-record=client08,198.18.1.7,2001:2:0:1::107\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
