//! Policies come into force, and what was in force before is kept, given out, backed up and brought back.

use super::log::Kind;
use super::running::Unconfirmed;
use super::{Daemon, ListsInForce, Moment, Refused, build, can_take_over, changes, gone};
use crate::api::{
    Actor, Applied, Confirmed, History, HistoryEntry, KeptPolicy, NewPolicy, Outcome, Problem, Restored, Way,
};
use crate::backup::{self, Backup, MOST_UNPACKED, Parts};
use crate::history::{New, Store, sha256, standing};
use crate::list_copies::Copies;
use crate::own_rules::{self, strings};
use jiff::{SignedDuration, Timestamp};
use policy::Policy;
use policy::model::SELF;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The history of a daemon.
pub(super) struct Past {
    store: Store,
    /// Held while a policy comes into force until its entry is written. Taken before the state.
    turn: Mutex<()>,
    /// Why the last entry is not there.
    trouble: Mutex<Option<String>>,
}

/// How a policy comes.
struct Coming<'c> {
    new: &'c NewPolicy,
    by: &'c Actor,
    way: Way,
    of: Option<u64>,
    /// Entries of a backup that it comes with.
    entries: &'c [(HistoryEntry, Arc<str>)],
}

impl Past {
    pub(super) fn new(store: Store) -> Self {
        Self { store, turn: Mutex::default(), trouble: Mutex::default() }
    }

    fn note<T>(&self, done: io::Result<T>) -> Option<T> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(value) => {
                *trouble = None;
                Some(value)
            }
            Err(error) => {
                *trouble = Some(format!(
                    "the history of policies cannot be written or read: {error}; free the disk, or mend its folder"
                ));
                None
            }
        }
    }

    /// What is wrong with the history.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a policy; what is in force already and waits for nobody is not added again, so that restarts and scripts push nothing out. Returns
    /// its number.
    fn record(&self, new: &New<'_>, with: &[(HistoryEntry, Arc<str>)]) -> Option<u64> {
        let added = self.store.read().and_then(|history| {
            let is_known = |entry: &HistoryEntry| {
                history.entries.iter().any(|own| (own.at, &own.sha256) == (entry.at, &entry.sha256))
            };
            let imported = with.iter().filter(|(entry, _)| !is_known(entry));
            imported.clone().try_for_each(|(entry, text)| self.store.import(entry, text))?;
            let same = standing(&history.entries).filter(|entry| is_same(entry, new));
            same.map_or_else(|| self.store.add(new), |entry| Ok(entry.number))
        });
        self.note(added)
    }
}

fn is_same(entry: &HistoryEntry, new: &New<'_>) -> bool {
    new.outcome == Outcome::Applied
        && entry.outcome != Outcome::Waiting
        && (entry.file.as_str(), entry.folder.as_deref()) == (new.file, new.folder)
        && entry.sha256 == sha256(new.text.as_bytes())
}

impl Daemon {
    /// Puts a policy in force in place of the one that is.
    pub(crate) fn apply(&self, new: &NewPolicy, now: Moment, by: &Actor) -> Result<Applied, Refused> {
        self.put_in_force(&Coming { new, by, way: Way::Apply, of: None, entries: &[] }, now)
    }

    /// The same, because the policy's file was to be read again.
    pub(crate) fn reload(&self, new: &NewPolicy, now: Moment, by: &Actor) -> Result<Applied, Refused> {
        self.put_in_force(&Coming { new, by, way: Way::Reload, of: None, entries: &[] }, now)
    }

    /// Goes back to an entry of the history.
    pub(crate) fn roll_back(
        &self,
        number: u64,
        confirm_seconds: Option<u32>,
        now: Moment,
        by: &Actor,
    ) -> Result<Applied, Refused> {
        let KeptPolicy { file, folder, text, .. } = self.policy(Some(number))?;
        let new = NewPolicy { file, folder, text, confirm_seconds };
        self.put_in_force(&Coming { new: &new, by, way: Way::Rollback, of: Some(number), entries: &[] }, now)
    }

    /// Puts the policy of a new firewall in force.
    pub(crate) fn reset(
        &self,
        confirm_seconds: Option<u32>,
        now: Moment,
        by: &Actor,
    ) -> Result<Applied, Refused> {
        let text = factory_text(self.policy_in_force()?.as_ref());
        let new = NewPolicy { file: "factory-reset".to_owned(), folder: None, text, confirm_seconds };
        self.put_in_force(&Coming { new: &new, by, way: Way::FactoryReset, of: None, entries: &[] }, now)
    }

