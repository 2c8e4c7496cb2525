//! Firewalls under test. A driver is one file here and one row of [`DRIVERS`]: it sets a firewall up with the policy
//! of a test, tells what can be observed of it, resets it and takes it down. It never measures and never judges:
//! the bench proves the policy with [`crate::policy::PolicySpec::probes`].

use crate::bed::{Bed, Wiring};
use crate::error::TestbedError;
use crate::policy::PolicySpec;
use crate::program;
use measure::application::{Protocol, ProtocolMix};
use measure::results::Role;
use measure::shape::{EventLog, PolicyShape, Setup, TestProtocol, ZoneForm};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

mod external;
mod iptables;
mod kernel;
mod known;
mod linux;
mod linux_bridge;
mod nftables;
mod nftables_map;
mod outside;
mod ovs;
mod packet_sockets;
mod proxy;
mod rampart;
mod services;
mod sets;
mod wire;
pub(crate) mod xdp_redirect;
mod zones;

pub use external::{External, ExternalBed, ExternalPort, ExternalPorts, Stated};
pub use known::Behaviour;
pub use outside::Program;
pub use xdp_redirect::PlainForwarder;

/// What a box between named interfaces is called if its owner gives it no name. Where no interfaces are named there is no such box.
pub const UNNAMED_BOX: &str = external::NAME;

/// Every driver, in the order of `rampart-bench list duts` and of reports.
pub const DRIVERS: &[&dyn Driver] = &[
    &wire::Wire,
    &PlainForwarder::XDP_REDIRECT,
    &linux::Linux,
    &linux_bridge::LinuxBridge,
    &nftables::CHAIN,
    &nftables::MAP,
    &nftables::FLOWTABLE,
    &iptables::Iptables,
    &iptables::Ipset,
    &ovs::Ovs,
    &proxy::HAPROXY,
    &proxy::SQUID,
    &rampart::XDP,
    &rampart::TC,
    &rampart::GATEWAY,
    &rampart::KERNEL,
    &rampart::XDP_BRIDGE,
    &rampart::TC_BRIDGE,
    &external::UNKNOWN,
];

/// Firewalls that the command line named.
static NAMED: Mutex<Vec<&'static dyn Driver>> = Mutex::new(Vec::new());

/// Adds a firewall that the command line names: a box between two interfaces, or a program outside the tree. It comes last in
/// reports.
///
/// # Errors
/// [`TestbedError::Impossible`] when another firewall has its name.
pub fn add(firewall: &'static dyn Driver) -> Result<(), TestbedError> {
    let name = firewall.name();
    // The box of which nothing was said gives its place to one of which something is.
    let is_unnamed = external::look_alike(name, external::UNKNOWN.name());
    let taken = all().into_iter().find(|other| external::look_alike(other.name(), name));
    if let Some(other) = taken.filter(|_| !is_unnamed) {
        let what = format!(
            "there is a firewall under test named {} already, and {name} could be taken for it: give this one another name",
            other.name()
        );
        return Err(TestbedError::Impossible(what));
    }
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    named.push(firewall);
    Ok(())
}

/// Every driver, those of [`DRIVERS`] first.
pub fn all() -> Vec<&'static dyn Driver> {
    let named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let replaced = |driver: &&&dyn Driver| named.iter().any(|other| other.name() == driver.name());
    DRIVERS.iter().filter(|driver| !replaced(driver)).chain(named.iter()).copied().collect()
}

/// The driver of that name.
///
/// # Errors
/// [`TestbedError::UnknownDut`] lists all names.
pub fn driver(name: &str) -> Result<&'static dyn Driver, TestbedError> {
    let all = all();
    all.iter().copied().find(|driver| driver.name() == name).ok_or_else(|| TestbedError::UnknownDut {
        name: name.to_owned(),
        known: all.iter().map(|driver| driver.name()).collect::<Vec<_>>().join(", "),
    })
}

/// What a firewall can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Filter by rules.
    pub rules: bool,
    /// Track connections.
    pub stateful: bool,
    /// Judge every frame by the rules alone, replies included.
    pub stateless: bool,
    /// Translate source addresses.
    pub nat: bool,
    /// Rules of whatever protocol, which families of rule sets have.
    pub any_protocol: bool,
    /// Block lists of addresses.
    pub lists: bool,
    /// A table of subnets that alone may come in and go out.
    pub countries: bool,
    /// Replace its policy while traffic flows.
    pub replacement: bool,
    /// IPv6.
    pub ipv6: bool,
    /// A bed with a DMZ.
    pub three_zones: bool,
    /// Look names up of a name server, or not, as the test asks.
    pub look_ups: bool,
    /// Keep decisions about requests, or not.
    pub decision_cache: bool,
    /// Record each request that passes.
    pub event_log: bool,
    /// End connections in programs of its own, so that the kernel keeps what comes in for them.
    pub own_sockets: bool,
}

