//! Servers of HTTP/2 that do not do what they should, and what a client makes of each. They write their frames themselves, without the
//! library that client and server have.

use crate::app::client::{Arrival, Stop};
use crate::app::one_transaction::{HOST, MINUTE, SHORT, one_transaction, reset_on_close};
use crate::app::tls::Identity;
use measure::application::{Failure, Protocol};
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The most that a frame may hold (RFC 9113 section 4.2).
const FRAME: usize = 16 * 1024;

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Honest,
    /// Does not state the file's length, which it need not.
    StatesNoLength,
    /// Agrees upon no protocol in the handshake.
    NoAlpn,
    /// Agrees upon HTTP/1.1 alone.
    OtherAlpn,
    /// Agrees upon HTTP/2 and speaks HTTP/1.1.
    SpeaksHttp1,
    /// Sends something that was not asked for.
    Pushes,
    NeverAnswers,
    /// Reads the request and resets the connection.
    Resets,
    /// Refuses the request's stream.
    RefusesStream,
    /// Ends the stream within the file.
    ResetsStream,
    /// Answers no request, and says so.
    GoesAway,
    /// Says so within the file, and closes.
    GoesAwayLate,
    /// Says that it answers this request and no other, and closes within the file.
    CutsLast,
    /// Ends within the file without a close_notify.
    Cuts,
    /// Ends within the file and says so.
    CutsOpenly,
    /// Ends the stream before the file is whole.
    EndsStream,
    /// The same, though it stated the length.
    EndsStatedStream,
    /// Ends behind the file without a close_notify.
    EndsUnsaid,
    /// Does not end the connection after its last answer.
    StaysOpen,
    Changes,
    Adds,
    WrongLength,
    /// Sends a record that nobody sealed.
    Forges,
    Refuses,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const NO_ERROR: u8 = 0;
const INTERNAL_ERROR: u8 = 2;
const REFUSED_STREAM: u8 = 7;

/// A frame (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// The head of an answer in HPACK (RFC 7541): a field of the static table, or a literal one of a name of that table.
fn head(status: &str, length: Option<usize>) -> Vec<u8> {
    let mut fields = if status == "200" { vec![0x88] } else { [&[0x08, 3][..], status.as_bytes()].concat() };
    if let Some(length) = length {
        let digits = length.to_string();
        // `content-length` is number 28.
        fields.extend([0x0f, 28 - 15, digits.len() as u8]);
        fields.extend(digits.as_bytes());
    }
    frame(HEADERS, END_HEADERS, 1, &fields)
}

/// A file as frames, of which the last one ends the stream.
fn body(bytes: &[u8]) -> Vec<u8> {
    let whole = frame(DATA, END_STREAM, 1, &[]);
    [part(bytes), whole].concat()
}

fn part(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(FRAME).flat_map(|piece| frame(DATA, 0, 1, piece)).collect()
}

fn go_away(last_stream: u8, reason: u8) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[0, 0, 0, last_stream, 0, 0, 0, reason])
}

/// What a server says once it has a request.
fn said(deed: Deed, file: &[u8]) -> Vec<u8> {
    let length = Some(file.len());
    let half = &file[..file.len() / 2];
    match deed {
        Deed::SpeaksHttp1 => return b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(),
        Deed::NeverAnswers => return Vec::new(),
        _ => {}
    }
    let rest: Vec<u8> = match deed {
        Deed::Pushes => frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
        Deed::RefusesStream => frame(RST_STREAM, 0, 1, &[0, 0, 0, REFUSED_STREAM]),
        Deed::ResetsStream => {
            [head("200", length), part(half), frame(RST_STREAM, 0, 1, &[0, 0, 0, INTERNAL_ERROR])].concat()
        }
        Deed::GoesAway => go_away(0, NO_ERROR),
        Deed::GoesAwayLate => [head("200", length), part(half), go_away(0, INTERNAL_ERROR)].concat(),
        Deed::CutsLast => [head("200", length), part(half), go_away(1, NO_ERROR)].concat(),
        Deed::Cuts | Deed::CutsOpenly => {
            let all = [head("200", length), part(file)].concat();
            all[..all.len() - 1].to_vec()
        }
        Deed::EndsStream => [head("200", None), body(half)].concat(),
        Deed::EndsStatedStream => [head("200", length), body(half)].concat(),
        Deed::Changes => {
            let mut changed = file.to_vec();
            *changed.last_mut().unwrap() ^= 1;
            [head("200", length), body(&changed)].concat()
        }
        Deed::Adds => [head("200", None), body(&[file, b"\n"].concat())].concat(),
        Deed::WrongLength => [head("200", Some(file.len() - 1)), body(file)].concat(),
        Deed::Refuses => [head("403", Some(0)), body(&[])].concat(),
        Deed::StatesNoLength => [head("200", None), body(file), go_away(1, NO_ERROR)].concat(),
        Deed::StaysOpen => [head("200", length), body(file)].concat(),
        _ => [head("200", length), body(file), go_away(1, NO_ERROR)].concat(),
    };
    [frame(SETTINGS, 0, 0, &[]), rest].concat()
}

