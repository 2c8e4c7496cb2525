//! Takes system calls away from this process for good (seccomp(2)), and open files from the programs that it executes, and bounds what the C library
//! allocates. What is taken is the caller's to decide.

use nix::libc;
use std::io;

/// An instruction of a classic BPF program: code, jump if true, jump if false, constant.
pub type Instruction = (u16, u8, u8, u32);

/// From now on a program looks at every system call of every thread of this process, and no thread can gain privileges by executing
/// another program. What the program refuses with an error goes into the kernel's log, with the call's number.
///
/// # Errors
/// The kernel takes no such programs, or a thread has another one already.
pub fn filter(instructions: &[Instruction]) -> io::Result<()> {
    let mut code: Vec<libc::sock_filter> =
        instructions.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let length = u16::try_from(code.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    nix::sys::prctl::set_no_new_privs()?;
    let program = libc::sock_fprog { len: length, filter: code.as_mut_ptr() };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_LOG;
    // SAFETY: the kernel copies the program, which is there until the call ends and has the length that goes along.
    let refused = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(&program))
    };
    match refused {
        0 => Ok(()),
        error if error < 0 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("the thread {thread} has another filter"))),
    }
}

/// No program that this process executes from now on has any of the files that are open now, but for standard input, output and error.
///
/// # Errors
/// The kernel is older than 5.11.
pub fn keep_files_from_programs() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call has no pointers, and closes nothing in this process.
    let failed =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// All threads of this process allocate from two pools. The C library gives each new thread one of its own, eight for each core, and each
/// becomes as large as the largest request that one of its threads has answered.
#[cfg(target_env = "gnu")]
pub fn share_memory_among_threads() {
    const POOLS: libc::c_int = 2;
    // SAFETY: the call has no pointers; a parameter that the library does not know changes nothing.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, POOLS) };
}

/// Other C libraries have one pool for all threads.
#[cfg(not(target_env = "gnu"))]
pub fn share_memory_among_threads() {}
