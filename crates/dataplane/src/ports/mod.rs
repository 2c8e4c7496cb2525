//! The interfaces that the firewall is attached to, and their zones.

mod attachment;
mod bridging;
mod gate;
mod netfilter;
mod pins;
#[allow(
    unsafe_code,
    reason = "system calls that libbpf-rs does not make: the chain of tcx, what a program is"
)]
mod programs;
mod stations;

use crate::DataplaneError;
use crate::flow_table::Moved;
use crate::forwarding;
use crate::names::SharedNames;
use crate::routes::{self, LinkAddresses};
use crate::shared::{Program, Shared, publish};
use crate::skeleton::types::{port, sizes};
use attachment::{Attachment, DriverError, Standing};
pub(crate) use attachment::{ours, take_ours};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
pub(crate) use netfilter::{Netfilter, close_leftovers};
use nix::net::if_::if_nametoindex;
pub use pins::{held_namespaces, release_namespace};
use policy::Bridge;
use programs::Direction;
pub(crate) use programs::Listed;
pub use stations::Station;
use std::collections::HashSet;

/// Where a packet meets the firewall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// In the driver, before the kernel makes a socket buffer of it: the fastest, for network cards.
    Xdp,
    /// Before routing: for virtual links and tunnels, whose large packets XDP would break up.
    Tc,
    /// Behind routing, where the kernel forwards: [`Ports::open_netfilter`].
    Netfilter,
}

/// How an interface was attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The hook in use.
    pub hook: Hook,
    /// Why it is not the one that was asked for.
    pub note: Option<String>,
}

/// The interfaces. Their programs are detached when this is dropped, unless [`Ports::outlive`] said otherwise; that is to happen in
/// the network namespace where they are.
pub struct Ports {
    pub(crate) places: Shared<[port; sizes::MAX_PORTS.0 as usize]>,
    pub(crate) devices: MapHandle,
    pub(crate) bridge_map: MapHandle,
    pub(crate) station_map: MapHandle,
    /// Those of the policy.
    pub(crate) bridges: Vec<Bridge>,
    pub(crate) forwarding: MapHandle,
    pub(crate) link_addresses: LinkAddresses,
    pub(crate) programs: Programs,
    pub(crate) names: SharedNames,
    pub(crate) attached: Vec<Port>,
    /// The programs stay at their interfaces when this is dropped.
    pub(crate) outlives: bool,
    /// Where the kernel's own forwarding asks.
    pub(crate) netfilter: Option<Netfilter>,
    pub(crate) interface_names: MapHandle,
    /// What keeps interfaces closed until they are attached.
    pub(crate) gate: Option<Netfilter>,
}

/// What somebody did to the firewall's programs at an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meddling {
    /// The interface.
    pub interface: String,
    /// What was found, and what was done about it.
    pub what: String,
    /// It was put right.
    pub is_mended: bool,
    /// The firewall had to go to another hook of the interface.
    pub moved_to: Option<Hook>,
}

/// The programs that interfaces need; of those that packets meet, what the hooks in use need.
pub(crate) struct Programs {
    pub(crate) xdp: Option<Program>,
    /// Beside XDP, for packets whose next hop the kernel has to find.
    pub(crate) resolve: Program,
    pub(crate) tc: Option<Program>,
    /// Beside either, for what the firewall itself sends.
    pub(crate) out: Option<Program>,
    /// Only handed packets, with a clock that is held: nothing leaves, and `out` is not there.
    pub(crate) stand_still: bool,
    /// Asked by the kernel's own forwarding; only there if it is to be asked.
    pub(crate) netfilter: Option<Program>,
    /// Beside it, on each interface.
    pub(crate) way_back: Program,
    /// Asked about interfaces that the firewall is not attached to yet; only where the kernel has such programs.
    pub(crate) gate: Option<Program>,
}

/// An interface that the firewall is attached to.
pub(crate) struct Port {
    name: String,
    index: u32,
    place: u32,
    hook: Hook,
    /// Beside XDP is the program that judges copies of frames, and not that of packets without a neighbour.
    judges_copies: bool,
    attachments: Vec<Attachment>,
}