    fn put_in_force(&self, coming: &Coming<'_>, now: Moment) -> Result<Applied, Refused> {
        // A command may take minutes. Meanwhile the firewall goes by the clock and can be taken down.
        let began = Instant::now();
        let read = self.read(coming.new, now.wall);
        let now = if matches!(read, Ok((_, true))) { now.later(began.elapsed()) } else { now };
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let done = read.and_then(|(policy, _)| self.replace(policy, coming, now));
        let (file, by) = (&coming.new.file, coming.by);
        let way = match (coming.way, coming.of) {
            (Way::Apply | Way::Reload | Way::Up, _) => String::new(),
            (way, Some(number)) => format!(" ({} to {number})", way.name()),
            (way, None) => format!(" ({})", way.name()),
        };
        match &done {
            Ok(applied) => {
                let until = applied.rolls_back_at.map(|t| format!(", to be confirmed until {t}"));
                let (until, generation) = (until.unwrap_or_default(), applied.generation);
                let words = changes::words(&applied.changes);
                let message = format_args!("{file}{way} as generation {generation}, by {by}{until}: {words}");
                self.report_by(now.wall, Kind::Applied, by, message);
                // Only now: the collector that a policy takes away learns who took it away.
                if let Ok(policy) = self.policy_in_force() {
                    self.export_as(&policy);
                    self.run_gateways(&policy, now.wall);
                }
            }
            Err(why) => {
                self.report_by(now.wall, Kind::Refused, by, format_args!("{file}{way}, by {by}: {why}"));
            }
        }
        done
    }

    /// Reads a policy and fetches what was never fetched; second, whether there was anything to fetch.
    fn read(&self, new: &NewPolicy, at: Timestamp) -> Result<(Policy, bool), Refused> {
        let policy = Policy::parse(&new.file, &new.text)
            .map_err(|problems| Refused::problems(problems.list().iter().map(Problem::from).collect()))?
            .in_folder(new.folder.clone());
        let any = self.fetch_missing(&policy, at)?;
        Ok((policy, any))
    }

    fn replace(&self, policy: Policy, coming: &Coming<'_>, now: Moment) -> Result<Applied, Refused> {
        // Whoever goes back to a policy gets it even if its files are gone or other ones, which then is a trouble.
        if matches!(coming.way, Way::Apply | Way::Reload) {
            let files = crate::gateways::check_files(&policy, now.wall);
            files.and_then(|()| crate::export::check_files(&policy)).map_err(|why| Refused::new(422, why))?;
        }
        let tables = build(&policy, now.wall)?;
        let loaded = self.load_lists(&policy, coming.way == Way::Restore, now.wall)?;
        let next_change = policy.next_change(now.wall);
        let _past = self.past.as_ref().map(Past::turn);
        let mut slot = self.running();
        let running = slot.as_mut().ok_or_else(gone)?;
        can_take_over(&running.policy, &policy)?;
        let table = loaded.as_ref().map(|it| &it.table);
        let generation = running.attachments.put_in_force(&tables, &policy, table)?;
        running.lists = ListsInForce::of(loaded);
        let changes = changes::between(&running.policy, &policy);
        let policy = Arc::new(policy);
        // Until somebody confirms, the policy to go back to is the last that was confirmed.
        let before = std::mem::replace(&mut running.policy, Arc::clone(&policy));
        let confirmed = running.unconfirmed.take().map_or(Some(before), |waiting| waiting.previous);
        running.unconfirmed =
            coming.new.confirm_seconds.map(|seconds| Unconfirmed::new(confirmed, seconds, now));
        running.in_force(generation, now.wall, next_change);
        running.applied_at = now.wall;
        self.keep(running);
        let rolls_back_at = running.unconfirmed.as_ref().map(|waiting| waiting.rolls_back_at);
        let not_written = running.not_kept.clone();
        // The state is not held while the disk may be slow.
        drop(slot);
        let number = self.record(&policy, coming, now.wall);
        let not_recorded = self.past.as_ref().and_then(Past::trouble);
        let not_kept = not_written.into_iter().chain(not_recorded).collect();
        Ok(Applied { generation, number, rules: policy.rules.len(), changes, rolls_back_at, not_kept })
    }

    /// Writes the policy in force into the history. The history's turn must be held.
    fn record(&self, policy: &Policy, coming: &Coming<'_>, at: Timestamp) -> Option<u64> {
        let waits = coming.new.confirm_seconds.is_some();
        let new = New {
            at,
            by: coming.by,
            way: coming.way,
            of: coming.of,
            file: &policy.file,
            folder: policy.folder.as_deref(),
            rules: policy.rules.len() as u64,
            text: &policy.text,
            outcome: if waits { Outcome::Waiting } else { Outcome::Applied },
        };
        let number = self.past.as_ref().and_then(|past| past.record(&new, coming.entries));
        if let Some(waiting) = self.running().as_mut().and_then(|running| running.unconfirmed.as_mut()) {
            waiting.number = number;
        }
        number
    }

