//! What an attacker tries at the pages: rows, each refused.

use crate::bed::{Bed, HOST, Login, PASSWORD, USERS, get, post};
use crate::firewall::HOSTILE;
use rampart_web::app::Moment;
use rampart_web::http::{Answer, Method, Request};
use rampart_web::routes::{Access, ROUTES};
use rampart_web::secret;
use rampart_web::users::Role;
use std::time::Duration;

/// Names that attackers choose are text on every page, in attributes and in between.
#[test]
fn hostile_names_are_text_on_every_page() {
    let bed = Bed::new();
    let anna = bed.login("anna");
    let query = format!(
        "?{}",
        form_urlencoded::Serializer::new(String::new())
            .extend_pairs(
                [
                    "search",
                    "rule",
                    "kind",
                    "reason",
                    "host",
                    "name",
                    "from",
                    "source",
                    "destination",
                    "service",
                    "number"
                ]
                .map(|key| (key, HOSTILE))
            )
            .finish()
    );
    let (mut pages, mut seen) = (0, 0);
    let mut look = |what: &str, answer: &Answer| {
        let body = &answer.body;
        for forbidden in ["<script>", "<img", "onerror=alert(1)>", "\"'>", "value=\"\"'"] {
            assert!(!body.contains(forbidden), "{what}: {forbidden} in {body}");
        }
        // What looks like a template is text as well.
        assert_eq!(
            body.matches("&lt;img src").count(),
            body.matches("{{ token }}").count(),
            "{what}: {body}"
        );
        pages += 1;
        seen += usize::from(body.contains("&lt;script&gt;") || body.contains("&lt;&#x2f;textarea&gt;"));
    };
    for route in ROUTES.iter().filter(|route| route.method == Method::Get) {
        look(route.path, &anna.get(route.path));
        look(route.path, &anna.get(&format!("{}{query}", route.path)));
    }
    look("an entry", &anna.get("/history/entry?number=1"));
    let text = format!("# </textarea>{HOSTILE}\n[zones]\n");
    for (path, more) in [("/policy/check", ""), ("/policy/changes", ""), ("/policy/apply", "60")] {
        look(path, &anna.post(path, &[("text", &text), ("base", HOSTILE), ("confirm_seconds", more)]));
    }
    for path in
        ["/users/add", "/users/role", "/users/remove", "/flows/end", "/history/rollback", "/blocks/end"]
    {
        let form = ["name", "role", "host", "number", "source", "zone"].map(|key| (key, HOSTILE));
        look(path, &anna.post(path, &form));
        look("what was said", &anna.get("/account"));
    }
    look("the login", &bed.ask(&post("/login", &[("name", HOSTILE), ("password", "x")], "")));
    assert!(
        seen * 3 > pages,
        "only {seen} of {pages} pages had a hostile name: the test looks at the wrong ones"
    );
}

/// Each route with each role, and with nobody: what the table says, and nothing of it by a way around.
#[test]
fn every_route_takes_its_role() {
    let bed = Bed::new();
    for (name, role) in USERS {
        for route in &ROUTES {
            let Access::Role(needed) = route.access else { continue };
            let login = bed.login(name);
            let before = bed.firewall.changed_by().len();
            let answer = match route.method {
                Method::Post => login.post(route.path, &[]),
                _ => login.get(route.path),
            };
            assert_eq!(answer.status == 403, role < needed, "{name} {}: {}", route.path, answer.status);
            if role < needed {
                assert_eq!(bed.firewall.changed_by().len(), before, "{name} {}", route.path);
            }
        }
    }
    for route in ROUTES.iter().filter(|route| route.access != Access::Anybody) {
        let answer = match route.method {
            Method::Post => bed.ask(&post(route.path, &[], "")),
            _ => bed.ask(&get(route.path, "")),
        };
        let expected = if route.method == Method::Post { 401 } else { 303 };
        assert_eq!(answer.status, expected, "{}", route.path);
        assert!(!answer.body.contains("12,345"), "{}", route.path);
    }
}

