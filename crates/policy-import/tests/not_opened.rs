//! Rule sets that people write and that mean less than a hasty reader takes them for: what they deny, no policy may allow.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounts;
mod by_hand;

use policy_import::{Format, Options, Source};

fn source(text: &str) -> Source {
    Source { name: "rules".to_owned(), text: text.to_owned() }
}

/// What a text becomes has these words, in the policy or in what is said of it, and the policy has not those.
fn becomes(format: Format, texts: &[&str], has: &[&str], has_not: &[&str]) {
    let sources: Vec<Source> = texts.iter().map(|text| source(text)).collect();
    let options = Options { interfaces: vec!["eth0".to_owned()], answers: true, ..Options::default() };
    let imported = accounts::import(format, &sources, &options, false).unwrap();
    let said: String = imported.findings.iter().map(|finding| format!("{finding}\n")).collect();
    for words in has {
        assert!(
            imported.policy.contains(words) || said.contains(words),
            "{words}\n{texts:?}\n{}{said}",
            imported.policy
        );
    }
    for words in has_not {
        let written = imported.policy.lines().filter(|line| !line.starts_with('#'));
        let written: Vec<&str> = written.collect();
        assert!(!written.join("\n").contains(words), "{words}\n{texts:?}\n{}{said}", imported.policy);
    }
}

fn refused(format: Format, text: &str, expected: &str) {
    let mistake = policy_import::import(format, &[source(text)], &Options::default()).unwrap_err();
    assert!(mistake.to_string().contains(expected), "{text}\n{mistake}");
}

const ALLOW: &str = "action = \"allow\"";
const DENY: &str = "action = \"deny\"";

/// A rule of a chain that drops what its rules leave.
fn forward(rule: &str) -> String {
    format!(
        "table inet t {{\nchain c {{\ntype filter hook forward priority 0; policy drop;\n{rule}\n}}\nchain i {{ type filter hook input priority 0; policy drop; }}\nchain o {{ type filter hook output priority 0; policy drop; }}\n}}\n"
    )
}

/// The same of one that accepts it.
fn open(rule: &str) -> String {
    forward(rule).replace("forward priority 0; policy drop", "forward priority 0; policy accept")
}

#[test]
fn a_match_behind_a_statement() {
    for statement in [
        "counter packets 0 bytes 0",
        "counter",
        "log prefix \"x\" level warn",
        "log flags tcp sequence,options",
        "limit rate 5/second burst 5 packets",
        "last used never",
        "meta mark set 0x1",
        "ct mark set mark",
    ] {
        // What is understood narrows the rule, and what is not leaves it out.
        becomes(
            Format::Nft,
            &[&forward(&format!("{statement} ip saddr 10.0.0.1 accept"))],
            if statement == "ct mark set mark" {
                &["source = \"10.0.0.1\""]
            } else {
                &["source = \"10.0.0.1\"", ALLOW]
            },
            &[],
        );
        for unknown in ["ether saddr 00:11:22:33:44:55", "@th,16,16 22", "iifgroup 5", "socket mark 1"] {
            let rule = format!("{statement} {unknown} accept");
            becomes(Format::Nft, &[&forward(&rule)], &["left out"], &[ALLOW]);
        }
    }
    becomes(Format::Nft, &[&forward("quota until 5 mbytes accept")], &["quota until"], &[ALLOW]);
}

#[test]
fn all_protocols_but_some_are_ranges() {
    for (rule, has) in [
        ("meta l4proto != tcp drop", "[\"protocol/0-5\", \"protocol/7-255\"]"),
        ("meta l4proto != { 0, 2, 254, 255 } drop", "[\"icmp\", \"protocol/3-253\"]"),
        ("meta l4proto { 41, 42 } drop", "[\"protocol/41\", \"protocol/42\"]"),
        ("tcp dport != 22 drop", "[\"tcp/0-21\", \"tcp/23-65535\"]"),
    ] {
        becomes(Format::Nft, &[&open(rule)], &[has, DENY], &[]);
    }
}

