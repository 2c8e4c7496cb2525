//! The file: its tables, and runs going in and coming out. Every write is one transaction that waits for those of others.

use crate::error::HistoryError;
use crate::live::Live;
use crate::place::{AsOwner, Place};
use measure::level::Level;
use measure::results::{Metric, Point, Results, Role};
use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Row, Transaction, TransactionBehavior, params,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long a writer waits for others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The schema that this program writes, as SQLite's `user_version`.
const SCHEMA: i64 = 1;

/// Marks the file as ours, as SQLite's `application_id`: `RBHi`.
const APPLICATION: i64 = 0x5242_4869;

/// A point keeps its JSON of `rampart-bench/2`, so that a field which a later version adds needs no other table.
const TABLES: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL,
    suite TEXT NOT NULL,
    suite_hash TEXT,
    profile TEXT NOT NULL,
    seed TEXT NOT NULL,
    started TEXT NOT NULL,
    command TEXT NOT NULL,
    complete INTEGER NOT NULL,
    machine TEXT NOT NULL,
    hardware TEXT NOT NULL,
    kernel TEXT NOT NULL,
    versions TEXT NOT NULL,
    load_before REAL NOT NULL,
    stolen REAL NOT NULL
) STRICT;
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    test TEXT NOT NULL,
    dut TEXT NOT NULL,
    metric TEXT NOT NULL,
    levels TEXT NOT NULL
) STRICT;
CREATE TABLE points (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    series INTEGER NOT NULL REFERENCES series (id),
    role TEXT NOT NULL,
    point TEXT NOT NULL,
    PRIMARY KEY (run, series)
) STRICT, WITHOUT ROWID;
CREATE TABLE live (
    path TEXT PRIMARY KEY,
    suite TEXT NOT NULL,
    profile TEXT NOT NULL,
    started TEXT NOT NULL,
    cells INTEGER NOT NULL,
    seconds REAL NOT NULL,
    process INTEGER NOT NULL,
    process_started INTEGER NOT NULL
) STRICT;
";

/// A recorded run without its points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// Its number, from 1.
    pub id: i64,
    /// The folder of its results.
    pub path: String,
    /// Suite.
    pub suite: String,
    /// SHA-256 of the suite's text, in hexadecimal; none of an imported run, whose results do not hold it.
    pub suite_hash: Option<String>,
    /// `quick`, `standard` or `full`.
    pub profile: String,
    /// Seed, as text because JSON's numbers end at 2^53 in many programs.
    pub seed: String,
    /// When it started: RFC 3339, UTC.
    pub started: String,
    /// The command that repeats it.
    pub command: String,
    /// Whether it came to its end.
    pub complete: bool,
    /// Short identifier of the hardware: equal hardware has the same.
    pub machine: String,
    /// The hardware in words.
    pub hardware: String,
    /// Kernel release and version.
    pub kernel: String,
    /// Program to version, `commit` among them where `run --commit` named one.
    pub versions: BTreeMap<String, String>,
    /// One-minute load average before the run.
    pub load_before: f64,
    /// Share of processor time that the hypervisor took, 0 to 1.
    pub stolen: f64,
    /// Points.
    pub points: u32,
}

impl RunRow {
    /// The commit, or else the version that results know of a firewall: that of the program whose name its own begins with
    /// (`nft` of `nftables`, `rampart` of `rampart-tc`); of what the kernel does itself, the kernel's.
    pub fn version_of(&self, dut: &str) -> String {
        if let Some(commit) = self.versions.get("commit") {
            return commit.clone();
        }
        let programs = self.versions.iter().filter(|(program, _)| dut.starts_with(program.as_str()));
        let program = programs.max_by_key(|(program, _)| program.len());
        let kernel = || self.kernel.split(' ').next().unwrap_or_default().to_owned();
        program.map_or_else(kernel, |(_, version)| version.clone())
    }
}

/// A point as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPoint {
    /// Number of its run.
    pub run: i64,
    /// Test of the suite.
    pub test: String,
    /// Every factor and its level, cores and placement included.
    pub levels: BTreeMap<String, Level>,
    /// What its firewall is to the reader.
    pub role: Role,
    /// The point itself; its cell and trials are named in the run's folder only.
    pub point: Point,
}

