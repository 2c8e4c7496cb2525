//! The process that runs commands of lists, one after the other, until the daemon is gone. It keeps the rights to become another user and to end that
//! user's processes, and no others; commands have none at all. It reads nothing of what they print and decides nothing about it.

use super::{MOST_OF_A_FRAME, Request, read_frame, write_frame};
use crate::failure::Failure;
use crate::privileges;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, User, geteuid};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Who commands run as: the first of these that the machine knows.
const USERS: [&str; 2] = ["rampart-lists", "nobody"];
/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What commands are told of the daemon's environment: how to reach the web.
const KEPT: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
/// Bytes of what a command complains about that are kept, and characters that are shown.
const COMPLAINT: usize = 4096;
const SHOWN: usize = 200;
/// How often a command is looked at that has printed everything and goes on.
const LOOK: Duration = Duration::from_millis(20);

/// What commands may have at once: memory of a process, open files, processes of the user, and no dumps.
const RESOURCES: [(Resource, u64); 4] = [
    (Resource::RLIMIT_DATA, 2 << 30),
    (Resource::RLIMIT_NOFILE, 1024),
    (Resource::RLIMIT_NPROC, 256),
    (Resource::RLIMIT_CORE, 0),
];

/// The daemon has ended, and with it whoever wants the list.
struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// Who commands run as; `None` if this process has no other user to become.
type Runs = Option<(u32, u32)>;

/// Answers the daemon's requests until it ends.
///
/// # Errors
/// Standard input is no socket.
pub(crate) fn run() -> Result<(), Failure> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let input =
        input.map_err(|error| Failure::Machine(format!("no daemon is at standard input: {error}")))?;
    let stream = UnixStream::from(input);
    let ready = prepare();
    while let Ok(request) = read_frame(&stream) {
        if answer(&stream, &request, &ready).is_err() {
            break;
        }
    }
    Ok(())
}

/// Gives up what neither this process nor its commands need.
fn prepare() -> Result<Runs, String> {
    let wrong = |what: &str, error: nix::Error| format!("commands of lists cannot be run: {what}: {error}");
    prctl::set_no_new_privs().map_err(|error| wrong("no new privileges", error))?;
    // Who leaves its parents becomes a child of this process, so that nothing outlives its command.
    prctl::set_child_subreaper(true).map_err(|error| wrong("becoming the reaper", error))?;
    for (resource, most) in RESOURCES {
        let (_, hard) = getrlimit(resource).map_err(|error| wrong("limits", error))?;
        let most = most.min(hard);
        setrlimit(resource, most, most).map_err(|error| wrong("limits", error))?;
    }
    if !geteuid().is_root() {
        return Ok(None);
    }
    let user = USERS.iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = user.filter(|user| !user.uid.is_root());
    let user = user
        .ok_or_else(|| format!("commands of lists cannot be run: this machine has no user `{}`", USERS[1]))?;
    privileges::keep_the_fetchers().map_err(|kept| format!("commands of lists cannot be run: {kept}"))?;
    Ok(Some((user.uid.as_raw(), user.gid.as_raw())))
}

fn answer(stream: &UnixStream, request: &[u8], ready: &Result<Runs, String>) -> Result<(), Gone> {
    let request: Request = serde_json::from_slice(request).map_err(|_| Gone)?;
    let done = match ready {
        Ok(runs) => fetch(stream, &request, *runs)?,
        Err(why) => Err(why.clone()),
    };
    write_frame(stream, &[])?;
    let complaint = done.err().unwrap_or_default();
    Ok(write_frame(stream, complaint.as_bytes())?)
}

fn fetch(stream: &UnixStream, request: &Request, runs: Runs) -> Result<Result<(), String>, Gone> {
    let Some((program, arguments)) = request.words.split_first() else { return Err(Gone) };
    let environment = KEPT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment).env("PATH", PATH).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some((user, group)) = runs {
        command.uid(user).gid(group);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Err(format!("`{program}` cannot be run: {error}"))),
    };
    let done = pass_on(stream, request, &mut child);
    end_all(&child);
    Ok(done?.map_err(|why| format!("`{program}` {why}")))
}

