//! Reads a configuration of the API into what the generator can send, or refuses it with the place of what it cannot. Pure: it knows no
//! interface and no generator.

mod packet;
mod pattern;
#[cfg(test)]
mod tests;

pub(crate) use packet::Packet;

use crate::node::Node;
use crate::refusal::Refusal;
use measure::frame::{FrameMix, FrameSize, smallest_test_frame};
use measure::shape::IpVersion;
use serde_json::Value;
use std::time::Duration;
use traffic::{MAX_LIVE_FRAME_BYTES, MOST_STREAMS};

/// Ports at most: the sink has a program for each of so many.
pub(crate) const MOST_PORTS: usize = 3;
/// Sizes of all flows together.
const MOST_SIZES: usize = 64;
/// Frames a second of a flow.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=1e9;
/// Bytes between two frames of an Ethernet link, the API's default.
const GAP: u64 = 12;

/// What a client wrote down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) ports: Vec<Port>,
    pub(crate) flows: Vec<Flow>,
    /// As it came.
    pub(crate) text: Value,
}

/// An interface.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Port {
    pub(crate) name: String,
    /// The interface.
    pub(crate) location: String,
    /// Bits a second, where `layer1` says so.
    pub(crate) speed: Option<u64>,
    /// The MTU that the port must have at least, where `layer1` says so.
    pub(crate) mtu: Option<u64>,
}

/// Frames from a port to another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flow {
    pub(crate) name: String,
    /// Places in the list of ports.
    pub(crate) tx: usize,
    pub(crate) rx: Option<usize>,
    /// Sizes with FCS, in turns.
    pub(crate) sizes: Vec<FrameSize>,
    /// Frames a second.
    pub(crate) rate: f64,
    /// In all; `None`: until it is stopped.
    pub(crate) frames: Option<u64>,
    pub(crate) packet: Packet,
    /// Whether the client asked for metrics.
    pub(crate) metrics: bool,
    /// Whether it asked for loss.
    pub(crate) loss: bool,
}

impl Config {
    /// An empty configuration: no ports, no flows.
    pub(crate) fn empty() -> Self {
        Self { ports: Vec::new(), flows: Vec::new(), text: Value::Object(serde_json::Map::new()) }
    }

    /// Reads a configuration whose flows end within `longest` or when they are stopped.
    pub(crate) fn read(text: Value, longest: Duration) -> Result<Self, Refusal> {
        let root = Node::root(&text);
        root.only(&["ports", "layer1", "flows", "options"])?;
        options(&root)?;
        let mut ports = read_ports(&root)?;
        read_layer1(&root, &mut ports)?;
        let flows = root.list("flows")?;
        let check =
            |ok: bool, what: String| if ok { Ok(()) } else { Err(Refusal::wrong(format!("flows: {what}"))) };
        // Before any is read: a short text can ask for more than there is memory.
        check(
            flows.len() <= MOST_STREAMS,
            format!("{} flows: the generator sends {MOST_STREAMS} at once", flows.len()),
        )?;
        let mut made: Vec<Flow> = Vec::new();
        let mut ends = 0;
        for node in &flows {
            let flow = read_flow(node, &ports, longest)?;
            if made.iter().any(|other| other.name == flow.name) {
                return Err(node.need("name")?.refuse("another flow has this name"));
            }
            if made.first().is_some_and(|first| first.packet.ip != flow.packet.ip) {
                return Err(node
                    .need("packet")?
                    .refuse("all flows of a configuration have one IP version, and flows[0] has the other"));
            }
            ends += flow.packet.ends.len();
            let most = traffic::MOST_COMBINATIONS as usize;
            check(
                ends <= most,
                format!(
                    "{ends} combinations of addresses and ports in the flows up to flows[{}]: the generator has room for {most}",
                    made.len()
                ),
            )?;
            made.push(flow);
        }
        let sizes: usize = made.iter().map(|flow| flow.sizes.len()).sum();
        check(
            sizes <= MOST_SIZES,
            format!("{sizes} sizes in all flows: the generator has room for {MOST_SIZES}"),
        )?;
        Ok(Self { ports, flows: made, text })
    }
}

