//! From a suite and the user's options to the list of cells to measure. Pure: it knows neither the machine (the caller
//! says how many cores there are) nor what a firewall can do.

use crate::campaign::Cell;
use crate::mix::StatedMix;
use crate::procedure;
use crate::results::Sent;
use crate::shape::{Placement, Setup, Workload};
use crate::suite::{
    Factor, Layout, Levels, MAX_COMBINATIONS, Problems, Profile, SetupProblem, Suite, Test, Value, Variant,
    combination_count, combinations, describe,
};
use std::collections::BTreeMap;

/// Seed unless the user names one.
pub const DEFAULT_SEED: u64 = 1;

/// What the user may say about a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--profile`; the suite's default otherwise.
    pub profile: Option<Profile>,
    /// `--dut A,B`; the suite's otherwise. Whether there are such firewalls is for the caller to check.
    pub duts: Option<Vec<String>>,
    /// `--placement`, instead of the suite's factor.
    pub placement: Option<Placement>,
    /// `--cores N`, instead of the suite's factor.
    pub cores: Option<u32>,
    /// `--seed N`; [`DEFAULT_SEED`] otherwise.
    pub seed: Option<u64>,
    /// Every `--set`, as written: `FACTOR=V[,V…]`; each factor once.
    pub set: Vec<String>,
    /// Cores of this machine; `None` leaves the check to the caller.
    pub cores_available: Option<u32>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum PlanError {
    /// The suite's text asks for what cannot be.
    #[error("{0}")]
    #[diagnostic(transparent)]
    Suite(Problems),
    /// An option is wrong.
    #[error("{option}: {message}")]
    Option {
        /// The option as the user wrote it.
        option: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// The options make a combination that cannot be.
    #[error("test {test} of suite {suite}, with {levels}: {problem}")]
    Combination {
        /// Suite.
        suite: String,
        /// Test.
        test: String,
        /// The combination.
        levels: String,
        /// Why it cannot be.
        problem: SetupProblem,
    },
    /// This machine cannot do what is right by itself.
    #[error("test {test} of suite {suite}: {problem}")]
    Machine {
        /// Suite.
        suite: String,
        /// Test.
        test: String,
        /// Always [`SetupProblem::MachineCannot`].
        problem: SetupProblem,
    },
}

impl PlanError {
    /// The exit status that goes with it: 3 when the machine cannot, 2 when the command or a file is wrong.
    pub const fn exit_status(&self) -> u8 {
        match self {
            PlanError::Machine { .. } => 3,
            PlanError::Suite(_) | PlanError::Option { .. } | PlanError::Combination { .. } => 2,
        }
    }
}

/// Everything that a run measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The suite's name.
    pub suite: String,
    /// The profile.
    pub profile: Profile,
    /// Seed of every pseudorandom choice.
    pub seed: u64,
    /// The cells, in the order in which they are measured.
    pub cells: Vec<PlannedCell>,
}

/// One cell: a test under one level of every factor, on every firewall.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCell {
    /// What the campaign measures.
    pub cell: Cell,
    /// What beds and generators are built from.
    pub setup: Setup,
    /// The firewalls compared.
    pub duts: Vec<String>,
    /// How the report lays the test out.
    pub layout: Layout,
    /// The factors of this test that have more than one level in the plan, for short labels.
    pub varying: Vec<String>,
}

impl Plan {
    /// Makes the plan of a run.
    ///
    /// # Errors
    /// [`PlanError`]: an option, a combination or the machine; its exit status is 2 or 3.
    pub fn new(suite: &Suite, options: &Options) -> Result<Self, PlanError> {
        let profile = profile(suite, options)?;
        let overrides = overrides(suite, options)?;
        let duts = duts(suite, options)?;
        let seed = options.seed.unwrap_or(DEFAULT_SEED);
        let mut cells = Vec::new();
        for test in &suite.tests {
            let Some(variant) = test.variant(profile) else { continue };
            let planned = TestPlan { suite, test, variant, overrides: &overrides, duts: &duts, seed };
            cells.extend(planned.cells(options.cores_available)?);
        }
        for (id, planned) in (0..).zip(&mut cells) {
            planned.cell.id = id;
        }
        refuse_idle_overrides(suite, profile, &overrides)?;
        Ok(Self { suite: suite.name.clone(), profile, seed, cells })
    }

    /// The mixes of applications that its cells carry, each once.
    pub fn mixes(&self) -> Vec<StatedMix> {
        let mut found: Vec<StatedMix> = Vec::new();
        for planned in &self.cells {
            let Workload::Application(shape) = &planned.setup.workload else { continue };
            let stated =
                shape.protocol.stated().filter(|mix| found.iter().all(|other| other.name != mix.name));
            found.extend(stated.map(|mix| mix.stated()));
        }
        found
    }

