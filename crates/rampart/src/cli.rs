//! The command line: what can be said, and its help.

use crate::api::{EVENTS_SHOWN, FLOWS_SHOWN};
use crate::fleet_command::{AgentArgs, FleetArgs};
use crate::init::Role;
use crate::list_command::ListCommand;
use crate::moment::Period;
use crate::plane::Hook;
use crate::user_command::UserArgs;
use clap::{ArgGroup, Args, Parser, Subcommand};
use jiff::Timestamp;
use std::net::IpAddr;
use std::path::PathBuf;

/// A firewall: zones and rules in one file, checked before they are applied.
#[derive(Debug, Parser)]
#[command(
    name = "rampart",
    version,
    about,
    arg_required_else_help = true,
    after_help = "Examples:
  rampart check policy.toml                    list errors and warnings, with line, column and what to do
  rampart check --strict policy.toml           exit with status 1 if there are warnings
  rampart explain policy.toml --from outside --src 198.51.100.7 --dst 192.0.2.10 --proto tcp --dport 80
                                               show which rule decides, and why not those above it
  rampart up policy.toml                       run the firewall here, until Ctrl-C or `rampart down`
  rampart apply policy.toml --confirm 60       apply another policy; the previous one comes back unless confirmed
  rampart flows src=10.0.0.0/8 dport=443       list open flows
  rampart drops                                show why packets were dropped
  rampart top                                  show current rates

