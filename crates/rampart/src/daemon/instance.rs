//! The files of a firewall: its lock and its sockets. Two firewalls in one network namespace would write
//! over each other's links and forwarding, so the lock goes by the namespace and not by the socket.

use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, fchmodat};
use nix::unistd::{Gid, Group, Uid, fchownat};
use rampart_client::socket::{FOLDER, GROUP, Namespace, READERS, reading};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A network namespace, and the files that belong to a firewall in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// The namespace's name.
    pub(crate) namespace: String,
    pub(crate) socket: PathBuf,
    pub(crate) lock: PathBuf,
}

/// What whoever comes by a socket may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Ask, and change the firewall.
    Change,
    /// Ask.
    Ask,
}

/// The sockets of a firewall, on which it listens.
pub(crate) type Listeners = [(UnixListener, Role); 2];

/// Why a firewall cannot start here; complete, with what to do.
#[derive(Debug)]
pub(crate) enum InstanceError {
    /// A firewall runs in this namespace.
    Taken(String),
    /// The machine does not let us.
    Machine(String),
}

/// The lock of a namespace. Its file goes with it.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Unlocked when it goes, after the file's name.
    _file: Flock<File>,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still locked: nobody else can have one of this name by then.
        let _ = fs::remove_file(&self.path);
    }
}

impl Instance {
    /// That of the namespace that this thread is in; `socket` instead of the usual one.
    pub(crate) fn here(socket: Option<&Path>) -> io::Result<Self> {
        let namespace = Namespace::current()?;
        Ok(Self::of(Path::new(FOLDER), &namespace, socket.map_or_else(|| namespace.socket(), Path::to_owned)))
    }

    /// That of a namespace, with its files in a folder.
    pub(crate) fn of(folder: &Path, namespace: &Namespace, socket: PathBuf) -> Self {
        let inode = namespace.inode;
        Self { namespace: namespace.name.clone(), socket, lock: folder.join(format!("net-{inode}.lock")) }
    }

    /// Takes the lock of the namespace, and writes our process into it.
    ///
    /// # Errors
    /// [`InstanceError::Taken`] with the process that holds it.
    pub(crate) fn lock(&self) -> Result<Lock, InstanceError> {
        let path = &self.lock;
        let wrong =
            |error: io::Error| InstanceError::Machine(format!("cannot use {}: {error}", path.display()));
        if let Some(folder) = path.parent() {
            make_folder(folder).map_err(wrong)?;
        }
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o640);
            let file = options.open(path).map_err(wrong)?;
            let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
                .map_err(|(file, error)| self.not_locked(file, error))?;
            // Whoever held it before may have taken the file away after we opened it.
            if fs::metadata(path).is_ok_and(|it| file.metadata().is_ok_and(|own| own.ino() == it.ino())) {
                file.set_len(0).map_err(wrong)?;
                writeln!(file, "{}", std::process::id()).map_err(wrong)?;
                return Ok(Lock { _file: file, path: path.clone() });
            }
        }
    }

    fn not_locked(&self, mut file: File, error: nix::Error) -> InstanceError {
        if error != nix::Error::EWOULDBLOCK {
            return InstanceError::Machine(format!("cannot lock {}: {error}", self.lock.display()));
        }
        let mut holder = String::new();
        let holder = file.read_to_string(&mut holder).map_or("unknown", |_| holder.trim());
        InstanceError::Taken(format!(
            "a firewall runs in this network namespace already (process {holder}): `rampart apply` gives it another policy, \
             `rampart down` ends it"
        ))
    }

    /// Listens on both sockets, each for root and for its group where there is one. Whoever calls holds the lock, so a socket that
    /// nobody answers is one that a killed daemon left.
    ///
    /// # Errors
    /// [`InstanceError`]: somebody answers there, or there is something that is no socket.
    pub(crate) fn listen(&self) -> Result<Listeners, InstanceError> {
        let changing = listen(&self.socket, GROUP)?;
        let asking = listen(&reading(&self.socket), READERS).inspect_err(|_| self.remove_sockets())?;
        Ok([(changing, Role::Change), (asking, Role::Ask)])
    }

    pub(crate) fn remove_sockets(&self) {
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(reading(&self.socket));
    }
}

fn listen(socket: &Path, group: &str) -> Result<UnixListener, InstanceError> {
    let path = socket.display();
    let wrong = |error: io::Error| InstanceError::Machine(format!("cannot listen on {path}: {error}"));
    if let Ok(found) = fs::symlink_metadata(socket) {
        if !found.file_type().is_socket() {
            return Err(InstanceError::Machine(format!(
                "{path} is there and is no socket: name another with --socket"
            )));
        }
        if UnixStream::connect(socket).is_ok() {
            return Err(InstanceError::Taken(format!(
                "somebody listens on {path} already: name another socket with --socket"
            )));
        }
    }
    // Under another name until its owner and mode are right, so that nobody else can ever connect.
    let early = PathBuf::from(format!("{path}.{}", std::process::id()));
    let _ = fs::remove_file(&early);
    let listener = UnixListener::bind(&early).map_err(wrong)?;
    let ready = restrict(&early, 0o660, group).and_then(|()| fs::rename(&early, socket));
    ready.inspect_err(|_| drop(fs::remove_file(&early))).map_err(wrong)?;
    Ok(listener)
}

/// Nobody but root can list it. Both groups find their sockets by name.
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o711).create(folder)?;
    restrict(folder, 0o711, GROUP)
}

/// A group by its name. A machine that has no list of groups has none (getgrnam(3) says ENOENT then).
fn group_of(name: &str) -> nix::Result<Option<Group>> {
    match Group::from_name(name) {
        Err(nix::Error::ENOENT) => Ok(None),
        other => other,
    }
}

/// Gives a path to root and the group, or to root's own where there is none, with this mode. Where we are not root it stays ours.
fn restrict(path: &Path, mode: u32, group: &str) -> io::Result<()> {
    if Uid::effective().is_root() {
        let group = group_of(group)?.map_or(Gid::from_raw(0), |group| group.gid);
        let flags = nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW;
        fchownat(nix::fcntl::AT_FDCWD, path, None, Some(group), flags)?;
    }
    let flags = nix::sys::stat::FchmodatFlags::FollowSymlink;
    fchmodat(nix::fcntl::AT_FDCWD, path, Mode::from_bits_truncate(mode), flags)?;
    Ok(())
}
