//! Network namespaces named `rt-*` that remove themselves, also while a panic unwinds.

use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A namespace with loopback up.
pub(crate) struct Namespace {
    name: String,
    file: File,
}

/// No router advertisements, no address detection, no forwarding by the kernel. Link-local addresses stay: the kernel asks for
/// the IPv6 neighbours of forwarded packets from there.
const QUIET: [(&str, &str); 7] = [
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/ip_forward", "0"),
];

impl Namespace {
    pub(crate) fn create(role: &str) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rt-{}-{number}-{role}", std::process::id());
        run("ip", &["netns", "add", &name]);
        let file = File::open(format!("/run/netns/{name}")).unwrap();
        let namespace = Self { name, file };
        namespace.set(&QUIET);
        namespace.ip("link set lo up");
        namespace
    }

    /// What `ip link add … netns` takes.
    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// Runs `work` on a thread inside; a panic goes on in the caller.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.file, CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Does `work` inside on this thread, for what cannot be sent to another one, and comes back.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Back(File);
        impl Drop for Back {
            fn drop(&mut self) {
                // Whoever goes on in the wrong namespace would break the machine's own network.
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("the namespace that we came from");
            }
        }
        let _back = Back(File::open("/proc/thread-self/ns/net").unwrap());
        setns(&self.file, CloneFlags::CLONE_NEWNET).unwrap();
        work()
    }

    /// Lines for `ip`, one command each.
    pub(crate) fn ip(&self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            self.enter(|| run("ip", &words));
        }
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        self.enter(|| run(program, arguments))
    }

    /// Settings below `/proc/sys/net`.
    pub(crate) fn set(&self, settings: &[(&str, &str)]) {
        self.enter(|| {
            for (name, value) in settings {
                std::fs::write(format!("/proc/sys/net/{name}"), value)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        });
    }

    pub(crate) fn ifindex(&self, device: &str) -> u32 {
        let text = self.run("ip", &["-o", "link", "show", "dev", device]);
        text.split(':').next().unwrap().parse().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nothing to be done about a failure while a panic unwinds.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Runs a program and gives its output.
///
/// # Panics
/// If it cannot be started or fails, with what it said.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = attempt(program, arguments);
    assert!(output.status.success(), "{program} {}: {}", arguments.join(" "), said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn attempt(program: &str, arguments: &[&str]) -> Output {
    let command = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    command.unwrap_or_else(|e| panic!("{program}: {e}; `make prepare` installs what the tests need"))
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
