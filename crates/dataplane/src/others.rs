//! What else in this network namespace forwards, translates or chooses routes, and would be gone past by a firewall that forwards by
//! itself: rules of nftables and iptables that translate, policy routes, VRFs, load balancers. Changes nothing.

use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use std::collections::BTreeSet;
use std::fs;
use std::io;

/// Numbers of linux/netlink.h, linux/netfilter/nfnetlink.h and nf_tables.h, linux/rtnetlink.h and linux/fib_rules.h.
const HEADER_BYTES: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const GET_NFT_RULE: u16 = 10 << 8 | 7;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
/// Of the expressions `target` and `match`, by which iptables puts its own into nftables.
const EXTENSION_NAME: u16 = 1;
const GET_FIB_RULE: u16 = 34;
const FIB_PRIORITY: u16 = 6;
const FIB_MARK: u16 = 10;
const FIB_L3MDEV: u16 = 19;
/// Lengths of the headers behind that of netlink: `struct nfgenmsg`, `struct fib_rule_hdr`.
const NFT_HEADER: usize = 4;
const FIB_HEADER: usize = 12;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// Those that every namespace has: local, main, default.
const USUAL_PRIORITIES: [u32; 3] = [0, 32_766, 32_767];

/// What has the kernel forward packets of known connections without asking at netfilter.
const FLOWTABLE: (&str, &str) = ("flow_offload", "forwards past the hooks (flowtable)");
/// What an expression of nftables does to packets that a firewall of its own path would not.
const EXPRESSIONS: [(&str, &str); 5] = [
    ("nat", "translates addresses"),
    ("masq", "masquerades"),
    ("redir", "redirects"),
    ("tproxy", "hands packets to a proxy"),
    FLOWTABLE,
];
/// The same of targets of iptables.
const TARGETS: [(&str, &str); 6] = [
    ("MASQUERADE", "masquerades"),
    ("SNAT", "translates addresses"),
    ("DNAT", "translates addresses"),
    ("NETMAP", "translates addresses"),
    ("REDIRECT", "redirects"),
    ("TPROXY", "hands packets to a proxy"),
];

/// What needs connections to be tracked: expressions of nftables, and matches and targets of iptables.
const TRACKING: [&str; 5] = ["ct", "connlimit", "nat", "masq", "redir"];
const TRACKING_EXTENSIONS: [&str; 14] = [
    "conntrack",
    "state",
    "connmark",
    "connlimit",
    "connlabel",
    "connbytes",
    "helper",
    "CT",
    "CONNMARK",
    "MASQUERADE",
    "SNAT",
    "DNAT",
    "NETMAP",
    "REDIRECT",
];

/// What was found in the calling thread's network namespace, each in words, and each once.
///
/// # Errors
/// The kernel does not answer.
pub fn found() -> io::Result<Vec<String>> {
    let mut found = of_nftables(translates)?;
    for family in [IPV4, IPV6] {
        let mut header = [0; FIB_HEADER];
        header[0] = family;
        match dump(NETLINK_ROUTE, GET_FIB_RULE, &header) {
            Ok(rules) => {
                found.extend(rules.iter().filter_map(|rule| of_fib_rule(family, rule.get(FIB_HEADER..)?)))
            }
            Err(error) if is_unknown(&error) => {}
            Err(error) => return Err(error),
        }
    }
    for (list, command) in [("ip_tables_names", "iptables"), ("ip6_tables_names", "ip6tables")] {
        let tables = fs::read_to_string(format!("/proc/thread-self/net/{list}")).unwrap_or_default();
        if tables.lines().any(|table| table == "nat") {
            found.insert(format!("the table `nat` of {command} (legacy) translates addresses"));
        }
    }
    // Three lines of headings.
    if fs::read_to_string("/proc/thread-self/net/ip_vs").is_ok_and(|text| text.lines().count() > 3) {
        found.insert("a load balancer in the kernel (ip_vs)".to_owned());
    }
    Ok(found.into_iter().collect())
}

/// The first thing in the calling thread's network namespace that tracks connections, in words. For it the kernel puts fragments together
/// before it forwards them. Rules of the legacy iptables cannot be listed here; they are known once a connection is tracked.
///
/// # Errors
/// The kernel does not answer.
pub fn tracking() -> io::Result<Option<String>> {
    Ok(of_nftables(tracks)?.pop_first().or_else(legacy_tracking))
}

/// What in the calling thread's network namespace has the kernel forward without asking at netfilter, each in words, and each once.
///
/// # Errors
/// The kernel does not answer.
pub fn past_netfilter() -> io::Result<Vec<String>> {
    Ok(of_nftables(goes_past)?.into_iter().collect())
}

