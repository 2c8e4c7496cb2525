//! `[log]`: where events and records of flows are sent. Collectors are named by their addresses, because the firewall asks no name server.

use super::settings::duration;
use crate::exports::{Collector, Exports, FACILITIES, Ipfix, JOURNALD, MOST_COLLECTORS, Tls, Transport};
use crate::{hosts, schema};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use toml_reader::{Collector as Problems, DeValue, Located, Section, shortened, texts, wrong_type};

/// Records of flows a second, where the policy does not say.
const USUAL_RATE: u32 = 10_000;
/// How often templates are sent again, where the policy does not say: RFC 7011 section 8.4 leaves it to the user, RFC 6728 has 600 s.
const USUAL_TEMPLATES: Duration = Duration::from_secs(600);
/// How often a flow that goes on has a record, where the policy does not say: Cisco's NetFlow has 30 minutes, and the same bounds.
const USUAL_ACTIVE_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Bytes of the name of a Unix socket (unix(7)).
const LONGEST_SOCKET: usize = 107;

pub(super) fn read(root: &Section<'_>, c: &mut Problems<'_>) -> Exports {
    let mut exports = Exports::default();
    let Some(section) = schema::LOG.section(root, "log", c) else { return exports };
    exports.journald = journald(&section, c);
    exports.syslog = collectors(&section, "syslog", "udp://192.0.2.1:514", c);
    let names: Vec<(&'static str, u8)> = FACILITIES.into_iter().zip(0..).collect();
    if let Some(facility) = section.choice("facility", &names, c) {
        exports.facility = facility;
    }
    exports.enterprise = section.integer("enterprise", 1..=u32::MAX, c);
    if let Some(section) = schema::IPFIX.section(&section, "ipfix", c) {
        exports.ipfix = ipfix(&section, c);
    }
    if let Some(section) = schema::LOG_TLS.section(&section, "tls", c) {
        exports.tls = tls(&section, c);
    }
    refuse_nobody(&section, c);
    refuse_half_of_tls(&section, &exports, c);
    exports
}

/// What is said of messages that nobody is to get would be ignored in silence. Who wrote `journald = false` said that nobody is to get them.
fn refuse_nobody(section: &Section<'_>, c: &mut Problems<'_>) {
    let has = |keys: &[&'static str]| keys.iter().any(|key| section.value(key).is_some());
    if !has(&["journald", "syslog", "ipfix"]) {
        let help = "write journald = true, or syslog = \"udp://192.0.2.1:514\", or take [log] out".to_owned();
        c.report(section.span.clone(), "[log] sends nothing", Some(help));
    } else if has(&["facility"]) && !has(&["journald", "syslog"]) {
        let help = "take `facility` out: records of IPFIX have none".to_owned();
        c.report(section.key_span("facility"), "`facility` needs `syslog` or `journald`", Some(help));
    } else if has(&["enterprise"]) && !has(&["syslog", "ipfix"]) {
        let help = "take `enterprise` out: the journal has fields of its own".to_owned();
        c.report(section.key_span("enterprise"), "`enterprise` needs `syslog` or `ipfix`", Some(help));
    }
}

/// Collectors by TLS need to be known by something, and what would know them needs collectors.
fn refuse_half_of_tls(section: &Section<'_>, exports: &Exports, c: &mut Problems<'_>) {
    let is_by_tls = exports.collectors().any(|collector| collector.transport == Transport::Tls);
    if is_by_tls && section.value("tls").is_none() {
        let help = "write [log.tls] with ca = \"/etc/rampart/collectors-ca.pem\": who has signed the collector's certificate".to_owned();
        c.report(section.span.clone(), "a collector by tls:// needs [log.tls]", Some(help));
    } else if !is_by_tls && section.value("tls").is_some() {
        let help = "write tls:// for a collector, or take [log.tls] out".to_owned();
        c.report(
            section.key_span("tls"),
            "[log.tls] is for collectors by tls://, and there is none",
            Some(help),
        );
    }
}

fn tls(section: &Section<'_>, c: &mut Problems<'_>) -> Option<Tls> {
    let ca = section.required_text("ca", "\"/etc/rampart/collectors-ca.pem\"", c);
    let mut file = |key: &'static str| {
        let text = section.text(key, c)?;
        if text.value.is_empty() {
            c.report(text.span.clone(), "a file has a path", None);
        }
        Some(text.value.to_owned())
    };
    let (certificate, key) = (file("certificate"), file("key"));
    for (one, other) in [("certificate", "key"), ("key", "certificate")] {
        if section.value(one).is_some() && section.value(other).is_none() {
            let help = format!("write `{other}` too: both are files in PEM");
            c.report(section.key_span(one), format!("`{one}` needs `{other}`"), Some(help));
        }
    }
    let name = section.text("name", c);
    if let Some(name) = name.as_ref().filter(|name| !hosts::is_name(name.value)) {
        let help = "write the name in the collector's certificate: \"logs.example.com\"; without `name` its address must be there";
        let message = format!("`{}` is not the name of a host", shortened(name.value));
        c.report(name.span.clone(), message, Some(help.to_owned()));
    }
    let ca = ca?;
    if ca.value.is_empty() {
        c.report(ca.span.clone(), "a file has a path", None);
    }
    Some(Tls {
        ca: ca.value.to_owned(),
        name: name.map(|name| name.value.to_owned()),
        own: certificate.zip(key),
    })
}

fn journald(section: &Section<'_>, c: &mut Problems<'_>) -> Option<PathBuf> {
    let value = section.value("journald")?;
    match value.get_ref() {
        DeValue::Boolean(is_wanted) => is_wanted.then(|| PathBuf::from(JOURNALD)),
        DeValue::String(path)
            if path.starts_with('/') && path.len() <= LONGEST_SOCKET && !path.contains('\0') =>
        {
            Some(PathBuf::from(path.as_ref()))
        }
        DeValue::String(_) => {
            let help = format!("write true, or the socket from the root on, such as \"{JOURNALD}\"");
            c.report(
                value.span(),
                "`journald` must name a socket from the root on, in at most 107 bytes",
                Some(help),
            );
            None
        }
        other => wrong_type(c, "journald", value.span(), other, "true, false or a socket's name"),
    }
}

fn ipfix(section: &Section<'_>, c: &mut Problems<'_>) -> Option<Ipfix> {
    const EXAMPLE: &str = "udp://192.0.2.1:4739";
    if section.value("to").is_none() {
        section.missing("to", &format!("\"{EXAMPLE}\""), c);
    }
    let seconds = Duration::from_secs;
    let collectors = collectors(section, "to", EXAMPLE, c);
    let domain = section.integer("domain", 1..=u32::MAX, c).unwrap_or(1);
    let rate = section.integer("rate", 1..=1_000_000, c).unwrap_or(USUAL_RATE);
    let templates =
        duration(section, "templates", seconds(1)..=seconds(86_400), c).unwrap_or(USUAL_TEMPLATES);
    let active_timeout = active_timeout(section, c);
    (!collectors.is_empty()).then_some(Ipfix { collectors, domain, rate, templates, active_timeout })
}

/// How often a flow that goes on has a record; `false`: never.
fn active_timeout(section: &Section<'_>, c: &mut Problems<'_>) -> Option<Duration> {
    const KEY: &str = "active_timeout";
    let Some(value) = section.value(KEY) else { return Some(USUAL_ACTIVE_TIMEOUT) };
    match value.get_ref() {
        DeValue::Boolean(false) => None,
        DeValue::String(_) => {
            duration(section, KEY, Duration::from_secs(1)..=Duration::from_secs(604_800), c)
        }
        other => wrong_type(c, KEY, value.span(), other, "a duration or false"),
    }
}

fn collectors(
    section: &Section<'_>,
    key: &'static str,
    example: &str,
    c: &mut Problems<'_>,
) -> Vec<Collector> {
    let Some(written) = section.value(key).and_then(|value| texts(value, key, c)) else { return Vec::new() };
    let mut found: Vec<Collector> = Vec::new();
    for text in &written {
        let Some(collector) = collector(text, example, c) else { continue };
        if found.contains(&collector) {
            let help = Some("take one of them out".to_owned());
            c.report(text.span.clone(), format!("`{}` is named twice", shortened(text.value)), help);
        } else if found.len() == MOST_COLLECTORS {
            let help = format!("name {MOST_COLLECTORS}, and let one of them pass on what it gets");
            c.report(text.span.clone(), format!("`{key}` has too many collectors"), Some(help));
            break;
        } else {
            found.push(collector);
        }
    }
    found
}

fn collector(text: &Located<&str>, example: &str, c: &mut Problems<'_>) -> Option<Collector> {
    let usual = || format!("write the protocol, the address and the port: \"{example}\"");
    let shown = shortened(text.value);
    let mut wrong = |message: String, help: String| {
        c.report(text.span.clone(), message, Some(help));
        None
    };
    let Some((transport, address)) = text.value.split_once("://") else {
        return wrong(format!("`{shown}` is no collector"), usual());
    };
    let Some((_, transport)) = Transport::NAMES.into_iter().find(|(name, _)| *name == transport) else {
        return wrong(format!("`{shown}` is reached by none of udp://, tcp:// and tls://"), usual());
    };
    let Ok(address) = address.parse::<SocketAddr>() else {
        let help = format!("{}; names of hosts are not looked up", usual());
        return wrong(format!("`{shown}` has no address with a port"), help);
    };
    if address.port() == 0 || !is_a_hosts(address.ip()) {
        return wrong(format!("nobody can listen at `{shown}`"), usual());
    }
    if let IpAddr::V6(v6) = address.ip()
        && let Some(v4) = v6.to_ipv4_mapped()
    {
        let help =
            format!("write the address as what it is: \"{}://{v4}:{}\"", transport.name(), address.port());
        return wrong(format!("`{shown}` is an address of IPv4"), help);
    }
    if matches!(address.ip(), IpAddr::V6(v6) if v6.is_unicast_link_local()) {
        let help =
            "write an address that routes lead to: a link's own addresses say not which link".to_owned();
        return wrong(format!("`{shown}` is on a link, and nobody knows on which"), help);
    }
    Some(Collector { transport, address })
}

/// Whether one host can have the address.
fn is_a_hosts(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !is_broadcast
}
