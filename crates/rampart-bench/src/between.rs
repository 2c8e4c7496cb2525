//! Firewalls that the command line names: `--ports`, a firewall between two interfaces of this machine with what its owner says of it; `--agents`,
//! the same between two hosts; and
//! `--dut program:PATH`, a driver outside the tree. Everything that the user can have got wrong is looked at before the run begins.

use crate::cli::RunArgs;
use crate::failure::Failure;
use crate::machine::command_line;
use crate::rig::Link;
use agents::{Key, Leader};
use measure::plan::Plan;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use testbed::dut::{self, Driver, External, ExternalPort, ExternalPorts, Program, Stated};
use testbed::policy::StatedTraffic;

/// A firewall that the command line names, before its interfaces are taken.
pub(crate) struct Named {
    firewall: &'static External,
    ports: NamedPorts,
    traffic: Vec<StatedTraffic>,
}

/// Where the command line says that its ports are.
enum NamedPorts {
    Here([ExternalPort; 2]),
    /// At the hosts of these agents, private side first.
    Hosts([String; 2]),
}

/// The same with interfaces that can be used.
pub(crate) struct Between {
    pub(crate) firewall: &'static External,
    pub(crate) ports: Where,
}

/// Where the ports are.
pub(crate) enum Where {
    /// At this host.
    Here(ExternalPorts),
    /// Each at a host with an agent.
    Hosts(Rc<Link>),
}

/// What `--dut` has before the path of a driver outside the tree.
const PROGRAM: &str = "program:";

/// The names of `--dut`, where each program has given its own; the drivers know it from now on.
pub(crate) fn with_programs(duts: &[String]) -> Result<Vec<String>, Failure> {
    let name = |dut: &String| -> Result<String, Failure> {
        let Some(path) = dut.strip_prefix(PROGRAM) else { return Ok(dut.clone()) };
        let program: &Program = Box::leak(Box::new(Program::ask(Path::new(path))?));
        dut::add(program)?;
        Ok(program.name().to_owned())
    };
    duts.iter().map(name).collect()
}

/// The firewall between `--ports`, if there is one; the drivers know it from now on.
pub(crate) fn named(args: &RunArgs) -> Result<Option<Named>, Failure> {
    let ports = match (&args.ports, &args.agents) {
        (Some(ports), _) => NamedPorts::Here(ports_of(ports)?),
        (None, Some(agents)) => NamedPorts::Hosts(agents_of(agents, args)?),
        (None, None) => return Ok(None),
    };
    let traffic = stated_traffic(args)?;
    let stated = match (args.suite_policy, traffic.is_empty()) {
        (true, _) => Stated::Suite,
        (false, true) => Stated::Nothing,
        (false, false) => Stated::Traffic(traffic.clone()),
    };
    let beside = match &ports {
        NamedPorts::Here(ports) => {
            args.dut.as_ref().map(|_| ports.each_ref().map(|port| port.interface.as_str()))
        }
        NamedPorts::Hosts(_) => None,
    };
    let firewall: &External = Box::leak(Box::new(External::new(args.name.as_deref(), stated, beside)?));
    dut::add(firewall)?;
    Ok(Some(Named { firewall, ports, traffic }))
}

fn ports_of(ports: &[String]) -> Result<[ExternalPort; 2], Failure> {
    let [private, hostile] = ports else {
        return Err(Failure::Wrong(format!(
            "--ports {}: two interfaces, as in --ports eth1,eth2, with the firewall between them",
            ports.join(",")
        )));
    };
    Ok([private.parse()?, hostile.parse()?])
}

fn agents_of(names: &[String], args: &RunArgs) -> Result<[String; 2], Failure> {
    let wrong = |why: &str| Failure::Wrong(format!("--agents {}: {why}", names.join(",")));
    let [private, hostile] = names else {
        return Err(wrong(
            "two agents, as in --agents left,right, with the firewall between their hosts; the first is on the private side",
        ));
    };
    if private == hostile {
        return Err(wrong("it is one agent twice: the firewall must be between two"));
    }
    names.iter().try_for_each(|name| agents::check_name(name)).map_err(|why| wrong(&why))?;
    if args.dut.is_some() {
        return Err(wrong(
            "--dut is of firewalls on this machine, whose figures cannot stand beside those of two other hosts: measure them in a run of their own",
        ));
    }
    Ok([private.clone(), hostile.clone()])
}

fn stated_traffic(args: &RunArgs) -> Result<Vec<StatedTraffic>, Failure> {
    let read = |texts: &[String], passes| -> Result<Vec<StatedTraffic>, Failure> {
        texts.iter().map(|text| Ok(StatedTraffic::parse(text, passes)?)).collect()
    };
    let (pass, stay) = (read(&args.must_pass, true)?, read(&args.must_not_pass, false)?);
    if !pass.is_empty() && stay.is_empty() {
        return Err(Failure::Wrong(
            "--must-pass alone proves no policy, because a wire lets it pass as well: say with --must-not-pass what the firewall \
             must stop, for example --must-not-pass tcp/23"
                .to_owned(),
        ));
    }
    Ok([pass, stay].concat())
}

impl Named {
    pub(crate) fn name(&self) -> &'static str {
        self.firewall.name()
    }

    /// Looks at what was stated against what the plan sends, and at the interfaces as far as that needs nothing of the machine.
    pub(crate) fn check(&self, plan: &Plan, args: &RunArgs) -> Result<(), Failure> {
        for planned in &plan.cells {
            let tested = planned.setup.policy.protocol;
            let stopped = |traffic: &&StatedTraffic| !traffic.passes && traffic.is_of_the_test(tested);
            if let Some(traffic) = self.traffic.iter().find(stopped) {
                return Err(Failure::Wrong(format!(
                    "--must-not-pass {traffic}: test {} itself sends this traffic, to ports 1 to 49151: name a higher port or the \
                     other protocol",
                    planned.cell.test
                )));
            }
        }
        match &self.ports {
            NamedPorts::Here([private, hostile]) => Ok(ExternalPorts::look_at(private, hostile, args.force)?),
            NamedPorts::Hosts(_) => Ok(()),
        }
    }

    /// Takes the interfaces, or greets the agents that have them.
    pub(crate) fn taken(self, args: &RunArgs) -> Result<Between, Failure> {
        let ports = match self.ports {
            NamedPorts::Here([private, hostile]) => {
                Where::Here(ExternalPorts::check(&private, &hostile, args.force)?)
            }
            NamedPorts::Hosts(agents) => Where::Hosts(Rc::new(link(agents, args)?)),
        };
        Ok(Between { firewall: self.firewall, ports })
    }
}

/// Connects to the server of the agents, and greets each, so that what is wrong is said before the run.
fn link(agents: [String; 2], args: &RunArgs) -> Result<Link, Failure> {
    let missing = |what: &str| Failure::Wrong(format!("--agents: say with {what}"));
    let server = args.server.as_ref().ok_or_else(|| missing("--server where the server of NATS is"))?;
    let key = args.key.as_ref().ok_or_else(|| missing("--key what orders are sealed with"))?;
    let key = Key::read(key)?;
    let leader = Leader::connect(&args.login.address(server)?, key, "rampart-bench run")?;
    for agent in &agents {
        leader.greet(agent)?;
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let who = format!("process {} on {}: {}", std::process::id(), host.trim(), command_line());
    Ok(Link { leader, agents, who, hosts: RefCell::default() })
}
