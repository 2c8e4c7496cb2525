//! A fleet over a real server of NATS: firewalls take what is signed for their group, go back together, and say how they are.

use crate::WEB;
use crate::bed::{Bed, Firewall, Outcome, until};
use crate::certificates::Authority;
use serde_json::Value;
use std::path::{Path, PathBuf};
use testkit::namespace::Background;
use testkit::slowness;

/// What lets a firewall's agent reach the server outside.
const TO_THE_SERVER: &str =
    "[[rules]]\nname = 'fleet'\nfrom = 'self'\nto = 'outside'\nservice = 'tcp/4222'\naction = 'allow'\n";
const LOGGED: &str = "[[defaults]]\nfrom = 'inside'\nto = 'outside'\naction = 'deny'\nlog = true\n";
/// Where a firewall reaches the server: the first by its zone outside, the others by links of their own, which no zone has.
fn server_of_firewall(place: usize) -> String {
    if place == 0 { "nats://10.81.2.2:4222".to_owned() } else { format!("nats://10.82.{place}.1:4222") }
}

/// Where `scripts/prepare test` puts the server: beside what is built.
fn nats_server() -> PathBuf {
    let built = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let program = built.join("nats/bin/nats-server");
    assert!(program.exists(), "there is no {}: `scripts/prepare test` installs it", program.display());
    program
}

/// A server whose agents may do no more than the guide says.
fn server_settings(store: &Path) -> String {
    let guide = include_str!("../../../../docs/guide/fleet.md");
    let given = guide.split("```text\nauthorization").nth(1).unwrap().split("```").next().unwrap();
    let users = given.trim().trim_start_matches("{ users = [").trim_end_matches("] }").trim();
    let of = |name: &str| users.replace("zurich-1", name).replace("$2a$11$...", name);
    format!(
        "listen: \"0.0.0.0:4222\"\njetstream {{ store_dir: \"{}\" }}\nauthorization {{ users = [\n\
         {{ user: director, password: director }}\n{}\n{}\n{} ] }}\n",
        store.display(),
        of("a"),
        of("b"),
        of("c")
    )
}

/// Firewalls, `branches` unless a test says otherwise, and a server outside the first.
struct Fleet {
    beds: Vec<Bed>,
    key: String,
    public: String,
    _server: Background,
}

impl Fleet {
    fn new(firewalls: usize) -> Self {
        let beds: Vec<Bed> = (0..firewalls).map(|_| Bed::new()).collect();
        for (place, bed) in beds.iter().enumerate().skip(1) {
            let (link, far) = (format!("hub{place}"), bed.namespace("fw"));
            beds[0].ip("out", &["link", "add", &link, "type", "veth", "peer", "name", "hub", "netns", &far]);
            for (bed, host, link, end) in [(&beds[0], "out", &*link, 1), (bed, "fw", "hub", 2)] {
                bed.ip(host, &["address", "add", &format!("10.82.{place}.{end}/24"), "dev", link]);
                bed.ip(host, &["link", "set", link, "up"]);
            }
        }
        let settings = beds[0].folder.path().join("nats.conf").display().to_string();
        std::fs::write(&settings, server_settings(&beds[0].folder.path().join("jetstream"))).unwrap();
        let program = nats_server().display().to_string();
        let server = Background::start(beds[0].host_of("out"), &program, &["-c", &settings]);
        until("the server listens", || beds[0].host_of("out").run("ss", &["-Hlnt"]).contains(":4222 "));
        let mut fleet = Self { beds, key: String::new(), public: String::new(), _server: server };
        (fleet.key, fleet.public) = fleet.make_key("own.key");
        fleet
    }

    fn make_key(&self, name: &str) -> (String, String) {
        let file = self.beds[0].folder.path().join(name).display().to_string();
        let (status, public) = self.beds[0].rampart(&["fleet", "key", &file]);
        assert_eq!(status, 0, "{public}");
        (file, public.trim().to_owned())
    }

