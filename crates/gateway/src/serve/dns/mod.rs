//! Clients of DNS: questions by datagrams, which have a thread of their own, and by connections. What is known is answered at once; else name servers
//! are asked, once for all who ask the same meanwhile.

mod ask;
mod domains;

use super::client::{Ends, canonical};
use super::relay::{abort, close, write_within};
use super::{Admitted, REST, Shared, lock};
use crate::config::{Dns, Gateway, Protocol};
use crate::dns::answer::{self, Answer};
use crate::dns::cache::{Cache, Key, Outcome};
use crate::dns::decide::{self, BLOCKED, Decision};
use crate::dns::question::{self, Bad, Question};
use crate::dns::rate::{Allowed, Rates};
use crate::event::Event;
use domain::base::iana::OptRcode;
use passwords::throttle::network;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::timeout;

/// Bytes of a question: it has one name, and what a client says of itself.
const LONGEST_QUESTION: usize = 4096;
/// Bytes of an answer by a connection.
const LONGEST_ANSWER: usize = u16::MAX as usize;

/// What all threads know.
#[derive(Debug)]
pub(super) struct State {
    cache: Mutex<Cache>,
    rates: Mutex<Rates>,
    /// Questions that name servers are being asked, and where the answer will be.
    under_way: Mutex<HashMap<Key, watch::Receiver<Option<Outcome>>>>,
    /// What the packet filter knows of names.
    pub(super) announced: domains::Announcements,
    /// The name server that has answered last is asked first.
    preferred: AtomicUsize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            cache: Mutex::default(),
            rates: Mutex::new(Rates::new(Instant::now())),
            under_way: Mutex::default(),
            announced: domains::Announcements::default(),
            preferred: AtomicUsize::default(),
        }
    }
}

impl State {
    /// Forgets what name servers have said.
    pub(super) fn forget(&self) {
        lock(&self.cache).clear();
    }
}

/// Who asks, and how.
#[derive(Debug, Clone, Copy)]
struct Asker {
    client: SocketAddr,
    at: SocketAddr,
    is_datagram: bool,
}

impl Asker {
    fn room(self, question: &Question) -> usize {
        if self.is_datagram { question.room() } else { LONGEST_ANSWER }
    }
}

/// A question that a rule lets pass.
struct Passed {
    asker: Asker,
    gateway: Arc<Gateway>,
    question: Question,
    rule: usize,
    /// Bytes of the question.
    bytes: usize,
}

impl Passed {
    /// What the event log has of it and of so many bytes of an answer.
    fn event(&self, answer: usize) -> Event {
        event(self.asker, Some((&self.gateway, &self.question)), Some(self.rule), [self.bytes, answer])
    }
}

/// What becomes of a question at once.
enum Begun {
    /// It is answered so, or not at all.
    Done(Option<Vec<u8>>),
    /// Name servers are to be asked; or the packet filter has to have this first, which holds for so many seconds.
    Later(Box<Passed>, Option<(Outcome, u32)>, Admitted),
}

/// Answers datagrams, for ever.
pub(super) async fn serve_datagrams(socket: std::net::UdpSocket, shared: Arc<Shared>) {
    let Ok(socket) = UdpSocket::from_std(socket) else { return };
    let socket = Rc::new(socket);
    tokio::task::spawn_local(domains::look_up(Arc::clone(&shared)));
    let mut buffer = vec![0; LONGEST_QUESTION];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        let gateway = shared.gateway();
        let asker = Asker { client: canonical(from), at: gateway.listen, is_datagram: true };
        match begin(&shared, &gateway, asker, &buffer[..length]) {
            // Who does not take answers as fast as they come loses some.
            Begun::Done(answer) => drop(answer.map(|answer| socket.try_send_to(&answer, from))),
            Begun::Later(passed, known, admitted) => {
                let (socket, shared) = (Rc::clone(&socket), Arc::clone(&shared));
                tokio::task::spawn_local(async move {
                    let answer = finish(&shared, &passed, known).await;
                    drop(admitted);
                    let _ = socket.try_send_to(&answer, from);
                });
            }
        }
    }
}

