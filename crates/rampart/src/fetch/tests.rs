//! The worker as a process of its own, which is this test's binary once more.

use super::*;
use std::fs;
use std::path::Path;
use std::time::Instant;

const MARK: &str = "RAMPART_TEST_WORKER";

/// The process of the tests below. As a test of its own it has nothing to do.
#[test]
fn process_of_other_tests() {
    if std::env::var_os(MARK).is_some() {
        worker::run().unwrap();
    }
}

fn fetcher(milliseconds: u64, bytes: u64) -> Fetcher {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "fetch::tests::process_of_other_tests", "--nocapture"])
        .env(MARK, "1")
        .env("SECRET", "x");
    Fetcher::start_as(command, Limits { time: Duration::from_millis(milliseconds), bytes }).unwrap()
}

/// What a script prints, or what is wrong with it.
fn run(fetcher: &Fetcher, script: &str) -> Result<String, String> {
    let mut printed = Vec::new();
    let words = ["sh", "-c", script].map(str::to_owned);
    fetcher.fetch(&words, &mut printed)?;
    Ok(String::from_utf8(printed).unwrap())
}

/// A program that prints more than a pipe holds without a word, one that complains more than a pipe holds, and so on: one after the other, in one
/// process.
#[test]
fn what_a_command_prints_comes_back_or_why_not() {
    let fetcher = fetcher(60_000, 1 << 20);
    for (script, expected) in [
        ("echo 192.0.2.1", Ok("192.0.2.1\n")),
        ("exit 3", Err("`sh` failed (exit status: 3)")),
        (
            "echo 192.0.2.1; echo first >&2; printf 'no \\033[1msuch file\\n\\n' >&2; exit 1",
            Err("`sh` failed (exit status: 1): no [1msuch file"),
        ),
        ("echo 192.0.2.1; kill -9 $$", Err("`sh` failed (signal: 9 (SIGKILL))")),
        ("head -c 2000000 /dev/zero", Err("`sh` printed more than 1 MiB and was ended")),
        ("head -c 2000000 /dev/zero >&2; echo 192.0.2.2", Ok("192.0.2.2\n")),
        ("exec >&-; head -c 200000 /dev/zero >&2; exit 4", Err("`sh` failed (exit status: 4)")),
        ("cat; echo \"$SECRET$PWD$HOME\"", Ok("/\n")),
        // Without a shell nothing is anything else than itself.
        ("printf '%s' \"$0\" 'a b' '$(id)'", Ok("sha b$(id)")),
    ] {
        let found = run(&fetcher, script);
        match expected {
            Ok(text) => assert_eq!(found.as_deref(), Ok(text), "{script}"),
            Err(why) => {
                assert!(found.as_ref().is_err_and(|found| found.starts_with(why)), "{script}: {found:?}")
            }
        }
    }
    let missing = fetcher.fetch(&["no-such-program".to_owned()], &mut Vec::new()).unwrap_err();
    assert!(missing.starts_with("`no-such-program` cannot be run: No such file"), "{missing}");
    assert_eq!(run(&fetcher, "echo still here").as_deref(), Ok("still here\n"));
}

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let fetcher = fetcher(300, 1 << 20);
    let folder = open_folder();
    let pids = folder.path().join("pids");
    for script in [
        "echo $$ >>PIDS; echo 192.0.2.1; sleep 1000 & echo $! >>PIDS; wait",
        // In a session of its own, and with its output closed.
        "setsid sh -c 'echo $$ >>PIDS; sleep 1000 & echo $! >>PIDS; wait' & exec >&- 2>&-; wait",
        // It ends at once, and leaves somebody behind who keeps its output open.
        "setsid sh -c 'echo $$ >>PIDS; sleep 1000' &",
    ] {
        fs::write(&pids, "").unwrap();
        make_writable(&pids);
        let script = script.replace("PIDS", &pids.display().to_string());
        assert_eq!(
            run(&fetcher, &script),
            Err("`sh` took longer than 0 s and was ended".to_owned()),
            "{script}"
        );
        let started = fs::read_to_string(&pids).unwrap();
        for pid in started.split_whitespace() {
            assert!(!Path::new("/proc").join(pid).exists(), "{script}: {pid} goes on");
        }
    }
}

