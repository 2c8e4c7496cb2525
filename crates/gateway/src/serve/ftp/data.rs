//! Data connections: each as it was agreed about, to or from the other end of a control connection, and no second one.

use super::super::client::{Ends, canonical};
use super::super::relay::{abort, reset_if_killed};
use super::super::{Local, Shared, lock, name_server};
use super::control::Server;
use crate::config::{Ftp, Gateway, Limits, Mode};
use crate::ftp::reply::Reply;
use crate::ftp::{LOWEST_PORT, address};
use crate::http::Fault;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Ports that are tried for one data connection.
const MOST_TRIED: u32 = 64;
/// Connections that may wait to be accepted, which is at once.
const BACKLOG: u32 = 64;

/// Whether a port is among the first to the last.
pub(super) fn is_among((first, last): (u16, u16), port: u16) -> bool {
    (first..=last).contains(&port)
}

/// Some of the ports, in an order that nobody can guess.
fn some_of((first, last): (u16, u16)) -> impl Iterator<Item = u16> {
    let count = u32::from(last - first) + 1;
    let start = u32::from(name_server::number());
    (0..count.min(MOST_TRIED)).map(move |step| first + ((start + step) % count) as u16)
}

/// Listens for one data connection.
fn listen(at: IpAddr, ports: (u16, u16)) -> Option<(TcpListener, u16)> {
    some_of(ports).find_map(|port| {
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.ok()?;
        // A port whose last connection waits for its end may be used again; if another listens there, listening fails.
        socket.set_reuseaddr(true).ok()?;
        socket.bind(SocketAddr::new(at, port)).ok()?;
        Some((socket.listen(BACKLOG).ok()?, port))
    })
}

/// The reply to `PASV` or `EPSV`.
pub(super) fn passive_reply(at: SocketAddr, extended: bool) -> Reply {
    match at.ip() {
        IpAddr::V4(v4) if !extended => {
            Reply::new(227, &format!("Entering Passive Mode ({})", address::six_numbers(v4, at.port())))
        }
        _ => Reply::new(229, &format!("Entering Extended Passive Mode (|||{}|)", at.port())),
    }
}

/// The client, and where it is to connect to.
type Key = (IpAddr, SocketAddr);

/// Data connections that transparent clients are to open. They come to the same socket as control connections, and to any thread.
#[derive(Debug, Default)]
pub(in crate::serve) struct Expected(Mutex<HashMap<Key, oneshot::Sender<std::net::TcpStream>>>);

impl Expected {
    /// Gives a connection to whoever expects it.
    pub(super) fn deliver(&self, ends: Ends, stream: TcpStream) -> Result<(), TcpStream> {
        let Some(waiting) = lock(&self.0).remove(&(ends.client.ip(), ends.at)) else { return Err(stream) };
        if let Ok(stream) = stream.into_std() {
            let _ = waiting.send(stream);
        }
        Ok(())
    }
}

/// A data connection that is expected as long as this is there.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    key: Key,
    comes: oneshot::Receiver<std::net::TcpStream>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // What has come has taken its place away, and another may have it by now.
        self.comes.close();
        let mut expected = lock(&self.shared.expected.0);
        if expected.get(&self.key).is_some_and(oneshot::Sender::is_closed) {
            expected.remove(&self.key);
        }
    }
}

/// A data connection that one peer is to open to a socket. The socket is listened to from the beginning on: strangers who connect before the peer does
/// would fill its queue, and peers mostly connect before they, or the server, say anything more.
pub(super) struct Awaited {
    comes: oneshot::Receiver<io::Result<TcpStream>>,
    task: JoinHandle<()>,
}

impl Awaited {
    fn new(listener: TcpListener, peer: IpAddr, other: impl Fn() + 'static) -> Self {
        let (sender, comes) = oneshot::channel();
        let task = tokio::task::spawn_local(async move {
            // Nobody may wait any more.
            let _ = sender.send(accept(listener, peer, other).await);
        });
        Self { comes, task }
    }

    /// The connection, once it is there.
    async fn open(mut self) -> io::Result<TcpStream> {
        (&mut self.comes).await.map_err(|_| io::ErrorKind::NotConnected)?
    }

