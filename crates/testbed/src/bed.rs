//! The test bed: namespaces for the zones and the firewall, joined by veth pairs, with static neighbours and
//! routes. Touches nothing of the host's own network, and removes everything when it is dropped, also while a
//! panic unwinds; what a `kill -9` leaves, [`crate::leftovers`] removes.
//!
//! ```text
//!  private ═══ firewall ═══ hostile          private ═ link ═ firewall ═ link ═ hostile       private ═══ hostile
//!                 ║                          rate-limited: one `link` namespace               `Wiring::Direct`
//!                dmz
//! ```
//!
//! With `Wiring::Bridge` the firewall stands where it is on the left, and the zones' ends know each other as on the right.

use crate::error::TestbedError;
use crate::journal::{Change, Journal};
use crate::layout::{BedLayout, End, Mac, PortEnd, ZoneAddresses, ZonePort, behind, zones_of};
use crate::netns::Namespace;
use crate::{link, placement, program};
use measure::frame::FrameSize;
use measure::shape::{Placement, Zone, ZoneForm};
use std::time::{Duration, Instant};

/// What stands between the zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wiring {
    /// A firewall namespace that a driver configures.
    Firewall,
    /// A firewall namespace that a driver makes a bridge of: the zones' hosts are of one network, their frames are addressed to each
    /// other, and the firewall's ends have no addresses.
    Bridge,
    /// Nothing: the private zone's end is directly peered with the hostile zone's.
    Direct,
}

impl Wiring {
    /// Whether nobody between the zones has an address, so that at most two zones can be joined.
    fn is_one_network(self) -> bool {
        self != Wiring::Firewall
    }
}

/// Which bed to build.
#[derive(Debug, Clone, PartialEq)]
pub struct BedSpec {
    /// The zones.
    pub zones: ZoneForm,
    /// What is between them.
    pub wiring: Wiring,
    /// The largest frame that will be sent; it decides the links' MTU, 1500 or 9000 bytes or what the frame needs.
    pub largest_frame: FrameSize,
    /// Where the work is done.
    pub placement: Placement,
    /// Cores for the generator and the firewall; see [`CoreSplit::of`].
    pub cores: CoreSplit,
    /// Rate limit of every link in each direction, bits a second on the wire, or none.
    pub link_bits_per_second: Option<u64>,
}

/// Which cores do what. In inline placement both lists are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreSplit {
    /// Cores that generate and receive.
    pub generator: Vec<u32>,
    /// Cores that do the firewall's receive work.
    pub firewall: Vec<u32>,
}

impl CoreSplit {
    /// Divides the first `cores` cores: all for everybody inline; in isolated placement the generator gets the
    /// first half, rounded up, and the firewall the rest.
    ///
    /// # Errors
    /// [`TestbedError::MachineCannot`] for isolated placement with fewer than two cores, or more cores than there are.
    pub fn of(placement: Placement, cores: u32) -> Result<Self, TestbedError> {
        let online = placement::cores_online();
        let wanted = usize::try_from(cores).unwrap_or(usize::MAX);
        if cores == 0 || wanted > online.len() {
            return Err(TestbedError::MachineCannot {
                what: format!("use {cores} cores"),
                remedy: format!("it has {} online: choose 1 to {0} with --cores", online.len()),
            });
        }
        let chosen = &online[..wanted];
        match placement {
            Placement::Inline => Ok(Self { generator: chosen.to_vec(), firewall: chosen.to_vec() }),
            Placement::Isolated if wanted < 2 => Err(placement::too_few_cores()),
            Placement::Isolated => {
                let (generator, firewall) = chosen.split_at(wanted.div_ceil(2));
                Ok(Self { generator: generator.to_vec(), firewall: firewall.to_vec() })
            }
        }
    }
}

/// A bed that exists. Drop the firewall, the generator and the sink first: what still holds a socket or a handle
/// inside keeps the kernel from freeing a namespace whose name is gone.
#[derive(Debug)]
pub struct Bed {
    layout: BedLayout,
    spec: BedSpec,
    zones: Vec<(Zone, Namespace)>,
    firewall: Option<Namespace>,
    link: Option<Namespace>,
    // Last, so that handles on the namespaces are closed before the journal removes their names.
    journal: Journal,
}

