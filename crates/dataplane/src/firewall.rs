//! The loaded firewall.

use crate::attendant::Attendant;
use crate::counters::Hits;
use crate::earlier::Earlier;
use crate::early::Early;
use crate::loading::{Before, Loaded, UNSENT, again, load, program};
use crate::names::SharedNames;
use crate::policies::{Limited, Lists, Policies};
use crate::ports::{Hook, Ports};
use crate::refused::Refused;
use crate::routes::{LinkAddresses, RouteMaps};
use crate::shared::{Mapping, Shared, has_tracepoint};
use crate::skeleton::FirewallProgs;
use crate::{Counters, DataplaneError, EventLog, FlowRecords, FlowTable, Scans, Tally};
use libbpf_rs::{Link, MapHandle, MapMut};
use policy::settings::FLOWS;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::AtomicU32;

/// What must be known before the programs are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Flows that the table holds: [`FLOWS`].
    pub flows: u32,
    /// Rules that a policy may have: 8 bytes each on every core.
    pub rules: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { flows: policy::settings::Settings::default().flows, rules: 131_072 }
    }
}

/// The loaded programs, by what they are made of. When it goes, the programs are detached from their interfaces.
pub struct Firewall {
    /// The flows that are open.
    pub flows: FlowTable,
    /// The interfaces that the programs are attached to.
    pub ports: Ports,
    /// The policy in force.
    pub policies: Policies,
    /// What rules recorded.
    pub events: EventLog,
    /// Flows that have ended.
    pub ended: FlowRecords,
    /// What was counted.
    pub counters: Counters,
    /// Who scanned and is blocked.
    pub scans: Scans,
    pub(crate) routes: RouteMaps,
    unsent: Unsent,
    /// Finds a transparent gateway for connections that are opened again. Without this process there is no gateway either.
    _listens: Option<Link>,
    /// Until somebody keeps early fragments.
    pub(crate) early: Option<Early>,
    /// Until somebody answers what netfilter refuses.
    refused: Option<Refused>,
    #[cfg(feature = "testing")]
    pub(crate) testing: crate::testing::Testing,
}

/// How full the flow table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Flows in it.
    pub flows: u64,
    /// Of these, TCP handshakes under way.
    pub half_open: u32,
    /// Of these, flows other than TCP that nobody has answered yet.
    pub unanswered: u32,
    /// Flows that fit.
    pub capacity: u32,
}

impl Firewall {
    /// Loads the programs. Nothing passes them before [`Ports::attach`], and until a policy is applied they drop everything but
    /// ARP and neighbour discovery.
    ///
    /// # Errors
    /// A size out of bounds, or the kernel refuses the programs.
    pub fn load(settings: &Settings) -> Result<Self, DataplaneError> {
        Self::load_for(settings, &[Hook::Xdp, Hook::Tc])
    }

    /// The same for these hooks alone, which takes less time: [`Ports::attach`] refuses others, and an interface whose driver has no XDP
    /// needs TC. [`Ports::open_netfilter`] needs [`Hook::Netfilter`].
    ///
    /// # Errors
    /// Those of [`Firewall::load`]; and of the hook at netfilter, the kernel is older than 6.4.
    pub fn load_for(settings: &Settings, hooks: &[Hook]) -> Result<Self, DataplaneError> {
        Self::load_with(settings, false, Before::Nothing, hooks)
    }

    /// The same in place of an earlier firewall whose maps these programs cannot use: zones have the numbers that they had, and
    /// [`crate::Carrying`] can take its flows.
    ///
    /// # Errors
    /// Those of [`Firewall::load_for`].
    pub fn load_after(
        settings: &Settings,
        earlier: &Earlier,
        hooks: &[Hook],
    ) -> Result<Self, DataplaneError> {
        let firewall = Self::load_with(settings, false, Before::Flows, hooks)?;
        firewall.number_zones_as(earlier);
        Ok(firewall)
    }

    /// Loads the programs over the maps of an earlier firewall, whose flows, counters and policy they go on with. The earlier
    /// programs go on too, on the same maps, until [`Ports::attach`] puts the new ones in their place.
    ///
    /// # Errors
    /// Those of [`Firewall::load`]; and [`Earlier::difference`] said that its maps are not ours.
    pub fn take_over(settings: &Settings, earlier: &Earlier, hooks: &[Hook]) -> Result<Self, DataplaneError> {
        if let Some(why) = earlier.difference(settings) {
            let source = std::io::Error::other(why);
            return Err(DataplaneError::System {
                doing: "taking an earlier firewall over".to_owned(),
                source,
            });
        }
        let rules = earlier.constants().map_or(settings.rules, |constants| constants.hit_slots);
        let sizes = Settings { rules, ..*settings };
        let mut firewall = Self::load_with(&sizes, false, Before::Maps(earlier), hooks)?;
        firewall.number_zones_as(earlier);
        if let Some(notes) = earlier.notes() {
            firewall.policies.go_on(notes);
        }
        Ok(firewall)
    }

