//! ufw's own files. `/etc/ufw/user.rules` and `user6.rules` are for iptables-restore, and their chains hang on others that ufw makes when it
//! starts; `/etc/default/ufw` says what becomes of packets that no rule matches. What stands before and behind the user's rules
//! (`before.rules`, `after.rules`) counts if it is given; without it nothing of it is carried over.

use crate::Source;
use crate::iptables::{self, Part};
use crate::report::{Mistake, mistake};
use crate::ruleset::{Place, Ruleset};
use std::collections::HashMap;

/// What ufw calls its ways, and what iptables does.
const WAYS: [(&str, &str, &str); 3] = [
    ("DEFAULT_INPUT_POLICY", "INPUT", "input"),
    ("DEFAULT_FORWARD_POLICY", "FORWARD", "forward"),
    ("DEFAULT_OUTPUT_POLICY", "OUTPUT", "output"),
];

/// The beginning of the names of chains, of IPv4 and of IPv6.
const FAMILIES: [&str; 2] = ["ufw-", "ufw6-"];
const V6: usize = 1;

/// Which of ufw's files of rules it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    Before,
    User,
    After,
}

const FILES: [(File, &str); 3] = [(File::Before, "before"), (File::User, "user"), (File::After, "after")];

/// Reads the files, in any order.
pub(crate) fn read(sources: &[Source]) -> Result<Ruleset, Mistake> {
    let mut ruleset = Ruleset::default();
    let defaults = sources.iter().position(|source| is_defaults(&source.text));
    let values = defaults.map(|at| values(&sources[at].text)).unwrap_or_default();
    let mut files: [Vec<(File, usize)>; 2] = Default::default();
    for (number, source) in sources.iter().enumerate() {
        let wrong = |message: &str| mistake(sources, Place { source: number, ..Place::default() }, message);
        if is_defaults(&source.text) {
            if defaults != Some(number) {
                return Err(wrong("this is a second file with what ufw does by default"));
            }
            continue;
        }
        let (family, file) = kind(&source.text).map_err(|message| wrong(&message))?;
        if family == V6 && defaults.is_some() && !is_yes(&values, "IPV6") {
            let why =
                "/etc/default/ufw does not say IPV6=yes, so ufw drops all IPv6 and asks none of these rules";
            let place = Place { source: number, ..Place::default() };
            ruleset.remarks.push((place, String::new(), why.to_owned()));
            continue;
        }
        if files[family].iter().any(|(other, _)| *other == file) {
            return Err(wrong("these rules are of the same family as those of another file"));
        }
        files[family].push((file, number));
    }
    for (family, files) in files.iter().enumerate().filter(|(_, files)| !files.is_empty()) {
        ruleset.families[family] = true;
        read_family(sources, family, files, &values, &mut ruleset)?;
    }
    if ruleset.bases.is_empty() {
        return Err(mistake(
            sources,
            Place::default(),
            "there are no rules in it: give /etc/ufw/user.rules as well",
        ));
    }
    remark(&files, defaults.is_some(), &mut ruleset);
    Ok(ruleset)
}

/// Says what the files that were not given would have said.
fn remark(files: &[Vec<(File, usize)>], has_defaults: bool, ruleset: &mut Ruleset) {
    let mut remark = |why: &str| ruleset.remarks.push((Place::default(), String::new(), why.to_owned()));
    let lacks =
        |file: File| files.iter().any(|of| !of.is_empty() && !of.iter().any(|(other, _)| *other == file));
    if lacks(File::Before) {
        remark(
            "what ufw does before its user's rules (/etc/ufw/before.rules and before6.rules: pings, answers of DHCP, multicast) is not in these \
             files; give those as well, or add what is needed, and if somebody denies something there or in after.rules, import what \
             iptables-save prints on that machine",
        );
    } else if lacks(File::After) {
        remark(
            "what ufw does behind its user's rules (/etc/ufw/after.rules and after6.rules) is not in these files: give them as well if somebody \
             denies something there",
        );
    }
    if !has_defaults {
        remark(
            "what becomes of packets that no rule matches stands in /etc/default/ufw, which was not given: they are denied, those that the \
             machine sends too",
        );
    }
}