async fn act(deed: Deed, stream: TcpStream, acceptor: TlsAcceptor, file: &[u8]) -> io::Result<()> {
    let mut tls = acceptor.accept(stream).await?;
    read_request(&mut tls).await?;
    if deed == Deed::Resets {
        reset_on_close(tls.get_ref().0);
        return Ok(());
    }
    tls.write_all(&said(deed, file)).await?;
    tls.flush().await?;
    match deed {
        Deed::Forges => tls.get_mut().0.write_all(&[&[0x17, 3, 3, 0, 40][..], &[7; 40]].concat()).await?,
        // The records end, and nobody said so.
        Deed::Cuts | Deed::EndsUnsaid => tls.get_mut().0.shutdown().await?,
        Deed::StaysOpen | Deed::NeverAnswers => {}
        _ => tls.shutdown().await?,
    }
    // A client that has not yet read everything must not get a reset.
    tls.read_to_end(&mut Vec::new()).await.map(drop)
}

/// Reads up to the head of the first request: behind the preface, frames begin with their length and kind.
async fn read_request<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await?;
        if head[3] == HEADERS {
            return Ok(());
        }
    }
}

/// The server's end of TLS, which agrees upon these protocols.
fn with_alpn(acceptor: &TlsAcceptor, alpn: &[&[u8]]) -> TlsAcceptor {
    let mut config = ServerConfig::clone(acceptor.config());
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config).into()
}

fn met(deed: Deed, limit: Duration) -> Result<Arrival, Stop> {
    let Identity { connector, acceptor } = Identity::new(&[HOST], Protocol::Http2).unwrap();
    let acceptor = match deed {
        Deed::NoAlpn => with_alpn(&acceptor, &[]),
        Deed::OtherAlpn => with_alpn(&acceptor, &[b"http/1.1"]),
        _ => acceptor,
    };
    let serve = async |stream: TcpStream, file: &[u8]| act(deed, stream, acceptor, file).await;
    one_transaction(Protocol::Http2, &connector, limit, serve)
}

#[test]
fn every_failure_of_http2_is_told_by_what_the_client_saw() {
    for deed in [Deed::Honest, Deed::StatesNoLength] {
        let arrival = met(deed, MINUTE).unwrap();
        assert!(arrival.first.is_some() && arrival.first <= arrival.last);
    }
    let rows = [
        (Deed::NoAlpn, Failure::Alpn),
        (Deed::OtherAlpn, Failure::Alpn),
        (Deed::SpeaksHttp1, Failure::Protocol),
        (Deed::Pushes, Failure::Protocol),
        (Deed::NeverAnswers, Failure::Timeout),
        (Deed::Resets, Failure::Reset),
        (Deed::RefusesStream, Failure::StreamReset),
        (Deed::ResetsStream, Failure::StreamReset),
        (Deed::GoesAway, Failure::GoAway),
        (Deed::GoesAwayLate, Failure::GoAway),
        (Deed::CutsLast, Failure::Short),
        (Deed::Cuts, Failure::Short),
        (Deed::CutsOpenly, Failure::Short),
        (Deed::EndsStream, Failure::Short),
        (Deed::EndsStatedStream, Failure::Protocol),
        (Deed::EndsUnsaid, Failure::Short),
        (Deed::StaysOpen, Failure::Timeout),
        (Deed::Changes, Failure::Content),
        (Deed::Adds, Failure::Content),
        (Deed::WrongLength, Failure::Content),
        (Deed::Forges, Failure::Record),
        (Deed::Refuses, Failure::Status),
    ];
    let wrong = rows.map(|(deed, expected)| {
        let waits = expected == Failure::Timeout;
        match met(deed, if waits { SHORT } else { MINUTE }) {
            Err(Stop::Failed(failure)) if failure == expected => String::new(),
            other => format!("{deed:?}: {other:?} "),
        }
    });
    assert_eq!(wrong.concat(), "");
}
