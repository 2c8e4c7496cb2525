//! The processor time that control groups allow the bench, and how long they kept it waiting when that was used up. A container with a limit
//! on its processors is such a group.

use crate::error::TestbedError;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const MOUNT: &str = "/sys/fs/cgroup";

/// ns for which the groups of this process were kept waiting so far, those above it included; 0 where none has a limit, or where groups are
/// not mounted.
pub fn throttled_ns() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Version 1 is mounted in one place, to which the others are links.
    let places: BTreeSet<PathBuf> =
        files(&groups).iter().filter_map(|file| fs::canonicalize(file).ok()).collect();
    places.iter().filter_map(|file| throttled(&fs::read_to_string(file).ok()?)).sum()
}

/// Whether the control groups of this process allow it the time that so many generating cores need. Each generates without a pause, and
/// whoever watches over them needs a part of one more. A generator stays in the kernel for long, so a group with less is never done
/// with its debts: the rest of the bench would wait for ever, and not even a signal would end it.
///
/// # Errors
/// [`TestbedError::MachineCannot`] says how many cores they allow.
pub fn check_for(generating: u32) -> Result<(), TestbedError> {
    let cores = cores_for(generating);
    match allowed_cores() {
        Some(allowed) if allowed < cores => Err(TestbedError::MachineCannot {
            what: format!(
                "run the bench in a control group that is allowed the time of {allowed:.2} cores: it needs {cores:.0} for this"
            ),
            remedy: format!("{WITHOUT}, or with fewer --cores"),
        }),
        _ => Ok(()),
    }
}

/// What to do about a quota.
pub(crate) const WITHOUT: &str = "run it without such a quota (cpu.max, CPUQuota=, docker run --cpus)";

/// Cores whose time the bench needs with so many generating ones.
pub(crate) fn cores_for(generating: u32) -> f64 {
    f64::from(generating) + 1.0
}

/// The cores whose time the control groups of this process allow it; `None` where none of them has a limit.
pub(crate) fn allowed_cores() -> Option<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    files(&groups).iter().filter_map(|file| cores_of(file.parent()?)).min_by(f64::total_cmp)
}

/// The cores whose time a group is allowed; nothing where it has no limit.
fn cores_of(group: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let (quota, period) = match read("cpu.max") {
        Some(text) => {
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        None => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    // "max" and -1 are no limit.
    let quota = quota.trim().parse::<f64>().ok().filter(|quota| *quota > 0.0)?;
    Some(quota / period.trim().parse::<f64>().ok().filter(|period| *period > 0.0)?)
}

/// The statistics of all groups of a process with this `/proc/PID/cgroup`, in the places where version 1 and version 2 are mounted.
fn files(groups: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mounts: &[&str] = if controllers.is_empty() {
            &["", "unified"]
        } else if controllers.split(',').any(|name| name == "cpu") {
            &["cpu", "cpu,cpuacct"]
        } else {
            &[]
        };
        for mount in mounts {
            let groups = Path::new(path.trim_start_matches('/')).ancestors();
            found.extend(groups.map(|group| Path::new(MOUNT).join(mount).join(group).join("cpu.stat")));
        }
    }
    found
}

/// Version 2 counts in microseconds, version 1 in nanoseconds.
fn throttled(statistics: &str) -> Option<u64> {
    statistics.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", count) => Some(count.trim().parse::<u64>().ok()?.saturating_mul(1000)),
        ("throttled_time", count) => count.trim().parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_looked_for_where_they_are() {
        let rows: [(&str, &[&str]); 4] = [
            ("", &[]),
            ("9:name=systemd:/\n4:memory:/a\n", &[]),
            (
                "0::/docker/a\n",
                &[
                    "docker/a/cpu.stat",
                    "docker/cpu.stat",
                    "cpu.stat",
                    "unified/docker/a/cpu.stat",
                    "unified/docker/cpu.stat",
                    "unified/cpu.stat",
                ],
            ),
            (
                "3:cpu,cpuacct:/a\n",
                &["cpu/a/cpu.stat", "cpu/cpu.stat", "cpu,cpuacct/a/cpu.stat", "cpu,cpuacct/cpu.stat"],
            ),
        ];
        for (groups, expected) in rows {
            let expected: Vec<PathBuf> = expected.iter().map(|file| Path::new(MOUNT).join(file)).collect();
            assert_eq!(files(groups), expected, "{groups:?}");
        }
    }

    #[test]
    fn limits_are_read() {
        type Files = &'static [(&'static str, &'static str)];
        let rows: [(Files, Option<f64>); 7] = [
            (&[], None),
            (&[("cpu.max", "max 100000\n")], None),
            (&[("cpu.max", "150000 100000\n")], Some(1.5)),
            (&[("cpu.max", "nonsense\n")], None),
            (&[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")], None),
            (&[("cpu.cfs_quota_us", "30000\n"), ("cpu.cfs_period_us", "100000\n")], Some(0.3)),
            (&[("cpu.cfs_quota_us", "30000\n"), ("cpu.cfs_period_us", "0\n")], None),
        ];
        for (written, expected) in rows {
            let group = tempfile::tempdir().unwrap();
            for (name, text) in written {
                fs::write(group.path().join(name), text).unwrap();
            }
            assert_eq!(cores_of(group.path()), expected, "{written:?}");
        }
    }

    #[test]
    fn both_versions_are_read() {
        for (statistics, expected) in [
            ("usage_usec 5\nnr_periods 3\nnr_throttled 1\nthrottled_usec 250\n", Some(250_000)),
            ("nr_periods 3\nnr_throttled 1\nthrottled_time 250\n", Some(250)),
            ("usage_usec 5\n", None),
            ("throttled_usec many\n", None),
        ] {
            assert_eq!(throttled(statistics), expected, "{statistics:?}");
        }
    }
}
