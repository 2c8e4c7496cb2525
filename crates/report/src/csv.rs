//! `results.csv`: one row a point. Columns, in this order:
//!
//! | column | meaning |
//! |---|---|
//! | `suite`, `profile`, `seed`, `started` | the run, the same in every row, so that files can be joined |
//! | `test`, `dut`, `placement`, `cores` | what was measured on whom |
//! | `factor.NAME` | one column for every factor of the run, empty where a test has no such factor; `factor.frame` counts the FCS |
//! | `metric`, `unit`, `value`, `low`, `high`, `rounds` | the value, its 95 % interval, and how many rounds are behind it |
//! | `valid`, `marks` | `true` or `false`; the marks' kinds, and their details, separated by `; ` |
//! | `offered` … `residual` | the loss ledger, in frames, connections or, of bulk transfers, bytes; named losses are summed |
//! | `latency_min_ns` … `latency_max_ns` | the latency distribution, empty where it was not sampled |
//! | `pdv_p50_ns`, `pdv_p99_ns`, `ipdv_p50_ns`, `ipdv_p99_ns` | delay variation (RFC 5481) in one deciding trial: of the direction with the largest, because distributions cannot be added |
//! | `lanes_duplicated`, `lanes_reordered`, `lanes_corrupted` | frames of the same trial, summed over the directions; empty where directions were not kept |
//! | `cpu_busy_cores` | busy processor time in cores: everything but idle and stolen |
//! | `connections`, `memory_bytes`, `policy_load_seconds` | of the firewall, empty where its driver cannot find out |
//! | `attempted`, `established`, `completed`, `failed`, `failed_by`, `retransmitted` | connections in one deciding trial, failures also by how; segments retransmitted; empty in a test of frames, as are all that follow; of bulk transfers `retransmitted` alone, of all deciding trials |
//! | `session_frames`, `session_bits` | what client and server received in it, attack frames left out |
//! | `established_mean_ns` … `teardown_p99_ns` | times: intended start to SYN-ACK, to the last byte; SYN to the last segment of the handshake (RFC 3511 appendix B); FIN or RST to the end (appendix C) |
//! | `illegal_attempted`, `illegal_got_through` | what the policy forbids |
//! | `attack_sent`, `attack_forwarded`, `attack_answered` | frames of the flood |
//! | `resets_sent`, `resets_open`, `resets_alive` | resets, and the connections before and after them |
//! | `replacement_holds_after_seconds`, `replacement_by_neither` | until the new policy held; packets that neither policy judged |
//!
//! In a test of connections the ledger counts connections, and `failed_connections` is their entry in it.

use crate::error::ReportError;
use measure::connections::ConnectionTimes;
use measure::ledger::{Entries, Named};
use measure::results::{CpuUse, Reading, Results};
use measure::trial::LaneOutcome;
use std::collections::BTreeSet;

/// All points as CSV with a header row (RFC 4180, line feeds alone).
///
/// # Errors
/// [`ReportError::Render`] when the writer fails, which writing to memory does not.
pub fn to_string(results: &Results) -> Result<String, ReportError> {
    let factors: BTreeSet<&str> =
        results.readings().flat_map(|p| p.factors().map(|(factor, _)| factor).collect::<Vec<_>>()).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let defect = |e: csv::Error| ReportError::Render(e.to_string());
    let named = factors.iter().map(|f| format!("factor.{f}"));
    let measured = COLUMNS.iter().map(|(name, _)| (*name).to_owned());
    writer.write_record(RUN.map(str::to_owned).into_iter().chain(named).chain(measured)).map_err(defect)?;
    for point in results.readings() {
        let run = [
            results.suite.clone(),
            results.profile.clone(),
            results.seed.to_string(),
            results.started.clone(),
            point.test().to_owned(),
            point.dut.clone(),
            point.cell.placement.name().into(),
            point.cell.cores.to_string(),
        ];
        let levels = factors.iter().map(|f| some(point.level(f)));
        let measured = COLUMNS.iter().map(|(_, of)| of(&point));
        writer.write_record(run.into_iter().chain(levels).chain(measured)).map_err(defect)?;
    }
    let bytes = writer.into_inner().map_err(|e| ReportError::Render(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| ReportError::Render(e.to_string()))
}

/// The columns before those of the factors.
const RUN: [&str; 8] = ["suite", "profile", "seed", "started", "test", "dut", "placement", "cores"];

type Column = (&'static str, fn(&Reading<'_>) -> String);

