//! `forwarding = "kernel"` where links have no Ethernet header, or routes of their own: tunnels and VRFs. Which of them a kernel has
//! differs: here it is tun, whose other end a script holds, and VXLAN; `scripts/test-kernels` names in `TUNNELS` those that its kernel
//! has besides.

use crate::bed::{Bed, Outcome, expect_denied, expect_from, serve};
use crate::kernel_forwarding::errors_of;
use nix::errno::Errno;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// Behind the tunnel.
pub(crate) const BEYOND: &str = "10.98.0.1";

const RULES: &str = "
    [settings]
    forwarding = 'kernel'
    [zones]
    inside = { interfaces = 'e1' }
    outside = { interfaces = 'e0' }
    vpn = { interfaces = 't0' }
    [[rules]]
    name = 'through'
    from = ['inside', 'vpn']
    to = ['inside', 'vpn']
    service = 'tcp/9000'
    action = 'allow'
    [[rules]]
    name = 'refused'
    from = ['inside', 'vpn']
    to = ['inside', 'vpn', 'self']
    service = ['tcp/9001', 'udp/9001']
    action = 'reject'
    [[rules]]
    name = 'tunnel'
    from = ['self', 'outside']
    to = ['self', 'outside']
    action = 'allow'
";

const VRF_RULES: &str = "
    [settings]
    forwarding = 'kernel'
    reverse_path = 'off'
    [zones]
    blue = { interfaces = ['blue', 'e1', 'e0'] }
    [[rules]]
    name = 'through'
    from = 'blue'
    to = 'blue'
    service = 'tcp/9000'
    action = 'allow'
    [[rules]]
    name = 'refused'
    from = ['blue']
    to = ['blue', 'self']
    service = ['tcp/9001', 'udp/9001']
    action = 'reject'
";

/// Holds both ends of a tunnel of two tuns, and carries packets between them: the network namespaces' names are its arguments.
const CARRIER: &str = "
import ctypes, fcntl, os, select, struct, sys
def tun(namespace):
    with open('/run/netns/' + namespace) as f:
        if ctypes.CDLL(None).setns(f.fileno(), 0x40000000):
            raise OSError('setns')
    fd = os.open('/dev/net/tun', os.O_RDWR)
    fcntl.ioctl(fd, 0x400454ca, struct.pack('16sH22x', b't0', 0x1001))
    return fd
ends = [tun(namespace) for namespace in sys.argv[1:3]]
print('ready', flush=True)
while True:
    for fd in select.select(ends, [], [])[0]:
        packet = os.read(fd, 65535)
        try:
            os.write(ends[ends[0] == fd], packet)
        except OSError:
            pass  # the other end is down
";

pub(crate) struct Carrier(Child);

