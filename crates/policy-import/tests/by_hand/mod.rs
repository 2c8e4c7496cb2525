//! What people write by hand and no program prints: options in any order, scripts of commands, names for values, sets beside the rules.

use super::{ALLOW, DENY, accounts, becomes, forward, open, refused, source};
use policy_import::{Format, Options};

/// iptables takes its options in any order, values right behind the letter or an equals sign, and options that are cut.
#[test]
fn what_a_rule_matches_may_stand_behind_its_target() {
    let table = |policy: &str, rules: &str| {
        format!(
            "*filter\n:INPUT DROP [0:0]\n:FORWARD {policy} [0:0]\n:OUTPUT DROP [0:0]\n:mine - [0:0]\n-A mine -j ACCEPT\n-A FORWARD {rules}\nCOMMIT\n"
        )
    };
    let ssh = "service = \"tcp/22\"\naction = \"allow\"";
    for rule in [
        "-j ACCEPT -p tcp --dport 22",
        "-p tcp -j ACCEPT --dport 22",
        "--jump ACCEPT -p tcp -m tcp --dport 22",
        "-j mine -p tcp --dport 22",
        "-g mine -p tcp --dport 22",
        "-ptcp --dport=22 -jACCEPT",
        "--protocol=tcp --dport=22 --jump=ACCEPT",
    ] {
        becomes(
            Format::IptablesSave,
            &[&table("DROP", rule)],
            &[ssh],
            &["to = \"any\"\ndestination = \"0.0.0.0/0\"\naction = \"allow\""],
        );
    }
    for (rule, said) in [
        ("-j ACCEPT -m mac --mac-source 00:11:22:33:44:55", "--mac-source"),
        ("-j ACCEPT --mac-source 00:11:22:33:44:55", "--mac-source"),
        ("-j RETURN -m limit --limit 3/min\n-A FORWARD -p tcp -j ACCEPT -m mark --mark 1", "--mark 1"),
    ] {
        becomes(
            Format::IptablesSave,
            &[&table("DROP", rule)],
            &[said, "left out"],
            &["eth0\"\naction = \"allow\""],
        );
    }
    let denied = "source = \"10.0.0.9\"\naction";
    for rule in [
        "-s 10.0.0.9 -jDROP",
        "-s10.0.0.9 --jump=DROP",
        "-j REJECT --reject-with icmp-host-prohibited -s 10.0.0.9",
        "-j REJECT -s 10.0.0.9 --reject-with icmp-host-prohibited",
    ] {
        becomes(Format::IptablesSave, &[&table("ACCEPT", rule)], &[denied], &[]);
    }
    for (rule, expected) in [
        ("-s 10.0.0.9 --jum DROP", "rules:7:24: `--jum` may stand for a target"),
        ("-s 10.0.0.9 --go mine", "rules:7:24: `--go` may stand for a target"),
        ("-j ACCEPT -s 10.0.0.9 -j DROP", "this is a second target"),
        ("! -j ACCEPT", "no target can be negated"),
    ] {
        refused(Format::IptablesSave, &table("ACCEPT", rule), expected);
    }
}

#[test]
fn names_that_stand_for_words() {
    let text = |defines: &str, rule: &str| format!("{defines}\n{}", forward(rule));
    let lists = "define lan = { 10.0.0.0/8, 192.168.0.0/16 }\ndefine vpn = 172.16.0.0/12\ndefine all = { $lan, $vpn }";
    for (rule, has) in [
        ("ip saddr $lan accept", "source = [\"10.0.0.0/8\", \"192.168.0.0/16\"]"),
        (
            "ip saddr { $lan, 192.0.2.1 } accept",
            "source = [\"10.0.0.0/8\", \"192.0.2.1\", \"192.168.0.0/16\"]",
        ),
        ("ip saddr $all accept", "source = [\"10.0.0.0/8\", \"172.16.0.0/12\", \"192.168.0.0/16\"]"),
    ] {
        becomes(Format::Nft, &[&text(lists, rule)], &[has, ALLOW], &["left out"]);
        // A file of definitions before the others.
        let tables = "table ip other { }\n";
        becomes(Format::Nft, &[&[lists, "\n", tables].concat(), &forward(rule)], &[has], &[]);
    }
    // What a table defines holds in it alone.
    let own = forward("ip saddr $host accept")
        .replace("table inet t {\n", "table inet t {\ndefine host = 10.0.0.1\n");
    becomes(
        Format::Nft,
        &[&["define host = 10.0.0.9\n", &own].concat()],
        &["source = \"10.0.0.1\""],
        &["10.0.0.9"],
    );
    for (text, expected) in [
        (forward("iifname != $wan accept"), "rules:4:12: nothing above defines `$wan`"),
        (
            format!("{own}table ip u {{ chain c {{ ip saddr $host drop; }} }}\n"),
            "nothing above defines `$host`",
        ),
        (["include \"more.nft\"\n", &forward("accept")].concat(), "nothing is included here"),
        (["define a = 1\nundefine a\n", &forward("accept")].concat(), "`undefine` is not understood"),
    ] {
        refused(Format::Nft, &text, expected);
    }
}

