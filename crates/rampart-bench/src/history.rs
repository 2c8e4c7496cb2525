//! `history`: the runs that were kept. Wires the command line to the crate that keeps them, and keeps each run when it ends.

use crate::cli::{HistoryArgs, HistoryCommand, HistoryFile, OverName, PointFilters, RunFilters, TrendArgs};
use crate::failure::Failure;
use crate::output;
use ::history::import::{self, Imported};
use ::history::live::Live;
use ::history::place::{Place, Surroundings};
use ::history::store::{Kept, RunRow, StoredPoint};
use ::history::trend::{self, Options};
use ::history::{HistoryError, Query, Store, csv, overlay, text};
use measure::results::{METRICS, Metric, Results};
use serde::Serialize;
use std::path::Path;

/// The file that is meant, if one is.
pub(crate) fn place(file: &HistoryFile) -> Result<Place, Failure> {
    let found = Place::find(file.history.as_deref(), &Surroundings::read())?;
    found.ok_or_else(|| Failure::Wrong("no runs are kept: the history is off, by --history or $RAMPART_BENCH_HISTORY: name a file with --history FILE".to_owned()))
}

#[derive(Serialize)]
struct Listed<'a> {
    runs: &'a [RunRow],
    live: &'a [Live],
}

#[derive(Serialize)]
struct Shown<'a> {
    run: &'a RunRow,
    points: Vec<ShownPoint<'a>>,
}

#[derive(Serialize)]
struct ShownPoint<'a> {
    test: &'a str,
    levels: &'a std::collections::BTreeMap<String, measure::level::Level>,
    point: &'a measure::results::Point,
}

impl<'a> ShownPoint<'a> {
    fn of(stored: &'a StoredPoint) -> Self {
        Self { test: &stored.test, levels: &stored.levels, point: &stored.point }
    }
}

/// `history`.
pub(crate) fn history(args: &HistoryArgs, json: bool) -> Result<(), Failure> {
    let place = place(&args.file)?;
    match &args.what {
        HistoryCommand::List { filters } => {
            let store = Store::read(&place)?;
            let query = of_runs(filters);
            let runs: Vec<RunRow> = store.runs()?.into_iter().filter(|run| query.takes_run(run)).collect();
            let live = store.live()?;
            if json {
                return output::out_json(&Listed { runs: &runs, live: &live });
            }
            output::out(&text::runs(&runs, &live));
        }
        HistoryCommand::Show { id } => {
            let store = Store::read(&place)?;
            let (run, points) = (store.run(*id)?, store.points(Some(*id))?);
            if json {
                let points = points.iter().map(ShownPoint::of).collect();
                return output::out_json(&Shown { run: &run, points });
            }
            output::out(&text::run(&run, &points));
        }
        HistoryCommand::Import { folders } => {
            let mut store = Store::write(&place)?;
            let all: Vec<Imported> =
                folders.iter().flat_map(|folder| import::import(&mut store, folder)).collect();
            return imported(&all, json);
        }
        HistoryCommand::Forget { id } => {
            Store::write(&place)?.forget(*id)?;
            if json {
                return output::out_json(&serde_json::json!({ "forgotten": id }));
            }
        }
        HistoryCommand::Trend(args) => return trend(args, &Store::read(&place)?, json),
        HistoryCommand::Overlay { ids, points } => {
            let options = options(None, points)?;
            let found = overlay::overlay(&Store::read(&place)?, ids, &options)?;
            if json {
                return output::out_json(&found);
            }
            output::out(&text::overlay(&found));
        }
    }
    Ok(())
}

fn trend(args: &TrendArgs, store: &Store, json: bool) -> Result<(), Failure> {
    let found = trend::trends(store, &options(Some(&args.runs), &args.points)?)?;
    let over = match args.over {
        OverName::Time => return shown(&found, json, args.csv, text::trends, csv::trends),
        OverName::Commit => trend::by_version(&found),
        OverName::Machine => trend::by_machine(&found),
    };
    shown(over.as_slice(), json, args.csv, text::groups, csv::groups)
}

fn shown<T: Serialize + ?Sized>(
    found: &T,
    json: bool,
    csv: bool,
    text: impl Fn(&T) -> String,
    rows: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    if json {
        return output::out_json(&found);
    }
    output::out(&if csv { rows(found) } else { text(found) });
    Ok(())
}

/// What became of a folder, as `--json` shows it.
#[derive(Serialize)]
struct ImportedRow<'a> {
    folder: &'a Path,
    run: Option<i64>,
    /// `new`, `known` or `completed`; `refused` where there is no run.
    outcome: &'static str,
    error: Option<String>,
}

