//! Where a firewall's sockets are: one firewall runs in each network namespace, and its sockets have the namespace's name. There are two
//! of them, so that the kernel itself decides who may change the firewall and who may only ask: by the groups of whoever connects.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where sockets are.
pub const FOLDER: &str = "/run/rampart";

/// Members of this group may use the socket by which a firewall can be changed, besides root.
pub const GROUP: &str = "rampart";

/// Members of this group may use the socket that only answers questions.
pub const READERS: &str = "rampart-read";

/// The socket that only answers questions, beside the one by which a firewall can be changed.
pub fn reading(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".read");
    path.into()
}

/// Where iproute2 keeps named namespaces.
const NAMED: &str = "/run/netns";

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The name that `ip netns` knows it by; `default` for the one that the machine was started in; otherwise `net-` and its
    /// inode.
    pub name: String,
    /// Its inode, which no other namespace of the machine has at the same time.
    pub inode: u64,
}

impl Namespace {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn current() -> io::Result<Self> {
        let own = fs::metadata("/proc/thread-self/ns/net")?;
        Ok(Self { name: name(&own), inode: own.ino() })
    }

    /// The socket of the firewall of this namespace.
    pub fn socket(&self) -> PathBuf {
        Path::new(FOLDER).join(format!("{}.sock", self.name))
    }
}

fn name(own: &fs::Metadata) -> String {
    let same =
        |path: PathBuf| fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino()));
    let mut named: Vec<String> = fs::read_dir(NAMED)
        .map(|entries| entries.flatten().filter(|e| same(e.path())).map(|e| e.file_name()).collect())
        .map(|names: Vec<_>| names.into_iter().filter_map(|name| name.into_string().ok()).collect())
        .unwrap_or_default();
    named.sort();
    if let Some(name) = named.into_iter().next() {
        return name;
    }
    // Only root can look at the first process's namespace. Whoever cannot is taken to be in it.
    match fs::metadata("/proc/1/ns/net") {
        Ok(first) if (first.dev(), first.ino()) != (own.dev(), own.ino()) => format!("net-{}", own.ino()),
        _ => "default".to_owned(),
    }
}
