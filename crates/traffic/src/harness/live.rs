//! Live frames: one thread a core inside `BPF_PROG_TEST_RUN`, pinned, until the program is done or the trial is over.

use crate::TrafficError;
use libbpf_sys as sys;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::pthread::pthread_kill;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends a sender's system call. The handler does nothing; what counts is that the call returns.
const STOP: Signal = Signal::SIGUSR1;

extern "C" fn ignore(_: i32) {}

fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let action = SigAction::new(SigHandler::Handler(ignore), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing, so it is safe at any point; nobody else uses this signal here.
        let _ = unsafe { sigaction(STOP, &action) };
    });
}

/// One core's sender, running.
#[derive(Debug)]
pub(crate) struct LiveSender {
    thread: Option<JoinHandle<io::Result<()>>>,
    stop: Arc<AtomicBool>,
    doing: String,
}

impl LiveSender {
    /// Starts a sender on each of `cores`, which runs `program` until it is stopped.
    pub(crate) fn start_all(
        program: BorrowedFd<'_>,
        frame: &[u8],
        cores: &[usize],
        batch: u32,
    ) -> Result<Vec<Self>, TrafficError> {
        cores.iter().map(|&core| Self::start(program, frame, core, batch, None)).collect()
    }

    /// Ends all of `senders` and says how the first that failed went.
    pub(crate) fn stop_all(senders: Vec<Self>) -> Result<(), TrafficError> {
        senders.into_iter().try_for_each(Self::stop)
    }

    /// Starts running `program` over recycled copies of `frame` on `core`, `batch` turns between two flushes.
    pub(crate) fn start(
        program: BorrowedFd<'_>,
        frame: &[u8],
        core: usize,
        batch: u32,
        turns: Option<u32>,
    ) -> Result<Self, TrafficError> {
        let program = program
            .try_clone_to_owned()
            .map_err(TrafficError::system("keeping the generator's program open"))?;
        let frame = frame.to_vec();
        let doing = "running the generator (BPF_PROG_TEST_RUN with live frames)";
        Self::start_thread(core, doing, move |stopped| {
            while !stopped.load(Ordering::Relaxed) {
                run(program.as_raw_fd(), &frame, batch, turns.unwrap_or(u32::MAX))?;
                if turns.is_some() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Starts `work`, which returns soon after its flag is set, on a thread pinned to `core`. `doing` names it in errors.
    pub(crate) fn start_thread(
        core: usize,
        doing: impl Into<String>,
        work: impl FnOnce(&AtomicBool) -> io::Result<()> + Send + 'static,
    ) -> Result<Self, TrafficError> {
        install_handler();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name(format!("generate-{core}"))
            .spawn(move || {
                pin(core)?;
                take_precedence();
                work(&stopped)
            })
            .map_err(TrafficError::system("starting a generator thread"))?;
        Ok(Self { thread: Some(thread), stop, doing: doing.into() })
    }

    /// Ends the sender and says how it went.
    fn stop(mut self) -> Result<(), TrafficError> {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits for a sender with a given number of turns.
    pub(crate) fn wait(mut self) -> Result<(), TrafficError> {
        match self.thread.take() {
            Some(thread) => finish(thread.join(), &self.doing),
            None => Ok(()),
        }
    }

    fn join(&mut self) -> Result<(), TrafficError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // A signal that arrives between two calls is lost, so it is repeated until the thread has ended.
        while !thread.is_finished() {
            let _ = pthread_kill(thread.as_pthread_t(), STOP);
            std::thread::sleep(Duration::from_millis(1));
        }
        finish(thread.join(), &self.doing)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for LiveSender {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.join();
    }
}

fn finish(joined: std::thread::Result<io::Result<()>>, doing: &str) -> Result<(), TrafficError> {
    match joined {
        Ok(result) => result.map_err(TrafficError::system(doing)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Other work on the machine may have the core's other hundredth, not half of it. Without the right to do so the sender
/// still works, only less steadily.
fn take_precedence() {
    // SAFETY: a plain system call without pointers; 0 is the calling thread.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Sleeps, and has the core at once when the time is over: who looks at a trial only now and then learns little of what happened when. What
/// the thread does then, or starts, has the priority that it had before.
pub(crate) fn sleep_and_come_first(time: Duration) {
    // SAFETY: a plain system call without pointers; 0 is the calling thread.
    let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    take_precedence();
    std::thread::sleep(time);
    // SAFETY: as above.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, before) };
}

/// Keeps the calling thread on a core.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// One call; a signal ends it without an error.
fn run(program: i32, frame: &[u8], batch: u32, turns: u32) -> io::Result<()> {
    // SAFETY: an all-zero bpf_test_run_opts is the documented "nothing set" value.
    let mut options: sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    options.sz = std::mem::size_of::<sys::bpf_test_run_opts>() as u64;
    options.data_in = frame.as_ptr().cast();
    options.data_size_in = frame.len() as u32;
    options.repeat = turns as i32;
    options.flags = sys::BPF_F_TEST_XDP_LIVE_FRAMES;
    options.batch_size = batch;
    // SAFETY: data_in points to data_size_in readable bytes that outlive the call; everything else is by value.
    let result = unsafe { sys::bpf_prog_test_run_opts(program, &mut options) };
    if result == 0 || -result == nix::errno::Errno::EINTR as i32 {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(-result))
}
