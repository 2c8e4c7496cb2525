//! Rule sets as people write them, and the policies and findings that become of them: text in, text out. The texts are in
//! `tests/data`; `RAMPART_WRITE_EXPECTED=1` writes what comes out in place of what is expected, for a reader to judge.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounts;
mod translated;

use policy_import::{Format, Imported, Mistake, Options, Own, Source};
use std::path::{Path, PathBuf};

fn import(format: Format, sources: &[Source], options: &Options) -> Result<Imported, Mistake> {
    accounts::import(format, sources, options, true)
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn sources(files: &[&str]) -> Vec<Source> {
    let read =
        |name: &&str| Source { name: (*name).to_owned(), text: std::fs::read_to_string(data(name)).unwrap() };
    files.iter().map(read).collect()
}

/// The policy of some files, with what was not carried over behind it, is in the file `NAME.expected`.
fn check(name: &str, format: Format, files: &[&str], options: &Options) {
    let imported = import(format, &sources(files), options).unwrap();
    let mut out = imported.policy;
    for finding in &imported.findings {
        out.push_str(&format!("\n## {}", finding.to_string().replace('\n', "\n## ")));
    }
    out.push('\n');
    let expected = data(&format!("{name}.expected"));
    if std::env::var_os("RAMPART_WRITE_EXPECTED").is_some() {
        std::fs::write(&expected, &out).unwrap();
    }
    let expected = std::fs::read_to_string(&expected).unwrap_or_default();
    for (number, (is, should)) in out.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should, "{name}, line {}", number + 1);
    }
    assert_eq!(out.lines().count(), expected.lines().count(), "{name}");
}

#[test]
fn a_router_of_iptables() {
    check("router", Format::IptablesSave, &["router.iptables"], &Options::default());
}

#[test]
fn translations() {
    check("translated", Format::IptablesSave, &["translated.iptables"], &Options::default());
    check("translated_nft", Format::Nft, &["translated.nft"], &Options::default());
}

#[test]
fn the_files_of_ufw() {
    let all = ["ufw_default", "ufw_user.rules", "ufw_user6.rules"];
    check("ufw_files", Format::Ufw, &all, &Options::default());
    let all_rules = ["ufw_before.rules", "ufw_after.rules", "ufw_before6.rules"];
    check("ufw_before_and_after", Format::Ufw, &[&all[..], &all_rules].concat(), &Options::default());
    let imported = |sources: &[Source]| import(Format::Ufw, sources, &Options::default()).unwrap();
    let has = |imported: &Imported, words: &str| {
        imported.findings.iter().any(|finding| finding.to_string().contains(words))
    };
    // Without the defaults nothing passes that no rule allows, not even out.
    let denied = imported(&sources(&["ufw_user.rules"]));
    assert!(has(&denied, "which was not given: they are denied"), "{:?}", denied.findings);
    let (_, sent) = denied.policy.split_once("# What this machine sends.").unwrap();
    assert!(!sent.contains("action = \"allow\""), "{sent}");
    // Of ufw that leaves IPv6 alone nothing of IPv6 passes, whatever its rules say.
    let mut without_v6 = sources(&["ufw_user6.rules", "ufw_user.rules", "ufw_default"]);
    without_v6[2].text = without_v6[2].text.replace("IPV6=yes", "IPV6=no");
    let denied = imported(&without_v6);
    assert!(has(&denied, "does not say IPV6=yes"), "{:?}", denied.findings);
    assert!(!denied.policy.contains("::/0"), "{}", denied.policy);
}