impl Bed {
    /// Builds a bed; on an error nothing of it stays.
    ///
    /// # Errors
    /// Not root, a missing program, a name in use, or what the kernel refuses.
    pub fn build(spec: &BedSpec) -> Result<Self, TestbedError> {
        check(spec)?;
        let mut journal = Journal::start()?;
        let mut make = |role: &str| namespace(&mut journal, role);
        let mut zones = Vec::new();
        for &zone in zones_of(spec.zones) {
            zones.push((zone, make(zone.name())?));
        }
        let firewall = match spec.wiring {
            Wiring::Firewall | Wiring::Bridge => Some(make("firewall")?),
            Wiring::Direct => None,
        };
        let link = spec.link_bits_per_second.map(|_| make("link")).transpose()?;
        let mut bed = Self {
            layout: BedLayout { ports: Vec::new(), mtu: mtu_for(spec.largest_frame) },
            spec: spec.clone(),
            zones,
            firewall,
            link,
            journal,
        };
        bed.wire_up()?;
        Ok(bed)
    }

    /// Addresses, interfaces and namespaces of the zones.
    pub fn layout(&self) -> &BedLayout {
        &self.layout
    }

    /// What was asked for.
    pub fn spec(&self) -> &BedSpec {
        &self.spec
    }

    /// The firewall's namespace, where the bed has one.
    pub fn firewall(&self) -> Option<&Namespace> {
        self.firewall.as_ref()
    }

    /// The namespace of the rate-limited links, where there are any.
    pub fn link(&self) -> Option<&Namespace> {
        self.link.as_ref()
    }

    /// Moves receive work to its cores again. A link that went down and up, or got its first XDP program, has new
    /// threads.
    ///
    /// # Errors
    /// A thread that cannot be found or pinned.
    pub fn place(&self) -> Result<(), TestbedError> {
        if self.spec.placement == Placement::Isolated {
            placement::isolate(&self.layout, &self.link_devices(), &self.spec.cores)?;
        }
        Ok(())
    }

    /// What a driver configures and keeps.
    pub(crate) fn firewall_side(&self, dut: &'static str) -> Result<FirewallSide, TestbedError> {
        let namespace = self.firewall.clone().ok_or_else(|| {
            TestbedError::Impossible(format!("{dut} needs a bed with a firewall: this one is a bare wire"))
        })?;
        let cores = (self.spec.placement == Placement::Isolated).then(|| self.spec.cores.firewall.clone());
        let links = self.links();
        let facing = links.iter().filter(|[_, far]| far.namespace == namespace.name());
        let peers = facing.filter_map(|[near, _]| {
            let there = self.namespaces().find(|n| n.name() == near.namespace)?;
            Some((there.clone(), near.name.clone()))
        });
        let peers = peers.collect();
        Ok(FirewallSide {
            namespace,
            wiring: self.spec.wiring,
            ports: self.layout.ports.clone(),
            peers,
            cores,
        })
    }

    fn wire_up(&mut self) -> Result<(), TestbedError> {
        for namespace in self.namespaces() {
            namespace.set(QUIET)?;
        }
        let links: Vec<[Device; 2]> = self.links();
        program::run_with_input("ip", &["-batch", "-"], &link_batch(&links, self.layout.mtu))?;
        for namespace in self.namespaces() {
            self.set_offloads(namespace, &links)?;
        }
        for namespace in self.namespaces() {
            self.configure(namespace, &links)?;
        }
        self.wait_for_links(&links)?;
        self.layout.ports = self.ports()?;
        if let (Some(namespace), Some(rate)) = (&self.link, self.spec.link_bits_per_second) {
            link::forward_at_rate(namespace, &self.link_pairs(), rate, self.layout.mtu)?;
        }
        self.place()
    }