    pub(crate) fn load_with(
        settings: &Settings,
        clock_is_held: bool,
        before: Before<'_>,
        hooks: &[Hook],
    ) -> Result<Self, DataplaneError> {
        check_size("the number of flows", settings.flows, FLOWS)?;
        check_size("the number of rules", settings.rules, (1, 1 << 20))?;
        let cores = libbpf_rs::num_possible_cpus().map_err(DataplaneError::bpf("counting cores"))? as u32;
        Self::of(load(settings, cores, clock_is_held, before, hooks)?, settings, cores)
    }

    fn of(loaded: Loaded, settings: &Settings, cores: u32) -> Result<Self, DataplaneError> {
        let Loaded { skel: object, programs, sweep_flows, take_flow } = loaded;
        let (maps, small) = (&object.maps, &object.progs);
        let (mapping, variables) = Mapping::of(&handle(&maps.bss)?)
            .map_err(DataplaneError::system("reaching the firewall's variables"))?;
        let skel = &mapping;
        #[cfg(feature = "testing")]
        let held =
            (Shared::new(&mut variables.held_clock, skel), Shared::new(&mut variables.held_ports, skel));
        #[cfg(feature = "testing")]
        let testing = crate::testing::Testing::new(&programs, program(&small.judge)?, held)?;
        let early = Early::new(
            &maps.early_fragments,
            Shared::new(&mut variables.early_until, skel),
            again(programs.xdp.as_ref())?,
            program(&small.return_fragment)?,
            program(&small.lose_fragments)?,
        )?;
        let refused = Refused::new(
            &maps.refused_packets,
            Shared::new(&mut variables.refused_until, skel),
            program(&small.answer_refused)?,
        )?;
        let names = SharedNames::default();
        let hits = || Ok(Hits::new(handle(&maps.hits)?, cores, settings.rules));
        let flows = FlowTable {
            records: handle(&maps.flows)?,
            pool: Shared::new(&mut variables.pool, skel),
            proxy: Shared::new(&mut variables.proxy_state, skel),
            capacity: settings.flows,
            end_flow: program(&small.end_flow)?,
            sweep_flows,
            take_flow,
            sweeps: AtomicU32::new(0),
            names: names.clone(),
        };
        let ports = Ports {
            places: Shared::new(&mut variables.ports, skel),
            devices: handle(&maps.port_devices)?,
            forwarding: handle(&maps.forwarding)?,
            bridge_map: handle(&maps.bridges)?,
            station_map: handle(&maps.stations)?,
            bridges: Vec::new(),
            link_addresses: LinkAddresses::of(handle(&maps.link_addresses)?, handle(&maps.bss)?)?,
            programs,
            names: names.clone(),
            attached: Vec::new(),
            outlives: false,
            netfilter: None,
            interface_names: handle(&maps.interface_names)?,
            gate: None,
        };
        let policies = Policies {
            generations: handle(&maps.generations)?,
            limit_terms: handle(&maps.limit_terms)?,
            limit_rows: handle(&maps.limit_rows)?,
            settings: Shared::new(&mut variables.settings, skel),
            hits: hits()?,
            names: names.clone(),
            limited: Limited::default(),
            lists: Lists::new(handle(&maps.address_lists)?),
            zones: Vec::new(),
        };
        let scans = Scans {
            sources: handle(&maps.scan_sources)?,
            end_block: program(&small.end_block)?,
            names: names.clone(),
        };
        let routes = RouteMaps {
            forwarding: handle(&maps.forwarding)?,
            local_addresses: handle(&maps.local_addresses)?,
            own_addresses: handle(&maps.own_addresses)?,
            link_addresses: LinkAddresses::of(handle(&maps.link_addresses)?, handle(&maps.bss)?)?,
        };
        Ok(Self {
            flows,
            ports,
            policies,
            events: EventLog::new(&maps.events, names.clone())?,
            ended: FlowRecords::new(&maps.flow_records, names.clone())?,
            counters: Counters::new(handle(&maps.counts)?, hits()?, names),
            scans,
            routes,
            unsent: Unsent::attach(small)?,
            _listens: listen_for_gateway(small)?,
            early: Some(early),
            refused: Some(refused),
            #[cfg(feature = "testing")]
            testing,
        })
    }