/// Answers the questions of a connection, one after the other (RFC 7766).
pub(super) async fn serve(shared: &Arc<Shared>, stream: TcpStream, ends: Ends) {
    let asker = Asker { client: ends.client, at: ends.at, is_datagram: false };
    Shared::count(&shared.counted.connections);
    let Some(_admitted) = shared.admit(ends.client.ip()) else {
        shared.send(Event {
            reason: Some("too-many-connections".to_owned()),
            ..event(asker, None, None, [0; 2])
        });
        return abort(stream);
    };
    let mut stream = stream;
    let _ = stream.set_nodelay(true);
    loop {
        let gateway = shared.gateway();
        let Ok(Ok(length)) = timeout(gateway.limits.idle, stream.read_u16()).await else {
            return close(stream).await;
        };
        // A client that only says so would have room made for 64 KB, for each of its connections.
        if usize::from(length) > LONGEST_QUESTION {
            shared.send(Event {
                reason: Some("long".to_owned()),
                ..event(asker, None, None, [length.into(), 0])
            });
            return abort(stream);
        }
        let mut bytes = vec![0; length.into()];
        if !matches!(timeout(gateway.limits.head_time, stream.read_exact(&mut bytes)).await, Ok(Ok(_))) {
            return abort(stream);
        }
        let answer = match begin(shared, &gateway, asker, &bytes) {
            Begun::Done(answer) => answer,
            Begun::Later(passed, known, _admitted) => Some(finish(shared, &passed, known).await),
        };
        // What cannot be answered is not of this protocol.
        let Some(answer) = answer else { return abort(stream) };
        let framed = [&(answer.len() as u16).to_be_bytes(), &answer[..]].concat();
        if write_within(&stream, &framed, gateway.limits.idle).await.is_err() {
            return abort(stream);
        }
    }
}

/// What can be said at once.
fn begin(shared: &Arc<Shared>, gateway: &Arc<Gateway>, asker: Asker, bytes: &[u8]) -> Begun {
    // The policy may have a gateway of something else in this place by now.
    let Protocol::Dns(dns) = &gateway.protocol else { return Begun::Done(None) };
    let client = asker.client.ip();
    let allowed = lock(&shared.dns.rates).ask(network(client), dns.rate, Instant::now());
    let read = question::read(bytes);
    if asker.is_datagram && !decide::is_known(gateway, client) {
        let about = read.as_ref().ok().map(|question| (gateway, question));
        let event = event(asker, about, None, [bytes.len(), 0]);
        refused(shared, Event { reason: Some("no-rule".to_owned()), ..event });
        return Begun::Done(None);
    }
    let question = match read {
        Ok(question) => question,
        Err(Bad { reason, code, answer }) => {
            let answer = answer.filter(|_| allowed == Allowed::Answer);
            let lengths = [bytes.len(), answer.as_ref().map_or(0, Vec::len)];
            let event = because(event(asker, None, None, lengths), reason, code);
            refused(shared, Event { status: if answer.is_some() { event.status } else { 0 }, ..event });
            return Begun::Done(answer);
        }
    };
    let about = Some((gateway, &question));
    if allowed != Allowed::Answer {
        let answer = match (allowed, asker.is_datagram) {
            (Allowed::Nothing, true) => None,
            // Who is who it says asks again by TCP.
            (_, true) => Some(answer::without_records(&question, OptRcode::NOERROR, true, None)),
            (_, false) => Some(answer::without_records(&question, OptRcode::REFUSED, false, None)),
        };
        let lengths = [bytes.len(), answer.as_ref().map_or(0, Vec::len)];
        refused(shared, Event { reason: Some("rate".to_owned()), ..event(asker, about, None, lengths) });
        return Begun::Done(answer);
    }
    let rule = match decide::decide(gateway, dns, client, &question) {
        Decision::Answer(rule, answer) => {
            let passed = passed(asker, gateway, question, rule, bytes.len());
            let left = answer.lifetime;
            return said(shared, dns, passed, Some(Arc::new(answer)), left);
        }
        Decision::Ask(rule) => rule,
        Decision::Refuse(rule, refusal) => {
            let answer = answer::without_records(&question, refusal.code, false, refusal.why);
            let event = event(asker, about, rule, [bytes.len(), answer.len()]);
            refused(shared, because(event, refusal.reason, refusal.code));
            return Begun::Done(Some(answer));
        }
    };
    let known = lock(&shared.dns.cache).get(&key(&question), Instant::now());
    let passed = passed(asker, gateway, question, rule, bytes.len());
    if let Some((outcome, left)) = known {
        Shared::count(&shared.counted.reused);
        return said(shared, dns, passed, outcome, left);
    }
    later(shared, passed, None)
}

