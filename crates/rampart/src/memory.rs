//! A data plane that lives in memory and judges nothing, for tests of all that stands before it. Tests keep a handle to
//! it: they set its flows and counters, and look at what it was asked to do.

use crate::api::{Block, Counter, Drop, Flow, HookName, Occupancy, Station};
use crate::export::FlowRecord;
use crate::plane::{Attached, BlockKey, DataPlane, FlowKey, Hook, PlaneError, Present, Recorded, Tampering};
use jiff::Timestamp;
use policy::lists::{DomainTables, ListTable};
use policy::model::Log;
use policy::{Policy, Tables};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What the plane holds; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Inside>>);

/// What there is to see and to set.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    /// Tables put in force so far.
    pub(crate) generation: u64,
    /// The rows of the tables in force: names of the rules.
    pub(crate) rows: Vec<String>,
    pub(crate) attached: Vec<String>,
    /// Interfaces that are not there.
    pub(crate) missing: Vec<String>,
    /// Interfaces that are, by number: their names, and whether they may be attached to.
    pub(crate) present: BTreeMap<u32, (String, bool)>,
    /// Of these, by which names they are attached.
    pub(crate) indices: BTreeMap<u32, String>,
    /// Interfaces that went to other zones since the last policy was prepared for, with these.
    pub(crate) moved: Vec<(String, String)>,
    /// Names that are closed until they are attached.
    pub(crate) closed: Vec<String>,
    /// What rules counted.
    pub(crate) hits: HashMap<String, u64>,
    /// Of these, packets beyond a limit.
    pub(crate) limited: HashMap<String, u64>,
    pub(crate) drops: Vec<Drop>,
    /// What else was counted.
    pub(crate) counters: Vec<Counter>,
    /// What is not as it was.
    pub(crate) faults: Vec<String>,
    /// What rules record next, and how long ago it was.
    pub(crate) recorded: Vec<(Duration, Recorded)>,
    pub(crate) suppressed: u64,
    /// Flows that end next, and how many ended without a record.
    pub(crate) ended: (Vec<FlowRecord>, u64),
    pub(crate) flows: BTreeMap<u32, Flow>,
    /// Sources that are blocked.
    pub(crate) blocks: BTreeMap<u64, Block>,
    /// The stations of bridges.
    pub(crate) stations: Vec<Station>,
    /// What somebody did to its programs, and is reported next.
    pub(crate) tampering: Tampering,
    /// It goes on with what an earlier one left.
    pub(crate) took_over: bool,
    /// How often it was swept.
    pub(crate) swept: u64,
    /// The lists in force.
    pub(crate) lists: Option<ListTable>,
    /// The domains in force.
    pub(crate) domains: Option<DomainTables>,
    /// What everything fails with from now on.
    pub(crate) broken: Option<String>,
    /// So many flows and blocks come to their end before everything fails; without it, all.
    pub(crate) ends_left: Option<u32>,
}

impl Memory {
    /// Looks inside.
    pub(crate) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    /// Looks inside to end a flow or a block.
    fn ending(&self) -> Result<MutexGuard<'_, Inside>, PlaneError> {
        let mut inside = self.whole()?;
        match inside.ends_left {
            Some(0) => return Err(PlaneError::Machine("the kernel has no more".to_owned())),
            Some(left) => inside.ends_left = Some(left - 1),
            None => {}
        }
        Ok(inside)
    }

    /// Looks inside unless it is broken.
    fn whole(&self) -> Result<MutexGuard<'_, Inside>, PlaneError> {
        let inside = self.inside();
        match &inside.broken {
            Some(why) => Err(PlaneError::Machine(why.clone())),
            None => Ok(inside),
        }
    }
}

impl DataPlane for Memory {
    fn apply(
        &mut self,
        tables: &Tables,
        policy: &Policy,
        lists: Option<&ListTable>,
        domains: Option<&DomainTables>,
    ) -> Result<u64, PlaneError> {
        let mut inside = self.whole()?;
        inside.domains = domains.cloned();
        if policy.lists.is_empty() {
            inside.lists = None;
        } else if let Some(lists) = lists {
            inside.lists = Some(lists.clone());
        } else if inside.lists.is_none() {
            return Err(PlaneError::Machine("nothing is on the lists".to_owned()));
        }
        if let Some(rule) = policy.rules.iter().find(|rule| rule.effect.log != Log::Nothing) {
            return Err(PlaneError::Rule {
                rule: rule.name.clone(),
                message: "this data plane cannot log".to_owned(),
                help: Some("take `log` out".to_owned()),
            });
        }
        inside.rows = tables.rules.iter().map(|i| policy.rules[*i as usize].name.clone()).collect();
        let names: Vec<&str> = policy.rules.iter().map(|rule| rule.name.as_str()).collect();
        inside.hits.retain(|name, _| names.contains(&name.as_str()));
        inside.generation += 1;
        Ok(inside.generation)
    }

    fn exchange_domains(&mut self, domains: &DomainTables) -> Result<(), PlaneError> {
        self.whole()?.domains = Some(domains.clone());
        Ok(())
    }

    fn prepare(&mut self, _: &Policy) -> Result<(), PlaneError> {
        self.inside().moved.clear();
        Ok(())
    }