/// No policy may name them, because no packet has them.
#[test]
fn addresses_of_ipv4_written_as_ipv6() {
    for text in ["::ffff:10.0.0.1", "::ffff:10.0.0.0/104", "{ ::ffff:10.0.0.1, 2001:db8::1 }"] {
        becomes(
            Format::Nft,
            &[&forward(&format!("ip6 saddr {text} accept"))],
            &["::ffff:10"],
            &["= \"::ffff"],
        );
        becomes(
            Format::Nft,
            &[&open(&format!("ip6 saddr {text} drop"))],
            &[ALLOW],
            &["\"::ffff", "from = \"any\"\nto = \"any\"\naction = \"deny\""],
        );
    }
    becomes(Format::Nft, &[&open("ip6 saddr ::ffff:0:0/96 drop")], &[DENY, "::ffff:0:0/96"], &[]);
}

/// `add @seen { ip saddr }` is for IPv4, and for what finds room in the set.
#[test]
fn a_statement_at_which_a_rule_may_end() {
    let sets = "table inet t {\nset seen { type ipv4_addr; flags dynamic; size 5; }\nset pairs { type ipv4_addr . inet_service; flags dynamic; }\n\
                map marks { type ipv4_addr : mark; elements = { 10.0.0.1 : 2 } }\nflowtable f { hook ingress priority 0; devices = { eth0 }; }\n";
    for statement in [
        "add @seen { ip saddr }",
        "update @seen { ip saddr timeout 1m }",
        "delete @seen { ip saddr }",
        "add @pairs { ip saddr . tcp dport }",
        "add @seen { ip saddr limit rate 5/second }",
        "flow add @f",
        "meta mark set ip saddr map { 10.0.0.1 : 2 }",
        "meta mark set ip saddr map @marks",
        "ct mark set ip saddr map @marks",
        "meta mark set ip dscp",
        "meta mark set jhash ip saddr mod 4",
        "meta mark set ct mark",
        "ct zone set iif map { \"eth0\" : 1 }",
        "meta priority set ip dscp map { af11 : 1:2 }",
        "tcp option maxseg size set 1400",
    ] {
        let text = |rule: &str| forward(&format!("{statement} {rule}")).replace("table inet t {\n", sets);
        becomes(Format::Nft, &[&text("accept")], &["left out"], &[ALLOW]);
        becomes(Format::Nft, &[&text("ip saddr 10.0.0.1 accept")], &["left out"], &[ALLOW]);
        // What is dropped may be more.
        let open = |rule: &str| {
            text(rule).replace("forward priority 0; policy drop", "forward priority 0; policy accept")
        };
        becomes(Format::Nft, &[&open("udp dport 53 drop")], &[DENY, "refuses more"], &[]);
        // Without a verdict nothing hangs on it.
        becomes(Format::Nft, &[&open("")], &[ALLOW], &[DENY]);
    }
    for statement in [
        "meta mark set 0x1",
        "meta mark set meta mark | 0x1",
        "meta priority set 1:2",
        "ct helper set \"ftp\"",
    ] {
        becomes(Format::Nft, &[&forward(&format!("{statement} accept"))], &[ALLOW], &["left out"]);
    }
}

#[test]
fn what_nftables_does_by_other_means() {
    for (rule, said) in [
        ("tcp dport 22 counter packets 0 bytes 0 xt target \"REJECT\"", "the target REJECT"),
        ("xt match \"string\" counter xt target \"DNAT\"", "the target DNAT"),
        ("ip daddr set 10.0.0.5", "the statement ip daddr set 10.0.0.5"),
        ("mark 5 tcp dport set 80", "the statement tcp dport set 80"),
        ("@nh,128,32 set 0x0a000001", "the statement @nh , 128 , 32 set"),
    ] {
        becomes(Format::Nft, &[&open(rule)], &[said, DENY], &[]);
    }
    becomes(Format::Nft, &[&open("tcp dport 22 xt target \"LOG\"")], &[ALLOW], &[DENY]);
    refused(
        Format::Nft,
        &open("tcp dport 22 # xt_comment counter packets 0 bytes 0 drop"),
        "rules:4:14: nft has no words for what stands here",
    );
    // People's own comments are none of nft's.
    becomes(Format::Nft, &[&open("tcp dport 22 drop # about xt_comment")], &[DENY], &[]);
}

