//! The firewall as it runs: the policy in force, and what can be asked of it. Decides nothing about packets, and reads no
//! clock: the moment is an argument. How requests come in is in [`server`], what happens by itself in [`run`].

mod alarms;
pub(crate) mod changes;
mod hold;
pub(crate) mod log;
pub(crate) mod place;
pub(crate) mod run;
mod running;
pub(crate) mod server;
mod surges;
#[cfg(test)]
mod tests;
mod told;

use crate::api::{
    Applied, Confirmed, Down, Drops, EventName, Events, Filter, Killed, NewPolicy, Problem, Refusal,
    RuleCount, Rules, Sessions, Status, Surging,
};
use crate::plane::{DataPlane, Hook, News, PlaneError};
use hold::Hold;
use jiff::{SignedDuration, Timestamp};
use log::{Kind, Log};
use policy::{Policy, Tables};
use running::{Due, Running, Unconfirmed};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use told::Told;

/// How long after a failure something that happens by itself is tried again.
const RETRY: Duration = Duration::from_secs(60);

/// A moment on both clocks: the wall's, by which schedules go, and one that nobody sets, for everything else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// On the wall.
    pub(crate) wall: Timestamp,
    /// Steady.
    pub(crate) steady: Instant,
}

impl Moment {
    pub(crate) fn now() -> Self {
        // Milliseconds are enough for people, and schedules begin with a minute.
        let wall = Timestamp::now();
        Self { wall: wall.round(jiff::Unit::Millisecond).unwrap_or(wall), steady: Instant::now() }
    }
}

/// A running firewall.
pub(crate) struct Daemon {
    about: About,
    log: Log,
    /// Held while a policy is built and put in force, so that policies come one after the other; what asks for the state
    /// does not wait for it.
    turn: Mutex<()>,
    /// `None` once it is down.
    running: Mutex<Option<Running>>,
    /// What rules told. Locked after the state.
    told: Mutex<Told>,
}

/// What does not change as long as it runs.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) pid: u32,
    pub(crate) namespace: String,
    pub(crate) since: Timestamp,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Status of HTTP.
    pub(crate) status: u16,
    /// What is told.
    pub(crate) refusal: Refusal,
}

impl Refused {
    pub(crate) fn new(status: u16, error: impl Into<String>) -> Self {
        Self { status, refusal: Refusal { error: error.into(), problems: Vec::new() } }
    }

    fn problems(problems: Vec<Problem>) -> Self {
        let error = match problems.len() {
            1 => "the policy has an error".to_owned(),
            n => format!("the policy has {n} errors"),
        };
        Self { status: 422, refusal: Refusal { error, problems } }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal.problems.first() {
            Some(p) => write!(f, "{}:{}:{}: {}", p.file, p.line, p.column, p.message),
            None => f.write_str(&self.refusal.error),
        }
    }
}

impl Daemon {
    /// Puts a policy in force and takes the packets of its interfaces.
    ///
    /// # Errors
    /// What the data plane cannot do. Nothing is left attached.
    pub(crate) fn start(
        about: About,
        log: Log,
        policy: Policy,
        plane: Box<dyn DataPlane>,
        hook: Hook,
    ) -> Result<Self, Refused> {
        let at = about.since;
        let tables = build(&policy, at)?;
        let mut hold = Hold::new(plane, hook);
        let generation = hold.put_in_force(&tables, &policy)?;
        let running = Running::new(hold, policy, generation, at);
        let told = Mutex::new(Told::default());
        Ok(Self { about, log, turn: Mutex::new(()), running: Mutex::new(Some(running)), told })
    }

