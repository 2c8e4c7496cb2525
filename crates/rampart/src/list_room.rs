//! The memory in which lists are read.

use std::cell::Cell;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of the memory that is free, the part that addresses may take while they are read. Sorting, the table and its copy in the kernel take
/// the rest.
const PART_OF_MEMORY: u64 = 3;

/// What the addresses of some lists may take together while they are read, side by side, and what they take.
pub(crate) struct Room {
    bytes: u64,
    taken: AtomicU64,
}

impl Room {
    pub(crate) fn of_machine() -> Self {
        Self::of(free_memory() / PART_OF_MEMORY)
    }

    pub(crate) const fn of(bytes: u64) -> Self {
        Self { bytes, taken: AtomicU64::new(0) }
    }

    pub(crate) fn share(&self) -> Share<'_> {
        Share { room: self, bytes: Cell::new(0) }
    }
}

/// What one list takes of it.
pub(crate) struct Share<'r> {
    room: &'r Room,
    bytes: Cell<u64>,
}

impl Share<'_> {
    /// The list takes so many bytes now.
    ///
    /// # Errors
    /// They are too many beside what other lists take.
    pub(crate) fn hold(&self, bytes: u64) -> Result<(), String> {
        if self.keep(bytes) <= self.room.bytes {
            return Ok(());
        }
        Err(format!(
            "is too large: the addresses may take {} MiB, a third of the memory that is free, with those of other lists: shorten it, or \
             give the machine more memory",
            self.room.bytes >> 20
        ))
    }

    /// The same where they cannot be too many. Returns what all lists take.
    pub(crate) fn keep(&self, bytes: u64) -> u64 {
        let before = self.bytes.replace(bytes);
        // It wraps, and the sum does not.
        let change = bytes.wrapping_sub(before);
        self.room.taken.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }
}

/// Memory that can be had; if the kernel does not say, there is no bound.
pub(crate) fn free_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let row = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = row.and_then(|row| row.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_share_the_memory_in_which_they_are_read() {
        let room = Room::of(100);
        let (one, other) = (room.share(), room.share());
        let steps: [(&Share<'_>, u64, bool); 6] = [
            (&one, 60, true),
            (&other, 40, true),
            (&other, 41, false),
            (&one, 50, true),
            (&other, 50, true),
            (&one, 51, false),
        ];
        for (number, (share, bytes, fits)) in steps.into_iter().enumerate() {
            assert_eq!(share.hold(bytes).is_ok(), fits, "step {number}");
        }
    }
}
