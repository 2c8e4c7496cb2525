//! Answers requests on the sockets: a thread per connection, one request each. [`Daemon`] does what they ask. By which socket a request
//! came says what it may do: the kernel has looked at the groups of whoever connected.

use super::blocks::WhichBlocks;
use super::instance::{Listeners, Role};
use super::run::{Wake, Waker};
use super::{Daemon, Moment, Refused, metrics};
use crate::api::{self, Actor, EVENTS_SHOWN, FLOWS_SHOWN, Filter, NewPolicy, Operation, Refusal};
use crate::http::{JSON, ReadError, Request, read_admitted, write_response};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rampart_client::socket::GROUP;
use serde::Serialize;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::RangeInclusive;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a request may take to come in, and its answer to be taken: the client is a program on this machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections at once of root, and of all others together on each socket. Beyond that a client is asked to try again: whoever else
/// is slow, root finds a place, and readers take none from those who may change something.
const MAX_CONNECTIONS: usize = 32;

/// Status of HTTP for who may not do that.
const FORBIDDEN: u16 = 403;

/// Bodies up to this size are read side by side; larger ones, which only a policy of many rules is, one after the other.
const SMALL_BODY: usize = 1 << 20;

/// How long a policy may wait to be confirmed.
const CONFIRM_SECONDS: RangeInclusive<u32> = 1..=86_400;

/// Bytes of a command line that are recorded.
const COMMAND: u64 = 224;
/// Characters of a user's name that are recorded.
const NAME: usize = 32;
/// Bytes of /etc/passwd that are looked through.
const USERS: u64 = 1 << 20;

/// What clients of one kind share: root, or all others.
#[derive(Default)]
struct Share {
    open: AtomicUsize,
    /// Held by the one whose large body is read.
    large: Mutex<()>,
}

/// Answers requests until the process ends.
pub(crate) fn serve(listeners: Listeners, daemon: &Arc<Daemon>, waker: &Waker) {
    for (listener, role) in listeners {
        serve_one(listener, role, Arc::clone(daemon), waker.clone());
    }
}

fn serve_one(listener: UnixListener, role: Role, daemon: Arc<Daemon>, waker: Waker) {
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
            std::thread::spawn(move || {
                let by = peer.map_or_else(|| "somebody".into(), |peer| process(peer.uid(), peer.pid()));
                connection(&daemon, &waker, stream, &Client { by, role, share: &slot.0 });
            });
        }
    });
}

/// Who is at the other end of a connection.
struct Client<'s> {
    by: Actor,
    role: Role,
    share: &'s Share,
}

/// A process as it is now. It states its command line itself, so that says nothing for certain; who logged in it cannot change.
pub(crate) fn process(uid: u32, pid: i32) -> Actor {
    let mut command = Vec::new();
    // A process that has gone has none.
    let _ = File::open(format!("/proc/{pid}/cmdline"))
        .and_then(|file| file.take(COMMAND).read_to_end(&mut command));
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
    let login = std::fs::read_to_string(format!("/proc/{pid}/loginuid"));
    let login = login.ok().and_then(|text| text.trim().parse().ok());
    // The kernel says -1 where nobody has logged in.
    let login = login.filter(|login| ![uid, u32::MAX].contains(login));
    let login = login.map(|login| name_of(login).unwrap_or_else(|| login.to_string()));
    Actor::Process { uid, user: name_of(uid), login, acting_for: None, pid, command }
}

/// A process that says for whom it asks. Its own user stays beside the claim, and of the name what a terminal shows as it is.
fn claiming(by: &Actor, name: Option<&str>) -> Actor {
    let mut by = by.clone();
    if let (Actor::Process { acting_for, .. }, Some(name)) = (&mut by, name) {
        let name: String = name.chars().filter(char::is_ascii_graphic).take(NAME).collect();
        *acting_for = (!name.is_empty()).then_some(name);
    }
    by
}

/// The name of a user of this machine. No library is asked, because those that ask a network have no place in this process.
fn name_of(uid: u32) -> Option<String> {
    let mut users = String::new();
    File::open("/etc/passwd").ok()?.take(USERS).read_to_string(&mut users).ok()?;
    let of = |line: &str| {
        let mut words = line.split(':');
        let (name, number) = (words.next()?, words.nth(1)?);
        (number.parse() == Ok(uid))
            .then(|| name.chars().filter(|c| c.is_ascii_graphic()).take(NAME).collect())
    };
    users.lines().find_map(of)
}

