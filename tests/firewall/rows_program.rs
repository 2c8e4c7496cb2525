//! `bpf/test/forward_rows.bpf.c` in a namespace with a few routes, run on single packets by `BPF_PROG_TEST_RUN`.
//!
//! ```text
//! (test run: arrives at lo, where 198.18.0.1 and 2001:2:0:1::1 are the firewall's)
//!    out0  198.19.0.1/24, 2001:2:0:2::1/64   .2 is a neighbour, .99 is none
//!    side0 198.19.1.1/24 belongs to no zone
//!          198.51.100.0/24, 2001:2:0:5::/64 via .2 with an MTU of 1400
//!    203.0.113.0/26 unreachable, .64/26 prohibited, .128/26 black hole
//! ```

use dataplane::Hook;
use dataplane::routes::{AnswerLimits, LinkAddresses, RouteMaps, Routes};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject, ProgramInput};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use testkit::namespace::Namespace;
use testkit::packet::{FIREWALL, SENDER};
use testkit::rows::{ForwardRowsSkel, ForwardRowsSkelBuilder};

const NEXT_HOP: [u8; 6] = [2, 0, 0, 0, 2, 2];
const OUT: [u8; 6] = [2, 0, 0, 0, 2, 1];
const MARK: [u8; 8] = [2, 0x77, 1, 2, 3, 4, 5, 6];
/// `lo`, where packets of test runs come from.
const INGRESS: u32 = 1;

/// What the program shall do with a packet; the numbers are those of `bpf/test/forward_rows.bpf.c`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    Forward,
    Reset,
    Error(IcmpError),
    Reject,
}

/// `enum icmp_error` of `bpf/firewall/icmp_error.h`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IcmpError {
    NoRoute,
    Host,
    Port,
    Prohibited,
    TooBig(u32),
    Expired,
}

/// What came of one packet.
pub(crate) struct Outcome {
    pub(crate) action: &'static str,
    /// `onward`, `back`, `handed` to the program that resolves neighbours, `cut` by the kernel in fragments, `kept`, or `strange`.
    pub(crate) way: &'static str,
    pub(crate) frame: Vec<u8>,
    /// `enum reason` of `bpf/abi/firewall.h`; 0: not dropped.
    pub(crate) reason: u32,
    /// The zone that it goes to.
    pub(crate) to: u32,
}

/// Zones, as [`load`] gives them.
pub(crate) const ZONE_SELF: u32 = 0;
pub(crate) const ZONE_OUT: u32 = 5;
pub(crate) const NO_ZONE: u32 = 255;

pub(crate) struct Rows {
    programs: ForwardRowsSkel<'static>,
    pub(crate) namespace: Namespace,
    out: u32,
    frames_to_out: bool,
}

impl Rows {
    /// With what user space writes written by hand.
    pub(crate) fn load() -> Self {
        let rows = Self::load_bare();
        rows.namespace.set(&[("ipv4/conf/lo/forwarding", "1"), ("ipv6/conf/lo/forwarding", "1")]);
        rows.forwarding(1, [0; 2], [0; 2]);
        let own = [&[198, 18, 0, 1][..], &octets("2001:2:0:1::1")].concat();
        rows.update("own_addresses", &INGRESS.to_ne_bytes(), &own);
        rows.update("local_addresses", &local_key("198.18.0.1"), &1u32.to_ne_bytes());
        rows
    }

