//! TCP: a client and a server in XDP, with one record a connection, and what they counted.
//!
//! The client opens connections at a rate or keeps a number open, asks, checks the answer, and closes; the server answers.
//! Both speak to each other through whatever is between them, and to any other TCP. What they deliberately do not do is
//! in `docs/design/tcp-engine.md`: they measure firewalls, and are no stack to build on.

mod attack;
mod bare;
mod check;
mod control;
mod engine;
mod even;
mod illegal;
mod looks;
mod message;
mod outcome;
mod plan;
#[allow(unsafe_code, reason = "reading memory that BPF programs write at the same time")]
mod reading;
mod resets;
mod skeleton;
mod steps;

pub use attack::{ATTACKERS_V4, ATTACKERS_V6};
pub use bare::Comparison;
pub use engine::{Ends, Engine, Ports};
pub use even::Evenness;
pub use illegal::{FORBIDDEN_PORT, FORBIDDEN_PROTOCOL, FORBIDDEN_V4, FORBIDDEN_V6, IllegalPlan};
pub use message::Message;
pub use plan::{Answer, Close, Opening, Options, Order, Side, TcpPhase, TcpPlan};
pub use reading::{TcpCounts, TcpReading, TcpTime};
pub use resets::ResetCheck;
pub(crate) use skeleton::TICK_SHIFT;
