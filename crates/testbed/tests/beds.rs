//! Beds: built, placed, limited, counted, and gone afterwards, however the run ends.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests stop at the first thing that is wrong, and a child tells its parent"
)]

mod common;

use common::{Prober, assert_gone, must_be_root, namespaces_of, plain, spec};
use measure::shape::{Placement, Zone, ZoneForm};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testbed::TestbedError;
use testbed::bed::{Bed, BedSpec, CoreSplit, Wiring};
use testbed::counters::LinkCounters;
use testbed::dut::{self, ExternalPort, ExternalPorts};
use testbed::netns::Namespace;
use testbed::placement::{cores_online, napi_threads};
use testbed::policy::PolicySpec;
use testbed::priority::{SessionPriority, Standing};
use testbed::tables::{ConntrackSize, conntrack_max};
use testbed::{applications, layout, leftovers};

#[test]
fn beds_are_built_in_every_form_and_removed() {
    must_be_root();
    let rows = [
        (ZoneForm::Two, Wiring::Firewall, 3),
        (ZoneForm::Three, Wiring::Firewall, 4),
        (ZoneForm::Two, Wiring::Bridge, 3),
        (ZoneForm::Two, Wiring::Direct, 2),
    ];
    for (zones, wiring, namespaces) in rows {
        for limit in [None, Some(100_000_000)] {
            let bed = Bed::build(&BedSpec { link_bits_per_second: limit, ..spec(zones, wiring) }).unwrap();
            let names = namespaces_of(&bed);
            assert_eq!(names.len(), namespaces + usize::from(limit.is_some()));
            assert_eq!(bed.layout().ports.len(), layout::zones_of(zones).len());
            for end in bed.layout().ends() {
                let listing = end.namespace.run("ip", &["-o", "link", "show", "dev", &end.device]).unwrap();
                assert!(listing.starts_with(&format!("{}: ", end.ifindex)), "{listing}");
                assert!(listing.contains(&end.mac.to_string()) && listing.contains("mtu 1500"), "{listing}");
            }
            drop(bed);
            assert_gone(&names);
        }
    }
}

#[test]
fn wires_and_bridges_between_three_zones_are_refused() {
    must_be_root();
    for wiring in [Wiring::Direct, Wiring::Bridge] {
        let error = Bed::build(&spec(ZoneForm::Three, wiring)).unwrap_err();
        assert!(error.to_string().contains("two zones"), "{wiring:?}: {error}");
    }
}

