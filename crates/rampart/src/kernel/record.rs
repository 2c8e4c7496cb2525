//! The interfaces that a firewall is attached to, in a file: if the firewall is killed, its programs go on without it, and the next
//! firewall must know where they are.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The file of a namespace. It exists as long as an interface is attached.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
}

impl Record {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The interfaces of the last firewall; none if it detached them.
    pub(crate) fn read(&self) -> io::Result<Vec<String>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes the list as a whole.
    pub(crate) fn write<'i>(&self, interfaces: impl IntoIterator<Item = &'i str>) -> io::Result<()> {
        let lines: Vec<&str> = interfaces.into_iter().collect();
        if lines.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let early = self.path.with_extension("new");
        fs::write(&early, lines.join("\n") + "\n").and_then(|()| fs::rename(&early, &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_exists_as_long_as_an_interface_is_attached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held");
        let record = Record::at(&path);
        assert_eq!(record.read().unwrap(), [""; 0]);
        record.write(["e0", "e1"]).unwrap();
        assert_eq!(record.read().unwrap(), ["e0", "e1"]);
        for _ in 0..2 {
            record.write([]).unwrap();
            assert!(!path.exists());
        }
    }
}
