//! A line of iptables-save as words.

/// A word, with its quotation marks taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// From 1, in characters.
    pub(crate) column: usize,
    /// Whether it had quotation marks, so that it is a value and no option.
    pub(crate) quoted: bool,
}

/// The words of a line that has some; or the column and what is wrong.
pub(crate) fn words(line: &str) -> Result<Vec<Word>, (usize, String)> {
    let mut words: Vec<Word> = Vec::new();
    let mut chars = line.chars().enumerate().peekable();
    while let Some((i, c)) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        let mut word = Word { text: String::new(), column: i + 1, quoted: c == '"' || c == '\'' };
        if word.quoted {
            quoted(c, &mut word, &mut chars)?;
        } else {
            word.text.push(c);
            while let Some((_, c)) = chars.next_if(|(_, c)| !c.is_whitespace()) {
                word.text.push(c);
            }
        }
        words.push(word);
    }
    if words.is_empty() { Err((1, "there is nothing on this line".to_owned())) } else { Ok(words) }
}

/// Options of one letter whose value may stand right behind it.
const LETTERS: [&str; 8] = ["-p", "-s", "-d", "-i", "-o", "-m", "-j", "-g"];

/// Words of which each option and each value is one: `--dport=22` and `-jDROP` are two each.
pub(crate) fn separated(words: &[Word]) -> Vec<Word> {
    let parts = |word: &Word| -> Option<usize> {
        if word.quoted {
            return None;
        }
        if word.text.starts_with("--") {
            return word.text.find('=');
        }
        LETTERS.iter().any(|letter| word.text.len() > 2 && word.text.starts_with(letter)).then_some(2)
    };
    let mut all = Vec::new();
    for word in words {
        let Some(end) = parts(word) else {
            all.push(word.clone());
            continue;
        };
        let value = word.text[end..].trim_start_matches('=');
        all.push(Word { text: word.text[..end].to_owned(), ..word.clone() });
        all.push(Word { text: value.to_owned(), column: word.column + end, quoted: false });
    }
    all
}

fn quoted(
    mark: char,
    word: &mut Word,
    chars: &mut impl Iterator<Item = (usize, char)>,
) -> Result<(), (usize, String)> {
    let unfinished = (word.column, "these quotation marks do not end on the line".to_owned());
    loop {
        match chars.next() {
            Some((_, '\\')) => word.text.push(chars.next().ok_or_else(|| unfinished.clone())?.1),
            Some((_, c)) if c == mark => return Ok(()),
            Some((_, c)) => word.text.push(c),
            None => return Err(unfinished),
        }
    }
}
