//! The data plane in the kernel, as the daemon wants it: names for numbers, and the life of interfaces. Decides nothing about
//! packets.

mod record;

use crate::api::{
    Closed, Counter, Drop, EventName, Heard, HookName, Occupancy, Session, Surging, protocol_name,
};
use crate::forwarding;
use crate::plane::{Attached, DataPlane, Hook, News, PlaneError, SessionKey, Surge};
use dataplane::routes::{AnswerLimits, Follower, Routes};
use dataplane::{DataplaneError, Event, EventKind, Firewall, Flow, FlowId, Reason, State, Tally};
use nix::net::if_::if_nametoindex;
use policy::model::Per;
use policy::settings::{Settings, Timeouts};
use policy::{Policy, Tables};
use record::Record;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// Rules that a firewall is made for at least, however few it begins with: 8 bytes each on every core.
const RULES_AT_LEAST: u32 = 131_072;

/// The data plane with what the daemon is told in words.
pub(crate) struct Kernel {
    firewall: Firewall,
    follower: Follower,
    settings: Settings,
    held: Vec<Held>,
    record: Record,
    /// What a killed firewall held, and nobody has taken yet.
    left: Vec<String>,
}

/// An interface as it was when it was taken.
struct Held {
    interface: String,
    zone: String,
    hook: Hook,
    /// Its number; another interface of the same name has another.
    index: u32,
}

impl Kernel {
    /// Loads the programs, with room for a policy twice as long. `record` is the file in which interfaces are noted.
    ///
    /// # Errors
    /// When the kernel does not take them.
    pub(crate) fn load(policy: &Policy, record: &Path) -> Result<Self, PlaneError> {
        let record = Record::at(record);
        let left = record.read().map_err(|error| noting(&error))?;
        let rules = (policy.rules.len() as u32).saturating_mul(2).clamp(RULES_AT_LEAST, 1 << 20);
        let sizes = dataplane::Settings { flows: policy.settings.flows, rules };
        let firewall = Firewall::load(&sizes)?;
        let maps = firewall.route_maps()?;
        let follower = Routes::start(maps, &[], AnswerLimits::default())
            .and_then(Routes::follow_in_background)
            .map_err(|error| PlaneError::Machine(error.to_string()))?;
        Ok(Self { firewall, follower, settings: policy.settings.clone(), held: Vec::new(), record, left })
    }

    /// Takes the programs of a killed firewall off the interfaces that nobody took since.
    fn take_off_what_was_left(&mut self) -> Result<(), PlaneError> {
        for interface in std::mem::take(&mut self.left) {
            let held = self.held.iter().any(|held| held.interface == interface);
            if !held && if_nametoindex(interface.as_str()).is_ok() {
                // Ours take the place of those that are there, and go then; of a zone that no policy knows nothing passes.
                for hook in [dataplane::Hook::Xdp, dataplane::Hook::Tc] {
                    self.firewall.ports.attach(&interface, "", hook)?;
                    self.firewall.ports.detach(&interface)?;
                }
            }
        }
        self.note(None)
    }

    /// Writes down what is held, and what is about to be.
    fn note(&self, more: Option<&str>) -> Result<(), PlaneError> {
        let held = self.held.iter().map(|held| held.interface.as_str());
        let left = self.left.iter().map(String::as_str);
        self.record.write(held.chain(left).chain(more)).map_err(|error| noting(&error))
    }

    fn followed(&self) {
        let indices: Vec<u32> = self.held.iter().map(|held| held.index).collect();
        self.follower.set_interfaces(&indices);
    }

    fn take(&mut self, zone: &str, interface: &str, hook: Hook) -> Result<Attached, PlaneError> {
        let index = if_nametoindex(interface).map_err(|_| missing(interface))?;
        let wanted = match hook {
            Hook::Auto if is_virtual(interface) => dataplane::Hook::Tc,
            Hook::Auto | Hook::Xdp => dataplane::Hook::Xdp,
            Hook::Tc => dataplane::Hook::Tc,
        };
        self.note(Some(interface))?;
        let attached = self.firewall.ports.attach(interface, zone, wanted)?;
        self.held.push(Held { interface: interface.to_owned(), zone: zone.to_owned(), hook, index });
        self.followed();
        let hook = match attached.hook {
            dataplane::Hook::Xdp => HookName::Xdp,
            dataplane::Hook::Tc => HookName::Tc,
        };
        Ok(Attached { interface: interface.to_owned(), zone: zone.to_owned(), hook, note: attached.note })
    }

    /// Takes an interface again if it is another of the same name. Gives what is wrong with it.
    fn tend_to(&mut self, at: usize) -> Option<String> {
        let Held { interface, zone, hook, index, .. } = &self.held[at];
        let now = if_nametoindex(interface.as_str()).ok();
        if now == Some(*index) {
            return None;
        }
        let (interface, zone, hook) = (interface.clone(), zone.clone(), *hook);
        if now.is_none() {
            return Some(format!(
                "the interface `{interface}` of zone `{zone}` is gone: nothing passes there until it is back"
            ));
        }
        let again = self.detach(&interface).and_then(|()| self.take(&zone, &interface, hook));
        let error = again.err()?;
        let told = format!("the interface `{interface}` is back and cannot be taken: {error}");
        // No interface has the number 0: it is tried again.
        if !self.held.iter().any(|held| held.interface == interface) {
            self.held.push(Held { interface, zone, hook, index: 0 });
        }
        Some(told)
    }
}

