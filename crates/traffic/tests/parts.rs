//! A trial in two parts, each with one of the ports and an engine of its own, as two hosts have them. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use fixture::{BACK, Bed, FORWARD, Middle, cores, shape};
use measure::shape::{Lane, Placement};
use measure::trial::{Load, Phase};
use std::sync::{Condvar, Mutex};
use traffic::{
    Clock, Engine, Forbidden, Part, PartReading, Partner, Port, TrafficError, TrialPlan, TrialReading,
};

/// A machine that is busy keeps a generator from its core.
const ATTEMPTS: u16 = 5;

/// What both parts know of each other.
struct Between {
    /// How many are ready, and whether one has ended: then nobody waits for it.
    ready: Mutex<(usize, bool)>,
    changed: Condvar,
    start: Mutex<Option<u64>>,
    sent: [Mutex<Option<u64>>; 2],
}

impl Between {
    /// Changes what both know of the beginning.
    fn change(&self, change: impl FnOnce(&mut (usize, bool))) {
        change(&mut self.ready.lock().unwrap());
        self.changed.notify_all();
    }
}

struct Other<'a> {
    between: &'a Between,
    own: usize,
}

impl Partner for Other<'_> {
    fn start(&mut self) -> Result<Option<u64>, TrafficError> {
        self.between.change(|known| known.0 += 1);
        let waits = |known: &mut (usize, bool)| known.0 < 2 && !known.1;
        let known = self.between.changed.wait_while(self.between.ready.lock().unwrap(), waits).unwrap();
        if known.0 < 2 {
            return Err(TrafficError::Interrupted);
        }
        Ok(Some(*self.between.start.lock().unwrap().get_or_insert_with(|| Clock::now_ns() + 50_000_000)))
    }

    fn expected(&mut self, sent: u64) -> Option<u64> {
        *self.between.sent[self.own].lock().unwrap() = Some(sent);
        *self.between.sent[1 - self.own].lock().unwrap()
    }
}

struct Row {
    name: &'static str,
    lanes: &'static [(Lane, f64)],
    phases: Vec<Phase>,
    /// By how much the clocks of the hosts are said to differ, in ns.
    clock_ns: i64,
    /// Whether both hosts have the same seed.
    agree: bool,
}

/// What both hosts saw; nothing where one of them was kept from its core until the start was past, or for all of the trial.
fn run(ports: &[Port], row: &Row, engines: &mut [Engine; 2], mark: u16) -> Option<[PartReading; 2]> {
    let between = Between {
        ready: Mutex::default(),
        changed: Condvar::new(),
        start: Mutex::default(),
        sent: Default::default(),
    };
    let (cores, between) = (cores(1), &between);
    let forbidden = Forbidden { ports: Some(60_000..=60_010), sources: Vec::new(), answers: true };
    let mut own = 0;
    let parts = engines.each_mut().map(|engine| {
        own += 1;
        (own - 1, engine)
    });
    std::thread::scope(|scope| {
        let (cores, forbidden) = (&cores, &forbidden);
        let running = parts.map(|(own, engine)| {
            scope.spawn(move || {
                let attached = engine.attach_beside(&ports[own..=own], &ports[1 - own..2 - own]);
                let plan = TrialPlan {
                    translated: None,
                    forbidden: Some(forbidden),
                    phases: &row.phases,
                    lanes: row.lanes,
                    placement: Placement::Inline,
                    cores,
                    times_matter: true,
                    settle: fixture::PATIENCE,
                };
                let seed = if row.agree { 7 } else { own as u64 };
                let part = Part { seed, mark, clock_ns: row.clock_ns };
                let mut other = Other { between, own };
                let reading = attached.and_then(|attached| {
                    let reading = engine.run_part(&attached, &plan, Some(&part), &mut other, &mut ());
                    engine.detach(attached);
                    reading
                });
                // The other one is not left waiting.
                between.change(|known| known.1 = true);
                between.sent[own].lock().unwrap().get_or_insert(0);
                reading
            })
        });
        let [a, b] = running.map(|part| part.join().unwrap());
        let is_late = |error: &TrafficError| {
            let text = error.to_string();
            text.contains("was past by") || text.contains("took no turn within")
        };
        if [&a, &b].into_iter().any(|part| part.as_ref().is_err_and(is_late)) {
            return None;
        }
        let why = [&a, &b].map(|part| part.as_ref().err().map(ToString::to_string));
        assert_eq!(why, [None, None], "{}", row.name);
        let parts = [a.unwrap(), b.unwrap()];
        parts.iter().any(|part| part.reading.sent() > 0).then_some(parts)
    })
}

