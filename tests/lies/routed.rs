//! A network in which a router between clients and servers lies: of tests whose clients have real sockets.

use testkit::namespace::Namespace;

/// Clients, a router, and servers.
pub(crate) struct Bed {
    pub(crate) clients: Namespace,
    pub(crate) router: Namespace,
    pub(crate) servers: Namespace,
}

impl Bed {
    /// `rules` is what the router does with packets of clients, besides forwarding.
    pub(crate) fn build(rules: &str) -> Self {
        let [clients, router, servers] = ["clients", "router", "servers"].map(Namespace::create);
        for (end, net) in [(&clients, 7), (&servers, 8)] {
            let hosts: String =
                (2..10).map(|host| format!("address add 10.{net}.0.{host}/24 dev e{net}\n")).collect();
            router.ip(&format!(
                "link add b{net} type veth peer name e{net} netns {}
                 address add 10.{net}.0.1/24 dev b{net}
                 link set b{net} up",
                end.name()
            ));
            end.ip(&format!("{hosts}link set e{net} up\nroute add default via 10.{net}.0.1"));
        }
        router.set(&[("ipv4/ip_forward", "1")]);
        router.nft(&format!("table ip lie {{\n{rules}\n}}"));
        // A question for a neighbour that is lost while the links come up is asked again after a second.
        clients.run("ping", &["-n", "-c", "1", "-W", "30", "10.8.0.2"]);
        Self { clients, router, servers }
    }
}
