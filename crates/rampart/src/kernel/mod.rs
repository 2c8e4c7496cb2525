//! The data plane in the kernel, as the daemon wants it: words of the API, and interfaces that come and go. Decides nothing about
//! packets.

mod bridging;
mod machine;
mod passed;
mod words;

pub(crate) use machine::{all_there, can_forward, unfit};
pub(crate) use passed::FRAGMENTS_LOST;

use crate::api::{Block, Counter, Drop, Flow, HookName, Occupancy, Station};
use crate::before::Before;
use crate::export::FlowRecord;
use crate::forwarding;
use crate::plane::{Attached, BlockKey, DataPlane, FlowKey, Hook, PlaneError, Present, Recorded, Tampering};
use crate::privileges;
use dataplane::routes::{AnswerLimits, Follower, Routes};
use dataplane::{
    Attendant, Carried, Carrying, Continuing, DataplaneError, Earlier, Firewall, FlowId, Interface, Moved,
    Tally, Terms,
};
use jiff::Timestamp;
use machine::{fit, is_virtual, links, may_have_cards, missing};
use nix::net::if_::if_nametoindex;
use passed::Passed;
use policy::bridge;
use policy::gateways::Gateway;
use policy::lists::{DomainTables, ListTable};
use policy::settings::{Forwarding, Settings};
use policy::{Bridge, Policy, Tables};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::time::Duration;
use words::{api_block, api_flow, api_station, flow_record, hook_name, recorded};

/// Rules that a firewall is made for at least, however few it begins with: 8 bytes each on every core.
const RULES_AT_LEAST: u32 = 131_072;

/// The number of no interface.
const NO_INTERFACE: u32 = 0;

/// Has the kernel take the packets of transparent gateways for its own; those of none, if there is none any more.
fn take_for_gateways(gateways: &[Gateway]) -> Result<(), PlaneError> {
    let takes = |is_of: fn(IpAddr) -> bool| {
        gateways.iter().any(|gateway| gateway.is_transparent() && is_of(gateway.listen.ip()))
    };
    let (v4, v6) = (takes(|ip| ip.is_ipv4() || ip.is_unspecified()), takes(|ip| ip.is_ipv6()));
    dataplane::routes::take_for_gateways(v4, v6).map_err(|error| {
        let needs = "a transparent gateway needs a loopback interface that is up (`ip link set lo up`)";
        PlaneError::Machine(format!("{error}; {needs}"))
    })
}

/// The data plane in the kernel. Its programs stay attached when this is dropped; only [`DataPlane::detach`] takes them away.
pub(crate) struct Kernel {
    firewall: Firewall,
    follower: Follower,
    /// Keeps fragments that come before their first; where the kernel forwards, which puts datagrams together itself, answers what is refused.
    attendant: Attendant,
    /// What is put back when interfaces are given up.
    before: Before,
    settings: Settings,
    attached: Vec<AttachedInterface>,
    /// Those of the policy in force.
    bridges: Vec<Bridge>,
    /// Interfaces that this daemon has made hear frames for other machines.
    receives_all: HashSet<String>,
    /// Interfaces that belong to another zone than those whose flows are still there.
    moved: Vec<Moved>,
    /// Interfaces that went to the hook of the other end of their bridge, until they are asked for.
    leveled: Vec<(String, HookName, String)>,
    /// What an earlier firewall left, until this one is settled.
    earlier: Option<Earlier>,
    /// Its flows, if they are in maps that this one cannot use.
    carrying: Option<Carrying>,
    /// They are to be carried over at all.
    carries: bool,
    took_over: bool,
    /// Nothing closes an interface that is not attached yet, so it is attached before it is up.
    takes_what_is_down: bool,
    /// What others set up meanwhile.
    passed: Passed,
    /// What was recorded of flows that go on.
    continuing: Continuing,
}

/// An interface as it was when it was attached.
struct AttachedInterface {
    interface: String,
    zone: String,
    hook: Hook,
    /// Its number; another interface of the same name has another.
    index: u32,
}

