//! One target: a queue with a bound, and a thread that empties it over a line. A collector that is away, slow or silent costs what finds no
//! place in the queue, which is counted, and holds nobody.

use super::line::{Broken, Line};
use super::{Item, Target, To};
use crate::api::Export;
use jiff::Timestamp;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Messages and records that may wait.
const WAITING: u64 = 65_536;
/// How long a line that broke is left alone: at first, and at most. It doubles with each time.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long what waits may take to be sent when the target goes.
const LAST: Duration = Duration::from_secs(1);

/// Makes messages of a form. Has no IO, and no clock.
pub(super) trait Encoder: Send {
    /// A new line begins.
    fn begin(&mut self) {}

    /// An item as messages, each with the units that are in it; the first `from` units of the item are left out.
    fn encode(&mut self, item: &Item, from: u64, now: Timestamp) -> Vec<Message>;

    /// A message that so many units were lost since the last one; `in_all` with those before.
    fn encode_loss(&mut self, lost: u64, in_all: u64, now: Timestamp) -> Vec<Message>;
}

/// What is sent at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) units: u64,
}

/// A target with the thread that sends to it, which ends some time after this is dropped.
pub(super) struct Outlet {
    pub(super) target: Target,
    queue: Arc<Queue>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    waiting: VecDeque<(Arc<Item>, u64)>,
    /// Units of all that wait.
    units: u64,
    sent: u64,
    lost: u64,
    /// How many of these were reported to the collector.
    reported: u64,
    trouble: Option<String>,
    /// Nothing more comes, and until then what waits may be sent.
    ends: Option<Instant>,
}

