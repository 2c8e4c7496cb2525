//! What others set up in this network namespace while the firewall forwards: it would go past that, as `up` says of what is there before it
//! starts. Nothing is done about it but to say so.

use std::io;
use std::time::{Duration, Instant};

/// Listing the rules of nftables takes longer the more there are.
const EACH: Duration = Duration::from_secs(5);

/// What is gone past.
pub(super) struct Passed {
    /// When the firewall started; `up` went past it because of `--force`.
    accepted: Vec<String>,
    since: Vec<String>,
    looked: Instant,
}

impl Passed {
    /// Whatever is there now is known to whoever starts the firewall.
    pub(super) fn start() -> Self {
        let accepted = dataplane::others::found().unwrap_or_default();
        Self { accepted, since: Vec::new(), looked: Instant::now() }
    }

    /// What was set up since then, each with what to do.
    pub(super) fn troubles(&mut self) -> &[String] {
        if self.looked.elapsed() >= EACH {
            self.looked = Instant::now();
            self.since = self.as_troubles(dataplane::others::found());
        }
        &self.since
    }

    fn as_troubles(&self, found: io::Result<Vec<String>>) -> Vec<String> {
        let found = match found {
            Ok(found) => found,
            Err(error) => return vec![format!("cannot find out who else forwards here: {error}")],
        };
        let new = found.into_iter().filter(|what| !self.accepted.contains(what));
        new.map(|what| {
            format!(
                "{what}: it was set up since `up`, and the firewall forwards past it; take it away, or start again with \
                 `forwarding = \"kernel\"` below [settings], or with --force"
            )
        })
        .collect()
    }
}
