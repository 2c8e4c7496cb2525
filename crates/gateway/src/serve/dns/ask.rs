//! Questions to name servers. Each has a socket of its own, so that its answer comes from the server that was asked, and to a port and with a number
//! that nobody else knows (RFC 5452).

use super::super::Shared;
use super::super::resolve::number;
use crate::config::Gateway;
use crate::dns::answer::{self, Answer, Heard};
use crate::dns::question::{MOST_DATAGRAM, Question};
use crate::reach;
use domain::base::iana::Class;
use domain::base::message_builder::MessageBuilder;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How often each server is asked.
const ROUNDS: usize = 2;
/// The least that a server has to answer.
const LEAST_PATIENCE: Duration = Duration::from_millis(300);
/// Answers that are none, after which it is asked by TCP: somebody is guessing.
const MOST_WRONG: usize = 16;

/// Bytes of an answer by a datagram: more than any server sends that was told how much it may.
const LONGEST_DATAGRAM: usize = 4096;

/// What the first server says that can answer; `None` if none can in time.
pub(super) async fn ask(shared: &Shared, gateway: &Gateway, question: &Question) -> Option<Answer> {
    let all = if gateway.resolvers.is_empty() { &shared.resolvers } else { &gateway.resolvers };
    // Asking itself, it would ask for ever.
    let servers: Vec<SocketAddr> = all.iter().copied().filter(|it| *it != gateway.listen).collect();
    let tries = servers.len() * ROUNDS;
    let patience = (gateway.limits.answer_time / u32::try_from(tries).ok()?.max(1)).max(LEAST_PATIENCE);
    let all_tries = async {
        let first = shared.dns.preferred.load(Ordering::Relaxed);
        for place in (first..first + tries).map(|place| place % servers.len()) {
            Shared::count(&shared.counted.to_servers);
            if let Ok(Ok(Some(answer))) = timeout(patience, ask_one(servers[place], question)).await {
                shared.dns.preferred.store(place, Ordering::Relaxed);
                return Some(answer);
            }
        }
        None
    };
    timeout(gateway.limits.answer_time, all_tries).await.ok().flatten()
}

/// What one server says; `None` if it cannot answer.
async fn ask_one(server: SocketAddr, question: &Question) -> io::Result<Option<Answer>> {
    let (id, mut knows_edns) = (number(), true);
    loop {
        let signatures = question.signatures() && knows_edns;
        let understand = |bytes: &[u8]| {
            answer::read(bytes, id, (&question.name, question.kind), signatures, reach::is_own)
        };
        let bytes = write(question, id, knows_edns)?;
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
fn write(question: &Question, id: u16, has_edns: bool) -> io::Result<Vec<u8>> {
    let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(id);
    builder.header_mut().set_rd(true);
    builder.header_mut().set_cd(question.unchecked);
    let mut builder = builder.question();
    builder.push((&question.name, question.kind, Class::IN)).map_err(too_long)?;
    let mut builder = builder.additional();
    if has_edns {
        let edns = builder.opt(|edns| {
            edns.set_udp_payload_size(MOST_DATAGRAM);
            edns.set_dnssec_ok(question.signatures());
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
