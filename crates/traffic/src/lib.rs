//! Traffic: loads `bpf/traffic`, builds flows and frames, paces, sends, and reads what arrived.
//!
//! Traffic is made in the kernel from the live frames of `BPF_PROG_TEST_RUN`, and only jumbo frames, which do not fit
//! one, in user space; otherwise user space prepares trials and reads counters. The bench's unsafe code lives here. This crate knows nothing of firewalls, suites or reports.

mod bare;
mod clock;
mod drops;
mod engine;
mod error;
mod flows;
mod frames;
mod histogram;
#[allow(unsafe_code, reason = "packet sockets, and writing the counters that BPF programs write otherwise")]
mod jumbo;
#[allow(unsafe_code, reason = "the system call that runs live frames, and the signal that ends it")]
mod live;
mod namespace;
mod neighbours;
mod outcome;
#[allow(unsafe_code, reason = "packet sockets have options and addresses that no safe binding knows")]
mod packet_socket;
mod probe_stream;
mod random;
#[allow(unsafe_code, reason = "reading memory that BPF programs write at the same time")]
mod reading;
mod schedule;
mod skeleton;
pub mod tcp;

pub use bare::BareLoop;
pub use clock::Clock;
pub use drops::DropCount;
pub use engine::{Engine, Ports, SETTLE, TrialPlan, TrialReading, Watch, grace_seconds};
pub use error::TrafficError;
pub use flows::{FIRST_HOST, MAX_FLOWS, MAX_HOSTS};
pub use frames::{
    Arrival, MAX_LIVE_FRAME_BYTES, Port, ProbeFrame, STAMP_BYTES, Transport, smallest_frame_bytes,
};
pub use outcome::Seconds;
pub use probe_stream::{MOST_ROUNDS, ProbeStream, StreamedProbe};
pub use reading::{LaneTimes, Reading, StreamCounts};
pub use schedule::MIN_FRAMES_PER_SECOND;
