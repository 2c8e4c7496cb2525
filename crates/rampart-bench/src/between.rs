//! Firewalls that the command line names: `--ports`, a firewall between two interfaces of this machine with what its owner says of it, and
//! `--dut program:PATH`, a driver outside the tree. Everything that the user can have got wrong is looked at before the run begins.

use crate::cli::RunArgs;
use crate::failure::Failure;
use measure::plan::Plan;
use std::path::Path;
use testbed::dut::{self, Driver, External, ExternalPort, ExternalPorts, Program, Stated};
use testbed::policy::StatedTraffic;

/// A firewall that the command line names, before its interfaces were looked at.
pub(crate) struct Named {
    firewall: &'static External,
    ports: [ExternalPort; 2],
    traffic: Vec<StatedTraffic>,
}

/// The same with interfaces that can be used.
pub(crate) struct Between {
    pub(crate) firewall: &'static External,
    pub(crate) ports: ExternalPorts,
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
    let Some(ports) = &args.ports else { return Ok(None) };
    let [private, hostile] = ports.as_slice() else {
        return Err(Failure::Wrong(format!(
            "--ports {}: two interfaces, as in --ports eth1,eth2, with the firewall between them",
            ports.join(",")
        )));
    };
    let ports: [ExternalPort; 2] = [private.parse()?, hostile.parse()?];
    let traffic = stated_traffic(args)?;
    let stated = match (args.suite_policy, traffic.is_empty()) {
        (true, _) => Stated::Suite,
        (false, true) => Stated::Nothing,
        (false, false) => Stated::Traffic(traffic.clone()),
    };
    let interfaces = ports.each_ref().map(|port| port.interface.as_str());
    let beside = args.dut.as_ref().map(|_| interfaces);
    let firewall: &External = Box::leak(Box::new(External::new(args.name.as_deref(), stated, beside)?));
    dut::add(firewall)?;
    Ok(Some(Named { firewall, ports, traffic }))
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

    /// Looks at the interfaces, and at what was stated against what the plan sends.
    pub(crate) fn checked(self, plan: &Plan, force: bool) -> Result<Between, Failure> {
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
        let [private, hostile] = &self.ports;
        Ok(Between { firewall: self.firewall, ports: ExternalPorts::check(private, hostile, force)? })
    }
}
