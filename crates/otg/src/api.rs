//! Answers the API's requests. Knows no sockets.

use crate::bench::Bench;
use crate::config::Config;
use crate::metrics;
use crate::node::Node;
use crate::refusal::Refusal;
use serde_json::{Value, json};

/// The version of the API's model that requests are read by.
pub(crate) const MODEL: &str = "1.62.0";

/// The paths that there are, with the method that each has.
pub(crate) const PATHS: [(&str, &str); 11] = [
    ("POST", "/config"),
    ("GET", "/config"),
    ("PATCH", "/config"),
    ("PATCH", "/config/append"),
    ("PATCH", "/config/delete"),
    ("POST", "/control/state"),
    ("POST", "/control/action"),
    ("POST", "/monitor/metrics"),
    ("POST", "/monitor/states"),
    ("POST", "/monitor/capture"),
    ("GET", "/capabilities/version"),
];

/// Answers one request; `body` is that of a `POST` or `PATCH`.
pub(crate) fn answer(bench: &mut Bench, method: &str, path: &str, body: &[u8]) -> Result<Value, Refusal> {
    let read = || {
        serde_json::from_slice::<Value>(body)
            .map_err(|error| Refusal::wrong(format!("the body is no JSON: {error}")))
    };
    let unsupported = |what: &str| Err(Refusal::wrong(format!("{method} {path} is not supported: {what}")));
    match (method, path) {
        ("POST", "/config") => {
            let config = Config::read(read()?, bench.settings.longest)?;
            bench.set_config(config)?;
            Ok(json!({ "warnings": [] }))
        }
        ("GET", "/config") => Ok(bench.config.text.clone()),
        ("PATCH", _) => unsupported("set the whole configuration with POST /config"),
        ("POST", "/control/state") => control(bench, &read()?).map(|()| json!({ "warnings": [] })),
        ("POST", "/control/action") => unsupported("the bench has no protocols to act on"),
        ("POST", "/monitor/metrics") => metrics::answer(bench, &read()?),
        ("POST", "/monitor/states") => unsupported("the bench has no devices that learn neighbours"),
        ("POST", "/monitor/capture") => {
            unsupported("the bench captures no frames; tcpdump at the interface does")
        }
        ("GET", "/capabilities/version") => Ok(json!({
            "api_spec_version": MODEL,
            "sdk_version": "",
            "app_version": format!("rampart-bench {}", env!("CARGO_PKG_VERSION")),
        })),
        _ => Err(Refusal { status: 404, what: format!("there is no {method} {path}") }),
    }
}

fn control(bench: &mut Bench, request: &Value) -> Result<(), Refusal> {
    let root = Node::root(request);
    let chosen = root.choice(&["traffic", "port"], "traffic")?;
    let node = root.need(chosen)?;
    match chosen {
        "traffic" => {
            let chosen = node.choice(&["flow_transmit"], "flow_transmit")?;
            transmit(bench, &node.need(chosen)?)
        }
        _ => {
            let chosen = node.choice(&["link"], "link")?;
            let link = node.need(chosen)?;
            link.only(&["port_names", "state"])?;
            let names: Vec<&str> = bench.config.ports.iter().map(|port| port.name.as_str()).collect();
            let ports = metrics::places(Some(&link), "port_names", &names)?;
            let state = link.need("state")?;
            match state.text()? {
                "up" => bench.set_links(&ports, true),
                "down" => bench.set_links(&ports, false),
                other => Err(state.refuse(format!("`{other}` is not supported; the bench has up, down"))),
            }
        }
    }
}

fn transmit(bench: &mut Bench, node: &Node<'_>) -> Result<(), Refusal> {
    node.only(&["flow_names", "state"])?;
    let names: Vec<&str> = bench.config.flows.iter().map(|flow| flow.name.as_str()).collect();
    let flows = metrics::places(Some(node), "flow_names", &names)?;
    let state = node.need("state")?;
    match state.text()? {
        "start" => bench.start(flows),
        "stop" => {
            let states = bench.flow_states();
            match (0..states.len()).find(|at| states[*at].sending && !flows.contains(at)) {
                Some(other) => Err(node.need("flow_names")?.refuse(format!(
                    "flows are stopped together, and `{}` is being sent as well",
                    bench.config.flows[other].name
                ))),
                None => bench.stop(),
            }
        }
        other => Err(state.refuse(format!("`{other}` is not supported; the bench has start, stop"))),
    }
}
