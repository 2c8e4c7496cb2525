//! Which processes come from which driver outside the tree. What such a driver starts may go to another group, session or namespace and
//! outlive whoever started it: its time is the firewall's all the same, and it ends with its driver. Three things tell: a variable that
//! every child inherits, the parents, and a session that is not the bench's, because orphans become children of the bench.

use crate::priority;
use crate::stat::{self, Stat};
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
    /// parent of orphans. That session has the processor as the bench's has it, as firewalls in the tree do.
    pub(crate) fn command(program: &std::path::Path) -> (Command, String) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let value = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Without it orphans go to init, and are still known by the variable.
        let _ = set_child_subreaper(true);
        let mut command = Command::new("setsid");
        if let Some(nice) = priority::nice_of_session() {
            let script = "echo \"$1\" 2>/dev/null >/proc/self/autogroup; exec \"$0\"";
            command.args(["sh", "-c", script]).arg(program).arg(nice.to_string());
        } else {
            command.arg(program);
        }
        command.env(VARIABLE, &value);
        (command, value)
    }

    /// Does the same for sessions that its processes have begun since, as daemons do.
    pub(crate) fn stand_beside(&self) {
        priority::stand_beside(self.left_of(&Processes::now()));
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
            let all = Processes::now();
            all.reap_orphans();
            let left = self.left_of(&all);
            for &pid in &left {
                // It may have ended by itself.
                let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
            }
            if left.is_empty() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Those of the driver's processes that run, but for itself: those with its variable, its descendants, and orphans that are nobody
    /// else's.
    fn left_of(&self, all: &Processes) -> BTreeSet<u32> {
        let others: BTreeSet<u32> =
            running().values().map(|driver| driver.pid).filter(|pid| *pid != self.pid).collect();
        let is_own = |pid: u32| match variable(pid) {
            Some(value) => value == self.value,
            None => all.descends(pid, self.pid) || all.is_orphan(pid, &others),
        };
        let running = all.0.iter().filter(|(_, stat)| !stat.has_ended).map(|(pid, _)| *pid);
        running.filter(|pid| *pid != self.pid && is_own(*pid)).collect()
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

/// Every process at one moment, those among them that have ended and for which nobody has waited yet.
struct Processes(BTreeMap<u32, Stat>);

impl Processes {
    fn now() -> Self {
        Self(stat::all().collect())
    }

    fn descends(&self, pid: u32, from: u32) -> bool {
        let mut at = pid;
        while let Some(Stat { parent, .. }) = self.0.get(&at) {
            if *parent == from {
                return true;
            }
            at = *parent;
        }
        false
    }

    /// Whether a process is of another session than the bench, where all stay that the bench starts itself.
    fn is_of_another_session(&self, pid: u32) -> bool {
        let session = |pid| self.0.get(&pid).map(|stat| stat.session);
        session(pid) != session(std::process::id())
    }

    /// Whether it is a child of the bench, or of one, that the bench has not started and that is of no driver that runs.
    /// Daemons of firewalls in the tree are in a bed's namespace, which ends them.
    fn is_orphan(&self, pid: u32, drivers: &BTreeSet<u32>) -> bool {
        self.is_of_another_session(pid)
            && self.descends(pid, std::process::id())
            && !drivers.contains(&pid)
            && !drivers.iter().any(|driver| self.descends(pid, *driver))
            && !crate::netns::is_in_a_bed(pid)
    }

    /// Takes note of the end of orphans, for which nobody else waits.
    fn reap_orphans(&self) {
        let bench = std::process::id();
        let drivers: BTreeSet<u32> = running().values().map(|driver| driver.pid).collect();
        let ended = self.0.iter().filter(|(_, stat)| stat.has_ended && stat.parent == bench);
        for pid in ended.map(|(pid, _)| *pid) {
            if self.is_of_another_session(pid) && !drivers.contains(&pid) {
                // Nothing is lost if somebody waited for it meanwhile.
                let _ = waitpid(Pid::from_raw(pid as i32), Some(WaitPidFlag::WNOHANG));
            }
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
        let rows = [
            (bench, 1, 5),
            (20, bench, 20),
            (21, 20, 20),
            (30, bench, 30),
            (31, 30, 31),
            (own, bench, 5),
            (orphan, bench, 40),
            (of_orphan, orphan, 40),
            (u32::MAX, 1, 50),
        ];
        let stat = |parent, session| Stat {
            has_ended: false,
            parent,
            session,
            kernel_thread: false,
            ticks: 0,
            children_ticks: 0,
            start_ticks: 0,
            core: 0,
        };
        Processes(rows.map(|(pid, parent, session)| (pid, stat(parent, session))).into())
    }

    #[test]
    fn orphans_are_nobody_elses() {
        let all = processes();
        let drivers = BTreeSet::from([20, 30]);
        let found: Vec<u32> = all.0.keys().copied().filter(|pid| all.is_orphan(*pid, &drivers)).collect();
        assert_eq!(found, [u32::MAX - 2, u32::MAX - 1]);
        assert!(all.descends(21, 20) && all.descends(31, 30) && !all.descends(31, 20));
    }
}
