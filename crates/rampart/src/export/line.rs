//! A way to a collector: a datagram socket, or a connection. Every call ends within a time, whatever the other side does.

use super::To;
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// How long a connection may take to come about, and a message to be taken by the kernel.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the kernel holds what nobody acknowledges, in milliseconds, before it gives a connection up.
const UNACKNOWLEDGED: u32 = 30_000;
/// Bytes that the kernel keeps of a connection: what is in there when it breaks is lost, although it was sent.
const KEPT: usize = 64 << 10;

#[derive(Debug)]
pub(super) enum Line {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Unix(UnixDatagram),
}

/// What came of a message that was not sent.
#[derive(Debug)]
pub(super) enum Broken {
    /// Nothing of it has left: another line may take it.
    Unsent(io::Error),
    /// A part of it may have left, and it is lost.
    Cut(io::Error),
}

impl Line {
    pub(super) fn open(to: &To) -> io::Result<Self> {
        match to {
            To::Udp(address) => {
                let own: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(own)?;
                // Otherwise a datagram that is dropped on its way out, as by the firewall's own policy, counts as sent.
                if address.is_ipv4() {
                    setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
                } else {
                    setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
                }
                socket.connect(address)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Ok(Self::Udp(socket))
            }
            To::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                setsockopt(&stream, sockopt::TcpUserTimeout, &UNACKNOWLEDGED)?;
                setsockopt(&stream, sockopt::KeepAlive, &true)?;
                setsockopt(&stream, sockopt::SndBuf, &KEPT)?;
                Ok(Self::Tcp(stream))
            }
            To::Socket(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Ok(Self::Unix(socket))
            }
        }
    }

    pub(super) fn send(&mut self, message: &[u8]) -> Result<(), Broken> {
        match self {
            Line::Udp(socket) => socket.send(message).map(drop).map_err(unsent),
            Line::Unix(socket) => socket.send(message).map(drop).map_err(unsent),
            Line::Tcp(stream) => {
                is_open(stream).map_err(Broken::Unsent)?;
                write_within(stream, message, PATIENCE).map_err(Broken::Cut)
            }
        }
    }
}

/// A datagram that is too long is that over the next line, too.
fn unsent(error: io::Error) -> Broken {
    if error.raw_os_error() == Some(libc::EMSGSIZE) { Broken::Cut(error) } else { Broken::Unsent(error) }
}

/// Writes all of a message within a time, however few bytes the other end takes at once.
fn write_within(mut stream: &TcpStream, message: &[u8], time: Duration) -> io::Result<()> {
    let until = Instant::now() + time;
    let late = || io::Error::new(ErrorKind::TimedOut, "it takes nothing: its program does not read");
    let mut left = message;
    while !left.is_empty() {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(late());
        }
        stream.set_write_timeout(Some(rest))?;
        match stream.write(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => left = &left[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(late()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the other end has closed the connection, or reset it: what is written after that is gone without an error at first. What it sends
/// is read and means nothing; a connection on which much came is not read to its end.
fn is_open(mut stream: &TcpStream) -> io::Result<()> {
    const READS: usize = 16;
    let mut bytes = [0; 512];
    stream.set_nonblocking(true)?;
    let mut is_open = Ok(());
    for _ in 0..READS {
        match stream.read(&mut bytes) {
            Ok(0) => {
                is_open = Err(io::Error::new(ErrorKind::ConnectionAborted, "it has closed the connection"));
                break;
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => {
                is_open = Err(error);
                break;
            }
        }
    }
    stream.set_nonblocking(false)?;
    is_open
}
