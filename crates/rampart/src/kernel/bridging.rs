//! What interfaces of a transparent bridge need of the kernel: they receive every frame, carry packets of the same size, and meet the firewall at
//! the same hook.

use super::Kernel;
use super::machine::links;
use super::words::hook_name;
use crate::plane::PlaneError;
use dataplane::{Hook, Interface, routes};
use nix::net::if_::if_nametoindex;
use policy::bridge;
use policy::{Bridge, Policy};

impl Kernel {
    /// Puts the bridges of a policy in force.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub(super) fn set_bridges(&mut self, bridges: &[Bridge]) -> Result<(), PlaneError> {
        self.bridges = bridges.to_vec();
        self.firewall.ports.set_bridges(bridges)?;
        let attached: Vec<String> = self.attached.iter().map(|it| it.interface.clone()).collect();
        for interface in attached {
            self.receive_all(&interface, self.other_end(&interface).is_some())?;
            self.level_hooks(&interface)?;
        }
        Ok(())
    }

    /// The interface at the other end of an interface's bridge.
    pub(super) fn other_end(&self, interface: &str) -> Option<&str> {
        bridge::of(&self.bridges, interface).map(|(_, other)| other)
    }

    /// An interface receives frames for other machines if it is to; what was so before this daemon stays. One that is gone receives nothing.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub(super) fn receive_all(&mut self, interface: &str, receives: bool) -> Result<(), PlaneError> {
        if !receives && !self.receives_all.remove(interface) {
            return Ok(());
        }
        let links = links()?;
        let Some(link) = links.iter().find(|link| link.name == interface) else { return Ok(()) };
        // An earlier daemon or another program made them receive it, and nothing shows which.
        if receives && (!link.receives_all || self.took_over) {
            self.receives_all.insert(interface.to_owned());
        }
        if link.receives_all == receives {
            return Ok(());
        }
        routes::receive_all(link.index, receives)
            .map_err(|error| PlaneError::Machine(format!("`{interface}`: {error}")))
    }

    /// What XDP takes at one end of a bridge it cannot send by an end that takes no frames from XDP: then both are judged at TC.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub(super) fn level_hooks(&mut self, interface: &str) -> Result<(), PlaneError> {
        let Some(other) = self.other_end(interface).map(str::to_owned) else { return Ok(()) };
        let ports = &mut self.firewall.ports;
        let (at_xdp, at_tc) = match (ports.hook_of(interface), ports.hook_of(&other)) {
            (Some(Hook::Xdp), Some(Hook::Tc)) => (interface, other.as_str()),
            (Some(Hook::Tc), Some(Hook::Xdp)) => (other.as_str(), interface),
            _ => return Ok(()),
        };
        match ports.go_behind(at_xdp) {
            // It has just gone, and is taken again when it is back.
            Err(_) if if_nametoindex(at_xdp).is_err() => return Ok(()),
            other => other?,
        };
        let note =
            format!("`{at_tc}`, the other end of its bridge, takes no frames from XDP; TC is used instead");
        self.leveled.push((at_xdp.to_owned(), hook_name(Hook::Tc), note));
        Ok(())
    }
}

/// Refuses bridges of interfaces between which frames cannot cross. One that is not there is for others to refuse.
///
/// # Errors
/// The first that cannot be.
pub(super) fn refuse_unfit(policy: &Policy, links: &[Interface]) -> Result<(), PlaneError> {
    for bridge in &policy.bridges {
        let refused = |why: String| Err(PlaneError::Machine(format!("bridge `{}`: {why}", bridge.name)));
        let ends = bridge.interfaces.each_ref().map(|name| links.iter().find(|link| link.name == *name));
        for link in ends.into_iter().flatten() {
            if link.is_layer_3() || link.is_loopback() {
                let name = &link.name;
                return refused(format!("`{name}` has no Ethernet headers, and a bridge forwards by those"));
            }
        }
        let [first, second] = ends.map(|link| link.and_then(|link| Some((&link.name, link.mtu?))));
        if let (Some((first, one)), Some((second, other))) = (first, second)
            && one != other
        {
            return refused(format!(
                "`{first}` has an MTU of {one} and `{second}` one of {other}: a bridge cannot fragment, so give both the same \
                 (`ip link set {first} mtu …`)"
            ));
        }
    }
    Ok(())
}