/// Adds the files of a family.
fn read_family(
    sources: &[Source],
    family: usize,
    files: &[(File, usize)],
    values: &HashMap<&str, &str>,
    ruleset: &mut Ruleset,
) -> Result<(), Mistake> {
    let place_of = |file: File| files.iter().find(|(other, _)| *other == file).map(|(_, place)| *place);
    let Some(source) = place_of(File::User) else {
        let place = Place { source: files[0].1, ..Place::default() };
        let message = "the rules of ufw's user are not among the files: give /etc/ufw/user.rules or user6.rules as well";
        return Err(mistake(sources, place, message));
    };
    let wrong = |message: String| mistake(sources, Place { source, ..Place::default() }, message);
    let prefix = FAMILIES[family];
    let mut lines: Vec<String> =
        sources[source].text.lines().map(|line| line.trim_end().to_owned()).collect();
    let limited = write_limits(&mut lines, &format!("{prefix}user-"));
    for line in &limited {
        let place = Place { source, line: *line, column: 1 };
        ruleset.remarks.push((place, lines[line - 1].clone(), said_of_limits(limited.len())));
    }
    let end = end_of(&lines).map_err(&wrong)?;
    let whole = |file: File| {
        place_of(file).map(|source| Part { source, text: sources[source].text.clone(), is_implied: false })
    };
    // In lines behind the user's, so that no place means two things.
    let mut next = end;
    let mut made = |lines: Vec<String>| {
        let text = format!("{}*filter\n{}\nCOMMIT\n", "\n".repeat(next - 1), lines.join("\n"));
        next += lines.len() + 1;
        Part { source, text, is_implied: true }
    };
    let user = Part { source, text: lines.join("\n") + "\n", is_implied: false };
    let has_others = files.len() > 1;
    let mut parts = Vec::new();
    if has_others {
        parts.push(made(framework(prefix, values).map_err(&wrong)?));
    }
    parts.extend(whole(File::Before));
    parts.push(user);
    parts.extend(whole(File::After));
    let calls = || WAYS.map(|(.., way)| format!("-A {prefix}before-{way} -j {prefix}user-{way}")).to_vec();
    parts.push(made(match () {
        () if place_of(File::Before).is_some() => calls(),
        () if has_others => [answers(prefix), calls()].concat(),
        () => around_user(prefix, values).map_err(&wrong)?,
    }));
    iptables::read_parts(sources, family != V6, &parts, ruleset)
}