#[test]
fn texts_that_are_no_files_of_ufw() {
    let rules = "*filter\n:ufw-user-input - [0:0]\n:ufw-user-output - [0:0]\n:ufw-user-forward - [0:0]\n";
    for (text, expected) in [
        (String::new(), "rules: this is no file of ufw"),
        ("Status: active\n".to_owned(), "this looks like `ufw status`"),
        ("table inet t {\n}\n".to_owned(), "this looks like nftables"),
        ("DEFAULT_INPUT_POLICY=DROP\n".to_owned(), "there are no rules in it"),
        (rules.to_owned(), "the text has no COMMIT"),
        (
            format!("{rules}-A ufw-user-input -j ACC\nCOMMIT\n-A INPUT -j ACCEPT\n"),
            "lines behind the last COMMIT",
        ),
        (format!("*nat\nCOMMIT\n{rules}COMMIT\n"), "there is another table than `filter`"),
        (format!("{rules}-A ufw-user-input -p\nCOMMIT\n"), "rules:5:"),
        (rules.replace("user", "before") + "COMMIT\n", "the rules of ufw's user are not among the files"),
        (format!("{rules}{}COMMIT\n", rules.replace("user", "before")), "rampart import iptables-save FILE"),
    ] {
        refused(Format::Ufw, &text, expected);
    }
}

/// What makes a text unreadable, with its place.
fn refused(format: Format, text: &str, expected: &str) {
    let source = Source { name: "rules".to_owned(), text: text.to_owned() };
    let mistake = import(format, &[source], &Options::default()).map(|imported| imported.policy).unwrap_err();
    assert!(mistake.to_string().contains(expected), "{text:?}: {mistake}, and not {expected}");
}

#[test]
fn texts_that_are_no_iptables_save() {
    for (text, expected) in [
        ("", "rules: there is no table in it"),
        ("table inet filter {\n}\n", "this looks like nftables: rampart import nft FILE"),
        ("Chain INPUT (policy ACCEPT)\n", "this looks like `iptables -L`"),
        ("-P INPUT DROP\n-A INPUT -j ACCEPT\n", "this looks like `iptables -S`"),
        ("Status: active\n", "this looks like `ufw status`"),
        ("*filter\n:INPUT DROP [0:0]\n-A INPUT -j ACC", "rules:3:1: the text ends within the table `filter`"),
        ("*filter\n:INPUT DROP [0:0]\n-A INPUT -p\nCOMMIT\n", "rules:3:10: `-p` needs a value"),
        ("*filter\n-A INPUT -j ACCEPT\nCOMMIT\n", "rules:2:1: the table `filter` has no chain `INPUT`"),
        (
            "*filter\n:INPUT DROP [0:0]\n-A INPUT -s \"10.0.0.1 -j DROP\nCOMMIT\n",
            "rules:3:13: these quotation marks",
        ),
        (
            "*filter\n:INPUT DROP [0:0]\n-A INPUT -j ACCEPT -j DROP\nCOMMIT\n",
            "rules:3:20: this is a second target",
        ),
        ("*nonsense\nCOMMIT\n", "rules:1:2: there is no table `nonsense`"),
        ("hello\n", "rules:1:1: this line stands in no table"),
        (
            "*filter\n:INPUT DROP [0:0]\n:a - [0:0]\n:b - [0:0]\n-A INPUT -j a\n-A a -j b\n-A b -j a\nCOMMIT\n",
            "rules:7:1: a loop of jumps, or more than 16 of them: `a` is called here again",
        ),
    ] {
        refused(Format::IptablesSave, text, expected);
    }
}

#[test]
fn texts_that_are_no_list_of_nftables() {
    let chain = |rule: &str| {
        format!(
            "table inet t {{\n chain c {{\n  type filter hook input priority 0; policy drop;\n  {rule}\n }}\n}}\n"
        )
    };
    for (text, expected) in [
        (String::new(), "rules: there is no table in it"),
        ("*filter\nCOMMIT\n".to_owned(), "this looks like iptables: rampart import iptables-save FILE"),
        ("{\"nftables\": []}".to_owned(), "this looks like JSON of `nft -j`"),
        ("table inet t {\n chain c {\n".to_owned(), "the text ends within a table"),
        ("include \"/etc/x\"\n".to_owned(), "rules:1:1: nothing is included here"),
        ("add rule inet t c accept\n".to_owned(), "rules:1:5: there is no table `inet t` above"),
        ("table bridge t {\n chain c {\n type filter hook input priority 0; policy accept;\n drop\n }\n}\n".to_owned(), "family bridge"),
        (chain("jump nowhere"), "rules:4:3: the table has no chain `nowhere`"),
        (chain("jump c"), "rules:4:3: a loop of jumps"),
        (chain("ip saddr @gone drop"), "rules:4:12: the table has no set `gone`"),
        (chain("accept drop"), "rules:4:10: this is a second verdict"),
        (chain("log prefix \"x"), "rules:4:14: these quotation marks"),
        (chain("").replace("hook input priority 0", "hook nowhere priority 0"), "this hook is not known"),
        (chain("").replace("filter hook input", "nat hook prerouting"), "a chain that translates drops"),
    ] {
        refused(Format::Nft, &text, expected);
    }
}

