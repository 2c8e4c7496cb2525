//! What interfaces of a transparent bridge need of the kernel: they hear every frame, and carry frames of the same size.

use crate::plane::PlaneError;
use dataplane::Interface;
use policy::{Bridge, Policy};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// IFF_PROMISC of netdevice(7).
const PROMISCUOUS: u32 = 0x100;

/// The bridge of an interface, and the interface at its other end.
pub(super) fn bridge_of<'b>(bridges: &'b [Bridge], interface: &str) -> Option<(&'b Bridge, &'b str)> {
    bridges.iter().find_map(|bridge| Some((bridge, bridge.other(interface)?)))
}

/// Refuses bridges of interfaces between which frames cannot cross. One that is not there is for others to refuse.
///
/// # Errors
/// The first that cannot be.
pub(super) fn refuse_unfit(policy: &Policy, links: &[Interface]) -> Result<(), PlaneError> {
    for bridge in &policy.bridges {
        let refused = |why: String| Err(PlaneError::Machine(format!("bridge `{}`: {why}", bridge.name)));
        for interface in &bridge.interfaces {
            if links.iter().any(|link| link.name == *interface && (link.is_layer_3() || link.is_loopback())) {
                return refused(format!(
                    "`{interface}` has no Ethernet headers, and a bridge forwards by those"
                ));
            }
        }
        let [first, second] = &bridge.interfaces;
        if let (Some(one), Some(other)) = (mtu(first), mtu(second))
            && one != other
        {
            return refused(format!(
                "`{first}` has an MTU of {one} and `{second}` one of {other}: a bridge cannot fragment, so give both the same \
                 (`ip link set {first} mtu …`)"
            ));
        }
    }
    Ok(())
}

fn attribute(interface: &str, name: &str) -> PathBuf {
    Path::new("/sys/class/net").join(interface).join(name)
}

fn mtu(interface: &str) -> Option<u32> {
    fs::read_to_string(attribute(interface, "mtu")).ok()?.trim().parse().ok()
}

/// Makes an interface hear frames for other machines, or not any more. Returns whether that changed anything.
///
/// # Errors
/// The kernel does not let its flags be read or written.
pub(super) fn hear_all(interface: &str, hears: bool) -> Result<bool, PlaneError> {
    let path = attribute(interface, "flags");
    let failed = |error: io::Error| {
        PlaneError::Machine(format!(
            "cannot make `{interface}` hear frames for other machines: {}: {error}",
            path.display()
        ))
    };
    let text = fs::read_to_string(&path).map_err(failed)?;
    let digits = text.trim().trim_start_matches("0x");
    let flags = u32::from_str_radix(digits, 16).map_err(|error| failed(io::Error::other(error)))?;
    let wanted = if hears { flags | PROMISCUOUS } else { flags & !PROMISCUOUS };
    if wanted != flags {
        fs::write(&path, format!("{wanted:#x}")).map_err(failed)?;
    }
    Ok(wanted != flags)
}
