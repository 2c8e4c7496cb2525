//! Running a piece of work inside another network namespace, on the calling thread.

use crate::TrafficError;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::path::Path;

const OWN: &str = "/proc/thread-self/ns/net";

/// Runs `work` inside the namespace at `path` (`/run/netns/NAME`), or right here when there is none, and comes back.
///
/// # Errors
/// The namespace cannot be opened or entered. Failing to come back is a broken invariant: the thread would go on in
/// a stranger's namespace.
///
/// # Panics
/// When the thread cannot return to its own namespace.
pub(crate) fn inside<T>(path: Option<&Path>, work: impl FnOnce() -> T) -> Result<T, TrafficError> {
    let Some(path) = path else { return Ok(work()) };
    let enter = |file: &File| setns(file, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from);
    let own = File::open(OWN).map_err(TrafficError::system("opening this thread's network namespace"))?;
    let there = File::open(path).map_err(TrafficError::system(format!("opening {}", path.display())))?;
    enter(&there).map_err(TrafficError::system(format!("entering {}", path.display())))?;
    let result = work();
    #[allow(clippy::expect_used, reason = "see Panics")]
    enter(&own).expect("the thread returns to its own network namespace");
    Ok(result)
}
