//! `[gateways.NAME]`: where a gateway listens, what it is for, and its rules.

mod dns;
mod ftp;
pub(super) mod users;

use super::Kind;
use super::names::{Addresses, Names};
use super::rules::is_rule_name;
use super::settings::duration;
use crate::address::AddressSet;
use crate::gateways::{
    Gateway, GatewayLimits, GatewayRule, MOST_FILES, MOST_GATEWAYS, MOST_RULES, MOST_WORDS, Mode, Protocol,
};
use crate::model::{Action, Effect, Rule, SELF, ZoneSet};
use crate::schedule::Schedule;
use crate::service::{self, ServicePart, ServiceSet};
use crate::settings::Forwarding;
use crate::{hosts, quantity, schema};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;
use toml_reader::{Collector, DeValue, Located, Section, items, shortened, texts, wrong_type};

const KIND: Kind = Kind {
    key: "gateways",
    one: "gateway",
    form: "a table with `protocol` and `listen`",
    reserved: &[],
    keys: schema::GATEWAY,
};

/// How long a decision is kept, where the policy does not say: as long as the firewall of the Compaq report kept them.
const USUAL_DECISIONS: Duration = Duration::from_secs(60);

/// Schedules with their places in the text.
type Schedules = [(Schedule, Range<usize>)];

pub(super) fn read<'t>(
    root: &Section<'t>,
    schedules: &Schedules,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Vec<Gateway> {
    let sections = KIND.sections(root, c);
    if let Some((name, _)) = sections.get(MOST_GATEWAYS) {
        let help = format!("it can have {MOST_GATEWAYS}");
        c.report(name.span.clone(), "the policy has too many gateways", Some(help));
        return Vec::new();
    }
    let mut found: Vec<Gateway> = Vec::new();
    for (name, section) in &sections {
        let Some(gateway) = gateway(name, section, root, schedules, objects, c) else { continue };
        if let Some(other) = found.iter().find(|other| meet(other, &gateway)) {
            let message = format!("the gateway `{}` listens there already", other.name);
            c.report(section.key_span("listen"), message, Some("choose another port".to_owned()));
        }
        found.push(gateway);
    }
    found
}

/// Whether two cannot listen at the same time.
fn meet(one: &Gateway, other: &Gateway) -> bool {
    let has = |gateway: &Gateway, ip: IpAddr| {
        let at = gateway.listen.ip();
        let is_of_family = at.is_ipv4() == ip.is_ipv4() || (at.is_ipv6() && gateway.is_transparent());
        at == ip || (at.is_unspecified() && is_of_family)
    };
    one.listen.port() == other.listen.port() && (has(one, other.listen.ip()) || has(other, one.listen.ip()))
}

/// The gateways that rules of the packet filter may name.
pub(super) struct Gateways<'a> {
    pub(super) root: &'a Section<'a>,
    pub(super) found: &'a [Gateway],
    pub(super) forwarding: Forwarding,
}

