//! What `nft list ruleset` and files for `nft -f` say.

mod commands;
mod fields;
mod rule;
mod statements;
mod token;
mod variables;

use crate::Source;
use crate::cube::Cube;
use crate::report::{Mistake, mistake};
use crate::ruleset::{Base, Chain, ChainId, Hook, Place, Ruleset};
use crate::words;
use std::collections::HashMap;
use token::Token;

/// Reads texts as one rule set: first what is declared in all of them, then the rules. A table may be opened again, in the same text or another, and
/// what it has there of chains and of elements of sets holds for the rules before it as well.
pub(crate) fn read(sources: &[Source]) -> Result<Ruleset, Mistake> {
    let mut ruleset = Ruleset { families: [true, true], is_whole: true, ..Ruleset::default() };
    let (mut tables, mut rules) = (HashMap::new(), Vec::new());
    let mut variables = variables::Variables::default();
    let lines: Vec<Vec<&str>> = sources.iter().map(|source| source.text.lines().collect()).collect();
    let wrong = |number: usize, (line, column, message): Wrong| {
        mistake(sources, Place { source: number, line, column }, message)
    };
    for (number, source) in sources.iter().enumerate() {
        let wrong = |at| wrong(number, at);
        if let Some(message) = other_format(&source.text) {
            return Err(wrong((0, 0, message)));
        }
        let tokens = token::tokens(&source.text).map_err(wrong)?;
        let tokens = variables.replaced(tokens).map_err(wrong)?;
        Reader {
            source: number,
            lines: &lines[number],
            tokens,
            at: 0,
            ruleset: &mut ruleset,
            table: Table::default(),
            tables: &mut tables,
            rules: &mut rules,
            nested: 0,
        }
        .read()
        .map_err(wrong)?;
    }
    note_what_rules_change(&rules, &mut tables);
    for rule in rules {
        let number = rule.source;
        Reader {
            source: number,
            lines: &lines[number],
            tokens: Vec::new(),
            at: 0,
            ruleset: &mut ruleset,
            table: Table::default(),
            tables: &mut tables,
            rules: &mut Vec::new(),
            nested: 0,
        }
        .rule_of(rule)
        .map_err(|at| wrong(number, at))?;
    }
    Ok(ruleset)
}

/// Notes of which sets rules change the elements, whether they are declared so or not: `add @seen { ip saddr }`, and `set update ip saddr @seen` of
/// old.
fn note_what_rules_change(rules: &[RuleText], tables: &mut Tables) {
    let changes = |word: &Token| ["add", "update", "delete"].iter().any(|name| word.is(name));
    for rule in rules {
        let Some(table) = tables.get_mut(&rule.table) else { continue };
        for (place, word) in rule.words.iter().enumerate() {
            let Some(set) = word.text.strip_prefix('@').filter(|_| !word.quoted) else { continue };
            let before = &rule.words[..place];
            let is_of_old = || before.windows(2).any(|words| words[0].is("set") && changes(&words[1]));
            if before.last().is_some_and(changes) || is_of_old() {
                table.sets.entry(set.to_owned()).or_default().changes = true;
            }
        }
    }
}

fn other_format(text: &str) -> Option<String> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    if first.starts_with('*') || first.starts_with("-A ") || first.starts_with("-P ") {
        return Some("this looks like iptables: rampart import iptables-save FILE".to_owned());
    }
    first.starts_with('{').then(|| {
        "this looks like JSON of `nft -j`; give what `nft list ruleset` prints, whose lines can be shown"
            .to_owned()
    })
}

/// What is wrong, with its line and column.
type Wrong = (usize, usize, String);

const FAMILIES: [&str; 6] = ["ip", "ip6", "inet", "arp", "bridge", "netdev"];

/// A set or a map that a table names.
#[derive(Debug, Clone, Default)]
struct NamedSet {
    elements: Vec<Token>,
    /// Whether packets and time change it.
    changes: bool,
}

impl NamedSet {
    /// Adds elements to those that it has.
    fn add(&mut self, word: &Token, elements: Vec<Token>) {
        let between = Token { text: ",".to_owned(), quoted: false, ..word.clone() };
        let before = std::mem::take(&mut self.elements);
        self.elements = [between_braces(&before), &[between], between_braces(&elements)].concat();
    }
}

