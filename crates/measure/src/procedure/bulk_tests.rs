//! The procedure of bulk transfers, on outcomes made up here, and its points in a campaign of two firewalls.

use super::simulated::nothing;
use super::*;
use crate::bulk::BulkOutcome;
use crate::bulk::BulkRequest;
use crate::campaign::{self, Cell};
use crate::ledger::{BulkPlaces, Ledger, Places};
use crate::level::Level;
use crate::results::Sent;
use crate::trial::{Rig, RigError, WorkloadOutcome};

fn spec() -> ProcedureSpec {
    BulkSpec { trial_seconds: 2.0 }.into()
}

/// What iperf3 would have said of a transfer: `under_way` of the bytes were sent and not read.
fn transfer(received: u64, under_way: u64, seconds: f64) -> TrialOutcome {
    let sent = received + under_way;
    let bulk = BulkOutcome {
        connections: 10,
        sent_bytes: sent,
        received_bytes: received,
        retransmitted: 3,
        segment_bytes: 1448,
        idle_round_trip_ns: Some(20_000),
        loaded_round_trip_ns: Some(50_000),
        congestion_control: "cubic".into(),
    };
    TrialOutcome {
        ledger: Ledger {
            offered: sent,
            not_sent: 0,
            received,
            places: Places::Bulk(BulkPlaces { under_way }),
        },
        ..nothing(seconds, WorkloadOutcome::Bulk(bulk))
    }
}

fn failing() -> TrialOutcome {
    TrialOutcome {
        faults: vec!["iperf3: unable to connect".into()],
        ..nothing(2.0, WorkloadOutcome::Bulk(BulkOutcome::default()))
    }
}

/// Answers with these outcomes, again and again.
struct Bulk(&'static str, Vec<TrialOutcome>, usize);

impl Rig for Bulk {
    fn dut(&self) -> &str {
        self.0
    }

    fn prove(&mut self) -> Result<(), RigError> {
        Ok(())
    }

    fn trial(&mut self, request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        assert_eq!(*request, TrialRequest::Bulk(BulkRequest { seconds: 2.0 }));
        self.2 += 1;
        Ok(self.1[(self.2 - 1) % self.1.len()].clone())
    }
}

fn run(rounds: u32, rigs: Vec<Bulk>) -> campaign::Outcome {
    let cell = Cell {
        id: 0,
        workload: Sent::Bulk,
        test: "bulk".into(),
        factors: BTreeMap::from([("connections".into(), Level::read("connections", "10"))]),
        cores: 1,
        placement: Placement::Inline,
        procedure: spec(),
        rounds,
        repeats: 0,
    };
    let mut rigs: Vec<Box<dyn Rig>> = rigs.into_iter().map(|rig| Box::new(rig) as Box<dyn Rig>).collect();
    campaign::run(&cell, &mut rigs, &mut ())
}

#[test]
fn what_applications_received_is_the_value_and_what_is_under_way_is_no_loss() {
    let rounds =
        vec![transfer(1_000_000, 5_000, 2.0), transfer(3_000_000, 0, 2.5), transfer(2_000_000, 9_000, 2.0)];
    let outcome = run(3, vec![Bulk("wire", rounds, 0), Bulk("nftables", vec![transfer(500, 0, 2.0)], 0)]);
    let points = outcome.readings();
    let of = |dut: &str, metric| points.iter().find(|p| p.dut == dut && p.metric == metric).unwrap();
    let (wire, nftables) = (of("wire", Metric::Goodput), of("nftables", Metric::Goodput));
    assert_eq!((wire.metric, wire.unit.as_str()), (Metric::Goodput, "bit/s"));
    assert_eq!(wire.rounds, [4e6, 9.6e6, 8e6]);
    assert_eq!((wire.value, nftables.value, wire.valid), (8e6, 2000.0, true));
    let (bulk, ledger) = (wire.bulk().unwrap(), wire.ledger());
    assert_eq!((bulk.connections, bulk.received_bytes, bulk.retransmitted), (10, 6_000_000, 9));
    assert_eq!(
        (ledger.places.clone(), ledger.residual()),
        (Places::Bulk(BulkPlaces { under_way: 14_000 }), 0)
    );
    assert!(wire.trials().iter().all(|trial| trial.loss == 0.0), "{:?}", wire.trials());
    assert!(!nftables.marks.iter().any(|m| m.kind == MarkKind::GeneratorLimited), "far from the wire");
    assert_eq!(of("nftables", Metric::BufferDelay).value, 1.5);
    let efficiency = of("wire", Metric::TcpEfficiency).value;
    assert!(efficiency > 0.99 && efficiency < 1.0, "{efficiency}");
    let ratio = of("nftables", Metric::TransferTimeRatio);
    assert_eq!((&ratio.rounds[..], ratio.value, ratio.valid), (&[2000.0, 4800.0, 4000.0][..], 4000.0, true));
    assert_eq!(points.len(), 7, "no ratio of the wire to itself: {points:?}");
}

#[test]
fn a_transfer_that_fails_is_tried_again_and_then_given_up() {
    let once = run(1, vec![Bulk("linux", vec![failing(), transfer(1000, 0, 2.0)], 0)]);
    let once = once.readings();
    assert!(once[0].valid && once[0].value == 4000.0, "{:?}", once[0]);
    assert!(once.iter().all(|point| point.metric != Metric::TransferTimeRatio), "no wire, no ratio");
    assert_eq!(once[0].trials().len(), 2);
    let never = run(1, vec![Bulk("linux", vec![failing()], 0)]);
    let never = never.readings();
    assert!(!never[0].valid && never[0].trials().len() == MOST_ATTEMPTS as usize);
    let said: Vec<&str> = never[0].marks.iter().map(|m| m.text.as_str()).collect();
    let expected = ["trial failed: iperf3: unable to connect", "trial failed: no byte was offered"];
    assert!(expected.iter().all(|words| said.contains(words)), "{said:?}");
}

#[test]
fn a_firewall_that_breaks_its_policy_meanwhile_loses_the_value_and_is_not_asked_again() {
    let how = "the policy did not hold under load: 2 of 9 forbidden connections were opened";
    let broken = TrialOutcome {
        policy_broken: Some(Mark::new(MarkKind::IllegalGotThrough, how)),
        ..transfer(1000, 0, 2.0)
    };
    let outcome = run(1, vec![Bulk("linux", vec![broken, transfer(1000, 0, 2.0)], 0)]);
    let points = outcome.readings();
    assert!(!points[0].valid && points[0].trials().len() == 1, "{:?}", points[0]);
    assert!(points[0].marks.iter().any(|m| m.kind == MarkKind::IllegalGotThrough && m.text == how));
}

#[test]
fn bytes_that_nobody_can_place_cost_the_value() {
    let mut lossy = transfer(1000, 10, 2.0);
    lossy.ledger.places = Places::Bulk(BulkPlaces { under_way: 0 });
    let marks = judge(&BulkRequest { seconds: 2.0 }.into(), &lossy, Placement::Inline);
    assert_eq!(marks[0].text, "10 of 1010 offered bytes are unaccounted for");
}
