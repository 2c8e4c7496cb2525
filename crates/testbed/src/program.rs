//! Starts the system's own programs (`ip`, `nft`, `tc`, …) in the caller's namespace and turns their failures
//! into errors that name the command. Never starts a shell.

use crate::error::TestbedError;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// [`TestbedError::ProgramMissing`] or [`TestbedError::ProgramFailed`].
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, TestbedError> {
    feed(program, arguments, |_| Ok(()))
}

/// Runs a program with this text as its standard input.
pub(crate) fn run_with_input(program: &str, arguments: &[&str], input: &str) -> Result<String, TestbedError> {
    feed(program, arguments, |pipe| pipe.write_all(input.as_bytes()))
}

/// Runs a program whose standard input `write` produces; for input too long to hold in memory.
pub(crate) fn feed(
    program: &str,
    arguments: &[&str],
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<String, TestbedError> {
    let mut child = Command::new(path(program))
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(program, error))?;
    // A program that fails early closes the pipe: its own message says more than our broken pipe.
    if let Some(pipe) = child.stdin.take() {
        let mut buffered = std::io::BufWriter::with_capacity(1 << 16, pipe);
        let _ = write(&mut buffered).and_then(|()| buffered.flush());
    }
    let output = child.wait_with_output().map_err(TestbedError::io("wait for", program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(TestbedError::ProgramFailed {
        command: format!("{program} {}", arguments.join(" ")),
        status: output.status.to_string(),
        stderr: shortened(&String::from_utf8_lossy(&output.stderr)),
    })
}

/// Programs that are built together with this one.
const OURS: [&str; 1] = ["rampart"];

/// Whether a program of that name is found.
pub(crate) fn is_installed(program: &str) -> bool {
    find(program).is_some()
}

/// A program by its full path where it is found, and by its name where not, so that starting it says what is missing.
pub(crate) fn path(program: &str) -> std::path::PathBuf {
    find(program).unwrap_or_else(|| program.into())
}

/// Where a program is: beside this one (our own programs are built together), `PATH`, then the places of system programs that a user's `PATH` often lacks.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let beside = std::env::current_exe().ok();
    // Test programs lie one folder below.
    let folders = beside.iter().flat_map(|exe| exe.ancestors().skip(1).take(2));
    let ours =
        folders.map(|folder| folder.join(program)).find(|file| OURS.contains(&program) && file.is_file());
    let path = std::env::var("PATH").unwrap_or_default();
    ours.or_else(|| {
        path.split(':')
            .chain(["/usr/sbin", "/sbin", "/usr/bin"])
            .filter(|folder| !folder.is_empty())
            .map(|folder| std::path::Path::new(folder).join(program))
            .find(|candidate| candidate.is_file())
    })
}

/// First line that a program prints about its version, or `None` when it is not there.
pub(crate) fn version_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(path(program)).arg(argument).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&text).lines().next().map(|line| line.trim().to_owned())
}

fn cannot_start(program: &str, error: std::io::Error) -> TestbedError {
    if error.kind() == std::io::ErrorKind::NotFound {
        TestbedError::ProgramMissing { program: program.to_owned(), package: package_of(program) }
    } else {
        TestbedError::Io { action: "start", path: program.into(), source: error }
    }
}

/// Debian's package for a program that this crate starts; none has what is built beside the bench.
pub(crate) fn package_of(program: &str) -> Option<&'static str> {
    Some(match program {
        "ip" | "tc" => "iproute2",
        "nft" => "nftables",
        "ethtool" => "ethtool",
        "ipset" => "ipset",
        "conntrack" => "conntrack",
        "ovs-vswitchd" | "ovsdb-server" | "ovsdb-tool" | "ovs-vsctl" | "ovs-ofctl" | "ovs-appctl" => {
            "openvswitch-switch"
        }
        "iperf3" => "iperf3",
        "haproxy" => "haproxy",
        "squid" => "squid",
        "dnsmasq" => "dnsmasq-base",
        "rampart" => return None,
        _ => "iptables",
    })
}

/// A rule set of a million lines that fails may print as many errors: the first few tell it all.
pub(crate) fn shortened(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut text = lines.iter().take(4).copied().collect::<Vec<_>>().join("; ");
    if lines.len() > 4 {
        text.push_str(&format!("; and {} lines more", lines.len() - 4));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = run("rampart-no-such-program", &[]).unwrap_err();
        assert!(matches!(error, TestbedError::ProgramMissing { .. }), "{error}");
    }

    #[test]
    fn a_failing_program_is_quoted() {
        let error = run_with_input("sh", &["-c", "cat >&2; exit 3"], "no such thing\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no such thing") && text.contains("3"), "{text}");
    }

    #[test]
    fn a_program_that_does_not_read_its_input_is_no_error() {
        let long = "x".repeat(1 << 20);
        assert_eq!(run_with_input("echo", &["done"], &long).unwrap(), "done\n");
    }
}
