//! The options of a rule of iptables: which packets it matches, and what it does with them.

use super::line::{Word, separated};
use super::{LIMIT_NAME, Reader, target};
use crate::cube::{Cube, kind, state};
use crate::report::Mistake;
use crate::ruleset::{InterfaceTest, Limit, Place, Rule, Verdict};
use crate::{translation, words};
use policy::address::AddressSet;
use policy::ranges::RangeSet;
use policy::service::{ICMP, ICMPV6, LAST_KEY, TCP, any_port, key};

/// A rule while its options are read.
struct Draft {
    rule: Rule,
    destination_ports: RangeSet<u32>,
    has_ports: bool,
    rate: Option<String>,
    burst: Option<u32>,
    per: Option<&'static str>,
    /// Whether other rules have its limit as well.
    shares: bool,
    /// Modules that the rule loads, in order.
    modules: Vec<String>,
    /// How many sets of addresses it asks for.
    known_sets: usize,
}

/// Options of modules that match every packet, or that change nothing of what is matched; with the number of their values.
const IDLE: &[(&str, usize)] = &[
    ("-c", 2),
    ("--set-counters", 2),
    ("--hashlimit-htable-size", 1),
    ("--hashlimit-htable-max", 1),
    ("--hashlimit-htable-expire", 1),
    ("--hashlimit-htable-gcinterval", 1),
    ("--set-xmark", 1),
];

