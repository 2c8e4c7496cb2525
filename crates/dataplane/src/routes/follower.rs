//! A thread that follows the kernel's announcements until it is dropped.

use super::{Changes, Routes, RoutesError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

/// Announcements within this time are taken together: everything that the data plane remembers is forgotten at each, and a
/// routing daemon may announce thousands a second.
const TOGETHER_MS: u16 = 10;

/// Follows until it is dropped, and waits then until the thread is gone.
#[derive(Debug)]
pub struct Follower {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Routes {
    /// Follows on a thread of its own. `report` is told what changed, and each error; after an error everything is learned
    /// anew at the next announcement.
    ///
    /// # Errors
    /// No file descriptors or threads left.
    pub fn follow_in_background(
        self,
        mut report: impl FnMut(Result<Changes, RoutesError>) + Send + 'static,
    ) -> std::io::Result<Follower> {
        let (stopped, stop) = std::io::pipe()?;
        let mut routes = self;
        let thread = std::thread::Builder::new().name("routes".to_owned()).spawn(move || {
            while wait(Some(&routes), &stopped, PollTimeout::NONE) {
                report(routes.follow());
                if !wait(None, &stopped, PollTimeout::from(TOGETHER_MS)) {
                    break;
                }
            }
        })?;
        Ok(Follower { stop: Some(stop), thread: Some(thread) })
    }
}

/// Waits for announcements or the time. Returns false when it is over.
fn wait(routes: Option<&Routes>, stopped: &PipeReader, time: PollTimeout) -> bool {
    let mut fds = vec![PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
    fds.extend(routes.map(|routes| PollFd::new(routes.as_fd(), PollFlags::POLLIN)));
    // Interrupted by a signal is as good as an announcement: reading finds out.
    let _ = poll(&mut fds, time);
    // The other end of the pipe is closed when the follower is dropped.
    fds[0].revents().is_none_or(|events| events.is_empty())
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}