impl Carrier {
    fn start(bed: &Bed) -> Self {
        let child = Command::new("python3")
            .args(["-c", CARRIER, bed.host_of("fw").name(), bed.host_of("out").name()])
            .stdout(Stdio::piped())
            .spawn();
        let mut carrier = Self(child.unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(carrier.0.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        assert_eq!(line, "ready\n");
        carrier
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `ip link add` says of one end of a tunnel; those over IPv6 need addresses of it outside.
fn link_of(kind: &str, end: usize) -> String {
    let [v4, v6] = [["10.81.2.1", "10.81.2.2"], ["fd82::1", "fd82::2"]]
        .map(|ends| format!("local {} remote {}", ends[end], ends[1 - end]));
    match kind {
        "vxlan" => format!("vxlan {v4} id 7 dstport 4789"),
        "sit" => format!("sit mode any {v4}"),
        "ip6tnl" => format!("ip6tnl mode any {v6}"),
        "ip6gre" => format!("ip6gre {v6}"),
        _ => format!("{kind} {v4}"),
    }
}

/// Private keys of the two ends of a WireGuard tunnel, in base64.
const KEYS: [&str; 2] =
    ["CAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHl8=", "EAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHl8="];

/// Runs `wg`, which gets a key, and gives what it says.
fn wg(bed: &Bed, host: &str, key: &str, arguments: &[&str]) -> String {
    let mut child = bed.inside(host, || {
        Command::new("wg").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    });
    writeln!(child.stdin.take().unwrap(), "{key}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "wg {arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn lay_wireguard(bed: &Bed, host: &str, end: usize) {
    let public = wg(bed, host, KEYS[1 - end], &["pubkey"]);
    let other = ["10.81.2.2:51820", "10.81.2.1:51820"][end];
    let arguments = ["set", "t0", "private-key", "/dev/fd/0", "listen-port", "51820"];
    let peer = ["peer", &public, "endpoint", other, "allowed-ips", "0.0.0.0/0,::/0"];
    bed.host_of(host).ip("link add t0 type wireguard");
    wg(bed, host, KEYS[end], &[&arguments[..], &peer].concat());
}

/// Both ends of a tunnel between the firewall and the host outside.
pub(crate) fn lay(bed: &Bed, kind: &str) -> Option<Carrier> {
    let carrier = (kind == "tun").then(|| Carrier::start(bed));
    for (end, host, outside) in [(0, "fw", "e0"), (1, "out", "x")] {
        let at = bed.host_of(host);
        match kind {
            "tun" => {}
            "wireguard" => lay_wireguard(bed, host, end),
            _ => {
                if kind.starts_with("ip6") {
                    at.ip(&format!("address replace fd82::{}/64 dev {outside} nodad", end + 1));
                }
                at.ip(&format!("link add t0 type {}", link_of(kind, end)));
            }
        }
        at.ip(&format!("address add 10.99.0.{}/24 dev t0\nlink set t0 up", end + 1));
    }
    bed.host_of("out")
        .ip(&format!("address replace {BEYOND}/32 dev lo\nroute add 10.81.1.0/24 via 10.99.0.1"));
    bed.host_of("fw").ip("route add 10.98.0.0/24 via 10.99.0.2");
    carrier
}

fn listen(bed: &Bed, host: &str, address: &str) {
    serve(bed.inside(host, || TcpListener::bind((address, 9000)).unwrap()));
}

pub(crate) fn kinds() -> String {
    std::env::var("TUNNELS").unwrap_or_else(|_| "tun vxlan".to_owned())
}

pub(crate) fn write(bed: &Bed, text: &str) -> String {
    let path = bed.folder.path().join("kernel.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn needs_root_tunnels_are_judged_where_the_kernel_forwards() {
    for kind in kinds().split_whitespace() {
        let bed = Bed::new();
        let (inside, beyond) = (bed.host_of("in"), bed.host_of("out"));
        bed.sysctl("net/ipv4/ip_forward", "1");
        let (far, carrier) = if kind == "vrf" {
            bed.host_of("fw").ip("link add blue type vrf table 10
                 link set blue up
                 link set e0 master blue
                 link set e1 master blue");
            ("10.81.2.2", None)
        } else {
            (BEYOND, lay(&bed, kind))
        };
        listen(&bed, "out", far);
        listen(&bed, "in", "10.81.1.2");
        let without = format!("{kind}: before the firewall");
        expect_from(inside, &format!("{far}:9000"), Outcome::Answered, &without);
        let rules = if kind == "vrf" { VRF_RULES } else { RULES };
        let firewall = bed.up(&write(&bed, rules), "auto");
        let own = if kind == "vrf" { "10.81.2.1" } else { "10.99.0.1" };
        let wanted = [Errno::ECONNREFUSED, Errno::EHOSTUNREACH].map(|error| Some(error as i32));
        for (from, to) in [(inside, far), (beyond, "10.81.1.2")] {
            expect_from(from, &format!("{to}:9000"), Outcome::Answered, kind);
            expect_denied(&bed, from, format!("{to}:9000").parse().unwrap(), kind);
            assert_eq!(errors_of(from, &format!("{to}:9001")), wanted, "{kind}: what is refused to {to}");
        }
        assert_eq!(errors_of(beyond, &format!("{own}:9001")), wanted, "{kind}: what is refused to {own}");
        assert_eq!([bed.dropped("rule-reject"), bed.counted("answered")], [6, 6], "{kind}");
        drop(firewall);
        let (status, said) = bed.rampart(&["down"]);
        assert_eq!(status, 0, "{kind}: {said}");
        drop(carrier);
    }
}