    /// Every namespace of the bed.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.zones.iter().map(|(_, namespace)| namespace).chain(&self.firewall).chain(&self.link)
    }

    /// The veth pairs, by their ends.
    fn links(&self) -> Vec<[Device; 2]> {
        let end = |zone, end| Device {
            namespace: self.namespace_of(zone, end).name().to_owned(),
            name: self.device(zone, end),
            mac: Mac::of_end(zone, end),
        };
        let zones = self.zones.iter().map(|&(zone, _)| zone);
        match (self.spec.wiring, &self.link) {
            (Wiring::Direct, None) => vec![[end(Zone::Private, End::Zone), end(Zone::Hostile, End::Zone)]],
            (Wiring::Direct, Some(_)) => {
                zones.map(|zone| [end(zone, End::Zone), end(zone, End::LinkToZone)]).collect()
            }
            (Wiring::Firewall | Wiring::Bridge, None) => {
                zones.map(|zone| [end(zone, End::Zone), end(zone, End::Firewall)]).collect()
            }
            (Wiring::Firewall | Wiring::Bridge, Some(_)) => zones
                .flat_map(|zone| {
                    [
                        [end(zone, End::Zone), end(zone, End::LinkToZone)],
                        [end(zone, End::LinkToFirewall), end(zone, End::Firewall)],
                    ]
                })
                .collect(),
        }
    }

    fn namespace_of(&self, zone: Zone, end: End) -> &Namespace {
        let own = self.zones.iter().find(|(z, _)| *z == zone).map(|(_, namespace)| namespace);
        let other = match end {
            End::Zone => None,
            End::Firewall => self.firewall.as_ref(),
            End::LinkToZone | End::LinkToFirewall => self.link.as_ref(),
        };
        // Only ends of the bed's own form are asked for, so one of the two is there.
        #[expect(clippy::expect_used, reason = "the form of the bed decides which ends exist")]
        other.or(own).expect("an end of this bed")
    }

    /// An interface name that no other bed on the machine has: threads of threaded NAPI are known by it alone.
    fn device(&self, zone: Zone, end: End) -> String {
        let zone = &zone.name()[..1];
        let end = match end {
            End::Zone => "z",
            End::Firewall => "f",
            End::LinkToZone => "a",
            End::LinkToFirewall => "b",
        };
        // At most 15 characters: pids end at 2^22.
        format!("{zone}{end}{}x{:x}", self.journal.number() % 1_000_000, std::process::id())
    }

    /// Brings the interfaces in one namespace up, with addresses, neighbours and routes.
    fn configure(&self, namespace: &Namespace, links: &[[Device; 2]]) -> Result<(), TestbedError> {
        let mut batch = String::new();
        for &(zone, ref own) in &self.zones {
            let addresses = ZoneAddresses::of(zone);
            if own.name() == namespace.name() {
                let gateway = self.gateway_mac(zone);
                batch += &zone_batch(&addresses, &self.device(zone, End::Zone), gateway);
            }
            let is_router = self.spec.wiring == Wiring::Firewall;
            if is_router && self.firewall.as_ref().is_some_and(|f| f.name() == namespace.name()) {
                batch += &firewall_batch(&addresses, &self.device(zone, End::Firewall));
            }
        }
        let up: String = devices_in(namespace, links).map(|d| format!("link set dev {d} up\n")).collect();
        namespace.run_with_input("ip", &["-batch", "-"], &(up + &batch)).map(drop)
    }

    /// Makes every end run NAPI, before any is up: a veth end takes redirected frames only if its peer had GRO (or an
    /// XDP program) when the end came up (`veth_set_xdp_features`). Socket buffers go through NAPI only if the
    /// sending end has no TSO (`veth_skb_is_eligible_for_gro`); otherwise they are worked off on the sender's core,
    /// past the threads of isolated placement. And makes every end put VLAN tags into the frame: beside it, where they travel on a veth
    /// pair else, no XDP program sees them, so that a firewall could add one unseen.
    fn set_offloads(&self, namespace: &Namespace, links: &[[Device; 2]]) -> Result<(), TestbedError> {
        let separate_receivers = self.spec.placement == Placement::Isolated || self.link.is_some();
        let devices: Vec<&str> = devices_in(namespace, links).collect();
        namespace.enter(|| {
            for device in devices {
                let mut settings =
                    vec!["-K", device, "gro", "on", "txvlan", "off", "tx-vlan-stag-hw-insert", "off"];
                if separate_receivers {
                    settings.extend(["tso", "off"]);
                }
                program::run("ethtool", &settings)?;
            }
            Ok(())
        })?
    }

    /// Waits until the links carry frames.
    fn wait_for_links(&self, links: &[[Device; 2]]) -> Result<(), TestbedError> {
        for namespace in self.namespaces() {
            wait_until_up(namespace, devices_in(namespace, links))?;
        }
        Ok(())
    }

    fn gateway_mac(&self, zone: Zone) -> Mac {
        match (self.spec.wiring, zone) {
            (Wiring::Firewall, zone) => Mac::of_end(zone, End::Firewall),
            (Wiring::Bridge | Wiring::Direct, Zone::Hostile) => Mac::of_end(Zone::Private, End::Zone),
            (Wiring::Bridge | Wiring::Direct, _) => Mac::of_end(Zone::Hostile, End::Zone),
        }
    }

    fn ports(&self) -> Result<Vec<ZonePort>, TestbedError> {
        let port_end = |zone, end| -> Result<PortEnd, TestbedError> {
            let namespace = self.namespace_of(zone, end).clone();
            let device = self.device(zone, end);
            let ifindex = ifindex(&namespace, &device)?;
            Ok(PortEnd { namespace, device, ifindex, mac: Mac::of_end(zone, end) })
        };
        let mut ports = Vec::new();
        for &(zone, _) in &self.zones {
            let firewall = self.firewall.as_ref().map(|_| port_end(zone, End::Firewall)).transpose()?;
            ports.push(ZonePort {
                zone,
                addresses: ZoneAddresses::of(zone),
                end: port_end(zone, End::Zone)?,
                firewall,
                gateway_mac: self.gateway_mac(zone),
            });
        }
        Ok(ports)
    }

    /// The two sides of every rate-limited link. A wire's frames pass one of them, not two: it is one cable.
    fn link_pairs(&self) -> Vec<(String, String)> {
        let near = |zone| self.device(zone, End::LinkToZone);
        match self.spec.wiring {
            Wiring::Direct => vec![(near(Zone::Private), near(Zone::Hostile))],
            Wiring::Firewall | Wiring::Bridge => {
                let far = |zone| self.device(zone, End::LinkToFirewall);
                self.zones.iter().map(|&(zone, _)| (near(zone), far(zone))).collect()
            }
        }
    }

    /// The ends in the namespace of the rate-limited links.
    pub(crate) fn link_devices(&self) -> Vec<(Namespace, String)> {
        let Some(namespace) = &self.link else { return Vec::new() };
        self.link_pairs().into_iter().flat_map(|(a, b)| [a, b]).map(|d| (namespace.clone(), d)).collect()
    }
}