    /// With ports, but without anything about routes and addresses.
    pub(crate) fn load_bare() -> Self {
        let namespace = Namespace::create("rows");
        namespace.ip("link add out0 address 02:00:00:00:02:01 type veth peer name far0
             link add side0 type veth peer name far1
             link set far0 up
             link set side0 up
             link set far1 up
             link set out0 up
             address add 198.19.0.1/24 dev out0
             address add 198.19.1.1/24 dev side0
             address add 2001:2:0:2::1/64 dev out0 nodad
             neighbour add 198.19.0.2 lladdr 02:00:00:00:02:02 dev out0
             neighbour add 2001:2:0:2::2 lladdr 02:00:00:00:02:02 dev out0
             route add 198.51.100.0/24 via 198.19.0.2 mtu lock 1400
             route add 2001:2:0:5::/64 via 2001:2:0:2::2 mtu lock 1400
             route add unreachable 203.0.113.0/26
             route add prohibit 203.0.113.64/26
             route add blackhole 203.0.113.128/26");
        let out = namespace.ifindex("out0");
        let rows = Self { programs: load(&[out]), namespace, out, frames_to_out: true };
        // A device is looked for in the namespace of whoever writes the map.
        let devices = rows.map_handle("port_devices");
        let key = place(out).to_ne_bytes();
        rows.namespace.enter(|| devices.update(&key, &out.to_ne_bytes(), MapFlags::ANY).unwrap());
        rows
    }

    /// Lets [`Routes`] write what [`Self::load`] wrote by hand, in the namespace.
    pub(crate) fn start_routes(&self) -> Routes {
        let maps = route_maps(&self.programs);
        self.forwarding(0, [0; 2], [0; 2]);
        let limits = AnswerLimits { resets_per_second: 0, errors_per_second: 0 };
        self.namespace.within(|| Routes::start(maps, &[self.out], limits).unwrap())
    }

    fn map_handle(&self, name: &str) -> libbpf_rs::MapHandle {
        use libbpf_rs::skel::Skel;
        let map = self.programs.object().maps().find(|m| m.name() == name).unwrap();
        libbpf_rs::MapHandle::try_from(&map).unwrap()
    }

    fn update(&self, map: &str, key: &[u8], value: &[u8]) {
        self.map_handle(map).update(key, value, MapFlags::ANY).unwrap();
    }

    /// Whether the next hop's interface takes frames from XDP, from the next generation on.
    pub(crate) fn take_frames(&mut self, takes: bool) {
        self.frames_to_out = takes;
    }

    /// Writes `struct forwarding`: the generation, and interval and burst of resets and errors in nanoseconds.
    pub(crate) fn forwarding(&self, generation: u32, interval: [u32; 2], burst: [u32; 2]) {
        let mut value = generation.to_ne_bytes().to_vec();
        value.extend(MARK);
        value.extend([interval, burst].into_iter().flatten().flat_map(u32::to_ne_bytes));
        let mut takes = [0u32; 8];
        takes[place(self.out) as usize / 32] |= u32::from(self.frames_to_out) << (place(self.out) % 32);
        value.extend(takes.into_iter().flat_map(u32::to_ne_bytes));
        value.extend(0u32.to_ne_bytes());
        self.update("forwarding", &0u32.to_ne_bytes(), &value);
    }

    /// `enum tally` of `bpf/abi/firewall.h`, over all cores.
    pub(crate) fn tally(&self, what: usize) -> u64 {
        const REASONS: usize = 64;
        let at = 8 * (REASONS + what);
        let per_core =
            self.map_handle("counts").lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        per_core.iter().map(|v| u64::from_ne_bytes(v[at..at + 8].try_into().unwrap())).sum()
    }

    pub(crate) fn run(&self, hook: Hook, deed: Deed, frame: &[u8]) -> Outcome {
        self.run_segments(hook, deed, frame, 0)
    }

    /// `segment` is the size of a segment of a packet that the kernel would still cut (gso_size), or 0.
    pub(crate) fn run_segments(&self, hook: Hook, deed: Deed, frame: &[u8], segment: u32) -> Outcome {
        let key = 0u32.to_ne_bytes();
        self.update("orders", &key, &order(deed));
        let programs = &self.programs.progs;
        let program = if hook == Hook::Xdp { &programs.cross_xdp } else { &programs.cross_tc };
        let (mut out, mut context) = (vec![0; 16_384], skb_context(segment));
        let (value, bytes) = self.namespace.within(|| {
            let mut input =
                ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..ProgramInput::default() };
            if hook == Hook::Tc {
                input.context_in = Some(&mut context);
            }
            let output = program.test_run(input).unwrap();
            (output.return_value, output.data.unwrap().len())
        });
        out.truncate(bytes);
        let order = self.map_handle("orders").lookup(&key, MapFlags::ANY).unwrap().unwrap();
        let word = |i: usize| u32::from_ne_bytes(order[4 * i..4 * i + 4].try_into().unwrap());
        Outcome {
            action: action(hook, value),
            way: way(&out, self.out),
            frame: out,
            reason: word(3),
            to: word(4),
        }
    }
}

