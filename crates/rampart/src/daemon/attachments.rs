//! The data plane with the interfaces that it is attached to: a policy comes into force together with its interfaces, those that it names
//! and those that match its patterns, whenever they come.

use super::log::Kind;
use super::{Refused, refused};
use crate::domains::Domains;
use crate::plane::{Attached, DataPlane, Hook, PlaneError, Present};
use policy::lists::{DomainTables, ListTable};
use policy::{Policy, Tables};

pub(super) struct Attachments {
    pub(super) plane: Box<dyn DataPlane>,
    pub(super) attached: Vec<Attached>,
    /// What domains stand for: it comes into force with whatever policy does.
    pub(super) domains: Domains,
    hook: Hook,
    /// Names and patterns of the policy in force.
    names: Vec<String>,
    /// Interfaces that match a pattern and cannot be attached to, and why.
    pub(super) troubles: Vec<String>,
}

/// What happened to an interface, to be reported.
pub(super) type Happened = (Kind, String);

impl Attachments {
    pub(super) fn new(plane: Box<dyn DataPlane>, hook: Hook) -> Self {
        let domains = Domains::default();
        Self { plane, attached: Vec::new(), domains, hook, names: Vec::new(), troubles: Vec::new() }
    }

    /// Puts the first policy's tables in force, and then attaches to the interfaces that it names: each is judged by it from its first
    /// packet. An interface of an earlier firewall goes on being judged all the time. Returns the generation, and what is worth a report of
    /// an earlier firewall.
    ///
    /// # Errors
    /// What the data plane cannot do. Then nothing is attached; or, if it took over from an earlier firewall, everything stays.
    pub(super) fn begin(
        &mut self,
        tables: &Tables,
        policy: &Policy,
        lists: Option<&ListTable>,
    ) -> Result<(u64, Option<String>), Refused> {
        let put = self.plane.prepare(policy).and_then(|()| self.apply(tables, policy, lists));
        let generation = put.map_err(|error| refused(policy, error))?;
        let closed = self.close(names(policy)).map_err(|error| refused(policy, error));
        let attached = closed.and_then(|note| self.attach_new(policy).map(|()| note));
        let done = attached.and_then(|note| {
            let settled = self.plane.settle().map_err(|error| refused(policy, error))?;
            Ok([note, settled].into_iter().flatten().reduce(|first, second| format!("{first}; {second}")))
        });
        if done.is_err() && !self.plane.took_over() {
            self.detach_where(|_| true);
        }
        done.map(|note| (generation, note))
    }

    /// Puts a policy's tables in force, attaches to the interfaces that it names, and detaches from the others. New interfaces are
    /// attached first: until the tables are in force they drop everything, and nothing ever passes them unjudged. Interfaces that go from
    /// zone to zone drop everything meanwhile, so that no packet is judged by the zone of one policy and the rules of the other. Returns
    /// the generation.
    ///
    /// # Errors
    /// What the data plane cannot do; then everything is as it was.
    pub(super) fn put_in_force(
        &mut self,
        tables: &Tables,
        policy: &Policy,
        lists: Option<&ListTable>,
    ) -> Result<u64, Refused> {
        let (before, names_before) = (self.attached.len(), self.names.clone());
        let moved = self.moved(policy);
        let done = self
            .close(names(policy))
            .map_err(|error| refused(policy, error))
            .and_then(|_| self.attach_new(policy))
            .and_then(|()| self.plane.prepare(policy).map_err(|error| refused(policy, error)))
            .and_then(|()| self.apply(tables, policy, lists).map_err(|error| refused(policy, error)));
        match done {
            Ok(_) => {
                self.domains.follow(policy);
                for (interface, zone) in moved {
                    self.plane.move_to(&interface, &zone);
                    self.attached
                        .iter_mut()
                        .filter(|at| at.interface == interface)
                        .for_each(|at| at.zone.clone_from(&zone));
                }
                // The policy is in force either way.
                let _ = self.plane.end_moved();
                self.detach_where(|at| policy.zone_of_interface(&at.interface).is_none());
            }
            Err(_) => {
                let new: Vec<String> =
                    self.attached[before..].iter().map(|at| at.interface.clone()).collect();
                self.detach_where(|at| new.contains(&at.interface));
                for at in
                    self.attached.iter().filter(|at| moved.iter().any(|(name, _)| *name == at.interface))
                {
                    self.plane.move_to(&at.interface, &at.zone);
                }
                // They were closed a moment ago, and the kernel had the room.
                let _ = self.close(names_before);
            }
        }
        done
    }

    fn apply(
        &mut self,
        tables: &Tables,
        policy: &Policy,
        lists: Option<&ListTable>,
    ) -> Result<u64, PlaneError> {
        let domains = self.domain_tables(policy)?;
        self.plane.apply(tables, policy, lists, domains.as_ref())
    }

