//! Imports of which every rule is accounted for: its line stands in the policy, or in a finding. Asked of the texts, and not of the importer.

use policy_import::{Format, Imported, Mistake, Options, Source};
use std::collections::HashSet;

/// Imports, and sees that no rule of the texts vanished. Of nftables the rules are counted by the importer alone if the text is not `regular`, one
/// rule a line.
pub(crate) fn import(
    format: Format,
    sources: &[Source],
    options: &Options,
    regular: bool,
) -> Result<Imported, Mistake> {
    let imported = policy_import::import(format, sources, options)?;
    let rules = imported.rules;
    assert_eq!(rules.read, rules.carried + rules.said, "{rules:?}\n{}", texts(sources));
    if format != Format::Nft || regular {
        let read: usize = sources.iter().map(|source| account(format, sources, source, &imported)).sum();
        assert_eq!(rules.read, read, "{}", texts(sources));
    }
    Ok(imported)
}

fn texts(sources: &[Source]) -> String {
    sources.iter().map(|source| format!("{}:\n{}\n", source.name, source.text)).collect()
}

/// The number of a text's rules. Each has its line above a rule of the policy or in a finding.
fn account(format: Format, sources: &[Source], source: &Source, imported: &Imported) -> usize {
    let of_file = || imported.findings.iter().filter(|finding| finding.file == source.name);
    if of_file().any(|finding| finding.why.contains("asks none of these rules")) {
        return 0;
    }
    let said: HashSet<usize> = of_file().map(|finding| finding.line).collect();
    let before = if sources.len() == 1 { "# line ".to_owned() } else { format!("# {}:", source.name) };
    let written: HashSet<usize> = imported.policy.lines().filter_map(|line| number(line, &before)).collect();
    // Of the three lines of `ufw limit` the last is its rule.
    let limits: HashSet<usize> = of_file()
        .filter(|finding| finding.why.starts_with("ufw denies the sixth"))
        .flat_map(|finding| [finding.line - 2, finding.line - 1])
        .collect();
    let mut rules = if format == Format::Nft { of_nft(&source.text) } else { of_iptables(&source.text) };
    rules.retain(|(line, _)| !limits.contains(line));
    for (number, line) in &rules {
        assert!(
            is_about_others(line) || written.contains(number) || said.contains(number),
            "line {number} vanished: {line}\n{}\n{}{:?}",
            source.text,
            imported.policy,
            imported.findings
        );
    }
    rules.len()
}

/// The number behind the beginning of a comment.
fn number(line: &str, before: &str) -> Option<usize> {
    line.strip_prefix(before)?.split(':').next()?.parse().ok()
}

/// What has no line in a policy: a return says which packets the rules behind it are about, and what is logged is written at the rule behind it.
fn is_about_others(line: &str) -> bool {
    line.split([' ', '\t']).any(|word| ["RETURN", "return", "LOG", "NFLOG", "ULOG", "log"].contains(&word))
}

fn of_iptables(text: &str) -> Vec<(usize, &str)> {
    let is_rule = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with('['));
        words.next().is_some_and(|first| ["-A", "-I", "--append", "--insert"].contains(&first))
    };
    (1..).zip(text.lines()).filter(|(_, line)| is_rule(line)).collect()
}

/// Lines in chains, other than those about the chain itself, and commands that add rules.
fn of_nft(text: &str) -> Vec<(usize, &str)> {
    let mut rules = Vec::new();
    let mut is_chain = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with("add rule ") || line.starts_with("insert rule ") {
            rules.push((number, line));
            continue;
        }
        let begins = line.starts_with("chain ");
        is_chain = begins || is_chain && line != "}";
        if is_chain
            && !begins
            && !["", "type", "policy", "flags"].contains(&line.split(' ').next().unwrap_or_default())
        {
            rules.push((number, line));
        }
    }
    rules
}
