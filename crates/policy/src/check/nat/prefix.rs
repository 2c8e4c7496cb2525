//! `prefix_to`: one prefix of IPv6 for another (RFC 6296).

use super::Fields;
use crate::address::AddressSet;
use crate::model::Change;
use crate::prefix::{MAX_PREFIX_BITS, Prefixes};
use std::net::Ipv6Addr;
use toml_reader::{Collector, Section, shortened};

/// The pair of `source`, as the text writes it, and `prefix_to`.
pub(super) fn change(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Change> {
    let outside = section.text("prefix_to", c)?;
    let mut wrong = |message: String, help: &str| {
        c.report(outside.span.clone(), message, Some(help.to_owned()));
        None
    };
    let Some(to) = prefix(outside.value) else {
        let message =
            format!("`{}` is no prefix of IPv6 of 1 to {MAX_PREFIX_BITS} bits", shortened(outside.value));
        return wrong(
            message,
            "write the network that is routed to this machine, for example prefix_to = \"2001:db8:1::/48\"",
        );
    };
    let source = section.value("source").and_then(|value| value.get_ref().as_str());
    let Some(from) = source.and_then(prefix) else {
        let message = "`prefix_to` has no `source` that is one prefix of IPv6".to_owned();
        return wrong(message, "write the network inside, of 1 to 64 bits: source = \"fd01:203:405::/48\"");
    };
    let prefixes = Prefixes::new(from, to)?;
    let (inside, outside) = (prefixes.inside(), prefixes.outside());
    if inside.0 <= outside.1 && outside.0 <= inside.1 {
        let message = format!("{}/{} and {}/{} have addresses in common", from.0, from.1, to.0, to.1);
        return wrong(message, "write two prefixes that have none, each of its own network");
    }
    Some(Change::Prefix(prefixes))
}

/// A network that hosts may have, with the length of its prefix.
fn prefix(text: &str) -> Option<(Ipv6Addr, u8)> {
    let bits = text.rsplit_once('/')?.1.parse().ok().filter(|bits| (1..=MAX_PREFIX_BITS).contains(bits))?;
    let set = AddressSet::parse(text).ok()?;
    let [(first, _)] = set.v6.ranges() else { return None };
    let address = Ipv6Addr::from(*first);
    let has_hosts = !address.is_multicast() && !address.is_unicast_link_local() && !address.is_unspecified();
    has_hosts.then_some((address, bits))
}

/// What does not go together with `prefix_to`.
pub(super) fn check(
    section: &Section<'_>,
    fields: &Fields<'_>,
    mut wrong: impl FnMut(&'static str, String, &str) -> Option<()>,
) -> Option<()> {
    let help = "take it out; what stays as it is goes into an entry with exempt = true above this one";
    super::refuse_parts(section, "`prefix_to`, which translates all of a prefix", help, &mut wrong)?;
    if fields.to.is_none() {
        let help = "write the zones where the prefix of `prefix_to` is known, for example to = \"outside\"";
        return wrong("prefix_to", "the translation has no `to`".to_owned(), help);
    }
    Some(())
}
