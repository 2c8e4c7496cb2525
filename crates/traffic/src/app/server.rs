//! The servers: each request is answered with a file, and the connection closed where the client asks for it; of HTTP and HTTPS here, of
//! FTP in [`super::ftp`] and of HTTP/2 in [`super::http2`]. What they count is what the clients' counts are held against.

use super::content::{File, FileSet};
use super::seal::{REQUEST, SEAL, Secret};
use super::{ftp, http2};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Duration, timeout};
use tokio_rustls::TlsAcceptor;

/// The longest request that a server reads.
pub(super) const LONGEST_REQUEST: usize = 8 * 1024;
/// The most fields of a request.
const MOST_FIELDS: usize = 32;
/// Connections that wait to be accepted: more than there are virtual clients.
const BACKLOG: u32 = 4096;
/// After a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(1);

/// What the servers of a thread did.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// Requests that could be read.
    pub(super) requests: u64,
    /// Files written whole.
    pub(super) answers: u64,
    /// Bytes of these files.
    pub(super) bytes: u64,
    /// Connections accepted.
    pub(super) accepted: u64,
    /// What kept this machine from accepting a connection.
    pub(super) fault: Option<io::Error>,
}

/// Connections that all servers of a run have open together.
#[derive(Debug, Default)]
pub(super) struct OpenCount {
    now: AtomicU64,
    most: AtomicU64,
}

impl OpenCount {
    /// The most that were open at once.
    pub(super) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// One more, until what is returned goes.
    fn enter(self: &Arc<Self>) -> OpenNow {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        OpenNow(self.clone())
    }
}

/// An open connection.
struct OpenNow(Arc<OpenCount>);

impl Drop for OpenNow {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Served {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            answers: self.answers + other.answers,
            bytes: self.bytes + other.bytes,
            accepted: self.accepted + other.accepted,
            fault: self.fault.or(other.fault),
        }
    }
}

/// What servers have.
pub(super) struct Kept {
    pub(super) files: Arc<FileSet>,
    /// With which answers are sealed.
    pub(super) secret: Secret,
    /// How long a connection may last: a client that a firewall has cut off from its server would otherwise leave one for each of its
    /// transactions.
    pub(super) longest: Duration,
    /// Where all threads count the connections that are open.
    pub(super) open: Arc<OpenCount>,
}

/// What all connections of a thread share.
pub(super) struct World {
    pub(super) kept: Kept,
    pub(super) served: RefCell<Served>,
}

impl World {
    /// A file of so many bytes that was sent or taken whole.
    pub(super) fn count(&self, bytes: usize) {
        let mut served = self.served.borrow_mut();
        served.answers += 1;
        served.bytes += bytes as u64;
    }

    /// Something that this machine cannot do.
    pub(super) fn fault(&self, error: io::Error) {
        self.served.borrow_mut().fault.get_or_insert(error);
    }
}

/// What a listener's connections speak.
#[derive(Clone)]
pub(super) enum Service {
    Http,
    Https(TlsAcceptor),
    Http2(TlsAcceptor),
    /// HTTP/2 where the handshake agreed upon it, and HTTP/1.1 where the client asked for nothing.
    Either(TlsAcceptor),
    Ftp,
}

/// Opens a listener that several threads may have one of.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop` ends; then every connection ends with the thread's runtime. A connection ends after `longest` of `kept` in any case.
pub(super) async fn serve(listeners: Vec<(TcpListener, Service)>, kept: Kept, stop: impl Future) -> Served {
    let world = Rc::new(World { kept, served: RefCell::default() });
    for (listener, service) in listeners {
        tokio::task::spawn_local(accept(listener, service, world.clone()));
    }
    stop.await;
    world.served.take()
}

