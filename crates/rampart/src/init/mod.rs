//! `rampart init`: a first policy for this machine. It asks at a terminal and takes options otherwise, looks at the interfaces that are here,
//! and writes text that people go on with. It puts nothing in force.

mod answers;
mod machine;
mod text;

use crate::cli::InitArgs;
use crate::failure::Failure;
use crate::output::{outln, say};
use crate::whole_file;
use machine::Machine;
use policy::Policy;
use serde_json::json;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::path::Path;

/// What a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// A machine that forwards nothing: a server, a workstation.
    Host,
    /// A network inside, which goes out by translation; nobody outside gets in.
    HomeGateway,
    /// The same with servers in a network of their own, which reach neither the office nor the firewall.
    OfficeDmz,
    /// A bridge between two interfaces of one network, which nobody sees.
    Bridge,
}

/// What the policy is to be about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    role: Role,
    /// Interfaces to the world; of a host all of its interfaces.
    wan: Vec<String>,
    lan: Vec<String>,
    dmz: Vec<String>,
}

pub(crate) fn run(args: &InitArgs, json: bool) -> Result<(), Failure> {
    let machine =
        Machine::look().map_err(|error| Failure::Machine(format!("cannot look at this machine: {error}")))?;
    let interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
    let plan = if interactive {
        answers::ask(args, &machine, &mut io::stdin().lock(), &mut io::stderr())?
    } else {
        answers::of_options(args, &machine)?
    };
    let policy = text::write(&plan, &machine);
    let name = args.output.as_ref().map_or_else(|| "policy".to_owned(), |path| path.display().to_string());
    // What it writes is right, or the mistake is ours and nothing is written.
    Policy::parse(&name, &policy).map_err(|problems| Failure::Problems(Box::new(problems)))?;
    if let Some(path) = &args.output {
        write(path, &policy, args.force)?;
    }
    match &args.output {
        _ if json => {
            let file = args.output.as_deref();
            let notes = &machine.notes;
            outln!("{:#}", json!({ "ok": true, "file": file, "policy": policy, "notes": notes }));
        }
        None => {
            crate::output::print(&policy);
            say_notes(&machine);
        }
        Some(path) => say_what_is_next(path, &machine),
    }
    Ok(())
}

/// Writes the policy's file, as a whole or not at all.
fn write(path: &Path, policy: &str, force: bool) -> Result<(), Failure> {
    let cannot = |error: io::Error| {
        Failure::Machine(format!("cannot write {}: {error}; the file is as it was", path.display()))
    };
    let exists = || {
        let what = "is there already, and init replaces no file: say --force, or another --output";
        Failure::Wrong(format!("{} {what}", path.display()))
    };
    if !force && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let put = if force { whole_file::replace } else { whole_file::create };
    put(path, 0o600, policy.as_bytes())
        .map_err(|error| if error.kind() == ErrorKind::AlreadyExists { exists() } else { cannot(error) })
}

fn say_what_is_next(path: &Path, machine: &Machine) {
    let path = path.display();
    say(format_args!("{path} is written. Read it, and then"));
    say(format_args!(
        "  rampart apply {path} --confirm 60 && rampart confirm    where the firewall runs already"
    ));
    say(format_args!("  rampart up {path}                                       where it does not"));
    say_notes(machine);
}

fn say_notes(machine: &Machine) {
    for note in &machine.notes {
        say(format_args!("note: {note}"));
    }
}

#[cfg(test)]
mod tests;
