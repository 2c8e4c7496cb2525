//! Manual pages and completion, from the same source as `--help`.

use crate::failure::Failure;
use clap::Command;
use clap::builder::PossibleValuesParser;
use measure::suite::Factor;
use std::path::Path;
use testbed::dut::DRIVERS;

/// The command line with the names that a shell can complete: suites, firewalls and factors. It is for completion alone; a suite
/// may also be a path, and a firewall's name is checked where a message can say more.
pub(crate) fn with_names(command: Command) -> Command {
    let suites: Vec<&str> = measure::suite::builtin_names().collect();
    let firewalls: Vec<&str> = DRIVERS.iter().map(|driver| driver.name()).collect();
    let factors: Vec<String> = Factor::ALL.iter().map(|factor| format!("{}=", factor.name())).collect();
    command.mut_subcommand("run", |run| {
        run.mut_arg("suite", |arg| arg.value_parser(PossibleValuesParser::new(suites)))
            .mut_arg("dut", |arg| arg.value_parser(PossibleValuesParser::new(firewalls)))
            .mut_arg("set", |arg| arg.value_parser(PossibleValuesParser::new(factors)))
    })
}

/// Writes the pages into a folder: `rampart-bench.1`, `rampart-bench-run.1` and so on.
///
/// # Errors
/// The folder cannot be made or written.
pub(crate) fn write(command: Command, folder: &Path) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| {
        Failure::Machine(format!("cannot write manual pages into {}: {e}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(cannot)?;
    clap_mangen::generate_to(command, folder).map_err(cannot)
}
