//! `--ports`: an unknown firewall between two interfaces that the bench did not make. Here it is a routing namespace between
//! two veth ends in a second namespace, in which the bench is run.

use super::{
    again_while, bench, bench_program, is_disturbed, of, shown, suite, turn, uncalibrated, undisturbed,
};
use measure::results::{MarkKind, Reading, Results};
use std::path::Path;
use std::process::{Command, Output};
use testkit::namespace::Namespace;

/// A box with two ports, and the namespace that its cables lead to.
pub(super) struct Unknown {
    pub(super) inside: Namespace,
    pub(super) outside: Namespace,
}

impl Unknown {
    pub(super) fn new(name: &str) -> Self {
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

    pub(super) fn bench(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.outside.name(), bench_program()]).args(uncalibrated(arguments));
        command.env("NO_COLOR", "1").env("RAMPART_BENCH_HISTORY", "off").output().unwrap()
    }

    /// Addresses on the outside's interfaces.
    fn addresses(&self) -> String {
        self.outside.run("ip", &["-4", "-br", "address"])
    }
}

/// The results of a run that went well, as far as the machine let it: that is no fault of what is tested here.
fn measured(out: &Path, run: impl Fn() -> Output) -> Results {
    let (output, results) = undisturbed(out, run);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", shown(&output));
    let results = results.unwrap();
    for point in results.readings() {
        assert!(point.valid || is_disturbed(&point), "{}: {:?}", point.dut, point.marks);
    }
    results
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
    let results = measured(&out, || unknown.bench(&arguments));
    let points = of(&results, "external (no policy was proved)");
    assert!(!points.is_empty());
    for point in points {
        assert!(point.trials().iter().all(|t| t.received > 0.0), "{:?}", point.trials());
        assert_eq!(point.ledger().residual(), 0);
    }
    assert_eq!(unknown.addresses(), before, "the ports are left as they were found");
}

/// The recipe of the guide, in namespaces of its own: what it makes is seen by nobody else, and goes with it.
#[test]
fn the_recipe_of_the_guide_works_as_written() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let guide = include_str!("../../docs/guide/your-own-firewall.md");
    let blocks: Vec<&str> =
        guide.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [recipe, measure] = blocks[..] else { panic!("the guide has {} blocks of commands", blocks.len()) };
    // The guide's suite takes half an hour; what it says of the box and its neighbours stays.
    let suite = suite(dir.path(), &["linux"], 0.2, "procedure = \"latency\"\nloads = [2000]");
    assert!(measure.starts_with("rampart-bench run rfc2544 "), "{measure}");
    let out = dir.path().join("out");
    let measure = measure.trim_end().replacen(
        "rampart-bench run rfc2544",
        &format!("{} run {}", bench_program(), suite.display()),
        1,
    );
    let script = format!(
        "set -e\nmount -t tmpfs none /run/netns 2>/dev/null || {{ mkdir -p /run/netns; mount -t tmpfs none /run/netns; }}\n\
         ip link set lo up\n{recipe}{measure} --cores 1 --out {}\nip netns del acme\n",
        out.display()
    );
    let recipe = ["--net", "--mount", "bash", "-c", &script];
    let results = measured(&out, || Command::new("unshare").args(recipe).output().unwrap());
    for dut in ["ACME", "linux"] {
        let points = of(&results, dut);
        assert!(!points.is_empty(), "{dut} is not in the results");
        for point in points {
            assert!(point.trials().iter().all(|t| t.received > 0.0), "{dut}: {:?}", point.trials());
            let said = |text: &str| point.marks.iter().any(|mark| mark.text.contains(text));
            let is_box = dut == "ACME";
            assert_eq!(said("udp/60000, hostile:tcp/22 does not"), is_box, "{:?}", point.marks);
            assert_eq!(said("their beds differ"), is_box, "{:?}", point.marks);
        }
    }
}