#[test]
fn tables_that_are_opened_again() {
    let first = "table inet t {\nset s { type ipv4_addr; elements = { 10.0.0.1 } }\nchain c {\ntype filter hook forward priority 0; policy accept;\n}\n}\n";
    let second = "table inet t {\nset s { type ipv4_addr; elements = { 10.0.0.3 } }\nchain c {\nip saddr @s drop\n}\n}\n";
    let both = "source = [\"10.0.0.1\", \"10.0.0.3\"]";
    becomes(Format::Nft, &[&[first, second].concat()], &[both, DENY], &[]);
    becomes(Format::Nft, &[first, second], &[both, DENY], &[]);
    // The hook again, with another policy.
    let closed = "table inet t {\nchain c {\ntype filter hook forward priority 0; policy drop;\n}\n}\n";
    becomes(
        Format::Nft,
        &[&[first, closed].concat()],
        &["is denied"],
        &["from = \"any\"\nto = \"any\"\naction = \"allow\""],
    );
    // A table of another family is another one.
    becomes(
        Format::Nft,
        &[&[
            first,
            &second
                .replace("inet", "ip")
                .replace("chain c {", "chain c { type filter hook forward priority 1;"),
        ]
        .concat()],
        &["source = \"10.0.0.3\""],
        &["10.0.0.1"],
    );
    for (text, expected) in [
        (
            first.replace("policy accept", "policy accept;\n}\nchain c {\ntype filter hook input priority 0"),
            "rules:7:1: this chain stands above with another hook",
        ),
        (
            [first, "flush table inet t\n"].concat(),
            "rules:7:1: `flush table inet t` takes away what stands above it",
        ),
        ([first, "delete table inet t\n"].concat(), "takes away what stands above it"),
        ([first, "flush ruleset\n"].concat(), "takes away what stands above it"),
        ([first, "flush chain inet t c\n"].concat(), "takes away what stands above it"),
        (first.replace("set s", "flags dormant;\nset s"), "rules:2:1: the table is dormant"),
    ] {
        refused(Format::Nft, &text, expected);
    }
    // The ways of beginning anew.
    for before in [
        "flush ruleset\n",
        "table inet t\ndelete table inet t\n",
        "table inet t {}\nflush table inet t;\n",
        "add table inet t\ndelete table inet t\n",
        "table ip x { chain y { } }\nflush table inet t\n",
    ] {
        becomes(Format::Nft, &[&[before, first, second].concat()], &[both, DENY], &[]);
    }
}

#[test]
fn what_a_map_says_of_all_others() {
    for elements in ["\"eth0\" : drop, * : accept", "* : accept, \"eth0\" : drop"] {
        let policy = forward(&format!("iifname vmap {{ {elements} }}"));
        let options = Options { answers: true, interfaces: vec!["eth1".to_owned()], ..Options::default() };
        let imported = accounts::import(Format::Nft, &[source(&policy)], &options, false).unwrap();
        let denied = imported.policy.find(DENY).unwrap();
        assert!(denied < imported.policy.find(ALLOW).unwrap(), "{elements}\n{}", imported.policy);
    }
}

