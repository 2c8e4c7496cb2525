//! Processor time: of each core from `/proc/stat`, of single threads from their `schedstat`, of everybody else from
//! `/proc/PID/stat`.

mod programs;

use crate::error::TestbedError;
use measure::results::{CoreUse, CpuUse};
use programs::{Programs, Tested};
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// Processor time so far. Two of them make a [`CpuUse`].
#[derive(Debug, Clone)]
pub struct CpuSnapshot {
    taken: Instant,
    cores: BTreeMap<u32, Ticks>,
    /// ns on a core so far, by thread.
    threads: BTreeMap<i32, u64>,
    /// Cores that the trial works on.
    own_cores: Vec<u32>,
    programs: Programs,
    firewall: Tested,
}

/// Clock ticks of one core since boot, as `proc(5)` orders them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
    interrupt: u64,
    stolen: u64,
    idle: u64,
}

impl CpuSnapshot {
    /// Reads all cores, all programs, and these threads (a firewall's receive threads; threads that are gone are left out).
    /// `own_cores` are those that the trial works on, and `firewall` is the namespace of its firewall.
    ///
    /// # Errors
    /// [`TestbedError::Io`] when `/proc/stat` cannot be read.
    pub fn take(threads: &[i32], own_cores: &[u32], firewall: Option<&str>) -> Result<Self, TestbedError> {
        let programs = Programs::now();
        let text = fs::read_to_string("/proc/stat").map_err(TestbedError::io("read", "/proc/stat"))?;
        let threads = threads.iter().filter_map(|&thread| Some((thread, thread_ns(thread)?))).collect();
        let own_cores = own_cores.to_vec();
        let firewall = Tested::new(firewall);
        Ok(Self { taken: Instant::now(), cores: parse_stat(&text), threads, own_cores, programs, firewall })
    }

    /// What was used between an earlier snapshot and this one, as shares of a core. The firewall's share is there
    /// when both have threads.
    pub fn since(&self, earlier: &Self) -> CpuUse {
        let cores: Vec<CoreUse> = self
            .cores
            .iter()
            .filter_map(|(core, now)| Some(share(*core, *earlier.cores.get(core)?, *now)))
            .collect();
        let elapsed = (self.taken.duration_since(earlier.taken).as_nanos() as f64).max(1.0);
        let used: Vec<u64> = self
            .threads
            .iter()
            .filter_map(|(thread, now)| Some(now.saturating_sub(*earlier.threads.get(thread)?)))
            .collect();
        let firewall = (!used.is_empty()).then(|| used.iter().sum::<u64>() as f64 / elapsed);
        let counted = self.threads.keys().copied().collect();
        let spent = self.programs.since(&earlier.programs, &self.own_cores, &counted, &self.firewall);
        let not_own = cores.iter().filter(|core| !self.own_cores.contains(&core.core));
        let interrupts: f64 = not_own.map(|core| core.interrupt).sum();
        CpuUse {
            firewall,
            programs: spent.firewall_ns as f64 / elapsed,
            elsewhere: (spent.kernel_ns + spent.firewall_elsewhere_ns) as f64 / elapsed + interrupts,
            foreign: spent.foreign_ns as f64 / elapsed,
            cores,
        }
    }

    /// The share of all cores' time that the hypervisor took since an earlier snapshot, 0 to 1.
    pub fn stolen_since(&self, earlier: &Self) -> f64 {
        let cores = self.since(earlier).cores;
        if cores.is_empty() { 0.0 } else { cores.iter().map(|c| c.stolen).sum::<f64>() / cores.len() as f64 }
    }
}

fn share(core: u32, before: Ticks, now: Ticks) -> CoreUse {
    let spent = |field: fn(&Ticks) -> u64| field(&now).saturating_sub(field(&before)) as f64;
    let [user, system, interrupt, stolen, idle] = [
        spent(|t| t.user),
        spent(|t| t.system),
        spent(|t| t.interrupt),
        spent(|t| t.stolen),
        spent(|t| t.idle),
    ];
    // Less than a tick apart, there is nothing to divide.
    let all = (user + system + interrupt + stolen + idle).max(1.0);
    CoreUse {
        core,
        user: user / all,
        system: system / all,
        interrupt: interrupt / all,
        stolen: stolen / all,
        idle: idle / all,
    }
}

/// Lines `cpuN user nice system idle iowait irq softirq steal guest guest_nice`; guest time is within user time.
fn parse_stat(text: &str) -> BTreeMap<u32, Ticks> {
    let core = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
        Some((
            number,
            Ticks {
                user: at(0) + at(1),
                system: at(2),
                interrupt: at(5) + at(6),
                stolen: at(7),
                idle: at(3) + at(4),
            },
        ))
    };
    // The first line sums up all cores and has no number.
    text.lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
        .filter_map(core)
        .collect()
}

/// ns that a thread has spent on cores.
fn thread_ns(thread: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 20 100 0 1 4 0 0 0\ncpu1 0 0 0 50 0 0 0 0 0 0\nintr 5\n";
    const AFTER: &str =
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 20 10 40 120 10 6 14 5 0 0\ncpu1 0 0 0 150 0 0 0 0 0 0\nintr 9\n";

    fn snapshot(text: &str, threads: &[(i32, u64)], taken: Instant) -> CpuSnapshot {
        CpuSnapshot {
            taken,
            cores: parse_stat(text),
            threads: threads.iter().copied().collect(),
            own_cores: vec![0],
            programs: Programs::default(),
            firewall: Tested::default(),
        }
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let start = Instant::now();
        let end = start + std::time::Duration::from_micros(1);
        let before = snapshot(BEFORE, &[(1, 100), (2, 0)], start);
        let after = snapshot(AFTER, &[(1, 350), (3, 999)], end);
        let used = after.since(&before);
        let expected = CoreUse {
            core: 0,
            user: 20.0 / 90.0,
            system: 20.0 / 90.0,
            interrupt: 15.0 / 90.0,
            stolen: 5.0 / 90.0,
            idle: 30.0 / 90.0,
        };
        assert_eq!(used.cores[0], expected);
        assert_eq!(used.cores[1].idle, 1.0);
        assert_eq!(used.firewall, Some(0.25), "only threads that both snapshots have");
        assert_eq!(used.elsewhere, 0.0, "interrupts of the trial's own core");
        assert_eq!(after.stolen_since(&before), 5.0 / 180.0);
    }

    #[test]
    fn without_threads_the_firewall_cannot_be_distinguished() {
        let now = CpuSnapshot::take(&[], &[], None).unwrap();
        let later = CpuSnapshot::take(&[], &[], None).unwrap();
        assert_eq!(later.since(&now).firewall, None);
        assert!(!later.since(&now).cores.is_empty());
    }

    #[test]
    fn a_thread_that_works_is_seen() {
        let me = std::process::id() as i32;
        assert!(thread_ns(me).is_some_and(|ns| ns > 0));
        assert_eq!(thread_ns(i32::MAX), None);
    }
}
