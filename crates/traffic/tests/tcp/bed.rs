//! Two namespaces joined by a veth pair, removed when dropped.

use measure::shape::Zone;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use traffic::Port;

static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) const CLIENTS: u32 = 0x0a01_0000;
pub(crate) const SERVERS: u32 = 0x0a02_0000;

/// The ends of one wire.
pub(crate) struct Bed {
    pub(crate) client: Port,
    pub(crate) server: Port,
    names: [String; 2],
}

pub(crate) fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(
        output.status.success(),
        "`{line}` failed; these tests need root, iproute2 and ethtool: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Bed {
    /// A bare wire.
    pub(crate) fn wire() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let names = ["c", "s"].map(|end| format!("tcp{}-{number}{end}", std::process::id()));
        for name in &names {
            run(&format!("ip netns add {name}"));
        }
        // The bed exists from here on, so that a failure below removes it.
        let bed = Self {
            client: port(&names[0], Zone::Private, 1),
            server: port(&names[1], Zone::Hostile, 2),
            names,
        };
        let [client, server] = &bed.names;
        run(&format!(
            "ip -n {client} link add wire address 02:00:00:00:00:01 numtxqueues 2 numrxqueues 2 type veth peer name wire \
             address 02:00:00:00:00:02 numtxqueues 2 numrxqueues 2 netns {server}"
        ));
        for name in &bed.names {
            run(&format!("ip -n {name} link set lo up"));
            run(&format!("ip -n {name} link set wire up"));
        }
        Self {
            client: Port { ifindex: index(client), ..bed.client.clone() },
            server: Port { ifindex: index(server), ..bed.server.clone() },
            names: bed.names.clone(),
        }
        .keep(bed)
    }

    /// Forgets the half-made bed without removing anything.
    fn keep(self, half: Self) -> Self {
        std::mem::forget(half);
        self
    }

    /// The kernel serves on the server's first address (host 256).
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn give_server_a_stack(&self) {
        self.give_stack(1, "10.2.1.0", "fd00:2::100", "10.1.1.0", "fd00:1::100", "02:00:00:00:00:01");
    }

    /// The kernel's own client at host 256 of the clients.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn give_client_a_stack(&self) {
        self.give_stack(0, "10.1.1.0", "fd00:1::100", "10.2.1.0", "fd00:2::100", "02:00:00:00:00:02");
    }

    /// Addresses and a static neighbour; and generic receive offload, without which a veth end that runs no XDP drops
    /// redirected frames.
    #[allow(dead_code, reason = "not every test binary needs it")]
    fn give_stack(&self, end: usize, own: &str, own6: &str, other: &str, other6: &str, mac: &str) {
        let name = &self.names[end];
        run(&format!("ip netns exec {name} ethtool -K wire gro on"));
        run(&format!("ip -n {name} addr add {own}/32 dev wire"));
        run(&format!("ip -n {name} -6 addr add {own6}/128 dev wire nodad"));
        run(&format!("ip -n {name} neigh add {other} lladdr {mac} dev wire"));
        run(&format!("ip -n {name} -6 neigh add {other6} lladdr {mac} dev wire"));
        run(&format!("ip -n {name} route add default via {other} dev wire onlink"));
        run(&format!("ip -n {name} -6 route add default via {other6} dev wire onlink"));
    }

    /// A command inside the server's namespace.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn at_server(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.names[1]))
    }

    /// A command inside the client's namespace.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn at_client(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.names[0]))
    }

    /// The namespaces' names.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn names(&self) -> &[String; 2] {
        &self.names
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn index(name: &str) -> u32 {
    run(&format!("ip netns exec {name} cat /sys/class/net/wire/ifindex")).trim().parse().unwrap()
}

fn port(name: &str, zone: Zone, end: u8) -> Port {
    let mut v6_prefix = [0; 16];
    v6_prefix[..4].copy_from_slice(&[0xfd, 0, 0, end]);
    Port {
        zone,
        namespace: Some(PathBuf::from("/run/netns").join(name)),
        ifindex: 0,
        mac: [2, 0, 0, 0, 0, end],
        next_hop_mac: [2, 0, 0, 0, 0, 3 - end],
        v4_prefix: if end == 1 { CLIENTS } else { SERVERS },
        v6_prefix,
    }
}
