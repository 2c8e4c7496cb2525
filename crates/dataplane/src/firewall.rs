//! The loaded firewall.

use crate::counters::Hits;
use crate::names::SharedNames;
use crate::policies::{Limited, Policies};
use crate::ports::{Ports, Programs};
use crate::routes::RouteMaps;
use crate::shared::{Program, Shared};
use crate::skeleton::types::sizes;
use crate::skeleton::{FirewallSkel, FirewallSkelBuilder};
use crate::{Counters, DataplaneError, EventLog, FlowTable, Tally};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, MapMut, ProgramMut};
use policy::settings::FLOWS;
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};

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
    /// What was counted.
    pub counters: Counters,
    pub(crate) routes: RouteMaps,
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
        Self::load_with(settings, false)
    }

    pub(crate) fn load_with(settings: &Settings, clock_is_held: bool) -> Result<Self, DataplaneError> {
        check_size("the number of flows", settings.flows, FLOWS)?;
        check_size("the number of rules", settings.rules, (1, 1 << 20))?;
        let cores = libbpf_rs::num_possible_cpus().map_err(DataplaneError::bpf("counting cores"))? as u32;
        Self::of(load(settings, cores, clock_is_held)?, settings, cores)
    }

    fn of(mut skel: FirewallSkel<'static>, settings: &Settings, cores: u32) -> Result<Self, DataplaneError> {
        let variables = skel.maps.bss_data.take().ok_or_else(no_memory)?;
        let skel = Arc::new(Mutex::new(skel));
        let loaded = skel.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (maps, programs) = (&loaded.maps, &loaded.progs);
        let names = SharedNames::default();
        let hits = || Ok(Hits::new(handle(&maps.hits)?, cores, settings.rules));
        let flows = FlowTable {
            records: handle(&maps.flows)?,
            pool: Shared::new(&mut variables.pool, &skel),
            capacity: settings.flows,
            end_flow: program(&programs.end_flow)?,
            sweep_flows: program(&programs.sweep_flows)?,
            names: names.clone(),
        };
        let ports = Ports {
            places: Shared::new(&mut variables.ports, &skel),
            devices: handle(&maps.port_devices)?,
            forwarding: handle(&maps.forwarding)?,
            programs: Programs {
                xdp: program(&programs.firewall_xdp)?,
                resolve: program(&programs.resolve)?,
                tc: program(&programs.firewall_tc)?,
                out: program(&programs.firewall_out)?,
            },
            names: names.clone(),
            attached: Vec::new(),
        };
        let policies = Policies {
            generations: handle(&maps.generations)?,
            limit_terms: handle(&maps.limit_terms)?,
            limit_rows: handle(&maps.limit_rows)?,
            settings: Shared::new(&mut variables.settings, &skel),
            hits: hits()?,
            names: names.clone(),
            limited: Limited::default(),
            zones: Vec::new(),
        };
        let routes = RouteMaps {
            forwarding: handle(&maps.forwarding)?,
            local_addresses: handle(&maps.local_addresses)?,
            own_addresses: handle(&maps.own_addresses)?,
        };
        Ok(Self {
            flows,
            ports,
            policies,
            events: EventLog::new(&maps.events, names.clone())?,
            counters: Counters::new(handle(&maps.counts)?, hits()?, names),
            routes,
            #[cfg(feature = "testing")]
            testing: crate::testing::Testing::new(programs, Shared::new(&mut variables.held_clock, &skel))?,
        })
    }

    /// How full the flow table is, as far as it was counted: flows open and end meanwhile.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn occupancy(&self) -> Result<Occupancy, DataplaneError> {
        let tallies = self.counters.tallies()?;
        let of = |tally: Tally| tallies.get(&tally).copied().unwrap_or(0);
        let over = [Tally::Expired, Tally::Closed, Tally::Killed, Tally::Revoked].map(of).iter().sum();
        Ok(Occupancy {
            flows: of(Tally::Opened).saturating_sub(over),
            half_open: self.flows.half_open(),
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
        })
    }
}

fn load(
    settings: &Settings,
    cores: u32,
    clock_is_held: bool,
) -> Result<FirewallSkel<'static>, DataplaneError> {
    // The skeleton borrows its object for as long as it lives; a firewall lives as long as its process.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open =
        FirewallSkelBuilder::default().open(storage).map_err(DataplaneError::bpf("opening bpf/firewall"))?;
    let buckets = buckets(settings.flows);
    for (map, entries) in [
        (&mut open.maps.buckets, buckets),
        (&mut open.maps.flows, settings.flows),
        (&mut open.maps.limit_rows, settings.rules),
        (&mut open.maps.hits, settings.rules.saturating_mul(cores)),
    ] {
        map.set_max_entries(entries).map_err(DataplaneError::bpf("sizing the maps"))?;
    }
    if let Some(constants) = open.maps.rodata_data.as_mut() {
        constants.secret = secret()?;
        constants.bucket_mask = buckets - 1;
        constants.record_count = settings.flows;
        constants.hit_slots = settings.rules;
        constants.clock_is_held = clock_is_held.into();
    }
    open.load().map_err(DataplaneError::bpf(
        "loading the firewall into the kernel (this needs root, and memory for the flow table)",
    ))
}

fn handle(map: &MapMut<'_>) -> Result<MapHandle, DataplaneError> {
    MapHandle::try_from(map).map_err(DataplaneError::bpf("opening the firewall's maps"))
}

pub(crate) fn program(program: &ProgramMut<'_>) -> Result<Program, DataplaneError> {
    Program::of(program).map_err(DataplaneError::system("opening the firewall's programs"))
}

fn no_memory() -> DataplaneError {
    let source = std::io::Error::other("the kernel maps no global variables");
    DataplaneError::System { doing: "reaching the firewall's variables".to_owned(), source }
}

fn check_size(what: &'static str, value: u32, (least, most): (u32, u32)) -> Result<(), DataplaneError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(DataplaneError::Size { what, least, most, value })
}

/// Buckets for so many flows, a power of two: at least three slots for each flow. With fewer, new flows find no place long before
/// the records are all in use; with more, a packet's bucket is farther from the caches.
fn buckets(flows: u32) -> u32 {
    let slots = u64::from(flows) * 3;
    // At most 2^24 flows, so it fits.
    slots.div_ceil(sizes::BUCKET_SLOTS.0.into()).next_power_of_two() as u32
}

/// What makes the places of flows in the table hard to guess.
fn secret() -> Result<[u64; 2], DataplaneError> {
    let mut bytes = [[0; 8]; 2];
    let mut source = File::open("/dev/urandom").map_err(DataplaneError::system("opening /dev/urandom"))?;
    for half in &mut bytes {
        source.read_exact(half).map_err(DataplaneError::system("reading /dev/urandom"))?;
    }
    Ok(bytes.map(u64::from_ne_bytes))
}
