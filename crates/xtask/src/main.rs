//! Repository chores: `cargo xtask layout` and `cargo xtask schema`. Nothing that ships depends on this crate.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's output goes to the terminal")]

mod layout;
mod tree;

use anyhow::{Context as _, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tree::Tree;

const USAGE: &str = "cargo xtask CHORE
  layout    look for what no compiler sees: maps that lead nowhere, files that nothing embeds, unfinished marks
  schema    write docs/schema anew: rampart-bench-2.json from the types of the results, rampart-api.json from those of
            the firewall's socket";

fn main() -> ExitCode {
    match run(std::env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Option<&str>) -> anyhow::Result<()> {
    match chore {
        Some("layout") => check_layout(),
        Some("schema") => write_schema().and_then(|()| write_api()),
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
    let faults = layout::faults(&tree);
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => Ok(()),
        count => bail!("layout: {count} to put right"),
    }
}

fn write_schema() -> anyhow::Result<()> {
    let path = root().join("docs/schema/rampart-bench-2.json");
    std::fs::write(&path, report::json::schema()?).with_context(|| format!("writing {}", path.display()))
}

/// The firewall describes its own socket. It is started and not linked: every other chore would have to build its data plane.
fn write_api() -> anyhow::Result<()> {
    let path = root().join("docs/schema/rampart-api.json");
    let asked = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "-p", "rampart", "--", "openapi"])
        .current_dir(root())
        .output()
        .context("starting cargo")?;
    ensure!(asked.status.success(), "rampart openapi: {}", String::from_utf8_lossy(&asked.stderr));
    std::fs::write(&path, asked.stdout).with_context(|| format!("writing {}", path.display()))
}
