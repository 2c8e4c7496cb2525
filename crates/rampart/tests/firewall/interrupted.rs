//! A daemon whose process is stopped and continued, as a debugger, a freezer or a limiter of processor time does: the kernel gives up what
//! it verifies each time.

use crate::bed::{ANSWERS, Bed, Outcome};
use crate::{REJECT, WEB};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// Long enough for every attempt of libbpf's own to be interrupted.
const STOPPED_AND_CONTINUED: Duration = Duration::from_secs(2);

#[test]
fn needs_root_a_process_that_is_stopped_again_and_again_comes_up() {
    let bed = Bed::new();
    bed.serve(8080);
    let policy = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
    let mut firewall = bed.start_up(&[&policy]);
    let begun = Instant::now();
    while begun.elapsed() < STOPPED_AND_CONTINUED {
        firewall.signal(Signal::SIGSTOP);
        firewall.signal(Signal::SIGCONT);
        std::thread::park_timeout(Duration::from_millis(5));
    }
    firewall.until(ANSWERS);
    bed.expect(8080, Outcome::Answered, "after it came up");
}