impl Reader<'_> {
    /// Reads what stands behind the name of the chain.
    pub(super) fn rule(
        &mut self,
        table: &str,
        line: usize,
        text: &str,
        words: &[Word],
    ) -> Result<Rule, Mistake> {
        let family = words::family(self.v4);
        let mut draft = Draft {
            rule: Rule {
                place: Place { source: self.source, line, column: 1 },
                text: text.to_owned(),
                number: 0,
                cube: Cube { source: family.clone(), destination: family, ..Cube::all() },
                interfaces: Vec::new(),
                doubts: Vec::new(),
                verdict: Verdict::Continue,
                logs: false,
                untracks: false,
                limit: None,
                comment: None,
                redirects: None,
                never: None,
                is_implied: false,
            },
            destination_ports: any_port(),
            has_ports: false,
            rate: None,
            burst: None,
            per: None,
            shares: false,
            modules: Vec::new(),
            known_sets: 0,
        };
        let words = separated(words);
        let mut rest = &words[..];
        let mut has_target = false;
        while let [first, more @ ..] = rest {
            let not = !first.quoted && first.text == "!";
            let (option, behind) = match more {
                [option, behind @ ..] if not => (option, behind),
                _ => (first, more),
            };
            if not && std::ptr::eq(option, first) || option.quoted || !option.text.starts_with('-') {
                return Err(self.mistake(
                    line,
                    option.column,
                    format!("`{}` should be an option", option.text),
                ));
            }
            if is_target(option) {
                if not || has_target {
                    let message = if not { "no target can be negated" } else { "this is a second target" };
                    return Err(self.mistake(line, option.column, message));
                }
                has_target = true;
                let taken = self.target(&mut draft, table, line, option, behind)?;
                rest = &behind[taken..];
                continue;
            }
            if is_short_for_target(option) {
                let message = format!("`{}` may stand for a target: write it as -j or -g", option.text);
                return Err(self.mistake(line, option.column, message));
            }
            let sure = draft.rule.doubts.is_empty();
            let values = self.option(&mut draft, line, not, option, behind)?;
            if sure && !draft.rule.doubts.is_empty() {
                draft.rule.place.column = option.column;
            }
            rest = &behind[values..];
        }
        self.finish(&mut draft);
        Ok(draft.rule)
    }

    /// Reads the target and the options that are its own: what the rule matches may stand behind it. Returns how many words they are.
    fn target(
        &mut self,
        draft: &mut Draft,
        table: &str,
        line: usize,
        option: &Word,
        behind: &[Word],
    ) -> Result<usize, Mistake> {
        let Some((name, behind)) = behind.split_first() else {
            return Err(self.mistake(line, option.column, format!("`{}` needs a target", option.text)));
        };
        let name = name.text.as_str();
        let goes = matches!(option.text.as_str(), "-g" | "--goto");
        let verdict = target(self, table, name, goes);
        let has_options = !matches!(
            verdict,
            Verdict::Accept | Verdict::Drop | Verdict::Return | Verdict::Jump(_) | Verdict::Goto(_)
        );
        let own = behind.iter().position(|word| is_match(word) || is_target(word)).unwrap_or(behind.len());
        let options = &behind[..if has_options { own } else { 0 }];
        draft.rule.logs = matches!(name, "LOG" | "NFLOG" | "ULOG");
        draft.rule.untracks =
            name == "NOTRACK" || name == "CT" && options.iter().any(|word| word.text == "--notrack");
        draft.rule.verdict = self.translation(table, name, options).unwrap_or(verdict);
        draft.rule.redirects = self.redirects(table, name, options);
        Ok(1 + options.len())
    }

    /// What a target of the table `nat` changes; `None` if it is another one.
    fn translation(&self, table: &str, name: &str, options: &[Word]) -> Option<Verdict> {
        if table != "nat" || !["SNAT", "MASQUERADE", "DNAT", "REDIRECT", "NETMAP"].contains(&name) {
            return None;
        }
        let words: Vec<&str> = options.iter().map(|word| word.text.as_str()).collect();
        let change = translation::change(name, &words).filter(|_| self.v4);
        let said = || Verdict::Unknown(format!("{name} {}", words.join(" ")).trim().to_owned());
        Some(change.map_or_else(said, Verdict::Translate))
    }

    /// The port that `REDIRECT` sends packets to; of IPv6 and with ranges of ports nothing is said.
    fn redirects(&self, table: &str, name: &str, options: &[Word]) -> Option<Option<u16>> {
        let words: Vec<&str> = options.iter().map(|word| word.text.as_str()).collect();
        match words[..] {
            _ if (table, name, self.v4) != ("nat", "REDIRECT", true) => None,
            [] => Some(None),
            ["--to-ports", port] => words::number(port).filter(|port| *port > 0).map(Some),
            _ => None,
        }
    }

    /// Reads an option. Returns how many values it has.
    fn option(
        &mut self,
        draft: &mut Draft,
        line: usize,
        not: bool,
        option: &Word,
        behind: &[Word],
    ) -> Result<usize, Mistake> {
        let name = option.text.as_str();
        if let Some((_, values)) = IDLE.iter().find(|(idle, _)| *idle == name) {
            return self.enough(line, option, behind, *values);
        }
        match name {
            "-4" | "-6" if self.v4 != (name == "-4") => {
                draft.rule.cube.states = 0;
                draft.rule.never = Some("it is about the other family");
                return Ok(0);
            }
            "-4" | "-6" => return Ok(0),
            // Conntrack puts datagrams together, so no rule sees a later fragment.
            "-f" | "--fragment" => {
                if !not {
                    draft.rule.cube.states = 0;
                    draft.rule.never = Some("a rule sees datagrams as a whole, and no later fragment");
                }
                return Ok(0);
            }
            "--syn" => {
                syn(draft, !not);
                return Ok(0);
            }
            "--match-set" if self.matches_set(draft, not, behind) => return Ok(2),
            "--tcp-flags" => {
                self.enough(line, option, behind, 2)?;
                tcp_flags(draft, not, &behind[0].text, &behind[1].text);
                return Ok(2);
            }
            _ => {}
        }
        // As iptables wrote it before 1.4.3.
        let (is_not, value, values) = match behind {
            [mark, value, ..] if mark.text == "!" && !mark.quoted => (true, value.text.as_str(), 2),
            _ => (not, behind.first().map_or("", |value| value.text.as_str()), 1),
        };
        let Some(is_understood) = self.known(draft, is_not, name, value) else {
            return Ok(unknown(draft, not, name, behind));
        };
        self.enough(line, option, behind, 1)?;
        if !is_understood {
            let what = format!("`{}{name} {value}`", if is_not { "! " } else { "" });
            draft.rule.doubts.push(what);
        }
        Ok(values)
    }

    /// Takes a set of addresses that was given into the match. Returns false if there is none of the name, or not of addresses alone.
    fn matches_set(&self, draft: &mut Draft, not: bool, behind: &[Word]) -> bool {
        let [name, end, ..] = behind else { return false };
        let Some(Some(set)) = self.sets.get(&name.text) else { return false };
        let field = match end.text.as_str() {
            "src" => &mut draft.rule.cube.source,
            "dst" => &mut draft.rule.cube.destination,
            _ => return false,
        };
        let named = if not { AddressSet::any().without(set) } else { set.clone() };
        *field = AddressSet { v4: field.v4.common(&named.v4), v6: field.v6.common(&named.v6) };
        draft.known_sets += 1;
        true
    }

    fn enough(&self, line: usize, option: &Word, behind: &[Word], values: usize) -> Result<usize, Mistake> {
        if behind.len() < values {
            let message =
                format!("`{}` needs a value, and the line ends here: it may have been cut", option.text);
            return Err(self.mistake(line, option.column, message));
        }
        Ok(values)
    }

    /// Takes an option with one value into the match. Returns whether its value is understood; `None` if the option is not known.
    fn known(&mut self, draft: &mut Draft, not: bool, name: &str, value: &str) -> Option<bool> {
        let cube = &mut draft.rule.cube;
        let is_understood = match name {
            "-m" | "--match" => {
                draft.modules.push(value.to_owned());
                true
            }
            "-p" | "--protocol" | "--proto" => {
                if matches!(value, "all" | "0") {
                    return Some(!not);
                }
                let of = words::protocol(value).map(words::of_protocol);
                narrow(&mut cube.services, not, of, LAST_KEY)
            }
            "-s" | "--source" | "--src" => addresses(&mut cube.source, not, value),
            "-d" | "--destination" | "--dst" => addresses(&mut cube.destination, not, value),
            "--src-range" => addresses(&mut cube.source, not, value),
            "--dst-range" => addresses(&mut cube.destination, not, value),
            "-i" | "--in-interface" | "-o" | "--out-interface" => {
                self.interface(draft, not, matches!(name, "-o" | "--out-interface"), value)
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                draft.has_ports = true;
                narrow(&mut draft.destination_ports, not, ports(value), u16::MAX.into())
            }
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                draft.has_ports = true;
                narrow(&mut cube.source_ports, not, ports(value), u16::MAX.into())
            }
            "--icmp-type" | "--icmpv6-type" => {
                let protocol = if name == "--icmp-type" { ICMP } else { ICMPV6 };
                // The kernel takes the type 255 for any, whatever its code (net/ipv4/netfilter/ip_tables.c).
                let is_any = protocol == ICMP && value.split('/').next() == Some("255");
                let types = words::icmp(protocol, if is_any { "any" } else { value });
                narrow(&mut cube.services, not, types, LAST_KEY)
            }
            "--ctstate" | "--state" => states(&mut cube.states, not, value),
            // Source routes (RFC 5095): the firewall drops them by itself.
            "--rt-type" if value == "0" && !not => {
                cube.states = 0;
                draft.rule.never = Some("the firewall drops source routes by itself");
                true
            }
            "--dst-type" => kinds(&mut cube.kinds, not, value),
            "--pkt-type" => {
                // A frame for everybody carries a packet for everybody; the firewall drops what lies.
                match (value, not) {
                    ("unicast", false) | ("host", false) => cube.kinds &= kind::LOCAL | kind::OTHER,
                    ("broadcast", false) => cube.kinds &= kind::BROADCAST,
                    ("multicast", false) => cube.kinds &= kind::MULTICAST,
                    _ => {}
                }
                false
            }
            "--comment" => {
                draft.rule.comment = Some(value.to_owned());
                true
            }
            "--limit" | "--hashlimit-upto" => {
                // Of two limits one would be lost.
                let is_second = draft.rate.is_some();
                draft.rate = words::rate(value).filter(|_| !not && !is_second);
                draft.rate.is_some()
            }
            "--limit-burst" | "--hashlimit-burst" => {
                draft.burst = words::number(value).filter(|burst| *burst > 0);
                draft.burst.is_some()
            }
            LIMIT_NAME => {
                draft.shares |= self.shared_limits.contains(value);
                true
            }
            "--hashlimit-mode" => {
                draft.per = match value {
                    "srcip" => Some("source"),
                    "dstip" => Some("destination"),
                    _ => None,
                };
                draft.per.is_some()
            }
            _ => return None,
        };
        Some(is_understood)
    }

    fn interface(&mut self, draft: &mut Draft, not: bool, outside: bool, value: &str) -> bool {
        // Any, and none.
        if value == "+" {
            return !not;
        }
        let name = match value.strip_suffix('+') {
            Some(begin) => format!("{begin}*"),
            None => value.to_owned(),
        };
        let fits = self.ruleset.interfaces.add(&name);
        draft.rule.interfaces.push(InterfaceTest { outside, not, names: vec![name] });
        fits
    }

    /// What only the whole of the options says.
    fn finish(&self, draft: &mut Draft) {
        let rule = &mut draft.rule;
        if draft.has_ports {
            let protocols: Vec<u8> = words::protocols(&rule.cube.services).collect();
            let knows = protocols.iter().all(|protocol| words::has_ports(*protocol));
            if knows {
                let ports = draft.destination_ports.ranges();
                let keys = protocols.iter().flat_map(|protocol| {
                    ports
                        .iter()
                        .map(|(first, last)| (key(*protocol, *first as u16), key(*protocol, *last as u16)))
                });
                rule.cube.services = rule.cube.services.common(&RangeSet::of(keys));
            } else {
                rule.cube.source_ports = any_port();
                rule.doubts.push("ports of a protocol whose ports a policy does not know".to_owned());
            }
        }
        let loads = |name: &str| draft.modules.iter().any(|module| module == name);
        if loads("limit") && loads("hashlimit") {
            rule.doubts.push("two limits".to_owned());
        }
        // What the module `limit` does without options.
        if draft.rate.is_none() && loads("limit") {
            draft.rate = Some("3/h".to_owned());
        }
        if let Some(rate) = draft.rate.take() {
            let hash = draft.modules.iter().any(|module| module == "hashlimit");
            let burst = draft.burst.unwrap_or(5);
            if rule.verdict == Verdict::Accept && (!hash || draft.per.is_some()) && !draft.shares {
                rule.limit = Some(Limit { rate, burst, per: draft.per });
            } else if draft.shares && !rule.logs {
                rule.doubts.push(format!("a limit of {rate} that other rules have together with it"));
            } else if !rule.logs {
                rule.doubts.push(format!("a limit of {rate}"));
            }
        }
        // Other modules match something by being loaded.
        let loads_known =
            |module: &String| MODULES.contains(&module.as_str()) || module == "set" && draft.known_sets > 0;
        let unknown = draft.modules.iter().filter(|module| !loads_known(module));
        let unknown: Vec<String> = unknown.map(|module| format!("the match `{module}`")).collect();
        if rule.doubts.is_empty() {
            rule.doubts.extend(unknown);
        }
    }
}

