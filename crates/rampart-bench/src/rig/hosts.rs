//! Two hosts as a site: each has one of the ports and an agent, and this program, wherever it runs, leads. Knows how a trial goes between hosts; what
//! is measured, and what it says, is decided where it is decided for one host.

use super::broken;
use super::station::FORBIDDEN_WAIT;
use agents::{AgentsError, Answer, Facts, Leader, Order, Outcome, Place, Progress, Session, Trial};
use measure::clock::{Correction, Offset, Span};
use measure::results::CpuUse;
use measure::shape::{Lane, Setup, Zone};
use measure::trial::{RigError, SecondSample};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use testbed::layout::{BedLayout, Mac, PortEnd, ZoneAddresses, ZonePort};
use testbed::netns::Namespace;
use traffic::{Arrival, Key, PartReading, ProbeFrame, Sighting, TrialReading};

/// The zones of the two hosts, in the order in which their agents are named.
pub(crate) const ZONES: [Zone; 2] = [Zone::Private, Zone::Hostile];
/// Stamps that are exchanged before and after a trial.
const STAMPS: u32 = 48;
/// From the moment when both hosts are ready to the beginning of the load, beyond what messages take.
const START_DELAY: Duration = Duration::from_millis(500);
/// Between two looks at a trial.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A trial that is to end is waited for so long.
const ENDING: Duration = Duration::from_secs(10);
/// How long hosts may take to prepare a trial, and to end it beyond its time.
const PREPARING: Duration = Duration::from_secs(30);
const BEYOND: Duration = Duration::from_secs(60);
/// Probes that must arrive are waited for so long at most.
const PROBE_WAIT: Duration = Duration::from_millis(500);
/// Looks at a trial that an agent may tell.
const MOST_SIGHTINGS: usize = 50_000;

/// The connection to the agents of a run.
pub(crate) struct Link {
    pub(crate) leader: Leader,
    /// The agents, private side first.
    pub(crate) agents: [String; 2],
    /// The leader, for messages.
    pub(crate) who: String,
    /// The hosts in words, once they have taken their ports.
    pub(crate) hosts: RefCell<Option<String>>,
}

/// A session with both agents. When it is dropped, they are at rest.
pub(crate) struct Hosts {
    link: Rc<Link>,
    sessions: [Session; 2],
    pub(crate) facts: [Facts; 2],
    layout: BedLayout,
    ticket: String,
    marks: Cell<u16>,
    trials: Cell<u64>,
    /// Which probe a frame of the patrols was, of all that were ever sent.
    book: RefCell<HashMap<Key, usize>>,
}

/// What a trial between hosts showed.
pub(crate) struct Between {
    pub(crate) reading: TrialReading,
    /// What the hosts had sent and received at moments of the trial.
    pub(crate) sightings: Vec<Sighting>,
    pub(crate) per_second: Vec<SecondSample>,
    /// Of latencies at each host; none if the clocks were moved.
    pub(crate) clocks: Option<[Correction; 2]>,
    pub(crate) patrolled: traffic::Patrolled,
    pub(crate) cpu: CpuUse,
    pub(crate) faults: Vec<String>,
    pub(crate) remarks: Vec<String>,
}

fn failed(error: AgentsError) -> RigError {
    RigError::Broken(error.to_string())
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // An agent that does not hear it rests by itself.
        let _ = self.link.leader.order_both(&self.sessions, [&Order::Stop, &Order::Stop]);
        let _ = self.link.leader.order_both(&self.sessions, [&Order::Leave, &Order::Leave]);
    }
}

