//! Memory that is shared with BPF programs, plain structures as bytes, and programs run on a frame by hand: all of this
//! crate's unsafe code.

use crate::skeleton::types;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Structures of `bpf/abi` that are numbers throughout: any bytes are one, and it has no padding.
///
/// # Safety
/// Only for types of which that is true.
pub(crate) unsafe trait Plain: Default {}

// SAFETY: integers and arrays of integers; C asserts its size, and its fields leave no gap.
unsafe impl Plain for types::table_header {}
// SAFETY: as above.
unsafe impl Plain for types::table_command {}
// SAFETY: as above.
unsafe impl Plain for types::judge_command {}
// SAFETY: as above.
unsafe impl Plain for types::flow {}
// SAFETY: as above.
unsafe impl Plain for types::counts {}
// SAFETY: as above.
unsafe impl Plain for types::event {}
// SAFETY: as above.
unsafe impl Plain for types::limit_terms {}
// SAFETY: as above; the lock is a number.
unsafe impl Plain for types::limit_row {}

/// The bytes of a structure.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: T has no padding (Plain), so all of its bytes are initialised; the slice lives as long as the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// A structure from its bytes; `None` when they are too few.
pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: there are enough bytes, any bytes are a T (Plain), and the two places do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), size_of::<T>());
        Some(value.assume_init())
    }
}

/// Writes a number that programs read at the same time, after everything written before.
pub(crate) fn publish(place: &mut u32, value: u32) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
    // SAFETY: a reference is valid for writes; volatile, because others read this memory.
    unsafe { std::ptr::write_volatile(place, value) }
}

/// Reads a number that programs write at the same time.
pub(crate) fn read(place: &u32) -> u32 {
    // SAFETY: a reference is valid for reads; volatile, because others write this memory.
    unsafe { std::ptr::read_volatile(place) }
}

/// Runs a program once on a frame that came by a context (`BPF_PROG_TEST_RUN`), and gives what it returned. What it made of
/// the frame is lost. libbpf-rs can do the same, but not from several threads at once.
pub(crate) fn run_program(program: BorrowedFd<'_>, frame: &[u8], context: &[u8]) -> std::io::Result<u32> {
    // SAFETY: a structure of numbers and pointers, of which all zeros say "nothing given".
    let mut options = unsafe { zeroed::<libbpf_sys::bpf_test_run_opts>() };
    options.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t;
    options.data_in = frame.as_ptr().cast();
    options.data_size_in = frame.len() as u32;
    options.ctx_in = context.as_ptr().cast();
    options.ctx_size_in = context.len() as u32;
    options.repeat = 1;
    // SAFETY: both inputs are there for as long as the call takes, with the lengths that go along, and are only read.
    let error = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if error < 0 { Err(std::io::Error::from_raw_os_error(-error)) } else { Ok(options.retval) }
}
