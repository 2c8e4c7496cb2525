//! `cargo xtask mutants`: one line of the firewall's data plane is made wrong at a time, and the tests that send packets through it
//! must find out. The faults stand in `crates/dataplane/tests/mutants.txt`.

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIST: &str = "crates/dataplane/tests/mutants.txt";
/// The tests that send packets and which of their functions, the quickest first. Those of whole hosts take minutes and are not asked.
const TESTS: [(&str, &str); 16] = [
    ("rows", ""),
    ("tcp", ""),
    ("nat", ""),
    ("arp", ""),
    ("bridge", ""),
    ("switch", ""),
    ("packets", ""),
    ("native", "no_difference"),
    ("log", ""),
    ("alert", ""),
    ("limit", ""),
    ("netfilter", ""),
    ("lists", "needs_root_rules_go_by_lists"),
    ("cookies", ""),
    ("many_flows", ""),
    ("verdicts", ""),
];
/// A test that takes so long does not end.
const PATIENCE: Duration = Duration::from_secs(240);

/// What a fault leaves without a use is no reason not to compile it.
const UNUSED: &str = "#pragma clang diagnostic ignored \"-Wunused\"\n#pragma clang diagnostic ignored \"-Wunused-parameter\"\n";

/// One fault.
#[derive(Debug, PartialEq, Eq)]
struct Mutant {
    /// What it does wrong.
    name: String,
    /// Under `bpf/firewall`.
    file: String,
    /// Part of a line, which is there once.
    right: String,
    wrong: String,
    /// Why no packet can show it.
    equivalent: Option<String>,
}

/// What became of a mutant.
enum Fate {
    /// By a function of this test, or because the test did not come to its end.
    Caught {
        test: &'static str,
        function: Option<String>,
    },
    Survived,
    /// It does not compile, or the kernel does not load it, so it asks nothing.
    Refused(String),
}

/// Tries all mutants, or those that have `only` in their `FILE: NAME`, or whose numbers in the list are `FIRST-LAST`.
pub(crate) fn run(root: &Path, only: Option<&str>) -> anyhow::Result<()> {
    let list = fs::read_to_string(root.join(LIST)).with_context(|| format!("reading {LIST}"))?;
    let mut mutants = parse(&list)?;
    let gone: Vec<String> =
        mutants.iter().filter_map(|it| it.apply(root).err()).map(|e| e.to_string()).collect();
    ensure!(gone.is_empty(), "{}", gone.join("\n"));
    if let Some(only) = only {
        mutants = chosen(mutants, only);
    }
    ensure!(!mutants.is_empty(), "no mutant of {LIST} has this in its file or name");
    eprintln!("building the tests that are asked");
    let tests = tests(root)?;
    let tree = Copy::of(root)?;
    see_all_pass(root, &tree, &tests, &tree.build(root, None)?)?;
    let mut memory = Memory::of(root);
    let mut survivors = 0;
    for (number, mutant) in mutants.iter().enumerate() {
        let started = Instant::now();
        let place = format!("{:>3}/{} {}: {}", number + 1, mutants.len(), mutant.file, mutant.name);
        if let Some(why) = &mutant.equivalent {
            println!("{place}: equivalent: {why}");
            continue;
        }
        let built = tree.build(root, Some(mutant));
        let fate = match built {
            Ok(object) => try_again(&tree, &tests, &object, memory.who_caught(mutant)),
            Err(error) => Ok(Fate::Refused(format!("{error:#}"))),
        };
        tree.right(root, mutant)?;
        let said = match fate? {
            Fate::Caught { test, function } => {
                let said =
                    format!("caught by {test}, {}", function.as_deref().unwrap_or("which ended by itself"));
                memory.note(mutant, test, function)?;
                said
            }
            Fate::Survived => {
                survivors += 1;
                "SURVIVED".to_owned()
            }
            Fate::Refused(why) => {
                survivors += 1;
                format!("NOT LOADED, so nothing was asked: {why}")
            }
        };
        println!("{place}: {said} ({:.0} s)", started.elapsed().as_secs_f64());
    }
    ensure!(
        survivors == 0,
        "{survivors} of {} mutants were not caught: a test must find each",
        mutants.len()
    );
    Ok(())
}

