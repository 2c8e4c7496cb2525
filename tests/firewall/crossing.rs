//! Two hosts and a firewall between them, each in a namespace of its own; nothing is set by hand but addresses, so that
//! neighbours are found as on any network.
//!
//! ```text
//!   client ═════════════════ firewall ═════════════════ server
//!   198.18.0.2/24          .1        .1           198.19.0.2/24
//!   2001:2:0:1::2/64      ::1        ::1       2001:2:0:2::2/64
//! ```

use dataplane::routes::{AnswerLimits, Follower, Routes};
use dataplane::{Attached, Filter, Firewall, Flow, Hook, Reason, Settings, State, Tally};
use policy::{Policy, Tables};
use testkit::namespace::Namespace;

pub(crate) const CLIENT: [&str; 2] = ["198.18.0.2", "2001:2:0:1::2"];
pub(crate) const SERVER: [&str; 2] = ["198.19.0.2", "2001:2:0:2::2"];
/// The firewall's addresses on the client's side.
pub(crate) const GATEWAY: [&str; 2] = ["198.18.0.1", "2001:2:0:1::1"];

pub(crate) struct Crossing {
    /// Taken out in its namespace, where it must leave its interfaces.
    running: Option<Running>,
    pub(crate) client: Namespace,
    pub(crate) firewall: Namespace,
    pub(crate) server: Namespace,
}

/// The client may go where it likes; nothing comes to it that it did not ask for.
const OPEN: &str = r#"
[zones]
client = { interfaces = "toclient" }
server = { interfaces = "toserver" }

[[rules]]
name = "everything"
from = "client"
to = "server"
action = "allow"
"#;

struct Running {
    firewall: Firewall,
    attached: [Attached; 2],
    follower: Follower,
}

impl Crossing {
    pub(crate) fn build(hook: Hook) -> Self {
        let [client, firewall, server] = joined("toclient", hook);
        Self::start([client, firewall, server], "toclient", hook, &[hook])
    }

    /// The client's side is a bridge, which is a device without XDP.
    pub(crate) fn build_with_bridge() -> Self {
        let [client, firewall, server] = joined("port", Hook::Xdp);
        firewall.ip("address flush dev port
             link add bridge type bridge
             link set port master bridge
             address add 198.18.0.1/24 dev bridge
             address add 2001:2:0:1::1/64 dev bridge nodad
             link set bridge up");
        Self::start([client, firewall, server], "bridge", Hook::Xdp, &[Hook::Xdp, Hook::Tc])
    }

    /// nftables in Rampart's place, with the same policy.
    pub(crate) fn build_with_nftables() -> Self {
        let [client, firewall, server] = joined("toclient", Hook::Tc);
        firewall.set(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
        firewall.nft(
            "table inet rules { chain forward {
                type filter hook forward priority 0; policy drop;
                ct state invalid drop
                ct state established,related accept
                iifname toclient oifname toserver accept
            }; }",
        );
        Self { running: None, client, firewall, server }
    }

