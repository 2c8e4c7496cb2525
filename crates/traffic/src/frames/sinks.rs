//! The sinks of ports: programs that differ in the zone's number, and in whether frames may arrive in several pieces.
//!
//! One sink keeps the kernel's verifier longer than all other programs of the object together, and a run needs two or three of the
//! six. So each is loaded when the first port needs it.

use super::skeleton::{FramesSkel, FramesSkelBuilder};
use crate::TrafficError;
use crate::harness::{Apart, Port, attach};
use libbpf_rs::{Link, Object};
use measure::shape::Zone;

/// Whether a program of the object is a sink.
pub(super) fn is_sink(program: &str) -> bool {
    program.starts_with("sink_") || program.starts_with("jumbo_sink_")
}

/// The sink of a zone: for frames that arrive in one piece, which is faster, or in several.
fn name(zone: Zone, pieces: Pieces) -> &'static str {
    match (zone, pieces) {
        (Zone::Private, Pieces::One) => "sink_private",
        (Zone::Dmz, Pieces::One) => "sink_dmz",
        (Zone::Hostile, Pieces::One) => "sink_hostile",
        (Zone::Private, Pieces::Several) => "jumbo_sink_private",
        (Zone::Dmz, Pieces::Several) => "jumbo_sink_dmz",
        (Zone::Hostile, Pieces::Several) => "jumbo_sink_hostile",
    }
}

#[derive(Clone, Copy)]
enum Pieces {
    One,
    Several,
}

/// The sinks that ports needed so far.
#[derive(Default)]
pub(super) struct Sinks(Apart<FramesSkel<'static>>);

impl Sinks {
    /// Loads the sinks that these ports most likely need, side by side.
    ///
    /// # Errors
    /// The kernel refuses a program.
    pub(super) fn load(&mut self, ports: &[Port], engine: &Object) -> Result<(), TrafficError> {
        let mut names: Vec<&str> = ports.iter().map(|port| name(port.zone, Pieces::One)).collect();
        names.sort_unstable();
        names.dedup();
        self.0.load(FramesSkelBuilder::default, engine, &names)
    }

    /// Attaches the sink of a port's zone, until the link is dropped: the faster one where the driver takes it, which it does not
    /// where frames may arrive in several pieces.
    ///
    /// # Errors
    /// The kernel refuses the program, the interface is gone, or its driver has no XDP.
    pub(super) fn attach(&mut self, port: &Port, engine: &Object) -> Result<Link, TrafficError> {
        // libbpf would complain on standard error about the refusal, which is an answer here.
        let print = libbpf_rs::set_print(None);
        let faster = self.attach_one(port, Pieces::One, engine);
        libbpf_rs::set_print(print);
        faster.or_else(|_| self.attach_one(port, Pieces::Several, engine))
    }

    fn attach_one(&mut self, port: &Port, pieces: Pieces, engine: &Object) -> Result<Link, TrafficError> {
        let name = name(port.zone, pieces);
        self.0.load(FramesSkelBuilder::default, engine, &[name])?;
        attach(port, &self.0.program(name)?)
    }
}
