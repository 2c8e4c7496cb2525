//! `define`: words that take a name's place wherever it stands behind, up to the end of the braces that the definition stands in.

use super::Wrong;
use super::token::Token;
use std::collections::HashMap;

/// What names stand for, of the whole text and of each brace that is open.
pub(super) struct Variables(Vec<HashMap<String, Vec<Token>>>);

impl Default for Variables {
    fn default() -> Self {
        Self(vec![HashMap::new()])
    }
}

impl Variables {
    /// A text with words in place of its variables, and without the definitions. What it defines at its top holds for the next text too.
    pub(super) fn replaced(&mut self, tokens: Vec<Token>) -> Result<Vec<Token>, Wrong> {
        self.0.truncate(1);
        let mut out: Vec<Token> = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            let begins = out.last().is_none_or(|last| ["\n", ";", "{", "}"].iter().any(|mark| last.is(mark)));
            match () {
                () if begins && (token.is("define") || token.is("redefine")) => {
                    at += self.define(token, &tokens[at..])?;
                }
                () if begins && token.is("undefine") => {
                    let message =
                        "`undefine` is not understood: take it out, and give each value a name of its own";
                    return Err((token.line, token.column, message.to_owned()));
                }
                () => {
                    if token.is("{") {
                        self.0.push(HashMap::new());
                    } else if token.is("}") && self.0.len() > 1 {
                        self.0.pop();
                    }
                    self.put(token, &mut out)?;
                }
            }
        }
        Ok(out)
    }

    /// `NAME = words`. Returns how many words that are.
    fn define(&mut self, word: &Token, behind: &[Token]) -> Result<usize, Wrong> {
        let [name, equals, value @ ..] = behind else {
            return Err((word.line, word.column, "the text ends within a definition".to_owned()));
        };
        if !equals.is("=") {
            return Err((
                equals.line,
                equals.column,
                format!("`=` should stand here, and not `{}`", equals.text),
            ));
        }
        let mut depth = 0;
        let is_end = |token: &Token| {
            depth += i32::from(token.is("{")) - i32::from(token.is("}"));
            depth <= 0 && (token.is("\n") || token.is(";")) || depth < 0
        };
        let length = value.iter().position(is_end).unwrap_or(value.len());
        let mut words = Vec::new();
        for token in value[..length].iter().filter(|token| !token.is("\n")) {
            self.put(token, &mut words)?;
        }
        if let Some(inner) = self.0.last_mut() {
            inner.insert(name.text.clone(), words);
        }
        Ok(2 + length)
    }

    /// Writes a word, or what it stands for. A list within a list is part of it.
    fn put(&self, token: &Token, out: &mut Vec<Token>) -> Result<(), Wrong> {
        if token.quoted || !token.text.contains('$') {
            out.push(token.clone());
            return Ok(());
        }
        let name = token.text.strip_prefix('$').unwrap_or_default();
        let Some(words) = self.0.iter().rev().find_map(|names| names.get(name)) else {
            let message = format!(
                "nothing above defines `{}`; give what `nft list ruleset` prints, or the file that defines it before this one",
                token.text
            );
            return Err((token.line, token.column, message));
        };
        let is_within = out.last().is_some_and(|last| last.is("{") || last.is(","));
        let words = if is_within { super::between_braces(words) } else { words };
        out.extend(words.iter().map(|word| Token { line: token.line, column: token.column, ..word.clone() }));
        Ok(())
    }
}
