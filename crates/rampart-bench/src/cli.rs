//! The command line: what can be said, and its help.

use crate::failure::Failure;
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
3 this machine cannot, or no value of the run is valid; 130 interrupted."
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
        #[arg(long, conflicts_with = "json")]
        format: Option<FormatName>,
    },
    /// Put runs side by side: the first is what the others are compared with.
    #[command(after_help = "Examples:
  rampart-bench compare results/before results/after
  rampart-bench compare results/v1 results/v2 results/v3 --fail-if 'throughput < 0.95'
  rampart-bench compare results/* --reference results/v2")]
    Compare {
        /// Folders of two or more runs.
        #[arg(required = true, num_args = 2.., value_name = "DIR")]
        runs: Vec<PathBuf>,
        /// The folder to compare with, instead of the first.
        #[arg(long, value_name = "DIR")]
        reference: Option<PathBuf>,
        /// End with status 1 when this is true of any pair of points; see docs/guide/expressions.md.
        #[arg(long, value_name = "EXPR")]
        fail_if: Option<String>,
    },
    /// Write the manual pages, one for each command, into a folder.
    Man {
        /// The folder; made if it is not there.
        dir: PathBuf,
    },
    /// Show the runs that were kept, and how points change from run to run.
    History(HistoryArgs),
    /// Serve runs, live progress and trends as web pages that change nothing.
    Serve(ServeArgs),
    /// Serve the Open Traffic Generator API: clients such as snappi send flows between interfaces and read metrics.
    Otg(OtgArgs),
    /// Have a port of this host sent from and counted at by a run that is led from elsewhere (`run --agents`).
    Agent(AgentArgs),
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
    /// The page, printed by a Chromium where there is one; on a terminal it is written into the folder.
    Pdf,
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
  rampart-bench run eantc-ip --dry-run               what it would measure, and how long
  rampart-bench run rfc2544 --ports eth1,eth2        whatever is between two cards
  rampart-bench run rfc2544 --ports eth1,eth2 --name ACME --must-not-pass tcp/23 --dut nftables
  rampart-bench run rfc2544 --agents left,right --server tls://nats.example.net:4222 --key bench.key")]
pub(crate) struct RunArgs {
    /// A built-in suite's name, or a path to a suite (suites/FORMAT.md says how to write one).
    pub(crate) suite: String,
    /// Firewalls to compare, instead of the suite's: see `rampart-bench list duts`; program:PATH is a driver of your own.
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
    /// Leave out the seconds before the first cell in which the generator is measured against a bare loop. The report says so: nobody knows
    /// then whether the generator keeps on this machine what it promises.
    #[arg(long)]
    pub(crate) no_calibration: bool,
    /// Show what would be measured and roughly how long it takes, and do nothing; needs no root.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Commit of the firewall under test, or another name of its state, for the history of runs.
    #[arg(long, value_name = "TEXT")]
    pub(crate) commit: Option<String>,
    /// Where runs are kept.
    #[command(flatten)]
    pub(crate) file: HistoryFile,
    /// Two interfaces of this machine with a firewall of your own between them; with --dut, others are measured beside it.
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "IF1,IF2", group = "between")]
    pub(crate) ports: Option<Vec<String>>,
    /// Two agents at other hosts with a firewall of your own between their ports, the first on the private side: see
    /// `rampart-bench agent`.
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "A,B", group = "between", requires_all = ["server", "key"])]
    pub(crate) agents: Option<Vec<String>>,
    /// Server of NATS over which --agents are reached: nats://HOST:PORT, or tls://HOST:PORT.
    #[arg(long, requires = "agents", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File with the key that --agents have as well.
    #[arg(long, requires = "agents", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// How the server lets this program in.
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// What reports call the firewall between --ports or --agents.
    #[arg(long, requires = "between")]
    pub(crate) name: Option<String>,
    /// You have loaded the suite's policy into the firewall between --ports or --agents; it is proved as with the others.
    #[arg(long, requires = "between", conflicts_with_all = ["must_pass", "must_not_pass"])]
    pub(crate) suite_policy: bool,
    /// Traffic that the firewall between --ports or --agents must let pass: udp/53, or hostile:tcp/22 from the hostile side.
    #[arg(long, requires = "between", value_delimiter = ',', value_name = "P/N[,P/N…]")]
    pub(crate) must_pass: Vec<String>,
    /// Traffic that it must not let pass, written in the same way.
    #[arg(long, requires = "between", value_delimiter = ',', value_name = "P/N[,P/N…]")]
    pub(crate) must_not_pass: Vec<String>,
    /// Take --ports even if this machine is reached through them.
    #[arg(long, requires = "ports")]
    pub(crate) force: bool,
}

/// How a server of NATS lets a program in.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// Certificates of the authorities that may have signed the server's, in PEM [default: those of the machine].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// User at the server.
    #[arg(long, requires = "password_file", value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File with the user's password.
    #[arg(long, requires = "user", value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

impl LoginArgs {
    /// The address of the server, with how it is spoken with.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn address(&self, server: &str) -> Result<agents::Address, Failure> {
        let is_one = ["nats://", "tls://"].iter().any(|it| server.len() > it.len() && server.starts_with(it));
        if !is_one {
            return Err(Failure::Wrong(format!(
                "--server {server}: this is no address of a server of NATS: write tls://nats.example.net:4222, or nats:// where nobody can read \
                 along"
            )));
        }
        let user = self.user.clone().zip(self.password_file.clone());
        Ok(agents::Address { url: server.to_owned(), ca_file: self.ca_file.clone(), user })
    }
}

/// `agent`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rampart-bench agent --name left --port eth1 --server tls://nats.example.net:4222 --key bench.key
  rampart-bench agent --name right --port eth1=02:00:00:00:01:02 --server nats://10.0.0.1:4222 --key bench.key

Runs until Ctrl-C. The port is taken while a run lasts that has the same key, and is left alone otherwise. Who has the key
can send test frames from the port. How to set both hosts up: docs/guide/agents.md.")]
pub(crate) struct AgentArgs {
    /// What runs call this agent: letters, digits, - and _.
    #[arg(long)]
    pub(crate) name: String,
    /// Interface with the firewall behind it: eth1, or eth1=02:00:00:00:01:01 with the firewall's Ethernet address.
    #[arg(long, value_name = "IF")]
    pub(crate) port: String,
    /// Server of NATS over which runs reach it: nats://HOST:PORT, or tls://HOST:PORT.
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    /// File with the key that runs have as well: 32 bytes in base64, readable by its owner alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// How the server lets this program in.
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Take the port even if this machine is reached through it.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Where runs are kept.
#[derive(Debug, Args)]
pub(crate) struct HistoryFile {
    /// File in which runs are kept, or `off` [default: history.sqlite in $XDG_STATE_HOME/rampart-bench or
    /// ~/.local/state/rampart-bench, or what $RAMPART_BENCH_HISTORY says].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
}

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rampart-bench serve                                 http://127.0.0.1:8021/ until Ctrl-C
  rampart-bench serve --listen '[::1]:9000'
  ssh -L 8021:localhost:8021 bench rampart-bench serve      from another machine

Pages ask for no password; so they are served to this machine alone unless --listen says otherwise.")]
pub(crate) struct ServeArgs {
    /// Address and port; port 0 is any that is free.
    #[arg(long, default_value = history::serve::LISTEN, value_name = "ADDRESS:PORT")]
    pub(crate) listen: String,
    /// Where runs are kept.
    #[command(flatten)]
    pub(crate) file: HistoryFile,
}

/// What stands between the ports of `otg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BetweenName {
    /// Frames arrive as they were sent: a cable, a switch, a transparent firewall.
    Wire,
    /// Frames arrive with the port's own Ethernet address and a TTL that is one less.
    Router,
}

/// `otg`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rampart-bench otg                                   https://127.0.0.1:8443/ until Ctrl-C, http:// and gRPC too
  rampart-bench otg --between router                  a routing firewall stands between the ports
  rampart-bench otg --listen '[::1]:9443' --longest 10m
  ip netns exec bench rampart-bench otg               the ports are interfaces of this namespace

Clients name interfaces of the namespace that this runs in as locations of their ports. Nobody is asked for a password; so it
serves this machine alone unless --allow-remote says otherwise. What it can do: docs/guide/otg.md.")]
pub(crate) struct OtgArgs {
    /// Address and port; port 0 is any that is free.
    #[arg(long, default_value = ::otg::LISTEN, value_name = "ADDRESS:PORT")]
    pub(crate) listen: String,
    /// Listen on an address that other machines reach as well.
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// What stands between the ports.
    #[arg(long, default_value = "wire")]
    pub(crate) between: BetweenName,
    /// Longest time that flows are sent, up to 4h; those without an end are stopped then.
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) longest: std::time::Duration,
    /// The core that generates.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) core: usize,
    /// Take interfaces through which this machine is reached as well.
    #[arg(long)]
    pub(crate) force: bool,
}

/// `history`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rampart-bench history list                          every run that was kept
  rampart-bench history import out/                   older folders, each once
  rampart-bench history trend --dut rampart --metric throughput --set frame=64
  rampart-bench history trend --over commit --json
  rampart-bench history overlay 3 7 --metric latency  the same points of two runs

Finished runs are kept by themselves; `run --history off` keeps none.")]
pub(crate) struct HistoryArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) what: HistoryCommand,
    /// Where runs are kept.
    #[command(flatten)]
    pub(crate) file: HistoryFile,
}

/// What `history` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// List the runs.
    List {
        /// Which of them.
        #[command(flatten)]
        filters: RunFilters,
    },
    /// Show a run and its points.
    Show {
        /// Number of the run, from `history list`.
        id: i64,
    },
    /// Keep older runs: folders of results, or folders of such folders.
    Import {
        /// The folders.
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
    /// Forget a run; its folder stays.
    Forget {
        /// Number of the run, from `history list`.
        id: i64,
    },
    /// Follow points over runs and find where they change.
    Trend(TrendArgs),
    /// Lay runs over each other, point by point.
    Overlay {
        /// Numbers of the runs, from `history list`.
        #[arg(required = true, num_args = 2..)]
        ids: Vec<i64>,
        /// Which points.
        #[command(flatten)]
        points: PointFilters,
    },
}

/// Which runs.
#[derive(Debug, Args)]
pub(crate) struct RunFilters {
    /// Runs of these suites.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) suite: Vec<String>,
    /// Runs of these profiles.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) profile: Vec<String>,
    /// Runs on these machines, by the identifier that `history list` shows.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) machine: Vec<String>,
}

/// Which points, and what of them.
#[derive(Debug, Args)]
pub(crate) struct PointFilters {
    /// Points of these tests.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) test: Vec<String>,
    /// Points of these firewalls.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) dut: Vec<String>,
    /// These metrics, for example throughput.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub(crate) metric: Vec<String>,
    /// Points at these levels of a factor; may be given several times.
    #[arg(long, value_name = "FACTOR=V[,V…]")]
    pub(crate) set: Vec<String>,
    /// Firewall of the same run to divide by [default: nftables, where it was measured].
    #[arg(long, value_name = "DUT", conflicts_with = "absolute")]
    pub(crate) reference: Option<String>,
    /// Values as they were measured; those of two runs differ by whatever else the machine did.
    #[arg(long)]
    pub(crate) absolute: bool,
}

/// `history trend`.
#[derive(Debug, Args)]
pub(crate) struct TrendArgs {
    /// Which runs.
    #[command(flatten)]
    pub(crate) runs: RunFilters,
    /// Which points.
    #[command(flatten)]
    pub(crate) points: PointFilters,
    /// What to follow them over; changes are looked for over time.
    #[arg(long, default_value = "time")]
    pub(crate) over: OverName,
    /// Print one row a run and point.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

/// What points are followed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverName {
    /// Run by run.
    Time,
    /// By commit or version, the median of its runs.
    Commit,
    /// By machine, the median of its runs.
    Machine,
}

/// `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rampart-bench calibrate                             the generators against bare loops
  rampart-bench calibrate --truths                    boxes whose rate, delay, losses, … are known")]
pub(crate) struct CalibrateArgs {
    /// Measure boxes of which the true rate, delay, losses, burst, table and resets are known, and show how far off the bench is.
    #[arg(long)]
    pub(crate) truths: bool,
    /// Seconds a measurement.
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub(crate) seconds: f64,
    /// Times that everything is measured; the median counts.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) rounds: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_that_documents_and_help_show_is_taken() {
        let wrong = testkit::documents::not_taken(Cli::command(), 50);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
