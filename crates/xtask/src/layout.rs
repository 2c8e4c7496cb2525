//! Rules over the whole repository that no compiler or linter checks. Each rule is a function from the tree to what is
//! wrong with it; all of them are pure.

use crate::tree::Tree;
use std::fmt;

/// Something to put right.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    path: String,
    /// Counted from 1; 0 is the whole file.
    line: usize,
    message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// All that the rules find.
pub(crate) fn faults(tree: &Tree) -> Vec<Fault> {
    let rules = [
        unmapped_crates,
        testkit_in_products,
        dead_paths,
        dead_links,
        missing_tests,
        not_embedded,
        foreign_places,
        unfinished,
    ];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

/// Sources longer than a reader likes, longest first. Not a fault: a long file may have no seam.
pub(crate) fn long_files(tree: &Tree) -> Vec<(&str, usize)> {
    let lengths =
        tree.files().filter(|&(path, _)| is_source(path)).map(|(path, text)| (path, text.lines().count()));
    let mut long: Vec<_> = lengths.filter(|&(_, lines)| lines > 700).collect();
    long.sort_by_key(|&(_, lines)| std::cmp::Reverse(lines));
    long
}

const MAP: &str = "ARCHITECTURE.md";

/// Every crate is on the map.
fn unmapped_crates(tree: &Tree) -> Vec<Fault> {
    let crates =
        tree.files().filter_map(|(path, _)| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"));
    crates
        .filter(|name| !tree.text(MAP).contains(&format!("crates/{name}")))
        .map(|name| fault(MAP, 0, format!("says nothing of crates/{name}")))
        .collect()
}

/// What only tests need is no part of a product: `testkit` is a dev-dependency everywhere.
fn testkit_in_products(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        let mut section = "";
        for (line, text) in numbered(text) {
            if text.starts_with('[') {
                section = text;
            }
            let named = text.starts_with("testkit") || text.contains("dependencies.testkit");
            if named && !section.contains("dev-dependencies") {
                faults.push(fault(path, line, "testkit may only be a dev-dependency".to_owned()));
            }
        }
    }
    faults
}

/// What Markdown writes as a path is there: on the map every path, on other pages those that begin with a folder of the root.
fn dead_paths(tree: &Tree) -> Vec<Fault> {
    let from_root = |path: &str| path.split('/').next().is_some_and(|folder| tree.has(folder));
    let mut faults = Vec::new();
    for (page, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (line, text) in numbered(text) {
            let dead = in_backticks(text)
                .filter(|path| is_path(path) && !tree.has(path) && (page == MAP || from_root(path)));
            faults.extend(dead.map(|path| fault(page, line, format!("names {path}, which is not there"))));
        }
    }
    faults
}

/// Relative links in Markdown lead to a file.
fn dead_links(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (line, text) in numbered(text) {
            let dead = links(text).filter(|link| !tree.has(&resolve(path, link)));
            faults.extend(dead.map(|link| fault(path, line, format!("links to {link}, which is not there"))));
        }
    }
    faults
}

const THREATS: &str = "docs/design/threats.md";

/// What the page about attackers says is shown by a test, a test shows: a function, or in quotation marks a heading of rows.
fn missing_tests(tree: &Tree) -> Vec<Fault> {
    let is_function = |word: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.matches('_').count() > 1 && word.chars().all(plain)
    };
    let holds =
        |end: &str, text: &str| tree.files().any(|(path, file)| path.ends_with(end) && file.contains(text));
    let mut faults = Vec::new();
    for (line, text) in numbered(tree.text(THREATS)).filter(|(_, text)| text.starts_with('|')) {
        let shown_by = text.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        let functions = in_backticks(shown_by).filter(|word| is_function(word));
        let no_function = functions.filter(|name| !holds(".rs", &format!("fn {name}(")));
        let headings = shown_by.split('"').skip(1).step_by(2);
        let no_heading = headings.filter(|heading| !holds(".txt", heading));
        let missing = no_function.chain(no_heading);
        faults.extend(
            missing.map(|name| fault(THREATS, line, format!("names the test {name}, which is not there"))),
        );
    }
    faults
}

