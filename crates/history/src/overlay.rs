//! Runs laid over each other: the same points of several runs side by side, a column a run.

use crate::error::HistoryError;
use crate::store::{RunRow, Store};
use crate::trend::{self, Options, Series, Value};
use serde::Serialize;

/// Several runs, point by point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overlay {
    /// The runs, as they were named.
    pub runs: Vec<RunRow>,
    /// A row a point that at least one of them has.
    pub rows: Vec<Row>,
}

/// One point in every run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The point; its values are in `values`.
    pub series: Series,
    /// Its value in each run, none where that has none.
    pub values: Vec<Option<Value>>,
}

/// Lays runs over each other. Those of other machines, suites and profiles may be among them: whoever names runs, compares them.
///
/// # Errors
/// [`HistoryError::NoRun`], or [`HistoryError::Nothing`] when none has such a point.
pub fn overlay(store: &Store, ids: &[i64], options: &Options) -> Result<Overlay, HistoryError> {
    let runs: Vec<RunRow> = ids.iter().map(|id| store.run(*id)).collect::<Result<_, _>>()?;
    let mut rows: Vec<Row> = Vec::new();
    for (column, run) in runs.iter().enumerate() {
        for mut series in trend::of_run(store, run, options)? {
            let value = series.values.pop();
            let same = |row: &&mut Row| {
                let s = &row.series;
                (&s.test, &s.dut, s.metric, &s.levels, &s.reference)
                    == (&series.test, &series.dut, series.metric, &series.levels, &series.reference)
            };
            match rows.iter_mut().find(same) {
                Some(row) => row.values[column] = value,
                None => {
                    let mut values = vec![None; runs.len()];
                    values[column] = value;
                    rows.push(Row { series, values });
                }
            }
        }
    }
    if rows.is_empty() {
        return Err(HistoryError::Nothing("none of the runs has such a point".to_owned()));
    }
    Ok(Overlay { runs, rows })
}