impl Ports {
    /// Attaches the firewall to an interface of this network namespace, which belongs to a zone from now on. Of an interface that
    /// is attached already only the zone changes, and the name if it has another one by now.
    ///
    /// # Errors
    /// There is no such interface, there are too many, or the kernel refuses both hooks.
    pub fn attach(&mut self, interface: &str, zone: &str, hook: Hook) -> Result<Attached, DataplaneError> {
        let index = index_of(interface)?;
        let zone = self.names.zone_number(zone)?;
        if let Some(known) = self.attached.iter_mut().find(|known| known.index == index) {
            self.places[known.place as usize].zone = zone;
            interface.clone_into(&mut known.name);
            let hook = known.hook;
            self.join()?;
            return Ok(Attached { hook, note: None });
        }
        // One that an earlier firewall was on keeps its place: its packets go on.
        let (place, is_new) = self.place_for(interface, index)?;
        self.note_addresses(interface, place, index)?;
        let is_layer_3 = is_layer_3(interface, index)?;
        let bridged_to = self.note_bridge(interface, place)?;
        // Its address is there already.
        let written = &mut self.places[place as usize];
        (written.zone, written.is_layer_3, written.bridged_to) = (zone, u8::from(is_layer_3), bridged_to);
        publish(&mut written.ifindex, index);
        let (hook, note) = if is_layer_3 { without_ethernet(interface, hook) } else { (hook, None) };
        match self.attach_programs(interface, index, place, hook) {
            Ok((attachments, attached)) => {
                let (name, hook) = (interface.to_owned(), attached.hook);
                let judges_copies = self.is_of_switch(interface);
                self.attached.push(Port { name, index, place, hook, judges_copies, attachments });
                self.takes_frames(place, hook == Hook::Xdp)?;
                self.join()?;
                Ok(Attached { note: attached.note.or(note), ..attached })
            }
            Err(error) => {
                if is_new {
                    self.places[place as usize] = port::default();
                    self.note_addresses(interface, place, 0)?;
                }
                Err(error)
            }
        }
    }

    /// Whether the programs of a hook were loaded, which [`Ports::attach`] needs.
    pub const fn is_loaded_for(&self, hook: Hook) -> bool {
        match hook {
            Hook::Xdp => self.programs.xdp.is_some(),
            Hook::Tc => self.programs.tc.is_some(),
            Hook::Netfilter => self.programs.netfilter.is_some(),
        }
    }

    /// Where packets of an interface meet the firewall; `None` if it is not attached.
    pub fn hook_of(&self, interface: &str) -> Option<Hook> {
        self.attached.iter().find(|port| port.name == interface).map(|port| port.hook)
    }

