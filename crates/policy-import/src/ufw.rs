//! ufw's own files. `/etc/ufw/user.rules` and `user6.rules` are for iptables-restore, and their chains hang on others that ufw makes when it
//! starts; `/etc/default/ufw` says what becomes of packets that no rule matches. What ufw allows by itself before the user's rules
//! (`before.rules`) is in none of them, and so it is not carried over.

use crate::report::{Mistake, mistake};
use crate::ruleset::{Place, Ruleset};
use crate::{Source, iptables};
use std::collections::HashMap;

/// What ufw calls its ways, and what iptables does.
const WAYS: [(&str, &str, &str); 3] = [
    ("DEFAULT_INPUT_POLICY", "INPUT", "input"),
    ("DEFAULT_FORWARD_POLICY", "FORWARD", "forward"),
    ("DEFAULT_OUTPUT_POLICY", "OUTPUT", "output"),
];

/// The beginning of the names of the user's chains, of IPv4 and of IPv6.
const USER: [&str; 2] = ["ufw-user-", "ufw6-user-"];
const V6: usize = 1;

/// Reads the files, in any order.
pub(crate) fn read(sources: &[Source]) -> Result<Ruleset, Mistake> {
    let mut ruleset = Ruleset::default();
    let defaults = sources.iter().position(|source| is_defaults(&source.text));
    let values = defaults.map(|at| values(&sources[at].text)).unwrap_or_default();
    for (number, source) in sources.iter().enumerate() {
        let wrong = |message: &str| mistake(sources, Place { source: number, ..Place::default() }, message);
        if is_defaults(&source.text) {
            if defaults != Some(number) {
                return Err(wrong("this is a second file with what ufw does by default"));
            }
            continue;
        }
        let Some(family) = family(&source.text) else {
            return Err(iptables::other_format(&source.text).map_or_else(
                || wrong("this is no file of ufw: give /etc/ufw/user.rules, /etc/ufw/user6.rules and /etc/default/ufw"),
                |message| wrong(&message),
            ));
        };
        if family == V6 && defaults.is_some() && !is_yes(&values, "IPV6") {
            let why =
                "/etc/default/ufw does not say IPV6=yes, so ufw drops all IPv6 and asks none of these rules";
            let place = Place { source: number, ..Place::default() };
            ruleset.remarks.push((place, String::new(), why.to_owned()));
            continue;
        }
        if std::mem::replace(&mut ruleset.families[family], true) {
            return Err(wrong("these rules are of the same family as those of another file"));
        }
        let mut lines: Vec<String> = source.text.lines().map(|line| line.trim_end().to_owned()).collect();
        let limited = write_limits(&mut lines, USER[family]);
        for line in &limited {
            let place = Place { source: number, line: *line, column: 1 };
            ruleset.remarks.push((place, lines[line - 1].clone(), said_of_limits(limited.len())));
        }
        let implied = add_framework(&mut lines, USER[family], &values).map_err(|message| wrong(&message))?;
        let text = lines.join("\n") + "\n";
        iptables::read_with_implied(sources, number, family != V6, &text, implied, &mut ruleset)?;
    }
    if ruleset.bases.is_empty() {
        return Err(mistake(
            sources,
            Place::default(),
            "there are no rules in it: give /etc/ufw/user.rules as well",
        ));
    }
    let mut remark = |why: &str| ruleset.remarks.push((Place::default(), String::new(), why.to_owned()));
    remark(
        "what ufw does before its user's rules (/etc/ufw/before.rules: pings, answers of DHCP, multicast) is not in these files; add what is \
         needed, and if somebody denies something there, import what iptables-save prints on that machine",
    );
    if defaults.is_none() {
        remark(
            "what becomes of packets that no rule matches stands in /etc/default/ufw, which was not given: they are denied, those that the \
             machine sends too",
        );
    }
    Ok(ruleset)
}

fn is_defaults(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("DEFAULT_INPUT_POLICY="))
}

fn family(text: &str) -> Option<usize> {
    USER.iter().position(|user| text.contains(&format!(":{user}input")))
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

/// Puts the chains that ufw makes around the user's in place of the last COMMIT and behind it, so that all rules keep their lines. Returns the
/// number of the first line of those.
fn add_framework(lines: &mut Vec<String>, user: &str, values: &HashMap<&str, &str>) -> Result<usize, String> {
    let Some(commit) = lines.iter().rposition(|line| line == "COMMIT") else {
        return Err("the text has no COMMIT, so something may be missing".to_owned());
    };
    if lines.iter().any(|line| line.starts_with('*') && line != "*filter") {
        return Err(
            "there is another table than `filter`: give what iptables-save prints on that machine".to_owned()
        );
    }
    let behind = lines.split_off(commit + 1);
    if behind.iter().any(|line| !line.is_empty() && !line.starts_with('#')) {
        return Err("there are lines behind the last COMMIT".to_owned());
    }
    lines.pop();
    for (setting, chain, way) in WAYS {
        let policy = match values.get(setting).copied().unwrap_or("DROP") {
            "ACCEPT" => "ACCEPT",
            "DROP" | "REJECT" => "DROP",
            other => {
                return Err(format!(
                    "/etc/default/ufw: {setting} is `{other}`, and not ACCEPT, DROP or REJECT"
                ));
            }
        };
        lines.push(format!(":{chain} {policy} [0:0]"));
        match chain {
            "INPUT" => lines.push("-A INPUT -i lo -j ACCEPT".to_owned()),
            "OUTPUT" => lines.push("-A OUTPUT -o lo -j ACCEPT".to_owned()),
            _ => (),
        }
        lines.push(format!("-A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"));
        lines.push(format!("-A {chain} -j {user}{way}"));
        if values.get(setting).copied() == Some("REJECT") {
            lines.push(format!("-A {chain} -j REJECT"));
        }
    }
    lines.push("COMMIT".to_owned());
    Ok(commit + 1)
}
