//! Memory that is shared with BPF programs, plain structures as bytes, and programs run by hand: nearly all of this crate's unsafe code.

use crate::skeleton::types;
use libbpf_rs::{MapCore as _, MapHandle, ProgramMut, RingBuffer};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::{CString, c_void};
use std::mem::{MaybeUninit, size_of, zeroed};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Structures of `bpf/abi` that are numbers throughout: any bytes are one, and it has no padding.
///
/// # Safety
/// Only for types of which that is true.
pub(crate) unsafe trait Plain: Default {}

// SAFETY: integers and arrays of integers; C asserts its size, and its fields leave no gap.
unsafe impl Plain for types::table_header {}
// SAFETY: as above.
unsafe impl Plain for types::list_header {}
// SAFETY: as above.
unsafe impl Plain for types::flow_record {}
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
unsafe impl Plain for types::datagram_name {}
// SAFETY: as above.
unsafe impl Plain for types::early_fragment {}
// SAFETY: as above.
unsafe impl Plain for types::refused_packet {}
// SAFETY: as above.
unsafe impl Plain for types::limit_terms {}
// SAFETY: as above; the lock is a number.
unsafe impl Plain for types::limit_row {}
// SAFETY: as above.
unsafe impl Plain for types::scan_bucket {}
// SAFETY: as above.
unsafe impl Plain for types::station_set {}
// SAFETY: as above.
unsafe impl Plain for types::block_command {}

/// The bytes of a structure.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: T has no padding (Plain), so all of its bytes are initialised; the slice lives as long as the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// The bytes of numbers, which are millions in tables and lists.
pub(crate) fn bytes_of_words(words: &[u32]) -> &[u8] {
    // SAFETY: numbers have no padding, so all of their bytes are initialised; the slice lives as long as they.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) }
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

/// The programs' global variables in our memory. We map them and not the loader, because it does not map those of maps that an
/// earlier firewall made.
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: plain memory that programs on other cores change as well; whoever reads and writes it does so through `Shared`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the variables.
    ///
    /// # Errors
    /// The map is smaller than the variables, or the kernel does not map it.
    pub(crate) fn of(map: &MapHandle) -> std::io::Result<(Arc<Self>, &'static mut types::bss)> {
        let bytes = NonZeroUsize::new(size_of::<types::bss>())
            .filter(|bytes| map.value_size() as usize >= bytes.get())
            .ok_or_else(|| std::io::Error::other("the map is smaller than the variables"))?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the place, so nothing that is there is replaced.
        let start = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, map.as_fd(), 0)? };
        // SAFETY: the mapping begins on a page and is as long as the structure, which is numbers throughout. Each `Shared` that
        // has a part of it keeps the mapping, and this is its only reference in this process.
        let variables = unsafe { start.cast::<types::bss>().as_mut() };
        Ok((Arc::new(Self { start, bytes }), variables))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and nobody has a part of it any more.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}

/// A part of the programs' global variables, which stay mapped as long as any part of them is in use.
pub(crate) struct Shared<T: 'static> {
    variable: &'static mut T,
    _mapping: Arc<Mapping>,
}

impl<T> Shared<T> {
    pub(crate) fn new(variable: &'static mut T, mapping: &Arc<Mapping>) -> Self {
        Self { variable, _mapping: Arc::clone(mapping) }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.variable
    }
}

impl<T> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.variable
    }
}

/// Writes a number that programs read at the same time, after everything written before.
pub(crate) fn publish<T: Copy>(place: &mut T, value: T) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
    // SAFETY: a reference is valid for writes; volatile, because others read this memory.
    unsafe { std::ptr::write_volatile(place, value) }
}

/// Reads a number that programs write at the same time.
pub(crate) fn read(place: &u32) -> u32 {
    // SAFETY: a reference is valid for reads; volatile, because others write this memory.
    unsafe { std::ptr::read_volatile(place) }
}

/// Which netfilter hook a program is asked at, and in which order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NetfilterPlace {
    /// `NFPROTO_IPV4` or `NFPROTO_IPV6`.
    pub(crate) family: u32,
    /// `NF_INET_*`.
    pub(crate) hook: u32,
    /// Lower ones are asked first.
    pub(crate) priority: i32,
    /// `BPF_F_NETFILTER_*`.
    pub(crate) flags: u32,
}

/// Attaches a program to a netfilter hook of this network namespace, for as long as the link lives.
pub(crate) fn attach_netfilter(program: BorrowedFd<'_>, place: NetfilterPlace) -> std::io::Result<OwnedFd> {
    // SAFETY: a structure of numbers and pointers, of which all zeros say "nothing given".
    let mut options = unsafe { zeroed::<libbpf_sys::bpf_link_create_opts>() };
    options.sz = size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t;
    options.__bindgen_anon_1.netfilter = libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_5 {
        pf: place.family,
        hooknum: place.hook,
        priority: place.priority,
        flags: place.flags,
    };
    // SAFETY: the options are read during the call alone, and name the member that this type of link has.
    let link =
        unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, libbpf_sys::BPF_NETFILTER, &options) };
    if link < 0 {
        return Err(std::io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the kernel just gave it to us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Gives a link a name in a bpffs; it lives for as long as the name does.
pub(crate) fn pin(link: BorrowedFd<'_>, path: &Path) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with 0 and lives as long as the call.
    let error = unsafe { libbpf_sys::bpf_obj_pin(link.as_raw_fd(), path.as_ptr()) };
    if error < 0 { Err(std::io::Error::from_raw_os_error(-error)) } else { Ok(()) }
}

/// Whether the kernel has a tracepoint of this name that programs can be attached to.
pub(crate) fn has_tracepoint(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the name ends with 0 and lives as long as the call.
    unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), libbpf_sys::BPF_TRACE_RAW_TP) > 0 }
}

