//! One rule of nftables. An element of a map of verdicts, and one of a set of tuples, is a rule of its own.

mod flags;

use super::fields::{Field, Narrowed, field, of_family};
use super::token::Token;
use super::{Reader, Wrong, statements};
use crate::cube::Cube;
use crate::ruleset::{Chain, ChainId, InterfaceTest, Limit, Place, Rule, Verdict};
use crate::{iptables, translation, words};
use policy::ranges::RangeSet;

/// Elements of maps and tuples that one rule may become.
const MOST_ELEMENTS: usize = 200_000;
/// Chains within chains: as many jumps as the kernel follows.
const MOST_NESTED: usize = 16;

/// Some of the packets of a rule.
#[derive(Clone)]
struct Part {
    cube: Cube,
    interfaces: Vec<InterfaceTest>,
    doubts: Vec<String>,
    /// What an element of a map does.
    verdict: Option<Verdict>,
}

impl Part {
    /// No packets at all.
    fn nothing() -> Self {
        let cube = Cube { states: 0, ..Cube::all() };
        Self { cube, interfaces: Vec::new(), doubts: Vec::new(), verdict: None }
    }
}

/// A rule while its words are read.
#[derive(Default)]
struct Draft {
    parts: Vec<Part>,
    verdict: Verdict,
    logs: bool,
    untracks: bool,
    limit: Option<Limit>,
    comment: Option<String>,
    /// If it sends packets to the machine itself: to which port, or to the one that they are for.
    redirects: Option<Option<u16>>,
    /// Words that are not understood: what follows them is searched for verdicts alone.
    is_lost: bool,
    /// Where the first doubt is.
    doubt_column: Option<usize>,
}

impl Draft {
    fn doubt(&mut self, column: usize, what: String) {
        self.doubt_column.get_or_insert(column);
        self.parts.iter_mut().for_each(|part| part.doubts.push(what.clone()));
    }
}