#[test]
fn what_is_not_tracked_is_not_new() {
    let table = |raw: &str, filter: &str, policy: &str| {
        format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING {raw}\nCOMMIT\n*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp --dport 25 -j DNAT --to-destination 10.0.0.5\nCOMMIT\n\
             *filter\n:INPUT DROP [0:0]\n:FORWARD {policy} [0:0]\n:OUTPUT DROP [0:0]\n-A FORWARD {filter}\nCOMMIT\n"
        )
    };
    let new = "-p udp --dport 53 -m conntrack --ctstate NEW -j ACCEPT";
    let untracked = "-p udp --dport 53 -m conntrack --ctstate UNTRACKED -j DROP";
    for (raw, filter, policy, has, has_not) in [
        ("-p udp --dport 53 -j NOTRACK", new, "DROP", "left out", ALLOW),
        ("-p udp --dport 53 -j CT --notrack", new, "DROP", "left out", ALLOW),
        ("-p udp -j CT --notrack", new, "DROP", "left out", ALLOW),
        ("-p udp --dport 53 -j CT --helper tftp", new, "DROP", ALLOW, "left out"),
        ("-p udp --dport 54 -j NOTRACK", new, "DROP", ALLOW, "left out"),
        (
            "-p udp --dport 53 -j NOTRACK",
            untracked,
            "ACCEPT",
            "service = \"udp/53\"\naction = \"deny\"",
            "left out",
        ),
        (
            "-p tcp --dport 25 -j NOTRACK",
            new,
            "DROP",
            "this translation is not carried over",
            "destination_to",
        ),
    ] {
        becomes(Format::IptablesSave, &[&table(raw, filter, policy)], &[has], &[has_not]);
    }
    let nft =
        "table ip r {\nchain p {\ntype filter hook prerouting priority raw;\nudp dport 53 notrack\n}\n}\n";
    let accepts = forward("udp dport 53 ct state new accept");
    becomes(Format::Nft, &[&[nft, &accepts].concat()], &["left out"], &[ALLOW]);
    becomes(Format::Nft, &[&accepts], &[ALLOW], &[]);
}

#[test]
fn limits_that_nobody_wrote_or_wrote_twice() {
    let table = |rule: &str| {
        format!(
            "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n-A FORWARD {rule}\nCOMMIT\n"
        )
    };
    let per_source = "-m hashlimit --hashlimit-upto 9/sec --hashlimit-mode srcip --hashlimit-name x";
    for (rule, has, has_not) in [
        // iptables' own: three an hour.
        ("-m limit -j ACCEPT".to_owned(), "3/h", "left out"),
        ("-m limit --limit 5/sec -j ACCEPT".to_owned(), "5/s", "left out"),
        (format!("{per_source} -j ACCEPT"), "9/s", "left out"),
        (format!("-m limit --limit 1/min {per_source} -j ACCEPT"), "two limits", ALLOW),
        (format!("-m limit {per_source} -j ACCEPT"), "two limits", ALLOW),
        ("-m limit --limit 1/min -m limit --limit 9/sec -j ACCEPT".to_owned(), "left out", ALLOW),
    ] {
        becomes(Format::IptablesSave, &[&table(&rule)], &[has], &[has_not]);
    }
}

#[test]
fn a_table_of_iptables_that_is_restored_twice() {
    let table = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    let text = [table, "*filter\n:INPUT DROP [0:0]\nCOMMIT\n"].concat();
    refused(Format::IptablesSave, &text, "rules:5:2: the table `filter` stands above already");
}

/// As /etc/protocols has it, by which iptables and nft write the names.
#[test]
fn protocols_whose_names_are_alike() {
    for (name, number) in [("ipencap", 4), ("ipip", 94), ("ipv6", 41), ("ipv6-icmp", 58)] {
        let rule = format!("meta l4proto {name} accept");
        let service = match number {
            58 => "service = \"icmpv6\"".to_owned(),
            number => format!("service = \"protocol/{number}\""),
        };
        becomes(Format::Nft, &[&forward(&rule)], &[&service], &[]);
    }
}

#[test]
fn priorities_before_a_translation() {
    for (priority, is_before) in [
        ("filter -110", true),
        ("filter - 110", true),
        ("-110", true),
        ("filter -90", false),
        ("dstnat +1", false),
    ] {
        let nat = "table ip n {\nchain p {\ntype nat hook prerouting priority dstnat;\ntcp dport 80 dnat to 10.0.0.5\n}\n}\n";
        let drops = format!(
            "table ip r {{\nchain r {{\ntype filter hook prerouting priority {priority};\nip daddr 203.0.113.7 drop\n}}\n}}\n"
        );
        let text = [nat, &drops, &open("tcp dport 80 accept")].concat();
        let said =
            if is_before { "a destination before it is translated" } else { "destination = \"203.0.113.7\"" };
        becomes(Format::Nft, &[&text], &[said], &[]);
    }
}