/// What is stated is proved: a box that lets through what its owner says it stops has no value.
#[test]
fn a_box_that_does_not_do_what_its_owner_states_has_no_value() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let unknown = Unknown::new("lax");
    let suite =
        suite(dir.path(), &["linux"], 0.05, "procedure = \"latency\"\nloads = [2000]\nfactors.rules = [1]");
    let path = suite.to_str().unwrap();
    let rows = [
        (&["--must-not-pass", "tcp/23"][..], "stated not to pass: tcp/23"),
        (&["--must-not-pass", "hostile:udp/60000"], "stated not to pass: hostile:udp/60000"),
        (&["--suite-policy"], "forbidden direction, hostile to private"),
    ];
    for (number, (stated, said)) in rows.into_iter().enumerate() {
        let out = dir.path().join(format!("out{number}"));
        let mut arguments =
            vec!["run", path, "--ports", "left,right", "--cores", "1", "--out", out.to_str().unwrap()];
        arguments.extend(stated);
        let output = unknown.bench(&arguments);
        assert_eq!(output.status.code(), Some(3), "{stated:?}: {}", shown(&output));
        let results = report::load(&out).unwrap();
        for point in of(&results, "external") {
            assert!(
                !point.valid && point.marks.iter().any(|m| m.text.contains(said)),
                "{stated:?}: {:?}",
                point.marks
            );
        }
    }
    // Without a statement the box has values, and its name says what they are worth.
    let out = dir.path().join("none");
    let arguments = ["run", path, "--ports", "left,right", "--name", "ACME", "--cores", "1"];
    measured(&out, || unknown.bench(&[&arguments[..], &["--out", out.to_str().unwrap()]].concat()));
    for file in ["report.html", "report.md", "results.json", "results.csv"] {
        let text = std::fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains("ACME (no policy was proved)"), "{file}");
        assert!(
            !text.replace("ACME (no policy was proved)", "").replace("--name ACME", "").contains("ACME"),
            "{file}"
        );
    }
}

#[test]
fn what_is_wrong_with_the_ports_is_said_before_anything_starts() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let unknown = Unknown::new("bad");
    let suite = suite(dir.path(), &["linux"], 0.05, "procedure = \"latency\"\nloads = [2000]");
    let path = suite.to_str().unwrap();
    unknown.outside.ip("link add far type veth peer name near
         link set far up
         link add lax type veth peer name end
         link set lax up
         link set end up");
    unknown.outside.ip("address add 192.0.2.1/24 dev right\nroute add default via 192.0.2.2 dev right");
    let rows = [
        (&["--ports", "left,nowhere"][..], "there is no such interface"),
        (&["--ports", "left,left"], "named twice"),
        (&["--ports", "left=zz,right"], "Ethernet address"),
        (&["--ports", "left"], "two interfaces"),
        (&["--ports", "left,lo"], "no Ethernet interface"),
        (&["--ports", "left,far"], "no carrier"),
        (&["--ports", "left,lax"], "cannot send what XDP redirects"),
        (&["--ports", "left,right"], "default route, so a test would cut this machine off"),
        (&["--ports", "left,right", "--must-pass", "udp/53"], "--must-not-pass"),
        (&["--ports", "left,right", "--must-not-pass", "udp/53"], "itself sends this traffic"),
        (&["--ports", "left,right", "--must-not-pass", "icmp"], "a protocol and a port"),
        (&["--ports", "left,right", "--name", "linux", "--suite-policy"], "another name"),
    ];
    let out = dir.path().join("out");
    for (arguments, said) in rows {
        let output = unknown.bench(&[&["run", path, "--out", out.to_str().unwrap()], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", shown(&output));
        assert!(shown(&output).contains(said), "{arguments:?}: {}", shown(&output));
        assert!(!out.exists(), "{arguments:?}: the run began");
    }
}

#[test]
fn a_driver_outside_the_tree_is_measured_beside_others() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let test = "procedure = \"latency\"\nloads = [2000]\nfactors.rules = [3]";
    let suite = suite(dir.path(), &["linux"], 0.2, test);
    let out = dir.path().join("out");
    let driver =
        concat!("program:", env!("CARGO_MANIFEST_DIR"), "/../../examples/drivers/nftables_driver.py");
    let duts = format!("{driver},nftables");
    let arguments = ["run", suite.to_str().unwrap(), "--dut", &duts, "--out", out.to_str().unwrap()];
    let results = measured(&out, || bench(&arguments).output().unwrap());
    for dut in ["example-driver", "nftables"] {
        assert!(!of(&results, dut).is_empty(), "{dut} is not in the results");
    }
    assert!(results.environment.versions["example-driver"].contains("nftables"));
    let nobody = bench(&["run", suite.to_str().unwrap(), "--dut", "program:/bin/false"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2), "{}", shown(&nobody));
    assert!(shown(&nobody).contains("ended instead of answering to hello"), "{}", shown(&nobody));
}

/// Whatever a driver starts is the firewall's, wherever it goes: here a worker on another core that has left its group, its session, its
/// namespace and its parent.
#[test]
fn work_that_a_driver_hides_elsewhere_costs_a_value_of_one_core() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drivers/nftables_driver.py");
    let honest = std::fs::read_to_string(&example).unwrap();
    let work = "    subprocess.run([\"env\", \"-i\", \"/bin/sh\", \"-c\", \"setsid unshare -n taskset -c 1 timeout 100 \"\n    \
                \"sh -c 'while :; do :; done' >/dev/null 2>&1 &\"], check=True)\n    setting(\"ipv4/ip_forward\", \"1\")";
    let driver = honest.replacen("    setting(\"ipv4/ip_forward\", \"1\")", work, 1).replacen(
        "\"example-driver\"",
        "\"hider\"",
        1,
    );
    let path = dir.path().join("hider.py");
    std::fs::write(&path, driver).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let suite = suite(dir.path(), &["linux"], 0.5, "procedure = \"latency\"\nloads = [2000]");
    let duts = format!("program:{},nftables", path.display());
    let out = dir.path().join("out");
    let arguments = ["run", suite.to_str().unwrap(), "--dut", &duts, "--out", out.to_str().unwrap()];
    let has = |point: &Reading<'_>, kind| point.marks.iter().any(|mark| mark.kind == kind);
    // Where others have the core, the worker does not.
    let is_hidden = |point: &Reading<'_>| match point.dut.as_str() {
        "hider" => has(point, MarkKind::ForeignLoad) && !has(point, MarkKind::WorkElsewhere),
        _ => point.dut == "nftables" && is_disturbed(point),
    };
    let (output, results) = again_while(is_hidden, &out, || bench(&arguments).output().unwrap());
    let results = results.unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
    let elsewhere = |dut: &str| {
        let points = of(&results, dut);
        assert!(!points.is_empty(), "{dut} is not in the results");
        points.iter().any(|point| has(point, MarkKind::WorkElsewhere))
    };
    assert!(elsewhere("hider"), "{:?}", results.points);
    assert!(!elsewhere("nftables"), "{:?}", results.points);
}