impl Kernel {
    /// Loads the programs that a hook needs, with room for a policy twice as long; over the flows, counters and policy of an earlier firewall where
    /// they are of the same form. Second: what is worth a report.
    ///
    /// # Errors
    /// When the kernel does not take them.
    pub(crate) fn load(
        policy: &Policy,
        hook: Hook,
        earlier: Option<Earlier>,
        before: Before,
    ) -> Result<(Self, Option<String>), PlaneError> {
        let rules = policy.counters().len() as u32;
        let wanted = rules.saturating_mul(2).clamp(RULES_AT_LEAST, 1 << 20);
        let sizes = dataplane::Settings { flows: policy.settings.flows, rules: wanted };
        let forwarding = policy.settings.forwarding;
        let hooks: &[dataplane::Hook] = match (forwarding, hook) {
            (Forwarding::Kernel, _) => &[dataplane::Hook::Netfilter],
            (Forwarding::Fast, Hook::Tc) => &[dataplane::Hook::Tc],
            (Forwarding::Fast, Hook::Auto) if !may_have_cards(policy) => &[dataplane::Hook::Tc],
            // Interfaces may come that have no XDP.
            (Forwarding::Fast, Hook::Auto | Hook::Xdp) => &[dataplane::Hook::Xdp, dataplane::Hook::Tc],
        };
        let mut carries = false;
        let (mut firewall, note) = match &earlier {
            None => (Firewall::load_for(&sizes, hooks)?, None),
            // Fewer counters than would be made now are enough, if they are enough for the policy.
            Some(earlier) => match earlier.difference(&dataplane::Settings { rules, ..sizes }) {
                None => {
                    let sizes = dataplane::Settings { rules, ..sizes };
                    let firewall = Firewall::take_over(&sizes, earlier, hooks)?;
                    (
                        firewall,
                        Some("an earlier firewall is taken over with its flows and counters".to_owned()),
                    )
                }
                Some(why) => {
                    let note = format!(
                        "an earlier firewall is taken over, and its flows are carried over one by one: {why}"
                    );
                    carries = true;
                    (Firewall::load_after(&sizes, earlier, hooks)?, Some(note))
                }
            },
        };
        firewall.ports.outlive();
        if earlier.is_some() {
            // Before the earlier programs are taken off their interfaces, so that nothing stands open in between.
            firewall.ports.open_netfilter()?;
        }
        let maps = firewall.route_maps()?;
        let routes = Routes::start(maps, &[], AnswerLimits::default());
        let follower = routes.and_then(|routes| with_the_daemons_rights(|| routes.follow_in_background()));
        let follower = follower.map_err(|error| PlaneError::Machine(error.to_string()))?;
        let attendant = with_the_daemons_rights(|| match forwarding {
            Forwarding::Fast => firewall.keep_early_fragments(),
            Forwarding::Kernel => firewall.answer_refused(),
        })?;
        if earlier.is_some() {
            follower.take_over_settings();
        }
        follower.outlive(earlier.is_some());
        let took_over = earlier.is_some();
        let settings = policy.settings.clone();
        let attached = Vec::new();
        let kernel = Self {
            firewall,
            follower,
            attendant,
            before,
            settings,
            attached,
            bridges: policy.bridges.clone(),
            receives_all: HashSet::new(),
            moved: Vec::new(),
            leveled: Vec::new(),
            earlier,
            carrying: None,
            carries,
            took_over,
            takes_what_is_down: false,
            passed: Passed::start(policy.settings.forwarding),
            continuing: if took_over { Continuing::after_another() } else { Continuing::default() },
        };
        Ok((kernel, note))
    }

    fn kernel_forwards(&self) -> bool {
        self.settings.forwarding == Forwarding::Kernel
    }

    /// Detaches from an interface. Its packets are dropped where the kernel forwards.
    fn let_go(&mut self, interface: &str) -> Result<(), PlaneError> {
        self.firewall.ports.detach(interface)?;
        self.receive_all(interface, false)?;
        self.put_back(Some(interface))?;
        self.attached.retain(|it| it.interface != interface);
        self.follow_neighbours();
        Ok(())
    }

    /// The kernel's settings of an interface that is given up are again as they were, or those of all.
    fn put_back(&self, interface: Option<&str>) -> Result<(), PlaneError> {
        let put_back = self.before.put_back(Path::new(forwarding::SETTINGS), interface);
        put_back.map_err(|error| PlaneError::Machine(error.to_string()))
    }

    fn follow_neighbours(&self) {
        let indices: Vec<u32> = self.attached.iter().map(|it| it.index).collect();
        self.follower.set_interfaces(&indices);
    }

