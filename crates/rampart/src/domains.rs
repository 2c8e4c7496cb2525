//! What the domains stand for that rules name: addresses that gateways of DNS have said, each with its end. A gateway's process talks with strangers,
//! so what it says is believed only of names that the policy names, within bounds. Without a clock: the moment is an argument.

use crate::api::DomainAddress;
use gateway::dns::decide::is_name;
use gateway::dns::private::is_private;
use jiff::{SignedDuration, Timestamp};
use policy::Policy;
use policy::address::AddressSet;
use policy::gateways::{GatewayRule, Protocol};
use policy::lists::{BuildError, DomainTables, List, ListTable, MAX_LISTS};
use policy::model::Action;
use policy::ranges::RangeSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Addresses that a domain stands for at once.
pub(crate) const MOST_ADDRESSES: usize = 1024;
/// Addresses that a domain stood for, by which known flows are judged.
const MOST_BEFORE: usize = 1024;
/// How long an address holds at most, its grace aside: as long as a gateway keeps an answer.
const LONGEST: u32 = 86_400;

/// What is known of all domains.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    /// By the name that rules have.
    known: BTreeMap<String, Domain>,
    grace: Duration,
}

#[derive(Debug, Default)]
struct Domain {
    /// The policy in force names it.
    is_meant: bool,
    now: BTreeMap<IpAddr, Address>,
    /// What it stood for, the latest last.
    before: VecDeque<IpAddr>,
    /// Addresses that found no place, or may be no domain's.
    not_taken: u64,
}

#[derive(Debug)]
struct Address {
    /// The name that was asked for last.
    name: String,
    since: Timestamp,
    until: Instant,
}

/// What is kept on disk.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    domains: BTreeMap<String, KeptDomain>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct KeptDomain {
    now: Vec<DomainAddress>,
    before: Vec<IpAddr>,
}

impl Domains {
    /// From now on the domains of this policy are meant. What is known of those that it has, too, stays, and of others as long as it holds: a policy
    /// that nobody confirms makes place for the one before.
    pub(crate) fn follow(&mut self, policy: &Policy) {
        self.grace = policy.settings.grace;
        self.known.values_mut().for_each(|domain| domain.is_meant = false);
        for name in policy.lists.iter().filter_map(List::domain) {
            self.known.entry(name.to_owned()).or_default().is_meant = true;
        }
        let has_too_many = self.known.values().filter(|domain| !domain.is_meant).count() > MAX_LISTS;
        self.known.retain(|_, domain| domain.is_meant || !(has_too_many || domain.now.is_empty()));
    }

    /// Takes what a name stands for; `allows_private` says whether addresses of private networks may be among it. Returns whether the tables are to be
    /// others, and how many addresses were not taken.
    pub(crate) fn hear(
        &mut self,
        (name, addresses, lifetime): (&str, &[IpAddr], u32),
        allows_private: bool,
        (wall, now): (Timestamp, Instant),
    ) -> (bool, u64) {
        let until = now + Duration::from_secs(lifetime.min(LONGEST).into()) + self.grace;
        let (mut is_other, mut not_taken) = (false, 0);
        let is_about = |(pattern, domain): &(&String, &mut Domain)| domain.is_meant && is_name(pattern, name);
        for (_, domain) in self.known.iter_mut().filter(is_about) {
            for address in addresses.iter().map(IpAddr::to_canonical) {
                if !allows_private && is_private(address) {
                    not_taken += 1;
                    domain.not_taken += 1;
                } else if let Some(known) = domain.now.get_mut(&address) {
                    known.until = known.until.max(until);
                    name.clone_into(&mut known.name);
                } else if domain.now.len() < MOST_ADDRESSES {
                    domain.before.retain(|before| *before != address);
                    domain.now.insert(address, Address { name: name.to_owned(), since: wall, until });
                    is_other = true;
                } else {
                    not_taken += 1;
                    domain.not_taken += 1;
                }
            }
        }
        (is_other, not_taken)
    }

    /// Addresses whose time is over are those of before. Returns whether there were any.
    pub(crate) fn end(&mut self, now: Instant) -> bool {
        let mut any = false;
        for domain in self.known.values_mut() {
            let ended: Vec<IpAddr> =
                domain.now.iter().filter(|(_, it)| it.until <= now).map(|(address, _)| *address).collect();
            any |= !ended.is_empty();
            for address in ended {
                domain.now.remove(&address);
                domain.before.push_back(address);
            }
            while domain.before.len() > MOST_BEFORE {
                domain.before.pop_front();
            }
        }
        any
    }