/// nft and iptables read `010` as 8 and `0x16` as 22, and iptables the type 255 of ICMP as any.
#[test]
fn numbers_that_are_not_what_they_look_like() {
    for words in [
        "tcp dport 010",
        "tcp dport { 80, 010-020 }",
        "udp sport 010",
        "tcp dport 0x16",
        "meta l4proto 017",
        "icmp type 010",
        "icmp type echo-request icmp code 010",
        "ip saddr 10.0.0.0/010",
        "ip saddr 010.0.0.1",
        "limit rate 010/second",
        "iif 2",
        "iif != 2",
        "oif { 2, 3 }",
    ] {
        becomes(Format::Nft, &[&forward(&format!("{words} accept"))], &["left out"], &[ALLOW]);
        if !words.starts_with("limit") {
            becomes(Format::Nft, &[&open(&format!("{words} drop"))], &[DENY, "refuses more"], &[]);
        }
    }
    let table = |policy: &str, rule: &str| {
        format!(
            "*filter\n:INPUT DROP [0:0]\n:FORWARD {policy} [0:0]\n:OUTPUT DROP [0:0]\n-A FORWARD {rule}\nCOMMIT\n"
        )
    };
    for words in [
        "-p tcp --dport 010",
        "-p tcp -m multiport --dports 80,011:012",
        "-p 010",
        "-p icmp -m icmp --icmp-type 010",
        "-p icmp -m icmp --icmp-type 3/04",
        "-s 10.0.0.0/010",
        "-m limit --limit 010/sec",
        "-m limit --limit 5/sec --limit-burst 010",
    ] {
        let accepts = table("DROP", &format!("{words} -j ACCEPT"));
        becomes(Format::IptablesSave, &[&accepts], &["left out"], &[ALLOW]);
        let drops = table("ACCEPT", &format!("{words} -j DROP"));
        becomes(Format::IptablesSave, &[&drops], &[DENY, "refuses more"], &[]);
    }
    for (kind, has, has_not) in [
        ("--icmp-type 255", "service = \"icmp\"\naction = \"deny\"", "icmp/255"),
        ("--icmp-type 255/3", "service = \"icmp\"\naction = \"deny\"", "icmp/255"),
        ("! --icmp-type 255", "no packet", DENY),
    ] {
        let drops = table("ACCEPT", &format!("-p icmp -m icmp {kind} -j DROP"));
        becomes(Format::IptablesSave, &[&drops], &[has], &[has_not]);
    }
    let forwards = "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp --dport 25 -j DNAT --to-destination 10.0.0.5:0031\nCOMMIT\n";
    let text = [forwards, &table("ACCEPT", "-s 10.0.0.9 -j DROP")].concat();
    becomes(Format::IptablesSave, &[&text], &["this translation is not carried over"], &["destination_to"]);
}