/// A form that is not of the session and of this server does nothing, whatever it asks for.
#[test]
fn forms_of_others_are_refused() {
    let bed = Bed::new();
    let (anna, other) = (bed.login("anna"), bed.login("anna"));
    let own = format!("https://{HOST}");
    for route in ROUTES.iter().filter(|route| route.method == Method::Post && route.path != "/login") {
        for (what, token, origin) in [
            ("no token", "", Some(own.as_str())),
            ("a wrong one", "0000", Some(&own)),
            ("of another session", &other.token, Some(&own)),
            ("no origin", &anna.token, None),
            ("an origin that is hidden", &anna.token, Some("null")),
            ("of another site", &anna.token, Some("https://evil.example")),
            ("of another port", &anna.token, Some("https://192.0.2.1:9000")),
            ("without TLS", &anna.token, Some("http://192.0.2.1:8443")),
            ("that begins like ours", &anna.token, Some("https://192.0.2.1:8443.evil.example")),
        ] {
            let form = [
                ("token", token),
                ("number", "1"),
                ("confirm_seconds", "60"),
                ("source", "192.0.2.9"),
                ("dport", "1"),
            ];
            let request =
                Request { origin: origin.map(str::to_owned), ..post(route.path, &form, &anna.cookie) };
            let answer = bed.ask(&request);
            assert_eq!(answer.status, 403, "{} with {what}", route.path);
        }
    }
    assert!(bed.firewall.changed_by().is_empty());
    assert_eq!(bed.users().all().unwrap().len(), 3);
    // The login has no session yet, so its origin alone counts.
    let login = post("/login", &[("name", "anna"), ("password", PASSWORD)], "");
    let request = Request { origin: Some("https://evil.example".to_owned()), ..login };
    assert_eq!(bed.ask(&request).status, 403);
}

/// Without TLS of its own (`--insecure-http`) a server before this one may speak it: browsers then name its scheme, and their sessions are for TLS.
#[test]
fn pages_behind_a_server_that_speaks_tls_are_own_ones() {
    let login = post("/login", &[("name", "anna"), ("password", PASSWORD)], "");
    for (is_tls, origin, expected) in [
        (false, format!("http://{HOST}"), Some(false)),
        (false, format!("https://{HOST}"), Some(true)),
        (true, format!("https://{HOST}"), Some(true)),
        (true, format!("http://{HOST}"), None),
        (false, "https://192.0.2.1:9000".to_owned(), None),
        (false, "https://evil.example".to_owned(), None),
        (false, format!("ftp://{HOST}"), None),
        (false, "null".to_owned(), None),
    ] {
        let bed = Bed::with(is_tls);
        let request = |it: &Request| Request { origin: Some(origin.clone()), ..it.clone() };
        let answer = bed.ask(&request(&login));
        assert_eq!(answer.status, if expected.is_some() { 303 } else { 403 }, "{is_tls} {origin}");
        let is_secure = answer.cookie.as_ref().map(|cookie| cookie.contains("; Secure"));
        assert_eq!(is_secure, expected, "{is_tls} {origin}");
        let Some(cookie) = answer.cookie else { continue };
        let cookie = cookie.split(';').next().unwrap();
        let out = bed.ask(&request(&post("/logout", &[], cookie)));
        assert_eq!((out.status, out.body.contains("not sent by a page")), (403, false), "it has no token");
    }
}

