//! `rampart user`: who may log in at gateways. Changes a file, and needs no firewall; a daemon whose policy names the file reads it again by itself.

use crate::failure::Failure;
use crate::output::say;
use clap::{Args, Subcommand};
use gateway::users::{Hash, MOST_GROUPS, MOST_USERS, User};
use passwords::file::UserFile;
use passwords::hash::Hasher;
use passwords::{UsersError, check_name, check_password, prompt, wrong};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `user`.
#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    /// The file of users, as `users_file` of a gateway names it.
    #[arg(long, value_name = "FILE", default_value = "/etc/rampart/gateway-users.json", global = true)]
    pub(crate) file: PathBuf,
    /// What is to be done.
    #[command(subcommand)]
    pub(crate) command: UserCommand,
}

/// What can be done with users of gateways.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// List the users with their groups.
    List,
    /// Add a user.
    Add {
        /// Name: small letters, digits, `.`, `_` and `-`.
        name: String,
        /// A group of the user. May be given again.
        #[arg(long = "group", value_name = "NAME")]
        groups: Vec<String>,
    },
    /// Give a user another password.
    Passwd {
        /// Name.
        name: String,
    },
    /// Give a user other groups: these, and no others.
    Groups {
        /// Name.
        name: String,
        /// Names of groups.
        groups: Vec<String>,
    },
    /// Remove a user.
    Remove {
        /// Name.
        name: String,
    },
}

pub(crate) fn run(args: &UserArgs, json: bool) -> Result<String, Failure> {
    let file = UserFile::<User>::at(&args.file);
    let failed = |error: UsersError| Failure::Wrong(error.to_string());
    let done = match &args.command {
        UserCommand::List => {
            let users = file.all().map_err(failed)?;
            if users.is_empty() && !json {
                say(format_args!(
                    "there are no users in {}: `rampart user add NAME` makes the first",
                    args.file.display()
                ));
            }
            return Ok(listed(&users, json));
        }
        UserCommand::Add { name, groups } => add(&file, name, groups)?,
        UserCommand::Passwd { name } => {
            // Nobody is to type a password twice for a name that cannot have it.
            if !has(&file, name).map_err(failed)? {
                return Err(failed(unknown(name)));
            }
            let hash = hash(name)?;
            change(&file, name, |user| {
                user.hash = hash;
                Ok(())
            })
        }
        UserCommand::Groups { name, groups } => change(&file, name, |user| {
            user.groups = checked(groups)?;
            Ok(())
        }),
        UserCommand::Remove { name } => file.change(|users| {
            let before = users.len();
            users.retain(|user| user.name != *name);
            if users.len() == before { Err(unknown(name)) } else { Ok(()) }
        }),
    };
    done.map_err(failed)?;
    Ok(if json { format!("{:#}\n", json!({ "ok": true })) } else { String::new() })
}

fn add(file: &UserFile<User>, name: &str, groups: &[String]) -> Result<Result<(), UsersError>, Failure> {
    let failed = |error: UsersError| Failure::Wrong(error.to_string());
    check_name(name).map_err(failed)?;
    let groups = checked(groups).map_err(failed)?;
    if has(file, name).map_err(failed)? {
        return Err(failed(taken(name)));
    }
    let user = User { name: name.to_owned(), groups, hash: hash(name)? };
    Ok(file.change(|users| {
        if users.iter().any(|known| known.name == name) {
            return Err(taken(name));
        }
        if users.len() >= MOST_USERS {
            return Err(wrong(format!("there are {MOST_USERS} users, and a file has no more")));
        }
        users.push(user);
        Ok(())
    }))
}

fn change(
    file: &UserFile<User>,
    name: &str,
    change: impl FnOnce(&mut User) -> Result<(), UsersError>,
) -> Result<(), UsersError> {
    file.change(|users| change(users.iter_mut().find(|user| user.name == name).ok_or_else(|| unknown(name))?))
}

fn has(file: &UserFile<User>, name: &str) -> Result<bool, UsersError> {
    Ok(file.all()?.iter().any(|user| user.name == name))
}

fn taken(name: &str) -> UsersError {
    wrong(format!("there is a user {name} already"))
}

fn unknown(name: &str) -> UsersError {
    wrong(format!("there is no user {name:?}"))
}

/// Asks for a password, and hashes it.
fn hash(name: &str) -> Result<Hash, Failure> {
    let password = prompt::read(name).map_err(Failure::Wrong)?;
    let hash = check_password(name, &password).and_then(|()| Hasher::usual()?.hash(&password));
    hash.map(Hash).map_err(|error| Failure::Wrong(error.to_string()))
}

fn checked(groups: &[String]) -> Result<Vec<String>, UsersError> {
    groups.iter().try_for_each(|group| check_name(group))?;
    let mut groups = groups.to_vec();
    groups.sort();
    groups.dedup();
    if groups.len() > MOST_GROUPS {
        return Err(wrong(format!("a user has {MOST_GROUPS} groups at most")));
    }
    Ok(groups)
}

fn listed(users: &[User], json: bool) -> String {
    if json {
        let users: Vec<_> =
            users.iter().map(|user| json!({ "name": user.name, "groups": user.groups })).collect();
        return format!("{:#}\n", json!({ "users": users }));
    }
    let line =
        |user: &User| format!("{:<32} {}", user.name, user.groups.join(" ")).trim_end().to_owned() + "\n";
    users.iter().map(line).collect()
}