/// What is data in the repository is carried in the program, so that a name is enough to run it.
fn not_embedded(tree: &Tree) -> Vec<Fault> {
    let is_data = |path: &str| {
        path.ends_with(".toml") && (path.starts_with("suites/") || path.starts_with("published/"))
    };
    let embedded = |data: &str| {
        let end = format!("/{data}\")");
        tree.files().any(|(path, text)| {
            path.ends_with(".rs")
                && text.lines().any(|line| line.contains("include_str!") && line.contains(&end))
        })
    };
    let orphans = tree.files().map(|(path, _)| path).filter(|path| is_data(path) && !embedded(path));
    orphans.map(|path| fault(path, 0, "is embedded by no include_str!".to_owned())).collect()
}

// Written in pieces, so that this file does not accuse itself.
const FOREIGN: [&str; 8] = [
    concat!("..", "/shared"),
    concat!("/wo", "rk/"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("registry.npmjs", ".org"),
    concat!("files.python", "hosted.org"),
    concat!("pypi.org", "/simple"),
    concat!("deb.debian", ".org"),
];

/// Nothing refers to a place that a clone does not have: folders of the machine it was written on, or a registry's
/// host, which is the business of each user's package manager.
fn foreign_places(tree: &Tree) -> Vec<Fault> {
    let stands_alone = |text: &str, found: usize| !text[..found].ends_with(|c: char| c.is_alphanumeric());
    marks(tree.files(), &FOREIGN, stands_alone, "refers to a place outside the repository")
}

const UNFINISHED: [&str; 6] = [
    concat!("#[ig", "nore"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
];

/// What is not there is refused with a message, not left as a mark.
fn unfinished(tree: &Tree) -> Vec<Fault> {
    let sources = tree.files().filter(|&(path, _)| is_source(path));
    marks(sources, &UNFINISHED, |_, _| true, "is unfinished")
}

/// Lines in which one of `words` stands where `counts` agrees.
fn marks<'t>(
    files: impl Iterator<Item = (&'t str, &'t str)>,
    words: &[&str],
    counts: impl Fn(&str, usize) -> bool,
    verdict: &str,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in files {
        for (line, text) in numbered(text) {
            let found = words.iter().find(|word| text.find(**word).is_some_and(|at| counts(text, at)));
            faults.extend(found.map(|word| fault(path, line, format!("`{word}`: {verdict}"))));
        }
    }
    faults
}

fn fault(path: &str, line: usize, message: String) -> Fault {
    Fault { path: path.to_owned(), line, message }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

/// Our own sources; `bpf/include` is the kernel's.
fn is_source(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let ours = matches!(extension, "rs" | "c" | "h" | "js" | "css" | "html" | "sh") || name == "Makefile";
    (ours || path.starts_with("scripts/") || path == ".ci/run") && !path.starts_with("bpf/include/")
}

fn in_backticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A path of ours, not a command, a pattern or an absolute path: `crates/measure`, `suites/`, `bpf/traffic/frames.bpf.c`.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    text.contains('/') && !text.starts_with('/') && text.chars().all(plain)
}

/// Targets of `[text](target)` that are relative, without their fragment.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets
        .filter(|target| !target.contains(':'))
        .filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty())
}

