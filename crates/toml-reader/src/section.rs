//! Typed values out of one table of a text. Keys that the table does not have are refused.

use crate::Value;
use crate::problem::Collector;
use crate::words::shortened;
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and the bytes of the text where it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Bytes of the text.
    pub span: Range<usize>,
}

/// The table at the top of the collector's text, or `None` after reporting the first place at which the text is not TOML:
/// whatever is wrong after it may only follow from it.
pub fn parse<'t>(c: &mut Collector<'t>) -> Option<Spanned<DeTable<'t>>> {
    let (root, errors) = DeTable::parse_recoverable(c.text());
    let place = |e: &toml::de::Error| e.span().unwrap_or(0..0);
    if let Some(first) = errors.iter().min_by_key(|e| place(e).start) {
        let what = first.message().split_whitespace().collect::<Vec<_>>().join(" ");
        let key = c.text().get(place(first)).unwrap_or_default();
        let (message, help) = of_syntax(&what, key);
        c.report(place(first), message, help);
    }
    c.is_empty().then_some(root)
}

/// What the parser says of a text at `place`, and what to do about that where people often meet it.
fn of_syntax(what: &str, place: &str) -> (String, Option<String>) {
    let plain = format!("this is not TOML: {what}");
    let (message, help) = if what == "duplicate key" {
        let message = format!("the key `{}` stands here for the second time in its table", shortened(place));
        (message, "give one of the two another name, or take it out")
    } else if what.starts_with("invalid unquoted key") {
        (plain, "a key is made of letters from A to Z, digits, `-` and `_`")
    } else if what.starts_with("string values must be quoted") {
        (plain, "write text in quotes: key = \"text\"")
    } else {
        return (plain, None);
    };
    (message, Some(help.to_owned()))
}

/// One table of a text.
pub struct Section<'t> {
    table: &'t DeTable<'t>,
    /// The bytes of the table's header.
    pub span: Range<usize>,
    /// How messages call the table: `[profiles.quick]`.
    pub what: String,
    known: Known,
}

/// The keys that a table can have.
enum Known {
    Schema(&'static [&'static str]),
    /// Those that the program has asked for.
    Asked(RefCell<Vec<&'static str>>),
}

impl<'t> Section<'t> {
    /// A table, called `what` in messages. Its keys are those that the program asks for until [`Section::finish`].
    pub fn new(table: &'t DeTable<'t>, span: Range<usize>, what: impl Into<String>) -> Self {
        Self { table, span, what: what.into(), known: Known::Asked(RefCell::default()) }
    }

    /// The table at the top of a text. It has no header, so problems with the whole of it are shown at the first line.
    pub fn root(table: &'t Spanned<DeTable<'t>>, what: impl Into<String>) -> Self {
        Self::new(table.get_ref(), 0..0, what)
    }

