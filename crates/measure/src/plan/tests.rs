use super::*;
use crate::procedure::{LatencyLoad, LatencySpec, ThroughputSpec};
use crate::shape::{Directions, UdpChecksum, ZoneForm};

const SUITE: &str = r#"name = "small"
title = "A small suite"
summary = "For these tests."
duts = ["wire", "linux"]
[profiles.quick]
rounds = 2
trial_seconds = 0.5
[profiles.full]
rounds = 3
trial_seconds = 60
width = 0.005
[[test]]
name = "rate"
title = "Throughput"
procedure = "throughput"
loss_ratio = 0.00001
factors.frame = [64, "imix:tolly"]
factors.cores = [1, 2]
[[test]]
name = "late"
title = "Latency on a slow link"
procedure = "latency"
loads = ["40% of link", "50%", 1000]
factors.link = "100M"
factors.directions = "two-way"
[test.full]
latency_repeats = 20
"#;

fn plan(options: &Options) -> Result<Plan, PlanError> {
    let suite = Suite::parse("small.toml", SUITE).unwrap_or_else(|e| panic!("{e}"));
    Plan::new(&suite, options)
}

fn with(set: &[&str]) -> Options {
    Options { set: set.iter().map(|s| (*s).to_owned()).collect(), ..Options::default() }
}

/// `test frame flows clients x servers cores placement` of every cell.
fn summary(options: &Options) -> String {
    let plan = match plan(options) {
        Ok(plan) => plan,
        Err(e) => return format!("exit {}: {e}", e.exit_status()),
    };
    let lines: Vec<String> = plan
        .cells
        .iter()
        .map(|planned| {
            let traffic = &planned.setup.traffic;
            format!(
                "{} {} {}={}x{} {} {:?} {}",
                planned.cell.test,
                traffic.frame,
                traffic.flows,
                traffic.clients,
                traffic.servers,
                planned.cell.cores,
                planned.cell.placement,
                planned.duts.join("+"),
            )
        })
        .collect();
    lines.join("\n")
}

