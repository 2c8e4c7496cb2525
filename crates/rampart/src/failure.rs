//! How a command ends when it does not end well. Each kind is one exit status.

use crate::api::{Problem, Refusal};
use crate::daemon::log::escaped;
use policy::Problems;
use rampart_client::ClientError;
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// A reason not to end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command or a file is wrong: 2. The text is complete.
    Wrong(String),
    /// The policy has errors: 2.
    Problems(Box<Problems>),
    /// The firewall refused: 2 when what was asked is wrong, 3 when it is the machine.
    Refused {
        /// Whether it is the machine.
        machine: bool,
        /// What it said.
        refusal: Box<Refusal>,
    },
    /// This machine cannot, or no firewall runs here: 3. The text is complete.
    Machine(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text has lines of its own; names of files in it may have anything.
            Failure::Wrong(text) | Failure::Machine(text) => {
                let lines: Vec<String> = text.split('\n').map(escaped).collect();
                write!(f, "rampart: {}", lines.join("\n"))
            }
            Failure::Problems(problems) => {
                writeln!(f, "{problems}")?;
                write_count(f, problems.list().len())
            }
            Failure::Refused { refusal, .. } if refusal.problems.is_empty() => {
                write!(f, "rampart: {}", refusal.error)
            }
            Failure::Refused { refusal, .. } => {
                for problem in &refusal.problems {
                    let Problem { file, line, column, message, .. } = problem;
                    writeln!(f, "{file}:{line}:{column}: {message}")?;
                    if let Some(help) = &problem.help {
                        writeln!(f, "  {help}")?;
                    }
                }
                write_count(f, refusal.problems.len())
            }
        }
    }
}

fn write_count(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    write!(f, "{count} error{}", if count == 1 { "" } else { "s" })
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status())
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Wrong(_) | Failure::Problems(_) | Failure::Refused { machine: false, .. } => 2,
            Failure::Machine(_) | Failure::Refused { machine: true, .. } => 3,
        }
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            Failure::Wrong(text) | Failure::Machine(text) => json!({ "ok": false, "error": text }),
            Failure::Problems(problems) => {
                let errors: Vec<Problem> = problems.list().iter().map(Problem::from).collect();
                json!({ "ok": false, "errors": errors, "warnings": [] })
            }
            Failure::Refused { refusal, .. } if refusal.problems.is_empty() => {
                json!({ "ok": false, "error": refusal.error })
            }
            Failure::Refused { refusal, .. } => {
                json!({ "ok": false, "errors": refusal.problems, "warnings": [] })
            }
        }
    }
}

/// What is so where a daemon has left a firewall that goes on (SIGTERM, `systemctl stop`); `None` where there is none, or somebody asks who cannot
/// see it. Told that none runs, an operator would look for what drops his packets everywhere else.
fn left_alone(socket: &Path) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let earlier = dataplane::Earlier::find().ok().flatten()?;
    let (socket, interfaces) = (socket.display(), earlier.interfaces().join(", "));
    Some(format!(
        "no daemon answers (there is no {socket}), and the firewall that it left goes on by its last policy at {interfaces}: `rampart up` takes over, \
         and `rampart down` ends it"
    ))
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused { status, refusal } => Failure::Refused { machine: status >= 500, refusal },
            ClientError::Absent(ref socket) => {
                Failure::Machine(left_alone(socket).unwrap_or_else(|| error.to_string()))
            }
            ClientError::Unreachable(text) => Failure::Machine(text),
            ClientError::Json(_) => Failure::Wrong(error.to_string()),
        }
    }
}
