//! A program of a test that runs inside a namespace of a bed while trials go on: a client or a server of an application. It
//! ends with its handle on every way out; what a `kill -9` leaves, [`crate::leftovers`] ends.

use crate::error::TestbedError;
use crate::journal::{Change, Journal, start_ticks};
use crate::netns::Namespace;
use crate::program;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks at a program that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// A program that runs. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Guest {
    command: String,
    child: Child,
    output: Reader,
    errors: Reader,
    // Last: the program has ended before its line is taken from the journal.
    _journal: Journal,
}

/// What a program left behind.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: String,
    /// The first lines of its standard error.
    pub errors: String,
}

/// Reads a pipe to its end, so that its writer never waits for us.
type Reader = Option<JoinHandle<String>>;

impl Guest {
    /// Starts a program in a namespace, on these cores alone; none means any.
    ///
    /// # Errors
    /// [`TestbedError::ProgramMissing`], or what the kernel refuses.
    pub fn start(
        namespace: &Namespace,
        name: &str,
        arguments: &[&str],
        cores: &[usize],
    ) -> Result<Self, TestbedError> {
        Self::start_with(namespace, name, arguments, cores, &[])
    }

    /// The same with variables in its environment.
    pub(crate) fn start_with(
        namespace: &Namespace,
        name: &str,
        arguments: &[&str],
        cores: &[usize],
        variables: &[(&str, &str)],
    ) -> Result<Self, TestbedError> {
        let file = program::find(name).ok_or_else(|| TestbedError::ProgramMissing {
            program: name.to_owned(),
            package: program::package_of(name),
        })?;
        let mut journal = Journal::start()?;
        let mut child = start_recorded(namespace, &mut journal, || {
            // The thread is the namespace's own and ends with this; its program inherits the cores.
            pin(cores)?;
            Command::new(&file)
                .args(arguments)
                .env("LC_ALL", "C")
                .envs(variables.iter().copied())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(TestbedError::io("start", &file))
        })?;
        let (output, errors) = (read(child.stdout.take()), read(child.stderr.take()));
        let command = format!("{name} {}", arguments.join(" "));
        Ok(Self { command, child, output, errors, _journal: journal })
    }

    /// Waits until it listens on a TCP port of its namespace.
    ///
    /// # Errors
    /// [`TestbedError::ProgramFailed`] when it ended instead, [`TestbedError::Impossible`] when it takes too long.
    pub fn wait_until_it_listens(&mut self, port: u16) -> Result<(), TestbedError> {
        let pid = self.child.id();
        self.wait_until(&format!("listen on port {port}"), PATIENCE, || listens(pid, port))
    }

