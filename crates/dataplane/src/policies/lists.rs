//! Lists of addresses in the kernel: the pages that `bpf/firewall/lists.h` reads. The outer map has two places. A new table goes into the
//! one that nobody asks, and the policy's tables name it; so a packet sees the lists of its policy, and all of them in one version. Beside each of
//! the two are the tables of domains, which are exchanged by themselves, while a policy is in force.

use super::pages::PAGE_BYTES;
use super::{BATCH, empty_array, write_pages};
use crate::DataplaneError;
use crate::shared::{bytes_of, bytes_of_words};
use crate::skeleton::types;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use policy::lists::{DomainTables, ListTable};
use policy::model::Policy;
use std::os::fd::{AsFd, AsRawFd};

/// Places of the outer map, by the number that the policy's tables have of each.
const PLACES: [u32; 2] = [1, 2];
/// The same of the tables of domains beside each: what they are now, and what known flows are judged by.
const fn beside(place: u32) -> [u32; 2] {
    [place * 2 + 1, place * 2 + 2]
}
/// Words of a start of IPv6.
const START_WORDS: usize = size_of::<types::list_start>() / 4;

/// The lists in the kernel.
pub(crate) struct Lists {
    places: MapHandle,
    /// The place that the policy in force asks, and 1; 0: none.
    in_force: u32,
}

impl Lists {
    pub(crate) fn new(places: MapHandle) -> Self {
        Self { places, in_force: 0 }
    }

    pub(super) fn in_force(&self) -> u32 {
        self.in_force
    }

    /// Where the lists of a policy will be.
    ///
    /// # Errors
    /// It has lists, and nothing is on them.
    pub(super) fn next_place(
        &self,
        policy: &Policy,
        table: Option<&ListTable>,
    ) -> Result<u32, DataplaneError> {
        match (policy.lists.is_empty(), table, self.in_force) {
            (true, _, _) => Ok(0),
            (false, Some(_), before) => Ok(if before == PLACES[0] { PLACES[1] } else { PLACES[0] }),
            (false, None, 0) => Err(DataplaneError::NoLists),
            (false, None, before) => Ok(before),
        }
    }

    /// Writes tables to a place that nobody asks.
    pub(super) fn write(
        &self,
        place: u32,
        table: Option<&ListTable>,
        domains: Option<&DomainTables>,
    ) -> Result<(), DataplaneError> {
        let Some(table) = table.filter(|_| place != 0) else { return Ok(()) };
        self.put(place, table)?;
        domains.map_or(Ok(()), |domains| self.put_domains(place, domains))
    }

    /// Exchanges what domains stand for. A known flow finds its address before new ones do.
    pub(super) fn put_domains(&self, place: u32, domains: &DomainTables) -> Result<(), DataplaneError> {
        let [now, known] = beside(place);
        self.put(known, &domains.known)?;
        self.put(now, &domains.now)
    }

    fn put(&self, place: u32, table: &ListTable) -> Result<(), DataplaneError> {
        let array = array_of(table)?;
        self.places
            .update(&key(place), &array.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(DataplaneError::bpf("putting lists of addresses where the policy finds them"))
    }

    /// The policy in force asks this place from now on, and no packet asks another one any more.
    pub(super) fn put_in_force(&mut self, place: u32) {
        self.in_force = place;
        self.forget_but(place);
    }

    /// Gives the memory of all other places back.
    pub(super) fn forget_but(&self, place: u32) {
        for other in PLACES.into_iter().filter(|other| *other != place) {
            // Nothing is there most of the time.
            for one in beside(other).into_iter().chain([other]) {
                let _ = self.places.delete(&key(one));
            }
        }
    }
}

fn key(place: u32) -> [u8; 4] {
    (place - 1).to_ne_bytes()
}

/// Writes the pages one after the other, so that a large table is in this process's memory once.
fn array_of(table: &ListTable) -> Result<MapHandle, DataplaneError> {
    let page_words = PAGE_BYTES / 4;
    let words = [table.index.len(), table.entries.len(), table.masks.len()];
    let index = page_words;
    let entries = index + words[0];
    let masks = entries + words[1];
    let starts = (masks + words[2]).next_multiple_of(START_WORDS);
    let end = starts + table.starts.len() * START_WORDS;
    let header = types::list_header {
        index_bits: table.index_bits,
        index: index as u32,
        entries: entries as u32,
        masks: masks as u32,
        starts: starts as u32,
        start_count: table.starts.len() as u32,
        ..Default::default()
    };
    let array = empty_array(end.div_ceil(page_words), "making room for lists of addresses")?;
    let mut writer = Writer { array: &array, first: 0, bytes: Vec::with_capacity(BATCH * PAGE_BYTES) };
    writer.add(bytes_of(&header))?;
    for words in [&table.index, &table.entries, &table.masks] {
        for words in words.chunks(page_words) {
            writer.words(words)?;
        }
    }
    writer.words(&vec![0; starts - masks - words[2]])?;
    for start in &table.starts {
        let numbers = [(start.first >> 64) as u64, start.first as u64, start.lists.into(), 0];
        writer.add(numbers.map(u64::to_ne_bytes).as_flattened())?;
    }
    writer.finish()?;
    Ok(array)
}

/// Pages on their way into an array.
struct Writer<'a> {
    array: &'a MapHandle,
    /// The page that the next bytes belong to.
    first: u32,
    bytes: Vec<u8>,
}

impl Writer<'_> {
    fn words(&mut self, words: &[u32]) -> Result<(), DataplaneError> {
        self.bytes.extend_from_slice(bytes_of_words(words));
        self.flush_if_full()
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), DataplaneError> {
        self.bytes.extend_from_slice(bytes);
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> Result<(), DataplaneError> {
        let whole = self.bytes.len() / PAGE_BYTES * PAGE_BYTES;
        if whole < BATCH * PAGE_BYTES {
            return Ok(());
        }
        write_pages(self.array, self.first, &self.bytes[..whole])?;
        self.first += (whole / PAGE_BYTES) as u32;
        self.bytes.drain(..whole);
        Ok(())
    }

    fn finish(mut self) -> Result<(), DataplaneError> {
        self.bytes.resize(self.bytes.len().next_multiple_of(PAGE_BYTES), 0);
        if self.bytes.is_empty() { Ok(()) } else { write_pages(self.array, self.first, &self.bytes) }
    }
}
