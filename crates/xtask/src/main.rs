//! Repository chores: `cargo xtask layout` and `cargo xtask schema`. Nothing that ships depends on this crate.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's output goes to the terminal")]

mod layout;
mod tree;

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tree::Tree;

const USAGE: &str = "cargo xtask CHORE
  layout    look for what no compiler sees: maps that lead nowhere, files that nothing embeds, unfinished marks
  schema    write docs/schema/rampart-bench-1.json anew from the types of the results";

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
        Some("schema") => write_schema(),
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
    let path = root().join("docs/schema/rampart-bench-1.json");
    std::fs::write(&path, report::json::schema()?).with_context(|| format!("writing {}", path.display()))
}
