//! What becomes of rules that translate.

use super::{becomes, import};
use policy_import::{Format, Options, Source};

/// A table of translations with these lines behind a filter that lets everything pass, and what the import should have or not have.
fn translated(lines: &str, has: &[&str], has_not: &[&str]) {
    let text = format!(
        "*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:mine - [0:0]\n{lines}\nCOMMIT\n\
         *filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A FORWARD -i a -o b -s 192.0.2.99 -j DROP\nCOMMIT\n"
    );
    becomes(Format::IptablesSave, text, lines, has, has_not);
}

#[test]
fn what_a_translation_sends_elsewhere_is_denied() {
    const WEB: &str = "-A PREROUTING -d 203.0.113.1 -p tcp --dport 80 -j DNAT --to-destination 10.0.0.1";
    let denied = "service = \"tcp/80\"\naction = \"deny\"";
    let to_web = "destination_to = \"10.0.0.1\"";
    for (lines, has, has_not) in [
        (WEB.to_owned(), &[to_web][..], &["tcp/80\"\naction", "exempt"][..]),
        (WEB.replace("10.0.0.1", "10.0.0.1-10.0.0.2"), &[denied, "refuses more"], &["[[nat]]\nname"]),
        (
            WEB.replace("-j", "--sport 5 -j"),
            &["source_port = \"5\"\naction = \"deny\"", "source ports"],
            &["[[nat]]\nname"],
        ),
        (
            WEB.replace("-j", "-m addrtype --dst-type LOCAL -j"),
            &["to = \"self\"", denied],
            &["[[nat]]\nname"],
        ),
        (WEB.replace("PREROUTING", "OUTPUT"), &["from = \"self\"", denied], &["[[nat]]\nname"]),
        // What is sent somewhere sometimes is denied, and no later entry sends it elsewhere.
        (
            format!("-A PREROUTING -d 203.0.113.1 -m mark --mark 1 -j DNAT --to-destination 10.0.0.9\n{WEB}"),
            &[
                "destination = \"203.0.113.1\"\naction = \"deny\"",
                "destination = \"203.0.113.1\"\nexempt = true",
                to_web,
            ],
            &["10.0.0.9\""],
        ),
        (
            format!(
                "-A mine -p udp -j DNAT --to-destination 10.0.0.9\n-A PREROUTING -m mark --mark 1 -j mine\n{WEB}"
            ),
            &["exempt = true", "action = \"deny\"", to_web],
            &[],
        ),
        (
            format!("-A PREROUTING -m mark --mark 1 -j RETURN\n{WEB}"),
            &["exempt = true", "action = \"deny\"", to_web],
            &[],
        ),
        // Of a chain that decides nothing it does not matter who goes there.
        (format!("-A mine -j LOG\n-A PREROUTING -m mark --mark 1 -j mine\n{WEB}"), &[to_web], &["exempt"]),
        // What goes there for good does not come back to the rule behind.
        (
            format!(
                "-A mine -p udp -j DNAT --to-destination 10.0.0.9\n-A PREROUTING -s 10.0.0.0/8 -g mine\n{WEB}"
            ),
            &[
                "service = \"udp\"\ndestination_to = \"10.0.0.9\"",
                "source = [\"0.0.0.0-9.255.255.255\", \"11.0.0.0-255.255.255.255\"]\ndestination = \"203.0.113.1\"",
            ],
            &["exempt"],
        ),
        (
            format!("-A PREROUTING -s 10.0.0.0/8 -j ACCEPT\n{WEB}"),
            &["source = \"10.0.0.0/8\"\nexempt = true", to_web],
            &[],
        ),
        // Nothing about sources changes who may reach whom.
        (
            "-A POSTROUTING -o b -m mark --mark 1 -j MASQUERADE\n-A POSTROUTING -o b -j MASQUERADE"
                .to_owned(),
            &[
                "to = \"b\"\nexempt = true",
                "to = \"b\"\nmasquerade = true",
                "note: this translation is not carried over",
            ],
            &["refuses more than the original: this translation"],
        ),
        (
            "-A POSTROUTING -o b -j SNAT --to-source 192.0.2.7".to_owned(),
            &["source_to = \"192.0.2.7\""],
            &["exempt"],
        ),
        (
            "-A POSTROUTING -o b -j NETMAP --to 192.0.2.0/24".to_owned(),
            &["NETMAP --to 192.0.2.0/24"],
            &["[[nat]]\nname"],
        ),
    ] {
        translated(&lines, has, has_not);
    }
}

#[test]
fn more_translations_than_a_policy_has_room_for_are_denied() {
    let line = |i: usize| {
        format!(
            "-A PREROUTING -d 203.0.113.{} -p tcp --dport {} -j DNAT --to-destination 10.0.0.1",
            i % 250,
            i + 1
        )
    };
    let lines: Vec<String> = (0..1_100).map(line).collect();
    translated(
        &lines.join("\n"),
        &["more than 1024 rows", "refuses more than the original: this translation"],
        &[],
    );
}

#[test]
fn a_drop_before_translation_is_of_both_destinations() {
    let text = |nat: &str| {
        format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -s 198.51.100.0/24 -d 203.0.113.7/32 -p tcp --dport 8080 -j DROP\nCOMMIT\n\
             *nat\n:PREROUTING ACCEPT [0:0]\n{nat}COMMIT\n*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"
        )
    };
    for (nat, is_exact, expected) in [
        (
            "",
            true,
            "source = \"198.51.100.0/24\"\ndestination = \"203.0.113.7\"\nservice = \"tcp/8080\"\naction = \"deny\"",
        ),
        (
            "-A PREROUTING -d 203.0.113.7/32 -p tcp --dport 8080 -j DNAT --to-destination 10.0.0.5:80\n",
            false,
            "destination = [\"10.0.0.5\", \"203.0.113.7\"]\nservice = [\"tcp/80\", \"tcp/8080\"]\naction = \"deny\"",
        ),
    ] {
        let source = Source { name: "rules".to_owned(), text: text(nat) };
        let options = Options { answers: true, ..Options::default() };
        let imported = import(Format::IptablesSave, &[source], &options).unwrap();
        assert!(imported.policy.contains(expected), "{nat}\n{}", imported.policy);
        assert_eq!(imported.is_exact(), is_exact, "{nat}\n{:?}", imported.findings);
    }
}
