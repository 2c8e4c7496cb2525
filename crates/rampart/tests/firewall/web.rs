//! The web administration over a real firewall: its pages show what is there, and what they change the firewall has done.

use crate::WEB;
use crate::bed::{Bed, Outcome};
use rampart_client::{Client, socket};
use rampart_web::app::{App, Moment, Settings};
use rampart_web::http::{Answer, Fields, Method, Request};
use rampart_web::users::{Role, Users};
use std::path::Path;

const HOST: &str = "127.0.0.1:8443";
const PASSWORD: &str = "correct horse battery";

/// A browser of one user.
struct Browser {
    app: App,
    cookie: String,
    token: String,
}

impl Browser {
    fn log_in(bed: &Bed) -> Self {
        let users = Users::cheap(&bed.folder.path().join("users.json")).unwrap();
        users.add("anna", Role::Administer, PASSWORD).unwrap();
        let path = Path::new(socket::FOLDER).join(format!("{}.sock", bed.namespace("fw")));
        let settings = Settings { is_tls: true, names: Vec::new() };
        let app = App::new(Client::new(Some(&path)).unwrap(), users, settings).unwrap();
        let mut browser = Self { app, cookie: String::new(), token: String::new() };
        let answer = browser.send("/login", &[("name", "anna"), ("password", PASSWORD)]);
        browser.cookie = answer.cookie.unwrap().split(';').next().unwrap().to_owned();
        browser.token = value(&browser.see("/account"), "token");
        browser
    }

    fn ask(&self, method: Method, target: &str, form: &[(&str, &str)]) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request {
            method,
            path: path.to_owned(),
            query: Fields::parse(query.as_bytes()),
            form: Fields::parse(form.as_bytes()),
            host: HOST.to_owned(),
            origin: Some(format!("https://{HOST}")),
            cookies: self.cookie.clone(),
            is_live: false,
        };
        self.app.answer(&request, "127.0.0.1".parse().unwrap(), Moment::now())
    }

    fn see(&self, target: &str) -> String {
        let answer = self.ask(Method::Get, target, &[]);
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        answer.body
    }

    fn send(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        self.ask(Method::Post, path, &[form, &[("token", self.token.as_str())]].concat())
    }
}

/// The value of a hidden field of a page.
fn value(page: &str, field: &str) -> String {
    let rest = page.split(&format!("name=\"{field}\" value=\"")).nth(1).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn needs_root_the_web_administration_changes_a_real_firewall() {
    let bed = Bed::new();
    bed.serve(8080);
    let _firewall = bed.up_with(&[&bed.policy("open.toml", WEB)]);
    let browser = Browser::log_in(&bed);
    bed.expect(8080, Outcome::Answered, "the policy allows it");
    for (target, expected) in [
        ("/", "All is well"),
        ("/rules", "web"),
        ("/flows", "10.81.1.2"),
        ("/events", "newest"),
        ("/drops", "What it means"),
        ("/blocks", "No source is blocked"),
        ("/lists", "The policy has no lists"),
        ("/nat", "translates no addresses"),
        ("/policy", "[zones"),
        ("/explain?from=inside&to=outside&source=10.81.1.2&destination=10.81.2.2&service=tcp/8080", "allow"),
        ("/history", "open.toml"),
        ("/audit", "up"),
    ] {
        let page = browser.see(target);
        assert!(page.contains(expected), "{target}: {page}");
    }
    // A policy without the rule, as the file has it without.
    let closed = std::fs::read_to_string(bed.policy("closed.toml", "")).unwrap();
    let changes = browser.send("/policy/changes", &[("text", &closed), ("base", "")]).body;
    let base = value(&changes, "base");
    let form = [("text", closed.as_str()), ("base", &base), ("confirm_seconds", "600")];
    let applied = browser.send("/policy/apply", &form);
    assert_eq!(applied.status, 303, "{}", applied.body);
    assert!(browser.see("/").contains(" waits to be confirmed"));
    bed.expect(8080, Outcome::Silence, "the rule is gone");
    let back = browser.send("/history/rollback", &[("number", "1"), ("confirm_seconds", "60")]);
    assert_eq!(back.status, 303, "{}", back.body);
    bed.expect(8080, Outcome::Answered, "the policy before is back at once");
    assert!(!browser.see("/").contains("waits to be confirmed"));
    // The firewall has written down for whom.
    for entry in &bed.json(&["history"])["entries"].as_array().unwrap()[1..] {
        assert_eq!(entry["by"]["acting_for"], "anna", "{entry}");
    }
    assert!(browser.see("/audit").contains("anna (by root)"));
}
