//! What interfaces of a transparent bridge need of the kernel: they receive every frame, carry packets of the same size, and meet the firewall at
//! the same hook.

use super::Kernel;
use super::machine::links;
use super::uptime;
use super::words::{hook_name, written_address};
use crate::plane::PlaneError;
use dataplane::{Hook, Interface, Station, routes};
use nix::net::if_::if_nametoindex;
use policy::bridge;
use policy::{Bridge, Policy};
use std::time::Duration;

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
            self.receive_all(&interface, bridge::of(&self.bridges, &interface).is_some())?;
            self.level_hooks(&interface)?;
        }
        Ok(())
    }

    /// The other interfaces of an interface's bridge.
    pub(super) fn other_ends(&self, interface: &str) -> Vec<String> {
        let others = |bridge: &Bridge| bridge.others(interface).map(str::to_owned).collect();
        bridge::of(&self.bridges, interface).map(others).unwrap_or_default()
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

    /// What XDP takes at one interface of a bridge it cannot send by one that takes no frames from XDP: then all are judged at TC.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub(super) fn level_hooks(&mut self, interface: &str) -> Result<(), PlaneError> {
        let all: Vec<String> = self.other_ends(interface).into_iter().chain([interface.to_owned()]).collect();
        let ports = &mut self.firewall.ports;
        let Some(at_tc) = all.iter().find(|it| ports.hook_of(it) == Some(Hook::Tc)) else { return Ok(()) };
        for at_xdp in &all {
            if self.firewall.ports.hook_of(at_xdp) != Some(Hook::Xdp) {
                continue;
            }
            match self.firewall.ports.go_behind(at_xdp) {
                // It has just gone, and is taken again when it is back.
                Err(_) if if_nametoindex(at_xdp.as_str()).is_err() => continue,
                other => other?,
            };
            let which = if all.len() > 2 { "another interface" } else { "the other end" };
            let note =
                format!("`{at_tc}`, {which} of its bridge, takes no frames from XDP; TC is used instead");
            self.leveled.push((at_xdp.clone(), hook_name(Hook::Tc), note));
        }
        Ok(())
    }
}

/// For how long a station that has moved is reported.
const SHOWN: Duration = Duration::from_secs(60);
/// So many are named.
const NAMED: usize = 4;

impl Kernel {
    /// Stations of bridges that were heard at another interface than before. Either they moved, or somebody takes their address.
    ///
    /// # Errors
    /// The kernel does not let them be read.
    pub(super) fn moved_stations(&self) -> Result<Vec<String>, PlaneError> {
        if !self.bridges.iter().any(Bridge::is_switch) {
            return Ok(Vec::new());
        }
        Ok(moves(&self.firewall.ports.stations(uptime()?)?))
    }
}

/// What is said of stations that moved a short time ago.
fn moves(stations: &[Station]) -> Vec<String> {
    let is_new = |it: &&Station| it.moved < SHOWN && (it.is_claimed || it.home != it.interface);
    let moved: Vec<&Station> = stations.iter().filter(is_new).collect();
    let mut found: Vec<String> = moved.iter().take(NAMED).map(|station| said_of(station)).collect();
    if let Some(more) = moved.len().checked_sub(NAMED).filter(|more| *more > 0) {
        found.push(format!("{more} more stations of bridges were heard at other interfaces than before"));
    }
    found
}

fn said_of(station: &Station) -> String {
    let address = written_address(station.address);
    let Station { bridge, interface, home, vlan, .. } = station;
    let vlan = if *vlan == 0 { String::new() } else { format!(" (VLAN {vlan})") };
    if station.is_claimed {
        return format!(
            "bridge `{bridge}`: {address}{vlan} was heard at another interface than `{interface}`, where it is again: somebody took its \
             address, or it is at two"
        );
    }
    format!(
        "bridge `{bridge}`: {address}{vlan} moved from `{home}` to `{interface}`, or somebody there takes its address"
    )
}

/// Refuses bridges of interfaces between which frames cannot cross. One that is not there is for others to refuse.
///
/// # Errors
/// The first that cannot be.
pub(super) fn refuse_unfit(policy: &Policy, links: &[Interface]) -> Result<(), PlaneError> {
    for bridge in &policy.bridges {
        let refused = |why: String| Err(PlaneError::Machine(format!("bridge `{}`: {why}", bridge.name)));
        let link_of = |name: &String| links.iter().find(|link| link.name == *name);
        let ends: Vec<&Interface> = bridge.interfaces.iter().filter_map(link_of).collect();
        if let Some(link) = ends.iter().find(|link| link.is_layer_3() || link.is_loopback()) {
            return refused(format!(
                "`{}` has no Ethernet headers, and a bridge forwards by those",
                link.name
            ));
        }
        let mut sizes = ends.iter().filter_map(|link| Some((&link.name, link.mtu?)));
        let Some((first, one)) = sizes.next() else { continue };
        if let Some((second, other)) = sizes.find(|(_, mtu)| *mtu != one) {
            return refused(format!(
                "`{first}` has an MTU of {one} and `{second}` one of {other}: a bridge cannot fragment, so give all the same \
                 (`ip link set {first} mtu …`)"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_that_moved_are_named_for_a_minute() {
        let station = |interface: &str, home: &str, is_claimed: bool, moved: u64, vlan: u16| Station {
            bridge: "b".to_owned(),
            vlan,
            address: [2, 0, 0, 0, 0, 0xab],
            interface: interface.to_owned(),
            home: home.to_owned(),
            is_claimed,
            moved: Duration::from_secs(moved),
            seen: Duration::ZERO,
        };
        let at_home = [station("e1", "e1", false, 0, 0), station("e1", "e1", true, 61, 0)];
        assert_eq!(moves(&at_home), Vec::<String>::new());
        assert_eq!(
            moves(&[station("e2", "e1", false, 59, 0), station("e1", "e1", true, 59, 7)]),
            [
                "bridge `b`: 02:00:00:00:00:ab moved from `e1` to `e2`, or somebody there takes its address",
                "bridge `b`: 02:00:00:00:00:ab (VLAN 7) was heard at another interface than `e1`, where it is again: somebody took its \
                 address, or it is at two",
            ]
        );
        let many = vec![station("e2", "e1", false, 0, 0); 10];
        assert_eq!(moves(&many).len(), 5);
        assert_eq!(moves(&many)[4], "6 more stations of bridges were heard at other interfaces than before");
    }
}
