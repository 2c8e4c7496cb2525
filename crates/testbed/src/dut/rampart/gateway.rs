//! Rampart with its transparent gateways of HTTP and FTP: what the packet filter lets pass to their ports it hands to them, and they ask the servers.

use crate::dut::services::NameServer;
use crate::dut::{Capabilities, Relay, refused_part};
use crate::error::TestbedError;
use crate::memory_group::MemoryGroup;
use crate::policy::{Action, PolicySpec};
use crate::priority;
use measure::application::Protocol;
use measure::shape::{EventLog, GatewayShape, Setup, Workload};
use std::fmt::Write as _;

/// As of proxies: it opens many connections from one address.
pub(super) const MANY_CONNECTIONS: [(&str, &str); 2] =
    [("ipv4/ip_local_port_range", "10240 65535"), ("ipv4/tcp_tw_reuse", "1")];

/// What is measured is connections that end at the gateways, as at a proxy.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    stateless: false,
    replacement: false,
    look_ups: true,
    decision_cache: true,
    event_log: true,
    own_sockets: true,
    ..Capabilities::RULES
};

pub(super) const REMARK: &str = "rampart-gateway ends connections and opens its own to the servers, of HTTP several requests over one where it can: that each \
     arrived is judged by transactions, their bytes and their seals, not by connections. Its gateways have as many rules as the packet filter, beside those of that. They look up no \
     names but where `look_ups` says so, as haproxy";

/// Rules that a gateway may have, with room for those at the matching position.
const MOST_RULES: u32 = 4_000;
/// Ports at which its gateway of FTP waits for data connections: below those of the servers and of probes.
const DATA_PORTS: (u16, u16) = (36_000, 36_999);
/// How it takes connections.
const HOW: &str =
    "mode = \"transparent\"\nconnections = 100000\nconnections_per_client = 100000\nidle = \"10min\"\n";

/// A gateway: what it speaks, the ports that are handed to it, and where it listens.
struct Gateway {
    name: &'static str,
    protocol: &'static str,
    ports: &'static [(u16, u16)],
    listen: &'static str,
}

const GATEWAYS: [Gateway; 2] = [
    Gateway { name: "web", protocol: "http", ports: &[(80, 80)], listen: "[::]:3129" },
    Gateway { name: "files", protocol: "ftp", ports: &[(21, 21), DATA_PORTS], listen: "[::]:2121" },
];

pub(super) fn relays(protocol: Protocol) -> Result<Relay, &'static str> {
    match protocol {
        Protocol::Http10 | Protocol::Http11 => Ok(Relay::Requests),
        Protocol::Https | Protocol::Http2 => {
            Err("HTTPS by its gateway: that passes the packet filter alone, as through rampart-tc")
        }
        Protocol::Ftp(_) => Ok(Relay::Connections),
    }
}

pub(super) fn cannot_handle(setup: &Setup) -> Option<String> {
    match &setup.workload {
        Workload::Application(_) if setup.policy.rules > MOST_RULES => {
            Some(format!("more than {MOST_RULES} rules in its gateways"))
        }
        Workload::Application(shape) => refused_part(&shape.protocol, relays),
        _ => Some(
            "traffic other than of applications: it would pass the gateway by, as through rampart-tc"
                .to_owned(),
        ),
    }
}

/// What the gateways take of what a rule lets pass, before the rule itself: nothing of one that does not let all ports of a gateway pass.
pub(super) fn hand_over(text: &mut String, name: &str, ends: &str, passes: impl Fn(u16) -> bool) {
    for gateway in &GATEWAYS {
        if !gateway.ports.iter().all(|(low, high)| passes(*low) && passes(*high)) {
            continue;
        }
        let services: Vec<String> =
            gateway.ports.iter().map(|ports| format!("\"tcp/{}\"", super::text::range(*ports))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "[[rules]]\nname = \"{name}-{}\"\nfrom = \"any\"\nto = \"any\"\n{ends}service = [{}]\naction = \"allow\"\n\
             gateway = \"{}\"\n",
            gateway.protocol,
            services.join(", "),
            gateway.name
        );
    }
}

/// The gateways of a policy. Their limits are as high as a policy may set them, because the other proxies have none. They may speak with any
/// server.
pub(super) fn add(text: &mut String, policy: &PolicySpec) {
    let asked = &policy.shape.gateway;
    for gateway in &GATEWAYS {
        let Gateway { name, protocol, listen, .. } = gateway;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "[gateways.{name}]\nprotocol = \"{protocol}\"\nlisten = \"{listen}\"\n{HOW}{}",
            settings(gateway, asked)
        );
        if !policy.has_rules() {
            add_rule(text, gateway, "all", Action::Accept, "", asked);
        }
        for (number, rule) in (1..).zip(&policy.rules) {
            // Rules that no request of a test matches are about hosts, as those of gateways mostly are.
            let about = match (rule.may_match_tests(policy.shape.protocol), *protocol) {
                (true, _) => format!("source = [\"{}\", \"{}\"]\n", rule.source.v4, rule.source.v6),
                (false, "http") => format!("hosts = \"host-{number}.example.net\"\n"),
                (false, _) => format!("hosts = \"{}\"\n", rule.destination.v4.network()),
            };
            add_rule(text, gateway, &format!("r{number}"), rule.action, &about, asked);
        }
    }
    *text += "[[rules]]\nname = \"gateway\"\nfrom = \"self\"\nto = \"any\"\nservice = [\"tcp\", \"dns\"]\naction = \"allow\"\n\n";
}

/// What a gateway has of what the test asks for: names and decisions are HTTP's.
fn settings(gateway: &Gateway, asked: &GatewayShape) -> String {
    if gateway.protocol == "ftp" {
        return format!("data_ports = \"{}\"\n", super::text::range(DATA_PORTS));
    }
    let names = if asked.look_ups {
        format!("resolvers = [\"{}\"]\n", NameServer::address())
    } else {
        "look_up = false\n".to_owned()
    };
    let decisions = if asked.keeps_decisions { "1min" } else { "off" };
    format!("{names}decisions = \"{decisions}\"\n")
}

fn add_rule(
    text: &mut String,
    gateway: &Gateway,
    name: &str,
    action: Action,
    about: &str,
    asked: &GatewayShape,
) {
    let action = super::text::word(action);
    let log = if asked.event_log == EventLog::None { "" } else { "log = true\n" };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "[[gateways.{}.rules]]\nname = \"{name}\"\naction = \"{action}\"\n{about}{log}",
        gateway.name
    );
}

/// How many gateways there are to be.
pub(super) const COUNT: usize = GATEWAYS.len();

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

/// Bounds the memory of the gateways' processes.
pub(super) fn limit(daemon: u32, memory: &MemoryGroup) -> Result<(), TestbedError> {
    below(daemon).into_iter().try_for_each(|pid| memory.take(pid))
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
