//! One transaction: a file is asked for, read and compared byte by byte, over a connection that is opened for it or that an earlier one
//! left open. What FTP does in between is in [`super::ftp`], how HTTP/2 asks in
//! [`super::http2`], what errors of TLS mean in [`super::tls`].

use super::content::File;
use super::seal::{Asked, REQUEST, Requests, SEAL};
use super::{ftp, http2, tls};
use measure::application::{Failure, Protocol};
use nix::errno::Errno;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Duration, Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The longest answer head that a client reads; longer ones are no HTTP that a client would put up with.
pub(super) const LONGEST_HEAD: usize = 16 * 1024;
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
    /// The authority that is trusted; of HTTPS and HTTP/2 alone.
    pub(super) tls: Option<&'a TlsConnector>,
    /// Who numbers the requests, where answers are to be sealed: of HTTP without TLS.
    pub(super) requests: Option<&'a Requests>,
    /// Whether the connection ends with the transaction.
    pub(super) is_last: bool,
}

/// When the answer came; of FTP nobody looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Its first byte, that of its head.
    pub(super) first: Option<Instant>,
    /// Its last byte.
    pub(super) last: Option<Instant>,
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

/// A connection on which transactions follow one another.
pub(super) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Http2(Box<http2::client::Conversation>),
}

/// Carries a transaction out over the connection, which is opened where there is none; `buffer` is what answers are read into.
pub(super) async fn transact(
    connection: &mut Option<Connection>,
    order: &Order<'_>,
    buffer: &mut [u8],
) -> Result<Arrival, Stop> {
    let deadline = Instant::now() + order.limit;
    let open = match connection {
        Some(open) => open,
        None => connection.insert(open(order, deadline).await?),
    };
    timeout_at(deadline, exchange(order, open, buffer)).await.unwrap_or(Err(Failure::Timeout.into()))
}

async fn open(order: &Order<'_>, deadline: Instant) -> Result<Connection, Stop> {
    let connecting = timeout_at(deadline, connect(order.from, order.to));
    let stream = connecting.await.unwrap_or(Err(Failure::ConnectTimeout.into()))?;
    let Some(connector) = order.tls else { return Ok(Connection::Plain(stream)) };
    let name = ServerName::try_from(order.host.to_owned()).map_err(|bad| Stop::Own(io::Error::other(bad)))?;
    let shaking = timeout_at(deadline, connector.connect(name, stream)).await;
    let stream = shaking.map_err(|_| Failure::HandshakeTimeout)?.map_err(not_greeted)?;
    if order.protocol == Protocol::Http2 {
        return Ok(Connection::Http2(Box::new(http2::client::Conversation::begin(stream).await?)));
    }
    Ok(Connection::Tls(Box::new(stream)))
}

/// What an error of a handshake means.
fn not_greeted(error: io::Error) -> Stop {
    match (tls::handshake_failure(&error), error.kind()) {
        (Some(failure), _) => failure.into(),
        (None, ErrorKind::UnexpectedEof) => Failure::Handshake.into(),
        _ => match broken(error) {
            Stop::Failed(Failure::Reset) => Failure::HandshakeReset.into(),
            Stop::Failed(Failure::Timeout) => Failure::HandshakeTimeout.into(),
            other => other,
        },
    }
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
    if let Some(failure) = tls::failure(&error) {
        return failure.into();
    }
    match error.kind() {
        // TLS that ended without a close_notify.
        ErrorKind::UnexpectedEof => Failure::Short.into(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            Failure::Reset.into()
        }
        ErrorKind::TimedOut => Failure::Timeout.into(),
        _ if is_icmp(&error) => Failure::Unreachable.into(),
        _ => Stop::Own(error),
    }
}

async fn exchange(
    order: &Order<'_>,
    connection: &mut Connection,
    buffer: &mut [u8],
) -> Result<Arrival, Stop> {
    match (connection, order.protocol) {
        (Connection::Plain(stream), Protocol::Ftp(how)) => {
            ftp::client::transfer(order, stream, how, buffer).await.map(|()| Arrival::default())
        }
        (Connection::Plain(stream), _) => get(order, stream, buffer).await,
        (Connection::Tls(stream), _) => get(order, stream, buffer).await,
        (Connection::Http2(conversation), _) => conversation.get(order).await,
    }
}

