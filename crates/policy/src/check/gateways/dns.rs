//! What gateways of DNS have for themselves, and what they do not have.

use super::ftp::only_of;
use super::{addresses, files, host, words};
use crate::check::names::{Addresses, Names};
use crate::gateways::{DNS_TYPES, Dns, GatewayLimits, HostEntry, View};
use crate::hosts;
use crate::{quantity, schema};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use toml_reader::{Collector, Section, shortened, texts};

/// Keys of gateways of DNS alone, and of their rules.
pub(super) const KEYS: [&str; 5] = ["forward_to", "local", "views", "cache", "rate"];
pub(super) const KEYS_OF_RULES: [&str; 2] = ["types", "private_answers"];

/// Bytes of answers that are kept, and answers in a second for one client, where the policy does not say.
const USUAL_CACHE: u64 = 16 << 20;
const USUAL_RATE: u32 = 200;
/// The least and the most that `cache` may be.
const CACHE: (u64, u64) = (64 << 10, 1 << 30);
/// Views of a gateway.
const MOST_VIEWS: usize = 64;
const NAMES_HELP: &str = "write the path of a file of names: \"/etc/rampart/hosts\"";

/// Limits where the policy does not say: clients wait for 5 s, and keep connections for a short time (RFC 7766 section 6.2.3).
pub(super) fn usual_limits(section: &Section<'_>, limits: &mut GatewayLimits) {
    if section.value("idle").is_none() {
        limits.idle = Duration::from_secs(10);
    }
    if section.value("answer_time").is_none() {
        limits.answer_time = Duration::from_secs(4);
    }
}

/// What is DNS's alone.
pub(super) fn read<'t>(
    section: &Section<'t>,
    listen: Option<SocketAddr>,
    forward_to: &[SocketAddr],
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<Dns> {
    let of_others = [
        "servers",
        "reach",
        "ports",
        "connect_ports",
        "look_up",
        "decisions",
        "forwarded_for",
        "head_bytes",
        "head_fields",
        "connect_time",
        "pooled",
    ];
    only_of(section, &of_others, "http", c);
    only_of(section, &["data_ports", "to_servers"], "ftp", c);
    for (key, help) in [("resolvers", "write `forward_to`"), ("client_names", "take `client_names` out")] {
        if section.value(key).is_some() {
            let message = format!("`{key}` is for protocol = \"http\" and \"ftp\"");
            c.report(section.key_span(key), message, Some(help.to_owned()));
        }
    }
    if let Some(listen) = listen {
        if listen.ip().is_unspecified() {
            let help =
                "write one of its addresses: answers must come from the address that was asked".to_owned();
            let message = format!("a gateway of DNS cannot listen at every address (`{}`)", listen.ip());
            c.report(section.key_span("listen"), message, Some(help));
        }
        if forward_to.contains(&listen) {
            let help = "write the name servers of your provider, or of another network".to_owned();
            c.report(section.key_span("forward_to"), "the gateway would ask itself", Some(help));
        }
    }
    let help = "write the names of zones: \"example.lan\"";
    let local = words(section, "local", |word| host(word, false).filter(|it| !is_address(it)), help, c);
    let views = views(section, objects, c);
    let cache = match section.value("cache") {
        None => Some(USUAL_CACHE),
        Some(_) => cache(section, c),
    };
    let rate = match section.value("rate") {
        None => Some(USUAL_RATE),
        Some(_) => section.integer("rate", 1..=1_000_000, c),
    };
    Some(Dns { views: views?, local: local?, cache: cache?, rate: rate? })
}

fn is_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok()
}

fn cache(section: &Section<'_>, c: &mut Collector<'_>) -> Option<u64> {
    let text = section.text("cache", c)?;
    let found = quantity::size(text.value).filter(|bytes| (CACHE.0..=CACHE.1).contains(bytes));
    if found.is_none() {
        let help = "write a size from \"64KiB\" to \"1GiB\"".to_owned();
        c.report(text.span, format!("`cache` cannot be `{}`", shortened(text.value)), Some(help));
    }
    found
}

fn views<'t>(
    section: &Section<'t>,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<Vec<View>> {
    let sections = schema::GATEWAY_VIEW.sections(section, "views", c);
    if let Some(one_too_many) = sections.get(MOST_VIEWS) {
        let help = format!("it can have {MOST_VIEWS}; a view can name many networks");
        c.report(one_too_many.span.clone(), "the gateway has too many views", Some(help));
        return None;
    }
    let mut found = Vec::new();
    for section in &sections {
        section.text("description", c);
        let source = addresses(section, "source", objects, c);
        let files = files(section, "file", NAMES_HELP, c);
        let entries = entries(section, c);
        found.push(View { source: source?, files: files?, entries: entries? });
    }
    Some(found)
}

/// Lines as of `/etc/hosts`.
fn entries(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Vec<HostEntry>> {
    let Some(value) = section.value("entries") else { return Some(Vec::new()) };
    let mut found = Vec::new();
    for line in texts(value, "entries", c)? {
        match hosts::line(line.value) {
            Ok(entry) => found.extend(entry),
            Err(why) => {
                let help =
                    "write an address and its names: \"10.0.0.5 server.example.lan server\"".to_owned();
                c.report(line.span, why, Some(help));
                return None;
            }
        }
    }
    Some(found)
}

/// Types of records.
pub(super) fn types(section: &Section<'_>, hosts: &[String], c: &mut Collector<'_>) -> Option<Vec<String>> {
    only_of(
        section,
        &["paths", "methods", "content_types", "largest_request", "largest_answer", "server_name"],
        "http",
        c,
    );
    if let Some(address) = hosts.iter().find(|host| is_address(host)) {
        let help =
            "write names, or those of `in-addr.arpa` and `ip6.arpa` for questions about addresses".to_owned();
        c.report(section.key_span("hosts"), format!("nobody asks for the name `{address}`"), Some(help));
    }
    let is_number = |word: &str| {
        let digits = word.strip_prefix("TYPE");
        digits.is_some_and(|it| !it.starts_with(['+', '0']) && it.parse::<u16>().is_ok())
    };
    let help = format!("types are {}, and numbers: \"TYPE65280\"", DNS_TYPES.join(", "));
    let known = |word: &str| (DNS_TYPES.contains(&word) || is_number(word)).then(|| word.to_owned());
    words(section, "types", known, &help, c)
}
