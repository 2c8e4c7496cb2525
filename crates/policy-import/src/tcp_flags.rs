//! Flags of TCP in a rule's match. Of TCP only a SYN opens a flow here, so most of what rules ask of flags is about no first packet.

use crate::cube::{Cube, state};
use crate::words;
use policy::service::TCP;

/// All flags, as nftables calls them.
pub(crate) const ALL: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"];

/// Leaves the packets of TCP of whose flags in `mask` those in `set` are on and the others off, or all others. Returns false if first packets may or
/// may not be such: URG, PSH and what ECN uses they may have.
pub(crate) fn narrow(cube: &mut Cube, not: bool, mask: &[&str], set: &[&str]) -> bool {
    // A first packet has SYN, and none of FIN, RST and ACK.
    let contradicts = mask.iter().any(|flag| match *flag {
        "syn" => !set.contains(flag),
        "fin" | "rst" | "ack" => set.contains(flag),
        _ => false,
    }) || set.iter().any(|flag| !mask.contains(flag));
    let known = mask.iter().all(|flag| matches!(*flag, "syn" | "fin" | "rst" | "ack"));
    cube.services = cube.services.common(&words::of_protocol(TCP));
    match (contradicts, known, not) {
        (true, _, false) | (false, true, true) => cube.states &= state::ALL & !state::NEW,
        (false, true, false) if mask.iter().any(|flag| matches!(*flag, "syn" | "ack")) => {
            cube.states &= state::NEW;
            return true;
        }
        (true, _, true) => return true,
        (false, true, false) | (false, false, _) => {}
    }
    false
}
