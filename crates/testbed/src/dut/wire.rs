//! Nothing between the zones: calibration, and the upper limit of everything else.

use super::{Capabilities, Driver, Requirement, Running, admit};
use crate::bed::{Bed, Wiring};
use crate::error::TestbedError;
use crate::policy::PolicySpec;
use measure::results::Role;
use std::collections::BTreeMap;

pub(super) struct Wire;

impl Driver for Wire {
    fn name(&self) -> &'static str {
        "wire"
    }

    fn summary(&self) -> &'static str {
        "no firewall: the zones' ends are joined directly (calibration)"
    }

    fn role(&self) -> Role {
        Role::Calibration
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { three_zones: false, ..Capabilities::FORWARDING }
    }

    fn wiring(&self) -> Wiring {
        Wiring::Direct
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        if bed.firewall().is_some() {
            return Err(TestbedError::Impossible(
                "wire needs a bed without a firewall: build it with the driver's own wiring".to_owned(),
            ));
        }
        Ok(Box::new(NothingBetween))
    }
}

struct NothingBetween;

impl Running for NothingBetween {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        Ok(BTreeMap::new())
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        Ok(())
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        Err(TestbedError::Unsupported { dut: "wire", what: "a reset".to_owned() })
    }
}
