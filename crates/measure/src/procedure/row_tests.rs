//! The table of procedures, and what it takes to add one.

use super::once::{Once, OneTrial};
use super::simulated::Simulated;
use super::*;
use crate::campaign::{self, Cell};
use crate::suite::Levels;
use crate::trial::{FrameRequest, Load};

const FRAMES: Key = Key::integer("frames", 1, 1_000_000);

/// A procedure that is in no table: how long a burst takes to pass.
const BURST_TIME: ProcedureRow = ProcedureRow {
    name: "burst-time",
    older_name: None,
    sends: Sends::Frames,
    factors: &[],
    keys: &[&FRAMES],
    make: |asked| BurstTime { frames: asked.given.integer(&FRAMES).unwrap_or(100) }.into(),
};

#[derive(Debug)]
struct BurstTime {
    frames: u64,
}

impl Spec for BurstTime {
    fn start(&self, placement: Placement) -> Box<dyn Procedure> {
        Guarded::boxed(Once::new(Self { ..*self }), placement)
    }

    fn lost(&self, marks: &[Mark]) -> Vec<Measured> {
        all_lost(&[Metric::BufferTime], marks)
    }

    fn typical_seconds(&self) -> f64 {
        0.1
    }
}

impl OneTrial for BurstTime {
    fn request(&self) -> TrialRequest {
        FrameRequest::constant(Load::Burst(self.frames), 1.0).into()
    }

    fn values(&self, outcome: &TrialOutcome) -> Vec<Measured> {
        vec![Measured::found(Metric::BufferTime, outcome.seconds, vec![outcome.clone()], Vec::new())]
    }
}

/// The procedure of a row in its default cell.
fn default_of(row: ProcedureKind) -> ProcedureSpec {
    let levels = Levels::of(row);
    let setup = levels.setup(1).unwrap_or_else(|problem| panic!("{row:?}: {problem}"));
    row.make(&Asked { given: &Parameters::default(), beside: &levels.beside(), setup: &setup })
}

#[test]
fn a_row_and_a_spec_make_a_procedure() {
    let cell = Cell { procedure: default_of(&BURST_TIME), ..campaign::tests::cell(2) };
    let mut rigs = vec![Simulated::new("dut", Placement::Inline, 1e6).boxed()];
    let outcome = campaign::run(&cell, &mut rigs, &mut ());
    let [point] = &outcome.points[..] else { panic!("{outcome:?}") };
    assert!(point.valid, "{point:?}");
    assert_eq!((point.metric, point.value), (Metric::BufferTime, 1e-4));
}

#[test]
fn every_row_is_whole() {
    for (number, row) in PROCEDURES.into_iter().enumerate() {
        let spec = default_of(row);
        // Loads have no default, so that a latency test without them measures nothing and takes no time.
        let measures = row != &latency::ROW;
        assert_eq!(spec.typical_seconds() > 0.0, measures, "{row:?}");
        assert_eq!(!spec.lost(&[mark(MarkKind::FirewallFailed, "gone")]).is_empty(), measures, "{row:?}");
        let names = [Some(row.name), row.older_name].into_iter().flatten();
        let found = names.map(|name| ProcedureRow::named(name).expect("a name finds its row"));
        assert!(
            found.into_iter().all(|found| std::ptr::eq(found, PROCEDURES[number])),
            "{row:?} is named twice"
        );
    }
}

#[test]
fn keys_of_one_name_are_one_key() {
    for key in PROCEDURES.iter().flat_map(|row| row.keys) {
        let first = keys().find(|first| first.name == key.name).expect("every key is listed");
        assert_eq!(format!("{first:?}"), format!("{key:?}"));
    }
}

#[test]
fn a_key_may_still_be_written_as_it_was() {
    let text = "session_rate = 7";
    let mut c = toml_reader::Collector::new("old.toml", text);
    let root = toml_reader::parse(&mut c).expect("it is TOML");
    let given = Parameters::read(&toml_reader::Section::root(&root, "a suite"), &mut c);
    assert_eq!(given.number(&establishment::ESTABLISHMENT_RATE), Some(7.0));
    assert_eq!(ProcedureRow::named("session-rate"), Some(&establishment::ROW));
}
