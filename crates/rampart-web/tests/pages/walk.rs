//! What users do, step by step.

use crate::bed::{Bed, PASSWORD, get};
use crate::firewall::POLICY;
use rampart_web::routes::ROUTES;
use rampart_web::users::Role;

#[test]
fn who_logs_in_sees_the_firewall_and_logs_out() {
    let bed = Bed::new();
    assert_eq!(bed.ask(&get("/", "")).location.as_deref(), Some("/login"));
    assert!(bed.ask(&get("/login", "")).body.contains("name=\"password\""));
    assert_eq!(bed.try_login("rita", "wrong"), Err(403));
    let rita = bed.login("rita");
    for (target, expected) in [
        ("/", "12,345"),
        ("/rules", "12,345"),
        ("/rules?search=WEB", "1 of 2 rules"),
        ("/rules?unused=yes", "1 of 2 rules"),
        ("/flows?proto=tcp&dport=443", "54 MiB"),
        ("/flows?dport=x", "dport takes a destination port"),
        ("/events?kind=refused", "1 of the newest 3 events"),
        ("/drops", "rule-deny"),
        ("/drops?reason=rule-deny", "By the minute: rule-deny"),
        ("/blocks", "198.51.100.7/32"),
        ("/lists", "65,536"),
        ("/nat", "the source becomes the address of the interface"),
        ("/policy", "name = &#x27;masquerade&#x27;"),
        ("/explain", "From zone"),
        (
            "/explain?from=inside&source=10.0.0.5&destination=192.0.2.1&service=https",
            "by the rule <strong>web",
        ),
        ("/explain?from=inside&source=10.0.0.5&destination=192.0.2.1&service=tcp/25", "no rule matches"),
        ("/explain?from=inside&source=10.0.0.5&destination=x&service=tcp/25", "is no address"),
        (
            "/explain?from=inside&to=outside&source=10.0.0.5&destination=10.0.0.5&service=https",
            "deny</strong>: 10.0.0.5 is its source and its destination. It is dropped as <a href=\"/drops\">land</a>",
        ),
        (
            "/explain?from=inside&source=10.0.0.5&destination=192.0.2.1&service=icmp/echo-request&source_port=7",
            "such a packet has no ports",
        ),
        ("/history", "in force"),
        ("/history/entry?number=1", "has the same text"),
        ("/history/entry?number=9", "no such entry"),
        ("/audit", "applied"),
        ("/account", "rita"),
        ("/help", "The language of policies"),
        ("/help/page?name=web", "Setting it up"),
        ("/help/page?name=../SPEC", "no such page of help"),
    ] {
        let answer = rita.get(target);
        assert!(answer.body.contains(expected), "{target}: {} {}", answer.status, answer.body);
        assert!(answer.body.contains("Log out") && answer.body.contains("<h1>"), "{target}");
    }
    let out = rita.post("/logout", &[]);
    assert_eq!((out.status, out.location.as_deref()), (303, Some("/login")));
    assert!(out.cookie.unwrap().contains("Max-Age=0"));
    assert_eq!(rita.get("/").location.as_deref(), Some("/login"));
}