/// Passes on what a command prints, until it has ended or takes more than it may.
fn pass_on(stream: &UnixStream, request: &Request, child: &mut Child) -> Result<Result<(), String>, Gone> {
    let deadline = Instant::now() + Duration::from_millis(request.milliseconds);
    let (mut out, mut complaints) =
        (child.stdout.take(), Complaints { from: child.stderr.take(), kept: Vec::new() });
    let mut left = request.bytes;
    loop {
        if out.is_none()
            && let Some(status) = child.try_wait()?
        {
            return Ok(complaints.about(status));
        }
        let Some(time) = deadline.checked_duration_since(Instant::now()).filter(|time| !time.is_zero())
        else {
            return Ok(Err(format!("took longer than {} s and was ended", request.milliseconds / 1000)));
        };
        let wait = if out.is_none() { time.min(LOOK) } else { time };
        let [is_gone, has_out, has_complaint] = ready(stream, out.as_ref(), complaints.from.as_ref(), wait)?;
        if is_gone {
            return Err(Gone);
        }
        if has_out {
            match piece_of(out.as_mut())? {
                piece if piece.is_empty() => out = None,
                piece => match left.checked_sub(piece.len() as u64) {
                    Some(rest) => {
                        left = rest;
                        write_frame(stream, &piece)?;
                    }
                    None => {
                        return Ok(Err(format!(
                            "printed more than {} MiB and was ended",
                            request.bytes >> 20
                        )));
                    }
                },
            }
        }
        if has_complaint {
            complaints.read()?;
        }
    }
}

/// Waits until the daemon says or closes something, or a pipe can be read: which.
fn ready(
    stream: &UnixStream,
    out: Option<&ChildStdout>,
    complaints: Option<&ChildStderr>,
    wait: Duration,
) -> io::Result<[bool; 3]> {
    let files: [Option<BorrowedFd<'_>>; 3] =
        [Some(stream.as_fd()), out.map(AsFd::as_fd), complaints.map(AsFd::as_fd)];
    let there: Vec<(usize, BorrowedFd<'_>)> =
        files.into_iter().enumerate().filter_map(|(place, file)| Some((place, file?))).collect();
    let mut asked: Vec<PollFd<'_>> =
        there.iter().map(|(_, file)| PollFd::new(*file, PollFlags::POLLIN)).collect();
    let milliseconds = wait.as_millis().clamp(1, 60_000) as u16;
    match poll(&mut asked, PollTimeout::from(milliseconds)) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut found = [false; 3];
    for ((place, _), asked) in there.iter().zip(&asked) {
        found[*place] = asked.revents().is_some_and(|events| !events.is_empty());
    }
    Ok(found)
}

fn piece_of(from: Option<&mut impl Read>) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; MOST_OF_A_FRAME];
    let length = from.map_or(Ok(0), |from| from.read(&mut piece))?;
    piece.truncate(length);
    Ok(piece)
}

/// What a command writes to standard error.
struct Complaints {
    from: Option<ChildStderr>,
    kept: Vec<u8>,
}

impl Complaints {
    /// Takes what is there. More than is kept is read all the same: a full pipe would stop the command.
    fn read(&mut self) -> io::Result<()> {
        let piece = piece_of(self.from.as_mut())?;
        if piece.is_empty() {
            self.from = None;
        }
        self.kept.extend(piece);
        let too_many = self.kept.len().saturating_sub(COMPLAINT);
        self.kept.drain(..too_many);
        Ok(())
    }

    /// What came of a command that has ended, with its last words.
    fn about(mut self, status: ExitStatus) -> Result<(), String> {
        if status.success() {
            return Ok(());
        }
        let now = PollTimeout::ZERO;
        while let Some(from) = &self.from {
            let mut asked = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
            if !matches!(poll(&mut asked, now), Ok(1..)) || self.read().is_err() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&self.kept);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        let last: String = last.unwrap_or_default().chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        let colon = if last.is_empty() { "" } else { ": " };
        Err(format!("failed ({status}){colon}{last}"))
    }
}

/// Ends a command with all that it has started, whatever group or session that is in by now.
fn end_all(child: &Child) {
    let pid = Pid::from_raw(child.id() as i32);
    let _ = killpg(pid, Signal::SIGKILL);
    while let Some(left) = children().filter(|left| !left.is_empty()) {
        for process in left {
            let _ = kill(process, Signal::SIGKILL);
        }
        // Whoever ends leaves its own children to this process.
        let _ = waitpid(None, None);
    }
    // Where the kernel does not list children.
    let _ = waitpid(pid, None);
}

/// The processes that this one has to wait for; `None` if the kernel does not say.
fn children() -> Option<Vec<Pid>> {
    // The kernel lists them by the thread that they belong to.
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let text = fs::read_to_string(task.path().join("children")).ok()?;
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
    }
    Some(found)
}
