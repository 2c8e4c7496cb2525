//! Metrics of ports and flows as the API writes them.

use crate::bench::{Bench, Counts, FlowState};
use crate::node::Node;
use crate::refusal::Refusal;
use measure::frame::PREAMBLE_AND_GAP_BYTES;
use serde_json::{Map, Value, json};

/// The fields of a port's metrics that a client can ask for; its name is always there.
const OF_PORTS: [&str; 12] = [
    "location",
    "link",
    "capture",
    "frames_tx",
    "frames_rx",
    "bytes_tx",
    "bytes_rx",
    "frames_tx_rate",
    "frames_rx_rate",
    "bytes_tx_rate",
    "bytes_rx_rate",
    "transmit",
];

/// The same of a flow; its name and its ports are always there.
const OF_FLOWS: [&str; 17] = [
    "transmit",
    "frames_tx",
    "frames_rx",
    "bytes_tx",
    "bytes_rx",
    "frames_tx_rate",
    "frames_rx_rate",
    "tx_l1_rate_bps",
    "rx_l1_rate_bps",
    "tx_rate_bytes",
    "rx_rate_bytes",
    "tx_rate_bps",
    "rx_rate_bps",
    "tx_rate_kbps",
    "rx_rate_kbps",
    "tx_rate_mbps",
    "rx_rate_mbps",
];

/// Answers `/monitor/metrics`.
pub(crate) fn answer(bench: &Bench, request: &Value) -> Result<Value, Refusal> {
    bench.checked()?;
    let root = Node::root(request);
    let chosen = root.choice(&["port", "flow"], "port")?;
    let asked = root.get(chosen);
    let asked = asked.as_ref();
    match chosen {
        "port" => Ok(json!({ "choice": "port_metrics", "port_metrics": ports(bench, asked)? })),
        _ => Ok(json!({ "choice": "flow_metrics", "flow_metrics": flows(bench, asked)? })),
    }
}

/// The places of what `key` names among `names`; all if it names none.
pub(crate) fn places(node: Option<&Node<'_>>, key: &str, names: &[&str]) -> Result<Vec<usize>, Refusal> {
    let listed = node.map_or(Ok(Vec::new()), |node| node.list(key))?;
    if listed.is_empty() {
        return Ok((0..names.len()).collect());
    }
    let place = |node: &Node<'_>| {
        let name = node.text()?;
        let found = names.iter().position(|known| *known == name);
        found.ok_or_else(|| node.refuse(format!("the configuration has none called `{name}`")))
    };
    let mut found = listed.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The columns that `key` asks for; all if it asks for none.
fn columns<'a>(node: Option<&Node<'a>>, key: &str, known: &[&'a str]) -> Result<Vec<&'a str>, Refusal> {
    let listed = node.map_or(Ok(Vec::new()), |node| node.list(key))?;
    if listed.is_empty() {
        return Ok(known.to_vec());
    }
    let column = |node: &Node<'a>| {
        let name = node.text()?;
        let found = known.iter().find(|column| **column == name).copied();
        found.ok_or_else(|| node.refuse(format!("`{name}` is not kept; the bench has {}", known.join(", "))))
    };
    listed.iter().map(column).collect()
}

fn ports(bench: &Bench, asked: Option<&Node<'_>>) -> Result<Vec<Value>, Refusal> {
    asked.map_or(Ok(()), |node| node.only(&["port_names", "column_names"]))?;
    let names: Vec<&str> = bench.config.ports.iter().map(|port| port.name.as_str()).collect();
    let columns = columns(asked, "column_names", &OF_PORTS)?;
    let flows: Vec<(usize, Option<usize>, FlowState)> = bench
        .config
        .flows
        .iter()
        .zip(bench.flow_states())
        .map(|(flow, state)| (flow.tx, flow.rx, state))
        .collect();
    let metric = |at: usize| {
        let mut sum = FlowState::default();
        for (_, _, state) in flows.iter().filter(|(tx, _, _)| *tx == at) {
            sum.sending |= state.sending;
            sum.counts.frames_tx += state.counts.frames_tx;
            sum.counts.bytes_tx += state.counts.bytes_tx;
            sum.rates[0] += state.rates[0];
            sum.rates[1] += state.rates[1];
        }
        for (_, _, state) in flows.iter().filter(|(_, rx, _)| *rx == Some(at)) {
            sum.counts.frames_rx += state.counts.frames_rx;
            sum.counts.bytes_rx += state.counts.bytes_rx;
            sum.rates[2] += state.rates[2];
            sum.rates[3] += state.rates[3];
        }
        let port = &bench.config.ports[at];
        let value = |column: &str| match column {
            "location" => json!(port.location),
            "link" => json!(if bench.is_up(at) { "up" } else { "down" }),
            "capture" => json!("stopped"),
            "bytes_tx_rate" => json!(sum.rates[1]),
            "bytes_rx_rate" => json!(sum.rates[3]),
            other => common(&sum, other),
        };
        named(&port.name, &columns, value)
    };
    Ok(places(asked, "port_names", &names)?.into_iter().map(metric).collect())
}