impl Queue {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next item with its units; `None` at the end.
    fn next(&self) -> Option<(Arc<Item>, u64)> {
        let mut inside = self.inside();
        loop {
            if inside.ends.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
            if let Some((item, units)) = inside.waiting.pop_front() {
                inside.units -= units;
                return Some((item, units));
            }
            if inside.ends.is_some() {
                return None;
            }
            inside = self.changed.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits so long. Returns false when the end has come meanwhile.
    fn rest(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut inside = self.inside();
        while inside.ends.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            inside = self.changed.wait_timeout(inside, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// What waits at the end is lost.
    fn give_up(&self) {
        let mut inside = self.inside();
        inside.lost += inside.units;
        inside.units = 0;
        inside.waiting.clear();
    }
}

impl Outlet {
    pub(super) fn start(target: Target, encoder: Box<dyn Encoder>) -> Self {
        let queue = Arc::new(Queue::default());
        let mut sending = Sending {
            queue: Arc::clone(&queue),
            to: target.to.clone(),
            encoder,
            line: None,
            left: 0,
            pause: PAUSE.0,
        };
        let thread = std::thread::spawn(move || sending.run());
        Self { target, queue, thread: Some(thread) }
    }

    /// Queues an item, if its form has messages for it. Never waits.
    pub(super) fn push(&self, item: &Arc<Item>) {
        let units = self.target.form.units(item);
        if units == 0 {
            return;
        }
        let mut inside = self.queue.inside();
        // A single item always fits into an empty queue.
        if inside.units > 0 && inside.units + units > WAITING {
            inside.lost += units;
            return;
        }
        inside.units += units;
        inside.waiting.push_back((Arc::clone(item), units));
        drop(inside);
        self.queue.changed.notify_all();
    }

    pub(super) fn state(&self) -> Export {
        let inside = self.queue.inside();
        Export {
            form: self.target.form().to_owned(),
            to: self.target.to.to_string(),
            sent: inside.sent,
            lost: inside.lost,
            trouble: inside.trouble.clone(),
        }
    }

    /// Lets it send what waits for a moment more, and no longer.
    pub(super) fn end(&self) {
        self.queue.inside().ends.get_or_insert(Instant::now() + LAST);
        self.queue.changed.notify_all();
    }

    /// Waits until it has ended.
    pub(super) fn join(mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.end();
    }
}

struct Sending {
    queue: Arc<Queue>,
    to: To,
    encoder: Box<dyn Encoder>,
    /// Since when it is there.
    line: Option<(Line, Instant)>,
    /// Messages that have left over it.
    left: u64,
    pause: Duration,
}

impl Sending {
    fn run(&mut self) {
        // At once: the state shows whether the collector is there.
        let mut goes_on = self.is_open();
        while goes_on {
            let Some((item, units)) = self.queue.next() else { break };
            goes_on = self.report_loss() && self.send_item(&item, units);
        }
        self.queue.give_up();
    }

    /// Opens a line, however long that takes. Returns false when the end has come.
    fn is_open(&mut self) -> bool {
        while self.line.is_none() {
            match Line::open(&self.to) {
                Ok(line) => {
                    self.line = Some((line, Instant::now()));
                    self.left = 0;
                    self.encoder.begin();
                    if !matches!(self.to, To::Udp(_)) {
                        self.queue.inside().trouble = None;
                    }
                }
                Err(error) if !self.rest_after(&error) => return false,
                Err(_) => {}
            }
        }
        true
    }

    /// Notes why nothing can be sent, and leaves the collector alone for a while.
    fn rest_after(&mut self, error: &io::Error) -> bool {
        self.queue.inside().trouble = Some(words(&self.to, error));
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE.1);
        self.queue.rest(pause)
    }

    /// Notes that a line broke.
    fn broke(&mut self, error: &io::Error) -> bool {
        // One that has held for a while was good.
        if self.line.take().is_some_and(|(_, since)| since.elapsed() > PAUSE.1) {
            self.pause = PAUSE.0;
        }
        self.rest_after(error)
    }

    fn send_item(&mut self, item: &Item, units: u64) -> bool {
        let mut gone = Gone::default();
        let goes_on = self.send_all(&mut gone, units, |encoder, from, now| encoder.encode(item, from, now));
        let mut inside = self.queue.inside();
        inside.sent += gone.sent;
        // What an encoder makes no message of is as good as lost.
        inside.lost += units.saturating_sub(gone.sent);
        goes_on
    }

    /// Reports how many were lost, if some were; a report that is lost itself is sent again. Returns false when the end has come.
    fn report_loss(&mut self) -> bool {
        let (lost, reported) = {
            let inside = self.queue.inside();
            (inside.lost, inside.reported)
        };
        if lost == reported {
            return true;
        }
        let mut gone = Gone::default();
        let goes_on =
            self.send_all(&mut gone, 1, |encoder, _, now| encoder.encode_loss(lost - reported, lost, now));
        if gone.lost == 0 {
            self.queue.inside().reported = lost;
        }
        goes_on
    }

    /// Sends so many units. What did not leave before a line broke is made anew for the next one. Returns false when the end has come.
    fn send_all(
        &mut self,
        gone: &mut Gone,
        units: u64,
        mut make: impl FnMut(&mut dyn Encoder, u64, Timestamp) -> Vec<Message>,
    ) -> bool {
        while gone.sent + gone.lost < units {
            if !self.is_open() {
                return false;
            }
            let messages = make(&mut *self.encoder, gone.sent + gone.lost, Timestamp::now());
            if messages.iter().all(|message| message.units == 0) {
                return true;
            }
            for message in messages {
                let Some((line, _)) = &mut self.line else { return false };
                let error = match line.send(&message.bytes) {
                    Ok(()) => {
                        gone.sent += message.units;
                        self.works();
                        continue;
                    }
                    Err(Broken::Unsent(error)) => error,
                    Err(Broken::Cut(error)) => {
                        gone.lost += message.units;
                        error
                    }
                };
                if !self.broke(&error) {
                    return false;
                }
                break;
            }
        }
        true
    }

    /// A message has left. Over UDP only the next one shows whether nobody was there.
    fn works(&mut self) {
        self.left += 1;
        if self.left > 1 || !matches!(self.to, To::Udp(_)) {
            self.queue.inside().trouble = None;
        }
    }
}

/// Units that have left, and those that were lost on the way.
#[derive(Default)]
struct Gone {
    sent: u64,
    lost: u64,
}

/// Whether both ends did not agree about who they are, or how they encrypt.
fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// Why nothing can be sent, and what to do.
fn words(to: &To, error: &io::Error) -> String {
    use nix::libc;
    let remedy = match (to, error.raw_os_error()) {
        (To::Unusable(..), _) => "mend the file that [log.tls] names, and apply the policy again",
        (To::Tls(..), _) if is_of_tls(error) => {
            "what it proves itself by is not what [log.tls] of the policy says, or it does not know this firewall's certificate"
        }
        (To::Socket(_), _) => "start systemd-journald, or name its socket in the policy",
        (_, Some(libc::EPERM | libc::ENOBUFS)) => {
            "a packet of the firewall itself is dropped: write a rule that allows it from `self`"
        }
        (_, Some(libc::ECONNREFUSED)) => "start the collector's program, or correct the port in the policy",
        (_, Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => {
            "there is no way to it: look at routes and links"
        }
        _ => "look whether it is there, and whether a rule lets the firewall reach it from `self`",
    };
    format!("nothing reaches it ({error}); {remedy}")
}
