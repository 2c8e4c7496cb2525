//! Reads typed values out of one TOML table. Keys that the table does not know are told when it is opened.

use crate::problem::{Collector, suggestion};
use crate::schema::Table;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and the bytes of the text that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// One table of a text being read.
#[derive(Clone)]
pub(crate) struct Section<'t> {
    table: &'t DeTable<'t>,
    keys: &'static [&'static str],
    /// Where the table is.
    pub(crate) span: Range<usize>,
    /// How messages call it: `[settings]`.
    what: String,
}

impl<'t> Section<'t> {
    /// Opens a table of a kind; keys that the kind does not have are reported.
    pub(crate) fn new(
        table: &'t DeTable<'t>,
        span: Range<usize>,
        kind: Table,
        what: impl Into<String>,
        c: &mut Collector<'_>,
    ) -> Self {
        let what = what.into();
        for (key, _) in table.iter() {
            if !kind.keys.contains(&key.get_ref().as_ref()) {
                let key_text = key.get_ref().as_ref();
                let place = if what.is_empty() { "a policy" } else { &what };
                let message = format!("{place} has no key `{}`", shortened(key_text));
                c.report(key.span(), message, Some(suggestion(key_text, kind.keys.iter().copied())));
            }
        }
        Self { table, keys: kind.keys, span, what }
    }

    pub(crate) fn value(&self, key: &'static str) -> Option<&'t Value<'t>> {
        debug_assert!(self.keys.contains(&key), "{key} is not in the schema of {}", self.what);
        self.table.get(key)
    }

    /// The bytes of a key, or of the table when it is not there.
    pub(crate) fn key_span(&self, key: &str) -> Range<usize> {
        let found = self.table.get_key_value(key);
        found.map_or_else(|| self.span.clone(), |(key, _)| key.span())
    }

    pub(crate) fn text(&self, key: &'static str, c: &mut Collector<'_>) -> Option<Located<&'t str>> {
        text_of(self.value(key)?, key, c)
    }

    /// A text that must be there.
    pub(crate) fn required_text(
        &self,
        key: &'static str,
        example: &str,
        c: &mut Collector<'_>,
    ) -> Option<Located<&'t str>> {
        if self.value(key).is_none() {
            self.missing(key, example, c);
        }
        self.text(key, c)
    }

    pub(crate) fn missing(&self, key: &str, example: &str, c: &mut Collector<'_>) {
        c.report(
            self.span.clone(),
            format!("{} lacks `{key}`", self.what),
            Some(format!("write {key} = {example}")),
        );
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
        c: &mut Collector<'_>,
    ) -> Option<T> {
        let text = self.text(key, c)?;
        let found = choices.iter().find(|(name, _)| *name == text.value).map(|(_, value)| *value);
        if found.is_none() {
            let help = suggestion(text.value, choices.iter().map(|(name, _)| *name));
            c.report(text.span, format!("`{key}` cannot be `{}`", shortened(text.value)), Some(help));
        }
        found
    }

    pub(crate) fn flag(&self, key: &'static str, c: &mut Collector<'_>) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => wrong_type(c, key, value.span(), other, "true or false"),
        }
    }

    /// A whole number within a range.
    pub(crate) fn number(
        &self,
        key: &'static str,
        range: RangeInclusive<u32>,
        c: &mut Collector<'_>,
    ) -> Option<u32> {
        let value = self.value(key)?;
        let DeValue::Integer(integer) = value.get_ref() else {
            return wrong_type(c, key, value.span(), value.get_ref(), "a whole number");
        };
        let number = u32::from_str_radix(integer.as_str(), integer.radix()).ok();
        let inside = number.filter(|n| range.contains(n));
        if inside.is_none() {
            let message = format!("`{key}` is out of range");
            c.report(value.span(), message, Some(format!("{} to {}", range.start(), range.end())));
        }
        inside
    }

    pub(crate) fn section(
        &self,
        key: &'static str,
        kind: Table,
        what: impl Into<String>,
        c: &mut Collector<'_>,
    ) -> Option<Section<'t>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(table, value.span(), kind, what, c)),
            other => wrong_type(c, key, value.span(), other, "a table"),
        }
    }

    /// The tables of `[[key]]`, each with its number from 1.
    pub(crate) fn sections(&self, key: &'static str, kind: Table, c: &mut Collector<'_>) -> Vec<Section<'t>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            let wanted = format!("tables, each under [[{key}]]");
            return wrong_type(c, key, value.span(), value.get_ref(), &wanted).unwrap_or_default();
        };
        let mut sections = Vec::new();
        for (i, item) in array.iter().enumerate() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    let what = format!("{} number {}", kind.header, i + 1);
                    sections.push(Section::new(table, item.span(), kind, what, c));
                }
                other => {
                    wrong_type(c, key, item.span(), other, &format!("a table, under [[{key}]]")).unwrap_or(())
                }
            }
        }
        sections
    }

    /// The entries of a table whose keys the user chooses, in the order of the text.
    pub(crate) fn named(
        &self,
        key: &'static str,
        c: &mut Collector<'_>,
    ) -> Vec<(Located<&'t str>, &'t Value<'t>)> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            let wanted = format!("a table: [{key}]");
            return wrong_type(c, key, value.span(), value.get_ref(), &wanted).unwrap_or_default();
        };
        let mut entries: Vec<_> = table
            .iter()
            .map(|(key, value)| (Located { value: key.get_ref().as_ref(), span: key.span() }, value))
            .collect();
        entries.sort_by_key(|(name, _)| name.span.start);
        entries
    }
}

/// A text, or every text of an array.
pub(crate) fn texts<'t>(
    value: &'t Value<'t>,
    key: &str,
    c: &mut Collector<'_>,
) -> Option<Vec<Located<&'t str>>> {
    match value.get_ref() {
        DeValue::String(_) => Some(text_of(value, key, c).into_iter().collect()),
        DeValue::Array(items) if items.is_empty() => {
            c.report(
                value.span(),
                format!("`{key}` is empty"),
                Some("leave the key out, or name something".to_owned()),
            );
            None
        }
        DeValue::Array(items) => {
            let found: Vec<_> = items.iter().filter_map(|item| text_of(item, key, c)).collect();
            (found.len() == items.len()).then_some(found)
        }
        other => wrong_type(c, key, value.span(), other, "a string, or strings in [ ]"),
    }
}

fn text_of<'t>(value: &'t Value<'t>, key: &str, c: &mut Collector<'_>) -> Option<Located<&'t str>> {
    match value.get_ref() {
        DeValue::String(text) => Some(Located { value: text.as_ref(), span: value.span() }),
        other => wrong_type(c, key, value.span(), other, "a string"),
    }
}

pub(crate) fn wrong_type<T>(
    c: &mut Collector<'_>,
    key: &str,
    span: Range<usize>,
    found: &DeValue<'_>,
    wanted: &str,
) -> Option<T> {
    let message = format!("`{}` is {}", shortened(key), found.type_str());
    c.report(span, message, Some(format!("it must be {wanted}")));
    None
}

/// A word of the text for a message: its beginning, when it is very long.
pub(crate) fn shortened(word: &str) -> String {
    match word.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}