    /// Judges an interface behind its driver from now on, if the firewall is in that. The program there is taken away when those behind it are
    /// there, so nothing passes unjudged in between. Returns whether it was in the driver.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub fn go_behind(&mut self, interface: &str) -> Result<bool, DataplaneError> {
        let is_in_driver = |port: &Port| port.name == interface && port.hook == Hook::Xdp;
        let Some(at) = self.attached.iter().position(is_in_driver) else { return Ok(false) };
        let before = self.put_behind(at)?;
        before.into_iter().filter(Attachment::is_driver).for_each(Attachment::detach);
        Ok(true)
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
        gone.attachments.into_iter().for_each(Attachment::detach);
        self.clear(gone.place)?;
        Ok(true)
    }

    /// Takes no notice any more of an interface that is gone: its number may be another's by now. Returns false if it was not attached.
    ///
    /// # Errors
    /// The kernel does not let the map be written.
    pub fn forget(&mut self, interface: &str) -> Result<bool, DataplaneError> {
        let Some(at) = self.attached.iter().position(|known| known.name == interface) else {
            return Ok(false);
        };
        let gone = self.attached.remove(at);
        self.clear(gone.place)?;
        Ok(true)
    }

    /// From now on the programs stay at their interfaces when this is dropped, and go on judging.
    pub fn outlive(&mut self) {
        self.outlives = true;
    }

    /// From now on the kernel asks about every packet that it forwards, delivers to this machine or sends for it, in this network
    /// namespace. Packets from and to interfaces that are not attached are dropped. A firewall that outlives its process goes on
    /// being asked, and takes the place of an earlier one.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub fn open_netfilter(&mut self) -> Result<(), DataplaneError> {
        if let (None, Some(program)) = (&self.netfilter, &self.programs.netfilter) {
            self.netfilter = Some(Netfilter::open(program, &Netfilter::FORWARDING, self.outlives)?);
        }
        Ok(())
    }

    /// From now on the kernel does not ask any more, whoever it asked in this network namespace.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub fn close_netfilter(&mut self) -> Result<(), DataplaneError> {
        self.netfilter.take().map_or_else(close_leftovers, Netfilter::close)
    }

    /// Interfaces that an earlier firewall was on, whose maps these are, and that this one is not attached to: their places are
    /// free from now on. Their programs drop what comes in.
    ///
    /// # Errors
    /// The kernel does not let the maps be written.
    pub fn forget_others(&mut self) -> Result<(), DataplaneError> {
        let ours: HashSet<u32> = self.attached.iter().map(|port| port.place).collect();
        let others = (0..sizes::MAX_PORTS.0).filter(|place| !ours.contains(place));
        let others: Vec<u32> = others.filter(|place| self.places[*place as usize].ifindex != 0).collect();
        others.into_iter().try_for_each(|place| self.clear(place))
    }

    /// Closes the interfaces, of this firewall or of an earlier one whose maps these are, that belong to another zone now, until they are attached:
    /// no packet is judged by the zone of one policy and the rules of another. Returns those, for [`crate::FlowTable::end_moved`].
    ///
    /// # Errors
    /// There are too many zones.
    pub fn close_moved<'p>(
        &mut self,
        zones: impl Iterator<Item = (&'p str, &'p str)>,
    ) -> Result<Vec<Moved>, DataplaneError> {
        let mut all = Vec::new();
        for (interface, zone) in zones {
            let zone = self.names.zone_number(zone)?;
            let Ok(index) = if_nametoindex(interface) else { continue };
            let mut places = self.places.iter_mut().enumerate();
            let Some((at, place)) = places.find(|(_, place)| place.ifindex == index && place.zone != zone)
            else {
                continue;
            };
            all.push(Moved { interface: interface.to_owned(), place: at as u32, zone: place.zone });
            place.zone = sizes::NO_ZONE.0 as u8;
        }
        Ok(all)
    }

    /// Looks whether the programs are where they were attached, and puts back what somebody took away. Cheap enough to be asked
    /// several times a second.
    pub fn check(&mut self) -> Vec<Meddling> {
        let mut found = Vec::new();
        for at in 0..self.attached.len() {
            // An interface that is gone has no programs, and whoever follows interfaces knows of it.
            if index_of(&self.attached[at].name).ok() == Some(self.attached[at].index) {
                self.check_port(at, &mut found);
            }
        }
        found
    }

    fn check_port(&mut self, at: usize, found: &mut Vec<Meddling>) {
        let port = &self.attached[at];
        let mut ousted_by = None;
        for attachment in &port.attachments {
            let place = attachment.place();
            let (what, is_mended) = match attachment.standing() {
                Ok(Standing::InPlace) => continue,
                Ok(Standing::Gone) => put_back(attachment),
                Ok(Standing::Behind(who)) => (
                    format!(
                        "{who} sees packets before the firewall does {place}: what it lets pass is not judged; take it away, or \
                         put it behind the firewall"
                    ),
                    false,
                ),
                Ok(Standing::Replaced(who)) if attachment.is_driver() => {
                    ousted_by = Some(who);
                    continue;
                }
                Ok(Standing::Replaced(who)) => {
                    (format!("{who} was put in the firewall's place {place}: take it away"), false)
                }
                Err(error) => (format!("cannot look at the firewall's programs {place}: {error}"), false),
            };
            found.push(Meddling { interface: port.name.clone(), what, is_mended, moved_to: None });
        }
        if let Some(who) = ousted_by {
            found.push(self.leave_driver(at, &who));
        }
    }

    /// Somebody else's program is in the driver in our place: the interface is judged behind it.
    fn leave_driver(&mut self, at: usize, who: &str) -> Meddling {
        let interface = self.attached[at].name.clone();
        let done = self.put_behind(at);
        let is_mended = done.is_ok();
        let then = match done {
            Ok(_) => "packets are judged behind it (TC) from now on".to_owned(),
            Err(error) => format!("and the firewall cannot judge behind it: {error}"),
        };
        let what = format!("{who} was put in the firewall's place in the driver (XDP): {then}");
        Meddling { interface, what, is_mended, moved_to: is_mended.then_some(Hook::Tc) }
    }

    /// Attaches behind the driver. Returns what was attached before.
    fn put_behind(&mut self, at: usize) -> Result<Vec<Attachment>, DataplaneError> {
        let Port { name, index, place, .. } = &self.attached[at];
        let place = *place;
        let (attachments, attached) = self.attach_programs(name, *index, place, Hook::Tc)?;
        let port = &mut self.attached[at];
        port.hook = attached.hook;
        let before = std::mem::replace(&mut port.attachments, attachments);
        let _ = self.devices.delete(&place.to_ne_bytes());
        self.takes_frames(place, false).map(|()| before)
    }

    fn clear(&mut self, place: u32) -> Result<(), DataplaneError> {
        self.part(place);
        self.forget_bridge(place)?;
        self.places[place as usize] = port::default();
        // An entry that is not there is as good as one that was removed.
        let _ = self.devices.delete(&place.to_ne_bytes());
        self.note_addresses("an interface that is given up", place, 0)?;
        self.takes_frames(place, false)
    }

    /// Notes for which Ethernet addresses an interface takes frames. [`crate::routes::Routes`] follows their changes.
    fn note_addresses(&mut self, name: &str, place: u32, index: u32) -> Result<(), DataplaneError> {
        self.link_addresses.note(place, index).map_err(|error| {
            let doing = format!("learning the Ethernet addresses of `{name}`");
            DataplaneError::system(doing)(std::io::Error::other(error.to_string()))
        })
    }

    /// The device of a port takes frames from XDP, or not.
    fn takes_frames(&self, place: u32, takes: bool) -> Result<(), DataplaneError> {
        forwarding::set_takes_frames(&self.forwarding, place, takes)
            .map_err(DataplaneError::bpf("changing how packets are forwarded"))
    }

    /// The place of an interface, or a free one near its own; and whether it is new.
    fn place_for(&self, name: &str, index: u32) -> Result<(u32, bool), DataplaneError> {
        let most = sizes::MAX_PORTS.0;
        let near = || (0..sizes::PORT_PROBES.0).map(|probe| index.wrapping_add(probe) % most);
        let with = |ifindex| near().find(|place| self.places[*place as usize].ifindex == ifindex);
        let known = with(index).map(|place| (place, false));
        known
            .or_else(|| with(0).map(|place| (place, true)))
            .ok_or_else(|| DataplaneError::NoRoom { what: format!("interface `{name}`"), most })
    }

    /// The firewall's programs behind the driver.
    fn siblings(&self, direction: Direction) -> Vec<&Program> {
        let Programs { resolve, tc, out, way_back, .. } = &self.programs;
        let siblings = match direction {
            Direction::In => [Some(resolve), Some(way_back), tc.as_ref()],
            Direction::Out => [out.as_ref(), None, None],
        };
        siblings.into_iter().flatten().collect()
    }

    /// The program beside the one in the driver of an interface.
    fn behind_driver(&self, name: &str) -> Result<&Program, DataplaneError> {
        if self.is_of_switch(name) { loaded(&self.programs.tc, name) } else { Ok(&self.programs.resolve) }
    }

    fn attach_programs(
        &self,
        name: &str,
        index: u32,
        place: u32,
        hook: Hook,
    ) -> Result<(Vec<Attachment>, Attached), DataplaneError> {
        let Programs { xdp, tc, out, way_back, .. } = &self.programs;
        let behind = |program, direction| {
            Attachment::behind(program, &self.siblings(direction), index, direction, name)
        };
        let leave = || match out {
            None if self.programs.stand_still => Ok(None),
            out => behind(loaded(out, name)?, Direction::Out).map(Some),
        };
        let mut note = None;
        if hook == Hook::Netfilter {
            let way_back = behind(way_back, Direction::In)?;
            // What an earlier firewall left that forwarded by itself; the kernel asks us already.
            let _ = attachment::take_driver(index);
            let _ = attachment::take_behind(index, Direction::Out);
            return Ok((vec![way_back], Attached { hook, note: None }));
        }
        if hook == Hook::Xdp {
            match Attachment::driver(loaded(xdp, name)?, index) {
                Ok(driver) => {
                    self.devices
                        .update(&place.to_ne_bytes(), &index.to_ne_bytes(), MapFlags::ANY)
                        .map_err(DataplaneError::bpf(format!("entering `{name}` into the device map")))?;
                    let mut attachments = vec![driver, behind(self.behind_driver(name)?, Direction::In)?];
                    attachments.extend(leave()?);
                    return Ok((attachments, Attached { hook, note: None }));
                }
                Err(DriverError::Occupied(who)) => {
                    return Err(DataplaneError::Occupied { interface: name.to_owned(), who });
                }
                Err(DriverError::Refused(error)) => {
                    note = Some(format!(
                        "`{name}` takes no XDP program in its driver ({error}); TC is used instead"
                    ));
                }
            }
        }
        let mut attachments = vec![behind(loaded(tc, name)?, Direction::In)?];
        attachments.extend(leave()?);
        // One of our own that an earlier firewall left in the driver would judge packets first, by its own maps or by ours.
        let _ = attachment::take_driver(index);
        Ok((attachments, Attached { hook: Hook::Tc, note }))
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        if !self.outlives {
            self.attached.drain(..).flat_map(|port| port.attachments).for_each(Attachment::detach);
        }
    }
}

