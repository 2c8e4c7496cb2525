//! `rampart-bench serve`: runs, live progress and trends as pages. Reads and never writes; answers `GET` and `HEAD` only. What it
//! opens is named by the file of the runs, never by a request. Every client has bounds in bytes, time and number, and pages work
//! without script; only live updates need it.

mod chart;
mod http;
mod pages;
mod watch;

use crate::error::HistoryError;
use crate::place::Place;
use crate::store::Store;
use http::{Answer, Wrong};
use http_serving::{Places, accept};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where pages are served unless the user says otherwise.
pub const LISTEN: &str = "127.0.0.1:8021";

/// Clients at once; those beyond are asked to come again.
const MOST_CLIENTS: usize = 32;

/// Of them, streams of live updates.
const MOST_STREAMS: usize = 8;

/// How often is looked whether to stop, in ms.
const LOOK: u16 = 200;

/// A server that has its port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    shared: Shared,
}

/// What the threads of a server know.
#[derive(Debug, Clone)]
struct Shared {
    /// The name in `--listen`, which requests may use beside addresses.
    name: String,
    place: Place,
    /// A stream of updates ends after this time, and the browser asks again.
    stream_for: Duration,
    clients: Places,
    streams: Places,
    ended: Arc<AtomicBool>,
}

impl Server {
    /// Takes the port of `ADDRESS:PORT`; port 0 is any that is free.
    ///
    /// # Errors
    /// [`HistoryError::Listen`], or there never were runs in what is to hold them. Where none are recorded yet, the pages say so.
    pub fn bind(listen: &str, place: &Place) -> Result<Self, HistoryError> {
        match Store::read(place) {
            Err(error) if !error.is_machine() && !matches!(error, HistoryError::None { .. }) => {
                return Err(error);
            }
            _ => {}
        }
        let fault = |source| HistoryError::Listen { address: listen.to_owned(), source };
        let addresses: Vec<SocketAddr> = listen.to_socket_addrs().map_err(fault)?.collect();
        let listener = TcpListener::bind(addresses.as_slice()).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let shared = Shared {
            name: listen.rsplit_once(':').map_or("", |(name, _)| name).to_owned(),
            place: place.clone(),
            stream_for: Duration::from_secs(600),
            clients: Places::new(MOST_CLIENTS),
            streams: Places::new(MOST_STREAMS),
            ended: Arc::default(),
        };
        Ok(Self { listener, shared })
    }

    /// The same with streams of updates that end sooner.
    #[must_use]
    pub fn with_streams_of(mut self, stream_for: Duration) -> Self {
        self.shared.stream_for = stream_for;
        self
    }

    /// The address that it has.
    ///
    /// # Errors
    /// [`HistoryError::Listen`], which no open port causes.
    pub fn address(&self) -> Result<SocketAddr, HistoryError> {
        let fault = |source| HistoryError::Listen { address: self.shared.name.clone(), source };
        self.listener.local_addr().map_err(fault)
    }

    /// Serves until `stop` says so. Answers that are under way then are not waited for: nothing is lost with them.
    pub fn run(&self, stop: impl Fn() -> bool) {
        accept(&self.listener, LOOK, stop, |stream, _| self.shared.take(stream));
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Answers on a thread of its own, or not at all when there are too many.
    fn take(&self, stream: TcpStream) {
        let Some(place) = self.clients.take() else { return http::turn_away(&stream) };
        let own = self.clone();
        // When no thread can be made, the closure is dropped, and the place with it.
        let _ = std::thread::Builder::new().spawn(move || {
            let _place = place;
            own.client(&stream);
        });
    }

    fn client(&self, stream: &TcpStream) {
        let answer = match http::read(stream, &self.name) {
            Ok(request) if request.path == "/live/events" && !request.head_only => {
                return self.stream(stream);
            }
            Ok(request) => pages::answer(&self.place, &request).with_body(!request.head_only),
            Err(Wrong::Gone) => return,
            Err(Wrong::Refused(answer)) => answer,
        };
        http::write(stream, &answer);
    }

    fn stream(&self, stream: &TcpStream) {
        let Some(_place) = self.streams.take() else {
            return http::write(stream, &Answer::text(503, "too many pages follow runs already"));
        };
        let going = || !self.ended.load(Ordering::Relaxed);
        watch::stream(stream, &self.place, self.stream_for, going);
    }
}
