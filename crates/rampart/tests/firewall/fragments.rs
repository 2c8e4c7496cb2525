//! Fragments that come before their first, through a real daemon with few rights: they wait for it, and no longer than a second.

use crate::bed::{Bed, OUTSIDE, until};
use nix::sys::signal::Signal;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

const OUT: &str = "[[rules]]\nname = 'out'\nfrom = 'inside'\nto = 'outside'\naction = 'allow'\n";
const OUTSIDE6: &str = "2001:db8:2::2";
const PORT: u16 = 4000;
/// Bytes of a datagram that takes four fragments.
const BYTES: usize = 5000;

/// Sends fragments of a datagram from inside: address of the receiver, identification, and which ones in which order.
const SEND: &str = r#"
import socket, struct, sys
to, id, order = sys.argv[1], int(sys.argv[2]), [int(n) for n in sys.argv[3].split(",")]
v6 = ":" in to
family = socket.AF_INET6 if v6 else socket.AF_INET
source = socket.inet_pton(family, "2001:db8:1::2" if v6 else "10.81.1.2")
destination = socket.inet_pton(family, to)
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
payload = bytes(i * 7 % 251 for i in range(5000))
udp = struct.pack("!HHHH", 3999, 4000, 8 + len(payload), 0)
pseudo = source + destination + struct.pack("!II", 8 + len(payload), 17)
udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp + payload) or 0xffff)
whole = udp + payload
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("x", 0))
for n in order:
    part, more = whole[n * 1400:(n + 1) * 1400], (n + 1) * 1400 < len(whole)
    if v6:
        header = struct.pack("!IHBB", 6 << 28, 8 + len(part), 44, 64) + source + destination
        header += struct.pack("!BBHI", 17, 0, n * 1400 | more, id)
    else:
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(part), id, n * 175 | more << 13, 64, 17, 0) + source + destination
        header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    link = bytes.fromhex("020000000101" "020000000102") + (b"\x86\xdd" if v6 else b"\x08\x00")
    out.send(link + header + part)
"#;

/// A bed whose hosts have IPv6 addresses as well.
fn bed() -> Bed {
    let bed = Bed::new();
    for (net, host, interface) in [("1", "in", "e1"), ("2", "out", "e0")] {
        for (at, dev, end, other, mac) in [("fw", interface, 1, 2, 2), (host, "x", 2, 1, 1)] {
            let own = format!("2001:db8:{net}::{end}/64");
            bed.ip(at, &["address", "add", &own, "dev", dev, "nodad"]);
            let (neighbour, mac) = (format!("2001:db8:{net}::{other}"), format!("02:00:00:00:0{net}:0{mac}"));
            bed.ip(at, &["neighbour", "add", &neighbour, "lladdr", &mac, "dev", dev]);
        }
        let router = format!("2001:db8:{net}::1");
        bed.ip(host, &["-6", "route", "add", "default", "via", &router]);
    }
    bed
}

fn send(bed: &Bed, to: &str, id: u16, order: &str) {
    bed.host_of("in").run("python3", &["-c", SEND, to, &id.to_string(), order]);
}

fn receiver(bed: &Bed, address: &str) -> UdpSocket {
    let socket = bed.inside("out", || UdpSocket::bind((address, PORT)).unwrap());
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Waits for a datagram, whole and unharmed.
fn expect_whole(socket: &UdpSocket, what: &str) {
    let mut bytes = [0; 2 * BYTES];
    let (length, _) = socket.recv_from(&mut bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let expected: Vec<u8> = (0..BYTES).map(|i| (i * 7 % 251) as u8).collect();
    assert_eq!(bytes[..length], expected, "{what}");
}

fn expect_nothing(socket: &UdpSocket, what: &str) {
    socket.set_nonblocking(true).unwrap();
    let error = socket.recv_from(&mut [0]).expect_err(what);
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{what}");
}

fn kept(bed: &Bed) -> u64 {
    bed.counted("fragments-kept")
}

#[test]
fn needs_root_fragments_arrive_in_any_order() {
    for hook in ["tc", "xdp"] {
        let bed = bed();
        let _firewall = bed.up(&bed.policy("p.toml", OUT), hook);
        for to in [OUTSIDE, OUTSIDE6] {
            let socket = receiver(&bed, to);
            for (id, (order, early)) in
                [("0,1,2,3", 0), ("3,2,1,0", 3), ("1,0,3,2", 1), ("2,3,0,1", 2)].into_iter().enumerate()
            {
                let before = kept(&bed);
                send(&bed, to, id as u16 + 1, order);
                expect_whole(&socket, &format!("{hook}, {to}, {order}"));
                assert_eq!(kept(&bed) - before, early, "{hook}, {to}, {order}");
            }
        }
        assert_eq!(bed.dropped("fragment-unknown"), 0, "{hook}");
    }
}

/// What waits is judged by the policy that is in force when its first fragment comes. In the end every fragment is counted as dropped, but for
/// those that a daemon had taken when it was killed.
#[test]
fn needs_root_fragments_that_wait_in_vain_are_dropped_and_counted() {
    for hook in ["tc", "xdp"] {
        let bed = bed();
        let (open, closed) = (bed.policy("open.toml", OUT), bed.policy("closed.toml", ""));
        let mut firewall = bed.up(&open, hook);
        let socket = receiver(&bed, OUTSIDE);
        let lost = |count: u64, what: &str| {
            until(&format!("{hook}: {what}"), || bed.dropped("fragment-unknown") >= count);
            assert_eq!(bed.dropped("fragment-unknown"), count, "{hook}: {what}");
            expect_nothing(&socket, what);
        };
        send(&bed, OUTSIDE, 1, "1,2,3");
        lost(3, "the first never comes");
        send(&bed, OUTSIDE, 1, "0");
        send(&bed, OUTSIDE, 2, "3,2,1");
        bed.json(&["apply", &closed]);
        send(&bed, OUTSIDE, 2, "0");
        lost(6, "the policy of the first one's moment denies it");
        bed.json(&["apply", &open]);
        firewall.signal(Signal::SIGKILL);
        firewall.end();
        send(&bed, OUTSIDE, 4, "1,2");
        let _next = bed.up_with(&[]);
        lost(8, "the daemon was killed");
        socket.set_nonblocking(false).unwrap();
        send(&bed, OUTSIDE, 5, "3,2,1,0");
        expect_whole(&socket, &format!("{hook}: the next daemon keeps fragments"));
    }
}
