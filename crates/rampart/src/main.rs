//! The command line of the firewall: reads files and the clock, calls the libraries, prints. No logic of its own.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line prints")]

mod check;
mod cli;
mod explain;
mod failure;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Failure;
use policy::Policy;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Check(args) => check::run(args, cli.json),
        Command::Explain(args) => explain::run(args, cli.json),
        Command::Completion { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "rampart", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    };
    match done {
        Ok(status) => status,
        Err(failure) => {
            if cli.json {
                println!("{:#}", failure.json());
            } else {
                eprintln!("{failure}");
            }
            ExitCode::from(2)
        }
    }
}

/// Reads and checks a policy's file.
fn read_policy(path: &Path) -> Result<Policy, Failure> {
    let name = path.display().to_string();
    let bytes =
        std::fs::read(path).map_err(|error| Failure::Wrong(format!("cannot read {name}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Failure::Wrong(format!("{name}:{line}: not UTF-8 text: save the file as UTF-8"))
    })?;
    Policy::parse(&name, &text).map_err(|problems| Failure::Problems(Box::new(problems)))
}
