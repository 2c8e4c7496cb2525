//! The loaded firewall: sizes, settings, counters.

use crate::events::Ring;
use crate::hooks::Interface;
use crate::layout::NO_ZONE;
use crate::limits::Limited;
use crate::shared::from_bytes;
use crate::skeleton::{FirewallSkel, FirewallSkelBuilder, types};
use crate::{DataplaneError, Reason, Tally};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use policy::settings::FLOWS;
use policy::tables::Counters;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;

/// Zones at most, with `self`: `MAX_ZONES` in C.
pub(crate) const MAX_ZONES: usize = 64;
/// Flows that find a place in one bucket: `BUCKET_SLOTS` in C.
const BUCKET_SLOTS: u64 = 7;

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

/// Which policy is in force: 1 for the first that was applied, then 2 and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// The loaded programs with their maps. When it goes, the programs leave their interfaces.
#[allow(missing_debug_implementations, reason = "a generated skeleton has none")]
pub struct Firewall {
    pub(crate) skel: FirewallSkel<'static>,
    pub(crate) settings: Settings,
    pub(crate) generation: u32,
    pub(crate) counters: Counters,
    /// Those of the generation before, and its number.
    pub(crate) counters_before: (u32, Counters),
    pub(crate) ring: Ring,
    pub(crate) limited: Limited,
    /// Names of zones; the place is the data plane's number, which a zone keeps.
    pub(crate) zones: Vec<String>,
    /// For each zone of the policy in force, the data plane's number.
    pub(crate) applied_zones: Vec<u8>,
    pub(crate) interfaces: Vec<Interface>,
}

impl Firewall {
    /// Loads the programs. Nothing passes them before [`Firewall::attach`], and until a policy is applied they drop
    /// everything but ARP and neighbour discovery.
    ///
    /// # Errors
    /// A size out of bounds, or the kernel refuses the programs.
    pub fn load(settings: &Settings) -> Result<Self, DataplaneError> {
        check_size("the number of flows", settings.flows, FLOWS)?;
        check_size("the number of rules", settings.rules, (1, 1 << 20))?;
        // The skeleton borrows its object for as long as it lives; a firewall lives as long as its process.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = FirewallSkelBuilder::default()
            .open(storage)
            .map_err(DataplaneError::bpf("opening bpf/firewall"))?;
        let cores = cores()?;
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
        }
        let skel = open.load().map_err(DataplaneError::bpf(
            "loading the firewall into the kernel (this needs root, and memory for the flow table)",
        ))?;
        let ring = Ring::of(&skel.maps.events)?;
        Ok(Self {
            skel,
            settings: *settings,
            generation: 0,
            counters: Counters::default(),
            counters_before: (0, Counters::default()),
            ring,
            limited: Limited::default(),
            zones: vec!["self".to_owned()],
            applied_zones: Vec::new(),
            interfaces: Vec::new(),
        })
    }

    /// What the programs may change or read at any time.
    pub(crate) fn shared(&mut self) -> Result<&mut types::bss, DataplaneError> {
        self.skel.maps.bss_data.as_deref_mut().ok_or_else(no_memory)
    }

    /// The same, to read.
    pub(crate) fn shared_now(&self) -> Result<&types::bss, DataplaneError> {
        self.skel.maps.bss_data.as_deref().ok_or_else(no_memory)
    }

    /// The data plane's number of a zone, a new one if need be. A zone keeps its number whatever policies say.
    pub(crate) fn zone_number(&mut self, name: &str) -> Result<u8, DataplaneError> {
        let known = self.zones.iter().position(|zone| zone == name);
        let number = known.unwrap_or(self.zones.len());
        if number >= MAX_ZONES {
            return Err(DataplaneError::NoRoom { what: format!("zone `{name}`"), most: MAX_ZONES as u32 });
        }
        if known.is_none() {
            self.zones.push(name.to_owned());
        }
        Ok(u8::try_from(number).unwrap_or(NO_ZONE))
    }

    /// The name of a zone by the data plane's number.
    pub(crate) fn zone_name(&self, number: u8) -> &str {
        self.zones.get(usize::from(number)).map_or("?", String::as_str)
    }

    /// How many packets were dropped, by reason; all cores together. Reasons that never occurred are there with 0.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn drops(&self) -> Result<BTreeMap<Reason, u64>, DataplaneError> {
        let counts = self.counts()?;
        let of = |reason: Reason| counts.iter().map(|core| core.drops[reason.number() as usize]).sum();
        Ok(Reason::ALL.into_iter().map(|reason| (reason, of(reason))).collect())
    }

    /// What else is counted; all cores together.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn tallies(&self) -> Result<BTreeMap<Tally, u64>, DataplaneError> {
        let counts = self.counts()?;
        let of = |tally: Tally| counts.iter().map(|core| core.tallies[tally.number() as usize]).sum();
        Ok(Tally::ALL.into_iter().map(|tally| (tally, of(tally))).collect())
    }

    fn counts(&self) -> Result<Vec<types::counts>, DataplaneError> {
        let cores = self
            .skel
            .maps
            .counts
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(DataplaneError::bpf("reading the counters"))?;
        Ok(cores.iter().flatten().filter_map(|core| from_bytes(core)).collect())
    }

    /// Hits of each rule of the policy in force, by name: new flows that it allowed, and packets that it refused.
    ///
    /// # Errors
    /// The kernel does not let the counters be read.
    pub fn rule_hits<'r>(
        &self,
        names: impl IntoIterator<Item = &'r str>,
    ) -> Result<Vec<(&'r str, u64)>, DataplaneError> {
        let cores = cores()?;
        names
            .into_iter()
            .filter_map(|name| Some((name, self.counters.slot(name)?)))
            .map(|(name, slot)| {
                let mut hits = 0;
                for core in 0..cores {
                    hits += self.hit_count(core * self.settings.rules + slot)?;
                }
                Ok((name, hits))
            })
            .collect()
    }

    fn hit_count(&self, place: u32) -> Result<u64, DataplaneError> {
        let found = self.skel.maps.hits.lookup(&place.to_ne_bytes(), MapFlags::ANY);
        let bytes = found.map_err(DataplaneError::bpf("reading the rules' counters"))?;
        let number = bytes.and_then(|b| b.first_chunk::<8>().copied());
        Ok(number.map_or(0, u64::from_ne_bytes))
    }

    /// Sets the counters of some slots to zero, on all cores.
    pub(crate) fn clear_hits(&self, slots: &[u32]) -> Result<(), DataplaneError> {
        for core in 0..cores()? {
            let places: Vec<u32> = slots.iter().map(|slot| core * self.settings.rules + slot).collect();
            for chunk in places.chunks(4096) {
                let keys: Vec<u8> = chunk.iter().flat_map(|place| place.to_ne_bytes()).collect();
                let zeros = vec![0; chunk.len() * 8];
                let count = chunk.len() as u32;
                self.skel
                    .maps
                    .hits
                    .update_batch(&keys, &zeros, count, MapFlags::ANY, MapFlags::ANY)
                    .map_err(DataplaneError::bpf("clearing the rules' counters"))?;
            }
        }
        Ok(())
    }
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
    slots.div_ceil(BUCKET_SLOTS).next_power_of_two() as u32
}

/// Cores that this machine may have, and so rows of per-core arrays.
pub(crate) fn cores() -> Result<u32, DataplaneError> {
    let count = libbpf_rs::num_possible_cpus().map_err(DataplaneError::bpf("counting cores"))?;
    Ok(count as u32)
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