/// Scripts of commands, as most of what is written about nftables has them.
#[test]
fn commands_in_place_of_braces() {
    let script = "flush ruleset\nadd table ip nat\nadd chain nat post { type nat hook postrouting priority srcnat; policy accept; }\n\
        add rule nat post oifname \"eth1\" masquerade\nadd table inet f\nadd set inet f bad { type ipv4_addr; flags interval; }\n\
        add element inet f bad { 198.51.100.0/24, 203.0.113.9 }\nadd chain inet f forward { type filter hook forward priority 0; policy drop; }\n\
        add chain inet f mine\nadd rule inet f forward ip saddr @bad drop\nadd rule inet f forward tcp dport 22 jump mine\n\
        insert rule inet f forward ip saddr 192.0.2.1 drop\nrule inet f mine accept\n";
    let has = [
        "masquerade = true",
        "source = [\"198.51.100.0/24\", \"203.0.113.9\"]",
        "service = \"tcp/22\"\naction = \"allow\"",
    ];
    becomes(Format::Nft, &[script], &has, &["left out"]);
    let imported = accounts::import(
        Format::Nft,
        &[source(script)],
        &Options { answers: true, ..Options::default() },
        false,
    )
    .unwrap();
    let place = |words: &str| imported.policy.find(words).unwrap();
    assert!(place("source = \"192.0.2.1\"") < place("198.51.100.0/24"), "{}", imported.policy);
    for (command, expected) in [
        ("add rule inet f forward index 0 accept", "by its number is not understood"),
        ("add rule inet f nowhere accept", "the table has no chain `nowhere` above"),
        ("add rule inet g forward accept", "there is no table `inet g` above"),
        ("add element inet f good { 10.0.0.1 }", "the table has no set `good` above"),
        ("replace rule inet f forward handle 3 accept", "`replace` is nothing"),
        ("delete rule inet f forward handle 3", "takes away what stands above it"),
        ("add what inet f x", "`add what` is not understood"),
    ] {
        refused(Format::Nft, &format!("{script}{command}\n"), expected);
    }
}