    /// Roughly how many seconds the run takes: see [`PlannedCell::typical_seconds`].
    pub fn typical_seconds(&self) -> f64 {
        self.cells.iter().map(PlannedCell::typical_seconds).sum()
    }
}

/// One test being planned.
struct TestPlan<'a> {
    suite: &'a Suite,
    test: &'a Test,
    variant: &'a Variant,
    overrides: &'a BTreeMap<Factor, Vec<Value>>,
    duts: &'a [String],
    seed: u64,
}

impl TestPlan<'_> {
    fn cells(&self, cores_available: Option<u32>) -> Result<Vec<PlannedCell>, PlanError> {
        let mut factors = self.variant.factors.clone();
        let mattering = self.overrides.iter().filter(|(factor, _)| factor.matters_to(self.test.procedure));
        factors.extend(mattering.map(|(factor, levels)| (*factor, levels.clone())));
        let count = combination_count(&factors);
        if count > MAX_COMBINATIONS {
            let message = format!(
                "test {} would have {count} combinations, more than {MAX_COMBINATIONS}",
                self.test.name
            );
            return Err(PlanError::Option { option: "--set".into(), message });
        }
        let combined = combinations(self.test.procedure, &factors, self.seed)
            .map_err(|(levels, problem)| self.cannot(levels, problem))?;
        for (levels, setup) in &combined {
            self.variant
                .check(self.test.procedure, levels, setup)
                .map_err(|problem| self.cannot(describe(levels, &factors), problem))?;
        }
        self.check_loads(&combined)?;
        if let Some(available) = cores_available {
            for (levels, _) in &combined {
                levels.check_machine(available).map_err(|problem| PlanError::Machine {
                    suite: self.suite.name.clone(),
                    test: self.test.name.clone(),
                    problem,
                })?;
            }
        }
        let varying: Vec<String> = factors
            .iter()
            .filter(|(_, levels)| levels.len() > 1)
            .map(|(factor, _)| factor.name().to_owned())
            .collect();
        Ok(combined
            .into_iter()
            .map(|(levels, setup)| self.cell(&levels, &factors, setup, &varying))
            .collect())
    }

    fn cannot(&self, levels: String, problem: SetupProblem) -> PlanError {
        PlanError::Combination {
            suite: self.suite.name.clone(),
            test: self.test.name.clone(),
            levels,
            problem,
        }
    }

    /// `--set link=none` may take away the rate that a load is a share of.
    fn check_loads(&self, combined: &[(Levels, Setup)]) -> Result<(), PlanError> {
        let no_rate = combined.iter().any(|(_, setup)| setup.link_bits_per_second.is_none());
        if self.variant.needs_link() && no_rate {
            let message = format!(
                "test {} has a load that is a share of the link, so the link needs a rate",
                self.test.name
            );
            return Err(PlanError::Option { option: "--set link=none".into(), message });
        }
        Ok(())
    }

    fn cell(
        &self,
        levels: &Levels,
        named: &BTreeMap<Factor, Vec<Value>>,
        setup: Setup,
        varying: &[String],
    ) -> PlannedCell {
        PlannedCell {
            cell: Cell {
                id: 0,
                workload: Sent::of(&setup.workload),
                test: self.test.name.clone(),
                factors: levels.factors(named),
                cores: levels.cores(),
                placement: levels.placement(),
                procedure: self.variant.procedure(self.test.procedure, levels, &setup),
                rounds: self.variant.rounds(),
                repeats: self.variant.repeats(),
            },
            setup,
            duts: self.duts.to_vec(),
            layout: self.test.layout,
            varying: varying.to_vec(),
        }
    }
}

/// Seconds to build, prove and take down the bed of one firewall.
const BED_SECONDS: f64 = 0.5;
/// Seconds to load one listed address, on the average of firewalls that can and firewalls that cannot.
const LISTED_SECONDS: f64 = 1e-6;

impl PlannedCell {
    /// Roughly how many seconds the cell takes on all its firewalls, their beds included: for showing progress and for
    /// choosing a profile, no promise.
    pub fn typical_seconds(&self) -> f64 {
        self.cell.typical_seconds(self.duts.len()) + self.duts.len() as f64 * self.bed_seconds()
    }

    fn bed_seconds(&self) -> f64 {
        BED_SECONDS + f64::from(self.setup.policy.listed_addresses) * LISTED_SECONDS
    }
}

fn option_error(option: impl Into<String>, message: impl Into<String>) -> PlanError {
    PlanError::Option { option: option.into(), message: message.into() }
}

