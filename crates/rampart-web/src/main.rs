//! The command line of the web administration: starts the server, and manages its users on the machine itself.
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a command line prints")]

mod cli;
mod serve;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command, UserCommand};
use passwords::prompt;
use rampart_web::users::Users;
use rampart_web::{privileges, tls};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("rampart-web: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::User { command, state } => user(command, state),
        Command::Certificate { state } => {
            tls::forget(state).map_err(|error| format!("cannot remove the certificate: {error}"))?;
            println!("the next start makes another certificate: `systemctl restart rampart-web`");
            Ok(())
        }
        Command::Man { dir } => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
            .map_err(|error| format!("cannot write manual pages into {}: {error}", dir.display())),
        Command::Completion { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "rampart-web", &mut std::io::stdout());
            Ok(())
        }
    }
}

fn user(command: &UserCommand, state: &Path) -> Result<(), String> {
    prepare(state, privileges::choose(None).ok().as_ref())?;
    let users = Users::at(&state.join(cli::USERS)).map_err(|error| error.to_string())?;
    let done = match command {
        UserCommand::List => users.all().map(|all| {
            if all.is_empty() {
                eprintln!("nobody may log in yet: `rampart-web user add NAME --role administer` makes the first user");
            }
            all.iter().for_each(|user| println!("{:<32} {}", user.name, user.role.name()));
        }),
        UserCommand::Add { name, role } => users.add(name, (*role).into(), &prompt::read(name)?),
        UserCommand::Passwd { name } => users.set_password(name, &prompt::read(name)?).map(drop),
        UserCommand::Role { name, role } => users.set_role(name, (*role).into(), true),
        UserCommand::Remove { name } => users.remove(name, true),
    };
    done.map_err(|error| error.to_string())
}

/// Makes the folder if it is not there: root makes it for the server's user, if there is one.
fn prepare(state: &Path, user: Option<&nix::unistd::User>) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    if state.is_dir() {
        return Ok(());
    }
    let cannot = |error: &dyn std::fmt::Display| format!("cannot make {}: {error}", state.display());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(|error| cannot(&error))?;
    if nix::unistd::geteuid().is_root()
        && let Some(user) = user
    {
        nix::unistd::chown(state, Some(user.uid), Some(user.gid)).map_err(|error| cannot(&error))?;
    }
    Ok(())
}
