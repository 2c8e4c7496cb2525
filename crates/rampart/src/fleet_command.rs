//! `rampart agent` and `rampart fleet`: one policy for many firewalls, over a server of NATS.

use crate::ask::log::line;
use crate::daemon::log::escaped;
use crate::failure::Failure;
use crate::moment::Clock;
use crate::table::{Side, Table, grouped, of, span};
use crate::{output, read_text, whole_file};
use clap::{Args, Subcommand};
use fleet::FleetError;
use fleet::agent::{Outside, Running};
use fleet::config::{Config, FILE, check_name};
use fleet::director::{self, Outcome, Wish, is_stale};
use fleet::key::PrivateKey;
use fleet::report::OrderState;
use fleet::server::{FleetEvent, Heard, Server};
use jiff::Timestamp;
use policy::Policy;
use rampart_client::Client;
use serde_json::json;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Where the server is, and which firewall this is.
    #[arg(long, value_name = "FILE", default_value = FILE)]
    config: PathBuf,
    /// Folder of what outlives the agent: which order it obeyed last.
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/rampart-agent")]
    state: PathBuf,
    /// The firewall's socket; without it, that of this network namespace.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Arguments of `fleet`.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    /// Where the server is.
    #[arg(long, value_name = "FILE", default_value = FILE, global = true)]
    config: PathBuf,
    #[command(subcommand)]
    command: FleetCommand,
}

/// What can be done with a fleet.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Make a key that signs policies, and print what agents know it by.
    #[command(after_help = "Examples:
  rampart fleet key /root/fleet.key")]
    Key {
        /// The file of the private key; it must not be there yet.
        file: PathBuf,
    },
    /// Send a policy to a group. It stays once every firewall of the group works by it and still reaches the server; otherwise all go back.
    #[command(after_help = "Examples:
  rampart fleet apply branches.toml --group branches --key /root/fleet.key
  rampart fleet apply branches.toml --group branches --key /root/fleet.key --confirm 300

Exit status: 0 every firewall whose agent is there has confirmed it; 2 a firewall refused it; 3 it did not stay.")]
    Apply(SendArgs),
    /// Show the firewalls of the fleet: which have not been heard for 35 s, and what came of the last policy.
    #[command(after_help = "Examples:
  rampart fleet status
  rampart fleet status --group branches --json | jq '.firewalls[] | select(.is_stale) | .name'")]
    Status {
        /// Firewalls of this group alone.
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
    },
    /// Show the newest events of the fleet's firewalls.
    #[command(after_help = "Examples:
  rampart fleet log
  rampart fleet log zurich-1 --limit 1000 --json | jq '.events[] | select(.event == \"refused\") | .source'")]
    Log {
        /// Of this firewall alone.
        firewall: Option<String>,
        /// Number of events.
        #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        limit: u32,
        /// Show times on this machine's clock.
        #[arg(long)]
        local: bool,
    },
    /// Print the metrics that a firewall's agent sent last, in Prometheus' text format.
    #[command(after_help = "Examples:
  rampart fleet metrics zurich-1 | grep rampart_flows_open")]
    Metrics {
        /// The firewall.
        firewall: String,
    },
}

/// Arguments of `fleet apply`.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The policy's file.
    policy: PathBuf,
    /// The group.
    #[arg(long, value_name = "GROUP")]
    group: String,
    /// The private key that signs it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Firewalls go back after so long unless the whole group works by the policy: 10 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=3_600))]
    confirm: u32,
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::Wrong(text) => Failure::Wrong(text),
            FleetError::Server(text) => Failure::Machine(text),
            FleetError::Firewall(error) => error.into(),
        }
    }
}