/// Options that say what is so anyway.
fn options(root: &Node<'_>) -> Result<(), Refusal> {
    let Some(options) = root.get("options") else { return Ok(()) };
    options.only(&["port_options"])?;
    let Some(ports) = options.get("port_options") else { return Ok(()) };
    // A new configuration takes the ports of the one before, and none that another program uses.
    ports.only(&["location_preemption", "data_integrity"])?;
    ports.get("location_preemption").map_or(Ok(false), |node| node.flag())?;
    match ports.get("data_integrity") {
        Some(node) if node.flag()? => {
            Err(node.refuse("metrics of data integrity are not supported: content is compared in any case"))
        }
        _ => Ok(()),
    }
}

fn read_ports(root: &Node<'_>) -> Result<Vec<Port>, Refusal> {
    let mut ports: Vec<Port> = Vec::new();
    for node in root.list("ports")? {
        node.only(&["name", "location"])?;
        let (name, location) = (node.need("name")?, node.need("location")?);
        let port = Port {
            name: name.text()?.to_owned(),
            location: location.text()?.to_owned(),
            speed: None,
            mtu: None,
        };
        if port.name.is_empty() || ports.iter().any(|other| other.name == port.name) {
            return Err(name.refuse("each port has a name of its own"));
        }
        let interface = &port.location;
        if interface.is_empty() || interface.len() > 15 || interface.contains(['/', ' ', ':', ';']) {
            return Err(location
                .refuse("the bench's ports are interfaces of the namespace that it runs in, such as eth1"));
        }
        if ports.iter().any(|other| other.location == port.location) {
            return Err(location.refuse("another port has this interface"));
        }
        ports.push(port);
        if ports.len() > MOST_PORTS {
            return Err(node.refuse(format!("the bench has {MOST_PORTS} ports at most")));
        }
    }
    Ok(ports)
}

/// Which port a name means.
fn port_called(node: &Node<'_>, ports: &[Port]) -> Result<usize, Refusal> {
    let name = node.text()?;
    let found = ports.iter().position(|port| port.name == name);
    found.ok_or_else(|| node.refuse(format!("there is no port called `{name}`")))
}

fn read_layer1(root: &Node<'_>, ports: &mut [Port]) -> Result<(), Refusal> {
    for node in root.list("layer1")? {
        node.only(&["name", "port_names", "speed", "promiscuous", "mtu"])?;
        node.need("name")?.text()?;
        if let Some(promiscuous) = node.get("promiscuous").filter(|it| !matches!(it.flag(), Ok(true))) {
            return Err(
                promiscuous.refuse("the sink receives every frame that the port does: true, or leave it out")
            );
        }
        let speed = node.get("speed").map(|speed| bits_of(&speed)).transpose()?;
        let mtu = node.get("mtu").map(|mtu| mtu.whole(64..=14_000)).transpose()?;
        for name in node.list("port_names")? {
            let port = port_called(&name, ports)?;
            ports[port].mtu = mtu.or(ports[port].mtu);
            ports[port].speed = speed.or(ports[port].speed);
        }
    }
    Ok(())
}

/// Bits a second of a word such as `speed_10_gbps`.
fn bits_of(node: &Node<'_>) -> Result<u64, Refusal> {
    let word = node.text()?;
    let unknown = || node.refuse(format!("`{word}` is no full-duplex speed, such as speed_10_gbps"));
    let rest = word.strip_prefix("speed_").ok_or_else(unknown)?;
    let (number, unit) = match (rest.strip_suffix("_gbps"), rest.strip_suffix("_fd_mbps")) {
        (Some(number), _) => (number, 1_000_000_000),
        (_, Some(number)) => (number, 1_000_000),
        _ => return Err(unknown()),
    };
    let number: u64 = number.parse().ok().filter(|number| (1..=800).contains(number)).ok_or_else(unknown)?;
    Ok(number * unit)
}

