//! A point with all that its identifiers name, and the sums over the trials that decided it.

use super::{
    Cell, CoreUse, CpuUse, Detail, LatencySummary, Point, Results, Role, Run, SearchOutcome, Sent, Trial,
};
use crate::application::ApplicationOutcome;
use crate::bulk::BulkOutcome;
use crate::connections::ConnectionOutcome;
use crate::ledger::Ledger;
use crate::level::Level;
use crate::mix::{ALL, MixOutcome, PART, PartOutcome};
use crate::trial::LaneOutcome;
use std::collections::BTreeMap;
use std::ops::Deref;

/// A point with its cell, its firewall's role and its run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading<'a> {
    /// The point.
    pub point: &'a Point,
    /// Its cell.
    pub cell: &'a Cell,
    /// What its firewall is to the reader.
    pub role: Role,
    /// The trials of its firewall in that cell; none when the run was cut short before they were written.
    pub run: Option<&'a Run>,
}

impl Deref for Reading<'_> {
    type Target = Point;

    fn deref(&self) -> &Point {
        self.point
    }
}

impl Results {
    /// Every point with what it names. A point whose cell is not there, which no run writes, is left out.
    pub fn readings(&self) -> impl Iterator<Item = Reading<'_>> {
        let cells: BTreeMap<u32, &Cell> = self.cells.iter().map(|cell| (cell.id, cell)).collect();
        let roles: BTreeMap<&str, Role> = self.firewalls.iter().map(|f| (f.name.as_str(), f.role)).collect();
        let runs: BTreeMap<(u32, &str), &Run> =
            self.runs.iter().map(|run| ((run.cell, run.dut.as_str()), run)).collect();
        self.points.iter().filter_map(move |point| {
            let cell = *cells.get(&point.cell)?;
            let role = roles.get(point.dut.as_str()).copied().unwrap_or(Role::Firewall);
            let run = runs.get(&(point.cell, point.dut.as_str())).copied();
            Some(Reading { point, cell, role, run })
        })
    }
}