/// Modules that match nothing but what their options say.
const MODULES: &[&str] = &[
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "icmpv6",
    "conntrack",
    "state",
    "multiport",
    "iprange",
    "addrtype",
    "comment",
    "limit",
    "hashlimit",
    "pkttype",
];

fn is_target(word: &Word) -> bool {
    !word.quoted && matches!(word.text.as_str(), "-j" | "--jump" | "-g" | "--goto")
}

/// As iptables takes an option that is cut.
fn is_short_for_target(word: &Word) -> bool {
    word.text.len() > 2 && ["--jump", "--goto"].iter().any(|whole| whole.starts_with(&word.text))
}

/// Whether a word begins what a rule matches, behind the options of a target.
fn is_match(word: &Word) -> bool {
    const MATCHES: [&str; 20] = [
        "!",
        "-p",
        "--protocol",
        "--proto",
        "-s",
        "--source",
        "--src",
        "-d",
        "--destination",
        "--dst",
        "-i",
        "--in-interface",
        "-o",
        "--out-interface",
        "-m",
        "--match",
        "-f",
        "--fragment",
        "-4",
        "-6",
    ];
    !word.quoted && MATCHES.contains(&word.text.as_str())
}

/// An option that this program does not know matches some of the packets. Its values go up to the next option.
fn unknown(draft: &mut Draft, not: bool, name: &str, behind: &[Word]) -> usize {
    let is_option =
        |word: &Word| !word.quoted && (word.text == "!" || word.text.starts_with('-') && word.text.len() > 1);
    let values = behind.iter().take_while(|word| !is_option(word)).count();
    let all: Vec<&str> = behind[..values].iter().map(|word| word.text.as_str()).collect();
    let what =
        [if not { "! " } else { "" }, name, if all.is_empty() { "" } else { " " }, &all.join(" ")].concat();
    draft.rule.doubts.push(format!("`{what}`"));
    values
}