    /// The same table with the keys of a schema: others are reported now.
    pub fn only(mut self, keys: &'static [&'static str], c: &mut Collector<'_>) -> Self {
        self.refuse_unknown(keys, c);
        self.known = Known::Schema(keys);
        self
    }

    /// Reports every key that nobody has asked for.
    pub fn finish(self, c: &mut Collector<'_>) {
        if let Known::Asked(keys) = &self.known {
            self.refuse_unknown(&keys.borrow(), c);
        }
    }

    fn refuse_unknown(&self, known: &[&str], c: &mut Collector<'_>) {
        for (key, _) in self.entries().into_iter().filter(|(key, _)| !known.contains(&key.value)) {
            let help = c.about_key(key.value, &self.what, known);
            c.report(key.span, format!("{} has no key `{}`", self.what, shortened(key.value)), help);
        }
    }

    /// The value of a key.
    pub fn value(&self, key: &'static str) -> Option<&'t Value<'t>> {
        match &self.known {
            Known::Schema(keys) => {
                debug_assert!(keys.contains(&key), "{key} is not in the schema of {}", self.what);
            }
            Known::Asked(keys) => keys.borrow_mut().push(key),
        }
        self.table.get(key)
    }

    /// The bytes of a key, or of the table's header when the key is not there.
    pub fn key_span(&self, key: &str) -> Range<usize> {
        let found = self.table.get_key_value(key);
        found.map_or_else(|| self.span.clone(), |(key, _)| key.span())
    }

    /// Every key with its value, in the order of the text: for tables whose keys the user chooses.
    pub fn entries(&self) -> Vec<(Located<&'t str>, &'t Value<'t>)> {
        let located =
            |key: &'t Spanned<_>| Located { value: AsRef::<str>::as_ref(key.get_ref()), span: key.span() };
        let mut entries: Vec<_> = self.table.iter().map(|(key, value)| (located(key), value)).collect();
        entries.sort_by_key(|(key, _)| key.span.start);
        entries
    }

    /// Reports that a key is not there, with an example of a value.
    pub fn missing(&self, key: &str, example: &str, c: &mut Collector<'_>) {
        let help = format!("write {key} = {example}");
        c.report(self.span.clone(), format!("{} has no `{key}`", self.what), Some(help));
    }

    /// A string.
    pub fn text(&self, key: &'static str, c: &mut Collector<'_>) -> Option<Located<&'t str>> {
        text_of(self.value(key)?, key, c)
    }

    /// A string that must be there.
    pub fn required_text(
        &self,
        key: &'static str,
        example: &str,
        c: &mut Collector<'_>,
    ) -> Option<Located<&'t str>> {
        if !self.table.contains_key(key) {
            self.missing(key, example, c);
        }
        self.text(key, c)
    }

    /// One of some words, as what the word stands for.
    pub fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
        c: &mut Collector<'_>,
    ) -> Option<T> {
        let text = self.text(key, c)?;
        let found = choices.iter().find(|(name, _)| *name == text.value).map(|(_, value)| *value);
        if found.is_none() {
            let help = c.suggestion(text.value, choices.iter().map(|(name, _)| *name));
            c.report(text.span, format!("`{key}` cannot be `{}`", shortened(text.value)), help);
        }
        found
    }

    /// A boolean.
    pub fn flag(&self, key: &'static str, c: &mut Collector<'_>) -> Option<bool> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => wrong_type(c, key, value.span(), other, "true or false"),
        }
    }

    /// A number within a range, written as an integer or a float.
    pub fn number(
        &self,
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
        within(found, key, value, &range, c)
    }

    /// An integer within a range.
    pub fn integer<N: TryFrom<i64> + PartialOrd + Display>(
        &self,
        key: &'static str,
        range: RangeInclusive<N>,
        c: &mut Collector<'_>,
    ) -> Option<N> {
        let value = self.value(key)?;
        let DeValue::Integer(_) = value.get_ref() else {
            return wrong_type(c, key, value.span(), value.get_ref(), "an integer");
        };
        let found = integer(value.get_ref()).and_then(|n| N::try_from(n).ok());
        within(found, key, value, &range, c)
    }

    /// The table of a key, called `what` in messages.
    pub fn section(
        &self,
        key: &'static str,
        what: impl Into<String>,
        c: &mut Collector<'_>,
    ) -> Option<Section<'t>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(table, value.span(), what)),
            other => wrong_type(c, key, value.span(), other, &format!("a table, under {}", what.into())),
        }
    }

    /// The tables of `[[key]]`. Messages call them by their number, from 1.
    pub fn sections(&self, key: &'static str, c: &mut Collector<'_>) -> Vec<Section<'t>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            let wanted = format!("tables, each under [[{key}]]");
            return wrong_type(c, key, value.span(), value.get_ref(), &wanted).unwrap_or_default();
        };
        let open = |(i, item): (usize, &'t Value<'t>)| match item.get_ref() {
            DeValue::Table(table) => {
                Some(Section::new(table, item.span(), format!("[[{key}]] number {}", i + 1)))
            }
            other => wrong_type(c, key, item.span(), other, &format!("a table, under [[{key}]]")),
        };
        array.iter().enumerate().filter_map(open).collect()
    }
}

/// The items of an array; another value counts as an array of one.
pub fn items<'t>(value: &'t Value<'t>) -> Vec<&'t Value<'t>> {
    match value.get_ref() {
        DeValue::Array(array) => array.iter().collect(),
        _ => vec![value],
    }
}

/// A string, or every string of an array. `None` after reporting that the array is empty or has something else.
pub fn texts<'t>(value: &'t Value<'t>, key: &str, c: &mut Collector<'_>) -> Option<Vec<Located<&'t str>>> {
    match value.get_ref() {
        DeValue::String(_) => Some(text_of(value, key, c).into_iter().collect()),
        DeValue::Array(items) if items.is_empty() => {
            let help = "leave the key out, or name something".to_owned();
            c.report(value.span(), format!("`{}` is empty", shortened(key)), Some(help));
            None
        }
        DeValue::Array(items) => {
            let found: Vec<_> = items.iter().filter_map(|item| text_of(item, key, c)).collect();
            (found.len() == items.len()).then_some(found)
        }
        other => wrong_type(c, key, value.span(), other, "a string, or strings in [ ]"),
    }
}

/// An integer, string or boolean as text: integers in plain decimal digits.
pub fn plain_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Integer(_) => integer(value).map(|i| i.to_string()),
        _ => None,
    }
}

/// Reports a value of another type than the one that is wanted. Returns `None`.
pub fn wrong_type<T>(
    c: &mut Collector<'_>,
    key: &str,
    span: Range<usize>,
    found: &DeValue<'_>,
    wanted: &str,
) -> Option<T> {
    let (key, found) = (shortened(key), found.type_str());
    let article = if found.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    c.report(span, format!("`{key}` must be {wanted}, not {article} {found}"), None);
    None
}

fn text_of<'t>(value: &'t Value<'t>, key: &str, c: &mut Collector<'_>) -> Option<Located<&'t str>> {
    match value.get_ref() {
        DeValue::String(text) => Some(Located { value: text.as_ref(), span: value.span() }),
        other => wrong_type(c, key, value.span(), other, "a string"),
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let written = value.as_integer()?;
    i64::from_str_radix(written.as_str(), written.radix()).ok()
}

