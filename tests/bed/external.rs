//! `--ports`: an unknown firewall between two interfaces that the bench did not make. Here it is a routing namespace between
//! two veth ends in a second namespace, in which the bench is run.

use super::{bench_program, of, shown, suite, turn};
use measure::results::MarkKind;
use std::process::{Command, Output};
use testkit::namespace::Namespace;

/// A box with two ports, and the namespace that its cables lead to.
struct Unknown {
    #[expect(dead_code, reason = "it lives as long as the test")]
    inside: Namespace,
    outside: Namespace,
}

impl Unknown {
    fn new(name: &str) -> Self {
        let [inside, outside] = ["box", "out"].map(|end| Namespace::create(&format!("{name}-{end}")));
        let peer = outside.name();
        for (port, gateway, host, prefix) in [
            ("left", "198.18.0.1", "198.18.0.2", "198.18.0.0/16"),
            ("right", "198.19.0.1", "198.19.0.2", "198.19.0.0/17"),
        ] {
            inside.ip(&format!("link add {port} type veth peer name {port} netns {peer}"));
            outside.ip(&format!("link set {port} up"));
            inside.ip(&format!(
                "link set {port} up
                 address add {gateway}/30 dev {port}
                 route add {prefix} via {host}"
            ));
            inside.take_redirected(port);
        }
        inside.set(&[("ipv4/ip_forward", "1")]);
        Self { inside, outside }
    }

    fn bench(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.outside.name(), bench_program()]).args(arguments);
        command.env("NO_COLOR", "1").output().unwrap()
    }

    /// Addresses on the outside's interfaces.
    fn addresses(&self) -> String {
        self.outside.run("ip", &["-4", "-br", "address"])
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
        assert!(point.trials().iter().all(|t| t.received > 0.0), "{:?}", point.trials());
        assert_eq!(point.ledger().residual(), 0);
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