    /// The state, while it runs.
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        // A thread that panicked while it held the state has broken an invariant of ours, and has left tables in force that
        // were put there as a whole: going on is safer than a firewall that cannot be asked.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Running) -> Result<T, PlaneError>) -> Result<T, Refused> {
        let mut running = self.running();
        let running = running.as_mut().ok_or_else(gone)?;
        let policy = Arc::clone(&running.policy);
        ask(running).map_err(|error| refused(&policy, error))
    }

    /// Tells an event.
    pub(crate) fn tell(&self, at: Timestamp, kind: Kind, message: impl fmt::Display) {
        self.log.event(at, kind, message);
    }

    /// How it stands.
    pub(crate) fn status(&self) -> Result<Status, Refused> {
        self.with(|running| {
            let sessions = running.hold.plane.occupancy()?;
            Ok(Status {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: self.about.pid,
                namespace: self.about.namespace.clone(),
                since: self.about.since,
                policy: running.policy_status(),
                interfaces: running.interfaces(),
                sessions,
                counters: running.hold.plane.counters()?,
                alerts: running.surges.standing(),
                troubles: running.troubles(),
            })
        })
    }

    /// The rules with their counters.
    pub(crate) fn rules(&self, at: Timestamp) -> Result<Rules, Refused> {
        self.with(|running| {
            let hits = running.hold.plane.rule_hits(&running.policy)?;
            let limited = running.hold.plane.limited()?;
            let policy = &running.policy;
            let rules = policy.rules.iter().map(|rule| {
                let of = |counts: &HashMap<String, u64>| counts.get(&rule.name).copied().unwrap_or(0);
                rule_count(policy, rule, at, (of(&hits), of(&limited)))
            });
            Ok(Rules { generation: running.generation, rules: rules.collect() })
        })
    }

    /// Sessions that pass a filter, `limit` of them at most.
    pub(crate) fn sessions(&self, filter: &Filter, limit: u64) -> Result<Sessions, Refused> {
        self.with(|running| {
            let mut found = Sessions { matched: 0, sessions: Vec::new() };
            running.hold.plane.sessions(&mut |_, session| {
                if filter.accepts(&session) {
                    found.matched += 1;
                    if found.matched <= limit {
                        found.sessions.push(session);
                    }
                }
            })?;
            Ok(found)
        })
    }

    /// Ends the sessions that pass a filter.
    pub(crate) fn kill(&self, filter: &Filter, at: Timestamp, by: &str) -> Result<Killed, Refused> {
        let killed = self.with(|running| {
            let mut keys = Vec::new();
            running.hold.plane.sessions(&mut |key, session| {
                if filter.accepts(&session) {
                    keys.push(key);
                }
            })?;
            keys.into_iter().try_fold(0, |killed, key| Ok(killed + u64::from(running.hold.plane.kill(key)?)))
        })?;
        self.tell(at, Kind::Killed, format_args!("sessions: {killed}, by {by}"));
        Ok(Killed { killed })
    }

    /// What rules told: after an event, or the newest; `limit` of them at most.
    pub(crate) fn events(&self, after: Option<u64>, limit: u64, now: Moment) -> Result<Events, Refused> {
        self.with(|running| {
            self.hear_of(running, now)?;
            Ok(self.told().events(after, limit))
        })
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear_of(&self, running: &mut Running, now: Moment) -> Result<(), PlaneError> {
        let mut guard = self.told();
        let told = &mut *guard;
        let (plane, surges) = (&mut running.hold.plane, &mut running.surges);
        let mut alerts = Vec::new();
        told.untold = plane.events(&mut |ago, news| match news {
            News::Event(heard) => told.add(now.wall, ago, heard),
            News::Surge(surge) => alerts.extend(surges.heed(surge, now, ago).map(|heard| (ago, heard))),
        })?;
        alerts.extend(surges.fade(now).into_iter().map(|heard| (Duration::ZERO, heard)));
        for (ago, heard) in alerts {
            let kind = if heard.event == EventName::Over { Kind::Over } else { Kind::Alert };
            let (rule, what) =
                (heard.rule.as_deref().unwrap_or("?"), heard.alert.as_ref().map(Surging::words));
            self.tell(now.wall, kind, format_args!("{rule}: {}", what.unwrap_or_default()));
            told.add(now.wall, ago, heard);
        }
        Ok(())
    }

    /// Takes in what rules tell, several times a second: the data plane has only so much room for it.
    pub(crate) fn hear(&self, now: Moment) {
        if let Some(running) = self.running().as_mut() {
            let heard = self.hear_of(running, now);
            running.deaf = heard.err().map(|error| format!("what rules log is not heard: {error}"));
        }
    }

    /// Packets that did not pass, by reason, the most frequent first.
    pub(crate) fn drops(&self) -> Result<Drops, Refused> {
        self.with(|running| {
            let mut drops = running.hold.plane.drops()?;
            drops.retain(|drop| drop.packets > 0);
            drops.sort_by_key(|drop| (std::cmp::Reverse(drop.packets), drop.number));
            Ok(Drops { drops })
        })
    }

    /// Puts a policy in force in place of the one that is.
    pub(crate) fn apply(&self, new: &NewPolicy, now: Moment, by: &str) -> Result<Applied, Refused> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.replace(new, now);
        match &done {
            Ok(applied) => {
                let until = applied.rolls_back_at.map(|t| format!(", to be confirmed until {t}"));
                let until = until.unwrap_or_default();
                let words = changes::words(&applied.changes);
                self.tell(
                    now.wall,
                    Kind::Applied,
                    format_args!(
                        "{} as generation {}, by {by}{until}: {words}",
                        new.file, applied.generation
                    ),
                );
            }
            Err(why) => self.tell(now.wall, Kind::Refused, format_args!("{}, by {by}: {why}", new.file)),
        }
        done
    }

    fn replace(&self, new: &NewPolicy, now: Moment) -> Result<Applied, Refused> {
        let policy = Policy::parse(&new.file, &new.text)
            .map_err(|problems| Refused::problems(problems.list().iter().map(Problem::from).collect()))?;
        let tables = build(&policy, now.wall)?;
        let next_change = policy.next_change(now.wall);
        let mut running = self.running();
        let running = running.as_mut().ok_or_else(gone)?;
        can_take_over(&running.policy, &policy)?;
        let generation = running.hold.put_in_force(&tables, &policy)?;
        let changes = changes::between(&running.policy, &policy);
        let policy = Arc::new(policy);
        // Until somebody confirms, the policy to go back to is the last that was confirmed.
        let before = std::mem::replace(&mut running.policy, Arc::clone(&policy));
        let confirmed = running.unconfirmed.take().map_or(before, |waiting| waiting.previous);
        running.unconfirmed = new.confirm_seconds.map(|seconds| Unconfirmed {
            previous: confirmed,
            until: now.steady + Duration::from_secs(seconds.into()),
            rolls_back_at: now.wall + SignedDuration::from_secs(seconds.into()),
        });
        running.in_force(generation, now.wall, next_change);
        running.applied_at = now.wall;
        let rolls_back_at = running.unconfirmed.as_ref().map(|waiting| waiting.rolls_back_at);
        Ok(Applied { generation, rules: policy.rules.len(), changes, rolls_back_at })
    }

    /// Keeps a policy that waits for it.
    pub(crate) fn confirm(&self, at: Timestamp, by: &str) -> Result<Confirmed, Refused> {
        let mut running = self.running();
        let running = running.as_mut().ok_or_else(gone)?;
        let none =
            "no policy waits to be confirmed: it was applied without --confirm, or has gone back already";
        running.unconfirmed.take().ok_or_else(|| Refused::new(409, none))?;
        let generation = running.generation;
        self.tell(at, Kind::Confirmed, format_args!("generation {generation}, by {by}"));
        Ok(Confirmed { generation })
    }

    /// Lets go of every interface. Everything asked afterwards is refused. `None` when it was down already.
    ///
    /// # Errors
    /// When the kernel does not let go; it is then still running.
    pub(crate) fn down(&self, at: Timestamp, by: &str) -> Result<Option<Down>, Refused> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return Ok(None) };
        let detached = running.hold.release(&running.policy)?;
        *slot = None;
        self.tell(at, Kind::Down, format_args!("by {by}"));
        Ok(Some(Down { pid: self.about.pid, detached }))
    }

    /// What happens by itself, about once a second: expired sessions are forgotten, schedules begin and end, and a policy
    /// that nobody confirmed goes.
    pub(crate) fn tick(&self, now: Moment) {
        // While a policy is being built, whatever is due comes right after it.
        let Ok(_turn) = self.turn.try_lock() else { return };
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return };
        running.look(now, self);
        let due = running.due(now);
        drop(slot);
        if let Some(due) = due {
            self.bring(due, now);
        }
    }

    /// Builds what is due without holding the state, and puts it in force.
    fn bring(&self, due: Due, now: Moment) {
        let tables = build(&due.policy, now.wall);
        let next_change = due.policy.next_change(now.wall);
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return };
        let done = tables.and_then(|tables| running.hold.put_in_force(&tables, &due.policy));
        match done {
            Ok(generation) => {
                let message = running.switch(&due, generation, now, next_change);
                self.tell(now.wall, if due.back { Kind::RolledBack } else { Kind::Scheduled }, message);
            }
            Err(why) => {
                let what = if due.back { "the policy before" } else { "the tables of the new hour" };
                let message = format!(
                    "{what} could not be put in force, and is tried again in {} s: {why}",
                    RETRY.as_secs()
                );
                self.tell(now.wall, Kind::Trouble, &message);
                running.failed = Some((message, now.steady + RETRY));
            }
        }
    }
}