    fn attach_interface(&mut self, zone: &str, interface: &str, hook: Hook) -> Result<Attached, PlaneError> {
        let index = if_nametoindex(interface).map_err(|_| missing(interface))?;
        if !self.kernel_forwards() {
            fit(interface, &links()?)?;
        }
        let wanted = match hook {
            _ if self.kernel_forwards() => dataplane::Hook::Netfilter,
            // Frames that one end takes at XDP the others must take there too.
            Hook::Auto
                if is_virtual(interface) || self.other_ends(interface).iter().any(|it| is_virtual(it)) =>
            {
                dataplane::Hook::Tc
            }
            Hook::Auto | Hook::Xdp => dataplane::Hook::Xdp,
            Hook::Tc => dataplane::Hook::Tc,
        };
        let attached = self.attach_programs(interface, zone, hook, wanted)?;
        self.receive_all(interface, bridge::of(&self.bridges, interface).is_some())?;
        // From now on the programs need what they need even if this process ends.
        self.follower.outlive(true);
        if !self.kernel_forwards() {
            forwarding::behave_as_router(Path::new(forwarding::SETTINGS), interface, &self.before)
                .map_err(|error| PlaneError::Machine(error.to_string()))?;
        }
        // It may have had another name, and the name another number.
        self.attached.retain(|it| it.index != index && it.interface != interface);
        self.attached.push(AttachedInterface {
            interface: interface.to_owned(),
            zone: zone.to_owned(),
            hook,
            index,
        });
        self.follow_neighbours();
        self.level_hooks(interface)?;
        let hook = hook_name(self.firewall.ports.hook_of(interface).unwrap_or(attached.hook));
        let leveled = self.leveled.iter().find(|(leveled, ..)| leveled == interface);
        let note = leveled.map(|(.., note)| note.clone()).or(attached.note);
        Ok(Attached { interface: interface.to_owned(), zone: zone.to_owned(), hook, note })
    }

    /// Carries over what happened while the programs changed places, and ends what cannot be carried. Returns what became of it.
    fn carry_the_rest(&mut self, earlier: &Earlier) -> Result<String, PlaneError> {
        let carried = match self.carrying.take() {
            Some(mut carrying) => carrying.carry(&self.firewall, earlier)?,
            None => Carried::default(),
        };
        self.firewall.policies.end_strangers(uptime()?);
        let Carried { flows, left } = carried;
        Ok(format!(
            "{flows} flows were carried over, and {left} could not be; TCP of unknown flows is answered with resets for a while"
        ))
    }

    /// Where the hook is ours to choose, a driver that somebody else uses is left alone, and so is one for which no program was loaded.
    fn attach_programs(
        &mut self,
        interface: &str,
        zone: &str,
        asked: Hook,
        wanted: dataplane::Hook,
    ) -> Result<dataplane::Attached, PlaneError> {
        let may_go_behind = asked == Hook::Auto && wanted == dataplane::Hook::Xdp;
        let why = if may_go_behind && !self.firewall.ports.is_loaded_for(wanted) {
            "is a network card, and there was none when the firewall came up; TC is used until `rampart up` takes over".to_owned()
        } else {
            match self.firewall.ports.attach(interface, zone, wanted) {
                Err(DataplaneError::Occupied { who, .. }) if may_go_behind => {
                    format!("has {who} in its driver, which sees packets first; TC is used instead")
                }
                other => return Ok(other?),
            }
        };
        let attached = self.firewall.ports.attach(interface, zone, dataplane::Hook::Tc)?;
        Ok(dataplane::Attached { note: Some(format!("`{interface}` {why}")), ..attached })
    }

    /// Attaches again to an interface that was replaced by another of the same name. Returns what is wrong with it.
    fn reattach(&mut self, at: usize) -> Option<String> {
        let AttachedInterface { interface, zone, hook, index } = &self.attached[at];
        let now = if_nametoindex(interface.as_str()).ok();
        if now == Some(*index) {
            return None;
        }
        let (interface, zone, hook) = (interface.clone(), zone.clone(), *hook);
        if now.is_none() {
            return Some(format!(
                "the interface `{interface}` of zone `{zone}` is gone: nothing passes there until it is back"
            ));
        }
        let again = self.let_go(&interface).and_then(|()| self.attach_interface(&zone, &interface, hook));
        let error = again.err()?;
        let trouble = format!("the interface `{interface}` is back and cannot be attached: {error}");
        // It is tried again.
        if !self.attached.iter().any(|it| it.interface == interface) {
            self.attached.push(AttachedInterface { interface, zone, hook, index: NO_INTERFACE });
        }
        Some(trouble)
    }
}

