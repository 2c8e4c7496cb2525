//! Firewalls that lie about connections that are held open: proxies that keep fewer connections with the servers than clients have with
//! them, open them again in silence, answer themselves, or forget idle ones. The first three must be named; the last one holds nothing, and
//! must not be counted as if it did. An honest proxy, and a router that has room for a known number, get what they hold. Needs root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod routed;

use measure::application::{Arrivals, Object, Protocol, ProtocolMix};
use measure::held_open::{HeldOpen, HeldOutcome};
use measure::ledger::Places;
use routed::{Bed, meant_by};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use testkit::namespace::Namespace;
use traffic::app::{FileSet, Load, Outcome, Side, run};

/// Where the proxy listens.
const PROXY: u16 = 8080;
/// Connections that clients open.
const CONNECTIONS: u64 = 60;
/// Bytes of the object that clients fetch.
const OBJECT: usize = 1024;
const MINUTE: Duration = Duration::from_secs(60);
/// How long clients wait for what never comes. A busy machine may need longer for what does come, so the next one is tried then.
const LIMITS: [Duration; 4] =
    [Duration::from_millis(700), Duration::from_secs(3), Duration::from_secs(12), MINUTE];

impl Bed {
    fn run(&self, transaction_limit: Duration) -> Outcome {
        let held = HeldOpen {
            connections: CONNECTIONS,
            opening_rate: 500.0,
            hold_seconds: 0.1,
            think_seconds: Some(0.05),
        };
        let load = Load {
            clients: 1,
            protocol: ProtocolMix::Only(Protocol::Http11),
            seconds: held.seconds(),
            transactions: 1,
            transaction_limit,
            http_port: 80,
            https_port: 443,
            arrivals: Arrivals::Held(held),
            ftp_port: 21,
            cores: vec![0],
            seed: 3,
        };
        let (clients, servers) = (side(&self.clients, 7, 8), side(&self.servers, 8, 6));
        run(&clients, &servers, &load, &Arc::new(FileSet::new(Object::Kb(1), 5)), &|| false).unwrap()
    }
}

fn side(namespace: &Namespace, net: u8, count: u8) -> Side {
    let address = |host| IpAddr::V4(Ipv4Addr::new(10, net, 0, 2 + host));
    Side { namespace: Some(namespace.path()), addresses: (0..count).map(address).collect() }
}

/// What a proxy does with connections that stay open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// One of its own for each of a client.
    Honest,
    /// One of its own for each server, which all clients share.
    Shares,
    /// A new one of its own for each request.
    OpensAgain,
    /// Gives answers that it kept, but to the first request of a connection.
    Answers,
    /// Forgets a connection after its first answer, and says nothing.
    Forgets,
}

struct Proxy<'a> {
    lie: Lie,
    bed: &'a Bed,
    /// The connections that all clients share.
    shared: Mutex<HashMap<SocketAddrV4, TcpStream>>,
}

