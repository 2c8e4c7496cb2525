//! Traffic: loads `bpf/traffic`, makes frames and connections, paces, sends, and reads what arrived.
//!
//! Traffic is made in the kernel from the live frames of `BPF_PROG_TEST_RUN`, and only jumbo frames, which do not fit one,
//! in user space; otherwise user space prepares trials and reads counters. `frames` and `tcp` say what their traffic is;
//! what both need to load, start, follow and end a run is `harness`. The bench's unsafe code lives here. This crate knows
//! nothing of firewalls, suites or reports.

pub mod app;
mod clock;
mod error;
mod frames;
mod harness;
mod namespace;
#[allow(unsafe_code, reason = "packet sockets have options and addresses that no safe binding knows")]
mod packet_socket;
mod random;
pub mod tcp;

pub use clock::Clock;
pub use error::TrafficError;
pub use frames::*;
pub use harness::{Histogram, Pace, Port, Watch};
