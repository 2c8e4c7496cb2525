//! Frames: a generator that sends them by a schedule, a sink that counts and times them, and the probes that prove a policy.

mod bare;
mod drops;
mod engine;
mod flows;
mod forbidden;
mod frame;
mod held_back;
#[allow(unsafe_code, reason = "packet sockets, and writing the counters that BPF programs write otherwise")]
mod jumbo;
mod looks;
mod neighbours;
mod outcome;
mod part;
mod patrol;
mod probe;
mod probe_stream;
#[allow(unsafe_code, reason = "reading memory that BPF programs write at the same time")]
mod reading;
mod schedule;
mod sinks;
mod skeleton;
mod streams;

pub use bare::BareLoop;
pub use drops::DropCount;
pub use engine::{Engine, Ports, SETTLE, TrialPlan, grace_seconds};
pub use flows::{FIRST_HOST, MAX_FLOWS, MAX_HOSTS, hosts_of};
pub use forbidden::{Forbidden, MOST_FORBIDDEN_SOURCES};
pub use frame::{MAX_LIVE_FRAME_BYTES, STAMP_BYTES, smallest_frame_bytes};
pub use held_back::Sighting;
pub use looks::Looks;
pub use outcome::Seconds;
pub use part::{Part, PartReading, Partner, TrialReading, together};
pub use patrol::{Key, Lookout, Patrol, PatrolProbe, Patrolled, PatrolledPart};
pub use probe::{Arrival, ProbeFrame, Transport};
pub use probe_stream::{MOST_ROUNDS, ProbeStream, StreamedProbe};
pub use reading::{FIELD_NAMES, LaneTimes, Reading, StreamCounts};
pub use schedule::MIN_FRAMES_PER_SECOND;
pub use streams::{Ends, Header, MOST_COMBINATIONS, MOST_STREAMS, Stream, StreamState};
