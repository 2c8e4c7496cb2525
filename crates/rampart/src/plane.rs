//! What the daemon needs of a data plane. The real one is in `kernel/mod.rs`; tests use one that lives in memory.

use crate::api::{Block, Counter, Drop, EventDetails, Flow, HookName, Occupancy, Station};
use crate::export::FlowRecord;
use jiff::Timestamp;
use policy::lists::{DomainTables, ListTable};
use policy::quota::Sliding;
use policy::{Policy, Tables};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Something that judges packets by tables.
pub(crate) trait DataPlane: Send {
    /// Puts tables in force, as a whole: no packet sees a part of the old and a part of the new. They are tables of this
    /// policy. `lists` is what is on its lists of addresses; `None`: what was on them before, for the same lists. `domains` are those of its
    /// lists that are domains', if it has any. Returns their generation.
    ///
    /// # Errors
    /// What the data plane cannot do. The tables before stay in force.
    fn apply(
        &mut self,
        tables: &Tables,
        policy: &Policy,
        lists: Option<&ListTable>,
        domains: Option<&DomainTables>,
    ) -> Result<u64, PlaneError>;

    /// Exchanges what the domains of the policy in force stand for. Flows that are open are not judged again.
    ///
    /// # Errors
    /// When the kernel has no memory.
    fn exchange_domains(&mut self, domains: &DomainTables) -> Result<(), PlaneError>;

    /// Prepares for a policy: interfaces that belong to another zone under it, of this firewall and of an earlier one that it took
    /// over, are closed until they are attached or moved.
    ///
    /// # Errors
    /// What the data plane cannot do.
    fn prepare(&mut self, policy: &Policy) -> Result<(), PlaneError>;

    /// An interface that it is attached to belongs to another zone from now on; one that is gone does when it is back.
    fn move_to(&mut self, interface: &str, zone: &str);

    /// Ends the flows of the interfaces that belong to another zone since the last [`DataPlane::prepare`]: their ends do not live there any more.
    ///
    /// # Errors
    /// What the data plane cannot do. Then they end when nothing passes for their time.
    fn end_moved(&mut self) -> Result<(), PlaneError>;

    /// The first policy is in force and its interfaces are attached: what else an earlier firewall left goes. Returns what is worth
    /// a report of that.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn settle(&mut self) -> Result<Option<String>, PlaneError>;

    /// Whether it goes on with what an earlier firewall left. Then a start that fails leaves everything attached: the machine was
    /// closed, and stays so.
    fn took_over(&self) -> bool;

    /// Attaches to an interface, which belongs to a zone from now on. Until the policy in force knows the zone, its packets are
    /// dropped.
    ///
    /// # Errors
    /// When there is no such interface, or the kernel refuses.
    fn attach(&mut self, zone: &str, interface: &str, hook: Hook) -> Result<Attached, PlaneError>;

    /// From now on interfaces with the names of a policy, patterns included, are closed until they are attached, if the policy has
    /// patterns. Returns what is worth a report of that.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn close_until_attached(&mut self, names: &[String]) -> Result<Option<String>, PlaneError>;

    /// The interfaces that are there.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn interfaces(&mut self) -> Result<Vec<Present>, PlaneError>;

    /// Interfaces with these numbers are gone, whatever has the numbers now.
    fn gone(&mut self, indices: &[u32]);

    /// Detaches from an interface.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn detach(&mut self, interface: &str) -> Result<(), PlaneError>;

    /// How often each rule and each list of the policy in force decided, by the names of their counters. Those that never did may be
    /// missing.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn rule_hits(&mut self, policy: &Policy) -> Result<HashMap<String, u64>, PlaneError>;

    /// Packets that were beyond the limit of a rule that would have allowed them, by its name. Rules without any may be
    /// missing.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn limited(&mut self) -> Result<HashMap<String, u64>, PlaneError>;

    /// Dropped packets by reason; reasons that never occurred may be missing.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn drops(&mut self) -> Result<Vec<Drop>, PlaneError>;

    /// What else was counted.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn counters(&mut self) -> Result<Vec<Counter>, PlaneError>;

    /// Shows to `each` what rules recorded since the last call, and how long ago it was. Returns how many events were suppressed
    /// or lost since the data plane was loaded. Called several times a second: there is only so much room for them.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn events(&mut self, each: &mut dyn FnMut(Duration, Recorded)) -> Result<u64, PlaneError>;

    /// Records of flows that have ended since the last call, and of those that go on for long, if the policy in force wants records; and how many
    /// were not made since the data plane was loaded. Called several times a second. `now` is on the wall.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn flow_records(&mut self, now: Timestamp) -> Result<(Vec<FlowRecord>, u64), PlaneError>;

