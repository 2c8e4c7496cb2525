//! Live updates: a stream of server-sent events, each the part of the page that shows the runs that go on. A run knows nothing of
//! it: the file of the runs says which go on, and their journals say how far.

use super::{http, pages};
use crate::place::Place;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How often is looked whether something is new.
const LOOK: Duration = Duration::from_millis(500);

/// Silence after which a line is sent, so that a client that left is noticed.
const SILENCE: Duration = Duration::from_secs(15);

/// Sends the part whenever it has changed, as long as the server is `going` and not beyond `lasting`.
pub(super) fn stream(client: &TcpStream, place: &Place, lasting: Duration, going: impl Fn() -> bool) {
    let began = Instant::now();
    let mut head = http::head(200, "text/event-stream", http::POLICY, "");
    head += "retry: 2000\n\n";
    let mut sent = (Instant::now(), String::new());
    if http::send(client, head.as_bytes()).is_err() {
        return;
    }
    while going() && began.elapsed() < lasting {
        let part = pages::live_part(place);
        let message = if part != sent.1 {
            // A line feed ends a field, so each line of the part is a field of its own.
            let lines: Vec<String> = part.lines().map(|line| format!("data: {line}\n")).collect();
            Some(lines.concat() + "\n")
        } else if sent.0.elapsed() > SILENCE {
            Some(": still here\n\n".to_owned())
        } else {
            None
        };
        if let Some(message) = message {
            if http::send(client, message.as_bytes()).is_err() {
                return;
            }
            sent = (Instant::now(), part);
        }
        std::thread::sleep(LOOK);
    }
}