#[test]
fn needs_root_two_hosts_make_one_trial() {
    let _turn = testkit::turn();
    let bed = Bed::new(Middle::Wire, 1500);
    let traffic = shape(fixture::fixed(128), 100);
    let mut engines = [(); 2].map(|()| Engine::load(100).unwrap());
    engines.iter_mut().for_each(|engine| engine.set_traffic(&traffic).unwrap());
    let phase = |load, seconds| Phase { load, seconds };
    let paced = || vec![phase(Load::PerSecond(5_000.0), 0.2)];
    let one_way: &[(Lane, f64)] = &[(FORWARD, 1.0)];
    let two_way: &[(Lane, f64)] = &[(FORWARD, 0.7), (BACK, 0.3)];
    const AHEAD: i64 = 10_000_000;
    for (number, row) in [
        Row { name: "one way", lanes: one_way, phases: paced(), clock_ns: 0, agree: true },
        Row { name: "two ways", lanes: two_way, phases: paced(), clock_ns: 0, agree: true },
        Row { name: "back", lanes: &[(BACK, 1.0)], phases: paced(), clock_ns: 0, agree: true },
        Row {
            name: "phases",
            lanes: two_way,
            phases: vec![phase(Load::PerSecond(40_000.0), 0.02), phase(Load::PerSecond(10_000.0), 0.02)],
            clock_ns: 0,
            agree: true,
        },
        Row {
            name: "a burst",
            lanes: two_way,
            phases: vec![phase(Load::Burst(500), 60.0)],
            clock_ns: 0,
            agree: true,
        },
        Row { name: "another clock", lanes: one_way, phases: paced(), clock_ns: AHEAD, agree: true },
        Row {
            name: "too late a clock",
            lanes: one_way,
            phases: paced(),
            clock_ns: -100 * AHEAD,
            agree: true,
        },
        Row { name: "another secret", lanes: one_way, phases: paced(), clock_ns: 0, agree: false },
    ]
    .into_iter()
    .enumerate()
    {
        let name = row.name;
        let marks = (0..ATTEMPTS).map(|attempt| 100 * (number as u16 + 1) + attempt);
        let parts = marks.into_iter().find_map(|mark| run(&bed.ports, &row, &mut engines, mark)).expect(name);
        for (own, part) in parts.iter().enumerate() {
            let sends = row.lanes.iter().any(|(lane, _)| lane.from == bed.ports[own].zone);
            assert_eq!((part.offered > 0, part.seconds > 0.0), (sends, sends), "{name}, host {own}");
        }
        let trial = TrialReading::of(&row.phases, &parts);
        let (sent, received) = (trial.sent(), trial.reading.received());
        assert!(sent > 0 && sent <= trial.offered, "{name}: {sent} of {} were sent", trial.offered);
        // The wire between them forbids nothing, so what is forbidden arrives as well.
        assert!(trial.reading.forbidden_sent > 0, "{name}: nothing that is forbidden went along");
        if !row.agree {
            assert_eq!((received, trial.reading.forged > 0), (0, true), "{name}: {:?}", trial.reading.forged);
            continue;
        }
        assert_eq!((received, trial.reading.forged), (sent, 0), "{name}");
        // A generator that lost its core sends by no line at all.
        assert!(trial.held_back == 0 || sent < trial.offered, "{name}: {} were held back", trial.held_back);
        assert_eq!(trial.reading.forbidden_arrived, trial.reading.forbidden_sent, "{name}: forbidden ones");
        for (stream, (lane, share)) in trial.reading.streams.iter().zip(row.lanes) {
            assert!(stream.sent as f64 >= sent as f64 * share * 0.5, "{name}: {lane:?} sent {}", stream.sent);
        }
        let latency = trial.reading.latency_ns().unwrap();
        assert!(row.clock_ns <= 0 || latency.min >= AHEAD as f64 * 0.99, "{name}: {latency:?}");
        assert!(row.clock_ns >= 0 || latency.max <= 1.0, "{name}: {latency:?}");
    }
}
