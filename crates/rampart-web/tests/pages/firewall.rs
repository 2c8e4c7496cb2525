//! A firewall that answers as the real one does, from memory: policies are read by the real language, everything else is recorded. It
//! notes what it was asked and for whom.

use rampart_client::api::{
    self, Actor, Applied, Changes, HistoryEntry, KeptPolicy, NewPolicy, Outcome, Refusal, Status, Way,
};
use rampart_client::http::{JSON, Request, read_request, write_response};
use rampart_client::policy::Policy;
use serde_json::{Value, json};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The policy that it begins with. Names are free texts to a hostile firewall; those of a real policy are checked.
pub(crate) const POLICY: &str = "[zones]
inside = { interfaces = 'eth1', networks = '10.0.0.0/8' }
outside = { interfaces = 'eth0' }

[[rules]]
name = 'web'
description = 'pages </textarea><script>alert(1)</script>'
from = 'inside'
to = 'outside'
service = ['http', 'https']
action = 'allow'

[[nat]]
name = 'masquerade'
from = 'inside'
to = 'outside'
masquerade = true
";

/// What attackers call things.
pub(crate) const HOSTILE: &str = "\"'><script>alert('x')</script><img src=x onerror=alert(1)>{{ token }}";

#[derive(Default)]
struct State {
    policies: Vec<(HistoryEntry, String)>,
    in_force: usize,
    waits: bool,
    /// Method, target, and for whom.
    asked: Vec<(String, String, Option<String>)>,
}

pub(crate) struct Firewall {
    state: Arc<Mutex<State>>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Firewall {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("firewall.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        state.lock().unwrap().put(POLICY, Way::Up, None, None);
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Ok(Some(request)) = read_request(&mut stream) else { continue };
                let (status, body) = shared.lock().unwrap().answer(&request);
                let body = serde_json::to_vec(&body).unwrap();
                let _ = write_response(&mut stream, status, None, (JSON, &body));
            }
        });
        Self { state, socket, _folder: folder }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What changed it: `DELETE /v1/flows?...` and for whom.
    pub(crate) fn changed_by(&self) -> Vec<(String, Option<String>)> {
        let state = self.state.lock().unwrap();
        let changes = state.asked.iter().filter(|(method, ..)| method != "GET");
        changes.map(|(method, target, by)| (format!("{method} {target}"), by.clone())).collect()
    }

    pub(crate) fn text_in_force(&self) -> String {
        let state = self.state.lock().unwrap();
        state.policies[state.in_force].1.clone()
    }

    pub(crate) fn waits(&self) -> bool {
        self.state.lock().unwrap().waits
    }
}

impl State {
    fn put(&mut self, text: &str, way: Way, of: Option<u64>, by: Option<String>) {
        let waiting = self.waits;
        if let Some((entry, _)) = self.policies.last_mut().filter(|(it, _)| it.outcome == Outcome::Waiting) {
            entry.outcome = Outcome::Replaced;
        }
        let by = Actor::Process {
            uid: 990,
            user: Some("rampart-web".to_owned()),
            login: None,
            acting_for: by,
            pid: 7,
            command: HOSTILE.to_owned(),
        };
        let entry = HistoryEntry {
            number: self.policies.len() as u64 + 1,
            at: "2026-11-20T10:00:00Z".parse().unwrap(),
            by,
            way,
            of,
            from_backup: false,
            file: HOSTILE.to_owned(),
            folder: None,
            rules: text.matches("[[rules]]").count() as u64,
            sha256: "0".repeat(64),
            outcome: if waiting { Outcome::Waiting } else { Outcome::Applied },
        };
        self.in_force = self.policies.len();
        self.policies.push((entry, text.to_owned()));
    }

