//! Fragments that come before their first (`bpf/firewall/early.h`). The programs put their frames into a ring; they are kept here for a
//! second at most, and sent in once more when the first fragment of their datagram has been allowed. Never decides whether one
//! may pass: the programs judge it then, by the policy and the routes of that moment.

mod keeper;
mod kept;

use crate::DataplaneError;
use crate::contexts;
use crate::shared::{Program, Shared, bytes_of, from_bytes, publish};
use crate::skeleton::types;
#[cfg(feature = "testing")]
pub(crate) use kept::Kept;
use kept::{Fragment, NO_NAME, Name};
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Of an Ethernet header, before the tag.
const ADDRESSES_BYTES: usize = 12;

/// What the ring has.
#[derive(Debug)]
enum Arrived {
    Fragment(Fragment),
    /// The first fragment of a datagram that others wait for.
    First(Name),
}

/// The reading end of the ring, and the ways back.
pub(crate) struct Early {
    ring: RingBuffer<'static>,
    read: Arc<Mutex<Vec<Arrived>>>,
    until: Shared<u64>,
    xdp: Option<Program>,
    return_fragment: Program,
    lose_fragments: Program,
}

impl Early {
    pub(crate) fn new(
        map: &dyn MapCore,
        until: Shared<u64>,
        xdp: Option<Program>,
        return_fragment: Program,
        lose_fragments: Program,
    ) -> Result<Self, DataplaneError> {
        let doing = "reaching the ring of early fragments";
        let read = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |bytes| {
                to.lock().unwrap_or_else(PoisonError::into_inner).extend(arrived(bytes));
                0
            })
            .map_err(DataplaneError::bpf(doing))?;
        let ring = builder.build().map_err(DataplaneError::bpf(doing))?;
        Ok(Self { ring, read, until, xdp, return_fragment, lose_fragments })
    }

    /// The programs may put frames into the ring until then.
    pub(crate) fn keep_until(&mut self, time: Duration) {
        publish(&mut *self.until, crate::clock::whole_tick(time));
    }

    fn take(&self) -> std::io::Result<Vec<Arrived>> {
        let taken = self.ring.consume_raw();
        if taken < 0 {
            return Err(std::io::Error::from_raw_os_error(-taken));
        }
        Ok(std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Sends a frame in by the interface where it came in before.
    fn send_in(&self, fragment: &Fragment) -> std::io::Result<()> {
        self.bring(&fragment.frame, fragment.ifindex, fragment.is_at_xdp)
    }

    /// Has a frame come in by an interface, as by its driver or behind it.
    pub(crate) fn bring(&self, frame: &[u8], ifindex: u32, is_at_xdp: bool) -> std::io::Result<()> {
        match &self.xdp {
            Some(xdp) if is_at_xdp => xdp.run_live(frame, &contexts::xdp(frame.len(), ifindex)),
            _ => self.return_fragment.run(frame, &contexts::tc(ifindex), &mut [], 1).map(drop),
        }
    }

    /// Counts fragments that are not sent in again.
    fn lose(&self, count: usize) -> std::io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let command = types::table_command { count: count as u32, ..Default::default() };
        self.lose_fragments.command(&command, 1).map(drop)
    }
}

/// Reads what a program put into the ring; its form is ours, so nothing is left out.
fn arrived(bytes: &[u8]) -> Option<Arrived> {
    let head = from_bytes::<types::early_fragment>(bytes)?;
    let mut name = NO_NAME;
    name.copy_from_slice(bytes_of(&head.datagram));
    if head.bytes == 0 {
        return Some(Arrived::First(name));
    }
    let frame = bytes.get(size_of::<types::early_fragment>()..)?.get(..head.bytes.into())?;
    Some(Arrived::Fragment(Fragment {
        at: Duration::from_nanos(head.time),
        name,
        ifindex: head.ifindex,
        is_at_xdp: u32::from(head.hook) == types::hook::HOOK_XDP.0,
        frame: with_tag(frame, head.tag_type, head.tag),
    }))
}

/// A frame with the tag that the kernel had taken out of it; it takes it out again when the frame comes in.
fn with_tag(frame: &[u8], tag_type: u16, tag: u16) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(frame.len().min(ADDRESSES_BYTES));
    let tag = if tag_type == 0 { Vec::new() } else { [tag_type.to_ne_bytes(), tag.to_ne_bytes()].concat() };
    [addresses, &tag, rest].concat()
}