    /// Shows every flow to `each`, with what [`DataPlane::kill`] knows it by.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn flows(&mut self, each: &mut dyn FnMut(FlowKey, Flow)) -> Result<(), PlaneError>;

    /// Ends a flow: its next packet is judged as if it were its first. `false` when it has ended by itself.
    ///
    /// # Errors
    /// When the kernel does not do it.
    fn kill(&mut self, flow: FlowKey) -> Result<bool, PlaneError>;

    /// Sources that are blocked because they scanned, those that are longest first, each with what [`DataPlane::unblock`] knows it by.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn blocked(&mut self) -> Result<Vec<(BlockKey, Block)>, PlaneError>;

    /// Ends a block. `false` when it was over by itself.
    ///
    /// # Errors
    /// When the kernel does not do it.
    fn unblock(&mut self, block: BlockKey) -> Result<bool, PlaneError>;

    /// The stations of bridges of more than two interfaces, by bridge, VLAN and address.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn stations(&mut self) -> Result<Vec<Station>, PlaneError>;

    /// How full the flow table is.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn occupancy(&mut self) -> Result<Occupancy, PlaneError>;

    /// Removes expired flows. Called about once a second.
    ///
    /// # Errors
    /// When the kernel does not do it.
    fn sweep(&mut self) -> Result<(), PlaneError>;

    /// What was done to the programs at interfaces since the last call and is mended again; and what is not, as long as it is so.
    /// Called several times a second.
    fn check_programs(&mut self) -> Tampering;

    /// Attaches again to interfaces that vanished and came back. Returns what needs attention, each with what to do. Called
    /// about once a second.
    ///
    /// # Errors
    /// When the kernel refuses to be read.
    fn check_interfaces(&mut self) -> Result<Vec<String>, PlaneError>;
}

/// What somebody did to the programs at interfaces; each text is complete, with what to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tampering {
    /// It was put right.
    pub(crate) mended: Vec<String>,
    /// It goes on.
    pub(crate) standing: Vec<String>,
    /// Interfaces at which the data plane went to another hook, and why.
    pub(crate) moved: Vec<(String, HookName, String)>,
}

/// What a rule recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recorded {
    Event(EventDetails),
    /// Its alert stands.
    Alert(AlertReading),
}

/// A standing alert, which the data plane repeats once a second while packets come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertReading {
    /// As an event.
    pub(crate) details: EventDetails,
    /// What was counted, on the data plane's clock.
    pub(crate) sliding: Sliding,
    /// When, on the same clock.
    pub(crate) at: Duration,
}

/// Identifies a flow in the data plane: its record, and how often that record was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FlowKey(pub(crate) u32, pub(crate) u32);

/// Identifies a blocked source in the data plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockKey(pub(crate) u64);

/// Where to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Hook {
    /// In the driver (XDP) of network cards, behind it (TC) on virtual links.
    Auto,
    /// In the driver (XDP); behind it (TC) if the driver has no XDP.
    Xdp,
    /// Behind the driver (TC).
    Tc,
}

/// An interface that the data plane is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    /// Its name.
    pub(crate) interface: String,
    /// Its zone.
    pub(crate) zone: String,
    /// The hook in use.
    pub(crate) hook: HookName,
    /// Why it is not the one that was asked for.
    pub(crate) note: Option<String>,
}

/// An interface that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Present {
    /// Its name now.
    pub(crate) name: String,
    /// The name by which the data plane is attached to it, if it is.
    pub(crate) attached_as: Option<String>,
    /// Whether to attach to it if its name matches a pattern: the loopback interface is nobody's, and what is down is closed and may be
    /// moved to another namespace yet, where our programs would have to stay behind.
    pub(crate) is_ready: bool,
}

/// What a data plane cannot do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlaneError {
    /// What a rule says is more than it can do.
    Rule {
        /// Name of the rule.
        rule: String,
        /// What it cannot.
        message: String,
        /// What to write instead.
        help: Option<String>,
    },
    /// The policy as a whole is more than it can do, or more than a running firewall can take over. Complete, with what to
    /// do.
    Policy(String),
    /// The machine or its kernel did not do it. Complete, with what to do.
    Machine(String),
}

impl fmt::Display for PlaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaneError::Rule { rule, message, .. } => write!(f, "the rule `{rule}`: {message}"),
            PlaneError::Policy(text) | PlaneError::Machine(text) => f.write_str(text),
        }
    }
}
