//! What the machine is to be, from options or from questions. Decides nothing about policies.

use super::machine::{Link, Machine};
use super::{Plan, Role};
use crate::cli::InitArgs;
use crate::failure::Failure;
use std::io::{self, BufRead, Write};

/// A role, its name as an option, and what it is in words. Whoever is asked sees them in this order.
const ROLES: [(Role, &str, &str); 4] = [
    (Role::Host, "host", "a machine that forwards nothing: a server, a workstation"),
    (
        Role::HomeGateway,
        "home-gateway",
        "a network inside that goes out by translation; nobody outside gets in",
    ),
    (Role::OfficeDmz, "office-dmz", "the same, and servers in a network of their own"),
    (Role::Bridge, "bridge", "a bridge between two interfaces of one network, which nobody sees"),
];

/// Zones that a plan has interfaces for: the option, and what is asked.
const ZONES: [(&str, &str); 3] = [
    ("--wan", "Which interface leads to the outside"),
    ("--lan", "Which interfaces lead to the network inside"),
    ("--dmz", "Which interfaces lead to the servers"),
];

/// From options alone. The way out is the default route's interface unless it is said.
///
/// # Errors
/// Something is missing, is not here, or is said twice.
pub(super) fn of_options(args: &InitArgs, machine: &Machine) -> Result<Plan, Failure> {
    let names = ROLES.map(|(_, name, _)| name).join("|");
    let role =
        args.role.ok_or_else(|| Failure::Wrong(format!("say what this machine is: --role {names}")))?;
    finish(role, [args.wan.clone(), args.lan.clone(), args.dmz.clone()], machine)
}

/// Asks for what the options leave open.
///
/// # Errors
/// As [`of_options`], or nobody answers.
pub(super) fn ask(
    args: &InitArgs,
    machine: &Machine,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<Plan, Failure> {
    let mut terminal = Terminal { input, output };
    let role = match args.role {
        Some(role) => role,
        None => terminal.role()?,
    };
    let mut interfaces = [args.wan.clone(), args.lan.clone(), args.dmz.clone()];
    for (at, (_, question)) in ZONES.iter().enumerate().filter(|(at, _)| *at > 0 || role != Role::Host) {
        if interfaces[at].is_empty() && has_zone(role, at) {
            let taken: Vec<&String> = interfaces.iter().flatten().collect();
            let left: Vec<&Link> = machine.links.iter().filter(|link| !taken.contains(&&link.name)).collect();
            let usual = match (at, role) {
                // What leads out of this machine is how a bridge is managed.
                (_, Role::Bridge) => Vec::new(),
                (0, _) => machine.way_out.clone(),
                _ => only(&left),
            };
            interfaces[at] = terminal.interfaces(question, &left, &usual)?;
        }
    }
    finish(role, interfaces, machine)
}

/// The only one of some interfaces.
fn only(links: &[&Link]) -> Vec<String> {
    if let [link] = links { vec![link.name.clone()] } else { Vec::new() }
}

/// Whether a machine of a role has interfaces for a zone of [`ZONES`].
fn has_zone(role: Role, zone: usize) -> bool {
    match role {
        Role::Host => zone == 0,
        Role::HomeGateway | Role::Bridge => zone < 2,
        Role::OfficeDmz => true,
    }
}

fn finish(role: Role, mut interfaces: [Vec<String>; 3], machine: &Machine) -> Result<Plan, Failure> {
    let here = || match machine.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none is here, in this network namespace".to_owned(),
        names => format!("here are: {names}"),
    };
    if interfaces[0].is_empty() {
        interfaces[0] = match role {
            Role::Host => machine.links.iter().map(|link| link.name.clone()).collect(),
            Role::Bridge => Vec::new(),
            _ => machine.way_out.clone(),
        };
    }
    for (at, (option, _)) in ZONES.iter().enumerate() {
        let named = &interfaces[at];
        if has_zone(role, at) && named.is_empty() {
            return Err(Failure::Wrong(format!("say {option} INTERFACE; {}", here())));
        }
        if role == Role::Bridge && named.len() > 1 {
            return Err(Failure::Wrong(format!("{option}: a bridge has one interface on each side")));
        }
        if !has_zone(role, at) && !named.is_empty() {
            return Err(Failure::Wrong(format!("{option} is not for this role")));
        }
        for (position, name) in named.iter().enumerate() {
            if machine.link(name).is_none() {
                return Err(Failure::Wrong(format!(
                    "{option} {name}: there is no such interface that could be in a zone; {}",
                    here()
                )));
            }
            if interfaces[..at].iter().flatten().chain(&named[..position]).any(|other| other == name) {
                return Err(Failure::Wrong(format!(
                    "{option} {name}: it is named twice, and belongs to one zone"
                )));
            }
        }
    }
    let [wan, lan, dmz] = interfaces;
    Ok(Plan { role, wan, lan, dmz })
}

/// Where questions are asked.
struct Terminal<'t> {
    input: &'t mut dyn BufRead,
    output: &'t mut dyn Write,
}

impl Terminal<'_> {
    fn role(&mut self) -> Result<Role, Failure> {
        let mut question = "What is this machine?\n".to_owned();
        for (number, (_, name, words)) in (1..).zip(ROLES) {
            question += &format!("  {number}  {name}: {words}\n");
        }
        self.until(&question, |answer| {
            let is_it = |(number, (_, name, _)): &(usize, (Role, &str, &str))| {
                *name == answer || number.to_string() == answer
            };
            (1..).zip(ROLES).find(is_it).map(|(_, (role, ..))| role).ok_or("a number, or the name".to_owned())
        })
    }

    /// Names among those that are left; an empty answer takes the usual ones.
    fn interfaces(
        &mut self,
        question: &str,
        left: &[&Link],
        usual: &[String],
    ) -> Result<Vec<String>, Failure> {
        let mut text = format!("{question}?\n");
        for link in left {
            let networks: Vec<String> = link.networks.iter().map(ToString::to_string).collect();
            text += &format!("  {}  {}\n", link.name, networks.join(" "));
        }
        if !usual.is_empty() {
            text += &format!("[{}] ", usual.join(" "));
        }
        self.until(&text, |answer| {
            let named: Vec<String> =
                answer.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
            let named = if named.is_empty() { usual.to_vec() } else { named };
            match named.iter().find(|name| !left.iter().any(|link| link.name == **name)) {
                Some(name) => Err(format!("there is no {name} among these")),
                None if named.is_empty() => Err("at least one is needed".to_owned()),
                None => Ok(named),
            }
        })
    }

    /// Asks again until the answer can be used.
    fn until<T>(&mut self, question: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
        let wrong = |error: io::Error| Failure::Machine(format!("cannot ask: {error}"));
        loop {
            write!(self.output, "{question}> ").and_then(|()| self.output.flush()).map_err(wrong)?;
            let mut answer = String::new();
            if self.input.read_line(&mut answer).map_err(wrong)? == 0 {
                return Err(Failure::Wrong("nobody answered; nothing was written".to_owned()));
            }
            match read(answer.trim()) {
                Ok(value) => return Ok(value),
                Err(why) => writeln!(self.output, "{why}").map_err(wrong)?,
            }
        }
    }
}
