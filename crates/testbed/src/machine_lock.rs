//! One run at a time on a machine: two that measure at once take each other's processor time, and both would report it as
//! their firewalls'.

use crate::error::TestbedError;
use crate::journal::JOURNAL_FOLDER;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Held while a run measures; the kernel gives it back when the process ends, however it ends.
#[derive(Debug)]
pub struct MachineLock {
    _file: Flock<File>,
}

impl MachineLock {
    /// Takes the lock, or returns what the run that has it wrote of itself: its process id and command.
    ///
    /// # Errors
    /// [`TestbedError::Io`] when the file below `/run/rampart-bench` cannot be made or written.
    pub fn take(command: &str) -> Result<Result<Self, String>, TestbedError> {
        Self::take_at(&Path::new(JOURNAL_FOLDER).join("lock"), command)
    }

    /// Takes the lock together with others who share it: agents, whose host may be that of another agent as well.
    ///
    /// # Errors
    /// As of [`MachineLock::take`].
    pub fn share() -> Result<Result<Self, String>, TestbedError> {
        let path = Path::new(JOURNAL_FOLDER).join("lock");
        fs::create_dir_all(JOURNAL_FOLDER).map_err(TestbedError::io("make", JOURNAL_FOLDER))?;
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(TestbedError::io("open", &path))?;
        let Ok(file) = Flock::lock(file, FlockArg::LockSharedNonblock) else {
            return Ok(Err(fs::read_to_string(&path).unwrap_or_default().trim().to_owned()));
        };
        let written =
            file.set_len(0).and_then(|()| (&*file).write_all(b"an agent of the bench, for another host\n"));
        written.map_err(TestbedError::io("write", &path))?;
        Ok(Ok(Self { _file: file }))
    }

    fn take_at(path: &Path, command: &str) -> Result<Result<Self, String>, TestbedError> {
        let folder = path.parent().unwrap_or(path);
        fs::create_dir_all(folder).map_err(TestbedError::io("make", folder))?;
        // Not truncated before it is locked: what the holder wrote is read by those who wait.
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let file = open.map_err(TestbedError::io("open", path))?;
        let Ok(file) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
            return Ok(Err(fs::read_to_string(path).unwrap_or_default().trim().to_owned()));
        };
        let written = file.set_len(0).and_then(|()| {
            (&*file).write_all(format!("process {}: {command}\n", std::process::id()).as_bytes())
        });
        written.map_err(TestbedError::io("write", path))?;
        Ok(Ok(Self { _file: file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_other_learns_who() {
        let folder = std::env::temp_dir().join(format!("machine-lock-{}", std::process::id()));
        let path = folder.join("lock");
        let held = MachineLock::take_at(&path, "run a-long-name").unwrap().unwrap();
        let holder = MachineLock::take_at(&path, "run b").unwrap().unwrap_err();
        assert_eq!(holder, format!("process {}: run a-long-name", std::process::id()));
        drop(held);
        let _again = MachineLock::take_at(&path, "run b").unwrap().unwrap();
        let holder = MachineLock::take_at(&path, "run c").unwrap().unwrap_err();
        assert_eq!(holder, format!("process {}: run b", std::process::id()), "nothing is left of the first");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