#[test]
fn flags_of_tcp_as_nftables_writes_them() {
    for (flags, denies) in [
        // A first packet is never so.
        ("tcp flags & (fin | syn) == (fin | syn)", false),
        ("tcp flags & (fin | syn | rst | psh | ack | urg) == 0x0", false),
        ("tcp flags fin,rst / fin,rst", false),
        ("tcp flags != syn / fin,syn,rst,ack", false),
        ("tcp flags & (fin | syn | rst | ack) != syn", false),
        ("tcp flags & syn == 0", false),
        ("tcp flags ! syn", false),
        ("tcp flags rst", false),
        ("tcp flags == 0x0", false),
        // It always is.
        ("tcp flags syn", true),
        ("tcp flags syn,ack", true),
        ("tcp flags syn / fin,syn,rst,ack", true),
        ("tcp flags & (fin | syn | rst | ack) == syn", true),
        ("tcp flags & syn != 0", true),
        // It may be: a SYN may have what ECN uses.
        ("tcp flags == syn", true),
        ("tcp flags != syn", true),
        ("tcp flags { syn, syn | ack }", true),
        ("tcp flags & ecn == ecn", true),
    ] {
        let rule = format!("{flags} tcp dport 25 drop");
        let denied = "action = \"deny\"";
        match denies {
            true => becomes(Format::Nft, &[&open(&rule)], &[denied, "service = \"tcp"], &[]),
            false => becomes(Format::Nft, &[&open(&rule)], &[ALLOW], &[denied]),
        }
    }
    for (flags, allows) in [
        ("tcp flags syn / fin,syn,rst,ack", true),
        ("tcp flags syn", true),
        ("tcp flags == syn", false),
        ("tcp flags != syn", false),
        ("tcp flags ack", false),
        ("tcp flags & (syn | ecn) == syn", false),
        ("tcp flags syn < 5", false),
    ] {
        let rule = format!("{flags} tcp dport 25 accept");
        let allowed = "service = \"tcp/25\"\naction = \"allow\"";
        match allows {
            true => becomes(Format::Nft, &[&forward(&rule)], &[allowed], &["left out"]),
            false => becomes(Format::Nft, &[&forward(&rule)], &[], &[ALLOW]),
        }
    }
    for (rule, has, has_not) in [
        (
            "ip6 nexthdr tcp tcp dport 25 drop",
            "destination = \"::/0\"\nservice = \"tcp/25\"\naction = \"deny\"",
            "left out",
        ),
        ("ip frag-off & 0x1fff != 0 drop", ALLOW, DENY),
    ] {
        becomes(Format::Nft, &[&open(rule)], &[has], &[has_not]);
    }
    becomes(
        Format::Nft,
        &[&forward("ip6 nexthdr tcp tcp dport 25 accept")],
        &["the first header of IPv6"],
        &[ALLOW],
    );
}

/// What a rule asks before destinations are translated is said of where the packets are afterwards, and of where they were sent.
#[test]
fn a_destination_before_a_translation_of_others() {
    let table = |raw: &str, nat: &str| {
        format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING {raw} -j DROP\nCOMMIT\n*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING {nat}\nCOMMIT\n\
             *filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"
        )
    };
    let web = "-p tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80";
    for (raw, nat, has, has_not) in [
        ("-d 192.0.2.9 -p udp", web, "destination = \"192.0.2.9\"\nservice = \"udp\"", "refuses more"),
        (
            "-d 172.17.0.2 -p udp",
            web,
            "destination = \"172.17.0.2\"\nservice = \"udp\"",
            "destination = \"0.0.0.0/0\"\nservice = \"udp\"\naction = \"deny\"",
        ),
        (
            "-d 203.0.113.7 -p tcp --dport 8080",
            web,
            "destination = [\"172.17.0.2\", \"203.0.113.7\"]\nservice = [\"tcp/80\", \"tcp/8080\"]\naction = \"deny\"",
            "left out",
        ),
        (
            "-d 203.0.113.7 -p tcp --dport 8080",
            "-p tcp -j DNAT --to-destination 10.0.0.1-10.0.0.9",
            "service = \"tcp\"\naction = \"deny\"",
            "left out",
        ),
    ] {
        becomes(Format::IptablesSave, &[&table(raw, nat)], &[has], &[has_not]);
    }
}

