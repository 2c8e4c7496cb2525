//! What the kernel's settings of interfaces were before the firewall changed them, in a file that outlives the daemon: whoever takes the firewall down
//! puts them back, also where no daemon runs. The settings of all interfaces, which close the kernel's own forwarding, are not among them
//! (`docs/decisions/0013-what-a-dead-firewall-leaves.md`).

use crate::daemon::instance::Instance;
use crate::forwarding::SettingError;
use crate::gone;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Those of the loopback interface, which `dataplane::routes` changes.
const OF_LOOPBACK: [&str; 4] = [
    "ipv4/conf/lo/forwarding",
    "ipv6/conf/lo/forwarding",
    "ipv4/conf/lo/accept_local",
    "ipv4/conf/lo/rp_filter",
];

/// The end of such a file's name.
pub(crate) const EXTENSION: &str = "settings";

/// The file, one for each network namespace: lines of a setting and what it was. It lies where files go when the machine ends, because the settings do.
#[derive(Debug, Clone)]
pub(crate) struct Before {
    file: PathBuf,
}

impl Before {
    pub(crate) fn of(instance: &Instance) -> Self {
        Self { file: instance.lock.with_extension(EXTENSION) }
    }

    /// No firewall runs or has left anything: what is in the file is of a namespace that is gone.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn begin(&self) -> Result<(), SettingError> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    /// Removes such files of namespaces that are gone, and lets go of those that only a firewall holds.
    pub(crate) fn forget_others(&self) {
        gone::forget(&self.file);
    }

    /// Notes those of the loopback interface.
    ///
    /// # Errors
    /// As [`Self::note`].
    pub(crate) fn note_loopback(&self, settings: &Path) -> Result<(), SettingError> {
        OF_LOOPBACK.iter().try_for_each(|switch| self.note(settings, switch))
    }

    /// The same for an earlier firewall that noted nothing, because it was of an older version: they were off.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn suppose_loopback_off(&self) -> Result<(), SettingError> {
        if self.file.exists() {
            return Ok(());
        }
        let text: String = OF_LOOPBACK.iter().map(|switch| format!("{switch} 0\n")).collect();
        fs::write(&self.file, text).map_err(|error| self.failed(error))
    }

    /// Notes what a setting is, unless that was noted before. One that the kernel does not have is nothing to note.
    ///
    /// # Errors
    /// The setting cannot be read or the file not be written.
    pub(crate) fn note(&self, settings: &Path, switch: &str) -> Result<(), SettingError> {
        let path = settings.join(switch);
        let value = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            read => read.map_err(|source| SettingError { path, source })?,
        };
        if self.noted().map_err(|error| self.failed(error))?.iter().any(|(noted, _)| noted == switch) {
            return Ok(());
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file);
        let written = file
            .as_mut()
            .map_err(|error| io::Error::from(error.kind()))
            .and_then(|file| file.write_all(format!("{switch} {}\n", value.trim()).as_bytes()));
        written.map_err(|error| self.failed(error))
    }

    /// Puts back what was noted of an interface, or all of it. One that is gone, or that is as it was, is left alone.
    ///
    /// # Errors
    /// A setting or the file cannot be written.
    pub(crate) fn put_back(&self, settings: &Path, interface: Option<&str>) -> Result<(), SettingError> {
        let noted = self.noted().map_err(|error| self.failed(error))?;
        let is_of = |switch: &str| interface.is_none_or(|name| switch.split('/').nth(2) == Some(name));
        let (these, others): (Vec<_>, Vec<_>) = noted.into_iter().partition(|(switch, _)| is_of(switch));
        for (switch, value) in &these {
            let path = settings.join(switch);
            match fs::read_to_string(&path) {
                Ok(now) if now.trim() != value => {
                    fs::write(&path, value).map_err(|source| SettingError { path, source })?;
                }
                _ => {}
            }
        }
        if others.is_empty() {
            return self.begin();
        }
        let text: String = others.iter().map(|(switch, value)| format!("{switch} {value}\n")).collect();
        fs::write(&self.file, text).map_err(|error| self.failed(error))
    }

    fn noted(&self) -> io::Result<Vec<(String, String)>> {
        let text = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let pair =
            |line: &str| line.split_once(' ').map(|(switch, value)| (switch.to_owned(), value.to_owned()));
        Ok(text.lines().filter_map(pair).collect())
    }

    fn failed(&self, source: io::Error) -> SettingError {
        SettingError { path: self.file.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_put_back_as_they_were_first() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path();
        let before = Before { file: settings.join("noted") };
        let set = |switch: &str, value: &str| {
            fs::create_dir_all(settings.join(switch).parent().unwrap()).unwrap();
            fs::write(settings.join(switch), value).unwrap();
        };
        let is = |switch: &str| fs::read_to_string(settings.join(switch)).unwrap();
        let [e0, e1, lo] = ["ipv6/conf/e0/forwarding", "ipv6/conf/e1/forwarding", OF_LOOPBACK[3]];
        for (switch, value) in [(e0, "0\n"), (e1, "1\n"), (lo, "1\n")] {
            set(switch, value);
            before.note(settings, switch).unwrap();
        }
        before.note(settings, "ipv6/conf/none/forwarding").unwrap();
        for switch in [e0, e1, lo] {
            set(switch, "2");
            before.note(settings, switch).unwrap();
        }
        before.put_back(settings, Some("e0")).unwrap();
        assert_eq!([e0, e1, lo].map(is), ["0", "2", "2"]);
        set(e0, "7");
        before.put_back(settings, None).unwrap();
        assert_eq!([e0, e1, lo].map(is), ["7", "1", "1"], "e0 was put back before");
        assert!(!before.file.exists());
        before.put_back(settings, None).unwrap();
    }
}
