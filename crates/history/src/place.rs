//! Where the file of the runs is, and whose it is. The bench runs through sudo, but runs are the user's: the file is in the home of
//! the user who called sudo, and while it is used, this thread's rights to files are that user's and not root's.

use crate::error::HistoryError;
use nix::unistd::{Gid, Uid, User, geteuid, setfsgid, setfsuid};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Names another file, or `off` for none.
pub const VARIABLE: &str = "RAMPART_BENCH_HISTORY";

/// What the environment says, gathered so that it can be tested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// [`VARIABLE`].
    pub variable: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub state: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// Who called sudo, with their home; none when nobody did, or when this process is not root.
    pub caller: Option<Caller>,
}

/// Who called sudo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Home.
    pub home: PathBuf,
}

impl Caller {
    /// Who called sudo, if this process is root because somebody did.
    pub fn find() -> Option<Self> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let uid = number("SUDO_UID").filter(|uid| *uid != 0 && geteuid().is_root())?;
        let user = User::from_uid(Uid::from_raw(uid)).ok()??;
        Some(Self { uid, gid: user.gid.as_raw(), home: user.dir })
    }
}

impl Surroundings {
    /// Those of this process.
    pub fn read() -> Self {
        let path = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self {
            variable: path(VARIABLE),
            state: path("XDG_STATE_HOME"),
            home: path("HOME"),
            caller: Caller::find(),
        }
    }
}

/// The file of the runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its path; absolute unless the user named a relative one.
    pub path: PathBuf,
    /// User and group whose rights are used.
    owner: Option<(u32, u32)>,
}

impl Place {
    /// Where runs are kept: in the file that `--history` names, in that of [`VARIABLE`], or in the user's state folder. `None` when
    /// the user wants none kept.
    ///
    /// # Errors
    /// [`HistoryError::NoHome`] when nothing says where.
    pub fn find(named: Option<&Path>, around: &Surroundings) -> Result<Option<Self>, HistoryError> {
        let named = named.or(around.variable.as_deref());
        if let Some(path) = named {
            return Ok((path != Path::new("off")).then(|| Self::file(path)));
        }
        // The XDG base directory specification has relative paths ignored.
        let state = around.state.clone().filter(|path| path.is_absolute());
        let home = around.caller.as_ref().map(|caller| caller.home.clone()).or_else(|| around.home.clone());
        let state = state.or_else(|| Some(home?.join(".local/state"))).ok_or(HistoryError::NoHome)?;
        let owner = around.caller.as_ref().map(|caller| (caller.uid, caller.gid));
        Ok(Some(Self { path: state.join("rampart-bench/history.sqlite"), owner }))
    }

    /// A file that was named, with the rights of this process.
    pub fn file(path: &Path) -> Self {
        Self { path: path.to_path_buf(), owner: None }
    }

    /// Uses files as the owner for as long as the guard lives.
    pub(crate) fn enter(&self) -> AsOwner {
        AsOwner::new(self.owner)
    }
}

/// This thread's rights to files are the owner's until it is dropped. It stays on its thread.
#[derive(Debug)]
pub(crate) struct AsOwner {
    before: Option<(Uid, Gid)>,
    _thread: PhantomData<*const ()>,
}

impl AsOwner {
    fn new(owner: Option<(u32, u32)>) -> Self {
        let before = owner.map(|(uid, gid)| {
            let gid = setfsgid(Gid::from_raw(gid));
            (setfsuid(Uid::from_raw(uid)), gid)
        });
        Self { before, _thread: PhantomData }
    }
}

impl Drop for AsOwner {
    fn drop(&mut self) {
        if let Some((uid, gid)) = self.before {
            setfsuid(uid);
            setfsgid(gid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_where_the_user_or_the_specification_says() {
        let caller = Caller { uid: 1000, gid: 1000, home: "/home/ann".into() };
        let around = |variable: &str, state: &str, home: &str, caller: Option<&Caller>| {
            let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
            Surroundings {
                variable: path(variable),
                state: path(state),
                home: path(home),
                caller: caller.cloned(),
            }
        };
        let rows = [
            (
                None,
                around("", "", "/home/bob", None),
                Some("/home/bob/.local/state/rampart-bench/history.sqlite"),
                None,
            ),
            (
                None,
                around("", "/state", "/home/bob", None),
                Some("/state/rampart-bench/history.sqlite"),
                None,
            ),
            (
                None,
                around("", "state", "/home/bob", None),
                Some("/home/bob/.local/state/rampart-bench/history.sqlite"),
                None,
            ),
            (
                None,
                around("", "", "/root", Some(&caller)),
                Some("/home/ann/.local/state/rampart-bench/history.sqlite"),
                Some((1000, 1000)),
            ),
            (None, around("/tmp/h", "/state", "/root", Some(&caller)), Some("/tmp/h"), None),
            (Some("mine"), around("/tmp/h", "", "", None), Some("mine"), None),
            (None, around("off", "/state", "/root", None), None, None),
            (Some("off"), around("/tmp/h", "", "", None), None, None),
        ];
        for (named, around, path, owner) in rows {
            let found = Place::find(named.map(Path::new), &around).unwrap();
            assert_eq!(found, path.map(|path| Place { path: path.into(), owner }), "{named:?} {around:?}");
        }
        assert!(matches!(Place::find(None, &around("", "", "", None)), Err(HistoryError::NoHome)));
    }
}