/// The name of an interface that a packet does not have, or not yet, is empty: only a test for another name matches. A forwarded packet has both at
/// its end. Asked of Linux 6.18 with counters. What drops answers denies the flows that have them.
#[test]
fn interfaces_that_a_packet_does_not_have() {
    for (hook, test, denied) in [
        ("output", "iifname != \"a\"", [false, false, true]),
        ("output", "iifname \"a\"", [false; 3]),
        ("postrouting", "iifname \"a\"", [true, false, false]),
        ("postrouting", "iifname != \"a\"", [true, false, true]),
        ("prerouting", "oifname != \"b\"", [true; 3]),
        ("prerouting", "oifname \"b\"", [false; 3]),
        ("input", "oifname != \"b\"", [false, true, true]),
        ("input", "oifname \"b\"", [false; 3]),
    ] {
        let text = format!(
            "table inet t {{\n chain f {{\n  type filter hook forward priority 0; policy accept;\n  iifname \"a\" oifname \"b\" continue\n }}\n \
             chain c {{\n  type filter hook {hook} priority 10; policy accept;\n  {test} tcp dport 25 drop\n }}\n}}\n"
        );
        let imported = import(Format::Nft, &[Source { name: "rules".to_owned(), text }], &Options::default());
        let policy = imported.unwrap().policy;
        let (through, rest) = policy.split_once("# What comes to").unwrap();
        let (to, from) = rest.split_once("# What this machine sends").unwrap();
        let denies = [through, to, from].map(|part| part.contains("action = \"deny\""));
        assert_eq!(denies, denied, "{hook}: {test}\n{policy}");
    }
}

/// A chain of nftables with this rule, and whether something is allowed and denied by a rule.
fn nft(rule: &str, allows: bool, denies: bool) {
    let text = format!(
        "table inet t {{\n set fleeting {{\n type ipv4_addr\n flags dynamic,timeout\n elements = {{ 10.0.0.1 timeout 5m }}\n }}\n \
         set none {{\n type ipv4_addr\n }}\n set no-pairs {{\n type ipv4_addr . inet_service\n }}\n map no-verdicts {{\n type ipv4_addr : verdict\n }}\n \
         chain other {{\n udp dport 53 accept\n }}\n chain c {{\n  type filter hook forward priority 0; policy drop;\n  \
         ct state established accept\n  iifname \"a\" oifname \"b\" tcp dport 1 continue\n  {rule}\n }}\n}}\n"
    );
    let source = Source { name: "rules".to_owned(), text };
    let imported = import(Format::Nft, &[source], &Options::default()).unwrap();
    let through = imported.policy.split("# What comes to").next().unwrap();
    let has = |action: &str| through.contains(&format!("action = \"{action}\""));
    assert_eq!(
        (has("allow"), has("deny")),
        (allows, denies),
        "{rule}\n{}\n{:?}",
        imported.policy,
        imported.findings
    );
}

