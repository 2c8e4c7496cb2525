//! The interfaces that the firewall is attached to, and their zones.

mod attachment;

use crate::DataplaneError;
use crate::forwarding;
use crate::names::SharedNames;
use crate::shared::{Program, Shared};
use crate::skeleton::types::{port, sizes};
use attachment::Attachment;
use libbpf_rs::{MapCore, MapFlags, MapHandle, TC_EGRESS, TC_INGRESS};

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

/// The interfaces. Their programs are detached when this is dropped, which is to happen in the network namespace where they are.
pub struct Ports {
    pub(crate) places: Shared<[port; sizes::MAX_PORTS.0 as usize]>,
    pub(crate) devices: MapHandle,
    pub(crate) forwarding: MapHandle,
    pub(crate) programs: Programs,
    pub(crate) names: SharedNames,
    pub(crate) attached: Vec<Port>,
}

/// The programs that interfaces need.
pub(crate) struct Programs {
    pub(crate) xdp: Program,
    /// Beside XDP, for packets whose next hop the kernel has to find.
    pub(crate) resolve: Program,
    pub(crate) tc: Program,
    /// Beside either, for what the firewall itself sends.
    pub(crate) out: Program,
}

/// An interface that the firewall is attached to.
pub(crate) struct Port {
    name: String,
    index: u32,
    place: u32,
    hook: Hook,
    _attachments: Vec<Attachment>,
}

impl Ports {
    /// Attaches the firewall to an interface of this network namespace, which belongs to a zone from now on. Of an interface that
    /// is attached already only the zone changes.
    ///
    /// # Errors
    /// There is no such interface, there are too many, or the kernel refuses both hooks.
    pub fn attach(&mut self, interface: &str, zone: &str, hook: Hook) -> Result<Attached, DataplaneError> {
        let index = nix::net::if_::if_nametoindex(interface)
            .map_err(|e| DataplaneError::system(format!("finding the interface `{interface}`"))(e.into()))?;
        let zone = u32::from(self.names.zone_number(zone)?);
        if let Some(known) = self.attached.iter().find(|known| known.index == index) {
            self.places[known.place as usize].zone = zone;
            return Ok(Attached { hook: known.hook, note: None });
        }
        let place = self.place_for(interface, index)?;
        self.places[place as usize] = port { ifindex: index, zone };
        match self.attach_programs(interface, index, place, hook) {
            Ok((attachments, attached)) => {
                let (name, hook) = (interface.to_owned(), attached.hook);
                self.attached.push(Port { name, index, place, hook, _attachments: attachments });
                self.takes_frames(place, hook == Hook::Xdp)?;
                Ok(attached)
            }
            Err(error) => {
                self.places[place as usize] = port::default();
                Err(error)
            }
        }
    }

    /// Detaches the firewall from an interface. Returns false if it was not attached there.
    ///
    /// # Errors
    /// The kernel does not let the map be written.
    pub fn detach(&mut self, interface: &str) -> Result<bool, DataplaneError> {
        let Some(at) = self.attached.iter().position(|known| known.name == interface) else {
            return Ok(false);
        };
        let gone = self.attached.remove(at);
        self.places[gone.place as usize] = port::default();
        // An entry that is not there is as good as one that was removed.
        let _ = self.devices.delete(&gone.place.to_ne_bytes());
        self.takes_frames(gone.place, false)?;
        Ok(true)
    }

    /// The device of a port takes frames from XDP, or not.
    fn takes_frames(&self, place: u32, takes: bool) -> Result<(), DataplaneError> {
        forwarding::set_takes_frames(&self.forwarding, place, takes)
            .map_err(DataplaneError::bpf("changing how packets are forwarded"))
    }

    /// A free place near the interface's own.
    fn place_for(&self, name: &str, index: u32) -> Result<u32, DataplaneError> {
        let most = sizes::MAX_PORTS.0;
        (0..sizes::PORT_PROBES.0)
            .map(|probe| index.wrapping_add(probe) % most)
            .find(|place| self.places[*place as usize].ifindex == 0)
            .ok_or_else(|| DataplaneError::NoRoom { what: format!("interface `{name}`"), most })
    }

    fn attach_programs(
        &self,
        name: &str,
        index: u32,
        place: u32,
        hook: Hook,
    ) -> Result<(Vec<Attachment>, Attached), DataplaneError> {
        let Programs { xdp, resolve, tc, out } = &self.programs;
        let mut note = None;
        attachment::prepare(resolve, index)
            .map_err(DataplaneError::bpf(format!("preparing `{name}` for programs (TC)")))?;
        if hook == Hook::Xdp {
            match Attachment::driver(xdp, index) {
                Ok(driver) => {
                    self.devices
                        .update(&place.to_ne_bytes(), &index.to_ne_bytes(), MapFlags::ANY)
                        .map_err(DataplaneError::bpf(format!("entering `{name}` into the device map")))?;
                    let resolve = Attachment::filter(resolve, index, TC_INGRESS, name)?;
                    let leave = Attachment::filter(out, index, TC_EGRESS, name)?;
                    return Ok((vec![driver, resolve, leave], Attached { hook, note: None }));
                }
                Err(error) => {
                    note = Some(format!(
                        "`{name}` takes no XDP program in its driver ({error}); TC is used instead"
                    ));
                }
            }
        }
        let enter = Attachment::filter(tc, index, TC_INGRESS, name)?;
        let leave = Attachment::filter(out, index, TC_EGRESS, name)?;
        Ok((vec![enter, leave], Attached { hook: Hook::Tc, note }))
    }
}
