//! A thread that follows the kernel's announcements until it is dropped.

use super::{Routes, RoutesError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{PipeWriter, pipe};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Announcements within this time are taken together: the data plane forgets all of its routes at each, and a routing daemon may
/// announce thousands a second.
const TOGETHER: Duration = Duration::from_millis(10);

/// Milliseconds between two marks that somebody follows, if nothing is announced.
const ATTENDING: u16 = 1_000;

/// Follows until it is dropped, and waits then until the thread is gone.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    routes: Mutex<Routes>,
    /// What the last attempt failed with.
    trouble: Mutex<Option<String>>,
}

impl Routes {
    /// Follows on a thread of its own.
    ///
    /// # Errors
    /// No file descriptors or threads left.
    pub fn follow_in_background(self) -> Result<Follower, RoutesError> {
        let routes = self;
        let announced = routes.as_fd().try_clone_to_owned().map_err(RoutesError::Thread)?;
        let shared = Arc::new(Shared { routes: Mutex::new(routes), trouble: Mutex::new(None) });
        let (stopped, stop) = pipe().map_err(RoutesError::Thread)?;
        shared.routes().attend()?;
        let follower = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("routes".to_owned()).spawn(move || {
            loop {
                let mut wanted = [
                    PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
                    PollFd::new(announced.as_fd(), PollFlags::POLLIN),
                ];
                // Time to attend, and interrupted by a signal, is as good as an announcement: reading finds out.
                let _ = poll(&mut wanted, PollTimeout::from(ATTENDING));
                // The other end of the pipe is closed when the follower is dropped.
                if wanted[0].revents().is_some_and(|events| !events.is_empty()) {
                    return;
                }
                let mut routes = follower.routes();
                let done = routes.follow().and_then(|_| routes.attend());
                drop(routes);
                *follower.trouble() = done.err().map(|error| format!("routes are not followed: {error}"));
                std::thread::park_timeout(TOGETHER);
            }
        });
        Ok(Follower { shared, stop: Some(stop), thread: Some(thread.map_err(RoutesError::Thread)?) })
    }
}

impl Follower {
    /// Neighbours are kept fresh on these interfaces from now on.
    pub fn set_interfaces(&self, interfaces: &[u32]) {
        let done = self.shared.routes().set_interfaces(interfaces);
        *self.shared.trouble() = done.err().map(|error| format!("neighbours are not kept fresh: {error}"));
    }

    /// As [`Routes::outlive`].
    pub fn outlive(&self, outlives: bool) {
        self.shared.routes().outlive(outlives);
    }

    /// As [`Routes::take_over_settings`].
    pub fn take_over_settings(&self) {
        self.shared.routes().take_over_settings();
    }

    /// What the last attempt to follow failed with; everything is learned anew at the next announcement.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble().clone()
    }
}

impl Shared {
    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