impl Capabilities {
    /// Forwards, and no more.
    const FORWARDING: Self = Self {
        rules: false,
        stateful: false,
        stateless: false,
        nat: false,
        any_protocol: false,
        lists: false,
        countries: false,
        replacement: false,
        ipv6: true,
        three_zones: true,
        look_ups: false,
        decision_cache: false,
        event_log: false,
        own_sockets: false,
    };
    /// Rules with and without state, which can be replaced under load.
    const RULES: Self = Self {
        rules: true,
        stateful: true,
        stateless: true,
        any_protocol: true,
        replacement: true,
        ..Self::FORWARDING
    };
    /// Everything.
    const FIREWALL: Self = Self { nat: true, lists: true, countries: true, ..Self::RULES };

    /// Whether it forwards everything, and cannot be given a policy: such a driver stands beside the firewalls as the limit
    /// of what they could reach.
    pub const fn only_forwards(&self) -> bool {
        !(self.rules || self.nat || self.lists || self.countries)
    }

    /// Whether it tracks every connection, whatever its policy.
    pub fn always_keeps_state(&self) -> bool {
        self.stateful && !self.stateless
    }

    /// What becomes of a policy: a firewall that always keeps state keeps it where the policy asks for none, as it would for any
    /// of its users; the others have nothing to keep it for where there are neither rules nor translation.
    pub fn as_enforced(&self, asked: &PolicyShape) -> PolicyShape {
        let has_use = asked.rules > 0 || asked.nat;
        PolicyShape { stateful: self.always_keeps_state() || (asked.stateful && has_use), ..asked.clone() }
    }

    /// The first thing that a policy wants and this firewall cannot do, in words; `None` when it can do all.
    pub fn lacks(&self, shape: &PolicyShape, zones: ZoneForm) -> Option<String> {
        let gateway = &shape.gateway;
        let wants: [(bool, bool, &str); 15] = [
            (zones == ZoneForm::Three, self.three_zones, "a bed with three zones"),
            (shape.rules > 0, self.rules, "rules"),
            (shape.rules > 0 && shape.stateful, self.stateful, "stateful inspection"),
            (shape.rules > 0 && !shape.stateful, self.stateless, "rules without state"),
            // What tracks connections and cannot do otherwise wants a SYN before anything else.
            (
                shape.rules == 0 && shape.protocol == TestProtocol::Tcp && !shape.stateful,
                !self.always_keeps_state(),
                "forwarding TCP without state",
            ),
            (
                shape.rule_family.is_some(),
                self.any_protocol,
                "rules of any protocol, which families of rules have",
            ),
            (shape.nat, self.nat, "address translation"),
            // The kernel's translation is part of its connection tracking: without one there is no other.
            (shape.nat && shape.rules > 0 && !shape.stateful, false, "address translation without state"),
            (shape.listed_addresses > 0, self.lists, "lists of addresses"),
            (shape.allowed_subnets > 0, self.countries, "a country table"),
            (gateway.look_ups, self.look_ups, "look-ups of names (`look_ups`), which are a gateway's"),
            (
                !gateway.keeps_decisions,
                self.decision_cache,
                "a cache of decisions that can be off (`decision_cache`), which is a gateway's",
            ),
            (gateway.event_log != EventLog::None, self.event_log, "an event log of requests (`event_log`)"),
            (
                gateway.receive_kb.is_some(),
                self.own_sockets,
                "receive buffers (`receive_buffer`): no connection ends at it",
            ),
            (
                gateway.memory_mb.is_some(),
                self.own_sockets,
                "a limit on memory (`memory_limit`): no program of its own carries connections",
            ),
        ];
        wants.iter().find(|(wanted, can, _)| *wanted && !can).map(|(_, _, what)| (*what).to_owned())
    }
}

/// Something that a driver needs of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// A program on the `PATH`, such as `nft`.
    Program(&'static str),
    /// A file that the kernel shows when it has a feature, with what that feature is called.
    KernelFile {
        /// Absolute path.
        path: &'static str,
        /// The feature's name for messages.
        feature: &'static str,
    },
    /// Something that the kernel's nftables can do.
    NftAccepts {
        /// A table that has it. It is loaded into a namespace of its own, which is gone afterwards.
        table: &'static str,
        /// The feature's name for messages.
        feature: &'static str,
    },
}