    /// Writes the policy that the firewall came up with into the history. What waited before was never confirmed.
    pub(super) fn record_start(&self, by: &Actor) {
        let Some((past, policy)) = self.past.as_ref().zip(self.policy_in_force().ok()) else { return };
        let _turn = past.turn();
        past.note(past.store.end_waiting(u64::MAX, Outcome::RolledBack));
        let confirm_seconds =
            self.running().as_ref().and_then(|running| running.unconfirmed.as_ref().map(|_| 1));
        let (file, folder, text) = (policy.file.clone(), policy.folder.clone(), policy.text.clone());
        let new = NewPolicy { file, folder, text, confirm_seconds };
        let coming = Coming { new: &new, by, way: Way::Up, of: None, entries: &[] };
        self.record(&policy, &coming, self.about.since);
    }

    /// Notes what came of a policy that waited.
    pub(super) fn settle(&self, waiting: &Unconfirmed, outcome: Outcome) {
        if let (Some(past), Some(number)) = (&self.past, waiting.number) {
            past.note(past.store.settle(number, outcome));
        }
    }

    /// Keeps a policy that waits for it. With the number of an entry no other: what somebody has looked at may have been replaced meanwhile.
    pub(crate) fn confirm(
        &self,
        number: Option<u64>,
        at: Timestamp,
        by: &Actor,
    ) -> Result<Confirmed, Refused> {
        // Whoever is fast enough to confirm before the entry is written waits for it.
        let past = self.past.as_ref().map(Past::turn);
        let mut slot = self.running();
        let running = slot.as_mut().ok_or_else(gone)?;
        let is_meant = |it: &mut Unconfirmed| number.is_none() || it.number == number;
        let Some(waiting) = running.unconfirmed.take_if(is_meant) else {
            let why = match (&running.unconfirmed, number) {
                (Some(Unconfirmed { number: Some(other), .. }), Some(number)) => {
                    format!("the policy that waits to be confirmed is number {other} of the history by now, and not {number}")
                }
                (Some(_), _) => "the policy that waits to be confirmed is another one by now".to_owned(),
                (None, _) => "no policy waits to be confirmed: it was applied without --confirm, or has gone back already"
                    .to_owned(),
            };
            // The state is not held while the disk may be slow.
            drop((slot, past));
            self.report_by(at, Kind::Refused, by, format_args!("confirm, by {by}: {why}"));
            return Err(Refused::new(409, why));
        };
        self.keep(running);
        let generation = running.generation;
        drop(slot);
        self.settle(&waiting, Outcome::Confirmed);
        drop(past);
        self.report_by(at, Kind::Confirmed, by, format_args!("generation {generation}, by {by}"));
        Ok(Confirmed { generation })
    }

    fn policy_in_force(&self) -> Result<Arc<Policy>, Refused> {
        self.running().as_ref().map(|running| Arc::clone(&running.policy)).ok_or_else(gone)
    }

    /// The policies that were put in force.
    pub(crate) fn history(&self) -> Result<History, Refused> {
        // A firewall that is down has none to ask.
        self.policy_in_force()?;
        let read = self.past.as_ref().map(|past| past.store.read()).transpose();
        read.map(Option::unwrap_or_default).map_err(unreadable)
    }

    /// A policy of the history as it was, or the one in force.
    pub(crate) fn policy(&self, number: Option<u64>) -> Result<KeptPolicy, Refused> {
        let in_force = self.policy_in_force()?;
        let history = if number.is_some() { self.history()? } else { self.history().unwrap_or_default() };
        let Some(number) = number else {
            let (file, folder, text) =
                (in_force.file.clone(), in_force.folder.clone(), in_force.text.clone());
            return Ok(KeptPolicy { number: history.in_force, file, folder, text });
        };
        let found = history.entries.iter().find(|entry| entry.number == number).zip(self.past.as_ref());
        let (entry, past) = found.ok_or_else(|| no_entry(number))?;
        let text = past.store.text(entry).map_err(unreadable)?;
        let (file, folder) = (entry.file.clone(), entry.folder.clone());
        Ok(KeptPolicy { number: Some(number), file, folder, text })
    }

