//! How often users other than root may change the firewall, and how often a request that was denied is recorded. The audit trail has a bounded
//! size, so who could write to it without end could make old records go, his own among them. Pure: the time is an argument.

use super::Moment;
use crate::api::Actor;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Changes that a user may make at once.
const AT_ONCE: u32 = 60;
/// After which time one more may be made. So a user needs more than a day to make a record go.
const EACH: Duration = Duration::from_secs(20);
/// How often a denied request of a user is recorded at most.
const DENIALS: Duration = Duration::from_secs(60);

/// Of each user that is not free to do what it likes.
#[derive(Debug, Default)]
pub(super) struct Pace {
    changes: BTreeMap<u32, Instant>,
    denials: BTreeMap<Option<u32>, Denials>,
}

#[derive(Debug)]
struct Denials {
    recorded: Instant,
    /// Since then.
    more: u64,
}

impl Pace {
    /// Takes one of a user's changes. `Err` is how long to wait, if there is none left.
    pub(super) fn change(&mut self, now: Moment, by: &Actor) -> Result<(), Duration> {
        let Some(uid) = user_of(by).filter(|uid| !is_free(*uid)) else { return Ok(()) };
        self.changes.retain(|_, due| *due > now.steady);
        let due = self.changes.entry(uid).or_insert(now.steady);
        let ahead = due.saturating_duration_since(now.steady);
        let most = EACH * (AT_ONCE - 1);
        if ahead > most {
            return Err(ahead - most);
        }
        *due += EACH;
        Ok(())
    }

    /// Whether a denied request is to be recorded: then how many before it were not.
    pub(super) fn denial(&mut self, now: Moment, by: &Actor) -> Option<u64> {
        let recorded = now.steady;
        match self.denials.get_mut(&user_of(by)) {
            Some(before) if recorded.saturating_duration_since(before.recorded) < DENIALS => {
                before.more += 1;
                None
            }
            Some(before) => {
                before.recorded = recorded;
                Some(std::mem::take(&mut before.more))
            }
            None => {
                self.denials.insert(user_of(by), Denials { recorded, more: 0 });
                Some(0)
            }
        }
    }
}

/// None: the daemon itself, or a signal.
fn user_of(by: &Actor) -> Option<u32> {
    if let Actor::Process { uid, .. } = by { Some(*uid) } else { None }
}

/// Root, and whoever the daemon runs as: it can write to the files of the audit trail itself.
fn is_free(uid: u32) -> bool {
    uid == 0 || uid == nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::super::recorder::{AUDIT, cut};
    use super::*;
    use crate::api::AuditRecord;
    use jiff::Timestamp;

    const SOMEBODY: u32 = 3_999_999_999;
    /// Bytes of a record: its message, 224 bytes of a command line with six for each as it is written, and the rest.
    const LONGEST_RECORD: u64 = 2_800;

    fn user(uid: u32) -> Actor {
        Actor::Process { uid, user: None, login: None, acting_for: None, pid: 1, command: String::new() }
    }

    #[test]
    fn a_user_changes_sixty_times_at_once_and_then_as_time_goes_by() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at =
            |seconds| Moment { wall: Timestamp::UNIX_EPOCH, steady: start + Duration::from_secs(seconds) };
        // When, who, how often he tries, and how often he may.
        for (second, uid, tries, may) in [
            (0, SOMEBODY, 100, 60),
            (0, SOMEBODY - 1, 1, 1),
            (0, 0, 1_000, 1_000),
            (19, SOMEBODY, 1, 0),
            (20, SOMEBODY, 2, 1),
            (219, SOMEBODY, 100, 9),
            (86_400, SOMEBODY, 100, 60),
        ] {
            let done = (0..tries).filter(|_| pace.change(at(second), &user(uid)).is_ok()).count();
            assert_eq!(done, may, "user {uid} after {second} s");
        }
        assert_eq!(pace.change(at(86_400), &user(SOMEBODY)), Err(EACH), "how long to wait");
        assert_eq!(pace.change(at(86_400), &"SIGHUP".into()), Ok(()));
        assert!(pace.change(at(200_000), &user(7)).is_ok());
        assert_eq!(pace.changes.len(), 1, "who has not changed anything for long is forgotten");
    }

    /// A record goes when two files have been filled behind it, and one at the least.
    #[test]
    fn it_takes_a_user_more_than_a_day_to_make_a_record_go() {
        let day = Duration::from_secs(86_400);
        let of_a_day =
            u64::from(AT_ONCE) + day.as_secs() / EACH.as_secs() + day.as_secs() / DENIALS.as_secs();
        assert!(AUDIT.1 / LONGEST_RECORD > of_a_day, "{of_a_day} records of {LONGEST_RECORD} bytes");
        for character in ['x', '\u{1}', '"', '\u{ffff}'] {
            let record = AuditRecord {
                at: Timestamp::MAX,
                event: "rolled-back".to_owned(),
                by: Actor::Process {
                    uid: u32::MAX,
                    user: Some("u".repeat(32)),
                    login: Some("l".repeat(32)),
                    acting_for: Some("\"".repeat(32)),
                    pid: i32::MIN,
                    command: "\u{1}".repeat(224),
                },
                message: cut(character.to_string().repeat(100_000)),
            };
            let bytes = serde_json::to_vec(&record).unwrap().len() as u64;
            assert!(bytes < LONGEST_RECORD, "{character:?}: {bytes}");
        }
        assert_eq!(cut("as it is".to_owned()), "as it is");
    }

    #[test]
    fn a_denied_request_of_each_user_is_recorded_once_a_minute() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        for (second, uid, recorded) in [
            (0, 7, Some(0)),
            (0, 7, None),
            (59, 7, None),
            (59, 8, Some(0)),
            (60, 7, Some(2)),
            (61, 7, None),
            (180, 7, Some(1)),
        ] {
            let now = Moment { wall: Timestamp::UNIX_EPOCH, steady: start + Duration::from_secs(second) };
            assert_eq!(pace.denial(now, &user(uid)), recorded, "user {uid} after {second} s");
        }
    }
}
