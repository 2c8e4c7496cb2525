use super::*;
use crate::dut::driver;
use crate::policy::PolicySpec;
use measure::application::{FtpMode, FtpTransfer, FtpVerb};
use measure::mix::{Mix, Part, PartFiles, SharesOf};
use measure::shape::{TestProtocol, ZoneForm};
use std::sync::Arc;

const FTP: Protocol = Protocol::Ftp(FtpTransfer { mode: FtpMode::Passive, verb: FtpVerb::Get });

/// A mix of these, in the order of their numbers.
fn stated(protocols: &[Protocol]) -> ProtocolMix {
    let part = |(number, protocol): (usize, &Protocol)| Part {
        name: format!("p{number}"),
        protocol: *protocol,
        files: PartFiles::Nstl,
        transactions: 1,
        share: 0.5,
    };
    let parts = protocols.iter().enumerate().map(part).collect();
    let (name, title, shares) = ("m".to_owned(), "M".to_owned(), SharesOf::Transactions);
    ProtocolMix::Stated(Arc::new(Mix { name, title, source: None, shares, parts }))
}

#[test]
fn what_a_proxy_does_not_carry_is_said() {
    let only = ProtocolMix::Only;
    let rows = [
        (&HAPROXY, only(Protocol::Http10), None),
        (&HAPROXY, only(Protocol::Http11), None),
        (&HAPROXY, only(Protocol::Https), None),
        (&HAPROXY, only(Protocol::Http2), None),
        (&HAPROXY, only(FTP), Some("FTP: HAProxy speaks none")),
        (&HAPROXY, ProtocolMix::Nstl, Some("FTP: HAProxy speaks none")),
        (&SQUID, only(Protocol::Http10), None),
        (&SQUID, only(Protocol::Https), Some("by CONNECT")),
        (&SQUID, only(Protocol::Http2), Some("by CONNECT")),
        (&SQUID, only(FTP), Some("FTP of clients that do not know of it")),
        (&SQUID, ProtocolMix::Nstl, Some("FTP of clients that do not know of it")),
        (&HAPROXY, stated(&[Protocol::Https, Protocol::Http11]), None),
        (
            &HAPROXY,
            stated(&[Protocol::Https, FTP]),
            Some("part p1 (ftp:get) of the mix m: FTP: HAProxy speaks none"),
        ),
        (&SQUID, stated(&[Protocol::Http2, FTP]), Some("part p0 (http/2) of the mix m: ")),
    ];
    for (proxy, mix, said) in rows {
        let why = proxy.refuses(&mix);
        assert_eq!(why.is_some(), said.is_some(), "{} {mix:?}: {why:?}", proxy.name);
        assert!(
            why.as_deref().unwrap_or_default().contains(said.unwrap_or_default()),
            "{} {mix:?}: {why:?}",
            proxy.name
        );
    }
}

#[test]
fn connections_are_one_for_one_where_a_proxy_does_not_look_into_them() {
    let rows = [
        ("haproxy", Protocol::Http11, Some(Relay::Requests)),
        ("haproxy", Protocol::Https, Some(Relay::Connections)),
        ("haproxy", Protocol::Http2, Some(Relay::Connections)),
        ("haproxy", FTP, None),
        ("squid", Protocol::Http10, Some(Relay::Requests)),
        ("squid", Protocol::Https, None),
        ("rampart-gateway", Protocol::Http10, Some(Relay::Requests)),
        ("rampart-gateway", FTP, Some(Relay::Connections)),
        ("rampart-gateway", Protocol::Https, None),
        ("nftables", Protocol::Http11, None),
    ];
    for (name, protocol, relay) in rows {
        assert_eq!(driver(name).unwrap().relays(protocol), relay, "{name} {protocol:?}");
    }
}

fn table_of(rules: u32) -> String {
    let shape = PolicyShape {
        rules,
        match_position: rules,
        stateful: true,
        protocol: TestProtocol::Tcp,
        ..PolicyShape::forward_everything(1)
    };
    let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
    let mut out = Vec::new();
    intercept::table(&policy, HAPROXY.takes, &["a".to_owned(), "b".to_owned()], &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_is_handed_over_meets_the_rules_and_nothing_passes_the_proxy_by() {
    let text = table_of(1);
    let order = [
        "ip saddr 198.18.0.0/16 ip daddr 198.19.0.0/17 tcp dport 1-49151 accept",
        "iifname { a, b } fib daddr type != local tcp dport 80 tproxy to :3129",
        "tcp dport 443 tproxy to :3130",
        "hook input",
        "meta mark 0x1 meta nfproto vmap",
        "counter name default_drop drop",
        "hook forward",
        "tcp dport { 80, 443 } counter name past_the_proxy_drop drop",
        "ct state established,related accept\n    ct state invalid counter name invalid_drop drop\n    meta nfproto vmap",
    ];
    let mut rest = text.as_str();
    for part in order {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part} is not in its place:\n{text}")).1;
    }
    let open = table_of(0);
    assert!(open.contains("meta mark 0x1 accept") && !open.contains("jump"), "{open}");
}
