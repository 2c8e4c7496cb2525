//! A filter before the bed's router that does to connections what bad firewalls do (`bpf/tcp_weather.bpf.c`).

use super::bed::Bed;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, TC_INGRESS, TcHookBuilder};
use std::fs::File;
use std::os::fd::AsFd;

/// What happens to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "not every test binary needs all")]
pub(crate) enum Weather {
    /// After any RST, whatever its sequence number, nothing of its connection passes.
    ForgetOnReset,
    /// With every SYN, the connection longest open is reset in both directions if it was silent for so long.
    ResetIdle {
        /// Milliseconds.
        ms: u32,
    },
    /// A FIN overtakes the acknowledgement before it.
    FinFirst,
}

/// The filter, attached. It goes with the bed.
pub(crate) struct Sky(MapHandle);

impl Sky {
    pub(crate) fn over(bed: &Bed, weather: Weather) -> Self {
        let object = concat!(env!("OUT_DIR"), "/tcp_weather.bpf.o");
        let object = ObjectBuilder::default().open_file(object).unwrap().load().unwrap();
        let map = |name: &str| {
            let found = object.maps().find(|map| map.name() == name).unwrap();
            MapHandle::try_from(&found).unwrap()
        };
        let links = ["left", "right"].map(|link| {
            bed.at_router(&format!("cat /sys/class/net/{link}/ifindex")).trim().parse::<u32>().unwrap()
        });
        // The kinds of `enum kind`, in its order.
        let (kind, ms) = match weather {
            Weather::ForgetOnReset => (1, 0),
            Weather::ResetIdle { ms } => (2, ms),
            Weather::FinFirst => (3, 0),
        };
        let mut bytes = [kind, ms, links[0], links[1]].map(u32::to_ne_bytes).concat();
        bytes.extend([2, 0, 0, 0, 0, 0x11, 0, 0, 2, 0, 0, 0, 0, 0x12, 0, 0]);
        map("weather_map").update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).unwrap();
        let filter = object.progs().find(|program| program.name() == "filter").unwrap();
        let filter = filter.as_fd();
        std::thread::scope(|scope| {
            let attach = || {
                let namespace = File::open(format!("/run/netns/{}", bed.names()[2])).unwrap();
                nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                for link in links {
                    let mut hook = TcHookBuilder::new(filter)
                        .ifindex(link as i32)
                        .replace(true)
                        .handle(1)
                        .priority(1)
                        .hook(TC_INGRESS);
                    hook.create().unwrap();
                    hook.attach().unwrap();
                }
            };
            scope.spawn(attach).join().unwrap();
        });
        Self(map("hits"))
    }

    /// Connections or pairs of frames hit.
    pub(crate) fn hits(&self) -> u64 {
        let bytes = self.0.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }
}