impl Gateways<'_> {
    /// The gateway that takes a rule's flows; `Some(None)` if the rule names none.
    pub(super) fn of_rule(
        &self,
        section: &Section<'_>,
        effect: Option<&Effect>,
        zones: [Option<ZoneSet>; 2],
        service: Option<&ServiceSet>,
        c: &mut Collector<'_>,
    ) -> Option<Option<usize>> {
        if section.value("gateway").is_none() {
            return Some(None);
        }
        let name = section.text("gateway", c)?;
        let refused = if self.forwarding == Forwarding::Kernel {
            let what = "transparent gateways need the firewall's own forwarding";
            Some((what, "take `gateway` out, or forwarding = \"kernel\" out of [settings]"))
        } else if effect.is_some_and(|effect| effect.action != Action::Allow) {
            Some(("`gateway` needs a rule that allows", "take `gateway` out, or write action = \"allow\""))
        } else if zones.iter().flatten().any(|zones| zones & 1 << SELF != 0) {
            let what = "what is from or to the firewall itself is not handed to a gateway";
            Some((
                what,
                "take `self` out of the rule; clients that know the gateway need mode = \"explicit\"",
            ))
        } else if service.is_some_and(|service| !is_tcp_alone(service)) {
            let what = "a gateway takes TCP alone, and the rule has more";
            Some((what, "write service = \"http\", or the ports of TCP: \"tcp/80\""))
        } else {
            None
        };
        if let Some((what, help)) = refused {
            c.report(section.key_span("gateway"), what, Some(help.to_owned()));
            return None;
        }
        let found = self.found.iter().position(|gateway| gateway.name == name.value);
        if found.is_some_and(|place| self.found[place].is_transparent()) {
            return Some(found);
        }
        // What is wrong with a gateway was reported where it stands.
        let written = super::named(self.root, "gateways", &mut Collector::new("", ""));
        if found.is_some() {
            let message =
                format!("clients have to know the gateway `{}`: no rule can hand it connections", name.value);
            c.report(name.span, message, Some("write mode = \"transparent\" in [gateways.NAME]".to_owned()));
        } else if !written.iter().any(|(known, _)| known.value == name.value) {
            let help = c.suggestion(name.value, written.iter().map(|(known, _)| known.value));
            c.report(name.span, format!("there is no gateway `{}`", shortened(name.value)), help);
        }
        None
    }

    /// Reports gateways of FTP to which rules hand commands and not the data: clients would wait for it.
    pub(super) fn check_data(&self, rules: &[Rule], c: &mut Collector<'_>) {
        for (place, gateway) in self.found.iter().enumerate() {
            let Protocol::Ftp { data_ports: (first, last), .. } = gateway.protocol else { continue };
            let (from, to) = (service::key(service::TCP, first), service::key(service::TCP, last));
            let has_all = |rule: &&Rule| {
                let of_parts =
                    |part: &ServicePart| part.keys.ranges().iter().any(|it| it.0 <= from && to <= it.1);
                rule.service.parts().iter().any(of_parts)
            };
            let mut handed = rules.iter().filter(|rule| rule.effect.gateway == Some(place)).peekable();
            if handed.peek().is_none() || handed.find(has_all).is_some() {
                continue;
            }
            let written = super::named(self.root, "gateways", &mut Collector::new("", ""));
            let Some((name, _)) = written.iter().find(|(name, _)| name.value == gateway.name) else {
                continue;
            };
            let message = format!(
                "no rule hands the gateway `{}` its data ports {first}-{last}: passive clients would get no data",
                gateway.name
            );
            let help = format!("write service = [\"ftp\", \"tcp/{first}-{last}\"] in its rule");
            c.report(name.span.clone(), message, Some(help));
        }
    }
}

fn is_tcp_alone(service: &ServiceSet) -> bool {
    let (first, last) = (service::key(service::TCP, 0), service::key(service::TCP, u16::MAX));
    let is_tcp = |keys: &[(u32, u32)]| keys.iter().all(|(from, to)| first <= *from && *to <= last);
    service.parts().iter().all(|part| is_tcp(part.keys.ranges()))
}

/// The words of `mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Explicit,
    Publish,
    Transparent,
}

/// The protocols of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Http,
    Ftp,
    Dns,
}

const PROTOCOLS: &str = "\"http\", \"ftp\" or \"dns\"";

