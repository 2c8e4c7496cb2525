//! Real programs across the firewall: what they say is the test, over both IP versions and on both hooks.

use crate::crossing::{CLIENT, Crossing, GATEWAY, SERVER};
use dataplane::{Hook, Reason};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};
use testkit::namespace::{Background, attempt, said};

const HOOKS: [Hook; 2] = [Hook::Xdp, Hook::Tc];
/// Longer than any program takes to start and be through; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Tries until the program succeeds: a server needs a moment before it listens.
fn until_it_works(crossing: &Crossing, program: &str, arguments: &[&str]) -> Output {
    until(crossing, program, arguments, |output| output.status.success())
}

fn until(crossing: &Crossing, program: &str, arguments: &[&str], works: impl Fn(&Output) -> bool) -> Output {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = crossing.client.enter(|| attempt(program, arguments));
        if works(&output) {
            return output;
        }
        assert!(Instant::now() < deadline, "{program} {}: {}", arguments.join(" "), said(&output));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The very first packet to a neighbour that nobody knows must not be lost: of three echo requests three are answered.
#[test]
fn ping_loses_nothing() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        for server in SERVER {
            // One by one: after a first answer, `ping` waits for the others no longer than twice what the slowest took.
            for _ in 0..3 {
                let output = crossing.client.run("ping", &["-n", "-c", "1", "-W", "10", server]);
                assert!(output.contains("1 received"), "{hook:?} {server}: {output}");
                assert!(output.contains("ttl=63"), "{hook:?} {server}: one hop: {output}");
            }
        }
    }
}

#[test]
fn traceroute_sees_the_firewall_and_what_is_behind() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        for (server, gateway) in SERVER.into_iter().zip(GATEWAY) {
            for method in ["-U", "-I", "-T"] {
                let output = crossing
                    .client
                    .run("traceroute", &["-n", "-q", "1", "-m", "5", "-w", "10", method, server]);
                let hops: Vec<&str> =
                    output.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
                assert_eq!(hops, [gateway, server], "{hook:?} {method}: {output}");
            }
        }
    }
}

/// The server's link is narrower: what the client lets be fragmented arrives in fragments, and the answers, which the server fragments, come
/// back. Also where the kernel's reverse-path filter is strict, which is asked about the loopback interface.
#[test]
fn what_is_larger_than_the_next_link_arrives_in_fragments() {
    for (hook, translated) in HOOKS.into_iter().flat_map(|hook| [(hook, false), (hook, true)]) {
        let mut crossing = Crossing::build(hook);
        if translated {
            // Then their source is the firewall's own address, which no other interface believes.
            crossing.masquerade();
        }
        crossing.firewall.ip("link set toserver mtu 1280");
        crossing.server.ip("link set eth0 mtu 1280");
        let ping = |size| ["-n", "-c", "1", "-W", "10", "-M", "dont", "-s", size, SERVER[0]];
        // The firewall learns of the narrower link by an announcement.
        until_it_works(&crossing, "ping", &ping("1400"));
        for size in ["1252", "1253", "1472", "1473", "8000", "60000"] {
            until_it_works(&crossing, "ping", &ping(size));
        }
        crossing.firewall.set(&[("ipv4/conf/all/rp_filter", "1"), ("ipv4/conf/lo/rp_filter", "2")]);
        until_it_works(&crossing, "ping", &ping("1400"));
        // What may not be fragmented is answered.
        let output = crossing
            .client
            .enter(|| attempt("ping", &["-n", "-c", "1", "-W", "10", "-M", "do", "-s", "1400", SERVER[0]]));
        assert!(
            said(&output).contains("mtu = 1280") || said(&output).contains("mtu=1280"),
            "{hook:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn curl_fetches_a_file_unharmed() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> =
            (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(folder.path().join("file"), &content).unwrap();
        let root = folder.path().to_str().unwrap();
        let server = ["-m", "http.server", "--bind", "::", "--directory", root, "8000"];
        let _server = Background::start(&crossing.server, "python3", &server);
        for host in ["198.19.0.2", "[2001:2:0:2::2]"] {
            let url = format!("http://{host}:8000/file");
            let output = until_it_works(&crossing, "curl", &["-sS", "--max-time", "60", &url]);
            assert!(
                output.stdout == content,
                "{hook:?} {host}: {} bytes, not the file's",
                output.stdout.len()
            );
        }
    }
}

#[test]
fn iperf3_moves_bytes_both_ways() {
    const BYTES: u64 = 64 << 20;
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        let _server = Background::start(&crossing.server, "iperf3", &["-s"]);
        for server in SERVER {
            for more in [&["-P", "1"][..], &["-P", "4"], &["-R"], &["-u", "-b", "50M"]] {
                // UDP is sent at a rate, so less of it is enough.
                let bytes = if more[0] == "-u" { BYTES / 64 } else { BYTES };
                let count = bytes.to_string();
                let all = [&["-J", "-c", server, "-n", &count], more].concat();
                // It says in its report that it failed, not by its exit code.
                let json =
                    |output: &Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
                let report =
                    json(&until(&crossing, "iperf3", &all, |output| json(output).get("error").is_none()));
                let end = &report["end"];
                let moved =
                    end["sum_received"]["bytes"].as_u64().or(end["sum"]["bytes"].as_u64()).unwrap_or(0);
                // It stops counting when the sender is done, and on a busy machine nearly all may be in buffers then: Linux 6.18 gives each
                // of four connections up to 32 MiB. Datagrams are lost in the receiver's buffer while it waits for its core.
                let least = if more[0] == "-u" { 1 } else { bytes / 64 };
                assert!(moved >= least, "{hook:?} {server} {more:?}: {moved} of {bytes}: {end}");
            }
        }
    }
}

/// A name server in a few lines, so that nothing has to be configured: every name has the same address.
const NAME_SERVER: &str = r"
import socketserver
def answer(question):
    end = question.index(b'\0', 12) + 5
    return question[:2] + b'\x84\0\0\1\0\1\0\0\0\0' + question[12:end] + b'\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4' + bytes([192, 0, 2, 53])
class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        self.request[1].sendto(answer(self.request[0]), self.client_address)
class Tcp(socketserver.StreamRequestHandler):
    def handle(self):
        reply = answer(self.rfile.read(int.from_bytes(self.rfile.read(2), 'big')))
        self.wfile.write(len(reply).to_bytes(2, 'big') + reply)
import threading, socket
for kind, handler in (socketserver.UDPServer, Udp), (socketserver.TCPServer, Tcp):
    kind.address_family, kind.allow_reuse_address = socket.AF_INET6, True
    threading.Thread(target=kind(('::', 53), handler).serve_forever).start()
";

#[test]
fn dig_asks_by_udp_and_tcp() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        let _server = Background::start(&crossing.server, "python3", &["-c", NAME_SERVER]);
        for server in SERVER {
            // Over TCP first, which cannot be asked before the server listens; then nothing may be lost.
            for transport in ["+tcp", "+notcp"] {
                let at = format!("@{server}");
                let arguments = ["+short", "+tries=1", "+time=5", transport, &at, "www.example.org", "A"];
                let output = until_it_works(&crossing, "dig", &arguments);
                assert_eq!(text(&output).trim(), "192.0.2.53", "{hook:?} {at} {transport}");
            }
        }
    }
}