fn flows(bench: &Bench, asked: Option<&Node<'_>>) -> Result<Vec<Value>, Refusal> {
    asked.map_or(Ok(()), |node| node.only(&["flow_names", "metric_names"]))?;
    let config = &bench.config;
    let kept: Vec<usize> = (0..config.flows.len()).filter(|at| config.flows[*at].metrics).collect();
    refuse_unkept(bench, asked)?;
    let names: Vec<&str> = kept.iter().map(|at| config.flows[*at].name.as_str()).collect();
    let columns = columns(asked, "metric_names", &OF_FLOWS)?;
    let states = bench.flow_states();
    let metric = |place: usize| {
        let (flow, state) = (&config.flows[kept[place]], &states[kept[place]]);
        let mut made = named(&flow.name, &columns, |column| of_flow(state, column));
        made["port_tx"] = json!(config.ports[flow.tx].name);
        made["port_rx"] = json!(flow.rx.map_or("", |rx| config.ports[rx].name.as_str()));
        if flow.loss {
            made["loss"] = json!(loss(&state.counts));
        }
        made
    };
    Ok(places(asked, "flow_names", &names)?.into_iter().map(metric).collect())
}

/// Who asks for a flow whose configuration asks for no metrics is told that, and not that there is no such flow.
fn refuse_unkept(bench: &Bench, asked: Option<&Node<'_>>) -> Result<(), Refusal> {
    for node in asked.map_or(Ok(Vec::new()), |node| node.list("flow_names"))? {
        let name = node.text()?;
        if bench.config.flows.iter().any(|flow| flow.name == name && !flow.metrics) {
            return Err(node.refuse(format!("`{name}` has no metrics: set metrics.enable of the flow")));
        }
    }
    Ok(())
}

fn named(name: &str, columns: &[&str], value: impl Fn(&str) -> Value) -> Value {
    let mut made = Map::new();
    made.insert("name".to_owned(), json!(name));
    made.extend(columns.iter().map(|column| ((*column).to_owned(), value(column))));
    Value::Object(made)
}

/// What ports and flows have alike.
fn common(state: &FlowState, column: &str) -> Value {
    match column {
        "transmit" => json!(if state.sending { "started" } else { "stopped" }),
        "frames_tx" => json!(state.counts.frames_tx),
        "frames_rx" => json!(state.counts.frames_rx),
        "bytes_tx" => json!(state.counts.bytes_tx),
        "bytes_rx" => json!(state.counts.bytes_rx),
        "frames_tx_rate" => json!(state.rates[0]),
        "frames_rx_rate" => json!(state.rates[2]),
        _ => Value::Null,
    }
}

fn of_flow(state: &FlowState, column: &str) -> Value {
    let (way, unit) = column.split_once('_').unwrap_or((column, ""));
    let [frames, bytes] =
        if way == "tx" { [state.rates[0], state.rates[1]] } else { [state.rates[2], state.rates[3]] };
    match unit {
        "l1_rate_bps" => json!((bytes + frames * f64::from(PREAMBLE_AND_GAP_BYTES)) * 8.0),
        "rate_bytes" => json!(bytes),
        "rate_bps" => json!(bytes * 8.0),
        "rate_kbps" => json!(bytes * 8e-3),
        "rate_mbps" => json!(bytes * 8e-6),
        _ => common(state, column),
    }
}

/// Per cent of the frames sent that have not arrived; those under way are among them.
fn loss(counts: &Counts) -> f64 {
    match counts.frames_tx {
        0 => 0.0,
        sent => 100.0 * sent.saturating_sub(counts.frames_rx) as f64 / sent as f64,
    }
}
