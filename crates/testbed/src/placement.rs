//! Moves the receive work of links to chosen cores: threaded NAPI, its threads found and pinned. Inline placement
//! needs none of it.

use crate::bed::CoreSplit;
use crate::error::TestbedError;
use crate::layout::{BedLayout, PortEnd};
use crate::netns::Namespace;
use crate::program;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;

/// Numbers of the cores that are online, ascending.
pub fn cores_online() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".to_owned());
    parse_cores(&text)
}

/// A kernel list of cores, such as `0-3,8`.
fn parse_cores(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

pub(crate) fn too_few_cores() -> TestbedError {
    TestbedError::MachineCannot {
        what: "place the firewall on cores of its own".to_owned(),
        remedy: "isolated placement needs at least two cores: use --placement inline, or --cores 2 or more"
            .to_owned(),
    }
}

/// Isolated placement needs cores for both, and none for both at once.
pub(crate) fn check_split(cores: &CoreSplit) -> Result<(), TestbedError> {
    if cores.generator.is_empty() || cores.firewall.is_empty() || cores_online().len() < 2 {
        return Err(too_few_cores());
    }
    match cores.generator.iter().find(|core| cores.firewall.contains(core)) {
        Some(core) => Err(TestbedError::Impossible(format!(
            "core {core} is given to the generator and to the firewall: isolated placement needs disjoint cores"
        ))),
        None => Ok(()),
    }
}

/// Keeps all receive work away from the generator's cores, which are busy without a pause: a thread beside the generator
/// would take whole time slices from it. The firewall's ends, the rate-limited links and, on a bare wire, the zones'
/// ends get threads on the firewall's cores. Behind a firewall the zones' ends have none: the sink works where the
/// firewall hands its frames over, some tens of ns a frame, the same for every firewall.
pub(crate) fn isolate(
    layout: &BedLayout,
    links: &[(Namespace, String)],
    cores: &CoreSplit,
) -> Result<(), TestbedError> {
    let wire = layout.ports.iter().filter(|port| port.firewall.is_none());
    let zones = wire.map(|port| (&port.end.namespace, port.end.device.as_str()));
    let links = links.iter().map(|(namespace, device)| (namespace, device.as_str()));
    pin_all(zones.chain(links), &cores.firewall)?;
    pin_ends(layout.ports.iter().filter_map(|port| port.firewall.as_ref()), &cores.firewall)
}

/// As [`isolate`], for some ends.
pub(crate) fn pin_ends<'a>(
    ends: impl Iterator<Item = &'a PortEnd>,
    cores: &[u32],
) -> Result<(), TestbedError> {
    pin_all(ends.map(|end| (&end.namespace, end.device.as_str())), cores)
}

/// Threads go round the cores in turn, so that every core gets its share of every link's queues.
fn pin_all<'a>(
    ends: impl Iterator<Item = (&'a Namespace, &'a str)>,
    cores: &[u32],
) -> Result<(), TestbedError> {
    for (namespace, device) in ends {
        let setting = format!("/sys/class/net/{device}/threaded");
        namespace.run_with_sysfs("sh", &["-c", &format!("echo 1 > {setting}")])?;
        let threads = napi_threads(device);
        if threads.is_empty() {
            return Err(TestbedError::MachineCannot {
                what: format!("find the receive threads of {device}"),
                remedy: "threaded NAPI needs Linux 5.12 or newer: use --placement inline".to_owned(),
            });
        }
        for (index, thread) in threads.into_iter().enumerate() {
            pin(thread, cores[index % cores.len()])?;
        }
    }
    Ok(())
}

fn pin(thread: i32, core: u32) -> Result<(), TestbedError> {
    let failed =
        |source| TestbedError::System { action: format!("pin thread {thread} to core {core}"), source };
    let mut set = CpuSet::new();
    set.set(core as usize).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(thread), &set).map_err(failed)?;
    // Its cores are the firewall's own: other work on the machine may not share them half and half.
    program::run("renice", &["-n", "-20", "-p", &thread.to_string()]).map(drop)
}

/// The kernel threads that do the receive work of a link, ascending by queue; none without threaded NAPI.
pub fn napi_threads(device: &str) -> Vec<i32> {
    let prefix = format!("napi/{device}-");
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let mut threads: Vec<i32> = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c.starts_with(&prefix))
        })
        .collect();
    // Made in the order of the queues.
    threads.sort_unstable();
    threads
}

/// The threads that do the firewall's receive work in isolated placement.
pub(crate) fn threads_of<'a>(ends: impl Iterator<Item = &'a PortEnd>) -> Vec<i32> {
    ends.flat_map(|end| napi_threads(&end.device)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_are_read_as_the_kernel_writes_them() {
        let rows: [(&str, &[u32]); 4] =
            [("0\n", &[0]), ("0-2\n", &[0, 1, 2]), ("0-1,4,6-7\n", &[0, 1, 4, 6, 7]), ("", &[])];
        for (text, cores) in rows {
            assert_eq!(parse_cores(text), cores, "{text:?}");
        }
    }

    #[test]
    fn a_core_cannot_have_two_masters() {
        let split = CoreSplit { generator: vec![0, 1], firewall: vec![1] };
        assert!(check_split(&split).is_err());
    }
}
