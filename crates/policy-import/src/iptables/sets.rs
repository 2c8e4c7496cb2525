//! What `ipset save` prints: sets of addresses that rules name. A set is as it was when it was saved, as the rules are.

use crate::words;
use policy::address::AddressSet;
use std::collections::HashMap;

/// Sets by name; `None`: one that this program does not understand, or that packets or time change.
pub(super) type Sets = HashMap<String, Option<AddressSet>>;

/// Types whose elements are addresses or networks and nothing else.
const OF_ADDRESSES: [&str; 3] = ["hash:ip", "hash:net", "bitmap:ip"];

/// Whether a text is of sets.
pub(super) fn is_of_sets(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.starts_with("create ") || line.starts_with("add "))
}

/// Reads a text into the sets so far; or the number of the line that is wrong, and why.
pub(super) fn read(text: &str, sets: &mut Sets) -> Result<(), (usize, String)> {
    let mut elements: HashMap<&str, Option<Vec<AddressSet>>> = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            ["create", name, of, ref options @ ..] => {
                let is_known = OF_ADDRESSES.contains(&of) && !options.contains(&"timeout");
                if sets.contains_key(name) || elements.insert(name, is_known.then(Vec::new)).is_some() {
                    return Err((number, format!("the set `{name}` is made a second time")));
                }
            }
            ["add", name, element, ref options @ ..] => {
                let Some(all) = elements.get_mut(name) else {
                    return Err((number, format!("nothing above makes the set `{name}`")));
                };
                // Exceptions and times are options of elements.
                let is_plain = !options.iter().any(|option| ["nomatch", "timeout"].contains(option));
                let addresses = words::addresses(element).filter(|_| is_plain);
                match (all.as_mut(), addresses) {
                    (Some(all), Some(addresses)) => all.push(addresses),
                    _ => *all = None,
                }
            }
            _ => return Err((number, "this is no line of `ipset save`".to_owned())),
        }
    }
    let whole = |all: Option<Vec<AddressSet>>| all.map(|all| AddressSet::union(&all));
    sets.extend(elements.into_iter().map(|(name, all)| (name.to_owned(), whole(all))));
    Ok(())
}
