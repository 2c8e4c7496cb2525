//! The native protocol of systemd-journald: a datagram of fields, each a name and a value, in which a value with line feeds has its length
//! before it. Pure.

use super::notice::Notice;
use super::outlet::{Encoder, Message};
use super::{Item, Origin, cut};
use crate::daemon::log::escaped;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

/// Bytes of a value at most.
const LONGEST: usize = 8_000;

pub(super) struct Journald {
    facility: u8,
    namespace: String,
}

impl Journald {
    pub(super) fn new(facility: u8, from: &Origin) -> Self {
        Self { facility, namespace: from.namespace.clone() }
    }

    fn message(&self, notice: &Notice) -> Message {
        let mut bytes = Vec::new();
        field(&mut bytes, "MESSAGE", &escaped(&notice.message));
        field(&mut bytes, "MESSAGE_ID", &message_id(&notice.kind));
        field(&mut bytes, "PRIORITY", &notice.severity.to_string());
        field(&mut bytes, "SYSLOG_FACILITY", &self.facility.to_string());
        field(&mut bytes, "SYSLOG_IDENTIFIER", "rampart");
        field(&mut bytes, "RAMPART_AT", &format!("{:.3}", notice.at));
        field(&mut bytes, "RAMPART_EVENT", &notice.kind);
        field(&mut bytes, "RAMPART_NAMESPACE", &self.namespace);
        for (name, value) in &notice.fields {
            field(&mut bytes, &format!("RAMPART_{}", name.to_ascii_uppercase()), value);
        }
        Message { bytes, units: 1 }
    }
}

/// What all messages of a kind have in common: 128 bits that no other kind has.
fn message_id(kind: &str) -> String {
    let hash = Sha256::digest(format!("rampart {kind}"));
    hash[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn field(to: &mut Vec<u8>, name: &str, value: &str) {
    let value = cut(value, LONGEST);
    to.extend(name.bytes());
    if value.contains('\n') {
        to.push(b'\n');
        to.extend((value.len() as u64).to_le_bytes());
    } else {
        to.push(b'=');
    }
    to.extend(value.bytes());
    to.push(b'\n');
}

impl Encoder for Journald {
    fn encode(&mut self, item: &Item, _: u64, _: Timestamp) -> Vec<Message> {
        Notice::of(item).map(|notice| self.message(&notice)).into_iter().collect()
    }

    fn encode_loss(&mut self, lost: u64, _: u64, now: Timestamp) -> Vec<Message> {
        vec![self.message(&Notice::lost(lost, now))]
    }
}
