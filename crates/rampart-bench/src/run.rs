//! `run`: from a suite to a report. Wires plan, beds, engine and campaign together; decides nothing about measuring.

use crate::between::{self, Between, Named, Where};
use crate::cli::{PlacementName, ProfileName, RunArgs};
use crate::failure::Failure;
use crate::history::Keeper;
use crate::interrupt::Interrupt;
use crate::machine::{self, command_line};
use crate::progress::Display;
use crate::rig::{self, Shared};
use crate::{calibrate, dry_run, expectations, output};
use measure::campaign::{self, Outcome};
use measure::plan::{Options, Plan, PlannedCell};
use measure::results::{Environment, Firewall, Mark, MarkKind, Point, Results, Role, SCHEMA, Sent};
use measure::shape::{Placement, Setup, Workload};
use measure::suite::{Profile, Suite};
use measure::trial::{Rig, RigError, TrialOutcome, TrialRequest};
use report::journal::{self, Header, Writer};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;
use testbed::Change;
use testbed::cpu::CpuSnapshot;
use testbed::dut::{self, Requirement};
use testbed::machine_lock::MachineLock;
use testbed::priority::SessionPriority;
use testbed::tables::ConntrackSize;
use traffic::Engine;

/// Why nothing is valid is said in so many lines at most; the report has all.
const REASONS_SHOWN: usize = 5;

/// Bytes of the largest suite.
const LARGEST_SUITE: u64 = 4 << 20;

/// Among the environment's settings: what decides about the processor between the bench and others.
const SESSION_PRIORITY: &str = "priority of the session";

/// What a reader must know of a run that was led from here and made elsewhere.
const ELSEWHERE: [&str; 2] = [
    "Generator and sink were at two other hosts: what stands here of the machine is of the one that led them. At each value stands which hosts they were.",
    "The generators of the hosts were not calibrated by this run: `rampart-bench calibrate` does that at each.",
];

/// Runs a suite.
pub(crate) fn run(args: &RunArgs, json: bool) -> Result<(), Failure> {
    let suite = read_suite(&args.suite)?;
    // Until here there is nothing to take down, so Ctrl-C ends the program as it ends any other, also one that waits for a file.
    let interrupt = &Interrupt::install()?;
    let named = between::named(args)?;
    let duts = args.dut.as_deref().map(between::with_programs).transpose()?;
    let plan = Plan::new(&suite, &options(args, named.as_ref(), duts))?;
    let expectations = expectations::check(&suite, args.dut.is_some())?;
    check_names(&plan, named.as_ref(), args.dut.is_none().then_some(&suite))?;
    if args.dry_run {
        return dry_run::show(&plan, json);
    }
    // Before the run waits for another one to end, perhaps for hours: everything that can be wrong with the command and needs nothing of
    // the machine.
    args.out.as_deref().map_or(Ok(()), |dir| check_free(dir).and_then(|()| check_writable(dir)))?;
    let extras = output::extras(&suite)?;
    check_needs(&plan)?;
    check_between_hosts(&plan, args)?;
    check_own_stacks(&plan, args)?;
    named.as_ref().map_or(Ok(()), |named| named.check(&plan, args))?;
    // Who leads agents sends nothing from here.
    let _alone = if args.agents.is_none() { Some(take_machine(&plan, interrupt)?) } else { None };
    let between = named.map(|named| named.taken(args)).transpose()?;
    let dir = folder(args, &suite.name)?;
    let keeper = Keeper::find(args.file.history.as_deref());
    let mut run = Run::begin(args, &suite, &plan, &dir, between, interrupt)?;
    keeper.begin(&dir, &run.results, plan.cells.len(), plan.typical_seconds());
    let ended = run.cells(&plan);
    let results = run.end(ended.is_ok())?;
    // A disk that is full costs the files, and not what was measured for hours: it is still shown.
    let written = report::write_all(&dir, &results, &extras);
    output::print(&results, written.as_deref().unwrap_or_default(), json);
    keeper.keep(&dir, &results, &suite.text);
    let judged = ended
        .and_then(|()| written.map(drop).map_err(|error| not_written(&error, &dir)))
        .and_then(|()| check_validity(&results))
        .and_then(|()| expectations::judge(&expectations, &results, json));
    output::print_ending(&results, extras, json);
    judged
}

