//! Squid: HTTP as requests, to the destination that the client asked for. Its cache is off.

use super::intercept::{INTERCEPTION, INTERCEPTION_ALONE, Taken};
use super::{PLAIN, Place, Proxy};
use crate::dut::kernel::BOTH;
use crate::dut::services::{NameServer, client_name};
use crate::dut::{Capabilities, Relay, Requirement};
use crate::error::TestbedError;
use crate::layout::ZoneAddresses;
use measure::application::{CLIENT_MACHINES, Protocol, SERVER_NAMES};
use measure::shape::Zone;
use nix::sys::resource::{Resource, getrlimit};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

const HTTP: Taken = Taken { port: 80, proxy_port: 3129 };
/// Squid does not start without a port for those who ask it as a proxy. This one is for this machine alone.
const OWN_PORT: u16 = 3128;
/// The most open files that Debian's Squid is built for.
const MOST_FILES: u64 = 65_536;

pub(in crate::dut) const SQUID: Proxy = Proxy {
    name: "squid",
    summary: "Squid as a transparent proxy of HTTP without its cache, behind nftables' rules",
    requirements: &[
        Requirement::Program("nft"),
        Requirement::Program("squid"),
        Requirement::NftAccepts { table: INTERCEPTION_ALONE, feature: INTERCEPTION },
    ],
    takes: &[HTTP],
    remark: "squid keeps no answers (`cache deny all`): its forwarding is measured. It ends connections and opens its own to the servers, several \
             requests over one where it can: that each arrived is judged by transactions, their bytes and their seals, not by connections",
    settings: Capabilities { look_ups: true, event_log: true, ..PLAIN },
    relays,
    prepare,
};

fn relays(protocol: Protocol) -> Result<Relay, &'static str> {
    match protocol {
        Protocol::Http10 | Protocol::Http11 => Ok(Relay::Requests),
        Protocol::Https | Protocol::Http2 => Err(
            "HTTPS of clients that do not ask for it by CONNECT: for that it would have to be built with OpenSSL, and Debian's package \
             squid is not",
        ),
        Protocol::Ftp(_) => Err("FTP of clients that do not know of it: its driver hands it HTTP alone"),
    }
}

fn prepare(place: &Place<'_>) -> Result<Vec<String>, TestbedError> {
    let names = if place.look_ups {
        // Its default is this machine's file.
        format!("hosts_file none\ndns_nameservers {}", NameServer::address())
    } else {
        format!("hosts_file {}\ndns_nameservers 127.0.0.1", place.write("hosts", &hosts())?)
    };
    if let Some(folder) = place.log {
        // It writes as a user of its own.
        std::fs::set_permissions(folder, Permissions::from_mode(0o777))
            .map_err(TestbedError::io("open", folder))?;
    }
    let log = place.log.map_or("none".to_owned(), |folder| format!("stdio:{}/access.log", folder.display()));
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(MOST_FILES, |(_, hard)| hard.min(MOST_FILES));
    let file = place.write("squid.conf", &configuration(&names, &log, files))?;
    // In the foreground and in one process; what it complains about, it writes to standard error.
    Ok(["-N", "-d", "0", "-f", &file].map(str::to_owned).to_vec())
}

/// Squid asks whether the server that a request names has the address that the client asked for, and for the name of each client. Where the test is not about
/// look-ups, the bed has this file in a name server's place. Without clients in it Squid would ask a name server that nobody answers for, at each request,
/// and look through all questions that wait for an answer.
fn hosts() -> String {
    let servers = (0..).zip(SERVER_NAMES).map(|(index, name)| (Zone::Hostile, index, name.to_owned()));
    let clients = (0..CLIENT_MACHINES).map(|index| (Zone::Private, index, client_name(index)));
    let named = servers.chain(clients).flat_map(|(zone, index, name)| {
        BOTH.map(|ip| format!("{} {name}\n", ZoneAddresses::of(zone).host(ip, index)))
    });
    named.collect()
}

fn configuration(names: &str, log: &str, files: u64) -> String {
    format!(
        "http_port {} tproxy
http_port 127.0.0.1:{OWN_PORT}
spoof_client_ip deny all
http_access allow all
cache deny all
{names}
visible_hostname firewall
max_filedescriptors {files}
client_idle_pconn_timeout 10 minutes
shutdown_lifetime 0 seconds
access_log {log}
cache_store_log none
cache_log /dev/null
pid_filename none
coredump_dir none
pinger_enable off
",
        HTTP.proxy_port
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_to_be_asked_for_names_of_servers_and_clients() {
        let hosts = hosts();
        for line in ["198.19.1.5 server06\n", "2001:2:0:2::105 server06\n", "198.18.1.7 client08\n"] {
            assert!(hosts.contains(line), "{line} is not in\n{hosts}");
        }
        assert_eq!(hosts.lines().count(), 2 * (6 + 8));
    }
}
