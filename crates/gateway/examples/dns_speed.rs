//! How many questions a second a gateway of DNS answers: names that the policy has, answers that are kept, and names that a name server is asked for, which
//! here answers at once. `cargo run --release -p gateway --example dns_speed`; with an address, a name and how long in seconds, another server is asked
//! for that name in the same way, for comparison: `... --example dns_speed -- 127.0.0.1:5353 www.a.test 2`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

#[path = "../tests/dns/mod.rs"]
mod dns;
#[path = "../tests/plain/mod.rs"]
mod plain;

use dns::{A, question, reply, settings, view};
use gateway::config::{Gateway, Rule};
use gateway::serve::{Server, listen, listen_datagrams};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Questions that a client has under way at once: fewer than a socket has room for answers.
const UNDER_WAY: u64 = 64;
/// Names of which answers are kept.
const NAMES: u64 = 10_000;
const ROUNDS: usize = 3;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [at, name, rest @ ..] = &words[..] {
        let time = rest.first().map_or(2.0, |seconds| seconds.parse().unwrap());
        let name = name.as_str();
        print("a name", at.parse().unwrap(), Duration::from_secs_f64(time), &mut |_| name.to_owned());
        return;
    }
    let (server, at) = gateway();
    let time = Duration::from_secs(1);
    println!("| what is asked for | how | answers a second, median of {ROUNDS} rounds |");
    println!("|---|---|---|");
    print("names that the policy has", at, time, &mut |n| format!("host{}.lan.test", n % 100));
    // They are kept from now on.
    let kept = |n: u64| format!("kept{}.a.test", n % NAMES);
    by_datagrams(at, |n| n < NAMES, &mut |n| kept(n));
    print("answers that are kept", at, time, &mut |n| kept(n));
    let mut next = 0;
    print("names that a name server is asked for", at, time, &mut |_| {
        next += 1;
        format!("new{next}.a.test")
    });
    assert_eq!(server.counts().refused, 0);
}

fn print(what: &str, at: SocketAddr, time: Duration, name: &mut dyn FnMut(u64) -> String) {
    type How = fn(SocketAddr, Duration, &mut dyn FnMut(u64) -> String) -> f64;
    let datagrams: How = |at, time, name| {
        let begun = Instant::now();
        by_datagrams(at, |_| begun.elapsed() < time, name) as f64 / begun.elapsed().as_secs_f64()
    };
    let connection: How = |at, time, name| {
        let begun = Instant::now();
        by_connection(at, |_| begun.elapsed() < time, name) as f64 / begun.elapsed().as_secs_f64()
    };
    for (how, ask) in [("datagrams", datagrams), ("a connection, one after the other", connection)] {
        let mut rates: Vec<f64> = (0..ROUNDS).map(|_| ask(at, time, name)).collect();
        rates.sort_by(f64::total_cmp);
        println!("| {what} | {how} | {:.0} |", rates[ROUNDS / 2]);
    }
}

/// A gateway with a view and a name server.
fn gateway() -> (Server, SocketAddr) {
    let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let at = listener.local_addr().unwrap();
    let mut gateway: Gateway = dns::gateway(at, vec![name_server()]);
    gateway.rules = vec![Rule { log: false, ..dns::rule("all") }];
    let local = vec!["lan.test".to_owned()];
    let hosts: Vec<(String, String)> =
        (0..100).map(|n| (format!("10.0.0.{n}"), format!("host{n}.lan.test"))).collect();
    let lines: Vec<(&str, [&str; 1])> =
        hosts.iter().map(|(at, name)| (at.as_str(), [name.as_str()])).collect();
    let lines: Vec<(&str, &[&str])> = lines.iter().map(|(at, names)| (*at, &names[..])).collect();
    let dns = settings(&mut gateway);
    dns.views = vec![view(None, &local, &lines)];
    (dns.local, dns.cache, dns.rate) = (local, 64 << 20, 1_000_000);
    let (sender, _) = sync_channel(1);
    let server = Server::start(gateway, listener, Vec::new(), sender).unwrap();
    server.serve_datagrams(listen_datagrams(at).unwrap()).unwrap();
    (server, at)
}

/// A name server that knows everything.
fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let (_, name, _) = dns::asked(&bytes[..length]);
            let answer = reply(&bytes[..length], 0, [&[(&name, A, 3600, vec![198, 51, 100, 7])], &[], &[]]);
            let _ = socket.send_to(&answer, from);
        }
    });
    at
}

/// Asks as long as there is more to ask, so many at once; how many answers came.
fn by_datagrams(at: SocketAddr, goes_on: impl Fn(u64) -> bool, name: &mut dyn FnMut(u64) -> String) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(at).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (mut asked, mut answered) = (0, 0);
    let mut bytes = [0; 4096];
    loop {
        let is_over = !goes_on(asked);
        while !is_over && asked - answered < UNDER_WAY {
            socket.send(&question(&name(asked), A)).unwrap();
            asked += 1;
        }
        if asked == answered {
            return answered;
        }
        let length = socket.recv(&mut bytes).unwrap();
        check(&bytes[..length]);
        answered += 1;
    }
}

fn by_connection(at: SocketAddr, goes_on: impl Fn(u64) -> bool, name: &mut dyn FnMut(u64) -> String) -> u64 {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answered = 0;
    while goes_on(answered) {
        let question = question(&name(answered), A);
        let length = u16::try_from(question.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &question].concat()).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut bytes).unwrap();
        check(&bytes);
        answered += 1;
    }
    answered
}

/// An answer that says nothing would be a quick one.
fn check(answer: &[u8]) {
    assert!(answer[3] & 15 == 0 && answer[7] > 0, "{}", dns::words(answer));
}
