//! Words of a text in messages: what a wrong one probably means, and long ones cut short.

/// "did you mean …", or the whole choice when no word of it is near.
pub fn suggestion<'a>(word: &str, choice: impl IntoIterator<Item = &'a str>) -> String {
    suggestion_from(&[], word, choice)
}

/// The same with a table of words: what other programs call something, and what it is called here. A word of the table is
/// suggested when it is in the choice.
pub fn suggestion_from<'a>(
    elsewhere: &[(&str, &str)],
    word: &str,
    choice: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut seen = std::collections::HashSet::new();
    let choice: Vec<&str> = choice.into_iter().filter(|word| seen.insert(*word)).collect();
    let here = elsewhere.iter().find(|(other, here)| *other == word && choice.contains(here));
    if let Some((_, here)) = here {
        return format!("did you mean `{here}`?");
    }
    if let Some(same) = choice.iter().find(|c| c.eq_ignore_ascii_case(word)) {
        return format!("did you mean `{same}`?");
    }
    // A word of more than a line is no slip of the finger, and its distances would cost its length squared.
    let near = choice.iter().filter(|_| word.len() <= 100);
    let distance = |c: &&str| (strsim::damerau_levenshtein(word, c), c.chars().next() != word.chars().next());
    let nearest = near.map(|c| (distance(c), *c)).min();
    match nearest {
        Some(((distance, _), c)) if distance <= 1 + word.chars().count() / 4 => {
            format!("did you mean `{c}`?")
        }
        _ if choice.is_empty() => "there are none".to_owned(),
        _ if choice.len() > 40 => {
            format!("there are {}, among them: {}", choice.len(), choice[..12].join(", "))
        }
        _ => format!("there are: {}", choice.join(", ")),
    }
}

/// The first 64 characters of a word, and "…" when it has more.
pub fn shortened(word: &str) -> String {
    match word.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

/// Whether a character ends a line, controls a terminal, changes the direction of the text, or has no width, so that nobody sees it.
pub fn is_harmful(c: char) -> bool {
    let has_no_width = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c.is_control() || has_no_width || matches!(c, '\u{2028}'..='\u{202e}')
}

/// Text that begins no new line and moves no cursor, whatever was in it; nor does it turn the direction of writing.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_harmful(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_others_listed() {
        let elsewhere = [("dest", "to")];
        let suggestion = |word| suggestion_from(&elsewhere, word, ["source", "to"]);
        assert_eq!(suggestion("sorce"), "did you mean `source`?");
        assert_eq!(suggestion("dest"), "did you mean `to`?");
        assert_eq!(suggestion("xyz"), "there are: source, to");
        assert_eq!(suggestion_from(&elsewhere, "dest", ["source"]), "there are: source");
        assert_eq!(suggestion_from(&[], "x", []), "there are none");
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"é".repeat(64)), "é".repeat(64));
        assert_eq!(shortened(&"é".repeat(65)), "é".repeat(64) + "…");
    }

    #[test]
    fn what_could_mislead_a_reader_is_shown_by_its_number() {
        for (text, shown) in [
            ("größer «x» 日本", "größer «x» 日本"),
            ("\x1b[2J\u{9b}2J", "\\u{1b}[2J\\u{9b}2J"),
            ("a\rb\n\u{2028}", "a\\u{d}b\\u{a}\\u{2028}"),
            ("\u{202e}spm\u{2066}", "\\u{202e}spm\\u{2066}"),
            ("nft\u{200b}ables\u{feff}\u{2060}", "nft\\u{200b}ables\\u{feff}\\u{2060}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
