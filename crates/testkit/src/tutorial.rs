//! Tutorials that are done as they are written: their files are made, their commands are typed into one shell in a network namespace that
//! nobody else sees, and what the commands print is compared with what the page shows.
//!
//! A block of `toml` is the file whose name ends the line before it: "…, `policy.toml`:". A block of `sh` is typed as it stands, and must work. In a block of
//! `console` a command stands behind `$ `, and what it prints below it, where `...` is any text and a line `...` any lines. Times and the numbers of
//! processes are never compared.

use std::path::Path;
use std::process::Command;

/// Longest time that a whole tutorial takes on the slowest machine.
const PATIENCE_SECONDS: u32 = 180;
/// Begins a line after which the output of the step with the number behind it comes.
const MARK: char = '\u{1e}';
/// What a page leaves out.
const GAP: &str = "...";

/// What a reader does.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Writes a file.
    File { name: String, text: String },
    /// Types a command; the page shows what it prints if that is said.
    Command { line: usize, text: String, shown: Option<String> },
}

/// Does a tutorial with the programs of a folder, and fails where the page and the machine differ. Needs root.
pub fn follow(page: &str, programs: &Path) {
    crate::must_be_root();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let steps = steps(&std::fs::read_to_string(&path).unwrap());
    assert!(steps.iter().any(|step| matches!(step, Step::Command { .. })), "{page} has no commands");
    let output = Command::new("timeout")
        .args(["--kill-after=5", &(PATIENCE_SECONDS * crate::slowness()).to_string()])
        .args([
            "unshare",
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "bash",
            "-c",
        ])
        .arg(script(&steps))
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default()))
        .envs([("NO_COLOR", "1"), ("LC_ALL", "C"), ("RAMPART_BENCH_HISTORY", "off")])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let differences = differences(&steps, &said);
    assert!(differences.is_empty(), "{page}: {}\nall of it:\n{said}", differences.join("\n"));
}

/// All in one shell, so that what one step leaves is there for the next. A page shows both outputs of a command as a terminal does.
fn script(steps: &[Step]) -> String {
    let mut script =
        "exec 2>&1\nmount -t tmpfs none /run && mkdir /run/netns /run/work && cd /run/work || exit\n\
                      ip link set lo up\nsudo() { \"$@\"; }\n"
            .to_owned();
    for (number, step) in steps.iter().enumerate() {
        script += &match step {
            Step::File { name, text } => format!("cat > '{name}' <<'END OF {name}'\n{text}END OF {name}\n"),
            Step::Command { text, shown: Some(_), .. } => format!("echo '{MARK}{number}'\n{text}\n"),
            Step::Command { text, shown: None, .. } => {
                format!("echo '{MARK}{number}'\n{{ {text}\n}} || {{ echo \"{MARK}failed\"; exit 1; }}\n")
            }
        };
    }
    script + &format!("echo '{MARK}{}'\n", steps.len())
}

fn differences(steps: &[Step], said: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut outputs: Vec<Option<&str>> = vec![None; steps.len() + 1];
    for part in said.split(MARK).skip(1) {
        let (number, output) = part.split_once('\n').unwrap_or((part, ""));
        match number.parse::<usize>() {
            Ok(number) if number < outputs.len() => outputs[number] = Some(output),
            _ => found.push("a command of a block of `sh` failed".to_owned()),
        }
    }
    if outputs[steps.len()].is_none() {
        found.push("the shell did not come to the end".to_owned());
    }
    for (step, output) in steps.iter().zip(outputs) {
        let Step::Command { line, text, shown: Some(shown) } = step else { continue };
        let Some(output) = output else { continue };
        let lines = |text: &str| -> Vec<String> { text.lines().map(|line| plain(line.trim_end())).collect() };
        let (shown, printed) = (lines(shown), lines(output));
        if !agree(&shown, &printed) {
            let (shown, printed) = (shown.join("\n"), printed.join("\n"));
            found.push(format!(
                "line {line}: `{text}`\n--- the page shows\n{shown}\n--- it prints\n{printed}"
            ));
        }
    }
    found
}

