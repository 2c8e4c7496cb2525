//! What domains stand for, which the running firewall alone knows.

use crate::api::{DomainAddress, Lists, Operation};
use policy::Policy;
use policy::address::AddressSet;
use policy::lists::List;
use rampart_client::Client;

/// Domains of a policy of which the running firewall, if there is one, knows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Unknown(Vec<String>);

impl Unknown {
    /// For people; nothing if all are known.
    pub(super) fn line(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| {
            format!(
                "what {} stands for is not known here, and is taken for nothing: no firewall runs with it, or nobody has asked for it",
                self.0.join(", ")
            )
        })
    }

    pub(super) fn names(&self) -> &[String] {
        &self.0
    }
}

/// Adds what domains stand for to what is on the lists of a policy.
pub(super) fn add(policy: &Policy, contents: &mut [AddressSet]) -> Unknown {
    let mut unknown = Unknown::default();
    if policy.lists.iter().all(|list| list.domain().is_none()) {
        return unknown;
    }
    let running = Client::new(None).and_then(|client| client.ask::<Lists>(Operation::Lists, &[]));
    let known = |list: &List| {
        let lists = running.as_ref().ok()?;
        let known = lists.lists.iter().find(|known| known.name == list.name)?;
        (!known.domain.is_empty()).then(|| set_of(&known.domain))
    };
    for (list, set) in policy.lists.iter().zip(contents).filter(|(list, _)| list.domain().is_some()) {
        match known(list) {
            Some(known) => *set = known,
            None => unknown.0.push(list.name.clone()),
        }
    }
    unknown
}

fn set_of(addresses: &[DomainAddress]) -> AddressSet {
    let sets = addresses.iter().filter_map(|it| AddressSet::parse(&it.address.to_string()).ok());
    AddressSet::union(&sets.collect::<Vec<_>>())
}
