//! The interfaces of a configuration and the generator between them: takes ports, starts and stops flows, and keeps what they count.

use crate::config::{Config, Flow};
use crate::refusal::Refusal;
use measure::shape::{IpVersion, Zone};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use testbed::interface::{self, NamedInterfaces};
use testbed::machine_lock::MachineLock;
use traffic::{Engine, Header, Ports, Stream, StreamState};

/// Which sink each port has.
const ZONES: [Zone; 3] = [Zone::Private, Zone::Dmz, Zone::Hostile];
/// Over how long rates are taken.
const RATE_OVER: Duration = Duration::from_secs(1);
/// Longest time that the generator takes to end once its streams are stopped.
const STOPPING: Duration = Duration::from_secs(5);
/// Bytes of a frame that the counters leave out.
const FCS: u64 = measure::frame::FCS_BYTES as u64;

/// What stands between the ports, which decides how frames should arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// A wire, a switch or a transparent firewall: frames arrive as they were sent.
    Wire,
    /// A router or a routing firewall: frames arrive with the port's Ethernet address and a TTL that is one less.
    Router,
}

/// What the user who started the server decides.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What stands between the ports.
    pub between: Between,
    /// Longest time that flows are sent; up to four hours.
    pub longest: Duration,
    /// The core that generates.
    pub core: usize,
    /// Take an interface through which the machine is reached as well.
    pub force: bool,
}

/// What a flow counted, with FCS.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) frames_tx: u64,
    pub(crate) bytes_tx: u64,
    pub(crate) frames_rx: u64,
    pub(crate) bytes_rx: u64,
}

impl Counts {
    fn of(state: &StreamState) -> Self {
        let counts = &state.counts;
        Self {
            frames_tx: counts.sent,
            bytes_tx: counts.sent_bytes + counts.sent * FCS,
            frames_rx: counts.received,
            bytes_rx: counts.received_bytes + counts.received * FCS,
        }
    }
}

/// A flow's state, with what it counted a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FlowState {
    pub(crate) sending: bool,
    pub(crate) counts: Counts,
    /// Frames sent, bytes sent, frames received, bytes received, each a second.
    pub(crate) rates: [f64; 4],
}

/// Counters at a moment, in the order of the flows that were started.
type Sample = (Instant, Vec<Counts>);

/// The generator with a configuration.
pub(crate) struct Bench {
    pub(crate) settings: Settings,
    engine: Engine,
    pub(crate) config: Config,
    ports: Ports,
    /// The interfaces of the ports, in their order; `None` of a configuration without ports.
    taken: Option<NamedInterfaces>,
    /// Places of the flows that were started last.
    started: Vec<usize>,
    samples: VecDeque<Sample>,
    /// No run of the bench measures while flows are sent.
    lock: Option<MachineLock>,
    /// How the generator ended that ended by itself.
    fault: Option<String>,
}

impl Bench {
    /// Loads the generator.
    pub(crate) fn load(settings: Settings) -> Result<Self, traffic::TrafficError> {
        Ok(Self {
            settings,
            engine: Engine::load(traffic::MOST_COMBINATIONS)?,
            config: Config::empty(),
            ports: Ports::default(),
            taken: None,
            started: Vec::new(),
            samples: VecDeque::new(),
            lock: None,
            fault: None,
        })
    }

    /// Whether a flow is being sent.
    pub(crate) fn sends(&self) -> bool {
        self.lock.is_some()
    }

    /// Takes the place of the configuration before. If the new one's ports cannot be had, there is none.
    pub(crate) fn set_config(&mut self, config: Config) -> Result<(), Refusal> {
        if self.sends() {
            return Err(Refusal::wrong(
                "flows are being sent: stop them before you set another configuration",
            ));
        }
        self.release_ports();
        let locations: Vec<&str> = config.ports.iter().map(|port| port.location.as_str()).collect();
        if locations.is_empty() {
            self.config = config;
            return Ok(());
        }
        let taken = NamedInterfaces::take(&locations, self.settings.force)
            .map_err(|(at, error)| Refusal::wrong(format!("ports[{at}].location: {error}")))?;
        check_machine(&config, &taken)?;
        let ports: Vec<traffic::Port> =
            ZONES.into_iter().zip(taken.ends()).map(|(zone, (end, _))| port(zone, end)).collect();
        self.ports = self.engine.attach(&ports).map_err(|error| Refusal::wrong(format!("ports: {error}")))?;
        (self.taken, self.config) = (Some(taken), config);
        Ok(())
    }

