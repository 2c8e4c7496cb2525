//! One transaction over TLS, with a server that does what a test wants of it.

use super::client::{Arrival, Order, Stop, transact};
use super::content::FileSet;
use measure::application::Protocol;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Linger;
use std::io;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// The server's name.
pub(super) const HOST: &str = "server01";
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// Of a client that waits in vain.
pub(super) const SHORT: Duration = Duration::from_millis(500);

/// What a client makes of a server, which gets the connection and the file.
pub(super) fn one_transaction(
    protocol: Protocol,
    connector: &TlsConnector,
    limit: Duration,
    serve: impl AsyncFnOnce(TcpStream, &[u8]) -> io::Result<()>,
) -> Result<Arrival, Stop> {
    let set = FileSet::nstl(7);
    let file = set.named("/html/20480.html").unwrap().clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.77.20.1:0").await.unwrap();
        let order = Order {
            from: "127.77.20.2".parse().unwrap(),
            to: listener.local_addr().unwrap(),
            host: HOST,
            file: &file,
            protocol,
            limit,
            tls: Some(connector),
            requests: None,
            is_last: true,
        };
        let served = async {
            let (stream, _) = listener.accept().await.unwrap();
            // That the client no longer listens is no fault.
            let _ = serve(stream, &file.bytes).await;
        };
        let (mut connection, mut buffer) = (None, [0; 1000]);
        let fetched = async {
            let result = transact(&mut connection, &order, &mut buffer).await;
            drop(connection.take());
            result
        };
        let (result, ()) = tokio::join!(fetched, served);
        result
    })
}

/// Has a connection reset instead of closed.
pub(super) fn reset_on_close(stream: &TcpStream) {
    setsockopt(stream, Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
}
