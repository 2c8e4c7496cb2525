//! The process that runs commands of lists, one after the other, until the daemon is gone. It keeps the rights to become another user and to end that
//! user's processes, and no others; commands have none at all. It is the first process of a PID namespace: commands see no processes but
//! their own, and whatever they start ends with it. It reads nothing of what they print and decides nothing about it.

use super::{MOST_OF_A_FRAME, Request};
use crate::failure::Failure;
use crate::privileges;
use crate::worker_stream::{daemon_at_standard_input, read_frame, write_frame};
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, User, getpid, setsid};
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
/// What commands get of the daemon's environment: how to reach the web.
const KEPT: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
/// Bytes of what a command complains about that are kept, and characters that are shown.
const COMPLAINT: usize = 4096;
const SHOWN: usize = 200;
/// How often a command is looked at that has printed everything and goes on.
const LOOK: Duration = Duration::from_millis(20);

/// What commands may have at once: memory of a process, bytes of a file that they write, open files, processes of the user, and no dumps.
const RESOURCES: [(Resource, u64); 5] = [
    (Resource::RLIMIT_DATA, 512 << 20),
    (Resource::RLIMIT_FSIZE, 1 << 30),
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

/// User and group that commands run as.
type RunsAs = (u32, u32);

/// Answers the daemon's requests until it ends.
///
/// # Errors
/// No daemon has started it.
pub(crate) fn run() -> Result<(), Failure> {
    // What a command leaves behind is ended with all else that this process can see.
    if getpid().as_raw() != 1 {
        let what = "commands of lists are run by a process that `rampart up` starts, and by no other";
        return Err(Failure::Wrong(what.to_owned()));
    }
    let stream = daemon_at_standard_input()?;
    let ready = prepare();
    while let Ok(request) = read_frame(&stream, MOST_OF_A_FRAME) {
        if answer(&stream, &request, &ready).is_err() {
            break;
        }
    }
    Ok(())
}

/// Gives up what neither this process nor its commands need.
fn prepare() -> Result<RunsAs, String> {
    let wrong = |what: &str, error: &dyn std::fmt::Display| {
        format!("commands of lists cannot be run: {what}: {error}")
    };
    prctl::set_no_new_privs().map_err(|error| wrong("no new privileges", &error))?;
    // Commands could type into the terminal of whoever started the daemon.
    setsid().map_err(|error| wrong("a session of its own", &error))?;
    own_processes_alone().map_err(|error| wrong("a /proc of its own", &error))?;
    dataplane::system_calls::keep_files_from_programs()
        .map_err(|error| wrong("files that the daemon was started with", &error))?;
    for (resource, most) in RESOURCES {
        let (_, hard) = getrlimit(resource).map_err(|error| wrong("limits", &error))?;
        let most = most.min(hard);
        setrlimit(resource, most, most).map_err(|error| wrong("limits", &error))?;
    }
    let user = USERS.iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = user.filter(|user| !user.uid.is_root() && user.gid.as_raw() != 0);
    let user = user.ok_or_else(|| {
        wrong("whom they run as", &format_args!("no user `{}` that is not root's", USERS.join("` or `")))
    })?;
    privileges::keep_the_fetchers().map_err(|kept| wrong("rights", &kept))?;
    Ok((user.uid.as_raw(), user.gid.as_raw()))
}

/// Other programs may run as the same user, and their memory would be in `/proc`.
fn own_processes_alone() -> nix::Result<()> {
    let nothing: Option<&str> = None;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, nothing)
}

fn answer(stream: &UnixStream, request: &[u8], ready: &Result<RunsAs, String>) -> Result<(), Gone> {
    let request: Request = serde_json::from_slice(request).map_err(|_| Gone)?;
    let done = match ready {
        Ok(runs_as) => fetch(stream, &request, *runs_as)?,
        Err(why) => Err(why.clone()),
    };
    write_frame(stream, &[])?;
    let complaint = done.err().unwrap_or_default();
    Ok(write_frame(stream, complaint.as_bytes())?)
}

fn fetch(stream: &UnixStream, request: &Request, (user, group): RunsAs) -> Result<Result<(), String>, Gone> {
    let Some((program, arguments)) = request.words.split_first() else { return Err(Gone) };
    let environment = KEPT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment).env("PATH", PATH).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).uid(user).gid(group);
    let mut child = match first_to_go(|| command.spawn()) {
        Ok(child) => child,
        Err(error) => return Ok(Err(format!("`{program}` cannot be run: {error}"))),
    };
    let done = pass_on(stream, request, &mut child);
    end_all();
    Ok(done?.map_err(|why| format!("`{program}` {why}")))
}

/// What starts meanwhile is the first that the kernel ends when memory runs out, before the daemon and all else.
fn first_to_go<T>(start: impl FnOnce() -> T) -> T {
    const SCORE: &str = "/proc/self/oom_score_adj";
    let before = fs::read_to_string(SCORE);
    // Where the kernel does not let us, commands are as any other process.
    let _ = fs::write(SCORE, "1000");
    let started = start();
    let _ = before.and_then(|before| fs::write(SCORE, before));
    started
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

/// Ends a command with all that it has started, whatever group or session that is in by now, and however fast it starts others: the kernel
/// signals all processes of the namespace at once.
fn end_all() {
    let everybody = Pid::from_raw(-1);
    let _ = kill(everybody, Signal::SIGKILL);
    // Those whose parents have ended are children of this process.
    while !matches!(waitpid(None, None), Err(nix::Error::ECHILD)) {}
}