    /// Gives the ports back.
    fn release_ports(&mut self) {
        self.engine.detach(std::mem::take(&mut self.ports));
        (self.taken, self.config) = (None, Config::empty());
        self.started.clear();
        self.samples.clear();
        self.fault = None;
    }

    /// Starts flows by their places, all at once.
    pub(crate) fn start(&mut self, flows: Vec<usize>) -> Result<(), Refusal> {
        if self.sends() {
            return Err(Refusal::wrong("flows are being sent already: stop them before you start any"));
        }
        if flows.is_empty() {
            return Err(Refusal::wrong("the configuration has no flows to start"));
        }
        let lock =
            MachineLock::take("rampart-bench otg").map_err(|error| Refusal::failed(error.to_string()))?;
        let lock = lock.map_err(|holder| {
            Refusal::wrong(format!(
                "another run of the bench measures on this machine ({holder}): wait for its end"
            ))
        })?;
        let streams: Vec<Stream> = flows.iter().map(|&at| self.stream(&self.config.flows[at])).collect();
        let ip = self.config.flows[flows[0]].packet.ip;
        (self.fault, self.samples) = (None, VecDeque::new());
        self.started.clear();
        let Settings { core, longest, .. } = self.settings;
        let begun = self.engine.start_streams(&self.ports, ip, &streams, core, longest);
        begun.map_err(|error| Refusal::failed(format!("the generator cannot send: {error}")))?;
        (self.started, self.lock) = (flows, Some(lock));
        self.look();
        Ok(())
    }

