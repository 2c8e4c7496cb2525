//! Two threads on two cores whose flows ask for the same port outside at the same moment: no two may have it.

use super::{Moments, bed_under, with_workers};
use crate::bed::{Bed, Side};
use dataplane::{Filter, State, Verdict};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// Ports of the pool, so few that a source may have all of them; half are for each client.
const PORTS: u16 = 200;
const FIRST: u16 = 40_000;
const POOL: &str = r#"
[zones]
inside = { interfaces = "in0" }
outside = { interfaces = "out0" }

[[nat]]
name = "pool"
from = "inside"
to = "outside"
source_to = "192.0.2.16"
ports = "40000-40199"

[[rules]]
name = "all"
from = "any"
to = "any"
action = "allow"
"#;

/// What came of a run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Flows that were opened.
    pub(crate) flows: u64,
    /// Those whose port outside is not the one that they asked for first.
    pub(crate) moved: u64,
}

/// Opens the same ports from two hosts at once, again and again in an empty table. Panics if two flows have one name outside.
pub(crate) fn run(rounds: u64) -> Run {
    let mut bed = bed_under(POOL, 4096);
    let mut run = Run::default();
    for round in 0..rounds {
        let (moments, sent) = (Moments::default(), AtomicU64::new(0));
        let open = |worker: &mut super::Worker, _| {
            let mut moment = 0;
            for port in 0..PORTS / 2 {
                moments.now(&mut moment);
                // The last ports are hard to find, and whoever finds none is refused.
                let is_sent = worker.datagram(Side::In, (FIRST + port, 9)) == Verdict::Sent;
                sent.fetch_add(u64::from(is_sent), Ordering::Relaxed);
            }
        };
        let workers = with_workers(&mut bed, [0, 1], open, |_| ());
        for worker in &workers {
            assert_eq!(worker.fault, None, "round {round}");
        }
        check(&bed, &mut run, (round, sent.into_inner()));
    }
    run
}

fn check(bed: &Bed, run: &mut Run, (round, sent): (u64, u64)) {
    let flows = bed.flows(&Filter::default());
    assert_eq!(flows.len() as u64, sent, "round {round}");
    let mut names = HashSet::new();
    for flow in flows {
        let (_, port) = flow.aliases.0.unwrap();
        assert!(names.insert(port), "round {round}: two flows have port {port} outside");
        run.flows += 1;
        run.moved += u64::from(port != flow.initiator.1);
        assert!(bed.firewall().flows.end(flow.id).unwrap());
    }
}

/// The same pool with endpoint-independent mappings: rounds of two hosts that want the same ports, and of one end that begins two flows at the same
/// moment on two cores. Panics if an end has two mappings, two ends have one, or a flow has another name than its end's mapping. Returns the number of
/// mappings.
pub(crate) fn run_mapped(rounds: u64) -> u64 {
    let ports = "ports = \"40000-40199\"";
    let mut bed =
        bed_under(&POOL.replace(ports, &format!("{ports}\nmapping = \"endpoint-independent\"")), 4096);
    let mut mappings = 0;
    for round in 0..rounds {
        let clients = if round % 2 == 0 { [0, 0] } else { [0, 1] };
        let moments = Moments::default();
        let open = |worker: &mut super::Worker, number: usize| {
            let mut moment = 0;
            for port in 0..PORTS / 2 {
                moments.now(&mut moment);
                worker.datagram(Side::In, (FIRST + port, 9 + number as u16));
            }
        };
        let workers = with_workers(&mut bed, clients, open, |_| ());
        assert!(workers.iter().all(|worker| worker.fault.is_none()), "round {round}");
        mappings += check_mapped(&bed, round);
    }
    mappings
}

fn check_mapped(bed: &Bed, round: u64) -> u64 {
    let (mappings, flows): (Vec<_>, Vec<_>) =
        bed.flows(&Filter::default()).into_iter().partition(|flow| flow.state == State::Mapping);
    let mut names = HashMap::new();
    for mapping in &mappings {
        let before = names.insert(mapping.initiator, mapping.aliases.0);
        assert_eq!(before, None, "round {round}: {:?} has two mappings", mapping.initiator);
    }
    assert_eq!(
        names.values().collect::<HashSet<_>>().len(),
        names.len(),
        "round {round}: two ends have one name"
    );
    for flow in &flows {
        assert_eq!(names.get(&flow.initiator), Some(&flow.aliases.0), "round {round}: {flow:?}");
    }
    assert!(flows.len() >= mappings.len(), "round {round}");
    for flow in mappings.iter().chain(&flows) {
        assert!(bed.firewall().flows.end(flow.id).unwrap());
    }
    mappings.len() as u64
}
