//! `xdp-redirect`: `bpf/redirect.bpf.c` on the firewall's ends. The least that a forwarder can do; everything else is
//! measured against it. A known box is the same with one behaviour more
//! ([`Behaviour`]).

use super::kernel::check_links;
use super::known::Behaviour;
use super::{Capabilities, Driver, Requirement, Running, admit};
use crate::bed::{Bed, FirewallSide};
use crate::error::TestbedError;
use crate::layout::{ATTACKERS_V4, ATTACKERS_V6, Mac, PortEnd, ZonePort};
use crate::policy::PolicySpec;
use ipnet::Ipv4Net;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Xdp, XdpFlags};
use measure::results::Role;
use measure::shape::Zone;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;

include!(concat!(env!("OUT_DIR"), "/redirect.skel.rs"));
use generated::{RedirectSkel, RedirectSkelBuilder};

/// Names of `enum drop` in `bpf/redirect/forward.h`, by index.
const DROPS: [&str; 4] = ["malformed", "expired", "no_zone", "known"];

/// The JIT's own setting is hidden from network namespaces other than the first, so the kernel's types stand in.
const REQUIREMENTS: &[Requirement] =
    &[Requirement::KernelFile { path: "/sys/kernel/btf/vmlinux", feature: "BPF with type information" }];

/// A forwarder without a policy: `xdp-redirect`, or a known box, which [`super::add`] makes one that can be measured.
#[derive(Debug)]
pub struct PlainForwarder {
    name: &'static str,
    summary: &'static str,
    /// What it does beside forwarding.
    known: Option<Behaviour>,
}

impl PlainForwarder {
    /// The least that a forwarder can do.
    pub(super) const XDP_REDIRECT: Self = Self {
        name: "xdp-redirect",
        summary: "XDP program that only rewrites and redirects (the least a forwarder can do)",
        known: None,
    };

    /// A known box under a name of its own.
    pub const fn known(name: &'static str, behaviour: Behaviour) -> Self {
        let summary = "forwards, and does one thing more of which is known how much";
        Self { name, summary, known: Some(behaviour) }
    }
}

impl Driver for PlainForwarder {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn role(&self) -> Role {
        Role::Forwarder
    }

    fn requirements(&self) -> &'static [Requirement] {
        REQUIREMENTS
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FORWARDING
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        Ok(Box::new(Redirect::start(bed.firewall_side(self.name)?, self.known)?))
    }
}

/// The programs on the links. The links keep the program, which keeps its maps.
struct Attached {
    links: Vec<Link>,
    drops: MapHandle,
    ports: MapHandle,
    /// Of the known box.
    connections: MapHandle,
    memories: MapHandle,
}

/// One that is set up.
struct Redirect {
    side: FirewallSide,
    /// What it does beside forwarding.
    known: Option<Behaviour>,
    attached: Attached,
}

impl Redirect {
    fn start(side: FirewallSide, known: Option<Behaviour>) -> Result<Self, TestbedError> {
        // Interface indices mean something only inside the namespace.
        let attached = side.namespace.enter(|| attach(&side.ports, known))??;
        side.place()?;
        Ok(Self { side, known, attached })
    }
}

fn attach(ports: &[ZonePort], known: Option<Behaviour>) -> Result<Attached, TestbedError> {
    let failed = |action| move |source| TestbedError::Bpf { action, source };
    let mut storage = MaybeUninit::uninit();
    let mut open = RedirectSkelBuilder::default().open(&mut storage).map_err(failed("open"))?;
    open.progs.redirect.set_autoload(known.is_none());
    open.progs.known.set_autoload(known.is_some());
    let globals = open.maps.rodata_data.as_deref_mut();
    // The object has read-only globals, so the skeleton has them.
    #[expect(clippy::expect_used, reason = "generated from our own object")]
    let globals = globals.expect("read-only globals");
    for (index, way) in ways(ports).into_iter().enumerate() {
        let zone = &mut globals.zones[index];
        zone.v4 = u32::from_ne_bytes(way.v4.network().octets());
        zone.v4_mask = u32::from_ne_bytes(way.v4.netmask().octets());
        zone.v6 = first_half(way.v6);
        zone.ifindex = way.from.ifindex;
        zone.addresses = ethernet_addresses(way.to, way.from.mac);
        globals.zone_count = index as u32 + 1;
    }
    if let Some(known) = known {
        (globals.what, globals.interval_ns, globals.depth, globals.one_in) = known.numbers();
    }
    let loaded = open.load().map_err(failed("load"))?;
    fill_and_attach(&loaded, ports, known.is_some())
}

