//! What a client reads when its request is not carried.

use crate::config::Gateway;
use crate::http::{Fault, write};

/// What a request had, as far as it was understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    /// Whether the connection goes on after the page.
    pub(super) persists: bool,
    pub(super) minor: u8,
    pub(super) is_head: bool,
}

/// The page of a fault. Nothing of what the client sent is in it.
pub(super) fn of(gateway: &Gateway, fault: Fault, rule: Option<&str>, reader: Reader) -> Vec<u8> {
    let what = match fault.status {
        401 | 407 => "The firewall has to know who asks.",
        429 => "Too many attempts to log in have failed. Try again later.",
        403 => "The firewall does not allow this request.",
        405 => "This gateway has no tunnels.",
        408 => "The request did not come in time.",
        413 => "The request is larger than it may be.",
        421 => "There is no such server here.",
        431 => "The request's head is larger than it may be.",
        502 => "The server's answer could not be had.",
        503 if fault.reason == "too-many-logins" => "Too many want to log in at once. Try again.",
        503 => "There are too many connections. Try again.",
        504 => "The server did not answer in time.",
        505 => "This gateway speaks HTTP/1.0 and HTTP/1.1.",
        _ => "The request is not one that every server understands alike.",
    };
    let (status, phrase, name) = (fault.status, write::phrase(fault.status), &gateway.name);
    let rule = rule.map(|rule| format!(", rule {rule}")).unwrap_or_default();
    let text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><title>{status} {phrase}</title></head>\n<body><h1>{phrase}</h1>\n<p>{what}</p>\n\
         <p>Gateway {name}{rule}, reason {}</p>\n</body></html>\n",
        fault.reason
    );
    let challenge = || format!("Basic realm=\"{name}\", charset=\"UTF-8\"\r\n");
    let more = match status {
        401 => "WWW-Authenticate: ".to_owned() + &challenge(),
        407 => "Proxy-Authenticate: ".to_owned() + &challenge(),
        405 => "Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\n".to_owned(),
        _ => String::new(),
    };
    write::page(status, reader.persists, reader.minor, reader.is_head, &more, &text)
}
