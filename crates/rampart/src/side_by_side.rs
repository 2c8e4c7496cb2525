//! Work that cores share.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

/// Does something with each of some things, on as many cores as there are, and begins no other when one has failed. What comes of them is in
/// their order.
///
/// # Errors
/// Of those that failed, the first in order.
pub(crate) fn side_by_side<I: Sync, T: Send, E: Send>(
    things: &[I],
    each: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(place) else { return done };
            let result = each(thing);
            if result.is_err() {
                next.store(things.len(), Ordering::Relaxed);
            }
            done.push((place, result));
        }
    };
    let cores = available_parallelism().map_or(1, NonZero::get);
    let mut done = thread::scope(|scope| {
        // A thread that cannot be had leaves its work to the others.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..cores.min(things.len())).filter_map(start).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_fails_is_named_however_many_do() {
        for failing in ["a", "bd", "cd", "abcd", ""] {
            let done = side_by_side(&["a", "b", "c", "d"], |name| {
                if failing.contains(*name) { Err(*name) } else { Ok(*name) }
            });
            assert_eq!(done, failing.get(..1).map_or_else(|| Ok(vec!["a", "b", "c", "d"]), Err), "{failing}");
        }
    }
}
