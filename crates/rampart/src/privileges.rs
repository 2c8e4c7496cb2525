//! What the daemon may still do once the firewall runs: little, because whoever takes it over has all of that
//! (`docs/decisions/0033-a-daemon-that-gives-its-rights-away.md`). Capabilities belong to threads, so every thread gives up its own;
//! system calls are filtered for all threads at once.

use caps::{CapSet, Capability, CapsHashSet};
use nix::libc;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Maps, and running the sweep; interfaces, neighbours, and attaching to what comes back.
const DAEMON: [Capability; 2] = [Capability::CAP_BPF, Capability::CAP_NET_ADMIN];
/// Becoming the user that commands of lists run as, and ending what that user runs.
const FETCHER: [Capability; 3] = [Capability::CAP_SETUID, Capability::CAP_SETGID, Capability::CAP_KILL];
/// The third way to packets of links, which linux/net.h calls obsolete and the kernel still knows.
const SOCK_PACKET: libc::c_int = 10;
/// Of the second argument of socket(2), without its flags.
const KINDS_OF_SOCKETS: u64 = 0xf;
/// `BPF_PROG_LOAD` of bpf(2).
const LOAD_PROGRAM: u64 = 5;

/// A right could not be given up: the text is complete.
#[derive(Debug)]
pub(crate) struct Kept(String);

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the daemon keeps rights that it does not need: {}", self.0)
    }
}

/// The calling thread, and threads that it makes from now on, keep what the daemon needs while the firewall runs.
///
/// # Errors
/// The kernel does not let go of a right.
pub(crate) fn keep_the_daemons() -> Result<(), Kept> {
    let permitted = caps::read(None, CapSet::Permitted).map_err(|error| Kept(error.to_string()))?;
    let mut keep: CapsHashSet = DAEMON.into_iter().collect();
    if !permitted.is_superset(&keep) {
        // Where it stands for those that are missing, as in containers that know no CAP_BPF.
        keep.insert(Capability::CAP_SYS_ADMIN);
    }
    limit(&keep)
}

/// The process that runs commands of lists keeps what it needs for that.
///
/// # Errors
/// The kernel does not let go of a right.
pub(crate) fn keep_the_fetchers() -> Result<(), Kept> {
    limit(&FETCHER.into_iter().collect())
}

/// The process becomes another user, who has no right but to bind ports below 1024, and sockets that listen for transparent gateways
/// (CAP_NET_RAW; see [`keep_from_raw_sockets`]). Nothing that it executes has these.
///
/// # Errors
/// The kernel does not let go of a right.
pub(crate) fn become_who_binds(user: Uid, group: Gid) -> Result<(), Kept> {
    let wrong = |error: &dyn std::fmt::Display| Kept(error.to_string());
    let binds: CapsHashSet =
        [Capability::CAP_NET_BIND_SERVICE, Capability::CAP_NET_RAW].into_iter().collect();
    let mut until_then = binds.clone();
    until_then.extend([Capability::CAP_SETUID, Capability::CAP_SETGID]);
    limit(&until_then)?;
    caps::securebits::set_keepcaps(true).map_err(|error| wrong(&error))?;
    setgroups(&[]).map_err(|error| wrong(&error))?;
    setresgid(group, group, group).map_err(|error| wrong(&error))?;
    setresuid(user, user, user).map_err(|error| wrong(&error))?;
    caps::securebits::set_keepcaps(false).map_err(|error| wrong(&error))?;
    let permitted = caps::read(None, CapSet::Permitted).map_err(|error| wrong(&error))?;
    let keep = permitted.intersection(&binds).copied().collect();
    caps::set(None, CapSet::Effective, &keep).map_err(|error| wrong(&error))?;
    caps::set(None, CapSet::Permitted, &keep).map_err(|error| wrong(&error))
}

/// The calling thread, and threads that it makes from now on, keep nothing. What it fails with is seen on the thread that matters.
pub(crate) fn keep_nothing() {
    let _ = limit(&CapsHashSet::new());
}

fn limit(keep: &CapsHashSet) -> Result<(), Kept> {
    let wrong = |error: caps::errors::CapsError| Kept(error.to_string());
    // What the process may ever gain again goes first: giving that up takes CAP_SETPCAP.
    let bounded = caps::all().into_iter().filter(|it| !keep.contains(it)).try_for_each(|capability| {
        let is_there = caps::has_cap(None, CapSet::Bounding, capability).unwrap_or(false);
        if is_there { caps::drop(None, CapSet::Bounding, capability) } else { Ok(()) }
    });
    // A kernel before 4.3 has none.
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable).map_err(wrong)?;
    let permitted = caps::read(None, CapSet::Permitted).map_err(wrong)?;
    let keep = permitted.intersection(keep).copied().collect();
    caps::set(None, CapSet::Effective, &keep).map_err(wrong)?;
    caps::set(None, CapSet::Permitted, &keep).map_err(wrong)?;
    bounded.map_err(|error| Kept(format!("{error}; a service needs CAP_SETPCAP to give up the others")))
}

