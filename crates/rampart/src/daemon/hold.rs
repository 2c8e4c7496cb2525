//! The data plane with the interfaces that it holds: a policy comes into force together with its interfaces.

use super::{Refused, refused};
use crate::plane::{Attached, DataPlane, Hook};
use policy::{Policy, Tables};

/// A data plane, and the interfaces whose packets it takes.
pub(super) struct Hold {
    pub(super) plane: Box<dyn DataPlane>,
    pub(super) attached: Vec<Attached>,
    hook: Hook,
}

impl Hold {
    /// Nothing is held yet.
    pub(super) fn new(plane: Box<dyn DataPlane>, hook: Hook) -> Self {
        Self { plane, attached: Vec::new(), hook }
    }

    /// Puts a policy's tables in force, takes the interfaces that it names, and lets go of those that it does not name. New
    /// ones are taken first: until the tables are in force nothing passes them, and nothing ever passes them unjudged. Gives
    /// the generation.
    ///
    /// # Errors
    /// What the data plane cannot do; then everything is as it was.
    pub(super) fn put_in_force(&mut self, tables: &Tables, policy: &Policy) -> Result<u64, Refused> {
        self.refuse_moves(policy)?;
        let before = self.attached.len();
        let done = self
            .take_new(policy)
            .and_then(|()| self.plane.apply(tables, policy).map_err(|error| refused(policy, error)));
        match done {
            Ok(_) => {
                self.let_go_of(|at| !policy.zones.iter().any(|zone| zone.interfaces.contains(&at.interface)))
            }
            Err(_) => {
                let new: Vec<String> =
                    self.attached[before..].iter().map(|at| at.interface.clone()).collect();
                self.let_go_of(|at| new.contains(&at.interface));
            }
        }
        done
    }

    /// Lets go of every interface.
    ///
    /// # Errors
    /// When the kernel does not let go of one; the others are tried all the same.
    pub(super) fn release(&mut self, policy: &Policy) -> Result<Vec<String>, Refused> {
        let all = self.attached.iter().map(|at| at.interface.clone()).collect();
        self.let_go_of(|_| true);
        // What could not be let go of is asked for once more, to be told why.
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

    fn take_new(&mut self, policy: &Policy) -> Result<(), Refused> {
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

    /// One that the kernel does not let go of stays held: then its packets are still judged, and dropped.
    fn let_go_of(&mut self, which: impl Fn(&Attached) -> bool) {
        let plane = &mut self.plane;
        self.attached.retain(|at| !which(at) || plane.detach(&at.interface).is_err());
    }
}