impl DataPlane for Kernel {
    fn apply(
        &mut self,
        tables: &Tables,
        policy: &Policy,
        lists: Option<&ListTable>,
        domains: Option<&DomainTables>,
    ) -> Result<u64, PlaneError> {
        let has_transparent = policy.gateways.iter().any(Gateway::is_transparent);
        if has_transparent {
            take_for_gateways(&policy.gateways)?;
        }
        let generation = self.firewall.policies.apply_with_domains(tables, policy, lists, domains)?;
        self.settings = policy.settings.clone();
        self.set_bridges(&policy.bridges)?;
        if !has_transparent {
            take_for_gateways(&[])?;
        }
        if let Some(earlier) = self.earlier.as_ref().filter(|_| self.carries) {
            // Once now, so that packets find their flows when the programs change places, and once more when they have.
            let mut carrying = Carrying::of(&self.firewall, earlier)?;
            carrying.as_mut().map(|carrying| carrying.carry(&self.firewall, earlier)).transpose()?;
            self.carrying = carrying;
        }
        // Not before a policy is in force: until then nothing would pass.
        self.firewall.ports.open_netfilter()?;
        Ok(generation.0.into())
    }

    fn exchange_domains(&mut self, domains: &DomainTables) -> Result<(), PlaneError> {
        Ok(self.firewall.policies.exchange_domains(domains)?)
    }

    fn prepare(&mut self, policy: &Policy) -> Result<(), PlaneError> {
        let present = links()?;
        bridging::refuse_unfit(policy, &present)?;
        // What can go wrong goes wrong before the policy is in force; hearing more does no harm until then.
        let ends: Vec<String> = self.attached.iter().map(|it| it.interface.clone()).collect();
        for interface in ends.iter().filter(|it| bridge::of(&policy.bridges, it).is_some()) {
            self.receive_all(interface, true)?;
        }
        let zone_of =
            |link: &Interface| Some((link.name.clone(), policy.zone_of_interface(&link.name)?.name.clone()));
        let zones: Vec<_> = present.iter().filter_map(zone_of).collect();
        let zones = zones.iter().map(|(name, zone)| (name.as_str(), zone.as_str()));
        self.moved = self.firewall.ports.close_moved(zones)?;
        Ok(())
    }

    fn move_to(&mut self, interface: &str, zone: &str) {
        for at in self.attached.iter_mut().filter(|at| at.interface == interface) {
            zone.clone_into(&mut at.zone);
            if if_nametoindex(interface).ok() == Some(at.index) {
                // Of an interface that it is attached to, only the zone changes; the zone has its number since it was prepared for.
                let _ = self.firewall.ports.attach(interface, zone, dataplane::Hook::Tc);
            }
        }
    }

    fn end_moved(&mut self) -> Result<(), PlaneError> {
        self.firewall.flows.end_moved(&std::mem::take(&mut self.moved))?;
        Ok(())
    }

    fn settle(&mut self) -> Result<Option<String>, PlaneError> {
        if !self.kernel_forwards() && !self.firewall.ports.has_gate() {
            self.firewall.ports.close_netfilter()?;
        }
        let Some(earlier) = self.earlier.take() else { return Ok(None) };
        let note = if self.carries { Some(self.carry_the_rest(&earlier)?) } else { None };
        for interface in earlier.interfaces() {
            if !self.attached.iter().any(|it| it.interface == *interface) {
                dataplane::take_from(interface)?;
            }
        }
        self.firewall.ports.forget_others()?;
        self.end_moved()?;
        Ok(note)
    }

    fn took_over(&self) -> bool {
        self.took_over
    }

    fn check_programs(&mut self) -> Tampering {
        let mut tampering = Tampering { moved: std::mem::take(&mut self.leveled), ..Tampering::default() };
        for found in self.firewall.ports.check() {
            let text = format!("{}: {}", found.interface, found.what);
            if let Some(hook) = found.moved_to {
                tampering.moved.push((found.interface, hook_name(hook), found.what));
            }
            if found.is_mended { tampering.mended.push(text) } else { tampering.standing.push(text) }
        }
        tampering
    }

    fn attach(&mut self, zone: &str, interface: &str, hook: Hook) -> Result<Attached, PlaneError> {
        self.attach_interface(zone, interface, hook)
    }

