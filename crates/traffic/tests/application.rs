//! Application traffic through a router that stops in the middle: transactions fail, each in its way, and the run ends. Needs root.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use measure::application::{Arrivals, Protocol, ProtocolMix};
use measure::ledger::Places;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::namespace::Namespace;
use traffic::app::{FileSet, Load, Side, run};

const SERVER: &str = "10.8.0.2";
const SERVER_V6: &str = "fd00:8::2";

/// Clients in nets 7 and servers in nets 8, joined by a router.
struct Bed {
    clients: Namespace,
    servers: Namespace,
    /// Kept until the end.
    _router: Namespace,
}

impl Bed {
    /// The router does what `rule` says with TCP.
    fn build(rule: &str) -> Self {
        let [clients, router, servers] = ["clients", "router", "servers"].map(Namespace::create);
        for (end, net) in [(&clients, 7), (&servers, 8)] {
            let name = end.name();
            router.ip(&format!(
                "link add r{net} type veth peer name e{net} netns {name}
                 address add 10.{net}.0.1/24 dev r{net}
                 address add fd00:{net}::1/64 dev r{net} nodad
                 link set r{net} up"
            ));
            end.ip(&format!(
                "address add 10.{net}.0.2/24 dev e{net}
                 address add fd00:{net}::2/64 dev e{net} nodad
                 link set e{net} up
                 route add default via 10.{net}.0.1
                 route add default via fd00:{net}::1"
            ));
        }
        router.set(&[
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            ("ipv4/icmp_ratelimit", "0"),
            ("ipv6/icmp/ratelimit", "0"),
        ]);
        router.nft(&format!(
            "table inet stop {{
               chain forwarded {{
                 type filter hook forward priority 0
                 meta l4proto tcp {rule}
               }}
             }}"
        ));
        // A question for a neighbour that is lost while the links come up is asked again after a second.
        for server in [SERVER, SERVER_V6] {
            clients.run("ping", &["-n", "-c", "1", "-W", "30", server]);
        }
        Self { clients, servers, _router: router }
    }
}

fn side(namespace: &Namespace, address: &str) -> Side {
    let address: IpAddr = address.parse().unwrap();
    Side { namespace: Some(namespace.path()), addresses: vec![address] }
}

/// What a router does, whether the ends use IPv6, the limit of a transaction, and how transactions may fail.
type Row = (&'static str, bool, Duration, &'static [&'static str]);

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);

/// The quota ends in the first transactions of the clients: their files have more bytes. The kernel takes an ICMP error that it gets
/// while it still sends the SYN for a passing one, so that only the SYN after a second is refused. On a busy machine a connection may take
/// longer to open than its limit.
const ROWS: [Row; 4] = [
    ("quota over 20 kbytes drop", false, SHORT, &["connect-timeout", "timeout"]),
    (
        "quota over 20 kbytes reject with tcp reset",
        false,
        SHORT,
        &["connect-timeout", "refused", "reset", "timeout"],
    ),
    ("reject with icmpx admin-prohibited", false, LONG, &["unreachable"]),
    ("reject with icmpx admin-prohibited", true, LONG, &["unreachable"]),
];

#[test]
fn transactions_fail_as_the_router_stops_and_the_run_ends() {
    for (rule, is_v6, transaction_limit, possible) in ROWS {
        let load = Load {
            clients: 12,
            protocol: ProtocolMix::Only(Protocol::Http11),
            seconds: 0.2,
            transactions: 1,
            transaction_limit,
            http_port: 80,
            https_port: 443,
            arrivals: Arrivals::ClosedLoop,
            ftp_port: 21,
            cores: vec![0],
            seed: 1,
        };
        let bed = Bed::build(rule);
        let [client, server] = if is_v6 { ["fd00:7::2", SERVER_V6] } else { ["10.7.0.2", SERVER] };
        let files = Arc::new(FileSet::nstl(7));
        let (clients, servers) = (side(&bed.clients, client), side(&bed.servers, server));
        let outcome = run(&clients, &servers, &load, &files, &|| false).unwrap();
        let Places::Application(places) = &outcome.ledger.places else { panic!("transactions") };
        let what = format!("{rule}: {:?} {:?}", outcome.ledger, outcome.fault);
        assert_eq!((outcome.ledger.residual(), &outcome.fault), (0, &None), "{what}");
        assert!(places.failed.values().sum::<u64>() > 0, "{what}");
        assert!(places.failed.keys().all(|how| possible.contains(&how.as_str())), "{what}");
        assert_eq!(outcome.application.disagreements(&outcome.ledger), [""; 0], "{what}");
    }
}