/// One of the connections at once; released also by a thread that panics.
struct Slot(Arc<Share>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers a client that there is no place. Waits for nothing: what does not fit into the socket's buffer is not sent.
fn turn_away(mut stream: UnixStream) {
    let answer = Answer::refused(Refused::new(503, "too many requests at once: try again"));
    if stream.set_nonblocking(true).is_ok() {
        let _ = write_response(&mut stream, answer.status, None, (JSON, &answer.body));
    }
}

/// A stream with a moment by which everything must have been read or written, however many small pieces it comes in.
pub(super) struct Timed<'s, S> {
    stream: &'s S,
    until: Instant,
}

/// A stream on which nobody waits longer than he wants.
pub(super) trait Stream {
    fn wait_to_read(&self, time: Option<Duration>) -> io::Result<()>;
    fn wait_to_write(&self, time: Option<Duration>) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn wait_to_read(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(time)
    }

    fn wait_to_write(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_write_timeout(time)
    }
}

impl Stream for TcpStream {
    fn wait_to_read(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(time)
    }

    fn wait_to_write(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_write_timeout(time)
    }
}

impl<'s, S> Timed<'s, S> {
    pub(super) fn new(stream: &'s S, patience: Duration) -> Self {
        Self { stream, until: Instant::now() + patience }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl<S: Stream> Read for Timed<'_, S>
where
    for<'r> &'r S: Read,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.wait_to_read(self.left()?)?;
        let mut stream = self.stream;
        stream.read(bytes)
    }
}

impl<S: Stream> Write for Timed<'_, S>
where
    for<'r> &'r S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.wait_to_write(self.left()?)?;
        let mut stream = self.stream;
        stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stream = self.stream;
        stream.flush()
    }
}

fn connection(daemon: &Daemon, waker: &Waker, stream: UnixStream, client: &Client<'_>) {
    let admit = |method: &str, path: &str, length: usize| admit(client, method, path, length);
    let answer = match read_admitted(&mut Timed::new(&stream, PATIENCE), admit) {
        Ok(Some((request, turn))) => {
            let answer = dispatch(daemon, &request, &claiming(&client.by, request.acting_for.as_deref()));
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
        Err(ReadError::Wrong(status, why)) => {
            if status == FORBIDDEN {
                daemon.deny(Moment::now(), &client.by, &why);
            }
            Answer::refused(Refused::new(status, why))
        }
    };
    // A client that went away meanwhile has had what it asked for done.
    let content = (answer.content, answer.body.as_slice());
    let _ =
        write_response(&mut Timed::new(&stream, PATIENCE), answer.status, answer.allow.as_deref(), content);
    if answer.ends {
        waker.wake(Wake::Ended(stream));
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Lets a request in if its sender may do that, and its body: only where the operation takes one, and a large one when it is its turn.
fn admit<'s>(
    client: &Client<'s>,
    method: &str,
    path: &str,
    length: usize,
) -> Result<Option<MutexGuard<'s, ()>>, ReadError> {
    let operation = api::find(path).find(|route| route.method == method).map(|route| route.operation);
    if client.role == Role::Ask && operation.is_some_and(|it| !it.is_for_readers()) {
        let why = format!(
            "{method} {path} is for those who may change the firewall, and you may only ask: it takes root or the group `{GROUP}`"
        );
        return Err(ReadError::Wrong(FORBIDDEN, why));
    }
    if length == 0 {
        return Ok(None);
    }
    let takes_body = operation.is_some_and(Operation::takes_body);
    if !takes_body && length > SMALL_BODY {
        return Err(ReadError::Wrong(413, format!("{method} {path} takes no body")));
    }
    let turn = || client.share.large.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((length > SMALL_BODY).then(turn))
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// What the body is.
    content: &'static str,
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
        Self { status, body: body.unwrap_or_default(), content: JSON, allow: None, ends: false }
    }
}

/// Dispatches a request to its operation.
pub(crate) fn dispatch(daemon: &Daemon, request: &Request, by: &Actor) -> Answer {
    let here: Vec<_> = api::find(&request.path).collect();
    let Some(route) = here.iter().find(|route| route.method == request.method) else {
        let methods: Vec<&str> = here.iter().map(|route| route.method).collect();
        return not_there(request, &methods.join(", "));
    };
    handle(daemon, route.operation, request, by).unwrap_or_else(Answer::refused)
}