    fn close_until_attached(&mut self, names: &[String]) -> Result<Option<String>, PlaneError> {
        // Where the kernel forwards, an interface of no zone is closed in every direction.
        if self.kernel_forwards() {
            return Ok(None);
        }
        let has_patterns = names.iter().any(|name| policy::model::pattern(name).is_some());
        let is_closed = self.firewall.ports.close_until_attached(if has_patterns { names } else { &[] })?;
        self.takes_what_is_down = !is_closed;
        let note = "this kernel is older than 6.4: between the moment at which an interface of a pattern is up and the kernel's \
            announcement of it, the machine itself is open to it";
        Ok((!is_closed).then(|| note.to_owned()))
    }

    fn interfaces(&mut self) -> Result<Vec<Present>, PlaneError> {
        let attached_as =
            |index| self.attached.iter().find(|it| it.index == index).map(|it| it.interface.clone());
        let present = |link: Interface| Present {
            attached_as: attached_as(link.index),
            is_ready: !link.is_loopback() && (link.is_up || self.takes_what_is_down),
            name: link.name,
        };
        Ok(links()?.into_iter().map(present).collect())
    }

    fn gone(&mut self, indices: &[u32]) {
        for at in self.attached.iter_mut().filter(|it| indices.contains(&it.index)) {
            // What is left in the maps goes when the name is attached again or given up, if the kernel refuses now.
            let _ = self.firewall.ports.forget(&at.interface);
            at.index = NO_INTERFACE;
        }
    }

    fn detach(&mut self, interface: &str) -> Result<(), PlaneError> {
        self.let_go(interface)?;
        if self.attached.is_empty() {
            // An earlier daemon may have changed what this one would put back.
            self.put_back(None)?;
            if self.kernel_forwards() {
                self.firewall.ports.close_netfilter()?;
            }
            self.firewall.ports.open_gate()?;
            take_for_gateways(&[])?;
        }
        Ok(())
    }

    fn rule_hits(&mut self, policy: &Policy) -> Result<HashMap<String, u64>, PlaneError> {
        let names = policy.counters();
        let hits = self.firewall.counters.rule_hits(names.iter().map(String::as_str))?;
        Ok(hits.into_iter().map(|(name, hits)| (name.to_owned(), hits)).collect())
    }

    fn limited(&mut self) -> Result<HashMap<String, u64>, PlaneError> {
        Ok(self.firewall.policies.limited_packets()?)
    }

    fn drops(&mut self) -> Result<Vec<Drop>, PlaneError> {
        let drops = self.firewall.counters.drops()?.into_iter().map(|(reason, packets)| Drop {
            number: reason.number(),
            reason: reason.name().to_owned(),
            explanation: reason.explanation().to_owned(),
            packets,
            alarming: reason.is_want(),
        });
        Ok(drops.collect())
    }

    fn counters(&mut self) -> Result<Vec<Counter>, PlaneError> {
        let tallies = self.firewall.counters.tallies()?.into_iter().map(|(tally, count)| Counter {
            name: tally.name().to_owned(),
            explanation: tally.explanation().to_owned(),
            count,
        });
        let missing = Counter {
            name: "records-missing".to_owned(),
            explanation: "records of flows that go on (`active_timeout` in `[log.ipfix]`) that were not made: there are more such flows than are \
                          followed, or the daemon was started meanwhile"
                .to_owned(),
            count: self.continuing.missing(),
        };
        Ok(tallies.chain([missing]).collect())
    }

    fn events(&mut self, each: &mut dyn FnMut(Duration, Recorded)) -> Result<u64, PlaneError> {
        let events = self.firewall.events.take()?;
        let now = uptime()?;
        for event in events {
            each(now.saturating_sub(event.at), recorded(event));
        }
        let tallies = self.firewall.counters.tallies()?;
        Ok([Tally::LogSuppressed, Tally::LogLost].iter().filter_map(|tally| tallies.get(tally)).sum())
    }

    fn flow_records(&mut self, now: Timestamp) -> Result<(Vec<FlowRecord>, u64), PlaneError> {
        let mut records = self.firewall.ended.take()?;
        records.iter_mut().for_each(|record| self.continuing.end(record));
        let uptime = uptime()?;
        let ipfix = self.settings.exports.ipfix.as_ref();
        match ipfix.and_then(|ipfix| Some(Terms { timeout: ipfix.active_timeout?, rate: ipfix.rate })) {
            Some(terms) => records.extend(self.continuing.due(&self.firewall.flows, &terms, uptime)?),
            None => self.continuing.rest(),
        }
        let records = records.into_iter().map(|record| flow_record(record, uptime, now)).collect();
        let tallies = self.firewall.counters.tallies()?;
        let of = |tally| tallies.get(&tally).copied().unwrap_or(0);
        let ended = of(Tally::RecordsSuppressed) + of(Tally::RecordsLost);
        Ok((records, ended + self.continuing.missing()))
    }