/// Where user space puts a port: `bpf/firewall/ports.h`.
fn place(ifindex: u32) -> u32 {
    ifindex % 256
}

/// Loads the programs with these interfaces as ports, each in a zone of its own, from 5 on.
fn load(ports: &[u32]) -> ForwardRowsSkel<'static> {
    testkit::loaded(|| load_once(ports))
}

fn load_once(ports: &[u32]) -> libbpf_rs::Result<ForwardRowsSkel<'static>> {
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = ForwardRowsSkelBuilder::default().open(storage)?;
    let table = &mut open.maps.bss_data.as_mut().unwrap().ports;
    for (&ifindex, zone) in ports.iter().zip(5..) {
        let port = &mut table[place(ifindex) as usize];
        port.ifindex = ifindex;
        port.zone = zone;
    }
    open.load()
}

fn route_maps(programs: &ForwardRowsSkel<'static>) -> RouteMaps {
    let maps = &programs.maps;
    RouteMaps {
        forwarding: MapHandle::try_from(&maps.forwarding).unwrap(),
        local_addresses: MapHandle::try_from(&maps.local_addresses).unwrap(),
        own_addresses: MapHandle::try_from(&maps.own_addresses).unwrap(),
        link_addresses: LinkAddresses::new(MapHandle::try_from(&maps.link_addresses).unwrap()),
    }
}

fn order(deed: Deed) -> Vec<u8> {
    let (deed, error, mtu) = match deed {
        Deed::Forward => (0, 0, 0),
        Deed::Reset => (1, 0, 0),
        Deed::Reject => (3, 0, 0),
        Deed::Error(IcmpError::NoRoute) => (2, 0, 0),
        Deed::Error(IcmpError::Host) => (2, 1, 0),
        Deed::Error(IcmpError::Port) => (2, 2, 0),
        Deed::Error(IcmpError::Prohibited) => (2, 3, 0),
        Deed::Error(IcmpError::TooBig(mtu)) => (2, 4, mtu),
        Deed::Error(IcmpError::Expired) => (2, 5, 0),
    };
    [deed, error, mtu, u32::MAX, u32::MAX].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// `struct __sk_buff` up to `gso_size`: all a test run may set here is that and `gso_segs`.
fn skb_context(segment: u32) -> Vec<u8> {
    const GSO_SEGS: usize = 164;
    const GSO_SIZE: usize = 176;
    let mut context = vec![0; 192];
    context[GSO_SIZE..GSO_SIZE + 4].copy_from_slice(&segment.to_ne_bytes());
    context[GSO_SEGS..GSO_SEGS + 4].copy_from_slice(&u32::from(segment > 0).to_ne_bytes());
    context
}

fn action(hook: Hook, value: u32) -> &'static str {
    match (hook, value) {
        (Hook::Xdp, 1) | (Hook::Tc, 2) => "drop",
        (Hook::Xdp, 2) | (Hook::Tc, u32::MAX | 0) => "pass",
        (Hook::Xdp, 4) | (Hook::Tc, 7) => "redirect",
        other => panic!("an action that nobody returns: {other:?}"),
    }
}

fn way(frame: &[u8], out: u32) -> &'static str {
    let (to, from) = (&frame[..6], &frame[6..12]);
    match () {
        () if to == NEXT_HOP && from == OUT => "onward",
        () if to == SENDER && from == FIREWALL => "back",
        () if frame[..8] == MARK && frame[8..12] == out.to_ne_bytes() => "handed",
        () if frame[..8] == MARK && frame[8..12] == INGRESS.to_ne_bytes() => "cut",
        () if to == [0; 6] && from == [0; 6] => "cut",
        () if to == FIREWALL && from == SENDER => "kept",
        () => "strange",
    }
}

fn octets(address: &str) -> Vec<u8> {
    match address.parse().unwrap() {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// `struct address` of `bpf/abi/forward.h`.
fn local_key(address: &str) -> Vec<u8> {
    let mut key = octets(address);
    let version: u32 = if key.len() == 4 { 4 } else { 6 };
    key.resize(16, 0);
    key.extend(version.to_ne_bytes());
    key.extend([0; 4]);
    key
}
