//! The command line: what can be said, and its help.

use crate::api::{EVENTS_TOLD, SESSIONS_TOLD};
use crate::plane::Hook;
use clap::{Args, Parser, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;

/// A firewall: zones and rules in one file, checked before they are obeyed.
#[derive(Debug, Parser)]
#[command(
    name = "rampart",
    version,
    about,
    arg_required_else_help = true,
    after_help = "Examples:
  rampart check policy.toml                    errors and warnings, with their places and what to do
  rampart check --strict policy.toml           end with status 1 when there are warnings
  rampart explain policy.toml --from outside --src 198.51.100.7 --dst 192.0.2.10 --proto tcp --dport 80
                                               which rule decides, and why not those above it
  rampart up policy.toml                       run the firewall here, until Ctrl-C or `rampart down`
  rampart apply policy.toml --confirm 60       another policy; the one before comes back unless confirmed
  rampart sessions src=10.0.0.0/8 dport=443    what is open
  rampart top                                  what happens now

Exit status: 0 done; 1 warnings, with --strict; 2 the command or the policy is wrong; 3 this machine cannot, or
no firewall runs here."
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
    /// Tell everything that is wrong with a policy, or hardly meant.
    #[command(after_help = "Examples:
  rampart check policy.toml
  rampart check --json policy.toml | jq '.warnings[].message'")]
    Check(CheckArgs),
    /// Tell which rule decides about a packet, and why not those above it.
    #[command(after_help = "Examples:
  rampart explain policy.toml --from inside --src 10.0.0.5 --dst 203.0.113.1 --proto tcp --dport 443
  rampart explain policy.toml --from inside --to self --src 10.0.0.5 --dst 10.0.0.1 --proto icmp --type echo-request
  rampart explain policy.toml --from guests --to outside --src 10.9.0.5 --dst 203.0.113.1 --proto tcp --dport 80 \\
      --at 2026-11-20T22:30[Europe/Berlin]")]
    Explain(Box<ExplainArgs>),
    /// Run the firewall in this network namespace, in the foreground.
    ///
    /// It takes the packets of the interfaces that the policy names. SIGHUP reads the policy's file again; SIGTERM and
    /// Ctrl-C take the firewall down, as `rampart down` does.
    #[command(after_help = "Examples:
  rampart up policy.toml
  rampart up policy.toml --hook tc
  ip netns exec edge rampart up edge.toml")]
    Up(UpArgs),
    /// Put another policy in force, at once and as a whole.
    #[command(after_help = "Examples:
  rampart apply policy.toml
  rampart apply policy.toml --confirm 60 && rampart confirm    should the second not get through, the change is undone")]
    Apply(ApplyArgs),
    /// Keep a policy that was applied with --confirm.
    #[command(after_help = "Examples:
  rampart confirm")]
    Confirm(AskArgs),
    /// Tell what runs, and how it stands.
    #[command(after_help = "Examples:
  rampart status
  rampart status --json | jq .sessions.open")]
    Status(AskArgs),
    /// Show the rules in force with their counters.
    #[command(after_help = "Examples:
  rampart rules
  rampart rules --json | jq '.rules[] | select(.hits == 0) | .name'    rules that never decided")]
    Rules(AskArgs),
    /// Show open sessions, or end them.
    #[command(after_help = "Examples:
  rampart sessions
  rampart sessions src=10.0.0.0/8 proto=tcp dport=443
  rampart sessions rule=web zone=dmz --limit 10
  rampart sessions host=10.9.0.66 --kill      the next packet of each is judged as if it were its first

Filters, all of which must hold: src, dst, host (an address or a network; host is either side), proto, sport, dport
(a port, or ports as 80-443), rule, from, to, zone (zone is either side), state.")]
    Sessions(SessionsArgs),
    /// Show what did not pass, by reason.
    #[command(after_help = "Examples:
  rampart drops
  rampart drops --json | jq '.drops[] | {reason, packets}'")]
    Drops(AskArgs),
    /// Show what rules with `log` told.
    #[command(after_help = "Examples:
  rampart log                                 the newest events
  rampart log --follow                        and those that come, until Ctrl-C
  rampart log --follow --json | jq -c 'select(.rule == \"web\")'")]
    Log(LogArgs),
    /// Show what happens now, in rates; until Ctrl-C.
    #[command(after_help = "Examples:
  rampart top
  rampart top --once --interval 5             one reading over five seconds, for scripts")]
    Top(TopArgs),
    /// Take the firewall down.
    #[command(after_help = "Examples:
  rampart down")]
    Down(AskArgs),
    /// Print the OpenAPI description of the daemon's socket.
    #[command(after_help = "Examples:
  rampart openapi > rampart-api.json
  curl --unix-socket /run/rampart/default.sock http://rampart/v1/status")]
    Openapi,
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The policy's file.
    pub(crate) policy: PathBuf,
    /// End with status 1 when there are warnings.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// The policy's file.
    pub(crate) policy: PathBuf,
    /// Where packets are taken.
    #[arg(long, value_enum, default_value_t = Hook::Auto)]
    pub(crate) hook: Hook,
    /// The socket to answer on, instead of /run/rampart/NAMESPACE.sock.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of commands that only ask.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The policy's file.
    pub(crate) policy: PathBuf,
    /// Seconds after which the policy before it comes back unless `rampart confirm` comes: 1 to 86400.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) confirm: Option<u32>,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Which sessions: KEY=VALUE, all of which must hold; every session without any.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// End them.
    #[arg(long)]
    pub(crate) kill: bool,
    /// Sessions shown at most.
    #[arg(long, value_name = "N", default_value_t = SESSIONS_TOLD)]
    pub(crate) limit: u64,
    /// Show all of them, however many; with --kill, end every session.
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Go on with what happens, until Ctrl-C; with --json, an object a line.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Events shown at most; with --follow, at first.
    #[arg(long, value_name = "N", default_value_t = EVENTS_TOLD)]
    pub(crate) limit: u64,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) interval: f64,
    /// Show one reading and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Seconds between two readings.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3_600.0).contains(seconds));
    seconds.ok_or_else(|| "seconds from 0.1 to 3600".to_owned())
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The policy's file.
    pub(crate) policy: PathBuf,
    /// Zone that the packet comes from.
    #[arg(long, value_name = "ZONE")]
    pub(crate) from: String,
    /// Zone that it goes to; without it, the one whose networks hold the destination.
    #[arg(long, value_name = "ZONE")]
    pub(crate) to: Option<String>,
    /// Source address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) src: IpAddr,
    /// Destination address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) dst: IpAddr,
    /// Protocol: tcp, udp, sctp, icmp, icmpv6, or a number.
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) proto: String,
    /// Destination port, for tcp, udp and sctp.
    #[arg(long, value_name = "PORT")]
    pub(crate) dport: Option<u16>,
    /// Source port. No rule can ask for one, so it changes nothing; it is here so that a whole flow can be pasted.
    #[arg(long, value_name = "PORT")]
    pub(crate) sport: Option<u16>,
    /// ICMP type, by name or number, and code: echo-request, 3/4.
    #[arg(long = "type", value_name = "TYPE[/CODE]")]
    pub(crate) icmp: Option<String>,
    /// Moment, for schedules: 2026-11-20T22:30[Europe/Berlin], 2026-11-20T21:30Z, or on this machine's clock
    /// 2026-11-20T22:30; now without it.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
}