fn read_flow(node: &Node<'_>, ports: &[Port], longest: Duration) -> Result<Flow, Refusal> {
    node.only(&["name", "tx_rx", "packet", "size", "rate", "duration", "metrics"])?;
    let name = node.need("name")?.text()?.to_owned();
    let (tx, rx) = read_ends(node, ports)?;
    let packet = Packet::read(node)?;
    let sizes = read_sizes(node, packet.ip)?;
    let rate = read_rate(node, &sizes, ports[tx].speed)?;
    let frames = read_duration(node, rate, longest)?;
    let (metrics, loss) = read_metrics(node)?;
    Ok(Flow { name, tx, rx, sizes, rate, frames, packet, metrics, loss })
}

fn read_ends(flow: &Node<'_>, ports: &[Port]) -> Result<(usize, Option<usize>), Refusal> {
    let node = flow.need("tx_rx")?;
    let chosen = node.choice(&["port"], "port")?;
    let node = node.need(chosen)?;
    node.only(&["tx_name", "rx_name", "rx_names"])?;
    let tx = port_called(&node.need("tx_name")?, ports)?;
    let mut names = node.list("rx_names")?;
    names.extend(node.get("rx_name"));
    let receivers = names.iter().map(|name| port_called(name, ports)).collect::<Result<Vec<_>, _>>()?;
    match receivers.as_slice() {
        [] => Ok((tx, None)),
        [rx, others @ ..] if others.iter().all(|other| other == rx) => Ok((tx, Some(*rx))),
        _ => Err(node.refuse("a flow has one receiving port: write a flow for each")),
    }
}

fn read_sizes(flow: &Node<'_>, ip: IpVersion) -> Result<Vec<FrameSize>, Refusal> {
    let least = u64::from(smallest_test_frame(ip));
    let most = u64::from(MAX_LIVE_FRAME_BYTES + measure::frame::FCS_BYTES);
    let one = |place: &Node<'_>, bytes: u64| {
        let size =
            u16::try_from(bytes).ok().filter(|_| (least..=most).contains(&bytes)).and_then(FrameSize::new);
        size.ok_or_else(|| {
            place.refuse(format!("a frame of {bytes} bytes: with these headers, a stamp of 18 bytes and the FCS, {least} to {most}"))
        })
    };
    let Some(node) = flow.get("size") else { return Ok(vec![one(flow, 64)?]) };
    let chosen = node.choice(&["fixed", "increment"], "fixed")?;
    let Some(found) = node.get(chosen) else { return Ok(vec![one(&node, 64)?]) };
    if chosen == "fixed" {
        return Ok(vec![one(&found, found.whole(0..=u64::from(u32::MAX))?)?]);
    }
    found.only(&["start", "end", "step"])?;
    let number = |key, default| found.get(key).map_or(Ok(default), |it| it.whole(1..=u64::from(u16::MAX)));
    let (start, end, step) = (number("start", 64)?, number("end", 1518)?, number("step", 1)?);
    let count = (end + 1).saturating_sub(start).div_ceil(step);
    if !(1..=MOST_SIZES as u64).contains(&count) {
        return Err(
            found.refuse(format!("{count} sizes: the generator has room for 1 to {MOST_SIZES} in all flows"))
        );
    }
    (0..count).map(|number| one(&found, start + number * step)).collect()
}

fn read_rate(flow: &Node<'_>, sizes: &[FrameSize], speed: Option<u64>) -> Result<f64, Refusal> {
    let mix =
        FrameMix::sequence("flow", sizes.to_vec()).ok_or_else(|| flow.refuse("a flow without sizes"))?;
    let Some(node) = flow.get("rate") else { return Ok(1000.0) };
    let chosen = node.choice(&["pps", "bps", "kbps", "mbps", "gbps", "percentage"], "pps")?;
    let found = node.get(chosen);
    let number = |default: f64| found.as_ref().map_or(Ok(default), |it| it.number());
    let bits = |unit: f64, default| Ok::<_, Refusal>(number(default)? * unit / (8.0 * mix.mean_bytes()));
    let rate = match chosen {
        "pps" => number(1000.0)?,
        "bps" => bits(1.0, 1e9)?,
        "kbps" => bits(1e3, 1e6)?,
        "mbps" => bits(1e6, 1e3)?,
        "gbps" => bits(1e9, 1.0)?,
        _ => {
            let share = number(100.0)?;
            let speed =
                speed.ok_or_else(|| node.refuse("a share of what? Give the port's speed in layer1"))?;
            mix.line_rate_frames_per_second(speed as f64) * share / 100.0
        }
    };
    if RATES.contains(&rate) {
        return Ok(rate);
    }
    let (least, most) = (RATES.start(), RATES.end());
    Err(node.refuse(format!("{rate} frames a second: the generator sends {least} to {most}")))
}

