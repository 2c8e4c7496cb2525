//! Commands of a script for `nft -f`: `add rule ip nat postrouting …`. They stand for what a table's braces would have.

use super::token::Token;
use super::{FAMILIES, Reader, RuleText, Wrong};

impl Reader<'_> {
    /// What stands behind `add`, `create` or `insert`, or without any of them.
    pub(super) fn command(&mut self, inserts: bool) -> Result<(), Wrong> {
        let word = self.next_word()?;
        match word.text.as_str() {
            "table" => self.table(),
            "chain" => {
                let key = self.key(&word)?;
                self.within(key, |reader, key| reader.chain(key))
            }
            "set" | "map" => {
                let key = self.key(&word)?;
                self.within(key, |reader, _| reader.set())
            }
            "element" => {
                let key = self.key(&word)?;
                self.within(key, |reader, _| reader.element(&word))
            }
            "rule" => {
                let key = self.key(&word)?;
                self.within(key, |reader, key| reader.added_rule(&word, key, inserts))
            }
            // What rules name besides: it decides nothing.
            "counter" | "flowtable" | "ct" | "secmark" => self.skip(),
            other => {
                let message = format!("`add {other}` is not understood; give what `nft list ruleset` prints");
                Err((word.line, word.column, message))
            }
        }
    }

    /// The family and the name of a table.
    fn key(&mut self, word: &Token) -> Result<(String, String), Wrong> {
        let first = self.next()?;
        let key = match FAMILIES.iter().any(|family| first.is(family)) {
            true => (first.text, self.next()?.text),
            false => ("ip".to_owned(), first.text),
        };
        if self.tables.contains_key(&key) {
            return Ok(key);
        }
        let message = format!("there is no table `{} {}` above", key.0, key.1);
        Err((word.line, word.column, message))
    }

    /// Does something in a table.
    fn within(
        &mut self,
        key: (String, String),
        act: impl FnOnce(&mut Self, &(String, String)) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        self.table = self.tables.remove(&key).unwrap_or_default();
        act(self, &key)?;
        self.tables.insert(key, std::mem::take(&mut self.table));
        Ok(())
    }

    /// `add element ip nat ports { 80, 443 }`.
    fn element(&mut self, word: &Token) -> Result<(), Wrong> {
        let name = self.next()?;
        let words = self.statement()?;
        let Some(set) = self.table.sets.get_mut(&name.text) else {
            return Err((name.line, name.column, format!("the table has no set `{}` above", name.text)));
        };
        set.add(word, words);
        Ok(())
    }

    fn added_rule(&mut self, word: &Token, key: &(String, String), inserts: bool) -> Result<(), Wrong> {
        let name = self.next()?;
        let Some(chain) = self.table.chains.get(&name.text).copied() else {
            return Err((name.line, name.column, format!("the table has no chain `{}` above", name.text)));
        };
        let words = self.statement()?;
        let by_place = ["handle", "index", "position"];
        if words.first().is_some_and(|first| by_place.iter().any(|place| first.is(place))) {
            let message = "a rule that is put beside another by its number is not understood; give what `nft list ruleset` prints";
            return Err((word.line, word.column, message.to_owned()));
        }
        self.rules.push(RuleText { table: key.clone(), source: self.source, chain, words, inserts });
        Ok(())
    }
}