#[test]
fn what_is_not_understood_of_nftables_allows_nothing() {
    for (rule, allows, denies) in [
        ("tcp dport 80 accept", true, false),
        ("tcp dport 80 meta skuid 0 accept", false, false),
        ("tcp dport 80 meta mark 7 drop", false, true),
        ("ip saddr @fleeting accept", false, false),
        ("ip saddr @fleeting drop", false, true),
        ("ip saddr != @fleeting accept", false, false),
        // Values that are verdicts and translations elsewhere.
        ("ct status dnat accept", false, false),
        ("ct status { dnat, snat } accept", false, false),
        ("ct status & (dnat | assured) == dnat drop", false, true),
        ("icmp type . icmp mtu { redirect . 0, echo-request . 0 } accept", false, false),
        ("icmp type . icmp code { redirect . 0, echo-request . 0 } accept", true, false),
        ("icmpv6 type . icmpv6 code { packet-too-big . no-route, 4 . 7 } drop", false, true),
        ("icmp code net-unreachable accept", false, false),
        ("tcp dport 80 ct status dnat accept", false, false),
        // What has nothing in it when it is read, as Debian's example `sets_and_maps.nft` has.
        ("ip saddr @none accept", false, false),
        ("ip saddr @none drop", false, false),
        ("ip saddr != @none accept", true, false),
        ("ip saddr . tcp dport @no-pairs accept", false, false),
        ("ip saddr vmap @no-verdicts", false, false),
        ("ip saddr { } accept", false, false),
        ("ip ttl < 5 drop", false, true),
        ("tcp dport 80 ct count over 10 reject", false, false),
        ("udp dport 53 limit rate over 10/second accept", false, false),
        ("udp dport 53 limit rate 10/second accept", true, false),
        ("udp dport 53 limit rate 10/second drop", false, true),
        ("udp dport > 1024 accept", false, false),
        ("ip daddr & 255.0.0.0 == 10.0.0.0 accept", false, false),
        ("iifname . tcp dport != { \"a\" . 80 } accept", false, false),
        ("meta mark 7 jump other", false, false),
        ("meta mark 7 goto other", false, false),
        ("jump other", true, false),
        ("queue to 1", false, true),
        ("tcp dport vmap { 80 : accept, 81 : drop }", true, true),
        ("meta mark vmap { 1 : accept }", false, true),
        ("tcp dport nobody-knows accept", false, false),
        ("counter packets 5 bytes 7 log prefix \"accept\" drop", false, true),
        ("meta mark set 0x00000001 accept", true, false),
        ("ip saddr 10.0.0.1 ip daddr set 10.0.0.2 accept", false, true),
    ] {
        nft(rule, allows, denies);
    }
}

/// A filter table with these lines in FORWARD, and what the policy should have or not have.
fn forward(lines: &str, has: &[&str], has_not: &[&str]) {
    let text = format!(
        "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n:mine - [0:0]\n\
         -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A FORWARD -i a -o b -s 192.0.2.99 -j DROP\n{lines}\nCOMMIT\n"
    );
    becomes(Format::IptablesSave, text, lines, has, has_not);
}

/// What the policy and the findings of a text should have or not have.
fn becomes(format: Format, text: String, what: &str, has: &[&str], has_not: &[&str]) {
    let source = Source { name: "rules".to_owned(), text };
    let imported = import(format, &[source], &Options::default()).unwrap();
    let findings: Vec<String> = imported.findings.iter().map(ToString::to_string).collect();
    let all = format!("{}\n{}", imported.policy, findings.join("\n"));
    for words in has {
        assert!(all.contains(words), "{what}: no {words} in\n{all}");
    }
    for words in has_not {
        assert!(!all.contains(words), "{what}: {words} in\n{all}");
    }
}

/// What the policy and the findings of a rule set of nftables should have or not have: this rule stands in the chain of what passes through.
fn passes(rule: &str, has: &[&str], has_not: &[&str]) {
    let text = format!(
        "table inet t {{\n chain c {{\n  type filter hook forward priority 0; policy drop;\n  ct state established accept\n  \
         iifname \"a\" oifname \"b\" tcp dport 1 continue\n  {rule}\n }}\n}}\n"
    );
    becomes(Format::Nft, text, rule, has, has_not);
}

