//! Settings that all namespaces of a machine share and that decide how fast it is: those of the kernel's receive work, its timers and
//! scheduler, and the clock rate of its cores. A run compares firewalls on one machine, so whoever changes one meanwhile,
//! a driver for its own turn or against the others', makes two machines of it. Only reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Under `/proc/sys`. What the kernel does not have, or does not show in this namespace, is left out.
const SETTINGS: [&str; 37] = [
    "kernel/bpf_stats_enabled",
    "kernel/ftrace_enabled",
    "kernel/nmi_watchdog",
    "kernel/numa_balancing",
    "kernel/sched_autogroup_enabled",
    "kernel/sched_cfs_bandwidth_slice_us",
    "kernel/sched_rr_timeslice_ms",
    "kernel/sched_rt_period_us",
    "kernel/sched_rt_runtime_us",
    "kernel/sched_util_clamp_max",
    "kernel/sched_util_clamp_min",
    "kernel/split_lock_mitigate",
    "kernel/task_delayacct",
    "kernel/timer_migration",
    "kernel/watchdog",
    "net/core/bpf_jit_enable",
    "net/core/bpf_jit_harden",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/default_qdisc",
    "net/core/dev_weight",
    "net/core/dev_weight_rx_bias",
    "net/core/dev_weight_tx_bias",
    "net/core/flow_limit_cpu_bitmap",
    "net/core/gro_normal_batch",
    "net/core/high_order_alloc_disable",
    "net/core/max_skb_frags",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/netdev_max_backlog",
    "net/core/netdev_tstamp_prequeue",
    "net/core/rps_sock_flow_entries",
    "net/core/skb_defer_max",
    "vm/compaction_proactiveness",
    "vm/stat_interval",
    "vm/swappiness",
    "vm/zone_reclaim_mode",
];
/// Under `/sys`.
const OF_THE_MACHINE: [&str; 5] = [
    "devices/system/clocksource/clocksource0/current_clocksource",
    "devices/system/cpu/cpufreq/boost",
    "devices/system/cpu/intel_pstate/no_turbo",
    "devices/system/cpu/online",
    "kernel/mm/transparent_hugepage/enabled",
];
/// Of each core's clock, under its folder.
const OF_A_CORE: [&str; 3] = ["scaling_governor", "scaling_max_freq", "scaling_min_freq"];

/// Settings by their files.
type Settings = BTreeMap<PathBuf, String>;

/// What they were when the run began.
static AT_THE_BEGINNING: OnceLock<Settings> = OnceLock::new();

/// Notes what they are: what is changed from now on is told by [`changed`].
pub fn note() {
    let _ = AT_THE_BEGINNING.get_or_init(read_all);
}

/// What differs from what was noted, in words; nothing if nobody noted anything.
pub fn changed() -> Vec<String> {
    AT_THE_BEGINNING.get().map_or_else(Vec::new, |before| differences(before, &read_all()))
}

/// A setting that appears or goes is that of a module, and no change.
fn differences(before: &Settings, now: &Settings) -> Vec<String> {
    let pairs = before.iter().filter_map(|(path, then)| Some((path, then, now.get(path)?)));
    pairs
        .filter(|(_, then, now)| then != now)
        .map(|(path, then, now)| {
            format!(
                "somebody changed {} of the whole machine from {then} to {now} during the run, a driver or a program beside it: firewalls \
                 before and after it were not on one machine",
                path.display()
            )
        })
        .collect()
}

fn read_all() -> Settings {
    let under = |folder: &str, name: &str| Path::new(folder).join(name);
    let settings = SETTINGS.iter().map(|name| under("/proc/sys", name));
    let others = OF_THE_MACHINE.iter().map(|name| under("/sys", name));
    let policies = fs::read_dir("/sys/devices/system/cpu/cpufreq").into_iter().flatten().flatten();
    let cores = policies.flat_map(|policy| OF_A_CORE.map(|name| policy.path().join(name)));
    let all = settings.chain(others).chain(cores);
    all.filter_map(|path| Some((fs::read_to_string(&path).ok()?.trim().to_owned(), path)))
        .map(|(value, path)| (path, value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_is_told_and_modules_that_come_are_not() {
        let settings = |text: &str| -> Settings {
            text.split_whitespace()
                .filter_map(|word| word.split_once('='))
                .map(|(path, value)| (path.into(), value.to_owned()))
                .collect()
        };
        for (before, now, said) in [
            ("a=1 b=2", "a=1 b=2", ""),
            ("a=1", "a=1 b=2", ""),
            ("a=1 b=2", "a=1", ""),
            ("a=1 b=300", "a=1 b=5", "somebody changed b of the whole machine from 300 to 5"),
        ] {
            let found = differences(&settings(before), &settings(now)).join("; ");
            assert!(if said.is_empty() { found.is_empty() } else { found.starts_with(said) }, "{found}");
        }
        let here = read_all();
        assert!(here.contains_key(Path::new("/proc/sys/kernel/timer_migration")), "{here:?}");
        assert_eq!(differences(&here, &read_all()), Vec::<String>::new());
    }
}
