//! The programs on interfaces.

use crate::DataplaneError;
use crate::firewall::Firewall;
use crate::skeleton::types;
use libbpf_rs::{
    Link, MapCore, MapFlags, ProgramMut, TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHook, TcHookBuilder,
};
use std::os::fd::AsFd;

/// Interfaces at most: `MAX_PORTS` in C.
const MAX_PORTS: u32 = 256;
/// How far behind its own place an interface may be: `PORT_PROBES` in C.
const PORT_PROBES: u32 = 8;

/// Where a packet meets the firewall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// In the driver, before the kernel makes a socket buffer of it: the fastest, for network cards.
    Xdp,
    /// Before routing: for virtual links and tunnels, whose large packets XDP would break up.
    Tc,
}

/// How an interface was attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The hook in use.
    pub hook: Hook,
    /// Why it is not the one that was asked for.
    pub note: Option<String>,
}

/// A program's tie to an interface; it goes when this goes.
enum Tie {
    Link(#[expect(dead_code, reason = "held so that the program stays")] Link),
    Filter(TcHook),
}

impl Drop for Tie {
    fn drop(&mut self) {
        if let Tie::Filter(hook) = self {
            // The interface may be gone, and the filter with it.
            let _ = hook.detach();
        }
    }
}

/// An interface of a zone.
pub(crate) struct Interface {
    name: String,
    index: u32,
    place: u32,
    hook: Hook,
    _ties: Vec<Tie>,
}

impl Firewall {
    /// Puts the firewall on an interface of this network namespace, which belongs to a zone from now on. An interface that
    /// is attached already only changes its zone. It is to be dropped, and interfaces detached, in the same namespace.
    ///
    /// # Errors
    /// There is no such interface, there are too many, or the kernel refuses both hooks.
    pub fn attach(&mut self, interface: &str, zone: &str, hook: Hook) -> Result<Attached, DataplaneError> {
        let index = nix::net::if_::if_nametoindex(interface)
            .map_err(|e| DataplaneError::system(format!("finding the interface `{interface}`"))(e.into()))?;
        let zone = self.zone_number(zone)?;
        if let Some(known) = self.interfaces.iter().find(|known| known.index == index) {
            let (place, hook) = (known.place, known.hook);
            self.shared()?.ports[place as usize].zone = u32::from(zone);
            return Ok(Attached { hook, note: None });
        }
        let place = self.place_for(interface, index)?;
        self.shared()?.ports[place as usize] = types::port { ifindex: index, zone: u32::from(zone) };
        match self.tie(interface, index, place, hook) {
            Ok((ties, attached)) => {
                let name = interface.to_owned();
                self.interfaces.push(Interface { name, index, place, hook: attached.hook, _ties: ties });
                self.takes_frames(place, attached.hook == Hook::Xdp)?;
                Ok(attached)
            }
            Err(error) => {
                self.shared()?.ports[place as usize] = types::port::default();
                Err(error)
            }
        }
    }

    /// Takes the firewall off an interface; `false` when it was not there.
    ///
    /// # Errors
    /// The firewall's variables are out of reach.
    pub fn detach(&mut self, interface: &str) -> Result<bool, DataplaneError> {
        let Some(at) = self.interfaces.iter().position(|known| known.name == interface) else {
            return Ok(false);
        };
        let gone = self.interfaces.remove(at);
        self.shared()?.ports[gone.place as usize] = types::port::default();
        // An entry that is not there is as good as one that was removed.
        let _ = self.skel.maps.port_devices.delete(&gone.place.to_ne_bytes());
        self.takes_frames(gone.place, false)?;
        Ok(true)
    }

    /// Interfaces that the firewall is on, with their hooks.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, Hook)> {
        self.interfaces.iter().map(|interface| (interface.name.as_str(), interface.hook))
    }

    /// A free place near the interface's own.
    fn place_for(&self, name: &str, index: u32) -> Result<u32, DataplaneError> {
        let ports = &self.shared_now()?.ports;
        (0..PORT_PROBES)
            .map(|probe| index.wrapping_add(probe) % MAX_PORTS)
            .find(|place| ports[*place as usize].ifindex == 0)
            .ok_or_else(|| DataplaneError::NoRoom { what: format!("interface `{name}`"), most: MAX_PORTS })
    }

    fn tie(
        &self,
        name: &str,
        index: u32,
        place: u32,
        hook: Hook,
    ) -> Result<(Vec<Tie>, Attached), DataplaneError> {
        let programs = &self.skel.progs;
        let mut note = None;
        TcHookBuilder::new(programs.resolve.as_fd())
            .ifindex(index as i32)
            .hook(TC_INGRESS | TC_EGRESS)
            .create()
            .map_err(DataplaneError::bpf(format!("preparing `{name}` for programs (TC)")))?;
        if hook == Hook::Xdp {
            match programs.firewall_xdp.attach_xdp(index as i32) {
                Ok(link) => {
                    self.skel
                        .maps
                        .port_devices
                        .update(&place.to_ne_bytes(), &index.to_ne_bytes(), MapFlags::ANY)
                        .map_err(DataplaneError::bpf(format!("entering `{name}` into the device map")))?;
                    let resolve = tie_tc(&programs.resolve, index, TC_INGRESS, name)?;
                    let leave = tie_tc(&programs.firewall_out, index, TC_EGRESS, name)?;
                    return Ok((vec![Tie::Link(link), resolve, leave], Attached { hook, note: None }));
                }
                Err(error) => {
                    note = Some(format!("`{name}` takes no XDP program ({error}); TC is used instead"))
                }
            }
        }
        let enter = tie_tc(&programs.firewall_tc, index, TC_INGRESS, name)?;
        let leave = tie_tc(&programs.firewall_out, index, TC_EGRESS, name)?;
        Ok((vec![enter, leave], Attached { hook: Hook::Tc, note }))
    }
}

/// By a filter of clsact, which Linux has since 4.5.
fn tie_tc(
    program: &ProgramMut<'_>,
    index: u32,
    point: TcAttachPoint,
    name: &str,
) -> Result<Tie, DataplaneError> {
    let mut builder = TcHookBuilder::new(program.as_fd());
    let mut hook = builder.ifindex(index as i32).replace(true).handle(1).priority(1).hook(point);
    hook.attach()
        .map(Tie::Filter)
        .map_err(DataplaneError::bpf(format!("putting the firewall on `{name}` (TC)")))
}