    /// Stops what is sent, and waits until nothing is.
    pub(crate) fn stop(&mut self) -> Result<(), Refusal> {
        if !self.sends() {
            return Ok(());
        }
        self.engine.stop_streams();
        let until = Instant::now() + STOPPING;
        while self.sends() {
            self.tick();
            if Instant::now() > until {
                return Err(Refusal::failed("the generator did not stop in time"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.checked()
    }

    /// Keeps what is counted, and ends the generator when nothing is left to send. To be called now and then.
    pub(crate) fn tick(&mut self) {
        if self.sends() {
            match self.engine.tend_streams() {
                Ok(true) => {}
                Ok(false) => self.lock = None,
                Err(error) => {
                    self.lock = None;
                    self.fault = Some(format!("the generator ended by itself: {error}"));
                }
            }
        }
        self.look();
    }

    fn look(&mut self) {
        let now = Instant::now();
        let counts = self.engine.stream_states().iter().map(Counts::of).collect();
        self.samples.push_back((now, counts));
        // One sample older than the time over which rates are taken stays.
        while self.samples.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= RATE_OVER) {
            self.samples.pop_front();
        }
    }

    /// # Errors
    /// The generator ended by itself, so what it counted is not what was asked for.
    pub(crate) fn checked(&self) -> Result<(), Refusal> {
        self.fault.as_ref().map_or(Ok(()), |fault| Err(Refusal::failed(fault)))
    }

    /// The states of all flows, in the order of the configuration.
    pub(crate) fn flow_states(&self) -> Vec<FlowState> {
        let mut all = vec![FlowState::default(); self.config.flows.len()];
        let (now, states) = (Instant::now(), self.engine.stream_states());
        for (place, (&flow, state)) in self.started.iter().zip(&states).enumerate() {
            let counts = Counts::of(state);
            let rates = self.samples.front().map_or([0.0; 4], |(at, earlier)| {
                rates(now.duration_since(*at), &earlier.get(place).copied().unwrap_or_default(), &counts)
            });
            let sending = state.sending && self.sends();
            // What is over is not sent at the rate of the last second; what arrives may be.
            let rates = if sending { rates } else { [0.0, 0.0, rates[2], rates[3]] };
            all[flow] = FlowState { sending, counts, rates };
        }
        all
    }

    /// Brings ports up or down, by their places.
    pub(crate) fn set_links(&self, ports: &[usize], up: bool) -> Result<(), Refusal> {
        ports.iter().try_for_each(|&at| {
            interface::set_link(&self.config.ports[at].location, up)
                .map_err(|error| Refusal::failed(error.to_string()))
        })
    }

    /// Whether a port has a carrier.
    pub(crate) fn is_up(&self, port: usize) -> bool {
        interface::has_carrier(&self.config.ports[port].location).unwrap_or(false)
    }

    fn stream(&self, flow: &Flow) -> Stream {
        let packet = &flow.packet;
        let own_mac = |port: usize| self.taken.as_ref().map_or([0; 6], |taken| taken.ends()[port].0.mac.0);
        let (arrival_mac, arrival_ttl) = match (self.settings.between, flow.rx) {
            (Between::Router, Some(rx)) => (own_mac(rx), packet.ttl.saturating_sub(1)),
            _ => (packet.destination_mac, packet.ttl),
        };
        Stream {
            from: ZONES[flow.tx],
            to: flow.rx.map(|rx| ZONES[rx]),
            sizes: flow.sizes.clone(),
            header: Header {
                source_mac: packet.source_mac,
                destination_mac: packet.destination_mac,
                arrival_mac,
                traffic_class: packet.traffic_class,
                flow_label: packet.flow_label,
                ttl: packet.ttl,
                arrival_ttl,
                dont_fragment: packet.dont_fragment && packet.ip == IpVersion::V4,
            },
            ends: packet.ends.clone(),
            rate: flow.rate,
            frames: flow.frames,
        }
    }
}

fn rates(over: Duration, earlier: &Counts, now: &Counts) -> [f64; 4] {
    let seconds = over.as_secs_f64();
    let rate =
        |then: u64, now: u64| if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 };
    [
        rate(earlier.frames_tx, now.frames_tx),
        rate(earlier.bytes_tx, now.bytes_tx),
        rate(earlier.frames_rx, now.frames_rx),
        rate(earlier.bytes_rx, now.bytes_rx),
    ]
}

/// What the interfaces cannot do of a configuration.
fn check_machine(config: &Config, taken: &NamedInterfaces) -> Result<(), Refusal> {
    for (at, flow) in config.flows.iter().enumerate() {
        let largest = flow.sizes.iter().map(|size| size.bytes_without_fcs()).max().unwrap_or(0);
        for port in std::iter::once(flow.tx).chain(flow.rx) {
            let (end, mtu) = &taken.ends()[port];
            if largest > mtu + 14 {
                return Err(Refusal::wrong(format!(
                    "flows[{at}].size: frames of {} bytes do not fit the MTU of {}, which is {mtu}",
                    largest + measure::frame::FCS_BYTES,
                    end.device
                )));
            }
        }
    }
    for (at, port) in config.ports.iter().enumerate() {
        let mtu = u64::from(taken.ends()[at].1);
        if let Some(least) = port.mtu.filter(|least| *least > mtu) {
            return Err(Refusal::wrong(format!(
                "layer1: ports[{at}] is to have an MTU of {least}, and {} has {mtu}: the bench sets none",
                port.location
            )));
        }
        let of_card = card_speed(&port.location);
        if let (Some(written), Some(real)) = (port.speed, of_card)
            && written != real
        {
            return Err(Refusal::wrong(format!(
                "layer1: ports[{at}] is to have {written} bits a second, and {} has {real}: the bench sets no speed",
                port.location
            )));
        }
    }
    Ok(())
}

/// Bits a second of a card; a virtual link has no speed.
fn card_speed(interface: &str) -> Option<u64> {
    let folder = std::path::Path::new("/sys/class/net").join(interface);
    if !folder.join("device").exists() {
        return None;
    }
    let megabits: u64 = std::fs::read_to_string(folder.join("speed")).ok()?.trim().parse().ok()?;
    Some(megabits * 1_000_000)
}

fn port(zone: Zone, end: &testbed::layout::PortEnd) -> traffic::Port {
    traffic::Port {
        zone,
        namespace: None,
        ifindex: end.ifindex,
        mac: end.mac.0,
        // Flows bring addresses of their own.
        next_hop_mac: [0; 6],
        v4_prefix: 0,
        v6_prefix: [0; 16],
    }
}
