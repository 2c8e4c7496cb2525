//! Suites with TCP connections: what their factors mean, and what is refused.

use super::*;
use crate::bulk::BulkShape;
use crate::connections::{AttackKind, AttackSources, CloseBy, IllegalKind, TupleOrder};
use crate::plan::{Options, Plan, PlannedCell};
use crate::procedure::{Flood, RateSpec};
use crate::shape::{TestProtocol, Workload};
use proptest::prelude::*;

/// A suite with one test; rows below write its procedure, parameters and factors.
fn text(test: &str) -> String {
    format!(
        "name = \"small\"\ntitle = \"t\"\nsummary = \"s\"\nduts = [\"linux\"]\n[profiles.quick]\nrounds = 1\n\
         trial_seconds = 9\n[[test]]\nname = \"a\"\ntitle = \"t\"\n{test}\n"
    )
}

fn plan(test: &str, set: &[&str]) -> Result<Plan, String> {
    let suite = Suite::parse("small.toml", &text(test)).map_err(|e| e.to_string())?;
    let set = set.iter().map(|s| (*s).to_owned()).collect();
    Plan::new(&suite, &Options { set, ..Options::default() }).map_err(|e| e.to_string())
}

fn cell(test: &str) -> PlannedCell {
    plan(test, &[]).unwrap_or_else(|e| panic!("{test}: {e}")).cells.swap_remove(0)
}