/// Has this machine for the run alone, without what a killed run left.
fn take_machine(plan: &Plan, interrupt: &Interrupt) -> Result<MachineLock, Failure> {
    check_root()?;
    let generating = plan.cells.iter().map(|cell| cell.setup.traffic.cores).max().unwrap_or(1);
    testbed::quota::check_for(generating)?;
    let alone = machine::alone(interrupt)?;
    for change in testbed::leftovers::remove()? {
        crate::say(&format!("removed what a killed run left: {}", change_words(&change)));
    }
    Ok(alone)
}

/// The report could not be written: it can be, later, of what is in the journal.
fn not_written(error: &report::ReportError, dir: &Path) -> Failure {
    Failure::Machine(format!(
        "{error}\nwhat {} holds is safe: make room, and `rampart-bench report {}` writes the report of it",
        dir.join(journal::FILE_NAME).display(),
        dir.display()
    ))
}

/// What a killed run left, in words.
pub(crate) fn change_words(change: &Change) -> String {
    match change {
        Change::Namespace(name) => format!("namespace {name}"),
        Change::Setting { path, before } => format!("{} is {before} again", path.display()),
        Change::Process { pid, .. } => format!("process {pid}"),
        Change::Folder(path) => format!("folder {}", path.display()),
        Change::ControlGroup(path) => format!("control group {}", path.display()),
        Change::Address { interface, address } => format!("address {address} of {interface}"),
        Change::LinkUp(interface) => format!("{interface} is down again"),
        Change::Autogroup { number, before } => format!("autogroup {number} is at nice {before} again"),
    }
}

/// A suite by name or path.
pub(crate) fn read_suite(name: &str) -> Result<Suite, Failure> {
    let parse = |file: &str, text: &str| Suite::parse(file, text).map_err(Failure::wrong_text);
    // Whoever has seen the suites' files may write one's name with the ending.
    let without_ending = name.strip_suffix(".toml").filter(|_| !Path::new(name).exists()).unwrap_or(name);
    if let Some(text) = measure::suite::builtin(without_ending) {
        let name = without_ending;
        return parse(&format!("suites/{name}.toml"), text);
    }
    let looks_like_path = name.contains(['/', '.']);
    match read_text(name) {
        Ok(text) => parse(name, &text),
        Err(error) if looks_like_path => {
            Err(Failure::Wrong(format!("cannot read the suite {name}: {error}")))
        }
        Err(_) => {
            let suggestion = toml_reader::suggestion(name, measure::suite::builtin_names());
            Err(Failure::Wrong(format!(
                "there is no suite named {name}: {suggestion} (`rampart-bench list suites` shows all; a file needs a path, for \
                 example ./{name}.toml)"
            )))
        }
    }
}

