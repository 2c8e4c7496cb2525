//! The server as its clients reach it: in time, in bounds, and by TLS.

use crate::bed::{Bed, PASSWORD};
use rampart_web::http::MAX_HEAD;
use rampart_web::server::{Bounds, Server};
use rampart_web::tls::{Identity, own_files};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A server for as long as the value is there.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start(bed: &Bed, tls: Option<Arc<ServerConfig>>, bounds: Bounds) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server::new(listener, Arc::clone(&bed.app), tls, bounds).unwrap();
        let (address, ended) = (server.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&ended);
        let thread = std::thread::spawn(move || server.run(|| stop.load(Ordering::Relaxed)));
        Self { address, ended, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// What comes back to some bytes, until the server closes.
    fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may have had enough before all is sent.
        let _ = stream.write_all(bytes);
        read_all(stream)
    }
}

fn read_all(mut stream: impl std::io::Read) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn requests_are_bounded_in_size() {
    let bed = Bed::with(false);
    let served = Served::start(&bed, None, Bounds::default());
    let origin = format!("http://{}", served.address);
    let head = format!(
        "Host: {}\r\nOrigin: {origin}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        served.address
    );
    let form = format!("name=rita&password={}", PASSWORD.replace(' ', "+"));
    let login = format!("POST /login HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{form}", form.len());
    for (what, bytes, expected) in [
        ("a page", format!("GET /login HTTP/1.1\r\nHost: {}\r\n\r\n", served.address), "HTTP/1.1 200 OK"),
        ("a login", login, "HTTP/1.1 303 See Other"),
        ("a long head", format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(MAX_HEAD)), "HTTP/1.1 431"),
        (
            "a long form",
            format!("POST /login HTTP/1.1\r\n{head}Content-Length: 9999999\r\n\r\na=1"),
            "HTTP/1.1 413",
        ),
        (
            "a policy of nobody",
            format!("POST /policy/check HTTP/1.1\r\n{head}Content-Length: 999999\r\n\r\na=1"),
            "HTTP/1.1 413",
        ),
        (
            "pieces",
            format!("POST /login HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "HTTP/1.1 411",
        ),
        ("TLS", "\u{16}\u{3}\u{1}".to_owned() + &"\0".repeat(64), "HTTP/1.1 400"),
        ("another name", "GET /login HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), "HTTP/1.1 421"),
    ] {
        let answer = served.exchange(bytes.as_bytes());
        assert!(answer.starts_with(expected), "{what}: {answer}");
        assert!(answer.contains("Content-Security-Policy: default-src 'none';"), "{what}: {answer}");
    }
}

/// Clients that send nothing, or a byte now and then, are left when their time is over, and their places are free again.
#[test]
fn slow_clients_are_left_and_others_are_answered() {
    let bed = Bed::with(false);
    let bounds = Bounds { of_an_address: 4, head: Duration::from_millis(300), ..Bounds::default() };
    let served = Served::start(&bed, None, bounds);
    let slow: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: ").unwrap();
            stream
        })
        .collect();
    // Each is closed without an answer: nobody waits here for longer than that takes.
    for stream in slow {
        assert_eq!(read_all(stream), "");
    }
    let asked = format!("GET /login HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
    // Its place may be given back a moment later.
    let answered = (0..1000).any(|_| served.exchange(asked.as_bytes()).starts_with("HTTP/1.1 200"));
    assert!(answered);
}

#[test]
fn pages_come_by_tls_and_nothing_else_there() {
    let bed = Bed::new();
    let folder = tempfile::tempdir().unwrap();
    let names = ["localhost".to_owned()];
    let identity = Identity::own(folder.path(), &names).unwrap();
    let served = Served::start(&bed, Some(identity.config), Bounds::default());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(own_files(folder.path()).0).unwrap())).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let session =
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut stream = StreamOwned::new(session, served.connect());
    stream.write_all(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("</html>"), "{answer}");
    assert!(answer.contains("Strict-Transport-Security"), "{answer}");
    let plain = served.exchange(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!plain.contains("HTTP/1.1"), "{plain}");
}