fn read_duration(flow: &Node<'_>, rate: f64, longest: Duration) -> Result<Option<u64>, Refusal> {
    let Some(node) = flow.get("duration") else { return Ok(None) };
    let chosen = node.choice(&["fixed_packets", "fixed_seconds", "continuous"], "continuous")?;
    let inner = node.get(chosen);
    let frames = match (chosen, &inner) {
        ("fixed_packets", Some(inner)) => {
            gap_and_delay(inner, "packets")?;
            Some(inner.get("packets").map_or(Ok(1), |it| it.whole(1..=u64::from(u32::MAX)))?)
        }
        ("fixed_seconds", Some(inner)) => {
            gap_and_delay(inner, "seconds")?;
            let seconds = inner.get("seconds").map_or(Ok(1.0), |it| it.number())?;
            if !(seconds > 0.0 && seconds <= longest.as_secs_f64()) {
                return Err(inner.refuse(format!(
                    "{seconds} seconds: a flow is sent for up to {} (--longest)",
                    longest.as_secs_f64()
                )));
            }
            Some(((rate * seconds).round() as u64).max(1))
        }
        ("fixed_packets", None) => Some(1),
        ("fixed_seconds", None) => Some((rate.round() as u64).max(1)),
        (_, Some(inner)) => {
            gap_and_delay(inner, "gap")?;
            None
        }
        (_, None) => None,
    };
    let takes = frames.map_or(0.0, |frames| (frames - 1) as f64 / rate);
    if takes > longest.as_secs_f64() {
        return Err(node.refuse(format!(
            "this takes {takes:.0} s at {rate} frames a second: flows are sent for up to {} s (--longest)",
            longest.as_secs_f64()
        )));
    }
    Ok(frames)
}

/// The generator has neither a gap nor a delay of a flow's own; what is written may be what is so anyway.
fn gap_and_delay(node: &Node<'_>, own: &str) -> Result<(), Refusal> {
    node.only(&[own, "gap", "delay"])?;
    if let Some(gap) = node.get("gap").filter(|gap| !matches!(gap.whole(0..=u64::MAX), Ok(GAP))) {
        return Err(gap.refuse("frames follow each other as the rate says: 12, or leave it out"));
    }
    let Some(delay) = node.get("delay") else { return Ok(()) };
    let chosen = delay.choice(&["bytes", "nanoseconds", "microseconds"], "bytes")?;
    match delay.get(chosen) {
        Some(it) if it.number()? != 0.0 => Err(it.refuse("flows begin together: 0, or leave it out")),
        _ => Ok(()),
    }
}

fn read_metrics(flow: &Node<'_>) -> Result<(bool, bool), Refusal> {
    let Some(node) = flow.get("metrics") else { return Ok((false, false)) };
    node.only(&["enable", "loss", "timestamps", "latency"])?;
    let flag = |node: &Node<'_>, key| node.get(key).map_or(Ok(false), |it| it.flag());
    if let Some(it) = node.get("timestamps").filter(|it| !matches!(it.flag(), Ok(false))) {
        return Err(it.refuse("times of single frames are not kept"));
    }
    if let Some(latency) = node.get("latency") {
        latency.only(&["enable", "mode"])?;
        if flag(&latency, "enable")? {
            return Err(
                latency.refuse("latency is not part of these metrics: `rampart-bench run` measures it")
            );
        }
    }
    Ok((flag(&node, "enable")?, flag(&node, "loss")?))
}