impl Reader<'_> {
    /// Keeps a rule about frames of ARP, which no policy judges.
    pub(super) fn rule_of_arp(&mut self, chain: ChainId, words: &[Token]) {
        let Some(first) = words.first() else { return };
        self.ruleset.read += 1;
        let rules = &self.ruleset.chains[chain].rules;
        let rule = Rule {
            place: Place { source: self.source, line: first.line, column: first.column },
            text: self.line(first.line),
            number: rules.len() + 1,
            cube: Part::nothing().cube,
            interfaces: Vec::new(),
            doubts: Vec::new(),
            verdict: Verdict::Continue,
            logs: false,
            untracks: false,
            limit: None,
            comment: None,
            redirects: None,
            never: Some("a policy does not judge ARP"),
            is_implied: false,
        };
        self.ruleset.chains[chain].rules.push(rule);
    }

    /// Reads a rule into its chain, behind the others or before them.
    pub(super) fn rule(&mut self, chain: ChainId, words: &[Token], inserts: bool) -> Result<(), Wrong> {
        let Some(first) = words.first() else { return Ok(()) };
        self.ruleset.read += 1;
        let part = Part { cube: Cube::all(), interfaces: Vec::new(), doubts: Vec::new(), verdict: None };
        let mut draft = Draft { parts: vec![part], ..Draft::default() };
        let mut rest = words;
        while !rest.is_empty() {
            let taken = self.part_of_rule(&mut draft, rest)?;
            rest = &rest[taken.clamp(1, rest.len())..];
        }
        if let Verdict::Accept = draft.verdict {
        } else if draft.limit.take().is_some() && !draft.logs_only() {
            draft.doubt(first.column, "a limit".to_owned());
        }
        let place = Place {
            source: self.source,
            line: first.line,
            column: draft.doubt_column.unwrap_or(first.column),
        };
        let text = self.line(first.line);
        // Whichever rule was read last stands first or last.
        let rules = &self.ruleset.chains[chain].rules;
        let number = 1 + [rules.first(), rules.last()]
            .into_iter()
            .flatten()
            .map(|rule| rule.number)
            .max()
            .unwrap_or(0);
        let before = if inserts { rules.len() } else { 0 };
        // A set of tuples without elements.
        if draft.parts.is_empty() {
            draft.parts.push(Part::nothing());
        }
        if draft.redirects.is_some() {
            draft.parts = draft.parts.iter().flat_map(by_family).collect();
        }
        for part in draft.parts {
            let is_of_v4 = part.cube.source.v6.is_empty();
            for name in part.interfaces.iter().flat_map(|test| &test.names) {
                self.ruleset.interfaces.add(name);
            }
            let limit = draft.limit.clone();
            let verdict = part.verdict.unwrap_or_else(|| draft.verdict.clone());
            self.ruleset.chains[chain].rules.push(Rule {
                place,
                text: text.clone(),
                number,
                cube: part.cube,
                interfaces: part.interfaces,
                doubts: part.doubts,
                verdict,
                logs: draft.logs,
                untracks: draft.untracks,
                limit,
                comment: draft.comment.clone(),
                redirects: draft.redirects.filter(|_| is_of_v4),
                never: None,
                is_implied: false,
            });
        }
        self.ruleset.chains[chain].rules.rotate_left(before);
        Ok(())
    }

    /// Reads the first match or statement of some words. Returns how many words it has.
    fn part_of_rule(&mut self, draft: &mut Draft, words: &[Token]) -> Result<usize, Wrong> {
        let first = &words[0];
        if draft.is_lost && first.is("{") {
            // Values, among which `redirect` is a type of ICMP.
            return Ok(braces(words).len());
        }
        if let Some(taken) = self.verdict(draft, words)? {
            return Ok(taken);
        }
        if draft.is_lost {
            return Ok(1);
        }
        if let Some(taken) = self.comparison(draft, words)? {
            return Ok(taken);
        }
        if let Some(taken) = flags::flags(draft, words).or_else(|| later_fragment(draft, words)) {
            return Ok(taken);
        }
        let second = words.get(1).map_or("", |word| word.text.as_str());
        match (first.text.as_str(), second) {
            _ if first.quoted => {}
            ("limit", "rate") => return Ok(limit(draft, words)),
            // Its values are words that translate elsewhere.
            ("ct", "status") => {
                draft.doubt(first.column, "`ct status`".to_owned());
                return Ok(2 + words[2..].iter().take_while(|word| is_status(word)).count());
            }
            (name, _) => {
                if let Some(taken) = statements::idle(words) {
                    draft.logs |= name == "log";
                    draft.untracks |= name == "notrack";
                    if let Some(why) = statements::ends_the_rule(&words[..taken]) {
                        draft.doubt(first.column, why.to_owned());
                    }
                    return Ok(taken);
                }
            }
        }
        draft.doubt(first.column, format!("`{}`", [first.text.as_str(), second].join(" ").trim()));
        draft.is_lost = true;
        Ok(1)
    }

    fn verdict(&mut self, draft: &mut Draft, words: &[Token]) -> Result<Option<usize>, Wrong> {
        let first = &words[0];
        if first.quoted {
            return Ok(None);
        }
        let name = words.get(1).map_or("", |word| word.text.as_str());
        let (verdict, taken) = match first.text.as_str() {
            "accept" => (Verdict::Accept, 1),
            "drop" => (Verdict::Drop, 1),
            "reject" => {
                answered(draft, words);
                (Verdict::Reject, words.iter().take_while(|word| !word.is("comment")).count())
            }
            "return" => (Verdict::Return, 1),
            "continue" => (Verdict::Continue, 1),
            what @ ("jump" | "goto") => {
                let is_written_here = words.get(1).is_some_and(|word| word.is("{"));
                let (chain, taken) = match is_written_here {
                    true => self.written_here(first, braces(&words[1..]))?,
                    false => (self.declared(first, name)?, 1),
                };
                (if what == "jump" { Verdict::Jump(chain) } else { Verdict::Goto(chain) }, 1 + taken)
            }
            "comment" => {
                draft.comment = Some(name.to_owned());
                return Ok(Some(2));
            }
            what @ ("masquerade" | "snat" | "dnat") => translation(draft, what, words),
            "redirect" => redirected(draft, words),
            what @ ("queue" | "tproxy" | "synproxy" | "fwd" | "dup") => (
                Verdict::Unknown(format!("the statement {what}")),
                words.iter().take_while(|word| !word.is("comment")).count(),
            ),
            "vmap" if draft.is_lost => (Verdict::Unknown("a map".to_owned()), words.len()),
            // How nft lists what iptables-nft wrote and nft has no words for.
            "xt" if name == "target" => {
                let target = words.get(2).map_or("", |word| word.text.as_str());
                let is_idle = iptables::HARMLESS.contains(&target);
                draft.untracks |= matches!(target, "CT" | "NOTRACK");
                let unknown = || Verdict::Unknown(format!("the target {target}"));
                (if is_idle { Verdict::Continue } else { unknown() }, 3)
            }
            _ if statements::rewrites(words) => {
                let rest = words.iter().take_while(|word| !word.is("comment"));
                let said: Vec<&str> = rest.map(|word| word.text.as_str()).collect();
                (Verdict::Unknown(format!("the statement {}", said.join(" "))), said.len())
            }
            _ => return Ok(None),
        };
        if draft.verdict != Verdict::Continue {
            return Err((first.line, first.column, "this is a second verdict".to_owned()));
        }
        draft.verdict = verdict;
        Ok(Some(taken))
    }

    /// A chain without a name, `jump { ... }`, and how many words it has.
    fn written_here(&mut self, word: &Token, braces: &[Token]) -> Result<(ChainId, usize), Wrong> {
        if self.nested == MOST_NESTED {
            let message = format!("more than {MOST_NESTED} chains stand within each other here");
            return Err((word.line, word.column, message));
        }
        let chains = &mut self.ruleset.chains;
        let chain = chains.len();
        chains.push(Chain { name: format!("line-{}", word.line), rules: Vec::new() });
        self.nested += 1;
        let (mut rule, mut depth) = (Vec::new(), 0);
        for token in braces.get(1..braces.len().saturating_sub(1)).unwrap_or_default() {
            depth += i32::from(token.is("{")) - i32::from(token.is("}"));
            if depth == 0 && (token.is("\n") || token.is(";")) {
                self.rule(chain, &std::mem::take(&mut rule), false)?;
            } else {
                rule.push(token.clone());
            }
        }
        self.rule(chain, &rule, false)?;
        self.nested -= 1;
        Ok((chain, braces.len()))
    }

    fn declared(&mut self, word: &Token, name: &str) -> Result<ChainId, Wrong> {
        let found = self.table.chains.get(name).copied();
        found.ok_or_else(|| (word.line, word.column, format!("the table has no chain `{name}`")))
    }

    /// A comparison of fields with values, or a map of verdicts; `None` if the words are none that this program knows.
    fn comparison(&mut self, draft: &mut Draft, words: &[Token]) -> Result<Option<usize>, Wrong> {
        let (mut fields, mut at) = (Vec::new(), 0);
        loop {
            let Some((field, taken)) = field(&words[at..]) else { return Ok(None) };
            fields.push(field);
            at += taken;
            if !words.get(at).is_some_and(|word| word.is(".")) {
                break;
            }
            at += 1;
        }
        let Some(next) = words.get(at) else { return Ok(None) };
        let maps = next.is("vmap");
        let not = next.is("!=");
        if maps || not || next.is("=") {
            at += 1 + usize::from(next.is("=") && words.get(at + 1).is_some_and(|word| word.is("=")));
        } else if ["<", ">", "&", "|", "(", "and", "or", "set", "{"].iter().any(|mark| next.is(mark))
            && !next.is("{")
        {
            return Ok(None);
        }
        let Some(value) = words.get(at) else { return Ok(None) };
        let (elements, taken, changes) = self.values(value, &words[at..])?;
        at += taken;
        // An operation on the value behind it.
        if words.get(at).is_some_and(|word| ["&", "|", "<", ">", "/"].iter().any(|mark| word.is(mark))) {
            return Ok(None);
        }
        if changes {
            let what = format!("the set `{}`, which packets or time change", value.text);
            draft.doubt(value.column, what);
            if maps {
                draft.verdict = Verdict::Unknown("a map that changes".to_owned());
            }
            return Ok(Some(at));
        }
        if maps {
            self.map(draft, &fields, &elements, value)?;
        } else {
            compare(draft, &fields, not, &elements, value)?;
        }
        Ok(Some(at))
    }

    /// The values at the beginning of some words: elements, how many words they take, and whether they change.
    fn values(&mut self, first: &Token, words: &[Token]) -> Result<(Vec<Vec<Token>>, usize, bool), Wrong> {
        if let Some(name) = first.text.strip_prefix('@').filter(|_| !first.quoted) {
            let Some(set) = self.table.sets.get(name) else {
                return Err((first.line, first.column, format!("the table has no set `{name}`")));
            };
            return Ok((elements(&set.elements), 1, set.changes));
        }
        if first.is("{") {
            let inside = braces(words);
            return Ok((elements(inside), inside.len(), false));
        }
        // `established,related` without braces.
        let (mut all, mut taken) = (vec![vec![first.clone()]], 1);
        while words.get(taken).is_some_and(|word| word.is(",")) {
            let Some(value) = words.get(taken + 1) else { break };
            all.push(vec![value.clone()]);
            taken += 2;
        }
        Ok((all, taken, false))
    }

    fn map(
        &mut self,
        draft: &mut Draft,
        fields: &[Field],
        elements: &[Vec<Token>],
        at: &Token,
    ) -> Result<(), Wrong> {
        let before = std::mem::take(&mut draft.parts);
        if before.len() * elements.len() > MOST_ELEMENTS {
            return Err((
                at.line,
                at.column,
                format!("the map would become more than {MOST_ELEMENTS} rules"),
            ));
        }
        // What is for all other values comes last, wherever it stands.
        let (others, named): (Vec<_>, Vec<_>) =
            elements.iter().partition(|element| element.first().is_some_and(|word| word.is("*")));
        for element in named.into_iter().chain(others) {
            let colon = element.iter().position(|word| word.is(":"));
            let colon = colon
                .ok_or_else(|| (at.line, at.column, "an element of this map has no verdict".to_owned()))?;
            let mut verdict = Draft::default();
            let words =
                element.get(colon + 1..).filter(|words| !words.is_empty()).unwrap_or(&element[colon..]);
            if self.verdict(&mut verdict, words)?.is_none() {
                verdict.verdict = Verdict::Unknown("an element of a map".to_owned());
            }
            let keys = tuple(&element[..colon]);
            for part in &before {
                let mut part = part.clone();
                narrow(&mut part, fields, false, &keys, at);
                part.verdict = Some(verdict.verdict.clone());
                draft.parts.push(part);
            }
        }
        // Nothing else may follow a map; whatever does must not decide again.
        draft.is_lost = true;
        Ok(())
    }
}

