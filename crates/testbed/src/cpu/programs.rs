//! Processor time of programs and kernel threads, from `/proc/PID/stat`: whose it is, and how much of it was spent between two
//! looks, that of programs included which have ended meanwhile.

use crate::netns::{self, NAMESPACE_FOLDER};
use crate::origin::{self, Drivers};
use crate::stat::{self, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// ns in the unit of `proc(5)`: 100 ticks a second wherever Linux shows them to programs.
const TICK_NS: u64 = 10_000_000;
/// Adopts every orphan: what its children used is nobody's.
const INIT: u32 = 1;

/// Whose work a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The bench and what it started itself.
    Bench,
    /// What belongs to the firewall of the trial.
    Firewall,
    /// A kernel thread, with the core that it ran on last.
    Kernel(u32),
    /// Everybody else's, and that of the firewalls that wait for their turn.
    Foreign,
}

/// Which firewall a program belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Firewall {
    /// The one of this namespace: it runs in there, or comes from a driver outside the tree that does, wherever it has gone since.
    Of(String),
    /// That of some driver outside the tree, which it has left without a trace.
    OfSomeDriver,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    stat: Stat,
    firewall: Option<Firewall>,
    /// Of a firewall's program, its threads.
    threads: BTreeMap<u32, Thread>,
}

/// One thread of a firewall's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thread {
    ticks: u64,
    /// That it ran on last.
    core: u32,
}

/// The threads of a program; none of one that has ended.
fn threads_of(pid: u32) -> BTreeMap<u32, Thread> {
    crate::guest::threads_of(pid)
        .filter_map(|thread| {
            let Stat { ticks, core, .. } = Stat::of_thread(pid, thread)?;
            Some((thread as u32, Thread { ticks, core }))
        })
        .collect()
}

/// The firewall of a trial.
#[derive(Debug, Clone, Default)]
pub(super) struct Tested {
    /// Its namespace, where there is one.
    name: Option<String>,
    /// Whether its driver is a program outside the tree.
    is_outside: bool,
}

impl Tested {
    pub(super) fn new(name: Option<&str>) -> Self {
        Self {
            name: name.map(str::to_owned),
            is_outside: name.is_some_and(|name| origin::drivers().has(name)),
        }
    }
}

/// Every process at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Programs(BTreeMap<u32, Program>);

/// ns that were spent between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// By a firewall's programs.
    pub(super) firewall_ns: u64,
    /// Of that, what was not seen to be done on the trial's cores.
    pub(super) firewall_elsewhere_ns: u64,
    /// By programs that are neither the bench's nor the firewall's.
    pub(super) foreign_ns: u64,
    /// By kernel threads on cores that are not the trial's.
    pub(super) kernel_ns: u64,
}

impl Programs {
    /// All there are now. A program that ends meanwhile is left out.
    pub(super) fn now() -> Self {
        let firewalls: BTreeMap<u64, String> = netns::names()
            .into_iter()
            .filter(|name| name.starts_with("rb-") && name.ends_with("-firewall"))
            .filter_map(|name| {
                Some((fs::metadata(Path::new(NAMESPACE_FOLDER).join(&name)).ok()?.ino(), name))
            })
            .collect();
        let program = |stat| Program { stat, firewall: None, threads: BTreeMap::new() };
        let mut found = Self(stat::all().map(|(pid, stat)| (pid, program(stat))).collect());
        if firewalls.is_empty() {
            return found;
        }
        let drivers = origin::drivers();
        let of_firewalls: Vec<(u32, Firewall)> = found
            .0
            .iter()
            .filter(|(_, program)| !program.stat.kernel_thread)
            .filter_map(|(&pid, program)| Some((pid, found.firewall_of(pid, program, &firewalls, &drivers)?)))
            .collect();
        for (pid, firewall) in of_firewalls {
            found.0.entry(pid).and_modify(|program| {
                program.firewall = Some(firewall);
                program.threads = threads_of(pid);
            });
        }
        found
    }

    fn firewall_of(
        &self,
        pid: u32,
        program: &Program,
        firewalls: &BTreeMap<u64, String>,
        drivers: &Drivers,
    ) -> Option<Firewall> {
        let namespace = fs::metadata(format!("/proc/{pid}/ns/net")).ok();
        if let Some(name) = namespace.and_then(|namespace| firewalls.get(&namespace.ino())) {
            return Some(Firewall::Of(name.clone()));
        }
        if drivers.is_empty() {
            return None;
        }
        // What the bench starts itself stays in its session; a driver outside the tree has one of its own.
        let bench = std::process::id();
        let is_strange = || {
            self.0.get(&bench).is_some_and(|bench| bench.stat.session != program.stat.session)
                && self.ancestors(pid).any(|ancestor| ancestor == bench)
        };
        match drivers.of_process(pid, self.ancestors(pid)) {
            Some(Some(bed)) => Some(Firewall::Of(bed)),
            Some(None) => Some(Firewall::OfSomeDriver),
            None => is_strange().then_some(Firewall::OfSomeDriver),
        }
    }

