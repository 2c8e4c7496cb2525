//! Whether results that were read hang together, whether their values follow from their trials, and whether their texts are texts. A file
//! of results may have been changed by hand, or come from somebody else; without this, a value that nobody measured would be reported as
//! measured, a point of a cell that is not there would be left out without a word, and what is written of a firewall's name would be a
//! command to the terminal. Pure.

use crate::schema1::{NOT_COMPUTED, SCHEMA_1};
use measure::results::{Misfit, Results};
use serde_json::Value;
use std::collections::BTreeSet;

/// Why results that were read are not to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unsound {
    /// They say things that cannot be true together.
    Contradiction(String),
    /// Values do not follow from their trials, each on a line.
    Changed(String),
}

/// Misfits that a message shows; of a file that somebody rewrote there may be hundreds.
const MOST_SHOWN: usize = 5;

/// The results with harmless texts.
///
/// # Errors
/// What contradicts what, or does not follow from what, by its place in the lists.
pub(crate) fn sound(mut results: Results) -> Result<Results, Unsound> {
    check(&results).map_err(Unsound::Contradiction)?;
    let misfits = results.misfits();
    if !misfits.is_empty() {
        return Err(Unsound::Changed(listed(&misfits)));
    }
    if let Some(schema) = &results.converted_from {
        if schema != SCHEMA_1 {
            let why = format!("converted_from is «{schema}», and the only older schema is «{SCHEMA_1}»");
            return Err(Unsound::Contradiction(why));
        }
        if results.environment.remarks.iter().all(|remark| remark != NOT_COMPUTED) {
            results.environment.remarks.push(NOT_COMPUTED.into());
        }
    }
    harmless(results).map_err(Unsound::Contradiction)
}

fn listed(misfits: &[Misfit]) -> String {
    let mut lines: Vec<String> = misfits
        .iter()
        .take(MOST_SHOWN)
        .map(|misfit| format!("\n  {}", harmless_text(&misfit.to_string())))
        .collect();
    if misfits.len() > MOST_SHOWN {
        lines.push(format!("\n  and {} more", misfits.len() - MOST_SHOWN));
    }
    lines.concat()
}

fn harmless_text(text: &str) -> String {
    cleaned(text).unwrap_or_else(|| text.to_owned())
}

/// The results with texts that are none but text: what a driver outside the tree calls its counters, for example, is anybody's.
///
/// # Errors
/// They cannot be read back, which is a defect of this program.
pub fn harmless(results: Results) -> Result<Results, String> {
    let mut value = serde_json::to_value(&results).map_err(|error| error.to_string())?;
    // Few results have anything to clean, and a value that is not read again is exactly what was read.
    if clean(&mut value) {
        serde_json::from_value(value).map_err(|error| error.to_string())
    } else {
        Ok(results)
    }
}

fn check(results: &Results) -> Result<(), String> {
    let mut cells = BTreeSet::new();
    for (at, cell) in results.cells.iter().enumerate() {
        if !cells.insert(cell.id) {
            return Err(format!("cells[{at}] has the id {} of another cell", cell.id));
        }
    }
    let mut runs = BTreeSet::new();
    for (at, run) in results.runs.iter().enumerate() {
        if !cells.contains(&run.cell) {
            return Err(format!("runs[{at}] is of cell {}, which is not there", run.cell));
        }
        if !runs.insert((run.cell, run.dut.as_str())) {
            return Err(format!("runs[{at}] is the second of {} in cell {}", run.dut, run.cell));
        }
    }
    let mut points = BTreeSet::new();
    for (at, point) in results.points.iter().enumerate() {
        if !cells.contains(&point.cell) {
            return Err(format!("points[{at}] is of cell {}, which is not there", point.cell));
        }
        let setting: Vec<(&str, &str)> =
            point.at.iter().map(|(factor, level)| (factor.as_str(), level.text.as_str())).collect();
        if !points.insert((point.cell, point.dut.as_str(), point.metric.row().key, setting)) {
            let metric = point.metric.row().key;
            return Err(format!(
                "points[{at}] is the second {metric} of {} in cell {}",
                point.dut, point.cell
            ));
        }
        if point.low > point.high {
            return Err(format!("points[{at}] has an interval from {} down to {}", point.low, point.high));
        }
        if let Some(run) = results.runs.iter().find(|run| (run.cell, &run.dut) == (point.cell, &point.dut)) {
            let named = point.deciding.iter().chain(&point.typical);
            let missing = named.copied().find(|id| run.trials.iter().all(|trial| trial.id != *id));
            if let Some(id) = missing {
                return Err(format!("points[{at}] rests on trial {id}, which its run does not have"));
            }
        }
    }
    Ok(())
}

