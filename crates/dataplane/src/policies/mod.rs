//! The policy in force. Another one takes its place as a whole.

mod gateways;
mod limits;
mod lists;
mod pages;
mod translations;

use crate::DataplaneError;
use crate::clock::whole_tick;
use crate::counters::Hits;
use crate::names::{NO_SLOT, SharedNames};
use crate::notes::{self, BUILD, Notes};
use crate::shared::{Shared, publish};
use crate::skeleton::types::{self, sizes};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
pub(crate) use limits::Limited;
use limits::SECOND;
pub(crate) use lists::Lists;
use pages::{Numbers, PAGE_BYTES, pages};
use policy::lists::{DomainTables, ListTable};
use policy::model::{Effect, Limit, Log, Policy, Rule};
use policy::scans::{Scans, bits_of};
use policy::settings::{ReversePath, Settings, Timeouts};
use policy::tables::Counters as Slots;
use policy::tables::Tables;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Pages that are written by one system call: 4 MiB.
const BATCH: usize = 8192;
/// The longest time in ticks that a wrapping clock of 32 bits can measure: 26 days.
const MOST_TICKS: u64 = i32::MAX as u64 - 4096;

/// Which policy is in force: 1 for the first that was applied, then 2 and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// The policy in force: its tables, settings and limits.
pub struct Policies {
    pub(crate) generations: MapHandle,
    pub(crate) limit_terms: MapHandle,
    pub(crate) limit_rows: MapHandle,
    pub(crate) settings: Shared<types::settings>,
    pub(crate) hits: Hits,
    pub(crate) names: SharedNames,
    pub(crate) limited: Limited,
    pub(crate) lists: Lists,
    /// For each zone of the policy in force, the data plane's number.
    pub(crate) zones: Vec<u8>,
}

impl Policies {
    /// Puts a policy into force. A packet is judged by the old one or by the new one, never by both; flows that are open are
    /// judged again when their next packet comes. Counters follow the names of rules.
    ///
    /// # Errors
    /// There are more rules than counters, or more limits than there is room for; the kernel has no memory for the tables. The
    /// policy before stays in force then.
    pub fn apply(&mut self, tables: &Tables, policy: &Policy) -> Result<Generation, DataplaneError> {
        self.apply_with(tables, policy, None)
    }

    /// The same with what is on the policy's lists; `None`: what was on them before, for the same lists in the same order.
    ///
    /// # Errors
    /// As [`Policies::apply`], and the policy has lists and nothing was ever on them.
    pub fn apply_with(
        &mut self,
        tables: &Tables,
        policy: &Policy,
        lists: Option<&ListTable>,
    ) -> Result<Generation, DataplaneError> {
        self.apply_with_domains(tables, policy, lists, None)
    }

