//! The data plane with the interfaces that it is attached to: a policy comes into force together with its interfaces.

use super::{Refused, refused};
use crate::plane::{Attached, DataPlane, Hook};
use policy::{Policy, Tables};

pub(super) struct Attachments {
    pub(super) plane: Box<dyn DataPlane>,
    pub(super) attached: Vec<Attached>,
    hook: Hook,
}

impl Attachments {
    pub(super) fn new(plane: Box<dyn DataPlane>, hook: Hook) -> Self {
        Self { plane, attached: Vec::new(), hook }
    }

    /// Puts the first policy's tables in force, and then attaches to the interfaces that it names: each is judged by it from its first
    /// packet. An interface of an earlier firewall goes on being judged all the time. Returns the generation, and what is worth telling of
    /// an earlier firewall.
    ///
    /// # Errors
    /// What the data plane cannot do. Then nothing is attached; or, if it took over from an earlier firewall, everything stays.
    pub(super) fn begin(
        &mut self,
        tables: &Tables,
        policy: &Policy,
    ) -> Result<(u64, Option<String>), Refused> {
        let plane = &mut self.plane;
        let put = plane.prepare(policy).and_then(|()| plane.apply(tables, policy));
        let generation = put.map_err(|error| refused(policy, error))?;
        let attached = self.attach_new(policy);
        let done = attached.and_then(|()| self.plane.settle().map_err(|error| refused(policy, error)));
        if done.is_err() && !self.plane.took_over() {
            self.detach_where(|_| true);
        }
        done.map(|note| (generation, note))
    }

    /// Puts a policy's tables in force, attaches to the interfaces that it names, and detaches from the others. New interfaces are
    /// attached first: until the tables are in force they drop everything, and nothing ever passes them unjudged. Returns the
    /// generation.
    ///
    /// # Errors
    /// What the data plane cannot do; then everything is as it was.
    pub(super) fn put_in_force(&mut self, tables: &Tables, policy: &Policy) -> Result<u64, Refused> {
        self.refuse_moves(policy)?;
        let before = self.attached.len();
        let done = self
            .attach_new(policy)
            .and_then(|()| self.plane.apply(tables, policy).map_err(|error| refused(policy, error)));
        match done {
            Ok(_) => self
                .detach_where(|at| !policy.zones.iter().any(|zone| zone.interfaces.contains(&at.interface))),
            Err(_) => {
                let new: Vec<String> =
                    self.attached[before..].iter().map(|at| at.interface.clone()).collect();
                self.detach_where(|at| new.contains(&at.interface));
            }
        }
        done
    }

    /// Detaches from every interface.
    ///
    /// # Errors
    /// When one cannot be detached; the others are tried all the same.
    pub(super) fn release(&mut self, policy: &Policy) -> Result<Vec<String>, Refused> {
        let all = self.attached.iter().map(|at| at.interface.clone()).collect();
        self.detach_where(|_| true);
        // What could not be detached is tried once more, to know why.
        let why = self.attached.first().map(|at| at.interface.clone()).map(|name| self.plane.detach(&name));
        why.unwrap_or(Ok(())).map(|()| all).map_err(|error| refused(policy, error))
    }

    /// An interface cannot go from zone to zone: for a moment its packets would be judged by the zone of one policy and the
    /// rules of the other.
    fn refuse_moves(&self, policy: &Policy) -> Result<(), Refused> {
        for zone in &policy.zones {
            let held = |name: &String| self.attached.iter().find(|at| at.interface == *name);
            if let Some(moved) = zone.interfaces.iter().filter_map(held).find(|at| at.zone != zone.name) {
                let (interface, from, to) = (&moved.interface, &moved.zone, &zone.name);
                return Err(Refused::new(
                    409,
                    format!(
                        "{}: the interface `{interface}` would go from zone `{from}` to zone `{to}`, which cannot be done in \
                         one step: apply a policy without it first",
                        policy.file
                    ),
                ));
            }
        }
        Ok(())
    }

    fn attach_new(&mut self, policy: &Policy) -> Result<(), Refused> {
        for zone in &policy.zones {
            for interface in &zone.interfaces {
                if self.attached.iter().any(|at| at.interface == *interface) {
                    continue;
                }
                let attached = self.plane.attach(&zone.name, interface, self.hook).map_err(|error| {
                    let mut refused = refused(policy, error);
                    refused.refusal.error = format!("zone `{}`: {}", zone.name, refused.refusal.error);
                    refused
                })?;
                self.attached.push(attached);
            }
        }
        Ok(())
    }

    /// An interface that cannot be detached stays in the list: its packets are still judged, and dropped.
    fn detach_where(&mut self, which: impl Fn(&Attached) -> bool) {
        let plane = &mut self.plane;
        self.attached.retain(|at| !which(at) || plane.detach(&at.interface).is_err());
    }
}