/// The firewall's namespace and its ends of the links.
#[derive(Debug, Clone)]
pub(crate) struct FirewallSide {
    pub(crate) namespace: Namespace,
    wiring: Wiring,
    pub(crate) ports: Vec<ZonePort>,
    /// The ends that its links lead to.
    peers: Vec<(Namespace, String)>,
    /// The cores of its receive threads, in isolated placement.
    cores: Option<Vec<u32>>,
}

impl FirewallSide {
    pub(crate) fn ends(&self) -> impl Iterator<Item = &PortEnd> {
        self.ports.iter().filter_map(|port| port.firewall.as_ref())
    }

    /// Takes every link down. Addresses stay; routes and neighbours go.
    pub(crate) fn links_down(&self) -> Result<(), TestbedError> {
        let batch: String = self.ends().map(|end| format!("link set dev {} down\n", end.device)).collect();
        self.namespace.run_with_input("ip", &["-batch", "-"], &batch).map(drop)
    }

    /// Brings every link up again as it was built.
    pub(crate) fn links_up(&self) -> Result<(), TestbedError> {
        let mut batch: String = self.ends().map(|end| format!("link set dev {} up\n", end.device)).collect();
        for port in self.ports.iter().filter(|_| self.wiring == Wiring::Firewall) {
            if let Some(end) = &port.firewall {
                batch += &firewall_batch(&port.addresses, &end.device);
            }
        }
        self.namespace.run_with_input("ip", &["-batch", "-"], &batch)?;
        wait_until_up(&self.namespace, self.ends().map(|end| end.device.as_str()))?;
        for (namespace, device) in &self.peers {
            wait_until_up(namespace, std::iter::once(device.as_str()))?;
        }
        self.place()
    }