impl Proxy<'_> {
    fn pass(&self, mut client: TcpStream) -> io::Result<()> {
        let server = meant_by(&client)?;
        let mut own = None;
        let mut kept: Option<Vec<u8>> = None;
        while let Some(request) = read_head(&mut client)? {
            let closes = request.windows(5).any(|word| word == b"close");
            let answer = match (self.lie, kept.take()) {
                (Lie::Forgets, Some(_)) => {
                    // Whatever comes is read, and nothing said, until the client gives up.
                    while client.read(&mut [0; 1024])? > 0 {}
                    return Ok(());
                }
                (Lie::Answers, Some(answer)) => answer,
                (Lie::Shares, _) => self.ask_together(server, &request)?,
                (Lie::OpensAgain, _) => ask(&mut self.bed.connect(server)?, &request)?,
                _ => {
                    if own.is_none() {
                        own = Some(self.bed.connect(server)?);
                    }
                    ask(own.as_mut().unwrap(), &request)?
                }
            };
            client.write_all(&answer)?;
            kept = Some(answer);
            if closes {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Asks over the one connection with a server, which is never closed.
    fn ask_together(&self, server: SocketAddrV4, request: &[u8]) -> io::Result<Vec<u8>> {
        let request = String::from_utf8_lossy(request).replace("Connection: close\r\n", "");
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.entry(server) {
            Entry::Occupied(mut open) => ask(open.get_mut(), request.as_bytes()),
            Entry::Vacant(none) => ask(none.insert(self.bed.connect(server)?), request.as_bytes()),
        }
    }
}

/// The whole answer of a server, which has one object.
fn ask(server: &mut TcpStream, request: &[u8]) -> io::Result<Vec<u8>> {
    server.write_all(request)?;
    let mut answer = read_head(server)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut file = vec![0; OBJECT];
    server.read_exact(&mut file)?;
    answer.extend(file);
    Ok(answer)
}

/// A head and no byte more; nothing where the other end has closed.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    Ok(Some(head))
}

/// A run in which connections had the time to open and to stay: so many of each, or the longest limit was too short as well. The limit
/// explains only connections that are missing, never one too many.
fn with_time(opened: u64, alive: u64, run: impl Fn(Duration) -> Outcome) -> Outcome {
    let had_time = |outcome: &Outcome| {
        let held = outcome.application.held.as_ref().unwrap();
        outcome.fault.is_none() && held.opened >= opened && held.alive >= alive
    };
    let mut outcome = run(LIMITS[0]);
    for limit in &LIMITS[1..] {
        if had_time(&outcome) {
            break;
        }
        outcome = run(*limit);
    }
    outcome
}

fn through(lie: Lie, transaction_limit: Duration) -> Outcome {
    let bed = Bed::build(&format!(
        "chain answers {{
           type nat hook prerouting priority dstnat
           iifname b7 tcp dport 80 redirect to :{PROXY}
         }}"
    ));
    let proxy = Proxy { lie, bed: &bed, shared: Mutex::default() };
    bed.with_proxy(PROXY, |client| proxy.pass(client), || bed.run(transaction_limit))
}

#[test]
fn what_a_proxy_holds_in_the_servers_place_is_named() {
    for (lie, alive, said) in [
        (Lie::Honest, CONNECTIONS, ""),
        (
            Lie::Shares,
            CONNECTIONS,
            "clients had 60 connections open at once and the servers 6: somebody else held",
        ),
        (
            Lie::OpensAgain,
            CONNECTIONS,
            "connections reached the servers and the clients opened 60: somebody opened",
        ),
        (Lie::Answers, 0, "answers had not the server's seal for their request: somebody else answered"),
        (Lie::Forgets, 0, ""),
    ] {
        let outcome = match lie {
            Lie::Forgets => with_time(CONNECTIONS, alive, |limit| through(lie, limit)),
            _ => through(lie, MINUTE),
        };
        let found = outcome.application.disagreements(&outcome.ledger).join("; ");
        let what = format!("{lie:?}: {found}; {:?} {:?}", outcome.ledger, outcome.application);
        assert_eq!((&outcome.fault, outcome.ledger.residual()), (&None, 0), "{what}");
        let held = outcome.application.held.clone().unwrap();
        assert_eq!((held.opened, held.alive), (CONNECTIONS, alive), "{what}");
        assert!(if said.is_empty() { found.is_empty() } else { found.contains(said) }, "{what}");
    }
}

#[test]
fn a_router_with_room_for_some_holds_those_and_no_others() {
    const ROOM: u64 = 25;
    for (verdict, failure) in [("drop", "connect-timeout"), ("reject with tcp reset", "refused")] {
        let rules = format!(
            "chain forwarded {{
               type filter hook forward priority 0
               tcp flags syn / syn,ack limit rate over 1/hour burst {ROOM} packets {verdict}
             }}"
        );
        // A new machine each time, because one that was used has no room left.
        let outcome = with_time(ROOM, ROOM, |limit| Bed::build(&rules).run(limit));
        let what = format!("{verdict}: {:?} {:?}", outcome.ledger, outcome.application);
        let held = outcome.application.held.clone().unwrap();
        let expected = HeldOutcome {
            asked: CONNECTIONS,
            opened: ROOM,
            alive: ROOM,
            accepted: ROOM,
            open_at_servers: ROOM,
            relayed: false,
            limited_by: None,
        };
        assert_eq!((*held, &outcome.fault, outcome.ledger.residual()), (expected, &None, 0), "{what}");
        let Places::Application(places) = &outcome.ledger.places else { panic!("transactions") };
        assert_eq!(places.failed.get(failure), Some(&(CONNECTIONS - ROOM)), "{what}");
        assert_eq!(outcome.application.disagreements(&outcome.ledger), [""; 0], "{what}");
    }
}
