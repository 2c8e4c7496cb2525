//! The worker as a process of its own, which is this test's binary once more.

use super::*;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use tempfile::TempDir;

const MARK: &str = "RAMPART_TEST_WORKER";

/// The process of the tests below. As a test of its own it has nothing to do.
#[test]
fn process_of_other_tests() {
    if std::env::var_os(MARK).is_some() {
        worker::run().unwrap();
    }
}

fn fetcher(milliseconds: u64, bytes: u64) -> Fetcher {
    started(milliseconds, bytes).0
}

fn started(milliseconds: u64, bytes: u64) -> (Fetcher, Child) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "fetch::tests::process_of_other_tests", "--nocapture"])
        .env(MARK, "1")
        .env("SECRET", "x");
    Fetcher::start_as(command, Limits { time: Duration::from_millis(milliseconds), bytes }).unwrap()
}

/// A pipe that scripts hold open for writing, so that its end says that all of them, and all that they have started, have ended.
struct Held {
    _folder: TempDir,
    path: PathBuf,
    end: File,
}

impl Held {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // The user of commands can enter, and write.
        for path in [folder.path(), &path] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let end = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&path).unwrap();
        Self { _folder: folder, path, end }
    }

    /// A script that holds the pipe, and has written to it before it goes on.
    fn by(&self, script: &str) -> String {
        format!("exec 9>{}; echo >&9; {script}", self.path.display())
    }

    /// Waits for what a script writes to it.
    fn wait_for_a_script(&mut self) {
        self.wait();
        let mut line = [0; 1];
        assert_eq!(self.end.read(&mut line).unwrap(), 1, "a script has written");
    }

    fn wait(&self) {
        let mut asked = [PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut asked, PollTimeout::from(60_000u16)), Ok(1), "nothing comes");
    }

    /// Nobody holds it any more. Returns whether a script ever did.
    #[track_caller]
    fn is_free(&mut self, what: &str) -> bool {
        let mut text = Vec::new();
        // Whoever holds it without a word makes this fail: the read would have to wait.
        assert!(self.end.read_to_end(&mut text).is_ok(), "{what}: somebody goes on");
        !text.is_empty()
    }
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
fn needs_root_what_a_command_prints_comes_back_or_why_not() {
    let fetcher = fetcher(60_000, 1 << 20);
    for (script, expected) in [
        ("echo 192.0.2.1", Ok("192.0.2.1\n")),
        ("exit 3", Err("`sh` failed (exit status: 3)")),
        (
            "echo 192.0.2.1; echo first >&2; printf 'no \\033[1msuch file\\n\\n' >&2; exit 1",
            Err("`sh` failed (exit status: 1): no [1msuch file"),
        ),
        ("head -c 2000000 /dev/zero | tr '\\0' x >&2; exit 1", Err("`sh` failed (exit status: 1): xxx")),
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
    let odd = fetcher.fetch(&["no\nsuch\u{1b}[1m".to_owned()], &mut Vec::new()).unwrap_err();
    assert!(odd.starts_with("`nosuch[1m` cannot be run: "), "a line of its own in the log: {odd}");
    let missing = fetcher.fetch(&["no-such-program".to_owned()], &mut Vec::new()).unwrap_err();
    assert!(missing.starts_with("`no-such-program` cannot be run: No such file"), "{missing}");
    assert_eq!(run(&fetcher, "echo still here").as_deref(), Ok("still here\n"));
}

#[test]
fn needs_root_a_command_that_hangs_is_ended_with_all_that_it_started() {
    for script in [
        "echo 192.0.2.1; sleep 1000 & wait",
        // In a session of its own, and with its output closed.
        "setsid sh -c 'sleep 1000 & wait' & exec >&- 2>&-; wait",
        // It ends at once, and leaves somebody behind who keeps its output open.
        "setsid sleep 1000 &",
        "trap '' TERM INT HUP; while :; do sleep 1000; done",
    ] {
        // On a busy machine a script may not have begun when its time is over.
        let has_begun = [1, 5, 25].into_iter().any(|seconds| {
            let mut held = Held::new();
            let why = Err(format!("`sh` took longer than {seconds} s and was ended"));
            assert_eq!(run(&fetcher(seconds * 1_000, 1 << 20), &held.by(script)), why, "{script}");
            held.is_free(script)
        });
        assert!(has_begun, "{script}");
    }
}

/// What is left in the background when a command has succeeded is ended, too.
#[test]
fn needs_root_nothing_outlives_a_command_that_succeeded() {
    let fetcher = fetcher(60_000, 1 << 20);
    for script in [
        "setsid sleep 1000 >/dev/null 2>&1 &",
        // One starts the other, and none is there for long.
        "again() { again & }; again >/dev/null 2>&1 &",
        "unshare --user --pid --fork sleep 1000 >/dev/null 2>&1 &",
    ] {
        let mut held = Held::new();
        assert_eq!(
            run(&fetcher, &held.by(&format!("{script}\necho 192.0.2.1"))).as_deref(),
            Ok("192.0.2.1\n")
        );
        assert!(held.is_free(script), "{script}");
    }
}

/// The daemon is killed, or the worker, while a command runs.
#[test]
fn needs_root_whoever_dies_takes_commands_along() {
    const HANGS: &str = "setsid sleep 1000 & wait";
    let mut held = Held::new();
    let fetcher = fetcher(600_000, 1 << 20);
    let stream = fetcher.stream.lock().unwrap().take().unwrap();
    let words = ["sh", "-c", &held.by(HANGS)].map(str::to_owned).to_vec();
    let request = Request { words, milliseconds: 600_000, bytes: 1 };
    write_frame(&stream, &serde_json::to_vec(&request).unwrap()).unwrap();
    held.wait_for_a_script();
    drop(stream);
    held.wait();
    assert_eq!(held.end.read(&mut [0]).unwrap(), 0, "a command goes on without a daemon");

    let mut held = Held::new();
    let (fetcher, mut worker) = started(600_000, 1 << 20);
    let why = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&fetcher, &held.by(HANGS)));
        held.wait();
        worker.kill().unwrap();
        running.join().unwrap().unwrap_err()
    });
    worker.wait().unwrap();
    assert!(held.is_free("the worker was killed"));
    assert!(
        why.starts_with("the process that runs commands of lists has ended: start the daemon again"),
        "{why}"
    );
    assert!(run(&fetcher, "echo 192.0.2.1").is_err(), "and stays so");
}

