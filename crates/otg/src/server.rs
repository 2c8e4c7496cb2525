//! Carries requests from HTTP, HTTPS and gRPC, on one port, to the API, one after the other. Every client has bounds in bytes, time and number.

use crate::api;
use crate::bench::{Bench, Settings};
use crate::grpc;
use crate::http::{self, PATIENCE, Request, Wrong};
use crate::refusal::Refusal;
use crate::tls;
use http_serving::{Deadline, Places, Timed, accept, close};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the API is served unless the user says otherwise: what examples of its clients expect.
pub const LISTEN: &str = "127.0.0.1:8443";

/// Clients at once; those beyond are asked to come again.
const MOST_CLIENTS: usize = 16;
/// How often is looked what flows do, and whether to stop, in ms.
const LOOK: u16 = 50;

/// Why the server cannot be.
#[derive(Debug, thiserror::Error)]
pub enum OtgError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}{}", http_serving::remedy(source))]
    Listen {
        /// As the user wrote it.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Others could reach it.
    #[error(
        "--listen {0}: whoever reaches this address can send traffic from this machine, and nobody is asked for a password; if that is \
         meant, add --allow-remote"
    )]
    Remote(String),
    /// No certificate could be made.
    #[error("cannot make a certificate for HTTPS: {0}")]
    Certificate(String),
    /// The generator cannot be loaded.
    #[error(transparent)]
    Generator(#[from] traffic::TrafficError),
}

/// A server that has its address and its generator.
pub struct Server {
    listener: TcpListener,
    shared: Shared,
}

/// What the threads of a server know.
#[derive(Clone)]
struct Shared {
    /// The name in `--listen`, which requests may use beside addresses.
    name: String,
    bench: Arc<Mutex<Bench>>,
    tls: Arc<ServerConfig>,
    clients: Places,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.listener).finish()
    }
}

impl Server {
    /// Takes the port of `ADDRESS:PORT`, of other machines only with `allow_remote`, and loads the generator.
    ///
    /// # Errors
    /// See [`OtgError`].
    pub fn bind(listen: &str, allow_remote: bool, settings: Settings) -> Result<Self, OtgError> {
        let fault = |source| OtgError::Listen { address: listen.to_owned(), source };
        let addresses: Vec<SocketAddr> = listen.to_socket_addrs().map_err(fault)?.collect();
        if !allow_remote && addresses.iter().any(|address| !address.ip().is_loopback()) {
            return Err(OtgError::Remote(listen.to_owned()));
        }
        let listener = TcpListener::bind(addresses.as_slice()).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let name = listen.rsplit_once(':').map_or("", |(name, _)| name).to_owned();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let shared = Shared {
            name,
            bench: Arc::new(Mutex::new(Bench::load(settings)?)),
            tls: tls::identity(names).map_err(OtgError::Certificate)?,
            clients: Places::new(MOST_CLIENTS),
        };
        Ok(Self { listener, shared })
    }

    /// The address that it has.
    ///
    /// # Errors
    /// [`OtgError::Listen`], which no open port causes.
    pub fn address(&self) -> Result<SocketAddr, OtgError> {
        let fault = |source| OtgError::Listen { address: self.shared.name.clone(), source };
        self.listener.local_addr().map_err(fault)
    }

    /// Serves until `stop` says so; then stops what is sent.
    pub fn run(&self, stop: impl Fn() -> bool) {
        let looked = || {
            self.shared.bench().tick();
            stop()
        };
        accept(&self.listener, LOOK, looked, |stream, _| self.shared.take(stream));
        let mut bench = self.shared.bench();
        let _ = bench.stop();
        // Ports are given back here, because a client's thread may hold the bench for longer than this process has.
        let _ = bench.set_config(crate::config::Config::empty());
    }
}

impl Shared {
    fn bench(&self) -> MutexGuard<'_, Bench> {
        self.bench.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers on a thread of its own, or not at all when there are too many.
    fn take(&self, stream: TcpStream) {
        let Some(place) = self.clients.take() else {
            // Without waiting for the client: a TLS one takes it for the end of the connection.
            let _ = stream.set_nonblocking(true);
            let busy = Err(Refusal {
                status: 503,
                what: format!("{MOST_CLIENTS} requests are being answered: come again"),
            });
            let _ = http::write(&mut &stream, &busy);
            return;
        };
        let own = self.clone();
        // When no thread can be made, the closure is dropped, and the place with it.
        let _ = std::thread::Builder::new().spawn(move || {
            let _place = place;
            let _ = own.client(&stream);
        });
    }

    fn client(&self, stream: &TcpStream) -> io::Result<()> {
        let deadline = Deadline::after(PATIENCE);
        let mut timed = Timed::new(stream, &deadline)?;
        match timed.peek(&mut [0; grpc::PREFACE.len()])? {
            [] => return Ok(()),
            start if *start == grpc::PREFACE => {
                return grpc::serve(stream.try_clone()?, self.name.clone(), Arc::clone(&self.bench));
            }
            [tls::HANDSHAKE, ..] => {
                let session = ServerConnection::new(Arc::clone(&self.tls)).map_err(io::Error::other)?;
                let mut secure = StreamOwned::new(session, timed);
                self.exchange(&mut secure, &deadline);
                secure.conn.send_close_notify();
                let _ = secure.flush();
            }
            _ => self.exchange(&mut timed, &deadline),
        }
        close(stream);
        Ok(())
    }

    /// One request and its answer, for which the client has time again.
    fn exchange(&self, stream: &mut (impl Read + Write), deadline: &Deadline) {
        let answer = match http::read(stream, &self.name) {
            Ok(request) => self.answer(&request),
            Err(Wrong::Gone) => return,
            Err(Wrong::Refused(refusal)) => Err(refusal),
        };
        deadline.renew(PATIENCE);
        let _ = http::write(stream, &answer);
    }

    fn answer(&self, request: &Request) -> Result<serde_json::Value, Refusal> {
        let known: Vec<&str> =
            api::PATHS.iter().filter(|(_, path)| *path == request.path).map(|(method, _)| *method).collect();
        if !known.is_empty() && !known.contains(&request.method.as_str()) {
            return Err(Refusal { status: 405, what: format!("{} has {}", request.path, known.join(", ")) });
        }
        api::answer(&mut self.bench(), &request.method, &request.path, &request.body)
    }
}
