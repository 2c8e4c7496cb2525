//! What the daemon tells its gateways, and what it shows of them.

use super::Daemon;
use super::log::Kind;
use super::{Moment, Running};
use crate::api::{EventDetails, EventName, GatewayRequest, GatewayStatus};
use crate::gateways::Gateways;
use gateway::event::Event;
use jiff::Timestamp;
use policy::Policy;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many events of gateways may still be recorded in this second.
#[derive(Debug)]
pub(super) struct Allowance {
    since: Instant,
    used: u64,
    /// Events that were not recorded.
    pub(super) suppressed: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { since: Instant::now(), used: 0, suppressed: 0 }
    }
}

impl Allowance {
    /// Whether one more may be recorded.
    fn allows(&mut self, rate: u32, now: Instant) -> bool {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.used) = (now, 0);
        }
        let has_room = self.used < u64::from(rate);
        self.used += u64::from(has_room);
        self.suppressed += u64::from(!has_room);
        has_room
    }
}

impl Daemon {
    /// Runs the gateways of the policy in force from now on by these processes; or why they were not started.
    pub(crate) fn gateways_by(mut self, gateways: Result<Gateways, String>, at: Timestamp) -> Self {
        self.gateways = gateways;
        if let Some(running) = self.running().as_ref() {
            self.run_gateways(&running.policy, at);
        }
        self
    }

    /// From now on the gateways are as this policy says, with what its files say.
    pub(super) fn run_gateways(&self, policy: &Policy, at: Timestamp) {
        if let Ok(gateways) = &self.gateways {
            gateways.read_files(policy);
            gateways.set(policy, at);
        }
    }

    /// Reads files of gateways again that have changed. False once the firewall is down.
    pub(crate) fn refresh_gateways(&self, now: Moment) -> bool {
        let Some(policy) = self.running().as_ref().map(|running| Arc::clone(&running.policy)) else {
            return false;
        };
        // The state is not held while a disk may be slow.
        let Ok(gateways) = &self.gateways else { return true };
        let changed = gateways.read_files(&policy);
        if !changed.is_empty() {
            let running = self.running();
            if running.as_ref().is_some_and(|running| Arc::ptr_eq(&running.policy, &policy)) {
                self.run_gateways(&policy, now.wall);
            }
        }
        for what in changed {
            let text = format!("{what} were read again, because their file has changed");
            self.report(now.wall, Kind::Refreshed, &text);
        }
        true
    }

    /// Puts what gateways tell into the event log.
    pub(super) fn take_gateway_events(&self, running: &mut Running, now: Moment) {
        let Ok(gateways) = &self.gateways else { return };
        let (events, lost, reports) = gateways.take();
        running.gateway_events.suppressed += lost;
        for (name, event) in events {
            if running.gateway_events.allows(running.policy.settings.log_rate, now.steady) {
                let details = details(&running.policy, &name, event);
                self.keep_event(self.recorded().add(now.wall, Duration::ZERO, details));
            }
        }
        reports.iter().for_each(|report| self.report(now.wall, Kind::Trouble, report));
    }

    pub(super) fn gateway_states(&self) -> Vec<GatewayStatus> {
        self.gateways.as_ref().map(Gateways::states).unwrap_or_default()
    }

    /// Which gateways do not run, and what to do.
    pub(super) fn gateway_troubles(&self, policy: &Policy) -> Vec<String> {
        match &self.gateways {
            Ok(gateways) => gateways.troubles(),
            Err(why) if !policy.gateways.is_empty() => vec![format!(
                "no gateway runs: the process for them was not started ({why}); start the daemon again (the firewall goes on meanwhile)"
            )],
            Err(_) => Vec::new(),
        }
    }
}

/// An event of a gateway in the words of the event log.
fn details(policy: &Policy, name: &str, event: Event) -> EventDetails {
    let protocol =
        policy.gateways.iter().find(|gateway| gateway.name == name).map(|gateway| &gateway.protocol);
    let protocol = protocol.map_or("http", policy::gateways::Protocol::name);
    let zone = policy.zones.iter().find(|zone| zone.networks.contains(event.client.ip()));
    EventDetails {
        event: if event.reason.is_some() { EventName::Refused } else { EventName::Request },
        rule: event.rule.map(|rule| format!("{name}/{rule}")),
        source_list: None,
        destination_list: None,
        protocol: if event.is_datagram { "udp" } else { "tcp" }.to_owned(),
        source: event.client.ip().to_canonical(),
        source_port: event.client.port(),
        destination: event.at.ip().to_canonical(),
        destination_port: event.at.port(),
        from: zone.map_or_else(|| "?".to_owned(), |zone| zone.name.clone()),
        to: Some("self".to_owned()),
        reason: event.reason.map(|reason| format!("{protocol}-{reason}")),
        closed: None,
        alert: None,
        scan: None,
        request: Some(GatewayRequest {
            gateway: name.to_owned(),
            client_name: event.client_name,
            user: event.user,
            method: event.method,
            host: event.host,
            path: event.path,
            status: event.status,
            bytes_out: event.bytes[0],
            bytes_back: event.bytes[1],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_gateways_have_a_rate_and_the_rest_is_counted() {
        let mut allowance = Allowance::default();
        let start = allowance.since;
        let at = |allowance: &mut Allowance, milliseconds| {
            allowance.allows(2, start + Duration::from_millis(milliseconds))
        };
        let found: Vec<bool> =
            [0, 10, 20, 999, 1000, 1001, 1002].iter().map(|it| at(&mut allowance, *it)).collect();
        assert_eq!(found, [true, true, false, false, true, true, false]);
        assert_eq!(allowance.suppressed, 3);
    }
}
