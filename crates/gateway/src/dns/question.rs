//! What a client asks, as bytes: one question of class IN, and perhaps what it says of itself (EDNS, RFC 6891). All else is refused as what it is.

use super::name::Wire;
use domain::base::iana::{Class, Opcode, OptRcode, Rcode, Rtype};
use domain::base::name::ToName as _;
use domain::base::{Header, Message};
use domain::rdata::AllRecordData;

/// Bytes of a header.
pub const HEADER: usize = 12;
/// Bytes of an answer by a datagram to whoever says nothing else (RFC 1035).
const LEAST_DATAGRAM: u16 = 512;
/// The same to anybody: what passes every path without fragments.
pub const MOST_DATAGRAM: u16 = 1232;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its number.
    pub id: u16,
    /// The name in small letters.
    pub name: Wire,
    /// The same as text.
    pub text: String,
    /// The same as the client wrote it, which it wants to see again.
    pub written: Vec<u8>,
    /// The type of records.
    pub kind: Rtype,
    /// Whether others may be asked for it.
    pub recursion: bool,
    /// Whether the client checks signatures itself (CD).
    pub unchecked: bool,
    /// What it says by EDNS; `None`: it does not know that.
    pub edns: Option<Edns>,
}

/// What a client says by EDNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edns {
    /// Bytes of a datagram that it takes.
    pub size: u16,
    /// Whether it wants signatures (DO).
    pub signatures: bool,
}

impl Question {
    /// Bytes of an answer by a datagram.
    pub fn room(&self) -> usize {
        let size = self.edns.map_or(LEAST_DATAGRAM, |edns| edns.size.clamp(LEAST_DATAGRAM, MOST_DATAGRAM));
        size.into()
    }

    /// Whether signatures are wanted.
    pub fn signatures(&self) -> bool {
        self.edns.is_some_and(|edns| edns.signatures)
    }
}

/// Why something is no question, and what is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Short identifier.
    pub reason: &'static str,
    /// The code of the answer.
    pub code: OptRcode,
    /// The answer; `None`: nothing can be said to that.
    pub answer: Option<Vec<u8>>,
}

/// Reads a question.
///
/// # Errors
/// It is none that is answered.
pub fn read(bytes: &[u8]) -> Result<Question, Bad> {
    let nothing = |reason| Bad { reason, code: OptRcode::FORMERR, answer: None };
    let message = Message::from_slice(bytes).map_err(|_| nothing("short"))?;
    let header = message.header();
    if header.qr() {
        // An answer to it would be answered, too, and so on.
        return Err(nothing("no-question"));
    }
    let bad = |reason, code| bad(header, reason, code);
    let malformed = |reason| bad(reason, OptRcode::FORMERR);
    if header.opcode() != Opcode::QUERY {
        return Err(bad("opcode", OptRcode::NOTIMP));
    }
    let counts = message.header_counts();
    if counts.qdcount() != 1 {
        return Err(malformed("questions"));
    }
    if counts.ancount() != 0 || counts.nscount() != 0 {
        return Err(malformed("records"));
    }
    let question = message.sole_question().map_err(|_| malformed("name"))?;
    if question.qname().is_compressed() {
        return Err(malformed("name"));
    }
    let edns = edns(message, header)?;
    if question.qclass() != Class::IN {
        return Err(bad("class", OptRcode::REFUSED));
    }
    let name: Wire = question.qname().to_canonical_name();
    let length = name.len();
    Ok(Question {
        id: header.id(),
        text: name.to_string(),
        name,
        written: bytes[HEADER..HEADER + length].to_vec(),
        kind: question.qtype(),
        recursion: header.rd(),
        unchecked: header.cd(),
        edns,
    })
}

/// What stands behind the question: nothing, or one record of EDNS.
fn edns(message: &Message<[u8]>, header: Header) -> Result<Option<Edns>, Bad> {
    let malformed = |reason| bad(header, reason, OptRcode::FORMERR);
    let mut section = message.additional().map_err(|_| malformed("records"))?;
    let mut found = None;
    for record in section.by_ref() {
        let record = record.map_err(|_| malformed("records"))?;
        let parsed = record.to_any_record::<AllRecordData<_, domain::base::ParsedName<_>>>();
        let is_good = record.rtype() == Rtype::OPT && record.owner().is_root() && found.is_none();
        if !is_good || parsed.is_err() {
            return Err(malformed("records"));
        }
        let lifetime = record.ttl().as_secs();
        if lifetime >> 16 & 0xff != 0 {
            return Err(bad(header, "edns-version", OptRcode::BADVERS));
        }
        found = Some(Edns { size: record.class().to_int(), signatures: lifetime & 0x8000 != 0 });
    }
    if section.pos() != message.as_slice().len() {
        return Err(malformed("records"));
    }
    Ok(found)
}

fn bad(header: Header, reason: &'static str, code: OptRcode) -> Bad {
    Bad { reason, code, answer: Some(without_question(header, code)) }
}

/// An answer without a question, to what could not be understood. That the version of EDNS is not known stands in a record of EDNS (RFC 6891 section 6.1.3).
fn without_question(header: Header, code: OptRcode) -> Vec<u8> {
    let mut answer = vec![0; HEADER];
    let of_answer = Header::for_message_slice_mut(&mut answer);
    of_answer.set_id(header.id());
    of_answer.set_qr(true);
    of_answer.set_opcode(header.opcode());
    of_answer.set_rd(header.rd());
    let (low, _) = code.to_parts();
    of_answer.set_rcode(low);
    if code == OptRcode::BADVERS {
        super::answer::push_edns(&mut answer, code, false, None);
    }
    answer
}

/// The code of an answer's header.
pub fn low(code: OptRcode) -> Rcode {
    code.to_parts().0
}