/// Runs an agent until it is ended.
pub(crate) fn agent(args: &AgentArgs) -> Result<ExitCode, Failure> {
    let config = read_config(&args.config)?;
    let agent = config.agent.ok_or_else(|| {
        Failure::Wrong(format!(
            "{} has no [agent]: write it with `name`, `group` and `trust`, which say which firewall this is and whom it obeys",
            args.config.display()
        ))
    })?;
    let shown = args.state.display();
    DirBuilder::new().recursive(true).mode(0o700).create(&args.state).map_err(|error| {
        Failure::Wrong(format!("cannot make {shown}: {error}: name another folder with --state"))
    })?;
    let file = args.state.join("agent.json");
    let saved = match whole_file::read(&file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::Wrong(format!("cannot read {}: {error}", file.display()))),
    };
    let say = |text: &str| output::say(format_args!("rampart agent: {}", escaped(text)));
    let save = |bytes: &[u8]| whole_file::replace(&file, 0o600, bytes);
    let outside = Outside { say: &say, save: &save };
    let running = Running::new(&agent, &Client::new(args.socket.as_deref())?, saved.as_deref(), outside)?;
    runtime()?.block_on(running.run(&config.server));
    Ok(ExitCode::SUCCESS)
}

/// Directs a fleet.
pub(crate) fn run(args: &FleetArgs, json: bool) -> Result<String, Failure> {
    let connected = || -> Result<_, Failure> {
        let (config, runtime) = (read_config(&args.config)?, runtime()?);
        let server = runtime.block_on(Server::connect(&config.server, "rampart fleet"))?;
        Ok((runtime, server))
    };
    match &args.command {
        FleetCommand::Key { file } => make_key(file, json),
        FleetCommand::Apply(args) => {
            let (key, wish) = wish(args)?;
            let (runtime, server) = connected()?;
            let say = |text: &str| output::say(format_args!("rampart: {}", escaped(text)));
            let outcome = runtime.block_on(director::apply(&server, &key, wish, &say))?;
            came_of(&outcome, json)
        }
        FleetCommand::Status { group } => {
            let (runtime, server) = connected()?;
            let mut heard = runtime.block_on(server.heard())?;
            heard.retain(|heard| group.as_ref().is_none_or(|group| heard.report.group == *group));
            Ok(shown(&heard, Timestamp::now(), json))
        }
        FleetCommand::Log { firewall, limit, local } => {
            firewall.iter().try_for_each(|name| check_name(name)).map_err(Failure::Wrong)?;
            let (runtime, server) = connected()?;
            let events = runtime.block_on(server.events(firewall.as_deref(), *limit as usize))?;
            let clock = Clock::new(*local);
            let of_firewall =
                |it: &FleetEvent| format!("{} {}", escaped(&it.firewall), line(&it.event, &clock));
            Ok(match (json, events.is_empty()) {
                (true, _) => format!("{:#}\n", json!({ "events": events })),
                (false, true) => "no events have been sent\n".to_owned(),
                (false, false) => events.iter().map(of_firewall).collect(),
            })
        }
        FleetCommand::Metrics { firewall } => {
            check_name(firewall).map_err(Failure::Wrong)?;
            let (runtime, server) = connected()?;
            let text = runtime.block_on(server.metrics(firewall))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            Ok(if json { format!("{:#}\n", json!({ "metrics": text })) } else { text })
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::Machine(format!("cannot begin: {error}")))
}

fn read_config(path: &Path) -> Result<Config, Failure> {
    if !path.exists() {
        return Err(Failure::Wrong(format!(
            "there is no {}, which says where the server of the fleet is: write server = \"tls://nats.example.net:4222\" into it \
             (docs/guide/fleet.md), or name another file with --config",
            path.display()
        )));
    }
    let (file, text) = read_text(path)?;
    Config::parse(&file, &text).map_err(|problems| Failure::Problems(Box::new(problems)))
}

fn make_key(file: &Path, json: bool) -> Result<String, Failure> {
    let pem = PrivateKey::new_pem()?;
    let public = PrivateKey::from_pem(pem.as_bytes())?.public().to_string();
    let wrong = |error: std::io::Error| {
        let there = match error.kind() {
            ErrorKind::AlreadyExists => ": a key that is replaced is gone for good, so name another file",
            _ => "",
        };
        Failure::Wrong(format!("cannot write {}: {error}{there}", file.display()))
    };
    let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(wrong)?;
    made.write_all(pem.as_bytes()).and_then(|()| made.sync_all()).map_err(wrong)?;
    Ok(match json {
        true => format!("{:#}\n", json!({ "public_key": public })),
        false => format!("{public}\n"),
    })
}

/// Reads the key and the policy, whose mistakes need no firewall to be found.
fn wish(args: &SendArgs) -> Result<(PrivateKey, Wish), Failure> {
    check_name(&args.group).map_err(Failure::Wrong)?;
    let shown = args.key.display();
    let wrong = |why: &dyn std::fmt::Display| Failure::Wrong(format!("cannot use the key {shown}: {why}"));
    let file = whole_file::open(&args.key).map_err(|error| match error.kind() {
        ErrorKind::NotFound => wrong(&"there is no such file; `rampart fleet key FILE` makes one"),
        _ => wrong(&error),
    })?;
    whole_file::check_secret(&file, &shown).map_err(Failure::Wrong)?;
    let pem = whole_file::read_from(file).map_err(|error| wrong(&error))?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| wrong(&error))?;
    let (file, text) = read_text(&args.policy)?;
    Policy::parse(&file, &text).map_err(|problems| Failure::Problems(Box::new(problems)))?;
    Ok((key, Wish { group: args.group.clone(), file, text, confirm_seconds: args.confirm }))
}