/// Takes what a set does not name out of a field, or what it names. Returns false if there is no set.
fn narrow(field: &mut RangeSet<u32>, not: bool, set: Option<RangeSet<u32>>, last: u32) -> bool {
    let Some(set) = set else { return false };
    let set = if not { RangeSet::of([(0, last)]).without(&set) } else { set };
    *field = field.common(&set);
    true
}

fn addresses(field: &mut AddressSet, not: bool, value: &str) -> bool {
    let sets: Option<Vec<AddressSet>> = value.split(',').map(words::addresses).collect();
    let Some(sets) = sets else { return false };
    let named = AddressSet::union(&sets);
    let named = if not { AddressSet::any().without(&named) } else { named };
    *field = AddressSet { v4: field.v4.common(&named.v4), v6: field.v6.common(&named.v6) };
    true
}

/// `22`, `ssh`, `1024:65535`, `22,80,8000:8080`.
fn ports(value: &str) -> Option<RangeSet<u32>> {
    let ranges: Option<Vec<(u32, u32)>> = value.split(',').map(|part| words::ports(part, ':')).collect();
    ranges.map(RangeSet::of)
}

fn states(field: &mut u8, not: bool, value: &str) -> bool {
    let mut named = 0;
    let mut all_known = true;
    for name in value.split(',') {
        named |= match name {
            "NEW" => state::NEW,
            "ESTABLISHED" => state::ESTABLISHED,
            "RELATED" => state::RELATED,
            "INVALID" => state::INVALID,
            "UNTRACKED" => state::UNTRACKED,
            // SNAT and DNAT are of translated packets, of any state.
            _ => {
                all_known = false;
                state::ALL
            }
        };
    }
    if all_known {
        *field &= if not { state::ALL & !named } else { named };
    }
    all_known
}