fn profile(suite: &Suite, options: &Options) -> Result<Profile, PlanError> {
    let profile = options.profile.unwrap_or(suite.default_profile);
    if suite.profiles.contains(&profile) {
        return Ok(profile);
    }
    let there: Vec<&str> = suite.profiles.iter().map(|p| p.name()).collect();
    Err(option_error(
        format!("--profile {}", profile.name()),
        format!("suite {} has no such profile: it has {}", suite.name, there.join(", ")),
    ))
}

fn duts(suite: &Suite, options: &Options) -> Result<Vec<String>, PlanError> {
    let Some(duts) = &options.duts else {
        return Ok(suite.duts.iter().map(|dut| dut.value.clone()).collect());
    };
    // Whoever quotes a list may write it with spaces.
    let duts: Vec<String> = duts.iter().map(|dut| dut.trim().to_owned()).collect();
    if duts.is_empty() || duts.iter().any(String::is_empty) {
        return Err(option_error("--dut", "name at least one firewall, as in --dut linux,nftables"));
    }
    if let Some(twice) = duts.iter().enumerate().find(|(i, dut)| duts[..*i].contains(dut)).map(|(_, dut)| dut)
    {
        return Err(option_error("--dut", format!("`{twice}` is named twice")));
    }
    Ok(duts)
}

/// `--set`, `--cores` and `--placement` as levels that take the place of the suite's.
fn overrides(suite: &Suite, options: &Options) -> Result<BTreeMap<Factor, Vec<Value>>, PlanError> {
    let mut found = BTreeMap::new();
    for written in &options.set {
        let (factor, levels) = set_option(suite, written)?;
        if found.insert(factor, levels).is_some() {
            return Err(set_before(format!("--set {written}"), factor));
        }
    }
    if let Some(cores) = options.cores {
        let level = cores.to_string();
        let level =
            Factor::Cores.parse(&level).map_err(|why| option_error(format!("--cores {cores}"), why))?;
        if found.insert(Factor::Cores, vec![level]).is_some() {
            return Err(set_before(format!("--cores {cores}"), Factor::Cores));
        }
    }
    if let Some(placement) = options.placement {
        let level = Value::Placement(placement);
        let option = format!("--placement {level}");
        if found.insert(Factor::Placement, vec![level]).is_some() {
            return Err(set_before(option, Factor::Placement));
        }
    }
    Ok(found)
}

/// The later one would take the place of the earlier one in silence.
fn set_before(option: String, factor: Factor) -> PlanError {
    let name = factor.name();
    option_error(
        option,
        format!("`{name}` is set already: write its levels together, as in --set {name}=A,B"),
    )
}

/// An override that no test of the run takes up would be a silent slip.
fn refuse_idle_overrides(
    suite: &Suite,
    profile: Profile,
    overrides: &BTreeMap<Factor, Vec<Value>>,
) -> Result<(), PlanError> {
    let tests = || suite.tests.iter().filter(|test| test.variant(profile).is_some());
    match overrides.keys().find(|factor| !tests().any(|test| factor.matters_to(test.procedure))) {
        Some(factor) => Err(option_error(
            format!("--set {}", factor.name()),
            format!("it means nothing to any test of suite {}", suite.name),
        )),
        None => Ok(()),
    }
}

fn set_option(suite: &Suite, written: &str) -> Result<(Factor, Vec<Value>), PlanError> {
    let error = |message: String| option_error(format!("--set {written}"), message);
    let (name, levels) = written
        .split_once('=')
        .ok_or_else(|| error("write FACTOR=V[,V…], as in --set frame=64,1518".into()))?;
    let factor = Factor::named(name)
        .ok_or_else(|| error(format!("no factor is called `{name}`; {}", instead_of(name))))?;
    let mut read: Vec<Value> = Vec::new();
    for text in levels.split(',') {
        let level = factor.parse_among(text, &suite.mixes).map_err(error)?;
        if read.contains(&level) {
            return Err(error(format!("the level {level} is there twice")));
        }
        read.push(level);
    }
    Ok((factor, read))
}

/// What somebody means who sets what is no factor.
fn instead_of(name: &str) -> String {
    const OPTIONS: [&str; 4] = ["dut", "profile", "seed", "ports"];
    let bare = name.strip_prefix("factors.").filter(|bare| Factor::named(bare).is_some());
    if let Some(bare) = bare {
        format!("write it without `factors.`: --set {bare}=…")
    } else if OPTIONS.contains(&name) {
        format!("it is an option of its own: --{name}")
    } else if procedure::keys().any(|parameter| parameter.name == name) {
        "it is a parameter, which a suite's file has: in its profiles, or in a test".to_owned()
    } else {
        toml_reader::suggestion(name, Factor::ALL.map(Factor::name))
    }
}

#[cfg(test)]
mod tests;
