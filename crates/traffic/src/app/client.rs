//! One transaction: a connection is opened, a file asked for, read and compared byte by byte, and the connection closed. What FTP
//! does in between is in [`super::ftp`].

use super::content::File;
use super::ftp;
use measure::application::{Failure, Protocol};
use nix::errno::Errno;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Duration, Instant, timeout_at};

/// The longest answer head that a client reads; longer ones are no HTTP that a client would put up with.
const LONGEST_HEAD: usize = 16 * 1024;
/// The most fields of a head.
const MOST_FIELDS: usize = 64;

/// What a virtual client is to fetch.
pub(super) struct Order<'a> {
    pub(super) from: IpAddr,
    pub(super) to: SocketAddr,
    /// The server's name.
    pub(super) host: &'a str,
    pub(super) file: &'a File,
    pub(super) protocol: Protocol,
    /// How long the transaction may take.
    pub(super) limit: Duration,
}

/// Why a transaction did not complete.
#[derive(Debug)]
pub(super) enum Stop {
    /// As a client behind a firewall sees it.
    Failed(Failure),
    /// This machine cannot: no more ports, files or memory. It says nothing of the firewall.
    Own(io::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Carries a transaction out; `buffer` is what answers are read into.
pub(super) async fn fetch(order: &Order<'_>, buffer: &mut [u8]) -> Result<(), Stop> {
    let deadline = Instant::now() + order.limit;
    let connecting = timeout_at(deadline, connect(order.from, order.to));
    let mut stream = connecting.await.unwrap_or(Err(Failure::ConnectTimeout.into()))?;
    let exchange = timeout_at(deadline, exchange(order, &mut stream, buffer));
    exchange.await.unwrap_or(Err(Failure::Timeout.into()))
}

/// Opens a connection from an address, from a port that the kernel chooses.
pub(super) async fn connect(from: IpAddr, to: SocketAddr) -> Result<TcpStream, Stop> {
    let socket = match to {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.map_err(Stop::Own)?;
    // The kernel chooses the port when it knows the server, so that one port serves for each server at the same time.
    setsockopt(&socket, IpBindAddressNoPort, &true).map_err(|errno| Stop::Own(errno.into()))?;
    socket.set_nodelay(true).map_err(Stop::Own)?;
    socket.bind(SocketAddr::new(from, 0)).map_err(Stop::Own)?;
    socket.connect(to).await.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Failure::Refused.into(),
        ErrorKind::TimedOut => Failure::ConnectTimeout.into(),
        _ if is_icmp(&error) => Failure::Unreachable.into(),
        _ => Stop::Own(error),
    })
}

/// Whether an ICMP error ended the connection: the kernel gives each of its codes an error number (`icmp_err_convert` and
/// `tab_unreach` of Linux). An ICMPv6 error "administratively prohibited" is `EACCES`.
fn is_icmp(error: &io::Error) -> bool {
    const OF_ICMP: [Errno; 9] = [
        Errno::ENETUNREACH,
        Errno::EHOSTUNREACH,
        Errno::ENETDOWN,
        Errno::EHOSTDOWN,
        Errno::ENONET,
        Errno::ENOPROTOOPT,
        Errno::EOPNOTSUPP,
        Errno::EACCES,
        Errno::EPROTO,
    ];
    error.raw_os_error().is_some_and(|number| OF_ICMP.contains(&Errno::from_raw(number)))
}

/// What an error of an open connection means.
pub(super) fn broken(error: io::Error) -> Stop {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            Failure::Reset.into()
        }
        ErrorKind::TimedOut => Failure::Timeout.into(),
        _ if is_icmp(&error) => Failure::Unreachable.into(),
        _ => Stop::Own(error),
    }
}

async fn exchange(order: &Order<'_>, stream: &mut TcpStream, buffer: &mut [u8]) -> Result<(), Stop> {
    let version = match order.protocol {
        Protocol::Http10 => "1.0",
        Protocol::Http11 => "1.1",
        Protocol::Ftp(how) => return ftp::client::transfer(order, stream, how, buffer).await,
    };
    stream.write_all(request(order, version).as_bytes()).await.map_err(broken)?;
    let mut answer = Answer::new(&order.file.bytes);
    loop {
        match stream.read(buffer).await.map_err(broken)? {
            0 => return Ok(answer.end()?),
            count => answer.take(&buffer[..count])?,
        }
    }
}

fn request(order: &Order<'_>, version: &str) -> String {
    let (path, host) = (&order.file.path, order.host);
    let close = if version == "1.1" { "Connection: close\r\n" } else { "" };
    format!(
        "GET {path} HTTP/{version}\r\nHost: {host}\r\nUser-Agent: rampart-bench\r\nAccept: */*\r\n{close}\r\n"
    )
}

/// An answer as far as it was read, held against what it should hold.
struct Answer<'a> {
    expected: &'a [u8],
    /// What was read of the head; `None` once it was whole.
    head: Option<Vec<u8>>,
    /// Bytes of the file that came and were right.
    compared: usize,
}

impl<'a> Answer<'a> {
    fn new(expected: &'a [u8]) -> Self {
        Self { expected, head: Some(Vec::new()), compared: 0 }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(mut head) = self.head.take() else { return self.compare(bytes) };
        head.extend(bytes);
        match head_length(&head, self.expected.len())? {
            Some(length) => self.compare(&head[length..]),
            None if head.len() > LONGEST_HEAD => Err(Failure::Protocol),
            None => {
                self.head = Some(head);
                Ok(())
            }
        }
    }

    fn compare(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let rest = &self.expected[self.compared..];
        if !rest.starts_with(bytes) {
            return Err(Failure::Content);
        }
        self.compared += bytes.len();
        Ok(())
    }

    /// The other end has closed.
    fn end(&self) -> Result<(), Failure> {
        if self.head.is_none() && self.compared == self.expected.len() { Ok(()) } else { Err(Failure::Short) }
    }
}

/// Bytes of a head that is whole, and right for a file of so many bytes.
fn head_length(head: &[u8], file_bytes: usize) -> Result<Option<usize>, Failure> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(head).map_err(|_| Failure::Protocol)? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    if response.code != Some(200) {
        return Err(Failure::Status);
    }
    let values = |name: &str| {
        let named = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value.trim_ascii().to_vec())
    };
    if values("transfer-encoding").is_some() {
        return Err(Failure::Protocol);
    }
    match values("content-length") {
        Some(stated) if stated != file_bytes.to_string().as_bytes() => Err(Failure::Content),
        _ => Ok(Some(length)),
    }
}