#[test]
fn what_cannot_be_is_refused_with_what_would_be_right() {
    // The test; the message, without the place and the combination.
    let rows = [
        (
            "procedure = \"connection-rate\"\nfactors.frame = 64",
            "`frame` means nothing to the procedure `connection-rate`\n  it belongs to throughput, latency, loss-curve, \
             back-to-back, overload-recovery, reset-recovery",
        ),
        (
            "procedure = \"throughput\"\nfactors.close = \"client\"",
            "`close` means nothing to the procedure `throughput`\n  it belongs to connection-rate, transaction-rate, \
             teardown-rate, steady, replacement",
        ),
        (
            "procedure = \"resets\"\nfactors.attack = \"syn:1000\"",
            "`attack` means nothing to the procedure `resets`",
        ),
        (
            "procedure = \"throughput\"\nfactors.fragments = 3",
            "`3` is no level of `fragments`: it takes 1 (whole) or 2",
        ),
        (
            "procedure = \"bulk\"\nfactors.connections = 129",
            "a bulk transfer has 1 to 128 connections, not 129",
        ),
        ("procedure = \"bulk\"\ntrial_seconds = 1.5", "a bulk transfer lasts whole seconds, not 1.5 s"),
        ("procedure = \"bulk\"\ntrial_seconds = 0.5", "a bulk transfer lasts whole seconds, not 0.5 s"),
        ("procedure = \"bulk\"\nfactors.flows = 10", "`flows` means nothing to the procedure `bulk`"),
        ("procedure = \"bulk\"\nfactors.frame = 64", "`frame` means nothing to the procedure `bulk`"),
        (
            "procedure = \"bulk\"\nfactors.zones = \"three\"",
            "connections and applications run between two zones in this version: use zones = \"two\"",
        ),
        ("procedure = \"steady\"", "profile quick: a steady test needs `connection_rate`"),
        (
            "procedure = \"connection-rate\"\nfactors.zones = \"three\"",
            "connections and applications run between two zones in this version: use zones = \"two\"",
        ),
        (
            "procedure = \"connection-rate\"\nfactors.clients = 1\nfactors.flows = 64513",
            "64513 pairs of client address and port (`flows`) cannot be made of 1 clients: each has 1 to 64512 ports, so \
             that 1 to 64512 pairs can be",
        ),
        ("procedure = \"connection-rate\"\nfactors.clients = 70_000", "`70000` is no level of `clients`"),
        ("procedure = \"throughput\"\nfactors.clients = 40_000", "frames have 1 to 32256 clients, not 40000"),
        (
            "procedure = \"connection-rate\"\nfactors.flows = 5\nfactors.servers = 6",
            "6 servers need at least as many pairs",
        ),
        (
            "procedure = \"transaction-rate\"\nfactors.transactions = 0",
            "transactions = 0 makes no transactions",
        ),
        (
            "procedure = \"teardown-rate\"\nfactors.close = \"reset\"",
            "a tear-down rate is of connections that end with FIN",
        ),
        (
            "procedure = \"connection-rate\"\nfactors.close = \"server\"\nfactors.hold = \"0.5\"",
            "close = \"server\" means that the server closes behind its last answer",
        ),
        ("procedure = \"connection-rate\"\nfactors.close = \"hold\"", "`hold` is no level of `close`"),
        (
            "procedure = \"connection-rate\"\nfactors.illegal = \"10%:port\"",
            "illegal traffic needs a policy that forbids it",
        ),
        (
            "procedure = \"connection-rate\"\nfactors.rules = 1\nfactors.illegal = \"10%:listed\"",
            "illegal traffic of the kind `listed` needs a block list",
        ),
        (
            "procedure = \"connection-rate\"\nfactors.rules = 1\nfactors.stateful = false\nfactors.illegal = \
             \"10%:port,out-of-window\"",
            "illegal traffic of the kind `out-of-window` differs from the rest by state alone",
        ),
        (
            "procedure = \"connection-rate\"\nfactors.lists = 2\nfactors.list_sets = 3",
            "2 listed addresses cannot be spread over 3 lists",
        ),
        (
            "procedure = \"connection-rate\"\nfactors.countries = 12\nfactors.ip = 6",
            "country tables hold IPv4 subnets in this version",
        ),
        (
            "procedure = \"connection-rate\"\nfactors.rule_family = \"acl1\"",
            "rule_family says what the rules are like, and rules = 0 is no filter at all",
        ),
        (
            "procedure = \"connection-rate\"\nfactors.rules = 5\nfactors.rule_family = \"acl6\"",
            "`acl6` is no level of `rule_family`: it takes `bench`",
        ),
        ("procedure = \"connection-rate\"\nfactors.countries = 11", "`11` is no level of `countries`"),
        (
            "procedure = \"steady\"\nconnection_rate = 20_000\nfactors.hold = 1\nfactors.reuse = 9",
            "20000 connections a second that keep an address and port for 10 s each (hold 1 s + reuse 9 s) need 180000 \
             pairs, and flows = 64512: raise `flows` (and `clients`: an address has 64512 ports), or lower the rate, `hold` \
             or `reuse`",
        ),
        (
            "procedure = \"connection-establishment\"\nfactors.connections = 4097\nfactors.flows = 4096",
            "4097 connections that are all held open need a pair of client address and port each, and flows = 4096",
        ),
        (
            "procedure = \"steady\"\nconnection_rate = 10\nsustain_seconds = 10\nattack_after_seconds = \
             4\nattack_seconds = 6\nfactors.attack = \"syn:10k\"",
            "a flood from second 4 to 10 of the sustained load needs a second before it and one after it, and the load \
             lasts 10 s",
        ),
        (
            "procedure = \"replacement\"\nconnection_rate = 10\nreplace_after_seconds = 9",
            "the policy is replaced after 9 s of a trial of 9 s",
        ),
        (
            "procedure = \"transactions\"\nfactors.clients = 1025",
            "application traffic has 1 to 1024 virtual clients, not 1025",
        ),
        (
            "procedure = \"transactions\"\nfactors.zones = \"three\"",
            "connections and applications run between two zones in this version",
        ),
        (
            "procedure = \"transactions\"\nfactors.flows = 5",
            "`flows` means nothing to the procedure `transactions`",
        ),
        (
            "procedure = \"transactions\"\nfactors.protocol = \"gopher\"",
            "it takes `http/1.0`, `http/1.1`, `https`, `http/2`, `ftp:get`, ",
        ),
        (
            "procedure = \"transactions\"\nfactors.transactions = 2",
            "a connection has several transactions with protocol = \"http/1.1\", \"https\" or \"http/2\" alone",
        ),
        (
            "procedure = \"application-capacity\"\nfactors.protocol = \"http/1.0\"",
            "connections stay open with protocol = \"http/1.1\", \"https\" or \"http/2\" alone",
        ),
        (
            "procedure = \"application-capacity\"\nfactors.protocol = \"https\"\nmax_connections = 393217",
            "393217 connections of applications cannot be open at once: the clients have addresses and ports for 393216",
        ),
        (
            "procedure = \"application-capacity\"\nfactors.protocol = \"https\"\nfactors.transactions = 2",
            "`transactions` means nothing to the procedure `application-capacity`",
        ),
        (
            "procedure = \"transactions\"\nfactors.transactions = 0",
            "a connection of applications has 1 to 1000 transactions, not 0",
        ),
        (
            "procedure = \"transactions\"\nfactors.protocol = \"ftp:get\"\nfactors.object = 16",
            "`object` chooses the files of HTTP",
        ),
        (
            "procedure = \"transactions\"\nfactors.object = 1025",
            "`1025` is no level of `object`: it takes 1 to 1,024 KB",
        ),
        (
            "procedure = \"transactions\"\nfactors.protocol = \"ftp:active-get\"\nfactors.rules = 4",
            "active FTP opens data connections from the server: no policy of this version allows them",
        ),
        (
            "procedure = \"connection-rate\"\nconnection_rate = 10",
            "`connection_rate` means nothing to the procedure `connection-rate`\n  it belongs to steady, replacement",
        ),
    ];
    for (test, expected) in rows {
        let message = plan(test, &[]).err().unwrap_or_else(|| panic!("accepted: {test}"));
        assert!(message.contains(expected), "{test}\n{message}");
    }
}