/// What became of a run that was to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is new.
    New(i64),
    /// It was there already.
    Known(i64),
    /// It was there with fewer points, before it had ended.
    Completed(i64),
}

/// Whether there is a file, which SQLite alone says nothing clear about: it takes a device for an empty database.
fn is_there(path: &Path) -> Result<bool, HistoryError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(found) if found.is_dir() => Err(HistoryError::IsFolder(path.to_path_buf())),
        Ok(_) => Err(HistoryError::NoFile(path.to_path_buf())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(HistoryError::Hidden { path: path.to_path_buf(), source }),
    }
}

/// The opened file.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    place: Place,
    _rights: AsOwner,
}

impl Store {
    /// Opens the file to read it.
    ///
    /// # Errors
    /// [`HistoryError::None`] when it is not there, or what is wrong with it.
    pub fn read(place: &Place) -> Result<Self, HistoryError> {
        let rights = place.enter();
        let none = |found| HistoryError::None { path: place.path.clone(), found };
        if !is_there(&place.path)? {
            return Err(none("is not there"));
        }
        let store = Self::open(place, rights, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match store.schema()? {
            Some(SCHEMA) => Ok(store),
            Some(_) => Err(none("is empty")),
            None => Err(HistoryError::Foreign(place.path.clone())),
        }
    }

    /// Opens the file to write it, and makes it and its folder where they are not there.
    ///
    /// # Errors
    /// What is wrong with the file or its folder.
    pub fn write(place: &Place) -> Result<Self, HistoryError> {
        let rights = place.enter();
        if let Some(folder) = place.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let fault = |source| HistoryError::Folder { path: folder.into(), source };
            std::fs::create_dir_all(folder).map_err(fault)?;
        }
        is_there(&place.path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut store = Self::open(place, rights, flags)?;
        match store.schema()? {
            Some(SCHEMA) => {}
            Some(_) => store.make_tables()?,
            None => return Err(HistoryError::Foreign(place.path.clone())),
        }
        Ok(store)
    }

    fn open(place: &Place, rights: AsOwner, flags: OpenFlags) -> Result<Self, HistoryError> {
        let fault = |e: rusqlite::Error| HistoryError::of(&place.path, &e);
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&place.path, flags).map_err(fault)?;
        connection.busy_timeout(PATIENCE).map_err(fault)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(fault)?;
        Ok(Self { connection, place: place.clone(), _rights: rights })
    }

    /// The file's schema: 0 of one with no tables yet, none of another program's.
    fn schema(&self) -> Result<Option<i64>, HistoryError> {
        let pragma = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let found = || -> rusqlite::Result<(i64, i64, i64)> {
            let tables = "SELECT count(*) FROM sqlite_schema";
            let tables = self.connection.query_row(tables, [], |row| row.get(0))?;
            Ok((pragma("application_id")?, pragma("user_version")?, tables))
        };
        let (application, schema, tables) = found().map_err(|e| self.fault(&e))?;
        if application == APPLICATION && schema > SCHEMA {
            let path = self.place.path.clone();
            return Err(HistoryError::Newer { path, found: schema, known: SCHEMA });
        }
        Ok(match (application, tables) {
            (APPLICATION, _) => Some(schema),
            (_, 0) => Some(0),
            _ => None,
        })
    }

    fn make_tables(&mut self) -> Result<(), HistoryError> {
        let path = self.place.path.clone();
        let make = |connection: &mut Connection| -> rusqlite::Result<()> {
            let all = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Another run may have made them while this one waited.
            let tables: i64 = all.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables == 0 {
                all.execute_batch(TABLES)?;
                all.pragma_update(None, "application_id", APPLICATION)?;
                all.pragma_update(None, "user_version", SCHEMA)?;
            }
            all.commit()
        };
        make(&mut self.connection).map_err(|e| HistoryError::of(&path, &e))
    }

    fn fault(&self, error: &rusqlite::Error) -> HistoryError {
        HistoryError::of(&self.place.path, error)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// Notes that a run has begun in a folder.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn begin(&mut self, live: &Live) -> Result<(), HistoryError> {
        let sql = "INSERT OR REPLACE INTO live VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let Live { path, suite, profile, started, cells, seconds, process, process_started } = live;
        let values = params![path, suite, profile, started, cells, seconds, process, process_started];
        self.connection.execute(sql, values).map(drop).map_err(|e| self.fault(&e))
    }