    /// The same with what its domains stand for, if it has any and `lists` are given. That is exchanged by itself later
    /// ([`Policies::exchange_domains`]).
    ///
    /// # Errors
    /// As [`Policies::apply_with`].
    pub fn apply_with_domains(
        &mut self,
        tables: &Tables,
        policy: &Policy,
        lists: Option<&ListTable>,
        domains: Option<&DomainTables>,
    ) -> Result<Generation, DataplaneError> {
        let most = self.hits.slots();
        let counters = policy.counters();
        if counters.len() > most as usize {
            return Err(DataplaneError::TooManyRules { rules: counters.len() as u32, most });
        }
        let zones: Vec<u8> =
            policy.zones.iter().map(|zone| self.names.zone_number(&zone.name)).collect::<Result<_, _>>()?;
        let names: Vec<&str> = counters.iter().map(String::as_str).collect();
        let before = self.names.now();
        let (slots, fresh) = before.slots().follow(names.iter().copied());
        if slots.size() > most {
            return Err(DataplaneError::TooManyRules { rules: slots.size(), most });
        }
        // 0 means that there is no policy, also after four thousand million of them.
        let generation = before.generation().wrapping_add(1).max(1);
        let limits = self.write_limits(policy, &slots, &fresh)?;
        let slot = |name: &str| slots.slot(name).unwrap_or(NO_SLOT);
        let place = self.lists.next_place(policy, lists)?;
        let (places, of_gateways) = gateways::places(&self.settings.gateways, &policy.gateways);
        let numbers = Numbers {
            zones: &zones,
            slot: &slot,
            limits: &limits.numbers,
            gateways: &of_gateways,
            lists: place,
            generation,
        };
        let mut pages = pages(tables, policy, &numbers);
        let notes = Notes {
            build: BUILD.to_owned(),
            generation,
            zones: self.names.now().zones().to_vec(),
            rules: slots.names().map(|(name, slot)| (name.to_owned(), slot)).collect(),
            slots: slots.size(),
            limits: limits.limited.notes(),
            lists: place,
        };
        notes::append(&mut pages, &notes, PAGE_BYTES)
            .map_err(|error| DataplaneError::system("noting what the tables mean")(error.into()))?;
        let array = new_array(&pages)?;
        // Nobody asks that place before the policy's tables name it.
        self.lists.write(place, lists, domains)?;
        // Slots of rules that are gone may still count until the swap: a hit or two may remain in a new rule's counter.
        self.hits.clear(&fresh)?;
        self.begin_limits(&limits)?;
        let before = *self.settings;
        let mut settings = before;
        put_settings(&mut settings, &policy.settings);
        settings.keeps_marks |= u32::from(asks_for_more(policy));
        settings.translates = translations::translates(policy);
        put_scans(&mut settings, policy.scans.as_ref());
        settings.gateways = places;
        // The tables are exchanged in one step and the settings are not: so that no packet passes by the tables of one policy and the
        // settings of the other, the stricter of both hold meanwhile. The kernel returns from the exchange when no program is at
        // work any more that has the tables before it.
        *self.settings = stricter(&before, &settings);
        if let Err(error) = self.swap(&array) {
            *self.settings = before;
            self.lists.forget_but(self.lists.in_force());
            return Err(error);
        }
        // And nobody asks the place before any more.
        self.lists.put_in_force(place);
        *self.settings = settings;
        publish(&mut self.settings.generation, generation);
        self.names.change(|names| names.put_in_force(generation, slots));
        self.zones = zones;
        self.limited = limits.limited;
        Ok(Generation(generation))
    }

    /// Exchanges what the domains of the policy in force stand for. New flows are judged by it at once; flows that are open are not judged again.
    ///
    /// # Errors
    /// The kernel has no memory for it. What was in force stays, or known flows alone are judged by the new one.
    pub fn exchange_domains(&mut self, domains: &DomainTables) -> Result<(), DataplaneError> {
        match self.lists.in_force() {
            0 => Ok(()),
            place => self.lists.put_domains(place, domains),
        }
    }

    /// For the lifetime of an established connection from `now`, which is CLOCK_MONOTONIC since its beginning, TCP of no known flow is
    /// answered with a reset: it may belong to a flow that an earlier firewall knew and this one does not.
    pub fn end_strangers(&mut self, now: Duration) {
        let established = self.settings.timeouts[types::flow_state::FLOW_ESTABLISHED.0 as usize];
        let until = whole_tick(now) + u64::from(established);
        publish(&mut self.settings.strangers_until, until);
    }

    /// Goes on from where an earlier firewall was, whose maps these are.
    pub(crate) fn go_on(&mut self, notes: &Notes) {
        let slots = Slots::of(notes.rules.iter().cloned(), notes.slots);
        self.names.change(|names| names.put_in_force(notes.generation, slots));
        self.limited = Limited::of(&notes.limits);
        self.lists.put_in_force(notes.lists);
    }

    /// From here on every packet asks the new tables; those that ask the old ones now do so to their end.
    fn swap(&self, array: &MapHandle) -> Result<(), DataplaneError> {
        let descriptor = array.as_fd().as_raw_fd();
        self.generations
            .update(&0u32.to_ne_bytes(), &descriptor.to_ne_bytes(), MapFlags::ANY)
            .map_err(DataplaneError::bpf("putting the policy into force"))
    }
}