/// As nft lists them: rules between the braces of a jump.
#[test]
fn chains_without_a_name() {
    let text = forward(
        "tcp dport { 22,\n80 } jump {\nip saddr { 10.0.0.1,\n10.0.0.2 } accept\nudp dport 53 jump { accept; }\ndrop\n}\ntcp dport 23 goto { ip saddr 10.0.0.9 accept; }\naccept",
    );
    let imported = |text: &str| {
        let options = Options { interfaces: vec!["eth0".to_owned()], answers: true, ..Options::default() };
        accounts::import(Format::Nft, &[source(text)], &options, false)
    };
    let policy = imported(&text).unwrap().policy;
    let rules: Vec<&str> = policy
        .lines()
        .filter(|line| ["source = ", "service = ", "action = "].iter().any(|key| line.starts_with(key)))
        .collect();
    let services = "service = [\"tcp/22\", \"tcp/80\"]";
    let expected = [
        "source = \"10.0.0.1-10.0.0.2\"",
        services,
        ALLOW,
        services,
        DENY,
        "source = \"10.0.0.9\"",
        "service = \"tcp/23\"",
        ALLOW,
        "service = \"tcp/23\"",
        DENY,
        // What comes to the end of a jump goes on behind it, and of a goto it does not.
        "service = [\"protocol/0-5\", \"tcp/0-22\", \"tcp/24-65535\", \"protocol/7-255\"]",
        ALLOW,
    ];
    assert_eq!(rules, expected, "{policy}");
    // What is not understood before the braces holds for what is between them.
    becomes(Format::Nft, &[&forward("meta mark 5 jump { tcp dport 22 accept; }")], &["left out"], &[ALLOW]);
    let deep = format!("{}accept{}", "jump { ".repeat(20), " }".repeat(20));
    refused(Format::Nft, &forward(&deep), "more than 16 chains stand within each other");
}

/// A list of addresses in a text of its own, and a chain in another: nft has them all when it asks the rules.
#[test]
fn what_is_declared_behind_its_rules() {
    let first = "table inet t {\nset s { type ipv4_addr; elements = { 10.0.0.1 } }\nchain c {\ntype filter hook forward priority 0; policy accept;\nip saddr @s drop\ntcp dport 23 jump late\n}\n}\n";
    let second =
        "table inet t {\nset s { type ipv4_addr; elements = { 10.0.0.3 } }\nchain late { drop; }\n}\n";
    let has = ["source = [\"10.0.0.1\", \"10.0.0.3\"]", "service = \"tcp/23\"", DENY];
    becomes(Format::Nft, &[&[first, second].concat()], &has, &[]);
    becomes(Format::Nft, &[first, second], &has, &[]);
    let text = first.replace("set s { type ipv4_addr; elements = { 10.0.0.1 } }\n", "");
    refused(
        Format::Nft,
        &(text + &second.replace("set s ", "set r ")),
        "rules:4:10: the table has no set `s`",
    );
}

/// Port knocking, and a list of those who knocked too often: what rules add is not in the text, whatever the set is declared as.
#[test]
fn sets_that_rules_change() {
    for statement in [
        "add @seen { ip saddr }",
        "update @seen { ip saddr timeout 1m }",
        "delete @seen { ip saddr }",
        "set update ip saddr @seen",
    ] {
        let text = |text: String| {
            let set = "table inet t {\nset seen { type ipv4_addr; elements = { 10.0.0.1 } }\n";
            let knocks = format!(
                "chain k {{\ntype filter hook prerouting priority -150;\ntcp dport 7000 {statement}\n}}\n"
            );
            text.replace("table inet t {\n", &[set, &knocks].concat())
        };
        becomes(
            Format::Nft,
            &[&text(forward("ip saddr @seen accept"))],
            &["packets or time change"],
            &[ALLOW],
        );
        becomes(
            Format::Nft,
            &[&text(forward("ip saddr != @seen accept"))],
            &["packets or time change"],
            &[ALLOW],
        );
        let denies = text(open("ip saddr @seen drop"));
        becomes(Format::Nft, &[&denies], &[DENY, "refuses more"], &["source = \"10.0.0.1\""]);
    }
    let text = forward("ip saddr @seen accept").replace(
        "table inet t {\n",
        "table inet t {\nset seen { type ipv4_addr; elements = { 10.0.0.1 } }\n",
    );
    becomes(Format::Nft, &[&text], &["source = \"10.0.0.1\"", ALLOW], &["left out"]);
}

/// A limit is of all that stands behind it.
#[test]
fn limits_before_a_map_of_verdicts() {
    for before in [
        "limit rate 5/second",
        "limit rate 5/second log prefix \"x\"",
        "log prefix \"x\" limit rate 5/second",
        "log limit rate 5/second counter",
    ] {
        for map in ["tcp dport vmap { 22 : accept }", "ip saddr . tcp dport vmap { 10.0.0.1 . 22 : accept }"]
        {
            let accepts = forward(&format!("{before} {map}"));
            becomes(Format::Nft, &[&accepts], &["a limit", "left out"], &[ALLOW]);
            let drops = open(&format!("{before} {}", map.replace("accept", "drop")));
            becomes(Format::Nft, &[&drops], &[DENY, "refuses more"], &[]);
        }
    }
    becomes(Format::Nft, &[&open("log prefix \"x\" limit rate 5/second")], &[ALLOW], &[DENY]);
}

