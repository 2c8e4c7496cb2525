//! What `iptables-save`, `ip6tables-save` and files for `iptables-restore` say.

mod line;
mod options;
mod sets;

use crate::cube::Cube;
use crate::report::{Mistake, mistake};
use crate::ruleset::{Base, Chain, ChainId, Hook, Place, Ruleset, Verdict};
use crate::{Source, words};
use line::Word;
use sets::Sets;
use std::collections::{HashMap, HashSet};

/// Reads texts, one for IPv4 and one for IPv6 at most, and any number of sets that their rules name.
pub(crate) fn read(sources: &[Source]) -> Result<Ruleset, Mistake> {
    let mut ruleset = Ruleset::default();
    let sets = sets_of(sources)?;
    for (number, source) in sources.iter().enumerate().filter(|(_, source)| !sets::is_of_sets(&source.text)) {
        let v4 = !is_v6(&source.text);
        if std::mem::replace(&mut ruleset.families[usize::from(!v4)], true) {
            let family = if v4 { "IPv4" } else { "IPv6" };
            let place = Place { source: number, ..Place::default() };
            let message = format!(
                "this is a second rule set of {family}; give one of iptables-save and one of ip6tables-save"
            );
            return Err(mistake(sources, place, message));
        }
        Reader { sets: sets.clone(), ..Reader::new(sources, number, v4, &mut ruleset) }.read(&source.text)?;
    }
    if ruleset.bases.is_empty() && !sets.is_empty() {
        return Err(mistake(
            sources,
            Place::default(),
            "these are sets alone: give what iptables-save prints as well",
        ));
    }
    Ok(ruleset)
}

/// The sets of all texts, without those that rules change.
fn sets_of(sources: &[Source]) -> Result<Sets, Mistake> {
    let mut sets = Sets::new();
    let (of_sets, of_rules): (Vec<_>, Vec<_>) =
        sources.iter().enumerate().partition(|(_, source)| sets::is_of_sets(&source.text));
    for (number, source) in of_sets {
        sets::read(&source.text, &mut sets).map_err(|(line, message)| {
            mistake(sources, Place { source: number, line, column: 1 }, message)
        })?;
    }
    for text in of_rules.iter().flat_map(|(_, source)| source.text.lines()) {
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2).filter(|pair| ["--add-set", "--del-set", "--map-set"].contains(&pair[0]))
        {
            sets.insert(pair[1].to_owned(), None);
        }
    }
    Ok(sets)
}

/// A text that is restored behind others, whose chains stay.
pub(crate) struct Part {
    /// The source that it stands for.
    pub(crate) source: usize,
    pub(crate) text: String,
    /// Whether it stands in no file.
    pub(crate) is_implied: bool,
}

/// Adds texts of one family.
pub(crate) fn read_parts(
    sources: &[Source],
    v4: bool,
    parts: &[Part],
    ruleset: &mut Ruleset,
) -> Result<(), Mistake> {
    let Some(first) = parts.first() else { return Ok(()) };
    let mut reader = Reader::new(sources, first.source, v4, ruleset);
    let all: String = parts.iter().flat_map(|part| [&part.text, "\n"]).collect();
    for part in parts {
        reader.source = part.source;
        reader.is_implied = part.is_implied;
        reader.tables.clear();
        reader.shared_limits = shared_limits(&all);
        reader.lines(&part.text)?;
    }
    Ok(())
}

/// Whether a text is of IPv6, by what programs write at its top or by its addresses.
fn is_v6(text: &str) -> bool {
    let rules = || text.lines().filter(|line| line.starts_with("-A") || line.starts_with("-I"));
    text.lines().take(3).any(|line| line.contains("ip6tables-save"))
        || !text.lines().take(3).any(|line| line.contains("iptables-save"))
            && rules().any(|line| {
                line.contains("ipv6-icmp")
                    || line.contains("icmp6")
                    || line.split(' ').any(|word| word.contains("::") && words::addresses(word).is_some())
            })
}

/// The kernel's own chains: table, chain, hook, priority, whether it translates.
const BUILT_IN: &[(&str, &str, Hook, i32, bool)] = &[
    ("raw", "PREROUTING", Hook::Prerouting, -300, false),
    ("raw", "OUTPUT", Hook::Output, -300, false),
    ("mangle", "PREROUTING", Hook::Prerouting, -150, false),
    ("mangle", "INPUT", Hook::Input, -150, false),
    ("mangle", "FORWARD", Hook::Forward, -150, false),
    ("mangle", "OUTPUT", Hook::Output, -150, false),
    ("mangle", "POSTROUTING", Hook::Postrouting, -150, false),
    ("nat", "PREROUTING", Hook::Prerouting, -100, true),
    ("nat", "INPUT", Hook::Input, 100, true),
    ("nat", "OUTPUT", Hook::Output, -100, true),
    ("nat", "POSTROUTING", Hook::Postrouting, 100, true),
    ("filter", "INPUT", Hook::Input, 0, false),
    ("filter", "FORWARD", Hook::Forward, 0, false),
    ("filter", "OUTPUT", Hook::Output, 0, false),
    ("security", "INPUT", Hook::Input, 50, false),
    ("security", "FORWARD", Hook::Forward, 50, false),
    ("security", "OUTPUT", Hook::Output, 50, false),
];