/// What came of a policy: success only if it stays everywhere.
fn came_of(outcome: &Outcome, json: bool) -> Result<String, Failure> {
    if outcome.is_confirmed {
        let stale = match outcome.stale.as_slice() {
            [] => String::new(),
            stale => format!("; {} will take it when heard again", stale.join(", ")),
        };
        return Ok(match json {
            true => format!("{:#}\n", json!(outcome)),
            false => {
                format!("in force at {} and stays{stale}\n", of(outcome.firewalls.len() as u64, "firewall"))
            }
        });
    }
    let line = |(name, state): &(String, Option<OrderState>)| {
        format!(
            "\n  {name}: {}",
            state.as_ref().map_or_else(|| "said nothing in time".to_owned(), OrderState::in_words)
        )
    };
    let lines: String = outcome.firewalls.iter().map(line).collect();
    let text = format!("the policy does not stay; firewalls that took it go back by themselves{lines}");
    let is_refused =
        |(_, state): &(String, Option<OrderState>)| matches!(state, Some(OrderState::Refused { .. }));
    Err(match outcome.firewalls.iter().any(is_refused) {
        true => Failure::Wrong(text),
        false => Failure::Machine(text),
    })
}

/// The firewalls. What they say is anybody's who may write on the server.
fn shown(heard: &[Heard], now: Timestamp, json: bool) -> String {
    if json {
        let firewalls: Vec<_> = heard.iter().map(|it| as_json(it, now)).collect();
        return format!("{:#}\n", json!({ "firewalls": firewalls }));
    }
    if heard.is_empty() {
        return "no agent was ever heard\n".to_owned();
    }
    let mut table = Table::new(&[
        ("firewall", Side::Left),
        ("group", Side::Left),
        ("heard", Side::Left),
        ("policy", Side::Left),
        ("rules", Side::Right),
        ("flows", Side::Right),
        ("last order", Side::Left),
    ]);
    let mut troubles = String::new();
    for it in heard {
        let report = &it.report;
        let firewall = report.firewall.as_ref();
        let number = |number: fn(&fleet::report::Firewall) -> u64| {
            firewall.map_or_else(String::new, |it| grouped(number(it)))
        };
        let cells = [
            report.name.clone(),
            report.group.clone(),
            ago(it, now),
            firewall.map_or_else(|| "does not answer".to_owned(), |firewall| firewall.file.clone()),
            number(|firewall| firewall.rules),
            number(|firewall| firewall.flows_open),
            report.order_state.in_words(),
        ];
        table.row(cells.map(|cell| escaped(&cell)));
        for trouble in &report.troubles {
            troubles += &format!("{}: {}\n", escaped(&report.name), escaped(trouble));
        }
    }
    table.text() + &troubles
}