    /// Pins the receive threads, which are new after links were down.
    pub(crate) fn place(&self) -> Result<(), TestbedError> {
        match &self.cores {
            Some(cores) => placement::pin_ends(self.ends(), cores),
            None => Ok(()),
        }
    }

    /// The receive threads, in isolated placement.
    pub(crate) fn threads(&self) -> Vec<i32> {
        if self.cores.is_some() { placement::threads_of(self.ends()) } else { Vec::new() }
    }
}

/// One end of a veth pair.
struct Device {
    namespace: String,
    name: String,
    mac: Mac,
}

fn devices_in<'a>(
    namespace: &'a Namespace,
    links: &'a [[Device; 2]],
) -> impl Iterator<Item = &'a str> + Send {
    let here = move |device: &&Device| device.namespace == namespace.name();
    links.iter().flatten().filter(here).map(|device| device.name.as_str())
}

/// No packet that the test did not send: no redirects, router advertisements, address detection or link-local
/// addresses; and no reverse-path filter, which would look at hosts that only exist in frames.
const QUIET: &[(&str, &str)] = &[
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv4/conf/default/accept_redirects", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/all/autoconf", "0"),
    ("ipv6/conf/default/autoconf", "0"),
    ("ipv6/conf/all/accept_redirects", "0"),
    ("ipv6/conf/default/accept_redirects", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/dad_transmits", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/default/addr_gen_mode", "1"),
    // Multicast listener reports are repeated at random within this many ms: after the first, in a month.
    ("ipv6/conf/default/mldv1_unsolicited_report_interval", "2147483647"),
    ("ipv6/conf/default/mldv2_unsolicited_report_interval", "2147483647"),
    // A link that went down and up again keeps its addresses, as IPv4 does.
    ("ipv6/conf/all/keep_addr_on_down", "1"),
    ("ipv6/conf/default/keep_addr_on_down", "1"),
    ("ipv4/ip_forward", "0"),
    ("ipv6/conf/all/forwarding", "0"),
];

fn check(spec: &BedSpec) -> Result<(), TestbedError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(TestbedError::NotRoot);
    }
    if spec.wiring.is_one_network() && spec.zones == ZoneForm::Three {
        return Err(TestbedError::Impossible(
            "a bare wire and a bridge join two zones: a test with a DMZ needs a firewall that routes"
                .to_owned(),
        ));
    }
    if spec.placement == Placement::Isolated {
        placement::check_split(&spec.cores)?;
    }
    Ok(())
}

fn namespace(journal: &mut Journal, role: &str) -> Result<Namespace, TestbedError> {
    let name = format!("rb-{}-{}-{role}", std::process::id(), journal.number());
    journal.record(Change::Namespace(name.clone()))?;
    Namespace::create(&name).inspect_err(|error| {
        // Not ours: it must not be removed with what is ours.
        if matches!(error, TestbedError::NameInUse { .. }) {
            journal.forget_last();
        }
    })
}

/// The IP packet of the largest frame: frames below 1518 bytes share Ethernet's 1500, and jumbo frames 9000.
fn mtu_for(largest: FrameSize) -> u16 {
    const ETHERNET_HEADER_BYTES: u16 = 14;
    let needed = largest.bytes_without_fcs() - ETHERNET_HEADER_BYTES;
    match needed {
        0..=1500 => 1500,
        1501..=9000 => 9000,
        larger => larger,
    }
}