    fn answer(&mut self, request: &Request) -> (u16, Value) {
        let Request { method, path, query, acting_for, body, .. } = request;
        let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        self.asked.push((method.clone(), target, acting_for.clone()));
        let wanted = |key: &str| {
            form_urlencoded::parse(query.as_bytes())
                .find(|(name, _)| name == key)
                .map(|(_, value)| value.into_owned())
        };
        match (method.as_str(), path.as_str()) {
            ("GET", "/v1/status") => (200, json!(self.status())),
            ("GET", "/v1/history") => {
                let entries: Vec<_> = self.policies.iter().map(|(entry, _)| entry).collect();
                (200, json!({ "in_force": self.in_force + 1, "entries": entries, "broken": [HOSTILE] }))
            }
            ("GET", "/v1/policy") => {
                let place = wanted("number")
                    .map_or(Some(self.in_force), |it| it.parse::<usize>().ok()?.checked_sub(1));
                match place.and_then(|place| self.policies.get(place)) {
                    Some((entry, text)) => {
                        let file = entry.file.clone();
                        (
                            200,
                            json!(KeptPolicy {
                                number: Some(entry.number),
                                file,
                                folder: None,
                                text: text.clone()
                            }),
                        )
                    }
                    None => refused(404, "the history has no such entry", Vec::new()),
                }
            }
            ("PUT", "/v1/policy") => {
                let new: NewPolicy = serde_json::from_slice(body).unwrap();
                self.apply(&new, acting_for.clone())
            }
            ("POST", "/v1/policy/rollback") => {
                let number: usize = wanted("number").unwrap().parse().unwrap();
                let Some((_, text)) = self.policies.get(number.wrapping_sub(1)).cloned() else {
                    return refused(404, "the history has no such entry", Vec::new());
                };
                self.waits = wanted("confirm_seconds").is_some();
                self.put(&text, Way::Rollback, Some(number as u64), acting_for.clone());
                (200, json!(self.applied()))
            }
            ("POST", "/v1/policy/confirm")
                if self.waits && wanted("number").is_none_or(|it| it == (self.in_force + 1).to_string()) =>
            {
                self.waits = false;
                self.policies[self.in_force].0.outcome = Outcome::Confirmed;
                (200, json!({ "generation": 3 }))
            }
            ("POST", "/v1/policy/confirm") => refused(409, "no policy needs to be confirmed", Vec::new()),
            ("DELETE", "/v1/flows") => (200, json!({ "killed": 1 })),
            ("DELETE", "/v1/blocks") => (200, json!({ "ended": 1 })),
            ("GET", "/v1/drops") => {
                let mut drops = recorded(path);
                drops["drops"][0]["packets"] = (4_321 + 17 * (self.asked.len() as u64 - 1)).into();
                (200, drops)
            }
            ("GET", path) => (200, recorded(path)),
            _ => refused(404, "there is no such operation", Vec::new()),
        }
    }

    fn apply(&mut self, new: &NewPolicy, by: Option<String>) -> (u16, Value) {
        if let Err(problems) = Policy::parse(&new.file, &new.text) {
            return refused(
                422,
                "the policy has errors",
                problems.list().iter().map(api::Problem::from).collect(),
            );
        }
        if new.text.contains("unsuitable") {
            return refused(422, HOSTILE, Vec::new());
        }
        self.waits = new.confirm_seconds.is_some();
        self.put(&new.text, Way::Apply, None, by);
        (200, json!(self.applied()))
    }

    fn applied(&self) -> Applied {
        let changes = Changes { added: vec![HOSTILE.to_owned()], ..Changes::default() };
        let number = Some(self.policies.len() as u64);
        let not_kept = vec![HOSTILE.to_owned()];
        Applied { generation: 3, number, rules: 1, changes, rolls_back_at: None, not_kept }
    }

    fn status(&self) -> Status {
        let back = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(600);
        let mut status = recorded("/v1/status");
        status["policy"]["rolls_back_at"] = self.waits.then(|| back.to_string()).into();
        status["policy"]["waiting"] = self.waits.then_some(self.in_force + 1).into();
        serde_json::from_value(status).unwrap()
    }
}

fn refused(status: u16, error: &str, problems: Vec<api::Problem>) -> (u16, Value) {
    (status, json!(Refusal { error: error.to_owned(), problems }))
}

