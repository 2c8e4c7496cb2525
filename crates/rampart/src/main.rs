//! The command line of the firewall and its daemon: reads files and the clock, calls the libraries, prints. Decides nothing
//! about packets.

mod ask;
mod backup;
mod before;
mod boot;
mod check;
mod cli;
mod country_files;
mod daemon;
mod domains;
mod explain;
mod export;
mod failure;
mod fetch;
mod fleet_command;
mod forwarding;
mod gateways;
mod gone;
mod history;
mod import;
mod init;
mod kernel;
mod list_command;
mod list_copies;
mod list_files;
mod list_room;
mod manual;
#[cfg(test)]
mod memory;
mod moment;
mod output;
mod own_rules;
mod own_session;
mod plane;
mod privileges;
mod side_by_side;
mod state;
mod supervisor;
mod table;
mod up;
mod user_command;
mod whole_file;
mod worker_stream;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Failure;
use policy::Policy;
use rampart_client::{api, http};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = run(&cli).and_then(|status| output::finish().map(|()| status));
    match done {
        Ok(status) => status,
        Err(failure) => {
            if cli.json {
                output::line(format_args!("{:#}", failure.json()));
            }
            // Where JSON finds no room, somebody still has to hear of it.
            if !cli.json || output::finish().is_err() {
                output::say(format_args!("{failure}"));
            }
            failure.exit_code()
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    let json = cli.json;
    if let Some(command) = without_json(&cli.command).filter(|_| json) {
        return Err(Failure::Wrong(format!("`rampart {command}` prints no JSON: leave --json out")));
    }
    let text = match &cli.command {
        Command::Check(args) => return check::run(args, json),
        Command::List(command) => return list_command::run(command, json),
        Command::Import(args) => return import::run(args, json),
        Command::Init(args) => return init::run(args, json).map(|()| ExitCode::SUCCESS),
        Command::Explain(args) => return explain::run(args, json),
        Command::Agent(args) => return fleet_command::agent(args),
        Command::Up(args) => return up::run(args, json).map(|()| ExitCode::SUCCESS),
        Command::Top(args) => {
            return ask::top::top(args, json, &mut output::Output).map(|()| ExitCode::SUCCESS);
        }
        Command::Log(args) => {
            return ask::log::log(args, json, &mut output::Output).map(|()| ExitCode::SUCCESS);
        }
        Command::Fleet(args) => fleet_command::run(args, json)?,
        Command::Apply(args) => ask::apply(args, json)?,
        Command::Confirm(args) => ask::confirm(args, json)?,
        Command::History(args) => ask::history::history(args, json)?,
        Command::Diff(args) => ask::history::diff(args, json)?,
        Command::Export(args) => ask::history::export(args, json)?,
        Command::Rollback(args) => ask::apply::rollback(args, json)?,
        Command::FactoryReset(args) => ask::apply::factory_reset(args, json)?,
        Command::Backup(args) => ask::backup::backup(args, json)?,
        Command::Restore(args) => ask::backup::restore(args, json)?,
        Command::Status(args) => ask::status(args, json)?,
        Command::Rules(args) => ask::rules(args, json)?,
        Command::Lists(args) => ask::lists(args, json)?,
        Command::Metrics(args) => ask::metrics(args, json)?,
        Command::User(args) => user_command::run(args, json)?,
        Command::Flows(args) => ask::flows(args, json)?,
        Command::Blocks(args) => ask::blocks(args, json)?,
        Command::Stations(args) => ask::stations(args, json)?,
        Command::Drops(args) => ask::drops(args, json)?,
        Command::Down(args) => ask::down(args, json)?,
        Command::Openapi => format!("{:#}\n", api::description()),
        Command::FetchLists => return fetch::worker::run().map(|()| ExitCode::SUCCESS),
        Command::ExportEvents => return export::worker::run().map(|()| ExitCode::SUCCESS),
        Command::KeepGateways => return gateways::keeper::run().map(|()| ExitCode::SUCCESS),
        Command::RunGateway => return gateways::worker::run().map(|()| ExitCode::SUCCESS),
        Command::Man { dir } => return manual::write(Cli::command(), dir).map(|()| ExitCode::SUCCESS),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "rampart", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    output::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// The commands that have nothing to say as JSON. To ignore the option would hand a program what it cannot read.
const fn without_json(command: &Command) -> Option<&'static str> {
    match command {
        Command::Man { .. } => Some("man"),
        Command::Completion { .. } => Some("completion"),
        Command::Agent(_) => Some("agent"),
        _ => None,
    }
}

/// Reads and checks a policy's file.
fn read_policy(path: &Path) -> Result<Policy, Failure> {
    parsed(path, read_text(path)?)
}

fn parsed(path: &Path, (name, text): (String, String)) -> Result<Policy, Failure> {
    let policy = Policy::parse(&name, &text).map_err(|problems| Failure::Problems(Box::new(problems)))?;
    Ok(policy.in_folder(folder_of(path)))
}

/// The folder of a file, from the root on: from there a policy names other files.
fn folder_of(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute.parent().map(Path::to_owned)
}

/// The argument that means standard input, for commands that read a policy once; a file of this name is `./-`.
const STDIN: &str = "-";

/// Reads a policy's file, or standard input for `-`: how messages call it, and what it says.
fn read_text_or_stdin(path: &Path) -> Result<(String, String), Failure> {
    if path != Path::new(STDIN) {
        return read_text(path);
    }
    text("<stdin>".to_owned(), whole_file::read_from(std::io::stdin().lock()))
}

/// Reads a policy's file: how messages call it, and what it says.
fn read_text(path: &Path) -> Result<(String, String), Failure> {
    text(path.display().to_string(), whole_file::read(path))
}

fn text(name: String, read: std::io::Result<Vec<u8>>) -> Result<(String, String), Failure> {
    let bytes = read.map_err(|error| Failure::Wrong(format!("cannot read {name}: {error}")))?;
    if backup::begins(&bytes) {
        let what = "is a backup and no policy: `rampart restore` puts the policy in it in force";
        return Err(Failure::Wrong(format!("{name} {what}")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Failure::Wrong(format!("{name}:{line}: not UTF-8 text: save the file as UTF-8"))
    })?;
    Ok((name, text))
}
