//! The figures that reports print, as data, so that a report of ours can set them beside measured ones, marked as
//! another machine's. They are carried over exactly as printed; nothing is averaged, converted or filled in here, except
//! that [`Row::frames_per_second`] says what a printed bit rate means in frames.

use crate::frame::FrameMix;
#[cfg(test)]
use crate::level::Level;
use crate::results::Metric;
use serde::Deserialize;
use std::collections::BTreeMap;

const REPORTS: &[(&str, &str)] = &[
    ("checkpoint", include_str!("../../../published/checkpoint.toml")),
    ("compaq", include_str!("../../../published/compaq.toml")),
    ("eantc", include_str!("../../../published/eantc.toml")),
    ("poliwall", include_str!("../../../published/poliwall.toml")),
    ("tolly", include_str!("../../../published/tolly.toml")),
];

/// The names under which figures are there, in alphabetical order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    REPORTS.iter().map(|&(name, _)| name)
}

/// Why a file of printed figures cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishedError {
    /// Nobody carried these over.
    #[error("no published figures are called `{name}`: there are {}", names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The text is no file of printed figures.
    #[error("published/{name}.toml: {message}")]
    Malformed {
        /// The name.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// The figures of one report.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The report's title.
    pub title: String,
    /// Who published it.
    pub publisher: String,
    /// The year of publication, if it is printed.
    pub year: Option<u16>,
    /// What they measured with.
    pub equipment: String,
    /// What a reader must know before comparing.
    pub remarks: Vec<String>,
    /// The figures, in the order of the report.
    pub rows: Vec<Row>,
}

/// One printed figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Firewall and version.
    pub firewall: String,
    /// Where it stands: the table, figure or section as printed.
    pub place: String,
    /// The conditions under which it was measured, as printed.
    pub factors: BTreeMap<String, String>,
    /// What was measured.
    pub metric: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// `over`, `about`, `at most`: how the report qualifies it.
    pub qualifier: Option<String>,
    /// Test of our suites that measures the same, if one does.
    pub test: Option<String>,
    /// Levels that a measured point must have to stand beside it.
    pub beside: BTreeMap<String, String>,
}

impl Row {
    /// Frames a second, all directions together, that a printed rate of whole links (bits with preamble and gap, or a
    /// percentage of 100 Mbit/s) stands for; `None` when the unit does not say.
    pub fn frames_per_second(&self, frame: &FrameMix) -> Option<f64> {
        let bits = match self.unit.as_str() {
            "frames/s" => return Some(self.value),
            "Gbit/s on the wire" => self.value * 1e9,
            "Mbit/s on the wire" => self.value * 1e6,
            "% of 100 Mbit/s" => self.value * 1e6,
            _ => return None,
        };
        let is = |name: &str, level: &str| self.factors.get(name).is_some_and(|l| l == level);
        let directions =
            if is("counted", "each direction") && is("directions", "two-way") { 2.0 } else { 1.0 };
        Some(directions * frame.line_rate_frames_per_second(bits))
    }
}

impl Row {
    /// The figure as the result schema would write it: the metric with its unit ([`Metric::unit`]) and the value in it;
    /// `None` for what the schema has no metric for. A printed bit rate becomes a goodput, although reports count it on
    /// the wire: that is what its place and unit are printed beside it for.
    pub fn in_schema(&self) -> Option<(Metric, f64)> {
        match (self.metric.as_str(), self.unit.as_str()) {
            ("throughput", "frames/s") => Some((Metric::Throughput, self.value)),
            ("throughput", "Gbit/s" | "Gbit/s on the wire") => Some((Metric::Goodput, self.value * 1e9)),
            ("throughput", "Mbit/s" | "Mbit/s on the wire" | "% of 100 Mbit/s") => {
                Some((Metric::Goodput, self.value * 1e6))
            }
            ("latency", "µs") => Some((Metric::Latency, self.value * 1e3)),
            ("latency", "ms") => Some((Metric::Latency, self.value * 1e6)),
            ("connection-rate", "connections/s") => Some((Metric::ConnectionRate, self.value)),
            ("connections", "connections") => Some((Metric::Established, self.value)),
            ("concurrent-connections", "connections") => Some((Metric::ConcurrentConnections, self.value)),
            ("connection-time", "µs") => Some((Metric::EstablishmentTime, self.value * 1e3)),
            ("frame-rate", "frames/s") => Some((Metric::FrameRate, self.value)),
            ("transaction-rate", "transactions/min") => Some((Metric::TransactionsPerMinute, self.value)),
            ("failures", "%") => Some((Metric::Failures, self.value / 100.0)),
            _ => None,
        }
    }