    /// A program, its parent, and so on.
    fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(pid), |pid| self.0.get(pid).map(|program| program.stat.parent))
            .take_while(|pid| *pid > INIT)
    }

    /// Whose work a program does in a trial of this firewall.
    fn owner(&self, pid: u32, program: &Program, firewall: &Tested) -> Owner {
        if program.stat.kernel_thread {
            return Owner::Kernel(program.stat.core);
        }
        match &program.firewall {
            Some(Firewall::Of(name)) if firewall.name.as_ref() == Some(name) => return Owner::Firewall,
            Some(Firewall::OfSomeDriver) if firewall.is_outside => return Owner::Firewall,
            Some(_) => return Owner::Foreign,
            None => {}
        }
        let bench = std::process::id();
        if self.ancestors(pid).any(|ancestor| ancestor == bench) { Owner::Bench } else { Owner::Foreign }
    }

    /// What was spent since an earlier look, on a trial that owns these cores; kernel threads that work for the firewall and
    /// are counted as its own are left out.
    pub(super) fn since(
        &self,
        earlier: &Self,
        cores: &[u32],
        counted: &BTreeSet<i32>,
        firewall: &Tested,
    ) -> Spent {
        let mut spent = Spent::default();
        for (&pid, now) in &self.0 {
            let before = earlier.0.get(&pid).filter(|before| before.stat.start_ticks == now.stat.start_ticks);
            let own = now.stat.ticks.saturating_sub(before.map_or(0, |before| before.stat.ticks));
            let ns = (own + self.of_ended_children(pid, now, before, earlier)) * TICK_NS;
            match self.owner(pid, now, firewall) {
                Owner::Bench => {}
                Owner::Firewall => {
                    spent.firewall_ns += ns;
                    let on_own_cores = now.ticks_of_threads_on(cores, before) * TICK_NS;
                    spent.firewall_elsewhere_ns += ns.saturating_sub(on_own_cores);
                }
                Owner::Kernel(core) => {
                    let elsewhere = !cores.contains(&core) && !counted.contains(&(pid as i32));
                    spent.kernel_ns += if elsewhere { ns } else { 0 };
                }
                Owner::Foreign => spent.foreign_ns += ns,
            }
        }
        spent
    }

    /// Ticks that children of `pid` spent between the looks and before they ended: what the parent was credited with, without
    /// what they had spent before the first look.
    fn of_ended_children(&self, pid: u32, now: &Program, before: Option<&Program>, earlier: &Self) -> u64 {
        if pid == INIT {
            return 0;
        }
        let credited =
            now.stat.children_ticks.saturating_sub(before.map_or(0, |before| before.stat.children_ticks));
        if credited == 0 {
            return 0;
        }
        credited.saturating_sub(self.of_those_that_ended(pid, earlier))
    }

    /// What all that descended from `pid` at the earlier look, and has ended since, had spent by then. Whole families end at once, as when a
    /// build is done, and then the parent is credited with the times of children's children as well.
    fn of_those_that_ended(&self, pid: u32, earlier: &Self) -> u64 {
        let mut of_family = BTreeMap::<u32, Vec<u32>>::new();
        for (&child, program) in earlier.0.iter().filter(|(child, _)| !self.0.contains_key(child)) {
            of_family.entry(program.stat.parent).or_default().push(child);
        }
        let mut ticks = 0;
        let mut ended = of_family.remove(&pid).unwrap_or_default();
        while let Some(child) = ended.pop() {
            ticks +=
                earlier.0.get(&child).map_or(0, |program| program.stat.ticks + program.stat.children_ticks);
            ended.extend(of_family.remove(&child).unwrap_or_default());
        }
        ticks
    }
}

