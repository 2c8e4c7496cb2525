//! The map `forwarding`, by which the programs learn how to send packets on. Two write it: [`crate::Ports`] when interfaces
//! come and go, and [`crate::routes::Routes`] when the kernel's routes change.

use crate::clock::whole_tick;
use crate::skeleton::types::{self, forwarding_times};
use libbpf_rs::{MapCore, MapFlags};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// `struct forwarding` of `bpf/abi/forward.h`, in its words.
pub(crate) const WORDS: usize = 16;
pub(crate) const MARK: usize = 1;
pub(crate) const ANSWER_INTERVAL: usize = 3;
pub(crate) const ANSWER_BURST: usize = 5;
const TAKES_FRAMES: usize = 7;
const ATTENDED: usize = 15;

const _: () = assert!(
    size_of::<types::forwarding>() == 4 * WORDS
        && std::mem::offset_of!(types::forwarding, mark) == 4 * MARK
        && std::mem::offset_of!(types::forwarding, answer_interval) == 4 * ANSWER_INTERVAL
        && std::mem::offset_of!(types::forwarding, answer_burst) == 4 * ANSWER_BURST
        && std::mem::offset_of!(types::forwarding, takes_frames) == 4 * TAKES_FRAMES
        && std::mem::offset_of!(types::forwarding, attended) == 4 * ATTENDED
);

/// By how much the programs' cached clock may be behind.
const BEHIND: Duration = Duration::from_millis(100);

/// One at a time: the map is one value, written by whoever attaches interfaces and by the thread that follows routes.
static TURN: Mutex<()> = Mutex::new(());

/// Changes something of the map, and makes remembered routes old.
pub(crate) fn change(map: &impl MapCore, change: impl FnOnce(&mut [u32; WORDS])) -> libbpf_rs::Result<()> {
    rewrite(map, |words| {
        change(words);
        // 0 is what slots of the cache carry that were never written, and numbers with the highest bit are the programs' own.
        words[0] = (words[0].wrapping_add(1) & (u32::MAX >> 1)).max(1);
    })
}

/// Says that somebody follows the kernel's announcements now, which is since the machine was started. Without that for some seconds the
/// programs do not rely on what they remember.
pub(crate) fn attend(map: &impl MapCore, now: Duration) -> libbpf_rs::Result<()> {
    // A little earlier, because the programs' clock may be a jiffy behind ours.
    let units = whole_tick(now.saturating_sub(BEHIND)) >> forwarding_times::ATTENDED_SHIFT.0;
    rewrite(map, |words| words[ATTENDED] = (units as u32).max(1))
}

fn rewrite(map: &impl MapCore, change: impl FnOnce(&mut [u32; WORDS])) -> libbpf_rs::Result<()> {
    // Nothing is left half done by a panic: the map is written at the end.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = 0u32.to_ne_bytes();
    let found = map.lookup(&key, MapFlags::ANY)?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(found.iter().flat_map(|b| b.as_chunks::<4>().0)) {
        *word = u32::from_ne_bytes(*bytes);
    }
    change(&mut words);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    map.update(&key, &bytes, MapFlags::ANY)
}

/// The device of a port takes frames from XDP, or not.
pub(crate) fn set_takes_frames(map: &impl MapCore, port: u32, takes: bool) -> libbpf_rs::Result<()> {
    change(map, |words| {
        let word = &mut words[TAKES_FRAMES + port as usize / 32];
        *word = *word & !(1 << (port % 32)) | u32::from(takes) << (port % 32);
    })
}

/// What a local address is: `enum local_kind` of `bpf/abi/forward.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalKind {
    /// An address of the firewall itself.
    Own,
    /// Everybody on one of its links.
    Broadcast,
}

impl LocalKind {
    pub(crate) fn number(self) -> u32 {
        match self {
            LocalKind::Own => 1,
            LocalKind::Broadcast => 2,
        }
    }

    pub(crate) fn of(number: u32) -> Option<Self> {
        [LocalKind::Own, LocalKind::Broadcast].into_iter().find(|kind| kind.number() == number)
    }
}

/// `struct address` of `bpf/abi/forward.h`.
pub(crate) fn local_key(address: IpAddr) -> [u8; 24] {
    let mut key = [0; 24];
    let version: u32 = match address {
        IpAddr::V4(v4) => {
            key[..4].copy_from_slice(&v4.octets());
            4
        }
        IpAddr::V6(v6) => {
            key[..16].copy_from_slice(&v6.octets());
            6
        }
    };
    key[16..20].copy_from_slice(&version.to_ne_bytes());
    key
}

/// The address that [`local_key`] made a key of.
pub(crate) fn local_address(key: &[u8]) -> Option<IpAddr> {
    let version = u32::from_ne_bytes(*key.get(16..)?.first_chunk()?);
    match version {
        4 => Some(Ipv4Addr::from(*key.first_chunk::<4>()?).into()),
        6 => Some(Ipv6Addr::from(*key.first_chunk::<16>()?).into()),
        _ => None,
    }
}
