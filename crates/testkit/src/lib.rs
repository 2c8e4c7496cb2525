//! What tests of several crates need: network namespaces that remove themselves, packets as text and as bytes, random numbers, commands that documents show, tutorials that are
//! followed, a browser, a bad server of HTTP, BPF objects that only tests load, and turns for tests that send traffic. Every crate uses it as a dev-dependency and nothing else, which
//! `cargo xtask layout` checks; it depends on no other crate of ours.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "whatever is wrong here fails the test that asked for it"
)]

pub mod browser;
pub mod documents;
pub mod filter;
pub mod held;
pub mod namespace;
pub mod origin;
pub mod packet;
pub mod random;
pub mod rows;
pub mod tutorial;

use libbpf_rs::ErrorKind;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `load` loads into the kernel, again while it is interrupted. Tests of one process start programs side by side: when one ends while
/// its thread has signals blocked to start another, its `SIGCHLD` goes to any other thread, and the kernel gives up what that one loads
/// (`EAGAIN`), on a busy machine more often than libbpf tries.
pub fn loaded<T>(mut load: impl FnMut() -> libbpf_rs::Result<T>) -> T {
    loop {
        match load() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => return result.unwrap(),
        }
    }
}

/// Waits until no other test of this process has its turn: for tests that send traffic, because trials share cores and two at the same
/// time would measure each other, and for tests whose threads are to race on cores of their own. Whoever takes a turn takes it first,
/// because loading programs is work as well. A test that failed does not fail the others.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails a test that was started without the rights that it needs.
pub fn must_be_root() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test makes network namespaces or loads BPF: run it as root"
    );
}

/// How many times slower than most this machine is, which an emulated machine says in the environment (`scripts/test-kernels`). Bounds
/// on real time are multiplied by it.
pub fn slowness() -> u32 {
    std::env::var("SLOWNESS").map_or(1, |times| times.parse().unwrap())
}

/// The process or kernel thread of that name, of which kernels before Linux 5.17 keep 15 characters.
fn thread_named(name: &str) -> u32 {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_name = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|comm| [name, &name[..name.len().min(15)]].contains(&comm.trim_end()))
    };
    pids.find(has_name).unwrap_or_else(|| panic!("no thread is called {name}"))
}