/// A line without what is different each time: moments, the numbers of processes, and how wide a column is.
fn plain(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    for at in 0..words.len() {
        let is_moment = words[at].len() > 18 && words[at].as_bytes()[4] == b'-' && words[at].contains('T');
        if is_moment || (at > 0 && words[at - 1] == "process") {
            words[at] = GAP;
        }
    }
    words.join(" ")
}

/// Whether these lines are what a page shows of them.
fn agree(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((gap, rest)) if gap == GAP => (0..=printed.len()).any(|from| agree(rest, &printed[from..])),
        Some((line, rest)) => printed.split_first().is_some_and(|(first, others)| {
            is_like(&line.split(GAP).collect::<Vec<_>>(), first) && agree(rest, others)
        }),
    }
}

/// Whether a text has these parts in their order, from its beginning to its end, with anything between them.
fn is_like(parts: &[&str], text: &str) -> bool {
    match parts {
        [] => text.is_empty(),
        [only] => text == *only,
        [first, middle @ .., last] => {
            let Some(mut rest) = text.strip_prefix(first) else { return false };
            for part in middle {
                let Some((_, after)) = rest.split_once(part) else { return false };
                rest = after;
            }
            rest.ends_with(last)
        }
    }
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut before = "";
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            if !line.trim().is_empty() {
                before = line;
            }
            continue;
        };
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let text = || block.iter().map(|line| format!("{line}\n")).collect::<String>();
        match (kind, before.strip_suffix("`:").and_then(|before| before.rsplit('`').next())) {
            ("toml", Some(name)) => steps.push(Step::File { name: name.to_owned(), text: text() }),
            ("sh", _) => steps.push(Step::Command { line: at + 2, text: text(), shown: None }),
            ("console", _) => steps.extend(typed(at + 2, &block)),
            _ => {}
        }
    }
    steps
}

/// The commands of a block, each with the output below it.
fn typed(first_line: usize, block: &[&str]) -> Vec<Step> {
    let mut typed: Vec<Step> = Vec::new();
    for (at, line) in block.iter().enumerate() {
        match (line.strip_prefix("$ "), typed.last_mut()) {
            (Some(command), _) => typed.push(Step::Command {
                line: first_line + at,
                text: command.to_owned(),
                shown: Some(String::new()),
            }),
            (None, Some(Step::Command { shown: Some(shown), .. })) => *shown += &format!("{line}\n"),
            (None, _) => panic!("line {}: output before a command", first_line + at),
        }
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_and_differences_are_named() {
        let page = "A file, `a.toml`:\n\n```toml\nx = 1\n```\n\n```sh\ntrue\n```\n\n```console\n$ one\nfirst ... at 2026-11-24T18:01:34Z\n...\nlast\n$ two\n```\n";
        let steps = steps(page);
        assert_eq!(steps[0], Step::File { name: "a.toml".to_owned(), text: "x = 1\n".to_owned() });
        assert_eq!(steps.len(), 4);
        let said = |one: &str, two: &str| format!("\u{1e}1\n\u{1e}2\n{one}\u{1e}3\n{two}\u{1e}4\n");
        for (one, two, said_of) in [
            ("first of  all at 2027-01-01T00:00:00.1Z\nlast\n", "", ""),
            ("first 1 at 2027-01-01T00:00:00Z\nbetween\nothers\nlast\n", "", ""),
            ("first 1 at 2027-01-01T00:00:00Z\n", "", "line 12: `one`"),
            ("second 1 at 2027-01-01T00:00:00Z\nlast\n", "", "line 12: `one`"),
            ("first 1 at 2027-01-01T00:00:00Z\nlast\nmore\n", "", "line 12: `one`"),
            ("first 1 at 2027-01-01T00:00:00Z\nlast\n", "unexpected\n", "line 16: `two`"),
        ] {
            let found = differences(&steps, &said(one, two)).join("\n");
            assert!(
                if said_of.is_empty() { found.is_empty() } else { found.contains(said_of) },
                "{one}{two}: {found}"
            );
        }
        assert_ne!(
            differences(&steps, "\u{1e}1\n\u{1e}failed\n"),
            [""; 0],
            "a command that fails is no tutorial"
        );
    }
}
