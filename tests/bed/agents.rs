//! `rampart-bench agent` and `run --agents`: the two ports of a measurement at two hosts. Here these are two namespaces, with a routing namespace
//! as the box between their ports, and a third for the server of NATS and the leader.

use super::{again_while, bench_program, is_disturbed, of, shown, suite, turn};
use measure::results::{MarkKind, Metric};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::namespace::{Background, Namespace};
use testkit::slowness;

pub(crate) const SERVER: &str = "10.83.1.1:4222";

/// Where `scripts/prepare test` puts the server: beside what is built.
fn nats_server() -> String {
    let built = Path::new(bench_program()).ancestors().nth(2).unwrap().to_owned();
    let program = built.join("nats/bin/nats-server");
    assert!(program.exists(), "there is no {}: `scripts/prepare test` installs it", program.display());
    program.display().to_string()
}

pub(crate) struct Hosts {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) hub: Namespace,
    pub(crate) hosts: [Namespace; 2],
    middle: Namespace,
    _server: Background,
}

/// An agent that is killed with the test.
pub(crate) struct Running(Child, PathBuf);

impl Running {
    pub(crate) fn says(&self, text: &str) -> bool {
        self.count(text) > 0
    }

    /// How often it has said that.
    pub(crate) fn count(&self, text: &str) -> usize {
        std::fs::read_to_string(&self.1).unwrap().matches(text).count()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60) * slowness(), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [hub, left, right, middle] = ["hub", "left", "right", "box"].map(Namespace::create);
        for (host, port, gateway, next, prefix, hub_address, own) in [
            (&left, "near", "198.18.0.1", "198.18.0.2", "198.18.0.0/16", "10.83.1.1/24", "10.83.1.2/24"),
            (&right, "far", "198.19.0.1", "198.19.0.2", "198.19.0.0/17", "10.83.2.1/24", "10.83.2.2/24"),
        ] {
            let name = host.name();
            middle.ip(&format!(
                "link add {port} type veth peer name test netns {name}
                 address add {gateway}/30 dev {port}"
            ));
            host.ip("link set test up");
            middle.ip(&format!("link set {port} up\nroute add {prefix} via {next}"));
            middle.take_redirected(port);
            hub.ip(&format!(
                "link add {port} type veth peer name hub netns {name}
                 address add {hub_address} dev {port}
                 link set {port} up"
            ));
            host.ip(&format!(
                "address add {own} dev hub
                 link set hub up
                 route add 10.83.0.0/16 via {}",
                hub_address.trim_end_matches("/24")
            ));
        }
        middle.set(&[("ipv4/ip_forward", "1")]);
        let store = folder.path().join("jetstream").display().to_string();
        let server =
            Background::start(&hub, &nats_server(), &["-a", "0.0.0.0", "-p", "4222", "-js", "-sd", &store]);
        until("the server listens", || hub.run("ss", &["-Hlnt"]).contains(":4222 "));
        for name in ["bench.key", "other.key"] {
            let key = format!("umask 077; openssl rand -base64 32 > {}", folder.path().join(name).display());
            testkit::namespace::run("sh", &["-c", &key]);
        }
        Self { folder, hub, hosts: [left, right], middle, _server: server }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, at: &Namespace, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", at.name(), bench_program()]).args(words);
        command.env("NO_COLOR", "1").env("RAMPART_BENCH_HISTORY", "off").stdin(Stdio::null());
        command
    }

    pub(crate) fn agent(&self, place: usize) -> Running {
        self.agent_named(place, ["left", "right"][place])
    }

    pub(crate) fn agent_named(&self, place: usize, name: &str) -> Running {
        let (key, url) = (self.path("bench.key"), format!("nats://{SERVER}"));
        let words = ["agent", "--name", name, "--port", "test", "--server", &url, "--key", &key];
        let said = self.folder.path().join(format!("{name}.txt"));
        let file = std::fs::File::create(&said).unwrap();
        let agent = Running(self.command(&self.hosts[place], &words).stderr(file).spawn().unwrap(), said);
        until("the agent waits for orders", || agent.says("waits for orders"));
        agent
    }

    pub(crate) fn lead(&self, suite: &Path, out: &str, key: &str, more: &[&str]) -> Command {
        let (key, url, out) = (self.path(key), format!("nats://{SERVER}"), self.path(out));
        let words =
            ["run", suite.to_str().unwrap(), "--agents", "left,right", "--server", &url, "--key", &key];
        let rest = ["--cores", "1", "--out", &out];
        let mut command = self.command(&self.hub, &[&words[..], &rest, more].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, suite: &Path, out: &str, key: &str, more: &[&str]) -> Output {
        self.lead(suite, out, key, more).output().unwrap()
    }

    /// Frames that the box has sent to the hostile side.
    pub(crate) fn forwarded(&self) -> u64 {
        let text = self.middle.run("ip", &["-s", "-j", "link", "show", "dev", "far"]);
        let link: serde_json::Value = serde_json::from_str(&text).unwrap();
        link[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
    }

    /// Whether nothing of the bench is at a host's port.
    pub(crate) fn is_at_rest(&self, place: usize) -> bool {
        let port = self.hosts[place].run("ip", &["-d", "address", "show", "dev", "test"]);
        !port.contains("xdp") && !port.contains("198.1")
    }
}

#[test]
fn a_measurement_has_its_ports_at_two_hosts() {
    let _turn = turn();
    let hosts = Hosts::new();
    let mut agents = [hosts.agent(0), hosts.agent(1)];
    let quick = suite(hosts.folder.path(), &["linux"], 0.3, "procedure = \"latency\"\nloads = [2000]");

    let out = hosts.folder.path().join("out");
    let (output, results) = again_while(is_disturbed, &out, || hosts.run(&quick, "out", "bench.key", &[]));
    let said = agents.each_ref().map(|agent| std::fs::read_to_string(&agent.1).unwrap());
    let results = results.unwrap_or_else(|error| panic!("{error}: {} {said:?}", shown(&output)));
    let points = of(&results, "external (no policy was proved)");
    assert!(!points.is_empty(), "{}", shown(&output));
    for point in points {
        assert!(point.valid || is_disturbed(&point), "{:?} {said:?}", point.marks);
        assert_eq!(point.ledger().residual(), 0);
        if point.metric == Metric::Latency && point.valid {
            // The clocks are one, and what is not known of them is in the interval.
            assert!(point.clock_error > 0.0 && point.clock_error < 1e9, "{:?}", point.point);
            let (low, high) = point.interval().unwrap();
            assert!(low <= point.value && high >= point.value + point.clock_error, "{:?}", point.point);
            let report = std::fs::read_to_string(out.join("report.md")).unwrap();
            assert!(report.contains(" ± "), "{report}");
            let text = "two hosts: left";
            assert!(point.marks.iter().any(|mark| mark.text.contains(text)), "{:?}", point.marks);
        }
    }
    for (place, agent) in agents.iter().enumerate() {
        until("the agents are at rest", || agent.says("is at rest") && hosts.is_at_rest(place));
    }

    // What is stated is proved across the hosts: the box forbids nothing.
    let stated = hosts.run(&quick, "stated", "bench.key", &["--must-not-pass", "tcp/23"]);
    assert_eq!(stated.status.code(), Some(3), "{}", shown(&stated));
    assert!(shown(&stated).contains("stated not to pass: tcp/23"), "{}", shown(&stated));

    for (key, more, status, text) in [
        ("other.key", &[][..], 3, "has it the same key"),
        ("bench.key", &["--dut", "linux"], 2, "measure them in a run of their own"),
    ] {
        let refused = hosts.run(&quick, "refused", key, more);
        assert_eq!(refused.status.code(), Some(status), "{}", shown(&refused));
        assert!(shown(&refused).contains(text), "{}", shown(&refused));
    }

    // One agent dies in the middle of a trial: no value, and the other one is at rest.
    let long = suite(hosts.folder.path(), &["linux"], 60.0, "procedure = \"latency\"\nloads = [2000]");
    let leader = hosts.lead(&long, "killed", "bench.key", &[]).spawn().unwrap();
    let before = hosts.forwarded();
    until("the trial is under way", || hosts.forwarded() > before + 200);
    agents[1].0.kill().unwrap();
    let output = leader.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", shown(&output));
    let results = report::load(&hosts.folder.path().join("killed")).unwrap();
    for point in results.readings() {
        let marks = &point.marks;
        assert!(
            !point.valid
                && marks.iter().any(|mark| mark.kind == MarkKind::FirewallFailed || mark.kind.invalidates())
        );
        assert!(marks.iter().any(|mark| mark.text.contains("agent right")), "{marks:?}");
    }
    until("the other agent is at rest", || hosts.is_at_rest(0));
}