    /// Writes the configuration of one of them, whose agent has that name.
    fn config(&self, of: usize, name: &str) -> String {
        let file = self.beds[of].folder.path().join(format!("{name}.toml"));
        let password = self.beds[of].folder.path().join(format!("{name}.password"));
        std::fs::write(&password, name).unwrap();
        let group = if name == "c" { "offices" } else { "branches" };
        let agent = format!("[agent]\nname = '{name}'\ngroup = '{group}'\ntrust = ['{}']\n", self.public);
        let text = format!(
            "server = '{}'\nuser = '{name}'\npassword_file = '{}'\n{}",
            server_of_firewall(of),
            password.display(),
            if name == "director" { "" } else { &agent },
        );
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// Starts all firewalls with a policy, and a server behind each.
    fn up(&self, policy: &str) -> Vec<Firewall> {
        let up = |bed: &Bed| {
            bed.serve(8080);
            bed.up(policy, "auto")
        };
        self.beds.iter().map(up).collect()
    }

    fn start_agent(&self, of: usize, name: &str) -> Firewall {
        let (config, state) = (self.config(of, name), self.beds[of].folder.path().join(name));
        let words = ["agent", "--config", &config, "--state", &state.display().to_string()];
        self.beds[of].start(&[&[env!("CARGO_BIN_EXE_rampart")][..], &words].concat())
    }

    /// `rampart fleet` at the second firewall, which always reaches the server.
    fn run(&self, words: &[&str]) -> (i32, String) {
        let config = self.config(1, "director");
        self.beds[1].rampart(&[&["fleet", "--config", &config], words].concat())
    }

    fn apply(&self, policy: &str, key: &str, confirm: u32) -> (i32, String) {
        self.apply_to("branches", policy, key, confirm)
    }

    fn apply_to(&self, group: &str, policy: &str, key: &str, confirm: u32) -> (i32, String) {
        let confirm = confirm.to_string();
        self.run(&["apply", policy, "--group", group, "--key", key, "--confirm", &confirm])
    }

    fn report(&self, name: &str) -> Option<Value> {
        let (status, text) = self.run(&["status", "--json"]);
        let firewalls: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
        firewalls["firewalls"].as_array().unwrap().iter().find(|it| it["name"] == name).cloned()
    }

    fn until_order_is(&self, name: &str, state: &str) {
        until(&format!("{name}: {state}"), || {
            self.report(name).is_some_and(|report| report["order_state"]["is"] == state)
        });
    }
}

#[test]
fn needs_root_a_group_takes_a_policy_together_or_not_at_all() {
    let fleet = Fleet::new(2);
    let [first, second] = &fleet.beds[..] else { panic!("two") };
    let policy = |rules: &str, name: &str| first.policy(name, rules);
    let closed = policy(&format!("{TO_THE_SERVER}{LOGGED}"), "closed.toml");
    let _firewalls = fleet.up(&closed);
    let _a = fleet.start_agent(0, "a");
    until("the first agent is heard", || fleet.report("a").is_some());

    // A group of one works by it, and it is confirmed; who comes later follows.
    let open = policy(&format!("{TO_THE_SERVER}{WEB}"), "open.toml");
    let (status, text) = fleet.apply(&open, &fleet.key, 600);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("in force at 1 firewall and stays"), "{text}");
    first.expect(8080, Outcome::Answered, "the order");
    second.expect(8080, Outcome::Silence, "the second is of no fleet yet");
    let _b = fleet.start_agent(1, "b");
    fleet.until_order_is("b", "confirmed");
    second.expect(8080, Outcome::Answered, "what is confirmed for the group");
    for entry in &second.json(&["history"])["entries"].as_array().unwrap()[1..] {
        assert!(entry["by"]["acting_for"].as_str().unwrap().starts_with("fleet-20"), "{entry}");
    }