fn chosen(mutants: Vec<Mutant>, only: &str) -> Vec<Mutant> {
    let range = only.split_once('-').and_then(|(first, last)| Some(first.parse().ok()?..=last.parse().ok()?));
    let is_chosen = |number: usize, mutant: &Mutant| match &range {
        Some(range) => range.contains(&number),
        None => mutant.title().contains(only),
    };
    (1..)
        .zip(mutants)
        .filter(|(number, mutant)| is_chosen(*number, mutant))
        .map(|(_, mutant)| mutant)
        .collect()
}

/// Sees that no test fails without any fault; once for each object and build of the tests.
fn see_all_pass(root: &Path, tree: &Copy, tests: &[PathBuf], object: &Path) -> anyhow::Result<()> {
    let passed = root.join("target/mutants/passed.o");
    let when = |path: &Path| fs::metadata(path).and_then(|of| of.modified()).ok();
    let is_newer = tests.iter().all(|test| when(test) < when(&passed));
    if is_newer && fs::read(&passed).ok() == Some(fs::read(object)?) {
        return Ok(());
    }
    match try_out(tree, tests, object)? {
        Fate::Survived => (),
        Fate::Caught { test, function } => bail!("{test} {function:?} fails without any mutant"),
        Fate::Refused(why) => bail!("{why}"),
    }
    fs::copy(object, &passed)?;
    Ok(())
}

/// Which function of which test caught each fault the last time: it is asked first.
struct Memory {
    file: PathBuf,
    caught: BTreeMap<String, (String, String)>,
}

impl Memory {
    fn of(root: &Path) -> Self {
        let file = root.join("target/mutants/caught.json");
        let caught = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { file, caught: caught.unwrap_or_default() }
    }

    fn who_caught(&self, mutant: &Mutant) -> Option<&(String, String)> {
        self.caught.get(&mutant.title())
    }

    fn note(&mut self, mutant: &Mutant, test: &str, function: Option<String>) -> anyhow::Result<()> {
        let Some(function) = function else { return Ok(()) };
        self.caught.insert(mutant.title(), (test.to_owned(), function));
        Ok(fs::write(&self.file, serde_json::to_vec_pretty(&self.caught)?)?)
    }
}

/// Reads the list. Its first lines say what a block is.
fn parse(list: &str) -> anyhow::Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let body = list.lines().skip_while(|line| line.starts_with('#'));
    let body: String = body.flat_map(|line| [line, "\n"]).collect();
    let mut rest = body.trim_start();
    while !rest.is_empty() {
        let block = rest.lines().next().unwrap_or_default();
        let about = || format!("{LIST}: `{block}`");
        let (head, after) = rest.split_once("\n- ").with_context(about)?;
        let (right, after) = after.split_once("\n+ ").with_context(about)?;
        let (wrong, after) = after.split_once("\n\n").unwrap_or((after.trim_end(), ""));
        let (wrong, why) = wrong.split_once("\n= ").map_or((wrong, None), |(wrong, why)| (wrong, Some(why)));
        let (file, name) = head.split_once(": ").with_context(about)?;
        mutants.push(Mutant {
            name: name.to_owned(),
            file: file.to_owned(),
            right: right.to_owned(),
            wrong: wrong.to_owned(),
            equivalent: why.map(str::to_owned),
        });
        rest = after.trim_start();
    }
    Ok(mutants)
}

impl Mutant {
    fn title(&self) -> String {
        format!("{}: {}", self.file, self.name)
    }

