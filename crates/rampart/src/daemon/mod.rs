//! The firewall as it runs: the policy in force, and what can be asked of it. Decides nothing about packets, and reads no
//! clock: the moment is an argument. How requests come in is in [`server`], what happens by itself in [`run`].

mod alarms;
mod alerts;
mod attachments;
pub(crate) mod blocks;
pub(crate) mod changes;
pub(crate) mod domains;
pub(crate) mod events;
mod exports;
mod gateways;
pub(crate) mod instance;
mod journal;
mod known;
mod list_facts;
pub(crate) mod log;
mod metrics;
mod pace;
pub(crate) mod past;
pub(crate) mod recorder;
pub(crate) mod refresh;
pub(crate) mod run;
mod running;
pub(crate) mod scrapes;
pub(crate) mod server;
mod stations;
#[cfg(test)]
mod tests;

use crate::api::{
    Actor, AuditRecord, AuditTrail, Down, Drops, Event, EventName, Events, Filter, Flows, Killed, Outcome,
    Problem, Refusal, RuleCount, Rules, Status,
};
use crate::domains::Kept as KeptDomains;
use crate::export::Exporter;
use crate::fetch::Fetch;
use crate::gateways::Gateways;
use crate::list_copies::Copies;
use crate::plane::{DataPlane, Hook, PlaneError, Recorded};
use crate::state::{Kept, State, Waiting};
use crate::table::alert_words;
use attachments::Attachments;
use events::EventBuffer;
use jiff::{SignedDuration, Timestamp};
use list_facts::ListsInForce;
use log::{Kind, Log};
use pace::Pace;
use past::Past;
use policy::{Policy, Tables};
use recorder::{Recorder, cut};
use running::{Due, Running, Unconfirmed};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long after a failure something that was due is tried again.
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

    /// So much later.
    fn later(self, time: Duration) -> Self {
        let wall = SignedDuration::try_from(time).unwrap_or_default();
        Self { wall: self.wall.saturating_add(wall).unwrap_or(self.wall), steady: self.steady + time }
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
    /// What rules recorded. Locked after the state.
    events: Mutex<EventBuffer>,
    /// Where the confirmed policy is kept, if anywhere.
    state: Option<State>,
    /// Which policies were in force, if that is kept.
    past: Option<Past>,
    /// What keeps on disk what happens, if anything.
    recorder: Option<Recorder>,
    /// Who exports what happens, or why nobody does.
    exporter: Result<Exporter, String>,
    /// Who runs gateways, or why nobody does.
    gateways: Result<Gateways, String>,
    /// Who runs commands of lists, if anybody.
    fetcher: Option<Arc<dyn Fetch>>,
    /// The metrics as they were asked for last.
    rendered: metrics::Rendered,
    /// How often users have changed something.
    pace: Mutex<Pace>,
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
    /// What the client learns.
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
    /// Puts a policy in force and takes the packets of its interfaces. `lists` are copies of what is on its lists, and `domains` is what an earlier
    /// daemon knew of its domains.
    ///
    /// # Errors
    /// What the data plane cannot do. Nothing is left attached.
    pub(crate) fn start(
        about: About,
        log: Log,
        policy: Policy,
        plane: Box<dyn DataPlane>,
        hook: Hook,
        lists: Option<Copies<'_>>,
        domains: Option<(KeptDomains, Moment)>,
    ) -> Result<Self, Refused> {
        let at = about.since;
        let tables = build(&policy, at)?;
        let loaded = refresh::load_lists(&policy, lists, at)?;
        let mut attachments = Attachments::new(plane, hook);
        attachments.domains.begin(&policy, domains.map(|(kept, now)| (kept, now.wall, now.steady)));
        let (generation, note) = attachments.begin(&tables, &policy, loaded.as_ref().map(|it| &it.table))?;
        if let Some(note) = note {
            log.event(at, Kind::Up, None, note);
        }
        let mut running = Running::new(attachments, policy, generation, at);
        running.lists = ListsInForce::of(loaded);
        let events = Mutex::new(EventBuffer::default());
        Ok(Self {
            about,
            log,
            turn: Mutex::new(()),
            running: Mutex::new(Some(running)),
            events,
            state: None,
            past: None,
            recorder: None,
            exporter: Err("nobody asked for it".to_owned()),
            gateways: Err("nobody asked for them".to_owned()),
            fetcher: None,
            rendered: metrics::Rendered::default(),
            pace: Mutex::default(),
        })
    }

    /// Keeps on disk what happens from now on.
    pub(crate) fn record_by(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Has somebody who runs commands of lists from now on.
    pub(crate) fn fetch_by(mut self, fetcher: Option<Arc<dyn Fetch>>) -> Self {
        self.fetcher = fetcher;
        self
    }

    /// Keeps the policy in force, and each that is confirmed from now on, on disk, and all of them in the history. `by` is who brought the
    /// firewall up.
    pub(crate) fn keep_in(mut self, state: State, by: &Actor) -> Self {
        self.past = Some(Past::new(state.history()));
        self.state = Some(state);
        if let Some(running) = self.running().as_mut() {
            self.keep(running);
        }
        self.record_start(by);
        self
    }

    /// Goes back to `previous` after so many seconds, or down if there is none, unless somebody confirms the policy in force.
    pub(crate) fn confirm_within(self, seconds: u32, previous: Option<Policy>, now: Moment) -> Self {
        if let Some(running) = self.running().as_mut() {
            running.unconfirmed = Some(Unconfirmed::new(previous.map(Arc::new), seconds, now));
        }
        self
    }

    /// Writes down what the firewall is to come up with: the policy in force, or the last one that was confirmed while it waits.
    fn keep(&self, running: &mut Running) {
        let Some(state) = &self.state else { return };
        let done = match &running.unconfirmed {
            None => state.keep(&Kept {
                file: running.policy.file.clone(),
                text: running.policy.text.to_string(),
                folder: running.policy.folder.clone(),
                applied_at: running.applied_at,
            }),
            Some(_) => state
                .note_waiting(&Waiting { file: running.policy.file.clone(), applied_at: running.applied_at }),
        };
        running.not_kept = done.err().map(|error| {
            format!(
                "the policy in force could not be written down ({error}): after a restart the one before it comes up; free the \
                 disk, and apply it again"
            )
        });
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

    pub(crate) fn report(&self, at: Timestamp, kind: Kind, message: impl fmt::Display) {
        let message = message.to_string();
        self.log.event(at, kind, None, &message);
        self.export_report(at, kind, None, &message);
    }

    /// Waits a moment until everything that was reported is written.
    pub(crate) fn finish_reports(&self) {
        self.log.finish();
        if let Some(recorder) = &self.recorder {
            recorder.finish();
        }
        self.finish_exports();
    }

    /// What somebody did, or tried to do: it is printed, and goes into the audit trail.
    pub(crate) fn report_by(&self, at: Timestamp, kind: Kind, by: &Actor, message: impl fmt::Display) {
        let message = message.to_string();
        self.log.event(at, kind, Some(&by.to_string()), &message);
        self.export_report(at, kind, Some(by), &message);
        if let Some(recorder) = &self.recorder {
            recorder.audit(AuditRecord {
                at,
                event: kind.name().to_owned(),
                by: by.clone(),
                message: cut(message),
            });
        }
    }

    /// Whether a user may change something now; who does so too often could make old records of the audit trail go.
    pub(crate) fn admit_change(&self, now: Moment, by: &Actor) -> Result<(), Refused> {
        let admitted = self.pace().change(now, by);
        admitted.map_err(|wait| {
            let why = format!(
                "{by} changes the firewall too often: the next change may come in {} s; root may always",
                wait.as_secs() + 1
            );
            self.deny(now, by, &why);
            Refused::new(429, why)
        })
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody asked for what is not allowed. One such request of a user a minute is recorded, so that nobody can fill the audit trail with
    /// them.
    pub(crate) fn deny(&self, now: Moment, by: &Actor, why: &str) {
        let more = match self.pace().denial(now, by) {
            None => return,
            Some(0) => String::new(),
            Some(more) => {
                format!("; {more} other requests were denied before, and are not recorded one by one")
            }
        };
        self.report_by(now.wall, Kind::Denied, by, format_args!("{by}: {why}{more}"));
    }

    /// The newest records of the audit trail.
    pub(crate) fn audit_trail(&self, limit: u64) -> Result<AuditTrail, Refused> {
        let trail = self.recorder.as_ref().map(|recorder| recorder.trail(limit)).transpose();
        let trail =
            trail.map_err(|error| Refused::new(500, format!("the audit trail cannot be read: {error}")))?;
        Ok(trail.map(|kept| AuditTrail { records: kept.values, broken: kept.broken }).unwrap_or_default())
    }

    pub(crate) fn status(&self) -> Result<Status, Refused> {
        self.with(|running| {
            let flows = running.attachments.plane.occupancy()?;
            Ok(Status {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: self.about.pid,
                namespace: self.about.namespace.clone(),
                since: self.about.since,
                policy: running.policy_status(),
                interfaces: running.interfaces(),
                flows,
                counters: running.attachments.plane.counters()?,
                alerts: running.alerts.standing(),
                blocked_sources: blocks::in_force(running)?.len() as u64,
                exports: self.exports(),
                gateways: self.gateway_states(),
                troubles: running.troubles(),
            })
        })
    }

    /// The rules with their counters.
    pub(crate) fn rules(&self, at: Timestamp) -> Result<Rules, Refused> {
        self.with(|running| {
            let hits = running.attachments.plane.rule_hits(&running.policy)?;
            let limited = running.attachments.plane.limited()?;
            let policy = &running.policy;
            let rules = policy.rules.iter().map(|rule| {
                let of = |counts: &HashMap<String, u64>| counts.get(&rule.name).copied().unwrap_or(0);
                rule_count(policy, rule, at, (of(&hits), of(&limited)))
            });
            Ok(Rules { generation: running.generation, rules: rules.collect() })
        })
    }

    /// Flows that pass a filter, `limit` of them at most.
    pub(crate) fn flows(&self, filter: &Filter, limit: u64) -> Result<Flows, Refused> {
        self.with(|running| Ok(known::check(filter, &running.policy)))??;
        self.with(|running| {
            let mut found = Flows { matched: 0, flows: Vec::new() };
            running.attachments.plane.flows(&mut |_, flow| {
                if filter.accepts(&flow) {
                    found.matched += 1;
                    if found.matched <= limit {
                        found.flows.push(flow);
                    }
                }
            })?;
            Ok(found)
        })
    }

    /// Ends the flows that pass a filter; `asked` is how it was written.
    pub(crate) fn kill(
        &self,
        filter: &Filter,
        asked: &str,
        at: Timestamp,
        by: &Actor,
    ) -> Result<Killed, Refused> {
        self.with(|running| Ok(known::check(filter, &running.policy)))??;
        let done = self.with(|running| {
            let mut keys = Vec::new();
            running.attachments.plane.flows(&mut |key, flow| {
                if filter.accepts(&flow) {
                    keys.push(key);
                }
            })?;
            Ok(each(keys, |key| running.attachments.plane.kill(key)))
        })?;
        let killed = self.report_ended(at, Kind::Killed, by, "flows", asked, done)?;
        Ok(Killed { killed })
    }

    /// Records how many flows or blocks somebody ended, also where the kernel refused to go on: what is gone is gone.
    fn report_ended(
        &self,
        at: Timestamp,
        kind: Kind,
        by: &Actor,
        what: &str,
        asked: &str,
        (ended, refused): (u64, Option<PlaneError>),
    ) -> Result<u64, Refused> {
        let Some(error) = refused else {
            self.report_by(at, kind, by, format_args!("{what}: {ended}, by {by}: {asked}"));
            return Ok(ended);
        };
        self.report_by(
            at,
            kind,
            by,
            format_args!("{what}: {ended}, and not the others ({error}), by {by}: {asked}"),
        );
        self.with(|_| Err(error))
    }

    /// Events that rules recorded: those after an event, or the newest; `limit` of them at most.
    pub(crate) fn events(&self, after: Option<u64>, limit: u64, now: Moment) -> Result<Events, Refused> {
        self.with(|running| {
            self.take_gateway_events(running, now);
            self.read_events(running, now)?;
            Ok(self.recorded().events(after, limit))
        })
    }

    fn recorded(&self) -> MutexGuard<'_, EventBuffer> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_events(&self, running: &mut Running, now: Moment) -> Result<(), PlaneError> {
        let mut buffer = self.recorded();
        let (plane, alerts) = (&mut running.attachments.plane, &mut running.alerts);
        let mut changed = Vec::new();
        let suppressed = plane.events(&mut |ago, recorded| match recorded {
            Recorded::Event(details) => self.keep_event(buffer.add(now.wall, ago, details)),
            Recorded::Alert(reading) => {
                changed.extend(alerts.take(reading, now, ago).map(|details| (ago, details)));
            }
        })?;
        buffer.suppressed = suppressed + running.gateway_events.suppressed;
        changed.extend(alerts.end_quiet(now).into_iter().map(|details| (Duration::ZERO, details)));
        for (ago, details) in changed {
            let kind = if details.event == EventName::Over { Kind::Over } else { Kind::Alert };
            let rule = details.rule.as_deref().unwrap_or("?");
            let words = details.alert.as_ref().map(alert_words).unwrap_or_default();
            // It is exported as the event that it is.
            self.log.event(now.wall, kind, None, format_args!("{rule}: {words}"));
            self.keep_event(buffer.add(now.wall, ago, details));
        }
        Ok(())
    }

    fn keep_event(&self, event: &Event) {
        if let Some(recorder) = &self.recorder {
            recorder.event(event);
        }
        self.export_event(event);
    }

    /// Reads the event log, several times a second: the data plane has only so much room for events.
    pub(crate) fn take_events(&self, now: Moment) {
        if let Some(running) = self.running().as_mut() {
            self.take_gateway_events(running, now);
            let done = self.read_events(running, now).and_then(|()| {
                let (flows, not_recorded) = running.attachments.plane.flow_records(now.wall)?;
                self.export_flows(&flows, not_recorded);
                Ok(())
            });
            running.events_trouble = done.err().map(|error| format!("the event log cannot be read: {error}"));
        }
    }

    /// Dropped packets by reason, the most frequent first.
    pub(crate) fn drops(&self) -> Result<Drops, Refused> {
        self.with(|running| {
            let mut drops = running.attachments.plane.drops()?;
            drops.retain(|drop| drop.packets > 0);
            drops.sort_by_key(|drop| (std::cmp::Reverse(drop.packets), drop.number));
            Ok(Drops { drops })
        })
    }

    /// Detaches from every interface. Later requests are refused. Returns `None` when the firewall was down already.
    ///
    /// # Errors
    /// When an interface cannot be detached; the firewall is then still running.
    pub(crate) fn down(&self, at: Timestamp, by: &Actor) -> Result<Option<Down>, Refused> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return Ok(None) };
        let detached = running.attachments.release(&running.policy)?;
        *slot = None;
        drop(slot);
        self.report_by(at, Kind::Down, by, format_args!("by {by}"));
        Ok(Some(Down { pid: self.about.pid, detached }))
    }

    /// Ends, and leaves everything attached: the firewall goes on by the policy in force until another daemon takes over. Later
    /// requests are refused.
    pub(crate) fn leave(&self, now: Moment, by: &Actor) {
        let at = now.wall;
        self.keep_domains(now);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.running().take().is_some() {
            let message = format_args!(
                "by {by}: the firewall goes on judging by its last policy; `rampart up` takes over, `rampart down` takes it away"
            );
            self.report_by(at, Kind::Left, by, message);
        }
    }

    /// Interfaces came, went or changed; those with the numbers of `gone` went. Attaches to what comes (back) and belongs to a zone. What
    /// goes wrong is reported at the next tick, which tries it again.
    pub(crate) fn links_changed(&self, gone: &[u32], now: Moment) {
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return };
        running.attachments.plane.gone(gone);
        let policy = Arc::clone(&running.policy);
        let happened = running.attachments.follow(&policy);
        let _ = running.attachments.plane.check_interfaces();
        drop(slot);
        happened.into_iter().for_each(|(kind, what)| self.report(now.wall, kind, what));
    }

    /// Puts programs back that somebody took away, several times a second.
    pub(crate) fn check_programs(&self, now: Moment) {
        if let Some(running) = self.running().as_mut() {
            running.check_programs(now);
        }
    }

    /// What happens by itself, about once a second: expired flows are missed, schedules begin and end, and a policy
    /// that nobody confirmed goes. Returns whether the firewall is to go down with it, because there was none before.
    pub(crate) fn tick(&self, now: Moment) -> bool {
        // While a policy is being built, whatever is due comes right after it.
        let Ok(_turn) = self.turn.try_lock() else { return false };
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return false };
        running.maintain(now, self);
        if let Some(waiting) =
            running.unconfirmed.take_if(|it| it.until <= now.steady && it.previous.is_none())
        {
            let message =
                format!("{} was not confirmed, and there was no firewall before it", running.policy.file);
            drop(slot);
            self.settle(&waiting, Outcome::RolledBack);
            self.report_by(now.wall, Kind::RolledBack, &"itself".into(), message);
            return true;
        }
        let due = running.due(now);
        drop(slot);
        if let Some(due) = due {
            self.bring(due, now);
        }
        false
    }

    /// Builds what is due without holding the state, and puts it in force.
    fn bring(&self, due: Due, now: Moment) {
        let built = build(&due.policy, now.wall).and_then(|tables| {
            // A schedule changes nothing of what is on the lists.
            Ok((tables, if due.back { self.load_lists(&due.policy, true, now.wall)? } else { None }))
        });
        let next_change = due.policy.next_change(now.wall);
        let mut slot = self.running();
        let Some(running) = slot.as_mut() else { return };
        let done = built.and_then(|(tables, loaded)| {
            let table = loaded.as_ref().map(|it| &it.table);
            Ok((running.attachments.put_in_force(&tables, &due.policy, table)?, loaded))
        });
        match done {
            Ok((generation, loaded)) => {
                if due.back {
                    running.lists = ListsInForce::of(loaded);
                }
                let waited = running.unconfirmed.clone().filter(|_| due.back);
                let message = running.switch(&due, generation, now, next_change);
                self.export_as(&running.policy);
                self.run_gateways(&running.policy, now.wall);
                if let Some(waited) = waited {
                    self.keep(running);
                    drop(slot);
                    self.settle(&waited, Outcome::RolledBack);
                    self.report_by(now.wall, Kind::RolledBack, &"itself".into(), message);
                } else {
                    self.report(now.wall, Kind::Scheduled, message);
                }
            }
            Err(why) => {
                let what = if due.back { "the policy before" } else { "the tables of the new hour" };
                let message = format!(
                    "{what} could not be put in force, and is tried again in {} s: {why}",
                    RETRY.as_secs()
                );
                self.report(now.wall, Kind::Trouble, &message);
                running.failed = Some((message, now.steady + RETRY));
            }
        }
    }
}