    /// The printed conditions, with the levels of our suites where the row stands beside another level than its own:
    /// what a table in the report's layout is arranged by.
    pub fn arranged(&self) -> BTreeMap<String, String> {
        let mut factors = self.factors.clone();
        factors.extend(self.beside.clone());
        factors
    }
}

/// Units that figures may have.
const UNITS: &[&str] = &[
    "frames/s",
    "Gbit/s",
    "Mbit/s",
    "Gbit/s on the wire",
    "Mbit/s on the wire",
    "% of 100 Mbit/s",
    "µs",
    "ms",
    "%",
    "connections",
    "connections/s",
    "transactions/min",
    "frames",
    "marks",
    "TB",
    "GB",
    "segments",
    "times",
];

/// Metrics that figures may have.
const METRICS: &[&str] = &[
    "throughput",
    "latency",
    "latency-deviation",
    "latency-increase",
    "loss",
    "cpu-idle",
    "cpu",
    "connection-rate",
    "connection-rate-variance",
    "connection-rate-change",
    "concurrent-connections",
    "connections",
    "connections-share",
    "connection-time",
    "frame-rate",
    "frame-rate-variance",
    "transaction-rate",
    "transaction-rate-change",
    "failures",
    "transferred",
    "retransmissions",
    "fluctuation",
    "speed-up",
    "marks",
];

/// Reads the figures of a report by name.
///
/// # Errors
/// [`PublishedError`]; the tests read every file that ships, so only a wrong name is left.
pub fn load(name: &str) -> Result<Published, PublishedError> {
    let (_, text) = REPORTS
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or(PublishedError::Unknown { name: name.into() })?;
    parse(name, text)
}

/// Reads the text of a file of printed figures.
///
/// # Errors
/// [`PublishedError::Malformed`] with the place in the text.
pub fn parse(name: &str, text: &str) -> Result<Published, PublishedError> {
    let malformed = |message: String| PublishedError::Malformed { name: name.into(), message };
    let file: File = toml::from_str(text).map_err(|e| malformed(e.to_string()))?;
    let mut rows = Vec::new();
    for table in &file.table {
        for cells in &table.rows {
            rows.extend(table.rows_of(cells).map_err(malformed)?);
        }
    }
    Ok(Published {
        title: file.title,
        publisher: file.publisher,
        year: file.year,
        equipment: file.equipment,
        remarks: file.remarks,
        rows,
    })
}

#[cfg(test)]
impl Published {
    /// The printed figures that belong to a test of our suites.
    fn of_test<'a>(&'a self, test: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.test.as_deref() == Some(test))
    }

    /// The printed figures that belong beside a measured point: same test, and every level that a row asks for is the
    /// point's. `factors` are the point's, with `cores` among them if it matters.
    pub(crate) fn beside<'a>(
        &'a self,
        test: &'a str,
        factors: &'a BTreeMap<String, Level>,
    ) -> impl Iterator<Item = &'a Row> {
        self.of_test(test).filter(move |row| {
            row.beside.iter().all(|(factor, level)| factors.get(factor).is_some_and(|l| l.text == *level))
        })
    }
}

/// A file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    publisher: String,
    year: Option<u16>,
    equipment: String,
    #[serde(default)]
    remarks: Vec<String>,
    table: Vec<Table>,
}

/// Figures that stand together: what they share, and one row of cells for each setting of the `keys`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    firewall: String,
    place: String,
    /// Conditions that all rows share.
    #[serde(default)]
    factors: BTreeMap<String, String>,
    /// Test of our suites that measures the same.
    test: Option<String>,
    /// Levels that a measured point must have to stand beside every row.
    #[serde(default)]
    beside: BTreeMap<String, String>,
    /// Conditions that the first cells of a row give; `beside.NAME` gives a level to stand beside instead.
    #[serde(default)]
    keys: Vec<String>,
    /// Keys that a measured point must share to stand beside a row.
    #[serde(default)]
    shared: Vec<String>,
    /// What the other cells of a row are.
    values: Vec<Column>,
    rows: Vec<Vec<Content>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    metric: String,
    unit: String,
    qualifier: Option<String>,
    /// A condition of this column alone.
    #[serde(default)]
    factors: BTreeMap<String, String>,
}

/// A cell: a number, or a text; an empty text is a figure that the report does not (legibly) print.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Number(f64),
    Text(String),
}

