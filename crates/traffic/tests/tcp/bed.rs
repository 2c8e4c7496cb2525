//! A bed for connections: a client's and a server's namespace, joined by a veth pair or by a third that routes.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test fails where its bed cannot be made; each binary uses its part"
)]

use measure::shape::Zone;
use std::time::Duration;
use testkit::namespace::Namespace;
use traffic::Port;

pub(crate) const CLIENTS: u32 = 0xc612_0000;
pub(crate) const SERVERS: u32 = 0xc613_0000;

/// How late the generator may be, and how long a run may stand still, on a machine that is busy with something else. A run
/// that is not late does not wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The ends of one wire.
pub(crate) struct Bed {
    pub(crate) client: Port,
    pub(crate) server: Port,
    /// Client, server, and the router if there is one.
    namespaces: Vec<Namespace>,
}

impl Bed {
    /// A bare wire.
    pub(crate) fn wire() -> Self {
        let namespaces = ["c", "s"].map(Namespace::create);
        let [client, server] = &namespaces;
        let peer = server.name();
        client.ip(&format!(
            "link add wire address 02:00:00:00:00:01 numtxqueues 2 numrxqueues 2 type veth peer name wire \
             address 02:00:00:00:00:02 numtxqueues 2 numrxqueues 2 netns {peer}"
        ));
        for namespace in &namespaces {
            namespace.ip("link set wire up");
        }
        Self {
            client: port(client, Zone::Private, 1),
            server: port(server, Zone::Hostile, 2),
            namespaces: namespaces.into(),
        }
    }

    /// With a Linux router between, which can be given nftables rules.
    pub(crate) fn routed() -> Self {
        let namespaces = ["c", "s", "f"].map(Namespace::create);
        let [client, server, router] = &namespaces;
        for (namespace, end, side) in [(client, 1, "left"), (server, 2, "right")] {
            let peer = router.name();
            namespace.ip(&format!(
                "link add wire address 02:00:00:00:00:0{end} numtxqueues 2 numrxqueues 2 type veth peer name {side} \
                 address 02:00:00:00:00:1{end} numtxqueues 2 numrxqueues 2 netns {peer}
                 link set wire up"
            ));
            router.ip(&format!("link set {side} up"));
            // On a link that is down this would be forgotten.
            router.take_redirected(side);
            let net = 17 + end;
            router.ip(&format!(
                "addr add 198.{net}.0.1/32 dev {side}
                 addr add fd00:{end}::1/128 dev {side} nodad
                 neigh add 198.{net}.0.2 lladdr 02:00:00:00:00:0{end} dev {side}
                 neigh add fd00:{end}::2 lladdr 02:00:00:00:00:0{end} dev {side}
                 route add 198.{net}.0.0/16 via 198.{net}.0.2 dev {side} onlink
                 route add fd00:{end}::/32 via fd00:{end}::2 dev {side} onlink"
            ));
        }
        // Attackers and forbidden addresses are behind the client's port.
        router.ip("route add 10.0.0.0/8 via 198.18.0.2 dev left onlink
             route add 203.0.113.0/24 via 198.18.0.2 dev left onlink
             route add 192.0.2.0/24 via 198.18.0.2 dev left onlink
             route add 2001:2:1::/104 via fd00:1::2 dev left onlink
             route add 2001:db8::/32 via fd00:1::2 dev left onlink");
        // A SYN proxy needs conntrack to take up no connection half-way.
        router.set(&[
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            ("netfilter/nf_conntrack_tcp_loose", "0"),
        ]);
        Self {
            client: Port { next_hop_mac: [2, 0, 0, 0, 0, 0x11], ..port(client, Zone::Private, 1) },
            server: Port { next_hop_mac: [2, 0, 0, 0, 0, 0x12], ..port(server, Zone::Hostile, 2) },
            namespaces: namespaces.into(),
        }
    }

    pub(crate) fn client(&self) -> &Namespace {
        &self.namespaces[0]
    }

    pub(crate) fn server(&self) -> &Namespace {
        &self.namespaces[1]
    }

    pub(crate) fn router(&self) -> &Namespace {
        &self.namespaces[2]
    }

    /// Replaces the router's rules: the lines of a table's body.
    pub(crate) fn set_rules(&self, table: &str) {
        self.set_rules_of("ip", table);
    }

    /// The same in a table of any family.
    pub(crate) fn set_rules_of(&self, family: &str, table: &str) {
        let table = table.replace("; ", "\n").replace("} ", "}\n");
        self.router().nft(&format!("flush ruleset\ntable {family} t {{\n{table}\n}}\n"));
    }

    /// The kernel serves on the server's first address (host 256).
    pub(crate) fn give_server_a_stack(&self) {
        give_stack(self.server(), ["198.19.1.0", "fd00:2::100"], ["198.18.1.0", "fd00:1::100"], 1);
    }

    /// The kernel's own client at host 256 of the clients.
    pub(crate) fn give_client_a_stack(&self) {
        give_stack(self.client(), ["198.18.1.0", "fd00:1::100"], ["198.19.1.0", "fd00:2::100"], 2);
    }
}

/// Addresses and a static neighbour, whose end of the wire is given.
fn give_stack(namespace: &Namespace, [own, own6]: [&str; 2], [other, other6]: [&str; 2], end: u8) {
    namespace.take_redirected("wire");
    namespace.ip(&format!(
        "addr add {own}/32 dev wire
         -6 addr add {own6}/128 dev wire nodad
         neigh add {other} lladdr 02:00:00:00:00:0{end} dev wire
         -6 neigh add {other6} lladdr 02:00:00:00:00:0{end} dev wire
         route add default via {other} dev wire onlink
         -6 route add default via {other6} dev wire onlink"
    ));
}

fn port(namespace: &Namespace, zone: Zone, end: u8) -> Port {
    let mut v6_prefix = [0; 16];
    v6_prefix[..4].copy_from_slice(&[0xfd, 0, 0, end]);
    Port {
        zone,
        namespace: Some(namespace.path()),
        ifindex: namespace.ifindex("wire"),
        mac: [2, 0, 0, 0, 0, end],
        next_hop_mac: [2, 0, 0, 0, 0, 3 - end],
        v4_prefix: if end == 1 { CLIENTS } else { SERVERS },
        v6_prefix,
    }
}
