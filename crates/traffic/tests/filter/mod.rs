//! A test's own filter before a router's links, and what it counts: `bpf/weather.bpf.c` and `bpf/tcp_weather.bpf.c` are such. It
//! hangs on the links' traffic-control hook and goes with their namespace.

#![allow(clippy::unwrap_used, reason = "a test fails where its filter cannot be made")]

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, TC_INGRESS, TcHookBuilder};
use std::fs::File;
use std::os::fd::AsFd;

/// The only key of maps with one entry.
pub(crate) const ONLY: [u8; 4] = 0u32.to_ne_bytes();

/// A loaded object.
pub(crate) struct Filter(Object);

impl Filter {
    pub(crate) fn load(name: &str) -> Self {
        let file = format!("{}/{name}.bpf.o", env!("OUT_DIR"));
        Self(ObjectBuilder::default().open_file(file).unwrap().load().unwrap())
    }

    pub(crate) fn map(&self, name: &str) -> MapHandle {
        let found = self.0.maps().find(|map| map.name() == name).unwrap();
        MapHandle::try_from(&found).unwrap()
    }

    /// Whatever comes in by these links of a namespace goes through the program.
    pub(crate) fn attach(&self, program: &str, namespace: &str, links: [u32; 2]) {
        let program = self.0.progs().find(|found| found.name() == program).unwrap();
        let program = program.as_fd();
        let namespace = File::open(format!("/run/netns/{namespace}")).unwrap();
        let attach = || {
            nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
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
        };
        std::thread::scope(|scope| scope.spawn(attach).join().unwrap());
    }
}

/// The number in a map with one entry.
pub(crate) fn count(map: &MapHandle) -> u64 {
    let bytes = map.lookup(&ONLY, MapFlags::ANY).unwrap().unwrap();
    u64::from_ne_bytes(bytes.try_into().unwrap())
}