async fn accept(listener: TcpListener, service: Service, world: Rc<World>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (world, service) = (world.clone(), service.clone());
                world.served.borrow_mut().accepted += 1;
                let now = world.kept.open.enter();
                tokio::task::spawn_local(async move {
                    // A client that went away, or a firewall that cut the connection: the client counts it.
                    let _ = timeout(world.kept.longest, converse(stream, service, &world)).await;
                    drop(now);
                });
            }
            // The other end has closed the connection before it was accepted.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => (),
            // No file descriptor or no memory. Connections end meanwhile, and the next one may be accepted.
            Err(error) => {
                world.fault(error);
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, service: Service, world: &World) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match service {
        Service::Http => answer(stream, world).await,
        Service::Https(acceptor) => answer(acceptor.accept(stream).await?, world).await,
        Service::Http2(acceptor) => http2::server::converse(acceptor.accept(stream).await?, world).await,
        Service::Either(acceptor) => {
            let stream = acceptor.accept(stream).await?;
            match stream.get_ref().1.alpn_protocol() {
                Some(http2::ALPN) => http2::server::converse(stream, world).await,
                _ => answer(stream, world).await,
            }
        }
        Service::Ftp => ftp::server::session(stream, world).await,
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, world: &World) -> io::Result<()> {
    let mut text = Vec::with_capacity(512);
    while let Some(request) = read_request(&mut stream, &mut text).await? {
        world.served.borrow_mut().requests += 1;
        let Some(file) = world.kept.files.named(&request.path) else {
            let head = format!(
                "HTTP/1.{} 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                request.version
            );
            stream.write_all(head.as_bytes()).await?;
            return stream.shutdown().await;
        };
        let seal = request.number.as_ref().map(|number| world.kept.secret.seal(number, &request.path));
        stream.write_all(&head(file, &request, seal)).await?;
        stream.write_all(&file.bytes).await?;
        stream.flush().await?;
        // The last byte was handed to the kernel without a pause before this count, and the thread ends behind it: a client never counts
        // an answer that the server does not.
        world.count(file.bytes.len());
        if request.closes {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

fn head(file: &File, request: &Request, seal: Option<String>) -> Vec<u8> {
    let seal = seal.map(|seal| format!("{SEAL}: {seal}\r\n")).unwrap_or_default();
    format!(
        "HTTP/1.{} 200 OK\r\nServer: rampart-bench\r\nContent-Type: {}\r\nContent-Length: {}\r\n{seal}{}\r\n",
        request.version,
        file.kind.mime(),
        file.bytes.len(),
        if request.closes { "Connection: close\r\n" } else { "" }
    )
    .into_bytes()
}

struct Request {
    path: String,
    /// The minor version: 0 or 1.
    version: u8,
    /// Its number, where it asks for a seal.
    number: Option<Vec<u8>>,
    /// Whether the connection ends with the answer.
    closes: bool,
}

/// The next request, or none where what came is no GET. `text` keeps what came behind it.
async fn read_request<S: AsyncRead + Unpin>(
    stream: &mut S,
    text: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(text) {
            Ok(httparse::Status::Partial) => (),
            Ok(httparse::Status::Complete(length)) if request.method == Some("GET") => {
                let read = Request {
                    path: request.path.unwrap_or_default().to_owned(),
                    version: request.version.unwrap_or(0),
                    number: field(request.headers, REQUEST).map(<[u8]>::to_vec),
                    closes: request.version != Some(1) || asks_to_close(request.headers),
                };
                text.drain(..length);
                return Ok(Some(read));
            }
            _ => return Ok(None),
        }
        if stream.read_buf(text).await? == 0 || text.len() > LONGEST_REQUEST {
            return Ok(None);
        }
    }
}

fn field<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

fn asks_to_close(fields: &[httparse::Header<'_>]) -> bool {
    field(fields, "connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_have_ended_are_open_no_more() {
        let open: Arc<OpenCount> = Arc::default();
        let first = open.enter();
        drop(first);
        let both = [open.enter(), open.enter()];
        drop(both);
        drop(open.enter());
        assert_eq!((open.most(), open.now.load(Ordering::Relaxed)), (2, 0));
    }
}