/// The columns behind those of the factors.
const COLUMNS: &[Column] = &[
    ("metric", |p| p.metric.row().key.into()),
    ("unit", |p| p.unit.clone()),
    ("value", |p| p.value.to_string()),
    ("low", |p| p.low.to_string()),
    ("high", |p| p.high.to_string()),
    ("clock_error", |p| p.clock_error.to_string()),
    ("rounds", |p| p.rounds.len().to_string()),
    ("valid", |p| p.valid.to_string()),
    ("marks", |p| p.marks.iter().map(crate::view::mark_text).collect::<Vec<_>>().join("; ")),
    ("offered", |p| p.ledger().offered.to_string()),
    ("not_sent", |p| p.ledger().not_sent.to_string()),
    ("ring_full", |p| lost(p, |l| &l.ring_full)),
    ("dropped_by_firewall", |p| lost(p, |l| &l.dropped_by_firewall)),
    ("lost_in_stack", |p| lost(p, |l| &l.lost_in_stack)),
    ("failed_connections", |p| lost(p, |l| &l.failed)),
    ("corrupted", |p| Entries::from(&p.ledger()).corrupted.to_string()),
    ("not_received", |p| Entries::from(&p.ledger()).not_received.to_string()),
    ("under_way", |p| Entries::from(&p.ledger()).under_way.to_string()),
    ("received", |p| p.ledger().received.to_string()),
    ("residual", |p| p.ledger().residual().to_string()),
    ("latency_min_ns", |p| some(p.latency_ns().map(|l| l.min))),
    ("latency_mean_ns", |p| some(p.latency_ns().map(|l| l.mean))),
    ("latency_p50_ns", |p| some(p.latency_ns().map(|l| l.p50))),
    ("latency_p90_ns", |p| some(p.latency_ns().map(|l| l.p90))),
    ("latency_p99_ns", |p| some(p.latency_ns().map(|l| l.p99))),
    ("latency_p999_ns", |p| some(p.latency_ns().map(|l| l.p999))),
    ("latency_max_ns", |p| some(p.latency_ns().map(|l| l.max))),
    ("pdv_p50_ns", |p| largest(p, |l| Some(l.pdv_ns?.p50))),
    ("pdv_p99_ns", |p| largest(p, |l| Some(l.pdv_ns?.p99))),
    ("ipdv_p50_ns", |p| largest(p, |l| Some(l.ipdv_ns?.p50))),
    ("ipdv_p99_ns", |p| largest(p, |l| Some(l.ipdv_ns?.p99))),
    ("lanes_duplicated", |p| over_lanes(p, |l| l.duplicated)),
    ("lanes_reordered", |p| over_lanes(p, |l| l.reordered)),
    ("lanes_corrupted", |p| over_lanes(p, |l| l.corrupted)),
    ("cpu_busy_cores", |p| busy_cores(&p.cpu()).to_string()),
    ("connections", |p| some(p.flow_entries())),
    ("memory_bytes", |p| some(p.memory_bytes())),
    ("policy_load_seconds", |p| some(p.policy_load_seconds())),
    ("attempted", |p| some(p.connections().map(|c| c.attempted))),
    ("established", |p| some(p.connections().map(|c| c.established))),
    ("completed", |p| some(p.connections().map(|c| c.completed))),
    ("failed", |p| some(p.connections().map(|c| sum(&c.failed)))),
    ("failed_by", |p| some(p.connections().map(|c| by_name(&c.failed)))),
    ("retransmitted", |p| {
        some(p.connections().map(|c| c.retransmitted).or_else(|| p.bulk().map(|b| b.retransmitted)))
    }),
    ("session_frames", |p| some(p.connections().map(|c| c.frames))),
    ("session_bits", |p| some(p.connections().map(|c| c.bits))),
    ("established_mean_ns", |p| time(p, |t| Some(t.established_ns?.mean))),
    ("established_p50_ns", |p| time(p, |t| Some(t.established_ns?.p50))),
    ("established_p99_ns", |p| time(p, |t| Some(t.established_ns?.p99))),
    ("last_byte_mean_ns", |p| time(p, |t| Some(t.last_byte_ns?.mean))),
    ("last_byte_p50_ns", |p| time(p, |t| Some(t.last_byte_ns?.p50))),
    ("last_byte_p99_ns", |p| time(p, |t| Some(t.last_byte_ns?.p99))),
    ("establishment_mean_ns", |p| time(p, |t| Some(t.establishment_ns?.mean))),
    ("establishment_p50_ns", |p| time(p, |t| Some(t.establishment_ns?.p50))),
    ("establishment_p99_ns", |p| time(p, |t| Some(t.establishment_ns?.p99))),
    ("teardown_mean_ns", |p| time(p, |t| Some(t.teardown_ns?.mean))),
    ("teardown_p50_ns", |p| time(p, |t| Some(t.teardown_ns?.p50))),
    ("teardown_p99_ns", |p| time(p, |t| Some(t.teardown_ns?.p99))),
    ("illegal_attempted", |p| some(p.connections().and_then(|c| Some(sum(&c.illegal.as_ref()?.attempted))))),
    ("illegal_got_through", |p| {
        some(p.connections().and_then(|c| Some(c.illegal.as_ref()?.total_got_through())))
    }),
    ("attack_sent", |p| some(p.connections().and_then(|c| Some(c.attack?.sent)))),
    ("attack_forwarded", |p| some(p.connections().and_then(|c| Some(c.attack?.forwarded)))),
    ("attack_answered", |p| some(p.connections().and_then(|c| Some(c.attack?.answered)))),
    ("resets_sent", |p| some(p.connections().and_then(|c| Some(c.resets?.sent)))),
    ("resets_open", |p| some(p.connections().and_then(|c| Some(c.resets?.open)))),
    ("resets_alive", |p| some(p.connections().and_then(|c| Some(c.resets?.alive)))),
    ("replacement_holds_after_seconds", |p| {
        some(p.connections().and_then(|c| c.replacement.as_ref()?.holds_after_seconds))
    }),
    ("replacement_by_neither", |p| {
        some(p.connections().and_then(|c| Some(c.replacement.as_ref()?.by_neither)))
    }),
];

