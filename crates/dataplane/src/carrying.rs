//! Flows of an earlier firewall whose maps this one cannot use: another build, or a table of another size. They are read by the earlier
//! build's own description of them and put into this firewall's table, twice: before its programs take the place of the earlier ones,
//! and right after, what has changed meanwhile. Each is judged by the policy in force at its next packet.

use crate::earlier::Earlier;
use crate::layout::{Layout, Translation, is_in_use};
use crate::names::{MARK_SLOT, slot_of_mark};
use crate::shared::{Program, from_bytes};
use crate::skeleton::types;
use crate::{DataplaneError, Firewall};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

/// Records that are read by one system call: 512 KiB.
const BATCH: u32 = 4096;
/// What the program `take_flow` returns.
const TAKEN: u32 = types::xdp_action::XDP_PASS.0;
const CAUGHT_UP: u32 = types::xdp_action::XDP_TX.0;

/// What became of an earlier firewall's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Flows that are in this firewall's table now.
    pub flows: u64,
    /// Flows that it could not take: no room, or another layout.
    pub left: u64,
}

/// The flows of an earlier firewall while they are carried over.
pub struct Carrying {
    earlier: Layout,
    translation: Option<Translation>,
    /// By the earlier firewall's slots, the names of rules.
    rules: HashMap<u32, String>,
    /// What records were when they were carried, by their numbers.
    seen: HashMap<u32, u64>,
    carried: Carried,
}

impl Carrying {
    /// Prepares for the flows of an earlier firewall. `None` if it has no table of flows that can be read at all.
    ///
    /// # Errors
    /// The kernel does not describe our own programs, or the firewall was not loaded by [`Firewall::load_after`].
    pub fn of(firewall: &Firewall, earlier: &Earlier) -> Result<Option<Self>, DataplaneError> {
        let own = program_of(firewall)?.id().map_err(DataplaneError::bpf("looking at our own programs"))?;
        let Some(layout) = earlier.layout() else { return Ok(None) };
        let own = Layout::of_program(own);
        // Without its notes nobody knows what the numbers of its zones mean.
        let known = earlier.notes().and(own);
        let translation = known.and_then(|own| Translation::between(&layout, &own));
        let rules = earlier.notes().map(|notes| notes.rules.iter().map(|(name, slot)| (*slot, name.clone())));
        Ok(Some(Self {
            earlier: layout,
            translation,
            rules: rules.into_iter().flatten().collect(),
            seen: HashMap::new(),
            carried: Carried::default(),
        }))
    }

    /// Carries over what has changed since the last call; the first time everything. To be called when the policy is in force,
    /// and once more when the programs are in their places.
    ///
    /// # Errors
    /// The kernel does not let the earlier table be read.
    pub fn carry(&mut self, firewall: &Firewall, earlier: &Earlier) -> Result<Carried, DataplaneError> {
        let Some(table) = earlier.map("flows") else { return Ok(self.carried) };
        let names = firewall.flows.names.now();
        let records = table
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(DataplaneError::bpf("reading the flows of an earlier firewall"))?;
        for (record, (_, bytes)) in (0..).zip(records) {
            if !is_in_use(&self.earlier, &bytes) {
                continue;
            }
            let before = self.seen.insert(record, hash(&bytes));
            if before == self.seen.get(&record).copied() {
                continue;
            }
            let translated = self.translation.as_ref().and_then(|translation| translation.apply(&bytes));
            let slot = |mark| names.slots().slot(self.rules.get(&slot_of_mark(mark)?)?);
            let taken = match translated.and_then(|bytes| from_bytes::<types::flow>(&bytes)) {
                Some(flow) => take(program_of(firewall)?, with_rule(flow, slot)),
                None => Ok(None),
            };
            match taken.map_err(DataplaneError::system("taking flows over"))? {
                Some(TAKEN) => self.carried.flows += 1,
                Some(CAUGHT_UP) => {}
                // Counted once, however often it changes.
                _ => self.carried.left += u64::from(before.is_none()),
            }
        }
        Ok(self.carried)
    }
}

/// The program that puts flows into a firewall's table.
fn program_of(firewall: &Firewall) -> Result<&Program, DataplaneError> {
    let missing = || std::io::Error::other("this firewall was loaded without the program for it");
    firewall.flows.take_flow.as_ref().ok_or_else(missing).map_err(DataplaneError::system("taking flows over"))
}

/// A flow as a rule of this firewall allowed it, or none; judged again at its next packet.
fn with_rule(flow: types::flow, slot: impl Fn(u32) -> Option<u32>) -> types::flow {
    let mark = slot(flow.mark).map_or(MARK_SLOT, |slot| slot & MARK_SLOT);
    types::flow { generation: 0, mark, ..flow }
}

fn take(program: &Program, flow: types::flow) -> std::io::Result<Option<u32>> {
    let run = program.run(crate::shared::bytes_of(&flow), &[], &mut [], 1)?;
    Ok(Some(run.value))
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
