//! Application traffic through a router that stops in the middle: transactions fail, each in its way, and the run ends. Needs root.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use measure::application::Protocol;
use measure::ledger::Places;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use testkit::namespace::Namespace;
use traffic::app::{FileSet, Load, Side, run};

/// Clients in 10.7.0.0/24 and servers in 10.8.0.0/24, joined by a router.
struct Bed {
    clients: Namespace,
    router: Namespace,
    servers: Namespace,
}

impl Bed {
    fn build() -> Self {
        let [clients, router, servers] = ["clients", "router", "servers"].map(Namespace::create);
        for (end, net) in [(&clients, 7), (&servers, 8)] {
            let name = end.name();
            router.ip(&format!(
                "link add r{net} type veth peer name e{net} netns {name}
                 address add 10.{net}.0.1/24 dev r{net}
                 link set r{net} up"
            ));
            end.ip(&format!(
                "address add 10.{net}.0.2/24 dev e{net}
                 link set e{net} up
                 route add default via 10.{net}.0.1"
            ));
        }
        router.set(&[("ipv4/ip_forward", "1")]);
        Self { clients, router, servers }
    }

    fn side(namespace: &Namespace, net: u8) -> Side {
        let address = IpAddr::V4(Ipv4Addr::new(10, net, 0, 2));
        Side { namespace: Some(namespace.path()), addresses: vec![address] }
    }
}

#[test]
fn transactions_fail_as_the_router_stops_and_the_run_ends() {
    let load = Load {
        clients: 12,
        protocol: Protocol::Http11,
        seconds: 1.0,
        transaction_limit: Duration::from_millis(500),
        port: 80,
        cores: vec![0],
        seed: 1,
    };
    type Stop = fn(&Namespace);
    let rows: [(Stop, &[&str]); 2] = [
        (|router| router.set(&[("ipv4/ip_forward", "0")]), &["connect-timeout", "timeout", "unreachable"]),
        (
            |router| {
                router.nft(
                    "table ip stop {
                       chain all {
                         type filter hook forward priority 0
                         meta l4proto tcp reject with tcp reset
                       }
                     }",
                );
            },
            &["refused", "reset", "timeout"],
        ),
    ];
    for (stop, expected) in rows {
        let bed = Bed::build();
        let stopped = Cell::new(false);
        // The run asks whether to go on; nothing opens the way again, so whatever is under way and comes later fails.
        let asked = || {
            if !stopped.replace(true) {
                stop(&bed.router);
            }
            false
        };
        let files = Arc::new(FileSet::nstl_http(7));
        let (clients, servers) = (Bed::side(&bed.clients, 7), Bed::side(&bed.servers, 8));
        let outcome = run(&clients, &servers, &load, &files, &asked).unwrap();
        let Places::Application(places) = &outcome.ledger.places else { panic!("transactions") };
        let what = format!("{expected:?}: {:?} {:?}", outcome.ledger, outcome.fault);
        assert_eq!((outcome.ledger.residual(), &outcome.fault), (0, &None), "{what}");
        assert!(places.failed.values().sum::<u64>() >= u64::from(load.clients), "{what}");
        assert!(places.failed.keys().all(|how| expected.contains(&how.as_str())), "{what}");
        assert_eq!(outcome.application.disagreements(&outcome.ledger), [""; 0], "{what}");
    }
}
