//! Lists of addresses whose files are read again by themselves when they have changed or an entry has ended, and lists that commands fetch. Reading and fetching take as
//! long as they take: each has a thread of its own, and what is in force stays until all lists were read as a whole.
//!
//! Fetching ends in a copy on disk. That the copy has changed is found like that of any file, so whatever happens in between, the newest copy comes
//! into force.

use super::list_facts::Look;
use super::log::Kind;
use super::{Daemon, Moment, Refused, build};
use crate::list_copies::Copies;
use crate::list_files::{self, Loaded};
use crate::state::State;
use jiff::Timestamp;
use policy::Policy;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often the clock is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Looks after the lists, and the files of gateways, until the firewall is down.
pub(crate) fn watch(daemon: &Arc<Daemon>) {
    for step in [Daemon::refresh_lists, Daemon::fetch_lists, Daemon::refresh_gateways] {
        let daemon = Arc::clone(daemon);
        std::thread::spawn(move || {
            while step(&daemon, Moment::now()) {
                std::thread::park_timeout(LOOK);
            }
        });
    }
}

impl Daemon {
    /// What is on a policy's lists; copies stand in for files that cannot be read where `stand_in` says so.
    pub(super) fn load_lists(
        &self,
        policy: &Policy,
        stand_in: bool,
        at: Timestamp,
    ) -> Result<Option<Loaded>, Refused> {
        self.with_copies(stand_in, |copies| load_lists(policy, copies, at))
    }

    fn copies_folder(&self) -> Option<PathBuf> {
        self.state.as_ref().map(State::lists)
    }

    fn with_copies<T>(&self, stand_in: bool, ask: impl FnOnce(Option<Copies<'_>>) -> T) -> T {
        let (folder, fetcher) = (self.copies_folder(), self.fetcher.as_deref());
        ask(folder.as_deref().map(|folder| Copies { folder, stand_in, fetcher, keep: true }))
    }

    /// Fetches those of a policy's lists that were never fetched. Returns whether there were any.
    pub(super) fn fetch_missing(&self, policy: &Policy, at: Timestamp) -> Result<bool, Refused> {
        self.with_copies(false, |copies| {
            copies.map_or(Ok(false), |copies| list_files::fetch_missing(policy, copies, at))
        })
        .map_err(|why| Refused::new(422, why))
    }

    /// Reads the lists again if a file has changed that is to be looked at by now, or an entry has ended. False once the firewall is down.
    pub(crate) fn refresh_lists(&self, now: Moment) -> bool {
        let (policy, looks, has_ended) = {
            let mut slot = self.running();
            let Some(running) = slot.as_mut() else { return false };
            let policy = Arc::clone(&running.policy);
            let looks = running.lists.due(&policy, now.steady, self.copies_folder().as_deref());
            let has_ended = running.lists.has_ended(now.wall);
            (policy, looks, has_ended)
        };
        // The state is not held while a disk may be slow.
        if looks.is_empty() && !has_ended {
            return true;
        }
        let failure = if has_ended || looks.iter().any(Look::finds_change) {
            // An entry ends also where its file is gone: the copy has the end, too. Commands are run by the clock alone, so that one that fails is
            // not run again at each look.
            let loaded = self.with_copies(has_ended, |copies| {
                let kept = copies.map(|copies| Copies { fetcher: None, ..copies });
                load_lists(&policy, kept, now.wall)
            });
            loaded.and_then(|loaded| self.exchange_lists(&policy, loaded, now, has_ended)).err()
        } else {
            None
        };
        if failure.is_some() {
            self.fetch_lost(&policy, &looks, now);
        }
        self.note_refresh(&policy, failure.map(|why| why.to_string()));
        true
    }

    /// Fetches lists at once whose copies are gone or damaged, unless that failed before.
    fn fetch_lost(&self, policy: &Arc<Policy>, looks: &[Look], now: Moment) {
        let lost = |place: &usize| {
            self.with_copies(false, |copies| {
                copies.is_some_and(|copies| list_files::has_lost_its_copy(&policy.lists[*place], copies))
            })
        };
        let changed = looks.iter().filter(|look| look.finds_change()).map(|look| look.place);
        let lost: Vec<usize> = changed.filter(lost).collect();
        let mut slot = self.running();
        if let Some(running) = slot.as_mut().filter(|running| Arc::ptr_eq(&running.policy, policy)) {
            lost.into_iter().for_each(|place| running.lists.fetch_soon(place, now));
        }
    }

    /// Fetches the lists that are due, one after the other. False once the firewall is down.
    pub(crate) fn fetch_lists(&self, now: Moment) -> bool {
        let (policy, due) = {
            let mut slot = self.running();
            let Some(running) = slot.as_mut() else { return false };
            let policy = Arc::clone(&running.policy);
            let due = running.lists.due_fetches(&policy, now);
            (policy, due)
        };
        for place in due {
            let list = &policy.lists[place];
            let done = self.with_copies(false, |copies| match copies {
                Some(copies) => list_files::fetch(list, copies),
                None => Err("there is no folder for its copy".to_owned()),
            });
            let mut slot = self.running();
            let Some(running) = slot.as_mut() else { return false };
            if !Arc::ptr_eq(&running.policy, &policy) {
                break;
            }
            running.lists.note_fetch(place, list, done, now);
        }
        true
    }

    /// Puts what was read in force, with the policy that it was read for. If another one is in force by now, that one has read its lists.
    fn exchange_lists(
        &self,
        policy: &Arc<Policy>,
        loaded: Option<Loaded>,
        now: Moment,
        has_ended: bool,
    ) -> Result<(), Refused> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let tables = build(policy, now.wall)?;
        let next_change = policy.next_change(now.wall);
        let mut slot = self.running();
        let Some(running) = slot.as_mut().filter(|running| Arc::ptr_eq(&running.policy, policy)) else {
            return Ok(());
        };
        let table = loaded.as_ref().map(|it| &it.table);
        let generation = running.attachments.put_in_force(&tables, policy, table)?;
        running.lists.take(loaded);
        running.in_force(generation, now.wall, next_change);
        drop(slot);
        let why = if has_ended { "entries have ended" } else { "what is on one has changed" };
        self.report(
            now.wall,
            Kind::Refreshed,
            format_args!("generation {generation}: lists were read again, because {why}"),
        );
        Ok(())
    }

    /// Notes what is wrong, or that nothing is any more. The next tick reports it.
    fn note_refresh(&self, policy: &Arc<Policy>, failure: Option<String>) {
        let mut slot = self.running();
        if let Some(running) = slot.as_mut().filter(|running| Arc::ptr_eq(&running.policy, policy)) {
            running.lists.not_read =
                failure.map(|why| format!("the lists could not be read again, and stay as they were: {why}"));
        }
    }
}

/// What is on a policy's lists.
pub(super) fn load_lists(
    policy: &Policy,
    copies: Option<Copies<'_>>,
    at: Timestamp,
) -> Result<Option<Loaded>, Refused> {
    let fetched = policy.lists.iter().find(|list| list.origin.command().is_some());
    if let (Some(list), None) = (fetched, copies) {
        let why = "a command fetches it, and the firewall has no folder for what is fetched";
        return Err(Refused::new(422, list_files::of_list(policy, list, why)));
    }
    list_files::load(policy, copies, at).map_err(|why| Refused::new(422, why))
}