#[test]
fn a_panic_leaves_nothing() {
    must_be_root();
    let (send, receive) = std::sync::mpsc::channel();
    let outcome = std::thread::spawn(move || {
        let bed = Bed::build(&spec(ZoneForm::Two, Wiring::Firewall)).unwrap();
        send.send(namespaces_of(&bed)).unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(outcome.is_err());
    assert_gone(&receive.recv().unwrap());
}

#[test]
fn neighbours_are_static_and_nothing_is_asked() {
    must_be_root();
    let bed = Bed::build(&spec(ZoneForm::Three, Wiring::Firewall)).unwrap();
    let driver = dut::driver("linux").unwrap();
    let policy = PolicySpec::forward_everything(ZoneForm::Three);
    let running = driver.set_up(&bed, &policy).unwrap();
    assert!(Prober::new(bed.layout()).failures(&policy.probes()).is_empty());
    for namespace in bed.namespaces() {
        let dynamic = namespace.run("ip", &["neighbour", "show"]).unwrap();
        assert!(dynamic.lines().all(|line| line.contains("PERMANENT")), "{}: {dynamic}", namespace.name());
    }
    drop(running);
}

#[test]
fn jumbo_frames_pass() {
    must_be_root();
    for name in ["linux", "xdp-redirect"] {
        let largest_frame = measure::frame::FrameSize::new(9000).unwrap();
        let bed = Bed::build(&BedSpec { largest_frame, ..spec(ZoneForm::Two, Wiring::Firewall) }).unwrap();
        let policy = PolicySpec::forward_everything(ZoneForm::Two);
        let running = dut::driver(name).unwrap().set_up(&bed, &policy).unwrap();
        let arrived = received(&bed, Zone::Hostile);
        send_datagrams(&bed, 1, 9000 - 18 - 28);
        wait_for(name, || received(&bed, Zone::Hostile) == arrived + 1);
        drop(running);
    }
}

/// Sends UDP from the private to the hostile zone through the kernel's sockets, from core 0.
fn send_datagrams(bed: &Bed, count: usize, payload: usize) {
    let hostile = layout::ZoneAddresses::of(Zone::Hostile).host_v4(5);
    let namespace = &bed.layout().port(Zone::Private).unwrap().end.namespace;
    namespace
        .enter(|| {
            let mut core = nix::sched::CpuSet::new();
            core.set(0).unwrap();
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &core).unwrap();
            let socket = UdpSocket::bind("198.18.0.2:5000").unwrap();
            let bytes = vec![0u8; payload];
            // A full queue on the way is what these tests are about: the kernel then says so to the sender.
            let _ = (0..count).filter(|_| socket.send_to(&bytes, (hostile, 4000)).is_err()).count();
        })
        .unwrap();
}

#[test]
fn segments_that_are_to_stay_apart_pass_the_firewall_one_by_one() {
    must_be_root();
    for apart in [false, true] {
        let bed = Bed::build(&spec(ZoneForm::Two, Wiring::Firewall)).unwrap();
        let policy = PolicySpec::forward_everything(ZoneForm::Two);
        let running = dut::driver("linux").unwrap().set_up(&bed, &policy).unwrap();
        if apart {
            applications::keep_segments_apart(&bed).unwrap();
        }
        let firewall = bed.firewall().unwrap();
        const COUNT: &str = "table ip count { chain forward { type filter hook forward priority 0; ip length > 1500 counter; }; }";
        firewall.run_with_input("nft", &["-f", "-"], COUNT).unwrap();
        send_stream(&bed, 1_000_000);
        let counted = firewall.run("nft", &["list", "table", "ip", "count"]).unwrap();
        assert_eq!(counted.contains("counter packets 0 "), apart, "{counted}");
        // Probes are redirected frames, which an end without GRO would not take.
        assert!(Prober::new(bed.layout()).failures(&policy.probes()).is_empty());
        drop(running);
    }
}

/// Sends so many bytes by TCP from the private to the hostile zone.
fn send_stream(bed: &Bed, bytes: usize) {
    let namespace = |zone| &bed.layout().port(zone).unwrap().end.namespace;
    let address = (layout::ZoneAddresses::of(Zone::Hostile).own_v4(), 4000);
    let listener = namespace(Zone::Hostile).enter(|| TcpListener::bind(address).unwrap()).unwrap();
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
        all.len()
    });
    let mut stream = namespace(Zone::Private).enter(|| TcpStream::connect(address).unwrap()).unwrap();
    stream.write_all(&vec![0; bytes]).unwrap();
    drop(stream);
    assert_eq!(reading.join().unwrap(), bytes);
}

/// IPv4 packets that came to a zone: the kernel's own multicast reports, which are IPv6, are not among them.
fn received(bed: &Bed, zone: Zone) -> u64 {
    let namespace = &bed.layout().port(zone).unwrap().end.namespace;
    let snmp = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
    let values = snmp.lines().filter(|line| line.starts_with("Ip:")).nth(1).unwrap();
    values.split(' ').nth(3).unwrap().parse().unwrap()
}

/// Waits for something that must happen; how long it takes does not matter.
fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !happened() {
        assert!(Instant::now() < deadline, "{what}: waited in vain");
        std::thread::yield_now();
    }
}

#[test]
fn limited_links_hold_frames_back_and_count_what_they_drop() {
    must_be_root();
    const SENT: usize = 1000;
    for (name, wiring) in
        [("wire", Wiring::Direct), ("xdp-redirect", Wiring::Firewall), ("linux", Wiring::Firewall)]
    {
        let limited = BedSpec { link_bits_per_second: Some(10_000_000), ..spec(ZoneForm::Two, wiring) };
        let bed = Bed::build(&limited).unwrap();
        let policy = PolicySpec::forward_everything(ZoneForm::Two);
        let running = dut::driver(name).unwrap().set_up(&bed, &policy).unwrap();
        let failures = Prober::new(bed.layout()).failures(&policy.probes());
        assert!(failures.is_empty(), "{name}: {failures:#?}");
        let before = LinkCounters::read(&bed).unwrap();
        let came = received(&bed, Zone::Hostile);
        send_datagrams(&bed, SENT, 1000);
        let mut lost = 0;
        wait_for(name, || {
            lost = LinkCounters::read(&bed).unwrap().lost_since(&before).values().sum();
            received(&bed, Zone::Hostile) - came + lost == SENT as u64
        });
        // 1000 frames are a second of the link, and its queue holds 50 ms.
        assert!(lost > 0, "{name}: nothing was held back");
        let qdiscs = bed.link().unwrap().run("tc", &["-s", "qdisc", "show"]).unwrap();
        let held = qdiscs.lines().any(|l| l.contains("overlimits") && !l.contains("overlimits 0"));
        assert!(held, "{name}: {qdiscs}");
        drop(running);
    }
}