impl Hosts {
    /// Has both agents take their ports.
    pub(crate) fn open(link: &Rc<Link>, setup: &Setup) -> Result<Self, RigError> {
        let leader = &link.leader;
        let [a, b] = &link.agents;
        let sessions = [leader.greet(a).map_err(failed)?, leader.greet(b).map_err(failed)?];
        let take =
            ZONES.map(|zone| Order::Take { leader: link.who.clone(), zone, flows: setup.traffic.flows });
        let taken = leader.order_both(&sessions, [&take[0], &take[1]]);
        let facts = match taken.map(|answers| answers.map(taken_facts)) {
            Ok([Some(a), Some(b)]) => [a, b],
            other => {
                let _ = leader.order_both(&sessions, [&Order::Leave, &Order::Leave]);
                return Err(other.map_or_else(failed, |_| strange("its port")));
            }
        };
        let ticket = format!("{:x}-{:x}", random(), random());
        let hosts = Self {
            link: Rc::clone(link),
            layout: layout(&facts)?,
            sessions,
            facts,
            ticket,
            marks: Cell::new(random() as u16),
            trials: Cell::new(0),
            book: RefCell::default(),
        };
        let meet = |other: usize| Order::Meet {
            other: Place { zone: ZONES[other], mac: hosts.facts[other].mac },
            ticket: hosts.ticket.clone(),
        };
        hosts.both([&meet(1), &meet(0)])?;
        *link.hosts.borrow_mut() = Some(hosts.in_words());
        hosts.check(setup)?;
        Ok(hosts)
    }

    fn in_words(&self) -> String {
        let one = |place: usize| {
            let (facts, agent) = (&self.facts[place], self.sessions[place].agent());
            format!("{agent} ({} side, {} of {})", ZONES[place].name(), facts.interface, facts.machine)
        };
        format!("two hosts: {} and {}", one(0), one(1))
    }

