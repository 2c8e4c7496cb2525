//! Answers requests on the socket: a thread per connection, one request each. [`Daemon`] does what they ask.

use super::run::{Wake, Waker};
use super::{Daemon, Moment, Refused};
use crate::api::{self, EVENTS_SHOWN, FLOWS_SHOWN, Filter, NewPolicy, Operation, Refusal};
use crate::http::{ReadError, Request, read_request, write_response};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use serde::Serialize;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a client may take for its next bytes: it is a program on this machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections at once. Beyond it a client waits in the socket's queue.
const MAX_CONNECTIONS: usize = 64;

/// Answers requests until the process ends.
pub(crate) fn serve(listener: UnixListener, daemon: Arc<Daemon>, waker: Waker) {
    std::thread::spawn(move || {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            while open.load(Ordering::Acquire) >= MAX_CONNECTIONS {
                std::thread::park_timeout(Duration::from_millis(100));
            }
            let Ok((stream, _)) = listener.accept() else {
                // Out of descriptors or memory: others may give some back.
                std::thread::park_timeout(Duration::from_millis(100));
                continue;
            };
            open.fetch_add(1, Ordering::AcqRel);
            let (daemon, waker) = (Arc::clone(&daemon), waker.clone());
            let slot = Slot(Arc::clone(&open));
            std::thread::spawn(move || {
                let _slot = slot;
                connection(&daemon, &waker, stream);
            });
        }
    });
}

/// One of the connections at once; released also by a thread that panics.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn connection(daemon: &Daemon, waker: &Waker, mut stream: UnixStream) {
    let patient = stream.set_read_timeout(Some(PATIENCE)).and(stream.set_write_timeout(Some(PATIENCE)));
    if patient.is_err() {
        return;
    }
    let by = getsockopt(&stream, PeerCredentials).map_or_else(
        |_| "somebody".to_owned(),
        |peer| format!("user {} (process {})", peer.uid(), peer.pid()),
    );
    let answer = match read_request(&mut stream) {
        Ok(Some(request)) => dispatch(daemon, &request, &by),
        Ok(None) | Err(ReadError::Io(_)) => return,
        Err(ReadError::Wrong(status, why)) => Answer::refused(Refused::new(status, why)),
    };
    // A client that went away meanwhile has had what it asked for done.
    let _ = write_response(&mut stream, answer.status, answer.allow.as_deref(), &answer.body);
    if answer.ends {
        waker.wake(Wake::Ended(stream));
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    allow: Option<String>,
    /// Whether the firewall is down now.
    ends: bool,
}

impl Answer {
    fn of(value: &impl Serialize) -> Self {
        Self::json(200, value)
    }

    fn refused(Refused { status, refusal }: Refused) -> Self {
        Self::json(status, &refusal)
    }

    fn json(status: u16, value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).map(|mut body| {
            body.push(b'\n');
            body
        });
        // The shapes of the API have string keys only, and so can always be written.
        Self { status, body: body.unwrap_or_default(), allow: None, ends: false }
    }
}

/// Dispatches a request to its operation.
pub(crate) fn dispatch(daemon: &Daemon, request: &Request, by: &str) -> Answer {
    let here: Vec<_> = api::find(&request.path).collect();
    let Some(route) = here.iter().find(|route| route.method == request.method) else {
        let methods: Vec<&str> = here.iter().map(|route| route.method).collect();
        return not_there(request, &methods.join(", "));
    };
    match handle(daemon, route.operation, request, by) {
        Ok(answer) => answer,
        Err(refused) => Answer::refused(refused),
    }
}

fn handle(daemon: &Daemon, operation: Operation, request: &Request, by: &str) -> Result<Answer, Refused> {
    let now = Moment::now();
    let (filter, own) = match operation {
        Operation::Log => (Filter::default(), None),
        _ => question(operation, &request.query)?,
    };
    Ok(match operation {
        Operation::Status => Answer::of(&daemon.status()?),
        Operation::Rules => Answer::of(&daemon.rules(now.wall)?),
        Operation::Flows => Answer::of(&daemon.flows(&filter, limit(own.as_deref())?)?),
        Operation::EndFlows if filter.is_all() && own.as_deref() != Some("true") => {
            let error = "this would end every flow: name a filter, or all=true if that is meant";
            return Err(Refused::new(400, error));
        }
        Operation::EndFlows => Answer::of(&daemon.kill(&filter, now.wall, by)?),
        Operation::Drops => Answer::of(&daemon.drops()?),
        Operation::Log => {
            let (after, limit) = events_wanted(&request.query)?;
            Answer::of(&daemon.events(after, limit, now)?)
        }
        Operation::Apply => Answer::of(&daemon.apply(&new_policy(&request.body)?, now, by)?),
        Operation::Confirm => Answer::of(&daemon.confirm(now.wall, by)?),
        Operation::Down => {
            let down = daemon.down(now.wall, by)?.ok_or_else(super::gone)?;
            Answer { ends: true, ..Answer::of(&down) }
        }
    })
}

fn not_there(request: &Request, methods: &str) -> Answer {
    let (status, error) = if methods.is_empty() {
        (404, format!("there is no {}: docs/schema/rampart-api.json lists what there is", request.path))
    } else {
        (405, format!("{} takes {methods}, not {}", request.path, request.method))
    };
    let refusal = Refusal { error, problems: Vec::new() };
    Answer { allow: (status == 405).then(|| methods.to_owned()), ..Answer::json(status, &refusal) }
}

/// The filter of a query, and what else the operation takes there.
fn question(operation: Operation, query: &str) -> Result<(Filter, Option<String>), Refused> {
    let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let Some((name, _)) = operation.query() else {
        return match pairs.first() {
            None => Ok((Filter::default(), None)),
            Some((key, _)) => Err(Refused::new(400, format!("{} takes no `{key}`", operation.route().path))),
        };
    };
    let (own, parts): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(key, _)| key == name);
    let parts = parts.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let filter = Filter::of_pairs(parts).map_err(|error| Refused::new(400, error.to_string()))?;
    Ok((filter, own.into_iter().next_back().map(|(_, value)| value)))
}

/// Which events are wanted: those after a number, or the newest; and how many at most.
fn events_wanted(query: &str) -> Result<(Option<u64>, u64), Refused> {
    let (mut after, mut limit) = (None, EVENTS_SHOWN);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let wrong = |takes: &str| Refused::new(400, format!("{key}={value}: {key} takes {takes}"));
        match key.as_ref() {
            "after" => after = Some(value.parse().map_err(|_| wrong("the number of an event"))?),
            "limit" => limit = value.parse().map_err(|_| wrong("a number of events"))?,
            _ => return Err(Refused::new(400, format!("/v1/log takes `after` and `limit`, no `{key}`"))),
        }
    }
    Ok((after, limit))
}

fn limit(written: Option<&str>) -> Result<u64, Refused> {
    written.map_or(Ok(FLOWS_SHOWN), |value| {
        value.parse().map_err(|_| Refused::new(400, format!("limit={value}: limit takes a number of flows")))
    })
}

fn new_policy(body: &[u8]) -> Result<NewPolicy, Refused> {
    let new: NewPolicy = serde_json::from_slice(body)
        .map_err(|error| Refused::new(400, format!("the body is no policy to apply: {error}")))?;
    match new.confirm_seconds {
        Some(0) | Some(86_401..) => {
            Err(Refused::new(400, "confirm_seconds: 1 to 86400, or leave it out".to_owned()))
        }
        _ => Ok(new),
    }
}