    /// Keeps fragments that come before their first, on a thread of its own, until it is dropped. Without that they are dropped. To be
    /// called once, in the network namespace of the interfaces.
    ///
    /// # Errors
    /// It was called before, or no descriptors or threads are left.
    pub fn keep_early_fragments(&mut self) -> Result<Attendant, DataplaneError> {
        let doing = "keeping early fragments";
        let twice = || std::io::Error::other("somebody keeps them already");
        self.early.take().ok_or_else(twice).map_err(DataplaneError::system(doing))?.keep_in_background()
    }

    /// Answers what the kernel's forwarding refuses with an answer, on a thread of its own, until it is dropped. Without that it is
    /// dropped in silence. To be called once, in the network namespace of the interfaces.
    ///
    /// # Errors
    /// It was called before, or no descriptors or threads are left.
    pub fn answer_refused(&mut self) -> Result<Attendant, DataplaneError> {
        let doing = "answering what is refused";
        let twice = || std::io::Error::other("somebody answers it already");
        self.refused.take().ok_or_else(twice).map_err(DataplaneError::system(doing))?.answer_in_background()
    }

    /// Records of flows have the numbers of their zones.
    fn number_zones_as(&self, earlier: &Earlier) {
        if let Some(notes) = earlier.notes() {
            self.policies.names.change(|names| names.set_zones(&notes.zones));
        }
    }

    /// The kernel's tracepoints without which frames that XDP redirected and that did not leave count as forwarded, if it has none of
    /// these names.
    pub fn missing_tracepoints(&self) -> &[&'static str] {
        &self.unsent.missing
    }

    /// How full the flow table is, as far as it was counted: flows open and end meanwhile.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn occupancy(&self) -> Result<Occupancy, DataplaneError> {
        let tallies = self.counters.tallies()?;
        let of = |tally: Tally| tallies.get(&tally).copied().unwrap_or(0);
        let over = [Tally::Expired, Tally::Closed, Tally::Evicted, Tally::Killed, Tally::Revoked]
            .map(of)
            .iter()
            .sum();
        Ok(Occupancy {
            flows: of(Tally::Opened).saturating_sub(over),
            half_open: self.flows.half_open(),
            unanswered: self.flows.unanswered(),
            capacity: self.flows.capacity(),
        })
    }

    /// The maps that [`crate::routes::Routes`] write, and go on writing on a thread of their own.
    ///
    /// # Errors
    /// No file descriptors left.
    pub fn route_maps(&self) -> Result<RouteMaps, DataplaneError> {
        let again = |map| MapHandle::try_from(map).map_err(DataplaneError::bpf("opening the maps of routes"));
        Ok(RouteMaps {
            forwarding: again(&self.routes.forwarding)?,
            local_addresses: again(&self.routes.local_addresses)?,
            own_addresses: again(&self.routes.own_addresses)?,
            link_addresses: self.routes.link_addresses.again()?,
        })
    }
}

/// The programs at tracepoints that count frames which XDP redirected in vain. They go with this process.
struct Unsent {
    _links: Vec<Link>,
    missing: Vec<&'static str>,
}

impl Unsent {
    fn attach(programs: &FirewallProgs<'_>) -> Result<Self, DataplaneError> {
        let (mut links, mut missing) = (Vec::new(), Vec::new());
        for (program, (_, tracepoint)) in
            [&programs.unsent_by_driver, &programs.unsent_at_once].into_iter().zip(UNSENT)
        {
            if program.autoload() {
                let doing = "attaching to the tracepoints of frames that were not sent";
                links.push(program.attach_trace().map_err(DataplaneError::bpf(doing))?);
            } else if !has_tracepoint(tracepoint) {
                missing.push(tracepoint);
            }
        }
        Ok(Self { _links: links, missing })
    }
}

/// In the calling thread's network namespace.
fn listen_for_gateway(programs: &FirewallProgs<'_>) -> Result<Option<Link>, DataplaneError> {
    let program = &programs.listen_for_gateway;
    if !program.autoload() {
        return Ok(None);
    }
    let here = File::open("/proc/thread-self/ns/net")
        .map_err(DataplaneError::system("opening the network namespace"))?;
    let link = program.attach_netns(here.as_raw_fd());
    link.map(Some).map_err(DataplaneError::bpf("attaching to the sockets of the network namespace"))
}

fn handle(map: &MapMut<'_>) -> Result<MapHandle, DataplaneError> {
    MapHandle::try_from(map).map_err(DataplaneError::bpf("opening the firewall's maps"))
}

fn check_size(what: &'static str, value: u32, (least, most): (u32, u32)) -> Result<(), DataplaneError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(DataplaneError::Size { what, least, most, value })
}