#[test]
fn a_policy_is_mended_compared_applied_and_confirmed() {
    let bed = Bed::new();
    let anna = bed.login("anna");
    let base_of = |body: &str| {
        body.split("name=\"base\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let base = base_of(&anna.get("/policy").body);
    let wrong = POLICY.replace("'allow'", "'alow'");
    let answer = anna.post("/policy/check", &[("text", &wrong), ("base", &base)]);
    assert_eq!(answer.status, 422);
    for expected in ["line 11, column 10", "alow", "1 mistake"] {
        assert!(answer.body.contains(expected), "{expected}: {}", answer.body);
    }
    // With line ends as browsers send them.
    let right = POLICY.replace("'allow'", "'deny'");
    let sent = right.replace('\n', "\r\n");
    assert!(anna.post("/policy/check", &[("text", &sent), ("base", &base)]).body.contains("No mistakes."));
    let changes = anna.post("/policy/changes", &[("text", &sent), ("base", &base)]).body;
    assert!(changes.contains("1 line added, 1 removed") && changes.contains("Put it in force"), "{changes}");
    assert!(bed.firewall.changed_by().is_empty(), "nothing is changed yet");
    let base = base_of(&changes);
    for (what, text, base, seconds, status) in [
        ("without a time", &sent, base.as_str(), "", 422),
        ("for ever", &sent, &base, "0", 422),
        ("with a mistake", &wrong, &base, "60", 422),
        ("that the firewall refuses", &format!("# unsuitable\n{right}"), &base, "60", 422),
        ("begun with another", &sent, "0", "60", 409),
    ] {
        let form = [("text", text.as_str()), ("base", base), ("confirm_seconds", seconds)];
        assert_eq!(anna.post("/policy/apply", &form).status, status, "{what}");
        assert_eq!(bed.firewall.text_in_force(), POLICY, "{what}");
    }
    let form = [("text", sent.as_str()), ("base", base.as_str()), ("confirm_seconds", "60")];
    assert_eq!(anna.post("/policy/apply", &form).location.as_deref(), Some("/"));
    assert_eq!(bed.firewall.text_in_force(), right);
    let overview = anna.get("/").body;
    assert!(
        overview.contains("Policy 2 of the history, by anna (by rampart-web), waits to be confirmed")
            && overview.contains("is in force; rules"),
        "{overview}"
    );
    assert!(!anna.get("/").body.contains("is in force; rules"), "what was done is said once");
    // Back at once, which needs no confirmation, and forth again, which does.
    anna.post("/history/rollback", &[("number", "1"), ("confirm_seconds", "60")]);
    assert_eq!((bed.firewall.text_in_force().as_str(), bed.firewall.waits()), (POLICY, false));
    anna.post("/history/rollback", &[("number", "2"), ("confirm_seconds", "60")]);
    assert!(bed.firewall.waits());
    assert_eq!(anna.post("/policy/confirm", &[]).status, 303);
    assert!(!bed.firewall.waits());
    assert_eq!(anna.post("/policy/confirm", &[]).status, 409);
    let by: Vec<_> = bed.firewall.changed_by().into_iter().map(|(_, by)| by.unwrap()).collect();
    assert!(by.len() > 4 && by.iter().all(|name| name == "anna"), "{by:?}");
}

#[test]
fn flows_and_blocks_are_ended() {
    let bed = Bed::new();
    let otto = bed.login("otto");
    let one = [("proto", "tcp"), ("src", "10.0.0.5"), ("dport", "443")];
    for (path, form, status) in [
        ("/flows/end", &one[..], 303),
        ("/flows/end", &[], 422),
        ("/flows/end", &[("src", " ")], 422),
        ("/blocks/end", &[("source", "198.51.100.7"), ("zone", "outside")], 303),
        ("/blocks/end", &[("zone", "outside")], 422),
    ] {
        assert_eq!(otto.post(path, form).status, status, "{path} {form:?}");
    }
    let asked: Vec<_> = bed.firewall.changed_by().into_iter().map(|(what, _)| what).collect();
    assert_eq!(
        asked,
        [
            "DELETE /v1/flows?proto=tcp&dport=443&src=10.0.0.5",
            "DELETE /v1/blocks?source=198.51.100.7&zone=outside"
        ]
    );
}

#[test]
fn users_are_managed_and_stopped_at_once() {
    let bed = Bed::new();
    let (anna, rita) = (bed.login("anna"), bed.login("rita"));
    let new = [("name", "carl"), ("role", "operate"), ("password", "a long password")];
    assert_eq!(anna.post("/users/add", &new).status, 303);
    assert_eq!(anna.post("/users/add", &new).status, 422);
    assert!(bed.try_login("carl", "a long password").is_ok());
    // Who loses a role, or is removed on the machine itself, loses it in open sessions.
    let other = bed.login("anna");
    assert_eq!(anna.post("/users/role", &[("name", "rita"), ("role", "administer")]).status, 303);
    assert_eq!(rita.get("/users").status, 200);
    bed.users().set_role("rita", Role::Read, false).unwrap();
    assert_eq!(rita.get("/users").status, 403);
    bed.users().remove("rita", false).unwrap();
    assert_eq!(rita.get("/").location.as_deref(), Some("/login"));
    assert_eq!(anna.post("/users/remove", &[("name", "anna")]).status, 422, "the last administrator");
    // A new password ends the other sessions.
    let form = |old, new, again| [("old", old), ("new", new), ("again", again)];
    assert_eq!(
        anna.post("/account/password", &form("wrong", "another password", "another password")).status,
        422
    );
    assert_eq!(anna.post("/account/password", &form(PASSWORD, "another password", "another")).status, 422);
    assert_eq!(anna.post("/account/password", &form(PASSWORD, "short", "short")).status, 422);
    assert_eq!(
        anna.post("/account/password", &form(PASSWORD, "another password", "another password")).status,
        303
    );
    assert_eq!((anna.get("/").status, other.get("/").status), (200, 303));
    assert_eq!(bed.try_login("anna", PASSWORD), Err(403));
}

/// Every page has what a screen reader goes by, and says which it is.
#[test]
fn every_page_is_made_of_landmarks_and_one_heading() {
    let bed = Bed::new();
    let anna = bed.login("anna");
    for route in
        ROUTES.iter().filter(|route| route.method == rampart_web::http::Method::Get && route.path != "/login")
    {
        let target = match route.path {
            "/history/entry" => "/history/entry?number=1",
            "/help/page" => "/help/page?name=policy",
            path => path,
        };
        let answer = anna.get(target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        for part in
            ["<html lang=\"en\">", "<main id=\"main\">", "<nav aria-label=\"Pages\">", "· Rampart</title>"]
        {
            assert_eq!(answer.body.matches(part).count(), 1, "{target}: {part}");
        }
        assert_eq!(answer.body.matches("<h1>").count(), 1, "{target}");
        for table in answer.body.split("<table").skip(1).filter(|_| route.path != "/help/page") {
            assert!(table.contains("<caption>") && table.contains("scope=\"col\""), "{target}");
        }
    }
}
