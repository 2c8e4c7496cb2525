//! Rules that name domains: who asks the gateway of DNS and connects at once gets through, also after the gateway's process or the daemon was killed; when
//! the lifetime of an answer is over, no new connection begins and an open one goes on.

use crate::bed::{Bed, INSIDE, OUTSIDE, Outcome, expect_echo, serve, until};
use crate::dns_gateway::dig;
use crate::http_gateway::{gateway, kill, worker};
use std::net::TcpListener;
use testkit::namespace::Background;

const POLICY: &str = "\
    [domains]\ngrace = '5s'\n\
    [gateways.names]\nprotocol = 'dns'\nlisten = '10.81.2.1:53'\nforward_to = '10.81.2.2'\n\
    [[gateways.names.rules]]\nname = 'corp'\naction = 'allow'\nhosts = ['*.corp.test', '*.plain.test', 'plain.test', 'long.test']\nprivate_answers = true\n\
    [[gateways.names.rules]]\nname = 'lan'\naction = 'allow'\n\
    [[rules]]\nname = 'plain'\nfrom = 'inside'\nto = 'outside'\ndestination = 'domain:plain.test'\nservice = 'tcp/7001'\naction = 'allow'\n\
    [[rules]]\nname = 'below'\nfrom = 'inside'\nto = 'outside'\ndestination = ['domain:*.corp.test', 'domain:*.evil.test']\nservice = 'tcp/7002'\naction = 'allow'\n\
    [[rules]]\nname = 'long'\nfrom = 'inside'\nto = 'outside'\ndestination = 'domain:long.test'\nservice = 'tcp/7003'\naction = 'allow'\n\
    [[rules]]\nname = 'questions'\nfrom = ['inside', 'outside']\nto = 'self'\nservice = 'dns'\naction = 'allow'\n\
    [[rules]]\nname = 'forwarded'\nfrom = 'self'\nto = 'outside'\nservice = 'dns'\naction = 'allow'\n";

/// A name server that says of names below corp.test and evil.test, and of plain.test, that they are the server outside, for a second.
fn names(bed: &Bed) -> Background {
    bed.serve_names(&[
        "--local-ttl=1",
        "--address=/corp.test/10.81.2.2",
        "--address=/evil.test/10.81.2.2",
        "--address=/plain.test/10.81.2.2",
        "--host-record=long.test,10.81.2.2,600",
    ])
}

/// Addresses of a domain of the running firewall.
fn addresses(bed: &Bed, domain: &str) -> Vec<String> {
    let lists = bed.json(&["lists"]);
    let list = lists["lists"].as_array().unwrap().iter().find(|it| it["name"] == domain).unwrap().clone();
    let text = |it: &serde_json::Value| it["address"].as_str().unwrap().to_owned();
    list["domain"].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn needs_root_rules_go_by_what_the_gateway_of_dns_says() {
    let bed = Bed::new();
    let names_server = names(&bed);
    for port in [7001, 7002, 7003] {
        serve(bed.inside("out", || TcpListener::bind((OUTSIDE, port)).unwrap()));
    }
    let policy = bed.policy("p.toml", POLICY);
    assert_eq!(bed.rampart(&["check", "--strict", &policy]).0, 0, "{}", bed.rampart(&["check", &policy]).1);
    let firewall = bed.up(&policy, "auto");
    // A plain name is looked up before anybody asks.
    bed.until_call(7001, Outcome::Answered);
    assert_eq!(addresses(&bed, "domain:plain.test"), [OUTSIDE]);
    // Names below another are known when somebody has asked.
    until("the gateway is up", || gateway(&bed)["is_up"] == true);
    bed.expect(7002, Outcome::Silence, "nobody has asked for such a name");
    // An address of a private network, of a name for which no rule allows it, is of no domain, and the client does not hear of it.
    assert_eq!(dig(&bed, "in", "a.evil.test"), "REFUSED");
    bed.expect(7002, Outcome::Silence, "a private address");
    assert_eq!(dig(&bed, "in", "www.corp.test"), "NOERROR A 10.81.2.2");
    let mut open = bed.connect(7002).expect("at once after the answer");
    expect_echo(&mut open, "it is open");
    let asked = [
        "--from", "inside", "--to", "outside", "--src", INSIDE, "--dst", OUTSIDE, "--proto", "tcp",
        "--dport", "7003",
    ];
    let (_, explained) = bed.rampart(&[&["explain", &policy], &asked[..]].concat());
    let found = ["allow: by the rule `long`", "10.81.2.2 is on the list `domain:long.test`"]
        .iter()
        .all(|it| explained.contains(it));
    assert!(found, "{explained}");
    until("its lifetime is over", || addresses(&bed, "domain:*.corp.test").is_empty());
    bed.expect(7002, Outcome::Silence, "no new connection");
    expect_echo(&mut open, "an open one goes on");
    bed.json(&["apply", &bed.policy("q.toml", &POLICY.replace("tcp/7001", "tcp/7003"))]);
    expect_echo(&mut open, "also under another policy");
    bed.json(&["apply", &policy]);
    // The gateway's process is killed: who asks again is answered by the next, and connects at once.
    let before = worker(firewall.child.id()).unwrap();
    kill(before);
    until("another process", || worker(firewall.child.id()).is_some_and(|now| now != before));
    until("it answers", || dig(&bed, "in", "b.corp.test") == "NOERROR A 10.81.2.2");
    bed.connect(7002).expect("by the next process");
    // The name server is gone: what is known ends, and nothing opens.
    drop(names_server);
    until("nothing is known any more", || {
        ["domain:*.corp.test", "domain:plain.test"].iter().all(|it| addresses(&bed, it).is_empty())
    });
    for port in [7001, 7002] {
        bed.expect(port, Outcome::Silence, "without a name server");
    }
    expect_echo(&mut open, "an open one goes on");
    // Another daemon knows what the one that was killed knew, without a name server and without a question.
    until("it is written down", || {
        std::fs::read_to_string(bed.state().join("domains.json")).is_ok_and(|it| it.contains("long.test"))
    });
    kill(firewall.child.id());
    drop(firewall);
    bed.expect(7003, Outcome::Answered, "nobody is there, and the programs go on");
    let _firewall = bed.up(&policy, "auto");
    bed.expect(7003, Outcome::Answered, "by another daemon");
    bed.expect(7001, Outcome::Silence, "and what was over stays so");
    expect_echo(&mut open, "an open one goes on");
}