fn fill_and_attach(
    loaded: &RedirectSkel<'_>,
    ports: &[ZonePort],
    is_known: bool,
) -> Result<Attached, TestbedError> {
    let failed = |action| move |source| TestbedError::Bpf { action, source };
    let mut links = Vec::new();
    for (index, way) in ways(ports).into_iter().enumerate() {
        let (key, value) = ((index as u32).to_ne_bytes(), way.from.ifindex.to_ne_bytes());
        loaded.maps.ports.update(&key, &value, MapFlags::ANY).map_err(failed("fill the ports of"))?;
    }
    for (_, end) in firewall_ends(ports) {
        let program = if is_known { &loaded.progs.known } else { &loaded.progs.redirect };
        links.push(program.attach_xdp(end.ifindex as i32).map_err(failed("attach"))?);
    }
    let keep = |map| MapHandle::try_from(map).map_err(failed("keep a map of"));
    Ok(Attached {
        links,
        drops: keep(&loaded.maps.drops)?,
        ports: keep(&loaded.maps.ports)?,
        connections: keep(&loaded.maps.connections)?,
        memories: keep(&loaded.maps.memories)?,
    })
}

/// Where frames to a prefix go.
struct Way<'a> {
    v4: Ipv4Net,
    v6: Ipv6Addr,
    to: Mac,
    from: &'a PortEnd,
}

/// The ways to all zones; and, last so that it costs test traffic nothing, to the attackers behind the private zone's port.
fn ways(ports: &[ZonePort]) -> Vec<Way<'_>> {
    let to_zone = |(port, from): (&ZonePort, _)| Way {
        v4: port.addresses.v4,
        v6: port.addresses.v6.network(),
        to: port.end.mac,
        from,
    };
    let attackers = firewall_ends(ports)
        .find(|(port, _)| port.zone == Zone::Private)
        .map(|(port, from)| Way { v4: ATTACKERS_V4, v6: ATTACKERS_V6.network(), to: port.end.mac, from });
    firewall_ends(ports).map(to_zone).chain(attackers).collect()
}

fn firewall_ends(ports: &[ZonePort]) -> impl Iterator<Item = (&ZonePort, &PortEnd)> {
    ports.iter().filter_map(|port| Some((port, port.firewall.as_ref()?)))
}

/// The first 64 bits of an address as the program loads them from a frame.
fn first_half(address: Ipv6Addr) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h, ..] = address.octets();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// Destination and source as a frame begins with them.
fn ethernet_addresses(destination: Mac, source: Mac) -> [u32; 3] {
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (destination.0, source.0);
    [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_ne_bytes)
}

/// Loads the program and puts it on an interface of the calling thread's namespace, to see whether that works; returns what the
/// driver can do meanwhile, as `enum netdev_xdp_act` has it (0 before Linux 6.3).
pub(crate) fn features_with_a_program(ifindex: u32) -> Result<u64, TestbedError> {
    let failed = |action| move |source| TestbedError::Bpf { action, source };
    let mut storage = MaybeUninit::uninit();
    let mut open = RedirectSkelBuilder::default().open(&mut storage).map_err(failed("open"))?;
    open.progs.known.set_autoload(false);
    let loaded = open.load().map_err(failed("load"))?;
    let _link = loaded.progs.redirect.attach_xdp(ifindex as i32).map_err(failed("attach"))?;
    let asked = Xdp::new(loaded.progs.redirect.as_fd()).query(ifindex as i32, XdpFlags::NONE);
    Ok(asked.map_err(failed("look at"))?.feature_flags)
}

impl Running for Redirect {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let mut counters = BTreeMap::new();
        for (index, name) in DROPS.iter().enumerate() {
            let key = (index as u32).to_ne_bytes();
            let per_core = self
                .attached
                .drops
                .lookup_percpu(&key, MapFlags::ANY)
                .map_err(|source| TestbedError::Bpf { action: "read the counters of", source })?;
            let count = per_core
                .into_iter()
                .flatten()
                .filter_map(|value| Some(u64::from_ne_bytes(value.try_into().ok()?)));
            counters.insert((*name).to_owned(), count.sum());
        }
        Ok(counters)
    }

    fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        let keeps = matches!(self.known, Some(Behaviour::Table { .. }));
        Ok(keeps.then(|| self.attached.connections.keys().count() as u64))
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(map_bytes(&self.attached.drops)? + map_bytes(&self.attached.ports)?)
    }

    fn forget_flows(&mut self) -> Result<(), TestbedError> {
        let failed = |source| TestbedError::Bpf { action: "empty the table of", source };
        let Attached { connections, memories, .. } = &self.attached;
        for key in connections.keys() {
            connections.delete(&key).map_err(failed)?;
        }
        let nothing = vec![0; memories.value_size() as usize];
        memories.update(&[0; 4], &nothing, MapFlags::ANY).map_err(failed)
    }

    fn firewall_threads(&self) -> Vec<i32> {
        self.side.threads()
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        check_links(&self.side, " xdp ")
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        self.side.links_down()?;
        // The program goes and comes with the power, so its counters start from zero.
        self.attached.links.clear();
        self.attached = self.side.namespace.enter(|| attach(&self.side.ports, self.known))??;
        self.side.links_up()
    }
}

/// What the kernel charged for a map.
fn map_bytes(map: &MapHandle) -> Option<u64> {
    use std::os::fd::AsRawFd;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("memlock:"))?.trim().parse().ok()
}
