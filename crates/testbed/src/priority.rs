//! The processor's priority of the bench's session. Where the kernel groups tasks by session (autogroups, `sched(7)`), a
//! nice value counts only within the session, so that the generator's own says nothing against other people's work. A run
//! gives its whole session the highest priority, and puts it back. Where control groups divide the processor, or nothing does,
//! it changes nothing.

use crate::error::TestbedError;
use crate::journal::{Change, Journal};
use std::fs;
use std::path::Path;

const ENABLED: &str = "/proc/sys/kernel/sched_autogroup_enabled";
const OWN: &str = "/proc/self/autogroup";
const HIGHEST: i8 = -20;

/// What divides the processor between this session and others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: every thread's nice value counts against all others'.
    Alone,
    /// A control group, by its path; its weight decides.
    ControlGroup(String),
    /// The session's autogroup.
    Autogroup {
        /// Its number, never given twice.
        number: u64,
        /// Its nice value, -20 to 19.
        nice: i8,
    },
}

impl Standing {
    /// Of this process.
    pub fn now() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        if let Some(path) = control_group(&text("/proc/self/cgroup"), |path| {
            Path::new(&format!("/sys/fs/cgroup{path}/cpu.weight")).exists()
        }) {
            return Self::ControlGroup(path);
        }
        let group = (text(ENABLED).trim() == "1").then(|| parse(&text(OWN))).flatten();
        group.map_or(Self::Alone, |(number, nice)| Self::Autogroup { number, nice })
    }
}

/// The nice value of the autogroup that this process is in, -20 to 19; `None` where the kernel does not group it by its session.
pub(crate) fn nice_of_session() -> Option<i8> {
    match Standing::now() {
        Standing::Autogroup { nice, .. } => Some(nice),
        Standing::Alone | Standing::ControlGroup(_) => None,
    }
}

/// Gives programs that begin sessions of their own the processor as the bench's session has it, which firewalls are in that do not. One that has
/// ended needs nothing.
pub(crate) fn stand_beside(pids: impl IntoIterator<Item = u32>) {
    let Some(nice) = nice_of_session() else { return };
    for pid in pids {
        let _ = fs::write(format!("/proc/{pid}/autogroup"), nice.to_string());
    }
}

/// A raised priority of the session. Dropping it restores the old one, and so does [`crate::leftovers::remove`] when the
/// process is killed. Of two at the same time in one session, the first to end restores it for both.
#[derive(Debug)]
pub struct SessionPriority {
    description: String,
    refused: bool,
    _journal: Option<Journal>,
}

impl SessionPriority {
    /// Raises the priority of this session's autogroup, if it has one. What cannot be raised is left alone and described.
    pub fn raise() -> Self {
        let description =
            |description: &str| Self { description: description.to_owned(), refused: false, _journal: None };
        match Standing::now() {
            Standing::Alone => description("nice values of threads: sessions are not grouped"),
            Standing::ControlGroup(path) => description(&format!("the weight of control group {path}")),
            Standing::Autogroup { nice: HIGHEST, .. } => description("autogroup, nice -20 already"),
            Standing::Autogroup { number, nice } => match raise_group(number, nice) {
                Ok(journal) => {
                    let description = format!("autogroup, nice -20 for the run ({nice} before)");
                    Self { description, refused: false, _journal: Some(journal) }
                }
                Err(error) => Self {
                    description: format!("autogroup, nice {nice}: it could not be raised ({error})"),
                    refused: true,
                    _journal: None,
                },
            },
        }
    }

    /// What decides about the processor during the run, for the report's environment.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether there is an autogroup that could not be raised: on a busy machine the generator is then late.
    pub fn refused(&self) -> bool {
        self.refused
    }
}

fn raise_group(number: u64, before: i8) -> Result<Journal, TestbedError> {
    let mut journal = Journal::start()?;
    journal.record(Change::Autogroup { number, before })?;
    match fs::write(OWN, HIGHEST.to_string()) {
        Ok(()) => Ok(journal),
        Err(error) => {
            journal.forget_last();
            Err(TestbedError::io("write", OWN)(error))
        }
    }
}

/// Gives an autogroup its nice value back, through any of its processes. Without any it is gone, and nothing is to be done.
pub(crate) fn restore(number: u64, nice: i8) -> Result<(), TestbedError> {
    let Ok(entries) = fs::read_dir("/proc") else { return Ok(()) };
    let files = entries.flatten().map(|entry| entry.path().join("autogroup"));
    for file in files {
        let group = fs::read_to_string(&file).ok().and_then(|text| parse(&text));
        if group.is_none_or(|(found, _)| found != number) {
            continue;
        }
        match fs::write(&file, nice.to_string()) {
            // The process ended meanwhile; there may be others.
            Err(error) if is_gone(&error) => {}
            written => return written.map_err(TestbedError::io("restore", file)),
        }
    }
    Ok(())
}

fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH)
}

/// `/autogroup-190 nice 0`. Empty for a process that is in none.
fn parse(text: &str) -> Option<(u64, i8)> {
    let (number, nice) = text.trim().strip_prefix("/autogroup-")?.split_once(" nice ")?;
    Some((number.parse().ok()?, nice.parse().ok()?))
}

/// The control group below the root that shares out the processor for a process with this `/proc/PID/cgroup`; where there is
/// one, autogroups are not asked (Linux `task_wants_autogroup()`). `has_weight` says whether a group of version 2 has the cpu
/// controller: without it, its tasks stand in the group above.
fn control_group(text: &str, has_weight: impl Fn(&str) -> bool) -> Option<String> {
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.split(',').any(|name| name == "cpu") && path != "/" {
            return Some(path.to_owned());
        }
        if controllers.is_empty() {
            let ancestors = Path::new(path).ancestors().filter_map(Path::to_str);
            let found = ancestors.filter(|path| *path != "/").find(|path| has_weight(path));
            if let Some(found) = found {
                return Some(found.to_owned());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autogroups_are_read() {
        let rows = [
            ("/autogroup-190 nice 0\n", Some((190, 0))),
            ("/autogroup-7 nice -20\n", Some((7, -20))),
            ("", None),
            ("/autogroup- nice 0", None),
            ("/autogroup-3 nice high", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn control_groups_that_share_out_the_processor_are_found() {
        let rows = [
            // Version 1: the controller's own line says it.
            ("9:name=systemd:/\n2:cpuacct:/x\n1:cpu:/\n0::/\n", None),
            ("4:memory:/a\n3:cpu,cpuacct:/docker/a\n", Some("/docker/a")),
            ("5:cpuset:/a\n0::/\n", None),
            // Version 2: the nearest with the controller.
            ("0::/weighted/session.scope\n", Some("/weighted")),
            ("0::/weighted\n", Some("/weighted")),
            ("0::/other/session.scope\n", None),
            ("0::/\n", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let found = control_group(text, |path| path == "/weighted");
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_group_that_is_gone_needs_nothing() {
        assert!(restore(u64::MAX, 0).is_ok());
    }
}