fn handle(daemon: &Daemon, operation: Operation, request: &Request, by: &Actor) -> Result<Answer, Refused> {
    let now = Moment::now();
    if operation.changes() {
        daemon.admit_change(now, by)?;
    }
    let (filter, own) = match operation {
        Operation::Log
        | Operation::Audit
        | Operation::EndBlocks
        | Operation::Policy
        | Operation::Confirm
        | Operation::Rollback
        | Operation::FactoryReset
        | Operation::Restore => (Filter::default(), None),
        _ => question(operation, &request.query)?,
    };
    Ok(match operation {
        Operation::Status => Answer::of(&daemon.status()?),
        Operation::Rules => Answer::of(&daemon.rules(now.wall)?),
        Operation::Lists => Answer::of(&daemon.lists(now)?),
        Operation::Flows => Answer::of(&daemon.flows(&filter, limit(own.as_deref())?)?),
        Operation::EndFlows if filter.is_all() && own.as_deref() != Some("true") => {
            let error = "this would end every flow: name a filter, or all=true if that is meant";
            return Err(Refused::new(400, error));
        }
        Operation::EndFlows => Answer::of(&daemon.kill(&filter, &request.query, now.wall, by)?),
        Operation::Blocks => Answer::of(&daemon.blocks()?),
        Operation::EndBlocks => {
            Answer::of(&daemon.end_blocks(&blocks_wanted(&request.query)?, &request.query, now.wall, by)?)
        }
        Operation::Stations => Answer::of(&daemon.stations()?),
        Operation::Drops => Answer::of(&daemon.drops()?),
        Operation::Log => {
            let (after, limit) = events_wanted(&request.query)?;
            Answer::of(&daemon.events(after, limit, now)?)
        }
        Operation::Audit => Answer::of(&daemon.audit_trail(records_wanted(&request.query)?)?),
        Operation::Apply => Answer::of(&daemon.apply(&new_policy(&request.body)?, now, by)?),
        Operation::Confirm => {
            let number = Numbers::of(operation, &request.query)?.number;
            Answer::of(&daemon.confirm(number, now.wall, by)?)
        }
        Operation::History => Answer::of(&daemon.history()?),
        Operation::Policy => Answer::of(&daemon.policy(Numbers::of(operation, &request.query)?.number)?),
        Operation::Rollback => {
            let Numbers { number, confirm_seconds } = Numbers::of(operation, &request.query)?;
            let which = || Refused::new(400, "number=N says to which entry of the history");
            Answer::of(&daemon.roll_back(number.ok_or_else(which)?, confirm_seconds, now, by)?)
        }
        Operation::FactoryReset => {
            let confirm = Numbers::of(operation, &request.query)?.confirm_seconds;
            Answer::of(&daemon.reset(confirm, now, by)?)
        }
        Operation::Metrics => {
            let body = daemon.metrics(now)?.as_bytes().to_vec();
            Answer { body, content: metrics::CONTENT, ..Answer::of(&()) }
        }
        Operation::Backup => {
            let content = "application/octet-stream";
            Answer { body: daemon.back_up(now.wall)?, content, ..Answer::of(&()) }
        }
        Operation::Restore => {
            let confirm = Numbers::of(operation, &request.query)?.confirm_seconds;
            Answer::of(&daemon.restore(&request.body, confirm, now, by)?)
        }
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

/// Which blocks are to end.
fn blocks_wanted(query: &str) -> Result<WhichBlocks, Refused> {
    let (mut which, mut all) = (WhichBlocks::default(), false);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let wrong = |takes: &str| Refused::new(400, format!("{key}={value}: {key} takes {takes}"));
        match key.as_ref() {
            "source" => which.source = Some(value.parse().map_err(|_| wrong("an address"))?),
            "zone" => which.zone = Some(value.into_owned()),
            "all" => all = value.parse().map_err(|_| wrong("true or false"))?,
            _ => {
                return Err(Refused::new(
                    400,
                    format!("/v1/blocks takes `source`, `zone` and `all`, no `{key}`"),
                ));
            }
        }
    }
    if which == WhichBlocks::default() && !all {
        let error = "this would end every block: name a source or a zone, or all=true if that is meant";
        return Err(Refused::new(400, error));
    }
    Ok(which)
}

/// How many records of the audit trail are wanted.
fn records_wanted(query: &str) -> Result<u64, Refused> {
    let mut limit = EVENTS_SHOWN;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if key != "limit" {
            return Err(Refused::new(400, format!("/v1/audit takes `limit`, no `{key}`")));
        }
        limit = value
            .parse()
            .map_err(|_| Refused::new(400, format!("limit={value}: limit takes a number of records")))?;
    }
    Ok(limit)
}

/// Which entry of the history is wanted, and how long a policy may wait to be confirmed.
#[derive(Default)]
struct Numbers {
    number: Option<u64>,
    confirm_seconds: Option<u32>,
}

impl Numbers {
    fn of(operation: Operation, query: &str) -> Result<Self, Refused> {
        let path = operation.route().path;
        let mut numbers = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let wrong = |takes: &str| Refused::new(400, format!("{key}={value}: {key} takes {takes}"));
            match key.as_ref() {
                "number"
                    if matches!(operation, Operation::Policy | Operation::Confirm | Operation::Rollback) =>
                {
                    let number = value.parse().map_err(|_| wrong("the number of an entry of the history"))?;
                    numbers.number = Some(number);
                }
                "confirm_seconds" if operation.changes() && operation != Operation::Confirm => {
                    let seconds = value.parse().ok().filter(|seconds| CONFIRM_SECONDS.contains(seconds));
                    numbers.confirm_seconds = Some(seconds.ok_or_else(|| wrong("1 to 86400 seconds"))?);
                }
                _ => return Err(Refused::new(400, format!("{path} takes no `{key}`"))),
            }
        }
        Ok(numbers)
    }
}

