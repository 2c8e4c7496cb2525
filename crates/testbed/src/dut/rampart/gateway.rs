//! Rampart with its transparent gateway of HTTP: what the packet filter lets pass to port 80 it hands to the gateway, which asks the servers.

use crate::dut::{Capabilities, Relay};
use crate::priority;
use measure::application::{Protocol, ProtocolMix};
use measure::shape::{Setup, Workload};
use std::fmt::Write as _;

/// As of proxies: it opens many connections from one address.
pub(super) const MANY_CONNECTIONS: [(&str, &str); 2] =
    [("ipv4/ip_local_port_range", "10240 65535"), ("ipv4/tcp_tw_reuse", "1")];

/// What is measured is connections that end at the gateway, as at a proxy.
pub(super) const CAPABILITIES: Capabilities =
    Capabilities { stateless: false, replacement: false, ..Capabilities::RULES };

pub(super) const REMARK: &str = "rampart-gateway ends connections and opens its own to the servers, several requests over one where it can: that each \
     arrived is judged by transactions, their bytes and their seals, not by connections. Its gateway looks up no names (`look_up = false`), as haproxy";

pub(super) fn relays(protocol: Protocol) -> Result<Relay, &'static str> {
    match protocol {
        Protocol::Http10 | Protocol::Http11 => Ok(Relay::Requests),
        Protocol::Https | Protocol::Http2 => {
            Err("HTTPS by its gateway: that passes the packet filter alone, as through rampart-tc")
        }
        Protocol::Ftp(_) => Err("FTP by its gateway: it speaks none"),
    }
}

fn refuses(mix: ProtocolMix) -> Option<&'static str> {
    mix.protocols().into_iter().find_map(|protocol| relays(protocol).err())
}

pub(super) fn cannot_handle(setup: &Setup) -> Option<String> {
    match &setup.workload {
        Workload::Application(shape) => refuses(shape.protocol).map(str::to_owned),
        _ => Some(
            "traffic other than of applications: it would pass the gateway by, as through rampart-tc"
                .to_owned(),
        ),
    }
}

/// The gateway of a policy. Its limits are as high as a policy may set them, because the other proxies have none. It may speak with any
/// server.
pub(super) fn add(text: &mut String) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "[gateways.web]\nprotocol = \"http\"\nmode = \"transparent\"\nlisten = \"[::]:3129\"\nlook_up = false\n\
         connections = 100000\nconnections_per_client = 100000\nidle = \"10min\"\n\n\
         [[gateways.web.rules]]\nname = \"all\"\naction = \"allow\"\n\n\
         [[rules]]\nname = \"gateway\"\nfrom = \"self\"\nto = \"any\"\nservice = \"tcp\"\naction = \"allow\"\n"
    );
}

/// Processes below the daemon that are named so.
fn below(daemon: u32) -> Vec<u32> {
    let children = |of: u32| -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect()
    };
    let is_named = |pid: &u32, name: &str| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == name.as_bytes()))
    };
    let keepers = children(daemon).into_iter().filter(|pid| is_named(pid, "keep-gateways"));
    keepers.flat_map(children).filter(|pid| is_named(pid, "run-gateway")).collect()
}

/// Gives the gateway's process the processor as other proxies have it: its keeper begins a session of its own.
pub(super) fn stand_beside(daemon: u32) {
    priority::stand_beside(below(daemon));
}

/// What the gateway's process has of the machine's memory; 0 without one.
pub(super) fn resident_bytes(has_gateway: bool, daemon: u32) -> u64 {
    let all = if has_gateway { below(daemon) } else { Vec::new() };
    all.into_iter().filter_map(crate::guest::resident_bytes).sum()
}

/// The threads of the gateway's process.
pub(super) fn threads(daemon: u32) -> Vec<i32> {
    below(daemon).into_iter().flat_map(crate::guest::threads_of).collect()
}