#[test]
fn types_of_icmp_with_their_codes() {
    // As OpenWrt has it: one rule, whose limit holds for all of its elements together.
    let of_fw4 = "icmpv6 type . icmpv6 code { packet-too-big . no-route, parameter-problem . admin-prohibited } limit rate 1000/second accept";
    let service =
        "service = [\"icmpv6/2/0\", \"icmpv6/4/1\"]\naction = \"allow\"\nlimit = { rate = \"1000/s\"";
    passes(of_fw4, &[service], &["it would take"]);
    // Elements that are no single rule would have a limit each.
    let of_hosts = "ip saddr . tcp dport { 10.0.0.1 . 80, 10.0.0.2 . 81 } limit rate 10/second accept";
    passes(
        of_hosts,
        &["source = \"10.0.0.1\"", "left out (less is allowed): it would take several rules"],
        &["10.0.0.2\""],
    );
    // What conntrack calls invalid is five ranges of types, where a later rule would let it in.
    let invalid = "ct state invalid drop\n  meta l4proto icmp accept";
    let types = "icmp-no-query = [\"icmp/0-7\", \"icmp/9-12\", \"icmp/timestamp-reply\", \"icmp/16\", \"icmp/18-255\"]";
    passes(invalid, &[types, "service = [\"icmp-no-query\", \"icmpv6-no-query\"]\naction = \"deny\""], &[]);
    passes("ct state invalid drop", &["the firewall drops what fits to no flow by itself"], &["no-query"]);
}

/// With the machine's addresses, a kind of destinations is addresses; of a family without one nothing is known.
#[test]
fn kinds_of_destinations_by_addresses() {
    let own = |text: &str| Own { interface: None, address: text.parse().unwrap(), length: 24 };
    for (words, addresses, expected) in [
        ("LOCAL", vec![own("192.0.2.7")], "destination = \"192.0.2.7\"\naction = \"allow\""),
        (
            "BROADCAST",
            vec![own("192.0.2.7")],
            "destination = [\"192.0.2.255\", \"255.255.255.255\"]\naction = \"allow\"",
        ),
        (
            "LOCAL,BROADCAST,MULTICAST,UNICAST",
            vec![own("192.0.2.7")],
            "destination = \"0.0.0.0/0\"\naction = \"allow\"",
        ),
        (
            "UNICAST",
            vec![own("192.0.2.7")],
            "\"128.0.0.0-192.0.2.6\", \"192.0.2.8-192.0.2.254\", \"192.0.3.0-",
        ),
        ("LOCAL", vec![own("2001:db8::1")], "left out (less is allowed): which addresses"),
        ("LOCAL", vec![], "left out (less is allowed): which addresses"),
    ] {
        let text = format!(
            "*filter\n:INPUT DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n-A INPUT -m state --state ESTABLISHED -j ACCEPT\n\
             -A INPUT -i a -m addrtype --dst-type {words} -j ACCEPT\nCOMMIT\n"
        );
        let source = Source { name: "rules".to_owned(), text };
        let options = Options { addresses, ..Options::default() };
        let imported = import(Format::IptablesSave, &[source], &options).unwrap();
        let findings: Vec<String> = imported.findings.iter().map(ToString::to_string).collect();
        let all = format!("{}\n{}", imported.policy, findings.join("\n"));
        assert!(all.contains(expected), "{words}: {all}");
    }
}

/// Redirects go to the address of the interface that a packet comes by; what comes by one without a known address is denied.
#[test]
fn redirects_by_addresses() {
    let own = |interface: &str, last| Own {
        interface: Some(interface.to_owned()),
        address: std::net::Ipv4Addr::new(192, 0, 2, last).into(),
        length: 24,
    };
    let to_a =
        "from = \"a\"\ndestination = \"any\"\nservice = \"tcp/80\"\ndestination_to = \"192.0.2.1:3128\"";
    let to_b =
        "from = \"b\"\ndestination = \"any\"\nservice = \"tcp/80\"\ndestination_to = \"192.0.2.2:3128\"";
    let denied = "this translation is not carried over";
    for (test, addresses, has, has_not) in [
        ("-i a", vec![own("a", 1)], &[to_a][..], &[denied, "no interface is left"][..]),
        ("", vec![own("a", 1), own("b", 2), own("a", 9)], &[to_a, to_b], &[denied, "192.0.2.9"]),
        ("", vec![own("a", 1)], &[to_a, denied, "from = \"b\"\nto = \"self\""], &[]),
        ("-i b", vec![own("a", 1)], &[denied], &["destination_to"]),
        ("-i b", vec![], &[denied], &["destination_to"]),
    ] {
        let text = format!(
            "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING {test} -p tcp --dport 80 -j REDIRECT --to-ports 3128\nCOMMIT\n\
             *filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n-A FORWARD -i a -o b -j DROP\nCOMMIT\n"
        );
        let source = Source { name: "rules".to_owned(), text };
        let options = Options { addresses, ..Options::default() };
        let imported = import(Format::IptablesSave, &[source], &options).unwrap();
        let findings: Vec<String> = imported.findings.iter().map(ToString::to_string).collect();
        let all = format!("{}\n{}", imported.policy, findings.join("\n")).replace("0.0.0.0/0", "any");
        assert!(has.iter().all(|words| all.contains(words)), "{test}: {has:?} in\n{all}");
        assert!(!has_not.iter().any(|words| all.contains(words)), "{test}: {has_not:?} in\n{all}");
    }
}