fn build(policy: &Policy, at: Timestamp) -> Result<Tables, Refused> {
    Tables::build(policy, at).map_err(|error| Refused::new(422, format!("{}: {error}", policy.file)))
}

/// How many of some things came to their end, and why it was not gone on with.
fn each<K>(
    keys: impl IntoIterator<Item = K>,
    mut end: impl FnMut(K) -> Result<bool, PlaneError>,
) -> (u64, Option<PlaneError>) {
    let mut ended = 0;
    for key in keys {
        match end(key) {
            Ok(is_ended) => ended += u64::from(is_ended),
            Err(error) => return (ended, Some(error)),
        }
    }
    (ended, None)
}

/// The flow table keeps the size that it was made with, and the programs stay where they are.
pub(crate) fn can_take_over(old: &Policy, new: &Policy) -> Result<(), Refused> {
    let file = &new.file;
    let what = |key: &str, is: &str, was: &str| {
        format!("`{key}` of [settings] is {is}, and the firewall was started with {was}")
    };
    let (old, new) = (&old.settings, &new.settings);
    let what = if old.flows != new.flows {
        what("flows", &new.flows.to_string(), &old.flows.to_string())
    } else if old.forwarding != new.forwarding {
        what("forwarding", new.forwarding.name(), old.forwarding.name())
    } else {
        return Ok(());
    };
    let remedy = format!("leave it, or `rampart down` and `rampart up {file}` (flows are lost)");
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
        source_port: written.source_port,
        schedule: rule.schedule.map(|s| policy.schedules[s].name.clone()),
        hits,
        limited,
    }
}
