//! Transparent gateways as the data plane finds them: rules name a place, and the place says where the gateway listens.

use crate::forwarding::local_key;
use crate::skeleton::types::{self, sizes};
use policy::gateways::Gateway;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where a SYN finds a transparent gateway. One that listens at every address is found at the machine's own alone.
fn place_of(listen: SocketAddr) -> types::gateway_place {
    let is_everywhere = listen.ip().is_unspecified();
    // A socket of IPv6 at every address takes IPv4 as well.
    let (v4, v6) = match listen.ip() {
        IpAddr::V4(_) if is_everywhere => (Some(Ipv4Addr::LOCALHOST), None),
        IpAddr::V6(_) if is_everywhere => (Some(Ipv4Addr::LOCALHOST), Some(Ipv6Addr::LOCALHOST)),
        IpAddr::V4(v4) => (Some(v4), None),
        IpAddr::V6(v6) => (None, Some(v6)),
    };
    let mut place = types::gateway_place {
        v4: v4.map_or(0, |v4| u32::from_ne_bytes(v4.octets())),
        port: listen.port().to_be(),
        ..Default::default()
    };
    let words = local_key(v6.unwrap_or(Ipv6Addr::UNSPECIFIED).into());
    for (word, bytes) in place.v6.iter_mut().zip(words.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    place
}

/// Where the transparent gateways of a policy are: each keeps the place that it had in the policy before, because flows know theirs, and no other takes
/// one of those, because packets may still be on their way to it. With them, by the gateways' places in the policy, the numbers that rules have.
pub(super) fn places(before: &Places, gateways: &[Gateway]) -> (Places, Vec<u32>) {
    let mut places = Places::default();
    let number = |gateway: &Gateway| {
        if !gateway.is_transparent() {
            return 0;
        }
        let wanted = place_of(gateway.listen);
        let is_free = |place: usize| before[place].port == 0 && places[place].port == 0;
        let known = before.iter().position(|place| is_same_place(place, &wanted));
        // There are as many as two policies can have.
        let Some(place) = known.or_else(|| (0..before.len()).find(|place| is_free(*place))) else { return 0 };
        places[place] = wanted;
        place as u32 + 1
    };
    let numbers = gateways.iter().map(number).collect();
    (places, numbers)
}

pub(super) type Places = [types::gateway_place; sizes::GATEWAY_PLACES.0 as usize];

fn is_same_place(one: &types::gateway_place, other: &types::gateway_place) -> bool {
    (one.v4, one.v6, one.port) == (other.v4, other.v6, other.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of gateways that listen at these ports, in the order of a policy; 0: it is not transparent.
    fn follow(before: &Places, ports: &[u16]) -> (Places, Vec<u32>) {
        let gateway = |port: &u16| {
            let (mode, port) = if *port == 0 { ("explicit", 1) } else { ("transparent", *port) };
            format!(
                "[gateways.g{port}]\nprotocol = 'http'\nlisten = '10.0.0.1:{port}'\nmode = '{mode}'\n\
                 [[gateways.g{port}.rules]]\nname = 'r'\naction = 'allow'\n"
            )
        };
        let text: String = ports.iter().map(gateway).collect();
        let text = format!("[zones]\na = {{ interfaces = 'a0' }}\n{text}");
        let policy = policy::Policy::parse("p.toml", &text).unwrap();
        places(before, &policy.gateways)
    }

    #[test]
    fn gateways_keep_their_places_and_take_no_place_that_another_has_just_had() {
        let mut before = Places::default();
        let many: Vec<u16> = (100..116).collect();
        for (ports, numbers) in [
            (vec![10, 0, 20], vec![1, 0, 2]),
            (vec![20, 10], vec![2, 1]),
            (vec![30, 10], vec![3, 1]),
            // The place of 20 is free since the policy before.
            (vec![40, 10], vec![2, 1]),
            (many.clone(), (3..=18).collect()),
            ((200..216).collect(), [vec![1, 2], (19..=32).collect()].concat()),
            (vec![215, 10], vec![32, 3]),
        ] {
            let (now, found) = follow(&before, &ports);
            assert_eq!(found, numbers, "{ports:?}");
            before = now;
        }
    }
}