fn limit(written: Option<&str>) -> Result<u64, Refused> {
    written.map_or(Ok(FLOWS_SHOWN), |value| {
        value.parse().map_err(|_| Refused::new(400, format!("limit={value}: limit takes a number of flows")))
    })
}

fn new_policy(body: &[u8]) -> Result<NewPolicy, Refused> {
    let new: NewPolicy = serde_json::from_slice(body)
        .map_err(|error| Refused::new(400, format!("the body is no policy to apply: {error}")))?;
    if new.confirm_seconds.is_some_and(|seconds| !CONFIRM_SECONDS.contains(&seconds)) {
        return Err(Refused::new(400, "confirm_seconds: 1 to 86400, or leave it out"));
    }
    Ok(new)
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
        let client = |role| Client { by: "a test".into(), role, share: &share };
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
            assert_eq!(
                admit(&client(Role::Change), method, path, length).is_ok(),
                is_let_in,
                "{method} {path} {length}"
            );
        }
        let method = Operation::Apply.route().method;
        let changes = client(Role::Change);
        let turn = admit(&changes, method, "/v1/policy", large).ok().flatten();
        assert!(turn.is_some() && share.large.try_lock().is_err(), "it is the turn of one");
        assert!(
            matches!(admit(&changes, method, "/v1/policy", SMALL_BODY), Ok(None)),
            "a small one need not wait"
        );
        drop(turn);
        assert!(share.large.try_lock().is_ok());
    }

    #[test]
    fn whom_a_process_acts_for_is_recorded_as_its_claim() {
        let process = process(0, 1);
        let long = "x".repeat(NAME + 1);
        for (claimed, recorded) in [
            (None, None),
            (Some("anna"), Some("anna")),
            (Some("a\u{1b}[2J b\u{e9}"), Some("a[2Jb")),
            (Some(" "), None),
            (Some(long.as_str()), Some(&long[1..])),
        ] {
            let by = claiming(&process, claimed);
            let Actor::Process { acting_for, uid: 0, pid: 1, .. } = &by else { panic!("{by:?}") };
            assert_eq!(acting_for.as_deref(), recorded, "{claimed:?}");
            assert_eq!(by.to_string().contains("acting for"), recorded.is_some(), "{by}");
        }
        assert_eq!(claiming(&"SIGHUP".into(), Some("anna")), "SIGHUP".into());
    }

    #[test]
    fn who_may_only_ask_changes_nothing() {
        let share = Share::default();
        for route in &api::ROUTES {
            for role in [Role::Change, Role::Ask] {
                let client = Client { by: "a test".into(), role, share: &share };
                let may = role == Role::Change || route.method == "GET" && route.path != "/v1/backup";
                let admitted = admit(&client, route.method, route.path, 0);
                assert_eq!(admitted.is_ok(), may, "{role:?} {} {}", route.method, route.path);
                if let Err(ReadError::Wrong(status, why)) = admitted {
                    assert!(status == 403 && why.contains("it takes root or the group `rampart`"), "{why}");
                }
            }
        }
    }

    fn apply_is(method: &str) -> bool {
        Operation::Apply.route().method == method
    }
}