fn link_batch(links: &[[Device; 2]], mtu: u16) -> String {
    let queues = placement::cores_online().len();
    let end = |d: &Device| {
        format!(
            "{} netns {} address {} mtu {mtu} numtxqueues {queues} numrxqueues {queues}",
            d.name, d.namespace, d.mac
        )
    };
    links.iter().map(|[a, b]| format!("link add {} type veth peer name {}\n", end(a), end(b))).collect()
}

fn zone_batch(addresses: &ZoneAddresses, device: &str, gateway: Mac) -> String {
    let (g4, g6) = (addresses.gateway_v4(), addresses.gateway_v6());
    format!(
        "address add {}/32 dev {device}\naddress add {}/128 dev {device} nodad\n\
         neighbour add {g4} lladdr {gateway} dev {device}\nneighbour add {g6} lladdr {gateway} dev {device}\n\
         route add default via {g4} dev {device} onlink\nroute add default via {g6} dev {device} onlink\n",
        addresses.own_v4(),
        addresses.own_v6(),
    )
}

/// `replace` rather than `add`: it is done again after the links were down, which removes some of it.
pub(crate) fn firewall_batch(addresses: &ZoneAddresses, device: &str) -> String {
    let (z4, z6) = (addresses.own_v4(), addresses.own_v6());
    let zone = Mac::of_end(addresses.zone, End::Zone);
    let batch = format!(
        "address replace {}/32 dev {device}\naddress replace {}/128 dev {device} nodad\n\
         neighbour replace {z4} lladdr {zone} dev {device}\nneighbour replace {z6} lladdr {zone} dev {device}\n\
         route replace {} via {z4} dev {device} onlink\nroute replace {} via {z6} dev {device} onlink\n",
        addresses.gateway_v4(),
        addresses.gateway_v6(),
        addresses.v4,
        addresses.v6,
    );
    // What is behind a zone is reached as its hosts are.
    let farther = behind(addresses.zone).map(|(v4, v6)| {
        format!(
            "route replace {v4} via {z4} dev {device} onlink\nroute replace {v6} via {z6} dev {device} onlink\n"
        )
    });
    batch + &farther.unwrap_or_default()
}

/// Waits until devices that are up on both ends carry frames. The kernel starts the queue of the end that came up
/// first in the background (link watch); until then it silently drops what the stack sends.
fn wait_until_up<'a>(
    namespace: &Namespace,
    devices: impl Iterator<Item = &'a str> + Send,
) -> Result<(), TestbedError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    namespace.enter(|| {
        let deadline = Instant::now() + PATIENCE;
        for device in devices {
            while !program::run("ip", &["-o", "link", "show", "dev", device])?.contains(" state UP ") {
                if Instant::now() > deadline {
                    return Err(TestbedError::Impossible(format!("the link {device} does not come up")));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    })?
}

pub(crate) fn ifindex(namespace: &Namespace, device: &str) -> Result<u32, TestbedError> {
    namespace.enter(|| {
        nix::net::if_::if_nametoindex(device).map_err(|source| TestbedError::System {
            action: format!("find the interface {device} in {}", namespace.name()),
            source,
        })
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_follows_the_largest_frame() {
        for (frame, mtu) in [(64, 1500), (1518, 1500), (1519, 9000), (9000, 9000), (9018, 9000), (9216, 9198)]
        {
            assert_eq!(mtu_for(FrameSize::new(frame).unwrap()), mtu, "{frame}");
        }
    }

    #[test]
    fn cores_are_divided() {
        let online = placement::cores_online().len() as u32;
        let inline = CoreSplit::of(Placement::Inline, online).unwrap();
        assert_eq!(inline.generator, inline.firewall);
        assert!(CoreSplit::of(Placement::Inline, online + 1).unwrap_err().is_machine());
        assert!(CoreSplit::of(Placement::Inline, 0).is_err());
        assert!(CoreSplit::of(Placement::Isolated, 1).unwrap_err().is_machine());
    }
}
