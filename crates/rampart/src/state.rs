//! The confirmed policy on disk, by which a firewall comes up again. A file is replaced as a whole: whoever reads it, after a crash
//! of the machine too, finds the policy before or the one after it. Decides nothing about policies.

use crate::domains;
use crate::history::Store;
use crate::whole_file;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Where policies are kept that outlive the machine's boot.
const LASTING: &str = "/var/lib/rampart";
/// Where policies of other network namespaces are kept, which do not outlive it.
const PASSING: &str = "/run/rampart/state";
/// The policy of the namespace that the machine was started in, if none was ever confirmed.
pub(crate) const FIRST: &str = "/etc/rampart/policy.toml";

const CURRENT: &str = "policy.json";
const PREVIOUS: &str = "previous.json";
const WAITING: &str = "unconfirmed.json";
const DOMAINS: &str = "domains.json";
const HISTORY: &str = "history";
const LOG: &str = "log";

/// A folder of a firewall's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    folder: PathBuf,
}

/// A policy as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// As messages call its file.
    pub(crate) file: String,
    pub(crate) text: String,
    /// From which on it names the files of its lists.
    #[serde(default)]
    pub(crate) folder: Option<PathBuf>,
    pub(crate) applied_at: Timestamp,
}

impl Kept {
    /// Its file, wherever the daemon stands: another one than that in which it was named, after a boot.
    pub(crate) fn path(&self) -> PathBuf {
        let file = Path::new(&self.file);
        match (&self.folder, file.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => file.to_owned(),
        }
    }
}

/// A policy that waits to be confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) file: String,
    pub(crate) applied_at: Timestamp,
}

/// What there is to come up with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The last that was confirmed and the one before it, as far as they can be read.
    pub(crate) policies: Vec<Kept>,
    /// Files that cannot be read, and why.
    pub(crate) broken: Vec<String>,
    /// A policy was in force that nobody had confirmed.
    pub(crate) waiting: Option<Waiting>,
}

impl State {
    /// The usual folder of a namespace.
    pub(crate) fn usual(namespace: &str) -> Self {
        let folder =
            if namespace == "default" { PathBuf::from(LASTING) } else { Path::new(PASSING).join(namespace) };
        Self { folder }
    }

    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder that somebody names to read what a firewall has kept there: the usual one of a namespace is empty before the first firewall, but
    /// one that is named and holds nothing is another than was meant.
    ///
    /// # Errors
    /// No firewall has kept anything there: a sentence.
    pub(crate) fn named(folder: &Path) -> Result<Self, String> {
        let state = Self::at(folder);
        let is_away = |path: &Path| matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound);
        let kept = [CURRENT, WAITING, HISTORY, LOG].map(|name| folder.join(name));
        if kept.iter().all(|path| is_away(path)) {
            return Err(format!(
                "no firewall has kept anything in {}: name the folder that `rampart up --state` was given",
                folder.display()
            ));
        }
        Ok(state)
    }

    /// Where copies of lists are kept.
    pub(crate) fn lists(&self) -> PathBuf {
        self.folder.join("lists")
    }

    /// Where policies are kept that were put in force.
    pub(crate) fn history(&self) -> Store {
        Store::at(self.folder.join(HISTORY))
    }

    /// Where it is kept what happened.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// What a daemon knew of domains, if that can be read. What cannot is asked for again.
    pub(crate) fn domains(&self) -> Option<domains::Kept> {
        self.read(DOMAINS).ok().flatten()
    }

    /// Keeps what is known of domains.
    ///
    /// # Errors
    /// As [`State::keep`].
    pub(crate) fn keep_domains(&self, domains: &domains::Kept) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        self.write(DOMAINS, domains)
    }

    pub(crate) fn find(&self) -> Found {
        let mut found = Found::default();
        for name in [CURRENT, PREVIOUS] {
            match self.read(name) {
                Ok(kept) => found.policies.extend(kept),
                Err(why) => found.broken.push(why),
            }
        }
        found.waiting = self.read(WAITING).ok().flatten();
        found
    }

    fn read<T: for<'d> Deserialize<'d>>(&self, name: &str) -> Result<Option<T>, String> {
        let path = self.folder.join(name);
        let wrong = |why: String| format!("{} cannot be read: {why}", path.display());
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Keeps a confirmed policy. The one before it stays beside it.
    ///
    /// # Errors
    /// The disk is full or cannot be written; what was kept before stays.
    pub(crate) fn keep(&self, policy: &Kept) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // What daemons that were killed have left takes some space, and no policy is the worse for it.
        let _ = whole_file::forget_unfinished(&self.folder);
        let kept = self.read::<Kept>(CURRENT).ok().flatten();
        if kept.as_ref().is_some_and(|kept| is_same(kept, policy)) {
            return self.forget_waiting();
        }
        let (current, previous) = (self.folder.join(CURRENT), self.folder.join(PREVIOUS));
        // No restart, and no other name of the file, makes the policy its own predecessor.
        if kept.is_some_and(|kept| kept.text != policy.text) {
            // Under a second name before the first one goes to the new policy, so that there always is one.
            let early = self.folder.join(format!("{PREVIOUS}.new"));
            let _ = fs::remove_file(&early);
            fs::hard_link(&current, &early)?;
            fs::rename(&early, &previous)?;
        }
        self.write(CURRENT, policy)?;
        self.forget_waiting()
    }

    /// Notes that a policy is in force that nobody has confirmed.
    ///
    /// # Errors
    /// As [`State::keep`].
    pub(crate) fn note_waiting(&self, waiting: &Waiting) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        self.write(WAITING, waiting)
    }

    /// No policy waits any more.
    ///
    /// # Errors
    /// As [`State::keep`].
    pub(crate) fn forget_waiting(&self) -> io::Result<()> {
        match fs::remove_file(self.folder.join(WAITING)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        whole_file::replace(&self.folder.join(name), 0o600, &serde_json::to_vec_pretty(value)?)
    }
}

