//! What an earlier firewall left in this network namespace: its programs at interfaces, and by them its maps. It is found by asking
//! the kernel what is attached, so there is nothing that could be out of date, be lost, or be left behind by a namespace that is
//! gone.

use crate::DataplaneError;
use crate::firewall::Settings;
use crate::layout::Layout;
use crate::notes::{self, BUILD, Notes};
use crate::ports::{Listed, close_leftovers, ours, take_ours};
use crate::skeleton::types;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

/// Names of maps have so many characters in the kernel.
const NAME: usize = 15;

/// An earlier firewall's programs and maps.
pub struct Earlier {
    interfaces: Vec<String>,
    maps: HashMap<String, MapHandle>,
    notes: Option<Notes>,
    layout: Option<Layout>,
}

impl Earlier {
    /// Looks at the interfaces of this network namespace. `None` when no firewall was there.
    ///
    /// # Errors
    /// Not root, or what the kernel refuses.
    pub fn find() -> Result<Option<Self>, DataplaneError> {
        let doing = "looking for the programs of an earlier firewall";
        let all = nix::net::if_::if_nameindex().map_err(|e| DataplaneError::system(doing)(e.into()))?;
        let mut interfaces = Vec::new();
        let (mut maps, mut layout) = (HashSet::new(), None);
        for interface in &all {
            let programs: Vec<Listed> = ours(interface.index());
            if programs.is_empty() {
                continue;
            }
            interfaces.push(interface.name().to_string_lossy().into_owned());
            layout = layout.or_else(|| programs.iter().find_map(|program| Layout::of_program(program.id)));
            maps.extend(programs.into_iter().flat_map(|program| program.maps));
        }
        if interfaces.is_empty() {
            return Ok(None);
        }
        let maps = maps.into_iter().map(MapHandle::from_map_id).collect::<Result<Vec<_>, _>>();
        let maps = maps.map_err(DataplaneError::bpf("opening the maps of an earlier firewall"))?;
        Ok(Some(Self::of(interfaces, maps, layout)))
    }

    fn of(interfaces: Vec<String>, all: Vec<MapHandle>, layout: Option<Layout>) -> Self {
        let mut maps: HashMap<String, MapHandle> = HashMap::new();
        let mut is_mixed = false;
        for map in all {
            let name = map.name().to_string_lossy().into_owned();
            let is_twice = maps.insert(name.clone(), map).is_some();
            // A firewall that goes on with an earlier one's maps has constants of its own, and the same.
            is_mixed |= is_twice && name != RODATA;
        }
        // Programs of two firewalls, one of which ended while it took over: neither has all flows, and nothing says which are the newer one's.
        let notes = if is_mixed { None } else { maps.get("generations").and_then(notes_of) };
        Self { interfaces, maps, notes, layout }
    }

    /// The interfaces that it was on.
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// Why its flows, counters and tables cannot be taken over as they are; `None` if they can.
    pub fn difference(&self, settings: &Settings) -> Option<String> {
        let Some(notes) = &self.notes else {
            return Some("what an earlier firewall left has another form".to_owned());
        };
        if notes.build != BUILD {
            return Some("the firewall before was another build".to_owned());
        }
        let flows = self.maps.get("flows").map_or(0, MapCore::max_entries);
        if flows != settings.flows {
            return Some(format!(
                "the firewall before had room for {flows} flows, and this one for {}",
                settings.flows
            ));
        }
        let rules = self.constants().map_or(0, |constants| constants.hit_slots);
        (rules < settings.rules).then(|| {
            format!("the firewall before had room for {rules} rules, and this one for {}", settings.rules)
        })
    }

    pub(crate) fn notes(&self) -> Option<&Notes> {
        self.notes.as_ref()
    }

    /// How its flows are laid out.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.layout.clone()
    }

    /// A map by its name in the object.
    pub(crate) fn map(&self, name: &str) -> Option<&MapHandle> {
        let end = name.char_indices().nth(NAME).map_or(name.len(), |(end, _)| end);
        self.maps.get(&name[..end])
    }

    /// What its programs were loaded with; only of the same build.
    pub(crate) fn constants(&self) -> Option<Constants> {
        let map = self.map(RODATA)?;
        let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let mut secret = Secret::default();
        for (number, word) in secret.iter_mut().enumerate() {
            *word = long(offset_of!(types::rodata, secret) + 8 * number)?;
        }
        Some(Constants { secret, hit_slots: word(offset_of!(types::rodata, hit_slots))? })
    }

    /// Takes all of its programs away.
    ///
    /// # Errors
    /// What the kernel refuses; interfaces before that one are free.
    pub fn take_away(&self) -> Result<(), DataplaneError> {
        close_leftovers()?;
        self.interfaces.iter().try_for_each(|interface| take_from(interface))
    }
}

/// Takes whatever firewall's programs away from an interface. An interface that is gone has none.
///
/// # Errors
/// What the kernel refuses.
pub fn take_from(interface: &str) -> Result<(), DataplaneError> {
    let Ok(index) = nix::net::if_::if_nametoindex(interface) else { return Ok(()) };
    take_ours(index).map_err(DataplaneError::bpf(format!("taking the firewall away from `{interface}`")))
}

/// Words of the secret of hashes.
pub(crate) const SECRETS: usize = types::sizes::HASH_SECRETS.0 as usize;
/// The secret of hashes.
pub(crate) type Secret = [u64; SECRETS];

/// What programs were loaded with, as far as a later firewall must have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constants {
    pub(crate) secret: Secret,
    pub(crate) hit_slots: u32,
}

/// Name of the map of constants, which is never shared: the loader writes it.
pub(crate) const RODATA: &str = "firewall.rodata";

/// The notes of the generation in force.
fn notes_of(generations: &MapHandle) -> Option<Notes> {
    let id = generations.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
    let pages = MapHandle::from_map_id(u32::from_ne_bytes(*id.first_chunk()?)).ok()?;
    let (page, count) = (pages.value_size() as usize, pages.max_entries());
    let read = |number: u32| pages.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok().flatten();
    let length = notes::length(&read(count.checked_sub(1)?)?)?;
    let wanted = u32::try_from(notes::room(length)?.div_ceil(page)).ok()?;
    let mut end = Vec::with_capacity(wanted as usize * page);
    for number in count.checked_sub(wanted)?..count {
        end.extend_from_slice(&read(number)?);
    }
    notes::read(&end)
}