impl Requirement {
    /// Whether it is there.
    pub fn is_met(&self) -> bool {
        match self {
            Requirement::Program(name) => program::is_installed(name),
            Requirement::KernelFile { path, .. } => std::path::Path::new(path).exists(),
            // Without root nothing can be loaded; the run stops at that.
            Requirement::NftAccepts { table, .. } => {
                let load = || program::run_with_input("nft", &["-f", "-"], table).map(drop);
                !nix::unistd::geteuid().is_root() || crate::netns::in_a_new_one(load).is_ok()
            }
        }
    }

    /// As an error, when it is not there.
    ///
    /// # Errors
    /// [`TestbedError::ProgramMissing`] or [`TestbedError::MachineCannot`].
    pub fn check(&self) -> Result<(), TestbedError> {
        match *self {
            _ if self.is_met() => Ok(()),
            Requirement::Program(name) => Err(TestbedError::ProgramMissing {
                program: name.to_owned(),
                package: program::package_of(name),
            }),
            Requirement::KernelFile { path, feature } => Err(TestbedError::MachineCannot {
                what: format!("use {feature}"),
                remedy: format!("its kernel does not show {path}: use a kernel with it, or load its module"),
            }),
            Requirement::NftAccepts { feature, .. } => Err(TestbedError::MachineCannot {
                what: format!("use {feature}"),
                remedy: "its kernel refuses them: use a kernel with it (Debian's has it as a module), or leave the firewall out \
                         with --dut"
                    .to_owned(),
            }),
        }
    }
}

/// How a proxy carries what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relay {
    /// Each connection over one of its own.
    Connections,
    /// Requests, over as many connections as it likes: it may keep them open and share them.
    Requests,
}

/// Why a proxy that relays so does not carry something of a mix, if anything: of a mix that a suite states with the part that it is.
fn refused_part(mix: &ProtocolMix, relays: fn(Protocol) -> Result<Relay, &'static str>) -> Option<String> {
    match mix.stated() {
        Some(stated) => stated.parts.iter().find_map(|part| {
            let why = relays(part.protocol).err()?;
            let (name, protocol) = (&part.name, part.protocol.name());
            Some(format!("part {name} ({protocol}) of the mix {}: {why}", stated.name))
        }),
        None => mix.protocols().into_iter().find_map(|protocol| relays(protocol).err()).map(str::to_owned),
    }
}

/// A kind of firewall.
pub trait Driver: Sync {
    /// The name in suites and results.
    fn name(&self) -> &'static str;

    /// One line for `list duts`.
    fn summary(&self) -> &'static str;

    /// What it is to the reader of a report.
    fn role(&self) -> Role {
        Role::Firewall
    }

    /// What the machine must have.
    fn requirements(&self) -> &'static [Requirement];

    /// What it can be asked for.
    fn capabilities(&self) -> Capabilities;

    /// What must stand between the zones of its bed.
    fn wiring(&self) -> Wiring {
        Wiring::Firewall
    }

    /// Program to version, for the results' environment.
    fn versions(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// How the firewall differs from what a test asks for, in words for the report; `None` when it does not.
    fn remark(&self, asked: &PolicyShape) -> Option<String> {
        let (name, can) = (self.name(), self.capabilities());
        if can.only_forwards() {
            let asked =
                asked.rules > 0 || asked.nat || asked.listed_addresses > 0 || asked.allowed_subnets > 0;
            return asked.then(|| format!("{name} only forwards: it stands here without the policy"));
        }
        kept_state(name, can, asked)
    }

    /// What of a test the firewall cannot handle, in words; `None` when it can handle all of it.
    fn cannot_handle(&self, _setup: &Setup) -> Option<String> {
        None
    }

    /// What a proxy does with connections of applications that speak this: it ends them, and servers see its own. `None` of a firewall
    /// through which segments pass.
    fn relays(&self, _protocol: Protocol) -> Option<Relay> {
        None
    }

    /// Sets the firewall up with a policy.
    ///
    /// # Errors
    /// [`TestbedError::Unsupported`] for a policy that it cannot do, a missing requirement, or what its own programs
    /// say. Nothing of it stays after an error.
    fn set_up(&self, bed: &Bed, policy: &PolicySpec) -> Result<Box<dyn Running>, TestbedError>;

    /// Whether programs of its own may hand frames on, when it is their turn: a frame may then arrive later than its sender goes on, where
    /// they share a core.
    fn hands_on_later(&self) -> bool {
        false
    }
}

/// Whether a firewall keeps state that a test does not ask for, in words.
fn kept_state(name: &str, can: Capabilities, asked: &PolicyShape) -> Option<String> {
    (can.always_keeps_state() && !asked.stateful).then(|| {
        format!("{name} keeps state of every flow, which this test does not ask for: the others go without")
    })
}

/// Refuses what a driver cannot do and what the machine lacks; every `set_up` starts with it.
fn admit(driver: &dyn Driver, policy: &PolicySpec) -> Result<(), TestbedError> {
    if let Some(what) = driver.capabilities().lacks(&policy.shape, policy.zones) {
        return Err(TestbedError::Unsupported { dut: driver.name(), what });
    }
    if policy.generation.is_some() && !driver.capabilities().replacement {
        let what = "the replacement of its policy under load".to_owned();
        return Err(TestbedError::Unsupported { dut: driver.name(), what });
    }
    driver.requirements().iter().try_for_each(Requirement::check)
}

/// Refuses a replacement that changes more than rules and the elements of sets.
fn check_replacement(old: &PolicySpec, new: &PolicySpec) -> Result<(), TestbedError> {
    let form = |policy: &PolicySpec| {
        let shape = PolicyShape {
            seed: 0,
            rules: policy.shape.rules.min(1),
            match_position: 0,
            ..policy.shape.clone()
        };
        (shape, policy.zones)
    };
    if form(old) == form(new) && old.has_rules() {
        return Ok(());
    }
    Err(TestbedError::Impossible(
        "a policy can be replaced under load only by one of the same form: rules and the elements of lists and tables may \
         differ, not whether there are any, nor state, translation, protocol or zones"
            .to_owned(),
    ))
}

/// What the replacement of a policy took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replaced {
    /// Seconds that the firewall's own commands took, from the start of the first to the end of the last.
    pub command_seconds: f64,
}

