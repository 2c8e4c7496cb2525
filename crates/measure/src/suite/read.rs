//! Reads typed values out of one TOML table, noting every key that was asked for, so that the rest can be refused.

use super::problem::{Collector, suggestion};
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and the bytes of the text that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Bytes of the text.
    pub span: Range<usize>,
}

/// One table of a text being read.
pub(super) struct Section<'t> {
    table: &'t DeTable<'t>,
    /// Where the table is.
    pub(super) span: Range<usize>,
    /// How messages call it: `[profiles.quick]`.
    pub(super) what: String,
    known: Vec<&'static str>,
}

impl<'t> Section<'t> {
    pub(super) fn new(table: &'t DeTable<'t>, span: Range<usize>, what: impl Into<String>) -> Self {
        Self { table, span, what: what.into(), known: Vec::new() }
    }

    pub(super) fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// Every key of a table whose keys are not known beforehand.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Located<&'t str>, &'t Spanned<DeValue<'t>>)> {
        self.table
            .iter()
            .map(|(key, value)| (Located { value: key.get_ref().as_ref(), span: key.span() }, value))
    }

    pub(super) fn text(&mut self, key: &'static str, c: &mut Collector<'_>) -> Option<Located<String>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Located { value: text.to_string(), span: value.span() }),
            other => wrong_type(c, key, value.span(), other, "a string"),
        }
    }

    pub(super) fn required_text(
        &mut self,
        key: &'static str,
        c: &mut Collector<'_>,
    ) -> Option<Located<String>> {
        if !self.table.contains_key(key) {
            self.missing(key, c);
        }
        self.text(key, c)
    }

    pub(super) fn flag(&mut self, key: &'static str, c: &mut Collector<'_>) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => wrong_type(c, key, value.span(), other, "true or false"),
        }
    }

    /// A number within a range, written as an integer or a float.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
        c: &mut Collector<'_>,
    ) -> Option<f64> {
        let value = self.value(key)?;
        let found = match value.get_ref() {
            DeValue::Integer(_) => integer(value.get_ref()).map(|i| i as f64),
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            other => return wrong_type(c, key, value.span(), other, "a number"),
        };
        let inside = found.filter(|n| range.contains(n));
        if inside.is_none() {
            out_of_range(c, key, value.span(), range.start(), range.end());
        }
        inside
    }

    /// An integer within a range.
    pub(super) fn integer(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i64>,
        c: &mut Collector<'_>,
    ) -> Option<u64> {
        let value = self.value(key)?;
        let DeValue::Integer(_) = value.get_ref() else {
            return wrong_type(c, key, value.span(), value.get_ref(), "an integer");
        };
        let inside =
            integer(value.get_ref()).filter(|n| range.contains(n)).and_then(|n| u64::try_from(n).ok());
        if inside.is_none() {
            out_of_range(c, key, value.span(), range.start(), range.end());
        }
        inside
    }

    pub(super) fn section(
        &mut self,
        key: &'static str,
        what: impl Into<String>,
        c: &mut Collector<'_>,
    ) -> Option<Section<'t>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(table, value.span(), what)),
            other => wrong_type(c, key, value.span(), other, "a table"),
        }
    }

    /// The tables of `[[key]]`.
    pub(super) fn sections(&mut self, key: &'static str, c: &mut Collector<'_>) -> Vec<Section<'t>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            wrong_type::<()>(c, key, value.span(), value.get_ref(), &format!("tables, each under [[{key}]]"));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    sections.push(Section::new(table, item.span(), format!("[[{key}]]")));
                }
                other => {
                    wrong_type::<()>(c, key, item.span(), other, "a table");
                }
            }
        }
        sections
    }

    pub(super) fn missing(&self, key: &str, c: &mut Collector<'_>) {
        c.report(self.span.clone(), format!("{} has no `{key}`", self.what), None);
    }

    /// Refuses every key that nobody asked for.
    pub(super) fn finish(self, c: &mut Collector<'_>) {
        for (key, _) in self.entries() {
            if !self.known.contains(&key.value) {
                let help = suggestion(key.value, self.known.iter().copied());
                c.report(key.span, format!("{} has no key `{}`", self.what, key.value), Some(help));
            }
        }
    }
}

/// The items of a list; a single value counts as a list of one.
pub(super) fn items<'t>(value: &'t Spanned<DeValue<'t>>) -> Vec<&'t Spanned<DeValue<'t>>> {
    match value.get_ref() {
        DeValue::Array(array) => array.iter().collect(),
        _ => vec![value],
    }
}

/// An integer, string or boolean as text: integers in plain decimal digits.
pub(super) fn plain_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Integer(_) => integer(value).map(|i| i.to_string()),
        _ => None,
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let written = value.as_integer()?;
    i64::from_str_radix(written.as_str(), written.radix()).ok()
}

pub(super) fn wrong_type<T>(
    c: &mut Collector<'_>,
    key: &str,
    span: Range<usize>,
    found: &DeValue<'_>,
    wanted: &str,
) -> Option<T> {
    c.report(
        span,
        format!("`{key}` must be {wanted}, not {} {}", article(found.type_str()), found.type_str()),
        None,
    );
    None
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn out_of_range<N: std::fmt::Display>(c: &mut Collector<'_>, key: &str, span: Range<usize>, low: N, high: N) {
    c.report(span, format!("`{key}` must lie between {low} and {high}"), None);
}