    // What cuts one of them off from the server stays at none.
    let cutting = policy("", "cutting.toml");
    let (status, text) = fleet.apply(&cutting, &fleet.key, 10 * slowness());
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("a: said nothing in time") && text.contains("b: in force until"), "{text}");
    for (name, bed) in [("a", first), ("b", second)] {
        fleet.until_order_is(name, "rolled-back");
        bed.expect(8080, Outcome::Answered, "the policy before it");
    }

    // What others sign is nothing, and the one before it is not obeyed again.
    let (foreign, _) = fleet.make_key("foreign.key");
    let (status, text) = fleet.apply(&closed, &foreign, 10 * slowness());
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("a: said nothing in time") && text.contains("b: said nothing in time"), "{text}");
    let troubles = fleet.report("b").unwrap()["troubles"].to_string();
    assert!(troubles.contains("no key under `trust` has signed it"), "{troubles}");
    second.expect(8080, Outcome::Answered, "the policy before it");
    let (status, text) = fleet.apply(&closed, &fleet.key, 600);
    assert_eq!(status, 0, "{text}");
    for bed in &fleet.beds {
        bed.expect(8080, Outcome::Silence, "by order");
    }
}

/// Three firewalls, one of them of another group, and one whose agent is away while the policy of its group is replaced twice.
#[test]
fn needs_root_who_was_away_takes_the_newest_and_other_groups_take_nothing() {
    let fleet = Fleet::new(3);
    let [first, second, third] = &fleet.beds[..] else { panic!("three") };
    let closed = first.policy("closed.toml", &format!("{TO_THE_SERVER}{LOGGED}"));
    let open = first.policy("open.toml", &format!("{TO_THE_SERVER}{WEB}"));
    let _firewalls = fleet.up(&closed);
    let _a = fleet.start_agent(0, "a");
    let mut away = fleet.start_agent(1, "b");
    let _c = fleet.start_agent(2, "c");
    for name in ["a", "b", "c"] {
        until(&format!("{name} is heard"), || fleet.report(name).is_some());
    }

    // One group's policy is nothing to the other.
    let (status, text) = fleet.apply(&open, &fleet.key, 600);
    assert!(status == 0 && text.contains("in force at 2 firewalls and stays"), "{status}: {text}");
    assert!(text.contains("sent to a, b\n"), "{text}");
    for (bed, outcome) in [(first, Outcome::Answered), (second, Outcome::Answered), (third, Outcome::Silence)]
    {
        bed.expect(8080, outcome, "an order for branches");
    }
    assert_eq!(fleet.report("c").unwrap()["order_state"]["is"], "none");
    let (status, text) = fleet.apply_to("offices", &open, &fleet.key, 600);
    assert!(status == 0 && text.contains("in force at 1 firewall and stays"), "{status}: {text}");
    third.expect(8080, Outcome::Answered, "an order for offices");
    let made = |name: &str| fleet.report(name).unwrap()["order"].clone();
    let of_offices = made("c");

    // Who went a moment ago is waited for, and no firewall of the group keeps what not all of them took.
    away.signal(nix::sys::signal::Signal::SIGKILL);
    away.end();
    let (status, text) = fleet.apply(&closed, &fleet.key, 10 * slowness());
    assert!(status == 3 && text.contains("b: said nothing in time"), "{status}: {text}");
    fleet.until_order_is("a", "rolled-back");
    first.expect(8080, Outcome::Answered, "the policy before it");

    // Who is stale is not waited for. The policy is replaced twice meanwhile.
    let is_stale =
        || fleet.run(&["status"]).1.lines().any(|line| line.starts_with("b ") && line.contains("stale"));
    until("b is stale", is_stale);
    for (policy, outcome) in [(&open, Outcome::Answered), (&closed, Outcome::Silence)] {
        let (status, text) = fleet.apply(policy, &fleet.key, 600);
        assert!(status == 0 && text.contains("in force at 1 firewall and stays"), "{status}: {text}");
        assert!(text.contains("; b will take it when heard again"), "{text}");
        first.expect(8080, outcome, "by order");
    }
    second.expect(8080, Outcome::Answered, "its firewall goes on without its agent");
    let entries = || second.json(&["history"])["entries"].as_array().unwrap().len();
    let before = entries();
    let _b = fleet.start_agent(1, "b");
    // What the agent said last before it went may be of the order before.
    until("b has the newest of its group", || fleet.report("b").unwrap()["order"] == made("a"));
    fleet.until_order_is("b", "confirmed");
    second.expect(8080, Outcome::Silence, "the newest of its group");
    assert_eq!(entries(), before + 1, "the newest alone");
    assert_eq!(made("b"), made("a"), "one order holds at the whole group");
    assert_eq!(made("c"), of_offices);
    third.expect(8080, Outcome::Answered, "still the order for offices");
}

