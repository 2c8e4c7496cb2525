//! HAProxy: HTTP as requests, HTTPS as connections that it does not look into, both to the destination that the client asked for.

use super::intercept::{INTERCEPTION, INTERCEPTION_ALONE, Taken};
use super::{PLAIN, Place, Proxy};
use crate::dut::{Relay, Requirement};
use crate::error::TestbedError;
use measure::application::Protocol;

const HTTP: Taken = Taken { port: 80, proxy_port: 3129 };
const HTTPS: Taken = Taken { port: 443, proxy_port: 3130 };

pub(in crate::dut) const HAPROXY: Proxy = Proxy {
    name: "haproxy",
    summary: "HAProxy as a transparent proxy of HTTP, and of HTTPS without looking into it, behind nftables' rules",
    requirements: &[
        Requirement::Program("nft"),
        Requirement::Program("haproxy"),
        Requirement::NftAccepts { table: INTERCEPTION_ALONE, feature: INTERCEPTION },
    ],
    takes: &[HTTP, HTTPS],
    remark: "haproxy ends connections and opens its own to the servers, several requests over one where it can: by HTTP, that each arrived is \
             judged by transactions, their bytes and their seals, not by connections",
    settings: PLAIN,
    relays,
    prepare,
};

fn relays(protocol: Protocol) -> Result<Relay, &'static str> {
    match protocol {
        Protocol::Http10 | Protocol::Http11 => Ok(Relay::Requests),
        Protocol::Https | Protocol::Http2 => Ok(Relay::Connections),
        Protocol::Ftp(_) => {
            Err("FTP: HAProxy speaks none, and what the kernel forwards past it is not its own")
        }
    }
}

fn prepare(place: &Place<'_>) -> Result<Vec<String>, TestbedError> {
    let file = place.write("haproxy.cfg", &configuration(place.cores))?;
    // In the foreground, so that it ends with us.
    Ok(["-db", "-f", &file].map(str::to_owned).to_vec())
}

/// No `maxconn`: it takes as many connections as it may have open files. An address of 0.0.0.0 is the one that the client asked for, of
/// IPv6 too. Times are long, because a client that thinks is no fault.
fn configuration(cores: usize) -> String {
    let (http, https) = (HTTP.proxy_port, HTTPS.proxy_port);
    format!(
        "global
    nbthread {cores}
    fd-hard-limit 262144
    user haproxy
    group haproxy

defaults
    timeout connect 30s
    timeout client 10m
    timeout server 10m

frontend http
    mode http
    bind 0.0.0.0:{http} transparent
    bind :::{http} transparent v6only
    default_backend http-servers

backend http-servers
    mode http
    server asked-for 0.0.0.0:0

frontend https
    mode tcp
    bind 0.0.0.0:{https} transparent
    bind :::{https} transparent v6only
    default_backend https-servers

backend https-servers
    mode tcp
    server asked-for 0.0.0.0:0
"
    )
}