#[test]
fn a_rate_that_the_ports_just_hold_is_not_refused() {
    // 64,512 pairs / 8 s = 8,064 connections a second; of 10,080 attempts of which a fifth is illegal, as many are legal.
    let test = |rate: u32, illegal: &str| {
        format!(
            "procedure = \"steady\"\nconnection_rate = {rate}\nfactors.reuse = 8\nfactors.rules = 1\nfactors.illegal = \"{illegal}\""
        )
    };
    for (rate, illegal, fits) in
        [(8064, "none", true), (8065, "none", false), (10_080, "20%:port", true), (10_090, "20%:port", false)]
    {
        assert_eq!(plan(&test(rate, illegal), &[]).is_ok(), fits, "{rate} {illegal}");
    }
}

#[test]
fn the_factors_of_connections_make_a_setup() {
    let planned = cell(
        "procedure = \"connection-rate\"\nfactors.transactions = 3\nfactors.answer = 128\nfactors.close = \
         \"client-four-way\"\nfactors.order = \"sequential\"\nfactors.hold = \"0.25\"\nfactors.reuse = 1\nfactors.illegal = \
         \"80%:address,port\"\nfactors.attack = \"udp:50k:1M\"\nfactors.rules = 20\nfactors.lists = 6\nfactors.list_sets = \
         3\nfactors.countries = 14_999",
    );
    let shape = planned.setup.connections().expect("connections");
    assert_eq!((shape.transactions, shape.answer_bytes), (3, 128));
    assert_eq!((shape.close, shape.order), (CloseBy::ClientFourWay, TupleOrder::Sequential));
    assert_eq!((shape.hold_seconds, shape.reuse_seconds), (0.25, 1.0));
    let illegal = shape.illegal.as_ref().expect("illegal connections");
    assert_eq!((illegal.share, &illegal.kinds[..]), (0.8, &[IllegalKind::Address, IllegalKind::Port][..]));
    let policy = &planned.setup.policy;
    assert_eq!((policy.protocol, policy.admits_attackers), (TestProtocol::Tcp, true));
    assert_eq!((policy.listed_addresses, policy.lists, policy.allowed_subnets), (6, 3, 14_999));
    let traffic = &planned.setup.traffic;
    assert_eq!((traffic.flows, traffic.clients, traffic.servers), (64_512, 20, 10));
    let Some(spec) = planned.cell.procedure.of::<RateSpec>() else { panic!("a rate") };
    let flood =
        Flood { kind: AttackKind::Udp, frames_per_second: 5e4, sources: AttackSources::Distinct(1_000_000) };
    assert_eq!((spec.pairs, spec.pair_taken_seconds, spec.flood), (64_512, 1.25, Some(flood)));
    assert!((spec.legal_share - 0.2).abs() < 1e-12);
    let factors: Vec<String> =
        planned.cell.factors.iter().map(|(name, level)| format!("{name}={level}")).collect();
    assert_eq!(
        factors.join(" "),
        "answer=128 attack=udp:50000:1000000 clients=20 close=client-four-way countries=14999 flows=64512 hold=0.25 \
         illegal=80%:address+port ip=4 list_sets=3 lists=6 match=last nat=false order=sequential reuse=1 rules=20 \
         servers=10 stateful=true transactions=3 zones=two"
    );
}

#[test]
fn results_list_only_what_matters_to_the_procedure() {
    // The procedure and what it needs; factors of connections that results list.
    let rows = [
        (
            "throughput",
            "",
            "clients directions flows frame ip link lists match nat rules servers stateful udp_checksum zones",
        ),
        (
            "throughput",
            "factors.fragments = 2",
            "clients directions flows fragments frame ip link lists match nat rules servers stateful udp_checksum zones",
        ),
        (
            "connection-establishment",
            "",
            "answer clients connections countries flows hold illegal ip list_sets lists match nat order rules servers \
             stateful transactions zones",
        ),
        (
            "resets",
            "",
            "answer clients connections countries flows ip list_sets lists match nat order rules servers stateful \
             transactions zones",
        ),
        (
            "replacement",
            "connection_rate = 10",
            "answer clients close countries flows hold illegal ip list_sets lists match nat order reuse rules servers \
             stateful transactions zones",
        ),
    ];
    for (procedure, more, expected) in rows {
        let planned = cell(&format!("procedure = \"{procedure}\"\n{more}"));
        let names: Vec<&str> = planned.cell.factors.keys().map(String::as_str).collect();
        assert_eq!(names.join(" "), expected, "{procedure}");
    }
}