/// What a busy firewall answers, with names that attackers would choose.
fn recorded(path: &str) -> Value {
    match path {
        "/v1/status" => json!({
            "version": "0.1.0", "pid": 42, "namespace": HOSTILE, "since": "2026-11-20T10:00:00Z",
            "policy": {
                "file": HOSTILE, "rules": 3, "generation": 2, "applied_at": "2026-11-20T10:00:00Z", "next_change": "2026-11-24T18:00:00Z",
                "rolls_back_at": null,
            },
            "interfaces": [
                { "name": "eth0", "zone": "outside", "hook": "xdp", "note": null },
                { "name": "eth1", "zone": HOSTILE, "hook": "tc", "note": HOSTILE },
            ],
            "flows": { "open": 12_345, "half_open": 7, "unanswered": 3, "capacity": 1_048_576 },
            "counters": [{ "name": "forwarded", "explanation": "packets that the fast path forwarded", "count": 987_654_321_u64 }],
            "alerts": [{
                "rule": HOSTILE, "since": "2026-11-24T17:00:00Z", "per": "source", "address": "198.51.100.7", "count": 154, "threshold": 100,
                "within_seconds": 60,
            }],
            "blocked_sources": 1, "exports": [{ "form": "syslog", "to": HOSTILE, "sent": 5, "lost": 0, "trouble": HOSTILE }],
            "troubles": [HOSTILE],
        }),
        "/v1/rules" => {
            let rule = |name: &str, action: &str, hits: u64| {
                json!({
                    "name": name, "action": action, "in_force": hits > 0, "from": "inside", "to": "outside", "source": "10.0.0.0/8",
                    "destination": HOSTILE, "service": "http, https", "source_port": "any", "schedule": HOSTILE, "hits": hits, "limited": 3,
                })
            };
            json!({ "generation": 2, "rules": [rule("web", "allow", 12_345), rule(HOSTILE, "deny", 0)] })
        }
        "/v1/flows" => json!({ "matched": 2, "flows": [flow("web"), flow(HOSTILE)] }),
        "/v1/lists" => json!({ "kernel_bytes": 16_777_216, "lists": [{
            "name": HOSTILE, "file": HOSTILE, "command": HOSTILE, "block": "source", "require": null, "rules": [HOSTILE], "ipv4_addresses": 65_536,
            "ipv6_ranges": 3, "broken_lines": 2, "read_at": "2026-11-20T10:00:00Z", "next_end": null, "failures": 1, "trouble": HOSTILE, "hits": 9,
        }] }),
        "/v1/blocks" => json!({ "blocks": [{
            "source": "198.51.100.7", "prefix": 32, "zone": HOSTILE, "seconds": 65, "left_seconds": 535, "ports": 120, "hosts": 3,
        }] }),
        "/v1/drops" => {
            let drop = |number: u32, reason: &str, packets: u64, alarming: bool| {
                json!({
                    "number": number, "reason": reason, "explanation": "a rule denied the packet", "packets": packets, "alarming": alarming,
                })
            };
            json!({ "drops": [drop(30, "rule-deny", 4_321, false), drop(31, HOSTILE, 7, true)] })
        }
        "/v1/log" => {
            json!({ "next": 4, "missed": 0, "suppressed": 12, "events": (1..4_u64).map(event).collect::<Vec<_>>() })
        }
        "/v1/audit" => json!({ "broken": 1, "records": [{
            "at": "2026-11-24T17:00:00Z", "event": "applied", "message": HOSTILE,
            "by": { "uid": 990, "user": "rampart-web", "acting_for": HOSTILE, "pid": 7, "command": HOSTILE },
        }] }),
        _ => json!({}),
    }
}

fn flow(rule: &str) -> Value {
    json!({
        "protocol": "tcp", "source": "10.0.0.5", "source_port": 40_000, "destination": "192.0.2.10", "destination_port": 443,
        "source_alias": { "address": "203.0.113.7", "port": 50_000 }, "from": "inside", "to": HOSTILE, "rule": rule, "state": "established",
        "idle_seconds": 3, "expires_seconds": 7_300, "packets_out": 10, "bytes_out": 1_234, "packets_back": 12, "bytes_back": 56_789_012,
    })
}

fn event(number: u64) -> Value {
    let kind = ["opened", "refused", "scan"][number as usize % 3];
    json!({
        "number": number, "at": format!("2026-11-24T17:0{number}:00.125Z"), "event": kind, "rule": HOSTILE, "source_list": HOSTILE, "protocol": "tcp",
        "source": "198.51.100.7", "source_port": 40_000, "destination": "192.0.2.10", "destination_port": 22, "from": "outside", "to": HOSTILE,
        "reason": HOSTILE, "scan": { "ports": 120, "hosts": 1, "blocked": true },
    })
}
