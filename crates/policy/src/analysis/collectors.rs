//! Collectors that the policy names in `[log]` and to which it lets nothing out.

use super::{Kind, Warning};
use crate::model::Policy;
use toml_reader::Places;

pub(super) fn warnings(policy: &Policy, places: &Places<'_>) -> Vec<Warning> {
    let warning = |collector: &crate::exports::Collector| {
        let (name, port) = (collector.transport.name(), collector.address.port());
        let message = format!("nothing reaches the collector {collector}: no rule lets it out");
        let help = format!(
            "write a rule that allows `{name}/{port}` from `self` to the zone of {}",
            collector.address.ip()
        );
        let at =
            policy.text.find(&collector.to_string()).or_else(|| policy.text.find("[log")).unwrap_or_default();
        let problem = places.problem(at..at, message, Some(help));
        Warning { kind: Kind::Cut, rule: None, by: Vec::new(), problem }
    };
    policy.unreachable_collectors().into_iter().map(warning).collect()
}