/// Asks for the file by HTTP and reads the answer: to the end of the connection if this is its last one, else to the file's end.
async fn get<S: AsyncRead + AsyncWrite + Unpin>(
    order: &Order<'_>,
    stream: &mut S,
    buffer: &mut [u8],
) -> Result<Arrival, Stop> {
    let asked = order.requests.map(|requests| requests.ask(&order.file.path));
    stream.write_all(request(order, asked.as_ref()).as_bytes()).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut answer = Answer::new(Expected {
        file: &order.file.bytes,
        seal: asked.as_ref().map(|asked| asked.seal.as_str()),
        is_last: order.is_last,
    });
    let mut arrival = Arrival::default();
    loop {
        let count = stream.read(buffer).await.map_err(broken)?;
        let now = Instant::now();
        if count == 0 {
            answer.end()?;
            return Ok(arrival);
        }
        arrival.first.get_or_insert(now);
        answer.take(&buffer[..count])?;
        if answer.is_whole() {
            arrival.last.get_or_insert(now);
            if !order.is_last {
                return Ok(arrival);
            }
        }
    }
}

fn request(order: &Order<'_>, asked: Option<&Asked>) -> String {
    let (path, host) = (&order.file.path, order.host);
    let version = if order.protocol == Protocol::Http10 { "1.0" } else { "1.1" };
    let close = if version == "1.1" && order.is_last { "Connection: close\r\n" } else { "" };
    let number = asked.map(|asked| format!("{REQUEST}: {}\r\n", asked.number)).unwrap_or_default();
    format!(
        "GET {path} HTTP/{version}\r\nHost: {host}\r\nUser-Agent: rampart-bench\r\nAccept: */*\r\n{number}{close}\r\n"
    )
}

/// What an answer must be.
#[derive(Clone, Copy)]
struct Expected<'a> {
    file: &'a [u8],
    /// The server's, where one was asked for.
    seal: Option<&'a str>,
    /// Whether the end of the connection says where the answer ends, so that its length need not be stated.
    is_last: bool,
}

/// An answer as far as it was read, held against what it should hold.
struct Answer<'a> {
    expected: Expected<'a>,
    /// What was read of the head; `None` once it was whole.
    head: Option<Vec<u8>>,
    /// Bytes of the file that came and were right.
    compared: usize,
}

impl<'a> Answer<'a> {
    fn new(expected: Expected<'a>) -> Self {
        Self { expected, head: Some(Vec::new()), compared: 0 }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(mut head) = self.head.take() else { return self.compare(bytes) };
        head.extend(bytes);
        match head_length(&head, self.expected)? {
            Some(length) => self.compare(&head[length..]),
            None if head.len() > LONGEST_HEAD => Err(Failure::Protocol),
            None => {
                self.head = Some(head);
                Ok(())
            }
        }
    }

    fn compare(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let rest = &self.expected.file[self.compared..];
        if !rest.starts_with(bytes) {
            return Err(Failure::Content);
        }
        self.compared += bytes.len();
        Ok(())
    }

    /// The other end has closed.
    fn end(&self) -> Result<(), Failure> {
        if self.is_whole() { Ok(()) } else { Err(Failure::Short) }
    }

    fn is_whole(&self) -> bool {
        self.head.is_none() && self.compared == self.expected.file.len()
    }
}

/// Bytes of a head that is whole and right. Before the last answer of a connection it states the length.
fn head_length(head: &[u8], expected: Expected<'_>) -> Result<Option<usize>, Failure> {
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
        Some(stated) if stated != expected.file.len().to_string().as_bytes() => Err(Failure::Content),
        None if !expected.is_last => Err(Failure::Protocol),
        _ if expected.seal.is_some_and(|seal| values(SEAL).is_none_or(|said| said != seal.as_bytes())) => {
            Err(Failure::Seal)
        }
        _ => Ok(Some(length)),
    }
}
