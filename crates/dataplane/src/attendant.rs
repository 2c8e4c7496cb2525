//! A thread that attends to what the programs give to user space through a ring, until it is dropped.

use crate::DataplaneError;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use std::io::{self, PipeWriter, pipe};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the programs give anything to a thread that says nothing any more.
const ATTENDED: Duration = Duration::from_secs(3);

/// Does its work until it is dropped, and waits then until the thread is gone.
#[derive(Debug)]
pub struct Attendant {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    /// What the last turn failed with.
    trouble: Arc<Mutex<Option<String>>>,
}

/// What a thread does.
pub(crate) trait Work: Send + 'static {
    /// The thread's name.
    const NAME: &'static str;
    /// What does not happen when a turn fails, as a sentence.
    const WITHOUT: &'static str;

    /// What is waited for.
    fn ring(&self) -> BorrowedFd<'_>;
    /// The programs may put things into the ring until then.
    fn attend_until(&mut self, time: Duration);
    /// Works on what has come. `now` is of `CLOCK_MONOTONIC`.
    fn turn(&mut self, now: Duration) -> io::Result<()>;
    /// Milliseconds until the next turn if nothing comes.
    fn rest(&self) -> u16;
    /// The last turn: the programs have been told that there is no other.
    fn end(self) -> io::Result<()>;
}

impl Attendant {
    /// Starts the thread.
    pub(crate) fn start<W: Work>(mut work: W) -> Result<Self, DataplaneError> {
        let doing = format!("starting the thread `{}`", W::NAME);
        let (stopped, stop) = pipe().map_err(DataplaneError::system(doing.as_str()))?;
        let trouble = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&trouble);
        let thread = std::thread::Builder::new().name(W::NAME.to_owned()).spawn(move || {
            loop {
                let done = turn(&mut work);
                let text = done.err().map(|error| format!("{}: {error}", W::WITHOUT));
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = text;
                // The other end of the pipe is closed when the attendant is dropped.
                if wait(&work, stopped.as_fd()) {
                    break;
                }
            }
            work.attend_until(Duration::ZERO);
            // What came until then is counted; a failure here has nobody left who would read it.
            let _ = work.end();
        });
        Ok(Self { stop: Some(stop), thread: Some(thread.map_err(DataplaneError::system(doing))?), trouble })
    }

    /// What the last turn failed with. It is tried again.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn turn(work: &mut impl Work) -> io::Result<()> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    work.attend_until(now + ATTENDED);
    work.turn(now)
}

/// Waits until something has come or some time is over. Returns true if the thread is to end.
fn wait(work: &impl Work, stopped: BorrowedFd<'_>) -> bool {
    let mut wanted = [PollFd::new(stopped, PollFlags::POLLIN), PollFd::new(work.ring(), PollFlags::POLLIN)];
    // Interrupted by a signal is as good as something that came: reading finds out.
    let _ = poll(&mut wanted, PollTimeout::from(work.rest()));
    wanted[0].revents().is_some_and(|events| !events.is_empty())
}

impl Drop for Attendant {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}