    /// The tables of a policy; `None` if it has no domains. What a domain stood for before counts for known flows, unless a rule refuses the domain.
    ///
    /// # Errors
    /// As [`ListTable::build`].
    pub(crate) fn tables(&self, policy: &Policy) -> Result<Option<DomainTables>, BuildError> {
        if policy.lists.iter().all(|list| list.domain().is_none()) {
            return Ok(None);
        }
        let refused = policy.rules.iter().filter(|rule| rule.effect.action != Action::Allow);
        let refused = refused.fold(0, |all, rule| all | rule.source_lists | rule.destination_lists);
        let sets = |with_before: bool| {
            let set = |(place, list): (usize, &List)| {
                let known = list.domain().and_then(|name| self.known.get(name));
                let Some(domain) = known else { return AddressSet::default() };
                let before = domain.before.iter().filter(|_| with_before && refused >> place & 1 == 0);
                set_of(domain.now.keys().chain(before))
            };
            policy.lists.iter().enumerate().map(set).collect::<Vec<_>>()
        };
        let table = |with_before| ListTable::build(&sets(with_before).iter().collect::<Vec<_>>());
        Ok(Some(DomainTables { now: table(false)?, known: table(true)? }))
    }

    /// The addresses of a domain as they are shown, and how many others found no place.
    pub(crate) fn shown(&self, name: &str, wall: Timestamp, now: Instant) -> (Vec<DomainAddress>, u64) {
        let Some(domain) = self.known.get(name) else { return (Vec::new(), 0) };
        let shown = |(address, it): (&IpAddr, &Address)| DomainAddress {
            address: *address,
            name: it.name.clone(),
            since: it.since,
            until: later(wall, it.until.saturating_duration_since(now)),
        };
        (domain.now.iter().map(shown).collect(), domain.not_taken)
    }

    /// What a restart goes on with.
    pub(crate) fn kept(&self, wall: Timestamp, now: Instant) -> Kept {
        let kept = |(name, domain): (&String, &Domain)| {
            let before = domain.before.iter().copied().collect();
            (name.clone(), KeptDomain { now: self.shown(name, wall, now).0, before })
        };
        Kept { domains: self.known.iter().map(kept).collect() }
    }

    /// The domains of a first policy, with what was kept of them.
    pub(crate) fn begin(&mut self, policy: &Policy, kept: Option<(Kept, Timestamp, Instant)>) {
        self.follow(policy);
        if let Some((kept, wall, now)) = kept {
            self.restore(kept, wall, now);
        }
    }

    /// Goes on with what was kept of the domains that are meant. A clock that was put back gives no address more time than it can have.
    fn restore(&mut self, kept: Kept, wall: Timestamp, now: Instant) {
        let longest = Duration::from_secs(LONGEST.into()) + self.grace;
        for (name, kept) in kept.domains {
            let Some(domain) = self.known.get_mut(&name) else { continue };
            for DomainAddress { address, name, since, until } in kept.now.into_iter().take(MOST_ADDRESSES) {
                let left = Duration::try_from(until.duration_since(wall)).unwrap_or_default();
                let until = now + left.min(longest);
                domain.now.insert(address, Address { name, since, until });
            }
            domain.before = kept.before.into_iter().take(MOST_BEFORE).collect();
        }
        self.end(now);
    }
}

fn set_of<'a>(addresses: impl Iterator<Item = &'a IpAddr>) -> AddressSet {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            IpAddr::V4(it) => v4.push((u32::from(*it), u32::from(*it))),
            IpAddr::V6(it) => v6.push((u128::from(*it), u128::from(*it))),
        }
    }
    AddressSet { v4: RangeSet::of(v4), v6: RangeSet::of(v6) }
}

fn later(wall: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or_default();
    wall.saturating_add(time).unwrap_or(wall)
}