impl Draft {
    /// Adds some packets; those that differ from others in services alone are one part, so that a limit of the rule can be theirs together.
    fn add(&mut self, part: Part) {
        let services = |other: &Part| other.cube.services.clone();
        let is_alike = |other: &&mut Part| {
            let cube = Cube { services: services(&part), ..other.cube.clone() };
            cube == part.cube && other.interfaces == part.interfaces && other.doubts == part.doubts
        };
        match self.parts.last_mut().filter(is_alike) {
            Some(other) if part.verdict.is_none() && other.verdict.is_none() => {
                let both = other.cube.services.ranges().iter().chain(part.cube.services.ranges()).copied();
                other.cube.services = RangeSet::of(both);
            }
            _ => self.parts.push(part),
        }
    }

    /// Whether it decides nothing, so that nothing hangs on its limit. The elements of a map have verdicts of their own.
    fn logs_only(&self) -> bool {
        self.logs && self.verdict == Verdict::Continue && self.parts.iter().all(|part| part.verdict.is_none())
    }
}

/// `reject with tcp reset`, `reject with icmp port-unreachable`: of packets that can have such an answer, and of no others.
fn answered(draft: &mut Draft, words: &[Token]) {
    let is = |place: usize, text: &str| words.get(place).is_some_and(|word| word.is(text));
    if !is(1, "with") {
        return;
    }
    for cube in draft.parts.iter_mut().map(|part| &mut part.cube) {
        if is(2, "tcp") {
            cube.services = cube.services.common(&words::of_protocol(policy::service::TCP));
        } else if is(2, "icmp") || is(2, "icmpv6") {
            of_family(cube, is(2, "icmp"));
        }
    }
}