/// `link`, as found in the file `from`, seen from the root.
pub(crate) fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let found: Vec<String> = faults(&Tree::of(files)).iter().map(Fault::to_string).collect();
        assert_eq!(found, expected, "in {files:?}");
    }

    #[test]
    fn a_crate_must_be_on_the_map() {
        let manifest = ("crates/measure/Cargo.toml", "");
        check(&[(MAP, "`crates/measure` decides"), manifest], &[]);
        check(&[(MAP, "measure decides"), manifest], &["ARCHITECTURE.md: says nothing of crates/measure"]);
    }

    #[test]
    fn testkit_is_for_tests_alone() {
        let map = (MAP, "`crates/a`");
        let in_section =
            |section: &str| format!("[{section}]\nnix = \"1\"\ntestkit = {{ path = \"../testkit\" }}\n");
        check(&[map, ("crates/a/Cargo.toml", &in_section("dev-dependencies"))], &[]);
        let product = "crates/a/Cargo.toml:3: testkit may only be a dev-dependency";
        check(&[map, ("crates/a/Cargo.toml", &in_section("dependencies"))], &[product]);
        let table = "crates/a/Cargo.toml:1: testkit may only be a dev-dependency";
        check(&[map, ("crates/a/Cargo.toml", "[dependencies.testkit]\npath = \"../testkit\"\n")], &[table]);
    }

    #[test]
    fn the_map_leads_somewhere() {
        let file = ("bpf/net/checksum.h", "");
        check(&[(MAP, "see `bpf/net/`, `bpf/net/checksum.h`, `make test` and `/sys/x`"), file], &[]);
        let dead = "ARCHITECTURE.md:2: names bpf/ne, which is not there";
        check(&[(MAP, "\nsee `bpf/ne`"), file], &[dead]);
        let page = "see `net/checksum.h` and `bpf/net/checksum.h`";
        check(&[("a.md", page), file], &[]);
        check(&[("a.md", "`bpf/ne`"), file], &["a.md:1: names bpf/ne, which is not there"]);
    }

    #[test]
    fn links_lead_somewhere() {
        let target =
            ("docs/guide/a.md", "[up](../../README.md#two), [out](https://example.org), [here](#there)");
        check(&[target, ("README.md", "[a](docs/guide/a.md)")], &[]);
        let dead = "README.md:1: links to docs/b.md, which is not there";
        check(&[target, ("README.md", "![b](docs/b.md \"title\")")], &[dead]);
    }

    #[test]
    fn tests_that_show_something_are_there() {
        let tests = [("a.rs", "fn nothing_gets_in() {}"), ("rows.txt", "== Sources that nobody has (RFC 1)")];
        let page = |cell: &'static str| (THREATS, cell);
        let with = |cell| [tests[0], tests[1], page(cell)];
        check(&with("| `a_b_c` | \"x\" | `nothing_gets_in`, \"Sources that nobody has\", `a.rs` |"), &[]);
        let missing = |name| format!("{THREATS}:1: names the test {name}, which is not there");
        check(&with("| a | b | `nothing_gets_out` |"), &[&missing("nothing_gets_out")]);
        check(&with("| a | b | \"Sources of all\" |"), &[&missing("Sources of all")]);
    }

    #[test]
    fn data_is_embedded() {
        let embeds = ("crates/m/src/lib.rs", "const S: &str = include_str!(\"../../../suites/demo.toml\");");
        check(&[embeds, ("suites/demo.toml", "")], &[]);
        check(
            &[embeds, ("published/demo.toml", "")],
            &["published/demo.toml: is embedded by no include_str!"],
        );
        check(
            &[embeds, ("suites/my-demo.toml", "")],
            &["suites/my-demo.toml: is embedded by no include_str!"],
        );
    }

    #[test]
    fn nothing_refers_to_places_that_a_clone_does_not_have() {
        let outside = concat!("see /wo", "rk/notes");
        let fault = format!("a.md:1: `{}`: refers to a place outside the repository", FOREIGN[1]);
        check(&[("a.md", outside)], &[&fault]);
        check(&[("a.md", concat!("net/wo", "rk/notes"))], &[]);
    }

    #[test]
    fn marks_of_unfinished_work_are_found_in_sources_only() {
        let mark = UNFINISHED[1];
        let fault = format!("scripts/x:2: `{mark}`: is unfinished");
        check(
            &[("scripts/x", &format!("\n# {mark}")), ("a.md", mark), ("bpf/include/linux/bpf.h", mark)],
            &[&fault],
        );
    }

    #[test]
    fn long_sources_are_listed_longest_first() {
        let (long, longer) = ("\n".repeat(701), "\n".repeat(800));
        let tree = Tree::of(&[("a.rs", &long), ("b.c", &longer), ("c.md", &longer), ("d.rs", "\n")]);
        assert_eq!(long_files(&tree), [("b.c", 800), ("a.rs", 701)]);
    }
}
