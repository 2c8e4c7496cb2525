//! Two hosts and a firewall between them, each in a namespace of its own; nothing is set by hand but addresses, so that
//! neighbours are found as on any network.
//!
//! ```text
//!   client ═════════════════ firewall ═════════════════ server
//!   198.18.0.2/24          .1        .1           198.19.0.2/24
//!   2001:2:0:1::2/64      ::1        ::1       2001:2:0:2::2/64
//! ```

use crate::namespace::Namespace;
use crate::plain::Plain;
use crate::rows_program::Hook;
use std::process::{Child, Command, Stdio};

pub(crate) const SERVER: [&str; 2] = ["198.19.0.2", "2001:2:0:2::2"];
/// The firewall's addresses on the client's side.
pub(crate) const GATEWAY: [&str; 2] = ["198.18.0.1", "2001:2:0:1::1"];

pub(crate) struct Crossing {
    // Before the namespaces: its programs are attached in one of them.
    pub(crate) running: Plain,
    pub(crate) client: Namespace,
    pub(crate) firewall: Namespace,
    pub(crate) server: Namespace,
}

impl Crossing {
    pub(crate) fn build(hook: Hook) -> Self {
        let [client, firewall, server] = ["client", "firewall", "server"].map(Namespace::create);
        join(&firewall, &client, "toclient", "198.18.0", "2001:2:0:1", hook);
        join(&firewall, &server, "toserver", "198.19.0", "2001:2:0:2", hook);
        let running = Plain::start(&firewall, &[("toclient", hook), ("toserver", hook)]);
        Self { running, client, firewall, server }
    }

    /// The client's side is a bridge, which is a device without XDP: TC there, XDP on the server's side.
    pub(crate) fn build_mixed() -> Self {
        let [client, firewall, server] = ["client", "firewall", "server"].map(Namespace::create);
        join(&firewall, &client, "port", "198.18.0", "2001:2:0:1", Hook::Xdp);
        join(&firewall, &server, "toserver", "198.19.0", "2001:2:0:2", Hook::Xdp);
        firewall.ip("address flush dev port
             link add bridge type bridge
             link set port master bridge
             address add 198.18.0.1/24 dev bridge
             address add 2001:2:0:1::1/64 dev bridge nodad
             link set bridge up");
        let running = Plain::start(&firewall, &[("bridge", Hook::Tc), ("toserver", Hook::Xdp)]);
        Self { running, client, firewall, server }
    }
}

/// A host's only interface.
pub(crate) const HOST_DEVICE: &str = "eth0";

fn join(firewall: &Namespace, host: &Namespace, device: &str, v4: &str, v6: &str, hook: Hook) {
    let peer = host.path();
    firewall.ip(&format!("link add {device} type veth peer name {HOST_DEVICE} netns {peer}"));
    // A veth end takes frames from XDP only if its peer ran NAPI when it came up.
    host.run("ethtool", &["-K", HOST_DEVICE, "gro", "on"]);
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
}

/// A program in the background, killed when this is dropped.
pub(crate) struct Background(Child);

impl Background {
    pub(crate) fn start(namespace: &Namespace, program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = namespace.enter(|| command.spawn());
        Self(child.unwrap_or_else(|e| panic!("{program}: {e}; `make prepare` installs what the tests need")))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