    /// The kernel forwards, and asks.
    pub(crate) fn build_with_kernel() -> Self {
        let [client, firewall, server] = joined("toclient", Hook::Tc);
        firewall.set(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
        let mut crossing =
            Self::start([client, firewall, server], "toclient", Hook::Netfilter, &[Hook::Netfilter]);
        let running = &mut crossing.running.as_mut().unwrap().firewall;
        crossing.firewall.within(|| running.ports.open_netfilter().unwrap());
        crossing
    }

    fn start(namespaces: [Namespace; 3], device: &str, hook: Hook, loaded: &[Hook]) -> Self {
        let [client, firewall, server] = namespaces;
        let interfaces = [device, "toserver"].map(|device| firewall.ifindex(device));
        let running = firewall.within(|| {
            let mut running = Firewall::load_for(&Settings { flows: 65_536, rules: 1_024 }, loaded).unwrap();
            let maps = running.route_maps().unwrap();
            let routes = Routes::start(maps, &interfaces, AnswerLimits::default()).unwrap();
            let follower = routes.follow_in_background().unwrap();
            apply(&mut running, OPEN);
            let attached = [(device, "client"), ("toserver", "server")]
                .map(|(device, zone)| running.ports.attach(device, zone, hook).unwrap());
            Running { firewall: running, attached, follower }
        });
        Self { running: Some(running), client, firewall, server }
    }

    fn running(&mut self) -> &mut Firewall {
        &mut self.running.as_mut().unwrap().firewall
    }

    /// From now on everything is refused, and said so.
    pub(crate) fn refuse(&mut self) {
        apply(self.running(), &OPEN.replace("allow", "reject"));
    }

    /// From now on the client goes out by the firewall's address.
    pub(crate) fn masquerade(&mut self) {
        let entry = "[[nat]]\nname = \"client\"\nfrom = \"client\"\nto = \"server\"\nmasquerade = true\n";
        apply(self.running(), &format!("{OPEN}\n{entry}"));
    }

    /// From now on its policy has these settings as well.
    pub(crate) fn set(&mut self, settings: &str) {
        apply(self.running(), &format!("{settings}{OPEN}"));
    }

    /// How its interfaces are held: the client's, then the server's.
    pub(crate) fn attached(&self) -> &[Attached; 2] {
        &self.running.as_ref().unwrap().attached
    }

    /// The Ethernet address of a device of the firewall's.
    pub(crate) fn link_address(&self, device: &str) -> String {
        let text = self.firewall.run("ip", &["-o", "link", "show", "dev", device]);
        let mut words = text.split_whitespace().skip_while(|word| *word != "link/ether");
        words.nth(1).unwrap().to_owned()
    }

    /// States of the flows of a port.
    pub(crate) fn states(&mut self, port: u16) -> Vec<State> {
        let filter = Filter { port: Some(port), ..Filter::default() };
        self.flows(&filter).into_iter().map(|flow| flow.state).collect()
    }

    fn flows(&mut self, filter: &Filter) -> Vec<Flow> {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        self.running().flows.matching(filter, now.into()).unwrap()
    }

    /// Ends all flows that Rampart has.
    pub(crate) fn forget_flows(&mut self) {
        if self.running.is_none() {
            return;
        }
        for flow in self.flows(&Filter::default()) {
            self.running().flows.end(flow.id).unwrap();
        }
    }

    /// What else was counted.
    pub(crate) fn tally(&mut self, what: Tally) -> u64 {
        self.running().counters.tallies().unwrap()[&what]
    }

    /// Packets dropped for a reason.
    pub(crate) fn dropped(&mut self, reason: Reason) -> u64 {
        self.running().counters.drops().unwrap()[&reason]
    }
}

impl Drop for Crossing {
    fn drop(&mut self) {
        let running = self.running.take();
        let trouble = running.as_ref().and_then(|running| running.follower.trouble());
        self.firewall.within(|| drop(running));
        assert!(std::thread::panicking() || trouble.is_none(), "{trouble:?}");
    }
}

fn apply(firewall: &mut Firewall, policy: &str) {
    let policy = Policy::parse("test", policy).unwrap_or_else(|e| panic!("{e}"));
    let at = "2026-11-21T12:00:00Z".parse().unwrap();
    firewall.policies.apply(&Tables::build(&policy, at).unwrap(), &policy).unwrap();
}

/// A host's only interface.
pub(crate) const HOST_DEVICE: &str = "eth0";

/// The client, the firewall and the server. The firewall's device on the client's side has the name that is given.
fn joined(device: &str, hook: Hook) -> [Namespace; 3] {
    let all = ["client", "firewall", "server"].map(Namespace::create);
    let [client, firewall, server] = &all;
    join(firewall, client, device, "198.18.0", "2001:2:0:1", hook);
    join(firewall, server, "toserver", "198.19.0", "2001:2:0:2", hook);
    all
}

fn join(firewall: &Namespace, host: &Namespace, device: &str, v4: &str, v6: &str, hook: Hook) {
    let peer = host.name();
    firewall.ip(&format!("link add {device} type veth peer name {HOST_DEVICE} netns {peer}"));
    // A veth end takes frames from XDP only if its peer ran NAPI when it came up.
    host.take_redirected(HOST_DEVICE);
    if hook == Hook::Xdp {
        // XDP takes packets as they are on the wire; a veth pair would hand them over with unfinished checksums.
        host.run("ethtool", &["-K", HOST_DEVICE, "tx", "off"]);
    }
    firewall.ip(&format!(
        "address add {v4}.1/24 dev {device}
         address add {v6}::1/64 dev {device} nodad
         link set {device} up"
    ));
    host.ip(&format!(
        "address add {v4}.2/24 dev {HOST_DEVICE}
         address add {v6}::2/64 dev {HOST_DEVICE} nodad
         link set {HOST_DEVICE} up
         route add default via {v4}.1
         -6 route add default via {v6}::1"
    ));
    // On a busy machine a link may carry nothing yet for longer than the three seconds for which a neighbour is asked for.
    for (namespace, device) in [(firewall, device), (host, HOST_DEVICE)] {
        for version in ["ipv4", "ipv6"] {
            namespace.set(&[(&format!("{version}/neigh/{device}/mcast_solicit"), "60")]);
        }
    }
}