fn kinds(field: &mut u8, not: bool, value: &str) -> bool {
    let mut named = 0;
    for name in value.split(',') {
        named |= match name {
            "LOCAL" => kind::LOCAL,
            "BROADCAST" => kind::BROADCAST,
            "MULTICAST" => kind::MULTICAST,
            "UNICAST" => kind::OTHER,
            _ => return false,
        };
    }
    *field &= if not { kind::ALL & !named } else { named };
    true
}

/// Of TCP only a SYN opens a flow here.
fn syn(draft: &mut Draft, is: bool) {
    let cube = &mut draft.rule.cube;
    cube.services = cube.services.common(&words::of_protocol(TCP));
    if is {
        cube.states &= state::NEW;
    } else {
        cube.states &= state::ALL & !state::NEW;
    }
}

/// `--tcp-flags SYN,ACK SYN`.
fn tcp_flags(draft: &mut Draft, not: bool, mask: &str, set: &str) {
    let list = |text: &str| match text {
        "ALL" => "fin,syn,rst,psh,ack,urg".to_owned(),
        "NONE" => String::new(),
        _ => text.to_ascii_lowercase(),
    };
    let (mask, set) = (list(mask), list(set));
    let flags = |text| str::split(text, ',').filter(|flag| !flag.is_empty()).collect::<Vec<_>>();
    if !crate::tcp_flags::narrow(&mut draft.rule.cube, not, &flags(&mask), &flags(&set)) {
        draft.rule.doubts.push("TCP flags".to_owned());
    }
}
