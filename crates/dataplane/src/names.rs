//! What the numbers in the maps mean: zones, and the counters of rules. The parts of the firewall share them.

use crate::DataplaneError;
use crate::skeleton::types::{mark_bits, sizes};
use policy::tables::Counters as Slots;
use std::sync::{Arc, Mutex, PoisonError};

/// Names of numbers at a moment.
#[derive(Clone)]
pub(crate) struct Names {
    /// The place is the data plane's number of the zone.
    zones: Vec<String>,
    /// The policies whose rules can still be named, with their generations: the one in force, and the one before it.
    rules: [(u32, Slots); 2],
}

/// The names that are valid now; clones share them.
#[derive(Clone)]
pub(crate) struct SharedNames(Arc<Mutex<Arc<Names>>>);

impl Default for SharedNames {
    fn default() -> Self {
        let names = Names { zones: vec!["self".to_owned()], rules: Default::default() };
        Self(Arc::new(Mutex::new(Arc::new(names))))
    }
}

impl SharedNames {
    pub(crate) fn now(&self) -> Arc<Names> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Names) -> T) -> T {
        change(Arc::make_mut(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The data plane's number of a zone, which a zone keeps whatever later policies say.
    ///
    /// # Errors
    /// There are too many zones.
    pub(crate) fn zone_number(&self, name: &str) -> Result<u8, DataplaneError> {
        let most = sizes::MAX_ZONES.0;
        self.change(|names| {
            let number = names.zones.iter().position(|zone| zone == name).unwrap_or_else(|| {
                names.zones.push(name.to_owned());
                names.zones.len() - 1
            });
            if number >= most as usize {
                names.zones.pop();
                return Err(DataplaneError::NoRoom { what: format!("zone `{name}`"), most });
            }
            Ok(number as u8)
        })
    }
}

impl Names {
    pub(crate) fn zone(&self, number: u8) -> Option<&str> {
        self.zones.get(usize::from(number)).map(String::as_str)
    }

    /// By the data plane's number.
    pub(crate) fn zones(&self) -> &[String] {
        &self.zones
    }

    /// The numbers that an earlier firewall gave.
    pub(crate) fn set_zones(&mut self, zones: &[String]) {
        self.zones = zones.to_vec();
    }

    pub(crate) fn generation(&self) -> u32 {
        self.rules[0].0
    }

    /// The counters of the rules in force.
    pub(crate) fn slots(&self) -> &Slots {
        &self.rules[0].1
    }

    /// Another generation is in force. Events of the one before may still be in the ring.
    pub(crate) fn put_in_force(&mut self, generation: u32, slots: Slots) {
        self.rules.swap(0, 1);
        self.rules[0] = (generation, slots);
    }

    /// The rules in force by their slots.
    pub(crate) fn rules(&self) -> Vec<Option<&str>> {
        by_slot(self.slots())
    }

    /// Rules by their slots, of every generation whose rules can still be named.
    pub(crate) fn rules_by_generation(&self) -> [(u32, Vec<Option<&str>>); 2] {
        self.rules.each_ref().map(|(generation, slots)| (*generation, by_slot(slots)))
    }
}

fn by_slot(slots: &Slots) -> Vec<Option<&str>> {
    let mut by_slot = vec![None; slots.size() as usize];
    for (name, slot) in slots.names() {
        by_slot[slot as usize] = Some(name);
    }
    by_slot
}

/// The lower bits of a flow's mark: the slot, and no more.
pub(crate) const MARK_SLOT: u32 = mark_bits::MARK_SLOT.0;

/// The slot in a flow's mark, unless it has none.
pub(crate) fn slot_of_mark(mark: u32) -> Option<u32> {
    Some(mark & MARK_SLOT).filter(|slot| *slot != MARK_SLOT)
}

/// No counter, `NO_SLOT` in C.
pub(crate) const NO_SLOT: u32 = u32::MAX;