#[test]
fn a_session_is_a_new_one_and_of_its_own_browser() {
    let bed = Bed::new();
    // A number that an attacker has put into the browser is not taken over.
    let planted = format!("__Host-rampart={}", "a".repeat(64));
    let answer = bed.ask(&post("/login", &[("name", "rita"), ("password", PASSWORD)], &planted));
    let cookie = answer.cookie.unwrap();
    assert!(!cookie.contains("aaaa"), "{cookie}");
    for part in ["__Host-rampart=", "; Path=/", "; HttpOnly", "; SameSite=Strict", "; Secure"] {
        assert!(cookie.contains(part), "{part}: {cookie}");
    }
    assert_eq!(bed.ask(&get("/", &planted)).status, 303);
    // The session before a login ends with it, also when it was somebody else's.
    let anna = bed.login("anna");
    bed.ask(&post("/login", &[("name", "rita"), ("password", PASSWORD)], &anna.cookie));
    assert_eq!(anna.get("/").status, 303);
    // Numbers that are none.
    for value in ["", "0", "../../etc/passwd", &"f".repeat(64), "%00"] {
        assert_eq!(bed.ask(&get("/", &format!("__Host-rampart={value}"))).status, 303, "{value}");
    }
    // What is kept in memory is not what is in the cookie, and a script does not keep a session open.
    let rita = bed.login("rita");
    bed.passed.set(Duration::from_secs(29 * 60));
    assert_eq!(bed.ask(&Request { is_live: true, ..get("/", &rita.cookie) }).status, 200);
    bed.passed.set(Duration::from_secs(31 * 60));
    assert_eq!(bed.ask(&Request { is_live: true, ..get("/", &rita.cookie) }).status, 401);
}

/// A session ends with the password that opened it, whoever changes that and wherever: the command line knows of no session.
#[test]
fn a_session_is_of_the_password_that_opened_it() {
    type Change = fn(&Bed, &Login<'_>);
    let rows: [(&str, Change, bool); 5] = [
        ("nothing", |_, _| {}, true),
        ("another role", |bed, _| bed.users().set_role("rita", Role::Operate, false).unwrap(), true),
        (
            "another password by the command line",
            |bed, _| drop(bed.users().set_password("rita", "another long one").unwrap()),
            false,
        ),
        (
            "somebody else of this name",
            |bed, _| {
                bed.users().remove("rita", false).unwrap();
                bed.users().add("rita", Role::Administer, PASSWORD).unwrap();
            },
            false,
        ),
        (
            "an own password in this session",
            |_, login| {
                let form = [("old", PASSWORD), ("new", "another long one"), ("again", "another long one")];
                assert_eq!(login.post("/account/password", &form).status, 303);
            },
            true,
        ),
    ];
    for (what, change, goes_on) in rows {
        let bed = Bed::new();
        let rita = bed.login("rita");
        change(&bed, &rita);
        assert_eq!(rita.get("/").status == 200, goes_on, "{what}");
    }
    let bed = Bed::new();
    let anna = bed.login("anna");
    let form = [("name", "anna"), ("password", "another long one")];
    assert_eq!(anna.post("/users/password", &form).status, 303);
    assert_eq!(anna.get("/").status, 200, "who gave himself another password");
}

/// Who has a session and not the password may guess it no quicker there than at the login.
#[test]
fn an_old_password_is_not_guessed_quickly() {
    let bed = Bed::new();
    let rita = bed.login("rita");
    let statuses: Vec<u16> =
        (0..20).map(|_| rita.post("/account/password", &[("old", "a wrong one")]).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 10, "{statuses:?}");
    assert_eq!(rita.post("/account/password", &[("old", PASSWORD)]).status, 429);
}

/// What is confirmed is what was shown, and of two who apply at once one learns of the other.
#[test]
fn nobody_keeps_or_replaces_what_he_has_not_seen() {
    let bed = Bed::new();
    let (anna, other) = (bed.login("anna"), bed.login("anna"));
    let text = |n: u32| format!("{}# {n}\n", bed.firewall.text_in_force());
    let base = || secret::hash(&bed.firewall.text_in_force());
    let apply = |login: &Login<'_>, text: &str, base: &str| {
        let form = [("text", text), ("base", base), ("confirm_seconds", "60"), ("token", &login.token)];
        post("/policy/apply", &form, &login.cookie)
    };
    assert_eq!(bed.ask(&apply(&anna, &text(1), &base())).status, 303);
    let page = anna.get("/").body;
    let shown = page.split("name=\"number\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(page.contains("Policy 2 of the history, by"), "{page}");
    assert_eq!(shown, "2");
    assert_eq!(bed.ask(&apply(&other, &text(2), &base())).status, 303);
    assert_eq!(anna.post("/policy/confirm", &[("number", &shown)]).status, 409);
    assert!(bed.firewall.waits(), "the policy that came in between was not confirmed");
    assert_eq!(anna.post("/policy/confirm", &[("number", "3")]).status, 303);
    let now = Moment { passed: Duration::ZERO, wall: jiff::Timestamp::UNIX_EPOCH };
    for round in 0..20 {
        let requests = [(&anna, 1), (&other, 2)].map(|(who, n)| apply(who, &text(10 * round + n), &base()));
        let mut statuses = std::thread::scope(|scope| {
            let app = &bed.app;
            let threads = requests
                .each_ref()
                .map(|request| scope.spawn(move || app.answer(request, [192, 0, 2, 9].into(), now).status));
            threads.map(|thread| thread.join().unwrap())
        });
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 409], "round {round}");
    }
}