/// The program of a hook, if the firewall was loaded for that.
fn loaded<'p>(program: &'p Option<Program>, interface: &str) -> Result<&'p Program, DataplaneError> {
    program.as_ref().ok_or_else(|| {
        let why = "the firewall was loaded for other hooks";
        DataplaneError::system(format!("putting the firewall on `{interface}`"))(std::io::Error::other(why))
    })
}

/// Puts a program back that somebody took away; what to say of it, and whether it is there again.
fn put_back(attachment: &Attachment) -> (String, bool) {
    let what = format!("somebody took the firewall's program away {}", attachment.place());
    match attachment.put_back() {
        Ok(()) => (format!("{what}; it is there again"), true),
        Err(error) => (format!("{what}, and it cannot be put back: {error}"), false),
    }
}

/// Whether the packets of an interface come without Ethernet headers.
fn is_layer_3(interface: &str, index: u32) -> Result<bool, DataplaneError> {
    let all = routes::interfaces().map_err(|error| {
        let doing = format!("asking what kind of link `{interface}` is");
        DataplaneError::system(doing)(std::io::Error::other(error.to_string()))
    })?;
    Ok(all.iter().any(|it| it.index == index && it.is_layer_3()))
}

/// Where packets without Ethernet headers can be judged instead of in the driver, and what to say of it.
fn without_ethernet(interface: &str, hook: Hook) -> (Hook, Option<String>) {
    if hook != Hook::Xdp {
        return (hook, None);
    }
    (Hook::Tc, Some(format!("`{interface}` has no Ethernet headers, which XDP needs; TC is used instead")))
}

fn index_of(interface: &str) -> Result<u32, DataplaneError> {
    if_nametoindex(interface)
        .map_err(|e| DataplaneError::system(format!("finding the interface `{interface}`"))(e.into()))
}
