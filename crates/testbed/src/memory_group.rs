//! Control groups that bound the memory of a firewall's own programs, of version 2 or of version 1, whichever has the controller of memory.

use crate::error::TestbedError;
use crate::journal::{Change, Journal};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where groups may be.
struct Place {
    root: &'static str,
    /// Which controllers groups have, of version 2.
    controllers: Option<&'static str>,
    limit: &'static str,
    /// The limit of what is swapped out, and whether it counts memory too; kernels without swap have none.
    swap: (&'static str, bool),
}

impl Place {
    const fn second(root: &'static str) -> Self {
        Self {
            root,
            controllers: Some("cgroup.subtree_control"),
            limit: "memory.max",
            swap: ("memory.swap.max", false),
        }
    }

    fn has_memory(&self) -> bool {
        let root = Path::new(self.root);
        match self.controllers {
            Some(file) => fs::read_to_string(root.join(file))
                .is_ok_and(|text| text.split_whitespace().any(|controller| controller == "memory")),
            None => root.join(self.limit).exists(),
        }
    }
}

const PLACES: [Place; 3] = [
    Place::second("/sys/fs/cgroup"),
    Place::second("/sys/fs/cgroup/unified"),
    Place {
        root: "/sys/fs/cgroup/memory",
        controllers: None,
        limit: "memory.limit_in_bytes",
        swap: ("memory.memsw.limit_in_bytes", true),
    },
];
/// How long programs that were ended may take to leave a group.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A group with a limit. It goes with the journal that it was written to.
#[derive(Debug)]
pub(crate) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Makes a group whose processes may take so many MB together.
    ///
    /// # Errors
    /// The machine bounds no memory by control groups, or the kernel refuses.
    pub(crate) fn make(mb: u32, journal: &mut Journal) -> Result<Self, TestbedError> {
        let found = PLACES.iter().find(|place| place.has_memory());
        let place = found.ok_or_else(|| TestbedError::MachineCannot {
            what: "limit the memory of a firewall (`memory_limit`)".to_owned(),
            remedy: "mount control groups with the controller of memory at /sys/fs/cgroup, and give it to the groups at the top \
                     (cgroup.subtree_control)"
                .to_owned(),
        })?;
        let path = Path::new(place.root).join(journal.name());
        journal.record(Change::ControlGroup(path.clone()))?;
        fs::create_dir(&path).map_err(TestbedError::io("make", &path))?;
        let bytes = u64::from(mb) << 20;
        let set = |name: &str, bytes: u64| {
            let file = path.join(name);
            fs::write(&file, bytes.to_string()).map_err(TestbedError::io("write", file))
        };
        set(place.limit, bytes)?;
        let (swap, counts_both) = place.swap;
        if path.join(swap).exists() {
            set(swap, if counts_both { bytes } else { 0 })?;
        }
        Ok(Self(path))
    }

    /// Takes a process in, with all that it takes of memory from now on.
    ///
    /// # Errors
    /// It has ended, or the kernel refuses.
    pub(crate) fn take(&self, pid: u32) -> Result<(), TestbedError> {
        let file = self.0.join("cgroup.procs");
        fs::write(&file, pid.to_string()).map_err(TestbedError::io("write", &file))
    }
}

/// Removes a group once its processes have ended. One that is gone is no error.
pub(crate) fn remove(path: &Path) -> Result<(), TestbedError> {
    let begun = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && begun.elapsed() < PATIENCE => {
                std::thread::sleep(LOOK_EVERY);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(TestbedError::io("remove", path)(error));
            }
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::Guest;
    use crate::netns::Namespace;

    #[test]
    fn needs_root_what_takes_more_than_its_group_may_ends() {
        let here = Namespace::current().unwrap();
        let mut journal = Journal::start().unwrap();
        let group = MemoryGroup::make(8, &mut journal).unwrap();
        // Each shell waits for a line of a pipe that nobody writes to, and then doubles a text.
        for (doubles, is_killed) in [(10, false), (28, true)] {
            let fifo = tempfile::tempdir().unwrap();
            let pipe = fifo.path().join("go");
            crate::program::run("mkfifo", &[&pipe.to_string_lossy()]).unwrap();
            let script = format!(
                "read x < '{}'; a=x; i=0; while [ $i -lt {doubles} ]; do a=$a$a; i=$((i+1)); done",
                pipe.display()
            );
            let guest = Guest::start(&here, "sh", &["-c", &script], &[]).unwrap();
            group.take(guest.pid()).unwrap();
            fs::write(&pipe, "go\n").unwrap();
            let ended = guest.finish().unwrap();
            assert_eq!(!ended.status.success(), is_killed, "{doubles}: {} {}", ended.status, ended.errors);
        }
        let path = group.0.clone();
        drop(journal);
        assert!(!path.exists(), "{}", path.display());
    }
}