/// What ufw lets pass before all rules of its user.
fn answers(prefix: &str) -> Vec<String> {
    let mut lines = vec![
        format!("-A {prefix}before-input -i lo -j ACCEPT"),
        format!("-A {prefix}before-output -o lo -j ACCEPT"),
    ];
    lines.extend(WAYS.map(|(.., way)| {
        format!("-A {prefix}before-{way} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    }));
    lines
}

/// Which file a text is, and of which family.
fn kind(text: &str) -> Result<(usize, File), String> {
    let declares = |chain: String| text.lines().any(|line| line.trim_start().starts_with(&chain));
    let mut found = Vec::new();
    for (family, prefix) in FAMILIES.iter().enumerate() {
        let of = FILES.iter().filter(|(_, name)| declares(format!(":{prefix}{name}-input")));
        found.extend(of.map(|(file, _)| (family, *file)));
    }
    match found[..] {
        [one] => Ok(one),
        [] => Err(iptables::other_format(text).unwrap_or_else(|| {
            "this is no file of ufw: give /etc/ufw/user.rules, /etc/ufw/user6.rules and /etc/default/ufw".to_owned()
        })),
        _ => Err(
            "this has chains of several of ufw's files, as what iptables-save prints: rampart import iptables-save FILE"
                .to_owned(),
        ),
    }
}

fn is_defaults(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("DEFAULT_INPUT_POLICY="))
}

/// The settings of a file of shell assignments; of two of one name the last, as in a shell.
fn values(text: &str) -> HashMap<&str, &str> {
    let assignments = text.lines().filter_map(|line| line.trim().split_once('='));
    assignments.map(|(name, value)| (name, value.trim_matches(['"', '\'']))).collect()
}

fn is_yes(values: &HashMap<&str, &str>, setting: &str) -> bool {
    values.get(setting).is_some_and(|value| value.eq_ignore_ascii_case("yes"))
}

/// What `ufw limit` becomes where so many rules have it: at once, and seconds from one to the next. ufw remembers sources in one list for all of them,
/// and lets five new connections pass within 30 s; the rules here have a limit each, and these are five together at most. `None`: there are more.
fn limit_of(rules: usize) -> Option<(u32, u32)> {
    match rules {
        1 => Some((2, 10)),
        2 => Some((1, 20)),
        3..=5 => Some((1, 60)),
        _ => None,
    }
}

fn said_of_limits(rules: usize) -> String {
    let (at_once, seconds) = limit_of(rules).unwrap_or_default();
    let words = ["none", "one", "two"].get(at_once as usize).copied().unwrap_or_default();
    let (there, here) = match rules {
        1 => (String::new(), String::new()),
        _ => (format!(", at the {rules} limited rules together"), " at each of them".to_owned()),
    };
    format!(
        "ufw denies the sixth new connection of a source within 30 s{there}; here a source has {words} at once and then one every {seconds} s{here}"
    )
}

/// Writes what `ufw limit` makes, three lines that remember sources, as a rate of each source. Returns the numbers of the lines that have it.
fn write_limits(lines: &mut [String], user: &str) -> Vec<usize> {
    let accept = format!(" -j {user}limit-accept");
    if !lines.contains(&format!("-A {user}limit-accept -j ACCEPT")) {
        return Vec::new();
    }
    let new = " -m conntrack --ctstate NEW -m recent";
    let limited_by = |first: usize| -> Option<String> {
        let matched = lines[first].strip_suffix(&format!("{new} --set"))?;
        let denies = format!("{matched}{new} --update --seconds 30 --hitcount 6 -j {user}limit");
        (lines[first + 1] == denies && lines[first + 2] == format!("{matched}{accept}"))
            .then(|| matched.to_owned())
    };
    let limited: Vec<(usize, String)> =
        (0..lines.len().saturating_sub(2)).filter_map(|first| Some((first, limited_by(first)?))).collect();
    let Some((at_once, seconds)) = limit_of(limited.len()) else { return Vec::new() };
    let rate = 60 / seconds;
    for (place, (first, matched)) in limited.iter().enumerate() {
        // Of one name they would be one limit.
        let name = if place == 0 { "ufw".to_owned() } else { format!("ufw-{}", place + 1) };
        lines[*first].clear();
        lines[first + 1].clear();
        lines[first + 2] = format!(
            "{matched} -m hashlimit --hashlimit-upto {rate}/minute --hashlimit-burst {at_once} --hashlimit-mode srcip --hashlimit-name {name} \
             -j ACCEPT"
        );
    }
    limited.iter().map(|(first, _)| first + 3).collect()
}

/// The number of the line with the last COMMIT.
fn end_of(lines: &[String]) -> Result<usize, String> {
    let Some(commit) = lines.iter().rposition(|line| line == "COMMIT") else {
        return Err("the text has no COMMIT, so something may be missing".to_owned());
    };
    if lines.iter().any(|line| line.starts_with('*') && line != "*filter") {
        return Err(
            "there is another table than `filter`: give what iptables-save prints on that machine".to_owned()
        );
    }
    if lines[commit + 1..].iter().any(|line| !line.is_empty() && !line.starts_with('#')) {
        return Err("there are lines behind the last COMMIT".to_owned());
    }
    Ok(commit.max(1))
}

/// What becomes of a way's packets that no rule matches.
fn policy<'v>(setting: &str, values: &HashMap<&str, &'v str>) -> Result<&'v str, String> {
    match values.get(setting).copied().unwrap_or("DROP") {
        known @ ("ACCEPT" | "DROP" | "REJECT") => Ok(known),
        other => Err(format!("/etc/default/ufw: {setting} is `{other}`, and not ACCEPT, DROP or REJECT")),
    }
}

/// What iptables calls it, as the policy of a chain.
fn of_chain(policy: &str) -> &str {
    if policy == "ACCEPT" { "ACCEPT" } else { "DROP" }
}

/// The chains around the user's alone: what ufw lets pass before them, as far as it is surely so.
fn around_user(prefix: &str, values: &HashMap<&str, &str>) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for (setting, chain, way) in WAYS {
        let policy = policy(setting, values)?;
        lines.push(format!(":{chain} {} [0:0]", of_chain(policy)));
        match chain {
            "INPUT" => lines.push("-A INPUT -i lo -j ACCEPT".to_owned()),
            "OUTPUT" => lines.push("-A OUTPUT -o lo -j ACCEPT".to_owned()),
            _ => (),
        }
        lines.push(format!("-A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"));
        lines.push(format!("-A {chain} -j {prefix}user-{way}"));
        if policy == "REJECT" {
            lines.push(format!("-A {chain} -j REJECT"));
        }
    }
    Ok(lines)
}

/// The chains that ufw makes when it starts, before it restores its files.
fn framework(prefix: &str, values: &HashMap<&str, &str>) -> Result<Vec<String>, String> {
    const STAGES: [&str; 5] = ["before-logging", "before", "after", "after-logging", "reject"];
    let mut lines: Vec<String> = ["logging-deny", "logging-allow", "user-limit", "user-limit-accept"]
        .map(|chain| format!(":{prefix}{chain} - [0:0]"))
        .to_vec();
    for (setting, chain, way) in WAYS {
        let policy = policy(setting, values)?;
        lines.push(format!(":{chain} {} [0:0]", of_chain(policy)));
        let own = STAGES.iter().chain(&["user", "skip-to-policy"]);
        lines.extend(own.map(|stage| format!(":{prefix}{stage}-{way} - [0:0]")));
        lines.extend(STAGES.map(|stage| format!("-A {chain} -j {prefix}{stage}-{way}")));
        lines.push(format!("-A {prefix}skip-to-policy-{way} -j {policy}"));
        if policy == "REJECT" {
            lines.push(format!("-A {prefix}reject-{way} -j REJECT"));
        }
    }
    Ok(lines)
}
