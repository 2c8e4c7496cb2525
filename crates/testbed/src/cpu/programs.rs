//! Processor time of programs and kernel threads, from `/proc/PID/stat`: whose it is, and how much of it was spent between two
//! looks, that of programs included which have ended meanwhile.

use crate::netns::{self, NAMESPACE_FOLDER};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// ns in the unit of `proc(5)`: 100 ticks a second wherever Linux shows them to programs.
const TICK_NS: u64 = 10_000_000;
/// `PF_KTHREAD` of the kernel's `sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Adopts every orphan: what its children used is nobody's.
const INIT: u32 = 1;

/// Whose work a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The bench and what it started.
    Bench,
    /// What runs in a firewall's namespace.
    Firewall,
    /// A kernel thread, with the core that it ran on last.
    Kernel(u32),
    /// Everybody else's.
    Foreign,
}

/// One process, as `proc(5)` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    parent: u32,
    start_ticks: u64,
    kernel_thread: bool,
    core: u32,
    /// Its own time, ticks.
    ticks: u64,
    /// The time of its children that ended and that it waited for, ticks.
    children_ticks: u64,
    /// In the namespace of a firewall under test.
    in_firewall: bool,
}

impl Program {
    /// `text` is `/proc/PID/stat`. The name, which may hold anything, ends with the last parenthesis.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text
            .rsplit_once(')')?
            .1
            .split_whitespace()
            .skip(1)
            .map(|word| word.parse::<i64>().unwrap_or(0).unsigned_abs())
            .collect();
        // Fields are numbered from 1 in proc(5); the third, the state, is the first after the name.
        let field = |number: usize| fields.get(number - 4).copied();
        Some(Self {
            parent: field(4)? as u32,
            kernel_thread: field(9)? & KERNEL_THREAD != 0,
            ticks: field(14)? + field(15)?,
            children_ticks: field(16)? + field(17)?,
            start_ticks: field(22)?,
            core: field(39)? as u32,
            in_firewall: false,
        })
    }
}

/// Every process at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Programs(BTreeMap<u32, Program>);

/// ns that were spent between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// By programs in a firewall's namespace.
    pub(super) firewall_ns: u64,
    /// By programs that are neither the bench's nor the firewall's.
    pub(super) foreign_ns: u64,
    /// By kernel threads on cores that are not the trial's.
    pub(super) kernel_ns: u64,
}

