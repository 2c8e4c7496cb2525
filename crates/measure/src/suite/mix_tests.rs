//! Mixes as suites state them: what is read, and what is said of a mistake.

use crate::application::{PROTOCOLS, ProtocolMix};
use crate::mix::{Part, PartFiles, SharesOf};
use crate::plan::{Options, Plan};
use crate::results::Metric;
use crate::suite::Suite;

/// A right suite with a mix; rows below change one line of it.
const RIGHT: &str = r#"name = "mixed"
title = "A mix"
summary = "Two protocols in one trial."
duts = ["linux"]
[profiles.quick]
rounds = 1
trial_seconds = 0.5
[[mix]]
name = "office"
title = "Pages and files"
shares = "transactions"
[[mix.part]]
name = "pages"
protocol = "https"
object = [1, 64]
transactions = 10
share = 90
[[mix.part]]
name = "files"
protocol = "ftp:get"
share = 10
[[test]]
name = "both"
title = "Both"
procedure = "transactions"
factors.protocol = "mix:office"
"#;

fn outcome(text: &str, set: &[&str]) -> String {
    let suite = match Suite::parse("mixed.toml", text) {
        Ok(suite) => suite,
        Err(problems) => return problems.to_string(),
    };
    let set = set.iter().map(|option| (*option).to_owned()).collect();
    match Plan::new(&suite, &Options { set, ..Options::default() }) {
        Ok(plan) => {
            let mixes: Vec<String> = plan.mixes().into_iter().map(|mix| mix.name).collect();
            format!("{} cells of {}", plan.cells.len(), mixes.join(", "))
        }
        Err(error) => error.to_string(),
    }
}

/// (what is replaced, by what, what comes of it)
const ROWS: &[(&str, &str, &str)] = &[
    ("", "", "1 cells of office"),
    (
        "share = 90",
        "share = 89.5",
        "mixed.toml:9:8: the shares of the mix `office` add up to 99.5 %, not to 100 %\n  they are: pages 89.5, files 10",
    ),
    (
        "\"https\"",
        "\"smtp\"",
        "mixed.toml:14:12: the bench has no protocol `smtp`\n  there are: http/1.0, http/1.1, https, http/2, ftp:get, ftp:put, ftp:active-get, ftp:active-put",
    ),
    ("\"https\"", "\"htps\"", "mixed.toml:14:12: the bench has no protocol `htps`\n  did you mean `https`?"),
    (
        "\"https\"",
        "\"http/1.0\"",
        "mixed.toml:16:1: a connection of http/1.0 has one transaction: it ends with the file\n  leave `transactions` out, or use http/1.1, https or http/2",
    ),
    (
        "transactions = 10",
        "transactions = 1001",
        "mixed.toml:16:16: `transactions` must lie between 1 and 1000",
    ),
    ("object = [1, 64]", "object = [1, 64, 1]", "mixed.toml:15:18: `object` has 1 KB twice"),
    ("object = [1, 64]", "object = []", "mixed.toml:15:10: `object` is empty"),
    ("object = [1, 64]", "object = 2000", "mixed.toml:15:10: `2000` is no size of files\n  `object` takes"),
    ("object = [1, 64]", "object = \"mixed\"", "1 cells of office"),
    (
        "protocol = \"ftp:get\"",
        "protocol = \"ftp:get\"\nobject = \"mixed\"",
        "mixed.toml:21:10: `mixed` are objects of HTTP, and FTP transfers none",
    ),
    ("name = \"files\"", "name = \"pages\"", "mixed.toml:19:8: there is another part called `pages`"),
    ("name = \"files\"", "name = \"all\"", "mixed.toml:19:8: a part may not be called `all`"),
    ("share = 10", "shares = 10", "[[mix.part]] number 2 has no `share`\n  write share = 60, in percent"),
    (
        "shares = \"transactions\"",
        "shares = \"connections\"",
        "mixed.toml:11:10: `shares` cannot be `connections`\n  there are: transactions, bytes",
    ),
    (
        "shares = \"transactions\"\n",
        "",
        "[[mix]] number 1 has no `shares`\n  write shares = \"transactions\" or \"bytes\": what the shares of its parts are of",
    ),
    (
        "[[mix.part]]\nname = \"files\"\nprotocol = \"ftp:get\"\nshare = 10\n",
        "",
        "mixed.toml:9:8: a mix has 2 to 20 parts, and `office` has 1",
    ),
    (
        "[[test]]",
        "[[mix]]\nname = \"office\"\ntitle = \"Again\"\nshares = \"bytes\"\npart = [{ name = \"a\", protocol = \"http/2\", share = 50 }, { name = \"b\", protocol = \"https\", share = 50 }]\n[[test]]",
        "there is another mix called `office`",
    ),
    ("\"mix:office\"", "\"mix:ofice\"", "mixed.toml:26:20: no mix is called `ofice`: did you mean `office`?"),
    (
        "\"mix:office\"",
        "\"mix:office\"\nfactors.object = 4",
        "mixed.toml:23:8: profile quick: `object` is said by each part of a mix: write it under [[mix.part]], or use a protocol that is no mix",
    ),
    (
        "\"mix:office\"",
        "\"mix:office\"\nfactors.transactions = 4",
        "profile quick: `transactions` is said by each part of a mix",
    ),
    ("procedure = \"transactions\"", "procedure = \"application-capacity\"", "a mix is measured by its rate"),
    ("\"ftp:get\"", "\"ftp:active-get\"", "1 cells of office"),
];