impl Program {
    /// Ticks that its threads spent since an earlier look, of those that both looks saw on these cores. Of what has come and gone between
    /// the looks nobody knows where it was.
    fn ticks_of_threads_on(&self, cores: &[u32], before: Option<&Program>) -> u64 {
        let spent = |(number, now): (&u32, &Thread)| {
            let then = before.and_then(|before| before.threads.get(number));
            let stayed = [Some(now), then].into_iter().flatten().all(|seen| cores.contains(&seen.core));
            if stayed { now.ticks.saturating_sub(then.map_or(0, |then| then.ticks)) } else { 0 }
        };
        self.threads.iter().map(spent).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTED: &str = "rb-1-2-firewall";

    fn program(parent: u32, ticks: u64, children_ticks: u64) -> Program {
        let stat = Stat {
            has_ended: false,
            parent,
            start_ticks: 5,
            kernel_thread: false,
            core: 1,
            ticks,
            children_ticks,
            session: 12,
        };
        Program { stat, firewall: None, threads: BTreeMap::new() }
    }

    fn spent(before: &[(u32, Program)], after: &[(u32, Program)]) -> [u64; 4] {
        let look = |programs: &[(u32, Program)]| Programs(programs.iter().cloned().collect());
        let tested = Tested { name: Some(TESTED.to_owned()), is_outside: true };
        let spent = look(after).since(&look(before), &[0], &BTreeSet::from([77]), &tested);
        [spent.foreign_ns, spent.firewall_ns, spent.kernel_ns, spent.firewall_elsewhere_ns]
            .map(|ns| ns / TICK_NS)
    }

    #[test]
    fn each_tick_is_somebodys() {
        let bench = std::process::id();
        let of = |firewall, ticks| Program { firewall: Some(firewall), ..program(bench, ticks, 0) };
        let daemon = |ticks| of(Firewall::Of(TESTED.to_owned()), ticks);
        let other = |ticks| of(Firewall::Of("rb-1-3-firewall".to_owned()), ticks);
        let but = |it: Program, change: &dyn Fn(&mut Stat)| {
            let mut it = it;
            change(&mut it.stat);
            it
        };
        let thread =
            |core, ticks| but(program(2, ticks, 0), &|stat| (stat.kernel_thread, stat.core) = (true, core));
        let reborn = but(program(1, 30, 0), &|stat| stat.start_ticks = 6);
        let worker = |core, ticks| Program {
            threads: BTreeMap::from([
                (60, Thread { ticks: 1, core: 0 }),
                (61, Thread { ticks: ticks - 1, core }),
            ]),
            ..daemon(ticks)
        };
        type Look = Vec<(u32, Program)>;
        let rows: [(&str, Look, Look, [u64; 4]); 17] = [
            ("a foreign program", vec![(50, program(1, 10, 0))], vec![(50, program(1, 17, 0))], [7, 0, 0, 0]),
            ("one that is new", vec![], vec![(50, program(1, 4, 0))], [4, 0, 0, 0]),
            ("another with its number", vec![(50, program(1, 10, 0))], vec![(50, reborn)], [30, 0, 0, 0]),
            (
                "a child that ended and had worked before",
                vec![(50, program(1, 10, 0)), (51, program(50, 20, 3))],
                vec![(50, program(1, 10, 25))],
                [2, 0, 0, 0],
            ),
            (
                "a child that came and went between the looks",
                vec![(50, program(1, 0, 0))],
                vec![(50, program(1, 0, 9))],
                [9, 0, 0, 0],
            ),
            (
                "orphans that init waited for",
                vec![(1, program(0, 1, 0))],
                vec![(1, program(0, 1, 500))],
                [0, 0, 0, 0],
            ),
            (
                "the bench and a grandchild",
                vec![(bench, program(50, 0, 0))],
                vec![
                    (bench, program(50, 90, 9)),
                    (u32::MAX - 1, program(bench, 9, 0)),
                    (u32::MAX, program(u32::MAX - 1, 8, 8)),
                ],
                [0, 0, 0, 0],
            ),
            (
                "a family that ended at once and had worked before",
                vec![(50, program(1, 10, 0)), (51, program(50, 20, 3)), (52, program(51, 1000, 0))],
                vec![(50, program(1, 10, 1025))],
                [2, 0, 0, 0],
            ),
            (
                "a child that ended, and whose own child goes on",
                vec![(50, program(1, 10, 0)), (51, program(50, 20, 0)), (52, program(51, 1000, 0))],
                vec![(50, program(1, 10, 21)), (52, program(1, 1004, 0))],
                [5, 0, 0, 0],
            ),
            ("a firewall that waits for its turn", vec![(60, other(5))], vec![(60, other(9))], [4, 0, 0, 0]),
            (
                "what has left its driver without a trace",
                vec![(60, of(Firewall::OfSomeDriver, 5))],
                vec![(60, of(Firewall::OfSomeDriver, 11))],
                [0, 6, 0, 6],
            ),
            (
                "a firewall's thread on the trial's core",
                vec![(60, worker(0, 5))],
                vec![(60, worker(0, 11))],
                [0, 6, 0, 0],
            ),
            ("on another", vec![(60, worker(1, 5))], vec![(60, worker(1, 11))], [0, 6, 0, 6]),
            (
                "there before, and back for the look",
                vec![(60, worker(1, 5))],
                vec![(60, worker(0, 11))],
                [0, 6, 0, 6],
            ),
            (
                "a firewall's daemon, of whose threads nothing is known",
                vec![(60, daemon(5))],
                vec![(60, daemon(11))],
                [0, 6, 0, 6],
            ),
            (
                "a kernel thread on the trial's core",
                vec![(70, thread(0, 0))],
                vec![(70, thread(0, 50))],
                [0, 0, 0, 0],
            ),
            (
                "kernel threads elsewhere, one of them counted already",
                vec![(70, thread(1, 0)), (77, thread(1, 0))],
                vec![(70, thread(1, 50)), (77, thread(1, 60))],
                [0, 0, 50, 0],
            ),
        ];
        for (name, before, after, expected) in rows {
            assert_eq!(spent(&before, &after), expected, "{name}");
        }
    }

    #[test]
    fn this_program_is_the_benchs_and_its_parent_is_not() {
        let now = Programs::now();
        let me = std::process::id();
        assert_eq!(now.owner(me, &now.0[&me], &Tested::default()), Owner::Bench);
        let parent = now.0[&me].stat.parent;
        if let Some(program) = now.0.get(&parent) {
            assert_eq!(now.owner(parent, program, &Tested::default()), Owner::Foreign);
        }
    }
}
