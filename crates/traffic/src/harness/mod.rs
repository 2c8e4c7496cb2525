//! What a run of frames and a run of connections have in common: an object that is loaded, ports that its programs are
//! attached to, a generator on each core, a schedule that is begun, followed, settled and ended, and the reading of what
//! the programs count meanwhile. Knows neither frames nor connections.

mod apart;
mod histogram;
#[allow(unsafe_code, reason = "the system call that runs live frames, and the signal that ends it")]
mod live;
#[allow(unsafe_code, reason = "memory that BPF programs write while we read it")]
pub(crate) mod memory;
mod port;
mod run;

pub(crate) use apart::Apart;
pub use histogram::Histogram;
pub(crate) use histogram::{BUCKET_BITS, BUCKETS, summary};
pub(crate) use live::{LiveSender, pin};
pub(crate) use memory::Memory;
pub use port::Port;
pub(crate) use port::{attach, send_through, words};
pub(crate) use run::{Generators, NOT_YET, Run, pace, wait_until};
pub use run::{Pace, Watch};

use crate::TrafficError;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;

/// The length of an array in a structure of `bpf/abi/`, from the type that was derived from it.
pub(crate) const fn length<S, T, const N: usize>(_: fn(&S) -> &[T; N]) -> usize {
    N
}

/// Schedule time is nanoseconds shifted left by `SCHEDULE_SHIFT` (`bpf/abi/traffic.h`), counted from the start of a run.
pub(crate) const SCHEDULE_SHIFT: u32 = 20;
const MAX_SECONDS: f64 = 4.0 * 3600.0;

pub(crate) fn to_schedule(seconds: f64) -> u64 {
    (seconds * 1e9 * f64::from(1u32 << SCHEDULE_SHIFT)) as u64
}

pub(crate) fn to_seconds(schedule: u64) -> f64 {
    schedule as f64 / 1e9 / f64::from(1u32 << SCHEDULE_SHIFT)
}

/// # Errors
/// No time, or more than schedule time holds. `what` is a trial or a run.
pub(crate) fn check_seconds(what: &str, seconds: f64) -> Result<(), TrafficError> {
    if seconds > 0.0 && seconds <= MAX_SECONDS {
        return Ok(());
    }
    Err(TrafficError::Impossible(format!("a {what} of {seconds} s: it may last up to {MAX_SECONDS} s")))
}

/// Opens an object, has `size` set how much its maps hold, and loads those of its programs that are `wanted`, by name.
///
/// # Errors
/// The kernel refuses the programs, or there is no room.
pub(crate) fn load<B: SkelBuilder<'static>>(
    builder: B,
    object: &str,
    wanted: impl Fn(&str) -> bool,
    size: impl FnOnce(&mut B::Output) -> libbpf_rs::Result<()>,
) -> Result<<B::Output as OpenSkel<'static>>::Output, TrafficError> {
    let mut open = open(builder, object)?;
    size(&mut open).map_err(TrafficError::bpf(format!("sizing the tables of {object}")))?;
    choose(&mut open, wanted);
    open.load().map_err(TrafficError::bpf(format!("loading {object}")))
}

fn open<B: SkelBuilder<'static>>(builder: B, object: &str) -> Result<B::Output, TrafficError> {
    // A skeleton borrows its object for as long as it lives; an engine lives as long as the run.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    builder.open(storage).map_err(TrafficError::bpf(format!("opening {object}")))
}

/// Only these programs of an object are loaded.
fn choose(open: &mut impl OpenSkel<'static>, wanted: impl Fn(&str) -> bool) {
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = program.name().to_str().is_some_and(&wanted);
        program.set_autoload(wanted);
    }
}

/// Cores that programs may run on: how many of the objects' parts are to be read.
pub(crate) fn cores_possible(most: usize) -> usize {
    libbpf_rs::num_possible_cpus().map_or(most, |n| n.clamp(1, most))
}
