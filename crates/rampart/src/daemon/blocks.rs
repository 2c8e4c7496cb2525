//! Sources that are blocked because they scanned: which they are, and ending that. Decides nothing about who scans.

use super::log::Kind;
use super::{Daemon, Refused, each, known};
use crate::api::{Actor, Block, Blocks, Unblocked};
use crate::daemon::running::Running;
use crate::plane::{BlockKey, PlaneError};
use jiff::Timestamp;
use policy::Policy;
use std::net::{IpAddr, Ipv6Addr};

/// Which blocks are to end; all parts must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WhichBlocks {
    /// An address that is blocked.
    pub(crate) source: Option<IpAddr>,
    /// The name of the zone that it came from.
    pub(crate) zone: Option<String>,
}

impl WhichBlocks {
    fn has(&self, block: &Block) -> bool {
        let is_its = |source: IpAddr| network(source) == block.source;
        self.source.is_none_or(is_its) && self.zone.as_ref().is_none_or(|zone| *zone == block.zone)
    }
}

/// What is blocked of an address: itself, or of IPv6 the network of 64 bits.
fn network(source: IpAddr) -> IpAddr {
    match source {
        IpAddr::V4(_) => source,
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
    }
}

/// Those that the policy in force still blocks: it may have no `block` any more, or except some of them.
pub(super) fn in_force(running: &mut Running) -> Result<Vec<(BlockKey, Block)>, PlaneError> {
    let Some(scans) = running.policy.scans.clone().filter(|scans| scans.block.is_some()) else {
        return Ok(Vec::new());
    };
    let mut blocked = running.attachments.plane.blocked()?;
    // Of an IPv6 network that is excepted in part, the others are blocked.
    blocked.retain(|(_, block)| block.source.is_ipv6() || !scans.except.contains(block.source));
    Ok(blocked)
}

impl Daemon {
    /// Sources that are blocked, those that are longest first.
    pub(crate) fn blocks(&self) -> Result<Blocks, Refused> {
        self.with(|running| {
            Ok(Blocks { blocks: in_force(running)?.into_iter().map(|(_, block)| block).collect() })
        })
    }

    /// Ends blocks; what was counted for their sources is forgotten.
    pub(crate) fn end_blocks(
        &self,
        which: &WhichBlocks,
        asked: &str,
        at: Timestamp,
        by: &Actor,
    ) -> Result<Unblocked, Refused> {
        let known =
            |policy: &Policy| which.zone.iter().try_for_each(|zone| known::zone_is_known(zone, policy));
        self.with(|running| Ok(known(&running.policy)))??;
        let done = self.with(|running| {
            let blocked = in_force(running)?;
            let keys = blocked.iter().filter(|(_, block)| which.has(block)).map(|(key, _)| *key);
            Ok(each(keys, |key| running.attachments.plane.unblock(key)))
        })?;
        let ended = self.report_ended(at, Kind::Unblocked, by, "blocks", asked, done)?;
        Ok(Unblocked { ended })
    }
}
