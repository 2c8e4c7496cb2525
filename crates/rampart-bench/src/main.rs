//! `rampart-bench`: measures firewalls. This program is the command line, its progress and the wiring of the crates
//! that do the work; it computes nothing itself.

mod calibrate;
mod cli;
mod doctor;
mod expectations;
mod failure;
mod interrupt;
mod ledger;
mod list;
mod output;
mod progress;
mod reports;
mod rig;
mod run;
mod watcher;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command};
use failure::Failure;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("rampart-bench: {}", failure.message()));
            failure.exit_code()
        }
    }
}

fn dispatch(cli: &Cli) -> Result<(), Failure> {
    let interrupt = || {
        interrupt::Interrupt::install()
            .map_err(|e| Failure::Machine(format!("cannot take over signals: {e}")))
    };
    match &cli.command {
        Command::Doctor => doctor::doctor(cli.json),
        Command::List { what } => list::list(*what, cli.json),
        Command::Run(args) => run::run(args, cli.json, &interrupt()?),
        Command::Calibrate(args) => calibrate::calibrate(args, cli.json, &interrupt()?),
        Command::Report { dir, format } => reports::report(dir, *format),
        Command::Compare { old, new, fail_if } => reports::compare(old, new, fail_if.as_deref(), cli.json),
        Command::Completion { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "rampart-bench", &mut std::io::stdout());
            Ok(())
        }
    }
}

/// A line for the person at the terminal, on standard error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
