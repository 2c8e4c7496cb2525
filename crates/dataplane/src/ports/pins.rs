//! Names for links in a bpffs, so that they outlive the process that made them: a folder for each network namespace.
//!
//! The bpffs is that of the machine's (or container's) first process, or of our oldest ancestor that we may follow, whatever mount
//! namespace we are in: one that belongs to `ip netns exec` alone would end with us, and the links with it. Where none is
//! mounted, we mount one of our own. Finding it takes rights that a daemon gives up once it runs, so the folder stays open.
//!
//! A link holds its network namespace, and so do its names: one that was deleted without `rampart down` is there as long as they are, with its
//! interfaces, its firewall and the memory of both.

use crate::shared::pin;
use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Where systemd and others mount it.
const USUAL: &str = "/sys/fs/bpf";
const OUR_OWN: &str = "/run/rampart/bpf";
/// Of a folder's name; the namespace's number follows.
const PREFIX: &str = "rampart-net-";

/// The folder of a network namespace, wherever its bpffs is mounted.
#[derive(Debug)]
pub(super) struct Folder {
    bpffs: File,
    name: String,
}

impl Folder {
    /// Takes all names away, and the folder.
    pub(super) fn remove(&self) -> io::Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut folder = Dir::openat(&self.bpffs, self.name.as_str(), flags, Mode::empty())?;
        let names: Vec<_> =
            folder.iter().map(|entry| Ok(entry?.file_name().to_owned())).collect::<nix::Result<_>>()?;
        for name in names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")) {
            unlinkat(&folder, name.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
        }
        Ok(unlinkat(&self.bpffs, self.name.as_str(), UnlinkatFlags::RemoveDir)?)
    }
}

/// Gives these links their names, and takes away all other names of this network namespace. With none, the folder goes; otherwise it is
/// returned.
pub(super) fn replace(links: &[(String, OwnedFd)]) -> io::Result<Option<Folder>> {
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
    let names: HashSet<&str> = links.iter().map(|(name, _)| name.as_str()).collect();
    in_oldest_ancestor(|| {
        let Some(bpffs) = find_bpffs(!links.is_empty())? else { return Ok(None) };
        let name = format!("{PREFIX}{namespace}");
        let folder = bpffs.join(&name);
        if !links.is_empty() {
            make_folder(&folder)?;
        }
        for (name, link) in links {
            pin(link.as_fd(), &folder.join(name))?;
        }
        remove_others(&folder, &names)?;
        let open = || Ok(Folder { bpffs: File::open(&bpffs)?, name });
        if links.is_empty() { Ok(None) } else { open().map(Some) }
    })
}

/// The numbers (of inodes) of the network namespaces that firewalls hold by names, this one's included.
///
/// # Errors
/// The BPF file system cannot be read.
pub fn held_namespaces() -> io::Result<BTreeSet<u64>> {
    in_oldest_ancestor(|| {
        let Some(bpffs) = find_bpffs(false)? else { return Ok(BTreeSet::new()) };
        let names = fs::read_dir(bpffs)?.flatten().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.to_str()?.strip_prefix(PREFIX)?.parse().ok()).collect())
    })
}

/// Takes the names away that hold a network namespace. If nothing else does, it ends with its firewall; if a process is in it, it is open as if
/// there had never been a firewall.
///
/// # Errors
/// A name cannot be taken away.
pub fn release_namespace(number: u64) -> io::Result<()> {
    in_oldest_ancestor(|| match find_bpffs(false)? {
        Some(bpffs) => remove_others(&bpffs.join(format!("{PREFIX}{number}")), &HashSet::new()),
        None => Ok(()),
    })
}

/// Does `work` in the mount namespace of [`enter_oldest_ancestor`], on a thread of its own, which must not share its root with others.
fn in_oldest_ancestor<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            enter_oldest_ancestor();
            work()
        });
        work.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    })
}

/// Enters the mount namespace of the oldest ancestor whose we may enter. If that is nobody's, the names live as long as our own.
fn enter_oldest_ancestor() {
    let ancestors = std::iter::successors(parent_of(std::process::id()), |pid| parent_of(*pid));
    let mounts = ancestors.filter_map(|pid| File::open(format!("/proc/{pid}/ns/mnt")).ok()).last();
    if let Some(mounts) = mounts
        && unshare(CloneFlags::CLONE_FS).is_ok()
    {
        let _ = setns(mounts, CloneFlags::CLONE_NEWNS);
    }
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    (parent != 0).then_some(parent)
}

fn find_bpffs(make: bool) -> io::Result<Option<PathBuf>> {
    let is_bpffs = |path: &str| statfs(path).is_ok_and(|found| found.filesystem_type() == BPF_FS_MAGIC);
    if let Some(found) = [USUAL, OUR_OWN].into_iter().find(|path| is_bpffs(path)) {
        return Ok(Some(found.into()));
    }
    if !make {
        return Ok(None);
    }
    make_folder(Path::new(OUR_OWN))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("bpf"), OUR_OWN, Some("bpf"), flags, Some("mode=0700"))?;
    Ok(Some(OUR_OWN.into()))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn remove_others(folder: &Path, names: &HashSet<&str>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(|name| names.contains(name)) {
            fs::remove_file(entry.path())?;
        }
    }
    if names.is_empty() { fs::remove_dir(folder) } else { Ok(()) }
}
