//! A gateway's process: the sockets of one gateway, and nothing else. It is another user than root, has no capability, opens no file and executes
//! nothing: what clients and servers make of it stays in it. It ends when its keeper does.

use super::{Happened, MOST_WANTED, Order};
use crate::failure::Failure;
use crate::privileges;
use crate::worker_stream::{daemon_at_standard_input, read_frame, write_frame};
use gateway::config::Protocol;
use gateway::event::{Counts, Event, Learned};
use gateway::serve::Server;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Events that wait for the keeper.
const WAITING: usize = 4096;
/// Events of a message.
const AT_ONCE: usize = 512;
/// Names with their addresses that wait for the keeper, and of a message.
const LEARNED_WAITING: usize = 256;
const LEARNED_AT_ONCE: usize = 16;
/// How often counts are reported if they have changed, and how soon events are.
const OFTEN: Duration = Duration::from_millis(100);

/// Runs a gateway until its keeper ends.
///
/// # Errors
/// No keeper has started it, or a right could not be given up.
pub(crate) fn run() -> Result<(), Failure> {
    let stream = daemon_at_standard_input()?;
    let machine = |error: io::Error| Failure::Machine(error.to_string());
    if stream.peer_addr().is_err() {
        let what = "a gateway is run by a process that `rampart up` starts, and by no other";
        return Err(Failure::Wrong(what.to_owned()));
    }
    let listener = TcpListener::from(io::stdout().as_fd().try_clone_to_owned().map_err(machine)?);
    // The last file that it reads.
    let resolvers = resolvers(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    privileges::keep_nothing();
    // From here on it has passwords of users in its memory, and a program that collects cores asks for no limit.
    nix::sys::prctl::set_dumpable(false).map_err(|error| Failure::Machine(error.to_string()))?;
    let Order::Be(gateway) = next(&stream).map_err(machine)? else { return Ok(()) };
    let gateway = *gateway;
    let datagrams = match gateway.protocol {
        Protocol::Dns(_) => Some(io::stderr().as_fd().try_clone_to_owned().map_err(machine)?),
        _ => None,
    };
    privileges::filter_system_calls_of_gateways().map_err(|kept| Failure::Machine(kept.to_string()))?;
    let (events, waiting) = sync_channel(WAITING);
    let server = Arc::new(Server::start(gateway, listener, resolvers, events).map_err(machine)?);
    if let Some(datagrams) = datagrams {
        server.serve_datagrams(UdpSocket::from(datagrams)).map_err(machine)?;
    }
    // Two threads write there, each whole frames.
    let to_keeper = Arc::new(Mutex::new(stream.try_clone().map_err(machine)?));
    let (learn, learned) = sync_channel(LEARNED_WAITING);
    server.announce_to(learn);
    let (reporting, announcing, of_announcing) =
        (Arc::clone(&server), Arc::clone(&server), Arc::clone(&to_keeper));
    std::thread::spawn(move || report(&to_keeper, &reporting, &waiting));
    std::thread::spawn(move || announce(&of_announcing, &announcing, &learned));
    while let Ok(order) = next(&stream) {
        match order {
            Order::Be(gateway) => server.set(*gateway),
            Order::Acknowledged(numbers) => server.acknowledged(&numbers),
        }
    }
    Ok(())
}

fn next(stream: &UnixStream) -> io::Result<Order> {
    Ok(serde_json::from_slice(&read_frame(stream, MOST_WANTED)?)?)
}

/// Reports to the keeper what happens, until it has gone.
fn report(stream: &Mutex<UnixStream>, server: &Server, waiting: &Receiver<Event>) {
    let mut before = Counts::default();
    loop {
        let mut events = Vec::new();
        match waiting.recv_timeout(OFTEN) {
            Ok(event) => events.push(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        events.extend(waiting.try_iter().take(AT_ONCE - events.len()));
        let counts = server.counts();
        if events.is_empty() && counts == before {
            continue;
        }
        before = counts;
        if send(stream, &Happened { events, counts, learned: Vec::new() }).is_err() {
            return;
        }
    }
}

/// Announces to the keeper at once what domains stand for, until it has gone: clients wait for it.
fn announce(stream: &Mutex<UnixStream>, server: &Server, learned: &Receiver<Learned>) {
    for first in learned {
        let more = learned.try_iter().take(LEARNED_AT_ONCE - 1);
        let learned = std::iter::once(first).chain(more).collect();
        if send(stream, &Happened { events: Vec::new(), counts: server.counts(), learned }).is_err() {
            return;
        }
    }
}

fn send(stream: &Mutex<UnixStream>, happened: &Happened) -> io::Result<()> {
    let bytes = serde_json::to_vec(happened)?;
    write_frame(&*stream.lock().unwrap_or_else(PoisonError::into_inner), &bytes)
}

/// The name servers of `/etc/resolv.conf` (resolv.conf(5)), three at most.
fn resolvers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        words.next().filter(|_| is_server)?.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 53))
    };
    text.lines().filter_map(server).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_of_the_machine() {
        let text = "# nameserver 10.0.0.9\nsearch test\nnameserver 10.0.0.1\n  nameserver\t2001:db8::1 # x\nnameserver x\n\
                    nameserver fe80::1%eth0\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n";
        let found: Vec<String> = resolvers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1:53", "[2001:db8::1]:53", "10.0.0.2:53"]);
    }
}
