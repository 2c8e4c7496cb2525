//! Names in requests, held against what there is: a misspelt zone matches nothing, and "0 flows ended" would read as if nothing had been
//! open. Rules are not looked up, because flows and events keep the names of rules that are gone.

use super::Refused;
use crate::api::Filter;
use policy::Policy;

/// Refuses a filter that asks for a zone or a state that no flow can have.
pub(super) fn check(filter: &Filter, policy: &Policy) -> Result<(), Refused> {
    for state in filter.states() {
        let mut states = dataplane::State::ALL.iter().map(|state| state.name());
        if !states.clone().any(|known| known == state) {
            return Err(unknown("state of flows", state, &mut states));
        }
    }
    filter.zones().try_for_each(|zone| zone_is_known(zone, policy))
}

/// Refuses a zone that the policy in force has not.
pub(super) fn zone_is_known(zone: &str, policy: &Policy) -> Result<(), Refused> {
    let mut zones = policy.zones.iter().map(|zone| zone.name.as_str());
    if zones.clone().any(|known| known == zone) { Ok(()) } else { Err(unknown("zone", zone, &mut zones)) }
}

fn unknown(what: &str, word: &str, known: &mut dyn Iterator<Item = &str>) -> Refused {
    let known = known.collect::<Vec<_>>().join(", ");
    Refused::new(400, format!("there is no {what} `{word}`; there are: {known}"))
}
