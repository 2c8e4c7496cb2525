//! Text of nftables as words.

/// A word, a mark, or the end of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Whether it had quotation marks, so that it is a value.
    pub(crate) quoted: bool,
}

impl Token {
    /// Whether it is this mark or word, without quotation marks.
    pub(crate) fn is(&self, text: &str) -> bool {
        !self.quoted && self.text == text
    }
}

/// Marks that are words of their own.
const MARKS: &str = "{}(),;=<>&|\n";

/// The words of a text; the end of a line is one, unless a backslash stands before it.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, (usize, usize, String)> {
    let mut tokens = Vec::new();
    let (mut line, mut column) = (1, 0);
    let mut chars = text.chars().peekable();
    let mut word: Option<Token> = None;
    while let Some(c) = chars.next() {
        column += 1;
        let at = |text: String, quoted| Token { text, line, column, quoted };
        let negates = c == '!' && chars.peek() == Some(&'=');
        if !(c.is_whitespace() || MARKS.contains(c) || matches!(c, '"' | '#' | '\\') || negates) {
            word.get_or_insert_with(|| at(String::new(), false)).text.push(c);
            continue;
        }
        tokens.extend(word.take().into_iter().flat_map(split_colon));
        match c {
            '\n' => {
                tokens.push(at("\n".to_owned(), false));
                (line, column) = (line + 1, 0);
            }
            '"' => {
                let mut token = at(String::new(), true);
                loop {
                    column += 1;
                    match chars.next() {
                        Some('"') => break,
                        Some('\n') | None => {
                            return Err((
                                token.line,
                                token.column,
                                "these quotation marks do not end on the line".to_owned(),
                            ));
                        }
                        Some(c) => token.text.push(c),
                    }
                }
                tokens.push(token);
            }
            '#' => {
                let mut comment = String::new();
                while let Some(c) = chars.next_if(|c| *c != '\n') {
                    comment.push(c);
                }
                // The rest of the rule is in the comment, and may be what drops.
                if comment.trim_start().starts_with("xt_") {
                    let message = "nft has no words for what stands here, and the rest of the rule is missing; give what iptables-save \
                                   prints on that machine";
                    return Err((line, column, message.to_owned()));
                }
            }
            '\\' if chars.peek() == Some(&'\n') => {
                chars.next();
                (line, column) = (line + 1, 0);
            }
            '!' => {
                chars.next();
                tokens.push(at("!=".to_owned(), false));
                column += 1;
            }
            _ if MARKS.contains(c) => tokens.push(at(c.to_string(), false)),
            _ => {}
        }
    }
    tokens.extend(word.into_iter().flat_map(split_colon));
    Ok(tokens)
}

/// `22:` in a map is a key and a colon. Two colons are the end of an address.
fn split_colon(token: Token) -> Vec<Token> {
    match token.text.strip_suffix(':') {
        Some(key) if !key.is_empty() && !key.ends_with(':') => {
            let colon =
                Token { text: ":".to_owned(), column: token.column + key.chars().count(), ..token.clone() };
            vec![Token { text: key.to_owned(), ..token }, colon]
        }
        _ => vec![token],
    }
}
