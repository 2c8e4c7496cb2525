//! A value within a request, which knows its place. Objects name the keys that they may have, so that no other is overlooked.

use crate::refusal::Refusal;
use serde_json::Value;
use std::ops::RangeInclusive;

/// A value and its place, such as `flows[0].rate.pps`.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Node<'a> {
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    /// What is wrong here.
    pub(crate) fn refuse(&self, why: impl std::fmt::Display) -> Refusal {
        match self.path.as_str() {
            "" => Refusal::wrong(format!("the request: {why}")),
            path => Refusal::wrong(format!("{path}: {why}")),
        }
    }

    fn below(&self, key: &str, value: &'a Value) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{key}", self.path), value }
    }

    /// Checks that it is an object and has no keys but these. A key that holds `null` or an empty list is as if it were not there.
    pub(crate) fn only(&self, keys: &[&str]) -> Result<(), Refusal> {
        let Some(object) = self.value.as_object() else { return Err(self.refuse("it must be an object")) };
        match object.iter().find(|(key, value)| !keys.contains(&key.as_str()) && !is_nothing(value)) {
            None => Ok(()),
            Some((key, value)) => {
                let known = match keys {
                    [] => "nothing can be said here".to_owned(),
                    keys => format!("the bench knows {} here", keys.join(", ")),
                };
                Err(self.below(key, value).refuse(format!("not supported; {known}")))
            }
        }
    }

    /// What a key holds, if it is there.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        self.value.get(key).filter(|value| !value.is_null()).map(|value| self.below(key, value))
    }

    /// What a key holds, which must be there.
    pub(crate) fn need(&self, key: &str) -> Result<Self, Refusal> {
        self.get(key).ok_or_else(|| self.below(key, &Value::Null).refuse("it is missing"))
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Result<Vec<Self>, Refusal> {
        let Some(list) = self.value.as_array() else { return Err(self.refuse("it must be a list")) };
        let item = |(at, value)| Self { path: format!("{}[{at}]", self.path), value };
        Ok(list.iter().enumerate().map(item).collect())
    }

    /// The items of a list below a key; none if it is not there.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<Self>, Refusal> {
        self.get(key).map_or(Ok(Vec::new()), |node| node.items())
    }

    pub(crate) fn text(&self) -> Result<&'a str, Refusal> {
        self.value.as_str().ok_or_else(|| self.refuse("it must be a string"))
    }

    pub(crate) fn flag(&self) -> Result<bool, Refusal> {
        self.value.as_bool().ok_or_else(|| self.refuse("it must be true or false"))
    }

    /// A whole number; large ones may come as strings, as the API's JSON has them.
    pub(crate) fn whole(&self, range: RangeInclusive<u64>) -> Result<u64, Refusal> {
        let number = self.value.as_u64().or_else(|| self.value.as_str()?.parse().ok());
        let number = number.filter(|number| range.contains(number));
        number.ok_or_else(|| {
            self.refuse(format!("it must be a whole number from {} to {}", range.start(), range.end()))
        })
    }

    /// A number; the API's JSON has whole ones of 64 bits as strings.
    pub(crate) fn number(&self) -> Result<f64, Refusal> {
        let whole = || self.value.as_str()?.parse::<u64>().ok().map(|number| number as f64);
        self.value.as_f64().or_else(whole).ok_or_else(|| self.refuse("it must be a number"))
    }

    /// Which of several forms it has: the word in `choice`, else the only key there is, else `default`. No key of another form may be
    /// there.
    pub(crate) fn choice(
        &self,
        known: &[&'static str],
        default: &'static str,
    ) -> Result<&'static str, Refusal> {
        let Some(object) = self.value.as_object() else { return Err(self.refuse("it must be an object")) };
        let alone = object.iter().filter(|(key, value)| *key != "choice" && !is_nothing(value));
        let mut alone = alone.map(|(key, _)| key.as_str());
        let chosen = match self.get("choice") {
            Some(choice) => choice.text()?,
            None => alone.next().unwrap_or(default),
        };
        let Some(found) = known.iter().find(|name| **name == chosen) else {
            return Err(
                self.refuse(format!("`{chosen}` is not supported; the bench has {}", known.join(", ")))
            );
        };
        self.only(&["choice", found])?;
        Ok(found)
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}
