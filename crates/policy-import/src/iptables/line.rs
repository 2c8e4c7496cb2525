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