/// A table. It may be opened several times, and then goes on where it ended.
#[derive(Debug, Default)]
struct Table {
    family: String,
    sets: HashMap<String, NamedSet>,
    chains: HashMap<String, ChainId>,
}

/// Tables by family and name.
type Tables = HashMap<(String, String), Table>;

/// A rule that is read when all chains and sets are known.
struct RuleText {
    table: (String, String),
    source: usize,
    chain: ChainId,
    words: Vec<Token>,
    /// Whether it stands before the chain's rules so far.
    inserts: bool,
}

/// A text as it is read.
struct Reader<'r> {
    source: usize,
    lines: &'r [&'r str],
    tokens: Vec<Token>,
    at: usize,
    ruleset: &'r mut Ruleset,
    /// The one that is read.
    table: Table,
    /// Those before it.
    tables: &'r mut Tables,
    /// The rules so far, in the order of the text.
    rules: &'r mut Vec<RuleText>,
    /// How many chains without a name the rule that is read stands in.
    nested: usize,
}

impl Reader<'_> {
    fn wrong(&self, message: impl Into<String>) -> Wrong {
        let token = self.tokens.get(self.at).or_else(|| self.tokens.last());
        token
            .map_or((0, 0, String::new()), |token| (token.line, token.column, String::new()))
            .with(message.into())
    }

    fn next(&mut self) -> Result<Token, Wrong> {
        let token = self.tokens.get(self.at).cloned();
        let token =
            token.ok_or_else(|| self.wrong("the text ends within a table: something may be missing"))?;
        self.at += 1;
        Ok(token)
    }

    /// The next word that is no end of a line and no semicolon.
    fn next_word(&mut self) -> Result<Token, Wrong> {
        loop {
            let token = self.next()?;
            if !token.is("\n") && !token.is(";") {
                return Ok(token);
            }
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), Wrong> {
        let token = self.next_word()?;
        if token.is(text) {
            return Ok(());
        }
        Err((token.line, token.column, format!("`{text}` should stand here, and not `{}`", token.text)))
    }

    /// Words up to the end of the line or a semicolon, outside of braces. Between braces the ends of lines stay where they end rules.
    fn statement(&mut self) -> Result<Vec<Token>, Wrong> {
        let mut words: Vec<Token> = Vec::new();
        // For each brace that is open, whether it begins a chain.
        let mut open = Vec::new();
        loop {
            let Some(token) = self.tokens.get(self.at).cloned() else { return Ok(words) };
            if open.is_empty() && (token.is("\n") || token.is(";") || token.is("}")) {
                return Ok(words);
            }
            self.at += 1;
            if token.is("{") {
                open.push(words.last().is_some_and(|word| word.is("jump") || word.is("goto")));
            } else if token.is("}") {
                open.pop();
            }
            if !token.is("\n") || open.last() == Some(&true) {
                words.push(token);
            }
        }
    }

    fn read(&mut self) -> Result<(), Wrong> {
        while self.tokens[self.at..].iter().any(|token| !token.is("\n") && !token.is(";")) {
            let word = self.next_word()?;
            match word.text.as_str() {
                "table" if !word.quoted => self.table()?,
                "add" | "create" | "insert" => self.command(word.is("insert"))?,
                "chain" | "rule" | "set" | "map" | "element" => {
                    self.at -= 1;
                    self.command(false)?;
                }
                "include" => {
                    let message = "nothing is included here; give what `nft list ruleset` prints, or the included file's text in place of this line";
                    return Err((word.line, word.column, message.to_owned()));
                }
                "flush" | "delete" | "destroy" => self.removal(&word)?,
                other => {
                    let message =
                        format!("`{other}` is nothing that `nft list ruleset` prints; give what it prints");
                    return Err((word.line, word.column, message));
                }
            }
        }
        if self.tables.is_empty() {
            return Err((0, 0, "there is no table in it; give what `nft list ruleset` prints".to_owned()));
        }
        Ok(())
    }

    /// `flush ruleset`, `delete table inet filter`: nothing, if what it takes away was not in the text.
    fn removal(&mut self, word: &Token) -> Result<(), Wrong> {
        let words = self.statement()?;
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let is_there = |(family, name): (&str, &str)| {
            self.tables
                .get(&(family.to_owned(), name.to_owned()))
                .is_some_and(|table| !table.chains.is_empty() || !table.sets.is_empty())
        };
        let takes = match texts[..] {
            ["table", family, name] => is_there((family, name)),
            ["table", name] => is_there(("ip", name)),
            _ => self.tables.values().any(|table| !table.chains.is_empty() || !table.sets.is_empty()),
        };
        if takes {
            let message = format!(
                "`{} {}` takes away what stands above it; give what `nft list ruleset` prints",
                word.text,
                texts.join(" ")
            );
            return Err((word.line, word.column, message));
        }
        Ok(())
    }

    fn table(&mut self) -> Result<(), Wrong> {
        let first = self.next()?;
        let (family, name) = match FAMILIES.iter().any(|family| first.is(family)) {
            true => (first.text, self.next()?.text),
            false => ("ip".to_owned(), first.text),
        };
        let key = (family.clone(), name);
        self.table = self.tables.remove(&key).unwrap_or_else(|| Table { family, ..Table::default() });
        // A table that is only made, before it is deleted and made again, has no braces.
        if self.tokens.get(self.at).is_some_and(|token| !token.is("\n") && !token.is(";")) {
            self.content(&key)?;
        }
        self.tables.insert(key, std::mem::take(&mut self.table));
        Ok(())
    }

    /// Reads a rule in its table.
    fn rule_of(&mut self, rule: RuleText) -> Result<(), Wrong> {
        self.table = self.tables.remove(&rule.table).unwrap_or_default();
        match self.table.family.as_str() {
            "arp" => self.rule_of_arp(rule.chain, &rule.words),
            _ => self.rule(rule.chain, &rule.words, rule.inserts)?,
        }
        self.tables.insert(rule.table, std::mem::take(&mut self.table));
        Ok(())
    }

    /// What stands between the braces of a table.
    fn content(&mut self, key: &(String, String)) -> Result<(), Wrong> {
        self.expect("{")?;
        loop {
            let word = self.next_word()?;
            match word.text.as_str() {
                "}" => return Ok(()),
                "chain" => self.chain(key)?,
                "set" | "map" => self.set()?,
                "flags" => {
                    if self.statement()?.iter().any(|flag| flag.is("dormant")) {
                        let message =
                            "the table is dormant, so the kernel asks none of its rules: take it out";
                        return Err((word.line, word.column, message.to_owned()));
                    }
                }
                _ => self.skip()?,
            }
        }
    }

    /// Something else in a table: up to the end of its line, its braces included.
    fn skip(&mut self) -> Result<(), Wrong> {
        self.statement().map(drop)
    }

    fn chain_id(&mut self, name: &str) -> ChainId {
        let chains = &mut self.ruleset.chains;
        *self.table.chains.entry(name.to_owned()).or_insert_with(|| {
            chains.push(Chain { name: name.to_owned(), rules: Vec::new() });
            chains.len() - 1
        })
    }

    fn chain(&mut self, table: &(String, String)) -> Result<(), Wrong> {
        let name = self.next()?.text;
        let chain = self.chain_id(&name);
        // A chain that a command makes for other commands to fill.
        if self.tokens.get(self.at).is_none_or(|token| token.is("\n") || token.is(";")) {
            return Ok(());
        }
        self.expect("{")?;
        let mut base = self.ruleset.bases.iter().position(|base| base.chain == chain);
        loop {
            let word = self.next_word()?;
            match word.text.as_str() {
                "}" if !word.quoted => return Ok(()),
                "type" => base = self.base(chain, &word)?,
                "policy" => {
                    let drops = self.next()?.is("drop");
                    if let Some(base) = base {
                        self.ruleset.bases[base].drops = drops;
                    }
                }
                "comment" | "flags" | "devices" => self.skip()?,
                _ => {
                    self.at -= 1;
                    let words = self.statement()?;
                    self.rules.push(RuleText {
                        table: table.clone(),
                        source: self.source,
                        chain,
                        words,
                        inserts: false,
                    });
                }
            }
        }
    }

    /// `type filter hook input priority filter + 10`.
    fn base(&mut self, chain: ChainId, word: &Token) -> Result<Option<usize>, Wrong> {
        let words = self.statement()?;
        if self.table.family == "arp" {
            return Ok(None);
        }
        if matches!(self.table.family.as_str(), "bridge" | "netdev") {
            let message = format!(
                "the table is of the family {}, whose packets no policy sees as it does: take it out, and the packets that it drops with it",
                self.table.family
            );
            return Err((word.line, word.column, message));
        }
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let wrong = |message: &str| (word.line, word.column, message.to_owned());
        let after = |key: &str| texts.iter().position(|word| *word == key).map(|place| &texts[place + 1..]);
        let hook = match after("hook").and_then(|words| words.first().copied()) {
            Some("prerouting") => Hook::Prerouting,
            Some("input") => Hook::Input,
            Some("forward") => Hook::Forward,
            Some("output") => Hook::Output,
            Some("postrouting") => Hook::Postrouting,
            _ => return Err(wrong("this hook is not known")),
        };
        let priority =
            after("priority").and_then(priority).ok_or_else(|| wrong("this priority is not known"))?;
        let mut sees = Cube::all();
        if let Some(v4) = match self.table.family.as_str() {
            "ip" => Some(true),
            "ip6" => Some(false),
            _ => None,
        } {
            (sees.source, sees.destination) = (words::family(v4), words::family(v4));
        }
        if let Some(at) = self.ruleset.bases.iter().position(|base| base.chain == chain) {
            let base = &self.ruleset.bases[at];
            return match (base.hook, base.priority) == (hook, priority) {
                true => Ok(Some(at)),
                false => Err(wrong("this chain stands above with another hook or priority")),
            };
        }
        self.ruleset.bases.push(Base {
            chain,
            hook,
            priority,
            translates: texts.first() == Some(&"nat"),
            sees,
            drops: false,
            place: Place { source: self.source, line: word.line, column: word.column },
            text: self.line(word.line),
        });
        Ok(Some(self.ruleset.bases.len() - 1))
    }

    fn line(&self, line: usize) -> String {
        self.lines.get(line - 1).map_or_else(String::new, |line| line.trim().to_owned())
    }

    fn set(&mut self) -> Result<(), Wrong> {
        let name = self.next()?.text;
        self.expect("{")?;
        let mut set = self.table.sets.remove(&name).unwrap_or_default();
        loop {
            let word = self.next_word()?;
            match word.text.as_str() {
                "}" => break,
                "elements" => {
                    self.expect("=")?;
                    // A set that is opened again has these besides.
                    let elements = self.statement()?;
                    set.add(&word, elements);
                }
                "timeout" => {
                    set.changes = true;
                    self.skip()?;
                }
                "flags" => {
                    set.changes |=
                        self.statement()?.iter().any(|word| word.is("dynamic") || word.is("timeout"))
                }
                _ => self.skip()?,
            }
        }
        self.table.sets.insert(name, set);
        Ok(())
    }
}

/// The words between braces.
fn between_braces(words: &[Token]) -> &[Token] {
    match words {
        [first, inside @ .., last] if first.is("{") && last.is("}") => inside,
        _ => words,
    }
}

trait With {
    fn with(self, message: String) -> Self;
}

impl With for Wrong {
    fn with(self, message: String) -> Self {
        (self.0, self.1, message)
    }
}

/// `filter`, `dstnat - 5`, `dstnat -5`, `-150`.
fn priority(words: &[&str]) -> Option<i32> {
    let named = |name: &str| match name {
        "raw" => Some(-300),
        "mangle" => Some(-150),
        "dstnat" => Some(-100),
        "filter" => Some(0),
        "security" => Some(50),
        "srcnat" => Some(100),
        number => number.parse().ok(),
    };
    match words {
        [name] => named(name),
        [name, "+", number, ..] => Some(named(name)? + number.parse::<i32>().ok()?),
        [name, "-", number, ..] => Some(named(name)? - number.parse::<i32>().ok()?),
        // Without a blank behind the sign.
        [name, number, ..] if number.starts_with(['+', '-']) => {
            Some(named(name)? + number.parse::<i32>().ok()?)
        }
        [name, ..] => named(name),
        [] => None,
    }
}
