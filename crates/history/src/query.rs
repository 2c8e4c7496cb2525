//! Which points are meant: by suite, profile, machine, test, firewall, metric and levels of factors. Whatever is not named is meant.

use crate::store::{RunRow, StoredPoint};
use measure::level::Level;
use measure::results::Metric;
use std::collections::BTreeMap;

/// Filters; an empty one leaves everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Suites by name.
    pub suites: Vec<String>,
    /// `quick`, `standard`, `full`.
    pub profiles: Vec<String>,
    /// Machines by identifier.
    pub machines: Vec<String>,
    /// Tests of suites.
    pub tests: Vec<String>,
    /// Firewalls.
    pub duts: Vec<String>,
    /// Metrics.
    pub metrics: Vec<Metric>,
    /// Factors, cores and placement among them, and the levels of each that are meant.
    pub levels: BTreeMap<String, Vec<String>>,
}

impl Query {
    /// Takes a filter `FACTOR=V[,V…]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn with_levels(&mut self, text: &str) -> Result<(), String> {
        let wrong = || format!("`{text}` is no filter: write FACTOR=V[,V…], as in frame=64,512");
        let (factor, levels) = text.split_once('=').ok_or_else(wrong)?;
        if factor.is_empty() || levels.split(',').any(str::is_empty) {
            return Err(wrong());
        }
        let levels = levels.split(',').map(str::to_owned);
        self.levels.entry(factor.to_owned()).or_default().extend(levels);
        Ok(())
    }

    /// Whether a run is meant.
    pub fn takes_run(&self, run: &RunRow) -> bool {
        named(&self.suites, &run.suite)
            && named(&self.profiles, &run.profile)
            && named(&self.machines, &run.machine)
    }

    /// Whether a point is meant, of a run that is.
    pub fn takes_point(&self, point: &StoredPoint) -> bool {
        self.takes_setting(point) && named(&self.duts, &point.point.dut)
    }

    /// The same whichever firewall it is of.
    pub(crate) fn takes_setting(&self, point: &StoredPoint) -> bool {
        let metric = self.metrics.is_empty() || self.metrics.contains(&point.point.metric);
        let level = |(factor, texts): (&String, &Vec<String>)| {
            let Some(level) = point.levels.get(factor) else { return false };
            texts.iter().any(|text| *text == level.text || Level::read(factor, text) == *level)
        };
        metric && named(&self.tests, &point.test) && self.levels.iter().all(level)
    }
}

fn named(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|n| n == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_or_refused() {
        for (text, right) in [
            ("frame=64", true),
            ("frame=64,512", true),
            ("frame", false),
            ("=64", false),
            ("frame=", false),
            ("frame=64,,512", false),
        ] {
            assert_eq!(Query::default().with_levels(text).is_ok(), right, "{text}");
        }
        let mut query = Query::default();
        query.with_levels("frame=64").unwrap();
        query.with_levels("frame=512").unwrap();
        assert_eq!(query.levels["frame"], ["64", "512"]);
    }
}
