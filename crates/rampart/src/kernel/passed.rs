//! What others set up in this network namespace while the firewall forwards: it would go past that, as `up` says of what is there before it
//! starts. Where the kernel forwards, what goes past the firewall, whenever that was set up. Nothing is done about it but to say so.

use dataplane::others;
use policy::settings::Forwarding;
use std::io;
use std::time::{Duration, Instant};

/// What connection tracking does to what the firewall forwards, which sends what is larger than the next link by the kernel.
pub(crate) const FRAGMENTS_LOST: &str = "the kernel puts fragments together for it, so IPv4 fragments that are larger than the next link \
     may be lost on their way through; take it away, or write `forwarding = \"kernel\"` below [settings]";

/// Listing the rules of nftables takes longer the more there are.
const EACH: Duration = Duration::from_secs(5);

/// What is gone past.
pub(super) struct Passed {
    forwarding: Forwarding,
    /// When the firewall started; `up` went past it because of `--force`.
    accepted: Vec<String>,
    /// The same of what tracks connections, of which `up` said what it costs.
    tracking: Option<String>,
    since: Vec<String>,
    looked: Instant,
}

impl Passed {
    /// Whatever is there now is known to whoever starts the firewall.
    pub(super) fn start(forwarding: Forwarding) -> Self {
        let (accepted, tracking, since) = match forwarding {
            Forwarding::Fast => {
                (others::found().unwrap_or_default(), others::tracking().unwrap_or_default(), vec![])
            }
            Forwarding::Kernel => (vec![], None, not_asked(others::past_netfilter())),
        };
        Self { forwarding, accepted, tracking, since, looked: Instant::now() }
    }

    /// What was set up since then, or goes past the firewall, each with what to do.
    pub(super) fn troubles(&mut self) -> &[String] {
        if self.looked.elapsed() >= EACH {
            self.looked = Instant::now();
            self.since = match self.forwarding {
                Forwarding::Fast => self.as_troubles(others::found(), others::tracking()),
                Forwarding::Kernel => not_asked(others::past_netfilter()),
            };
        }
        &self.since
    }

    fn as_troubles(
        &self,
        found: io::Result<Vec<String>>,
        tracking: io::Result<Option<String>>,
    ) -> Vec<String> {
        let (found, tracking) = match (found, tracking) {
            (Ok(found), Ok(tracking)) => (found, tracking),
            (Err(error), _) | (_, Err(error)) => {
                return vec![format!("cannot find out who else forwards here: {error}")];
            }
        };
        let new = found.into_iter().filter(|what| !self.accepted.contains(what));
        let passed = new.map(|what| {
            format!(
                "{what}: it was set up since `up`, and the firewall forwards past it; take it away, or start again with \
                 `forwarding = \"kernel\"` below [settings], or with --force"
            )
        });
        let tracking = tracking.filter(|_| self.tracking.is_none());
        let lost = tracking.map(|what| format!("{what}: it was set up since `up`, and {FRAGMENTS_LOST}"));
        passed.chain(lost).collect()
    }
}

/// What the kernel forwards without asking.
fn not_asked(found: io::Result<Vec<String>>) -> Vec<String> {
    let as_trouble = |what: String| {
        format!(
            "{what}: the firewall is not asked about packets of the connections in it, so it neither follows them nor ends them under \
             another policy; take the rule away"
        )
    };
    match found {
        Ok(found) => found.into_iter().map(as_trouble).collect(),
        Err(error) => vec![format!("cannot find out who forwards past netfilter here: {error}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_forwards_without_asking_is_named_with_what_to_do() {
        let said = not_asked(Ok(vec!["the chain `c`".to_owned()]));
        assert!(
            said.len() == 1
                && said[0].starts_with("the chain `c`: ")
                && said[0].ends_with("take the rule away"),
            "{said:?}"
        );
        assert!(not_asked(Ok(vec![])).is_empty());
        let said = not_asked(Err(io::Error::other("no answer")));
        assert!(said.len() == 1 && said[0].ends_with("no answer"), "{said:?}");
    }
}
