//! The servers: each request is answered with a file and the connection closed, of HTTP here and of FTP in [`super::ftp`]. What
//! they count is what the clients' counts are held against.

use super::content::{File, FileSet};
use super::ftp;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Duration, timeout};

/// The longest request that a server reads.
const LONGEST_REQUEST: usize = 8 * 1024;
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
    /// What kept this machine from accepting a connection.
    pub(super) fault: Option<io::Error>,
}

impl Served {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            answers: self.answers + other.answers,
            bytes: self.bytes + other.bytes,
            fault: self.fault.or(other.fault),
        }
    }
}

/// What all connections of a thread share.
pub(super) struct World {
    pub(super) files: Arc<FileSet>,
    /// How long a connection may last: a client that a firewall has cut off from its server would otherwise leave one for each of its
    /// transactions.
    longest: Duration,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Http,
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

/// Serves until `stop` ends; then every connection ends with the thread's runtime. A connection ends after `longest` in any case.
pub(super) async fn serve(
    listeners: Vec<(TcpListener, Service)>,
    files: Arc<FileSet>,
    longest: Duration,
    stop: impl Future,
) -> Served {
    let world = Rc::new(World { files, longest, served: RefCell::default() });
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
                let world = world.clone();
                tokio::task::spawn_local(async move {
                    // A client that went away, or a firewall that cut the connection: the client counts it.
                    let serving = async {
                        match service {
                            Service::Http => answer(stream, &world).await,
                            Service::Ftp => ftp::server::session(stream, &world).await,
                        }
                    };
                    let _ = timeout(world.longest, serving).await;
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

async fn answer(mut stream: TcpStream, world: &World) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    world.served.borrow_mut().requests += 1;
    let Some(file) = world.files.named(&request.path) else {
        let head = format!(
            "HTTP/1.{} 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            request.version
        );
        return stream.write_all(head.as_bytes()).await;
    };
    stream.write_all(&head(file, request.version)).await?;
    stream.write_all(&file.bytes).await?;
    // The client has its end after this count, so that it never counts an answer before the server does.
    world.count(file.bytes.len());
    stream.shutdown().await
}

fn head(file: &File, version: u8) -> Vec<u8> {
    format!(
        "HTTP/1.{version} 200 OK\r\nServer: rampart-bench\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        file.kind.mime(),
        file.bytes.len()
    )
    .into_bytes()
}

struct Request {
    path: String,
    /// The minor version: 0 or 1.
    version: u8,
}

/// The request, or none where what came is no GET.
async fn read_request(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let mut text = Vec::with_capacity(512);
    loop {
        if stream.read_buf(&mut text).await? == 0 || text.len() > LONGEST_REQUEST {
            return Ok(None);
        }
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&text) {
            Ok(httparse::Status::Partial) => (),
            Ok(httparse::Status::Complete(_)) if request.method == Some("GET") => {
                let (path, version) =
                    (request.path.unwrap_or_default().to_owned(), request.version.unwrap_or(0));
                return Ok(Some(Request { path, version }));
            }
            _ => return Ok(None),
        }
    }
}