fn new_array(bytes: &[u8]) -> Result<MapHandle, DataplaneError> {
    let array = empty_array(bytes.len() / PAGE_BYTES, "making room for the policy's tables")?;
    for (batch, values) in (0u32..).zip(bytes.chunks(BATCH * PAGE_BYTES)) {
        write_pages(&array, batch * BATCH as u32, values)?;
    }
    Ok(array)
}

/// An array of pages that are zero, as the outer maps take them.
fn empty_array(pages: usize, doing: &str) -> Result<MapHandle, DataplaneError> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE | libbpf_sys::BPF_F_INNER_MAP,
        ..Default::default()
    };
    // 2^32 pages are 2 TiB.
    MapHandle::create(MapType::Array, Some("tables"), 4, PAGE_BYTES as u32, pages as u32, &options)
        .map_err(DataplaneError::bpf(doing))
}

/// Writes whole pages from one on.
fn write_pages(array: &MapHandle, first: u32, values: &[u8]) -> Result<(), DataplaneError> {
    let pages = (values.len() / PAGE_BYTES) as u32;
    let keys: Vec<u8> = (first..first + pages).flat_map(u32::to_ne_bytes).collect();
    array
        .update_batch(&keys, values, pages, MapFlags::ANY, MapFlags::ANY)
        .map_err(DataplaneError::bpf("writing the policy's tables"))
}

/// Whether anything is asked for besides verdicts.
fn asks_for_more(policy: &Policy) -> bool {
    let more = |rule: &Rule| {
        let Effect { log, limit, alert, .. } = rule.effect;
        log != Log::Nothing || limit != Limit::default() || alert.is_some()
    };
    policy.rules.iter().any(more)
        || policy.lists.iter().any(|list| list.log)
        || policy.defaults.iter().any(|default| default.log != Log::Nothing)
}

fn put_settings(to: &mut types::settings, from: &Settings) {
    let Timeouts { tcp_opening, tcp_established, tcp_closing, tcp_reset, udp, icmp, other, unanswered } =
        &from.timeouts;
    let (opening, established, closing) = (ticks(*tcp_opening), ticks(*tcp_established), ticks(*tcp_closing));
    // By `enum flow_state`: free, one way, two ways (not TCP), then TCP's.
    to.timeouts[..11].copy_from_slice(&[
        0,
        0,
        0,
        opening,
        opening,
        opening,
        established,
        closing,
        closing,
        closing,
        ticks(*tcp_reset),
    ]);
    to.udp_timeout = ticks(*udp);
    to.icmp_timeout = ticks(*icmp);
    to.other_timeout = ticks(*other);
    to.doubted_timeout = closing.min(established);
    to.unanswered_timeout = ticks(*unanswered);
    // By `enum budget`.
    to.budgets = [from.half_open, from.unanswered];
    (to.log_interval, to.log_slack) = event_rate(from.log_rate);
    (to.record_interval, to.record_slack) =
        event_rate(from.exports.ipfix.as_ref().map_or(0, |ipfix| ipfix.rate));
    to.check_checksums = from.integrity.checksums.into();
    to.check_tcp_flags = from.integrity.tcp_flags.into();
    to.check_land = from.integrity.land.into();
    to.check_zones = from.integrity.zones.into();
    // By `enum syn_proxy`, which a policy in force before does not change: what it began goes on.
    to.syn_proxy = from.syn_proxy as u32;
    to.reverse_path = match from.reverse_path {
        ReversePath::Off => 0,
        ReversePath::Loose => 1,
        ReversePath::Strict => 2,
    };
}

/// What is a scan; without any nobody is counted, and nobody is blocked any more.
fn put_scans(to: &mut types::settings, from: Option<&Scans>) {
    let bits = |different: Option<u32>| different.map_or(0, bits_of);
    to.scan_window = from.map_or(0, |scans| u64::from(ticks(scans.window)));
    to.scan_block = from.and_then(|scans| scans.block).map_or(0, |time| u64::from(ticks(time)));
    // In the order of `enum scan_field`.
    to.scan_bits = from.map_or([0; 2], |scans| [bits(scans.ports), bits(scans.hosts)]);
}