/// Says what is known, at once if nobody has to hear of it before.
fn said(shared: &Arc<Shared>, dns: &Dns, passed: Passed, outcome: Outcome, left: u32) -> Begun {
    let question = &passed.question;
    let about = (question.text.as_str(), question.kind);
    let is_news = |answer: &Arc<Answer>| {
        may_be_said(&passed, answer) && domains::to_announce(shared, dns, about, answer, left).is_some()
    };
    if outcome.as_ref().is_some_and(is_news) {
        later(shared, passed, Some((outcome, left)))
    } else {
        Begun::Done(Some(deliver(shared, &passed, outcome.as_deref(), left)))
    }
}

fn later(shared: &Arc<Shared>, passed: Passed, known: Option<(Outcome, u32)>) -> Begun {
    match shared.admit(passed.asker.client.ip()) {
        Some(admitted) => Begun::Later(Box::new(passed), known, admitted),
        None => Begun::Done(Some(fail(shared, &passed, OptRcode::SERVFAIL, "too-many-questions", None))),
    }
}

fn passed(asker: Asker, gateway: &Arc<Gateway>, question: Question, rule: usize, bytes: usize) -> Passed {
    Passed { asker, gateway: Arc::clone(gateway), question, rule, bytes }
}

fn key(question: &Question) -> Key {
    Key {
        name: question.name.clone(),
        kind: question.kind,
        signatures: question.signatures(),
        unchecked: question.unchecked,
    }
}

/// Asks name servers if nothing is known, announces what the packet filter is to have, and answers.
async fn finish(shared: &Shared, passed: &Passed, known: Option<(Outcome, u32)>) -> Vec<u8> {
    let question = &passed.question;
    let (outcome, left) = match known {
        Some(known) => known,
        None => find(shared, &passed.gateway, &key(question), passed.asker.client.ip()).await,
    };
    if let (Some(answer), Protocol::Dns(dns)) = (&outcome, &passed.gateway.protocol)
        && may_be_said(passed, answer)
        && let about = (question.text.as_str(), question.kind)
        && let Some(addresses) = domains::to_announce(shared, dns, about, answer, left)
        && !domains::announce(shared, about, addresses, left).await
    {
        return fail(shared, passed, OptRcode::SERVFAIL, "domain-late", None);
    }
    deliver(shared, passed, outcome.as_deref(), left)
}

/// Asks name servers, or waits for what they say to somebody else who asks the same.
async fn find(shared: &Shared, gateway: &Gateway, key: &Key, client: IpAddr) -> (Outcome, u32) {
    match look_or_begin(&shared.dns, key) {
        Turn::Known(outcome, left) => (outcome, left),
        Turn::Wait(mut waiting) => {
            let heard = waiting.wait_for(Option::is_some).await;
            fresh(heard.ok().and_then(|heard| heard.clone()).flatten())
        }
        Turn::Ask(sender) => {
            let under_way = UnderWay(&shared.dns, key);
            let outcome = ask::ask(shared, gateway, key).await.map(Arc::new);
            keep(&shared.dns, gateway, key, &outcome, client);
            drop(under_way);
            sender.send_replace(Some(outcome.clone()));
            fresh(outcome)
        }
    }
}

/// Whether the rule lets an answer pass.
fn may_be_said(passed: &Passed, answer: &Answer) -> bool {
    !answer.is_private || passed.gateway.rules[passed.rule].private_answers
}