    /// A backup of the policy in force, the history and the copies of lists.
    pub(crate) fn back_up(&self, at: Timestamp) -> Result<Vec<u8>, Refused> {
        let KeptPolicy { file, folder, text, .. } = self.policy(None)?;
        let entries = self.history()?.entries;
        let lists = self.state.as_ref().map(|state| state.lists());
        let copies = lists.as_deref().map(copies_in);
        let names = copies.map(|copies| copies.names()).transpose().map_err(unreadable)?.unwrap_or_default();
        let names: Vec<String> = names.into_iter().filter(|name| backup::is_name_of_copy(name)).collect();
        let parts = Parts {
            policy: backup::Policy { file, folder, text },
            entries: &entries,
            text_of: &|entry| match &self.past {
                Some(past) => past.store.text(entry),
                None => Err(io::ErrorKind::NotFound.into()),
            },
            copies: &names,
            copy_of: &|name| std::fs::read(lists.clone().unwrap_or_default().join(name)),
        };
        backup::encode(parts, at, MOST_UNPACKED / 2).map_err(|error| Refused::new(413, error.to_string()))
    }

    /// Restores a backup. It is checked as a whole before anything is changed; if its policy cannot be put in force, nothing is.
    pub(crate) fn restore(
        &self,
        bytes: &[u8],
        confirm_seconds: Option<u32>,
        now: Moment,
        by: &Actor,
    ) -> Result<Restored, Refused> {
        let Backup { policy, entries, copies, .. } = backup::decode(bytes).map_err(|why| {
            self.report_by(now.wall, Kind::Refused, by, format_args!("a backup, by {by}: {why}"));
            Refused::new(400, format!("this backup is not restored, and nothing is changed: {why}"))
        })?;
        let backup::Policy { file, folder, text } = policy;
        let new = NewPolicy { file, folder, text, confirm_seconds };
        let imported = self.import_copies(&copies)?;
        let before = self.history()?.entries.last().map_or(0, |entry| entry.number);
        let coming = Coming { new: &new, by, way: Way::Restore, of: None, entries: &entries };
        match self.put_in_force(&coming, now) {
            Ok(applied) => {
                let is_new = |entry: &&HistoryEntry| entry.from_backup && entry.number > before;
                let entries = self.history()?.entries.iter().filter(is_new).count() as u64;
                Ok(Restored { applied, entries, lists: imported.len() as u64 })
            }
            Err(why) => {
                for copy in imported {
                    // A copy that stays is one of a list that nobody names.
                    let _ = std::fs::remove_file(copy);
                }
                Err(why)
            }
        }
    }

    /// Keeps copies of lists that this machine does not have. Returns their files.
    fn import_copies(&self, copies: &[(String, Vec<u8>)]) -> Result<Vec<PathBuf>, Refused> {
        let Some(folder) = self.state.as_ref().map(|state| state.lists()) else { return Ok(Vec::new()) };
        let mut imported = Vec::new();
        for (name, copy) in copies {
            match copies_in(&folder).import(name, copy) {
                Ok(file) => imported.extend(file),
                Err(error) => {
                    imported.iter().for_each(|file| drop(std::fs::remove_file(file)));
                    let what = format!("the backup's copies of lists cannot be written: {error}");
                    return Err(Refused::new(500, what));
                }
            }
        }
        Ok(imported)
    }
}

fn copies_in(folder: &std::path::Path) -> Copies<'_> {
    Copies { folder, stand_in: false, fetcher: None, keep: true }
}

fn unreadable(error: io::Error) -> Refused {
    Refused::new(500, format!("the history cannot be read: {error}"))
}

fn no_entry(number: u64) -> Refused {
    Refused::new(404, format!("the history has no entry {number}: `rampart history` lists those that it has"))
}

impl Unconfirmed {
    /// Goes back to `previous` after so many seconds.
    pub(super) fn new(previous: Option<Arc<Policy>>, seconds: u32, now: Moment) -> Self {
        Self {
            previous,
            until: now.steady + Duration::from_secs(seconds.into()),
            rolls_back_at: now.wall + SignedDuration::from_secs(seconds.into()),
            number: None,
        }
    }
}

/// The policy of a new firewall, with the zones of the one in force, because nobody else knows which interface leads where.
pub(crate) fn factory_text(policy: &Policy) -> String {
    let zones = || policy.zones.iter().skip(SELF as usize + 1);
    let (flows, forwarding) = (policy.settings.flows, policy.settings.forwarding.name());
    let mut text = format!(
        "# The policy of a new firewall, by `rampart factory-reset`: the machine can be reached by SSH, and nothing is forwarded.\n\
         [settings]\nflows = {flows}\nforwarding = \"{forwarding}\"\n"
    );
    for zone in zones() {
        text += &format!("\n[zones.\"{}\"]\ninterfaces = {}\n", zone.name, strings(&zone.interfaces));
    }
    let names: Vec<&str> = zones().map(|zone| zone.name.as_str()).collect();
    if !names.is_empty() {
        own_rules::write(&names, &["ssh"], &mut text);
    }
    text
}