fn protocol(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Speaks> {
    let protocol = section.required_text("protocol", PROTOCOLS, c)?;
    match protocol.value {
        "http" => Some(Speaks::Http),
        "ftp" => Some(Speaks::Ftp),
        "dns" => Some(Speaks::Dns),
        other => {
            let what = format!("`protocol` cannot be `{}`", shortened(other));
            c.report(protocol.span, what, Some(format!("write protocol = {PROTOCOLS}")));
            None
        }
    }
}

fn mode(section: &Section<'_>, speaks: Option<Speaks>, c: &mut Collector<'_>) -> Option<Way> {
    let Some(mode) = section.text("mode", c) else {
        return section.value("mode").is_none().then_some(Way::Explicit);
    };
    match mode.value {
        "explicit" => Some(Way::Explicit),
        _ if speaks == Some(Speaks::Dns) => {
            let help = "take `mode` out: clients ask a gateway of DNS by its address".to_owned();
            c.report(mode.span, "`mode` is for protocol = \"http\" and \"ftp\"", Some(help));
            None
        }
        "publish" if speaks == Some(Speaks::Ftp) => {
            let help =
                "servers of FTP are not published by name: translate the destination ([[nat]])".to_owned();
            c.report(mode.span, "`publish` is for protocol = \"http\"", Some(help));
            None
        }
        "publish" => Some(Way::Publish),
        "transparent" => Some(Way::Transparent),
        other => {
            let help = "write \"explicit\", \"transparent\" or \"publish\"".to_owned();
            c.report(mode.span, format!("`mode` cannot be `{}`", shortened(other)), Some(help));
            None
        }
    }
}

fn gateway<'t>(
    name: &Located<&'t str>,
    section: &Section<'t>,
    root: &Section<'t>,
    schedules: &Schedules,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<Gateway> {
    let speaks = protocol(section, c);
    let kind = mode(section, speaks, c);
    let listen = listen(section, c);
    let servers = servers(section, kind == Some(Way::Publish), c);
    let reach = addresses(section, "reach", objects, c);
    let usual_port = if speaks == Some(Speaks::Ftp) { 21 } else { 80 };
    let ports = ports(section, "ports", &[usual_port], c);
    let connect_ports = self::ports(section, "connect_ports", &[443], c);
    let resolvers =
        resolvers(section, if speaks == Some(Speaks::Dns) { "forward_to" } else { "resolvers" }, c);
    let look_up = section.flag("look_up", c).unwrap_or(true);
    let client_names = section.flag("client_names", c).unwrap_or(false);
    let decisions = decisions(section, c);
    let forwarded_for = section.flag("forwarded_for", c).unwrap_or(false);
    let users_file = users::file(section, c);
    let mut limits = limits(section, c);
    let protocol = match speaks {
        Some(Speaks::Dns) => {
            dns::usual_limits(section, &mut limits);
            dns::read(section, listen, resolvers.as_deref().unwrap_or_default(), objects, c)
                .map(Protocol::Dns)
        }
        Some(Speaks::Ftp) => {
            if section.value("idle").is_none() {
                limits.idle = ftp::USUAL_IDLE;
            }
            ftp::read(section, listen, ports.as_deref().unwrap_or_default(), c)
        }
        Some(Speaks::Http) => {
            ftp::only_of(section, &["data_ports", "to_servers"], "ftp", c);
            ftp::only_of(section, &dns::KEYS, "dns", c);
            Some(Protocol::Http)
        }
        None => None,
    };
    if kind == Some(Way::Publish) {
        for key in ["reach", "ports", "connect_ports", "resolvers", "look_up"] {
            if section.value(key).is_some() && !(client_names && key == "resolvers") {
                let help = format!("take `{key}` out: published servers are named by `servers`");
                c.report(section.key_span(key), format!("`{key}` is for mode = \"explicit\""), Some(help));
            }
        }
    }
    if kind == Some(Way::Transparent)
        && speaks == Some(Speaks::Http)
        && section.value("connect_ports").is_some()
    {
        let help =
            "take `connect_ports` out: clients that know of no proxy do not ask for tunnels".to_owned();
        c.report(section.key_span("connect_ports"), "`connect_ports` is for mode = \"explicit\"", Some(help));
    }
    let rules = rules(section, speaks, root, schedules, objects, c);
    users::check_rules(section, c);
    if speaks == Some(Speaks::Ftp) && kind == Some(Way::Transparent) {
        ftp::check_transparent(section, client_names, rules.as_deref().unwrap_or_default(), c);
    }
    Some(Gateway {
        name: name.value.to_owned(),
        protocol: protocol?,
        listen: listen?,
        mode: match kind? {
            Way::Explicit => Mode::Explicit,
            Way::Transparent => Mode::Transparent,
            Way::Publish => Mode::Publish(servers?),
        },
        rules: rules?,
        reach: reach?.unwrap_or_default(),
        ports: ports?,
        connect_ports: connect_ports?,
        resolvers: resolvers?,
        look_up,
        client_names,
        decisions: decisions?,
        forwarded_for,
        users_file: users_file?,
        limits,
    })
}

fn listen(section: &Section<'_>, c: &mut Collector<'_>) -> Option<SocketAddr> {
    let text = section.required_text("listen", "\"10.0.0.1:3128\"", c)?;
    let found = text.value.parse::<SocketAddr>().ok().filter(|it| it.port() != 0);
    let is_good = found.is_some_and(|it| !it.ip().is_multicast() && !is_of_a_link(it.ip()));
    if !is_good {
        let help = "write an address of the firewall and a port: \"10.0.0.1:3128\", \"[2001:db8::1]:3128\"";
        let message = format!("nobody can listen at `{}`", shortened(text.value));
        c.report(text.span, message, Some(help.to_owned()));
        return None;
    }
    found
}

fn is_of_a_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Names of published servers with their addresses.
fn servers(
    section: &Section<'_>,
    is_published: bool,
    c: &mut Collector<'_>,
) -> Option<Vec<(String, SocketAddr)>> {
    let Some(value) = section.value("servers") else {
        if is_published {
            section.missing("servers", "{ \"www.example.com\" = \"10.0.1.5:80\" }", c);
        }
        return (!is_published).then(Vec::new);
    };
    if !is_published {
        let help = "write mode = \"publish\" beside it".to_owned();
        c.report(section.key_span("servers"), "`servers` needs mode = \"publish\"", Some(help));
        return None;
    }
    let DeValue::Table(table) = value.get_ref() else {
        return wrong_type(c, "servers", value.span(), value.get_ref(), "a table of names and addresses");
    };
    let mut found = Vec::new();
    for (name, to) in table.iter() {
        let span = name.span();
        let Some(host) = host(name.get_ref(), false) else {
            let message = format!("`{}` is not the name of a host", shortened(name.get_ref()));
            c.report(span, message, Some("write \"www.example.com\", in small letters".to_owned()));
            continue;
        };
        let address = to.get_ref().as_str().and_then(|text| text.parse::<SocketAddr>().ok());
        match address.filter(|it| it.port() != 0 && !it.ip().is_unspecified()) {
            Some(address) => found.push((host, address)),
            None => {
                let help = "write its address and port: \"10.0.1.5:80\"".to_owned();
                c.report(to.span(), format!("the server of `{host}` has no address with a port"), Some(help));
            }
        }
    }
    if found.is_empty() && table.is_empty() {
        let help = Some("write { \"www.example.com\" = \"10.0.1.5:80\" }".to_owned());
        c.report(section.key_span("servers"), "no server is published", help);
        return None;
    }
    Some(found)
}

/// The addresses of a key; `Some(None)` if it is not there.
fn addresses<'t>(
    section: &Section<'t>,
    key: &'static str,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<Option<AddressSet>> {
    let Some(value) = section.value(key) else { return Some(None) };
    let words = texts(value, key, c)?;
    Some(Some((*objects.written_out(&words, c)?).clone()))
}