/// `snat ip to 203.0.113.7`; a translation to an address of IPv4 is of packets of IPv4.
fn translation(draft: &mut Draft, what: &str, words: &[Token]) -> (Verdict, usize) {
    let taken = words.iter().take_while(|word| !word.is("comment")).count();
    let texts: Vec<&str> = words[1..taken].iter().map(|word| word.text.as_str()).collect();
    let Some(change) = translation::change(what, &texts) else {
        return (Verdict::Unknown(format!("{what} {}", texts.join(" "))), taken);
    };
    if !matches!(change, translation::Change::Masquerade { .. }) {
        let v4 = words::family(true);
        for cube in draft.parts.iter_mut().map(|part| &mut part.cube) {
            (cube.source.v6, cube.destination.v6) = (v4.v6.clone(), v4.v6.clone());
        }
    }
    (Verdict::Translate(change), taken)
}

/// `redirect to :8080`: where to is known of IPv4, if the machine's addresses are.
fn redirected(draft: &mut Draft, words: &[Token]) -> (Verdict, usize) {
    let taken = words.iter().take_while(|word| !word.is("comment")).count();
    let texts: Vec<&str> = words[1..taken].iter().map(|word| word.text.as_str()).collect();
    let port = |text: &str| words::port(text.trim_start_matches(':')).filter(|port| *port > 0);
    draft.redirects = match texts[..] {
        [] => Some(None),
        ["to", to] => port(to).map(Some),
        _ => None,
    };
    (Verdict::Unknown(format!("redirect {}", texts.join(" ")).trim().to_owned()), taken)
}