/// A rule that gives nothing in the policy has a finding that says why.
#[test]
fn rules_that_give_nothing() {
    let alone = "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n@\nCOMMIT\n\
                 *filter\n:FORWARD DROP [0:0]\n#\nCOMMIT\n";
    let none = "no interface is left for it, because the rule set names none but docker0";
    for (nat, filter, expected) in [
        // Docker's, where no other interface is named: nothing of it was said.
        (
            "-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
            "",
            &["note: no interface is left", none][..],
        ),
        (
            "-A PREROUTING ! -i docker0 -p tcp --dport 80 -j DNAT --to-destination 172.17.0.2",
            "",
            &["note", none],
        ),
        (
            "-A POSTROUTING -o docker0 -j ACCEPT",
            "",
            &["it exempts packets that no rule behind it translates"],
        ),
        (
            "-A INPUT -s 10.0.0.0/8 -j SNAT --to-source 10.0.0.1",
            "",
            &["of packets to the machine itself no source"],
        ),
        (
            "",
            "-A FORWARD -i docker0 ! -o docker0 -j ACCEPT",
            &["left out (less is allowed): no interface", none],
        ),
        ("", "-A FORWARD -i docker0 ! -o docker0 -j DROP", &["note: no interface is left"]),
        ("", "-A FORWARD -i docker0 -p tcp -j MARK --set-mark 1", &["it decides nothing"]),
        ("", "-A FORWARD -i docker0 -p tcp -j LOG", &["it is not logged here"]),
        ("", "-A FORWARD -i docker0 -m state --state INVALID -j DROP", &["drops what fits to no flow"]),
        ("", "-A FORWARD -i docker0 -m state --state ESTABLISHED -j DROP", &["answers pass with their flow"]),
        ("", "-A FORWARD -i docker0 -f -j DROP", &["no later fragment"]),
        ("", "-A FORWARD -6 -i docker0 -j ACCEPT", &["the other family"]),
        (
            "",
            ":own - [0:0]\n-A own -j LOG\n-A FORWARD -i docker0 -j own",
            &["the chain that it leads to decides"],
        ),
        ("", ":own - [0:0]\n-A own -i docker0 -j ACCEPT", &["nothing jumps to this chain"]),
    ] {
        let text = alone.replace('@', nat).replace('#', filter);
        becomes(Format::IptablesSave, text, &format!("{nat}{filter}"), expected, &["[[rules]]", "[[nat]]"]);
    }
    for (rule, expected) in [
        ("ip saddr { } accept", "a set has nothing in it"),
        ("flow add @f", "it decides nothing"),
        ("jump c2\n }\n chain c2 {\n  counter", "the chain that it leads to decides nothing"),
        (
            "counter\n }\n}\ntable arp a {\n chain c {\n  type filter hook input priority 0\n  arp operation request drop",
            "judge ARP",
        ),
    ] {
        passes(rule, &[expected], &["[[rules]]"]);
    }
}