/// Puts a dot for every character that is none to read; whether there was any. Ends of lines and tabs stay.
fn clean(value: &mut Value) -> bool {
    match value {
        Value::String(text) => cleaned(text).is_some_and(|clean| {
            *text = clean;
            true
        }),
        Value::Array(list) => list.iter_mut().fold(false, |any, value| clean(value) | any),
        Value::Object(fields) => {
            let mut any = false;
            for (key, mut value) in std::mem::take(fields) {
                any |= clean(&mut value);
                let key = match cleaned(&key) {
                    Some(clean) => {
                        any = true;
                        clean
                    }
                    None => key,
                };
                fields.insert(key, value);
            }
            any
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn cleaned(text: &str) -> Option<String> {
    let harmful = |c: char| !matches!(c, '\n' | '\t') && toml_reader::is_harmful(c);
    text.contains(harmful).then(|| text.replace(harmful, "·"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn results_that_contradict_themselves_are_refused_with_the_place() {
        type Change = fn(&mut Results);
        let rows: &[(Change, &str)] = &[
            (|r| r.cells.push(r.cells[0].clone()), "of another cell"),
            (|r| r.cells.clear(), "runs[0] is of cell 0, which is not there"),
            (|r| r.points[1].cell = 9999, "points[1] is of cell 9999, which is not there"),
            (|r| r.points.push(r.points[0].clone()), "is the second"),
            (|r| r.runs.push(r.runs[0].clone()), "is the second of"),
            (
                |r| (r.points[0].low, r.points[0].high) = (2.0, 1.0),
                "points[0] has an interval from 2 down to 1",
            ),
            (|r| r.points[0].deciding = vec![777], "points[0] rests on trial 777"),
            (|r| r.points[0].typical = Some(777), "points[0] rests on trial 777"),
        ];
        for (change, said) in rows {
            let mut results = sample::demo();
            change(&mut results);
            let Unsound::Contradiction(why) = sound(results).unwrap_err() else { panic!("{said}") };
            assert!(why.contains(said), "{why}");
        }
        for whole in [sample::demo(), sample::rfc2544(), sample::tolly(8), sample::poliwall(&["nftables"])] {
            assert_eq!(sound(whole.clone()).unwrap(), whole);
        }
    }

    #[test]
    fn texts_of_results_carry_no_commands() {
        const HOSTILE: &str = "a\u{1b}]0;b\u{7}c\r\u{9b}d\u{202e}e\nf\tg";
        const CLEAN: &str = "a·]0;b·c··d·e\nf\tg";
        let mut results = sample::demo();
        results.suite = HOSTILE.into();
        results.command = HOSTILE.into();
        results.environment.versions.insert(HOSTILE.into(), HOSTILE.into());
        results.points[0].marks.push(measure::results::Mark::new(measure::results::MarkKind::Note, HOSTILE));
        let clean = sound(results).unwrap();
        assert_eq!((clean.suite.as_str(), clean.command.as_str()), (CLEAN, CLEAN));
        assert_eq!(clean.environment.versions.get(CLEAN).map(String::as_str), Some(CLEAN));
        assert_eq!(clean.points[0].marks.last().unwrap().text, CLEAN);
    }
}
