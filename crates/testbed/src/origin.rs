//! Which processes come from which driver outside the tree. What such a driver starts may go to another group, session or namespace and
//! outlive whoever started it: its time is the firewall's all the same, and it ends with its driver. Three things tell: a variable that
//! every child inherits, the parents, and a session that is not the bench's, because orphans become children of the bench.

use measure::process;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The variable, whose value names the driver.
const VARIABLE: &str = "RAMPART_BENCH_DRIVER";

/// Drivers that run, by what their variable says.
static RUNNING: Mutex<BTreeMap<String, Driver>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Clone)]
struct Driver {
    pid: u32,
    /// The namespace of its firewall, once it has one.
    bed: Option<String>,
}

/// What a driver's processes are known by. Dropping it ends them all.
#[derive(Debug)]
pub(crate) struct Origin {
    value: String,
    pid: u32,
}

impl Origin {
    /// What starts a driver so that its processes can be found: in a session of its own, with the variable, and with the bench as the
    /// parent of orphans.
    pub(crate) fn command(program: &std::path::Path) -> (Command, String) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let value = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Without it orphans go to init, and are still known by the variable.
        let _ = set_child_subreaper(true);
        let mut command = Command::new("setsid");
        command.arg(program).env(VARIABLE, &value);
        (command, value)
    }

    /// Of a driver that was started so.
    pub(crate) fn of(child: &Child, value: String) -> Self {
        running().insert(value.clone(), Driver { pid: child.id(), bed: None });
        Self { value, pid: child.id() }
    }

    /// Says which firewall it drives, by its namespace.
    pub(crate) fn stands_in(&self, bed: &str) {
        running().entry(self.value.clone()).and_modify(|driver| driver.bed = Some(bed.to_owned()));
    }

    /// Ends all that is left of the driver's processes but itself, and waits for their end as long as the kernel needs for it.
    pub(crate) fn end(&self) {
        const LOOKS: u32 = 200;
        const LOOK_EVERY: Duration = Duration::from_millis(10);
        for _ in 0..LOOKS {
            let left = self.processes();
            for &pid in &left {
                // It may have ended by itself.
                let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
            }
            reap_orphans();
            if left.is_empty() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Those of the driver's processes that run, but for itself: those with its variable, its descendants, and orphans that are nobody
    /// else's.
    fn processes(&self) -> BTreeSet<u32> {
        let all = Processes::now();
        let others: BTreeSet<u32> =
            running().values().map(|driver| driver.pid).filter(|pid| *pid != self.pid).collect();
        let is_own = |pid: u32| match variable(pid) {
            Some(value) => value == self.value,
            None => all.descends(pid, self.pid) || all.is_orphan(pid, &others),
        };
        all.0.keys().copied().filter(|pid| *pid != self.pid && is_own(*pid)).collect()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.end();
        running().remove(&self.value);
    }
}

/// The drivers that run, as they are now.
#[derive(Debug, Clone)]
pub(crate) struct Drivers(BTreeMap<String, Driver>);

pub(crate) fn drivers() -> Drivers {
    Drivers(running().clone())
}

impl Drivers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them drives the firewall of this namespace.
    pub(crate) fn has(&self, bed: &str) -> bool {
        self.0.values().any(|driver| driver.bed.as_deref() == Some(bed))
    }

    /// The namespace of the driver that a process comes from, if it has one yet; `None` of a process that comes from none.
    pub(crate) fn of_process(
        &self,
        pid: u32,
        mut ancestors: impl Iterator<Item = u32>,
    ) -> Option<Option<String>> {
        let by_variable = variable(pid).and_then(|value| self.0.get(&value));
        let by_parent =
            || ancestors.find_map(|ancestor| self.0.values().find(|driver| driver.pid == ancestor));
        by_variable.or_else(by_parent).map(|driver| driver.bed.clone())
    }
}

fn running() -> std::sync::MutexGuard<'static, BTreeMap<String, Driver>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn variable(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let name = format!("{VARIABLE}=");
    let text = environment.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(name.as_bytes()))?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Parent and session of every process that has not ended.
struct Processes(BTreeMap<u32, (u32, u32)>);

impl Processes {
    fn now() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            process::start_ticks(&text)?;
            Some((pid, parent_and_session(&text)?))
        });
        Self(processes.collect())
    }

    fn descends(&self, pid: u32, from: u32) -> bool {
        let mut at = pid;
        while let Some((parent, _)) = self.0.get(&at) {
            if *parent == from {
                return true;
            }
            at = *parent;
        }
        false
    }

    /// Whether it is a child of the bench, or of one, that the bench has not started: it is of another session, and of no driver that runs.
    /// Daemons of firewalls in the tree are in a bed's namespace, which ends them.
    fn is_orphan(&self, pid: u32, drivers: &BTreeSet<u32>) -> bool {
        let bench = std::process::id();
        let own_session = self.0.get(&bench).map(|(_, session)| *session);
        let session = self.0.get(&pid).map(|(_, session)| *session);
        session != own_session
            && self.descends(pid, bench)
            && !drivers.contains(&pid)
            && !drivers.iter().any(|driver| self.descends(pid, *driver))
            && !crate::netns::is_in_a_bed(pid)
    }
}

/// The fourth and the sixth field of `/proc/PID/stat`.
fn parent_and_session(stat: &str) -> Option<(u32, u32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    Some((parent, fields.nth(1)?.parse().ok()?))
}

/// Takes note of the end of orphans, for which nobody else waits: children of the bench that are of another session, and no drivers.
fn reap_orphans() {
    let bench = std::process::id();
    let session_of = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        parent_and_session(&text)
    };
    let Some((_, own)) = session_of(bench) else { return };
    let drivers: BTreeSet<u32> = running().values().map(|driver| driver.pid).collect();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let is_orphan = session_of(pid).is_some_and(|(parent, session)| parent == bench && session != own);
        if is_orphan && !drivers.contains(&pid) {
            // One that has not ended is left alone.
            let _ = waitpid(Pid::from_raw(pid as i32), Some(WaitPidFlag::WNOHANG));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small tree: the bench (its session 5) with a driver 20, another driver 30, and what they left.
    fn processes() -> Processes {
        let bench = std::process::id();
        let (own, orphan, of_orphan) = (u32::MAX - 3, u32::MAX - 2, u32::MAX - 1);
        Processes(BTreeMap::from([
            (bench, (1, 5)),
            (20, (bench, 20)),
            (21, (20, 20)),
            (30, (bench, 30)),
            (31, (30, 31)),
            (own, (bench, 5)),
            (orphan, (bench, 40)),
            (of_orphan, (orphan, 40)),
            (u32::MAX, (1, 50)),
        ]))
    }

    #[test]
    fn orphans_are_nobody_elses() {
        let all = processes();
        let drivers = BTreeSet::from([20, 30]);
        let found: Vec<u32> = all.0.keys().copied().filter(|pid| all.is_orphan(*pid, &drivers)).collect();
        assert_eq!(found, [u32::MAX - 2, u32::MAX - 1]);
        assert!(all.descends(21, 20) && all.descends(31, 30) && !all.descends(31, 20));
    }

    #[test]
    fn parent_and_session_are_read_whatever_the_name() {
        let stat = "7 (a ) 1 2 3) S 11 12 13 0 -1";
        assert_eq!(parent_and_session(stat), Some((11, 13)));
        assert_eq!(parent_and_session("7 (a"), None);
    }
}