Exit status: 0 success; 1 warnings, with --strict, or an answer that is no (`list test`, `explain --packets`); 2 the
command or the policy is wrong; 3 this machine cannot run a firewall, or no firewall runs here."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print machine-readable JSON on standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a policy: list its errors and warnings.
    #[command(after_help = "Examples:
  rampart check policy.toml
  rampart check --json policy.toml | jq '.warnings[].message'
  ssh fw rampart export | rampart check -")]
    Check(CheckArgs),
    /// Explain which rule decides about a packet, and why not those above it.
    #[command(after_help = "Examples:
  rampart explain policy.toml --from inside --src 10.0.0.5 --dst 203.0.113.1 --proto tcp --dport 443
  rampart explain policy.toml --from inside --to self --src 10.0.0.5 --dst 10.0.0.1 --proto icmp --type echo-request
  rampart explain policy.toml --packets packets.jsonl --json
  rampart explain policy.toml --from guests --to outside --src 10.9.0.5 --dst 203.0.113.1 --proto tcp --dport 80 \\
      --at 2026-11-20T22:30[Europe/Berlin]")]
    Explain(Box<ExplainArgs>),
    /// Write a first policy for this machine.
    ///
    /// At a terminal it asks for what the options leave open. It looks at interfaces, addresses, the default route, the ports of sshd and the
    /// SSH session that it is given in. The policy goes to standard output unless there is an --output; nothing is put in force.
    #[command(after_help = "Examples:
  rampart init                                                                    asks, and prints the policy
  rampart init --role host --output /etc/rampart/policy.toml
  rampart init --role home-gateway --wan eth0 --lan eth1 --output /etc/rampart/policy.toml --force
  rampart init --role office-dmz --wan eth0 --lan eth1 --dmz eth2 | rampart check -")]
    Init(InitArgs),
    /// Make a policy of the rules of another firewall.
    ///
    /// The policy goes to standard output, and what could not be carried over to standard error. It never allows what the original
    /// denies: what is not understood of a rule that accepts leaves the rule out, and of a rule that drops makes it wider.
    #[command(after_help = "Examples:
  nft list ruleset | rampart import nft - > policy.toml
  iptables-save > rules.v4 && ip6tables-save > rules.v6
  rampart import iptables-save rules.v4 rules.v6 > policy.toml
  rampart import ufw /etc/default/ufw /etc/ufw/*.rules > policy.toml
  rampart import iptables-save rules.v4 --interface eth1    the machine has eth1 too, and no rule names it
  rampart import iptables-save rules.v4 --strict            exit with status 1 if the policy allows less than the original
  rampart import iptables-save rules.v4 --json | jq '.findings[] | {line, kind, why}'")]
    Import(ImportArgs),
    /// Run the firewall in this network namespace, in the foreground.
    ///
    /// It attaches to the interfaces that the policy names, and takes over from a firewall that runs without its daemon: open
    /// flows go on. SIGHUP reads the policy's file again; Ctrl-C takes the firewall down, as `rampart down` does. SIGTERM ends
    /// the daemon alone: the firewall goes on by its last policy until `rampart up` takes over.
    #[command(after_help = "Examples:
  rampart up policy.toml
  rampart up                                   come up with the last policy that was confirmed
  rampart up policy.toml --boot                the same if policy.toml has errors, where a service names the file
  rampart up policy.toml --hook tc
  rampart up policy.toml --confirm 60          go back to the policy before it, or down, unless `rampart confirm` is run
  rampart up policy.toml --force               although nftables translates here: what the firewall forwards is not
  ip netns exec edge rampart up edge.toml")]
    Up(UpArgs),
    /// Apply another policy, at once and as a whole.
    #[command(after_help = "Examples:
  rampart apply policy.toml
  rampart apply policy.toml --confirm 60 && rampart confirm    undoes the change if the second command does not get through
  ssh root@fw rampart apply - < policy.toml                    takes the policy from standard input")]
    Apply(ApplyArgs),
    /// Confirm a policy that was applied with --confirm.
    #[command(after_help = "Examples:
  rampart confirm
  rampart confirm 7                           only if it is number 7 of the history, and nobody has applied another meanwhile")]
    Confirm(ConfirmArgs),
    /// List the policies that were put in force, by whom and what came of them; or show one of them.
    #[command(after_help = "Examples:
  rampart history
  rampart history 7                           show who applied the policy with the number 7, and its text
  rampart history --kept                      read the disk, also when no daemon runs
  rampart history --json | jq '.entries[] | {number, at, way, outcome}'")]
    History(HistoryArgs),
    /// Show how policies differ.
    #[command(after_help = "Examples:
  rampart diff                                what the policy in force has changed
  rampart diff 7                              what is in force now, and was not with the policy with the number 7
  rampart diff 7 9                            from one to the other
  rampart diff policy.toml                    what `rampart apply policy.toml` would change
  rampart diff 7 --text                       line by line")]
    Diff(DiffArgs),
    /// Go back to a policy of the history.
    #[command(after_help = "Examples:
  rampart rollback 7
  rampart rollback 7 --confirm 60 && rampart confirm")]
    Rollback(RollbackArgs),
    /// Print the text of the policy in force, or of one of the history, as it was.
    #[command(after_help = "Examples:
  rampart export > policy.toml
  rampart export 7 > policy.toml")]
    Export(HistoryArgs),
    /// Write the policy in force, the history and copies of lists into a file, for root alone.
    #[command(after_help = "Examples:
  rampart backup /root/firewall.backup")]
    Backup(BackupArgs),
    /// Put the policy of a backup in force, and add its history and its copies of lists.
    #[command(after_help = "Examples:
  rampart restore /root/firewall.backup
  rampart restore /root/firewall.backup --confirm 60 && rampart confirm")]
    Restore(RestoreArgs),
    /// Put the policy of a new firewall in force: the zones stay, SSH and ping to the firewall are allowed, and nothing is forwarded. The
    /// history stays, and `rampart rollback` brings back what was.
    #[command(after_help = "Examples:
  rampart factory-reset
  rampart factory-reset --yes --confirm 60")]
    FactoryReset(ResetArgs),
    /// Show the state of the firewall.
    #[command(after_help = "Examples:
  rampart status
  rampart status --json | jq .flows.open")]
    Status(AskArgs),
    /// Show the rules in force with their counters.
    #[command(after_help = "Examples:
  rampart rules
  rampart rules --json | jq '.rules[] | select(.hits == 0) | .name'    list rules that never decided")]
    Rules(AskArgs),
    /// Show the lists of addresses in force, with their counters.
    #[command(after_help = "Examples:
  rampart lists
  rampart lists --json | jq '.lists[] | {name, ipv4_addresses, hits}'")]
    Lists(AskArgs),
    /// Make, ask and compare files of lists.
    #[command(subcommand)]
    List(ListCommand),
    /// Manage who may log in at gateways.
    ///
    /// Passwords come from the terminal, which does not show them, or from standard input. A firewall whose policy names the file takes a change up by itself,
    /// within seconds.
    #[command(after_help = "Examples:
  rampart user add anna --group sales
  printf '%s' \"$PASSWORD\" | rampart user passwd anna
  rampart user list
  rampart user remove anna")]
    User(UserArgs),
    /// List open flows, or end them.
    #[command(after_help = "Examples:
  rampart flows
  rampart flows src=10.0.0.0/8 proto=tcp dport=443
  rampart flows rule=web zone=dmz --limit 10
  rampart flows host=10.9.0.66 --kill         judge the next packet of each as if it were its first

Filters, all of which must hold: src, dst, host (an address or a network; host is either side), proto, sport, dport
(a port, or ports as 80-443), rule, from, to, zone (zone is either side), state.")]
    #[command(alias = "sessions")]
    Flows(FlowsArgs),
    /// List the sources that may open no flow because they scanned, or end that.
    #[command(after_help = "Examples:
  rampart blocks
  rampart blocks --end 198.51.100.7           let it open flows again; of IPv6 all of its /64
  rampart blocks --end-all --zone outside
  rampart blocks --json | jq '.blocks[] | {source, ports, hosts}'")]
    Blocks(BlocksArgs),
    /// List the Ethernet addresses that bridges of more than two interfaces have heard of, and where.
    #[command(after_help = "Examples:
  rampart stations
  rampart stations --json | jq '.stations[] | select(.interface == \"eth1\") | .address'
  rampart stations --json | jq '.stations[] | select(.home != .interface)'     those that moved")]
    Stations(AskArgs),
    /// Show why packets were dropped.
    #[command(after_help = "Examples:
  rampart drops
  rampart drops --json | jq '.drops[] | {reason, packets}'")]
    Drops(AskArgs),
    /// Print the metrics, in Prometheus' text format.
    #[command(after_help = "Examples:
  rampart metrics
  rampart metrics | grep rampart_flows_open
  rampart up policy.toml --metrics 127.0.0.1:9469      let Prometheus read them")]
    Metrics(AskArgs),
    /// Show the event log of rules with `log` or `alert`, and of scans.
    #[command(after_help = "Examples:
  rampart log                                 show the newest events
  rampart log --follow                        keep showing new events, until Ctrl-C
  rampart log --follow event=refused dport=22 show refused packets to port 22 as they come
  rampart log --since 10min --local           show what happened in the last ten minutes, in local time
  rampart log --audit                         show who changed the firewall, or tried to
  rampart log --kept --limit 1000             show events from the disk, also of daemons that have ended
  rampart log --follow --json rule=web | jq -c .source

Filters, all of which must hold: event (opened, refused, closed, alert, over, scan), reason (as `rampart drops` names it), list, and those of
`rampart flows` but state: src, dst, host, proto, sport, dport, rule, from, to, zone.")]
    Log(LogArgs),
    /// Show current rates, until Ctrl-C.
    #[command(after_help = "Examples:
  rampart top
  rampart top --once --interval 5             print one reading over five seconds, for scripts")]
    Top(TopArgs),
    /// Take the firewall down.
    #[command(after_help = "Examples:
  rampart down")]
    Down(AskArgs),
    /// Put policies in force that somebody signs for a group of firewalls, and tell the fleet's server how this one is.
    ///
    /// It asks the firewall on this machine as other clients do: a user of the group `rampart` is enough. The firewall goes on without its agent.
    #[command(after_help = "Examples:
  rampart agent
  rampart agent --config /etc/rampart/fleet.toml --state /var/lib/rampart-agent")]
    Agent(AgentArgs),
    /// Direct a fleet: send a policy to a group of firewalls, and see how they are.
    #[command(after_help = "Examples:
  rampart fleet key /root/fleet.key           make a key; agents have what it prints under `trust`
  rampart fleet apply branches.toml --group branches --key /root/fleet.key
  rampart fleet status
  rampart fleet log")]
    Fleet(FleetArgs),
    /// Print the OpenAPI description of the daemon's API.
    #[command(after_help = "Examples:
  rampart openapi > rampart-api.json
  curl --unix-socket /run/rampart/default.sock http://rampart/v1/status")]
    Openapi,
    /// What `rampart up` starts to run commands of lists.
    #[command(hide = true, name = crate::fetch::WORKER)]
    FetchLists,
    /// What `rampart up` starts to send events to collectors.
    #[command(hide = true, name = crate::export::WORKER)]
    ExportEvents,
    /// What `rampart up` starts to keep gateways.
    #[command(hide = true, name = crate::gateways::KEEPER)]
    KeepGateways,
    /// What that starts for each of them.
    #[command(hide = true, name = crate::gateways::WORKER)]
    RunGateway,
    /// Write the manual pages, one for each command, into a folder.
    Man {
        /// The folder; made if it is not there.
        dir: PathBuf,
    },
    /// Print a completion script for a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The policy's file, or `-` for standard input.
    pub(crate) policy: PathBuf,
    /// Exit with status 1 if there are warnings.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print each warning, also where many rules have the same.
    #[arg(long)]
    pub(crate) all: bool,
}

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// The policy's file; without it the last policy that was confirmed, or else /etc/rampart/policy.toml.
    pub(crate) policy: Option<PathBuf>,
    /// For services, which nobody watches: if the file cannot be used, come up with the last policy that was confirmed, and say so.
    #[arg(long)]
    pub(crate) boot: bool,
    /// Wait so long for interfaces that the policy names and that are not there yet, as while a machine starts: 0 to 600.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub(crate) wait: u64,
    /// Where to attach to interfaces. Not for policies with `forwarding = "kernel"`.
    #[arg(long, value_enum, default_value_t = Hook::Auto)]
    pub(crate) hook: Hook,
    /// Forward past translation, policy routes and VRFs that are set up here, and cut the SSH session that the command is given in;
    /// `up` refuses both otherwise.
    #[arg(long)]
    pub(crate) force: bool,
    /// Seconds after which the policy that was confirmed last comes back unless `rampart confirm` is run, or the firewall goes down if there is
    /// none: 1 to 86400.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400), conflicts_with = "boot")]
    pub(crate) confirm: Option<u32>,
    /// Folder in which the confirmed policy is kept, instead of /var/lib/rampart, or of /run/rampart/state/NAMESPACE in other
    /// network namespaces than the machine's own.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Address and port by which Prometheus reads the metrics, for example 127.0.0.1:9469. One that others can reach takes a rule of the policy that
    /// lets them in.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// A name by which Prometheus asks for the metrics, besides addresses, `localhost` and the name of the machine.
    #[arg(long, value_name = "NAME", requires = "metrics")]
    pub(crate) metrics_name: Vec<String>,
    /// The socket to listen on, instead of /run/rampart/NAMESPACE.sock.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of commands that need only the socket.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `confirm`.
#[derive(Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Number of its entry of the history: no other policy is confirmed.
    pub(crate) number: Option<u64>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// What this machine is.
    #[arg(long, value_enum)]
    pub(crate) role: Option<Role>,
    /// An interface that leads outside; without it that of the default route, and of a host every interface. May be given again.
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) wan: Vec<String>,
    /// An interface that leads to the network inside. May be given again.
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) lan: Vec<String>,
    /// An interface that leads to servers. May be given again.
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) dmz: Vec<String>,
    /// The file to write, readable for root alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// What wrote the rules.
    #[arg(value_enum)]
    pub(crate) format: ImportFormat,
    /// The files with the rules; `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// An interface of the machine that no rule names, or a pattern (`eth*`). Interfaces in no zone are closed.
    #[arg(long = "interface", value_name = "NAME")]
    pub(crate) interfaces: Vec<String>,
    /// An address of the machine with its interface and the length of its network (`eth1=192.168.1.1/24`): what rules say of its own addresses
    /// (`--dst-type LOCAL`, `REDIRECT`) is carried over. Give all of them; the interface may be left out where nothing is redirected.
    #[arg(long = "address", value_name = "[INTERFACE=]ADDRESS/LENGTH", value_parser = own_address)]
    pub(crate) addresses: Vec<policy_import::Own>,
    /// Carry rules over whose answers the original drops. Here answers pass with their flow.
    #[arg(long)]
    pub(crate) answers: bool,
    /// Exit with status 1 if the policy allows less than the original.
    #[arg(long)]
    pub(crate) strict: bool,
}

fn own_address(text: &str) -> Result<policy_import::Own, String> {
    let help = || {
        "write an address and the length of its network, with its interface or without: eth1=192.168.1.1/24"
            .to_owned()
    };
    let (interface, text) =
        text.split_once('=').map_or((None, text), |(name, text)| (Some(name.to_owned()), text));
    let (address, length) = text.split_once('/').ok_or_else(help)?;
    let address: std::net::IpAddr = address.parse().map_err(|_| help())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length = length.parse().ok().filter(|length| *length <= longest).ok_or_else(help)?;
    Ok(policy_import::Own { interface, address, length })
}

/// What wrote rules that can be imported.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ImportFormat {
    /// nft list ruleset.
    Nft,
    /// iptables-save, and ip6tables-save in a second file.
    IptablesSave,
    /// /etc/default/ufw and /etc/ufw/*.rules.
    Ufw,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The policy's file, or `-` for standard input.
    pub(crate) policy: PathBuf,
    #[command(flatten)]
    pub(crate) caution: Caution,
}

/// Arguments of `history` and `export`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Number of an entry.
    pub(crate) number: Option<u64>,
    #[command(flatten)]
    pub(crate) from: HistoryFrom,
}

/// Where the history is read.
#[derive(Debug, Args)]
pub(crate) struct HistoryFrom {
    /// Read the disk and ask no daemon: for root, also when none runs.
    #[arg(long, conflicts_with = "socket")]
    pub(crate) kept: bool,
    /// Folder in which the firewall keeps its policy and its history, if `rampart up` was given one.
    #[arg(long, value_name = "DIR", requires = "kept")]
    pub(crate) state: Option<PathBuf>,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A number of the history, or a policy's file (`./7` is a file, `-` standard input); without it, the policy before the one in force.
    pub(crate) from: Option<String>,
    /// The same; without it, the policy in force.
    pub(crate) to: Option<String>,
    /// Compare line by line.
    #[arg(long)]
    pub(crate) text: bool,
    #[command(flatten)]
    pub(crate) at: HistoryFrom,
}

/// How long a policy may wait, and whether it may cut the own session.
#[derive(Debug, Args)]
pub(crate) struct Caution {
    /// Seconds after which the previous policy comes back unless `rampart confirm` is run: 1 to 86400.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) confirm: Option<u32>,
    /// Do it though it would cut the SSH session that the command is given in.
    #[arg(long)]
    pub(crate) force: bool,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `rollback`.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Number of an entry of the history.
    pub(crate) number: u64,
    #[command(flatten)]
    pub(crate) caution: Caution,
}

/// Arguments of `backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file; replaced as a whole.
    pub(crate) file: PathBuf,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) caution: Caution,
}

/// Arguments of `factory-reset`.
#[derive(Debug, Args)]
pub(crate) struct ResetArgs {
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) caution: Caution,
}

/// Arguments of `flows`.
#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    /// Filters, all of which must hold; without any, every flow.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// End the flows instead of listing them.
    #[arg(long)]
    pub(crate) kill: bool,
    /// Greatest number of flows to show. Those that --kill ends are all that the filters name.
    #[arg(long, value_name = "N", default_value_t = FLOWS_SHOWN, conflicts_with = "kill")]
    pub(crate) limit: u64,
    /// Show all flows, however many; with --kill, end every flow.
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `blocks`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("ending").args(["end", "end_all"])))]
pub(crate) struct BlocksArgs {
    /// End the blocks of an address instead of listing all.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) end: Option<IpAddr>,
    /// End every block.
    #[arg(long)]
    pub(crate) end_all: bool,
    /// End only those of sources that came from this zone.
    #[arg(long, value_name = "ZONE", requires = "ending")]
    pub(crate) zone: Option<String>,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Filters, all of which must hold; without any, every event.
    #[arg(value_name = "FILTER", conflicts_with = "audit")]
    pub(crate) filter: Vec<String>,
    /// Keep showing new events, until Ctrl-C; with --json, an object per line.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Show the audit trail instead: who changed the firewall, or tried to, and what came of it.
    #[arg(long, conflicts_with = "follow")]
    pub(crate) audit: bool,
    /// Read the disk and ask no daemon: for root, also when none runs.
    #[arg(long, conflicts_with_all = ["follow", "socket"])]
    pub(crate) kept: bool,
    /// Folder in which the firewall keeps its policy and its log, if `rampart up` was given one.
    #[arg(long, value_name = "DIR", requires = "kept")]
    pub(crate) state: Option<PathBuf>,
    /// Only what happened since then: how long ago, as 10min, or when, as 2026-11-20T22:30 on this machine's clock.
    #[arg(long, value_name = "TIME", value_parser = crate::moment::past)]
    pub(crate) since: Option<Timestamp>,
    /// Only what happened until then.
    #[arg(long, value_name = "TIME", value_parser = crate::moment::past, conflicts_with = "follow")]
    pub(crate) until: Option<Timestamp>,
    /// Show times on this machine's clock; JSON has them in UTC always.
    #[arg(long)]
    pub(crate) local: bool,
    /// Greatest number of events to show, the newest; with --follow, at first. Without it 100, or all of the time that --since and --until name.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// The firewall's socket, instead of that of this network namespace.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

impl LogArgs {
    pub(crate) fn period(&self) -> Period {
        Period { since: self.since, until: self.until }
    }

    /// Greatest number of events or records to show.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.unwrap_or(if self.period().is_all() { EVENTS_SHOWN } else { u64::MAX })
    }
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) interval: f64,
    /// Print one reading and exit.
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
    /// The policy's file, or `-` for standard input.
    pub(crate) policy: PathBuf,
    /// Zone that the packet comes from.
    #[arg(long, value_name = "ZONE", required_unless_present = "packets", conflicts_with = "packets")]
    pub(crate) from: Option<String>,
    /// Zone that the packet goes to; without it, the zone whose networks hold the destination.
    #[arg(long, value_name = "ZONE", conflicts_with = "packets")]
    pub(crate) to: Option<String>,
    /// Source address.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "packets", conflicts_with = "packets")]
    pub(crate) src: Option<IpAddr>,
    /// Destination address.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "packets", conflicts_with = "packets")]
    pub(crate) dst: Option<IpAddr>,
    /// Protocol: tcp, udp, sctp, icmp, icmpv6, or a number.
    #[arg(long, value_name = "PROTOCOL", required_unless_present = "packets", conflicts_with = "packets")]
    pub(crate) proto: Option<String>,
    /// Destination port, for tcp, udp and sctp.
    #[arg(long, value_name = "PORT", conflicts_with = "packets")]
    pub(crate) dport: Option<u16>,
    /// Source port, for tcp, udp and sctp; 49152 without it. Only rules with `source_port` ask for it.
    #[arg(long, value_name = "PORT", conflicts_with = "packets")]
    pub(crate) sport: Option<u16>,
    /// ICMP type, by name or number, and code: echo-request, 3/4.
    #[arg(long = "type", value_name = "TYPE[/CODE]", conflicts_with = "packets")]
    pub(crate) icmp: Option<String>,
    /// Moment, for schedules: 2026-11-20T22:30[Europe/Berlin], 2026-11-20T21:30Z, or on this machine's clock
    /// 2026-11-20T22:30; now without it.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// File with a packet a line, as JSON with the names of the options: {"from": "inside", "src": "10.0.0.5", "dst": "203.0.113.1",
    /// "proto": "tcp", "dport": 443}; `-` for standard input. Each is answered in a line, in order.
    #[arg(long, value_name = "FILE")]
    pub(crate) packets: Option<PathBuf>,
    /// Print the action and the rule alone.
    #[arg(long)]
    pub(crate) brief: bool,
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