    fn move_to(&mut self, interface: &str, zone: &str) {
        self.inside().moved.push((interface.to_owned(), zone.to_owned()));
    }

    fn end_moved(&mut self) -> Result<(), PlaneError> {
        Ok(())
    }

    fn settle(&mut self) -> Result<Option<String>, PlaneError> {
        Ok(None)
    }

    fn took_over(&self) -> bool {
        self.inside().took_over
    }

    fn check_programs(&mut self) -> Tampering {
        let mut inside = self.inside();
        Tampering {
            mended: std::mem::take(&mut inside.tampering.mended),
            standing: inside.tampering.standing.clone(),
            moved: std::mem::take(&mut inside.tampering.moved),
        }
    }

    fn attach(&mut self, zone: &str, interface: &str, hook: Hook) -> Result<Attached, PlaneError> {
        let mut inside = self.whole()?;
        if inside.missing.iter().any(|name| name == interface) {
            return Err(PlaneError::Machine(format!("there is no interface `{interface}`")));
        }
        let index = inside.present.iter().find(|(_, (name, _))| name == interface).map(|(index, _)| *index);
        if let Some(before) = index.and_then(|index| inside.indices.insert(index, interface.to_owned())) {
            inside.attached.retain(|name| *name != before);
        }
        inside.attached.push(interface.to_owned());
        let (hook, note) = match hook {
            Hook::Xdp => (HookName::Tc, Some("the driver has no XDP".to_owned())),
            Hook::Auto | Hook::Tc => (HookName::Tc, None),
        };
        Ok(Attached { interface: interface.to_owned(), zone: zone.to_owned(), hook, note })
    }

    fn close_until_attached(&mut self, names: &[String]) -> Result<Option<String>, PlaneError> {
        self.whole()?.closed = names.to_vec();
        Ok(None)
    }

    fn interfaces(&mut self) -> Result<Vec<Present>, PlaneError> {
        let inside = self.whole()?;
        let present = |(index, (name, is_ready)): (&u32, &(String, bool))| Present {
            name: name.clone(),
            attached_as: inside.indices.get(index).cloned(),
            is_ready: *is_ready,
        };
        Ok(inside.present.iter().map(present).collect())
    }

    fn gone(&mut self, indices: &[u32]) {
        let mut inside = self.inside();
        for name in indices.iter().filter_map(|index| inside.indices.remove(index)).collect::<Vec<_>>() {
            inside.attached.retain(|attached| *attached != name);
        }
    }

    fn detach(&mut self, interface: &str) -> Result<(), PlaneError> {
        let mut inside = self.inside();
        inside.attached.retain(|name| name != interface);
        inside.indices.retain(|_, name| name != interface);
        Ok(())
    }

    fn rule_hits(&mut self, _: &Policy) -> Result<HashMap<String, u64>, PlaneError> {
        Ok(self.whole()?.hits.clone())
    }

    fn limited(&mut self) -> Result<HashMap<String, u64>, PlaneError> {
        Ok(self.whole()?.limited.clone())
    }

    fn drops(&mut self) -> Result<Vec<Drop>, PlaneError> {
        Ok(self.whole()?.drops.clone())
    }

    fn counters(&mut self) -> Result<Vec<Counter>, PlaneError> {
        Ok(self.whole()?.counters.clone())
    }

    fn events(&mut self, each: &mut dyn FnMut(Duration, Recorded)) -> Result<u64, PlaneError> {
        let mut inside = self.whole()?;
        inside.recorded.drain(..).for_each(|(ago, recorded)| each(ago, recorded));
        Ok(inside.suppressed)
    }

    fn flow_records(&mut self, _: Timestamp) -> Result<(Vec<FlowRecord>, u64), PlaneError> {
        let mut inside = self.whole()?;
        Ok((std::mem::take(&mut inside.ended.0), inside.ended.1))
    }

    fn flows(&mut self, each: &mut dyn FnMut(FlowKey, Flow)) -> Result<(), PlaneError> {
        let inside = self.whole()?;
        inside.flows.iter().for_each(|(key, flow)| each(FlowKey(*key, 1), flow.clone()));
        Ok(())
    }

    fn kill(&mut self, flow: FlowKey) -> Result<bool, PlaneError> {
        Ok(self.ending()?.flows.remove(&flow.0).is_some())
    }

    fn blocked(&mut self) -> Result<Vec<(BlockKey, Block)>, PlaneError> {
        Ok(self.whole()?.blocks.iter().map(|(key, block)| (BlockKey(*key), block.clone())).collect())
    }

    fn unblock(&mut self, block: BlockKey) -> Result<bool, PlaneError> {
        Ok(self.ending()?.blocks.remove(&block.0).is_some())
    }

    fn stations(&mut self) -> Result<Vec<Station>, PlaneError> {
        Ok(self.whole()?.stations.clone())
    }

    fn occupancy(&mut self) -> Result<Occupancy, PlaneError> {
        let open = self.whole()?.flows.len() as u64;
        Ok(Occupancy { open, half_open: 0, unanswered: 0, capacity: 1_048_576 })
    }

    fn sweep(&mut self) -> Result<(), PlaneError> {
        self.whole()?.swept += 1;
        Ok(())
    }

    fn check_interfaces(&mut self) -> Result<Vec<String>, PlaneError> {
        Ok(self.whole()?.faults.clone())
    }
}