    /// The runs that have begun and were not recorded since, whether their process lives or not.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn live(&self) -> Result<Vec<Live>, HistoryError> {
        let read = |row: &Row<'_>| {
            Ok(Live {
                path: row.get(0)?,
                suite: row.get(1)?,
                profile: row.get(2)?,
                started: row.get(3)?,
                cells: row.get(4)?,
                seconds: row.get(5)?,
                process: row.get(6)?,
                process_started: row.get(7)?,
            })
        };
        self.rows("SELECT * FROM live ORDER BY started", [], read)
    }

    /// Records a run: its results are in the folder `path`. One that is there already stays, unless it has more points now. What
    /// [`Store::begin`] noted of the folder is over.
    ///
    /// # Errors
    /// What is wrong with the file; then nothing was recorded.
    pub fn record(
        &mut self,
        path: &Path,
        results: &Results,
        suite_text: Option<&str>,
    ) -> Result<Kept, HistoryError> {
        let file = self.place.path.clone();
        let record = |connection: &mut Connection| -> rusqlite::Result<Kept> {
            let all = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let folder = path.to_string_lossy();
            all.execute("DELETE FROM live WHERE path = ?1", [&folder])?;
            let known = known(&all, &fingerprint(results))?;
            let kept = match known {
                Some((id, points, complete)) => {
                    let more = results.points.len() > points || (results.complete && !complete);
                    if more {
                        all.execute("DELETE FROM points WHERE run = ?1", [id])?;
                        all.execute(
                            "UPDATE runs SET path = ?2, complete = ?3, stolen = ?4 WHERE id = ?1",
                            params![id, folder, results.complete, results.environment.stolen],
                        )?;
                        insert_points(&all, id, results)?;
                    }
                    if more { Kept::Completed(id) } else { Kept::Known(id) }
                }
                None => {
                    let id = insert_run(&all, &folder, results, suite_text)?;
                    insert_points(&all, id, results)?;
                    Kept::New(id)
                }
            };
            all.commit()?;
            Ok(kept)
        };
        record(&mut self.connection).map_err(|e| HistoryError::of(&file, &e))
    }

    /// All runs, in the order of their starts.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn runs(&self) -> Result<Vec<RunRow>, HistoryError> {
        self.rows(&format!("{SELECT_RUN} ORDER BY started, id"), [], run_row)
    }

    /// One run.
    ///
    /// # Errors
    /// [`HistoryError::NoRun`], or what is wrong with the file.
    pub fn run(&self, id: i64) -> Result<RunRow, HistoryError> {
        let sql = format!("{SELECT_RUN} WHERE id = ?1");
        self.rows(&sql, [id], run_row)?.into_iter().next().ok_or(HistoryError::NoRun(id))
    }

    /// The points of the runs of a suite, of any suite when none is named; in the order in which runs hold them.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn points(&self, run: Option<i64>) -> Result<Vec<StoredPoint>, HistoryError> {
        let sql = "SELECT run, test, levels, role, point FROM points JOIN series ON series.id = points.series
                   WHERE ?1 IS NULL OR run = ?1 ORDER BY run, series.id";
        self.rows(sql, [run], |row| {
            Ok(StoredPoint {
                run: row.get(0)?,
                test: row.get(1)?,
                levels: json(row, 2)?,
                role: json(row, 3)?,
                point: json(row, 4)?,
            })
        })
    }

    /// Forgets a run; its folder stays.
    ///
    /// # Errors
    /// [`HistoryError::NoRun`], or what is wrong with the file.
    pub fn forget(&mut self, id: i64) -> Result<(), HistoryError> {
        let gone = self.connection.execute("DELETE FROM runs WHERE id = ?1", [id]);
        match gone.map_err(|e| self.fault(&e))? {
            0 => Err(HistoryError::NoRun(id)),
            _ => Ok(()),
        }
    }

    fn rows<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, HistoryError> {
        let all = || self.connection.prepare(sql)?.query_map(values, read)?.collect::<rusqlite::Result<_>>();
        all().map_err(|e| self.fault(&e))
    }
}