/// Whether a machine would come up with the same by either.
fn is_same(one: &Kept, other: &Kept) -> bool {
    (&one.text, &one.file, &one.folder) == (&other.text, &other.file, &other.folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Kept {
        Kept {
            file: "p.toml".to_owned(),
            text: text.to_owned(),
            folder: None,
            applied_at: "2026-11-22T10:00:00Z".parse().unwrap(),
        }
    }

    fn texts(state: &State) -> (Vec<String>, usize) {
        let found = state.find();
        (found.policies.into_iter().map(|kept| kept.text).collect(), found.broken.len())
    }

    #[test]
    fn the_last_two_policies_are_kept_and_a_broken_file_hides_neither() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(&folder.path().join("deep/down"));
        assert_eq!(state.find(), Found::default());
        for (text, expected) in
            [("a", vec!["a"]), ("b", vec!["b", "a"]), ("b", vec!["b", "a"]), ("c", vec!["c", "b"])]
        {
            state.keep(&kept(text)).unwrap();
            assert_eq!(texts(&state), (expected.into_iter().map(str::to_owned).collect(), 0), "{text}");
        }
        let current = folder.path().join("deep/down").join(CURRENT);
        // What a machine that lost its power may leave, and a file that somebody edited.
        for damage in ["", "{\"file\": \"p.toml\", \"text\": \"d"] {
            fs::write(&current, damage).unwrap();
            assert_eq!(texts(&state), (vec!["b".to_owned()], 1), "{damage:?}");
        }
        state.keep(&kept("d")).unwrap();
        assert_eq!(texts(&state), (vec!["d".to_owned(), "b".to_owned()], 0), "what is broken takes no place");
    }

    /// Its lists are files beside it, so a machine must come up with the one that was applied last.
    #[test]
    fn the_same_text_from_another_folder_is_kept_and_is_no_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        state.keep(&kept("a")).unwrap();
        state.keep(&kept("b")).unwrap();
        for from in ["/etc/one", "/etc/other"] {
            let b = Kept { folder: Some(from.into()), ..kept("b") };
            state.keep(&b).unwrap();
            assert_eq!(state.find().policies, [b, kept("a")], "{from}");
        }
    }

    #[test]
    fn a_policy_waits_until_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path());
        state.keep(&kept("a")).unwrap();
        let waiting = Waiting { file: "q.toml".to_owned(), applied_at: kept("").applied_at };
        for end in [|state: &State| state.keep(&kept("a")), State::forget_waiting] {
            state.note_waiting(&waiting).unwrap();
            assert_eq!(state.find().waiting.as_ref(), Some(&waiting));
            end(&state).unwrap();
            assert_eq!(state.find().waiting, None);
        }
    }
}
