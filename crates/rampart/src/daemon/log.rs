//! What the daemon reports while it runs: a line per event, for people or as JSON. A line is one event whatever is in it: names and
//! files that clients send cannot begin another. Nobody waits for whoever reads: lines that are not taken in time are lost, and
//! counted.

use crate::privileges;
use jiff::Timestamp;
use serde_json::json;
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
#[cfg(test)]
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use toml_reader::is_harmful;

/// Lines that may wait for their reader.
const WAITING: usize = 4096;
/// How long the end of a daemon waits for the reader of its last lines.
const LAST: Duration = Duration::from_secs(1);

pub(crate) struct Log {
    json: bool,
    out: Out,
}

enum Out {
    /// Written at once. Only for tests: a writer that stands still would hold the daemon.
    #[cfg(test)]
    Direct(Mutex<Box<dyn Write + Send>>),
    /// Written by a thread of its own.
    Behind(Behind),
}

struct Behind {
    items: SyncSender<Item>,
    lost: AtomicU64,
}

/// What the writing thread is given.
enum Item {
    Line(String),
    /// Everything before this is written: say so.
    Written(SyncSender<()>),
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The firewall is up.
    Up,
    /// A policy came into force.
    Applied,
    /// A policy was not put in force.
    Refused,
    /// Somebody may not do what was asked for.
    Denied,
    /// A policy was confirmed.
    Confirmed,
    /// A policy was not confirmed, and the one before it came back.
    RolledBack,
    /// An interface came that matches a pattern of a zone.
    Attached,
    /// An interface went that matched a pattern.
    Detached,
    /// A schedule began or ended.
    Scheduled,
    /// Lists of addresses were read again by themselves.
    Refreshed,
    /// A user ended flows.
    Killed,
    /// A user ended blocks.
    Unblocked,
    /// An alert was raised.
    Alert,
    /// The daemon ends, and the firewall goes on without it.
    Left,
    /// Something needs attention.
    Trouble,
    /// A trouble or an alert is over.
    Over,
    /// The firewall is down.
    Down,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Up => "up",
            Kind::Applied => "applied",
            Kind::Refused => "refused",
            Kind::Denied => "denied",
            Kind::Confirmed => "confirmed",
            Kind::RolledBack => "rolled-back",
            Kind::Attached => "attached",
            Kind::Detached => "detached",
            Kind::Scheduled => "scheduled",
            Kind::Refreshed => "refreshed",
            Kind::Killed => "killed",
            Kind::Unblocked => "unblocked",
            Kind::Alert => "alert",
            Kind::Left => "left",
            Kind::Trouble => "trouble",
            Kind::Over => "over",
            Kind::Down => "down",
        }
    }
}

impl Log {
    #[cfg(test)]
    pub(crate) fn new(json: bool, out: Box<dyn Write + Send>) -> Self {
        Self { json, out: Out::Direct(Mutex::new(out)) }
    }

    /// Writes to `out` on a thread of its own.
    pub(crate) fn behind(json: bool, mut out: Box<dyn Write + Send>) -> Self {
        let (items, waiting) = sync_channel(WAITING);
        std::thread::spawn(move || {
            privileges::keep_nothing();
            for item in waiting {
                match item {
                    // A reader that went away is no reason to stop a firewall.
                    Item::Line(line) => drop(out.write_all(line.as_bytes()).and_then(|()| out.flush())),
                    Item::Written(done) => drop(done.send(())),
                }
            }
        });
        Self { json, out: Out::Behind(Behind { items, lost: AtomicU64::new(0) }) }
    }

    /// Waits a moment until everything is written, because the process is about to end.
    pub(crate) fn finish(&self) {
        match &self.out {
            #[cfg(test)]
            Out::Direct(_) => {}
            Out::Behind(behind) => {
                let (done, is_done) = sync_channel(1);
                if behind.items.try_send(Item::Written(done)).is_ok() {
                    let _ = is_done.recv_timeout(LAST);
                }
            }
        }
    }

