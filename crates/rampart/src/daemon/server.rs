//! Answers requests on the socket: a thread per connection, one request each. [`Daemon`] does what they ask.

use super::run::{Wake, Waker};
use super::{Daemon, Moment, Refused};
use crate::api::{self, EVENTS_SHOWN, FLOWS_SHOWN, Filter, NewPolicy, Operation, Refusal};
use crate::http::{ReadError, Request, read_admitted, write_response};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use serde::Serialize;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a request may take to come in, and its answer to be taken: the client is a program on this machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections at once of root, and of all others together. Beyond that a client is told to try again: whoever else is slow, root
/// finds a place.
const MAX_CONNECTIONS: usize = 32;

/// Bodies up to this size are read side by side; larger ones, which only a policy of many rules is, one after the other.
const SMALL_BODY: usize = 1 << 20;

/// What clients of one kind share: root, or all others.
#[derive(Default)]
struct Share {
    open: AtomicUsize,
    /// Held by the one whose large body is read.
    large: Mutex<()>,
}

/// Answers requests until the process ends.
pub(crate) fn serve(listener: UnixListener, daemon: Arc<Daemon>, waker: Waker) {
    std::thread::spawn(move || {
        let shares = [Arc::new(Share::default()), Arc::new(Share::default())];
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // Out of descriptors or memory: others may give some back.
                std::thread::park_timeout(Duration::from_millis(100));
                continue;
            };
            let peer = getsockopt(&stream, PeerCredentials).ok();
            let is_root = peer.is_some_and(|peer| peer.uid() == 0);
            let share = Arc::clone(&shares[usize::from(is_root)]);
            if share.open.load(Ordering::Acquire) >= MAX_CONNECTIONS {
                turn_away(stream);
                continue;
            }
            share.open.fetch_add(1, Ordering::AcqRel);
            let (daemon, waker) = (Arc::clone(&daemon), waker.clone());
            let slot = Slot(share);
            let by = peer.map_or_else(
                || "somebody".to_owned(),
                |peer| format!("user {} (process {})", peer.uid(), peer.pid()),
            );
            std::thread::spawn(move || connection(&daemon, &waker, stream, &by, &slot.0));
        }
    });
}

/// One of the connections at once; released also by a thread that panics.
struct Slot(Arc<Share>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Tells a client that there is no place. Waits for nothing: what does not fit into the socket's buffer is not sent.
fn turn_away(mut stream: UnixStream) {
    let answer = Answer::refused(Refused::new(503, "too many requests at once: try again"));
    if stream.set_nonblocking(true).is_ok() {
        let _ = write_response(&mut stream, answer.status, None, &answer.body);
    }
}

/// A stream with a moment by which everything must have been read or written, however many small pieces it comes in.
struct Timed<'s> {
    stream: &'s UnixStream,
    until: Instant,
}

impl<'s> Timed<'s> {
    fn new(stream: &'s UnixStream) -> Self {
        Self { stream, until: Instant::now() + PATIENCE }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn connection(daemon: &Daemon, waker: &Waker, stream: UnixStream, by: &str, share: &Share) {
    let admit = |method: &str, path: &str, length: usize| admit(share, method, path, length);
    let answer = match read_admitted(&mut Timed::new(&stream), admit) {
        Ok(Some((request, turn))) => {
            let answer = dispatch(daemon, &request, by);
            // The body is gone before the next one comes.
            drop((request, turn));
            answer
        }
        Ok(None) => return,
        Err(ReadError::Io(error)) if is_late(&error) => {
            let why = format!("the request did not come in within {} s", PATIENCE.as_secs());
            Answer::refused(Refused::new(408, why))
        }
        Err(ReadError::Io(_)) => return,
        Err(ReadError::Wrong(status, why)) => Answer::refused(Refused::new(status, why)),
    };
    // A client that went away meanwhile has had what it asked for done.
    let _ = write_response(&mut Timed::new(&stream), answer.status, answer.allow.as_deref(), &answer.body);
    if answer.ends {
        waker.wake(Wake::Ended(stream));
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Lets a body in: only where the operation takes one, and a large one when it is its turn.
fn admit<'s>(
    share: &'s Share,
    method: &str,
    path: &str,
    length: usize,
) -> Result<Option<MutexGuard<'s, ()>>, ReadError> {
    if length == 0 {
        return Ok(None);
    }
    let takes_body =
        api::find(path).any(|route| route.method == method && route.operation == Operation::Apply);
    if !takes_body && length > SMALL_BODY {
        return Err(ReadError::Wrong(413, format!("{method} {path} takes no body")));
    }
    let turn = || share.large.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((length > SMALL_BODY).then(turn))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_deadline_however_many_pieces_it_comes_in() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"GET / HTTP/1.1").unwrap();
        for (until, expected) in
            [(Instant::now() + PATIENCE, Ok(1)), (Instant::now(), Err(ErrorKind::TimedOut))]
        {
            let mut timed = Timed { stream: &near, until };
            // Bytes are there, and still it is too late.
            assert_eq!(timed.read(&mut [0]).map_err(|error| error.kind()), expected);
            assert_eq!(timed.write(b"x").map_err(|error| error.kind()), expected);
        }
    }

    #[test]
    fn a_large_body_is_read_where_one_is_taken_and_one_after_the_other() {
        let share = Share::default();
        let large = SMALL_BODY + 1;
        for (method, path, length, is_let_in) in [
            ("GET", "/v1/status", 0, true),
            ("GET", "/v1/status", 10, true),
            ("GET", "/v1/status", large, false),
            ("GET", "/v1/policy", large, false),
            ("POST", "/v1/policy", large, apply_is("POST")),
            ("PUT", "/v1/policy", large, apply_is("PUT")),
            ("PUT", "/v1/nothing", large, false),
        ] {
            assert_eq!(admit(&share, method, path, length).is_ok(), is_let_in, "{method} {path} {length}");
        }
        let method = Operation::Apply.route().method;
        let turn = admit(&share, method, "/v1/policy", large).ok().flatten();
        assert!(turn.is_some() && share.large.try_lock().is_err(), "it is the turn of one");
        assert!(
            matches!(admit(&share, method, "/v1/policy", SMALL_BODY), Ok(None)),
            "a small one need not wait"
        );
        drop(turn);
        assert!(share.large.try_lock().is_ok());
    }

    fn apply_is(method: &str) -> bool {
        Operation::Apply.route().method == method
    }
}