    /// Waits until it does what it was started for, continuing "it did not".
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        patience: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), TestbedError> {
        let begun = Instant::now();
        while !ready() {
            self.check_runs()?;
            if begun.elapsed() > patience {
                let (command, seconds) = (&self.command, patience.as_secs());
                return Err(TestbedError::Impossible(format!(
                    "`{command}` did not {what} within {seconds} s"
                )));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Fails with its last words when it has ended.
    pub(crate) fn check_runs(&mut self) -> Result<(), TestbedError> {
        match self.status()? {
            None => Ok(()),
            Some(status) => Err(TestbedError::ProgramFailed {
                command: self.command.clone(),
                status: status.to_string(),
                stderr: said(&mut self.errors),
            }),
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and kills it where it does not.
    pub(crate) fn end(mut self, patience: Duration) {
        // It may have ended by itself.
        let _ =
            nix::sys::signal::kill(Pid::from_raw(self.child.id() as i32), nix::sys::signal::Signal::SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < patience && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether it has ended by itself.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn has_ended(&mut self) -> Result<bool, TestbedError> {
        Ok(self.status()?.is_some())
    }

    /// Waits for its end and returns what it wrote. Ask [`Self::has_ended`] first where it may take for ever.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn finish(mut self) -> Result<Ended, TestbedError> {
        let status = self.child.wait().map_err(TestbedError::io("wait for", &self.command))?;
        let output = self.output.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        Ok(Ended { status, output, errors: said(&mut self.errors) })
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, TestbedError> {
        self.child.try_wait().map_err(TestbedError::io("look at", &self.command))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself, and been waited for.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Starts a program inside a namespace and writes it to the journal, so that the next run ends it where this one cannot.
///
/// # Errors
/// What `start` says, or the journal cannot be written; then the program has ended.
pub(crate) fn start_recorded(
    namespace: &Namespace,
    journal: &mut Journal,
    start: impl FnOnce() -> Result<Child, TestbedError> + Send,
) -> Result<Child, TestbedError> {
    let mut child = namespace.enter(start)??;
    let pid = child.id();
    // One that has ended already has no start any more.
    if let Some(start_ticks) = start_ticks(pid)
        && let Err(error) = journal.record(Change::Process { pid, start_ticks })
    {
        // Nobody would end it later.
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok(child)
}

/// What a program says of its version, in one line; `None` when it is not there.
pub fn version(name: &str) -> Option<String> {
    program::version_line(name, "--version")
}

/// Bytes of the machine's memory that a program has; `None` when it has ended.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(kilobytes.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The threads of a program; none when it has ended.
pub(crate) fn threads_of(pid: u32) -> impl Iterator<Item = i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let numbers = tasks.into_iter().flatten().flatten();
    numbers.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok())
}

fn pin(cores: &[usize]) -> Result<(), TestbedError> {
    if cores.is_empty() {
        return Ok(());
    }
    let refused = |source| TestbedError::System { action: format!("choose the cores {cores:?}"), source };
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core).map_err(refused)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(refused)
}

fn read(pipe: Option<impl Read + Send + 'static>) -> Reader {
    let mut pipe = pipe?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read is not reported.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

fn said(errors: &mut Reader) -> String {
    let text = errors.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
    program::shortened(&text)
}

/// Whether anything in a process' namespace listens on a TCP port.
fn listens(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"].into_iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| is_listener(line, port))
    })
}

/// A line of `/proc/net/tcp`: number, local address and port in hexadecimal, remote ones, state. 0A is LISTEN.
fn is_listener(line: &str, port: u16) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let local = words.next().and_then(|address| address.rsplit_once(':'));
    local.and_then(|(_, hex)| u16::from_str_radix(hex, 16).ok()) == Some(port) && words.nth(1) == Some("0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_distinguished_from_connections() {
        let rows = [
            ("   0: 0200E3C6:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000", 5201, true),
            ("   0: 0200E3C6:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000", 5202, false),
            ("   1: 0200E3C6:1451 0200E2C6:9C40 01 00000000:00000000 00:00000000 00000000", 5201, false),
            (
                "   0: 00000000000000000000000000000000:1451 00000000000000000000000000000000:0000 0A 0:0 00:0 0",
                5201,
                true,
            ),
            ("  sl  local_address rem_address   st tx_queue rx_queue", 5201, false),
            ("", 5201, false),
        ];
        for (line, port, expected) in rows {
            assert_eq!(is_listener(line, port), expected, "{line}");
        }
    }

    #[test]
    fn needs_root_a_guest_that_is_dropped_is_gone_and_its_words_are_kept() {
        let here = Namespace::current().unwrap();
        let guest = Guest::start(&here, "sleep", &["1000"], &[0]).unwrap();
        let pid = guest.child.id();
        assert!(start_ticks(pid).is_some());
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(
            status.lines().any(|l| l.starts_with("Cpus_allowed_list:") && l.ends_with("\t0")),
            "{status}"
        );
        drop(guest);
        assert_eq!(start_ticks(pid), None);
        // More than a pipe holds.
        let ended = Guest::start(&here, "seq", &["100000"], &[]).and_then(Guest::finish).unwrap();
        assert!(ended.status.success() && ended.output.ends_with("\n100000\n"));
        let mut failed = Guest::start(&here, "sh", &["-c", "echo no port >&2; exit 4"], &[]).unwrap();
        let error = failed.wait_until_it_listens(1).unwrap_err().to_string();
        assert!(error.contains("no port") && error.contains('4'), "{error}");
        let missing = Guest::start(&here, "rampart-no-such-program", &[], &[]).unwrap_err();
        assert!(matches!(missing, TestbedError::ProgramMissing { .. }), "{missing}");
    }
}
