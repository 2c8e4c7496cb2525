//! `--ports`: an unknown firewall between two interfaces that the bench did not make. Here it is a routing namespace between
//! two veth ends in a second namespace, in which the bench is run.

use super::{bench_program, of, shown, suite, turn};
use measure::results::MarkKind;
use std::process::{Command, Output};

/// A box with two ports, and the namespace that its cables lead to. Both are gone when this is dropped.
struct Unknown {
    inside: String,
    outside: String,
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Unknown {
    fn new(name: &str) -> Self {
        let prefix = format!("rt-{}-{name}", std::process::id());
        let made = Self { inside: format!("{prefix}-box"), outside: format!("{prefix}-out") };
        let (inside, outside) = (&made.inside, &made.outside);
        for namespace in [inside, outside] {
            ip(&format!("netns add {namespace}"));
        }
        for (port, gateway, host, prefix) in [
            ("left", "198.18.0.1", "198.18.0.2", "198.18.0.0/16"),
            ("right", "198.19.0.1", "198.19.0.2", "198.19.0.0/17"),
        ] {
            ip(&format!("link add {port} netns {inside} type veth peer name {port} netns {outside}"));
            ip(&format!("-n {outside} link set {port} up"));
            ip(&format!("-n {inside} link set {port} up"));
            ip(&format!("-n {inside} address add {gateway}/30 dev {port}"));
            ip(&format!("-n {inside} route add {prefix} via {host}"));
            let gro = Command::new("ip")
                .args(["netns", "exec", inside, "ethtool", "-K", port, "gro", "on"])
                .output();
            assert!(gro.unwrap().status.success());
        }
        let forward = ["netns", "exec", inside, "sysctl", "-qw", "net.ipv4.ip_forward=1"];
        assert!(Command::new("ip").args(forward).status().unwrap().success());
        made
    }

    fn bench(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.outside, bench_program()]).args(arguments);
        command.env("NO_COLOR", "1").output().unwrap()
    }

    /// Addresses on the outside's interfaces.
    fn addresses(&self) -> String {
        let output = Command::new("ip").args(["-n", &self.outside, "-4", "-br", "address"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Unknown {
    fn drop(&mut self) {
        for namespace in [&self.inside, &self.outside] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
    }
}

#[test]
fn an_unknown_firewall_between_two_ports_is_measured() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let unknown = Unknown::new("ext");
    let before = unknown.addresses();
    let suite = suite(dir.path(), &["linux"], 0.2, "procedure = \"latency\"\nloads = [2000]");
    let out = dir.path().join("out");
    let arguments = [
        "run",
        suite.to_str().unwrap(),
        "--ports",
        "left,right",
        "--out",
        out.to_str().unwrap(),
        "--cores",
        "1",
    ];
    let output = unknown.bench(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let results = report::load(&out).unwrap();
    let points = of(&results, "external");
    assert!(!points.is_empty());
    for point in points {
        // On a busy machine the generator may lose its core, which is said and is no fault of what is tested here.
        let behind = point.marks.iter().any(|m| m.kind == MarkKind::GeneratorBehind);
        assert!(point.valid || behind, "{:?}", point.marks);
        assert!(point.trials.iter().all(|t| t.received > 0.0), "{:?}", point.trials);
        assert_eq!(point.ledger.residual(), 0);
    }
    assert_eq!(unknown.addresses(), before, "the ports are left as they were found");
}

#[test]
fn ports_that_are_not_there_or_lead_nowhere_are_said() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let unknown = Unknown::new("bad");
    let suite = suite(dir.path(), &["linux"], 0.05, "procedure = \"latency\"\nloads = [2000]");
    let path = suite.to_str().unwrap();
    for (ports, said) in
        [("left,nowhere", "nowhere"), ("left,left", "twice"), ("left=zz,right", "Ethernet address")]
    {
        let out = dir.path().join(ports);
        let output = unknown.bench(&["run", path, "--ports", ports, "--out", out.to_str().unwrap()]);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{ports}: {}", shown(&output));
        assert!(shown(&output).contains(said), "{ports}: {}", shown(&output));
    }
}