#[test]
fn options_make_the_plan_or_say_why_not() {
    let defaults = "rate 64 1000=20x10 1 Inline wire+linux\nrate 64 1000=20x10 2 Inline wire+linux\n\
                    rate imix:tolly 1000=20x10 1 Inline wire+linux\nrate imix:tolly 1000=20x10 2 Inline wire+linux\n\
                    late 64 1000=20x10 1 Inline wire+linux";
    let cannot = "exit 3: test rate of suite small: this needs 2 cores (generator, firewall and sink share each) and the \
                  machine has 1: try `--cores 1`";
    let isolated = "exit 3: test rate of suite small: this needs 3 cores (those that generate, and at least one for the \
                    firewall alone) and the machine has 2: try `--cores 1`";
    let rows: Vec<(Options, String)> = vec![
        (Options::default(), defaults.into()),
        (Options { cores_available: Some(2), ..Options::default() }, defaults.into()),
        (Options { cores_available: Some(1), ..Options::default() }, cannot.into()),
        (
            Options { cores_available: Some(2), placement: Some(Placement::Isolated), ..Options::default() },
            isolated.into(),
        ),
        (
            Options {
                cores: Some(1),
                duts: Some(vec!["nftables".into()]),
                placement: Some(Placement::Isolated),
                set: vec!["frame=1518".into(), "flows=1M".into()],
                cores_available: Some(2),
                ..Options::default()
            },
            "rate 1518 1000000=20x10 1 Isolated nftables\nlate 1518 1000000=20x10 1 Isolated nftables".into(),
        ),
        (
            Options { cores: Some(1), set: vec!["flows=2,7,30".into(), "frame=64".into()], ..Options::default() },
            "rate 64 2=2x1 1 Inline wire+linux\nrate 64 7=7x1 1 Inline wire+linux\nrate 64 30=15x2 1 Inline wire+linux\n\
             late 64 2=2x1 1 Inline wire+linux\nlate 64 7=7x1 1 Inline wire+linux\nlate 64 30=15x2 1 Inline wire+linux"
                .into(),
        ),
        (
            Options { profile: Some(Profile::Standard), ..Options::default() },
            "exit 2: --profile standard: suite small has no such profile: it has quick, full".into(),
        ),
        (
            Options { duts: Some(vec![]), ..Options::default() },
            "exit 2: --dut: name at least one firewall, as in --dut linux,nftables".into(),
        ),
        (
            Options { duts: Some(vec!["a".into(), "a".into()]), ..Options::default() },
            "exit 2: --dut: `a` is named twice".into(),
        ),
        (
            Options { cores: Some(0), ..Options::default() },
            "exit 2: --cores 0: `0` is no level of `cores`: it takes 1 to 1024".into(),
        ),
        (
            with(&["frame=64", "frame=128"]),
            "exit 2: --set frame=128: `frame` is set already: write its levels together, as in --set frame=A,B".into(),
        ),
        (
            Options { cores: Some(2), ..with(&["cores=1"]) },
            "exit 2: --cores 2: `cores` is set already: write its levels together, as in --set cores=A,B".into(),
        ),
        (
            Options { placement: Some(Placement::Isolated), ..with(&["placement=inline"]) },
            "exit 2: --placement isolated: `placement` is set already: write its levels together, as in --set placement=A,B".into(),
        ),
        (with(&["frame"]), "exit 2: --set frame: write FACTOR=V[,V…], as in --set frame=64,1518".into()),
        (with(&["flow=2"]), "exit 2: --set flow=2: no factor is called `flow`; did you mean `flows`?".into()),
        (
            with(&["factors.flows=2"]),
            "exit 2: --set factors.flows=2: no factor is called `factors.flows`; write it without `factors.`: --set flows=…".into(),
        ),
        (
            with(&["rounds=2"]),
            "exit 2: --set rounds=2: no factor is called `rounds`; it is a parameter, which a suite's file has: in its profiles, or in a \
             test"
                .into(),
        ),
        (
            with(&["dut=linux"]),
            "exit 2: --set dut=linux: no factor is called `dut`; it is an option of its own: --dut".into(),
        ),
        (
            with(&["flows=50000000"]),
            "exit 2: --set flows=50000000: `50000000` is no level of `flows`: it takes 1 to 10,000,000; `100k` and `1M` may \
             be written"
                .into(),
        ),
        (
            with(&["flows=5000000"]),
            "exit 2: test rate of suite small, with frame = 64, flows = 5000000, cores = 1: frames have 1 to 4000000 \
             flows, not 5000000: more are for connections"
                .into(),
        ),
        (
            with(&["close=client"]),
            "exit 2: --set close: it means nothing to any test of suite small".into(),
        ),
        (with(&["flows=1M,1000k"]), "exit 2: --set flows=1M,1000k: the level 1000000 is there twice".into()),
        (
            with(&["link=none"]),
            "exit 2: --set link=none: test late has a load that is a share of the link, so the link needs a rate".into(),
        ),
        (
            with(&["clients=3"]),
            "exit 2: test rate of suite small, with frame = 64, clients = 3, cores = 1: 1000 flows cannot be shared out \
             evenly between 3 clients and 1 servers: flows must be a multiple of clients x servers = 3"
                .into(),
        ),
        (
            with(&["flows=1"]),
            "exit 2: test rate of suite small, with frame = 64, flows = 1, cores = 2: 2 cores need at least as many \
             flows, one each, not 1"
                .into(),
        ),
        (
            with(&["rules=4", "match=5"]),
            "exit 2: test rate of suite small, with frame = 64, rules = 4, match = 5, cores = 1: the match cannot be at \
             rule 5 of 4: write 1 to 4, `first` or `last`"
                .into(),
        ),
        (
            with(&["stateful=true"]),
            "exit 2: test rate of suite small, with frame = 64, stateful = true, cores = 1: stateful = true needs a \
             policy: with rules = 0 there is no filter at all, so nothing keeps state"
                .into(),
        ),
        (
            with(&["nat=true", "directions=two-way:0.3"]),
            "exit 2: test rate of suite small, with frame = 64, directions = two-way:0.3, nat = true, cores = 1: reverse \
             traffic through NAT is not in this version: use directions = \"one-way\" with nat = true"
                .into(),
        ),
        (
            with(&["nat=true", "directions=one-way", "rules=1", "stateful=false"]),
            "exit 2: test rate of suite small, with frame = 64, directions = one-way, rules = 1, stateful = false, nat = \
             true, cores = 1: nat = true with rules needs stateful = true: translation keeps state by its nature"
                .into(),
        ),
        (
            with(&["frame=84", "ip=6", "lists=5M"]),
            "exit 2: test rate of suite small, with frame = 84, ip = 6, lists = 5000000, cores = 1: block lists hold IPv4 \
             addresses in this version: use ip = 4 with lists"
                .into(),
        ),
        (
            with(&["frame=84", "ip=6", "udp_checksum=zero"]),
            "exit 2: test rate of suite small, with frame = 84, ip = 6, udp_checksum = zero, cores = 1: udp_checksum = \
             \"zero\" is not allowed with ip = 6 (RFC 8200 section 8.1): use \"valid\""
                .into(),
        ),
    ];
    for (options, expected) in rows {
        assert_eq!(summary(&options), expected, "{options:?}");
    }
}

