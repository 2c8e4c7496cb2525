//! Drivers outside the tree that lie, each the example of the guide with a few words changed: none has a value, and the mark says why.

use super::{again_while, bench, of, shown, suite, turn};
use measure::results::{MarkKind, Reading};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The example driver with these words in the place of those.
fn driver(dir: &Path, changes: &[(&str, &str)]) -> PathBuf {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/drivers/nftables_driver.py");
    let mut text = std::fs::read_to_string(example).unwrap();
    for (honest, lie) in [&[("\"example-driver\"", "\"liar\"")], changes].concat() {
        assert!(text.contains(honest), "the example has «{honest}»");
        text = text.replacen(honest, lie, 1);
    }
    let path = dir.join("liar.py");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Measures one liar, none of whose values may count, and each for this reason.
fn is_caught(name: &str, changes: &[(&str, &str)], seconds: f64, test: &str, reason: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = driver(dir.path(), changes);
    let suite = suite(dir.path(), &["linux"], seconds, test);
    let (dut, out) = (format!("program:{}", path.display()), dir.path().join("out"));
    let arguments = ["run", suite.to_str().unwrap(), "--dut", &dut, "--out", out.to_str().unwrap()];
    let said = |point: &Reading<'_>| point.marks.iter().any(|mark| mark.text.contains(reason));
    // A machine that works for others carries too little load for a lie to be told, and the run says so.
    let is_hidden = |point: &Reading<'_>| {
        let is_disturbed = point.marks.iter().any(|mark| mark.kind == MarkKind::ForeignLoad);
        point.dut == "liar" && is_disturbed && !said(point)
    };
    let (output, results) = again_while(is_hidden, &out, || bench(&arguments).output().unwrap());
    let results = results.unwrap_or_else(|error| panic!("{name}: {error}: {}", shown(&output)));
    let points = of(&results, "liar");
    assert!(!points.is_empty(), "{name}: {}", shown(&output));
    for point in points {
        assert!(!point.valid && said(&point), "{name}: {:?}", point.marks);
    }
}

/// It says that it forgot its connections, and keeps them: whoever opens some thousand more has less to do.
#[test]
fn a_driver_that_forgets_nothing_has_no_value() {
    let _turn = turn();
    let test =
        "procedure = \"connection-capacity\"\nopening_rate = 5000\nmax_connections = 500\nfactors.rules = 3";
    let forget = "run(\"conntrack\", \"-F\")";
    for (name, lie) in [
        ("never", "pass"),
        (
            "late",
            "subprocess.Popen([\"sh\", \"-c\", \"sleep 0.5; conntrack -F\"], stderr=subprocess.DEVNULL)",
        ),
    ] {
        is_caught(name, &[(forget, lie)], 0.05, test, "was to forget its connections");
    }
}

/// A filter in front of the firewall, in the namespace of those whose traffic it is to judge.
#[test]
fn a_driver_that_works_in_the_zones_has_no_value() {
    let _turn = turn();
    let ask = "def counters(_question):\n";
    let work = format!(
        "{ask}    import os\n    for zone in os.listdir(\"/run/netns\"):\n        if zone != BED and zone.startswith(BED.rsplit(\"-\", 2)[0]):\n            \
         subprocess.run([\"ip\", \"netns\", \"exec\", zone, \"WORDS\"], check=False)\n"
    );
    let note = "def set_up(question):\n    global BED\n    BED = question[\"namespace\"]";
    for (name, words, reason) in [
        (
            "filter",
            "nft\", \"add\", \"table\", \"inet\", \"helper",
            "somebody changed the rules of netfilter of",
        ),
        (
            "queue",
            "tc\", \"qdisc\", \"replace\", \"dev\", \"lo\", \"root\", \"pfifo",
            "somebody changed the queueing disciplines",
        ),
    ] {
        let work = work.replace("WORDS", words);
        let changes = [("def set_up(_question):", note), (ask, work.as_str())];
        is_caught(name, &changes, 0.2, "procedure = \"latency\"\nloads = [2000]", reason);
    }
}

/// While there is load, only the rule of the load is looked at: what the others allow is dropped. Trials are long
/// or many enough for chance to be no explanation.
#[test]
fn a_driver_that_leaves_rules_out_under_load_has_no_value() {
    let _turn = turn();
    let counters = "[\"counter default_drop";
    let sets = "[\"set busy { type ifname; flags dynamic,timeout; }\", \"counter default_drop";
    let first = "    if policy[\"stateful\"]:\n        lines +=";
    let left_out = "    lines += [\"limit rate over RATE/second burst 300 packets update @busy { iifname timeout 20ms }\",\n\
                    \x20             \"iifname @busy meta l4proto PROTOCOL drop\"]\n    if policy[\"stateful\"]:\n        lines +=";
    // Packets of bulk transfers are of up to 64 KiB here, so a busy machine carries few of them.
    for (name, seconds, protocol, rate, test) in [
        ("frames", 2.0, "tcp", "1000", "procedure = \"latency\"\nloads = [5000]\nfactors.rules = [100]"),
        ("connections", 0.3, "udp", "1000", "procedure = \"connection-rate\"\nfactors.rules = [100]"),
        ("bulk", 3.0, "udp", "100", "procedure = \"bulk\"\nfactors.rules = [100]"),
    ] {
        let left_out = left_out.replace("PROTOCOL", protocol).replace("RATE", rate);
        let reason = "frames that rules allow, beside loads that passed";
        is_caught(name, &[(counters, sets), (first, &left_out)], seconds, test, reason);
    }
}

/// While there is load, whatever comes from the hostile side passes: no flow of the load itself shows it.
#[test]
fn a_hostile_side_that_is_let_in_under_load_costs_the_values_of_all_workloads() {
    let _turn = turn();
    let counters = "[\"counter default_drop";
    let sets = "[\"set busy { type inet_proto; flags dynamic,timeout; }\", \"counter default_drop";
    let first = "    if policy[\"stateful\"]:\n        lines +=";
    let let_in = "    lines += [\"limit rate over 1000/second burst 300 packets update @busy { meta l4proto timeout 20ms }\",\n\
                  \x20             \"ip6 saddr 2001:2:0:2::/64 meta l4proto @busy accept\",\n\
                  \x20             \"ip saddr 198.19.0.0/17 meta l4proto @busy accept\"]\n    if policy[\"stateful\"]:\n        lines +=";
    for (name, seconds, test) in [
        (
            "frames",
            0.3,
            "procedure = \"latency\"\nloads = [5000]\nfactors.rules = [3]\nfactors.stateful = false",
        ),
        (
            "connections",
            0.3,
            "procedure = \"connection-establishment\"\nestablishment_rate = 4000\nfactors.connections = 4000\nfactors.rules = [3]",
        ),
        ("bulk", 1.0, "procedure = \"bulk\"\nfactors.rules = [3]"),
        (
            "http",
            0.5,
            "procedure = \"transactions\"\nfactors.rules = 3\nfactors.protocol = \"http/1.1\"\nfactors.object = 1",
        ),
    ] {
        let reason = "forbidden frames beside the load arrived";
        is_caught(name, &[(counters, sets), (first, let_in)], seconds, test, reason);
    }
}
