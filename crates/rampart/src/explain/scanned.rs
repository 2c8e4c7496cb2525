//! What the source of a packet that is explained has to do with scans.

use policy::Policy;
use policy::interpret::Packet;
use policy::model::{Action, SELF};
use policy::service::UDP;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Why flows of a source that scanned do not open.
const SCAN_BLOCKED: &str = "scan-blocked";
/// Clients have ports from this one on: `FIRST_USER_PORT` of `bpf/firewall/scan.h`.
const FIRST_USER_PORT: u16 = 1024;

/// What `[scans]` makes of a packet. Whether its source is blocked the policy does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scanned {
    source: IpAddr,
    is_excepted: bool,
    /// The packet itself is asked in vain. One that is allowed may be so as well, if nobody answers it.
    is_in_vain: bool,
    may_be_blocked: bool,
}

impl Scanned {
    /// `None` if scans have nothing to do with it. `action` is that of the policy.
    pub(super) fn of(policy: &Policy, packet: &Packet, action: Action) -> Option<Self> {
        let scans = policy.scans.as_ref()?;
        if packet.from == SELF || packet.answers_query() {
            return None;
        }
        let is_excepted = scans.except.contains(packet.source);
        Some(Self {
            source: packet.source,
            is_excepted,
            is_in_vain: action != Action::Allow && !is_excepted && is_asking(packet),
            may_be_blocked: scans.block.is_some() && !is_excepted,
        })
    }

    pub(super) fn lines(self) -> Vec<String> {
        let source = self.source;
        let excepted = self
            .is_excepted
            .then(|| format!("{source} is excepted in [scans]: it is neither counted nor blocked"));
        let counted = self.is_in_vain.then(|| format!("it counts as asked in vain by {source} ([scans])"));
        let blocked = self.may_be_blocked.then(|| {
            format!(
                "if {source} is blocked for a scan, it is dropped as {SCAN_BLOCKED} instead: see `rampart blocks`"
            )
        });
        excepted.into_iter().chain(counted).chain(blocked).collect()
    }

    pub(super) fn to_json(self) -> Value {
        json!({
            "source": self.source,
            "is_excepted": self.is_excepted,
            "is_in_vain": self.is_in_vain,
            "may_be_blocked": self.may_be_blocked,
        })
    }
}

/// Whether a packet that is refused counts: `is_asking()` of `bpf/firewall/scan.h`.
fn is_asking(packet: &Packet) -> bool {
    let is_like_an_answer =
        packet.protocol == UDP && packet.source_port < FIRST_USER_PORT && packet.selector >= FIRST_USER_PORT;
    let is_of_many = match packet.source {
        IpAddr::V4(source) => source.is_unspecified(),
        // The first four bytes are 0 in no address that a host has.
        IpAddr::V6(source) => source.is_unicast_link_local() || source.octets()[..4] == [0; 4],
    };
    let is_to_many = match packet.destination {
        IpAddr::V4(destination) => destination.octets()[0] >= 224,
        IpAddr::V6(destination) => destination.is_multicast(),
    };
    packet.opens_flow() && !is_like_an_answer && !is_of_many && !is_to_many
}