/// Takes away from all threads, for good, every system call that the daemon does not make.
///
/// # Errors
/// The kernel does not filter.
pub(crate) fn filter_system_calls() -> Result<(), Kept> {
    filter(program())
}

/// The same for the process that exports, which needs far less.
///
/// # Errors
/// The kernel does not filter.
pub(crate) fn filter_system_calls_of_the_exporter() -> Result<(), Kept> {
    // Collectors, and journald.
    filter(program_of(EXPORTERS_CALLS, &[libc::AF_INET, libc::AF_INET6, libc::AF_UNIX], Vec::new()))
}

/// The same for a gateway's process, which waits for many connections at once.
///
/// # Errors
/// The kernel does not filter.
pub(crate) fn filter_system_calls_of_gateways() -> Result<(), Kept> {
    let calls = [EXPORTERS_CALLS, GATEWAYS_CALLS].concat();
    filter(program_of(&calls, &[libc::AF_INET, libc::AF_INET6], Vec::new()))
}

/// Of what CAP_NET_RAW gives, the calling process and what it executes keep the options of sockets alone: raw sockets and those of packets they
/// cannot make.
///
/// # Errors
/// The kernel does not filter.
pub(crate) fn keep_from_raw_sockets() -> Result<(), Kept> {
    let program = || {
        let of = |argument, operator, value: libc::c_int| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value as u64)
        };
        let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
        let other =
            families.map(|family| of(0, SeccompCmpOp::Ne, family)).into_iter().collect::<Result<_, _>>()?;
        let mut rules = vec![SeccompRule::new(other)?];
        for kind in [libc::SOCK_RAW, SOCK_PACKET] {
            rules.push(SeccompRule::new(vec![of(1, SeccompCmpOp::MaskedEq(KINDS_OF_SOCKETS), kind)?])?);
        }
        // Its rings make sockets without this call.
        let calls = BTreeMap::from([(libc::SYS_socket, rules), (libc::SYS_io_uring_setup, Vec::new())]);
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let here = std::env::consts::ARCH.try_into()?;
        SeccompFilter::new(calls, SeccompAction::Allow, refused, here)?.try_into()
    };
    filter(program())
}

fn filter(program: Result<BpfProgram, seccompiler::BackendError>) -> Result<(), Kept> {
    let wrong = |what: &dyn std::fmt::Display| Kept(format!("system calls are not filtered: {what}"));
    let program = program.map_err(|error| wrong(&error))?;
    let instructions: Vec<_> = program.iter().map(|it| (it.code, it.jt, it.jf, it.k)).collect();
    dataplane::system_calls::filter(&instructions).map_err(|error| wrong(&error))
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let all_but_loading = compare(0, SeccompCmpOp::Ne, LOAD_PROGRAM)?;
    // Of the kernel and of this machine: the daemon talks to no network.
    program_of(CALLS, &[libc::AF_UNIX, libc::AF_NETLINK], vec![(libc::SYS_bpf, vec![all_but_loading])])
}

fn compare(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
}

/// Calls, sockets of families, and calls under conditions.
fn program_of(
    calls: &[i64],
    families: &[libc::c_int],
    conditions: Vec<(i64, Vec<SeccompRule>)>,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.iter().map(|call| (*call, Vec::new())).collect();
    rules.extend(conditions);
    let families = families.iter().map(|family| compare(0, SeccompCmpOp::Eq, *family as u64));
    rules.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let here = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, here)?.try_into()
}

/// What the process that exports calls: memory and threads, clocks, and sockets. It opens no file.
#[rustfmt::skip]
const EXPORTERS_CALLS: &[i64] = &[
    libc::SYS_brk, libc::SYS_clone, libc::SYS_clone3, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_futex,
    libc::SYS_getpid, libc::SYS_gettid, libc::SYS_madvise, libc::SYS_membarrier, libc::SYS_mmap, libc::SYS_mprotect,
    libc::SYS_mremap, libc::SYS_munmap, libc::SYS_prctl, libc::SYS_restart_syscall, libc::SYS_rseq,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield, libc::SYS_set_robust_list, libc::SYS_sigaltstack, libc::SYS_tgkill,
    libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_getrandom, libc::SYS_gettimeofday, libc::SYS_nanosleep,
    libc::SYS_close, libc::SYS_fcntl, libc::SYS_ioctl, libc::SYS_read, libc::SYS_readv, libc::SYS_write, libc::SYS_writev,
    libc::SYS_bind, libc::SYS_connect, libc::SYS_getpeername, libc::SYS_getsockname, libc::SYS_getsockopt,
    libc::SYS_ppoll, libc::SYS_recvfrom, libc::SYS_sendto, libc::SYS_setsockopt, libc::SYS_shutdown,
    #[cfg(target_arch = "x86_64")] libc::SYS_poll,
];

