//! Repository chores: `cargo xtask layout`, `schema`, `site`, `picture` and `mutants`. Nothing that ships depends on this crate.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's output goes to the terminal")]

mod features;
mod layout;
mod mutants;
mod site;
mod tree;

use anyhow::{Context as _, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tree::Tree;

/// What the repository builds for users.
const PROGRAMS: [&str; 3] = ["rampart", "rampart-bench", "rampart-web"];

/// What `make demo` builds, and nothing else with it.
const DEMONSTRATED: [&str; 2] = ["rampart", "rampart-bench"];

const USAGE: &str = "cargo xtask CHORE
  layout    look for what no compiler sees: maps that lead nowhere, files that nothing embeds, unfinished marks
  schema    write docs/schema anew: rampart-bench-2.json from the types of the results, rampart-api.json from those of
            the firewall's socket
  site FOLDER
            write the documentation as a site: all pages, and the help of every command
  picture RUN
            draw docs/images/report.png anew: the top of the page of a run, given as its folder or its results.json; needs
            Chromium
  mutants [WORDS]
            make one line of the firewall's data plane wrong at a time and see that tests find out; those with WORDS in their
            file or name alone, or those with the numbers FIRST-LAST; as root";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match run(words.next().as_deref(), words.next().as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Option<&str>, of: Option<&str>) -> anyhow::Result<()> {
    match chore {
        Some("layout") => check_layout(),
        Some("schema") => write_schema().and_then(|()| write_api()),
        Some("site") => write_site(Path::new(of.context(USAGE)?)),
        Some("picture") => draw_picture(Path::new(of.context(USAGE)?)),
        Some("mutants") => mutants::run(&root(), of),
        _ => bail!("{USAGE}"),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check_layout() -> anyhow::Result<()> {
    let tree = Tree::read(&root())?;
    for (path, lines) in layout::long_files(&tree) {
        println!("note: {path} has {lines} lines: is there a seam?");
    }
    let mut faults: Vec<_> = layout::faults(&tree).iter().map(ToString::to_string).collect();
    let alone: Vec<_> = DEMONSTRATED.iter().flat_map(|program| ["-p", program]).collect();
    faults.extend(features::borrowed(
        &crate_tree(&[&alone[..], &["--edges", "normal"]].concat())?,
        &crate_tree(&["--workspace", "--edges", "normal,dev"])?,
    ));
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => Ok(()),
        count => bail!("layout: {count} to put right"),
    }
}

fn crate_tree(of: &[&str]) -> anyhow::Result<String> {
    let asked = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--prefix", "depth", "--format", "{p} {f}"])
        .args(of)
        .current_dir(root())
        .output()
        .context("starting cargo")?;
    ensure!(asked.status.success(), "cargo tree: {}", String::from_utf8_lossy(&asked.stderr));
    Ok(String::from_utf8(asked.stdout)?)
}

fn write_schema() -> anyhow::Result<()> {
    let path = root().join("docs/schema/rampart-bench-2.json");
    std::fs::write(&path, report::json::schema()?).with_context(|| format!("writing {}", path.display()))
}

/// The README's picture is of a run that its text describes, so nobody draws it by hand.
fn draw_picture(run: &Path) -> anyhow::Result<()> {
    let results = match run.is_file() {
        true => report::json::from_str(&std::fs::read_to_string(run)?, run)?,
        false => report::load(run)?,
    };
    let page = std::env::temp_dir().join(format!("rampart-picture-{}.html", std::process::id()));
    let extras = report::Extras::of_results(&results);
    std::fs::write(&page, report::render(&results, report::Format::Html, &extras)?)?;
    let picture = root().canonicalize()?.join("docs/images/report.png");
    let drawn = ["chromium", "chromium-browser", "google-chrome"].iter().find_map(|browser| {
        Command::new(browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--window-size=1280,1400",
            ])
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("file://{}", page.display()))
            .output()
            .ok()
    });
    std::fs::remove_file(&page)?;
    let drawn = drawn.context("no Chromium: install the package chromium, or run scripts/prepare test")?;
    ensure!(drawn.status.success(), "Chromium: {}", String::from_utf8_lossy(&drawn.stderr));
    println!("{}: {} of {}", picture.display(), results.suite, results.started);
    Ok(())
}

fn write_site(folder: &Path) -> anyhow::Result<()> {
    let tree = Tree::read(&root())?;
    build(&PROGRAMS)?;
    let commands = PROGRAMS.into_iter().map(commands_of).collect::<anyhow::Result<Vec<_>>>()?;
    let files = site::files(&tree, &commands);
    files.iter().try_for_each(|file| file.write(folder))?;
    println!("{}: {} files", folder.join("index.html").display(), files.len());
    Ok(())
}

/// A program says itself what its commands are.
fn commands_of(program: &str) -> anyhow::Result<site::Commands> {
    let whole = output_of(program, &["--help"])?;
    let listed = whole.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let names = listed.lines().take_while(|line| line.starts_with("  "));
    // What goes on over more lines stands further to the right.
    let names = names
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "help");
    let mut help = vec![(program.to_owned(), whole.clone())];
    for name in names {
        help.push((format!("{program} {name}"), output_of(program, &[name, "--help"])?));
    }
    Ok(site::Commands { program: program.to_owned(), help })
}

/// The firewall describes its own socket.
fn write_api() -> anyhow::Result<()> {
    let path = root().join("docs/schema/rampart-api.json");
    build(&["rampart"])?;
    std::fs::write(&path, output_of("rampart", &["openapi"])?)
        .with_context(|| format!("writing {}", path.display()))
}

/// Builds programs of ours, beside this one.
fn build(programs: &[&str]) -> anyhow::Result<()> {
    let packages = programs.iter().flat_map(|program| ["-p", program]);
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--bins"])
        .args(packages)
        .current_dir(root())
        .status()
        .context("starting cargo")?;
    ensure!(built.success(), "cargo did not build {}", programs.join(", "));
    Ok(())
}

/// What a program of ours prints. It is started and not linked: every other chore would have to build all of them.
fn output_of(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let path = std::env::current_exe()?.with_file_name(program);
    let asked = Command::new(&path)
        .args(arguments)
        .output()
        .with_context(|| format!("starting {}", path.display()))?;
    ensure!(
        asked.status.success(),
        "{program} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&asked.stderr)
    );
    String::from_utf8(asked.stdout)
        .with_context(|| format!("{program} {} prints no text", arguments.join(" ")))
}