impl Table {
    fn rows_of(&self, cells: &[Content]) -> Result<Vec<Row>, String> {
        if cells.len() != self.keys.len() + self.values.len() {
            let wanted = self.keys.len() + self.values.len();
            return Err(format!("{}: a row has {} cells instead of {wanted}", self.place, cells.len()));
        }
        let (keys, values) = cells.split_at(self.keys.len());
        let (mut factors, mut beside) = (self.factors.clone(), self.beside.clone());
        for (key, cell) in self.keys.iter().zip(keys) {
            match key.strip_prefix("beside.") {
                Some(factor) => beside.insert(factor.into(), cell.text()),
                None => factors.insert(key.clone(), cell.text()),
            };
        }
        self.columns(values, &factors, &beside)
    }

    fn columns(
        &self,
        cells: &[Content],
        factors: &BTreeMap<String, String>,
        beside: &BTreeMap<String, String>,
    ) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for (column, cell) in self.values.iter().zip(cells) {
            let value = match cell {
                Content::Number(value) => *value,
                Content::Text(text) if text.is_empty() => continue,
                Content::Text(text) => return Err(format!("{}: `{text}` is no figure", self.place)),
            };
            let mut row = Row {
                firewall: self.firewall.clone(),
                place: self.place.clone(),
                factors: factors.clone(),
                metric: column.metric.clone(),
                value,
                unit: column.unit.clone(),
                qualifier: column.qualifier.clone(),
                test: self.test.clone(),
                beside: beside.clone(),
            };
            row.factors.extend(column.factors.clone());
            for name in &self.shared {
                let level = row.factors.get(name).ok_or(format!("{}: no `{name}` to share", self.place))?;
                row.beside.insert(name.clone(), level.clone());
            }
            check(&row)?;
            rows.push(row);
        }
        Ok(rows)
    }
}

fn check(row: &Row) -> Result<(), String> {
    let place = &row.place;
    if !METRICS.contains(&row.metric.as_str()) {
        return Err(format!("{place}: no metric is called `{}`", row.metric));
    }
    if !UNITS.contains(&row.unit.as_str()) {
        return Err(format!("{place}: no unit is called `{}`", row.unit));
    }
    if !row.value.is_finite() {
        return Err(format!("{place}: {} is no figure", row.value));
    }
    Ok(())
}

impl Content {
    fn text(&self) -> String {
        match self {
            Content::Number(number) => number.to_string(),
            Content::Text(text) => text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many figures each report prints: a row that is lost or doubled changes it.
    #[test]
    fn every_file_is_well_formed_and_complete() {
        let counts: Vec<(&str, usize)> =
            names().map(|name| (name, load(name).unwrap_or_else(|e| panic!("{e}")).rows.len())).collect();
        assert_eq!(
            counts,
            [("checkpoint", 6), ("compaq", 359), ("eantc", 141), ("poliwall", 50), ("tolly", 67)]
        );
    }

    #[test]
    fn figures_are_found_beside_measured_points() {
        let rows = [
            (
                "eantc",
                "throughput",
                "directions=two-way frame=1518 rules=20",
                "Astaro Security Linux 2.0 (Pyramid) 81 % of 100 Mbit/s; Cisco PIX 515 95 % of 100 Mbit/s",
            ),
            (
                "eantc",
                "latency",
                "directions=one-way frame=512",
                "Astaro Security Linux 2.0 (Pyramid) 160 µs; Cisco PIX 515 512 µs",
            ),
            ("eantc", "latency", "directions=one-way frame=64", ""),
            ("eantc", "no-such-test", "directions=one-way frame=512", ""),
            (
                "tolly",
                "udp-throughput",
                "directions=two-way flows=1000000 frame=imix:tolly cores=2",
                "Intoto iGateway 4.0 (pre-release) 2 Gbit/s on the wire; Intoto iGateway 4.0 (pre-release) 3.12 Gbit/s on \
                 the wire; Intoto iGateway 4.0 (pre-release) 4.64 Gbit/s on the wire",
            ),
        ];
        for (report, test, factors, expected) in rows {
            let factors: BTreeMap<String, Level> = factors
                .split(' ')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, level)| (name.into(), Level::read(name, level)))
                .collect();
            let report = load(report).expect("it ships");
            let found: Vec<String> = report
                .beside(test, &factors)
                .map(|row| format!("{} {} {}", row.firewall, row.value, row.unit))
                .collect();
            assert_eq!(found.join("; "), expected, "{test} {factors:?}");
        }
    }