/// What rules of nftables do, as [`of_nft_rule`] says.
fn of_nftables(does: impl Fn(&str, &str) -> Option<&'static str>) -> io::Result<BTreeSet<String>> {
    match dump(NETLINK_NETFILTER, GET_NFT_RULE, &[0; NFT_HEADER]) {
        Ok(rules) => {
            Ok(rules.iter().filter_map(|rule| of_nft_rule(rule.get(NFT_HEADER..)?, &does)).collect())
        }
        // A kernel without nftables has no rules of it.
        Err(error) if is_unknown(&error) => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

fn legacy_tracking() -> Option<String> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let is_there = ["ip_tables_names", "ip6_tables_names"]
        .iter()
        .any(|list| !read(&format!("/proc/thread-self/net/{list}")).is_empty());
    let count = read("/proc/sys/net/netfilter/nf_conntrack_count");
    let tracks = is_there && count.trim().parse::<u64>().is_ok_and(|count| count > 0);
    tracks.then(|| "iptables (legacy) is there, and connections are tracked".to_owned())
}

/// The kernel has no such subsystem, or was built without it.
fn is_unknown(error: &io::Error) -> bool {
    const EINVAL: i32 = 22;
    const EPROTONOSUPPORT: i32 = 93;
    const EOPNOTSUPP: i32 = 95;
    const EAFNOSUPPORT: i32 = 97;
    matches!(error.raw_os_error(), Some(EINVAL | EPROTONOSUPPORT | EOPNOTSUPP | EAFNOSUPPORT))
}

/// What the kernel lists, without netlink's own header.
fn dump(protocol: isize, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let bytes = (HEADER_BYTES + body.len()) as u32;
    let mut request = [&bytes.to_ne_bytes()[..], &kind.to_ne_bytes(), &REQUEST_DUMP.to_ne_bytes()].concat();
    // Sequence and port.
    request.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    request.extend(body);
    socket.send(&request, 0)?;
    let mut listed = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &datagram[..];
        while let Some((kind, message, after)) = first_message(rest) {
            match kind {
                DONE => return Ok(listed),
                ERROR => {
                    let error = message.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                    return Err(io::Error::from_raw_os_error(-error));
                }
                _ => listed.push(message.to_vec()),
            }
            rest = after;
        }
    }
}

/// Kind, what is behind the header, and the messages that follow.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let message = bytes.get(HEADER_BYTES..length)?;
    Some((kind, message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Attributes: number and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const NUMBER: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let number = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & NUMBER;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((number, value))
    })
}

fn attribute(bytes: &[u8], number: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(it, _)| *it == number).map(|(_, value)| value)
}

fn text(bytes: Option<&[u8]>) -> String {
    let bytes = bytes.unwrap_or_default();
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// In words, the first of a rule's expressions of which it is known what it does. An expression is its name, and that of its extension if it
/// is one of iptables.
fn of_nft_rule(rule: &[u8], does: impl Fn(&str, &str) -> Option<&'static str>) -> Option<String> {
    let does = attributes(attribute(rule, RULE_EXPRESSIONS)?).find_map(|(_, expression)| {
        let name = text(attribute(expression, EXPRESSION_NAME));
        let extension =
            attribute(expression, EXPRESSION_DATA).filter(|_| name == "target" || name == "match");
        does(&name, &text(extension.and_then(|data| attribute(data, EXTENSION_NAME))))
    })?;
    let (table, chain) = (text(attribute(rule, RULE_TABLE)), text(attribute(rule, RULE_CHAIN)));
    Some(format!("the chain `{chain}` of the table `{table}` (nftables) {does}"))
}

fn translates(expression: &str, extension: &str) -> Option<&'static str> {
    let known = |(name, _): &&(&str, &str)| *name == expression || *name == extension;
    EXPRESSIONS.iter().chain(&TARGETS).find(known).map(|(_, does)| *does)
}

fn goes_past(expression: &str, _: &str) -> Option<&'static str> {
    (expression == FLOWTABLE.0).then_some(FLOWTABLE.1)
}

fn tracks(expression: &str, extension: &str) -> Option<&'static str> {
    (TRACKING.contains(&expression) || TRACKING_EXTENSIONS.contains(&extension))
        .then_some("tracks connections")
}