/// What is left in the background when a command has succeeded is ended, too.
#[test]
fn nothing_outlives_a_command_that_succeeded() {
    let fetcher = fetcher(60_000, 1 << 20);
    let started = run(&fetcher, "setsid sleep 1000 >/dev/null 2>&1 & echo $!").unwrap();
    assert!(!Path::new("/proc").join(started.trim()).exists());
}

#[test]
fn a_daemon_that_dies_takes_commands_with_it() {
    let fetcher = fetcher(600_000, 1 << 20);
    let folder = open_folder();
    let (pipe, pid) = (folder.path().join("pipe"), folder.path().join("pid"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(&pid, "").unwrap();
    [&pipe, &pid].into_iter().for_each(|path| make_writable(path));
    let script = format!("echo $$ >{}; echo ready >{}; sleep 1000", pid.display(), pipe.display());
    let stream = fetcher.stream.lock().unwrap().take().unwrap();
    let words = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let request = Request { words, milliseconds: 600_000, bytes: 1 };
    write_frame(&stream, &serde_json::to_vec(&request).unwrap()).unwrap();
    assert_eq!(fs::read_to_string(&pipe).unwrap(), "ready\n");
    let command = Path::new("/proc").join(fs::read_to_string(&pid).unwrap().trim());
    assert!(command.exists());
    drop(stream);
    let deadline = Instant::now() + Duration::from_secs(60);
    while command.exists() {
        assert!(Instant::now() < deadline, "the command goes on");
        std::thread::yield_now();
    }
    let why = run(&fetcher, "echo 192.0.2.1").unwrap_err();
    assert!(
        why.starts_with("the process that runs commands of lists has ended: start the daemon again"),
        "{why}"
    );
}

/// A worker that was killed, and one that answers nonsense.
#[test]
fn a_worker_that_is_gone_or_mad_is_no_list() {
    for (answer, what) in [
        (Vec::new(), "nothing"),
        (vec![0xff; 64], "a frame that is too long"),
        (vec![0, 0, 0, 0, 9], "half of a frame"),
    ] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&answer).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let limits = Limits { time: Duration::from_secs(60), bytes: 1 << 20 };
        let fetcher = Fetcher { stream: Mutex::new(Some(ours)), limits };
        for _ in 0..2 {
            let why = run(&fetcher, "true").unwrap_err();
            assert!(why.contains("has ended: start the daemon again"), "{what}: {why}");
        }
    }
}

/// A full disk costs this list, and not the ones after it.
#[test]
fn what_cannot_be_kept_does_not_disturb_the_next() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let fetcher = fetcher(60_000, 1 << 20);
    let words = ["head", "-c", "300000", "/dev/zero"].map(str::to_owned);
    let why = fetcher.fetch(&words, &mut Full).unwrap_err();
    assert!(why.starts_with("what was fetched cannot be kept: "), "{why}");
    assert_eq!(run(&fetcher, "echo 192.0.2.1").as_deref(), Ok("192.0.2.1\n"));
}

#[test]
fn needs_root_commands_have_no_rights() {
    if !nix::unistd::geteuid().is_root() {
        panic!("run this test as root");
    }
    let fetcher = fetcher(60_000, 1 << 20);
    let status = run(
        &fetcher,
        "cat /proc/self/status; id -u; id -G; cat /etc/shadow 2>&1; kill -9 $PPID 2>&1; echo $?",
    )
    .unwrap();
    let of = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).unwrap_or_default()
    };
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(of(name), "0000000000000000", "{name}: {status}");
    }
    // CAP_KILL, CAP_SETGID, CAP_SETUID: nothing that is executed can have them, because there are no new privileges.
    assert_eq!((of("CapBnd"), of("NoNewPrivs")), ("00000000000000e0", "1"), "{status}");
    let of_user = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    assert!(status.contains(&format!("\n{}\n{}\n", of_user.uid, of_user.gid)), "{status}");
    assert!(status.contains("Permission denied") && status.contains("not permitted"), "{status}");
    assert_eq!(run(&fetcher, "echo 192.0.2.1").as_deref(), Ok("192.0.2.1\n"), "the worker goes on");
}

/// A folder that the user of commands can enter.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    make_writable(folder.path());
    folder
}

fn make_writable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}