/// A text as it is read.
pub(crate) struct Reader<'r> {
    sources: &'r [Source],
    source: usize,
    v4: bool,
    /// Whether the text stands in no file.
    is_implied: bool,
    ruleset: &'r mut Ruleset,
    table: Option<String>,
    /// The tables so far.
    tables: HashSet<String>,
    chains: HashMap<(String, String), ChainId>,
    /// Sets that rules name.
    sets: Sets,
    /// Names of limits by address (`hashlimit`) that several rules have: they have one limit together.
    shared_limits: HashSet<String>,
}

impl<'r> Reader<'r> {
    fn new(sources: &'r [Source], source: usize, v4: bool, ruleset: &'r mut Ruleset) -> Self {
        Self {
            sources,
            source,
            v4,
            is_implied: false,
            ruleset,
            table: None,
            tables: HashSet::new(),
            chains: HashMap::new(),
            sets: Sets::new(),
            shared_limits: HashSet::new(),
        }
    }

    fn mistake(&self, line: usize, column: usize, message: impl Into<String>) -> Mistake {
        mistake(self.sources, Place { source: self.source, line, column }, message)
    }

    fn read(mut self, text: &str) -> Result<(), Mistake> {
        if let Some(message) = other_format(text) {
            return Err(self.mistake(0, 0, message));
        }
        self.shared_limits = shared_limits(text);
        self.lines(text)?;
        if self.chains.is_empty() {
            let message = "there is no table in it; give what iptables-save prints";
            return Err(mistake(self.sources, Place { source: self.source, line: 0, column: 0 }, message));
        }
        Ok(())
    }

    fn lines(&mut self, text: &str) -> Result<(), Mistake> {
        let mut last = 0;
        for (i, line) in text.lines().enumerate() {
            last = i + 1;
            let line = line.trim_end();
            if !line.is_empty() && !line.starts_with('#') {
                self.line(last, line)?;
            }
        }
        if let Some(table) = &self.table {
            let message = format!(
                "the text ends within the table `{table}`: it has no COMMIT, so something may be missing"
            );
            return Err(mistake(self.sources, Place { source: self.source, line: last, column: 1 }, message));
        }
        Ok(())
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), Mistake> {
        if let Some(name) = line.strip_prefix('*') {
            if let Some(table) = &self.table {
                return Err(self.mistake(
                    number,
                    1,
                    format!("the table `{table}` has no COMMIT before this line"),
                ));
            }
            if !BUILT_IN.iter().any(|(table, ..)| *table == name) {
                return Err(self.mistake(number, 2, format!("there is no table `{name}` in iptables")));
            }
            if !self.tables.insert(name.to_owned()) {
                let message = format!(
                    "the table `{name}` stands above already, and iptables-restore would empty it here; give what iptables-save prints"
                );
                return Err(self.mistake(number, 2, message));
            }
            self.table = Some(name.to_owned());
            return Ok(());
        }
        let Some(table) = self.table.clone() else {
            return Err(self.mistake(
                number,
                1,
                "this line stands in no table: a line such as *filter should be before it",
            ));
        };
        if line == "COMMIT" {
            self.table = None;
            return Ok(());
        }
        let words = line::words(line).map_err(|(column, message)| self.mistake(number, column, message))?;
        match line.strip_prefix(':') {
            Some(_) => self.chain(&table, number, line, &words),
            None => self.command(&table, number, line, &words),
        }
    }

    /// `:FORWARD DROP [0:0]`, `:mine - [0:0]`.
    fn chain(&mut self, table: &str, number: usize, line: &str, words: &[Word]) -> Result<(), Mistake> {
        let name = words[0].text[1..].to_owned();
        let policy = words.get(1).map_or("-", |word| word.text.as_str());
        if name.is_empty() || !matches!(policy, "-" | "ACCEPT" | "DROP") {
            return Err(self.mistake(
                number,
                1,
                "this line should declare a chain, as in :FORWARD DROP [0:0]",
            ));
        }
        let chain = self.add_chain(table, &name);
        let built_in = BUILT_IN.iter().find(|(of, built_in, ..)| (*of, *built_in) == (table, name.as_str()));
        let Some((_, _, hook, priority, translates)) = built_in else { return Ok(()) };
        if let Some(base) = self.ruleset.bases.iter_mut().find(|base| base.chain == chain) {
            base.drops = policy == "DROP";
            return Ok(());
        }
        let family = words::family(self.v4);
        self.ruleset.bases.push(Base {
            chain,
            hook: *hook,
            priority: *priority,
            translates: *translates,
            sees: Cube { source: family.clone(), destination: family, ..Cube::all() },
            drops: policy == "DROP",
            place: Place { source: self.source, line: number, column: 1 },
            text: line.to_owned(),
        });
        Ok(())
    }

