//! Forbidden connections beside a trial whose load is sockets of the kernel: a firewall that enforces its policy while it is proved, and
//! not while it is measured, lets one of them pass. They go one after the other from the trial's first moment to its last, to a
//! port at which somebody listens, so that only the firewall can keep them from being opened.

use measure::results::{Mark, MarkKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use testbed::netns::Namespace;
use traffic::app::{self, Reached, Side};

/// How long each may take to be opened. Under load the way is longer than at rest; the next one begins after it.
const EACH: Duration = Duration::from_millis(100);
/// From one that is refused at once to the next.
const PAUSE: Duration = Duration::from_millis(20);
/// Ports that are tried to listen at: those of the trial's own connections are not taken, but others may be.
const TRIES: usize = 16;

/// The attempts of a trial.
pub(super) struct Trespass {
    stop: Arc<AtomicBool>,
    attempts: JoinHandle<Result<Found, String>>,
    /// Somebody has to take what gets through.
    _listener: TcpListener,
}

/// What became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    attempted: u64,
    got_through: u64,
}

impl Trespass {
    /// Begins them, from the clients' side to an address of the servers, at one of these ports.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub(super) fn begin(
        clients: Side,
        servers: &Namespace,
        to: IpAddr,
        ports: &RangeInclusive<u16>,
        draw: u64,
    ) -> Result<Self, String> {
        let listener = servers.enter(|| listen(to, ports, draw)).map_err(|error| error.to_string())??;
        let at = listener.local_addr().map_err(|error| error.to_string())?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let attempts = std::thread::spawn(move || attempts(&clients, at, &stopped));
        Ok(Self { stop, attempts, _listener: listener })
    }

    /// Ends them. What is said costs the trial its value.
    ///
    /// # Errors
    /// They could not be made.
    pub(super) fn end(self) -> Result<Option<Mark>, String> {
        self.stop.store(true, Ordering::Relaxed);
        let found = self
            .attempts
            .join()
            .map_err(|_| "the thread of forbidden connections has ended".to_owned())??;
        Ok(found.words().map(|words| Mark::new(MarkKind::IllegalGotThrough, words)))
    }
}

impl Found {
    fn words(self) -> Option<String> {
        (self.got_through > 0).then(|| {
            format!(
                "the policy did not hold under load: {} of {} forbidden connections were opened",
                self.got_through, self.attempted
            )
        })
    }
}

fn listen(to: IpAddr, ports: &RangeInclusive<u16>, draw: u64) -> Result<TcpListener, String> {
    let count = u64::from(ports.end() - ports.start()) + 1;
    let port = |step: u64| ports.start() + (draw.wrapping_add(step) % count) as u16;
    let mut why = String::new();
    for step in 0..TRIES as u64 {
        match TcpListener::bind(SocketAddr::new(to, port(step))) {
            Ok(listener) => return Ok(listener),
            Err(error) => why = format!("cannot listen at {to}, port {}: {error}", port(step)),
        }
    }
    Err(why)
}

fn attempts(clients: &Side, at: SocketAddr, stop: &AtomicBool) -> Result<Found, String> {
    let mut found = Found::default();
    while !stop.load(Ordering::Relaxed) {
        found.attempted += 1;
        match app::reach(clients, at, EACH).map_err(|error| error.to_string())? {
            Reached::Taken => found.got_through += 1,
            Reached::Nothing => continue,
            Reached::Refused => {}
        }
        std::thread::sleep(PAUSE);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_nobody_stops_are_counted_and_said() {
        let here = Side { namespace: None, addresses: vec![[127, 77, 91, 1].into()] };
        let servers = Namespace::current().unwrap();
        let trespass =
            Trespass::begin(here, &servers, [127, 77, 91, 2].into(), &(50_000..=59_999), 7).unwrap();
        // Each takes a moment, so the first is over when the second begins.
        trespass._listener.accept().unwrap();
        trespass._listener.accept().unwrap();
        let said = trespass.end().unwrap().unwrap();
        assert!(said.text.contains("forbidden connections were opened"), "{said:?}");
    }

    #[test]
    fn connections_that_are_not_opened_cost_nothing() {
        let here = Side { namespace: None, addresses: vec![[127, 77, 92, 1].into()] };
        // Nobody listens there any more.
        let at = TcpListener::bind("127.77.92.2:0").unwrap().local_addr().unwrap();
        let stop = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            let found = scope.spawn(|| attempts(&here, at, &stop));
            std::thread::sleep(PAUSE);
            stop.store(true, Ordering::Relaxed);
            found.join().unwrap().unwrap()
        });
        assert_eq!((found.got_through, found.words()), (0, None));
    }
}
