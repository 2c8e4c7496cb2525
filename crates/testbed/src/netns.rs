//! One network namespace: made, entered and removed. Entering happens on a thread of its own, so a caller's
//! thread never changes its namespace.

use crate::error::TestbedError;
use crate::program;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where iproute2 keeps named namespaces.
pub const NAMESPACE_FOLDER: &str = "/run/netns";

/// A handle to a namespace; clones share it. Dropping a handle does not remove the namespace.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: String,
    file: Arc<File>,
}

impl Namespace {
    /// Makes a namespace with loopback up.
    ///
    /// # Errors
    /// [`TestbedError::NameInUse`] when it exists; otherwise what `ip` says.
    pub(crate) fn create(name: &str) -> Result<Self, TestbedError> {
        if Self::path_of(name).exists() {
            return Err(TestbedError::NameInUse { name: name.to_owned() });
        }
        program::run("ip", &["netns", "add", name])?;
        Self::open(name)
    }

    /// Opens a namespace that `ip netns` knows.
    ///
    /// # Errors
    /// [`TestbedError::Io`] when there is none of that name.
    pub fn open(name: &str) -> Result<Self, TestbedError> {
        let path = Self::path_of(name);
        let file = File::open(&path).map_err(TestbedError::io("open the namespace", &path))?;
        Ok(Self { name: name.to_owned(), file: Arc::new(file) })
    }

    /// The namespace that the calling thread is in, under the name `host`.
    ///
    /// # Errors
    /// [`TestbedError::Io`] when `/proc` is not there.
    pub fn current() -> Result<Self, TestbedError> {
        let path = "/proc/thread-self/ns/net";
        let file = File::open(path).map_err(TestbedError::io("open the namespace", path))?;
        Ok(Self { name: "host".to_owned(), file: Arc::new(file) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A path that `setns` can open: of the name for one that `ip netns` made, of our own handle otherwise.
    pub fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd;
        let named = Self::path_of(&self.name);
        if named.exists() { named } else { PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd())) }
    }

    fn path_of(name: &str) -> PathBuf {
        Path::new(NAMESPACE_FOLDER).join(name)
    }

    /// Runs `work` on a new thread inside the namespace and waits for it. Programs started there, sockets opened
    /// there and `/proc/sys/net` as seen there belong to the namespace. A panic in `work` goes on in the caller.
    ///
    /// # Errors
    /// [`TestbedError::System`] when the kernel refuses entry.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        let file = &self.file;
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                setns(file.as_ref(), CloneFlags::CLONE_NEWNET).map_err(|source| TestbedError::System {
                    action: format!("enter the namespace {}", self.name),
                    source,
                })?;
                Ok(work())
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs a program inside.
    ///
    /// # Errors
    /// As the program fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, TestbedError> {
        self.enter(|| program::run(program, arguments))?
    }

    /// Runs a program inside with this text as its standard input.
    ///
    /// # Errors
    /// As the program fails.
    pub fn run_with_input(
        &self,
        program: &str,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, TestbedError> {
        self.enter(|| program::run_with_input(program, arguments, input))?
    }

    /// Runs a program inside whose standard input `write` produces.
    pub(crate) fn feed(
        &self,
        program: &str,
        arguments: &[&str],
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()> + Send,
    ) -> Result<String, TestbedError> {
        self.enter(|| program::feed(program, arguments, write))?
    }

    /// Runs a program with `/sys` mounted for the namespace, which only `ip netns exec` does.
    pub(crate) fn run_with_sysfs(&self, program: &str, arguments: &[&str]) -> Result<String, TestbedError> {
        let mut all = vec!["netns", "exec", &self.name, program];
        all.extend(arguments);
        program::run("ip", &all)
    }

    /// Reads a setting below `/proc/sys/net`, without its line end.
    ///
    /// # Errors
    /// [`TestbedError::Io`].
    pub fn setting(&self, name: &str) -> Result<String, TestbedError> {
        let path = Path::new("/proc/sys/net").join(name);
        let text = self.enter(|| std::fs::read_to_string(&path))?;
        text.map(|t| t.trim_end().to_owned()).map_err(TestbedError::io("read", path))
    }

    /// Writes settings below `/proc/sys/net`, in order.
    ///
    /// # Errors
    /// [`TestbedError::Io`] names the setting.
    pub fn set(&self, settings: &[(&str, &str)]) -> Result<(), TestbedError> {
        self.enter(|| {
            for (name, value) in settings {
                let path = Path::new("/proc/sys/net").join(name);
                std::fs::write(&path, value).map_err(TestbedError::io("write", path))?;
            }
            Ok(())
        })?
    }

    /// Takes the name away; the kernel frees the namespace when the last handle and socket in it are gone.
    pub(crate) fn remove(name: &str) -> Result<(), TestbedError> {
        program::run("ip", &["netns", "del", name]).map(drop)
    }
}

/// Ends all processes in a namespace that `ip netns` knows, and waits for their end, but not for one that the kernel does not let go.
pub(crate) fn end_processes(name: &str) {
    const LOOKS: u32 = 200;
    const LOOK_EVERY: Duration = Duration::from_millis(10);
    for _ in 0..LOOKS {
        let found = processes_in(name);
        if found.is_empty() {
            return;
        }
        for process in found {
            // It may have ended by itself.
            let _ = kill(process, Signal::SIGKILL);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What distinguishes the namespace of a path from all others.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok()
}

/// Processes whose first thread is in a namespace. None of this process's own namespace: whatever is called like that, a bed is not.
fn processes_in(name: &str) -> Vec<Pid> {
    let Some(here) = identity(&Namespace::path_of(name)) else { return Vec::new() };
    if identity(Path::new("/proc/self/ns/net")) == Some(here) {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_there =
        |number: &i32| identity(&Path::new("/proc").join(format!("{number}/ns/net"))) == Some(here);
    numbers.filter(is_there).map(Pid::from_raw).collect()
}

/// Whether a process is in the namespace of a bed.
pub(crate) fn is_in_a_bed(pid: u32) -> bool {
    let there = identity(&Path::new("/proc").join(format!("{pid}/ns/net")));
    let beds = names().into_iter().filter(|name| name.starts_with("rb-"));
    there.is_some() && beds.map(|name| Namespace::path_of(&name)).any(|path| identity(&path) == there)
}

/// Runs `work` in a namespace that has no name and is gone afterwards.
pub(crate) fn in_a_new_one(
    work: impl FnOnce() -> Result<(), TestbedError> + Send,
) -> Result<(), TestbedError> {
    Namespace::current()?.enter(|| {
        nix::sched::unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|source| TestbedError::System { action: "make a namespace".to_owned(), source })?;
        work()
    })?
}

/// The names of all namespaces that `ip netns` knows, sorted.
pub fn names() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(NAMESPACE_FOLDER) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_root_processes_of_our_own_namespace_are_no_beds() {
        let name = format!("own-{}", std::process::id());
        program::run("ip", &["netns", "attach", &name, &std::process::id().to_string()]).unwrap();
        let found = processes_in(&name);
        program::run("ip", &["netns", "delete", &name]).unwrap();
        assert_eq!(found, []);
    }
}