fn build(policy: &Policy, at: Timestamp) -> Result<Tables, Refused> {
    Tables::build(policy, at).map_err(|error| Refused::new(422, format!("{}: {error}", policy.file)))
}

/// The table of sessions has the size that it was made with.
fn can_take_over(old: &Policy, new: &Policy) -> Result<(), Refused> {
    let (was, is) = (old.settings.flows, new.settings.flows);
    if was == is {
        return Ok(());
    }
    let file = &new.file;
    let what = format!("`flows` of [settings] is {is}, and the firewall was started with {was}");
    let remedy = format!("leave it, or `rampart down` and `rampart up {file}` (sessions are lost)");
    Err(Refused::new(409, format!("{file}: {what}, which it cannot change while it runs: {remedy}")))
}

fn gone() -> Refused {
    Refused::new(503, "the firewall is being taken down")
}

/// What the data plane cannot do, with its place in the policy where it has one.
fn refused(policy: &Policy, error: PlaneError) -> Refused {
    match error {
        PlaneError::Rule { rule, message, help } => {
            let (line, column) = policy
                .rules
                .iter()
                .find(|known| known.name == rule)
                .map_or((1, 1), |known| line_and_column(&policy.text, known.span.start));
            let message = format!("the rule `{rule}`: {message}");
            Refused::problems(vec![Problem { file: policy.file.clone(), line, column, message, help }])
        }
        PlaneError::Policy(text) => Refused::new(422, format!("{}: {text}", policy.file)),
        PlaneError::Machine(text) => Refused::new(500, text),
    }
}

/// Line and column, both from 1 and the column in characters, of a byte where a character begins.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn rule_count(
    policy: &Policy,
    rule: &policy::model::Rule,
    at: Timestamp,
    (hits, limited): (u64, u64),
) -> RuleCount {
    let written = rule.written.clone();
    RuleCount {
        name: rule.name.clone(),
        action: rule.effect.action.name().to_owned(),
        in_force: policy.takes_part(rule, at),
        from: written.from,
        to: written.to,
        source: written.source,
        destination: written.destination,
        service: written.service,
        schedule: rule.schedule.map(|s| policy.schedules[s].name.clone()),
        hits,
        limited,
    }
}