const SELECT_RUN: &str = "SELECT id, path, suite, suite_hash, profile, seed, started, command, complete, machine, hardware, kernel,
    versions, load_before, stolen, (SELECT count(*) FROM points WHERE run = id) FROM runs";

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        id: row.get(0)?,
        path: row.get(1)?,
        suite: row.get(2)?,
        suite_hash: row.get(3)?,
        profile: row.get(4)?,
        seed: row.get(5)?,
        started: row.get(6)?,
        command: row.get(7)?,
        complete: row.get(8)?,
        machine: row.get(9)?,
        hardware: row.get(10)?,
        kernel: row.get(11)?,
        versions: json(row, 12)?,
        load_before: row.get(13)?,
        stolen: row.get(14)?,
        points: row.get::<_, u32>(15)?,
    })
}

fn known(all: &Transaction<'_>, fingerprint: &str) -> rusqlite::Result<Option<(i64, usize, bool)>> {
    let sql =
        "SELECT id, (SELECT count(*) FROM points WHERE run = id), complete FROM runs WHERE fingerprint = ?1";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)? as usize, row.get(2)?));
    all.query_row(sql, [fingerprint], read).optional()
}

fn insert_run(
    all: &Transaction<'_>,
    folder: &str,
    results: &Results,
    suite_text: Option<&str>,
) -> rusqlite::Result<i64> {
    let env = &results.environment;
    let sql = "INSERT INTO runs (fingerprint, path, suite, suite_hash, profile, seed, started, command, complete, machine, hardware,
        kernel, versions, load_before, stolen) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
    let hardware = hardware(results);
    all.execute(
        sql,
        params![
            fingerprint(results),
            folder,
            results.suite,
            suite_text.map(|text| hash(text.as_bytes())),
            results.profile,
            results.seed.to_string(),
            results.started,
            results.command,
            results.complete,
            &hash(hardware.as_bytes())[..8],
            hardware,
            env.kernel,
            to_json(&env.versions)?,
            env.load_before,
            env.stolen,
        ],
    )?;
    Ok(all.last_insert_rowid())
}

fn insert_points(all: &Transaction<'_>, run: i64, results: &Results) -> rusqlite::Result<()> {
    let mut series = all.prepare(
        "INSERT OR IGNORE INTO series (key, test, dut, metric, levels) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut find = all.prepare("SELECT id FROM series WHERE key = ?1")?;
    let mut insert = all.prepare("INSERT OR REPLACE INTO points VALUES (?1, ?2, ?3, ?4)")?;
    for reading in results.readings() {
        let levels = reading.levels();
        let key = key(reading.test(), &reading.dut, reading.metric, &levels);
        let metric = reading.metric.row().key;
        series.execute(params![key, reading.test(), reading.dut, metric, to_json(&levels)?])?;
        let id: i64 = find.query_row([&key], |row| row.get(0))?;
        let point = Point { deciding: Vec::new(), typical: None, ..reading.point.clone() };
        insert.execute(params![run, id, to_json(&reading.role)?, to_json(&point)?])?;
    }
    Ok(())
}

/// What a series of points is known by.
pub(crate) fn key(test: &str, dut: &str, metric: Metric, levels: &BTreeMap<String, Level>) -> String {
    let levels: Vec<String> = levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    format!("{test}\n{dut}\n{}\n{}", metric.row().key, levels.join("\n"))
}

/// The hardware in words; memory to the GiB, because kernels differ in what they keep of it.
fn hardware(results: &Results) -> String {
    let env = &results.environment;
    let gib = (env.memory_bytes as f64 / f64::from(1 << 30)).round();
    format!("{}, {} cores, {gib} GiB, {}", env.cpu, env.cores, env.virtualization)
}

/// What tells a run from all others, wherever its folder is.
fn fingerprint(results: &Results) -> String {
    let env = &results.environment;
    let parts = [
        &results.suite,
        &results.profile,
        &results.seed.to_string(),
        &results.started,
        &results.command,
        &env.cpu,
        &env.kernel,
        &env.memory_bytes.to_string(),
    ];
    hash(parts.map(String::as_str).join("\0").as_bytes())
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn to_json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    let fault = |e: serde_json::Error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, e.into())
    };
    serde_json::from_str(&text).map_err(fault)
}
