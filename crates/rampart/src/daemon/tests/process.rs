//! A daemon as a process: signals, locks, and what is left.

use super::*;

/// The process of the tests below: a daemon over the plane in memory, in the folder that they name. As a test of its own it
/// has nothing to do.
#[test]
fn process_of_other_tests() {
    let Some(folder) = std::env::var_os("RAMPART_TEST_FOLDER").map(PathBuf::from) else { return };
    let file = folder.join("policy.toml");
    let instance = instance_in(&folder);
    let policy = Policy::parse("policy.toml", &fs::read_to_string(&file).unwrap()).unwrap();
    let log = Log::new(false, Box::new(std::io::stdout()));
    let plane = Box::new(Memory::default());
    let done = instance.lock().map_err(crate::failure::Failure::from).and_then(|lock| {
        let daemon = crate::up::start(&instance, policy, plane, Hook::Tc, log, None, None)?;
        crate::up::stay(&instance, lock, daemon, &file, (crate::up::waker()?, None))
    });
    if let Err(failure) = done {
        panic!("{failure}");
    }
}

/// A daemon in a process of its own, ended with the value.
struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "daemon::tests::process::process_of_other_tests", "--nocapture"])
            .env("RAMPART_TEST_FOLDER", folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Reads its output until a line has these words.
    fn until(&mut self, words: &str) -> String {
        let mut output = String::new();
        while !output.contains(words) {
            let before = output.len();
            self.out.read_line(&mut output).unwrap();
            assert!(output.len() > before, "it ended without {words:?}: {output}");
        }
        output
    }

    fn signal(&self, signal: i32) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::try_from(signal).unwrap()).unwrap();
    }

    fn end(mut self) -> (bool, String) {
        use std::io::Read as _;
        let ended = self.child.wait().unwrap().success();
        let mut output = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        (ended, output)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_second_daemon_in_a_namespace_is_refused_with_the_process_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), usual()).unwrap();
    let mut first = Process::start(folder.path());
    first.until("answers on");
    let (well, output) = Process::start(folder.path()).end();
    let expected =
        format!("a firewall runs in this network namespace already (process {})", first.child.id());
    assert!(!well && output.contains(&expected), "{output}");
    // It has not taken the socket of the first away.
    UnixStream::connect(folder.path().join("test.sock")).unwrap();
}

#[test]
fn signals_end_it_in_order_and_read_the_policy_again() {
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("policy.toml"), folder.path().join("test.sock"));
    for (signal, reported) in [
        (nix::libc::SIGTERM, "left: by SIGTERM: the firewall goes on judging"),
        (nix::libc::SIGINT, "down: by SIGINT"),
    ] {
        fs::write(&file, usual()).unwrap();
        let mut process = Process::start(folder.path());
        process.until("answers on");
        fs::write(&file, format!("{}{}", usual(), rule("mail", ""))).unwrap();
        process.signal(nix::libc::SIGHUP);
        process.until("policy.toml as generation 2, by SIGHUP: rules: 1 added (mail)");
        fs::write(&file, "[zones").unwrap();
        process.signal(nix::libc::SIGHUP);
        process.until("refused: ");
        fs::remove_file(&file).unwrap();
        process.signal(nix::libc::SIGHUP);
        process.until("the policy in force stays");
        process.signal(signal);
        process.until(reported);
        assert!(process.end().0);
        assert!(!socket.exists());
    }
}

#[test]
fn what_a_killed_daemon_left_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), usual()).unwrap();
    let mut first = Process::start(folder.path());
    first.until("answers on");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert!(folder.path().join("test.sock").exists());
    let mut second = Process::start(folder.path());
    second.until("answers on");
    UnixStream::connect(folder.path().join("test.sock")).unwrap();
}

#[test]
fn whoever_takes_it_down_may_start_another_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), usual()).unwrap();
    for _ in 0..3 {
        let mut process = Process::start(folder.path());
        process.until("answers on");
        let down =
            rampart_client::Client::new(Some(&folder.path().join("test.sock"))).unwrap().down().unwrap();
        assert_eq!((down.pid, down.detached.len()), (process.child.id(), 3));
        let instance = instance_in(folder.path());
        assert!(!instance.lock.exists() && !instance.socket.exists());
        assert!(instance.lock().is_ok());
        assert!(process.end().0);
    }
}

#[test]
fn what_is_no_socket_is_not_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let instance = Instance { socket: folder.path().join("precious"), ..instance_in(folder.path()) };
    fs::write(&instance.socket, "text").unwrap();
    let output = crate::failure::Failure::from(instance.listen().unwrap_err()).to_string();
    assert!(output.contains("is there and is no socket: name another with --socket"), "{output}");
    assert_eq!(fs::read_to_string(&instance.socket).unwrap(), "text");
}
