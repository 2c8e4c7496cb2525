//! The servers: each request is answered with a file and the connection closed. What they count is what the clients' counts are
//! held against.

use super::content::{File, FileSet};
use std::cell::Cell;
use std::io;
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
/// How long a client may take for its request and to take the answer; longer than a client waits.
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections that wait to be accepted: more than there are virtual clients.
const BACKLOG: u32 = 4096;

/// What the servers of a thread did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// Requests that could be read.
    pub(super) requests: u64,
    /// Files written whole.
    pub(super) answers: u64,
    /// Bytes of these files.
    pub(super) bytes: u64,
}

impl Served {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            answers: self.answers + other.answers,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Opens a listener that several threads may have one of.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop` ends; then every connection ends with the thread's runtime.
pub(super) async fn serve(listeners: Vec<TcpListener>, files: Arc<FileSet>, stop: impl Future) -> Served {
    let served = Rc::new(Cell::new(Served::default()));
    for listener in listeners {
        tokio::task::spawn_local(accept(listener, files.clone(), served.clone()));
    }
    stop.await;
    served.get()
}

async fn accept(listener: TcpListener, files: Arc<FileSet>, served: Rc<Cell<Served>>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (files, served) = (files.clone(), served.clone());
                tokio::task::spawn_local(async move {
                    // A client that went away, or a firewall that cut the connection: the client counts it.
                    let _ = timeout(PATIENCE, answer(stream, &files, &served)).await;
                });
            }
            // A connection that ended before it was accepted, or no file descriptor: the next one may come.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, files: &FileSet, served: &Cell<Served>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    served.set(served.get().plus(Served { requests: 1, ..Served::default() }));
    let Some(file) = files.named(&request.path) else {
        let head = format!(
            "HTTP/1.{} 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            request.version
        );
        return stream.write_all(head.as_bytes()).await;
    };
    stream.write_all(&head(file, request.version)).await?;
    stream.write_all(&file.bytes).await?;
    served.set(served.get().plus(Served { answers: 1, bytes: file.bytes.len() as u64, ..Served::default() }));
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