    /// Nobody can connect any more when this has ended.
    async fn close(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where the client's data connection comes from or goes to.
pub(super) enum Way {
    /// It connects to a socket.
    Listening(Awaited),
    /// It connects to the server, as it believes.
    Expected(Waiting),
    /// The gateway connects.
    Call(SocketAddr),
}

impl Way {
    /// Waits for the client, at the address that it knows; the port.
    pub(super) fn wait(
        local: &Local,
        gateway: &Gateway,
        settings: Ftp,
        ends: Ends,
        other: impl Fn() + 'static,
    ) -> Option<(Self, u16)> {
        if gateway.mode != Mode::Transparent {
            let (listener, port) = listen(ends.at.ip(), settings.data_ports)?;
            return Some((Self::Listening(Awaited::new(listener, ends.client.ip(), other)), port));
        }
        let shared = Arc::clone(&local.shared);
        let mut expected = lock(&local.shared.expected.0);
        some_of(settings.data_ports).find_map(|port| {
            let key = (ends.client.ip(), SocketAddr::new(ends.at.ip(), port));
            if expected.contains_key(&key) {
                return None;
            }
            let (sender, comes) = oneshot::channel();
            expected.insert(key, sender);
            Some((Self::Expected(Waiting { shared: Arc::clone(&shared), key, comes }), port))
        })
    }

    /// Nobody can connect any more when this has ended.
    pub(super) async fn close(self) {
        if let Self::Listening(awaited) = self {
            awaited.close().await;
        }
    }

    /// The client's data connection.
    pub(super) async fn open(self, limits: &Limits) -> Result<TcpStream, Fault> {
        let opened = async {
            match self {
                Self::Listening(awaited) => awaited.open().await,
                Self::Expected(mut waiting) => {
                    let came = (&mut waiting.comes).await.map_err(|_| io::ErrorKind::NotConnected)?;
                    TcpStream::from_std(came)
                }
                Self::Call(at) => TcpStream::connect(at).await,
            }
        };
        within(limits, opened, ["client-data", "client-data-time"]).await
    }
}

/// The connection of one peer, which is reset if nobody comes to want it: else it would look like a file of nothing. Others are shut out, and recorded.
async fn accept(listener: TcpListener, peer: IpAddr, other: impl Fn()) -> io::Result<TcpStream> {
    loop {
        let (stream, from) = listener.accept().await?;
        if canonical(from).ip() == peer {
            reset_if_killed(&stream, true);
            return Ok(stream);
        }
        abort(stream);
        other();
    }
}

async fn within(
    limits: &Limits,
    opened: impl Future<Output = io::Result<TcpStream>>,
    [failed, late]: [&'static str; 2],
) -> Result<TcpStream, Fault> {
    match timeout(limits.connect_time, opened).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(_)) => Err(Fault::with_status(425, failed)),
        Err(_) => Err(Fault::with_status(425, late)),
    }
}

/// The way to a server's data, before the command that needs it.
pub(super) enum ToServer {
    /// Connected.
    Open(TcpStream),
    /// It will connect.
    Awaited(Awaited),
}

/// Why there is no way.
pub(super) enum NoWay {
    /// The server says why.
    Said(Reply),
    /// It could not be connected to.
    Failed(Fault),
    /// It can be used no more.
    Lost(Fault),
}

impl ToServer {
    /// Agrees with a server about a data connection, and connects if it is for the gateway to do that.
    pub(super) async fn agree(
        server: &mut Server,
        settings: Ftp,
        limits: &Limits,
        other: impl Fn() + 'static,
    ) -> Result<Self, NoWay> {
        if settings.is_active {
            return Self::await_server(server, settings, limits, other).await;
        }
        let port = passive_port(server, limits).await?;
        if port < LOWEST_PORT {
            return Err(NoWay::Failed(Fault::with_status(425, "server-low-port")));
        }
        // Whatever address it has said: who could name others would use the gateway to reach them.
        let at = SocketAddr::new(server.address.ip(), port);
        let opened = within(limits, TcpStream::connect(at), ["server-data", "server-data-time"]).await;
        opened.map(Self::Open).map_err(NoWay::Failed)
    }

    async fn await_server(
        server: &mut Server,
        settings: Ftp,
        limits: &Limits,
        other: impl Fn() + 'static,
    ) -> Result<Self, NoWay> {
        let no_port = || NoWay::Failed(Fault::with_status(425, "no-data-port"));
        let own = server.stream.local_addr().map_err(|_| no_port())?.ip();
        let (listener, port) = listen(own, settings.data_ports).ok_or_else(no_port)?;
        let line = match own {
            IpAddr::V4(v4) => format!("PORT {}\r\n", address::six_numbers(v4, port)),
            IpAddr::V6(_) => format!("EPRT {}\r\n", address::extended(SocketAddr::new(own, port))),
        };
        let awaited = Awaited::new(listener, server.address.ip(), other);
        let reply = server.ask(line.as_bytes(), limits).await.map_err(NoWay::Lost)?;
        if reply.is_success() { Ok(Self::Awaited(awaited)) } else { Err(refused(reply)) }
    }

    /// The data connection, once the server has begun.
    pub(super) async fn open(self, limits: &Limits) -> Result<TcpStream, Fault> {
        match self {
            Self::Open(stream) => Ok(stream),
            Self::Awaited(awaited) => {
                within(limits, awaited.open(), ["server-data", "server-data-time"]).await
            }
        }
    }
}

/// What a server says instead of a way; what is no failure makes no sense here.
pub(super) fn refused(reply: Reply) -> NoWay {
    if reply.code >= 400 { NoWay::Said(reply) } else { NoWay::Lost(Fault::with_status(421, "server-reply")) }
}

/// The port at which a server waits.
async fn passive_port(server: &mut Server, limits: &Limits) -> Result<u16, NoWay> {
    let malformed = || NoWay::Lost(Fault::with_status(421, "server-reply"));
    if !server.is_plain {
        let reply = server.ask(b"EPSV\r\n", limits).await.map_err(NoWay::Lost)?;
        if reply.code == 229 {
            return address::of_extended_passive(&reply.lines[0]).ok_or_else(malformed);
        }
        // Servers older than the extended form, which IPv6 cannot do without.
        if !matches!(reply.code, 500..=502 | 504 | 522) || server.address.is_ipv6() {
            return Err(refused(reply));
        }
        server.is_plain = true;
    }
    let reply = server.ask(b"PASV\r\n", limits).await.map_err(NoWay::Lost)?;
    if reply.code != 227 {
        return Err(refused(reply));
    }
    address::of_passive(&reply.lines[0]).ok_or_else(malformed)
}
