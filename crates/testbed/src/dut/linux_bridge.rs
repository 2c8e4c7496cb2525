//! The kernel's own bridge without a filter: what crossing a Linux machine at layer 2 costs.

use super::kernel::check_links;
use super::{Capabilities, Driver, Requirement, Running, admit};
use crate::bed::{Bed, FirewallSide, Wiring};
use crate::error::TestbedError;
use crate::policy::PolicySpec;
use measure::results::Role;
use std::collections::BTreeMap;

const BRIDGE: &str = "bridge";

pub(super) struct LinuxBridge;

impl Driver for LinuxBridge {
    fn name(&self) -> &'static str {
        "linux-bridge"
    }

    fn summary(&self) -> &'static str {
        "the kernel's bridge without a filter (layer 2)"
    }

    fn role(&self) -> Role {
        Role::Forwarder
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { three_zones: false, ..Capabilities::FORWARDING }
    }

    fn wiring(&self) -> Wiring {
        Wiring::Bridge
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        let bridge = Bridge { side: bed.firewall_side(self.name())? };
        bridge.turn_on()?;
        Ok(Box::new(bridge))
    }
}

struct Bridge {
    side: FirewallSide,
}

impl Bridge {
    /// Without spanning tree a port forwards from the moment that it is up. No listener of a group is asked after: frames are what the test sends.
    fn turn_on(&self) -> Result<(), TestbedError> {
        let mut batch = format!("link add {BRIDGE} type bridge stp_state 0 mcast_snooping 0\n");
        for end in self.side.ends() {
            batch += &format!("link set dev {} master {BRIDGE}\n", end.device);
        }
        batch += &format!("link set dev {BRIDGE} up\n");
        self.side.namespace.run_with_input("ip", &["-batch", "-"], &batch).map(drop)
    }
}

impl Running for Bridge {
    /// It has none of its own: what its ports lose, their links count.
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        Ok(BTreeMap::new())
    }

    fn firewall_threads(&self) -> Vec<i32> {
        self.side.threads()
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        check_links(&self.side, &format!(" master {BRIDGE} "))
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        self.side.links_down()?;
        self.side.links_up()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // The namespace may be gone already, and the bridge with it.
        let _ = self.side.namespace.run("ip", &["link", "delete", "dev", BRIDGE]);
    }
}
