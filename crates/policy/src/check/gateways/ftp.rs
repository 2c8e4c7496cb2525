//! What gateways of FTP have for themselves, and what they do not have.

use crate::gateways::{FTP_METHODS, GatewayRule, Protocol};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use toml_reader::{Collector, Section, shortened};

/// Where a gateway of FTP waits for data, where the policy does not say: above the ports that the kernel gives to programs.
const USUAL_DATA_PORTS: (u16, u16) = (61_000, 61_999);

/// How long a session of FTP may be silent, where the policy does not say: people type commands.
pub(super) const USUAL_IDLE: Duration = Duration::from_secs(300);

/// Reports keys of another protocol.
pub(super) fn only_of(section: &Section<'_>, keys: &[&'static str], protocol: &str, c: &mut Collector<'_>) {
    for key in keys {
        if section.value(key).is_some() {
            let help = format!("take `{key}` out");
            c.report(section.key_span(key), format!("`{key}` is for protocol = \"{protocol}\""), Some(help));
        }
    }
}

/// What is FTP's alone.
pub(super) fn read(
    section: &Section<'_>,
    listen: Option<SocketAddr>,
    ports: &[u16],
    c: &mut Collector<'_>,
) -> Option<Protocol> {
    let of_http =
        ["connect_ports", "decisions", "forwarded_for", "head_bytes", "head_fields", "head_time", "pooled"];
    only_of(section, &of_http, "http", c);
    only_of(section, &super::dns::KEYS, "dns", c);
    let is_active = match section.value("to_servers") {
        None => Some(false),
        Some(_) => section.choice("to_servers", &[("passive", false), ("active", true)], c),
    };
    let data_ports = match section.value("data_ports") {
        None => Some(USUAL_DATA_PORTS),
        Some(_) => data_ports(section, c),
    };
    let (first, last) = data_ports?;
    let taken = listen.iter().map(SocketAddr::port).chain(ports.iter().copied());
    if let Some(port) = taken.into_iter().find(|port| (first..=last).contains(port)) {
        let place = if section.value("data_ports").is_some() { "data_ports" } else { "protocol" };
        let message =
            format!("port {port} cannot be among the data ports {first}-{last}: clients give commands there");
        c.report(section.key_span(place), message, Some("choose other `data_ports`".to_owned()));
    }
    Some(Protocol::Ftp { data_ports: (first, last), is_active: is_active? })
}

fn data_ports(section: &Section<'_>, c: &mut Collector<'_>) -> Option<(u16, u16)> {
    let text = section.text("data_ports", c)?;
    let (first, last) = text.value.split_once('-').unwrap_or((text.value, text.value));
    let port = |word: &str| word.parse::<u16>().ok().filter(|port| *port >= 1024);
    let found = port(first).zip(port(last)).filter(|(first, last)| first <= last);
    if found.is_none() {
        let help = "write the first and the last port, from 1024 on: \"61000-61999\"".to_owned();
        c.report(text.span, format!("`{}` are no data ports", shortened(text.value)), Some(help));
    }
    found
}

/// A command that rules may be about.
pub(super) fn method(word: &str) -> Option<String> {
    FTP_METHODS.contains(&word).then(|| word.to_owned())
}

/// What to write in `methods`.
pub(super) fn method_help() -> String {
    format!("commands are {}", FTP_METHODS.join(", "))
}

/// Clients that know of no gateway name no server: what they connect to is all that is known of it.
pub(super) fn check_transparent(
    section: &Section<'_>,
    client_names: bool,
    rules: &[GatewayRule],
    c: &mut Collector<'_>,
) {
    for key in ["resolvers", "look_up"] {
        if section.value(key).is_some() && !(client_names && key == "resolvers") {
            let help = format!("take `{key}` out: FTP has no names of servers in it");
            c.report(section.key_span(key), format!("`{key}` is for mode = \"explicit\""), Some(help));
        }
    }
    let named = rules.iter().find_map(|rule| {
        let name = rule.hosts.iter().find(|host| host.parse::<IpAddr>().is_err());
        let what = name.map(|host| format!("the host `{host}`"));
        // Nobody knows what is in a file by then.
        what.or_else(|| rule.host_files.first().map(|_| "hosts as `hosts_file` has them".to_owned()))
            .map(|what| (rule, what))
    });
    if let Some((rule, what)) = named {
        let message = format!("the rule `{}` would never match: clients do not name {what}", rule.name);
        let help = "write addresses in `hosts`, or mode = \"explicit\"".to_owned();
        c.report(section.key_span("mode"), message, Some(help));
    }
}
