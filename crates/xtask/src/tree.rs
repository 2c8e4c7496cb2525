//! The repository's text files, read once; the rules look at this and never at the disk.

use anyhow::{Context as _, ensure};
use std::path::Path;
use std::process::Command;

/// Paths relative to the repository's root, with what they hold.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<(String, String)>,
}

impl Tree {
    /// Reads what git tracks or would track; files that are not text are there with an empty text.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(root)
            .output()
            .context("starting git")?;
        ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
        let paths = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
        // A file that is deleted but not yet committed is still listed.
        let present = paths.split_terminator('\0').filter(|path| root.join(path).is_file());
        let files = present.map(|path| Ok((path.to_owned(), text_of(&root.join(path))?)));
        Ok(Self { files: files.collect::<anyhow::Result<_>>()? })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect() }
    }

    /// Every file: path and text.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of one file, empty if it is not there.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.files().find(|&(known, _)| known == path).map_or("", |(_, text)| text)
    }

    /// Whether there is such a file, or a folder with a file in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files().any(|(known, _)| {
            known.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(String::from_utf8(bytes).unwrap_or_default())
}