/// The packets of IPv4 and those of IPv6.
fn by_family(part: &Part) -> Vec<Part> {
    let of = |v4: bool| {
        let mut part = part.clone();
        of_family(&mut part.cube, v4);
        part
    };
    [true, false].map(of).into_iter().filter(|part| !part.cube.is_empty()).collect()
}

/// `ip frag-off & 0x1fff != 0`: conntrack puts datagrams together, so no rule sees a later fragment.
fn later_fragment(draft: &mut Draft, words: &[Token]) -> Option<usize> {
    let texts: Vec<&str> = words.iter().take(6).map(|word| word.text.as_str()).collect();
    let ["ip", "frag-off", "&", "0x1fff" | "8191" | "1fff", "!=", "0" | "0x0"] = texts[..] else {
        return None;
    };
    draft.parts.iter_mut().for_each(|part| part.cube.states = 0);
    Some(texts.len())
}

/// A value of `ct status`, or what stands before and between them.
fn is_status(word: &Token) -> bool {
    let values = ["expected", "seen-reply", "assured", "confirmed", "snat", "dnat", "dying"];
    values
        .iter()
        .chain(&["=", "!=", "!", "&", "|", "(", ")", ",", "{", "}", "and", "or"])
        .any(|text| word.is(text))
}

/// `limit rate [over] 5/second [burst 10 packets]`, `limit rate 10 mbytes/second burst 5 mbytes`. Returns how many words it has.
fn limit(draft: &mut Draft, words: &[Token]) -> usize {
    let is = |place: usize, text: &str| words.get(place).is_some_and(|word| word.is(text));
    let mut taken = if is(2, "over") { 4 } else { 3 };
    // A count of bytes has its unit behind it.
    taken += usize::from(words.get(taken).is_some_and(|word| word.text.contains("bytes/")));
    taken += if is(taken, "burst") { 3 } else { 0 };
    taken = taken.min(words.len());
    let texts: Vec<&str> = words[..taken].iter().map(|word| word.text.as_str()).collect();
    let (rate, burst) = match &texts[2..] {
        [rate] => (words::rate(rate), Some(5)),
        [rate, "burst", burst, "packets"] => (words::rate(rate), words::number(burst)),
        _ => (None, None),
    };
    match (rate, burst) {
        (Some(rate), Some(burst)) if burst > 0 && draft.limit.is_none() => {
            draft.limit = Some(Limit { rate, burst, per: None })
        }
        _ => draft.doubt(words[0].column, format!("`{}`", texts.join(" "))),
    }
    taken
}