/// A question that name servers are being asked. However that ends, it is over then, and the next who asks the same begins anew.
struct UnderWay<'a>(&'a State, &'a Key);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(&self.0.under_way).remove(self.1);
    }
}

/// What was heard just now holds for all of its time.
fn fresh(outcome: Outcome) -> (Outcome, u32) {
    let left = outcome.as_ref().map_or(0, |answer| answer.lifetime);
    (outcome, left)
}

/// Who is to ask name servers.
enum Turn {
    /// Nobody: somebody else has got the answer meanwhile.
    Known(Outcome, u32),
    /// Somebody else is asking, and the answer will be here.
    Wait(watch::Receiver<Option<Outcome>>),
    /// Whoever has this, and the answer is to be said here.
    Ask(watch::Sender<Option<Outcome>>),
}

fn look_or_begin(state: &State, key: &Key) -> Turn {
    let mut under_way = lock(&state.under_way);
    if let Some(waiting) = under_way.get(key) {
        return Turn::Wait(waiting.clone());
    }
    // Under the lock: an answer is kept before its question is taken away there.
    if let Some((outcome, left)) = lock(&state.cache).get(key, Instant::now()) {
        return Turn::Known(outcome, left);
    }
    let (sender, receiver) = watch::channel(None);
    under_way.insert(key.clone(), receiver);
    Turn::Ask(sender)
}

fn keep(state: &State, gateway: &Gateway, key: &Key, outcome: &Outcome, client: IpAddr) {
    if let Protocol::Dns(Dns { cache, .. }) = gateway.protocol {
        let (key, client) = (key.clone(), network(client));
        lock(&state.cache).put(key, outcome.clone(), client, cache, Instant::now());
    }
}

/// Says what name servers have said, if the rule lets it.
fn deliver(shared: &Shared, passed: &Passed, outcome: Option<&Answer>, left: u32) -> Vec<u8> {
    match outcome {
        None => fail(shared, passed, OptRcode::SERVFAIL, "no-answer", None),
        Some(answer) if !may_be_said(passed, answer) => {
            let bytes = answer::without_records(&passed.question, OptRcode::REFUSED, false, Some(BLOCKED));
            refused(shared, because(passed.event(bytes.len()), "private-answer", OptRcode::REFUSED));
            bytes
        }
        Some(answer) => say(shared, passed, answer, left),
    }
}

fn say(shared: &Shared, passed: &Passed, answer: &Answer, left: u32) -> Vec<u8> {
    let said = answer.bytes(&passed.question, left, passed.asker.room(&passed.question));
    Shared::count(&shared.counted.carried);
    if passed.gateway.rules[passed.rule].log {
        shared.send(Event { status: answer.code.to_int().into(), ..passed.event(said.len()) });
    }
    said
}

fn fail(shared: &Shared, passed: &Passed, code: OptRcode, reason: &'static str, why: Option<u16>) -> Vec<u8> {
    let bytes = answer::without_records(&passed.question, code, false, why);
    Shared::count(&shared.counted.failed);
    shared.send(because(passed.event(bytes.len()), reason, code));
    bytes
}

type About<'a> = Option<(&'a Arc<Gateway>, &'a Question)>;

fn refused(shared: &Shared, event: Event) {
    Shared::count(&shared.counted.refused);
    shared.send(event);
}

/// The event of a question that is not answered as it was meant, and what the client gets instead.
fn because(event: Event, reason: &str, code: OptRcode) -> Event {
    Event { reason: Some(reason.to_owned()), status: code.to_int(), ..event }
}

/// What the event log has of a question.
fn event(asker: Asker, about: About<'_>, rule: Option<usize>, lengths: [usize; 2]) -> Event {
    let rule = rule.zip(about).map(|(place, (gateway, _))| gateway.rules[place].name.clone());
    Event {
        is_datagram: asker.is_datagram,
        client: asker.client,
        client_name: None,
        at: asker.at,
        rule,
        reason: None,
        user: None,
        method: about.map(|(_, question)| question.kind.to_string()),
        host: about.map(|(_, question)| question.text.clone()),
        path: None,
        status: 0,
        bytes: lengths.map(|it| it as u64),
    }
}
