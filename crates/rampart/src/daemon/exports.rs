//! What the daemon hands to the process that exports, and what it shows of it.

use super::Daemon;
use super::log::Kind;
use crate::api::{Actor, Event, Export};
use crate::export::{Exporter, FlowRecord, Report};
use jiff::Timestamp;
use policy::Policy;

impl Daemon {
    /// Exports what happens from now on as the policy in force says, by this process; or why it was not started.
    pub(crate) fn export_by(mut self, exporter: Result<Exporter, String>) -> Self {
        self.exporter = exporter;
        if let Some(running) = self.running().as_ref() {
            self.export_as(&running.policy);
        }
        self
    }

    /// From now on what happens goes where this policy says.
    pub(super) fn export_as(&self, policy: &Policy) {
        if let Ok(exporter) = &self.exporter {
            exporter.set(policy);
        }
    }

    pub(super) fn export_event(&self, event: &Event) {
        if let Ok(exporter) = &self.exporter {
            exporter.event(event);
        }
    }

    pub(super) fn export_flows(&self, flows: &[FlowRecord], not_recorded: u64) {
        if let Ok(exporter) = &self.exporter {
            exporter.flows(flows, not_recorded);
        }
    }

    pub(super) fn export_report(&self, at: Timestamp, kind: Kind, by: Option<&Actor>, message: &str) {
        if let Ok(exporter) = &self.exporter {
            exporter.report(|| Report {
                at,
                event: kind.name().to_owned(),
                by: by.map(Actor::to_string),
                message: message.to_owned(),
            });
        }
    }

    pub(super) fn exports(&self) -> Vec<Export> {
        self.exporter.as_ref().map(Exporter::targets).unwrap_or_default()
    }

    /// What is not exported, and what to do.
    pub(super) fn export_troubles(&self, policy: &Policy) -> Vec<String> {
        let exports = &policy.settings.exports;
        let is_wanted = exports.journald.is_some() || exports.collectors().next().is_some();
        match &self.exporter {
            Ok(exporter) => exporter.troubles(),
            Err(why) if is_wanted => vec![format!(
                "nothing is sent to collectors: the process for it was not started ({why}); start the daemon again (the firewall goes on \
                 meanwhile)"
            )],
            Err(_) => Vec::new(),
        }
    }

    pub(super) fn finish_exports(&self) {
        if let Ok(exporter) = &self.exporter {
            exporter.finish();
        }
    }
}
