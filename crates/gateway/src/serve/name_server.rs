//! A question to a name server. Each has a socket of its own, so that its answer comes from the server that was asked, and to a port and with a number
//! that nobody else knows (RFC 5452).

use crate::dns::answer::{self, Answer, Heard};
use crate::dns::cache::Key;
use crate::dns::question::MOST_DATAGRAM;
use domain::base::iana::Class;
use domain::base::message_builder::MessageBuilder;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

/// Answers that are none, after which it is asked by TCP: somebody is guessing.
const MOST_WRONG: usize = 16;
/// Bytes of an answer by a datagram: more than any server sends that knows how many are taken.
const LONGEST_DATAGRAM: usize = 4096;

/// What a server says; `None` if it cannot answer. `is_own` says whether this machine has an address.
pub(super) async fn ask(
    server: SocketAddr,
    asked: &Key,
    is_own: fn(IpAddr) -> bool,
) -> io::Result<Option<Answer>> {
    let (id, mut knows_edns) = (number(), true);
    loop {
        let signatures = asked.signatures && knows_edns;
        let understand =
            |bytes: &[u8]| answer::read(bytes, id, (&asked.name, asked.kind), signatures, is_own);
        let bytes = write(asked, id, knows_edns)?;
        let mut heard = by_datagram(server, &bytes, &understand).await?;
        if heard == Heard::Truncated {
            heard = by_stream(server, &bytes, &understand).await?;
        }
        match heard {
            Heard::Answer(answer) => return Ok(Some(answer)),
            Heard::NoEdns if knows_edns => knows_edns = false,
            Heard::NoEdns | Heard::Failed | Heard::Truncated => return Ok(None),
        }
    }
}

/// The question as the server gets it. Nothing of the client but what it wants to know is in it.
fn write(asked: &Key, id: u16, has_edns: bool) -> io::Result<Vec<u8>> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(id);
    builder.header_mut().set_rd(true);
    builder.header_mut().set_cd(asked.unchecked);
    let mut builder = builder.question();
    builder.push((&asked.name, asked.kind, Class::IN)).map_err(too_long)?;
    let mut builder = builder.additional();
    if has_edns {
        let edns = builder.opt(|edns| {
            edns.set_udp_payload_size(MOST_DATAGRAM);
            edns.set_dnssec_ok(asked.signatures);
            Ok(())
        });
        edns.map_err(too_long)?;
    }
    Ok(builder.finish())
}

async fn by_datagram(
    server: SocketAddr,
    question: &[u8],
    understand: &impl Fn(&[u8]) -> Option<Heard>,
) -> io::Result<Heard> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    // From now on the kernel takes datagrams of this server alone.
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut bytes = vec![0; LONGEST_DATAGRAM];
    for _ in 0..MOST_WRONG {
        let length = socket.recv(&mut bytes).await?;
        if let Some(heard) = understand(&bytes[..length]) {
            return Ok(heard);
        }
    }
    Ok(Heard::Truncated)
}

async fn by_stream(
    server: SocketAddr,
    question: &[u8],
    understand: &impl Fn(&[u8]) -> Option<Heard>,
) -> io::Result<Heard> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(&[&(question.len() as u16).to_be_bytes(), question].concat()).await?;
    let mut bytes = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut bytes).await?;
    Ok(understand(&bytes).unwrap_or(Heard::Failed))
}

/// A number that nobody can guess, for questions and ports: the standard library's hasher has keys from the kernel, and is made for that.
pub(super) fn number() -> u16 {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    RandomState::new().hash_one(count) as u16
}