#[test]
fn levels_that_only_a_trial_tells_apart_are_cells_of_their_own() {
    // Neither the number of connections nor the flood is part of the setup.
    for (test, cells) in [
        ("procedure = \"connection-establishment\"\nfactors.connections = [1000, 4096]", 2),
        ("procedure = \"connection-establishment\"\nfactors.hold = [0, 1]", 2),
        ("procedure = \"connection-rate\"\nfactors.attack = [\"none\", \"syn:1000\", \"syn:2000\"]", 3),
        ("procedure = \"connection-rate\"\nfactors.list_sets = [1, 3]", 1),
    ] {
        assert_eq!(plan(test, &[]).expect("a plan").cells.len(), cells, "{test}");
    }
}

#[test]
fn an_override_goes_to_the_tests_that_it_means_something_to() {
    let both =
        "procedure = \"connection-rate\"\n[[test]]\nname = \"b\"\ntitle = \"t\"\nprocedure = \"throughput\"";
    let factors = |set: &[&str]| -> Vec<Option<String>> {
        let plan = plan(both, set).expect("a plan");
        plan.cells.iter().map(|planned| planned.cell.factors.get("frame").map(ToString::to_string)).collect()
    };
    assert_eq!(factors(&["frame=128"]), [None, Some("128".into())]);
    assert_eq!(
        plan("procedure = \"connection-rate\"", &["frame=128"]).map(|_| ()),
        Err("--set frame: it means nothing to any test of suite small".into())
    );
    let illegal = ["illegal=10%:address+port", "rules=4"];
    let planned = plan(both, &illegal).expect("a plan").cells.swap_remove(0);
    assert_eq!(planned.cell.factors["illegal"].text, "10%:address+port");
}

proptest! {
    #[test]
    fn the_written_form_of_a_level_reads_as_itself(
        percent in 1u32..=9999,
        kinds in proptest::sample::subsequence(IllegalKind::ALL.to_vec(), 1..=8),
        kind in 0usize..6,
        rate in 1u32..=100_000_000,
        sources in proptest::option::of(1u32..=1 << 24),
        millis in 0u32..=86_400_000,
    ) {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let illegal = format!("{}%:{}", f64::from(percent) / 100.0, names.join(","));
        let sources = sources.map_or(String::new(), |n| format!(":{n}"));
        let attack = format!("{}:{rate}{sources}", AttackKind::ALL[kind].name());
        let seconds = format!("{}", f64::from(millis) / 1000.0);
        for (factor, text) in [
            (Factor::Illegal, illegal.as_str()),
            (Factor::Attack, &attack),
            (Factor::Hold, &seconds),
            (Factor::Reuse, &seconds),
        ] {
            let read = factor.parse(text).expect("a level");
            let written = read.to_string();
            prop_assert_eq!(factor.parse(&written), Ok(read));
            prop_assert_eq!(written.replace('+', ","), text);
        }
    }

    #[test]
    fn no_text_of_a_level_makes_the_reader_panic(text in "[a-z0-9:%,+.kM-]{0,20}", which in 0usize..28) {
        let _ = Factor::ALL[which].parse(&text);
    }
}

#[test]
fn a_bulk_transfer_is_of_tcp_and_has_few_factors() {
    let planned = cell("procedure = \"bulk\"\nfactors.connections = 50\nfactors.rules = 3");
    assert_eq!(planned.setup.workload, Workload::Bulk(BulkShape { connections: 50 }));
    assert_eq!(planned.setup.policy.protocol, TestProtocol::Tcp);
    assert!(planned.setup.policy.stateful, "as rules are by default");
    let names: Vec<&str> = planned.cell.factors.keys().map(String::as_str).collect();
    let expected = [
        "connections",
        "countries",
        "ip",
        "list_sets",
        "lists",
        "match",
        "nat",
        "rules",
        "stateful",
        "zones",
    ];
    assert_eq!(names, expected);
    assert_eq!(cell("procedure = \"bulk\"").setup.workload, Workload::Bulk(BulkShape { connections: 1 }));
}
