//! Types of content (RFC 9110 section 8.3), as an answer says them. What comes is not looked into: with `nosniff` no client does either, and takes it for what was
//! judged.

use super::Fault;
use super::body::Length;
use super::field::{Field, Fields, is_token_byte};
use super::head::Answer;

/// The field that says the type.
const TYPE: &str = "content-type";
/// The field that keeps clients from finding out by themselves what something is.
const NO_SNIFFING: &str = "x-content-type-options";

/// Why an answer of this type does not pass a rule with these words: `text/html`, `image/*`, and `!` before either for what may not come.
pub fn refusal(words: &[String], answer: &Answer) -> Option<Fault> {
    if words.is_empty() || matches!(answer.body, Length::None | Length::Bytes(0)) {
        return None;
    }
    let said = match answer.fields.one(TYPE, Fault::with_status(403, "two-content-types")) {
        Err(fault) => return Some(fault),
        Ok(None) => return Some(Fault::with_status(403, "no-content-type")),
        Ok(Some(field)) => essence(&field.value),
    };
    let is_let = said.is_some_and(|said| passes(words, &said));
    (!is_let).then_some(Fault::with_status(403, "content-type"))
}

/// Has a client take an answer for what it says that it is.
pub fn forbid_sniffing(fields: &mut Fields) {
    fields.0.retain(|field| !field.is(NO_SNIFFING));
    fields.0.push(Field { name: "X-Content-Type-Options".to_owned(), value: b"nosniff".to_vec() });
}

/// Type and subtype in small letters, without parameters; `None` of what is no type, which each reader corrects in its own way.
fn essence(value: &[u8]) -> Option<String> {
    let (plain, parameters) = match value.iter().position(|byte| *byte == b';') {
        Some(place) => value.split_at(place),
        None => (value, &b""[..]),
    };
    let text = std::str::from_utf8(plain).ok()?.trim_end_matches([' ', '\t']);
    let (kind, subtype) = text.split_once('/')?;
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
    // A comma begins another type, which some readers take instead.
    let is_one = is_token(kind) && is_token(subtype) && !parameters.contains(&b',');
    is_one.then(|| text.to_ascii_lowercase())
}

fn passes(words: &[String], said: &str) -> bool {
    let is_it = |word: &str| match word.strip_suffix('*') {
        Some(begin) => said.starts_with(begin),
        None => word == said,
    };
    let mut allowed = words.iter().filter(|word| !word.starts_with('!')).peekable();
    // What has others in it says their types inside.
    let is_by_default = allowed.peek().is_none() && !said.starts_with("multipart/");
    let is_denied = words.iter().filter_map(|word| word.strip_prefix('!')).any(is_it);
    !is_denied && (is_by_default || allowed.any(|word| is_it(word)))
}
