//! Paths that are narrower than the links at their ends, between real stacks: the sender of too much hears of it, from the firewall or from a router
//! behind it, through translation, also about large segments that are cut on their way out. Where nobody tells, an end that
//! probes gets along. Chains of extension headers, as many as there may be, are a part of it: errors quote them.

use crate::crossing::{CLIENT, Crossing, HOST_DEVICE, SERVER};
use dataplane::{Hook, Reason, Tally};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use testkit::namespace::Namespace;
use testkit::packet::frame;

const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];
/// Longer than any transfer takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Many segments, and many that the sender's kernel joins.
const BYTES: usize = 300_000;
/// Behind a router, whose link to it takes 1,280 bytes. It says nothing of that when a connection begins.
const FAR: [&str; 2] = ["198.19.9.2", "2001:2:0:9::2"];

/// The server becomes a router to a host behind a narrow link.
fn beyond(crossing: &Crossing) -> Namespace {
    let far = Namespace::create("far");
    crossing.server.ip(&format!(
        "link add tofar type veth peer name {HOST_DEVICE} netns {}
         link set tofar mtu 1280 up
         address add 198.19.9.1/24 dev tofar
         address add 2001:2:0:9::1/64 dev tofar nodad",
        far.name()
    ));
    far.ip(&format!(
        "address add 198.19.9.2/24 dev {HOST_DEVICE}
         address add 2001:2:0:9::2/64 dev {HOST_DEVICE} nodad
         link set {HOST_DEVICE} up
         route add default via 198.19.9.1
         -6 route add default via 2001:2:0:9::1"
    ));
    crossing.server.set(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
    crossing.firewall.ip("route add 198.19.9.0/24 via 198.19.0.2
         -6 route add 2001:2:0:9::/64 via 2001:2:0:2::2");
    far
}

/// The client sends to the server, or to who is behind it, and the other end must have every byte.
fn upload(crossing: &Crossing, far: Option<&Namespace>, address: &str, what: &str) {
    let content: Vec<u8> = (0..BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let at = SocketAddr::new(address.parse().unwrap(), 0);
    let listener = far.unwrap_or(&crossing.server).enter(|| TcpListener::bind(at).unwrap());
    let at = listener.local_addr().unwrap();
    let receiving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).map(|_| all)
    });
    let sent = crossing.client.enter(|| {
        let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&content)?;
        stream.shutdown(Shutdown::Write)
    });
    sent.unwrap_or_else(|error| panic!("{what}: {at}: {error}"));
    let received = receiving.join().unwrap().unwrap_or_else(|error| panic!("{what}: {at}: {error}"));
    assert!(received == content, "{what}: {at}: {} bytes, not what was sent", received.len());
}

/// What the client has learned of paths is forgotten.
fn forget_paths(crossing: &Crossing) {
    crossing.client.ip("route flush cache\n-6 route flush cache");
}

type Count = fn(&mut Crossing) -> u64;

/// Errors about a flow that were let through.
const BY_A_ROUTER: Count = |crossing| crossing.tally(Tally::Related);
/// Errors of its own.
const BY_THE_FIREWALL: Count = |crossing| crossing.dropped(Reason::TooBig);

/// Uploads to these addresses, about each of which the sender must hear.
fn expect_an_answer(
    crossing: &mut Crossing,
    far: Option<&Namespace>,
    addresses: &[&str],
    count: Count,
    what: &str,
) {
    forget_paths(crossing);
    for address in addresses {
        let before = count(crossing);
        upload(crossing, far, address, what);
        assert!(count(crossing) > before, "{what}: {address}: nobody heard of it");
    }
}

/// Prefixes of IPv6 are rows of `crates/dataplane/tests/nat`.
#[test]
fn a_sender_of_too_much_hears_of_it_also_behind_a_masquerade() {
    for hook in HOOKS {
        let mut crossing = Crossing::build(hook);
        let host = beyond(&crossing);
        let far = Some(&host);
        expect_an_answer(&mut crossing, far, &FAR, BY_A_ROUTER, &format!("{hook:?}, a router's link"));
        crossing.masquerade();
        expect_an_answer(
            &mut crossing,
            far,
            &FAR[..1],
            BY_A_ROUTER,
            &format!("{hook:?}, masqueraded, a router's link"),
        );
        crossing.firewall.ip("link set toserver mtu 1280");
        expect_an_answer(
            &mut crossing,
            None,
            &SERVER[..1],
            BY_THE_FIREWALL,
            &format!("{hook:?}, masqueraded, its own link"),
        );
        crossing.set("");
        expect_an_answer(&mut crossing, None, &SERVER, BY_THE_FIREWALL, &format!("{hook:?}, its own link"));
    }
}

/// The control, and where the kernel forwards: there the kernel says it.
#[test]
fn a_sender_of_too_much_hears_of_it_where_the_kernel_forwards() {
    for (what, build) in [
        ("nftables", Crossing::build_with_nftables as fn() -> Crossing),
        ("kernel", Crossing::build_with_kernel),
    ] {
        let crossing = build();
        let far = beyond(&crossing);
        for address in FAR {
            upload(&crossing, Some(&far), address, what);
        }
        crossing.firewall.ip("link set toserver mtu 1280");
        for address in SERVER {
            upload(&crossing, None, address, what);
        }
    }
}