/// A setting of the whole machine, put back whatever happens.
struct Setting(&'static str, String);

impl Setting {
    fn of(path: &'static str) -> Self {
        Self(path, std::fs::read_to_string(path).unwrap().trim().to_owned())
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        std::fs::write(self.0, &self.1).unwrap();
    }
}

/// Firewalls of one run are compared because they were on one machine. A driver is root, and can change it for itself, or against the others.
#[test]
fn a_driver_that_changes_the_machine_has_no_value_nor_have_those_that_it_changes_it_for() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let housekeeping = Setting::of("/proc/sys/vm/stat_interval");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drivers/nftables_driver.py");
    let honest = std::fs::read_to_string(&example).unwrap();
    let ask = "def counters(_question):\n";
    let meddle = format!("{ask}    open(\"{}\", \"w\").write(\"7\")\n", housekeeping.0);
    assert!(honest.contains(ask) && housekeeping.1 != "7");
    let driver = honest.replacen(ask, &meddle, 1).replacen("\"example-driver\"", "\"meddler\"", 1);
    let path = dir.path().join("meddler.py");
    std::fs::write(&path, driver).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let suite = suite(dir.path(), &["linux"], 0.2, "procedure = \"latency\"\nloads = [2000]");
    let out = dir.path().join("out");
    let duts = format!("program:{},nftables", path.display());
    let arguments = ["run", suite.to_str().unwrap(), "--dut", &duts, "--out", out.to_str().unwrap()];
    let output = bench(&arguments).output().unwrap();
    let results = report::load(&out).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
    let points = of(&results, "meddler");
    assert!(!points.is_empty());
    for point in points {
        let said = point.marks.iter().any(|mark| {
            mark.text.contains("somebody changed /proc/sys/vm/stat_interval")
                && mark.text.contains("to 7 during the run")
        });
        assert!(!point.valid && said, "{:?}", point.marks);
    }
}

