//! BPF objects that only tests load (`bpf/test/`), as filters before a router's links, and what they count. A filter hangs on the
//! links' traffic-control hook and goes with their namespace.

use crate::namespace::Namespace;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, TC_INGRESS, TcHookBuilder, Xdp, XdpFlags,
};
use std::os::fd::{AsFd, AsRawFd};

/// `bpf/test/weather.bpf.c`: a forwarder that loses, doubles, reorders and damages frames.
pub const WEATHER: &str = concat!(env!("OUT_DIR"), "/weather.bpf.o");
/// `bpf/test/tcp_weather.bpf.c`: what bad firewalls do to connections.
pub const TCP_WEATHER: &str = concat!(env!("OUT_DIR"), "/tcp_weather.bpf.o");

/// `bpf/test/lying_tcp.bpf.c`: firewalls that lie about connections.
pub const LYING_TCP: &str = concat!(env!("OUT_DIR"), "/lying_tcp.bpf.o");
/// `bpf/test/lies.bpf.c`: a forwarder that lies about frames.
pub const LIES: &str = concat!(env!("OUT_DIR"), "/lies.bpf.o");

/// `bpf/test/hidden_work.bpf.c`: a forwarder that has another core do its work.
pub const HIDDEN_WORK: &str = concat!(env!("OUT_DIR"), "/hidden_work.bpf.o");

/// `bpf/test/pass.bpf.c`: somebody else's program in a driver.
pub const PASS: &str = concat!(env!("OUT_DIR"), "/pass.bpf.o");

/// A loaded object.
#[derive(Debug)]
pub struct Filter(Object);

impl Filter {
    /// Loads one of the objects above.
    pub fn load(object: &str) -> Self {
        Self(crate::loaded(|| ObjectBuilder::default().open_file(object)?.load()))
    }

    /// A map by its name.
    pub fn map(&self, name: &str) -> MapHandle {
        let found = self.0.maps().find(|map| map.name() == name).unwrap();
        MapHandle::try_from(&found).unwrap()
    }

    /// Finds a map that has one entry. `name` is that of the map in the program.
    pub fn only(&self, name: &str) -> Only {
        Only(self.map(name))
    }

    /// Frames that came in on interface `from` go on by interface `to` with these Ethernet addresses, in programs that include
    /// `bpf/test/hop.h`.
    pub fn way(&self, from: u32, to: u32, destination: [u8; 6], source: [u8; 6]) {
        let way = [&to.to_ne_bytes()[..], &destination, &source].concat();
        self.map("ways").update(&from.to_ne_bytes(), &way, MapFlags::ANY).unwrap();
    }

    /// The same at XDP, for as long as what is returned lives.
    pub fn attach_xdp(&mut self, program: &str, namespace: &Namespace, links: &[u32]) -> Vec<Link> {
        let program = self.0.progs_mut().find(|found| found.name() == program).unwrap();
        namespace.within(|| links.iter().map(|&link| program.attach_xdp(link as i32).unwrap()).collect())
    }

    /// What is redirected to entry `core` of a cpumap goes through the program, on that core and before whatever else wants to run
    /// there.
    pub fn work_on(&self, map: &str, core: u32, program: &str) {
        const QUEUE_FRAMES: u32 = 2048;
        let program = self.0.progs().find(|found| found.name() == program).unwrap();
        let value = [QUEUE_FRAMES, program.as_fd().as_raw_fd() as u32].map(u32::to_ne_bytes).concat();
        let map = self.map(map);
        map.update(&core.to_ne_bytes(), &value, MapFlags::ANY).unwrap();
        let thread = format!("cpumap/{core}/map:{}", map.info().unwrap().info.id);
        crate::namespace::run("renice", &["-n", "-20", "-p", &crate::thread_named(&thread).to_string()]);
    }

    /// Puts a program into the driver of a link, in place of whatever is there.
    pub fn attach_driver(&self, program: &str, namespace: &Namespace, link: u32) {
        let program = self.0.progs().find(|found| found.name() == program).unwrap();
        let program = program.as_fd();
        namespace.enter(|| Xdp::new(program).attach(link as i32, XdpFlags::DRV_MODE).unwrap());
    }

    /// Whatever comes in by these links of a namespace goes through the program.
    pub fn attach(&self, program: &str, namespace: &Namespace, links: &[u32]) {
        let program = self.0.progs().find(|found| found.name() == program).unwrap();
        let program = program.as_fd();
        namespace.enter(|| {
            for &link in links {
                let mut hook = TcHookBuilder::new(program)
                    .ifindex(link as i32)
                    .replace(true)
                    .handle(1)
                    .priority(1)
                    .hook(TC_INGRESS);
                // A link that has the hook already is no fault, of which libbpf would warn.
                let print = libbpf_rs::set_print(None);
                hook.create().unwrap();
                libbpf_rs::set_print(print);
                hook.attach().unwrap();
            }
        });
    }
}

/// A map that has one entry (`bpf/test/only.h`).
#[derive(Debug)]
pub struct Only(MapHandle);

impl Only {
    const KEY: [u8; 4] = 0u32.to_ne_bytes();

    /// Writes these numbers, and zeros behind them.
    pub fn set(&self, numbers: &[u32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        self.set_bytes(bytes);
    }

    /// The same with bytes.
    pub fn set_bytes(&self, mut bytes: Vec<u8>) {
        let room = self.0.value_size() as usize;
        assert!(bytes.len() <= room, "{} bytes for an entry of {room}", bytes.len());
        bytes.resize(room, 0);
        self.0.update(&Self::KEY, &bytes, MapFlags::ANY).unwrap();
    }

    /// The number in it.
    pub fn count(&self) -> u64 {
        let bytes = self.0.lookup(&Self::KEY, MapFlags::ANY).unwrap().unwrap();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }
}