    fn flows(&mut self, each: &mut dyn FnMut(FlowKey, Flow)) -> Result<(), PlaneError> {
        let timeouts = &self.settings.timeouts;
        self.firewall.flows.each(uptime()?, |flow| {
            each(FlowKey(flow.id.record, flow.id.use_count), api_flow(flow, timeouts));
        })?;
        Ok(())
    }

    fn kill(&mut self, flow: FlowKey) -> Result<bool, PlaneError> {
        Ok(self.firewall.flows.end(FlowId { record: flow.0, use_count: flow.1 })?)
    }

    fn blocked(&mut self) -> Result<Vec<(BlockKey, Block)>, PlaneError> {
        let blocked = self.firewall.scans.blocked(uptime()?)?;
        Ok(blocked.into_iter().map(|blocked| (BlockKey(blocked.key), api_block(blocked))).collect())
    }

    fn unblock(&mut self, block: BlockKey) -> Result<bool, PlaneError> {
        Ok(self.firewall.scans.end(block.0)?)
    }

    fn stations(&mut self) -> Result<Vec<Station>, PlaneError> {
        Ok(self.firewall.ports.stations(uptime()?)?.into_iter().map(api_station).collect())
    }

    fn occupancy(&mut self) -> Result<Occupancy, PlaneError> {
        let now = self.firewall.occupancy()?;
        Ok(Occupancy {
            open: now.flows,
            half_open: now.half_open.into(),
            unanswered: now.unanswered.into(),
            capacity: now.capacity.into(),
        })
    }

    fn sweep(&mut self) -> Result<(), PlaneError> {
        self.firewall.flows.sweep()?;
        Ok(())
    }

    fn check_interfaces(&mut self) -> Result<Vec<String>, PlaneError> {
        let mut found: Vec<String> = (0..self.attached.len()).filter_map(|at| self.reattach(at)).collect();
        found.extend(self.follower.trouble());
        found.extend(self.attendant.trouble());
        found.extend(self.firewall.missing_tracepoints().iter().map(|name| {
            format!("this kernel has no tracepoint `{name}`: frames that a driver does not send count as forwarded")
        }));
        if self.firewall.flows.calls_for_cookies() {
            found.push(
                "half-open connections fill half of `half_open`: the firewall answers SYNs itself (`syn_proxy`)".to_owned(),
            );
        }
        found.extend_from_slice(self.passed.troubles());
        if self.kernel_forwards() {
            return Ok(found);
        }
        found.extend(self.moved_stations()?);
        let on = forwarding::opened(Path::new(forwarding::SETTINGS))
            .map_err(|e| PlaneError::Machine(e.to_string()))?;
        found.extend(on.into_iter().map(|switch| {
            let name = forwarding::dotted(switch);
            format!("{name} was turned on: if the firewall dies, the kernel forwards everything; `sysctl -w {name}=0`")
        }));
        Ok(found)
    }
}

/// Starts threads that have no more rights than the daemon will have: they inherit those of the thread that makes them.
fn with_the_daemons_rights<T: Send>(start: impl FnOnce() -> T + Send) -> T {
    let start = || {
        // What cannot be given up is seen on the daemon's own thread.
        let _ = privileges::keep_the_daemons();
        start()
    };
    std::thread::scope(|scope| scope.spawn(start).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Since the machine was started, as the data plane's clock goes.
fn uptime() -> Result<Duration, PlaneError> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map(Duration::from).map_err(|error| PlaneError::Machine(format!("cannot read the clock: {error}")))
}

impl From<DataplaneError> for PlaneError {
    fn from(error: DataplaneError) -> Self {
        match error {
            DataplaneError::TooManyLimits { rule, rules, most } => PlaneError::Rule {
                rule,
                message: format!("{rules} rules have `limit` or `alert`, and there can be {most}"),
                help: Some("a group of objects says in one rule what would take many".to_owned()),
            },
            DataplaneError::TooManyRules { .. } | DataplaneError::Size { .. } => {
                PlaneError::Policy(error.to_string())
            }
            other => PlaneError::Machine(other.to_string()),
        }
    }
}
