//! Names of clients in events: which of them count, and that nobody but the event waits for them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod dns;
mod plain;

use dns::{A, PTR, name, reply};
use gateway::config::Gateway;
use gateway::event::Event;
use gateway::serve::{Server, listen};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A name server that says how clients are called, once it may; with what it was asked.
fn name_server(
    client: Option<&'static str>,
    address: [u8; 4],
) -> (SocketAddr, SyncSender<()>, Receiver<String>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let (go, may_go) = sync_channel::<()>(1);
    let (asked, heard) = sync_channel(100);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        let mut waits = true;
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let question = &bytes[..length];
            let (_, text, kind) = dns::asked(question);
            let _ = asked.send(format!("{kind} {text}"));
            if std::mem::take(&mut waits) && may_go.recv().is_err() {
                return;
            }
            let answer = match (kind, client) {
                (PTR, Some(client)) => {
                    // A label as it is, dots and all.
                    let data = match client.strip_prefix('=') {
                        Some(label) => {
                            [&[u8::try_from(label.len()).unwrap()], label.as_bytes(), &[0]].concat()
                        }
                        None => name(client),
                    };
                    reply(question, 0, [&[(&text, PTR, 60, data)], &[], &[]])
                }
                (A, Some(_)) => reply(question, 0, [&[(&text, A, 60, address.to_vec())], &[], &[]]),
                _ => reply(question, 3, [&[], &[], &[]]),
            };
            let _ = socket.send_to(&answer, from);
        }
    });
    (at, go, heard)
}

/// A gateway that refuses everything, and its events.
fn gateway(resolver: SocketAddr, client_names: bool) -> (Server, SocketAddr, Receiver<Event>) {
    let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let at = listener.local_addr().unwrap();
    let gateway = Gateway { listen: at, resolvers: vec![resolver], client_names, ..plain::gateway() };
    let (sender, events) = sync_channel(100);
    (Server::start(gateway, listener, Vec::new(), sender).unwrap(), at, events)
}

/// A request that is refused; the answer must be there before anybody is asked for a name.
fn ask(at: SocketAddr) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 403"), "{text}");
}

#[test]
fn events_have_names_that_have_the_address_and_no_request_waits_for_them() {
    const OWN: [u8; 4] = [127, 0, 0, 1];
    let questions = |client: &str| {
        vec!["12 1.0.0.127.in-addr.arpa".to_owned(), format!("1 {client}"), format!("28 {client}")]
    };
    for (client, address, expected, asked) in [
        (Some("PC7.office.test"), OWN, Some("pc7.office.test"), 3),
        // The owner of the reverse zone writes what he likes.
        (Some("bank.test"), [192, 0, 2, 1], None, 3),
        (None, OWN, None, 1),
        (Some("=a b"), OWN, None, 1),
        (Some("=a\nb"), OWN, None, 1),
        (Some("=\x1b[2J"), OWN, None, 1),
        (Some("=a.b"), OWN, None, 1),
        (Some("=<script>"), OWN, None, 1),
        (Some(""), OWN, None, 1),
    ] {
        let (resolver, go, heard) = name_server(client, address);
        let (_server, at, events) = gateway(resolver, true);
        ask(at);
        ask(at);
        assert!(events.try_recv().is_err(), "{client:?}: they wait for the name");
        go.send(()).unwrap();
        for _ in 0..2 {
            let event = events.recv_timeout(PATIENCE).unwrap();
            let found = (event.client_name.as_deref(), event.client.ip().to_string());
            assert_eq!(found, (expected, "127.0.0.1".to_owned()), "{client:?}");
        }
        // What is known is not asked for again.
        ask(at);
        assert_eq!(events.recv_timeout(PATIENCE).unwrap().client_name.as_deref(), expected, "{client:?}");
        let mut all: Vec<String> = heard.try_iter().collect();
        all.sort();
        let mut wanted = questions(&client.unwrap_or_default().to_lowercase());
        wanted.truncate(asked);
        wanted.sort();
        assert_eq!(all, wanted, "{client:?}");
    }
}

#[test]
fn no_name_is_looked_up_where_none_is_wanted() {
    let (resolver, _go, heard) = name_server(Some("pc7.test"), [127, 0, 0, 1]);
    let (_server, at, events) = gateway(resolver, false);
    ask(at);
    assert_eq!(events.recv_timeout(PATIENCE).unwrap().client_name, None);
    assert!(heard.try_recv().is_err());
}
