//! How much memory gateways take: what they count as theirs against what the kernel gives this process. One test, so that nothing else takes memory
//! meanwhile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

mod plain;

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Name, Record, Ttl};
use domain::rdata::A;
use gateway::config::{Addresses, Ftp, Gateway, Limits, Protocol, Rule};
use gateway::dns::answer::Answer;
use gateway::dns::cache::{Cache, Key};
use gateway::dns::name::Wire;
use gateway::serve::{Server, listen};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Bytes that this process has in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    kilobytes.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

fn grown(before: usize) -> usize {
    resident().saturating_sub(before)
}

#[test]
fn memory_is_what_was_promised() {
    let sessions = memory_of_sessions(400);
    println!("FTP: {sessions} bytes a session that waits");
    assert!(sessions < 50_000, "{sessions}");
    let (bytes, entries) = memory_of_a_full_cache(16 << 20);
    println!("DNS: {bytes} bytes for a cache of 16 MiB with {entries} answers");
    assert!(bytes < 3 * (8 << 20), "{bytes}");
}

/// Memory of a cache of so many bytes that has more answers than it can keep, and how many it keeps.
fn memory_of_a_full_cache(most: usize) -> (usize, usize) {
    let before = resident();
    let (mut cache, now) = (Cache::default(), Instant::now());
    let key = |number: usize| {
        let name: Wire = Name::vec_from_str(&format!("{number}.a.test")).unwrap();
        Key { name, kind: Rtype::A, signatures: false, unchecked: false }
    };
    let count = most / 256;
    for number in 0..count {
        let key = key(number);
        let record =
            Record::new(key.name.clone(), Class::IN, Ttl::from_secs(60), A::from_octets(192, 0, 2, 1));
        let sections = [vec![&record], Vec::new()];
        let answer = Answer::write((&key.name, Rtype::A), Rcode::NOERROR, sections, 60, false).unwrap();
        let client = IpAddr::from([10, 0, 0, (number % 64) as u8]);
        cache.put(key, Some(Arc::new(answer)), client, most, now);
    }
    let kept = (0..count).filter(|number| cache.get(&key(*number), now).is_some()).count();
    assert!(kept < count, "it is full");
    (grown(before), kept)
}

/// Memory of a session that waits for its next command, of so many that wait at once.
fn memory_of_sessions(count: usize) -> usize {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = origin.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in origin.incoming().flatten() {
            stream.write_all(b"220 hello\r\n").unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(b"331 password\r\n").unwrap();
            open.push(stream);
        }
    });
    let (at, _gateway) = gateway(server);
    let one = || {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(format!("USER anna@{server}\r\n").as_bytes()).unwrap();
        let said: Vec<String> = BufReader::new(&stream).lines().take(2).map(Result::unwrap).collect();
        assert!(said[1].starts_with("331"), "{said:?}");
        stream
    };
    // What the first ones take is every session's.
    let first: Vec<TcpStream> = (0..16).map(|_| one()).collect();
    let before = resident();
    let all: Vec<TcpStream> = (0..count).map(|_| one()).collect();
    let taken = grown(before) / count;
    drop((first, all));
    taken
}

fn gateway(server: SocketAddr) -> (SocketAddr, Server) {
    let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let at = listener.local_addr().unwrap();
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    let gateway = Gateway {
        protocol: Protocol::Ftp(Ftp { data_ports: (40_000, 40_999), is_active: false }),
        listen: at,
        rules: vec![Rule { hosts: vec![here.to_string()], ..plain::rule("all", true) }],
        reach: Addresses(vec![(here, here)]),
        ports: vec![server.port()],
        limits: Limits { connections_per_client: 10_000, ..Limits::default() },
        ..plain::gateway()
    };
    let (sender, _) = sync_channel(10);
    (at, Server::start(gateway, listener, Vec::new(), sender).unwrap())
}
