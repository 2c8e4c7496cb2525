//! A request and its answer without sockets: what the gateway would send on of bytes that are all there. [`crate::serve`] does the same with bytes
//! that come one after the other, by the same functions; this is how they are tested.

use crate::config::Gateway;
use crate::decide::{self, Asked, Decision};
use crate::http::body::{Chunked, Length, Step};
use crate::http::head::{self, Limits, Request};
use crate::http::{Fault, basic, write};
use crate::users::Who;
use std::net::{IpAddr, SocketAddr};

/// What became of the first request of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// More bytes have to come.
    More,
    /// It is refused.
    Refused(Fault),
    /// It goes on: these bytes, and so many were read for it.
    Sent(Vec<u8>, usize),
    /// It gets a tunnel to host and port; so many bytes were read for it.
    Tunnel(String, usize),
}

/// Judges the first request of some bytes.
pub fn pass_on(gateway: &Gateway, client: IpAddr, bytes: &[u8]) -> Outcome {
    pass_on_at(gateway, client, gateway.listen, bytes)
}

/// Judges the first request of some bytes that came on a connection to an address.
pub fn pass_on_at(gateway: &Gateway, client: IpAddr, at: SocketAddr, bytes: &[u8]) -> Outcome {
    pass_on_of(gateway, client, at, None, bytes)
}

/// The same of a request by somebody whose password was right.
pub fn pass_on_of(
    gateway: &Gateway,
    client: IpAddr,
    at: SocketAddr,
    who: Option<&Who>,
    bytes: &[u8],
) -> Outcome {
    let (mut request, read) = match head::request(bytes, gateway.limits.head()) {
        Ok(Some(found)) => found,
        Ok(None) => return Outcome::More,
        Err(fault) => return Outcome::Refused(fault),
    };
    let offered = match basic::take(gateway, &mut request.fields) {
        Ok(offered) => offered,
        Err(fault) => return Outcome::Refused(fault),
    };
    let known = who.filter(|who| offered.is_some_and(|offered| offered.is_ok_and(|it| it.name == who.name)));
    let asked = match judged(gateway, client, at, known, &request) {
        Ok((_, asked)) => asked,
        Err(fault) => return Outcome::Refused(fault),
    };
    if asked.is_tunnel {
        return Outcome::Tunnel(asked.host(), read);
    }
    let mut out = request_head(gateway, client, &request, &asked);
    match body(&bytes[read..], request.body) {
        Ok(Some((content, length))) => {
            if request.body == Length::Chunked {
                if !content.is_empty() {
                    out.extend(write::chunk_head(content.len()).as_bytes());
                    out.extend(&content);
                    out.extend(b"\r\n");
                }
                out.extend(write::LAST_CHUNK);
            } else {
                out.extend(&content);
            }
            Outcome::Sent(out, read + length)
        }
        Ok(None) => Outcome::More,
        Err(fault) => Outcome::Refused(fault),
    }
}

/// The rule that allows a request, a place among the gateway's, and what it asks for.
///
/// # Errors
/// It is refused.
pub fn judged(
    gateway: &Gateway,
    client: IpAddr,
    at: SocketAddr,
    who: Option<&Who>,
    request: &Request,
) -> Result<(usize, Asked), Fault> {
    let asked = Asked { who: who.cloned(), ..decide::asked(gateway, request, at)? };
    let decision = decide::decide(gateway, client, &request.method, &asked);
    match decide::alike(gateway, client, request, &asked, decision) {
        Decision::Refuse(_, fault) => Err(fault),
        Decision::Authenticate(_) => Err(decide::challenge(gateway, "no-user")),
        Decision::Allow(rule) if !decide::fits(request.body, gateway.rules[rule].largest_request) => {
            Err(Fault::with_status(413, "request-too-large"))
        }
        Decision::Allow(rule) => Ok((rule, asked)),
    }
}

/// The head of a request as the server gets it.
pub fn request_head(gateway: &Gateway, client: IpAddr, request: &Request, asked: &Asked) -> Vec<u8> {
    let client = gateway.forwarded_for.then_some(client);
    let authority = crate::http::target::Authority { port: Some(asked.port), ..asked.authority.clone() };
    write::request(request, &authority, asked.path.as_ref(), &format!("rampart-{}", gateway.name), client)
}

/// The content of a whole body, and how many bytes it took.
fn body(bytes: &[u8], length: Length) -> Result<Option<(Vec<u8>, usize)>, Fault> {
    match length {
        Length::None | Length::UntilClose => Ok(Some((Vec::new(), 0))),
        Length::Bytes(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            Ok(bytes.get(..length).map(|content| (content.to_vec(), length)))
        }
        Length::Chunked => {
            let (mut chunks, mut content, mut at) = (Chunked::default(), Vec::new(), 0);
            loop {
                match chunks.next(&bytes[at..])? {
                    Step::Data(data, read) => {
                        content.extend(&bytes[at + data.start..at + data.end]);
                        at += read;
                    }
                    Step::More => return Ok(None),
                    Step::End(read) => return Ok(Some((content, at + read))),
                }
            }
        }
    }
}

/// Reads one answer as the gateway would, and says how the client would get it.
///
/// # Errors
/// The answer is none that everybody understands alike.
pub fn pass_back(method: &str, minor: u8, bytes: &[u8], limits: Limits) -> Result<Option<Vec<u8>>, Fault> {
    let Some((answer, read)) = head::answer(method, bytes, limits)? else { return Ok(None) };
    let length = client_length(answer.body, minor);
    let persists = length != Length::UntilClose;
    let mut out = write::answer(&answer, method, length, persists, minor);
    let rest = &bytes[read..];
    let content = if answer.body == Length::UntilClose {
        Some((rest.to_vec(), rest.len()))
    } else {
        body(rest, answer.body)?
    };
    let Some((content, _)) = content else { return Ok(None) };
    match length {
        Length::Chunked => {
            if !content.is_empty() {
                out.extend(write::chunk_head(content.len()).as_bytes());
                out.extend(&content);
                out.extend(b"\r\n");
            }
            out.extend(write::LAST_CHUNK);
        }
        _ => out.extend(&content),
    }
    Ok(Some(out))
}

/// How a client of HTTP/1.`minor` learns where a body ends that the server ended so. An end of the connection becomes a last chunk, so that a
/// server that breaks off is known from one that has finished.
pub fn client_length(of_server: Length, minor: u8) -> Length {
    match (of_server, minor) {
        (Length::Chunked | Length::UntilClose, 0) => Length::UntilClose,
        (Length::UntilClose, _) => Length::Chunked,
        (length, _) => length,
    }
}
