//! Programs at interfaces, as the kernel lists and takes them where libbpf-rs does not ask: what a program is, and the chain of tcx,
//! which Linux has since 6.6.

use libbpf_sys::{
    BPF_F_BEFORE, BPF_F_REPLACE, BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_attach_type, bpf_obj_get_info_by_fd,
    bpf_prog_attach_opts, bpf_prog_detach_opts, bpf_prog_info, bpf_prog_query_opts, size_t,
};
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

/// Programs that a chain may have: `BPF_MPROG_MAX`.
const CHAIN: usize = 64;
/// Maps of a program that are listed: `MAX_USED_MAPS`.
const MAPS: usize = 64;

/// A way through an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Packets that come in.
    In,
    /// Packets that go out.
    Out,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::In, Self::Out];

    fn tcx(self) -> bpf_attach_type {
        match self {
            Self::In => BPF_TCX_INGRESS,
            Self::Out => BPF_TCX_EGRESS,
        }
    }
}

/// A program that the kernel has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: u32,
    pub(crate) name: String,
    user: u32,
    /// Numbers of its maps.
    pub(crate) maps: Vec<u32>,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "without a name" } else { &self.name };
        write!(f, "the program `{name}` (number {} of `bpftool prog`, loaded by user {})", self.id, self.user)
    }
}

impl Listed {
    /// Looks a program up. One that has gone meanwhile is an error.
    pub(crate) fn of(id: u32) -> io::Result<Self> {
        let program = libbpf_rs::Program::fd_from_id(id).map_err(io::Error::other)?;
        let mut maps = vec![0u32; MAPS];
        let mut info = bpf_prog_info {
            nr_map_ids: MAPS as u32,
            map_ids: maps.as_mut_ptr() as u64,
            ..bpf_prog_info::default()
        };
        let mut length = size_of::<bpf_prog_info>() as u32;
        let to = std::ptr::from_mut(&mut info).cast();
        // SAFETY: the kernel writes into the structure, of which it has the length, and as many numbers as were offered into
        // `maps`, which is there until the call ends.
        let error = unsafe { bpf_obj_get_info_by_fd(program.as_fd().as_raw_fd(), to, &mut length) };
        checked(error)?;
        maps.truncate(info.nr_map_ids as usize);
        // SAFETY: the kernel ends the name with a zero within its 16 bytes.
        let name = unsafe { CStr::from_ptr(info.name.as_ptr()) };
        let name = name.to_string_lossy().into_owned();
        Ok(Self { id: info.id, name, user: info.created_by_uid, maps })
    }
}

/// The programs of an interface's chain in their order; `None` on a kernel that has no tcx.
pub(crate) fn chain(index: u32, direction: Direction) -> io::Result<Option<Vec<u32>>> {
    let mut programs = vec![0u32; CHAIN];
    let mut options = bpf_prog_query_opts {
        sz: size_of::<bpf_prog_query_opts>() as size_t,
        prog_ids: programs.as_mut_ptr(),
        ..bpf_prog_query_opts::default()
    };
    options.__bindgen_anon_1.count = CHAIN as u32;
    // SAFETY: the kernel writes as many numbers into `programs` as there is room for; both are there until the call ends.
    let error = unsafe { libbpf_sys::bpf_prog_query_opts(index as i32, direction.tcx(), &mut options) };
    match checked(error) {
        Ok(()) => {}
        // Linux before 6.6.
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EINVAL as i32) => return Ok(None),
        Err(error) => return Err(error),
    }
    // SAFETY: both names of the union are the same number.
    programs.truncate(unsafe { options.__bindgen_anon_1.count } as usize);
    Ok(Some(programs))
}

/// Puts a program at the head of an interface's chain, or in the place of another. It stays there when this process ends.
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    index: u32,
    direction: Direction,
    instead_of: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut options = bpf_prog_attach_opts {
        sz: size_of::<bpf_prog_attach_opts>() as size_t,
        flags: if instead_of.is_some() { BPF_F_REPLACE } else { BPF_F_BEFORE },
        ..bpf_prog_attach_opts::default()
    };
    if let Some(other) = &instead_of {
        options.__bindgen_anon_1.replace_prog_fd = other.as_raw_fd();
    }
    // SAFETY: the options are only read, and the descriptors are open until the call ends.
    checked(unsafe {
        libbpf_sys::bpf_prog_attach_opts(program.as_raw_fd(), index as i32, direction.tcx(), &options)
    })
}

/// Takes a program out of an interface's chain.
pub(crate) fn detach(program: BorrowedFd<'_>, index: u32, direction: Direction) -> io::Result<()> {
    let options = bpf_prog_detach_opts {
        sz: size_of::<bpf_prog_detach_opts>() as size_t,
        ..bpf_prog_detach_opts::default()
    };
    // SAFETY: as in `attach`.
    checked(unsafe {
        libbpf_sys::bpf_prog_detach_opts(program.as_raw_fd(), index as i32, direction.tcx(), &options)
    })
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}