    fn add_chain(&mut self, table: &str, name: &str) -> ChainId {
        let chains = &mut self.ruleset.chains;
        *self.chains.entry((table.to_owned(), name.to_owned())).or_insert_with(|| {
            chains.push(Chain { name: name.to_owned(), rules: Vec::new() });
            chains.len() - 1
        })
    }

    fn command(&mut self, table: &str, number: usize, line: &str, words: &[Word]) -> Result<(), Mistake> {
        // Counters before a rule: iptables-save -c.
        let words = if words[0].text.starts_with('[') { &words[1..] } else { words };
        let [command, rest @ ..] = words else {
            return Err(self.mistake(number, 1, "there is no rule behind the counters"));
        };
        let name = rest.first().map_or("", |word| word.text.as_str());
        match command.text.as_str() {
            "-A" | "--append" | "-I" | "--insert" => {
                let Some(&chain) = self.chains.get(&(table.to_owned(), name.to_owned())) else {
                    let message =
                        format!("the table `{table}` has no chain `{name}`: it is not declared above");
                    return Err(self.mistake(number, command.column, message));
                };
                let inserts = matches!(command.text.as_str(), "-I" | "--insert");
                let mut rest = &rest[1..];
                let mut at = 1;
                if let Some(place) = rest.first().filter(|_| inserts).and_then(|word| word.text.parse().ok())
                {
                    (at, rest) = (place, &rest[1..]);
                }
                let mut rule = self.rule(table, number, line, rest)?;
                rule.is_implied = self.is_implied;
                self.ruleset.read += usize::from(!rule.is_implied);
                let rules = &mut self.ruleset.chains[chain].rules;
                rule.number = rules.len() + 1;
                let end = rules.len();
                rules.insert(if inserts { (at - 1).min(end) } else { end }, rule);
                Ok(())
            }
            "-N" | "--new-chain" if !name.is_empty() => {
                self.add_chain(table, name);
                Ok(())
            }
            other => {
                let message =
                    format!("`{other}` is no line of iptables-save; give what iptables-save prints");
                Err(self.mistake(number, command.column, message))
            }
        }
    }

    fn chain_of(&self, table: &str, name: &str) -> Option<ChainId> {
        self.chains.get(&(table.to_owned(), name.to_owned())).copied()
    }
}

/// The names of limits that stand in more than one rule.
fn shared_limits(text: &str) -> HashSet<String> {
    let (mut once, mut shared) = (HashSet::new(), HashSet::new());
    for words in
        text.lines().filter(|line| line.contains(LIMIT_NAME)).filter_map(|line| line::words(line).ok())
    {
        for pair in words.windows(2).filter(|pair| !pair[0].quoted && pair[0].text == LIMIT_NAME) {
            if !once.insert(pair[1].text.clone()) {
                shared.insert(pair[1].text.clone());
            }
        }
    }
    shared
}

/// The option that names a limit by address.
const LIMIT_NAME: &str = "--hashlimit-name";

/// What another format would look like.
pub(crate) fn other_format(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.next()?;
    if first.starts_with("table ") || first.starts_with("flush ruleset") || first.starts_with("define ") {
        return Some("this looks like nftables: rampart import nft FILE".to_owned());
    }
    if first.starts_with("Chain ") {
        return Some(
            "this looks like `iptables -L`, which leaves things out; give what iptables-save prints"
                .to_owned(),
        );
    }
    if first.starts_with("Status: ") {
        return Some("this looks like `ufw status`, which leaves things out; give what iptables-save prints on that machine, or ufw's files: \
             rampart import ufw /etc/default/ufw /etc/ufw/user.rules /etc/ufw/user6.rules"
            .to_owned());
    }
    if first.starts_with('{') {
        return Some("this looks like JSON; give what iptables-save prints".to_owned());
    }
    (first.starts_with("-P ") || first.starts_with("-A ") || first.starts_with("-N ")).then(|| {
        "this looks like `iptables -S`, which has one table alone; give what iptables-save prints".to_owned()
    })
}

/// What a target does that this program knows: nothing that decides.
pub(crate) const HARMLESS: &[&str] = &[
    "LOG",
    "NFLOG",
    "ULOG",
    "MARK",
    "CONNMARK",
    "SECMARK",
    "CONNSECMARK",
    "TCPMSS",
    "TTL",
    "HL",
    "DSCP",
    "TOS",
    "CLASSIFY",
    "TRACE",
    "AUDIT",
    "SET",
    "TCPOPTSTRIP",
    "CHECKSUM",
    "HMARK",
    "IDLETIMER",
    "LED",
    "RATEEST",
    "ECN",
    "CT",
    "NOTRACK",
];

/// What a target does, whatever its options say.
fn target(reader: &Reader<'_>, table: &str, name: &str, goes: bool) -> Verdict {
    if let Some(chain) = reader.chain_of(table, name) {
        return if goes { Verdict::Goto(chain) } else { Verdict::Jump(chain) };
    }
    match name {
        "ACCEPT" => Verdict::Accept,
        "DROP" => Verdict::Drop,
        "REJECT" => Verdict::Reject,
        "RETURN" => Verdict::Return,
        known if HARMLESS.contains(&known) => Verdict::Continue,
        other => Verdict::Unknown(format!("the target {other}")),
    }
}