impl DataPlane for Kernel {
    fn apply(&mut self, tables: &Tables, policy: &Policy) -> Result<u64, PlaneError> {
        let generation = self.firewall.policies.apply(tables, policy)?;
        self.settings = policy.settings.clone();
        self.take_off_what_was_left()?;
        Ok(generation.0.into())
    }

    fn attach(&mut self, zone: &str, interface: &str, hook: Hook) -> Result<Attached, PlaneError> {
        self.take(zone, interface, hook)
    }

    fn detach(&mut self, interface: &str) -> Result<(), PlaneError> {
        self.firewall.ports.detach(interface)?;
        self.held.retain(|held| held.interface != interface);
        self.followed();
        self.note(None)
    }

    fn rule_hits(&mut self, policy: &Policy) -> Result<HashMap<String, u64>, PlaneError> {
        let names = policy.rules.iter().map(|rule| rule.name.as_str());
        let hits = self.firewall.counters.rule_hits(names)?;
        Ok(hits.into_iter().map(|(name, hits)| (name.to_owned(), hits)).collect())
    }

    fn limited(&mut self) -> Result<HashMap<String, u64>, PlaneError> {
        Ok(self.firewall.policies.limited_packets()?)
    }

    fn drops(&mut self) -> Result<Vec<Drop>, PlaneError> {
        let drops = self.firewall.counters.drops()?.into_iter().map(|(reason, packets)| Drop {
            number: reason.number(),
            reason: reason.name().to_owned(),
            explanation: reason.explanation().to_owned(),
            packets,
            alarming: matches!(reason, Reason::TableFull | Reason::HalfOpenFull | Reason::NoPolicy),
        });
        Ok(drops.collect())
    }

    fn counters(&mut self) -> Result<Vec<Counter>, PlaneError> {
        let tallies = self.firewall.counters.tallies()?.into_iter().map(|(tally, count)| Counter {
            name: tally.name().to_owned(),
            explanation: tally.explanation().to_owned(),
            count,
        });
        Ok(tallies.collect())
    }

    fn events(&mut self, each: &mut dyn FnMut(Duration, News)) -> Result<u64, PlaneError> {
        let events = self.firewall.events.take()?;
        let now = uptime()?;
        for event in events {
            each(now.saturating_sub(event.at), news(event));
        }
        let tallies = self.firewall.counters.tallies()?;
        Ok([Tally::LogSuppressed, Tally::LogLost].iter().filter_map(|tally| tallies.get(tally)).sum())
    }

    fn sessions(&mut self, each: &mut dyn FnMut(SessionKey, Session)) -> Result<(), PlaneError> {
        let timeouts = &self.settings.timeouts;
        self.firewall.flows.each(uptime()?, |flow| {
            each(SessionKey(flow.id.record, flow.id.use_count), told(flow, timeouts));
        })?;
        Ok(())
    }

    fn kill(&mut self, session: SessionKey) -> Result<bool, PlaneError> {
        Ok(self.firewall.flows.end(FlowId { record: session.0, use_count: session.1 })?)
    }

    fn occupancy(&mut self) -> Result<Occupancy, PlaneError> {
        let now = self.firewall.occupancy()?;
        Ok(Occupancy { open: now.flows, half_open: now.half_open.into(), capacity: now.capacity.into() })
    }

    fn sweep(&mut self) -> Result<(), PlaneError> {
        self.firewall.flows.sweep()?;
        Ok(())
    }

    fn tend(&mut self) -> Result<Vec<String>, PlaneError> {
        let mut found: Vec<String> = (0..self.held.len()).filter_map(|at| self.tend_to(at)).collect();
        found.extend(self.follower.trouble());
        let on = forwarding::opened(Path::new(forwarding::SETTINGS))
            .map_err(|e| PlaneError::Machine(e.to_string()))?;
        found.extend(on.into_iter().map(|switch| {
            let name = forwarding::dotted(switch);
            format!("{name} was turned on: if the firewall dies, the kernel forwards everything; `sysctl -w {name}=0`")
        }));
        Ok(found)
    }
}

/// A session in the words of the API.
fn told(session: Flow, timeouts: &Timeouts) -> Session {
    let lasts = lifetime(&session, timeouts);
    Session {
        protocol: protocol_name(session.protocol),
        source: session.initiator.0,
        source_port: session.initiator.1,
        destination: session.responder.0,
        destination_port: called_port(session.protocol, session.responder.1),
        from: session.zones.0,
        to: session.zones.1,
        rule: session.rule,
        state: session.state.name().to_owned(),
        idle_seconds: session.idle.as_secs(),
        expires_seconds: lasts.saturating_sub(session.idle).as_secs(),
        packets_out: session.packets.0,
        bytes_out: session.bytes.0,
        packets_back: session.packets.1,
        bytes_back: session.bytes.1,
    }
}

