//! Flows: distinct 5-tuples over address and port ranges, in seeded pseudorandom order (RFC 4814 sections 4 and 5).

use super::skeleton::types::flow;
use crate::TrafficError;
use crate::random::{SplitMix64, mix};
use measure::shape::TrafficShape;

/// Most flows that the bench sends.
pub const MAX_FLOWS: u32 = 4_000_000;
/// Host numbers below this belong to the gateways and the zones' own ends.
pub const FIRST_HOST: u16 = 256;
/// Hosts that every zone has room for (the smallest zone is a /17).
pub const MAX_HOSTS: u32 = 32_256;
/// RFC 4814 section 4.5: source ports 1024 to 65535.
const CLIENT_PORTS: u64 = 65_536 - 1024;
/// RFC 4814 section 4.5: destination ports 1 to 49151.
pub(super) const SERVER_PORTS: u64 = 49_151;

/// The flows of `shape` in the order in which they are sent.
///
/// # Errors
/// More flows or hosts than the bench can send.
pub(crate) fn generate(shape: &TrafficShape) -> Result<Vec<flow>, TrafficError> {
    check(shape)?;
    let mut random = SplitMix64::new(shape.seed);
    let [clients, servers] = draw_hosts(shape, &mut random);
    let salt = random.next();
    let mut flows: Vec<flow> =
        (0..u64::from(shape.flows)).map(|number| distinct_flow(number, &clients, &servers, salt)).collect();
    random.shuffle(&mut flows);
    Ok(flows)
}

/// The numbers of the clients and of the servers that a load of frames goes between, as they stand in its addresses.
pub fn hosts_of(shape: &TrafficShape) -> [Vec<u16>; 2] {
    draw_hosts(shape, &mut SplitMix64::new(shape.seed))
}

fn draw_hosts(shape: &TrafficShape, random: &mut SplitMix64) -> [Vec<u16>; 2] {
    [shape.clients, shape.servers].map(|count| hosts(count.min(shape.flows), random))
}

fn check(shape: &TrafficShape) -> Result<(), TrafficError> {
    let impossible = |what: String| Err(TrafficError::Impossible(what));
    if shape.flows == 0 || shape.flows > MAX_FLOWS {
        return impossible(format!("{} flows: the bench sends 1 to {MAX_FLOWS}", shape.flows));
    }
    for (count, side) in [(shape.clients, "client"), (shape.servers, "server")] {
        if count == 0 || count > MAX_HOSTS {
            return impossible(format!("{count} {side} addresses: a zone has 1 to {MAX_HOSTS}"));
        }
    }
    Ok(())
}

/// Distinct host numbers spread over the zone's prefix.
fn hosts(count: u32, random: &mut SplitMix64) -> Vec<u16> {
    let mut all: Vec<u16> = (FIRST_HOST..FIRST_HOST + MAX_HOSTS as u16).collect();
    random.shuffle(&mut all);
    all.truncate(count as usize);
    all
}

/// Flow `number` of a one-to-one numbering: clients turn fastest, then servers, then client ports; for a client port
/// that comes again between the same hosts, the server port moves on.
fn distinct_flow(number: u64, clients: &[u16], servers: &[u16], salt: u64) -> flow {
    let client = clients[(number % clients.len() as u64) as usize];
    let rest = number / clients.len() as u64;
    let server = servers[(rest % servers.len() as u64) as usize];
    let rest = rest / servers.len() as u64;
    let pair = mix(salt ^ (u64::from(client) << 16 | u64::from(server)));
    // 27431 has no factor in common with 64512, so successive ports jump about and never repeat within a turn.
    let client_port = (pair + rest % CLIENT_PORTS * 27_431) % CLIENT_PORTS;
    let server_port = (mix(pair ^ client_port) % SERVER_PORTS + rest / CLIENT_PORTS) % SERVER_PORTS;
    flow { client, server, client_port: 1024 + client_port as u16, server_port: 1 + server_port as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::frame::{FrameMix, FrameSize};
    use measure::shape::{Directions, IpVersion, UdpChecksum};
    use std::collections::HashSet;

    fn shape(flows: u32, clients: u32, servers: u32, seed: u64) -> TrafficShape {
        TrafficShape {
            frame: FrameMix::fixed(FrameSize::new(64).unwrap()),
            ip: IpVersion::V4,
            flows,
            clients,
            servers,
            directions: Directions::OneWay,
            udp_checksum: UdpChecksum::Zero,
            fragments: 1,
            cores: 1,
            seed,
        }
    }

    fn tuple(f: &flow) -> (u16, u16, u16, u16) {
        (f.client, f.server, f.client_port, f.server_port)
    }

    #[test]
    fn flows_are_distinct_and_within_the_ranges_of_rfc_4814() {
        for (flows, clients, servers) in
            [(1, 1, 1), (2, 20, 20), (1000, 20, 20), (100_000, 1, 1), (300_000, 3, 1), (65_536, 256, 16)]
        {
            let made = generate(&shape(flows, clients, servers, 7)).unwrap();
            let distinct: HashSet<_> = made.iter().map(tuple).collect();
            assert_eq!(distinct.len(), flows as usize, "{flows} flows from {clients} to {servers}");
            assert!(made.iter().all(|f| f.client_port >= 1024 && (1..=49_151).contains(&f.server_port)));
            let used: HashSet<_> = made.iter().map(|f| f.client).collect();
            assert_eq!(used.len() as u32, clients.min(flows));
            let hosts: [HashSet<u16>; 2] =
                hosts_of(&shape(flows, clients, servers, 7)).map(HashSet::from_iter);
            assert!(hosts[0] == used && made.iter().all(|f| hosts[1].contains(&f.server)));
        }
    }

    #[test]
    fn the_seed_decides() {
        let of = |seed| generate(&shape(1000, 20, 20, seed)).unwrap().iter().map(tuple).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for (flows, clients, servers, said) in [
            (0, 1, 1, "0 flows: the bench sends 1 to 4000000"),
            (4_000_001, 1, 1, "4000001 flows: the bench sends 1 to 4000000"),
            (10, 0, 1, "0 client addresses: a zone has 1 to 32256"),
            (10, 1, 40_000, "40000 server addresses: a zone has 1 to 32256"),
        ] {
            assert_eq!(generate(&shape(flows, clients, servers, 1)).unwrap_err().to_string(), said);
        }
    }
}
