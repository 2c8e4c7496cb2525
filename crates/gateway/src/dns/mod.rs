//! DNS as bytes and as decisions, without sockets. What gateways of other protocols have looked up is in [`lookup`]; the rest is the gateway of DNS: a
//! client's [`question`] is [`decide`]d about, by rules and by what the policy itself knows ([`view`], [`private`]), and an [`answer`] of a name server is
//! read, kept in the [`cache`] and written anew. Signatures are passed on and not checked.

pub mod answer;
pub mod cache;
pub mod decide;
pub mod lookup;
pub mod name;
pub mod private;
pub mod question;
pub mod rate;
pub mod view;

/// The word by which events and rules know a type of records: `AAAA`, or `TYPE65280`; `None` if it is none.
pub fn kind(word: &str) -> Option<String> {
    let kind: domain::base::iana::Rtype = word.parse().ok()?;
    Some(kind.to_string())
}
