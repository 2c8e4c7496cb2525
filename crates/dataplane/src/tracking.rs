//! The kernel's connection tracking, which is a module on most machines. The program at netfilter reads its records (`bpf/firewall/tracked.h`), and
//! how they are laid out the kernel says only when the module is there. So it is asked to load it before the program is loaded, as it
//! does by itself when the first rule needs it. That alone tracks nothing.

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use std::io;

/// A question that nfnetlink hands to connection tracking, which the kernel loads for it: `NFNL_SUBSYS_CTNETLINK` and
/// `IPCTNL_MSG_CT_GET_STATS` of `linux/netfilter/nfnetlink_conntrack.h`.
const STATISTICS: u16 = 1 << 8 | 5;

/// Has the kernel load connection tracking, if it is not there.
///
/// # Errors
/// What the kernel refuses: it may have no connection tracking, or no modules.
pub(crate) fn load_module() -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // The kernel answers before this comes back.
    socket.send(&question(), 0)?;
    socket.set_non_blocking(true)?;
    let (answer, _) = socket.recv_from_full()?;
    match answer.get(16..20).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes) {
        Some(code) if is_error(&answer) && code != 0 => Err(io::Error::from_raw_os_error(-code)),
        _ => Ok(()),
    }
}

/// `NLMSG_ERROR`, which is also how a question is acknowledged.
fn is_error(message: &[u8]) -> bool {
    message.get(4..6) == Some(&2u16.to_ne_bytes())
}

/// `struct nlmsghdr`, and a `struct nfgenmsg` of no family.
fn question() -> Vec<u8> {
    const LENGTH: u32 = 20;
    let mut message = LENGTH.to_ne_bytes().to_vec();
    message.extend(STATISTICS.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    message.resize(LENGTH as usize, 0);
    message
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn needs_root_the_kernel_has_connection_tracking_and_says_so() {
        load_module().unwrap();
    }
}