#[test]
fn what_is_not_understood_allows_nothing() {
    let allows = ["action = \"allow\""];
    for (lines, has, has_not) in [
        // A rule that accepts some of what it says.
        ("-A FORWARD -p tcp -m owner --uid-owner 0 -j ACCEPT", &["left out"][..], &allows[..]),
        ("-A FORWARD -m unheard -j ACCEPT", &["left out"], &allows),
        ("-A FORWARD -p tcp --dport nobody-knows -j ACCEPT", &["left out"], &allows),
        ("-A FORWARD -s host.example -j ACCEPT", &["left out"], &allows),
        ("-A FORWARD -m addrtype --dst-type LOCAL -j ACCEPT", &[], &allows),
        // A rule that drops some of it stands before one that accepts.
        (
            "-A FORWARD -p tcp -m string --string x --algo bm -j DROP\n-A FORWARD -p tcp -j ACCEPT",
            &["refuses more", "service = \"tcp\"\naction = \"deny\""],
            &[],
        ),
        ("-A FORWARD -j TARPIT\n-A FORWARD -j ACCEPT", &["TARPIT", "action = \"deny\""], &[]),
        // A jump that is taken sometimes: what the chain accepts is not carried over, what it drops is.
        (
            "-A mine -p udp -j ACCEPT\n-A mine -p sctp -j DROP\n-A FORWARD -m mark --mark 1 -j mine",
            &["left out", "service = \"sctp\"\naction = \"deny\""],
            &allows,
        ),
        // Some packets return, and whether those that stay were accepted nobody knows.
        (
            "-A mine -m mark --mark 1 -j RETURN\n-A mine -p udp -j ACCEPT\n-A FORWARD -j mine",
            &["left out"],
            &allows,
        ),
        (
            "-A mine -m mark --mark 1 -g mine2\n-A mine -p udp -j ACCEPT\n-A FORWARD -j mine",
            &["not known"],
            &[],
        ),
        // The same before a drop, as OpenWrt limits handshakes: it is said that all are denied.
        (
            "-A mine -m limit --limit 25/second -j RETURN\n-A mine -j DROP\n-A FORWARD -p tcp -j mine",
            &["refuses more than the original: a rule before it", "service = \"tcp\"\naction = \"deny\""],
            &[],
        ),
        // The same, with a return that is understood.
        (
            "-A mine -s 10.0.0.0/8 -j RETURN\n-A mine -p udp -j ACCEPT\n-A FORWARD -j mine",
            &[
                "source = [\"0.0.0.0-9.255.255.255\", \"11.0.0.0-255.255.255.255\"]\nservice = \"udp\"\naction = \"allow\"",
            ],
            &[],
        ),
    ] {
        forward(lines, has, has_not);
    }
}

#[test]
fn a_limit_holds_if_no_later_chain_can_drop() {
    let later = |rule: &str| {
        format!(
            "-A FORWARD -p icmp -m limit --limit 5/second -j ACCEPT\nCOMMIT\n*mangle\n:POSTROUTING ACCEPT [0:0]\n{rule}"
        )
    };
    let (kept, lost) = ("limit = { rate = \"5/s\"", "together with the rules of another chain");
    forward(&later("-A POSTROUTING -p tcp -j MARK --set-mark 1"), &[kept], &[lost]);
    forward(&later("-A POSTROUTING -s 192.0.2.1 -j DROP"), &[lost], &[kept]);
}

#[test]
fn more_interfaces_than_a_policy_can_tell_apart() {
    for (interfaces, expected) in [(100, "at most 63 zones"), (200, "more than 127 interfaces")] {
        let lines: String =
            (0..interfaces).map(|i| format!("-A FORWARD -i e{i} -s 10.0.0.{i} -j ACCEPT\n")).collect();
        let text = format!("*filter\n:FORWARD DROP [0:0]\n{lines}COMMIT\n");
        refused(Format::IptablesSave, &text, expected);
    }
}

#[test]
fn comments_and_names_cannot_forge_lines() {
    forward(
        "-A FORWARD -m comment --comment \"x\u{2028}\u{85}\r\u{1b}[2J \\\"]\u{7f}\" -j ACCEPT",
        &["description = \"x\\\\u{2028}\\\\u{85}\\\\u{d}\\\\u{1b}[2J \\\"]\\\\u{7f}\""],
        &["\u{2028}", "\u{1b}", "\r", "\u{85}"],
    );
    forward("-A FORWARD -i \"e\\\"]\\n\" -j ACCEPT", &["interfaces = [\"e\\\"]n\"]"], &[]);
    forward(
        "-A FORWARD -i e/0 -p tcp -j ACCEPT",
        &["the interfaces `e/0` are in no zone"],
        &["action = \"allow\""],
    );
}