/// Rules that name one limit have it together.
#[test]
fn limits_that_several_rules_have() {
    let table = |rules: &[String]| {
        let rules: String = rules.iter().map(|rule| format!("-A FORWARD {rule}\n")).collect();
        format!("*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n{rules}COMMIT\n")
    };
    let rule = |port: u16, name: &str, target: &str| {
        format!(
            "-p tcp -m tcp --dport {port} -m hashlimit --hashlimit-upto 9/sec --hashlimit-mode srcip --hashlimit-name {name} -j {target}"
        )
    };
    for (rules, has, has_not) in [
        ([rule(22, "x", "ACCEPT"), rule(80, "x", "ACCEPT")], "that other rules have together with it", ALLOW),
        ([rule(22, "x", "LOG"), rule(80, "x", "ACCEPT")], "that other rules have together with it", ALLOW),
        ([rule(22, "x", "ACCEPT"), rule(80, "y", "ACCEPT")], "9/s", "left out"),
    ] {
        becomes(Format::IptablesSave, &[&table(&rules)], &[has], &[has_not]);
    }
}

/// ufw has one list of sources for all of its limited rules.
#[test]
fn limits_of_ufw_are_one() {
    let text = |ports: u16| {
        let limited = |port: u16| {
            let new = format!("-A ufw-user-input -p tcp --dport {port} -m conntrack --ctstate NEW -m recent");
            format!(
                "{new} --set\n{new} --update --seconds 30 --hitcount 6 -j ufw-user-limit\n-A ufw-user-input -p tcp --dport {port} -j ufw-user-limit-accept\n"
            )
        };
        let rules: String = (0..ports).map(|port| limited(port + 22)).collect();
        let chains = ["input", "output", "forward", "limit", "limit-accept"]
            .map(|chain| format!(":ufw-user-{chain} - [0:0]\n"));
        format!(
            "*filter\n{}{rules}-A ufw-user-limit -j REJECT\n-A ufw-user-limit-accept -j ACCEPT\nCOMMIT\n",
            chains.concat()
        )
    };
    for (ports, has) in [
        (1, "limit = { rate = \"6/min\", burst = 2, per = \"source\" }"),
        (2, "limit = { rate = \"3/min\", burst = 1, per = \"source\" }"),
        (3, "limit = { rate = \"1/min\", burst = 1, per = \"source\" }"),
        (5, "at the 5 limited rules together"),
    ] {
        becomes(Format::Ufw, &[&text(ports)], &[has, "denies the sixth"], &["action = \"reject\""]);
    }
    // One connection at each of six would be more than five.
    becomes(Format::Ufw, &[&text(6)], &["action = \"reject\"", "refuses more"], &["limit = {"]);
}

/// A reset answers TCP alone, and an error of ICMP its own family: other packets go on to the next rule.
#[test]
fn answers_that_say_what_they_answer() {
    for (answer, has, has_not) in [
        ("reject with tcp reset", "service = \"tcp\"\naction = \"reject\"", "destination ="),
        (
            "reject with icmp type port-unreachable",
            "destination = \"0.0.0.0/0\"\naction = \"reject\"",
            "service =",
        ),
        ("reject with icmpv6 type no-route", "destination = \"::/0\"\naction = \"reject\"", "service ="),
        ("reject with icmpx type admin-prohibited", "to = \"any\"\naction = \"reject\"", "service ="),
        ("reject", "to = \"any\"\naction = \"reject\"", "destination ="),
    ] {
        becomes(Format::Nft, &[&open(answer)], &[has], &[has_not]);
    }
}
