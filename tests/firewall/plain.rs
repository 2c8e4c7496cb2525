//! `bpf/forward_rows.bpf.c` as a firewall without a policy: everything goes on to where its route leads.

use crate::namespace::Namespace;
use crate::rows_program::{Deed, Hook, order, place};
use crate::rows_skeleton::{ForwardRowsSkel, ForwardRowsSkelBuilder};
use dataplane::routes::{AnswerLimits, Follower, RouteMaps, Routes};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject, TC_INGRESS, TcHookBuilder};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

pub(crate) struct Plain {
    _links: Vec<Link>,
    _routes: Follower,
    programs: ForwardRowsSkel<'static>,
}

/// Loads the programs with these interfaces as ports, each in a zone of its own, from 5 on.
pub(crate) fn load(ports: &[u32]) -> ForwardRowsSkel<'static> {
    let storage: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = ForwardRowsSkelBuilder::default().open(storage).unwrap();
    let table = &mut open.maps.bss_data.as_mut().unwrap().ports;
    for (&ifindex, zone) in ports.iter().zip(5..) {
        let port = &mut table[place(ifindex) as usize];
        port.ifindex = ifindex;
        port.zone = zone;
    }
    open.load().unwrap()
}

/// Writes `struct forwarding` with nothing in it but whose devices take frames from XDP.
fn take_frames(programs: &ForwardRowsSkel<'static>, ports: impl Iterator<Item = u32>) {
    let mut words = [0u32; 15];
    for ifindex in ports {
        words[7 + place(ifindex) as usize / 32] |= 1 << (place(ifindex) % 32);
    }
    let value: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    programs.maps.forwarding.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY).unwrap();
}

pub(crate) fn route_maps(programs: &ForwardRowsSkel<'static>) -> RouteMaps {
    let maps = &programs.maps;
    RouteMaps {
        forwarding: MapHandle::try_from(&maps.forwarding).unwrap(),
        local_addresses: MapHandle::try_from(&maps.local_addresses).unwrap(),
        own_addresses: MapHandle::try_from(&maps.own_addresses).unwrap(),
    }
}

impl Plain {
    pub(crate) fn start(namespace: &Namespace, devices: &[(&str, Hook)]) -> Self {
        let ports: Vec<u32> = devices.iter().map(|(device, _)| namespace.ifindex(device)).collect();
        let with_hooks = || ports.iter().copied().zip(devices.iter().map(|(_, hook)| *hook));
        let programs = load(&ports);
        namespace.within(|| {
            for (ifindex, _) in with_hooks().filter(|(_, hook)| *hook == Hook::Xdp) {
                let value = ifindex.to_ne_bytes();
                programs
                    .maps
                    .port_devices
                    .update(&place(ifindex).to_ne_bytes(), &value, MapFlags::ANY)
                    .unwrap();
            }
            take_frames(
                &programs,
                with_hooks().filter(|(_, hook)| *hook == Hook::Xdp).map(|(ifindex, _)| ifindex),
            );
            let routes = Routes::start(route_maps(&programs), &ports, AnswerLimits::default()).unwrap();
            let follower =
                routes.follow_in_background(|changes| assert!(changes.is_ok(), "{changes:?}")).unwrap();
            let links = with_hooks().filter_map(|(ifindex, hook)| attach(&programs, ifindex, hook)).collect();
            Self { _links: links, _routes: follower, programs }
        })
    }
}

impl Plain {
    /// Refuses everything with a reset or an ICMP error, neighbour discovery excepted, or forwards again.
    pub(crate) fn refuse(&self, refuse: bool) {
        let order = order(if refuse { Deed::Reject } else { Deed::Forward });
        self.programs.maps.orders.update(&0u32.to_ne_bytes(), &order, MapFlags::ANY).unwrap();
    }
}

/// A filter of TC goes with its namespace, a link of XDP with its handle.
fn attach(programs: &ForwardRowsSkel<'static>, ifindex: u32, hook: Hook) -> Option<Link> {
    let ifindex = i32::try_from(ifindex).unwrap();
    let (link, filter) = match hook {
        Hook::Xdp => (Some(programs.progs.cross_xdp.attach_xdp(ifindex).unwrap()), &programs.progs.resolve),
        Hook::Tc => (None, &programs.progs.cross_tc),
    };
    let mut filter =
        TcHookBuilder::new(filter.as_fd()).ifindex(ifindex).handle(1).priority(1).hook(TC_INGRESS);
    filter.create().unwrap();
    filter.attach().unwrap();
    link
}