/// Lets a program hold a map that it does not use.
pub(crate) fn bind_map(program: BorrowedFd<'_>, map: BorrowedFd<'_>) -> std::io::Result<()> {
    // SAFETY: two descriptors that live as long as the call, and no options.
    let error =
        unsafe { libbpf_sys::bpf_prog_bind_map(program.as_raw_fd(), map.as_raw_fd(), std::ptr::null()) };
    if error < 0 { Err(std::io::Error::from_raw_os_error(-error)) } else { Ok(()) }
}

/// What can be waited for until a ring has something.
pub(crate) fn descriptor_of<'r>(ring: &'r RingBuffer<'_>) -> BorrowedFd<'r> {
    // SAFETY: the ring keeps it open for as long as it lives.
    unsafe { BorrowedFd::borrow_raw(ring.epoll_fd()) }
}

/// A loaded program that user space runs by itself (`BPF_PROG_TEST_RUN`), also from several threads at once, which libbpf-rs
/// does not offer.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

/// What came of running a program.
#[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only tests look at packets that were run"))]
pub(crate) struct Run {
    /// What it returned.
    pub(crate) value: u32,
    /// How long it ran, on the average.
    pub(crate) duration: Duration,
    /// Bytes of the packet that it left.
    pub(crate) length: usize,
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Program {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Program {
    pub(crate) fn of(program: &ProgramMut<'_>) -> std::io::Result<Self> {
        program.as_fd().try_clone_to_owned().map(Self)
    }

    /// The kernel's number of it.
    pub(crate) fn id(&self) -> Result<u32, libbpf_rs::Error> {
        libbpf_rs::Program::id_from_fd(self.0.as_fd())
    }

    /// The same program once more.
    pub(crate) fn again(&self) -> std::io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Runs the program `times` over on a packet that came by a context. `out` receives the packet as the program left it, and
    /// may be empty.
    pub(crate) fn run(
        &self,
        packet: &[u8],
        context: &[u8],
        out: &mut [u8],
        times: u32,
    ) -> std::io::Result<Run> {
        // SAFETY: a structure of numbers and pointers, of which all zeros say "nothing given".
        let mut options = unsafe { zeroed::<libbpf_sys::bpf_test_run_opts>() };
        options.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t;
        options.data_in = packet.as_ptr().cast();
        options.data_size_in = packet.len() as u32;
        if !context.is_empty() {
            options.ctx_in = context.as_ptr().cast();
            options.ctx_size_in = context.len() as u32;
        }
        if !out.is_empty() {
            options.data_out = out.as_mut_ptr().cast();
            options.data_size_out = out.len() as u32;
        }
        options.repeat = times as i32;
        // SAFETY: the inputs and the output are there for as long as the call takes, with the lengths that go along; the inputs
        // are only read, and nobody else has the output.
        let error = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), &mut options) };
        if error < 0 {
            return Err(std::io::Error::from_raw_os_error(-error));
        }
        let duration = Duration::from_nanos(options.duration.into());
        Ok(Run { value: options.retval, duration, length: options.data_size_out as usize })
    }

    /// Runs a program of XDP on a frame as the driver of an interface would, which the context names: what it says is done.
    pub(crate) fn run_live(&self, frame: &[u8], context: &[u8]) -> std::io::Result<()> {
        // SAFETY: a structure of numbers and pointers, of which all zeros say "nothing given".
        let mut options = unsafe { zeroed::<libbpf_sys::bpf_test_run_opts>() };
        options.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t;
        options.data_in = frame.as_ptr().cast();
        options.data_size_in = frame.len() as u32;
        options.ctx_in = context.as_ptr().cast();
        options.ctx_size_in = context.len() as u32;
        options.repeat = 1;
        options.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
        // SAFETY: the inputs are there for as long as the call takes, with the lengths that go along, and are only read.
        let error = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), &mut options) };
        if error < 0 { Err(std::io::Error::from_raw_os_error(-error)) } else { Ok(()) }
    }

    /// Runs a program whose packet is a command `times` over. Returns the command as the program left it, with its answer.
    pub(crate) fn command<T: Plain>(&self, command: &T, times: u32) -> std::io::Result<(T, Duration)> {
        let mut answer = vec![0; size_of::<T>()];
        let run = self.run(bytes_of(command), &[], &mut answer, times)?;
        Ok((from_bytes(&answer).unwrap_or_default(), run.duration))
    }
}
