//! Firewalls that lie about applications: proxies between real clients and real servers that answer in the servers' name. What they
//! change must be named, and an honest proxy must not be. Of HTTPS and HTTP/2 a proxy sees sealed records: it hands them on, or spoils them, or takes the
//! server's place with a certificate of its own. Needs root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use measure::application::{Arrivals, Protocol, ProtocolMix};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::OriginalDst;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection};
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use testkit::namespace::Namespace;
use traffic::app::{FileSet, Load, Outcome, Side, run};

/// Where the proxy listens.
const PROXY: u16 = 8080;
/// The servers' port for HTTPS and HTTP/2.
const HTTPS: u16 = 443;
/// The byte of a sealed answer that is spoiled, or at which it ends: behind the handshake, within the smallest file.
const SPOILED: usize = 1_300;
/// Every so many answers the proxy lies, the first time in the first one.
const EVERY: u64 = 7;
/// More than there are files, so that some file is soon asked for twice.
const CLIENTS: u32 = 24;

/// Clients, a machine with a proxy that takes every connection to port 80, and servers.
struct Bed {
    clients: Namespace,
    proxy: Namespace,
    servers: Namespace,
}

impl Bed {
    fn build() -> Self {
        let bed = Self {
            clients: Namespace::create("clients"),
            proxy: Namespace::create("proxy"),
            servers: Namespace::create("servers"),
        };
        let (clients, servers) = (bed.clients.name(), bed.servers.name());
        bed.proxy.ip(&format!(
            "link add p0 type veth peer name c0 netns {clients}
             link add p1 type veth peer name s0 netns {servers}
             address add 10.7.0.1/24 dev p0
             address add 10.8.0.1/24 dev p1
             link set p0 up
             link set p1 up"
        ));
        let end = |namespace: &Namespace, device: &str, net: u8| {
            let hosts: String =
                (2..10).map(|host| format!("address add 10.{net}.0.{host}/24 dev {device}\n")).collect();
            namespace.ip(&format!("{hosts}link set {device} up\nroute add default via 10.{net}.0.1"));
        };
        end(&bed.clients, "c0", 7);
        end(&bed.servers, "s0", 8);
        bed.proxy.nft(&format!(
            "table ip lie {{
               chain answers {{
                 type nat hook prerouting priority dstnat
                 iifname p0 tcp dport {{ 80, 443 }} redirect to :{PROXY}
               }}
             }}"
        ));
        bed
    }

    fn side(namespace: &Namespace, net: u8, count: u8) -> Side {
        let address = |host| IpAddr::V4(Ipv4Addr::new(10, net, 0, 2 + host));
        Side { namespace: Some(namespace.path()), addresses: (0..count).map(address).collect() }
    }

    /// Clients fetch files through a proxy of this kind.
    fn run(&self, lie: Lie, protocol: Protocol) -> Outcome {
        let listener = self.proxy.enter(|| TcpListener::bind(("0.0.0.0", PROXY))).unwrap();
        let proxy = Proxy {
            lie,
            kept: Mutex::new(HashMap::new()),
            answers: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        };
        let load = Load {
            clients: CLIENTS,
            protocol: ProtocolMix::Only(protocol),
            seconds: if matches!(lie, Lie::Answers | Lie::Replays) { 1.0 } else { 0.15 },
            transactions: 1,
            transaction_limit: Duration::from_secs(60),
            http_port: 80,
            https_port: 443,
            arrivals: Arrivals::ClosedLoop,
            ftp_port: 21,
            cores: vec![0],
            seed: 3,
        };
        let (clients, servers) = (Self::side(&self.clients, 7, 8), Self::side(&self.servers, 8, 6));
        let files = Arc::new(FileSet::nstl(5));
        std::thread::scope(|scope| {
            scope.spawn(|| proxy.serve(scope, self, &listener));
            let outcome = run(&clients, &servers, &load, &files, &|| false);
            proxy.ended.store(true, Ordering::Relaxed);
            // The listener looks whether the run has ended when somebody comes.
            let _ = self.proxy.enter(|| TcpStream::connect(("127.0.0.1", PROXY)));
            outcome.unwrap()
        })
    }
}

/// What a proxy does with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Hands on everything.
    Honest,
    /// Turns a bit of the file.
    Flips,
    /// Ends the file before its end.
    Cuts,
    /// Writes more behind the file.
    Adds,
    /// Keeps answers, and gives them without asking the server again.
    Answers,
    /// Keeps answers, and gives them again; the server is asked each time, so that both ends count the same.
    Replays,
    /// Gives a page of its own.
    MakesUp,
    /// Asks the server twice.
    AsksTwice,
    /// Ends TLS itself, with a certificate of its own.
    Terminates,
}

struct Proxy {
    lie: Lie,
    /// Answers kept, by the request's first line.
    kept: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    answers: AtomicU64,
    ended: AtomicBool,
}