/// Sets that rules name are in no rule set of iptables: `ipset save` has them.
#[test]
fn sets_of_addresses_beside_the_rules() {
    let rules = |policy: &str, rule: &str| {
        format!(
            "*filter\n:INPUT DROP [0:0]\n:FORWARD {policy} [0:0]\n:OUTPUT DROP [0:0]\n-A FORWARD {rule}\nCOMMIT\n"
        )
    };
    let sets = "create bad hash:net family inet hashsize 1024 maxelem 65536\nadd bad 198.51.100.0/24\nadd bad 203.0.113.9\n\
                create tmp hash:ip family inet timeout 600\nadd tmp 10.0.0.1 timeout 5\ncreate pairs hash:ip,port family inet\nadd pairs 10.0.0.1,tcp:22\n\
                create holes hash:net family inet\nadd holes 10.0.0.0/8\nadd holes 10.0.0.0/16 nomatch\n";
    let denied = "source = [\"198.51.100.0/24\", \"203.0.113.9\"]\naction = \"deny\"";
    let drops = rules("ACCEPT", "-m set --match-set bad src -j DROP");
    becomes(Format::IptablesSave, &[&drops, sets], &[denied], &["eth0\"\naction = \"deny\""]);
    becomes(Format::IptablesSave, &[sets, &drops], &[denied], &[]);
    becomes(Format::IptablesSave, &[&drops], &["--match-set bad src", "refuses more"], &["source ="]);
    let accepts = rules("DROP", "-m set ! --match-set bad dst -m set --match-set bad src -j ACCEPT");
    becomes(
        Format::IptablesSave,
        &[&accepts, sets],
        &["source = [\"198.51.100.0/24\"", "destination = [\"0.0.0.0-198.51.99.255\"", ALLOW],
        &["left out"],
    );
    for rule in [
        "-m set --match-set tmp src -j ACCEPT",
        "-m set --match-set pairs src,dst -j ACCEPT",
        "-m set --match-set bad src,src -j ACCEPT",
        "-m set --match-set holes src -j ACCEPT",
        "-m set --match-set none src -j ACCEPT",
        "-m set --match-set bad src -m set --match-set tmp src -j ACCEPT",
        "-m set --match-set bad src --packets-gt 5 -j ACCEPT",
        "-m set -j ACCEPT",
        "-j SET --add-set bad src\n-A FORWARD -m set --match-set bad src -j ACCEPT",
    ] {
        becomes(Format::IptablesSave, &[&rules("DROP", rule), sets], &["left out"], &[ALLOW]);
    }
    for (text, expected) in [
        (sets.to_owned(), "these are sets alone"),
        (format!("{sets}create bad hash:ip\n"), "rules:11:1: the set `bad` is made a second time"),
        (format!("{sets}add gone 10.0.0.1\n"), "rules:11:1: nothing above makes the set `gone`"),
        (format!("{sets}flush bad\n"), "rules:11:1: this is no line of `ipset save`"),
    ] {
        refused(Format::IptablesSave, &text, expected);
    }
}

#[test]
fn what_nftables_sends_to_the_machine_itself() {
    let text = |redirect: &str| {
        format!(
            "table inet n {{\nchain p {{\ntype nat hook prerouting priority dstnat;\n{redirect}\n}}\n}}\n{}",
            open("tcp dport 25 drop")
        )
    };
    let own = policy_import::Own {
        interface: Some("eth0".to_owned()),
        address: "192.0.2.1".parse().unwrap(),
        length: 24,
    };
    let options = Options { interfaces: vec!["eth0".to_owned()], answers: true, addresses: vec![own] };
    for (redirect, has, has_not) in [
        (
            "tcp dport 80 redirect to :3128",
            "destination_to = \"192.0.2.1:3128\"",
            "destination = \"0.0.0.0/0\"\nservice = \"tcp/80\"\naction = \"deny\"",
        ),
        (
            "tcp dport 80 redirect to 3128",
            "service = \"tcp/80\"\ndestination_to = \"192.0.2.1:3128\"",
            "destination = \"0.0.0.0/0\"\nservice = \"tcp/80\"\naction = \"deny\"",
        ),
        ("tcp dport 80 redirect", "destination_to = \"192.0.2.1\"", "192.0.2.1:"),
        // Of IPv6, and to ranges and maps, nothing is said, so it is denied.
        (
            "tcp dport 80 redirect to :3128",
            "destination = \"::/0\"\nservice = \"tcp/80\"\naction = \"deny\"",
            "left out",
        ),
        ("tcp dport 80 redirect to :3128-3130", "service = \"tcp/80\"\naction = \"deny\"", "[[nat]]"),
        (
            "tcp dport 80 redirect to tcp dport map { 80 : 3128 }",
            "service = \"tcp/80\"\naction = \"deny\"",
            "[[nat]]",
        ),
    ] {
        let imported = accounts::import(Format::Nft, &[source(&text(redirect))], &options, false).unwrap();
        assert!(imported.policy.contains(has), "{redirect}: {has}\n{}", imported.policy);
        assert!(!imported.policy.contains(has_not), "{redirect}: {has_not}\n{}", imported.policy);
    }
}
