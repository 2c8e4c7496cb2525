//! Who is logged in. Sessions are in memory alone: they end with the process. A browser has a random number of 256 bits in a cookie, and
//! what is kept here is its hash. Pure but for random numbers; the time is given.

use crate::secret::{self, NoRandom};
use std::collections::HashMap;
use std::time::Duration;

/// A session ends when its user has done nothing for this long.
pub const IDLE: Duration = Duration::from_secs(30 * 60);

/// A session ends after this time, whatever its user does.
pub const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

/// Sessions of a user at most; the one that was idle longest makes room.
const OF_A_USER: usize = 16;

/// Sessions at most. Only who has a password opens any.
const MOST: usize = 1024;

/// A session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Name of the user.
    pub user: String,
    /// What stands for his password: with another one, or as another user of the same name, he has to log in again.
    pub stamp: String,
    /// What every form of the session has, and no page of others knows.
    pub token: String,
    /// What the next page says: the outcome of what was done last.
    pub said: Option<String>,
    began: Duration,
    used: Duration,
}

/// The sessions that are open.
#[derive(Debug, Default)]
pub struct Sessions {
    by_hash: HashMap<String, Session>,
}

impl Sessions {
    /// Opens a session for a user: the number for its cookie, which is always a new one.
    ///
    /// # Errors
    /// [`NoRandom`].
    pub fn open(&mut self, user: &str, stamp: String, now: Duration) -> Result<String, NoRandom> {
        self.expire(now);
        let of_user = self.by_hash.values().filter(|session| session.user == user).count();
        if of_user >= OF_A_USER {
            self.make_room(|session| session.user == user);
        } else if self.by_hash.len() >= MOST {
            self.make_room(|_| true);
        }
        let id = secret::token()?;
        let (user, token) = (user.to_owned(), secret::token()?);
        let session = Session { user, stamp, token, said: None, began: now, used: now };
        self.by_hash.insert(secret::hash(&id), session);
        Ok(id)
    }

    /// The session of a number. `is_live`: a script asks, which does not keep the session open.
    pub fn find(&mut self, id: &str, now: Duration, is_live: bool) -> Option<&mut Session> {
        let session = self.by_hash.get_mut(&secret::hash(id))?;
        if session.is_over(now) {
            return None;
        }
        if !is_live {
            session.used = now;
        }
        Some(session)
    }

    /// Goes on with a session whose user has another password by now.
    pub fn restamp(&mut self, id: &str, stamp: String) {
        if let Some(session) = self.by_hash.get_mut(&secret::hash(id)) {
            session.stamp = stamp;
        }
    }

    /// Ends a session.
    pub fn end(&mut self, id: &str) {
        self.by_hash.remove(&secret::hash(id));
    }

    /// Ends the sessions of a user, but for one.
    pub fn end_all(&mut self, user: &str, but: Option<&str>) {
        let but = but.map(secret::hash);
        self.by_hash.retain(|hash, session| session.user != user || Some(hash) == but.as_ref());
    }

    fn expire(&mut self, now: Duration) {
        self.by_hash.retain(|_, session| !session.is_over(now));
    }

    fn make_room(&mut self, of: impl Fn(&Session) -> bool) {
        let idle = self.by_hash.iter().filter(|(_, session)| of(session)).min_by_key(|(_, s)| s.used);
        if let Some(hash) = idle.map(|(hash, _)| hash.clone()) {
            self.by_hash.remove(&hash);
        }
    }
}

impl Session {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.used) >= IDLE || now.saturating_sub(self.began) >= LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_by_themselves() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        // Moments of use, whether by a script, and whether the session is there then.
        for (what, uses) in [
            ("idle", vec![(29, false, true), (58, false, true), (88, false, false)]),
            ("a script does not keep it open", vec![(29, true, true), (30, false, false)]),
            ("twelve hours", {
                let mut uses: Vec<_> = (1..36).map(|n| (20 * n, false, true)).collect();
                uses.push((720, false, false));
                uses
            }),
        ] {
            let mut sessions = Sessions::default();
            let id = sessions.open("anna", String::new(), Duration::ZERO).unwrap();
            for (at, is_live, is_there) in uses {
                assert_eq!(sessions.find(&id, minutes(at), is_live).is_some(), is_there, "{what}: {at}");
            }
        }
    }

    #[test]
    fn sessions_are_bounded_and_end_with_their_user() {
        let mut sessions = Sessions::default();
        let at = Duration::from_secs;
        let ids: Vec<String> =
            (0..20).map(|n| sessions.open("anna", String::new(), at(n)).unwrap()).collect();
        let other = sessions.open("ben", String::new(), at(20)).unwrap();
        let mut there = |id: &str| sessions.find(id, at(21), true).is_some();
        let open: Vec<bool> = ids.iter().map(|id| there(id)).collect();
        assert_eq!(open, (0..20).map(|n| n >= 4).collect::<Vec<_>>());
        sessions.end_all("anna", Some(&ids[19]));
        let mut there = |id: &str| sessions.find(id, at(22), true).is_some();
        assert_eq!([there(&ids[18]), there(&ids[19]), there(&other), there("")], [false, true, true, false]);
    }
}
