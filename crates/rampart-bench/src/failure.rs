//! How a command ends when it does not end well. Each kind is one exit status.

use ::history::HistoryError;
use measure::plan::PlanError;
use measure::suite::Problems;
use report::ReportError;
use std::process::ExitCode;
use testbed::TestbedError;
use traffic::TrafficError;

/// A reason not to end with status 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A `--fail-if` is true, or an expectation of the suite is broken: 1.
    Expectation(String),
    /// The command or a file is wrong: 2. The text is complete.
    Wrong(String),
    /// This machine cannot: 3. The text names doctor's line.
    Machine(String),
    /// The user asked to stop: 130, as a shell counts Ctrl-C.
    Interrupted,
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Expectation(_) => 1,
            Failure::Wrong(_) => 2,
            Failure::Machine(_) => 3,
            Failure::Interrupted => 130,
        })
    }

    /// The message to the user.
    pub(crate) fn message(&self) -> &str {
        match self {
            Failure::Expectation(text) | Failure::Wrong(text) | Failure::Machine(text) => text,
            Failure::Interrupted => "interrupted: everything that was built has been taken down",
        }
    }

    /// Problems of a text, each drawn with its place.
    pub(crate) fn wrong_text(problems: Problems) -> Self {
        let drawn: Vec<String> =
            problems.reports().map(|report| format!("{report:?}").trim_end().to_owned()).collect();
        Failure::Wrong(drawn.join("\n"))
    }
}

impl From<TestbedError> for Failure {
    fn from(error: TestbedError) -> Self {
        if error.is_machine() {
            Failure::Machine(format!(
                "{error}\n`rampart-bench doctor` shows everything that this machine lacks"
            ))
        } else {
            Failure::Wrong(error.to_string())
        }
    }
}

impl From<TrafficError> for Failure {
    fn from(error: TrafficError) -> Self {
        match error {
            TrafficError::Interrupted => Failure::Interrupted,
            TrafficError::Impossible(text) => Failure::Wrong(text),
            other => Failure::Machine(other.to_string()),
        }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            // A disk that is full or a folder that cannot be written is the machine's fault.
            ReportError::Write { .. } | ReportError::Journal { .. } => Failure::Machine(error.to_string()),
            other => Failure::Wrong(other.to_string()),
        }
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        if error.is_machine() {
            Failure::Machine(error.to_string())
        } else {
            Failure::Wrong(error.to_string())
        }
    }
}

impl From<::otg::OtgError> for Failure {
    fn from(error: ::otg::OtgError) -> Self {
        match error {
            ::otg::OtgError::Generator(error) => error.into(),
            ::otg::OtgError::Certificate(_) => Failure::Machine(error.to_string()),
            // What is no address at all is a word of the command.
            ::otg::OtgError::Listen { ref source, .. }
                if source.kind() != std::io::ErrorKind::InvalidInput =>
            {
                Failure::Machine(error.to_string())
            }
            other => Failure::Wrong(other.to_string()),
        }
    }
}

impl From<agents::AgentsError> for Failure {
    fn from(error: agents::AgentsError) -> Self {
        match error {
            agents::AgentsError::Wrong(text) => Failure::Wrong(text),
            other => Failure::Machine(other.to_string()),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let machine = error.exit_status() == 3;
        match error {
            PlanError::Suite(problems) => Failure::wrong_text(problems),
            other if machine => Failure::Machine(other.to_string()),
            other => Failure::Wrong(other.to_string()),
        }
    }
}