fn isolated(zones: ZoneForm) -> BedSpec {
    must_be_root();
    let cores = u32::try_from(cores_online().len()).unwrap();
    let cores = CoreSplit::of(Placement::Isolated, cores).unwrap();
    BedSpec { placement: Placement::Isolated, cores, ..spec(zones, Wiring::Firewall) }
}

fn cores_of(thread: i32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

#[test]
fn isolated_placement_pins_receive_threads() {
    let spec = isolated(ZoneForm::Two);
    let bed = Bed::build(&spec).unwrap();
    for name in ["linux", "xdp-redirect"] {
        let policy = PolicySpec::forward_everything(ZoneForm::Two);
        let mut running = dut::driver(name).unwrap().set_up(&bed, &policy).unwrap();
        for reset in [false, true] {
            if reset {
                running.reset().unwrap();
            }
            let threads = running.firewall_threads();
            assert_eq!(threads.len(), 2 * cores_online().len(), "one a queue and end");
            for thread in threads {
                let cores = cores_of(thread);
                assert!(spec.cores.firewall.iter().any(|core| core.to_string() == cores), "{name} {cores}");
            }
        }
        // Nothing takes time from the generator: behind a firewall the zones' ends have no threads at all.
        for port in &bed.layout().ports {
            assert_eq!(napi_threads(&port.end.device), Vec::<i32>::new(), "{name}");
        }
        let failures = Prober::new(bed.layout()).failures(&policy.probes());
        assert!(failures.is_empty(), "{name}: {failures:#?}");
    }
}

#[test]
fn cores_cannot_be_shared_in_isolated_placement() {
    let mut spec = isolated(ZoneForm::Two);
    spec.cores.generator = spec.cores.firewall.clone();
    assert!(Bed::build(&spec).unwrap_err().to_string().contains("disjoint"));
    spec.cores.generator.clear();
    assert!(Bed::build(&spec).unwrap_err().is_machine());
}

/// Frames that meet a full ring are in the ledger exactly once. The thread that would empty the ring has to share the
/// sender's core at idle priority, so it falls behind.
#[test]
fn what_a_full_ring_loses_is_counted_once() {
    let spec = isolated(ZoneForm::Two);
    // A multicast report of the kernel itself may be among those lost.
    const KERNEL_FRAMES: u64 = 8;
    let where_lost = "private to its link: ring full";
    for name in ["linux", "xdp-redirect"] {
        let bed = Bed::build(&spec).unwrap();
        let policy = PolicySpec::forward_everything(ZoneForm::Two);
        let running = dut::driver(name).unwrap().set_up(&bed, &policy).unwrap();
        for thread in napi_threads(&firewall_end(&bed, Zone::Private)) {
            for (program, options) in [("chrt", ["-i", "-p", "0"].as_slice()), ("taskset", &["-cp", "0"])] {
                let done = Command::new(program).args(options).arg(thread.to_string()).output().unwrap();
                assert!(done.status.success(), "{done:?}");
            }
        }
        let before = LinkCounters::read(&bed).unwrap();
        let came = received(&bed, Zone::Hostile);
        let mut sent: u64 = 0;
        let mut lost = std::collections::BTreeMap::new();
        while !lost.contains_key(where_lost) {
            assert!(sent < 3_000_000, "{name}: the ring never filled");
            send_datagrams(&bed, 20_000, 18);
            sent += 20_000;
            wait_for(name, || {
                lost = LinkCounters::read(&bed).unwrap().lost_since(&before);
                let known = received(&bed, Zone::Hostile) - came + lost.values().sum::<u64>();
                assert!(known < sent + KERNEL_FRAMES, "{name}: {known} of {sent}: {lost:?}");
                known >= sent
            });
        }
        assert!(lost.contains_key(where_lost), "{name}: {lost:?}");
        drop(running);
    }
}

fn firewall_end(bed: &Bed, zone: Zone) -> String {
    bed.layout().port(zone).unwrap().firewall.clone().unwrap().device
}

const HOLD: &str = "RAMPART_TEST_HOLD_A_BED";

/// The child of the test below: holds a bed and a raised table until it is killed. By itself it does nothing.
#[test]
fn holds_a_bed_until_killed() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let bed = Bed::build(&spec(ZoneForm::Two, Wiring::Firewall)).unwrap();
    let _table = ConntrackSize::raise(conntrack_max().unwrap()).unwrap();
    let _priority = SessionPriority::raise();
    println!("\nHOLDING {}", namespaces_of(&bed).join(","));
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next() {
    must_be_root();
    let size = conntrack_max().unwrap();
    let raised = ConntrackSize::raise(size).unwrap();
    assert!(conntrack_max().unwrap() > size && raised.entries() > size);
    drop(raised);
    assert_eq!(conntrack_max(), Some(size), "restored by dropping");
    let standing = Standing::now();
    let priority = SessionPriority::raise();
    assert_eq!(Standing::now(), raised_of(&standing), "{}", priority.description());
    drop(priority);
    assert_eq!(Standing::now(), standing, "restored by dropping");

    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_a_bed_until_killed", "--nocapture"])
        .env(HOLD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.starts_with("HOLDING ")).unwrap();
    let names: Vec<String> = line["HOLDING ".len()..].split(',').map(str::to_owned).collect();

    leftovers::remove().unwrap();
    let there = |names: &[String]| names.iter().all(|name| testbed::netns::names().contains(name));
    assert!(there(&names), "a living run keeps its bed");
    assert!(conntrack_max().unwrap() > size);
    assert_eq!(Standing::now(), raised_of(&standing));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(there(&names), "nobody else removes it");
    leftovers::remove().unwrap();
    assert_gone(&names);
    assert_eq!(conntrack_max(), Some(size), "restored by the next run");
    assert_eq!(Standing::now(), standing, "restored by the next run");
}

/// What a session's priority is during a run: an autogroup's is the highest, and anything else stays.
fn raised_of(standing: &Standing) -> Standing {
    match standing {
        Standing::Autogroup { number, .. } => Standing::Autogroup { number: *number, nice: -20 },
        other => other.clone(),
    }
}

/// Removes namespaces that a test made by itself.
struct OwnNamespaces(Vec<String>);

impl OwnNamespaces {
    fn make(roles: &[&str]) -> Self {
        let names: Vec<String> =
            roles.iter().map(|role| format!("rt-{}-{role}", std::process::id())).collect();
        for name in &names {
            assert!(Command::new("ip").args(["netns", "add", name]).status().unwrap().success());
        }
        Self(names)
    }
}

impl Drop for OwnNamespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// A name that is taken is left alone, and so is what has it.
#[test]
fn a_name_in_use_is_refused_and_kept() {
    must_be_root();
    let next = |bed: &Bed| -> u64 {
        bed.namespaces().next().unwrap().name().split('-').nth(2).unwrap().parse::<u64>().unwrap() + 1
    };
    let bed = Bed::build(&spec(ZoneForm::Two, Wiring::Direct)).unwrap();
    // Other tests of this process take numbers too: take enough of the next ones.
    let first = next(&bed);
    let taken: Vec<String> =
        (first..first + 40).map(|n| format!("rb-{}-{n}-hostile", std::process::id())).collect();
    let made: Vec<&String> = taken
        .iter()
        .filter(|name| Command::new("ip").args(["netns", "add", name]).output().unwrap().status.success())
        .collect();
    let outcome = Bed::build(&spec(ZoneForm::Two, Wiring::Firewall));
    let kept = testbed::netns::names();
    for name in &made {
        assert!(Command::new("ip").args(["netns", "del", name]).status().unwrap().success());
    }
    let Err(TestbedError::NameInUse { name }) = outcome else { panic!("{outcome:?}") };
    assert!(kept.contains(&name), "{name} was removed");
    assert_gone(&[name.replace("hostile", "private")]);
}

/// Two interfaces of one namespace, with a router between them that the bench did not make.
#[test]
fn an_external_firewall_is_described_and_left_alone() {
    must_be_root();
    let own = OwnNamespaces::make(&["host", "box"]);
    let [host, router] = [&own.0[0], &own.0[1]].map(|name| Namespace::open(name).unwrap());
    let links = format!(
        "link add p1 netns {h} type veth peer name b1 netns {b}\nlink add p2 netns {h} type veth peer name b2 netns {b}\n",
        h = host.name(),
        b = router.name()
    );
    host.run_with_input("ip", &["-batch", "-"], &links).unwrap();
    let setup = "link set b1 up\nlink set b2 up\naddress add 198.18.0.1/32 dev b1\naddress add 198.19.0.1/32 dev b2\n\
                 route add 198.18.0.2/32 dev b1\nroute add 198.19.0.2/32 dev b2\n\
                 route add 198.18.0.0/16 via 198.18.0.2\nroute add 198.19.0.0/17 via 198.19.0.2\n";
    router.run_with_input("ip", &["-batch", "-"], setup).unwrap();
    router.set(&[("ipv4/ip_forward", "1")]).unwrap();

    let port = |text: &str| text.parse::<ExternalPort>().unwrap();
    let check =
        |a: &str, b: &str, force| host.enter(|| ExternalPorts::check(&port(a), &port(b), force)).unwrap();
    let is_up = |name: &str| host.run("ip", &["-br", "link", "show", name]).unwrap().contains(",UP");
    // The other ends would lose what is redirected to them.
    let without_gro = check("p1", "p2", false).unwrap_err();
    assert!(without_gro.to_string().contains("gro on"), "{without_gro}");
    assert!(!is_up("p1") && !is_up("p2"), "they are down again");
    for end in ["b1", "b2"] {
        router.run("ethtool", &["-K", end, "gro", "on"]).unwrap();
    }
    let ports = check("p1", "p2", false).unwrap();
    assert!(is_up("p1"));
    host.enter(|| drop(ports)).unwrap();
    assert!(!is_up("p1"), "it is down again");
    host.run_with_input("ip", &["-batch", "-"], "link set p1 up\nlink set p2 up\n").unwrap();
    host.run("ip", &["address", "add", "192.0.2.1/24", "dev", "p1"]).unwrap();
    host.run("ip", &["route", "add", "default", "via", "192.0.2.2"]).unwrap();
    let rows = [
        ("p1", "p1", "twice"),
        ("p2", "none", "there is no such interface"),
        ("lo", "p2", "no Ethernet interface"),
        (
            "p1",
            "p2",
            "default route, so a test would cut this machine off: name another interface, or add --force",
        ),
    ];
    for (a, b, said) in rows {
        let error = check(a, b, false).unwrap_err();
        assert!(error.to_string().contains(said) && !error.is_machine(), "{error}");
    }
    let ports = check("p1", "p2", true).unwrap();
    host.run("ip", &["address", "flush", "dev", "p1"]).unwrap();

    let bed = host.enter(|| ports.bed()).unwrap().unwrap();
    let macs = router.run("ip", &["-br", "link"]).unwrap();
    for port in &bed.layout().ports {
        assert!(macs.contains(&port.gateway_mac.to_string()), "{} in {macs}", port.gateway_mac);
    }
    let routes = "route add default via 198.18.0.1 dev p1 onlink\nroute add default via 198.19.0.1 dev p2 onlink metric 2\n";
    host.run_with_input("ip", &["-batch", "-"], routes).unwrap();
    let policy = PolicySpec::generate(&plain(), ZoneForm::Two).unwrap();
    let probes: Vec<_> = policy.probes().into_iter().filter(|probe| probe.source.is_ipv4()).collect();
    let failures = Prober::new(bed.layout()).failures(&probes);
    assert!(failures.is_empty(), "{failures:#?}");
    let mut running = bed.running();
    assert!(running.counters().unwrap().is_empty() && running.reset().is_err());
    host.enter(|| drop(bed)).unwrap();
    let left = host.run("ip", &["address"]).unwrap();
    assert!(!left.contains("198.1") && !left.contains("2001:2:"), "addresses were left on the ports: {left}");
}