fn as_json(heard: &Heard, now: Timestamp) -> serde_json::Value {
    let mut value = json!(heard.report);
    value["heard_at"] = json!(heard.at);
    value["is_stale"] = json!(is_stale(heard, now));
    value
}

fn ago(heard: &Heard, now: Timestamp) -> String {
    let seconds = now.duration_since(heard.at).as_secs().max(0);
    let ago = format!("{} ago", span(seconds.unsigned_abs()));
    if is_stale(heard, now) { format!("stale, {ago}") } else { ago }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::report::{Firewall, Report};

    fn heard(name: &str, seconds_ago: i64, firewall: Option<Firewall>, order_state: OrderState) -> Heard {
        let report = Report {
            name: name.to_owned(),
            group: "branches".to_owned(),
            version: "0.1.0".to_owned(),
            order: None,
            order_state,
            firewall,
            events_missed: 0,
            troubles: vec![format!("{name} has\n\u{1b}[2Jtrouble")],
        };
        Heard { report, at: Timestamp::from_second(1_000 - seconds_ago).unwrap() }
    }

    #[test]
    fn a_fleet_is_shown_with_who_is_late() {
        let firewall = |file: &str| {
            Some(Firewall { version: "0.1.0".to_owned(), file: file.to_owned(), rules: 4, flows_open: 1_234 })
        };
        let heard = [
            heard("bern", 36, None, OrderState::RolledBack),
            heard("zug", 35, firewall("p\n.toml"), OrderState::Refused { why: "p.toml:1:1: no".to_owned() }),
        ];
        let now = Timestamp::from_second(1_000).unwrap();
        let lines = [
            "firewall  group     heard           policy           rules  flows  last order",
            "bern      branches  stale, 36s ago  does not answer                went back to the policy before it",
            "zug       branches  35s ago         p\\n.toml             4  1,234  refused: p.toml:1:1: no",
            "bern: bern has\\n\\u{1b}[2Jtrouble",
            "zug: zug has\\n\\u{1b}[2Jtrouble",
        ];
        assert_eq!(shown(&heard, now, false).lines().collect::<Vec<_>>(), lines);
        let json: serde_json::Value = serde_json::from_str(&shown(&heard, now, true)).unwrap();
        assert_eq!(json["firewalls"][0]["is_stale"], true);
        assert_eq!(json["firewalls"][1]["order_state"]["is"], "refused");
        assert!(shown(&[], now, false).contains("no agent"));
    }

    #[test]
    fn a_policy_that_does_not_stay_says_where() {
        let outcome = |is_confirmed, firewalls: &[(&str, Option<OrderState>)]| Outcome {
            made_at: Timestamp::UNIX_EPOCH,
            is_confirmed,
            firewalls: firewalls.iter().map(|(name, state)| ((*name).to_owned(), state.clone())).collect(),
            stale: vec!["bern".to_owned()],
        };
        let text = came_of(&outcome(true, &[("zug", Some(OrderState::Confirmed))]), false).unwrap();
        assert_eq!(text, "in force at 1 firewall and stays; bern will take it when heard again\n");
        let refused = OrderState::Refused { why: "no".to_owned() };
        for (firewalls, status, line) in [
            (vec![("zug", None)], 3, "\n  zug: said nothing in time"),
            (
                vec![("zug", Some(refused)), ("chur", None)],
                2,
                "\n  zug: refused: no\n  chur: said nothing in time",
            ),
        ] {
            let failure = came_of(&outcome(false, &firewalls), false).unwrap_err();
            assert_eq!(failure.status(), status);
            assert!(failure.to_string().ends_with(line), "{failure}");
        }
    }
}
