//! What a reader must know beside the figures: the machine, the calibration, the standards. Pure.

use crate::table::{Cell, Head, Row, Table};
use crate::units;
use measure::results::{Calibration, Results, TickStatus};

/// The machine, a line a property.
pub(crate) fn machine(results: &Results) -> Vec<(&'static str, String)> {
    let env = &results.environment;
    vec![
        ("Processor", env.cpu.clone()),
        ("Cores online", env.cores.to_string()),
        ("Memory", units::value("bytes", env.memory_bytes as f64)),
        ("Kernel", env.kernel.clone()),
        ("Clock source", env.clock.clone()),
        ("Virtualization", env.virtualization.clone()),
        (
            "Load average, 1 minute",
            format!("{:.2} before the run, {:.2} after", env.load_before, env.load_after),
        ),
        ("Time stolen by the hypervisor", units::percent(env.stolen)),
    ]
}

/// The generator and the sink against themselves.
pub(crate) fn calibration(results: &Results) -> Table {
    Table {
        caption: "Calibration: the bench against itself".into(),
        corner: vec!["What".into()],
        head: ["measured", "target", "met"].map(Head::one).into(),
        rows: results.calibration.iter().map(calibration_row).collect(),
        ..Table::default()
    }
}

fn calibration_row(row: &Calibration) -> Row {
    let target = row.target.map_or_else(Cell::none, |t| Cell::number(units::value(&row.unit, t), t));
    let met = match row.met {
        None if row.target.is_some() => Cell::text("undecided"),
        None => Cell::none(),
        Some(true) => Cell::text("yes"),
        Some(false) => Cell { class: "invalid", ..Cell::text("missed") },
    };
    let cells = vec![Cell::number(units::value(&row.unit, row.value), row.value), target, met];
    Row { heads: vec![row.name.clone()], cells }
}

/// The RFC tick sheet.
pub(crate) fn ticks(results: &Results) -> Table {
    let row = |tick: &measure::results::Tick| Row {
        heads: vec![tick.section.clone()],
        cells: vec![Cell::text(&tick.asks), Cell::text(status(tick.status)), Cell::text(&tick.detail)],
    };
    Table {
        caption: "What the standards ask for, and what this run did".into(),
        corner: vec!["Section".into()],
        head: ["asks for", "status", "how, or why not"].map(Head::one).into(),
        rows: results.tick_sheet.iter().map(row).collect(),
        ..Table::default()
    }
}

const fn status(status: TickStatus) -> &'static str {
    match status {
        TickStatus::Met => "met",
        TickStatus::Deviated => "deviated",
        TickStatus::NotRun => "not run",
    }
}
