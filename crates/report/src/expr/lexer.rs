//! Text to tokens. Inside braces a word may hold `-`, `:`, `.` and `%`, so that `dut=xdp-redirect` needs no quotes.

use super::ExprError;
use std::ops::Range;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Word(String),
    Quoted(String),
    Number(f64),
    /// One of `( ) { } , . < <= > >= = == != + - * /`.
    Sign(&'static str),
    End,
}

/// A token and the bytes that it came from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
}

/// Longer signs first, so that `<=` is not read as `<`.
const SIGNS: [&str; 17] =
    ["<=", ">=", "==", "!=", "(", ")", "{", "}", ",", ".", "<", ">", "=", "+", "-", "*", "/"];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, ExprError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut in_braces = false;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (kind, length) = token(text, at, in_braces)?;
        match kind {
            Kind::Sign("{") => in_braces = true,
            Kind::Sign("}") => in_braces = false,
            _ => {}
        }
        tokens.push(Token { kind, span: at..at + length });
        at += length;
    }
    tokens.push(Token { kind: Kind::End, span: text.len()..text.len() });
    Ok(tokens)
}

fn token(text: &str, at: usize, in_braces: bool) -> Result<(Kind, usize), ExprError> {
    let rest = &text[at..];
    if let Some(quoted) = rest.strip_prefix('"') {
        let length = quoted.find('"').ok_or_else(|| {
            ExprError::at(text, at, "this quotation mark is not closed", "write dut=\"xdp-redirect\"")
        })?;
        return Ok((Kind::Quoted(quoted[..length].into()), length + 2));
    }
    let word = if in_braces { length_of(rest, is_value) } else { length_of(rest, is_name) };
    if in_braces && word > 0 {
        return Ok((Kind::Word(rest[..word].into()), word));
    }
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        return number(text, at);
    }
    if word > 0 {
        return Ok((Kind::Word(rest[..word].into()), word));
    }
    let sign = SIGNS.into_iter().find(|s| rest.starts_with(s));
    sign.map(|s| (Kind::Sign(s), s.len())).ok_or_else(|| {
        let c = rest.chars().next().unwrap_or_default();
        ExprError::at(text, at, format!("`{c}` has no meaning here"), EXAMPLE)
    })
}

/// A right expression, for errors that know nothing better.
pub(super) const EXAMPLE: &str =
    "an expression looks like this: throughput{dut=nftables,frame=64} < 0.95 and valid";

/// Digits with `_` between them, a fraction, an exponent, and `k`, `M` or `G` behind.
fn number(text: &str, at: usize) -> Result<(Kind, usize), ExprError> {
    let rest = &text[at..];
    let mut length = length_of(rest, |c| c.is_ascii_digit() || matches!(c, '.' | '_'));
    if rest[length..].starts_with(['e', 'E']) {
        let after = &rest[length + 1..];
        let sign = usize::from(after.starts_with(['-', '+']));
        let digits = length_of(&after[sign..], |c| c.is_ascii_digit());
        length += if digits > 0 { 1 + sign + digits } else { 0 };
    }
    let value = rest[..length].replace('_', "").parse::<f64>();
    let (factor, suffix) = match rest[length..].chars().next() {
        Some('k') => (1e3, 1),
        Some('M') => (1e6, 1),
        Some('G') => (1e9, 1),
        _ => (1.0, 0),
    };
    let end = length + suffix;
    let clean = !rest[end..].starts_with(is_name);
    match value {
        Ok(v) if clean && v.is_finite() => Ok((Kind::Number(v * factor), end)),
        _ => {
            let word = &rest[..end.max(length_of(rest, |c| is_value(c) || c == '+'))];
            Err(ExprError::at(
                text,
                at,
                format!("`{word}` is no number"),
                "write 0.95, 1_000_000, 1.5e6, 100k or 2M",
            ))
        }
    }
}

fn length_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_value(c: char) -> bool {
    is_name(c) || matches!(c, '-' | ':' | '.' | '%' | '/')
}
