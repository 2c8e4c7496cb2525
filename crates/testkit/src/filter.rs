//! BPF objects that only tests load (`bpf/test/`), as filters before a router's links, and what they count. A filter hangs on the
//! links' traffic-control hook and goes with their namespace.

use crate::namespace::Namespace;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, TC_INGRESS, TcHookBuilder};
use std::os::fd::AsFd;

/// The only key of maps with one entry.
pub const ONLY: [u8; 4] = 0u32.to_ne_bytes();

/// `bpf/test/weather.bpf.c`: a forwarder that loses, doubles, reorders and damages frames.
pub const WEATHER: &str = concat!(env!("OUT_DIR"), "/weather.bpf.o");
/// `bpf/test/tcp_weather.bpf.c`: what bad firewalls do to connections.
pub const TCP_WEATHER: &str = concat!(env!("OUT_DIR"), "/tcp_weather.bpf.o");

/// `bpf/test/lying_tcp.bpf.c`: firewalls that lie about connections.
pub const LYING_TCP: &str = concat!(env!("OUT_DIR"), "/lying_tcp.bpf.o");
/// `bpf/test/lies.bpf.c`: a forwarder that lies about frames.
pub const LIES: &str = concat!(env!("OUT_DIR"), "/lies.bpf.o");

/// A loaded object.
#[derive(Debug)]
pub struct Filter(Object);

impl Filter {
    /// Loads one of the objects above.
    pub fn load(object: &str) -> Self {
        Self(ObjectBuilder::default().open_file(object).unwrap().load().unwrap())
    }

    /// A map by its name.
    pub fn map(&self, name: &str) -> MapHandle {
        let found = self.0.maps().find(|map| map.name() == name).unwrap();
        MapHandle::try_from(&found).unwrap()
    }

    /// Whatever comes in by these links of a namespace goes through the program.
    pub fn attach(&self, program: &str, namespace: &Namespace, links: [u32; 2]) {
        let program = self.0.progs().find(|found| found.name() == program).unwrap();
        let program = program.as_fd();
        namespace.enter(|| {
            for link in links {
                let mut hook = TcHookBuilder::new(program)
                    .ifindex(link as i32)
                    .replace(true)
                    .handle(1)
                    .priority(1)
                    .hook(TC_INGRESS);
                hook.create().unwrap();
                hook.attach().unwrap();
            }
        });
    }
}

/// The number in a map with one entry.
pub fn count(map: &MapHandle) -> u64 {
    let bytes = map.lookup(&ONLY, MapFlags::ANY).unwrap().unwrap();
    u64::from_ne_bytes(bytes.try_into().unwrap())
}
