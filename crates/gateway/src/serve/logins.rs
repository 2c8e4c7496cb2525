//! Whether passwords are right. A comparison costs memory and ten milliseconds on purpose, so one is made at a time, by a thread that carries nothing; whoever
//! tries too often waits before it is made, and what was found is known for a while.

use super::lock;
use crate::config::Gateway;
use crate::http::basic::Credentials;
use crate::users::checked::{Checked, Sealed};
use crate::users::{Hash, Who};
use passwords::LONGEST;
use passwords::hash::Hasher;
use passwords::throttle::Throttle;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Who wait for their turn, at most.
const MOST_WAITING: u32 = 1024;
/// How long they wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why somebody is not who he says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no such user, or it is not his password.
    Wrong,
    /// He, or others at his address, have tried too often.
    Throttled,
    /// Too many try at once.
    Busy,
}

impl Refusal {
    /// Short identifier.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Wrong => "wrong-password",
            Self::Throttled => "throttled",
            Self::Busy => "too-many-logins",
        }
    }
}

/// What is known of those who log in.
pub(super) struct Logins {
    hasher: Arc<Hasher>,
    checked: Mutex<Checked>,
    throttle: Mutex<Throttle>,
    began: Instant,
    turn: Arc<Semaphore>,
    waiting: AtomicU32,
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Logins")
    }
}

impl Logins {
    pub(super) fn new() -> io::Result<Self> {
        let hasher = Hasher::usual().map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self {
            hasher: Arc::new(hasher),
            checked: Mutex::new(Checked::new()?),
            throttle: Mutex::default(),
            began: Instant::now(),
            turn: Arc::new(Semaphore::new(1)),
            waiting: AtomicU32::new(0),
        })
    }

    /// Who asks, if the password is right.
    pub(super) async fn check(
        &self,
        gateway: &Gateway,
        client: IpAddr,
        offered: Credentials,
    ) -> Result<Who, Refusal> {
        let hash =
            gateway.users.as_ref().and_then(|users| users.find(&offered.name)).map(|user| user.hash.clone());
        let sealed = lock(&self.checked).seal(&offered);
        let known = |found: Result<bool, Refusal>| match found {
            Ok(true) => Ok(Who { name: offered.name.clone(), proof: hash.clone() }),
            Ok(false) => Err(Refusal::Wrong),
            Err(refusal) => Err(refusal),
        };
        if let Some(found) = self.recall(&sealed, hash.as_ref(), &offered.name, client) {
            return known(found);
        }
        let _place = Place::take(&self.waiting).ok_or(Refusal::Busy)?;
        let turn = timeout(PATIENCE, Arc::clone(&self.turn).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Refusal::Busy) };
        // Those before may have tried the same, or too often.
        if let Some(found) = self.recall(&sealed, hash.as_ref(), &offered.name, client) {
            return known(found);
        }
        let (hasher, compared, password) = (Arc::clone(&self.hasher), hash.clone(), offered.password.clone());
        let compare = move || {
            let _turn = turn;
            password.len() <= LONGEST
                && hasher.verifies(&password, compared.as_ref().map(|hash| hash.0.as_str()))
        };
        let is_right = tokio::task::spawn_blocking(compare).await.unwrap_or(false);
        lock(&self.checked).keep(sealed, hash.clone(), is_right, Instant::now());
        let mut throttle = lock(&self.throttle);
        if is_right {
            throttle.logged_in(&offered.name, client);
        } else {
            throttle.failed(&offered.name, client, self.began.elapsed());
        }
        drop(throttle);
        known(Ok(is_right))
    }

    /// What is known without a comparison. The same wrong password again is no other try: a program that has an old one does not keep others at its address
    /// from logging in. A right one is not told to whoever has to wait: he could find it out so.
    fn recall(
        &self,
        sealed: &Sealed,
        hash: Option<&Hash>,
        name: &str,
        client: IpAddr,
    ) -> Option<Result<bool, Refusal>> {
        let found = lock(&self.checked).recall(sealed, hash, Instant::now());
        if found == Some(false) {
            return Some(Ok(false));
        }
        let wait = lock(&self.throttle).wait(name, client, self.began.elapsed());
        if wait.is_zero() { found.map(Ok) } else { Some(Err(Refusal::Throttled)) }
    }
}

/// A place among those who wait.
struct Place<'a>(&'a AtomicU32);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicU32) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