/// A worker that was killed, and one that answers nonsense.
#[test]
fn a_worker_that_is_gone_or_mad_is_no_list() {
    for (answer, what) in [
        (Vec::new(), "nothing"),
        (vec![0xff; 64], "a frame that is too long"),
        (vec![0, 0, 0, 0, 9], "half of a frame"),
        ([&[0, 0, 1, 0], vec![b'x'; 1 << 16].as_slice()].concat().repeat(2), "more than was asked for"),
    ] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&answer).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let limits = Limits { time: Duration::from_secs(60), bytes: 1 << 16 };
        let fetcher = Fetcher { stream: Mutex::new(Some(ours)), limits };
        for _ in 0..2 {
            let why = run(&fetcher, "true").unwrap_err();
            assert!(why.contains("has ended: start the daemon again"), "{what}: {why}");
        }
    }
}

/// One byte after the other, and never a whole frame.
#[test]
fn a_worker_that_says_little_for_long_is_given_up() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&[0, 0, 1, 0, b'x']).unwrap();
    let until = Instant::now() + Duration::from_millis(300);
    let talker = std::thread::spawn(move || {
        while theirs.write_all(b"x").is_ok() {
            std::thread::yield_now()
        }
    });
    let mut answer = Timed { stream: &ours, until };
    while let Ok(length) = answer.read(&mut [0]) {
        assert_eq!(length, 1);
    }
    assert!(Instant::now() >= until);
    drop(ours);
    talker.join().unwrap();
}

/// A full disk costs this list, and not the ones after it.
#[test]
fn needs_root_what_cannot_be_kept_does_not_disturb_the_next() {
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
    // As whoever starts the daemon may have left it: a file that programs inherit.
    let secret = tempfile::tempfile().unwrap();
    fcntl(&secret, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let fetcher = fetcher(60_000, 1 << 20);
    let status = run(
        &fetcher,
        "cat /proc/self/status; id -u; id -G; cat /etc/shadow 2>&1; kill -9 $PPID 2>&1; echo files $(ls /proc/self/fd); \
         echo processes $(ls -d /proc/[0-9]*); cat /proc/self/stat; echo score $(cat /proc/self/oom_score_adj); ulimit -f; \
         cat /proc/1/environ 2>&1; ls -l /proc/1/fd 2>&1; true",
    )
    .unwrap();
    let of = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).unwrap_or_default()
    };
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(of(name), "0000000000000000", "{name}: {status}");
    }
    // CAP_KILL, CAP_SETGID, CAP_SETUID: nothing that is executed can have them, because there are no new privileges.
    assert_eq!((of("CapBnd"), of("NoNewPrivs"), of("Groups")), ("00000000000000e0", "1", " "), "{status}");
    let of_user = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    assert!(status.contains(&format!("\n{}\n{}\n", of_user.uid, of_user.gid)), "{status}");
    assert_eq!(status.matches("Permission denied").count(), 3, "{status}");
    assert!(status.contains("not permitted"), "it cannot end the worker: {status}");
    assert!(status.contains("\nfiles 0 1 2 3\n"), "the last is the folder that is listed: {status}");
    let processes = status.lines().find_map(|line| line.strip_prefix("processes ")).unwrap();
    assert!(
        processes.split(' ').count() <= 4,
        "the worker, the shell, and what it has just started: {processes}"
    );
    // Behind the name of the program: state, parent, group, session, terminal.
    let stat: Vec<&str> =
        status.lines().find_map(|line| line.split_once(" (cat) ")).unwrap().1.split(' ').collect();
    assert_eq!((stat[3], stat[4]), ("1", "0"), "a session and no terminal of the daemon's: {status}");
    assert!(status.contains("\nscore 1000\n"), "{status}");
    let score = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    assert_ne!(score.trim(), "1000", "the daemon's own");
    assert_eq!(run(&fetcher, "echo 192.0.2.1").as_deref(), Ok("192.0.2.1\n"), "the worker goes on");
}

/// Who starts the worker by hand has no daemon, and would lose all processes that it can see.
#[test]
fn a_worker_that_is_not_the_first_process_does_nothing() {
    assert!(worker::run().unwrap_err().to_string().contains("by a process that `rampart up` starts"));
}
