//! Files that a policy names for its gateways. The daemon reads them, and again when one has changed, because a gateway's process opens none. A file
//! that cannot be used changes nothing of what is known, and is a trouble until it can.

use crate::list_copies::place_of;
use crate::list_files::Mark;
use policy::Policy;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a kind of file has.
pub(super) trait Content: Default + PartialEq {
    /// What that is, for people.
    const WHAT: &'static str;

    /// The files that a policy names, each with its gateway.
    fn named(policy: &Policy) -> impl Iterator<Item = (&str, &str)>;

    /// Reads a file, or says what is wrong with it and what to do.
    fn read(path: &Path) -> Result<Self, String>;
}

/// Files of one kind.
#[derive(Debug)]
pub(super) struct Files<T>(BTreeMap<PathBuf, Known<T>>);

#[derive(Debug)]
struct Known<T> {
    /// The file as it was before it was read; `None`: nothing was there.
    mark: Option<Mark>,
    content: Arc<T>,
    /// Why the content is that of an earlier file, or none.
    trouble: Option<String>,
}

impl<T> Default for Files<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Clone for Files<T> {
    fn clone(&self) -> Self {
        let known = self.0.iter().map(|(path, known)| (path.clone(), known.clone()));
        Self(known.collect())
    }
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        Self { mark: self.mark, content: Arc::clone(&self.content), trouble: self.trouble.clone() }
    }
}

impl<T: Content> Files<T> {
    /// Reads the files of a policy that have changed or were not read yet, and forgets those of others. Returns whether any content is another one.
    pub(super) fn read(&mut self, policy: &Policy) -> bool {
        let mut before = std::mem::take(&mut self.0);
        let mut has_changed = false;
        for path in T::named(policy).filter_map(|(_, file)| place_of(file, policy.folder.as_deref()).ok()) {
            if self.0.contains_key(&path) {
                continue;
            }
            let (mark, earlier) = (Mark::of(&path), before.remove(&path));
            let known = match earlier {
                Some(earlier) if mark.is_some() && mark == earlier.mark => earlier,
                earlier => {
                    let content = earlier.map(|earlier| earlier.content).unwrap_or_default();
                    match T::read(&path) {
                        Ok(read) => {
                            has_changed |= read != *content;
                            Known { mark, content: Arc::new(read), trouble: None }
                        }
                        Err(why) => Known { mark, content, trouble: Some(why) },
                    }
                }
            };
            self.0.insert(path, known);
        }
        has_changed
    }

    /// What is known of a file as a policy names it.
    pub(super) fn get(&self, policy: &Policy, file: &str) -> Option<&T> {
        let path = place_of(file, policy.folder.as_deref()).ok()?;
        self.0.get(&path).map(|known| &*known.content)
    }

    /// What is wrong, and what to do.
    pub(super) fn troubles(&self) -> impl Iterator<Item = String> {
        self.0.values().filter_map(|known| {
            let why = known.trouble.as_ref()?;
            Some(format!("{} could not be read, and stay as they were: {why}", T::WHAT))
        })
    }
}

/// Whether all files of a policy can be used.
///
/// # Errors
/// The first that cannot, with its gateway and what to do.
pub(super) fn check<T: Content>(policy: &Policy) -> Result<(), String> {
    T::named(policy).try_for_each(|(gateway, file)| {
        let read = place_of(file, policy.folder.as_deref()).and_then(|path| T::read(&path));
        read.map(drop).map_err(|why| format!("{}: the gateway `{gateway}`: {why}", policy.file))
    })
}
