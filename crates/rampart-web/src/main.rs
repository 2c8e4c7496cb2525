//! The command line of the web administration: starts the server, and manages its users on the machine itself.

mod cli;
mod serve;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command, UserCommand};
use passwords::{check_password, prompt};
use rampart_web::users::Users;
use rampart_web::{privileges, tls};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&why);
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::User { command, state } => user(command, state),
        Command::Certificate { state } => {
            check_folder(state)?;
            tls::forget(state).map_err(|error| format!("cannot remove the certificate: {error}"))?;
            print("the next start makes another certificate: `systemctl restart rampart-web`\n")
        }
        Command::Man { dir } => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
            .map_err(|error| format!("cannot write manual pages into {}: {error}", dir.display())),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "rampart-web", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

fn user(command: &UserCommand, state: &Path) -> Result<(), String> {
    if !matches!(command, UserCommand::Add { .. }) {
        check_folder(state)?;
    }
    let users = Users::at(&state.join(cli::USERS)).map_err(|error| error.to_string())?;
    // Nobody is to type a password twice for a name that cannot have it.
    let fits = match command {
        UserCommand::Add { name, .. } => users.check_free(name),
        UserCommand::Passwd { name } => users.check_there(name),
        _ => Ok(()),
    };
    fits.map_err(|error| error.to_string())?;
    let done = match command {
        UserCommand::List => users.all().map(|all| -> String {
            if all.is_empty() {
                say(NOBODY);
            }
            all.iter().map(|user| format!("{:<32} {}\n", user.name, user.role.name())).collect()
        }),
        UserCommand::Add { name, role } => {
            let password = prompt::read(name)?;
            check_password(name, &password).map_err(|error| error.to_string())?;
            // Only now, so that a mistake leaves no folder behind.
            prepare(state, privileges::choose(None).ok().as_ref())?;
            users.add(name, (*role).into(), &password).map(|()| String::new())
        }
        UserCommand::Passwd { name } => users.set_password(name, &prompt::read(name)?).map(|_| String::new()),
        UserCommand::Role { name, role } => {
            users.set_role(name, (*role).into(), true).map(|()| String::new())
        }
        UserCommand::Remove { name } => users.remove(name, true).map(|()| String::new()),
    };
    print(&done.map_err(|error| error.to_string())?)
}

/// Prints a text. A reader that went away (`| head`) is no fault of ours; what finds no room is one. Nothing panics, as `println!` would.
fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("what was printed is not whole: {error}"))
        }
        _ => Ok(()),
    }
}

/// A line for whoever sits at the terminal or reads the journal; nobody has to.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "rampart-web: {line}");
}

/// Said where no user was made yet.
const NOBODY: &str =
    "nobody may log in yet: `rampart-web user add NAME --role administer` makes the first user";

/// Whether there is a folder of users, where nothing makes one.
fn check_folder(state: &Path) -> Result<(), String> {
    if state.is_dir() {
        return Ok(());
    }
    Err(format!(
        "there is no folder {}: name the one of the server with --state, or make the first user, and with it the folder, by `rampart-web user \
         add NAME --role administer`",
        state.display()
    ))
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
