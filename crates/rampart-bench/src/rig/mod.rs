//! Rigs of real parts: a bed, a firewall under test in it, and the run's generators. They answer the campaign's trials
//! and proofs; what they observe goes into the outcome and is judged elsewhere.

mod application;
mod bulk;
mod connections;
mod frames;
mod hosts;
mod iperf3;
mod machine_time;
mod patrol;
mod replacement;
mod round_trip;
mod station;
mod trespass;

pub(crate) use bulk::PROGRAM as BULK_PROGRAM;
pub(crate) use frames::FrameRig;
pub(crate) use hosts::{Hosts, Link, ZONES};
pub(crate) use machine_time::MachineTime;

use crate::between::Between;
use crate::interrupt::Interrupt;
use application::ApplicationRig;
use bulk::BulkRig;
use connections::ConnectionRig;
use measure::plan::PlannedCell;
use measure::shape::Workload;
use measure::trial::{Rig, RigError};
use std::cell::RefCell;
use std::rc::Rc;
use testbed::bed::Bed;
use testbed::counters::LinkCounters;
use testbed::dut::ExternalBed;
use testbed::layout::{BedLayout, ZonePort};
use traffic::{Engine, Port, TrafficError, tcp};

/// Why a trial does not count in which nobody looked often enough ([`measure::pace::Bounds`]).
const SEEN_TOO_LITTLE: &str = "the bench was kept from its core and saw too little of the trial: what a queue took in until the load was over \
                               cannot be distinguished from what was forwarded in time";

/// What the firewall stands in.
pub(crate) enum Site {
    Built(Bed),
    /// Two interfaces that the user named.
    Named(ExternalBed),
    /// Two hosts, each with an interface that an agent was given.
    Hosts(Box<Hosts>),
}

impl Site {
    /// What its links lost so far, where that can be read.
    pub(crate) fn links(&self) -> Option<LinkCounters> {
        match self {
            Site::Built(bed) => LinkCounters::read(bed).ok(),
            Site::Named(_) | Site::Hosts(_) => None,
        }
    }

    pub(crate) fn layout(&self) -> &BedLayout {
        match self {
            Site::Built(bed) => bed.layout(),
            Site::Named(external) => external.layout(),
            Site::Hosts(hosts) => hosts.layout(),
        }
    }

    /// Whether nobody can look into the firewall, which somebody else set up.
    pub(crate) const fn is_opaque(&self) -> bool {
        !matches!(self, Site::Built(_))
    }
}

/// What all rigs of a run share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The generator and the sink; none where agents have them.
    pub(crate) frames: Option<Rc<RefCell<Engine>>>,
    /// Client and server, where a test has connections.
    pub(crate) tcp: Option<Rc<RefCell<tcp::Engine>>>,
    /// The box between two interfaces that the user named.
    pub(crate) between: Option<Rc<Between>>,
    pub(crate) interrupt: Interrupt,
}

impl Shared {
    /// For trials of frames alone. What the machine is set to now, it has to be set to until the last of them.
    pub(crate) fn new(engine: Engine, interrupt: &Interrupt) -> Self {
        testbed::machine_settings::note();
        let frames = Some(Rc::new(RefCell::new(engine)));
        Self { frames, tcp: None, between: None, interrupt: interrupt.clone() }
    }

    /// For trials between hosts.
    pub(crate) fn elsewhere(between: Between, interrupt: &Interrupt) -> Self {
        Self { frames: None, tcp: None, between: Some(Rc::new(between)), interrupt: interrupt.clone() }
    }

    /// The generator and the sink of this machine.
    fn engine(&self) -> Result<&RefCell<Engine>, RigError> {
        self.frames
            .as_deref()
            .ok_or_else(|| RigError::Broken("agents have the generator and the sink".to_owned()))
    }

    /// With client and server for trials of up to `connections` at once.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub(crate) fn with_connections(mut self, connections: u32) -> Result<Self, TrafficError> {
        self.tcp = Some(Rc::new(RefCell::new(tcp::Engine::load(connections)?)));
        Ok(self)
    }

    /// Client and server of the run.
    fn connections(&self) -> Result<Rc<RefCell<tcp::Engine>>, RigError> {
        let missing = || {
            RigError::Broken("the TCP engine was not loaded: no test of the plan has connections".to_owned())
        };
        self.tcp.clone().ok_or_else(missing)
    }
}

/// The rig of one firewall for a cell: for frames, connections, bulk transfers or application traffic, in a bed or between named
/// interfaces.
pub(crate) fn build(name: &str, planned: &PlannedCell, shared: &Shared) -> Result<Box<dyn Rig>, RigError> {
    let setup = &planned.setup;
    Ok(match &setup.workload {
        Workload::Frames => Box::new(FrameRig::build(name, setup, shared)?),
        Workload::Connections(shape) => {
            let replaceable = planned.cell.procedure.replaces_the_policy();
            Box::new(ConnectionRig::build(name, setup, shape, replaceable, shared)?)
        }
        Workload::Bulk(shape) => Box::new(BulkRig::build(name, setup, *shape, shared)?),
        Workload::Application(shape) => Box::new(ApplicationRig::build(name, setup, shape.clone(), shared)?),
    })
}

fn broken(error: testbed::TestbedError) -> RigError {
    match error {
        testbed::TestbedError::Unsupported { .. } => RigError::Unsupported(error.to_string()),
        other => RigError::Broken(other.to_string()),
    }
}

/// A rig was asked for a trial of another workload than its cell's.
fn other_workload() -> RigError {
    RigError::Broken("the rig of this cell is for trials of another workload".to_owned())
}

fn broken_traffic(error: TrafficError) -> RigError {
    match error {
        TrafficError::Interrupted => RigError::Interrupted,
        other => RigError::Broken(other.to_string()),
    }
}

pub(crate) fn port(zone: &ZonePort) -> Port {
    Port {
        zone: zone.zone,
        namespace: Some(zone.end.namespace.path()),
        ifindex: zone.end.ifindex,
        mac: zone.end.mac.0,
        next_hop_mac: zone.gateway_mac.0,
        v4_prefix: u32::from(zone.addresses.v4.network()),
        v6_prefix: zone.addresses.v6.network().octets(),
    }
}
