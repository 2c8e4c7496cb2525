//! Syslog: messages of RFC 5424 with structured data, in datagrams (RFC 5426) or counted in a stream (RFC 6587 section 3.4.1). Pure.

use super::notice::Notice;
use super::outlet::{Encoder, Message};
use super::{Item, Origin, cut};
use crate::daemon::log::escaped;
use jiff::Timestamp;
use std::fmt::Write as _;

/// Bytes of a message at most: in a datagram what every receiver takes over IPv6 (RFC 5426 section 3.2), in a stream what those of rsyslog and syslog-ng
/// take unless they are configured otherwise.
const MOST: (usize, usize) = (1_180, 8_000);
/// Bytes that fields leave for the sentence behind them.
const SENTENCE: usize = 200;
/// Bytes of a field's value and of a host's name (RFC 5424 section 6.2.4) at most.
const LONGEST_VALUE: usize = 200;
const LONGEST_HOST: usize = 255;
/// The enterprise number for examples (RFC 5612), by which structured data is named if the user has none: RFC 5424 wants one.
const EXAMPLES: u32 = 32_473;

pub(super) struct Syslog {
    facility: u8,
    host: String,
    namespace: String,
    pid: u32,
    enterprise: u32,
    is_stream: bool,
}

impl Syslog {
    pub(super) fn new(facility: u8, from: &Origin, enterprise: Option<u32>, is_stream: bool) -> Self {
        let is_printed = |c: char| c.is_ascii_graphic();
        let host: String = from.host.chars().filter(|c| is_printed(*c)).take(LONGEST_HOST).collect();
        Self {
            facility,
            host: if host.is_empty() { "-".to_owned() } else { host },
            namespace: from.namespace.clone(),
            pid: from.pid,
            enterprise: enterprise.unwrap_or(EXAMPLES),
            is_stream,
        }
    }

    fn message(&self, notice: &Notice) -> Message {
        let (datagram, stream) = MOST;
        let most = if self.is_stream { stream } else { datagram };
        let mut text = format!(
            "<{}>1 {:.3} {} rampart {} {} [rampart@{}",
            u16::from(self.facility) * 8 + u16::from(notice.severity),
            notice.at,
            self.host,
            self.pid,
            notice.kind,
            self.enterprise
        );
        let fields = notice.fields.iter().map(|(name, value)| (*name, value.as_str()));
        for (name, value) in [("namespace", self.namespace.as_str())].into_iter().chain(fields) {
            let field = format!(" {name}=\"{}\"", quoted(value));
            // Whatever names are in fields, there is room for the sentence.
            if text.len() + field.len() < most - SENTENCE {
                text += &field;
            }
        }
        text += "] ";
        let message = escaped(&notice.message);
        if !message.is_ascii() {
            // RFC 5424 section 6.4: UTF-8 begins with the byte order mark.
            text.push('\u{feff}');
        }
        text += &cut(&message, most.saturating_sub(text.len()));
        let mut bytes = Vec::with_capacity(text.len() + 6);
        if self.is_stream {
            bytes.extend(format!("{} ", text.len()).bytes());
        }
        bytes.extend(text.bytes());
        Message { bytes, units: 1 }
    }
}

/// A value between its quotes (RFC 5424 section 6.3.3), without what would end a line.
fn quoted(value: &str) -> String {
    let mut quoted = String::new();
    for c in cut(&escaped(value), LONGEST_VALUE).chars() {
        let escape = if matches!(c, '"' | '\\' | ']') { "\\" } else { "" };
        // A String takes everything.
        let _ = write!(quoted, "{escape}{c}");
    }
    quoted
}

impl Encoder for Syslog {
    fn encode(&mut self, item: &Item, _: u64, _: Timestamp) -> Vec<Message> {
        Notice::of(item).map(|notice| self.message(&notice)).into_iter().collect()
    }

    fn encode_loss(&mut self, lost: u64, _: u64, now: Timestamp) -> Vec<Message> {
        vec![self.message(&Notice::lost(lost, now))]
    }
}
