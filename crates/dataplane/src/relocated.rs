//! Programs that libbpf has made ready for this kernel and for the maps of their object, and that threads load side by side. libbpf itself
//! loads an object's programs one after the other, and each further object would read the kernel's types again.

use crate::DataplaneError;
use crate::loading::LOADING;
use crate::shared::Program;
use crate::skeleton::OpenFirewallSkel;
use libbpf_rs::skel::OpenSkel as _;
use libbpf_rs::{AsRawLibbpf as _, ErrorKind, OpenProgramMut};
use libbpf_sys::{bpf_func_info, bpf_insn, bpf_prog_load_opts};
use std::ffi::{CStr, CString};
use std::io::ErrorKind::NotFound;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// What `bpf/firewall.bpf.c` says; libbpf keeps it to itself.
const LICENSE: &CStr = c"Dual MIT/GPL";
/// Section of the programs that take packets in several parts.
const WITH_PARTS: &str = "xdp.frags";
/// Room for what the verifier says, whose last lines are the reason.
const LOG_BYTES: usize = 1 << 20;
const LOG_LINES: usize = 3;

/// A program as the kernel takes it.
pub(crate) struct Relocated {
    name: CString,
    kind: u32,
    attach_type: u32,
    flags: u32,
    /// The object's types; the object outlives this.
    types: u32,
    instructions: Vec<bpf_insn>,
    functions: Vec<bpf_func_info>,
}

/// Has libbpf make an object's maps and relocate those of its programs that are to be loaded.
pub(crate) fn prepare(open: &OpenFirewallSkel<'_>) -> Result<(), libbpf_rs::Error> {
    let object = open.open_object().as_libbpf_object().as_ptr();
    // SAFETY: an object that is open; nothing else has it meanwhile.
    match unsafe { libbpf_sys::bpf_object__prepare(object) } {
        0 => Ok(()),
        error => Err(libbpf_rs::Error::from_raw_os_error(-error)),
    }
}

/// Takes a program out of those that a prepared object loads itself.
pub(crate) fn take(open: &mut OpenFirewallSkel<'_>, name: &str) -> Result<Relocated, DataplaneError> {
    let missing = || DataplaneError::system(format!("looking for the program {name}"))(NotFound.into());
    let object = open.open_object().as_libbpf_object().as_ptr();
    // SAFETY: the object is open and prepared.
    let types = unsafe { libbpf_sys::bpf_object__btf_fd(object) };
    let types = u32::try_from(types).map_err(|_| missing())?;
    let mut programs = open.open_object_mut().progs_mut();
    let mut program = programs.find(|program| program.name() == name).ok_or_else(missing)?;
    program.set_autoload(false);
    Ok(Relocated::of(&program, types))
}

impl Relocated {
    fn of(program: &OpenProgramMut<'_>, types: u32) -> Self {
        let raw = program.as_libbpf_object().as_ptr();
        // SAFETY: the program is that of an open object, and what is asked lives as long as it; libbpf gives null where it counts nothing.
        let (attach_type, flags, functions) = unsafe {
            let functions = libbpf_sys::bpf_program__func_info(raw);
            let count = if functions.is_null() { 0 } else { libbpf_sys::bpf_program__func_info_cnt(raw) };
            let functions = (0..count as usize).map(|place| *functions.add(place)).collect();
            let flags = libbpf_sys::bpf_program__flags(raw);
            (libbpf_sys::bpf_program__expected_attach_type(raw), flags, functions)
        };
        let with_parts = program.section() == WITH_PARTS;
        Self {
            name: CString::new(program.name().as_bytes()).unwrap_or_default(),
            kind: program.prog_type() as u32,
            attach_type,
            flags: flags | if with_parts { libbpf_sys::BPF_F_XDP_HAS_FRAGS } else { 0 },
            types,
            instructions: program.insns().to_vec(),
            functions,
        }
    }

    /// Loads it.
    ///
    /// # Errors
    /// The kernel's, with the end of what its verifier says.
    pub(crate) fn load(&self) -> Result<Program, DataplaneError> {
        match self.load_with(&mut []) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                let mut log = vec![0; LOG_BYTES];
                self.load_with(&mut log).map_err(|error| DataplaneError::bpf(self.refusal(&log))(error))
            }
            loaded => loaded.map_err(DataplaneError::bpf(LOADING)),
        }
    }

    fn refusal(&self, log: &[u8]) -> String {
        let log = CStr::from_bytes_until_nul(log).unwrap_or_default().to_string_lossy();
        let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("processed ")).collect();
        if lines.is_empty() {
            return LOADING.to_owned();
        }
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("; ");
        format!("{LOADING}, whose verifier says of {} «{end}»", self.name.to_string_lossy())
    }

    fn load_with(&self, log: &mut [u8]) -> Result<Program, libbpf_rs::Error> {
        let mut options = bpf_prog_load_opts {
            sz: size_of::<bpf_prog_load_opts>() as libbpf_sys::size_t,
            expected_attach_type: self.attach_type,
            prog_flags: self.flags,
            prog_btf_fd: self.types,
            func_info: self.functions.as_ptr().cast(),
            func_info_cnt: self.functions.len() as u32,
            func_info_rec_size: size_of::<bpf_func_info>() as u32,
            ..bpf_prog_load_opts::default()
        };
        if !log.is_empty() {
            options.log_level = 1;
            options.log_size = log.len() as u32;
            options.log_buf = log.as_mut_ptr().cast();
        }
        // SAFETY: all that is pointed to lives until the call is over, with the counts given beside it.
        let fd = unsafe {
            libbpf_sys::bpf_prog_load(
                self.kind,
                self.name.as_ptr(),
                LICENSE.as_ptr(),
                self.instructions.as_ptr(),
                self.instructions.len() as libbpf_sys::size_t,
                &raw mut options,
            )
        };
        if fd < 0 {
            return Err(libbpf_rs::Error::from_raw_os_error(-fd));
        }
        // SAFETY: the kernel has just given it to us, and nobody else knows it.
        Ok(Program::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

#[cfg(test)]
mod stack_tests;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first thing that is wrong")]
mod tests {
    use super::*;
    use crate::skeleton::FirewallSkelBuilder;
    use libbpf_rs::skel::SkelBuilder as _;

    /// The code of `exit`, which returns register 0.
    const EXIT: u8 = 0x95;

    #[test]
    fn needs_root_what_the_verifier_says_is_told() {
        let mut storage = std::mem::MaybeUninit::uninit();
        let mut open = FirewallSkelBuilder::default().open(&mut storage).unwrap();
        for mut program in open.open_object_mut().progs_mut() {
            let wanted = program.name() == "sweep_flows";
            program.set_autoload(wanted);
        }
        prepare(&open).unwrap();
        assert!(take(&mut open, "no_such_program").is_err());
        let mut program = take(&mut open, "sweep_flows").unwrap();
        program.load().unwrap();
        (program.instructions, program.functions) =
            (vec![bpf_insn { code: EXIT, ..bpf_insn::default() }], Vec::new());
        let said = format!("{:?}", program.load().err());
        assert!(said.contains("verifier says of sweep_flows") && said.contains("R0 !read_ok"), "{said}");
    }
}
