//! Proxies as firewalls under test: the policy is proved as for others, what clients open arrives at the server that they asked for, what
//! is forbidden does not, and nothing passes a proxy that is gone.

#![allow(clippy::unwrap_used, reason = "tests stop at the first thing that is wrong")]

mod common;

use common::{must_be_root, plain, spec, with_firewall};
use measure::application::{SERVER_NAMES, SERVERS};
use measure::shape::{IpVersion, PolicyShape, TestProtocol, Zone, ZoneForm};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testbed::applications::add_hosts;
use testbed::bed::Bed;
use testbed::dut::{self, Running};
use testbed::layout::{BedLayout, ZoneAddresses};
use testbed::netns::Namespace;
use testbed::policy::PolicySpec;

const PROXIES: [&str; 2] = ["haproxy", "squid"];
const PATIENCE: Duration = Duration::from_secs(20);
/// For what must not be answered; its drop is counted besides.
const SHORT: Duration = Duration::from_millis(200);

fn rules(rules: u32) -> PolicyShape {
    let protocol = TestProtocol::Tcp;
    PolicyShape { rules, match_position: rules, stateful: true, protocol, ..plain() }
}

#[test]
fn what_is_not_for_the_proxy_meets_the_policy_too() {
    for name in PROXIES {
        for (shape, zones) in [
            (rules(0), ZoneForm::Two),
            (rules(1), ZoneForm::Two),
            (rules(1000), ZoneForm::Three),
            (PolicyShape { protocol: TestProtocol::Udp, ..rules(10) }, ZoneForm::Two),
        ] {
            let shape = dut::driver(name).unwrap().capabilities().as_enforced(&shape);
            with_firewall(name, zones, &shape, |_, running, policy, prober| {
                assert_eq!(prober.failures(&policy.probes()), Vec::<String>::new(), "{name} {shape:?}");
                running.check_alive().unwrap();
            });
        }
    }
}

/// A server of each address, which answers with its address.
struct Servers {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Servers {
    fn start(namespace: &Namespace, addresses: &[IpAddr]) -> Self {
        let ends = Arc::<AtomicBool>::default();
        let listen = |address: &IpAddr| {
            let listener = namespace.enter(|| TcpListener::bind((*address, 80)).unwrap()).unwrap();
            listener.set_nonblocking(true).unwrap();
            let (ends, name) = (ends.clone(), address.to_string());
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((stream, _)) => answer(stream, &name),
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            })
        };
        Self { threads: addresses.iter().map(listen).collect(), ends }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn answer(mut stream: TcpStream, name: &str) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.extend(byte);
    }
    let text =
        format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}", name.len());
    // The proxy may be gone by then, which is part of a test.
    let _ = stream.write_all(text.as_bytes());
}

/// Connects from a zone.
fn connect(layout: &BedLayout, from: Zone, to: SocketAddr, limit: Duration) -> std::io::Result<TcpStream> {
    let namespace = &layout.port(from).unwrap().end.namespace;
    namespace.enter(|| TcpStream::connect_timeout(&to, limit)).unwrap()
}

