//! The command line: what can be said, and its help.

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

Exit status: 0 done; 1 warnings, with --strict; 2 the command or the policy is wrong."
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
