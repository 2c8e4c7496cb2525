//! Plain Linux routing: what the kernel's forwarding costs without any filter.

use super::kernel::Forwarding;
use super::{Capabilities, Driver, Requirement, Running, admit};
use crate::bed::Bed;
use crate::error::TestbedError;
use crate::policy::PolicySpec;
use measure::results::Role;
use std::collections::BTreeMap;

pub(super) struct Linux;

impl Driver for Linux {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn summary(&self) -> &'static str {
        "Linux routing without a filter"
    }

    fn role(&self) -> Role {
        Role::Forwarder
    }

    fn requirements(&self) -> &'static [Requirement] {
        &[]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FORWARDING
    }

    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError> {
        admit(self, policy)?;
        Ok(Box::new(Router { forwarding: Forwarding::start(bed, self.name(), policy)? }))
    }
}

struct Router {
    forwarding: Forwarding,
}

impl Running for Router {
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        Ok(BTreeMap::from([("ip_discards".to_owned(), self.forwarding.ip_discards()?)]))
    }

    fn firewall_threads(&self) -> Vec<i32> {
        self.forwarding.threads()
    }

    fn check_alive(&self) -> Result<(), TestbedError> {
        self.forwarding.check_alive()
    }

    fn reset(&mut self) -> Result<(), TestbedError> {
        self.forwarding.reset(|| Ok(()))
    }
}
