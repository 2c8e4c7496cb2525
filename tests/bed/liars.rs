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

/// Measures a driver that is the example with these words changed, again where `is_hidden` says that the machine decided, and gives its values
/// to `judge`.
fn measured(
    changes: &[(&str, &str)],
    seconds: f64,
    test: &str,
    is_hidden: impl Fn(&Reading<'_>) -> bool,
    judge: impl Fn(&Reading<'_>),
) {
    let dir = tempfile::tempdir().unwrap();
    let path = driver(dir.path(), changes);
    let suite = suite(dir.path(), &["linux"], seconds, test);
    let (dut, out) = (format!("program:{}", path.display()), dir.path().join("out"));
    let arguments = ["run", suite.to_str().unwrap(), "--dut", &dut, "--out", out.to_str().unwrap()];
    // A machine that works for others carries too little load for a lie to show, and the run says so.
    let is_disturbed =
        |point: &Reading<'_>| point.marks.iter().any(|mark| mark.kind == MarkKind::ForeignLoad);
    let is_hidden = |point: &Reading<'_>| point.dut == "liar" && is_disturbed(point) && is_hidden(point);
    let (output, results) = again_while(is_hidden, &out, || bench(&arguments).output().unwrap());
    let results = results.unwrap_or_else(|error| panic!("{changes:?}: {error}: {}", shown(&output)));
    let points = of(&results, "liar");
    assert!(!points.is_empty(), "{changes:?}: {}", shown(&output));
    points.iter().for_each(judge);
}

/// Measures one liar, none of whose values may count, and each for this reason.
fn is_caught(name: &str, changes: &[(&str, &str)], seconds: f64, test: &str, reason: &str) {
    let said = |point: &Reading<'_>| point.marks.iter().any(|mark| mark.text.contains(reason));
    measured(
        changes,
        seconds,
        test,
        |point| !said(point),
        |point| {
            assert!(!point.valid && said(point), "{name}: {:?}", point.marks);
        },
    );
}

/// What goes along with a long trial of few frames is many beside them, and all of it is the bench's own.
#[test]
fn an_honest_driver_keeps_its_values_beside_many_frames_of_the_bench() {
    let _turn = turn();
    let test =
        "procedure = \"latency\"\nloads = [1000]\nfactors.rules = [100]\nfactors.stateful = [true, false]";
    measured(
        &[],
        2.0,
        test,
        |point| !point.valid,
        |point| {
            let ledger = point.ledger();
            let beside = &ledger.frames().unwrap().beside;
            assert!(point.valid && beside.foreign < 20, "{:?} {beside:?}", point.marks);
        },
    );
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
    let frames = "procedure = \"latency\"\nloads = [2000]";
    let http = "procedure = \"transactions\"\nfactors.protocol = \"http/1.1\"\nfactors.object = 1";
    for (name, words, test, reason) in [
        (
            "filter",
            "nft\", \"add\", \"table\", \"inet\", \"helper",
            frames,
            "somebody changed the rules of netfilter of",
        ),
        (
            "queue",
            "tc\", \"qdisc\", \"replace\", \"dev\", \"lo\", \"root\", \"pfifo",
            frames,
            "somebody changed the queueing disciplines",
        ),
        // Segments that travel put together are less work for a firewall.
        (
            "offloads",
            "sh\", \"-c\", \"ethtool -K $(ls /sys/class/net | grep -v lo) tx on tso on >/dev/null",
            http,
            "somebody changed the offloads",
        ),
    ] {
        let work = work.replace("WORDS", words);
        let changes = [("def set_up(_question):", note), (ask, work.as_str())];
        is_caught(name, &changes, 0.2, test, reason);
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
    let left_out = "    lines += [\"limit rate over RATE/second burst 300 packets update @busy { iifname timeout SPAN }\",\n\
                    \x20             \"iifname @busy meta l4proto PROTOCOL drop\"]\n    if policy[\"stateful\"]:\n        lines +=";
    // Packets of bulk transfers are of up to 64 KiB here, so a busy machine carries few of them, and with pauses.
    for (name, seconds, protocol, [rate, span], test) in [
        (
            "frames",
            2.0,
            "tcp",
            ["1000", "20ms"],
            "procedure = \"latency\"\nloads = [5000]\nfactors.rules = [100]",
        ),
        (
            "connections",
            0.3,
            "udp",
            ["1000", "20ms"],
            "procedure = \"connection-rate\"\nfactors.rules = [100]",
        ),
        // Of 33 frames a second seven are of rules about UDP, and it takes twenty that stay away.
        ("bulk", 6.0, "udp", ["100", "1s"], "procedure = \"bulk\"\nfactors.rules = [100]"),
    ] {
        let left_out = left_out.replace("PROTOCOL", protocol).replace("RATE", rate).replace("SPAN", span);
        let reason = "frames that rules allow, beside loads that passed";
        is_caught(name, &[(counters, sets), (first, &left_out)], seconds, test, reason);
    }
}

/// While there is load, whatever comes from the hostile side passes, but to the ports of the proof: no flow of the load itself shows it.
#[test]
fn a_hostile_side_that_is_let_in_under_load_costs_the_values_of_all_workloads() {
    let _turn = turn();
    let counters = "[\"counter default_drop";
    let sets = "[\"set busy { type inet_proto; flags dynamic,timeout; }\", \"counter default_drop";
    let first = "    if policy[\"stateful\"]:\n        lines +=";
    let let_in = "    lines += [\"limit rate over 1000/second burst 300 packets update @busy { meta l4proto timeout 20ms }\",\n\
                  \x20             \"th dport != { 60000, 61002 } ip6 saddr 2001:2:0:2::/64 meta l4proto @busy accept\",\n\
                  \x20             \"th dport != { 60000, 61002 } ip saddr 198.19.0.0/17 meta l4proto @busy accept\"]\n    if policy[\"stateful\"]:\n        lines +=";
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

/// What a frame looks like decides whether it is judged: as long as those of the load and not as those of a proof; with options or in fragments; a
/// second time between the same ends. Nothing of the load itself is so.
#[test]
fn a_driver_that_does_not_look_at_some_frames_has_no_value() {
    let _turn = turn();
    let counters = "[\"counter default_drop";
    let first = "    if policy[\"stateful\"]:\n        lines +=";
    let ends = |ip: &str| format!("{ip} saddr . th sport . {ip} daddr . th dport . meta l4proto");
    let again = [("ip", "ipv4_addr"), ("ip6", "ipv6_addr")].map(|(ip, address)| {
        let set = format!("set again_{ip} {{ type {address} . inet_service . {address} . inet_service . inet_proto; size 1000000; flags dynamic,timeout; }}");
        let ends = ends(ip);
        let rules = [
            format!("meta l4proto {{ tcp, udp }} {ends} @again_{ip} accept"),
            format!("meta l4proto {{ tcp, udp }} update @again_{ip} {{ {ends} timeout 100ms }}"),
        ];
        (set, rules)
    });
    let [(v4, v4_rules), (v6, v6_rules)] = again;
    let long = ["meta l4proto udp meta length > 1000 accept".to_owned()];
    let odd = [
        "ip hdrlength > 5 accept".to_owned(),
        "ip frag-off & 0x3fff != 0 accept".to_owned(),
        "exthdr dst exists accept".to_owned(),
        "exthdr frag exists accept".to_owned(),
    ];
    for (name, sets, rules, frame) in [
        // Of the load's own frames those that must not arrive are as long, so it is let in from the other side alone.
        ("long", Vec::new(), long.map(|rule| format!("ip saddr 198.19.0.0/17 {rule}")).to_vec(), 1518),
        ("odd", Vec::new(), odd.to_vec(), 64),
        ("again", vec![v4, v6], [v4_rules, v6_rules].concat(), 64),
    ] {
        let quoted = |lines: &[String]| lines.iter().map(|line| format!("\"{line}\", ")).collect::<String>();
        let sets = format!("[{}\"counter default_drop", quoted(&sets));
        let lax = format!("    lines += [{}]\n{first}", quoted(&rules));
        let test = format!(
            "procedure = \"latency\"\nloads = [5000]\nfactors.frame = {frame}\nfactors.rules = [3]\nfactors.stateful = false"
        );
        is_caught(
            name,
            &[(counters, &sets), (first, &lax)],
            0.3,
            &test,
            "forbidden frames beside the load arrived",
        );
    }
}