fn key(folder: &Path, name: &str) -> String {
    let path = folder.join(name).to_str().unwrap().to_owned();
    testkit::namespace::run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path]);
    path
}

/// With keys made for the occasion and a home folder that only this server sees. Dropbear, because OpenSSH's package would start
/// a server on the machine that runs the tests.
#[test]
fn ssh_logs_in_and_copies() {
    for hook in HOOKS {
        let crossing = Crossing::build(hook);
        let folder = tempfile::tempdir().unwrap();
        let user = key(folder.path(), "user");
        let host = folder.path().join("host").to_str().unwrap().to_owned();
        testkit::namespace::run("dropbearkey", &["-t", "ed25519", "-f", &host]);
        let start = format!(
            "set -e; keys=$(cat {user}.pub); mount -t tmpfs -o mode=700 tmpfs /root; mkdir -m 700 /root/.ssh\n\
             echo \"$keys\" > /root/.ssh/authorized_keys; chmod 600 /root/.ssh/authorized_keys\n\
             exec /usr/sbin/dropbear -F -s -p 2222 -P '' -r {host}"
        );
        let _server = Background::start(&crossing.server, "unshare", &["-m", "sh", "-c", &start]);
        for server in SERVER {
            let target = format!("root@{server}");
            let options = [
                "StrictHostKeyChecking=no",
                "UserKnownHostsFile=/dev/null",
                "BatchMode=yes",
                "LogLevel=ERROR",
            ];
            let mut arguments = vec!["-F", "none", "-p", "2222", "-i", &user];
            arguments.extend(options.iter().flat_map(|option| ["-o", option]));
            arguments.extend([target.as_str(), "head -c 2000000 /dev/zero | tee /dev/stderr | sha256sum"]);
            let output = until_it_works(&crossing, "ssh", &arguments);
            assert_eq!(output.stderr.len(), 2_000_000, "{hook:?} {server}");
            assert!(text(&output).ends_with(" -\n"), "{hook:?} {server}: {}", text(&output));
        }
    }
}

/// Senders understand refusals at once. The client leaves checksums to be finished by the network card, and the firewall's
/// side has none that would: an answer that kept the order to finish one would arrive damaged.
#[test]
fn refusals_are_understood_by_real_senders() {
    for hook in HOOKS {
        let mut crossing = Crossing::build(hook);
        crossing.firewall.run("ethtool", &["-K", "toclient", "tx", "off"]);
        for server in SERVER {
            // The neighbours first, which are asked for by packets that the firewall would refuse.
            until_it_works(&crossing, "ping", &["-n", "-c", "1", "-W", "5", server]);
        }
        crossing.refuse();
        for server in SERVER {
            let open = format!("exec 3<>/dev/tcp/{server}/8000");
            let output = crossing.client.enter(|| attempt("timeout", &["20", "bash", "-c", &open]));
            assert!(said(&output).contains("Connection refused"), "{hook:?} {server}: {}", said(&output));
        }
        for server in SERVER {
            let at = format!("@{server}");
            let output =
                crossing.client.enter(|| attempt("dig", &["+tries=1", "+time=10", &at, "www.example.org"]));
            let text = said(&output).to_lowercase();
            assert!(text.contains("unreachable") || text.contains("permission"), "{hook:?} {server}: {text}");
        }
    }
}

/// The other direction is closed: the same client, asked from the server, is not there.
#[test]
fn nothing_comes_in_that_nobody_asked_for() {
    for hook in HOOKS {
        let mut crossing = Crossing::build(hook);
        for (client, server) in CLIENT.into_iter().zip(SERVER) {
            until_it_works(&crossing, "ping", &["-n", "-c", "1", "-W", "5", server]);
            let output =
                crossing.server.enter(|| attempt("ping", &["-n", "-c", "2", "-i", "0.2", "-W", "1", client]));
            assert!(said(&output).contains(" 0 received"), "{hook:?} {client}: {}", said(&output));
        }
        assert_eq!(crossing.dropped(Reason::DefaultDeny), 4, "{hook:?}");
    }
}