#[test]
fn a_mix_is_read_or_its_mistakes_are_shown_with_their_places() {
    for (from, to, expected) in ROWS {
        assert!(RIGHT.contains(from), "{from}");
        let found = outcome(&RIGHT.replacen(from, to, 1), &[]);
        assert!(found.contains(expected), "{to}:\n{found}\ninstead of\n{expected}");
    }
}

#[test]
fn the_command_line_chooses_among_the_mixes_of_the_suite() {
    for (set, expected) in [
        ("protocol=http/1.1,mix:office", "2 cells of office"),
        ("protocol=nstl", "1 cells of "),
        ("protocol=mix:home", "--set protocol=mix:home: no mix is called `home`: there are: office"),
        ("clients=1,2", "2 cells of office"),
        ("object=4", "`object` is said by each part of a mix"),
    ] {
        let found = outcome(RIGHT, &[set]);
        assert!(found.contains(expected), "{set}: {found}");
    }
    let active = outcome(&RIGHT.replace("ftp:get", "ftp:active-get"), &["rules=4"]);
    assert!(active.contains("active FTP opens data connections from the server"), "{active}");
}

#[test]
fn a_mix_is_what_its_text_says() {
    let suite = Suite::parse("mixed.toml", RIGHT).unwrap();
    let [mix] = &suite.mixes[..] else { panic!("{:?}", suite.mixes) };
    assert_eq!(
        (mix.name.as_str(), mix.title.as_str(), mix.shares),
        ("office", "Pages and files", SharesOf::Transactions)
    );
    let protocol = |name: &str| PROTOCOLS.iter().find(|(known, _)| *known == name).unwrap().1;
    let expected = [
        Part {
            name: "pages".into(),
            protocol: protocol("https"),
            files: PartFiles::Kb(vec![1, 64]),
            transactions: 10,
            share: 0.9,
        },
        Part {
            name: "files".into(),
            protocol: protocol("ftp:get"),
            files: PartFiles::Nstl,
            transactions: 1,
            share: 0.1,
        },
    ];
    assert_eq!(mix.parts, expected);
    let stated = ProtocolMix::Stated(mix.clone());
    assert_eq!(stated.protocols(), expected.map(|part| part.protocol));
    assert_eq!((stated.has_http(), stated.is_http(), stated.calls_back()), (true, false, false));

    let plan = Plan::new(&suite, &Options::default()).unwrap();
    let cell = &plan.cells[0].cell;
    let level = &cell.factors["protocol"];
    assert_eq!((level.text.as_str(), level.phrase.as_str()), ("mix:office", "mix office"));
    // FTP has no times of answers; each part has a share.
    let lost = cell.procedure.lost(&[]);
    let of = |part: &str| lost.iter().filter(|value| value.at["part"].text == part).collect::<Vec<_>>();
    assert_eq!(["all", "pages", "files"].map(|part| of(part).len()), [7, 8, 6], "{lost:?}");
    assert!(of("files").iter().any(|value| value.metric == Metric::TrafficShare));
    assert!(of("pages")[0].at["part"] < of("files")[0].at["part"], "in the order of the suite");
}

/// The guide's suite is read as a reader would type it.
#[test]
fn the_suite_of_the_guide_is_right() {
    let guide = include_str!("../../../../docs/guide/mixes.md");
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(outcome(text, &[]), "3 cells of office");
    let suite = Suite::parse("my-office.toml", text).unwrap();
    let shares = suite.mixes[0].transaction_shares();
    // 40 % of the bytes in files of 28 KB and 5 % in files of 120 KB.
    assert!((shares[0] / shares[3] - (40.0 / 28.0) / (5.0 / 120.0)).abs() < 1e-9, "{shares:?}");
}