/// Rules that no frame of a test matches are most of a policy: a firewall that leaves them out is quick, and forwards and drops all that
/// tests send as it should.
#[test]
fn a_driver_that_loads_only_the_rules_that_tests_meet_has_no_value() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drivers/nftables_driver.py");
    let honest = std::fs::read_to_string(&example).unwrap();
    let all = "for rule in policy[\"rules\"] for version";
    let some = "for rule in policy[\"rules\"] if [1, 49151] in (rule[\"source_ports\"], rule[\"destination_ports\"]) for version";
    assert!(honest.contains(all), "the example is as it was when this was written");
    let driver = honest.replacen(all, some, 1).replacen("\"example-driver\"", "\"idler\"", 1);
    let path = dir.path().join("idler.py");
    std::fs::write(&path, driver).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let duts = format!("program:{},program:{},nftables", path.display(), example.display());
    for (name, test) in [
        ("stateful", "procedure = \"latency\"\nloads = [2000]\nfactors.rules = [100]"),
        (
            "stateless",
            "procedure = \"latency\"\nloads = [2000]\nfactors.rules = [100]\nfactors.stateful = false",
        ),
        (
            "connections",
            "procedure = \"connection-establishment\"\nestablishment_rate = 1000\nfactors.connections = 200\nfactors.rules = [100]",
        ),
    ] {
        let suite = suite(dir.path(), &["linux"], 0.05, test);
        let out = dir.path().join(name);
        let arguments = ["run", suite.to_str().unwrap(), "--dut", &duts, "--out", out.to_str().unwrap()];
        let (output, results) = undisturbed(&out, || bench(&arguments).output().unwrap());
        let results = results.unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
        for (dut, has_all) in [("idler", false), ("example-driver", true), ("nftables", true)] {
            let points = of(&results, dut);
            assert!(!points.is_empty(), "{name}: {dut}");
            for point in points {
                let said = point
                    .marks
                    .iter()
                    .any(|mark| mark.kind == MarkKind::PolicyNotProved && mark.text.contains("probe «rule "));
                let fits = (point.valid, said) == (has_all, !has_all);
                assert!(fits || has_all && is_disturbed(&point), "{name}: {dut} {:?}", point.marks);
            }
        }
    }
}

/// A firewall that keeps its policy while it is proved by frames, which open nothing, and lets a client do everything that has a connection.
#[test]
fn a_policy_that_holds_in_proofs_alone_costs_the_values_of_what_sockets_carry() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drivers/nftables_driver.py");
    let honest = std::fs::read_to_string(&example).unwrap();
    let lie = "    lines += [\"ct state established tcp dport 1-49151 update @seen { ip saddr timeout 2s }\", \"ip saddr @seen accept\"]\n    \
               if policy[\"stateful\"]:\n        lines +=";
    let driver = honest
        .replacen("    if policy[\"stateful\"]:\n        lines +=", lie, 1)
        .replacen(
            "[\"counter default_drop",
            "[\"set seen { type ipv4_addr; flags dynamic,timeout; }\", \"counter default_drop",
            1,
        )
        .replacen("\"example-driver\"", "\"liar\"", 1);
    assert_eq!(driver.matches("@seen").count(), 2, "the example is as it was when this was written");
    let path = dir.path().join("liar.py");
    std::fs::write(&path, driver).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let duts = format!("program:{},nftables", path.display());
    for (name, test) in [
        ("bulk", "procedure = \"bulk\"\nfactors.rules = 2"),
        (
            "http",
            "procedure = \"transactions\"\nfactors.rules = 2\nfactors.protocol = \"http/1.1\"\nfactors.object = 1",
        ),
    ] {
        let suite = suite(dir.path(), &["linux"], 1.0, test);
        let out = dir.path().join(name);
        let arguments = ["run", suite.to_str().unwrap(), "--dut", &duts, "--out", out.to_str().unwrap()];
        let (output, results) = undisturbed(&out, || bench(&arguments).output().unwrap());
        let results = results.unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
        let (lying, honest) = (of(&results, "liar"), of(&results, "nftables"));
        assert!(!honest.is_empty() && honest.iter().all(|point| point.valid), "{name}: {honest:?}");
        for point in lying {
            let said = point.marks.iter().find(|mark| mark.kind == MarkKind::IllegalGotThrough);
            let words = said.map(|mark| mark.text.as_str()).unwrap_or_default();
            assert!(
                !point.valid && words.contains("forbidden connections were opened"),
                "{name}: {:?}",
                point.marks
            );
        }
    }
}
