//! Metrics over TCP, for Prometheus. The socket is made before the daemon gives up the network, and the threads that read from it keep no right
//! at all: what they answer is made by a thread that nobody outside talks to. Slow readers and many of them have a few places of their own and
//! take nothing from the firewall's socket.

use super::{Daemon, Moment, Refused, metrics};
use crate::daemon::server::Timed;
use crate::failure::Failure;
use crate::http::{JSON, ReadError, read_admitted, write_response};
use crate::privileges;
use http_serving::{Places, is_ours, our_names, remedy};
use policy::Policy;
use policy::model::{Action, SELF};
use policy::service::TCP;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Readers at once. Prometheus is one.
const MAX_READERS: usize = 8;
/// How long a request may take to come in, and its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Out of descriptors or memory: others may give some back.
const REST: Duration = Duration::from_millis(100);
/// A source port, where a rule asks for one: those that connect have one like this.
const ANY_PORT: u16 = 49_152;

/// A question, by where its answer is to go.
type Question = SyncSender<Result<Arc<str>, Refused>>;

/// Where metrics are read.
pub(crate) struct Scrapes {
    pub(crate) listener: TcpListener,
    /// Names by which readers may ask, besides addresses and `localhost`: a page of somebody else could have any other name lead here, and read
    /// what a firewall counts through a user's browser.
    pub(crate) names: Vec<String>,
}

/// Listens for readers of metrics, who ask by an address, by the machine's name or by one of these names.
///
/// # Errors
/// The address cannot be had, or can be reached by others and no rule lets them in.
pub(crate) fn listen(address: SocketAddr, names: &[String], policy: &Policy) -> Result<Scrapes, Failure> {
    if !address.ip().is_loopback() && !lets_in(policy, address.port()) {
        let (file, port) = (&policy.file, address.port());
        return Err(Failure::Wrong(format!(
            "{file}: no rule lets anybody read metrics at {address}: write one that allows `tcp/{port}` to `self` from where Prometheus is, or \
             listen on 127.0.0.1"
        )));
    }
    let listener = TcpListener::bind(address).map_err(|error| {
        let remedy = remedy(&error);
        Failure::Machine(format!("cannot listen for readers of metrics on {address}: {error}{remedy}"))
    })?;
    Ok(Scrapes { listener, names: our_names(names) })
}

fn lets_in(policy: &Policy, port: u16) -> bool {
    let allows = |rule: &&policy::model::Rule| {
        rule.enabled && rule.effect.action == Action::Allow && rule.to & 1 << SELF != 0
    };
    policy.rules.iter().filter(allows).any(|rule| rule.service.contains(TCP, ANY_PORT, port))
}

/// Answers until the process ends.
pub(crate) fn serve(scrapes: Scrapes, daemon: &Arc<Daemon>) {
    let Scrapes { listener, names } = scrapes;
    let names: Arc<[String]> = names.into();
    let (asks, questions) = sync_channel::<Question>(MAX_READERS);
    let daemon = Arc::clone(daemon);
    std::thread::spawn(move || {
        for question in questions {
            // A reader that went away needs none.
            let _ = question.try_send(daemon.metrics(Moment::now()));
        }
    });
    std::thread::spawn(move || {
        privileges::keep_nothing();
        let places = Places::new(MAX_READERS);
        loop {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::park_timeout(REST);
                continue;
            };
            let Some(place) = places.take() else { continue };
            let (asks, names) = (asks.clone(), Arc::clone(&names));
            std::thread::spawn(move || {
                answer(&stream, &names, &asks);
                drop(place);
            });
        }
    });
}

fn answer(stream: &TcpStream, names: &[String], asks: &SyncSender<Question>) {
    let admit = |method: &str, path: &str, length: usize| match (method, path, length) {
        ("GET", "/metrics", 0) => Ok(()),
        ("GET", "/metrics", _) => Err(ReadError::Wrong(413, "GET /metrics takes no body".to_owned())),
        (_, "/metrics", _) => Err(ReadError::Wrong(405, "/metrics takes GET".to_owned())),
        _ => Err(ReadError::Wrong(404, "there is /metrics here, and nothing else".to_owned())),
    };
    let refusal =
        |status: u16, why: &str| (status, JSON, serde_json::json!({ "error": why }).to_string() + "\n");
    let (status, content, body) = match read_admitted(&mut Timed::new(stream, PATIENCE), admit) {
        Ok(Some((request, ()))) if !request.host.as_ref().is_some_and(|host| is_ours(host, names)) => {
            refusal(
                421,
                "metrics are read by an address, by localhost, by the machine's name or by one of --metrics-name",
            )
        }
        Ok(Some(_)) => match ask(asks) {
            Ok(text) => (200, metrics::CONTENT, text.to_string()),
            Err(refused) => refusal(refused.status, &refused.refusal.error),
        },
        Ok(None) | Err(ReadError::Io(_)) => return,
        Err(ReadError::Wrong(status, why)) => refusal(status, &why),
    };
    let allow = (status == 405).then_some("GET");
    let _ = write_response(&mut Timed::new(stream, PATIENCE), status, allow, (content, body.as_bytes()));
}

fn ask(asks: &SyncSender<Question>) -> Result<Arc<str>, Refused> {
    let late = || Refused::new(503, "the firewall is busy: try again");
    let (question, answer) = sync_channel(1);
    asks.try_send(question).map_err(|_| late())?;
    answer.recv_timeout(PATIENCE).map_err(|_| late())?
}
