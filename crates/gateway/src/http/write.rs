//! Heads and chunks as the gateway sends them. Every head is written anew from what was understood.

use super::body::Length;
use super::field::is_of_the_client;
use super::head::{Answer, Request};
use super::target::{Authority, Path};
use std::fmt::Write as _;
use std::net::IpAddr;

/// The end of a body in chunks.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The line before a chunk of so many bytes.
pub fn chunk_head(length: usize) -> String {
    format!("{length:x}\r\n")
}

/// A request's head for the server. `client` is what the server learns about who asks, if it is to.
pub fn request(
    request: &Request,
    to: &Authority,
    path: Option<&Path>,
    gateway: &str,
    client: Option<IpAddr>,
) -> Vec<u8> {
    let mut head = String::with_capacity(512);
    let target = path.map_or_else(|| "*".to_owned(), Path::to_string);
    let _ = write!(head, "{} {target} HTTP/1.1\r\nHost: {}", request.method, to.host);
    if let Some(port) = to.port.filter(|port| *port != 80) {
        let _ = write!(head, ":{port}");
    }
    let mut head = head.into_bytes();
    head.extend(b"\r\n");
    for field in request.fields.end_to_end(&request.nominated) {
        // The gateway itself says what it waits for.
        if field.is("host") || field.is("expect") || field.is("via") || is_of_the_client(field) {
            continue;
        }
        line(&mut head, &field.name, &field.value);
    }
    for via in request.fields.all("via") {
        line(&mut head, "Via", &via.value);
    }
    line(&mut head, "Via", format!("1.{} {gateway}", request.minor).as_bytes());
    if let Some(client) = client {
        line(&mut head, "X-Forwarded-For", client.to_string().as_bytes());
    }
    length(&mut head, request.body);
    head.extend(b"\r\n");
    head
}

/// An answer's head for a client of HTTP/1.`minor`, with a body of this length as the client gets it.
pub fn answer(answer: &Answer, method: &str, body: Length, persists: bool, minor: u8) -> Vec<u8> {
    let reason = if answer.reason.is_empty() { phrase(answer.status) } else { &answer.reason };
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", answer.status).into_bytes();
    for field in answer.fields.end_to_end(&answer.nominated) {
        line(&mut head, &field.name, &field.value);
    }
    if body == Length::None && answer.status >= 200 && answer.status != 204 {
        // What the body of a GET would have had (RFC 9110 section 8.6).
        if method == "HEAD" || answer.status == 304 {
            answer.fields.all("content-length").for_each(|field| line(&mut head, &field.name, &field.value));
        }
    }
    length(&mut head, body);
    connection(&mut head, persists, minor);
    head.extend(b"\r\n");
    head
}

/// A page of the gateway's own, of a status and with more fields.
pub fn page(status: u16, persists: bool, minor: u8, is_head: bool, more: &str, text: &str) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", phrase(status)).into_bytes();
    line(&mut head, "Content-Type", b"text/html; charset=utf-8");
    line(&mut head, "Cache-Control", b"no-store");
    head.extend(more.as_bytes());
    length(&mut head, Length::Bytes(text.len() as u64));
    connection(&mut head, persists, minor);
    head.extend(b"\r\n");
    if !is_head {
        head.extend(text.as_bytes());
    }
    head
}

fn connection(head: &mut Vec<u8>, persists: bool, minor: u8) {
    match (persists, minor) {
        (false, _) => line(head, "Connection", b"close"),
        (true, 0) => line(head, "Connection", b"keep-alive"),
        (true, _) => {}
    }
}

fn length(head: &mut Vec<u8>, body: Length) {
    match body {
        Length::Bytes(length) => line(head, "Content-Length", length.to_string().as_bytes()),
        Length::Chunked => line(head, "Transfer-Encoding", b"chunked"),
        Length::None | Length::UntilClose => {}
    }
}

fn line(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend(name.as_bytes());
    head.extend(b": ");
    head.extend(value);
    head.extend(b"\r\n");
}

/// What RFC 9110 section 15 calls a status; the ones that the gateway itself has.
pub fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
