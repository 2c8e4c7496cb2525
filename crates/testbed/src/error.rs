//! What can go wrong with a bed or a firewall under test, in the user's words.

use std::path::PathBuf;

/// An error of this crate. Each says what happened, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Network namespaces and BPF need root.
    #[error("building a test bed needs root: run it with sudo")]
    NotRoot,
    /// The machine lacks something that no setting of the bench can replace (exit status 3).
    #[error("this machine cannot {what}: {remedy}")]
    MachineCannot {
        /// What was wanted, continuing "this machine cannot".
        what: String,
        /// What the user can do.
        remedy: String,
    },
    /// A program that a driver or the bed starts is not installed (exit status 3).
    #[error("`{program}` is not installed: {}", where_from(package))]
    ProgramMissing {
        /// The program's name.
        program: String,
        /// Debian's package that has it; none, where it is built beside the bench.
        package: Option<&'static str>,
    },
    /// A program ended with an error.
    #[error("`{command}` failed ({status}): {stderr}")]
    ProgramFailed {
        /// The command line.
        command: String,
        /// Its exit status in words.
        status: String,
        /// What it wrote to its standard error, shortened.
        stderr: String,
    },
    /// A namespace of that name exists already.
    #[error(
        "the namespace {name} is in use: if no bench runs, remove it with `ip netns del {name}`, then run again"
    )]
    NameInUse {
        /// The namespace.
        name: String,
    },
    /// The firewall cannot do what the policy asks for.
    #[error("{dut} cannot do {what}: leave it out of this test with --dut, or change the policy")]
    Unsupported {
        /// The firewall under test.
        dut: &'static str,
        /// What it cannot do.
        what: String,
    },
    /// No driver has that name.
    #[error("there is no firewall under test named {name}: known are {known}")]
    UnknownDut {
        /// What was asked for.
        name: String,
        /// All names, comma-separated.
        known: String,
    },
    /// A specification contradicts itself.
    #[error("{0}")]
    Impossible(String),
    /// The kernel refused a file operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// A verb: `read`, `write`, `open`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The kernel refused a system call.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// Why.
        source: nix::Error,
    },
    /// A BPF object was refused.
    #[error("cannot {action} the BPF program: {source}")]
    Bpf {
        /// What was tried.
        action: &'static str,
        /// Why, in libbpf's words.
        source: libbpf_rs::Error,
    },
}

impl TestbedError {
    /// Whether the machine, not the command, is at fault (exit status 3).
    pub fn is_machine(&self) -> bool {
        matches!(
            self,
            Self::NotRoot | Self::MachineCannot { .. } | Self::ProgramMissing { .. } | Self::Bpf { .. }
        )
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

fn where_from(package: &Option<&str>) -> String {
    match package {
        Some(package) => format!("install the package {package}"),
        None => "it is built beside rampart-bench by `make`".to_owned(),
    }
}
