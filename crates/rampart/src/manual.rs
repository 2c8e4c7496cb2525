//! Manual pages, from the same source as `--help`.

use crate::failure::Failure;
use clap::Command;
use std::path::Path;

/// Writes the pages into a folder: `rampart.1`, `rampart-up.1` and so on.
///
/// # Errors
/// The folder cannot be made or written.
pub(crate) fn write(command: Command, folder: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::Machine(format!("cannot write manual pages into {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(cannot)?;
    clap_mangen::generate_to(command, folder).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn each_command_that_help_shows_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let command = crate::cli::Cli::command();
        super::write(command.clone(), &folder.path().join("deep/man")).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join("deep/man").join(name));
        for shown in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            let text = page(&format!("rampart-{}.1", shown.get_name())).unwrap();
            // Examples are what people look for first.
            let help = shown.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert_eq!(help.contains("Examples:"), text.contains("Examples:"), "{}", shown.get_name());
        }
        assert!(page("rampart.1").unwrap().contains("Exit status"));
        for hidden in
            [crate::fetch::WORKER, crate::export::WORKER, crate::gateways::KEEPER, crate::gateways::WORKER]
        {
            assert!(page(&format!("rampart-{hidden}.1")).is_err(), "what is hidden has no page");
        }
    }
}