/// The port that was called; of an ICMP query the data plane has its type and code there.
fn called_port(protocol: u8, port: u16) -> u16 {
    if is_icmp(protocol) { 0 } else { port }
}

/// An event in the words of the API.
fn news(event: Event) -> News {
    let (what, at) = (event.kind, event.at);
    let heard = heard(event);
    match what {
        EventKind::Alert { sliding, .. } => News::Surge(Surge { heard, sliding, at }),
        _ => News::Event(heard),
    }
}

fn surging(event: &Event) -> Option<Surging> {
    let EventKind::Alert { per, sliding, threshold } = event.kind else { return None };
    let name = Per::NAMES.iter().find(|(_, known)| *known == per).map_or("", |(name, _)| name);
    Some(Surging {
        per: name.to_owned(),
        address: match per {
            Per::Rule => None,
            Per::Source => Some(event.source.0),
            Per::Destination => Some(event.destination.0),
        },
        count: sliding.estimate(event.at),
        threshold: threshold.into(),
        within_seconds: sliding.window.as_secs(),
    })
}

fn heard(event: Event) -> Heard {
    let alert = surging(&event);
    let (name, reason, closed) = match event.kind {
        EventKind::Opened => (EventName::Opened, None, None),
        EventKind::Alert { .. } => (EventName::Alert, None, None),
        EventKind::Refused(reason) => (EventName::Refused, Some(reason.name().to_owned()), None),
        EventKind::Closed { state, lasted, packets, bytes, .. } => {
            let closed = Closed {
                state: state.name().to_owned(),
                seconds: lasted.as_secs(),
                packets_out: packets.0,
                bytes_out: bytes.0,
                packets_back: packets.1,
                bytes_back: bytes.1,
            };
            (EventName::Closed, None, Some(closed))
        }
    };
    Heard {
        event: name,
        rule: event.rule,
        protocol: protocol_name(event.protocol),
        source: event.source.0,
        source_port: event.source.1,
        destination: event.destination.0,
        destination_port: called_port(event.protocol, event.destination.1),
        from: event.zones.0,
        to: event.zones.1,
        reason,
        closed,
        alert,
    }
}

fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, policy::service::ICMP | policy::service::ICMPV6)
}

/// How long a session stays without a packet.
fn lifetime(session: &Flow, timeouts: &Timeouts) -> Duration {
    use policy::service::{ICMP, ICMPV6, UDP};
    match session.state {
        State::SynSent | State::SynBoth | State::SynReceived => timeouts.tcp_opening,
        State::Established => timeouts.tcp_established,
        State::Fin | State::LastAck | State::TimeWait => timeouts.tcp_closing,
        State::Reset => timeouts.tcp_reset,
        State::OneWay | State::TwoWay => match session.protocol {
            UDP => timeouts.udp,
            ICMP | ICMPV6 => timeouts.icmp,
            _ => timeouts.other,
        },
    }
}

/// Whether an interface is no network card. Network cards have a device.
fn is_virtual(interface: &str) -> bool {
    !Path::new("/sys/class/net").join(interface).join("device").exists()
}

/// The first interface of a policy that is not there.
///
/// # Errors
/// What is told about it.
pub(crate) fn all_there(policy: &Policy) -> Result<(), PlaneError> {
    for zone in &policy.zones {
        for interface in &zone.interfaces {
            if if_nametoindex(interface.as_str()).is_err() {
                return Err(PlaneError::Machine(format!("zone `{}`: {}", zone.name, missing(interface))));
            }
        }
    }
    Ok(())
}

fn missing(interface: &str) -> PlaneError {
    let there: Vec<String> = nix::net::if_::if_nameindex()
        .map(|all| all.iter().filter_map(|it| it.name().to_str().ok().map(str::to_owned)).collect())
        .unwrap_or_default();
    PlaneError::Machine(format!(
        "there is no interface `{interface}` in this network namespace; there are: {}",
        there.join(", ")
    ))
}

fn noting(error: &std::io::Error) -> PlaneError {
    PlaneError::Machine(format!("cannot note which interfaces are held: {error}"))
}

/// Since the machine was started, as the data plane's clock goes.
fn uptime() -> Result<Duration, PlaneError> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map(Duration::from).map_err(|error| PlaneError::Machine(format!("cannot read the clock: {error}")))
}

impl From<DataplaneError> for PlaneError {
    fn from(error: DataplaneError) -> Self {
        match error {
            DataplaneError::TooManyLimits { rule, rules, most } => PlaneError::Rule {
                rule,
                message: format!("{rules} rules have `limit` or `alert`, and there can be {most}"),
                help: Some("a group of objects says in one rule what would take many".to_owned()),
            },
            DataplaneError::TooManyRules { .. } | DataplaneError::Size { .. } => {
                PlaneError::Policy(error.to_string())
            }
            other => PlaneError::Machine(other.to_string()),
        }
    }
}