impl Proxy {
    fn serve<'scope>(
        &'scope self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        bed: &'scope Bed,
        listener: &TcpListener,
    ) {
        for client in listener.incoming() {
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            // A client that went away is none of the test's business.
            scope.spawn(move || client.and_then(|client| self.pass(bed, client)));
        }
    }

    fn pass(&self, bed: &Bed, mut client: TcpStream) -> io::Result<()> {
        let to = getsockopt(&client, OriginalDst).map_err(io::Error::from)?;
        let server = SocketAddrV4::new(u32::from_be(to.sin_addr.s_addr).into(), u16::from_be(to.sin_port));
        if server.port() == HTTPS {
            let is_turn = self.answers.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY);
            return if self.lie == Lie::Terminates {
                terminate(client)
            } else {
                self.relay(bed, client, server, is_turn)
            };
        }
        let request = read_head(&mut client)?;
        let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec();
        let ask = || bed.ask(server.into(), &request);
        let answer = match self.lie {
            Lie::Answers => self.kept_answer(line, ask)?,
            Lie::Replays => {
                let fresh = ask()?;
                self.kept_answer(line, || Ok(fresh))?
            }
            _ => ask()?,
        };
        let is_turn = self.answers.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY);
        let changed = if is_turn { self.change(bed, server.into(), &request, answer)? } else { answer };
        client.write_all(&changed)?;
        client.shutdown(Shutdown::Write)
    }

    /// Hands sealed records on, and spoils one of the answer where it is the lie's turn.
    fn relay(&self, bed: &Bed, mut client: TcpStream, server: SocketAddrV4, is_turn: bool) -> io::Result<()> {
        let mut server = bed.proxy.enter(|| TcpStream::connect(server))?;
        let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || {
            // Whoever went away ends the other direction too.
            let _ = io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Write);
        });
        let (mut piece, mut handed_on) = ([0; 1024], 0);
        loop {
            let count = server.read(&mut piece)?;
            if count == 0 {
                return client.shutdown(Shutdown::Both);
            }
            let place = SPOILED.checked_sub(handed_on).filter(|place| is_turn && *place < count);
            handed_on += count;
            match (self.lie, place) {
                (Lie::Flips, Some(place)) => piece[place] ^= 1,
                (Lie::Cuts, Some(place)) => {
                    client.write_all(&piece[..place])?;
                    return client.shutdown(Shutdown::Both);
                }
                _ => {}
            }
            client.write_all(&piece[..count])?;
        }
    }

    /// Asks once for each line; meanwhile the others wait.
    fn kept_answer(&self, line: Vec<u8>, ask: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = kept.get(&line) {
            return Ok(answer.clone());
        }
        let answer = ask()?;
        kept.insert(line, answer.clone());
        Ok(answer)
    }

    fn change(
        &self,
        bed: &Bed,
        server: SocketAddr,
        request: &[u8],
        mut answer: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        let last = answer.len() - 1;
        match self.lie {
            Lie::Honest | Lie::Answers | Lie::Replays | Lie::Terminates => {}
            Lie::Flips => answer[last] ^= 1,
            Lie::Cuts => answer.truncate(last),
            Lie::Adds => answer.push(b' '),
            Lie::MakesUp => answer = b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n<p>".to_vec(),
            Lie::AsksTwice => drop(bed.ask(server, request)?),
        }
        Ok(answer)
    }
}

impl Bed {
    /// The whole answer of a server.
    fn ask(&self, server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.proxy.enter(|| TcpStream::connect(server))?;
        stream.write_all(request)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

/// Greets a client in the server's place.
fn terminate(mut client: TcpStream) -> io::Result<()> {
    let own = rcgen::generate_simple_self_signed(["server01".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())
        .unwrap();
    let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut client)?;
    }
    Ok(())
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend(&piece[..count]),
        }
    }
    Ok(head)
}

#[test]
fn what_a_proxy_does_in_the_servers_name_is_named() {
    let bed = Bed::build();
    let (http, https, http2) = (Protocol::Http10, Protocol::Https, Protocol::Http2);
    for (protocol, lie, said) in [
        (http, Lie::Honest, ""),
        (http, Lie::Flips, "files came otherwise than they were sent"),
        (http, Lie::Cuts, "files ended early, though they were sent whole"),
        (http, Lie::Adds, "files came otherwise than they were sent"),
        (http, Lie::Answers, "seal for their request: somebody else answered"),
        (http, Lie::Replays, "seal for their request: somebody else answered"),
        (http, Lie::MakesUp, "files came otherwise than they were sent"),
        (http, Lie::AsksTwice, "requests reached the servers and the clients made"),
        (https, Lie::Honest, ""),
        (https, Lie::Flips, "TLS records came otherwise than they were sealed"),
        (https, Lie::Cuts, "files ended early, though they were sent whole"),
        (https, Lie::Terminates, "answered without the server's key: the firewall answered itself"),
        (http2, Lie::Honest, ""),
        (http2, Lie::Flips, "TLS records came otherwise than they were sealed"),
        (http2, Lie::Cuts, "files ended early, though they were sent whole"),
        (http2, Lie::Terminates, "answered without the server's key: the firewall answered itself"),
    ] {
        let outcome = bed.run(lie, protocol);
        let found = outcome.application.disagreements(&outcome.ledger).join("; ");
        let what = format!("{protocol:?} {lie:?}: {found}; {:?} {:?}", outcome.ledger, outcome.application);
        assert_eq!((outcome.fault, outcome.ledger.residual()), (None, 0), "{what}");
        assert!(if said.is_empty() { found.is_empty() } else { found.contains(said) }, "{what}");
    }
}
