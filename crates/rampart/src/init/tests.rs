//! Machines and answers in, policies out.

use super::answers::{ask, of_options};
use super::machine::{Link, Machine, configured_ports, way_out};
use super::*;
use policy::Policy;
use policy::interpret::{Packet, decide};
use policy::model::Action;

fn link(name: &str, networks: &[&str]) -> Link {
    Link { name: name.to_owned(), networks: networks.iter().map(|net| net.parse().unwrap()).collect() }
}

fn machine() -> Machine {
    Machine {
        links: vec![
            link("eth0", &["198.51.100.0/24", "2001:db8::/64"]),
            link("eth1", &["192.168.7.0/24", "fd00:7::/64"]),
            link("eth2", &["10.9.0.0/24"]),
            link("ppp0", &[]),
        ],
        way_out: vec!["eth0".to_owned()],
        session: None,
        ssh: [22].into(),
        notes: Vec::new(),
    }
}

fn args(line: &str) -> InitArgs {
    use clap::Parser as _;
    let words = ["rampart", "init"].into_iter().chain(line.split_ascii_whitespace());
    match crate::cli::Cli::try_parse_from(words).unwrap().command {
        crate::cli::Command::Init(args) => args,
        other => panic!("{other:?}"),
    }
}

fn checked(text: &str) -> Policy {
    let policy = Policy::parse("p.toml", text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let warnings: Vec<String> = policy.warnings().iter().map(|it| it.problem.to_string()).collect();
    assert!(warnings.is_empty(), "{warnings:?}\n{text}");
    policy
}

/// Whether a policy allows a packet, of which are said: zones, ends, protocol, port.
fn allows(policy: &Policy, packet: &str) -> bool {
    let words: Vec<&str> = packet.split_ascii_whitespace().collect();
    let zone = |name: &str| policy.zones.iter().position(|zone| zone.name == name).unwrap() as u8;
    let [from, to, source, destination, protocol, selector] = words[..] else { panic!("{packet}") };
    let packet = Packet {
        from: zone(from),
        to: zone(to),
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        source_port: 40_000,
        protocol: protocol.parse().unwrap(),
        selector: selector.parse().unwrap(),
    };
    decide(policy, &packet, "2026-11-23T12:00:00Z".parse().unwrap()).action == Action::Allow
}

const HOST: &str = "--role host";
const HOME: &str = "--role home-gateway --lan eth1";
const BRIDGE: &str = "--role bridge --wan eth1 --lan eth2";
const OFFICE: &str = "--role office-dmz --lan eth1 --dmz eth2";

#[test]
fn policies_are_right_without_warnings_and_let_in_what_they_say() {
    let rows: [(&str, &str, bool); 30] = [
        (BRIDGE, "inside outside 10.9.0.5 203.0.113.9 6 443", true),
        (BRIDGE, "outside inside 203.0.113.9 10.9.0.5 6 443", false),
        (BRIDGE, "outside inside 10.9.0.1 255.255.255.255 17 68", true),
        (BRIDGE, "management self 198.51.100.9 198.51.100.2 6 22", true),
        (BRIDGE, "inside self 10.9.0.5 10.9.0.1 6 22", false),
        (BRIDGE, "self management 198.51.100.2 203.0.113.9 6 443", true),
        (HOST, "network self 203.0.113.9 198.51.100.2 6 22", true),
        (HOST, "network self 203.0.113.9 198.51.100.2 6 80", false),
        (HOST, "network self 198.51.100.1 198.51.100.2 17 68", true),
        (HOST, "self network 198.51.100.2 203.0.113.9 6 443", true),
        (HOME, "inside outside 192.168.7.2 203.0.113.9 6 443", true),
        (HOME, "inside outside fd00:7::2 2001:db8:9::1 17 443", true),
        (HOME, "inside self 192.168.7.2 192.168.7.1 17 53", true),
        (HOME, "inside self 192.168.7.2 192.168.7.1 6 22", true),
        (HOME, "inside self 192.168.7.2 192.168.7.1 6 25", false),
        (HOME, "outside self 203.0.113.9 198.51.100.2 6 22", false),
        (HOME, "outside self 203.0.113.9 198.51.100.2 17 53", false),
        (HOME, "outside inside 203.0.113.9 192.168.7.2 6 80", false),
        (HOME, "outside inside 2001:db8:9::1 fd00:7::2 6 80", false),
        (HOME, "outside self 198.51.100.1 198.51.100.2 17 68", true),
        // A router advertisement, and a redirect.
        (HOME, "outside self fe80::1 ff02::1 58 34304", true),
        (HOME, "outside self fe80::1 ff02::1 58 35072", false),
        (HOME, "self outside 198.51.100.2 203.0.113.9 17 53", true),
        (OFFICE, "inside dmz 192.168.7.2 10.9.0.10 6 5432", true),
        (OFFICE, "dmz outside 10.9.0.10 203.0.113.9 6 443", true),
        (OFFICE, "dmz outside 10.9.0.10 203.0.113.9 6 25", false),
        (OFFICE, "dmz inside 10.9.0.10 192.168.7.2 6 80", false),
        (OFFICE, "dmz self 10.9.0.10 10.9.0.1 6 22", false),
        (OFFICE, "outside dmz 203.0.113.9 10.9.0.10 6 443", false),
        (OFFICE, "inside self 192.168.7.2 192.168.7.1 6 22", true),
    ];
    for (options, packet, expected) in rows {
        let machine = machine();
        let policy = checked(&text::write(&of_options(&args(options), &machine).unwrap(), &machine));
        assert_eq!(allows(&policy, packet), expected, "{options}: {packet}");
    }
}

#[test]
fn what_the_machine_is_like_shows_in_its_policy() {
    let with = |change: fn(&mut Machine), options: &str| {
        let mut machine = machine();
        change(&mut machine);
        let text = text::write(&of_options(&args(options), &machine).unwrap(), &machine);
        checked(&text);
        text
    };
    assert!(!with(|_| {}, HOME).contains("manage-from-outside"));
    for (what, text, words, is_there) in [
        (
            "a session from outside",
            with(|it| it.session = Some(("203.0.113.77".parse().unwrap(), "eth0".to_owned())), HOME),
            "source = \"203.0.113.77\"",
            true,
        ),
        (
            "a session from inside",
            with(|it| it.session = Some(("192.168.7.2".parse().unwrap(), "eth1".to_owned())), HOME),
            "manage-from-outside",
            false,
        ),
        (
            "another port of SSH",
            with(|it| it.ssh = [22, 2222].into(), HOST),
            "service = [\"ssh\", \"tcp/2222\"]",
            true,
        ),
        (
            "two ways out",
            with(|it| it.way_out.push("ppp0".to_owned()), HOME),
            "interfaces = [\"eth0\", \"ppp0\"]",
            true,
        ),
        ("networks", with(|_| {}, HOME), "networks = [\"192.168.7.0/24\", \"fd00:7::/64\"]", true),
        ("no networks", with(|it| it.links[1].networks.clear(), HOME), "networks", false),
        (
            "servers with private addresses",
            with(|_| {}, OFFICE),
            "from = [\"inside\", \"dmz\"]\nto = \"outside\"\nmasquerade",
            true,
        ),
        (
            "servers with public ones",
            with(|it| it.links[2] = link("eth2", &["203.0.113.0/28"]), OFFICE),
            "from = \"inside\"\nto = \"outside\"\nmasquerade",
            true,
        ),
    ] {
        assert_eq!(text.contains(words), is_there, "{what}: {text}");
    }
}

#[test]
fn the_examples_in_its_comments_are_right_too() {
    for options in [HOST, HOME, OFFICE] {
        let machine = machine();
        let text = text::write(&of_options(&args(options), &machine).unwrap(), &machine);
        let begin = text.find("# [[nat]]").or_else(|| text.find("# [[rules]]")).unwrap();
        let (before, example) = text.split_at(begin);
        let lines = example.lines().map(|line| {
            line.strip_prefix("# ").filter(|it| it.starts_with("[[") || it.contains(" = ")).unwrap_or(line)
        });
        checked(&format!("{before}{}\n", lines.collect::<Vec<_>>().join("\n")));
    }
}

#[test]
fn options_that_cannot_be_are_refused_with_what_to_say() {
    let rows = [
        ("", "--role host|home-gateway|office-dmz|bridge"),
        ("--role bridge", "say --wan INTERFACE"),
        ("--role bridge --wan eth1", "say --lan INTERFACE"),
        ("--role bridge --wan eth1 --lan eth2 --lan ppp0", "one interface on each side"),
        ("--role home-gateway", "say --lan INTERFACE; here are: eth0, eth1, eth2, ppp0"),
        ("--role office-dmz --lan eth1", "say --dmz INTERFACE"),
        ("--role home-gateway --lan eth9", "--lan eth9: there is no such interface"),
        ("--role home-gateway --lan eth0", "--lan eth0: it is named twice"),
        ("--role home-gateway --lan eth1 --lan eth1", "--lan eth1: it is named twice"),
        ("--role home-gateway --lan eth1 --dmz eth2", "--dmz is not for this role"),
        ("--role host --lan eth1", "--lan is not for this role"),
    ];
    for (options, expected) in rows {
        let refused = of_options(&args(options), &machine()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{options}: {refused}");
    }
    let no_way_out = Machine { way_out: Vec::new(), ..machine() };
    let refused = of_options(&args(HOME), &no_way_out).unwrap_err().to_string();
    assert!(refused.contains("say --wan INTERFACE"), "{refused}");
}

#[test]
fn whoever_sits_at_a_terminal_is_asked_for_what_is_left_open() {
    let rows: [(&str, &str, &str); 7] = [
        ("", "1\n\n", HOST),
        ("", "host\n\n", HOST),
        ("", "2\n\neth1\n", HOME),
        ("", "9\n2\neth7\neth0\n\neth1\n", HOME),
        (
            "--role home-gateway --wan ppp0",
            "eth1, eth2\n",
            "--role home-gateway --wan ppp0 --lan eth1 --lan eth2",
        ),
        ("--lan eth1", "3\n\neth2\n", OFFICE),
        ("--role home-gateway --wan ppp0 --lan eth1", "", "--role home-gateway --wan ppp0 --lan eth1"),
    ];
    for (options, answers, expected) in rows {
        let mut said = Vec::new();
        let plan = ask(&args(options), &machine(), &mut answers.as_bytes(), &mut said).unwrap();
        let expected = of_options(&args(expected), &machine()).unwrap();
        assert_eq!(plan, expected, "{options}, {answers:?}: {}", String::from_utf8(said).unwrap());
    }
    for (answers, expected) in
        [("", "nobody answered"), ("2\n\n", "nobody answered"), ("4\n", "nobody answered")]
    {
        let refused =
            ask(&args(""), &machine(), &mut answers.as_bytes(), &mut Vec::new()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{answers:?}: {refused}");
    }
}

#[test]
fn a_file_is_replaced_only_if_that_is_said_and_always_as_a_whole() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    write(&path, "one", false).unwrap();
    let refused = write(&path, "two", false).unwrap_err().to_string();
    assert!(refused.contains("say --force"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    write(&path, "three", true).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    let refused = write(&folder.path().join("none/p.toml"), "four", true).unwrap_err().to_string();
    assert!(refused.contains("cannot write"), "{refused}");
}

#[test]
fn the_kernels_tables_and_sshds_files_are_understood() {
    let ipv4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                eth1\t0007A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n";
    let zeros = "0".repeat(32);
    let ipv6 = [("00", "ppp0"), ("00", "lo"), ("40", "eth2"), ("00", "eth0")].map(|(length, name)| {
        format!("{zeros} {length} {zeros} 00 {zeros} 00000400 00000001 00000000 00000003 {name}\n")
    });
    assert_eq!(way_out(ipv4, &ipv6.concat()), ["eth0", "ppp0"]);
    assert_eq!(way_out("", ""), [""; 0]);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(configured_ports(folder.path()), [].into());
    std::fs::create_dir(folder.path().join("sshd_config.d")).unwrap();
    std::fs::write(folder.path().join("sshd_config"), "#Port 22\n  port 2222\nPort=2022\nPortable 5\n")
        .unwrap();
    std::fs::write(folder.path().join("sshd_config.d/x.conf"), "Port 443\n").unwrap();
    std::fs::write(folder.path().join("sshd_config.d/x.old"), "Port 444\n").unwrap();
    assert_eq!(configured_ports(folder.path()), [443, 2022, 2222].into());
}

/// The kernel lets interfaces have nearly any name, and a machine with such a one gets a policy as well.
#[test]
fn interfaces_have_any_name_that_the_kernel_lets_them_have() {
    let names =
        ["a\"b", "it's", "x\\y", "#c", "$(id)", "-dash", "any", "[x]", "\u{1}\u{7f}", "ünï", "a,b", "e0@e1"];
    for (at, name) in names.into_iter().enumerate() {
        let other = names[(at + 1) % names.len()];
        let machine = Machine {
            links: vec![link(name, &[]), link(other, &[])],
            way_out: vec![name.to_owned()],
            ..machine()
        };
        for role in [Role::Host, Role::HomeGateway, Role::Bridge] {
            let lan = if role == Role::Host { Vec::new() } else { vec![other.to_owned()] };
            let wan = if role == Role::Host {
                vec![name.to_owned(), other.to_owned()]
            } else {
                vec![name.to_owned()]
            };
            let plan = Plan { role, wan, lan, dmz: Vec::new() };
            let policy = checked(&text::write(&plan, &machine));
            let found: Vec<&str> =
                policy.zones.iter().flat_map(|zone| &zone.interfaces).map(String::as_str).collect();
            assert_eq!(found, [name, other], "{role:?}");
        }
    }
    assert!(!machine::can_be_named("p*") && machine::can_be_named("p"));
}

#[test]
fn a_namespace_without_interfaces_is_said_to_have_none() {
    let machine = Machine { links: Vec::new(), way_out: Vec::new(), ..machine() };
    for (line, said) in
        [("--role host", "say --wan INTERFACE; none is here"), ("--role host --wan eth9", "none is here")]
    {
        let Failure::Wrong(why) = of_options(&args(line), &machine).unwrap_err() else { panic!("{line}") };
        assert!(why.contains(said), "{line}: {why}");
    }
}