fn ports(section: &Section<'_>, key: &'static str, usual: &[u16], c: &mut Collector<'_>) -> Option<Vec<u16>> {
    let Some(value) = section.value(key) else { return Some(usual.to_vec()) };
    let port = |item: &toml_reader::Value<'_>| match item.get_ref() {
        DeValue::Integer(number) => number.as_str().parse::<u16>().ok().filter(|port| *port != 0),
        _ => None,
    };
    let mut found = Vec::new();
    for item in items(value) {
        match port(item) {
            Some(port) => found.push(port),
            None => {
                let help = format!("write {key} = [{}]", usual.first().copied().unwrap_or(80));
                c.report(item.span(), format!("`{key}` needs ports, 1 to 65535"), Some(help));
                return None;
            }
        }
    }
    Some(found)
}

fn resolvers(section: &Section<'_>, key: &'static str, c: &mut Collector<'_>) -> Option<Vec<SocketAddr>> {
    let Some(value) = section.value(key) else { return Some(Vec::new()) };
    let mut found = Vec::new();
    for text in texts(value, key, c)? {
        let address = text.value.parse().map(|ip: IpAddr| SocketAddr::new(ip, 53));
        match address.or_else(|_| text.value.parse::<SocketAddr>()) {
            Ok(address) if address.port() != 0 && !address.ip().is_unspecified() => found.push(address),
            _ => {
                let help = "write \"10.0.0.53\" or \"10.0.0.53:5353\"".to_owned();
                c.report(text.span, format!("`{}` is no name server", shortened(text.value)), Some(help));
                return None;
            }
        }
    }
    Some(found)
}

