//! Whatever a text says, it is imported or refused, nothing panics and no rule vanishes: rule sets as people write them, with words left out, written twice or
//! exchanged, and cut anywhere.

mod accounts;
mod random;

use policy_import::{Format, Options, Source};
use random::Random;
use std::panic::catch_unwind;
use std::path::Path;

/// Texts that are made of each file, unless the environment says another number (`TEXTS`).
const TEXTS: usize = 400;

/// The words of a text, and what stands between them.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive([' ', '\n', '\t', ',']).collect()
}

fn changed(words: &[&str], random: &mut Random) -> String {
    let mut words = words.to_vec();
    for _ in 0..=random.place(3) {
        let (at, other) = (random.place(words.len()), random.place(words.len()));
        match random.place(5) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[other]),
            2 => words.swap(at, other),
            3 => words[at] = words[other],
            _ => words.insert(at, ["{ ", "} ", "! ", "\"", "@", "; ", ": ", "0 ", ". "][other % 9]),
        }
    }
    let mut text = words.concat();
    if random.place(8) == 0 {
        let end = random.place(text.len());
        text.truncate((0..=end).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0));
    }
    text
}

#[test]
fn no_text_panics_and_no_rule_vanishes() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut imported, mut refused) = (0, 0);
    for (file, format) in [
        ("router.iptables", Format::IptablesSave),
        ("docker.iptables", Format::IptablesSave),
        ("translated.iptables", Format::IptablesSave),
        ("ufw.iptables", Format::IptablesSave),
        ("ufw_user.rules", Format::Ufw),
        ("router.nft", Format::Nft),
        ("script.nft", Format::Nft),
        ("ufw_before.rules", Format::Ufw),
        ("translated.nft", Format::Nft),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
        let whole = std::fs::read_to_string(path).unwrap();
        let words = words(&whole);
        for _ in 0..std::env::var("TEXTS").map_or(TEXTS, |n| n.parse().unwrap()) {
            let text = changed(&words, &mut random);
            let source = [Source { name: file.to_owned(), text: text.clone() }];
            let outcome =
                catch_unwind(|| accounts::import(format, &source, &Options::default(), false).is_ok());
            let is_imported = outcome.unwrap_or_else(|_| panic!("{file} fails with\n{text}"));
            *if is_imported { &mut imported } else { &mut refused } += 1;
        }
    }
    assert!(imported > refused / 10 && refused > imported / 10, "{imported} imported, {refused} refused");
}