/// The text of a file, or of what looks like one, such as a pipe. What is larger than any suite is none, and may have no end.
fn read_text(path: &str) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LARGEST_SUITE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_SUITE {
        return Err(std::io::Error::other(format!("no suite is larger than {} MiB", LARGEST_SUITE >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        std::io::Error::other(format!("line {line} is not UTF-8 text: save the file as UTF-8"))
    })
}

fn options(args: &RunArgs, named: Option<&Named>, duts: Option<Vec<String>>) -> Options {
    Options {
        profile: args.profile.map(|p| match p {
            ProfileName::Quick => Profile::Quick,
            ProfileName::Standard => Profile::Standard,
            ProfileName::Full => Profile::Full,
        }),
        duts: match named {
            // The box first, then what it is to be compared with.
            Some(named) => Some([&[named.name().to_owned()], duts.as_deref().unwrap_or_default()].concat()),
            None => duts,
        },
        placement: match (args.placement, args.ports.as_ref().or(args.agents.as_ref())) {
            // A firewall between two cards has a machine of its own.
            (None, Some(_)) => Some(Placement::Isolated),
            (placement, _) => placement.map(|p| match p {
                PlacementName::Inline => Placement::Inline,
                PlacementName::Isolated => Placement::Isolated,
            }),
        },
        cores: args.cores,
        seed: args.seed,
        set: args.set.clone(),
        cores_available: Some(testbed::placement::cores_online().len() as u32),
    }
}

/// Whether there are all firewalls of the plan.
fn check_names(plan: &Plan, named: Option<&Named>, written_in: Option<&Suite>) -> Result<(), Failure> {
    let known = || dut::all().into_iter().map(|driver| driver.name());
    let is_nowhere =
        |name: &str| name == dut::UNNAMED_BOX && named.is_none_or(|named| named.name() != dut::UNNAMED_BOX);
    let wrong = |name: &&str| dut::driver(name).is_err() || is_nowhere(name);
    let Some(name) = names(plan).into_iter().find(wrong) else { return Ok(()) };
    let (what, help) = if is_nowhere(name) {
        (
            format!("{name} is a box between two interfaces, and the command names none for it"),
            "name them: --ports IF1,IF2, or --agents A,B for two hosts (docs/guide/your-own-firewall.md); or other firewalls: --dut A,B".to_owned(),
        )
    } else if name.split_whitespace().nth(1).is_some_and(|next| known().any(|known| known == next)) {
        let listed: Vec<&str> = name.split_whitespace().collect();
        (
            format!("there is no firewall under test named {name}"),
            format!("write commas between names: {}", listed.join(",")),
        )
    } else {
        (
            format!("there is no firewall under test named {name}"),
            format!("{} (`rampart-bench list duts` shows all)", toml_reader::suggestion(name, known())),
        )
    };
    let place = |suite: &Suite| suite.duts.iter().find(|dut| dut.value == name).map(|dut| dut.span.clone());
    Err(match written_in.and_then(|suite| Some((suite, place(suite)?))) {
        Some((suite, span)) => Failure::wrong_text(suite.problem(span, what, Some(help))),
        None => Failure::Wrong(format!("{what}: {help}")),
    })
}

/// What the firewalls need, before anything is built.
fn check_needs(plan: &Plan) -> Result<(), Failure> {
    let mut lacking = Vec::new();
    let mut there = Vec::new();
    for name in names(plan) {
        match dut::driver(name)?.requirements().iter().find_map(|requirement| requirement.check().err()) {
            Some(error) => lacking.push((name, error)),
            None => there.push(name),
        }
    }
    let Some((first, _)) = lacking.first() else { return Ok(()) };
    let why: Vec<String> = lacking.iter().map(|(name, error)| format!("{name}: {error}")).collect();
    let without = if there.is_empty() {
        String::new()
    } else {
        let those = if lacking.len() == 1 { first } else { "those" };
        format!("\nor measure without {those}: --dut {}", there.join(","))
    };
    Err(Failure::Machine(format!(
        "{}{without}\n`rampart-bench doctor` shows everything that this machine lacks",
        why.join("\n")
    )))
}

fn names(plan: &Plan) -> BTreeSet<&str> {
    plan.cells.iter().flat_map(|cell| &cell.duts).map(String::as_str).collect()
}

/// A run from which nothing can be used must not look like one that went well.
fn check_validity(results: &Results) -> Result<(), Failure> {
    if results.points.is_empty() || results.points.iter().any(|point| point.valid) {
        return Ok(());
    }
    let mut reasons: Vec<String> = Vec::new();
    let marks = results.points.iter().flat_map(|p| p.marks.iter().map(|mark| (&p.dut, mark)));
    for (dut, mark) in marks.filter(|(_, mark)| mark.kind.invalidates()) {
        let reason = format!("{dut}: {}: {}", mark.kind.row().name, mark.text);
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.truncate(REASONS_SHOWN);
    Err(Failure::Machine(format!("no value of this run is valid:\n  {}", reasons.join("\n  "))))
}

/// Bulk transfers and applications need network stacks of their own at both ends, and bulk transfers a program.
fn check_own_stacks(plan: &Plan, args: &RunArgs) -> Result<(), Failure> {
    for cell in &plan.cells {
        let (what, program) = match cell.setup.workload {
            Workload::Bulk(_) => ("bulk transfers", Some(rig::BULK_PROGRAM)),
            Workload::Application(_) => ("application traffic", None),
            Workload::Frames | Workload::Connections(_) => continue,
        };
        if let Some(ports) = &args.ports {
            return Err(Failure::Wrong(format!(
                "--ports {}: test {} is of {what}, which needs a network stack at each end; between two interfaces of one \
                 machine it is not in this version",
                ports.join(","),
                cell.cell.test
            )));
        }
        program.map_or(Ok(()), |program| Requirement::Program(program).check())?;
    }
    Ok(())
}

/// Agents send and count frames, and nothing else in this version.
fn check_between_hosts(plan: &Plan, args: &RunArgs) -> Result<(), Failure> {
    let Some(agents) = &args.agents else { return Ok(()) };
    for cell in &plan.cells {
        let what = match cell.setup.workload {
            Workload::Frames => continue,
            Workload::Connections(_) => {
                "connections, which --ports measures between two interfaces of one machine"
            }
            Workload::Bulk(_) => "bulk transfers",
            Workload::Application(_) => "application traffic",
        };
        return Err(Failure::Wrong(format!(
            "--agents {}: between two hosts there are tests of frames only in this version, and test {} is of {what}",
            agents.join(","),
            cell.cell.test
        )));
    }
    Ok(())
}

pub(crate) fn check_root() -> Result<(), Failure> {
    if is_root() { Ok(()) } else { Err(testbed::TestbedError::NotRoot.into()) }
}

/// Whether the effective user of this process is root, as the kernel tells it.
pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|l| l.starts_with("Uid:") && l.split_whitespace().nth(2) == Some("0"))
}

