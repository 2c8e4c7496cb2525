//! `rampart-bench`: measures firewalls. This program is the command line, its progress and the wiring of the crates
//! that do the work; it computes nothing itself.

mod agent;
mod between;
mod calibrate;
mod cli;
mod doctor;
mod dry_run;
mod expectations;
mod failure;
mod history;
mod interrupt;
mod ledger;
mod list;
mod machine;
mod manual;
mod otg;
mod output;
mod pdf;
mod progress;
mod reports;
mod rig;
mod run;
mod serve;
mod watcher;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command};
use failure::Failure;
use interrupt::Interrupt;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(&cli).and_then(|()| output::finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("rampart-bench: {}", failure.message()));
            failure.exit_code()
        }
    }
}

fn dispatch(cli: &Cli) -> Result<(), Failure> {
    if let Some(command) = without_json(&cli.command).filter(|_| cli.json) {
        return Err(Failure::Wrong(format!("`rampart-bench {command}` prints no JSON: leave --json out")));
    }
    match &cli.command {
        Command::Doctor => doctor::doctor(cli.json),
        Command::List { what } => list::list(*what, cli.json),
        Command::Run(args) => run::run(args, cli.json),
        Command::Calibrate(args) => calibrate::calibrate(args, cli.json, &Interrupt::install()?),
        Command::Report { dir, format } => reports::report(dir, *format, cli.json),
        Command::Compare { runs, reference, fail_if } => {
            reports::compare(runs, reference.as_deref(), fail_if.as_deref(), cli.json)
        }
        Command::History(args) => history::history(args, cli.json),
        Command::Serve(args) => serve::serve(args, &Interrupt::install()?),
        Command::Otg(args) => otg::otg(args, &Interrupt::install()?),
        Command::Agent(args) => agent::agent(args, &Interrupt::install()?),
        Command::Completion { shell } => {
            let mut command = manual::with_names(Cli::command());
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut command, "rampart-bench", &mut script);
            output::out_bytes(&script);
            Ok(())
        }
        Command::Man { dir } => manual::write(Cli::command(), dir),
    }
}

/// The commands that have nothing to say as JSON. To ignore the option would hand a program what it cannot read.
const fn without_json(command: &Command) -> Option<&'static str> {
    match command {
        Command::Serve(_) => Some("serve"),
        Command::Otg(_) => Some("otg"),
        Command::Agent(_) => Some("agent"),
        Command::Completion { .. } => Some("completion"),
        Command::Man { .. } => Some("man"),
        _ => None,
    }
}

/// A line for the person at the terminal, on standard error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", output::harmless(line));
}
