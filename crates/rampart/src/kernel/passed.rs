//! What others set up in this network namespace while the firewall forwards: it would go past that, as `up` says of what is there before it
//! starts. Nothing is done about it but to say so.

use dataplane::others;
use std::io;
use std::time::{Duration, Instant};

/// What connection tracking does to what the firewall forwards, which sends what is larger than the next link by the kernel.
pub(crate) const FRAGMENTS_LOST: &str = "the kernel puts fragments together for it, so IPv4 fragments that are larger than the next link \
     may be lost on their way through; take it away, or write `forwarding = \"kernel\"` below [settings]";

/// Listing the rules of nftables takes longer the more there are.
const EACH: Duration = Duration::from_secs(5);

/// What is gone past.
pub(super) struct Passed {
    /// When the firewall started; `up` went past it because of `--force`.
    accepted: Vec<String>,
    /// The same of what tracks connections, of which `up` said what it costs.
    tracking: Option<String>,
    since: Vec<String>,
    looked: Instant,
}

impl Passed {
    /// Whatever is there now is known to whoever starts the firewall.
    pub(super) fn start() -> Self {
        let accepted = others::found().unwrap_or_default();
        let tracking = others::tracking().unwrap_or_default();
        Self { accepted, tracking, since: Vec::new(), looked: Instant::now() }
    }

    /// What was set up since then, each with what to do.
    pub(super) fn troubles(&mut self) -> &[String] {
        if self.looked.elapsed() >= EACH {
            self.looked = Instant::now();
            self.since = self.as_troubles(others::found(), others::tracking());
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