/// An empty cell where there is nothing.
fn some(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn sum(counts: &Named) -> u64 {
    counts.values().sum()
}

/// `refused 3; timeout-connect 12`.
fn by_name(counts: &Named) -> String {
    counts.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join("; ")
}

fn lost(point: &Reading<'_>, place: fn(&Entries) -> &Named) -> String {
    sum(place(&Entries::from(&point.ledger()))).to_string()
}

fn time(point: &Reading<'_>, of: fn(&ConnectionTimes) -> Option<f64>) -> String {
    some(point.connections().and_then(|c| of(&c.times)))
}

fn largest(point: &Reading<'_>, of: fn(&LaneOutcome) -> Option<f64>) -> String {
    some(point.lanes().iter().filter_map(of).max_by(f64::total_cmp))
}

fn over_lanes(point: &Reading<'_>, of: fn(&LaneOutcome) -> u64) -> String {
    some((!point.lanes().is_empty()).then(|| point.lanes().iter().map(of).sum::<u64>()))
}

/// Busy processor time in cores.
pub(crate) fn busy_cores(cpu: &CpuUse) -> f64 {
    let busy: f64 = cpu.cores.iter().map(|c| c.user + c.system + c.interrupt).sum();
    (busy * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use measure::results::{Mark, MarkKind, Metric};

    #[test]
    fn every_point_is_a_row_of_the_header_s_length() {
        let run = sample::rfc2544();
        let text = to_string(&run).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), run.points.len());
        assert!(rows.iter().all(|r| r.len() == header.len()));
        let at = |name: &str| header.iter().position(|h| h == name).unwrap();
        let point = run.points.iter().position(|p| p.at.contains_key("load")).unwrap();
        assert_eq!(&rows[point][at("factor.load")], "10%");
        assert_eq!(rows[point][at("value")].parse::<f64>().unwrap(), run.points[point].value);
        assert_eq!(&rows[0][at("factor.load")], "", "a test without that factor has an empty cell");
        assert!(rows.iter().all(|r| &r[at("residual")] == "0"));
    }

    #[test]
    fn directions_are_summed_and_the_largest_variation_stands() {
        let mut run = sample::demo();
        run.points.retain(|p| p.metric == Metric::Latency);
        run.points.truncate(2);
        let lanes = &mut sample::typical(&mut run, 0).detail.as_mut().unwrap().lanes;
        let mut back = lanes[0].clone();
        (back.duplicated, back.reordered, back.corrupted) = (1, 20, 300);
        if let Some(pdv) = &mut back.pdv_ns {
            (pdv.p50, pdv.p99) = (0.5, 9e9);
        }
        let forth = &mut lanes[0];
        (forth.duplicated, forth.reordered, forth.corrupted) = (2, 30, 400);
        let expected_p50 = forth.pdv_ns.unwrap().p50;
        lanes.push(back);
        sample::typical(&mut run, 1).detail.as_mut().unwrap().lanes.clear();
        let text = to_string(&run).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let p50 = expected_p50.to_string();
        let expected = [
            ("lanes_duplicated", "3"),
            ("lanes_reordered", "50"),
            ("lanes_corrupted", "700"),
            ("pdv_p50_ns", p50.as_str()),
            ("pdv_p99_ns", "9000000000"),
        ];
        for (name, value) in expected {
            let at = header.iter().position(|h| h == name).unwrap();
            assert_eq!((&rows[0][at], &rows[1][at]), (value, ""), "{name}");
        }
    }

    #[test]
    fn connections_have_columns_of_their_own() {
        let mut run = sample::eantc_tcp(&["external"]);
        sample::append(&mut run, sample::poliwall(&["nftables"]));
        let mut demo = sample::demo();
        demo.points.truncate(1);
        sample::append(&mut run, demo);
        let text = to_string(&run).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let cell =
            |row: usize, name: &str| rows[row][header.iter().position(|h| h == name).unwrap()].to_string();
        let find = |keep: &dyn Fn(&Reading<'_>) -> bool| run.readings().position(|p| keep(&p)).unwrap();
        let has = |p: &Reading<'_>, factor, level| p.level(factor).is_some_and(|l| l.text == level);
        let flood = find(&|p: &Reading<'_>| p.test() == "flood");
        let illegal = find(&|p: &Reading<'_>| has(p, "illegal", "0.8"));
        let inside = find(&|p: &Reading<'_>| has(p, "resets", "inside-window"));
        let lists = find(&|p: &Reading<'_>| has(p, "lists", "30000000"));
        let expected = [
            (flood, "attempted", "300000"),
            (flood, "failed", "12200"),
            (flood, "failed_connections", "12200"),
            (flood, "failed_by", "reset 3050; timeout-connect 9150"),
            (flood, "residual", "0"),
            (flood, "attack_forwarded", "612004"),
            (flood, "resets_sent", ""),
            (illegal, "illegal_attempted", "4000"),
            (illegal, "illegal_got_through", "3"),
            (illegal, "valid", "false"),
            (inside, "resets_alive", "1200"),
            (lists, "policy_load_seconds", "41"),
            (lists, "established_p50_ns", "124000"),
            (lists, "teardown_p50_ns", "60000"),
            (rows.len() - 1, "attempted", ""),
            (rows.len() - 1, "failed_connections", "0"),
        ];
        for (row, name, value) in expected {
            assert_eq!(cell(row, name), value, "{name}");
        }
    }

    #[test]
    fn marks_with_commas_and_quotes_survive() {
        let mut run = sample::demo();
        run.points.truncate(1);
        run.points[0].marks = vec![Mark::new(MarkKind::Note, "said \"no\", twice")];
        let text = to_string(&run).unwrap();
        let row = csv::Reader::from_reader(text.as_bytes()).records().next().unwrap().unwrap();
        assert!(row.iter().any(|cell| cell == "said \"no\", twice"));
    }
}