/// A firewall that is set up. Dropping it takes it down; drop it before its bed.
pub trait Running: Send {
    /// Frames that it dropped so far, by the name of its own counter. Counters only grow, except across a reset of one
    /// whose drops the kernel lists too.
    ///
    /// # Errors
    /// When they cannot be read: the firewall, or its rule set, may be gone.
    fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError>;

    /// Entries in its flow table, where it has one.
    ///
    /// # Errors
    /// When they cannot be read.
    fn flow_entries(&self) -> Result<Option<u64>, TestbedError> {
        Ok(None)
    }

    /// Bytes of memory that it uses, as far as the kernel shows it: connection entries, lists and BPF maps, not rules.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    /// Seconds that the firewall's own programs took to load the policy when it was set up, where it has one.
    fn policy_load_seconds(&self) -> Option<f64> {
        None
    }

    /// Replaces the policy while traffic flows. Connections stay, counters go on. The new policy must have the form of the
    /// old one: [`PolicySpec::successor`] and [`PolicySpec::with_other_lists`] have.
    ///
    /// # Errors
    /// [`TestbedError::Unsupported`] for a firewall that cannot; [`TestbedError::Impossible`] for a policy of another form;
    /// otherwise what its own programs say, and then either policy may be in force.
    fn replace(&mut self, _policy: &PolicySpec) -> Result<Replaced, TestbedError> {
        let what = "the replacement of its policy under load".to_owned();
        Err(TestbedError::Unsupported { dut: "this firewall", what })
    }

    /// Forgets every flow, so that a trial that fills the table begins with an empty one. Does nothing for a firewall that
    /// remembers none.
    ///
    /// # Errors
    /// What its own programs say.
    fn forget_flows(&mut self) -> Result<(), TestbedError> {
        Ok(())
    }

    /// The threads that do its receive work; empty in inline placement, where it has none of its own.
    fn firewall_threads(&self) -> Vec<i32> {
        Vec::new()
    }

    /// Whether it still is what was set up: its rule set loaded, its programs attached, its links up.
    ///
    /// # Errors
    /// [`TestbedError::Impossible`] says what is gone.
    fn check_alive(&self) -> Result<(), TestbedError>;

    /// Resets it (RFC 2544 section 26.6): links down, connections forgotten, links up, the policy loaded again.
    ///
    /// # Errors
    /// What its own programs say; it is then not usable any more.
    fn reset(&mut self) -> Result<(), TestbedError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::shape::GatewayShape;