impl<'a> ImportedRow<'a> {
    fn of(one: &'a Imported) -> Self {
        let (run, outcome, error) = match &one.kept {
            Ok(Kept::New(id)) => (Some(*id), "new", None),
            Ok(Kept::Known(id)) => (Some(*id), "known", None),
            Ok(Kept::Completed(id)) => (Some(*id), "completed", None),
            Err(error) => (None, "refused", Some(error.to_string())),
        };
        Self { folder: &one.folder, run, outcome, error }
    }

    fn line(&self) -> Option<String> {
        let (folder, id) = (self.folder.display(), self.run?);
        Some(match self.outcome {
            "new" => format!("{folder}: kept as run {id}\n"),
            "known" => format!("{folder}: was kept before, as run {id}\n"),
            _ => format!("{folder}: more of run {id}, which was cut short\n"),
        })
    }
}

/// Says what became of each folder; one that could not be taken ends the command with status 2, when the others are in.
fn imported(all: &[Imported], json: bool) -> Result<(), Failure> {
    let rows: Vec<ImportedRow<'_>> = all.iter().map(ImportedRow::of).collect();
    if json {
        output::out_json(&rows)?;
    } else {
        rows.iter().filter_map(ImportedRow::line).for_each(|line| output::out(&line));
    }
    let errors = || all.iter().filter_map(|one| one.kept.as_ref().err());
    // What is wrong with the file of the runs is wrong for every folder.
    if let Some(error) = errors().find(|error| error.is_machine()) {
        return Err(Failure::Machine(error.to_string()));
    }
    let wrong: Vec<String> = errors().map(ToString::to_string).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Wrong(wrong.join("\n"))) }
}

fn of_runs(filters: &RunFilters) -> Query {
    Query {
        suites: filters.suite.clone(),
        profiles: filters.profile.clone(),
        machines: filters.machine.clone(),
        ..Query::default()
    }
}

fn options(runs: Option<&RunFilters>, points: &PointFilters) -> Result<Options, Failure> {
    let mut query = runs.map(of_runs).unwrap_or_default();
    query.tests.clone_from(&points.test);
    query.duts.clone_from(&points.dut);
    query.metrics = points.metric.iter().map(|key| metric(key)).collect::<Result<_, _>>()?;
    for levels in &points.set {
        query.with_levels(levels).map_err(|wrong| Failure::Wrong(format!("--set: {wrong}")))?;
    }
    Ok(Options { query, reference: points.reference.clone(), absolute: points.absolute })
}

fn metric(key: &str) -> Result<Metric, Failure> {
    let keys = || METRICS.iter().map(|(_, row)| row.key).collect::<Vec<_>>().join(", ");
    Metric::named(key).ok_or_else(|| {
        Failure::Wrong(format!("--metric: there is no metric named {key}: known are {}", keys()))
    })
}

/// Keeps a run. Whatever goes wrong with that is said once, and the run has its results all the same.
pub(crate) struct Keeper {
    place: Result<Option<Place>, HistoryError>,
}

impl Keeper {
    pub(crate) fn find(named: Option<&Path>) -> Self {
        Self { place: Place::find(named, &Surroundings::read()) }
    }

    /// Notes that the run goes on, for those who watch. It is kept when it ends, and only then is said what is wrong.
    pub(crate) fn begin(&self, folder: &Path, results: &Results, cells: usize, seconds: f64) {
        if let Ok(Some(place)) = &self.place {
            let live = Live::of_this_process(&whole(folder), results, cells as u32, seconds);
            let _ = Store::write(place).and_then(|mut store| store.begin(&live));
        }
    }

    /// Keeps the finished run.
    pub(crate) fn keep(&self, folder: &Path, results: &Results, suite: &str) {
        let kept = match &self.place {
            Ok(None) => return,
            Ok(Some(place)) => Store::write(place)
                .and_then(|mut store| store.record(&whole(folder), results, Some(suite)).map(drop)),
            Err(error) => return not_kept(error, folder),
        };
        if let Err(error) = kept {
            not_kept(&error, folder);
        }
    }
}

fn not_kept(error: &HistoryError, folder: &Path) {
    crate::say(&format!(
        "this run is not in the history: {error}\nits results are whole; `rampart-bench history import {}` takes them later",
        folder.display()
    ));
}

fn whole(folder: &Path) -> std::path::PathBuf {
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf())
}