#[test]
fn needs_root_a_fleet_says_how_it_is() {
    let fleet = Fleet::new(2);
    let bed = &fleet.beds[1];
    let (status, text) = fleet.run(&["status"]);
    assert_eq!((status, text.as_str()), (0, "no agent was ever heard\n"));
    let policy = bed.policy("p.toml", LOGGED);
    let (status, text) = fleet.apply(&policy, &fleet.key, 60);
    assert!(
        status == 3 && text.contains("no agent says that it is of the group branches"),
        "{status}: {text}"
    );
    // An agent without a firewall is one that says so.
    let mut agent = fleet.start_agent(1, "b");
    until("it is heard", || fleet.report("b").is_some());
    assert!(fleet.report("b").unwrap()["troubles"].to_string().contains("no firewall runs here"));
    let mut firewall = bed.up(&policy, "auto");
    until("its firewall is seen", || fleet.report("b").unwrap()["firewall"]["file"] == policy.as_str());
    // Each event once, whatever is killed meanwhile.
    let denied = |number: usize| {
        bed.expect(2525, Outcome::Silence, "denied, and logged");
        let events = || {
            let (status, text) = fleet.run(&["log", "b", "--json"]);
            let events: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
            let mut numbers: Vec<_> = events["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| (it["at"].to_string(), it["number"].as_u64()))
                .collect();
            let all = numbers.len();
            numbers.sort();
            numbers.dedup();
            assert_eq!(numbers.len(), all, "none twice");
            all
        };
        until(&format!("{number} events"), || events() >= number);
    };
    denied(1);
    agent.signal(nix::sys::signal::Signal::SIGKILL);
    agent.end();
    bed.expect(2525, Outcome::Silence, "while there is no agent");
    let _agent = fleet.start_agent(1, "b");
    denied(3);
    firewall.signal(nix::sys::signal::Signal::SIGTERM);
    firewall.end();
    let _firewall = bed.up(&policy, "auto");
    denied(4);
    let text = fleet.run(&["log"]).1;
    assert!(text.lines().all(|line| line.starts_with("b 20") && line.contains("refused")), "{text}");
    let (status, text) = fleet.run(&["metrics", "b"]);
    assert!(status == 0 && text.contains("\nrampart_policy_rules 0\n"), "{status}: {text}");
    // A policy with a mistake is not sent, and a server that is not there is said.
    let wrong = bed.policy("wrong.toml", "[[rules]]\nnaem = 'x'\n");
    let (status, text) = fleet.apply(&wrong, &fleet.key, 60);
    assert!(status == 2 && text.contains("wrong.toml:"), "{status}: {text}");
    let elsewhere = bed.folder.path().join("elsewhere.toml");
    std::fs::write(&elsewhere, "server = 'nats://10.82.0.1:4223'\n").unwrap();
    let (status, text) = bed.rampart(&["fleet", "--config", elsewhere.to_str().unwrap(), "status"]);
    assert!(status == 3 && text.contains("cannot use nats://10.82.0.1:4223"), "{status}: {text}");
}

/// A server outside with a certificate for one name, or without one.
fn server_of(bed: &Bed, port: u16, certificate: Option<[String; 2]>) -> Background {
    let file = |end: &str| bed.folder.path().join(format!("{port}.{end}")).display().to_string();
    let tls = certificate
        .map(|[certificate, key]| format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\n"));
    let settings = format!(
        "listen: \"0.0.0.0:{port}\"\njetstream {{ store_dir: \"{}\" }}\n\
         authorization {{ users = [ {{ user: b, password: b }} ] }}\n{}",
        file("jetstream"),
        tls.unwrap_or_default()
    );
    std::fs::write(file("conf"), settings).unwrap();
    let program = nats_server().display().to_string();
    let server = Background::start(bed.host_of("out"), &program, &["-c", &file("conf")]);
    let listens = format!(":{port} ");
    until("the server listens", || bed.host_of("out").run("ss", &["-Hlnt"]).contains(&listens));
    server
}

/// By `tls://` the server proves who it is before it learns a password; nobody who cannot is used.
#[test]
fn needs_root_the_server_of_a_fleet_proves_who_it_is() {
    let bed = Bed::new();
    let folder = bed.folder.path();
    let (ours, foreign) = (Authority::new(folder, "own"), Authority::new(folder, "foreign"));
    let _servers = [
        server_of(&bed, 4222, Some(ours.sign("10.81.2.2"))),
        server_of(&bed, 4223, Some(ours.sign("nats.example.net"))),
        server_of(&bed, 4224, None),
    ];
    let password = folder.join("password");
    std::fs::write(&password, "b\n").unwrap();
    let config = |url: &str, ca: Option<&Authority>, agent: &str| {
        let file = folder.join("fleet.toml").display().to_string();
        let ca = ca.map(|ca| format!("ca_file = '{}'\n", ca.file)).unwrap_or_default();
        let text =
            format!("server = '{url}'\n{ca}user = 'b'\npassword_file = '{}'\n{agent}", password.display());
        std::fs::write(&file, text).unwrap();
        file
    };
    let rule = TO_THE_SERVER.replace("'tcp/4222'", "'tcp/4222-4224'");
    let _firewall = bed.up(&bed.policy("p.toml", &rule), "auto");
    let key = folder.join("own.key").display().to_string();
    let public = bed.rampart(&["fleet", "key", &key]).1;
    let agent = format!("[agent]\nname = 'b'\ngroup = 'g'\ntrust = ['{}']\n", public.trim());
    let state = folder.join("b").display().to_string();
    let config_of_agent = config("tls://10.81.2.2:4222", Some(&ours), &agent);
    let words = [env!("CARGO_BIN_EXE_rampart"), "agent", "--config", &config_of_agent, "--state", &state];
    let _agent = bed.start(&words);
    let status = |url: &str, ca: Option<&Authority>| {
        bed.rampart(&["fleet", "--config", &config(url, ca, &agent), "status"])
    };
    until("the agent is heard", || status("tls://10.81.2.2:4222", Some(&ours)).1.contains("\nb "));
    for (url, ca, expected) in [
        ("tls://10.81.2.2:4222", Some(&foreign), "none of the authorities in `ca_file`"),
        ("tls://10.81.2.2:4222", None, "or without it of those of the machine, has signed its certificate"),
        ("nats://10.81.2.2:4222", Some(&foreign), "none of the authorities in `ca_file`"),
        ("tls://10.81.2.2:4223", Some(&ours), "its certificate is for another name"),
        ("tls://10.81.2.2:4224", Some(&ours), "it does not speak TLS"),
    ] {
        let (status, text) = status(url, ca);
        assert!(status == 3 && text.contains(expected) && text.contains(url), "{url}: {status} {text}");
    }
}