    /// Whether the hosts can do what is asked.
    fn check(&self, setup: &Setup) -> Result<(), RigError> {
        let largest = setup.traffic.frame.largest();
        if largest.bytes_without_fcs() > traffic::MAX_LIVE_FRAME_BYTES {
            return Err(RigError::Unsupported(format!(
                "frames of {} bytes between two hosts: in this version they have up to {}",
                largest.bytes(),
                traffic::MAX_LIVE_FRAME_BYTES + measure::frame::FCS_BYTES
            )));
        }
        for (facts, session) in self.facts.iter().zip(&self.sessions) {
            if facts.cores.len() < setup.traffic.cores as usize {
                return Err(RigError::Unsupported(format!(
                    "{} cores that generate: the host of {} has {}",
                    setup.traffic.cores,
                    session.agent(),
                    facts.cores.len()
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn layout(&self) -> &BedLayout {
        &self.layout
    }

    fn both(&self, orders: [&Order; 2]) -> Result<[Answer; 2], RigError> {
        self.link.leader.order_both(&self.sessions, orders).map_err(failed)
    }

    fn next_mark(&self) -> u16 {
        self.marks.set(self.marks.get().wrapping_add(1));
        self.marks.get()
    }

    /// Sends probes, and tells how each arrived, if it did. Of those so many are expected to arrive.
    pub(crate) fn probe(
        &self,
        probes: &[ProbeFrame],
        expected: usize,
    ) -> Result<Vec<Option<Arrival>>, RigError> {
        let mark = self.next_mark();
        self.both([&Order::AwaitProbes(mark), &Order::AwaitProbes(mark)])?;
        let send = Order::SendProbes { mark, probes: probes.to_vec() };
        self.both([&send, &send])?;
        let begun = Instant::now();
        let look = Order::Arrivals(probes.len());
        let mut arrived: Vec<Option<Arrival>> = vec![None; probes.len()];
        loop {
            let waited = begun.elapsed();
            for answer in self.both([&look, &look])? {
                let Answer::Arrivals(seen) = answer else { return Err(strange("probes")) };
                arrived.iter_mut().zip(seen).for_each(|(all, one)| *all = all.take().or(one));
            }
            let all = arrived.iter().flatten().count() >= expected;
            if waited >= PROBE_WAIT || (all && (expected == probes.len() || waited >= FORBIDDEN_WAIT)) {
                return Ok(arrived);
            }
        }
    }

    /// By how much the private host's clock is ahead of the hostile one's.
    fn compare(&self) -> Result<Result<Offset, String>, RigError> {
        let [private, hostile] = &self.sessions;
        let with = private.agent().to_owned();
        let order = Order::Compare { with, ticket: self.ticket.clone(), times: STAMPS };
        match self.link.leader.order(hostile, &order).map_err(failed)? {
            Answer::Stamps(stamps) => Ok(Offset::of(&stamps).map_err(|why| why.to_string())),
            _ => Err(strange("its clock")),
        }
    }

    /// Runs a trial. `trial` is completed here. What goes beside it are the trial's patrol's probes.
    pub(crate) fn run(&self, mut trial: Trial, interrupted: &dyn Fn() -> bool) -> Result<Between, RigError> {
        self.trials.set(self.trials.get() + 1);
        (trial.number, trial.mark) = (self.trials.get(), self.next_mark());
        let before = self.compare()?.map_err(RigError::Broken)?;
        // Of each host how far its own clock is ahead of the sender's.
        let ahead = [before, before.reversed()];
        let orders = ahead.map(|offset| {
            // The least: latencies then come out too large rather than less than nothing, and are put right afterwards.
            Order::Prepare(Box::new(Trial { clock_ns: -offset.least_ns, ..trial.clone() }))
        });
        self.both([&orders[0], &orders[1]])?;
        let outcomes = match self.follow(&trial, before, interrupted) {
            Ok(outcomes) => outcomes,
            Err(why) => {
                self.stop();
                return Err(why);
            }
        };
        for (place, outcome) in outcomes.iter().enumerate() {
            check_outcome(&trial, ZONES[place], outcome).map_err(|why| {
                RigError::Broken(format!("agent {} cannot be believed: {why}", self.sessions[place].agent()))
            })?;
        }
        let span = self.compare()?.and_then(|after| {
            let span = |before: Offset, after: Offset| Span::of(before, after).map_err(|why| why.to_string());
            Ok([span(before, after)?, span(before.reversed(), after.reversed())?])
        });
        let mut between = self.together(&trial, outcomes);
        match span {
            Ok(spans) => {
                let correction = |place: usize| spans[place].corrects(ahead[place].least_ns);
                between.clocks = Some([correction(0), correction(1)]);
            }
            Err(why) => between.faults.push(why),
        }
        Ok(between)
    }

    /// From two hosts that prepare to what both saw.
    fn follow(
        &self,
        trial: &Trial,
        offset: Offset,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<[Outcome; 2], RigError> {
        let both = |known: &[Look; 2], what: fn(&Progress) -> bool| {
            known.iter().all(|look| matches!(look, Look::UnderWay(progress) if what(progress)))
        };
        let mut looks = [Look::default(), Look::default()];
        self.look_until(&mut looks, PREPARING, interrupted, |known| both(known, |it| it.ready))?;
        let asked = Instant::now();
        self.look(&mut looks)?;
        let took = asked.elapsed();
        let now_ns = looks[0].progress()?.now_ns;
        let start_ns = now_ns + (START_DELAY + took * 3).as_nanos() as u64;
        // The private host's clock less the hostile one's.
        let middle = i64::midpoint(offset.least_ns, offset.most_ns);
        let there_ns = start_ns.saturating_add_signed(-middle);
        self.both([&Order::Begin(start_ns), &Order::Begin(there_ns)])?;
        let seconds = trial.phases.iter().map(|phase| phase.seconds).sum::<f64>();
        let limit = Duration::from_secs_f64(seconds * 1.5) + BEYOND;
        self.look_until(&mut looks, limit, interrupted, |known| both(known, |it| it.sent.is_some()))?;
        let sent = [looks[0].progress()?.sent, looks[1].progress()?.sent].map(Option::unwrap_or_default);
        self.both([&Order::Expect(sent[1]), &Order::Expect(sent[0])])?;
        let ended = |known: &[Look; 2]| known.iter().all(|look| matches!(look, Look::Ended(_)));
        self.look_until(&mut looks, BEYOND, interrupted, ended)?;
        match looks {
            [Look::Ended(a), Look::Ended(b)] => Ok([*a, *b]),
            _ => Err(strange("a trial")),
        }
    }

    fn look_until(
        &self,
        looks: &mut [Look; 2],
        limit: Duration,
        interrupted: &dyn Fn() -> bool,
        done: impl Fn(&[Look; 2]) -> bool,
    ) -> Result<(), RigError> {
        let begun = Instant::now();
        loop {
            self.look(looks)?;
            if done(looks) {
                return Ok(());
            }
            if interrupted() {
                return Err(RigError::Interrupted);
            }
            if begun.elapsed() > limit {
                let why = format!("the hosts have not come on with a trial for {} s", limit.as_secs());
                return Err(RigError::Broken(why));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Looks at those that have not ended.
    fn look(&self, looks: &mut [Look; 2]) -> Result<(), RigError> {
        for (session, look) in self.sessions.iter().zip(looks) {
            if matches!(look, Look::Ended(_)) {
                continue;
            }
            *look = match self.link.leader.order(session, &Order::Look).map_err(failed)? {
                Answer::UnderWay(progress) => Look::UnderWay(progress),
                Answer::Ended(outcome) => Look::Ended(outcome),
                _ => return Err(strange("a trial")),
            };
        }
        Ok(())
    }

    /// Ends a trial at both hosts, so that another can begin. A host that says nothing is left alone: it rests by itself.
    fn stop(&self) {
        for session in &self.sessions {
            let order = |order: &Order| self.link.leader.order(session, order);
            let begun = Instant::now();
            if order(&Order::Stop).is_err() {
                continue;
            }
            while matches!(order(&Order::Look), Ok(Answer::UnderWay(_))) && begun.elapsed() < ENDING {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    fn together(&self, trial: &Trial, outcomes: [Outcome; 2]) -> Between {
        let mut faults = Vec::new();
        let mut remarks = Vec::new();
        for (outcome, session) in outcomes.iter().zip(&self.sessions) {
            let said = |text: &String| format!("{}: {text}", session.agent());
            faults.extend(outcome.faults.iter().map(said));
            remarks.extend(outcome.remarks.iter().map(said));
        }
        let probes = trial.patrol.as_ref().map_or(&[][..], |(probes, _)| probes);
        let patrolled = patrolled(&mut self.book.borrow_mut(), probes, &outcomes);
        let per_second = seconds_of([&outcomes[0].per_second, &outcomes[1].per_second]);
        let cpu = busier(outcomes.each_ref().map(|outcome| &outcome.cpu));
        let parts: [PartReading; 2] = outcomes.map(|outcome| outcome.part);
        Between {
            reading: TrialReading::of(&trial.phases, &parts),
            sightings: traffic::together(&parts),
            per_second,
            clocks: None,
            patrolled,
            cpu,
            faults,
            remarks,
        }
    }
}

/// What an agent said last of a trial.
enum Look {
    UnderWay(Progress),
    Ended(Box<Outcome>),
}

impl Default for Look {
    fn default() -> Self {
        Look::UnderWay(Progress::default())
    }
}

impl Look {
    fn progress(&self) -> Result<&Progress, RigError> {
        match self {
            Look::UnderWay(progress) => Ok(progress),
            Look::Ended(_) => Err(strange("a trial that ended before its time")),
        }
    }
}

fn taken_facts(answer: Answer) -> Option<Facts> {
    if let Answer::Taken(facts) = answer { Some(*facts) } else { None }
}

fn strange(of: &str) -> RigError {
    RigError::Broken(format!("an agent answered something else than was asked of {of}"))
}

/// Numbers that need be no secret.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Both ports as those of one bed. The interfaces are those of the hosts.
fn layout(facts: &[Facts; 2]) -> Result<BedLayout, RigError> {
    let namespace = Namespace::current().map_err(broken)?;
    let port = |(facts, zone): (&Facts, Zone)| ZonePort {
        zone,
        addresses: ZoneAddresses::of(zone),
        end: PortEnd {
            namespace: namespace.clone(),
            device: facts.interface.clone(),
            ifindex: facts.ifindex,
            mac: Mac(facts.mac),
        },
        firewall: None,
        gateway_mac: Mac(facts.gateway_mac),
    };
    if facts[0].mac == facts[1].mac {
        return Err(RigError::Broken(
            "both hosts have one Ethernet address: is it one port twice?".to_owned(),
        ));
    }
    let mtu = facts[0].mtu.min(facts[1].mtu);
    Ok(BedLayout { ports: facts.iter().zip(ZONES).map(port).collect(), mtu })
}

/// Whether what an agent says of a trial can be: what a host cannot have seen, and numbers that are none.
fn check_outcome(trial: &Trial, zone: Zone, outcome: &Outcome) -> Result<(), String> {
    let part = &outcome.part;
    let (streams, times) = (&part.reading.streams, &part.reading.times);
    if (streams.len(), times.len()) != (trial.lanes.len(), trial.lanes.len()) {
        return Err(format!("it tells of {} lanes, and the trial has {}", streams.len(), trial.lanes.len()));
    }
    for ((Lane { from, to }, _), (stream, times)) in trial.lanes.iter().zip(streams.iter().zip(times)) {
        if *from != zone && stream.sent > 0 {
            return Err(format!("it sent {} frames that begin at the other host", stream.sent));
        }
        let arrived = stream.received + stream.duplicated + stream.reordered;
        if *to != zone && arrived > 0 {
            return Err(format!("it received {arrived} frames that end at the other host"));
        }
        if times.latency.count() > stream.received {
            return Err(format!("it timed {} of {} frames", times.latency.count(), stream.received));
        }
    }
    let seconds: f64 = trial.phases.iter().map(|phase| phase.seconds).sum();
    if !(0.0..=seconds * 1.5 + 10.0).contains(&part.seconds) {
        return Err(format!("it sent for {} s in a trial of {seconds} s", part.seconds));
    }
    let rises = |pair: &[Sighting]| {
        pair[0].at_ns <= pair[1].at_ns && pair[0].sent <= pair[1].sent && pair[0].received <= pair[1].received
    };
    let last = part.sightings.last().map(|it| (it.sent, it.received));
    let whole = (part.reading.sent(), part.reading.received());
    if part.sightings.len() > MOST_SIGHTINGS || !part.sightings.windows(2).all(rises) || last != Some(whole) {
        return Err("what it saw in the course of the trial is not what it saw in all".to_owned());
    }
    Ok(())
}

/// What became of the patrols' frames, of this trial and of those before.
fn patrolled(
    book: &mut HashMap<Key, usize>,
    probes: &[ProbeFrame],
    outcomes: &[Outcome; 2],
) -> traffic::Patrolled {
    let sent = outcomes.iter().flat_map(|outcome| &outcome.patrol.sent);
    let sent = sent.filter(|(_, which)| *which < probes.len());
    book.extend(sent.clone().copied());
    let arrived = outcomes.iter().flat_map(|outcome| &outcome.patrol.arrived);
    let which = |(zone, key): &(Zone, Key)| {
        book.get(key).copied().filter(|which| probes.get(*which).is_some_and(|probe| probe.from != *zone))
    };
    let sent: Vec<usize> = sent.map(|(_, which)| *which).collect();
    let arrived = arrived.filter_map(which).collect();
    traffic::Patrolled { frames: [sent.len() as u64; 2], sent, arrived }
}

/// Second by second, what both hosts saw. Latencies are those of the host that received, if one of them did.
fn seconds_of(hosts: [&[SecondSample]; 2]) -> Vec<SecondSample> {
    let [a, b] = hosts;
    let pair = |(a, b): (&SecondSample, &SecondSample)| SecondSample {
        at_seconds: a.at_seconds.max(b.at_seconds),
        sent: a.sent + b.sent,
        received: a.received + b.received,
        // By two clocks, and each second by its own few frames: not shown.
        latency_ns: None,
        connections: None,
    };
    a.iter().zip(b).map(pair).collect()
}

/// The processor time of the host that others disturbed more.
fn busier(of: [&CpuUse; 2]) -> CpuUse {
    let disturbance = |cpu: &CpuUse| cpu.foreign + cpu.stolen();
    let [a, b] = of;
    if disturbance(b) > disturbance(a) { b.clone() } else { a.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::frame::FrameMix;
    use measure::shape::{Directions, IpVersion, Placement, TrafficShape, UdpChecksum};
    use measure::trial::{Load, Phase};
    use traffic::{LaneTimes, PatrolledPart, Reading, StreamCounts};

    const FORWARD: Lane = Lane { from: Zone::Private, to: Zone::Hostile };

    fn trial() -> Trial {
        Trial {
            number: 1,
            mark: 1,
            traffic: TrafficShape {
                frame: FrameMix::parse("64").unwrap(),
                ip: IpVersion::V4,
                flows: 1,
                clients: 1,
                servers: 1,
                directions: Directions::OneWay,
                udp_checksum: UdpChecksum::Zero,
                fragments: 1,
                cores: 1,
                seed: 1,
            },
            phases: vec![Phase { load: Load::PerSecond(100.0), seconds: 1.0 }],
            lanes: vec![(FORWARD, 1.0)],
            placement: Placement::Isolated,
            cores: vec![0],
            times_matter: false,
            settle_ms: 1,
            translated: None,
            forbidden: None,
            clock_ns: 0,
            patrol: None,
            sample_seconds: 1.0,
        }
    }

    fn outcome(sent: u64, received: u64) -> Outcome {
        let stream = StreamCounts { sent, received, ..StreamCounts::default() };
        let reading =
            Reading { streams: vec![stream], times: vec![LaneTimes::default()], ..Reading::default() };
        let part = PartReading {
            seconds: 1.0,
            ended_ns: 1,
            offered: sent,
            reading,
            sightings: vec![Sighting { at_ns: 5, sent, received }],
            samples_content: false,
        };
        let (patrol, cpu) = (PatrolledPart::default(), CpuUse::default());
        Outcome { part, per_second: Vec::new(), patrol, cpu, faults: Vec::new(), remarks: Vec::new() }
    }

    #[test]
    fn what_a_host_cannot_have_seen_is_not_believed() {
        let changed = |zone: Zone, change: fn(&mut Outcome)| {
            let mut it = if zone == Zone::Private { outcome(100, 0) } else { outcome(0, 100) };
            change(&mut it);
            check_outcome(&trial(), zone, &it)
        };
        use Zone::{Hostile, Private};
        for (name, found, said) in [
            ("the truth", changed(Private, |_| ()), ""),
            ("the truth there", changed(Hostile, |_| ()), ""),
            (
                "other lanes",
                changed(Private, |it| it.part.reading.streams.push(StreamCounts::default())),
                "it tells of 2 lanes",
            ),
            ("no times", changed(Private, |it| it.part.reading.times.clear()), "it tells of 1 lanes"),
            (
                "frames of the other host",
                changed(Hostile, |it| it.part.reading.streams[0].sent = 7),
                "it sent 7 frames that begin at the other",
            ),
            (
                "arrivals at the other host",
                changed(Private, |it| it.part.reading.streams[0].received = 7),
                "it received 7 frames that end at the other",
            ),
            ("no time at all", changed(Private, |it| it.part.seconds = f64::NAN), "it sent for NaN s"),
            ("too long", changed(Private, |it| it.part.seconds = 1e9), "it sent for 1000000000 s"),
            ("no looks", changed(Private, |it| it.part.sightings.clear()), "not what it saw in all"),
            (
                "more than it looked at",
                changed(Hostile, |it| it.part.reading.streams[0].received = 101),
                "not what it saw in all",
            ),
            (
                "looks that fall",
                changed(Hostile, |it| {
                    it.part.sightings.insert(0, Sighting { at_ns: 1, sent: 0, received: 900 })
                }),
                "not what it saw in all",
            ),
        ] {
            match said {
                "" => assert_eq!(found, Ok(()), "{name}"),
                _ => assert!(found.clone().is_err_and(|why| why.contains(said)), "{name}: {found:?}"),
            }
        }
    }
}