/// A router whose errors get lost: an end that probes for the size of its path (RFC 4821) sends what was too large again in smaller pieces, and these
/// belong to its connection.
#[test]
fn an_end_that_probes_gets_along_where_errors_are_lost() {
    for hook in HOOKS {
        let mut crossing = Crossing::build(hook);
        let far = beyond(&crossing);
        crossing.server.nft(
            "table inet silent { chain output {
                type filter hook output priority 0;
                icmp type destination-unreachable counter drop
                icmpv6 type packet-too-big counter drop
            }; }",
        );
        crossing.client.set(&[("ipv4/tcp_mtu_probing", "2"), ("ipv4/tcp_base_mss", "1024")]);
        for translated in [false, true] {
            let addresses = if translated { &FAR[..1] } else { &FAR[..] };
            if translated {
                crossing.masquerade();
            }
            for address in addresses {
                upload(&crossing, Some(&far), address, &format!("{hook:?}, translated: {translated}"));
            }
        }
    }
}

/// Sends a frame, in pages of memory that the kernel does not copy: a buffer of which but the Ethernet header can be read directly (packet(7),
/// PACKET_TX_RING).
const SEND_IN_PAGES: &str = r#"
import mmap, socket, struct, sys
frame = bytes.fromhex(sys.argv[2])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
out.setsockopt(263, 13, struct.pack("4I", 4096, 1, 2048, 2))
ring = mmap.mmap(out.fileno(), 4096)
out.bind((sys.argv[1], 0))
ring[32:32 + len(frame)] = frame
ring[8:16] = struct.pack("II", len(frame), len(frame))
ring[0:8] = struct.pack("Q", 1)
out.send(b"")
"#;
const SEND: &str = r#"
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
out.bind((sys.argv[1], 0))
out.send(bytes.fromhex(sys.argv[2]))
"#;

fn send(from: &Namespace, script: &str, frame: &[u8]) {
    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    from.run("python3", &["-c", script, HOST_DEVICE, &hex]);
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: never");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// As many headers as there may be, and one more; and errors that quote them. Wherever a buffer has them, at either hook.
#[test]
fn chains_of_headers_are_read_wherever_they_lie() {
    const PORT: u16 = 9000;
    let ([_, client], [_, server]) = (CLIENT, SERVER);
    let chain = |headers: usize| format!("ext=hop{}", ",dest".repeat(headers - 1));
    for hook in HOOKS {
        let mut crossing = Crossing::build(hook);
        let socket = crossing.server.enter(|| UdpSocket::bind((server, PORT)).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // Both ends are found by their neighbours.
        crossing.client.run("ping", &["-n", "-c", "1", "-W", "60", server]);
        let [to_client, to_server] = ["toclient", "toserver"].map(|device| crossing.link_address(device));
        for (how, script) in [("in one piece", SEND), ("in pages", SEND_IN_PAGES)] {
            for headers in [1, 7, 8] {
                let packet = format!("{client} > {server} {} udp 5>{PORT} data={headers}", chain(headers));
                send(&crossing.client, script, &frame(&format!("{packet} to={to_client}")));
                let heard = socket.recv(&mut [0; 32]);
                assert_eq!(heard.ok(), Some(headers), "{hook:?}, {how}: {headers} headers");
                let related = crossing.tally(Tally::Related);
                let error = format!("{server} > {client} to={to_server} icmp 2/0 about {{ {packet} }}");
                send(&crossing.server, script, &frame(&error));
                until(&format!("{hook:?}, {how}: an error about {headers} headers"), || {
                    crossing.tally(Tally::Related) > related
                });
            }
            // The header of TCP ends beyond what is read of every packet.
            let opened = crossing.tally(Tally::Opened);
            let port = if script == SEND { 41 } else { 42 };
            let syn = format!("{client} > {server} to={to_client} {} tcp {port}>9 S seq=1", chain(8));
            send(&crossing.client, script, &frame(&syn));
            until(&format!("{hook:?}, {how}: a SYN behind eight headers"), || {
                crossing.tally(Tally::Opened) > opened
            });
            let dropped = crossing.dropped(Reason::Extensions);
            let packet = format!("{client} > {server} to={to_client} {} udp 5>{PORT}", chain(9));
            send(&crossing.client, script, &frame(&packet));
            until(&format!("{hook:?}, {how}: nine headers"), || {
                crossing.dropped(Reason::Extensions) > dropped
            });
        }
    }
}

/// Where the kernel forwards, a small program at TC asks for the way back to a source.
#[test]
fn sources_without_a_way_back_are_found_wherever_they_lie() {
    let mut crossing = Crossing::build_with_kernel();
    let to = crossing.link_address("toclient");
    for script in [SEND, SEND_IN_PAGES] {
        for ends in ["203.0.113.9 > 198.19.0.2", "2001:db8::9 > 2001:2:0:2::2"] {
            let before = crossing.dropped(Reason::ReversePath);
            send(&crossing.client, script, &frame(&format!("{ends} to={to} udp 5>6 data=100")));
            until(ends, || crossing.dropped(Reason::ReversePath) > before);
        }
    }
}
