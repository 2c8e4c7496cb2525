//! The command line: what can be said, and its help.

use clap::{Args, Parser, Subcommand, ValueEnum};
use rampart_web::users;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The file of the users, in the folder of the state.
pub(crate) const USERS: &str = "users.json";

/// The web administration of a firewall that runs on this machine.
#[derive(Debug, Parser)]
#[command(
    name = "rampart-web",
    version,
    about,
    arg_required_else_help = true,
    after_help = "Examples:
  rampart-web user add anna --role administer       make the first user
  rampart-web serve                                 serve https://127.0.0.1:8443
  rampart-web serve --listen 192.0.2.1:8443 --name fw.example

Exit status: 0 success; 2 the command is wrong, or it cannot be done."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the pages, until SIGTERM or Ctrl-C.
    ///
    /// Started as root, it becomes another user before it answers anybody. That user needs the group `rampart` to change the firewall, or
    /// `rampart-read` to ask it.
    #[command(after_help = "Examples:
  rampart-web serve --listen 192.0.2.1:8443 --certificate fw.pem --key fw.key
  rampart-web serve --listen 127.0.0.1:8080 --insecure-http     behind a server that speaks TLS")]
    Serve(ServeArgs),
    /// Manage users.
    #[command(after_help = "Examples:
  rampart-web user add anna --role administer
  printf '%s' \"$PASSWORD\" | rampart-web user passwd anna
  rampart-web user list")]
    User {
        #[command(subcommand)]
        command: UserCommand,
        /// Folder of users and certificate.
        #[arg(long, value_name = "FOLDER", default_value = "/var/lib/rampart-web", global = true)]
        state: PathBuf,
    },
    /// Remove the own certificate, so that the next start makes another.
    Certificate {
        /// Folder of users and certificate.
        #[arg(long, value_name = "FOLDER", default_value = "/var/lib/rampart-web")]
        state: PathBuf,
    },
    /// Write manual pages into a folder.
    #[command(hide = true)]
    Man {
        /// The folder.
        dir: PathBuf,
    },
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address and port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    pub(crate) listen: SocketAddr,
    /// A name by which browsers ask, besides addresses, `localhost` and the name of the machine.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Certificate, with those above it, in PEM. Without it, one of its own.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// Speak no TLS: whoever reads along reads passwords.
    #[arg(long, conflicts_with = "certificate")]
    pub(crate) insecure_http: bool,
    /// Folder of users and certificate.
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/rampart-web")]
    pub(crate) state: PathBuf,
    /// Socket of the firewall; without it, the firewall of this network namespace.
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// As whom to run when it is started as root.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// List the users with their roles.
    List,
    /// Add a user. The password comes from the terminal, which does not show it, or from standard input.
    Add {
        /// Name: small letters, digits, `.`, `_` and `-`.
        name: String,
        /// What the user may do.
        #[arg(long, value_enum, default_value = "read")]
        role: Role,
    },
    /// Give a user another password.
    Passwd {
        /// Name.
        name: String,
    },
    /// Give a user another role.
    Role {
        /// Name.
        name: String,
        /// What the user may do.
        #[arg(value_enum)]
        role: Role,
    },
    /// Remove a user.
    Remove {
        /// Name.
        name: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// See all pages but that of users.
    Read,
    /// End flows and blocks, too.
    Operate,
    /// Put policies in force and manage users, too.
    Administer,
}

impl From<Role> for users::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Read => users::Role::Read,
            Role::Operate => users::Role::Operate,
            Role::Administer => users::Role::Administer,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn every_command_that_documents_and_help_show_is_taken() {
        super::Cli::command().debug_assert();
        let wrong = testkit::documents::not_taken(super::Cli::command(), 10);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