#[test]
fn answers_that_the_original_drops() {
    let table = |lines: &str| Source {
        name: "rules".to_owned(),
        text: format!(
            "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n{lines}\nCOMMIT\n"
        ),
    };
    for (lines, answers, allowed) in [
        ("-A FORWARD -p tcp --dport 80 -j ACCEPT", false, 0),
        ("-A FORWARD -p tcp --dport 80 -j ACCEPT", true, 1),
        ("-A FORWARD -p tcp --dport 80 -j ACCEPT\n-A FORWARD -p tcp --sport 80 -j ACCEPT", false, 2),
        ("-A FORWARD -s 10.0.0.0/8 -j ACCEPT\n-A FORWARD -d 10.0.0.0/8 -j ACCEPT", false, 2),
        ("-A FORWARD -p icmp --icmp-type 8 -j ACCEPT\n-A FORWARD -p icmp --icmp-type 0 -j ACCEPT", false, 2),
        ("-A FORWARD -p icmp --icmp-type 8 -j ACCEPT", false, 0),
        ("-A OUTPUT -m state --state ESTABLISHED -j ACCEPT\n-A INPUT -p tcp --dport 22 -j ACCEPT", false, 1),
        ("-A INPUT -m state --state ESTABLISHED -j ACCEPT\n-A INPUT -p tcp --dport 22 -j ACCEPT", false, 0),
    ] {
        let options = Options { answers, ..Options::default() };
        let imported = import(Format::IptablesSave, &[table(lines)], &options).unwrap();
        let count = imported.policy.matches("action = \"allow\"").count();
        assert_eq!(count, allowed, "{lines}\n{}", imported.policy);
        assert_eq!(
            imported.findings.iter().any(|finding| finding.why.contains("answers")),
            !answers && allowed == 0,
            "{lines}"
        );
    }
}

#[test]
fn a_hundred_thousand_rules_in_a_moment() {
    let mut text = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n\
                    -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
        .to_owned();
    for i in 0..100_000_u32 {
        let (a, b, target) = (i >> 8, i & 0xff, if i % 3 == 0 { "DROP" } else { "ACCEPT" });
        text += &format!(
            "-A FORWARD -s 10.{}.{}.{b}/32 -p tcp -m tcp --dport {} -j {target}\n",
            a >> 8,
            a & 0xff,
            i % 60_000
        );
    }
    text += "COMMIT\n";
    let source = Source { name: "rules".to_owned(), text };
    let imported = import(Format::IptablesSave, &[source], &Options::default()).unwrap();
    assert_eq!(imported.policy.matches("[[rules]]").count(), 100_000);
    assert!(imported.is_exact(), "{:?}", &imported.findings[..3]);
}

#[test]
fn a_host_of_containers_and_virtual_machines() {
    check("docker", Format::IptablesSave, &["docker.iptables"], &Options::default());
    // With its addresses, what is forwarded to containers is translated, and not denied.
    let own = |address: &str, length| Own { interface: None, address: address.parse().unwrap(), length };
    let addresses = vec![own("203.0.113.7", 24), own("172.17.0.1", 16)];
    let options = Options { addresses, ..Options::default() };
    check("docker_addresses", Format::IptablesSave, &["docker.iptables"], &options);
}

#[test]
fn a_router_by_a_script_of_nftables() {
    check("script", Format::Nft, &["script.nft"], &Options::default());
}

/// A host of a newer Docker, which drops what is sent to containers past its translations.
#[test]
fn a_host_that_closes_its_containers() {
    check("docker28", Format::IptablesSave, &["docker28.iptables"], &Options::default());
}

#[test]
fn a_machine_with_ufw() {
    check("ufw", Format::IptablesSave, &["ufw.iptables"], &Options::default());
}

#[test]
fn a_router_of_nftables() {
    check("router_nft", Format::Nft, &["router.nft"], &Options::default());
}
