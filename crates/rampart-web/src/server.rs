//! Connections: bounded in number, in all and by address, and in time, however slowly a client sends or takes. A thread each, and one
//! request. [`App`] answers.

use crate::app::{App, Moment};
use crate::http::{self, Answer, Wrong};
use http_serving::{Deadline, Timed, accept, close};
use passwords::throttle::network;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bounds of connections.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at once.
    pub connections: usize,
    /// Of them, connections of one address, or of one /64 of IPv6.
    pub of_an_address: usize,
    /// Time for a client to shake hands and send its request's head.
    pub head: Duration,
    /// Time for a client to send a form, and then to take the answer.
    pub body: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connections: 64, of_an_address: 24, head: seconds(10), body: seconds(30) }
    }
}

/// How often is looked whether to stop, in milliseconds.
const LOOK: u16 = 200;

/// A server that has its port.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
    tls: Option<Arc<ServerConfig>>,
    bounds: Bounds,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Server {
    /// Serves at a port. With `tls` HTTPS is spoken, and nothing else.
    ///
    /// # Errors
    /// The kernel refuses what is asked of the port.
    pub fn new(
        listener: TcpListener,
        app: Arc<App>,
        tls: Option<Arc<ServerConfig>>,
        bounds: Bounds,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, app, tls, bounds, open: Arc::default() })
    }

    /// The address that it has.
    ///
    /// # Errors
    /// None of an open port.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` says so.
    pub fn run(&self, stop: impl Fn() -> bool) {
        accept(&self.listener, LOOK, stop, |stream, peer| self.take(stream, peer.ip().to_canonical()));
    }

    /// Answers on a thread of its own, or closes the connection when there are too many.
    fn take(&self, stream: TcpStream, peer: IpAddr) {
        let Some(place) = Place::take(&self.open, peer, self.bounds) else { return };
        let (app, tls, bounds) = (Arc::clone(&self.app), self.tls.clone(), self.bounds);
        // When no thread can be made, the closure is dropped, and the place with it.
        let _ = std::thread::Builder::new().spawn(move || {
            let _place = place;
            let _ = connection(&app, stream, tls, bounds, peer);
        });
    }
}

/// One of the connections at once; released also by a thread that panics.
struct Place {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    peer: IpAddr,
}

impl Place {
    fn take(open: &Arc<Mutex<HashMap<IpAddr, usize>>>, peer: IpAddr, bounds: Bounds) -> Option<Self> {
        let peer = network(peer);
        let mut all = open.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.get(&peer).copied().unwrap_or(0);
        if all.values().sum::<usize>() >= bounds.connections || own >= bounds.of_an_address {
            return None;
        }
        all.insert(peer, own + 1);
        Some(Self { open: Arc::clone(open), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(all.remove(&self.peer)),
        }
    }
}

fn connection(
    app: &App,
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    bounds: Bounds,
    peer: IpAddr,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let until = Deadline::after(bounds.head);
    let mut timed = Timed::new(&stream, &until)?;
    match tls {
        None => exchange(app, &mut timed, &until, bounds, peer, false)?,
        Some(config) => {
            let session = ServerConnection::new(config).map_err(io::Error::other)?;
            let mut secured = StreamOwned::new(session, timed);
            exchange(app, &mut secured, &until, bounds, peer, true)?;
            secured.conn.send_close_notify();
            let _ = secured.flush();
        }
    }
    close(&stream);
    Ok(())
}

/// Reads a request and answers it.
fn exchange(
    app: &App,
    stream: &mut (impl Read + Write),
    until: &Deadline,
    bounds: Bounds,
    peer: IpAddr,
    is_tls: bool,
) -> io::Result<()> {
    let admit = |request: &http::Request| {
        until.renew(bounds.body);
        app.longest_form(request, Moment::now())
    };
    let (answer, with_body) = match http::read(stream, admit) {
        Ok(request) => {
            let answer = app.answer(&request, peer, Moment::now());
            (answer, request.method != http::Method::Head)
        }
        Err(Wrong::Refused(answer)) => (answer, true),
        Err(Wrong::Gone) => return Err(ErrorKind::UnexpectedEof.into()),
    };
    until.renew(bounds.body);
    http::write(stream, &answer, with_body, is_tls)
}

impl Answer {
    /// What a defect of ours is answered with.
    pub(crate) fn defect() -> Self {
        Self::text(500, "a page could not be made, which is a defect")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_bounded_in_all_and_by_address() {
        let open = Arc::default();
        let bounds = Bounds { connections: 3, of_an_address: 2, ..Bounds::default() };
        let take = |peer: &str| Place::take(&open, peer.parse().unwrap(), bounds);
        let (first, second) = (take("192.0.2.1"), take("192.0.2.1"));
        assert!(first.is_some() && second.is_some() && take("192.0.2.1").is_none());
        let other = take("192.0.2.2");
        assert!(other.is_some() && take("192.0.2.3").is_none(), "three are all");
        drop(first);
        assert!(take("192.0.2.3").is_some(), "a place was given back");
        drop((second, other));
        let hosts = ["2001:db8::1", "2001:db8::2:3", "2001:db8::ffff:0:0:1"].map(take);
        assert_eq!(
            hosts.map(|it| it.is_some()),
            [true, true, false],
            "whoever has one address of a /64 has all"
        );
        assert!(open.lock().unwrap().is_empty());
    }
}
