//! What the searches of a test were for and what they found, as RFC 9971 wants it reported: every attribute of the goal, both
//! relevant bounds, and the conditional throughput. Pure.

use crate::table::{Cell, Head, Row, Table};
use crate::units;
use crate::view::Test;
use measure::results::{Metric, SearchOutcome, Sent};

/// What searches find first, and the unit of their loads.
const SEARCHED: [(Metric, &str); 5] = [
    (Metric::Throughput, "frames/s"),
    (Metric::ConnectionRate, "connections/s"),
    (Metric::TransactionRate, "connections/s"),
    (Metric::TeardownRate, "connections/s"),
    (Metric::ConcurrentConnections, "connections"),
];

/// The searches of a test, a row a firewall and setting, the rounds one after the other; none of a test without.
pub(crate) fn table(test: &Test<'_>) -> Option<Table> {
    let find = |(metric, unit): &(Metric, &'static str)| {
        let block = test.blocks.iter().find(|b| b.metric == *metric)?;
        block
            .settings
            .iter()
            .flat_map(|s| &s.points)
            .any(|p| !p.searches().is_empty())
            .then_some((block, *unit))
    };
    let (block, unit) = SEARCHED.iter().find_map(find)?;
    let factors = block.factors();
    let mut rows = Vec::new();
    let mut goals: Vec<String> = Vec::new();
    for setting in &block.settings {
        for point in setting.points.iter().filter(|p| !p.searches().is_empty()) {
            goals.extend(point.searches().iter().map(|s| goal(s, point.sent())));
            let heads = crate::tables::heads(&point.dut, setting, &factors);
            rows.push(Row { heads, cells: cells(point.searches(), unit) });
        }
    }
    goals.sort();
    goals.dedup();
    let mut corner = vec!["Firewall".to_string()];
    corner.extend(factors.iter().map(|f| measure::level::title(f)));
    Some(Table {
        caption: format!("{}: what the searches found, round by round (RFC 9971)", block.metric.row().title),
        corner,
        head: ["relevant lower bound", "relevant upper bound", "conditional throughput", "goal loss ratio", "result"]
            .map(Head::one)
            .into(),
        rows,
        notes: goals
            .into_iter()
            .chain(["Loads and rates are totals over all directions; with traffic in both directions, half of it is of each. Frames \
                     that were intended and not sent count as lost where they are more than 0.1 %"
                .into()])
            .collect(),
        ..Table::default()
    })
}

/// Every attribute of a goal but its loss ratio, which has a column: rare losses change it.
fn goal(search: &SearchOutcome, sent: Sent) -> String {
    let goal = &search.goal;
    let seconds = |s: f64| format!("{} s", units::significant(s, 3));
    let lost = if sent == Sent::Connections { "failures" } else { "losses" };
    format!(
        "Goal: final trial duration {}, initial trial duration {}, duration sum {}, exceed ratio {}, width {} of the upper bound; its loss ratio is of {lost}",
        seconds(goal.final_trial_seconds),
        seconds(goal.initial_trial_seconds),
        seconds(goal.duration_sum_seconds),
        units::percent(goal.exceed_ratio),
        units::percent(goal.width),
    )
}

fn cells(searches: &[SearchOutcome], unit: &str) -> Vec<Cell> {
    let load = |load: f64| units::value(unit, load);
    let each = |text: &dyn Fn(&SearchOutcome) -> String| {
        let mut texts: Vec<String> = searches.iter().map(text).collect();
        if texts.iter().all(|t| *t == texts[0]) {
            texts.truncate(1);
        }
        Cell::text(texts.join(", "))
    };
    vec![
        each(&|s| load(s.lower)),
        each(&|s| s.upper.map_or_else(|| "none".into(), load)),
        each(&|s| load(s.conditional_throughput)),
        each(&|s| units::rare(s.goal.loss_ratio)),
        each(&|s| if s.regular { "regular".into() } else { "irregular".into() }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::view::View;
    use measure::search::Goal;

    #[test]
    fn the_goal_and_the_bounds_of_every_round_are_reported() {
        let mut run = sample::demo();
        assert!(View::new(&run, None).tests.iter().all(|t| table(t).is_none()), "an older run has none");
        let found = |round: u32, loss_ratio: f64, upper: Option<f64>| SearchOutcome {
            round,
            goal: Goal { loss_ratio, ..Goal::mlr(2.0) },
            lower: 1e6,
            upper,
            conditional_throughput: 0.999e6,
            regular: upper.is_some(),
        };
        for of in &mut run.runs {
            of.searches = vec![found(0, 0.0, Some(1.01e6)), found(1, 1e-5, None)];
        }
        let view = View::new(&run, None);
        let test =
            view.tests.iter().find(|t| t.blocks.iter().any(|b| b.metric == Metric::Throughput)).unwrap();
        let table = table(test).unwrap();
        let cells: Vec<&str> = table.rows[0].cells.iter().map(|cell| cell.text.as_str()).collect();
        let expected =
            ["1.00 Mpps", "1.01 Mpps, none", "999 kpps", "0 %, 10 in a million", "regular, irregular"];
        assert_eq!(cells, expected);
        let goal = "final trial duration 2.00 s, initial trial duration 1.00 s, duration sum 6.00 s, exceed ratio 50.0 %, \
                    width 1.00 % of the upper bound";
        assert!(table.notes[0].contains(goal), "{:?}", table.notes);
        assert_eq!(table.notes.len(), 2, "the goal stands once: {:?}", table.notes);
    }
}
