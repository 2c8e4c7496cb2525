//! `otg`: clients of the Open Traffic Generator API, good ones and bad ones, drive the bench between veth ends. Counts are exact.

use super::{bench_program, turn};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::namespace::{Namespace, attempt, said};

/// How long nothing may change before a test gives up.
const PATIENCE: Duration = Duration::from_secs(15);

/// The bench with its API, in a namespace whose interfaces it may use.
struct Otg {
    outside: Namespace,
    bench: Child,
    address: SocketAddr,
}

impl Otg {
    fn serve(outside: Namespace, arguments: &[&str]) -> Self {
        // A lock of its own, because `ip netns exec` gives it mounts of its own: runs of others on this machine do not wait for a test.
        let script = "mkdir -p /run/rampart-bench && mount -t tmpfs none /run/rampart-bench && exec \"$@\"";
        let mut command = Command::new("ip");
        command.args(["netns", "exec", outside.name(), "sh", "-c", script, "sh", bench_program()]);
        command.args(["otg", "--listen", "127.0.0.1:0"]).args(arguments);
        let mut bench = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(bench.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("https://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        Self { outside, bench, address }
    }

    /// What is answered to bytes: the status, and what follows the head.
    fn send(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        // A server that has read enough may answer before all is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
    }

    fn connect(&self) -> TcpStream {
        let stream = self.outside.enter(|| TcpStream::connect(self.address)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let (status, text) = self.send(format!("{head}{body}").as_bytes());
        (
            status,
            serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{method} {path}: {status} {text} {error}")),
        )
    }

    fn transmit(&self, state: &str, flows: &[&str]) -> (u16, Value) {
        let transmit = json!({ "flow_names": flows, "state": state });
        self.ask("POST", "/control/state", &json!({ "choice": "traffic", "traffic": { "choice": "flow_transmit", "flow_transmit": transmit } }))
    }

    /// Metrics of flows once they are as wanted.
    fn flows_when(&self, is_wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut last = (Instant::now(), Vec::new());
        loop {
            let (status, answer) = self.ask("POST", "/monitor/metrics", &json!({ "choice": "flow", "flow": { "metric_names": ["transmit", "frames_tx", "frames_rx"] } }));
            let seen =
                answer["flow_metrics"].as_array().unwrap_or_else(|| panic!("{status} {answer}")).clone();
            if is_wanted(&seen) {
                return seen;
            }
            assert!(last.0.elapsed() < PATIENCE, "{seen:?}");
            if seen != last.1 {
                last = (Instant::now(), seen);
            }
        }
    }

    /// Ends the bench as Ctrl-C does.
    fn end(mut self) -> (Namespace, Option<i32>) {
        testkit::namespace::run("kill", &["-INT", &self.bench.id().to_string()]);
        let code = self.bench.wait().unwrap().code();
        let Self { outside, .. } = &mut self;
        let outside = std::mem::replace(outside, Namespace::create("ended"));
        (outside, code)
    }
}

impl Drop for Otg {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.bench.kill();
        let _ = self.bench.wait();
    }
}

/// A veth pair in one namespace, as between two ports of a switch.
fn wire() -> Namespace {
    let outside = Namespace::create("otg");
    outside.ip("link add left address 02:00:00:00:01:02 type veth peer name right address 02:00:00:00:02:02");
    for port in ["left", "right"] {
        outside.ip(&format!("link set {port} addrgenmode none\nlink set {port} up"));
        outside.take_redirected(port);
    }
    outside
}

/// A routing namespace between two ports: it, and the namespace of the ports.
fn router() -> (Namespace, Namespace) {
    let (inside, outside) = (Namespace::create("router"), Namespace::create("otg"));
    let peer = outside.name();
    inside.set(&[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
    for (number, port) in [(1, "left"), (2, "right")] {
        let (own, host) = (format!("02:00:00:00:0{number}:01"), format!("02:00:00:00:0{number}:02"));
        inside.ip(&format!(
            "link add {port} address {own} type veth peer name {port} address {host} netns {peer}"
        ));
        outside.ip(&format!("link set {port} addrgenmode none\nlink set {port} up"));
        inside.ip(&format!(
            "link set {port} up
             address add 10.0.{number}.1/24 dev {port}
             address add 2001:db8:{number}::1/64 dev {port} nodad"
        ));
        for last in 2..=6 {
            inside.ip(&format!(
                "neigh add 10.0.{number}.{last} lladdr {host} dev {port}
                 neigh add 2001:db8:{number}::{last} lladdr {host} dev {port}"
            ));
        }
        inside.take_redirected(port);
    }
    (inside, outside)
}

/// Where `scripts/prepare test` puts snappi: beside what is built.
fn python() -> String {
    let built = Path::new(bench_program()).ancestors().nth(2).unwrap();
    let python = built.join("snappi/bin/python");
    assert!(
        python.exists(),
        "{} is not there; `make prepare` installs what the tests need",
        python.display()
    );
    python.to_str().unwrap().to_owned()
}

/// Runs scripts one after the other, each argument a script with its own: snappi alone takes seconds to be imported.
const EACH: &str = "import os, runpy, sys\nfor run in sys.argv[1:]:\n    sys.argv = run.split()\n    sys.path[0] = os.path.dirname(sys.argv[0])\n    print(run, file=sys.stderr, flush=True)\n    \
                    runpy.run_path(sys.argv[0], run_name='__main__')";

#[test]
fn what_snappi_shows_of_one_and_of_two_flows_runs_through_a_router() {
    let _turn = turn();
    let (_inside, outside) = router();
    let otg = Otg::serve(outside, &["--between", "router"]);
    let (left, right) = ("02:00:00:00:01:01", "02:00:00:00:02:01");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bed/otg");
    let mut runs = Vec::new();
    for (scheme, version) in [("https", "4"), ("http", "6"), ("grpc", "4"), ("parts", "6")] {
        for (script, gateways) in
            [("one_flow.py", left.to_owned()), ("two_flows.py", format!("{left} {right}"))]
        {
            runs.push(format!(
                "{} {scheme}://{} {version} {gateways}",
                scripts.join(script).display(),
                otg.address
            ));
        }
    }
    runs.push(format!("{} grpc://{}", scripts.join("bad_calls.py").display(), otg.address));
    let python = python();
    let mut arguments = vec!["netns", "exec", otg.outside.name(), &python, "-c", EACH];
    arguments.extend(runs.iter().map(String::as_str));
    let output = attempt("ip", &arguments);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(otg.end().1, Some(0));
}

/// What the bench knows of the API's protobuf is the model of the snappi that is installed.
#[test]
fn the_protobuf_model_is_snappis() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bed/otg/model.py");
    let made = testkit::namespace::run(&python(), &[script.to_str().unwrap()]);
    let kept = include_str!("../../crates/otg/src/grpc/model.proto");
    assert!(made == kept, "tests/bed/otg/model.py prints another crates/otg/src/grpc/model.proto");
}

/// A flow between the ports of the wire; without frames it does not end.
fn flow(name: &str, ports: [&str; 2], frames: Option<u32>) -> Value {
    let header = |name: &str| json!({ "choice": name, name: {} });
    let mut made = json!({
        "name": name,
        "tx_rx": { "port": { "tx_name": ports[0], "rx_names": [ports[1]] } },
        "packet": [header("ethernet"), header("ipv4"), header("udp")],
        "rate": { "pps": 5000 },
        "metrics": { "enable": true },
    });
    if let Some(frames) = frames {
        made["duration"] = json!({ "fixed_packets": { "packets": frames } });
    }
    made
}

fn config(flows: &[Value]) -> Value {
    json!({ "ports": [{ "name": "a", "location": "left" }, { "name": "b", "location": "right" }], "flows": flows })
}

fn is_refused((status, body): (u16, Value), said: &str) {
    let text = body["errors"][0].as_str().unwrap_or_default();
    assert!(
        status == 400 && body["code"] == 400 && body["kind"] == "validation" && text.contains(said),
        "{said}: {status} {body}"
    );
}

#[test]
fn flows_run_until_they_are_stopped_or_their_time_is_over() {
    let _turn = turn();
    let otg = Otg::serve(wire(), &["--longest", "3s"]);
    is_refused(otg.transmit("start", &[]), "no flows to start");
    let mut missing = config(&[]);
    missing["ports"][1]["location"] = json!("nosuch");
    is_refused(
        otg.ask("POST", "/config", &missing),
        "ports[1].location: nosuch cannot be used: there is no such interface",
    );
    let mut large = config(&[flow("large", ["a", "b"], None)]);
    large["flows"][0]["size"] = json!({ "fixed": 1519 });
    is_refused(
        otg.ask("POST", "/config", &large),
        "flows[0].size: frames of 1519 bytes do not fit the MTU of left",
    );

    let two = config(&[flow("fixed", ["b", "a"], Some(300)), flow("endless", ["a", "b"], None)]);
    // A flow without metrics is there, and has none.
    let mut quiet = two.clone();
    quiet["flows"][1]["metrics"] = json!({ "enable": false });
    assert_eq!(otg.ask("POST", "/config", &quiet).0, 200);
    for (name, said) in [
        ("endless", "flow.flow_names[1]: `endless` has no metrics: set metrics.enable of the flow"),
        ("other", "flow.flow_names[1]: the configuration has none called `other`"),
    ] {
        let asked = json!({ "choice": "flow", "flow": { "flow_names": ["fixed", name] } });
        is_refused(otg.ask("POST", "/monitor/metrics", &asked), said);
    }
    assert_eq!(otg.ask("POST", "/config", &two), (200, json!({ "warnings": [] })));
    assert_eq!(otg.ask("GET", "/config", &Value::Null), (200, two.clone()));
    is_refused(otg.transmit("start", &["other"]), "flow_names[0]: the configuration has none called `other`");
    is_refused(otg.transmit("pause", &[]), "`pause` is not supported; the bench has start, stop");
    assert_eq!(otg.transmit("start", &[]).0, 200);
    is_refused(otg.transmit("start", &[]), "flows are being sent already");
    is_refused(otg.ask("POST", "/config", &two), "flows are being sent");
    is_refused(otg.transmit("stop", &["fixed"]), "`endless` is being sent as well");
    let count = |flow: &Value, key: &str| flow[key].as_u64().unwrap();
    // Metrics are those of what goes on: one is done, the other is not.
    otg.flows_when(|flows| {
        flows[0]["transmit"] == "stopped"
            && flows[1]["transmit"] == "started"
            && count(&flows[1], "frames_tx") > 300
    });
    assert_eq!(otg.transmit("stop", &[]).0, 200);
    let done = |flow: &Value| flow["transmit"] == "stopped" && flow["frames_tx"] == flow["frames_rx"];
    let seen = otg.flows_when(|flows| flows.iter().all(done));
    assert_eq!(
        seen[0],
        json!({ "name": "fixed", "port_tx": "b", "port_rx": "a", "transmit": "stopped", "frames_tx": 300, "frames_rx": 300 })
    );
    assert_eq!(otg.flows_when(|_| true), seen, "what is stopped does not go on");
    assert_eq!(otg.transmit("stop", &[]).0, 200);

    // Without anybody's word it ends after --longest. One that is not started counts nothing.
    assert_eq!(otg.transmit("start", &["endless"]).0, 200);
    let seen = otg.flows_when(|flows| done(&flows[1]) && count(&flows[1], "frames_tx") > 0);
    // A busy machine may take the generator away at the end.
    assert!(count(&seen[0], "frames_tx") == 0 && count(&seen[1], "frames_tx") <= 15_001, "{seen:?}");

    let link = |state: &str| json!({ "choice": "port", "port": { "choice": "link", "link": { "port_names": ["a"], "state": state } } });
    for (state, shown) in [("down", "down"), ("up", "up")] {
        assert_eq!(otg.ask("POST", "/control/state", &link(state)).0, 200);
        let (_, metrics) = otg.ask(
            "POST",
            "/monitor/metrics",
            &json!({ "port": { "port_names": ["a"], "column_names": ["link"] } }),
        );
        assert_eq!(metrics["port_metrics"], json!([{ "name": "a", "link": shown }]));
    }
    let (outside, code) = otg.end();
    assert_eq!(code, Some(0));
    let links = outside.run("ip", &["-d", "link"]);
    assert!(!links.contains("xdp"), "{links}");
}

#[test]
fn bad_clients_are_refused_and_harm_nobody() {
    let _turn = turn();
    let otg = Otg::serve(wire(), &[]);
    assert_eq!(otg.ask("POST", "/config", &config(&[flow("one", ["a", "b"], None)])).0, 200);
    assert_eq!(otg.transmit("start", &[]).0, 200);
    let is_served = || {
        let (status, version) = otg.ask("GET", "/capabilities/version", &Value::Null);
        assert_eq!((status, &version["api_spec_version"]), (200, &json!("1.62.0")));
    };
    is_served();
    for (method, path, said) in [
        ("PATCH", "/config", "set the whole configuration"),
        ("PATCH", "/config/append", "set the whole configuration"),
        ("PATCH", "/config/delete", "set the whole configuration"),
        ("POST", "/control/action", "no protocols"),
        ("POST", "/monitor/states", "no devices"),
        ("POST", "/monitor/capture", "captures no frames"),
    ] {
        is_refused(otg.ask(method, path, &json!({})), said);
    }
    let capture =
        json!({ "choice": "port", "port": { "choice": "capture", "capture": { "state": "start" } } });
    is_refused(otg.ask("POST", "/control/state", &capture), "port: `capture` is not supported");
    is_refused(
        otg.ask("POST", "/control/state", &json!({ "choice": "protocol" })),
        "`protocol` is not supported",
    );
    is_refused(
        otg.ask("POST", "/monitor/metrics", &json!({ "choice": "bgpv4" })),
        "`bgpv4` is not supported; the bench has port, flow",
    );
    let json = "Host: localhost\r\nContent-Type: application/json\r\n";
    let deep = "[".repeat(100_000);
    for (bytes, status) in [
        (format!("POST /config HTTP/1.1\r\n{json}Content-Length: 99999999999\r\n\r\n"), 413),
        (format!("POST /config HTTP/1.1\r\n{json}Content-Length: {}\r\n\r\n{deep}", deep.len()), 400),
        (format!("POST /config HTTP/1.1\r\n{json}Content-Length: 3\r\n\r\n\u{ff}x"), 400),
        ("POST /config HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}".to_owned(), 415),
        ("GET /config HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), 421),
        (format!("DELETE /config HTTP/1.1\r\n{json}\r\n"), 405),
        (format!("GET /../etc/passwd HTTP/1.1\r\n{json}\r\n"), 404),
        (format!("GET / HTTP/1.1\r\n{}", "x".repeat(100_000)), 431),
        ("\u{16}\u{3}\u{1}not a handshake at all".to_owned(), 0),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nno frames at all".to_owned(), 0),
        ("PRI * HTTP/1.1\r\n\r\n".to_owned(), 0),
    ] {
        let found = otg.send(bytes.as_bytes());
        assert_eq!(found.0, status, "{}: {}", &bytes[..bytes.len().min(80)], found.1);
    }
    // Those that say nothing hold as many places as there are, and no more; when they leave, others are served.
    let silent: Vec<TcpStream> = (0..16).map(|_| otg.connect()).collect();
    let begun = Instant::now();
    while otg.send(format!("GET /config HTTP/1.1\r\n{json}\r\n").as_bytes()).0 != 503 {
        assert!(begun.elapsed() < PATIENCE, "a silent client holds no place");
    }
    drop(silent);
    let begun = Instant::now();
    while otg.send(format!("GET /config HTTP/1.1\r\n{json}\r\n").as_bytes()).0 != 200 {
        assert!(begun.elapsed() < PATIENCE, "places are not given back");
    }
    // Two that start at once: one does.
    assert_eq!(otg.transmit("stop", &[]).0, 200);
    let begun: Vec<u16> = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| otg.transmit("start", &[]).0));
        both.map(|one| one.join().unwrap()).to_vec()
    });
    assert_eq!(begun.iter().sum::<u16>(), 600, "{begun:?}");
    is_served();
    assert_eq!(otg.end().1, Some(0), "it ends while flows are sent");
    let remote = attempt(bench_program(), &["otg", "--listen", "0.0.0.0:0"]);
    assert!(
        remote.status.code() == Some(2) && said(&remote).contains("add --allow-remote"),
        "{}",
        said(&remote)
    );
}
