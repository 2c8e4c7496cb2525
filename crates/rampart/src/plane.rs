//! What the daemon needs of a data plane. The daemon is written against this and is tested with one that lives in memory;
//! the real one is in `kernel.rs`.

use crate::api::{Counter, Drop, Heard, HookName, Occupancy, Session};
use policy::quota::Sliding;
use policy::{Policy, Tables};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Something that judges packets by tables.
pub(crate) trait DataPlane: Send {
    /// Puts tables in force, as a whole: no packet sees a part of the old and a part of the new. They are tables of this
    /// policy. Gives the generation that they are.
    ///
    /// # Errors
    /// What the data plane cannot do. The tables before stay in force.
    fn apply(&mut self, tables: &Tables, policy: &Policy) -> Result<u64, PlaneError>;

    /// Takes the packets of an interface from now on, as those of a zone. Until the policy in force knows the zone, it drops
    /// them.
    ///
    /// # Errors
    /// When the interface is not there, or its packets cannot be taken.
    fn attach(&mut self, zone: &str, interface: &str, hook: Hook) -> Result<Attached, PlaneError>;

    /// Lets go of an interface.
    ///
    /// # Errors
    /// When the kernel does not let go.
    fn detach(&mut self, interface: &str) -> Result<(), PlaneError>;

    /// How often each rule of the policy in force decided, by its name. Rules that never did may be missing.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn rule_hits(&mut self, policy: &Policy) -> Result<HashMap<String, u64>, PlaneError>;

    /// Packets that were beyond the limit of a rule that would have allowed them, by its name. Rules without any may be
    /// missing.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn limited(&mut self) -> Result<HashMap<String, u64>, PlaneError>;

    /// Packets that did not pass, by reason; those that were never met may be missing.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn drops(&mut self) -> Result<Vec<Drop>, PlaneError>;

    /// What else was counted.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn counters(&mut self) -> Result<Vec<Counter>, PlaneError>;

    /// Shows to `each` what rules told since the last call, and how long ago it was. Gives how many events were not told since
    /// the data plane was loaded. Called several times a second: there is only so much room for them.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn events(&mut self, each: &mut dyn FnMut(Duration, News)) -> Result<u64, PlaneError>;

    /// Shows every session to `each`, with what [`DataPlane::kill`] knows it by.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn sessions(&mut self, each: &mut dyn FnMut(SessionKey, Session)) -> Result<(), PlaneError>;

    /// Ends a session: its next packet is judged as if it were its first. `false` when it has ended by itself.
    ///
    /// # Errors
    /// When the kernel does not do it.
    fn kill(&mut self, session: SessionKey) -> Result<bool, PlaneError>;

    /// How full the table of sessions is.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn occupancy(&mut self) -> Result<Occupancy, PlaneError>;

    /// Forgets what has expired. Called about once a second.
    ///
    /// # Errors
    /// When the kernel does not do it.
    fn sweep(&mut self) -> Result<(), PlaneError>;

    /// Looks after its interfaces: takes one again that went and came back. Gives what is not as it should be, each with what
    /// to do. Called about once a second.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn tend(&mut self) -> Result<Vec<String>, PlaneError>;
}

/// What a rule told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// Something happened.
    Event(Heard),
    /// More came than its alert allows.
    Surge(Surge),
}

/// More than an alert allows. Told each second as long as that is so and something comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surge {
    /// As an event.
    pub(crate) heard: Heard,
    /// What came, on the data plane's clock.
    pub(crate) sliding: Sliding,
    /// When it was told, on the same.
    pub(crate) at: Duration,
}

/// What a data plane knows a session by: its place, and how often that place was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionKey(pub(crate) u32, pub(crate) u32);

/// Where packets are to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Hook {
    /// In the driver where it is a network card's, behind it where the link is virtual.
    Auto,
    /// In the driver; behind it where the driver cannot.
    Xdp,
    /// Behind the driver.
    Tc,
}

/// An interface whose packets are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    /// Its name.
    pub(crate) interface: String,
    /// Its zone.
    pub(crate) zone: String,
    /// Where they are taken.
    pub(crate) hook: HookName,
    /// Why it is not where they should have been.
    pub(crate) note: Option<String>,
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