/// What a gateway's process calls besides.
#[rustfmt::skip]
const GATEWAYS_CALLS: &[i64] = &[
    libc::SYS_accept4, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_eventfd2, libc::SYS_listen,
    #[cfg(target_arch = "x86_64")] libc::SYS_epoll_wait,
];

/// What the daemon calls: memory and threads, clocks, files, its sockets, and waiting. It executes nothing, mounts nothing, traces nobody
/// and changes no namespace.
#[rustfmt::skip]
const CALLS: &[i64] = &[
    // Memory and threads.
    libc::SYS_brk, libc::SYS_clone, libc::SYS_clone3, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_futex,
    libc::SYS_getpid, libc::SYS_gettid, libc::SYS_madvise, libc::SYS_membarrier, libc::SYS_mmap, libc::SYS_mprotect,
    libc::SYS_mremap, libc::SYS_munmap, libc::SYS_prctl, libc::SYS_prlimit64, libc::SYS_restart_syscall, libc::SYS_rseq,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield, libc::SYS_set_robust_list, libc::SYS_sigaltstack, libc::SYS_sysinfo, libc::SYS_tgkill,
    libc::SYS_uname, libc::SYS_wait4,
    // Clocks and random numbers.
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_getrandom, libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    // Who we are, and giving up more: a thread may still be at it while the filter comes.
    libc::SYS_capget, libc::SYS_capset,
    libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getuid,
    // Files.
    libc::SYS_close, libc::SYS_dup, libc::SYS_dup3, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fchmod,
    libc::SYS_fchmodat, libc::SYS_fcntl, libc::SYS_fdatasync, libc::SYS_flock, libc::SYS_fstat, libc::SYS_fstatfs,
    libc::SYS_fsync, libc::SYS_ftruncate, libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_ioctl, libc::SYS_linkat,
    libc::SYS_lseek, libc::SYS_mkdirat, libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_pipe2, libc::SYS_pread64,
    libc::SYS_pwrite64, libc::SYS_read, libc::SYS_readlinkat, libc::SYS_readv, libc::SYS_renameat, libc::SYS_renameat2,
    libc::SYS_statfs, libc::SYS_statx, libc::SYS_unlinkat, libc::SYS_write, libc::SYS_writev,
    // Sockets, and waiting.
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_connect, libc::SYS_epoll_create1, libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait, libc::SYS_eventfd2, libc::SYS_getpeername, libc::SYS_getsockname, libc::SYS_getsockopt,
    libc::SYS_listen, libc::SYS_ppoll, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_sendmsg, libc::SYS_sendto,
    libc::SYS_setsockopt, libc::SYS_shutdown,
    // Older names of the same, which only this architecture has.
    #[cfg(target_arch = "x86_64")] libc::SYS_access, #[cfg(target_arch = "x86_64")] libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")] libc::SYS_epoll_wait, #[cfg(target_arch = "x86_64")] libc::SYS_link,
    #[cfg(target_arch = "x86_64")] libc::SYS_lstat, #[cfg(target_arch = "x86_64")] libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")] libc::SYS_open, #[cfg(target_arch = "x86_64")] libc::SYS_poll,
    #[cfg(target_arch = "x86_64")] libc::SYS_readlink, #[cfg(target_arch = "x86_64")] libc::SYS_rename,
    #[cfg(target_arch = "x86_64")] libc::SYS_rmdir, #[cfg(target_arch = "x86_64")] libc::SYS_stat,
    #[cfg(target_arch = "x86_64")] libc::SYS_unlink,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    const FOLDER: &str = "RAMPART_TEST_FILTERED";

    /// The process of the test below. As a test of its own it has nothing to do.
    #[test]
    fn process_of_another_test() {
        let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
        // A thread that was there before is filtered, too.
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let early = std::thread::spawn(move || {
            may_go_on.recv().unwrap();
            TcpListener::bind("127.0.0.1:0").map(drop).map_err(|error| error.kind())
        });
        filter_system_calls().unwrap();
        go_on.send(()).unwrap();
        let denied = Err(ErrorKind::PermissionDenied);
        assert_eq!(early.join().unwrap(), denied, "a network, on an earlier thread");
        let bind = || TcpListener::bind("127.0.0.1:0").map(drop).map_err(|error| error.kind());
        assert_eq!(std::thread::spawn(bind).join().unwrap(), denied, "a network, on a new thread");
        assert_eq!(
            Command::new("true").status().map(drop).map_err(|error| error.kind()),
            denied,
            "a program"
        );
        let root = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER);
        assert_eq!(root, Err(nix::Error::EPERM), "a namespace");
        UnixListener::bind(folder.join("socket")).unwrap();
        std::fs::write(folder.join("done"), "x").unwrap();
    }

    #[test]
    fn what_a_daemon_does_not_call_is_refused_on_all_threads() {
        let folder = tempfile::tempdir().unwrap();
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "privileges::tests::process_of_another_test", "--nocapture"])
            .env(FOLDER, folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(folder.path().join("done").exists());
    }
}
