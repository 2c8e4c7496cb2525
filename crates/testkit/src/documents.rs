//! Commands as documents and help texts show them, so that a test can ask the command line whether it still takes them.

use std::path::{Path, PathBuf};

/// A command that a text shows.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// File or help text, and line.
    pub place: String,
    /// The program's name first.
    pub words: Vec<String>,
    /// Shown within a sentence, where what a reader knows may be left out: its first words must be right, and its options.
    pub in_a_sentence: bool,
}

/// What the command line does not take of what documents and its own help show, `least` commands or more, each with its place and why.
pub fn not_taken(mut cli: clap::Command, least: usize) -> Vec<String> {
    cli.build();
    let mut shown = commands(cli.get_name());
    shown.extend(helped(&cli, cli.get_name()));
    assert!(shown.len() >= least, "documents are full of commands: {}", shown.len());
    shown
        .into_iter()
        .filter_map(|shown| {
            Some(format!("{}: {}: {}", shown.place, shown.words.join(" "), why_not(&cli, &shown)?))
        })
        .collect()
}

/// The commands in the help of a command and of all below it.
fn helped(command: &clap::Command, program: &str) -> Vec<Shown> {
    let text = command.clone().render_long_help().to_string();
    let place = format!("{} --help", command.get_bin_name().unwrap_or(program));
    // What follows `Usage:` is written in a language of its own.
    let examples = text.split_once("Examples:").map_or("", |(_, examples)| examples);
    let mut shown = commands_in(&place, examples, program);
    shown.extend(command.get_subcommands().flat_map(|below| helped(below, program)));
    shown
}

fn why_not(cli: &clap::Command, shown: &Shown) -> Option<String> {
    use clap::error::ErrorKind;
    let words = shown.words.iter().flat_map(|word| filled(word));
    let error = cli.clone().try_get_matches_from(words).err()?;
    let left_out = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::TooFewValues
    ) || error.to_string().starts_with("error: a value is required");
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let first_line = || error.to_string().lines().next().unwrap_or_default().to_owned();
    let fine = asked || (shown.in_a_sentence && left_out);
    (!fine).then(first_line)
}

/// What stands for something that the reader knows becomes something, and what a shell fills in becomes two things.
fn filled(word: &str) -> Vec<String> {
    match word {
        "N" | "NUMBER" | "SECONDS" => vec!["1".to_owned()],
        // Any of them, so none.
        "COMMAND" => Vec::new(),
        "ADDRESS" => vec!["192.0.2.1".to_owned()],
        "ADDRESS:PORT" => vec!["192.0.2.1:443".to_owned()],
        many if many.contains('*') => vec![many.replace('*', "1"), many.replace('*', "2")],
        other => vec![other.to_owned()],
    }
}

/// Every command of `program` in the documents that users read: those of `docs/`, and those at the top.
pub fn commands(program: &str) -> Vec<Shown> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<PathBuf> =
        ["README.md", "SPEC.md", "CONTRIBUTING.md", "suites/FORMAT.md"].map(|file| root.join(file)).into();
    for folder in ["docs", "docs/guide", "docs/tutorials", "docs/design"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    files.sort();
    let name = |file: &Path| file.strip_prefix(&root).unwrap().display().to_string();
    let texts = files.iter().map(|file| (name(file), std::fs::read_to_string(file).unwrap()));
    texts.flat_map(|(name, text)| commands_in(&name, &text, program)).collect()
}

/// Every command of `program` in a text of Markdown, or in a help text: in blocks, also behind `sudo`, after a prompt and in a pipe; and
/// between backquotes.
pub fn commands_in(name: &str, text: &str, program: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut fenced = false;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let place = format!("{name}:{}", at + 1);
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced && !line.starts_with("  ") {
            for code in line.split('`').skip(1).step_by(2) {
                found.extend(command(code, program).map(|words| Shown {
                    place: place.clone(),
                    words,
                    in_a_sentence: true,
                }));
            }
            continue;
        }
        let mut whole = line.trim().to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            let (_, next) = lines.next().unwrap_or_default();
            whole = format!("{begun}{}", next.trim());
        }
        let parts = whole.split(" && ").flat_map(|part| part.split(" | "));
        found.extend(parts.filter_map(|part| command(part, program)).map(|words| Shown {
            place: place.clone(),
            words,
            in_a_sentence: false,
        }));
    }
    found
}

/// The words of one command, without what stands before it, behind a wider gap, or in a comment; none if it is another program's.
fn command(code: &str, program: &str) -> Option<Vec<String>> {
    let code = code.trim().trim_start_matches("$ ").trim_start_matches("# ");
    let code = code.trim_start_matches("sudo ").trim_start_matches("-E ");
    let code = code
        .strip_prefix("ip netns exec ")
        .and_then(|rest| rest.split_once(' '))
        .map_or(code, |(_, rest)| rest);
    let code = code.strip_prefix("target/release/").unwrap_or(code);
    let rest = code.strip_prefix(program)?.strip_prefix(' ')?;
    // `rampart 0.1.0` is what a program says of itself, and `rampart --test firewall` is cargo's package and its test.
    if rest.starts_with(|first: char| first.is_ascii_digit()) || rest.starts_with("--test ") {
        return None;
    }
    let end = ["  ", " # ", " > ", " 2>", "; "]
        .iter()
        .filter_map(|mark| rest.find(mark))
        .min()
        .unwrap_or(rest.len());
    let words = shlex::split(&rest[..end])?;
    // `...` is whatever else a reader gives.
    let words = words.into_iter().filter(|word| !["...", "…"].contains(&word.as_str()));
    Some(std::iter::once(program.to_owned()).chain(words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_where_readers_see_them() {
        let text = "Say `rampart check p.toml` or `rampart-bench run demo`.\n\
                    ```sh\n$ sudo rampart apply \"a b.toml\" && sudo rampart confirm\nnft list ruleset | rampart import nft - > p.toml\n\
                    rampart explain p.toml --from a \\\n    --to b\nrampart: no command\n```\n    rampart status       what it does\n\
                    Of `rampart --test t` and `rampart 0.1.0`, `rampart COMMAND --help`.\n";
        let shown = |line: u32, words: &[&str], in_a_sentence| Shown {
            place: format!("t:{line}"),
            words: words.iter().map(|&word| word.to_owned()).collect(),
            in_a_sentence,
        };
        assert_eq!(
            commands_in("t", text, "rampart"),
            [
                shown(1, &["rampart", "check", "p.toml"], true),
                shown(3, &["rampart", "apply", "a b.toml"], false),
                shown(3, &["rampart", "confirm"], false),
                shown(4, &["rampart", "import", "nft", "-"], false),
                shown(5, &["rampart", "explain", "p.toml", "--from", "a", "--to", "b"], false),
                shown(9, &["rampart", "status"], false),
                shown(10, &["rampart", "COMMAND", "--help"], true),
            ]
        );
    }
}