/// The run's folder, made and empty of runs.
fn folder(args: &RunArgs, suite: &str) -> Result<PathBuf, Failure> {
    let stamp = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(':', "");
    let dir = args.out.clone().unwrap_or_else(|| PathBuf::from("out").join(format!("{suite}-{stamp}")));
    let wrong = |e: std::io::Error| Failure::Wrong(format!("cannot make the folder {}: {e}", dir.display()));
    std::fs::create_dir_all(&dir).map_err(wrong)?;
    check_free(&dir)?;
    Ok(dir)
}

/// Whether files can be written into a folder that may have to be made. Leaves nothing behind.
fn check_writable(dir: &Path) -> Result<(), Failure> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    let file = dir.join(".rampart-bench-tries");
    let tried = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&file, "."))
        .and_then(|()| std::fs::remove_file(&file));
    for made in missing {
        // Where it could not be made there is nothing to remove.
        let _ = std::fs::remove_dir(made);
    }
    tried.map_err(|error| {
        let dir = dir.display();
        Failure::Wrong(format!("cannot write into the folder {dir}: {error}: name another with --out"))
    })
}

/// Whether a folder holds no run, and can be one.
fn check_free(dir: &Path) -> Result<(), Failure> {
    let wrong = |why: &str| Err(Failure::Wrong(format!("{} {why}", dir.display())));
    if dir.exists() && !dir.is_dir() {
        return wrong("is no folder: name one with --out that is there, or that can be made");
    }
    if dir.join("points.jsonl").exists() || dir.join("results.json").exists() {
        return wrong("holds a run already: choose another folder with --out, or remove it");
    }
    Ok(())
}

/// A run under way.
struct Run {
    shared: Shared,
    journal: Writer,
    results: Results,
    display: Display,
    cpu: CpuSnapshot,
    _tables: Option<ConntrackSize>,
    _priority: SessionPriority,
}

