//! Addresses of names, from name servers, by datagrams and by TCP where an answer is too long for one. Each question has a socket and a number of
//! its own, so that nobody who does not see it can answer it.

use super::{Shared, lock};
use crate::config::Gateway;
use crate::dns::lookup::{self as dns, Answer, Kind};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long a name server may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often each of them is asked.
const ROUNDS: usize = 2;

/// Addresses of a name; none if it has none. An error is that nobody could say.
pub(super) async fn resolve(shared: &Shared, gateway: &Gateway, name: &str) -> io::Result<Vec<IpAddr>> {
    if let Some(known) = lock(&shared.names).get(name, Instant::now()) {
        return Ok(known);
    }
    let resolvers = if gateway.resolvers.is_empty() { &shared.resolvers } else { &gateway.resolvers };
    let (v4, v6) = tokio::join!(one_kind(resolvers, name, Kind::A), one_kind(resolvers, name, Kind::Aaaa));
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

async fn one_kind(resolvers: &[SocketAddr], name: &str, kind: Kind) -> io::Result<(Vec<IpAddr>, u32)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no name server");
    for resolver in (0..ROUNDS).flat_map(|_| resolvers) {
        match timeout(PATIENCE, ask(*resolver, name, kind)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn ask(resolver: SocketAddr, name: &str, kind: Kind) -> io::Result<(Vec<IpAddr>, u32)> {
    let id = number();
    let question = dns::question(id, name, kind);
    let any: IpAddr =
        if resolver.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(resolver).await?;
    socket.send(&question).await?;
    let mut bytes = [0; 2048];
    loop {
        let length = socket.recv(&mut bytes).await?;
        match dns::answer(&bytes[..length], id, name, kind) {
            Some(Answer::Addresses(addresses, seconds)) => return Ok((addresses, seconds)),
            Some(Answer::Failed) => return Err(io::Error::other("the name server failed")),
            Some(Answer::Truncated) => return by_stream(resolver, &question, id, name, kind).await,
            None => {}
        }
    }
}

async fn by_stream(
    resolver: SocketAddr,
    question: &[u8],
    id: u16,
    name: &str,
    kind: Kind,
) -> io::Result<(Vec<IpAddr>, u32)> {
    let mut stream = TcpStream::connect(resolver).await?;
    stream.write_all(&[&(question.len() as u16).to_be_bytes(), question].concat()).await?;
    let mut bytes = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut bytes).await?;
    match dns::answer(&bytes, id, name, kind) {
        Some(Answer::Addresses(addresses, seconds)) => Ok((addresses, seconds)),
        _ => Err(io::Error::other("the name server failed")),
    }
}

/// A number that nobody can guess, for questions and ports: the standard library's hasher has keys from the kernel, and is made for that.
pub(super) fn number() -> u16 {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    RandomState::new().hash_one(count) as u16
}
