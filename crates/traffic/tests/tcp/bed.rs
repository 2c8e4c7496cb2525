//! Two namespaces joined by a veth pair, or by a third that forwards; removed when dropped.

#![allow(clippy::unwrap_used, reason = "a test fails where its bed cannot be made")]

use measure::shape::Zone;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use traffic::Port;

static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) const CLIENTS: u32 = 0xc612_0000;
pub(crate) const SERVERS: u32 = 0xc613_0000;

/// How late the generator may be, and how long a run may stand still, on a machine that is busy with something else. A run
/// that is not late does not wait.
#[allow(dead_code, reason = "not every test binary needs it")]
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The ends of one wire.
pub(crate) struct Bed {
    pub(crate) client: Port,
    pub(crate) server: Port,
    names: Vec<String>,
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
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn wire() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let names: Vec<_> =
            ["c", "s"].iter().map(|end| format!("tcp{}-{number}{end}", std::process::id())).collect();
        for name in &names {
            run(&format!("ip netns add {name}"));
        }
        // The bed exists from here on, so that a failure below removes it.
        let bed = Self {
            client: port(&names[0], Zone::Private, 1),
            server: port(&names[1], Zone::Hostile, 2),
            names,
        };
        let (client, server) = (&bed.names[0], &bed.names[1]);
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

    /// With a Linux router between, which can be given nftables rules.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn routed() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let names: Vec<_> =
            ["c", "s", "f"].iter().map(|end| format!("tcp{}-{number}{end}", std::process::id())).collect();
        for name in &names {
            run(&format!("ip netns add {name}"));
        }
        let bed = Self {
            client: Port { next_hop_mac: [2, 0, 0, 0, 0, 0x11], ..port(&names[0], Zone::Private, 1) },
            server: Port { next_hop_mac: [2, 0, 0, 0, 0, 0x12], ..port(&names[1], Zone::Hostile, 2) },
            names,
        };
        let firewall = &bed.names[2];
        for (end, side) in [(1, "left"), (2, "right")] {
            let name = &bed.names[end - 1];
            run(&format!(
                "ip -n {name} link add wire address 02:00:00:00:00:0{end} numtxqueues 2 numrxqueues 2 type veth peer \
                 name {side} address 02:00:00:00:00:1{end} numtxqueues 2 numrxqueues 2 netns {firewall}"
            ));
            run(&format!("ip -n {name} link set wire up"));
            run(&format!("ip -n {firewall} link set {side} up"));
            // On a link that is down this would be forgotten.
            run(&format!("ip netns exec {firewall} ethtool -K {side} gro on"));
            let net = 17 + end;
            run(&format!("ip -n {firewall} addr add 198.{net}.0.1/32 dev {side}"));
            run(&format!("ip -n {firewall} addr add fd00:{end}::1/128 dev {side} nodad"));
            for neighbour in [format!("198.{net}.0.2"), format!("fd00:{end}::2")] {
                run(&format!(
                    "ip -n {firewall} neigh add {neighbour} lladdr 02:00:00:00:00:0{end} dev {side}"
                ));
            }
            run(&format!("ip -n {firewall} route add 198.{net}.0.0/16 via 198.{net}.0.2 dev {side} onlink"));
            run(&format!("ip -n {firewall} route add fd00:{end}::/32 via fd00:{end}::2 dev {side} onlink"));
        }
        // Attackers and forbidden addresses are behind the client's port.
        for outside in ["10.0.0.0/8", "203.0.113.0/24", "192.0.2.0/24"] {
            run(&format!("ip -n {firewall} route add {outside} via 198.18.0.2 dev left onlink"));
        }
        for outside in ["2001:2:1::/104", "2001:db8::/32"] {
            run(&format!("ip -n {firewall} route add {outside} via fd00:1::2 dev left onlink"));
        }
        run(&format!(
            "ip netns exec {firewall} sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
        ));
        // A SYN proxy needs conntrack to take up no connection half-way.
        run(&format!("ip netns exec {firewall} sysctl -qw net.netfilter.nf_conntrack_tcp_loose=0"));
        Self {
            client: Port { ifindex: index(&bed.names[0]), ..bed.client.clone() },
            server: Port { ifindex: index(&bed.names[1]), ..bed.server.clone() },
            names: bed.names.clone(),
        }
        .keep(bed)
    }

    /// Replaces the router's rules: the lines of a table's body.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn set_rules(&self, table: &str) {
        self.set_rules_of("ip", table);
    }

    /// The same in a table of any family.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn set_rules_of(&self, family: &str, table: &str) {
        let text = format!(
            "flush ruleset\ntable {family} t {{\n{}\n}}\n",
            table.replace("; ", "\n").replace("} ", "}\n")
        );
        let mut nft = Command::new("ip")
            .args(["netns", "exec", &self.names[2], "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        nft.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "nft refused\n{text}");
    }

    /// Forgets the half-made bed without removing anything.
    fn keep(self, half: Self) -> Self {
        std::mem::forget(half);
        self
    }

    /// The kernel serves on the server's first address (host 256).
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn give_server_a_stack(&self) {
        self.give_stack(1, "198.19.1.0", "fd00:2::100", "198.18.1.0", "fd00:1::100", "02:00:00:00:00:01");
    }

    /// The kernel's own client at host 256 of the clients.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn give_client_a_stack(&self) {
        self.give_stack(0, "198.18.1.0", "fd00:1::100", "198.19.1.0", "fd00:2::100", "02:00:00:00:00:02");
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

    /// A command inside the router's namespace.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn at_router(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.names[2]))
    }

    /// A command inside the client's namespace.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn at_client(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.names[0]))
    }

    /// The namespaces' names.
    #[allow(dead_code, reason = "not every test binary needs it")]
    pub(crate) fn names(&self) -> &[String] {
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