impl Run {
    fn begin(
        args: &RunArgs,
        suite: &Suite,
        plan: &Plan,
        dir: &Path,
        between: Option<Between>,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let tables = tracked_connections(plan).map(ConntrackSize::raise).transpose()?;
        let priority = SessionPriority::raise();
        let most = |of: Sent| {
            let cells = plan.cells.iter().filter(|c| c.cell.workload == of);
            cells.map(|c| c.setup.traffic.flows).max()
        };
        let flows = most(Sent::Frames).unwrap_or(1);
        let elsewhere = between.as_ref().is_some_and(|it| matches!(it.ports, Where::Hosts(_)));
        let mut shared = match between {
            Some(between) if elsewhere => Shared::elsewhere(between, interrupt),
            between => {
                let engine = Engine::load(flows.max(calibrate::PACED_FLOWS))?;
                Shared { between: between.map(Rc::new), ..Shared::new(engine, interrupt) }
            }
        };
        if let Some(connections) = most(Sent::Connections) {
            shared = shared.with_connections(connections)?;
        }
        let mut environment = environment(plan, &priority);
        let commit = args.commit.iter().map(|commit| ("commit".to_owned(), commit.clone()));
        environment.versions.extend(commit);
        if elsewhere {
            environment.remarks.extend(ELSEWHERE.map(str::to_owned));
        }
        let calibration = match elsewhere || args.no_calibration {
            true => Vec::new(),
            false => calibrate::brief(&shared, flows, plan.typical_seconds())?,
        };
        let results = Results {
            schema: SCHEMA.to_owned(),
            converted_from: None,
            suite: suite.name.clone(),
            profile: plan.profile.name().to_owned(),
            seed: plan.seed,
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            command: command_line(),
            complete: false,
            environment,
            calibration,
            tick_sheet: suite.ticks.clone(),
            mixes: plan.mixes(),
            firewalls: firewalls(plan),
            cells: Vec::new(),
            runs: Vec::new(),
            points: Vec::new(),
        };
        let journal = Writer::create(dir, &Header::of(&results))?;
        Ok(Self {
            shared,
            journal,
            results,
            display: Display::new(plan.typical_seconds()),
            cpu: CpuSnapshot::take(&[], &[], None)?,
            _tables: tables,
            _priority: priority,
        })
    }

    fn cells(&mut self, plan: &Plan) -> Result<(), Failure> {
        for (number, planned) in plan.cells.iter().enumerate() {
            self.display.cell(number + 1, plan.cells.len(), &title(planned), planned.typical_seconds());
            let outcome = self.cell(planned)?;
            for entry in journal::entries(&outcome.cell, &outcome.runs, &outcome.points) {
                // A journal that cannot be written (a full disk) says so once; the run goes on and keeps its results.
                if let Err(full) = self.journal.append(entry) {
                    self.display.say(&full.to_string());
                }
            }
            self.display.points(&outcome);
            self.results.cells.push(outcome.cell);
            self.results.runs.extend(outcome.runs);
            self.results.points.extend(outcome.points);
            if outcome.interrupted {
                return Err(Failure::Interrupted);
            }
        }
        Ok(())
    }

    /// Builds the rigs of a cell, measures, and takes them down.
    fn cell(&mut self, planned: &PlannedCell) -> Result<Outcome, Failure> {
        let mut rigs: Vec<Box<dyn Rig>> = Vec::new();
        for name in &planned.duts {
            if self.shared.interrupt.asked() {
                return Err(Failure::Interrupted);
            }
            rigs.push(match rig::build(name, planned, &self.shared) {
                Ok(rig) => rig,
                Err(RigError::Interrupted) => return Err(Failure::Interrupted),
                Err(RigError::Broken(why)) => {
                    Box::new(Unbuilt { dut: name.clone(), why: RigError::NotSetUp(why) })
                }
                Err(why) => Box::new(Unbuilt { dut: name.clone(), why }),
            });
        }
        let mut outcome = campaign::run(&planned.cell, &mut rigs, &mut self.display);
        for point in &mut outcome.points {
            note_remark(point, &planned.setup);
            self.note_hosts(point);
        }
        Ok(outcome)
    }

    /// Which hosts a value is of, and how well the bench knows their clocks.
    fn note_hosts(&self, point: &mut Point) {
        let between = self.shared.between.as_ref().map(|between| &between.ports);
        let Some(Where::Hosts(link)) = between else { return };
        let Some(hosts) = link.hosts.borrow().clone() else { return };
        point.marks.push(Mark::new(MarkKind::Note, hosts));
        if point.clock_error > 0.0 {
            let error = report::units::value(&point.unit, point.clock_error);
            let text = format!(
                "the offset of the two hosts' clocks is known to ± {error}, which is in the interval"
            );
            point.marks.push(Mark::new(MarkKind::Note, text));
        }
    }

