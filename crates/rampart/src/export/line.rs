//! A way to a collector: a datagram socket, or a connection. Every call ends within a time, whatever the other side does.

use super::To;
use super::tls::TlsLine;
use http_serving::uninterrupted;
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{self, ErrorKind, Read, Write};
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
    Tls(Box<TlsLine>),
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
            To::Tcp(address) => Ok(Self::Tcp(connect(address)?)),
            To::Tls(address, by) => Ok(Self::Tls(Box::new(TlsLine::begin(connect(address)?, *address, by)?))),
            To::Unusable(_, why) => Err(io::Error::other(why.clone())),
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
                look(stream, |mut stream| stream.read(&mut [0; 512])).map_err(Broken::Unsent)?;
                Within::new(stream).write_all(message).map_err(Broken::Cut)
            }
            Line::Tls(line) => {
                line.is_open().map_err(Broken::Unsent)?;
                line.write(message).map_err(Broken::Cut)
            }
        }
    }
}

/// A datagram that is too long is that over the next line, too.
fn unsent(error: io::Error) -> Broken {
    if error.raw_os_error() == Some(libc::EMSGSIZE) { Broken::Cut(error) } else { Broken::Unsent(error) }
}

fn connect(address: &SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, PATIENCE)?;
    setsockopt(&stream, sockopt::TcpUserTimeout, &UNACKNOWLEDGED)?;
    setsockopt(&stream, sockopt::KeepAlive, &true)?;
    setsockopt(&stream, sockopt::SndBuf, &KEPT)?;
    Ok(stream)
}

/// A connection whose reads and writes all have to be done by a time, however few bytes the other end sends or takes at once.
pub(super) struct Within<'s> {
    stream: &'s TcpStream,
    until: Instant,
}

impl<'s> Within<'s> {
    pub(super) fn new(stream: &'s TcpStream) -> Self {
        Self { stream, until: Instant::now() + PATIENCE }
    }

    fn left(&self, late: &'static str) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::new(ErrorKind::TimedOut, late)) } else { Ok(left) }
    }

    fn in_time<T>(done: io::Result<T>, late: &'static str) -> io::Result<T> {
        done.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => io::Error::new(ErrorKind::TimedOut, late),
            _ => error,
        })
    }
}

impl Read for Within<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        const LATE: &str = "it does not answer";
        let done = uninterrupted(|| {
            self.stream.set_read_timeout(Some(self.left(LATE)?))?;
            self.stream.read(bytes)
        });
        Self::in_time(done, LATE)
    }
}

impl Write for Within<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const LATE: &str = "it takes nothing: its program does not read";
        let done = uninterrupted(|| {
            self.stream.set_write_timeout(Some(self.left(LATE)?))?;
            self.stream.write(bytes)
        });
        Self::in_time(done, LATE)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the other end has closed the connection, or reset it: what is written after that is gone without an error at first. What it sends
/// is read, 0 bytes at its end, and means nothing; a connection on which much came is not read to its end.
pub(super) fn look(
    stream: &TcpStream,
    mut read: impl FnMut(&TcpStream) -> io::Result<usize>,
) -> io::Result<()> {
    const READS: usize = 16;
    stream.set_nonblocking(true)?;
    let mut is_open = Ok(());
    for _ in 0..READS {
        match read(stream) {
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
