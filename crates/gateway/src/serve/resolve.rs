//! Addresses of names, for gateways that connect to servers.

use super::{Shared, lock, name_server};
use crate::config::Gateway;
use crate::dns::answer::Answer;
use crate::dns::cache::Key;
use crate::dns::name::{Wire, reverse};
use domain::base::Name;
use domain::base::iana::Rtype;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long a name server may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often each of them is asked.
const ROUNDS: usize = 2;
/// Bytes of a host's name at most (RFC 1035 section 2.3.4), without its last dot.
const LONGEST_NAME: usize = 253;
/// Addresses of a name, of each kind, that are kept.
const MOST_ADDRESSES: usize = 16;

/// Addresses of a name; none if it has none. An error is that nobody could say.
pub(super) async fn resolve(shared: &Shared, gateway: &Gateway, name: &str) -> io::Result<Vec<IpAddr>> {
    if let Some(known) = lock(&shared.names).get(name, Instant::now()) {
        return Ok(known);
    }
    let resolvers = if gateway.resolvers.is_empty() { &shared.resolvers } else { &gateway.resolvers };
    let wire: Wire = Name::vec_from_str(name).map_err(io::Error::other)?;
    let (v4, v6) =
        tokio::join!(one_kind(resolvers, &wire, Rtype::A), one_kind(resolvers, &wire, Rtype::AAAA));
    let (mut addresses, mut seconds, mut failure) = (Vec::new(), u32::MAX, None);
    for found in [v4, v6] {
        match found {
            Ok((more, lifetime)) => {
                if !more.is_empty() {
                    seconds = seconds.min(lifetime);
                }
                addresses.extend(more);
            }
            Err(error) => failure = Some(error),
        }
    }
    if addresses.is_empty() {
        if let Some(error) = failure {
            return Err(error);
        }
        seconds = 0;
    }
    lock(&shared.names).put(name, addresses.clone(), seconds, Instant::now());
    Ok(addresses)
}

/// The name of an address, in small letters, if that name has this address and is one that a host can have.
pub(super) async fn name_of(shared: &Shared, gateway: &Gateway, address: IpAddr) -> Option<String> {
    let resolvers = if gateway.resolvers.is_empty() { &shared.resolvers } else { &gateway.resolvers };
    let wire: Wire = Name::vec_from_str(&reverse(address)).ok()?;
    let name = ask(resolvers, &wire, Rtype::PTR).await.ok()?.pointer()?.to_ascii_lowercase();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.is_empty() || name.starts_with('.') || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
        return None;
    }
    resolve(shared, gateway, &name).await.ok()?.contains(&address).then_some(name)
}

async fn one_kind(resolvers: &[SocketAddr], name: &Wire, kind: Rtype) -> io::Result<(Vec<IpAddr>, u32)> {
    ask(resolvers, name, kind).await.map(|answer| (answer.addresses(MOST_ADDRESSES), answer.lifetime))
}

/// Asks one name server after the other.
async fn ask(resolvers: &[SocketAddr], name: &Wire, kind: Rtype) -> io::Result<Answer> {
    let asked = Key { name: name.clone(), kind, signatures: false, unchecked: false };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no name server");
    for resolver in (0..ROUNDS).flat_map(|_| resolvers) {
        // Whether an address may be connected to is judged where that is done.
        match timeout(PATIENCE, name_server::ask(*resolver, &asked, |_| false)).await {
            Ok(Ok(Some(answer))) => return Ok(answer),
            Ok(Ok(None)) => last = io::Error::other("the name server failed"),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}