/// How long decisions are kept, or `"off"`.
fn decisions(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Duration> {
    if section.value("decisions").is_none() {
        return Some(USUAL_DECISIONS);
    }
    if section.text("decisions", c)?.value == "off" {
        return Some(Duration::ZERO);
    }
    duration(section, "decisions", Duration::from_secs(1)..=Duration::from_secs(86_400), c)
}

fn limits(section: &Section<'_>, c: &mut Collector<'_>) -> GatewayLimits {
    let mut limits = GatewayLimits::default();
    let numbers: [(&'static str, &mut u32, u32, u32); 5] = [
        ("connections", &mut limits.connections, 1, 100_000),
        ("connections_per_client", &mut limits.connections_per_client, 1, 100_000),
        ("head_bytes", &mut limits.head_bytes, 1_024, 65_536),
        ("head_fields", &mut limits.head_fields, 1, 200),
        ("pooled", &mut limits.pooled, 0, 10_000),
    ];
    for (key, place, least, most) in numbers {
        if let Some(number) = section.integer(key, least..=most, c) {
            *place = number;
        }
    }
    let times: [(&'static str, &mut Duration, u64); 4] = [
        ("head_time", &mut limits.head_time, 600),
        ("idle", &mut limits.idle, 3_600),
        ("connect_time", &mut limits.connect_time, 600),
        ("answer_time", &mut limits.answer_time, 3_600),
    ];
    for (key, place, most) in times {
        if let Some(time) = duration(section, key, Duration::from_secs(1)..=Duration::from_secs(most), c) {
            *place = time;
        }
    }
    limits
}

fn rules<'t>(
    section: &Section<'t>,
    speaks: Option<Speaks>,
    root: &Section<'t>,
    schedules: &Schedules,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<Vec<GatewayRule>> {
    let sections = schema::GATEWAY_RULE.sections(section, "rules", c);
    if sections.is_empty() && section.value("rules").is_none() {
        let help = format!("write [[{}.rules]] with name and action", "gateways.NAME");
        c.report(section.span.clone(), "the gateway has no rule, and would refuse everything", Some(help));
        return None;
    }
    if let Some(one_too_many) = sections.get(MOST_RULES) {
        let help = format!("it can have {MOST_RULES}; a rule can name many hosts");
        c.report(one_too_many.span.clone(), "the gateway has too many rules", Some(help));
        return None;
    }
    let mut found: Vec<GatewayRule> = Vec::new();
    let mut is_good = true;
    for section in &sections {
        let Some(rule) = rule(section, speaks, root, schedules, objects, c) else {
            is_good = false;
            continue;
        };
        if found.iter().any(|other| other.name == rule.name) {
            let message = format!("another rule of the gateway is called `{}` too", shortened(&rule.name));
            let help = "give each rule a name of its own: events name it".to_owned();
            c.report(section.key_span("name"), message, Some(help));
        }
        found.push(rule);
    }
    is_good.then_some(found)
}

fn rule<'t>(
    section: &Section<'t>,
    speaks: Option<Speaks>,
    root: &Section<'t>,
    schedules: &Schedules,
    objects: &mut Names<'t, Addresses>,
    c: &mut Collector<'_>,
) -> Option<GatewayRule> {
    let name = section.required_text("name", "\"web\"", c);
    if let Some(name) = name.as_ref().filter(|name| !is_rule_name(name.value)) {
        let help =
            "letters from A to Z, digits and - _ . : / +, no spaces, a letter or digit first, at most 63"
                .to_owned();
        let message = format!("`{}` cannot be the name of a rule", shortened(name.value));
        c.report(name.span.clone(), message, Some(help));
    }
    section.text("description", c);
    if section.value("action").is_none() {
        section.missing("action", "\"allow\" or \"deny\"", c);
    }
    let allow = section.choice("action", &[("allow", true), ("deny", false)], c);
    let source = addresses(section, "source", objects, c);
    let hosts = words(section, "hosts", |word| host(word, true), HOST_HELP, c);
    let host_files = files(section, "hosts_file", HOSTS_FILE_HELP, c);
    let paths = words(section, "paths", path, PATH_HELP, c);
    if speaks != Some(Speaks::Dns) {
        ftp::only_of(section, &dns::KEYS_OF_RULES, "dns", c);
    }
    let methods = match speaks {
        Some(Speaks::Ftp) => {
            ftp::only_of(section, &["paths", "content_types", "server_name"], "http", c);
            words(section, "methods", ftp::method, &ftp::method_help(), c)
        }
        Some(Speaks::Dns) => dns::types(section, hosts.as_deref().unwrap_or_default(), c),
        _ => words(section, "methods", method, METHOD_HELP, c),
    };
    let users = words(section, "users", users::word, users::HELP, c);
    let schedule = schedule(section, root, schedules, c);
    let largest_request = size(section, "largest_request", c);
    let largest_answer = size(section, "largest_answer", c);
    let content_types = words(section, "content_types", content_type, CONTENT_TYPE_HELP, c);
    let server_name = section.flag("server_name", c).unwrap_or(false);
    let private_answers = section.flag("private_answers", c).unwrap_or(false);
    let log = section.flag("log", c).unwrap_or(false);
    let enabled = section.flag("enabled", c).unwrap_or(true);
    if allow == Some(false) {
        for key in ["largest_request", "largest_answer", "content_types", "server_name", "private_answers"] {
            if section.value(key).is_some() {
                let help = format!("take `{key}` out, or write action = \"allow\"");
                c.report(section.key_span(key), format!("`{key}` needs a rule that allows"), Some(help));
            }
        }
    }
    Some(GatewayRule {
        name: name?.value.to_owned(),
        allow: allow?,
        source: source?,
        hosts: hosts?,
        host_files: host_files?,
        paths: paths?,
        methods: methods?,
        users: users?,
        schedule: schedule?,
        largest_request: largest_request?,
        largest_answer: largest_answer?,
        content_types: content_types?,
        server_name,
        private_answers,
        log,
        enabled,
    })
}

const HOST_HELP: &str = "write \"www.example.com\", \"*.example.com\" (every name below it) or an address";
const HOSTS_FILE_HELP: &str = "write the path of a file with a host a line: \"/etc/rampart/gambling.txt\"";
const PATH_HELP: &str =
    "write the path as it is meant, without escapes and without its query, with * for anything: \"/pub/*\"";
const METHOD_HELP: &str = "write methods as they are sent: \"GET\", \"HEAD\", \"CONNECT\"";

const CONTENT_TYPE_HELP: &str = "write types of content as servers say them, \"text/html\" or \"image/*\", with ! before those that may not come";

/// The words of a key as they are compared; none if the key is not there.
fn words(
    section: &Section<'_>,
    key: &'static str,
    read: impl Fn(&str) -> Option<String>,
    help: &str,
    c: &mut Collector<'_>,
) -> Option<Vec<String>> {
    let Some(value) = section.value(key) else { return Some(Vec::new()) };
    let written = texts(value, key, c)?;
    if written.len() > MOST_WORDS {
        let help = format!("it can have {MOST_WORDS}; write another rule for the others");
        c.report(value.span(), format!("`{key}` has too many words"), Some(help));
        return None;
    }
    let mut found = Vec::new();
    for word in &written {
        match read(word.value) {
            Some(word) => found.push(word),
            None => {
                let message = format!("`{}` cannot stand in `{key}`", shortened(word.value));
                c.report(word.span.clone(), message, Some(help.to_owned()));
                return None;
            }
        }
    }
    Some(found)
}

/// Paths of files, none of which is read here; none if the key is not there.
fn files(section: &Section<'_>, key: &'static str, help: &str, c: &mut Collector<'_>) -> Option<Vec<String>> {
    let Some(value) = section.value(key) else { return Some(Vec::new()) };
    let written = texts(value, key, c)?;
    if let Some(empty) = written.iter().find(|file| file.value.is_empty()) {
        c.report(empty.span.clone(), "a file has a path", Some(help.to_owned()));
        return None;
    }
    if written.len() > MOST_FILES {
        let help = format!("it can have {MOST_FILES}; put two of them together");
        c.report(value.span(), format!("`{key}` has too many files"), Some(help));
        return None;
    }
    Some(written.iter().map(|file| file.value.to_owned()).collect())
}

/// A host's name or address; with a pattern, too.
fn host(word: &str, or_pattern: bool) -> Option<String> {
    if let Ok(address) = word.parse::<IpAddr>() {
        return Some(address.to_canonical().to_string());
    }
    let name = if or_pattern { word.strip_prefix("*.").unwrap_or(word) } else { word };
    hosts::is_name(name).then(|| word.to_owned())
}

fn path(word: &str) -> Option<String> {
    let is_good = word.starts_with(['/', '*'])
        && !word.contains(['%', '?', '#', '\\'])
        && !word.chars().any(char::is_control);
    let has_dots = word.split('/').any(|segment| matches!(segment, "." | ".."));
    (is_good && !has_dots && !word.contains("//")).then(|| word.to_owned())
}

fn method(word: &str) -> Option<String> {
    let is_good = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (!word.is_empty() && word.len() <= 32 && word.bytes().all(is_good)).then(|| word.to_owned())
}

/// `text/html`, `image/*`, and either with `!` before it.
fn content_type(word: &str) -> Option<String> {
    let (kind, subtype) = word.strip_prefix('!').unwrap_or(word).split_once('/')?;
    let is_token = |text: &str| {
        (1..=127).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let is_good = is_token(kind) && kind.as_bytes()[0] != b'!' && (subtype == "*" || is_token(subtype));
    is_good.then(|| word.to_ascii_lowercase())
}

fn schedule(
    section: &Section<'_>,
    root: &Section<'_>,
    schedules: &Schedules,
    c: &mut Collector<'_>,
) -> Option<Option<usize>> {
    let Some(name) = section.text("schedule", c) else {
        return section.value("schedule").is_none().then_some(None);
    };
    if name.value == "always" {
        return Some(None);
    }
    if let Some(place) = schedules.iter().position(|(schedule, _)| schedule.name == name.value) {
        return Some(Some(place));
    }
    // What is wrong with a schedule was reported where it stands.
    let written = super::named(root, "schedules", &mut Collector::new("", ""));
    if !written.iter().any(|(known, _)| known.value == name.value) {
        let help = c.suggestion(name.value, written.iter().map(|(known, _)| known.value));
        c.report(name.span, format!("there is no schedule `{}`", shortened(name.value)), help);
    }
    None
}

/// A number of bytes; `Some(None)` if the key is not there.
fn size(section: &Section<'_>, key: &'static str, c: &mut Collector<'_>) -> Option<Option<u64>> {
    if section.value(key).is_none() {
        return Some(None);
    }
    let text = section.text(key, c)?;
    let found = quantity::size(text.value);
    if found.is_none() {
        let help = "write a number with B, KiB, MiB or GiB: \"10MiB\"".to_owned();
        c.report(text.span, format!("`{}` is not a size", shortened(text.value)), Some(help));
    }
    found.map(Some)
}