impl Programs {
    /// All there are now. A program that ends meanwhile is left out.
    pub(super) fn now() -> Self {
        let firewalls: BTreeSet<u64> = netns::names()
            .iter()
            .filter(|name| name.starts_with("rb-") && name.ends_with("-firewall"))
            .filter_map(|name| Some(fs::metadata(Path::new(NAMESPACE_FOLDER).join(name)).ok()?.ino()))
            .collect();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let mut program = Program::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
            program.in_firewall = !firewalls.is_empty()
                && !program.kernel_thread
                && fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|ns| firewalls.contains(&ns.ino()));
            Some((pid, program))
        });
        Self(processes.collect())
    }

    fn owner(&self, pid: u32, program: &Program) -> Owner {
        if program.kernel_thread {
            return Owner::Kernel(program.core);
        }
        if program.in_firewall {
            return Owner::Firewall;
        }
        let bench = std::process::id();
        let mut ancestor = pid;
        while ancestor > INIT {
            if ancestor == bench {
                return Owner::Bench;
            }
            ancestor = self.0.get(&ancestor).map_or(0, |program| program.parent);
        }
        Owner::Foreign
    }

    /// What was spent since an earlier look, on a trial that owns these cores; kernel threads that work for the firewall and
    /// are counted as its own are left out.
    pub(super) fn since(&self, earlier: &Self, cores: &[u32], counted: &BTreeSet<i32>) -> Spent {
        let mut spent = Spent::default();
        for (&pid, now) in &self.0 {
            let before = earlier.0.get(&pid).filter(|before| before.start_ticks == now.start_ticks);
            let own = now.ticks.saturating_sub(before.map_or(0, |before| before.ticks));
            let ns = (own + self.of_ended_children(pid, now, before, earlier)) * TICK_NS;
            match self.owner(pid, now) {
                Owner::Bench => {}
                Owner::Firewall => spent.firewall_ns += ns,
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
        let credited = now.children_ticks.saturating_sub(before.map_or(0, |before| before.children_ticks));
        let known = earlier
            .0
            .iter()
            .filter(|(child, program)| program.parent == pid && !self.0.contains_key(child))
            .map(|(_, program)| program.ticks + program.children_ticks);
        credited.saturating_sub(known.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(parent: u32, ticks: u64, children_ticks: u64) -> Program {
        Program {
            parent,
            start_ticks: 5,
            kernel_thread: false,
            core: 1,
            ticks,
            children_ticks,
            in_firewall: false,
        }
    }

    fn spent(before: &[(u32, Program)], after: &[(u32, Program)]) -> [u64; 3] {
        let look = |programs: &[(u32, Program)]| Programs(programs.iter().cloned().collect());
        let spent = look(after).since(&look(before), &[0], &BTreeSet::from([77]));
        [spent.foreign_ns, spent.firewall_ns, spent.kernel_ns].map(|ns| ns / TICK_NS)
    }

    #[test]
    fn each_tick_is_somebodys() {
        let bench = std::process::id();
        let daemon = |ticks| Program { in_firewall: true, ..program(bench, ticks, 0) };
        let thread = |core, ticks| Program { kernel_thread: true, core, ..program(2, ticks, 0) };
        let reborn = Program { start_ticks: 6, ..program(1, 30, 0) };
        type Look = Vec<(u32, Program)>;
        let rows: [(&str, Look, Look, [u64; 3]); 10] = [
            ("a foreign program", vec![(50, program(1, 10, 0))], vec![(50, program(1, 17, 0))], [7, 0, 0]),
            ("one that is new", vec![], vec![(50, program(1, 4, 0))], [4, 0, 0]),
            ("another with its number", vec![(50, program(1, 10, 0))], vec![(50, reborn)], [30, 0, 0]),
            (
                "a child that ended and had worked before",
                vec![(50, program(1, 10, 0)), (51, program(50, 20, 3))],
                vec![(50, program(1, 10, 25))],
                [2, 0, 0],
            ),
            (
                "a child that came and went between the looks",
                vec![(50, program(1, 0, 0))],
                vec![(50, program(1, 0, 9))],
                [9, 0, 0],
            ),
            (
                "orphans that init waited for",
                vec![(1, program(0, 1, 0))],
                vec![(1, program(0, 1, 500))],
                [0, 0, 0],
            ),
            (
                "the bench and a grandchild",
                vec![(bench, program(50, 0, 0))],
                vec![
                    (bench, program(50, 90, 9)),
                    (u32::MAX - 1, program(bench, 9, 0)),
                    (u32::MAX, program(u32::MAX - 1, 8, 8)),
                ],
                [0, 0, 0],
            ),
            ("a firewall's daemon", vec![(60, daemon(5))], vec![(60, daemon(11))], [0, 6, 0]),
            (
                "a kernel thread on the trial's core",
                vec![(70, thread(0, 0))],
                vec![(70, thread(0, 50))],
                [0, 0, 0],
            ),
            (
                "kernel threads elsewhere, one of them counted already",
                vec![(70, thread(1, 0)), (77, thread(1, 0))],
                vec![(70, thread(1, 50)), (77, thread(1, 60))],
                [0, 0, 50],
            ),
        ];
        for (name, before, after, expected) in rows {
            assert_eq!(spent(&before, &after), expected, "{name}");
        }
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name() {
        let tail = "S 12 1 1 0 -1 4194560 1 2 3 4 100 20 7 3 20 0 1 0 4242 1 2 18446744073709551615 \
                    1 1 0 0 0 0 0 0 0 0 0 0 17 6 0 0";
        let expected = Program { start_ticks: 4242, core: 6, ..program(12, 120, 10) };
        for name in ["sh", "a b", "x) S 9 9", "((", "1 2 3)"] {
            assert_eq!(Program::parse(&format!("99 ({name}) {tail}")), Some(expected.clone()), "{name}");
        }
        for broken in ["", "99 (sh", "99 (sh) S 12"] {
            assert_eq!(Program::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_program_is_the_benchs_and_its_parent_is_not() {
        let now = Programs::now();
        let me = std::process::id();
        assert_eq!(now.owner(me, &now.0[&me]), Owner::Bench);
        let parent = now.0[&me].parent;
        if let Some(program) = now.0.get(&parent) {
            assert_eq!(now.owner(parent, program), Owner::Foreign);
        }
    }
}
