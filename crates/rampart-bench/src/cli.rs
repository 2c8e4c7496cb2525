//! The command line: what can be said, and its help.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Measures firewalls: any of them, on one Linux machine or between two real cards.
#[derive(Debug, Parser)]
#[command(
    name = "rampart-bench",
    version,
    about,
    arg_required_else_help = true,
    after_help = "Examples:
  rampart-bench doctor                                what this machine can do
  rampart-bench run demo                              the main job, in three or four minutes
  rampart-bench run tolly-udp --profile quick --dut nftables,iptables
  rampart-bench run eantc-ip --set frame=64,1518 --out results/eantc
  rampart-bench compare results/before results/after --fail-if 'throughput < 0.95'

Exit status: 0 done; 1 a --fail-if is true, or an expectation of the suite or a promise of
calibrate is broken; 2 the command or a file is wrong;
3 this machine cannot; 130 interrupted."
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print machine-readable JSON on standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell what this machine can and cannot do, and how to fix it.
    Doctor,
    /// List what can be run: suites, and the firewalls that can be measured.
    List {
        /// Only one of the two.
        what: Option<Listed>,
    },
    /// Run a suite and write its report.
    Run(Box<RunArgs>),
    /// Measure the generator and the sink against themselves.
    Calibrate(CalibrateArgs),
    /// Write a run's report again, also of a run that was cut short.
    Report {
        /// The run's folder.
        dir: PathBuf,
        /// Print one format on standard output instead of writing all of them into the folder.
        #[arg(long)]
        format: Option<FormatName>,
    },
    /// Put two runs side by side.
    Compare {
        /// The folder to compare with.
        old: PathBuf,
        /// The folder to judge.
        new: PathBuf,
        /// End with status 1 when this is true of any pair of points; see docs/guide/expressions.md.
        #[arg(long, value_name = "EXPR")]
        fail_if: Option<String>,
    },
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// What `list` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// The built-in suites.
    Suites,
    /// The firewalls that can be measured.
    Duts,
}

/// Formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// One self-contained page.
    Html,
    /// Markdown.
    Md,
    /// One row a point.
    Csv,
    /// The results as they are.
    Json,
}

/// Profiles of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// Minutes: to see how things stand.
    Quick,
    /// Tens of minutes: to decide on.
    Standard,
    /// The report's or the standard's own durations.
    Full,
}

/// Where the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlacementName {
    /// Generator, firewall and sink share each core.
    Inline,
    /// The firewall's receive work has cores of its own.
    Isolated,
}

/// `run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rampart-bench run demo
  rampart-bench run ./my-suite.toml --dut linux,nftables --seed 7
  rampart-bench run rfc2544 --placement isolated --cores 2
  rampart-bench run tolly-udp --set flows=1000 --set frame=64,imix:tolly
  rampart-bench run rfc2544 --ports eth1,eth2        whatever is between two cards")]
pub(crate) struct RunArgs {
    /// A built-in suite's name, or a path to a suite (suites/FORMAT.md says how to write one).
    pub(crate) suite: String,
    /// Firewalls to compare, instead of the suite's: see `rampart-bench list duts`.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) dut: Option<Vec<String>>,
    /// How long to measure.
    #[arg(long)]
    pub(crate) profile: Option<ProfileName>,
    /// Where the work is done, instead of the suite's choice.
    #[arg(long)]
    pub(crate) placement: Option<PlacementName>,
    /// Cores to use, instead of the suite's choice.
    #[arg(long, value_name = "N")]
    pub(crate) cores: Option<u32>,
    /// Seed of every pseudorandom choice.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Folder for the results; made if it is not there, and not used if it holds a run already.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Levels of a factor, instead of the suite's; may be given several times.
    #[arg(long, value_name = "FACTOR=V[,V…]")]
    pub(crate) set: Vec<String>,
    /// Two interfaces of this machine with an unknown firewall between them.
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "IF1,IF2", conflicts_with = "dut")]
    pub(crate) ports: Option<Vec<String>>,
}

/// `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Seconds a measurement.
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub(crate) seconds: f64,
    /// Times that everything is measured; the median counts.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) rounds: u32,
}
