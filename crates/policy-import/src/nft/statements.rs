//! Statements of nftables that decide nothing: how many words each has. A match may stand behind any of them (`counter ether saddr …`), so
//! their words are counted one by one, and what is not known to belong to a statement is read as the next part of the rule.

use super::fields::field;
use super::rule::braces;
use super::token::Token;

/// The words of a statement at the beginning of some words that decides nothing; `None` if there is none that this program knows.
pub(super) fn idle(words: &[Token]) -> Option<usize> {
    let texts: Vec<&str> = words.iter().map(text).collect();
    let taken = match texts[..] {
        ["counter", "packets", _, "bytes", _, ..] => 5,
        ["counter", "name", ..] => 3,
        ["counter" | "notrack", ..] => 1,
        ["last", "used", ..] => 3,
        ["last", ..] => 1,
        ["log", ..] => logged(&texts),
        ["flow", "add" | "offload", ..] => 3,
        // What a packet is marked with, and how it is queued, changes nothing for a policy.
        ["meta", "mark" | "priority" | "nftrace" | "secmark", "set", ..]
        | ["ct", "mark" | "helper" | "secmark" | "label" | "zone", "set", ..] => 3 + assigned(&words[3..]),
        ["tcp", "option", "maxseg", "size", "set", "rt", ..] => 7,
        ["tcp", "option", "maxseg", "size", "set", ..] => 6,
        ["add" | "update" | "delete", set, "{", ..] if set.starts_with('@') => 2 + braces(&words[2..]).len(),
        _ => return None,
    };
    Some(taken.min(words.len()))
}

/// Why a rule may end at a statement, so that its verdict is not for all packets that come to it; `None` if it goes on behind it. `words` are the
/// statement's. What reads a field asks without a word for the protocol that the field is of.
pub(super) fn ends_the_rule(words: &[Token]) -> Option<&'static str> {
    let texts: Vec<&str> = words.iter().map(text).collect();
    let is_constant = |word: &&str| {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        is_number
            || matches!(*word, "\"" | "meta" | "mark" | "&" | "|" | "^" | "and" | "or" | "xor" | "<<" | ">>")
    };
    match texts[..] {
        // Where the set is full, and where a limit in it is passed.
        ["add" | "update" | "delete", ..] => Some("a set that packets change"),
        // At the first packet of each flow: the table takes what is established (net/netfilter/nft_flow_offload.c).
        ["flow", ..] => Some("`flow`"),
        ["tcp", "option", ..] => Some("`tcp option`, which is of TCP alone"),
        ["meta" | "ct", "mark", "set", ref value @ ..] if !value.iter().all(is_constant) => {
            Some("a value that not every packet has")
        }
        // Of helpers, zones, labels: a name, or a map of something.
        ["meta" | "ct", name, "set", _, _, ..] if name != "mark" => Some("a value that not every packet has"),
        _ => None,
    }
}

/// A word without quotation marks; what had them is a value, and equal to no word.
fn text(word: &Token) -> &str {
    if word.quoted { "\"" } else { &word.text }
}

/// `log prefix "x" level warn flags tcp sequence,options`.
fn logged(texts: &[&str]) -> usize {
    let mut taken = 1;
    loop {
        taken += match texts[taken.min(texts.len())..] {
            ["prefix" | "level" | "group" | "snaplen" | "queue-threshold", ..] => 2,
            ["flags", "tcp" | "ip", _, ",", ..] => 5,
            ["flags", "tcp" | "ip", ..] => 3,
            ["flags", ..] => 2,
            _ => return taken,
        };
    }
}

/// The words of a value that something is set to: `0x1`, `ct mark & 0xff | 0x100`, `ip saddr map { … }`.
fn assigned(words: &[Token]) -> usize {
    let operators = ["&", "|", "^", "and", "or", "xor", "<<", ">>"];
    let mut taken = 0;
    loop {
        let left = &words[taken.min(words.len())..];
        taken += match (field(left), left) {
            (Some((_, named)), _) if left.get(named).is_some_and(|word| word.is("map")) => {
                named + 1 + braces(left.get(named + 1..).unwrap_or_default()).len().max(1)
            }
            (_, [first, ..]) if first.is("ct") || first.is("meta") => 2,
            _ => 1,
        };
        if !words.get(taken).is_some_and(|word| operators.iter().any(|operator| word.is(operator))) {
            return taken;
        }
        taken += 1;
    }
}

/// What rewrites something that rules ask for: `ip daddr set …`, `@nh,128,32 set …`.
pub(super) fn rewrites(words: &[Token]) -> bool {
    let is_set = |place: usize| words.get(place).is_some_and(|word| word.is("set"));
    // `@nh,128,32`: commas are words.
    let is_raw = words.first().is_some_and(|word| !word.quoted && word.text.starts_with('@'));
    is_raw && is_set(5) || field(words).is_some_and(|(_, named)| is_set(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_a_statement_is_no_part_of_it() {
        for (statement, behind) in [
            ("counter", "ether saddr 0"),
            ("counter packets 1 bytes 2", "@th,16,16 22"),
            ("counter name \"a\"", "mark 1"),
            ("notrack", "vlan id 3"),
            ("last", "accept"),
            ("last used never", "accept"),
            ("log", "skuid 0"),
            ("log prefix \"flags\" level warn", "iifgroup 1"),
            ("log flags all", "accept"),
            ("log flags tcp sequence", "accept"),
            ("log flags tcp sequence,options", "ip saddr 10.0.0.1"),
            ("log prefix \"x\" flags ip options group 3 snaplen 5 queue-threshold 7", "meta mark 1"),
            ("flow add @f", "accept"),
            ("meta mark set 0x1", "ip saddr 10.0.0.1"),
            ("meta mark set ct mark & 0xff | 0x1", "tcp dport 80"),
            ("meta mark set ip saddr map { 10.0.0.1 : 2 }", "tcp dport 80"),
            ("meta mark set ip saddr map @m", "tcp dport 80"),
            ("ct mark set meta mark", "ip saddr 10.0.0.1"),
            ("ct helper set \"ftp\"", "ip saddr 10.0.0.1"),
            ("tcp option maxseg size set rt mtu", "accept"),
            ("tcp option maxseg size set 1400", "accept"),
            ("add @s { ip saddr }", "ether saddr 0"),
            ("add @s { ip saddr limit rate 5/second }", "ether saddr 0"),
            ("delete @s { ip saddr . tcp dport }", "ether saddr 0"),
        ] {
            let count = |text: &str| super::super::token::tokens(text).map(|words| words.len());
            let all = super::super::token::tokens(&format!("{statement} {behind}"));
            assert_eq!(all.map(|all| idle(&all)), count(statement).map(Some), "{statement} | {behind}");
        }
        for words in ["quota until 5 mbytes", "\"counter\"", "log", ""] {
            let taken = super::super::token::tokens(words).map(|all| idle(&all));
            assert_eq!(taken, Ok((words == "log").then_some(1)), "{words}");
        }
    }
}