fn within<N: PartialOrd + Display>(
    found: Option<N>,
    key: &str,
    value: &Value<'_>,
    range: &RangeInclusive<N>,
    c: &mut Collector<'_>,
) -> Option<N> {
    let inside = found.filter(|n| range.contains(n));
    if inside.is_none() {
        let message = format!("`{key}` must lie between {} and {}", range.start(), range.end());
        c.report(value.span(), message, None);
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the reader reports of a text whose table at the top is read by `read`.
    fn problems(text: &str, read: impl FnOnce(&Section<'_>, &mut Collector<'_>)) -> Vec<String> {
        let mut c = Collector::new("t", text);
        if let Some(table) = parse(&mut c) {
            let root = Section::root(&table, "a text");
            read(&root, &mut c);
            root.finish(&mut c);
        }
        if c.is_empty() {
            Vec::new()
        } else {
            c.into_problems().list().iter().map(Problem::to_string).collect()
        }
    }

    use crate::Problem;

    #[test]
    fn each_value_has_its_type_and_its_range() {
        let read = |root: &Section<'_>, c: &mut Collector<'_>| {
            root.text("text", c);
            root.flag("flag", c);
            root.number("number", 0.5..=2.0, c);
            root.integer("integer", 1u8..=9, c);
            root.choice("choice", &[("left", 0), ("right", 1)], c);
            root.section("table", "[table]", c);
            root.sections("tables", c);
            root.value("texts").map(|value| texts(value, "texts", c));
        };
        for (text, expected) in [
            ("text = 'a'\nflag = true\nnumber = 1\ninteger = 0x9\nchoice = 'left'\ntexts = 'a'", ""),
            ("texts = ['a', 'b']\n[table]\n[[tables]]", ""),
            ("text = 1", "t:1:8: `text` must be a string, not an integer"),
            ("flag = 'yes'", "t:1:8: `flag` must be true or false, not a string"),
            ("number = 1979-05-27", "t:1:10: `number` must be a number, not a datetime"),
            ("number = nan", "t:1:10: `number` must lie between 0.5 and 2"),
            ("integer = 1.5", "t:1:11: `integer` must be an integer, not a float"),
            ("integer = 256", "t:1:11: `integer` must lie between 1 and 9"),
            ("integer = 99999999999999999999", "t:1:11: `integer` must lie between 1 and 9"),
            ("choice = 'lefd'", "t:1:10: `choice` cannot be `lefd`"),
            ("table = 1", "t:1:9: `table` must be a table, under [table], not an integer"),
            ("tables = {}", "t:1:10: `tables` must be tables, each under [[tables]], not a table"),
            ("tables = [1]", "t:1:11: `tables` must be a table, under [[tables]], not an integer"),
            ("texts = []", "t:1:9: `texts` is empty"),
            ("texts = ['a', 1]", "t:1:15: `texts` must be a string, not an integer"),
            ("texts = {}", "t:1:9: `texts` must be a string, or strings in [ ], not a table"),
            ("tekst = 'a'", "t:1:1: a text has no key `tekst`"),
            (
                "text = 'a\n[table\ntext = 'b",
                "t:1:10: this is not TOML: invalid literal string, expected `'`",
            ),
            ("text = ", "t:1:8: this is not TOML: string values must be quoted, expected literal string"),
            (
                "text = 'a'\nflag = true\ntext = 'b'",
                "t:3:1: the key `text` stands here for the second time in its table",
            ),
        ] {
            assert_eq!(problems(text, read).join("\n"), expected, "{text}");
        }
    }

    #[test]
    fn a_schema_refuses_other_keys_when_the_table_is_opened() {
        let found = problems("[table]\nrite = 1\n[other]", |root, c| {
            root.section("table", "[table]", c).map(|table| table.only(&["left", "right"], c));
        });
        assert_eq!(found, ["t:2:1: [table] has no key `rite`", "t:3:2: a text has no key `other`"]);
    }

    #[test]
    fn a_key_in_the_wrong_table_is_shown_its_place() {
        const WORDS: [(&str, &str); 2] = [("src", "left"), ("rate", "size")];
        let text = "rate = 1\nsrc = 2\nlegt = 3";
        let mut c = Collector::knowing(&WORDS, "t", text).with_home(|key, table| {
            (key != "legt").then(|| format!("not in {table}: it is a key of [limit]"))
        });
        let table = parse(&mut c).unwrap();
        Section::root(&table, "a text").only(&["left", "right"], &mut c);
        let helps: Vec<_> =
            c.into_problems().list().iter().filter_map(|problem| problem.help.clone()).collect();
        // The word of another program that belongs to another table belongs there.
        let expected =
            ["not in a text: it is a key of [limit]", "did you mean `left`?", "did you mean `left`?"];
        assert_eq!(helps, expected);
    }

    #[test]
    fn entries_come_in_the_order_of_the_text() {
        let mut names = Vec::new();
        problems("b = 1\na = 2", |root, _| {
            names = root.entries().into_iter().map(|(key, _)| key.value.to_owned()).collect()
        });
        assert_eq!(names, ["b", "a"]);
    }
}