    /// The text of its file with the fault in it.
    fn apply(&self, root: &Path) -> anyhow::Result<String> {
        let path = root.join("bpf/firewall").join(&self.file);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let found = text.matches(self.right.as_str()).count();
        ensure!(
            found == 1 && !self.right.is_empty(),
            "{LIST}: `{}` is {found} times in {}, and must be there once",
            self.right,
            self.file
        );
        Ok(text.replace(&self.right, &self.wrong))
    }
}

/// A copy of the sources in which lines are changed.
struct Copy(PathBuf);

impl Copy {
    fn of(root: &Path) -> anyhow::Result<Self> {
        let tree = root.join("target/mutants/tree");
        fs::create_dir_all(&tree)?;
        let names = said(Command::new("git").arg("ls-files").current_dir(root))?;
        for name in names.lines() {
            let (from, to) = (root.join(name), tree.join(name));
            let Ok(wanted) = fs::read(&from) else { continue };
            if fs::read(&to).is_ok_and(|is| is == wanted) {
                continue;
            }
            fs::create_dir_all(to.parent().context("a file without a folder")?)?;
            fs::copy(&from, &to)?;
        }
        Ok(Self(tree))
    }

    /// The object with one fault, which stays in the sources, or none.
    fn build(&self, root: &Path, mutant: Option<&Mutant>) -> anyhow::Result<PathBuf> {
        if let Some(mutant) = mutant {
            fs::write(
                self.0.join("bpf/firewall").join(&mutant.file),
                [UNUSED, &mutant.apply(root)?].concat(),
            )?;
        }
        let messages = said(
            Command::new(env!("CARGO"))
                .args(["check", "-p", "dataplane", "--locked", "--message-format=json"])
                .env("CARGO_TARGET_DIR", root.join("target/mutants/build"))
                .current_dir(&self.0),
        );
        let messages = messages.with_context(|| mutant.map_or("no mutant".into(), |m| m.name.clone()))?;
        let folder = json(&messages).find_map(|message| {
            let built = message["reason"] == "build-script-executed"
                && message["package_id"].as_str().is_some_and(|id| id.contains("dataplane"));
            built.then(|| message["out_dir"].as_str().map(PathBuf::from)).flatten()
        });
        Ok(folder.context("cargo says nothing of the object")?.join("firewall.bpf.o"))
    }

    /// Takes a fault out of the sources.
    fn right(&self, root: &Path, mutant: &Mutant) -> anyhow::Result<()> {
        let file = Path::new("bpf/firewall").join(&mutant.file);
        fs::copy(root.join(&file), self.0.join(&file)).map(drop).with_context(|| file.display().to_string())
    }
}

/// The built tests, in the order in which they are asked.
fn tests(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "-p", "dataplane", "--locked", "--no-run", "--message-format=json"]);
    cargo.args(TESTS.iter().flat_map(|(name, _)| ["--test", name]));
    let messages = said(cargo.current_dir(root))?;
    let built = |name: &str| {
        json(&messages)
            .find(|message| message["target"]["name"] == *name && message["executable"].is_string())
            .and_then(|message| message["executable"].as_str().map(PathBuf::from))
            .with_context(|| format!("cargo did not build the test {name}"))
    };
    TESTS.iter().map(|(name, _)| built(name)).collect()
}

/// Asks the function that caught the fault the last time, and all others only if it does not any more.
fn try_again(
    tree: &Copy,
    tests: &[PathBuf],
    object: &Path,
    first: Option<&(String, String)>,
) -> anyhow::Result<Fate> {
    if let Some((name, function)) = first
        && let Some(at) = TESTS.iter().position(|(test, _)| test == name)
    {
        let fate = ask(tree, &tests[at], TESTS[at].0, object, &["--exact", function])?;
        if !matches!(fate, Fate::Survived) {
            return Ok(fate);
        }
    }
    try_out(tree, tests, object)
}

/// Runs the tests with this object until one fails.
fn try_out(tree: &Copy, tests: &[PathBuf], object: &Path) -> anyhow::Result<Fate> {
    for (test, (name, functions)) in tests.iter().zip(TESTS) {
        let fate = ask(tree, test, name, object, &[functions])?;
        if !matches!(fate, Fate::Survived) {
            return Ok(fate);
        }
    }
    Ok(Fate::Survived)
}