#[test]
fn paths_lead_to_routes_and_to_nothing_else() {
    let bed = Bed::new();
    let anna = bed.login("anna");
    for path in [
        "/../etc/passwd",
        "/style.css/../../users.json",
        "//rules",
        "/rules/",
        "/RULES",
        "/%2e%2e/users.json",
        "/users.json",
        "/login\0",
        "/static/style.css",
        "/help/../rules",
        "\\rules",
        "/rules;x",
    ] {
        assert_eq!(anna.get(path).status, 404, "{path}");
    }
    for name in ["../../../etc/passwd", "web.md", "/etc/passwd", "web/../policy", ""] {
        assert_eq!(anna.get(&format!("/help/page?name={name}")).status, 404, "{name}");
    }
    for (host, status) in [("fw.example:8443", 303), ("localhost", 303), ("evil.example", 421), ("", 421)] {
        let request = Request { host: host.to_owned(), ..get("/", "") };
        assert_eq!(bed.ask(&request).status, status, "{host}");
    }
}

#[test]
fn passwords_are_not_guessed_quickly() {
    let bed = Bed::new();
    for attempt in 0..5 {
        assert_eq!(bed.try_login("anna", "wrong"), Err(403), "{attempt}");
    }
    assert_eq!(bed.try_login("anna", PASSWORD), Err(429), "even the right one has to wait");
    bed.peer.set("203.0.113.1".parse().unwrap());
    assert_eq!(bed.try_login("anna", PASSWORD), Err(429), "from another address, too");
    assert!(bed.try_login("rita", PASSWORD).is_ok(), "others do not wait");
    bed.passed.set(Duration::from_secs(2));
    assert!(bed.try_login("anna", PASSWORD).is_ok(), "when the time is over");
    // Names that nobody has are throttled by their address.
    bed.peer.set("203.0.113.2".parse().unwrap());
    let statuses: Vec<_> =
        (0..12).map(|n| bed.try_login(&format!("user{n}"), "wrong").unwrap_err()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 2, "{statuses:?}");
}

/// Who is not logged in sends no long forms, and nobody sends them where none belong.
#[test]
fn long_forms_are_for_policies_alone() {
    let bed = Bed::new();
    let now = rampart_web::app::Moment { passed: Duration::ZERO, wall: jiff::Timestamp::UNIX_EPOCH };
    let (anna, rita) = (bed.login("anna"), bed.login("rita"));
    for (path, cookie, is_long) in [
        ("/policy/check", anna.cookie.as_str(), true),
        ("/policy/check", &rita.cookie, true),
        ("/policy/check", "", false),
        ("/policy/apply", "__Host-rampart=0", false),
        ("/login", &anna.cookie, false),
        ("/users/add", &anna.cookie, false),
        ("/nothing", &anna.cookie, false),
    ] {
        let longest = bed.app.longest_form(&post(path, &[], cookie), now);
        assert_eq!(longest > rampart_web::http::MAX_FORM, is_long, "{path}");
    }
    let long = "#".repeat((1 << 20) + 1);
    assert_eq!(anna.post("/policy/check", &[("text", &long)]).status, 413);
}