impl<'a> Reading<'a> {
    /// Test of the suite.
    pub fn test(&self) -> &'a str {
        &self.cell.test
    }

    /// What loads, ledgers and losses count.
    pub fn sent(&self) -> Sent {
        self.cell.workload
    }

    /// The level of a factor, `cores` and `placement` left out.
    pub fn level(&self, factor: &str) -> Option<&'a Level> {
        self.point.at.get(factor).or_else(|| self.cell.factors.get(factor))
    }

    /// The part of a mix that it is of; `None` of the whole, and where there is no mix.
    pub fn part_name(&self) -> Option<&'a str> {
        self.point.at.get(PART).map(|level| level.text.as_str()).filter(|part| *part != ALL)
    }

    /// What became of a mix in the typical trial.
    pub fn mix(&self) -> Option<&'a MixOutcome> {
        self.typical()?.detail.as_deref()?.application.as_ref()?.mix.as_deref()
    }

    /// What became of the part of a mix that it is of, in the typical trial.
    pub fn part(&self) -> Option<&'a PartOutcome> {
        self.mix()?.part(self.part_name()?)
    }

    /// Every factor but cores and placement, and its level.
    pub fn factors(&self) -> impl Iterator<Item = (&'a str, &'a Level)> {
        let at = &self.point.at;
        let cell = self.cell.factors.iter().filter(|(factor, _)| !at.contains_key(*factor));
        cell.chain(at).map(|(factor, level)| (factor.as_str(), level))
    }

    /// Every factor and its level.
    pub fn levels(&self) -> BTreeMap<String, Level> {
        let mut levels: BTreeMap<String, Level> =
            self.factors().map(|(factor, level)| (factor.to_owned(), level.clone())).collect();
        levels.insert("cores".into(), Level::read("cores", &self.cell.cores.to_string()));
        levels.insert("placement".into(), Level::read("placement", self.cell.placement.name()));
        levels
    }

    /// All trials of its run.
    pub fn trials(&self) -> &'a [Trial] {
        self.run.map_or(&[], |run| &run.trials)
    }

    /// The searches of its run, in the order of the rounds.
    pub fn searches(&self) -> &'a [SearchOutcome] {
        self.run.map_or(&[], |run| &run.searches)
    }

    /// The trial of an identifier.
    fn trial(&self, id: u32) -> Option<&'a Trial> {
        let trials = self.trials();
        trials.get(id as usize).filter(|t| t.id == id).or_else(|| trials.iter().find(|t| t.id == id))
    }

    /// The trials that the value rests on.
    pub fn deciding(&self) -> impl Iterator<Item = &'a Trial> {
        self.point.deciding.iter().filter_map(|id| self.trial(*id))
    }

    /// The one of them that stands for all.
    pub fn typical(&self) -> Option<&'a Trial> {
        self.point.typical.and_then(|id| self.trial(id))
    }

    /// Whether another value rests on the same trials: several metrics may come from one, and several stretches of time.
    pub fn shares_trials(&self, other: &Reading<'_>) -> bool {
        (self.point.cell, &self.point.dut) == (other.point.cell, &other.point.dut)
            && !self.point.deciding.is_empty()
            && self.point.deciding == other.point.deciding
    }

    fn details(&self) -> impl Iterator<Item = &'a Detail> {
        self.deciding().filter_map(|trial| trial.detail.as_deref())
    }

    /// Sum over the deciding trials.
    pub fn ledger(&self) -> Ledger {
        Ledger::sum(self.details().map(|detail| &detail.ledger))
    }

    /// Latency of frames in the typical trial.
    pub fn latency_ns(&self) -> Option<LatencySummary> {
        self.typical()?.latency_ns
    }

    /// Each direction in the typical trial.
    pub fn lanes(&self) -> &'a [LaneOutcome] {
        let detail = self.typical().and_then(|trial| trial.detail.as_deref());
        detail.map_or(&[], |detail| &detail.lanes)
    }

    /// What became of the connections of the typical trial.
    pub fn connections(&self) -> Option<&'a ConnectionOutcome> {
        self.typical()?.detail.as_deref()?.connections.as_ref()
    }

    /// What became of the bulk transfers of the deciding trials, together.
    pub fn bulk(&self) -> Option<BulkOutcome> {
        let mut of_trials = self.details().filter_map(|detail| detail.bulk.as_ref());
        let mut sum = of_trials.next()?.clone();
        of_trials.for_each(|other| sum.add(other));
        Some(sum)
    }

    /// What became of the application traffic of the deciding trials, together.
    pub fn application(&self) -> Option<ApplicationOutcome> {
        let mut of_trials = self.details().filter_map(|detail| detail.application.as_ref());
        let mut sum = of_trials.next()?.clone();
        of_trials.for_each(|other| sum.add(other));
        Some(sum)
    }

    /// Times of the application traffic of the typical trial.
    pub fn application_times(
        &self,
        times: impl FnOnce(&ApplicationOutcome) -> Option<LatencySummary>,
    ) -> Option<LatencySummary> {
        times(self.typical()?.detail.as_deref()?.application.as_ref()?)
    }

    /// Mean processor time of the deciding trials.
    pub fn cpu(&self) -> CpuUse {
        let mut by_core: BTreeMap<u32, Vec<CoreUse>> = BTreeMap::new();
        for core in self.details().flat_map(|detail| &detail.cpu.cores) {
            by_core.entry(core.core).or_default().push(*core);
        }
        let cores = by_core.into_iter().map(|(core, uses)| {
            let mean = |share: fn(&CoreUse) -> f64| uses.iter().map(share).sum::<f64>() / uses.len() as f64;
            CoreUse {
                core,
                user: mean(|u| u.user),
                system: mean(|u| u.system),
                interrupt: mean(|u| u.interrupt),
                stolen: mean(|u| u.stolen),
                idle: mean(|u| u.idle),
            }
        });
        let mean = |of: fn(&CpuUse) -> Option<f64>| {
            let known: Vec<f64> = self.details().filter_map(|detail| of(&detail.cpu)).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        CpuUse {
            cores: cores.collect(),
            firewall: mean(|cpu| cpu.firewall),
            programs: mean(|cpu| Some(cpu.programs)).unwrap_or(0.0),
            elsewhere: mean(|cpu| Some(cpu.elsewhere)).unwrap_or(0.0),
            foreign: mean(|cpu| Some(cpu.foreign)).unwrap_or(0.0),
        }
    }

    /// The most entries in the firewall's flow table at the end of a deciding trial.
    pub fn flow_entries(&self) -> Option<u64> {
        self.details().filter_map(|detail| detail.flow_entries).max()
    }

    /// The most memory that the firewall used in a deciding trial, in bytes.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.details().filter_map(|detail| detail.memory_bytes).max()
    }

    /// Seconds that loading the policy took.
    pub fn policy_load_seconds(&self) -> Option<f64> {
        self.run.and_then(|run| run.policy_load_seconds)
    }
}