    fn end(mut self, complete: bool) -> Result<Results, Failure> {
        self.display.finish();
        self.results.complete = complete;
        self.results.environment.load_after = testbed::environment::load_average();
        self.results.environment.stolen = CpuSnapshot::take(&[], &[], None)?.stolen_since(&self.cpu);
        report::harmless(self.results).map_err(|defect| report::ReportError::Render(defect).into())
    }
}

/// Entries that the kernel's connection table needs, if any firewall of the plan tracks connections. Namespaces share the
/// table's size, and the beds of a cell hold their connections at the same time.
fn tracked_connections(plan: &Plan) -> Option<u64> {
    let tracked = plan.cells.iter().filter(|c| c.setup.policy.stateful || c.setup.policy.nat);
    tracked
        .map(|c| u64::from(c.setup.traffic.flows) * c.duts.iter().map(|dut| ends(dut, &c.setup)).sum::<u64>())
        .max()
}

/// Connections in the table for each that a client opens: a proxy has another one to the server.
fn ends(dut: &str, setup: &Setup) -> u64 {
    let Workload::Application(shape) = &setup.workload else { return 1 };
    let driver = dut::driver(dut).ok();
    let relays = |protocol| driver.is_some_and(|driver| driver.relays(protocol).is_some());
    1 + u64::from(shape.protocol.protocols().into_iter().any(relays))
}

/// A firewall that could not be set up: it has no value, and the others go on.
struct Unbuilt {
    dut: String,
    why: RigError,
}

impl Rig for Unbuilt {
    fn dut(&self) -> &str {
        &self.dut
    }

    fn prove(&mut self) -> Result<(), RigError> {
        Err(self.why.clone())
    }

    fn trial(&mut self, _request: &TrialRequest) -> Result<TrialOutcome, RigError> {
        Err(self.why.clone())
    }
}

fn note_remark(point: &mut Point, setup: &Setup) {
    let Ok(driver) = dut::driver(&point.dut) else { return };
    // Of what only forwards, the remark says no more than its role.
    let kind = if driver.role() == Role::Firewall { MarkKind::Note } else { MarkKind::Baseline };
    if let Some(text) = driver.remark(&setup.policy) {
        point.marks.push(Mark::new(kind, text));
    }
}

pub(crate) fn title(planned: &PlannedCell) -> String {
    let levels: Vec<String> = planned
        .varying
        .iter()
        .filter_map(|factor| {
            let level = planned.cell.factors.get(factor).map(ToString::to_string).or_else(|| match factor
                .as_str()
            {
                "cores" => Some(planned.cell.cores.to_string()),
                _ => None,
            })?;
            Some(format!("{factor}={level}"))
        })
        .collect();
    format!("{} {}", planned.cell.test, levels.join(" "))
}

/// The firewalls of a plan in the order of reports, which is that of their drivers.
fn firewalls(plan: &Plan) -> Vec<Firewall> {
    let planned = |name: &str| plan.cells.iter().any(|cell| cell.duts.iter().any(|dut| dut == name));
    (0..)
        .zip(dut::all())
        .filter(|(_, driver)| planned(driver.name()))
        .map(|(order, driver)| Firewall { name: driver.name().to_owned(), role: driver.role(), order })
        .collect()
}

/// The machine, with the versions of the firewalls that are measured and what the run may have of the processor.
fn environment(plan: &Plan, priority: &SessionPriority) -> Environment {
    let drivers: Vec<_> = names(plan).into_iter().filter_map(|name| dut::driver(name).ok()).collect();
    let mut environment = testbed::environment::describe(&drivers);
    if plan.cells.iter().any(|c| matches!(c.setup.workload, Workload::Bulk(_))) {
        let version = testbed::guest::version(rig::BULK_PROGRAM);
        environment.versions.extend(version.map(|line| (rig::BULK_PROGRAM.to_owned(), line)));
    }
    environment.versions.insert("rampart-bench".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    environment.settings.insert(SESSION_PRIORITY.to_owned(), priority.description().to_owned());
    if priority.refused() {
        environment
            .remarks
            .push(format!("The bench shares the processor with other sessions: {}.", priority.description()));
    }
    environment
}