/// The words from an opening brace to its closing one.
pub(super) fn braces(words: &[Token]) -> &[Token] {
    let mut depth = 0;
    for (place, word) in words.iter().enumerate() {
        depth += i32::from(word.is("{")) - i32::from(word.is("}"));
        if depth == 0 {
            return &words[..=place];
        }
    }
    words
}

/// What commas part within braces.
fn elements(words: &[Token]) -> Vec<Vec<Token>> {
    let inside = match words {
        [open, inside @ ..] if open.is("{") => inside,
        _ => words,
    };
    let inside = inside.split_last().filter(|(last, _)| last.is("}")).map_or(inside, |(_, before)| before);
    inside.split(|word| word.is(",")).filter(|element| !element.is_empty()).map(<[Token]>::to_vec).collect()
}

/// What dots part in an element; its comment, counter and so on are left out.
fn tuple(element: &[Token]) -> Vec<Option<String>> {
    element
        .split(|word| word.is("."))
        .map(|words| match words {
            [one] => Some(one.text.clone()),
            [one, behind, ..] if behind.is("comment") || behind.is("counter") => Some(one.text.clone()),
            _ => None,
        })
        .collect()
}

fn compare(
    draft: &mut Draft,
    fields: &[Field],
    not: bool,
    elements: &[Vec<Token>],
    at: &Token,
) -> Result<(), Wrong> {
    let column = at.column;
    if let [field] = fields {
        let values: Option<Vec<String>> =
            elements.iter().map(|element| tuple(element).pop().flatten()).collect();
        let all = values.filter(|_| elements.iter().all(|element| tuple(element).len() == 1));
        let mut doubts = false;
        for part in &mut draft.parts {
            let understood = all.as_ref().is_some_and(|values| {
                Narrowed { cube: &mut part.cube, interfaces: &mut part.interfaces }
                    .narrow(*field, not, values)
            });
            if !understood {
                part.doubts.push(match field {
                    Field::FirstHeader => {
                        "the first header of IPv6, which need not be the protocol's".to_owned()
                    }
                    _ => format!("`{}`", at.text),
                });
                doubts = true;
            }
        }
        if doubts {
            draft.doubt_column.get_or_insert(column);
        }
        return Ok(());
    }
    if not {
        draft.doubt(column, "what is not among tuples".to_owned());
        return Ok(());
    }
    let before = std::mem::take(&mut draft.parts);
    if before.len() * elements.len() > MOST_ELEMENTS {
        return Err((at.line, at.column, format!("the set would become more than {MOST_ELEMENTS} rules")));
    }
    for element in elements {
        let keys = tuple(element);
        for part in &before {
            let mut part = part.clone();
            narrow(&mut part, fields, false, &keys, at);
            draft.add(part);
        }
    }
    Ok(())
}

fn narrow(part: &mut Part, fields: &[Field], not: bool, keys: &[Option<String>], at: &Token) {
    let mut understood = fields.len() == keys.len();
    for (field, key) in fields.iter().zip(keys) {
        let value: Vec<String> = key.iter().cloned().collect();
        let mut narrowed = Narrowed { cube: &mut part.cube, interfaces: &mut part.interfaces };
        understood &= !value.is_empty() && narrowed.narrow(*field, not, &value);
    }
    if !understood {
        part.doubts.push(format!("an element of `{}`", at.text));
    }
}