/// The second settings, with every check that either of the two has, the shorter of their times and the smaller of their budgets. Log rates let nothing pass.
fn stricter(one: &types::settings, other: &types::settings) -> types::settings {
    let mut both = *other;
    for (time, before) in both.timeouts.iter_mut().zip(one.timeouts) {
        *time = before.min(*time);
    }
    for (budget, before) in both.budgets.iter_mut().zip(one.budgets) {
        *budget = before.min(*budget);
    }
    // A place has the same gateway in both.
    for (place, before) in both.gateways.iter_mut().zip(one.gateways) {
        if place.port == 0 {
            *place = before;
        }
    }
    types::settings {
        udp_timeout: one.udp_timeout.min(other.udp_timeout),
        icmp_timeout: one.icmp_timeout.min(other.icmp_timeout),
        other_timeout: one.other_timeout.min(other.other_timeout),
        doubted_timeout: one.doubted_timeout.min(other.doubted_timeout),
        unanswered_timeout: one.unanswered_timeout.min(other.unanswered_timeout),
        check_checksums: one.check_checksums.max(other.check_checksums),
        check_tcp_flags: one.check_tcp_flags.max(other.check_tcp_flags),
        check_land: one.check_land.max(other.check_land),
        check_zones: one.check_zones.max(other.check_zones),
        reverse_path: one.reverse_path.max(other.reverse_path),
        translates: one.translates | other.translates,
        ..both
    }
}

/// From one event to the next, and how far they may run ahead of that, in moments: a second's worth. 0 a second: none.
fn event_rate(a_second: u32) -> (u64, u64) {
    let interval = if a_second == 0 { 0 } else { SECOND.div_ceil(a_second.into()) };
    (interval, interval * u64::from(a_second.saturating_sub(1)))
}

/// A time in ticks of the data plane, rounded up.
fn ticks(time: Duration) -> u32 {
    let ticks = (time.as_nanos() >> sizes::TICK_SHIFT.0) + 1;
    ticks.min(u128::from(MOST_TICKS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_policies_are_exchanged_the_stricter_settings_of_both_hold() {
        let settings = |integrity: bool, reverse_path, minutes: u32| {
            let mut settings = Settings {
                reverse_path,
                half_open: 100 * minutes,
                unanswered: 200 * minutes,
                ..Settings::default()
            };
            let checks = &mut settings.integrity;
            (checks.checksums, checks.tcp_flags, checks.land, checks.zones) =
                (integrity, integrity, integrity, integrity);
            let time = Duration::from_secs(60 * u64::from(minutes));
            settings.timeouts = Timeouts {
                tcp_opening: time,
                tcp_established: time,
                tcp_closing: time,
                tcp_reset: time,
                udp: time,
                icmp: time,
                other: time,
                unanswered: time,
            };
            let mut put = types::settings::default();
            put_settings(&mut put, &settings);
            put
        };
        let (lax, strict) = (settings(false, ReversePath::Off, 9), settings(true, ReversePath::Strict, 5));
        let checks = |it: &types::settings| {
            (it.check_checksums, it.check_tcp_flags, it.check_land, it.check_zones, it.reverse_path)
        };
        let times = |it: &types::settings| {
            (
                it.timeouts,
                it.udp_timeout,
                it.icmp_timeout,
                it.other_timeout,
                it.doubted_timeout,
                it.unanswered_timeout,
                it.budgets,
            )
        };
        for (before, now) in [(lax, strict), (strict, lax), (strict, strict)] {
            let both = stricter(&before, &now);
            assert_eq!((checks(&both), times(&both)), (checks(&strict), times(&strict)));
            assert_eq!((both.log_interval, both.generation), (now.log_interval, now.generation));
        }
        assert_eq!(checks(&stricter(&lax, &lax)), checks(&lax));
    }

    #[test]
    fn times_are_rounded_up_and_bounded() {
        for (time, expected) in [
            (Duration::ZERO, 1),
            (Duration::from_secs(1), 954),
            (Duration::from_secs(7_440), 7_095_337),
            (Duration::MAX, MOST_TICKS as u32),
        ] {
            assert_eq!(ticks(time), expected, "{time:?}");
        }
    }
}