    #[test]
    fn every_figure_of_a_test_has_a_place_in_the_schema() {
        let rows = [("eantc", "throughput", 10), ("eantc", "latency", 4), ("tolly", "udp-throughput", 36)];
        for (report, test, count) in rows {
            let report = load(report).expect("it ships");
            assert_eq!(report.of_test(test).filter(|row| row.in_schema().is_some()).count(), count, "{test}");
        }
        let tolly = load("tolly").expect("it ships");
        let last =
            tolly.of_test("udp-throughput").find(|row| row.factors["flows"] == "25000").expect("a row");
        assert_eq!(last.in_schema(), Some((Metric::Goodput, 0.44e9)));
        assert_eq!(last.arranged()["flows"], "100000");
        let eantc = load("eantc").expect("it ships");
        let latency = eantc.of_test("latency").next().expect("a row");
        assert_eq!(latency.in_schema(), Some((Metric::Latency, 160e3)));
    }

    #[test]
    fn figures_of_connections_have_the_metrics_of_the_schema() {
        let rows = [
            ("tolly", "section HTTP Connection Rate, for figure 4", Metric::ConnectionRate, 12, 121_000.0),
            ("eantc", "table Results TCP rate test", Metric::Established, 28, 6144.0),
            ("eantc", "table Results TCP rate test", Metric::EstablishmentTime, 28, 1_348_000.0),
            ("eantc", "section TCP-Session-Rate-Tests", Metric::ConcurrentConnections, 3, 103_000.0),
            ("poliwall", "section IV.D", Metric::ConnectionRate, 2, 10_000.0),
        ];
        for (report, place, metric, count, most) in rows {
            let report = load(report).expect("it ships");
            let of =
                |r: &Row| r.in_schema().filter(|(m, _)| *m == metric && r.place == place).map(|(_, v)| v);
            let values: Vec<f64> = report.rows.iter().filter_map(of).collect();
            assert_eq!(values.len(), count, "{place} {metric:?}");
            assert_eq!(values.iter().copied().fold(0.0, f64::max), most, "{place} {metric:?}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused() {
        let head = "title = \"t\"\npublisher = \"p\"\nequipment = \"e\"\n[[table]]\nfirewall = \"f\"\nplace = \"x\"\n";
        let rows = [
            (
                "values = [{ metric = \"throughput\", unit = \"furlongs\" }]\nrows = [[1]]",
                "x: no unit is called `furlongs`",
            ),
            (
                "values = [{ metric = \"speed\", unit = \"%\" }]\nrows = [[1]]",
                "x: no metric is called `speed`",
            ),
            (
                "values = [{ metric = \"loss\", unit = \"%\" }]\nrows = [[1, 2]]",
                "x: a row has 2 cells instead of 1",
            ),
            ("values = [{ metric = \"loss\", unit = \"%\" }]\nrows = [[\"?\"]]", "x: `?` is no figure"),
            ("values = [{ metric = \"loss\", unit = \"%\" }]\nrows = [[nan]]", "x: NaN is no figure"),
            (
                "shared = [\"frame\"]\nvalues = [{ metric = \"loss\", unit = \"%\" }]\nrows = [[1]]",
                "x: no `frame` to share",
            ),
        ];
        for (body, expected) in rows {
            let error = parse("small", &format!("{head}{body}")).expect_err("wrong");
            assert_eq!(error.to_string(), format!("published/small.toml: {expected}"));
        }
        let unknown = load("cisco").expect_err("not there");
        assert_eq!(
            unknown.to_string(),
            "no published figures are called `cisco`: there are checkpoint, compaq, eantc, poliwall, tolly"
        );
    }

    #[test]
    fn a_printed_bit_rate_is_so_many_frames() {
        let tolly = load("tolly").expect("it ships");
        let mix = FrameMix::parse("imix:tolly").expect("a mix");
        let most = tolly
            .rows
            .iter()
            .filter(|row| row.place == "figure 3" && row.factors["frame"] == "imix:tolly")
            .filter_map(|row| row.frames_per_second(&mix))
            .fold(0.0, f64::max);
        // The report's own words: over 2.2 million packets per second with IMIX.
        assert!((2.2e6..2.3e6).contains(&most), "{most}");
        let eantc = load("eantc").expect("it ships");
        let frame = FrameMix::parse("80").expect("a size");
        let both: Vec<f64> = eantc
            .rows
            .iter()
            .filter(|row| row.factors.get("frame").is_some_and(|f| f == "80"))
            .filter_map(|row| row.frames_per_second(&frame))
            .collect();
        // 22 % one way is as many frames as 11 % each way: 27,500 a second.
        assert_eq!(both.iter().map(|f| f.round()).collect::<Vec<_>>(), [27500.0, 27500.0]);
    }
}