    /// Writes an event; `by` whom, if somebody did it.
    pub(crate) fn event(&self, at: Timestamp, kind: Kind, by: Option<&str>, message: impl fmt::Display) {
        let line = self.line(at, kind, by, &message.to_string());
        match &self.out {
            #[cfg(test)]
            Out::Direct(out) => {
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
            }
            Out::Behind(behind) => {
                let lost = behind.lost.swap(0, Ordering::AcqRel);
                let notice = (lost > 0).then(|| {
                    self.line(
                        at,
                        Kind::Trouble,
                        None,
                        &format!("{lost} lines were not printed: nobody read them"),
                    )
                });
                if !notice.into_iter().chain([line]).all(|line| behind.send(line)) {
                    behind.lost.fetch_add(lost + 1, Ordering::AcqRel);
                }
            }
        }
    }

    fn line(&self, at: Timestamp, kind: Kind, by: Option<&str>, message: &str) -> String {
        if !self.json {
            return format!("{at:.3} {}: {}\n", kind.name(), escaped(message));
        }
        let mut event = json!({ "at": at, "event": kind.name(), "message": message });
        if let Some(by) = by {
            event["by"] = json!(by);
        }
        format!("{event}\n")
    }
}

impl Behind {
    /// Returns whether there was room. Where the thread has ended, nobody reads any more.
    fn send(&self, line: String) -> bool {
        !matches!(self.items.try_send(Item::Line(line)), Err(TrySendError::Full(_)))
    }
}

/// Text without what would end its line, move a terminal's cursor or mislead a reader, with the usual escapes in place of it (`\n`).
pub(crate) fn escaped(text: &str) -> String {
    if !text.chars().any(is_harmful) {
        return text.to_owned();
    }
    text.chars().map(|c| if is_harmful(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::mpsc::{Receiver, Sender};

    /// Hands on what is written, and waits at each line until it may go on.
    struct Slow(Sender<String>, Receiver<()>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(String::from_utf8_lossy(bytes).into_owned()).unwrap();
            let _ = self.1.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stands_still_holds_nobody_and_learns_what_it_missed() {
        let (out, lines) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel();
        let log = Log::behind(false, Box::new(Slow(out, may_go_on)));
        let at: Timestamp = "2026-11-22T10:00:00Z".parse().unwrap();
        log.event(at, Kind::Up, None, 0);
        assert!(lines.recv().unwrap().contains("up: 0"), "it is being written");
        // One waits in the writer, and so many in the queue; the rest is lost. None of the calls waits.
        for i in 1..=WAITING + 10 {
            log.event(at, Kind::Up, None, i);
        }
        for _ in 0..=WAITING {
            go_on.send(()).unwrap();
        }
        let last = lines.iter().take(WAITING).last().unwrap();
        assert!(last.contains(&format!("up: {WAITING}")), "{last}");
        log.event(at, Kind::Up, None, "again");
        drop(go_on);
        assert!(lines.recv().unwrap().contains("trouble: 10 lines were not printed"));
        assert!(lines.recv().unwrap().contains("up: again"));
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let at: Timestamp = "2026-11-22T10:00:00Z".parse().unwrap();
        for (message, shown) in [
            ("p.toml as generation 2", "p.toml as generation 2"),
            ("p\n2026-11-22T10:00:00Z confirmed: by root", "p\\n2026-11-22T10:00:00Z confirmed: by root"),
            ("\r\u{1b}[2J\u{9b}1m", "\\r\\u{1b}[2J\\u{9b}1m"),
            ("a\u{2028}b\u{202e}c", "a\\u{2028}b\\u{202e}c"),
            ("nft\u{200b}ables\u{feff}", "nft\\u{200b}ables\\u{feff}"),
            ("Zürich 東京", "Zürich 東京"),
        ] {
            let line = |json| {
                Log { json, out: Out::Direct(Mutex::new(Box::new(io::sink()))) }.line(
                    at,
                    Kind::Applied,
                    Some("user 0"),
                    message,
                )
            };
            assert_eq!(line(false), format!("2026-11-22T10:00:00.000Z applied: {shown}\n"));
            let json = line(true);
            assert_eq!(json.lines().count(), 1);
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!((&read["message"], &read["by"]), (&message.into(), &"user 0".into()));
        }
    }
}