    fn domain_tables(&self, policy: &Policy) -> Result<Option<DomainTables>, PlaneError> {
        let tables = self.domains.tables(policy);
        tables.map_err(|error| PlaneError::Policy(format!("what domains stand for: {error}")))
    }

    /// What domains stand for now comes into force, under a policy that is.
    pub(super) fn exchange_domains(&mut self, policy: &Policy) -> Result<(), PlaneError> {
        match self.domain_tables(policy)? {
            Some(domains) => self.plane.exchange_domains(&domains),
            None => Ok(()),
        }
    }

    /// Interfaces that belong to another zone under a policy, with that zone.
    fn moved(&self, policy: &Policy) -> Vec<(String, String)> {
        let moves = self.attached.iter().filter_map(|at| {
            let zone = policy.zone_of_interface(&at.interface).filter(|zone| zone.name != at.zone)?;
            Some((at.interface.clone(), zone.name.clone()))
        });
        moves.collect()
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

    fn attach_new(&mut self, policy: &Policy) -> Result<(), Refused> {
        for zone in &policy.zones {
            for interface in zone.named_interfaces() {
                if self.attached.iter().any(|at| at.interface == interface) {
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
        // What cannot be attached stays closed, and is reported.
        self.follow(policy);
        Ok(())
    }

    fn close(&mut self, names: Vec<String>) -> Result<Option<String>, PlaneError> {
        let note = self.plane.close_until_attached(&names)?;
        self.names = names;
        Ok(note)
    }

    /// Attaches to interfaces that match patterns and are there, and gives up those that are gone. One that has another name goes to the
    /// zone of that name. Returns what happened; what goes wrong is among the troubles until it goes well.
    pub(super) fn follow(&mut self, policy: &Policy) -> Vec<Happened> {
        self.troubles.clear();
        if policy.zones.iter().all(|zone| zone.patterns().next().is_none()) {
            return Vec::new();
        }
        let present = match self.plane.interfaces() {
            Ok(present) => present,
            Err(error) => {
                self.troubles.push(format!("interfaces cannot be listed: {error}"));
                return Vec::new();
            }
        };
        let mut happened = Vec::new();
        for interface in &present {
            self.follow_one(policy, interface, &mut happened);
        }
        let is_gone = |at: &Attached| {
            is_by_pattern(policy, &at.interface) && !present.iter().any(|it| it.name == at.interface)
        };
        for gone in self.attached.iter().filter(|at| is_gone(at)) {
            happened
                .push((Kind::Detached, format!("{}: it is gone from zone {}", gone.interface, gone.zone)));
        }
        self.detach_where(is_gone);
        happened
    }

    fn follow_one(&mut self, policy: &Policy, interface: &Present, happened: &mut Vec<Happened>) {
        let name = &interface.name;
        let known = interface.attached_as.as_ref();
        if known == Some(name) || !is_by_pattern(policy, name) {
            // Another name, and no zone for it: an interface that was named one by one stays as it is, and is missed by its name.
            if let Some(before) = known.filter(|before| *before != name && is_by_pattern(policy, before)) {
                happened.push((
                    Kind::Detached,
                    format!("{before}: it is called {name} now, which is of no zone"),
                ));
                let before = before.clone();
                self.detach_where(|at| at.interface == before);
            }
            return;
        }
        let Some(zone) = policy.zone_of_interface(name).filter(|_| known.is_some() || interface.is_ready)
        else {
            return;
        };
        match self.plane.attach(&zone.name, name, self.hook) {
            Ok(attached) => {
                let was = known.map(|before| format!(", called {before} before")).unwrap_or_default();
                let message = format!("{name}: zone {}, {}{was}", zone.name, attached.hook.name());
                happened.push((Kind::Attached, message));
                self.attached.retain(|at| at.interface != *name && Some(&at.interface) != known);
                self.attached.push(attached);
            }
            Err(error) => self.troubles.push(format!(
                "the interface `{name}` matches a pattern of zone `{}` and stays closed: {error}",
                zone.name
            )),
        }
    }

    /// An interface that cannot be detached stays in the list: its packets are still judged, and dropped.
    fn detach_where(&mut self, which: impl Fn(&Attached) -> bool) {
        let plane = &mut self.plane;
        self.attached.retain(|at| !which(at) || plane.detach(&at.interface).is_err());
    }
}

/// Names and patterns of interfaces.
fn names(policy: &Policy) -> Vec<String> {
    policy.zones.iter().flat_map(|zone| zone.interfaces.iter().cloned()).collect()
}

/// Whether an interface belongs to a zone by a pattern.
fn is_by_pattern(policy: &Policy, interface: &str) -> bool {
    let named = || policy.zones.iter().any(|zone| zone.named_interfaces().any(|name| name == interface));
    policy.zone_of_interface(interface).is_some() && !named()
}
