//! Packet sockets: whole frames from and to user space, for what is not worth a BPF program.

use crate::{Port, TrafficError, namespace};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{RcvBufForce, ReceiveTimeout, SndBufForce};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::addr_of;
use std::time::Duration;

/// Nothing is received.
const NO_PROTOCOL: u16 = 0;
/// Every frame is received.
const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

/// A socket that sends whole frames through `port`, past its queueing discipline, and receives nothing.
///
/// # Errors
/// The interface is gone, or this is not root.
pub(crate) fn sender(port: &Port, buffer_bytes: usize) -> Result<OwnedFd, TrafficError> {
    open(port, NO_PROTOCOL, |socket| {
        setsockopt(socket, SndBufForce, &buffer_bytes)?;
        bypass_queueing(socket)
    })
}

/// A socket that receives every frame that the kernel sees come in at `port`; a read ends empty-handed after `timeout`, unless that is
/// zero.
///
/// # Errors
/// As [`sender`].
pub(crate) fn receiver(port: &Port, buffer_bytes: usize, timeout: Duration) -> Result<OwnedFd, TrafficError> {
    open(port, ALL_PROTOCOLS, |socket| {
        setsockopt(socket, RcvBufForce, &buffer_bytes)?;
        let timeout = TimeVal::microseconds(timeout.as_micros() as i64);
        Ok(setsockopt(socket, ReceiveTimeout, &timeout)?)
    })
}

fn open(
    port: &Port,
    protocol: u16,
    prepare: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> Result<OwnedFd, TrafficError> {
    let opened = namespace::inside(port.namespace.as_deref(), || -> io::Result<OwnedFd> {
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
        prepare(&socket)?;
        bind_to(&socket, port.ifindex, protocol)?;
        Ok(socket)
    })?;
    opened.map_err(TrafficError::system(format!("opening a packet socket on port {}", port.ifindex)))
}

fn bypass_queueing(socket: &OwnedFd) -> io::Result<()> {
    let yes: libc::c_int = 1;
    // SAFETY: the option value is a c_int that lives through the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            addr_of!(yes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

fn bind_to(socket: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all zeros are a valid sockaddr_ll: no protocol, no address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as i32;
    // SAFETY: the address lives through the call, and its size is given.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            addr_of!(address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}