/// Runs a test, or some functions of it, with this object and the sources that it was built from.
fn ask(
    tree: &Copy,
    test: &Path,
    name: &'static str,
    object: &Path,
    functions: &[&str],
) -> anyhow::Result<Fate> {
    let mut child = Command::new(test)
        .args(["--test-threads=1"])
        .args(functions.iter().filter(|words| !words.is_empty()))
        .env("RAMPART_MUTANT", object)
        .env("RAMPART_MUTANT_SOURCES", &tree.0)
        .current_dir(tree.0.join("crates/dataplane"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let readers = [
        std::thread::spawn(move || out.map(std::io::read_to_string)),
        std::thread::spawn(move || err.map(std::io::read_to_string)),
    ];
    let started = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let texts: Vec<String> =
        readers.into_iter().filter_map(|reader| reader.join().ok().flatten().and_then(Result::ok)).collect();
    let text = texts.concat();
    if let Some(why) = text.lines().find(|line| line.contains("loading the firewall into the kernel")) {
        return Ok(Fate::Refused(why.to_owned()));
    }
    if ended.is_some_and(|status| status.success()) {
        return Ok(Fate::Survived);
    }
    let failed = text.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    Ok(Fate::Caught { test: name, function: failed.map(str::to_owned) })
}

fn json(messages: &str) -> impl Iterator<Item = Value> + '_ {
    messages.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// What a command prints; that cargo waits for another cargo is shown meanwhile, because it may wait for hours.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let what = format!("{command:?}");
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().with_context(|| what.clone())?;
    let errors = child.stderr.take().context("a pipe")?;
    let errors = std::thread::spawn(move || shown(BufReader::new(errors), &mut std::io::stderr()));
    let mut printed = String::new();
    child.stdout.take().context("a pipe")?.read_to_string(&mut printed)?;
    let errors = errors.join().unwrap_or_default();
    ensure!(child.wait()?.success(), "{what}: {errors}");
    Ok(printed)
}

/// All lines, of which those that say that cargo waits go on to somebody at once.
fn shown(lines: impl BufRead, to: &mut impl Write) -> String {
    let mut all = String::new();
    for line in lines.lines().map_while(Result::ok) {
        if line.trim_start().starts_with("Blocking") {
            let _ = writeln!(to, "{}", line.trim_start());
        }
        all += &line;
        all.push('\n');
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_cargo_waits_is_shown() {
        let mut seen = Vec::new();
        let cargo = "    Blocking waiting for file lock on build directory\n   Compiling dataplane\n";
        assert_eq!(shown(cargo.as_bytes(), &mut seen), cargo);
        assert_eq!(String::from_utf8(seen).unwrap(), "Blocking waiting for file lock on build directory\n");
    }

    #[test]
    fn mutants_are_chosen_by_words_or_numbers() {
        let block = |file: &str, name: &str| format!("{file}: {name}\n- a\n+ b\n\n");
        let list = [block("core.h", "one"), block("core.h", "two"), block("tcp.h", "one more")].concat();
        for (only, names) in
            [("core.h", "one two"), ("one", "one one more"), ("2-3", "two one more"), ("4-5", "")]
        {
            let found: Vec<String> =
                chosen(parse(&list).unwrap(), only).into_iter().map(|it| it.name).collect();
            assert_eq!(found.join(" "), names, "{only}");
        }
    }

    #[test]
    fn every_mutant_of_the_list_can_be_made() {
        let root = crate::root();
        let mutants = parse(&fs::read_to_string(root.join(LIST)).unwrap()).unwrap();
        assert!(mutants.len() >= 60, "{}", mutants.len());
        for mutant in &mutants {
            assert_ne!(mutant.apply(&root).unwrap(), "", "{mutant:?}");
            assert_ne!(mutant.right, mutant.wrong, "{mutant:?}");
        }
    }
}
