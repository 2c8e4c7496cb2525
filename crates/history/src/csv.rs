//! Trends as CSV, for spreadsheets and plots.

use crate::trend::{Group, Trends};
use ::csv::Writer;

const VALUES: [&str; 24] = [
    "suite",
    "profile",
    "machine",
    "test",
    "dut",
    "metric",
    "unit",
    "levels",
    "run",
    "started",
    "version",
    "kernel",
    "complete",
    "value",
    "low",
    "high",
    "reference",
    "ratio",
    "ratio_low",
    "ratio_high",
    "changed",
    "change_p",
    "folder",
    "suite_hash",
];

const GROUPS: [&str; 14] = [
    "suite",
    "profile",
    "machine",
    "version",
    "test",
    "dut",
    "metric",
    "unit",
    "setting",
    "reference",
    "runs",
    "median",
    "least",
    "most",
];

/// One row a run and point.
pub fn trends(trends: &Trends) -> String {
    let mut rows = vec![VALUES.map(str::to_owned).to_vec()];
    for series in &trends.series {
        let levels: Vec<String> =
            series.levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
        for value in &series.values {
            let run = &trends.runs[&value.run];
            let change = series.changes.iter().find(|change| change.at_run == value.run);
            let ratio = |end: fn(crate::trend::Ratio) -> f64| {
                value.ratio.map_or_else(String::new, |r| end(r).to_string())
            };
            rows.push(vec![
                series.suite.clone(),
                series.profile.clone(),
                series.machine.clone(),
                series.test.clone(),
                series.dut.clone(),
                series.metric.row().key.to_owned(),
                series.unit.clone(),
                levels.join(" "),
                value.run.to_string(),
                run.started.clone(),
                run.version_of(&series.dut),
                run.kernel.clone(),
                run.complete.to_string(),
                value.value.to_string(),
                value.low.to_string(),
                value.high.to_string(),
                series.reference.clone().unwrap_or_default(),
                ratio(|r| r.value),
                ratio(|r| r.low),
                ratio(|r| r.high),
                change.is_some().to_string(),
                change.map_or_else(String::new, |change| change.p.to_string()),
                run.path.clone(),
                run.suite_hash.clone().unwrap_or_default(),
            ]);
        }
    }
    written(&rows)
}

/// One row a group of runs.
pub fn groups(groups: &[Group]) -> String {
    let mut rows = vec![GROUPS.map(str::to_owned).to_vec()];
    rows.extend(groups.iter().map(|group| {
        vec![
            group.suite.clone(),
            group.profile.clone(),
            group.machine.clone(),
            group.version.clone().unwrap_or_default(),
            group.test.clone(),
            group.dut.clone(),
            group.metric.row().key.to_owned(),
            group.unit.clone(),
            group.setting.clone(),
            group.reference.clone().unwrap_or_default(),
            group.runs.to_string(),
            group.median.to_string(),
            group.least.to_string(),
            group.most.to_string(),
        ]
    }));
    written(&rows)
}

fn written(rows: &[Vec<String>]) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    for row in rows {
        // Memory takes every row, and all rows have the same number of fields.
        let _ = writer.write_record(row);
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_others_stay_in_their_column() {
        let rows = [vec!["a".to_owned(), "b".to_owned()], vec!["x,\"y\"\nz".to_owned(), "1".to_owned()]];
        assert_eq!(written(&rows), "a,b\n\"x,\"\"y\"\"\nz\",1\n");
    }
}
