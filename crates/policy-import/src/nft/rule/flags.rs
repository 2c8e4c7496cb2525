//! `tcp flags`, in the ways in which nftables writes what it asks of them.

use super::Draft;
use crate::nft::token::Token;
use crate::tcp_flags::{ALL, narrow};
use crate::words;
use policy::service::TCP;

/// Flags, and how they stand together.
struct Named<'w> {
    flags: Vec<&'w str>,
    /// Whether they are a list (`syn,ack`), of which without an operator any may be on.
    is_list: bool,
    taken: usize,
}

/// Reads a match of flags. Returns how many words it has; `None` if it is none, or not understood.
pub(super) fn flags(draft: &mut Draft, words: &[Token]) -> Option<usize> {
    let is = |place: usize, text: &str| words.get(place).is_some_and(|word| word.is(text));
    if !is(0, "tcp") || !is(1, "flags") {
        return None;
    }
    // What follows is of TCP, understood or not.
    for cube in draft.parts.iter_mut().map(|part| &mut part.cube) {
        cube.services = cube.services.common(&words::of_protocol(TCP));
    }
    let (masked, at) = match is(2, "&") {
        true => {
            let mask = named(&words[3..])?;
            let taken = mask.taken;
            (Some(mask), 3 + taken)
        }
        false => (None, 2),
    };
    let (operator, at) = match () {
        () if is(at, "=") && is(at + 1, "=") => ("==", at + 2),
        () if is(at, "!=") => ("!=", at + 1),
        () if is(at, "!") => ("!", at + 1),
        () => ("", at),
    };
    let value = named(words.get(at..)?)?;
    let at = at + value.taken;
    let behind = (is(at, "/") && masked.is_none()).then(|| named(&words[at + 1..])).flatten();
    let end = at + behind.as_ref().map_or(0, |mask| 1 + mask.taken);
    // An operation that is not known, on what was read.
    if ["&", "|", "^", "<", ">", "/", ","].iter().any(|mark| is(end, mark)) {
        return None;
    }
    let not = operator == "!=";
    let (mask, set) = match (masked.or(behind), operator) {
        (Some(mask), "==" | "!=") => (mask.flags, value.flags),
        (Some(mask), "") if !is(2, "&") => (mask.flags, value.flags),
        (None, "==" | "!=") => (ALL.to_vec(), value.flags),
        (None, "!") => (value.flags, Vec::new()),
        // Any of them: all that is not none.
        (None, "") if value.is_list || value.flags.len() == 1 => return any(draft, &value.flags, end),
        _ => return None,
    };
    narrowed(draft, not, &mask, &set);
    Some(end)
}

/// First packets have SYN, and may have what is neither FIN, RST nor ACK.
fn any(draft: &mut Draft, flags: &[&str], end: usize) -> Option<usize> {
    narrowed(draft, true, flags, &[]);
    Some(end)
}

fn narrowed(draft: &mut Draft, not: bool, mask: &[&str], set: &[&str]) {
    for part in &mut draft.parts {
        if !narrow(&mut part.cube, not, mask, set) {
            part.doubts.push("TCP flags".to_owned());
        }
    }
}

/// `syn`, `syn,ack`, `(fin | syn)`, `0x0`.
fn named(words: &[Token]) -> Option<Named<'_>> {
    let opens = words.first()?.is("(");
    let mut named = Named { flags: Vec::new(), is_list: false, taken: usize::from(opens) };
    loop {
        let word = words.get(named.taken).filter(|word| !word.quoted)?;
        match word.text.as_str() {
            "0" | "0x0" => {}
            flag if ALL.contains(&flag) => named.flags.push(flag),
            _ => return None,
        }
        named.taken += 1;
        let Some(between) = words.get(named.taken).filter(|word| word.is("|") || word.is(",")) else { break };
        named.is_list |= between.is(",");
        named.taken += 1;
    }
    if opens {
        words.get(named.taken).filter(|word| word.is(")"))?;
        named.taken += 1;
    }
    Some(named)
}