/// The last line of an answer from a server, asked for by name.
fn fetch(layout: &BedLayout, to: IpAddr, host: &str) -> String {
    let mut stream = connect(layout, Zone::Private, SocketAddr::new(to, 80), PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().last().unwrap_or_default().to_owned()
}

fn drops(running: &dyn Running, counter: &str) -> u64 {
    running.counters().unwrap()[counter]
}

#[test]
fn each_server_is_reached_at_its_address_and_what_is_forbidden_is_not() {
    for name in PROXIES {
        with_firewall(name, ZoneForm::Two, &rules(4), |bed, running, _, _| {
            let layout = bed.layout();
            let [private, hostile] = [Zone::Private, Zone::Hostile].map(|zone| layout.port(zone).unwrap());
            for ip in [IpVersion::V4, IpVersion::V6] {
                let addresses = add_hosts(hostile, ip, SERVERS).unwrap();
                let inside = add_hosts(private, ip, 1).unwrap();
                let servers = Servers::start(&hostile.end.namespace, &addresses);
                let _forbidden = Servers::start(&private.end.namespace, &inside);
                for (address, host) in addresses.iter().zip(SERVER_NAMES) {
                    assert_eq!(fetch(layout, *address, host), address.to_string(), "{name}");
                }
                let own = ZoneAddresses::of(Zone::Hostile);
                let gateway: IpAddr = match ip {
                    IpVersion::V4 => own.gateway_v4().into(),
                    IpVersion::V6 => own.gateway_v6().into(),
                };
                // The forbidden direction; the proxy's own ports, and this machine as a server, which would ask itself for ever.
                for (from, to, port) in [
                    (Zone::Hostile, inside[0], 80),
                    (Zone::Private, gateway, 3129),
                    (Zone::Private, gateway, 80),
                    (Zone::Private, addresses[0], 60_000),
                ] {
                    let before = drops(running.as_ref(), "default_drop");
                    let what = format!("{name} {from:?} to {to} port {port}");
                    assert!(connect(layout, from, SocketAddr::new(to, port), SHORT).is_err(), "{what}");
                    assert!(drops(running.as_ref(), "default_drop") > before, "{what}");
                }
                drop(servers);
            }
            assert_eq!(drops(running.as_ref(), "past_the_proxy_drop"), 0, "{name}");
            running.reset().unwrap();
            running.check_alive().unwrap();
            let address = ZoneAddresses::of(Zone::Hostile).host(IpVersion::V4, 0);
            let _servers = Servers::start(&hostile.end.namespace, &[address]);
            assert_eq!(fetch(layout, address, SERVER_NAMES[0]), address.to_string(), "{name} after a reset");
        });
    }
}

/// Kills the program of that name in the firewall's namespace.
fn kill(bed: &Bed, name: &str) {
    let firewall = bed.firewall().unwrap();
    let here = std::fs::read_link("/proc/self/ns/net").unwrap();
    let inside = firewall.enter(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    assert_ne!(here, inside);
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids: Vec<i32> = processes
        .filter(|entry| std::fs::read_link(entry.path().join("ns/net")).is_ok_and(|link| link == inside))
        .filter(|entry| {
            std::fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    assert_eq!(pids.len(), 1, "{name}: {pids:?}");
    let pid = nix::unistd::Pid::from_raw(pids[0]);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn nothing_passes_a_proxy_that_is_gone_and_its_end_is_noticed() {
    type Deed = fn(&Bed, &str);
    let rows: [(&str, Deed, &str); 3] = [
        ("killed", kill, "signal: 9"),
        ("without rules", |bed, _| drop(bed.firewall().unwrap().run("nft", &["flush", "ruleset"])), ""),
        (
            "not handed to",
            |bed, _| drop(bed.firewall().unwrap().run("ip", &["-4", "rule", "del", "fwmark", "0x1"])),
            "not handed to the proxy",
        ),
    ];
    for name in PROXIES {
        for (what, deed, said) in rows {
            with_firewall(name, ZoneForm::Two, &rules(4), |bed, running, _, _| {
                let layout = bed.layout();
                let hostile = layout.port(Zone::Hostile).unwrap();
                let address = add_hosts(hostile, IpVersion::V4, 1).unwrap()[0];
                let servers = Servers::start(&hostile.end.namespace, &[address]);
                assert_eq!(fetch(layout, address, SERVER_NAMES[0]), address.to_string(), "{name}");
                deed(bed, name);
                // A killed program is gone a moment later.
                let begun = Instant::now();
                let error = loop {
                    match running.check_alive() {
                        Err(error) => break error.to_string(),
                        Ok(()) => assert!(begun.elapsed() < PATIENCE, "{name} {what}: nobody noticed"),
                    }
                };
                assert!(error.contains(said), "{name} {what}: {error}");
                // Without its rules the machine is a router, which only the look finds.
                if what != "without rules" {
                    let reached = connect(layout, Zone::Private, SocketAddr::new(address, 80), SHORT);
                    assert!(reached.is_err(), "{name} {what}");
                }
                drop(servers);
            });
        }
    }
}

#[test]
fn what_a_proxy_cannot_do_is_refused() {
    must_be_root();
    for name in PROXIES {
        for (shape, said) in [
            (PolicyShape { stateful: false, ..rules(1) }, "rules without state"),
            (PolicyShape { nat: true, ..rules(1) }, "address translation"),
            (PolicyShape { listed_addresses: 5, ..rules(1) }, "lists of addresses"),
        ] {
            let driver = dut::driver(name).unwrap();
            let bed = Bed::build(&spec(ZoneForm::Two, driver.wiring())).unwrap();
            let policy = PolicySpec::generate(&shape, ZoneForm::Two).unwrap();
            let error = driver.set_up(&bed, &policy).err().unwrap().to_string();
            assert!(error.contains(&format!("{name} cannot do {said}")), "{error}");
        }
    }
}