fn of_fib_rule(family: u8, rule: &[u8]) -> Option<String> {
    let priority = attribute(rule, FIB_PRIORITY)
        .and_then(|value| value.first_chunk())
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let version = if family == IPV4 { "IPv4" } else { "IPv6" };
    if attribute(rule, FIB_L3MDEV).is_some() {
        return Some(format!("a VRF (`ip rule`, {version}, priority {priority})"));
    }
    let what = || format!("a policy route (`ip rule`, {version}, priority {priority})");
    let mark = attribute(rule, FIB_MARK).and_then(|value| value.first_chunk());
    let is_ours = mark.is_some_and(|bytes| u32::from_ne_bytes(*bytes) == crate::GATEWAY_TAKES);
    (!USUAL_PRIORITIES.contains(&priority) && !is_ours).then(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::namespace::Namespace;

    fn in_namespace(role: &str, make: impl FnOnce(&Namespace)) -> Vec<String> {
        let namespace = Namespace::create(role);
        make(&namespace);
        namespace.enter(|| found().unwrap())
    }

    fn nft(rules: &str) -> Vec<String> {
        in_namespace("others", |namespace| drop(namespace.run("nft", &[&format!("{rules}\n")])))
    }

    /// A rule as the kernel lists it, of one expression: not every kernel has flowtables.
    #[test]
    fn a_flowtable_is_known_by_its_rule() {
        let attribute = |number: u16, value: &[u8]| {
            let length = value.len() as u16 + 4;
            let mut bytes = [&length.to_ne_bytes()[..], &number.to_ne_bytes(), value].concat();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        for (name, wanted) in [
            (
                "flow_offload",
                Some("the chain `c` of the table `f` (nftables) forwards past the hooks (flowtable)"),
            ),
            ("masq", None),
        ] {
            let expression = attribute(EXPRESSION_NAME, format!("{name}\0").as_bytes());
            let rule = [
                attribute(RULE_TABLE, b"f\0"),
                attribute(RULE_CHAIN, b"c\0"),
                attribute(RULE_EXPRESSIONS, &attribute(1, &expression)),
            ];
            assert_eq!(of_nft_rule(&rule.concat(), goes_past).as_deref(), wanted, "{name}");
        }
    }

    #[test]
    fn needs_root_nothing_is_found_where_nothing_translates() {
        assert_eq!(in_namespace("empty", |_| {}), [""; 0]);
        let filter = "table inet filter { chain forward { type filter hook forward priority 0; ct state established accept
            tcp dport 22 counter drop\n}\n}";
        assert_eq!(nft(filter), [""; 0]);
        // A chain without rules translates nothing.
        assert_eq!(
            nft("table ip nat {\n chain post {\n type nat hook postrouting priority 100;\n }\n}"),
            [""; 0]
        );
    }

    #[test]
    fn needs_root_what_tracks_connections_is_named() {
        let in_namespace = |make: &dyn Fn(&Namespace)| {
            let namespace = Namespace::create("tracking");
            make(&namespace);
            namespace.enter(|| tracking().unwrap())
        };
        let chain = |rule: &str| {
            format!("table inet f {{ chain c {{ type filter hook forward priority 0; {rule}\n}}\n}}\n")
        };
        let wanted = Some("the chain `c` of the table `f` (nftables) tracks connections".to_owned());
        for (rule, wanted) in [
            ("", &None),
            ("tcp dport 22 counter drop", &None),
            ("tcp dport 22 accept; ct state established accept", &wanted),
            ("ct mark set 7", &wanted),
        ] {
            assert_eq!(
                &in_namespace(&|namespace| drop(namespace.run("nft", &[&chain(rule)]))),
                wanted,
                "{rule}"
            );
        }
        let iptables = |rule: &[&str]| in_namespace(&|namespace| drop(namespace.run("iptables-nft", rule)));
        let state = ["-w", "-A", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP"];
        assert_eq!(
            iptables(&state),
            Some("the chain `FORWARD` of the table `filter` (nftables) tracks connections".to_owned())
        );
        assert_eq!(iptables(&["-w", "-A", "FORWARD", "-m", "limit", "-j", "DROP"]), None);
    }

    #[test]
    fn needs_root_what_translates_or_chooses_routes_is_named() {
        let chain = |hook: &str, rule: &str| {
            nft(&format!("table ip nat {{ chain c {{ type nat hook {hook} priority 0; {rule}\n}}\n}}"))
        };
        for (hook, rule, does) in [
            ("postrouting", "ip saddr 10.0.0.0/8 masquerade", "masquerades"),
            ("postrouting", "snat to 192.0.2.1", "translates addresses"),
            ("prerouting", "tcp dport 8080 dnat to 172.17.0.2:80", "translates addresses"),
            ("prerouting", "tcp dport 80 redirect to :3128", "redirects"),
        ] {
            let wanted = format!("the chain `c` of the table `nat` (nftables) {does}");
            assert_eq!(chain(hook, rule), [wanted], "{rule}");
        }
        for (rule, wanted) in [
            ("rule add from 10.0.0.0/8 table 100", "a policy route (`ip rule`, IPv4, priority 32765)"),
            ("-6 rule add fwmark 1 table 100 priority 7", "a policy route (`ip rule`, IPv6, priority 7)"),
            ("rule add l3mdev priority 1000", "a VRF (`ip rule`, IPv4, priority 1000)"),
        ] {
            assert_eq!(in_namespace("rules", |namespace| namespace.ip(rule)), [wanted], "{rule}");
        }
        for program in ["iptables-nft", "ip6tables-nft"] {
            let rule = ["-w", "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"];
            let found = in_namespace("iptables", |namespace| drop(namespace.run(program, &rule)));
            assert_eq!(
                found,
                ["the chain `POSTROUTING` of the table `nat` (nftables) masquerades"],
                "{program}"
            );
        }
    }
}