/// Whether a gateway of a policy may say addresses of private networks of a name: it has the name itself, or a rule lets name servers do so.
pub(crate) fn allows_private(policy: &Policy, gateway: &str, name: &str) -> bool {
    let Some(gateway) = policy.gateways.iter().find(|it| it.name == gateway) else { return false };
    let Protocol::Dns(dns) = &gateway.protocol else { return false };
    // Files of names and of hosts are the administrator's, and only the gateway knows which names they have.
    let is_about = |rule: &GatewayRule| {
        let has_files = !rule.host_files.is_empty();
        has_files || rule.hosts.is_empty() || rule.hosts.iter().any(|pattern| is_name(pattern, name))
    };
    let by_rule = gateway.rules.iter().any(|rule| rule.allow && rule.private_answers && is_about(rule));
    by_rule
        || dns.views.iter().any(|view| {
            !view.files.is_empty() || view.entries.iter().any(|(_, names)| names.iter().any(|it| it == name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[zones]\na = { interfaces = 'e0' }\nb = { interfaces = 'e1' }\n[domains]\ngrace = '10s'\n\
        [gateways.names]\nprotocol = 'dns'\nlisten = '127.0.0.1:53'\n[[gateways.names.views]]\nentries = ['10.0.0.5 own.test']\n\
        [[gateways.names.rules]]\nname = 'corp'\naction = 'allow'\nhosts = '*.corp.test'\nprivate_answers = true\n\
        [[gateways.names.rules]]\nname = 'all'\naction = 'allow'\n\
        [[rules]]\nname = 'x'\nfrom = 'a'\nto = 'b'\naction = 'allow'\ndestination = ['domain:www.test', 'domain:*.cdn.test']\n";

    fn policy(text: &str) -> Policy {
        Policy::parse("p", text).unwrap_or_else(|problems| panic!("{problems}"))
    }

    struct Table(Domains, Policy, Instant);

    impl Table {
        fn new(text: &str) -> Self {
            let policy = policy(text);
            let mut domains = Domains::default();
            domains.follow(&policy);
            Self(domains, policy, Instant::now())
        }

        fn at(&self, second: u64) -> (Timestamp, Instant) {
            (Timestamp::from_second(second as i64).unwrap(), self.2 + Duration::from_secs(second))
        }

        fn hear(&mut self, second: u64, name: &str, addresses: &[&str], lifetime: u32) -> (bool, u64) {
            let addresses: Vec<IpAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
            let at = self.at(second);
            self.0.hear((name, &addresses, lifetime), false, at)
        }

        /// For each address, the lists that have it, for new flows and for known ones.
        fn lists(&self, addresses: &[&str]) -> Vec<(u32, u32)> {
            let tables = self.0.tables(&self.1).unwrap().unwrap();
            let both = |it: &&str| {
                let address = it.parse().unwrap();
                (tables.now.look_up(address), tables.known.look_up(address))
            };
            addresses.iter().map(both).collect()
        }
    }

    #[test]
    fn an_address_stays_for_its_lifetime_and_the_grace_and_known_flows_remember_it() {
        let mut table = Table::new(TEXT);
        let all = ["198.51.100.1", "198.51.100.2", "2001:db8::1"];
        assert_eq!(table.hear(0, "www.test", &["198.51.100.1", "2001:db8::1"], 20), (true, 0));
        assert_eq!(table.hear(0, "a.cdn.test", &["198.51.100.1", "198.51.100.2"], 5), (true, 0));
        // Not the domain itself, nothing that only ends like it, and nothing that no rule names.
        for name in ["cdn.test", "xcdn.test", "b.www.test", "other.test"] {
            assert_eq!(table.hear(0, name, &["198.51.100.3"], 5), (false, 0), "{name}");
        }
        assert_eq!(table.hear(1, "www.test", &["198.51.100.1"], 1), (false, 0), "it is known");
        assert_eq!(table.lists(&all), [(3, 3), (2, 2), (1, 1)]);
        for (second, any, expected) in [
            (14, false, [(3, 3), (2, 2), (1, 1)]),
            (15, true, [(1, 3), (0, 2), (1, 1)]),
            (29, false, [(1, 3), (0, 2), (1, 1)]),
            (30, true, [(0, 3), (0, 2), (0, 1)]),
        ] {
            let at = table.at(second).1;
            assert_eq!((table.0.end(at), table.lists(&all)), (any, expected.to_vec()), "{second}");
        }
        assert_eq!(table.hear(31, "b.cdn.test", &["198.51.100.2"], u32::MAX), (true, 0));
        let at = table.at(31 + 86_400 + 10).1;
        assert!(table.0.end(at), "no lifetime is longer than a day");
        assert_eq!(table.lists(&all), [(0, 3), (0, 2), (0, 1)]);
    }

    #[test]
    fn a_domain_that_a_rule_refuses_is_what_it_is_now() {
        let mut table = Table::new(&TEXT.replace(
            "'x'\nfrom = 'a'\nto = 'b'\naction = 'allow'",
            "'x'\nfrom = 'a'\nto = 'b'\naction = 'deny'",
        ));
        table.hear(0, "www.test", &["198.51.100.1"], 0);
        assert_eq!(table.lists(&["198.51.100.1"]), [(1, 1)]);
        let at = table.at(10).1;
        assert!(table.0.end(at));
        assert_eq!(table.lists(&["198.51.100.1"]), [(0, 0)]);
    }

    #[test]
    fn a_domain_has_bounds_and_takes_no_place_of_another() {
        let mut table = Table::new(TEXT);
        let many: Vec<String> = (0..MOST_ADDRESSES as u32 + 5)
            .map(|it| std::net::Ipv4Addr::from(0xc633_0000 + it).to_string())
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(table.hear(0, "x.cdn.test", &many, 60), (true, 5));
        assert_eq!(table.hear(0, "www.test", &["203.0.114.1"], 60), (true, 0));
        assert_eq!(table.hear(0, "y.cdn.test", &["203.0.114.2"], 60), (false, 1));
        let (wall, now) = table.at(1);
        let (shown, not_taken) = table.0.shown("*.cdn.test", wall, now);
        assert_eq!((shown.len(), not_taken), (MOST_ADDRESSES, 6));
        let at = table.at(70).1;
        assert!(table.0.end(at));
        assert_eq!(table.hear(71, "y.cdn.test", &["203.0.114.2"], 60), (true, 0), "there is room again");
        // What it stood for has a bound as well.
        let more: Vec<String> =
            (0..10u32).map(|it| std::net::Ipv4Addr::from(0xc634_0000 + it).to_string()).collect();
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        table.hear(71, "z.cdn.test", &more, 0);
        let at = table.at(200).1;
        assert!(table.0.end(at));
        assert_eq!(table.lists(&[many[0], many[20], more[0]]), [(0, 0), (0, 2), (0, 2)]);
    }

    #[test]
    fn private_addresses_are_taken_where_a_rule_or_a_view_lets_them() {
        let policy = policy(TEXT);
        for (gateway, name, expected) in [
            ("names", "own.test", true),
            ("names", "a.corp.test", true),
            ("names", "corp.test", false),
            ("names", "www.test", false),
            ("other", "own.test", false),
        ] {
            assert_eq!(allows_private(&policy, gateway, name), expected, "{gateway} {name}");
        }
        let mut table = Table::new(TEXT);
        for address in
            ["10.0.0.1", "127.0.0.1", "169.254.169.254", "224.0.0.1", "::1", "fd00::1", "::ffff:10.0.0.1"]
        {
            assert_eq!(table.hear(0, "www.test", &[address], 60), (false, 1), "{address}");
            let (at, address) = (table.at(0), [address.parse().unwrap()]);
            assert_eq!(table.0.hear(("www.test", &address, 60), true, at), (true, 0), "{address:?}");
            table.0 = Domains::default();
            table.0.follow(&policy);
        }
    }

    #[test]
    fn a_restart_goes_on_with_what_holds() {
        let mut table = Table::new(TEXT);
        table.hear(100, "www.test", &["198.51.100.1"], 20);
        table.hear(100, "www.test", &["198.51.100.2"], 500);
        table.hear(100, "a.cdn.test", &["198.51.100.3"], u32::MAX);
        let (wall, now) = table.at(101);
        let bytes = serde_json::to_vec(&table.0.kept(wall, now)).unwrap();
        let all = ["198.51.100.1", "198.51.100.2", "198.51.100.3"];
        for (second, expected) in [
            (110, [(1, 1), (1, 1), (2, 2)]),
            (131, [(0, 1), (1, 1), (2, 2)]),
            (1_000_000, [(0, 1), (0, 1), (0, 2)]),
        ] {
            let mut later = Table::new(TEXT);
            let (wall, now) = later.at(second);
            later.0.restore(serde_json::from_slice(&bytes).unwrap(), wall, now);
            assert_eq!(later.lists(&all), expected, "{second}");
        }
        // Under a clock that was put back by years nothing holds for longer than it may.
        let mut later = Table::new(TEXT);
        let now = later.at(0).1;
        later.0.restore(serde_json::from_slice(&bytes).unwrap(), Timestamp::MIN, now);
        let end = later.at(86_410).1;
        assert!(later.0.end(end));
        assert_eq!(later.lists(&all), [(0, 1), (0, 1), (0, 2)]);
        // Another policy takes over what it has itself.
        let other = policy(&TEXT.replace("'domain:www.test', ", ""));
        table.0.follow(&other);
        table.1 = other;
        assert_eq!(table.lists(&all), [(0, 0), (0, 0), (1, 1)]);
    }
}