    #[test]
    fn names_are_unique_and_found() {
        for wanted in DRIVERS {
            assert_eq!(driver(wanted.name()).unwrap().summary(), wanted.summary());
        }
        let error = driver("pf").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("nftables"), "{error}");
    }

    #[test]
    fn how_a_firewall_differs_from_what_is_asked_is_said() {
        let nothing = PolicyShape::forward_everything(0);
        let rules = PolicyShape { rules: 1, match_position: 1, ..nothing.clone() };
        let stateful = PolicyShape { stateful: true, ..rules.clone() };
        let rows: [(&str, &PolicyShape, Option<&str>); 6] = [
            ("wire", &nothing, None),
            ("linux", &rules, Some("linux only forwards: it stands here without the policy")),
            ("nftables", &rules, None),
            ("rampart", &stateful, None),
            (
                "rampart",
                &rules,
                Some(
                    "rampart keeps state of every flow, which this test does not ask for: the others go without",
                ),
            ),
            (
                "external",
                &stateful,
                Some(
                    "no policy was proved: its owner stated none, and only that the test's traffic passes was shown",
                ),
            ),
        ];
        for (name, asked, wanted) in rows {
            assert_eq!(driver(name).unwrap().remark(asked).as_deref(), wanted, "{name}: {asked:?}");
        }
    }

    #[test]
    fn what_always_keeps_state_is_asked_for_it() {
        let strict = Capabilities { stateless: false, ..Capabilities::RULES };
        for rules in [0, 5] {
            for protocol in [TestProtocol::Udp, TestProtocol::Tcp] {
                let asked = PolicyShape {
                    rules,
                    match_position: rules,
                    protocol,
                    ..PolicyShape::forward_everything(0)
                };
                let enforced = strict.as_enforced(&asked);
                assert!(enforced.stateful && strict.lacks(&enforced, ZoneForm::Two).is_none(), "{asked:?}");
                let without = strict.lacks(&asked, ZoneForm::Two);
                assert_eq!(without.is_some(), rules > 0 || protocol == TestProtocol::Tcp, "{asked:?}");
                assert_eq!(Capabilities::RULES.as_enforced(&asked), asked);
                let with_state = PolicyShape { stateful: true, ..asked };
                assert_eq!(
                    Capabilities::RULES.as_enforced(&with_state).stateful,
                    rules > 0,
                    "{with_state:?}"
                );
            }
        }
    }

    #[test]
    fn what_a_firewall_lacks_is_said() {
        let plain = PolicyShape::forward_everything(0);
        let rules = PolicyShape { rules: 1, match_position: 1, ..plain.clone() };
        let asks = |gateway| PolicyShape { gateway, ..rules.clone() };
        let gateway = Capabilities {
            look_ups: true,
            decision_cache: true,
            event_log: true,
            own_sockets: true,
            ..Capabilities::RULES
        };
        let usual = GatewayShape::USUAL;
        let all = GatewayShape {
            look_ups: true,
            keeps_decisions: false,
            event_log: EventLog::Disk,
            receive_kb: Some(64),
            memory_mb: Some(64),
        };
        let rows: [(Capabilities, PolicyShape, Option<&str>); 13] = [
            (gateway, asks(all), None),
            (
                Capabilities::RULES,
                asks(GatewayShape { look_ups: true, ..usual }),
                Some("look-ups of names (`look_ups`), which are a gateway's"),
            ),
            (
                Capabilities::RULES,
                asks(GatewayShape { keeps_decisions: false, ..usual }),
                Some("a cache of decisions that can be off (`decision_cache`), which is a gateway's"),
            ),
            (
                Capabilities::RULES,
                asks(GatewayShape { event_log: EventLog::Memory, ..usual }),
                Some("an event log of requests (`event_log`)"),
            ),
            (
                Capabilities::RULES,
                asks(GatewayShape { receive_kb: Some(64), ..usual }),
                Some("receive buffers (`receive_buffer`): no connection ends at it"),
            ),
            (
                Capabilities::RULES,
                asks(GatewayShape { memory_mb: Some(64), ..usual }),
                Some("a limit on memory (`memory_limit`): no program of its own carries connections"),
            ),
            (Capabilities::FORWARDING, plain.clone(), None),
            (Capabilities::FORWARDING, rules.clone(), Some("rules")),
            (
                Capabilities::FORWARDING,
                PolicyShape { nat: true, ..plain.clone() },
                Some("address translation"),
            ),
            (
                Capabilities::FORWARDING,
                PolicyShape { listed_addresses: 1, ..plain.clone() },
                Some("lists of addresses"),
            ),
            (Capabilities::FORWARDING, PolicyShape { allowed_subnets: 20, ..plain }, Some("a country table")),
            (Capabilities::FIREWALL, PolicyShape { stateful: true, nat: true, ..rules.clone() }, None),
            (
                Capabilities::FIREWALL,
                PolicyShape { nat: true, ..rules },
                Some("address translation without state"),
            ),
        ];
        for (capabilities, shape, lacking) in rows {
            assert_eq!(capabilities.lacks(&shape, ZoneForm::Two).as_deref(), lacking, "{shape:?}");
        }
    }
}