#[test]
fn a_cell_carries_every_factor_and_its_procedure() {
    let plan = plan(&Options { profile: Some(Profile::Full), seed: Some(7), ..with(&["rules=10"]) })
        .expect("a plan");
    let late = plan.cells.last().expect("cells");
    let factors: Vec<String> =
        late.cell.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    assert_eq!(
        factors.join(" "),
        "clients=20 directions=two-way flows=1000 frame=64 ip=4 link=100M lists=0 match=last nat=false rules=10 \
         servers=10 stateful=true udp_checksum=zero zones=two"
    );
    assert_eq!(late.setup.policy.match_position, 10);
    assert_eq!((late.setup.traffic.seed, late.setup.policy.seed), (7, 7));
    assert!(late.varying.is_empty());
    assert_eq!(plan.cells[0].varying, ["frame", "cores"]);

    // 100 Mbit/s carry 148,810 frames of 64 bytes a second and direction, so 297,619 both ways.
    let Some(spec) = late.cell.procedure.of::<LatencySpec>() else { panic!("a latency test") };
    let LatencyLoad::FramesPerSecond(load) = spec.loads[0] else { panic!("a rate") };
    assert!((load - 0.4 * 2.0 * 1e8 / (84.0 * 8.0)).abs() < 1e-6, "{load}");
    assert_eq!(spec.loads[1..], [LatencyLoad::ShareOfThroughput(0.5), LatencyLoad::FramesPerSecond(1000.0)]);
    assert_eq!((spec.repeats, spec.trial_seconds, late.cell.rounds), (20, 60.0, 3));

    let Some(spec) = plan.cells[0].cell.procedure.of::<ThroughputSpec>() else { panic!("a throughput test") };
    assert_eq!(spec.search.loss_ratio, Some(0.00001));
    assert_eq!((spec.search.width, spec.search.max_load), (Some(0.005), None));
}

#[test]
fn three_zones_fill_the_link_that_two_lanes_share() {
    let options = with(&["zones=three", "directions=one-way", "udp_checksum=valid"]);
    let plan = plan(&options).expect("a plan");
    let setup = &plan.cells.last().expect("cells").setup;
    assert_eq!(
        (setup.zones, setup.traffic.directions, setup.traffic.udp_checksum),
        (ZoneForm::Three, Directions::OneWay, UdpChecksum::Valid)
    );
    // Private sends two of three frames, and the DMZ receives two of three.
    let rate = crate::suite::line_rate(setup).expect("the link has a rate");
    assert!((rate - 1.5 * 1e8 / (84.0 * 8.0)).abs() < 1e-6, "{rate}");
}
