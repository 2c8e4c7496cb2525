//! Keeps what the data plane knows of the kernel's routes, neighbours and addresses up to date.
//!
//! `bpf/firewall/route.h` asks the kernel for routes by itself and remembers the answers; this module listens to the
//! kernel's announcements and tells it when what it remembers is old. It also knows which addresses are the firewall's own,
//! and asks for neighbours again that the kernel has begun to doubt: it does not see the traffic that uses them, would
//! never ask by itself, and a dead one would swallow packets for ever.
//!
//! It also keeps the Ethernet addresses of the interfaces that the firewall is attached to, because XDP cannot ask for them.
//!
//! It changes no route, neighbour or address. It changes three settings of the loopback interface, and puts them back when [`Routes`] is
//! dropped: its forwarding, without which the kernel answers no question about routes and fragments nothing for the data plane;
//! that it takes packets with an address of this machine as their source, which those have that a masquerade translated; and
//! its reverse-path filter if that is strict, because all that comes by it then seems to come the wrong way.

mod follower;
mod links;
mod netlink;
mod own;

use crate::forwarding::{self, ANSWER_BURST, ANSWER_INTERVAL, LocalKind, MARK, WORDS, local_key};
use crate::interface::Interface;
pub use follower::Follower;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
pub use links::LinkAddresses;
pub use netlink::LinkWatch;
use netlink::{Announced, Events, Neighbour, Queries};
use nix::time::{ClockId, clock_gettime};
use own::Own;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// What goes wrong between this module, the kernel and the maps.
#[derive(Debug, thiserror::Error)]
pub enum RoutesError {
    /// The kernel refused a question or an answer could not be read.
    #[error("{doing} through netlink: {source}")]
    Netlink {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A map of the data plane could not be written.
    #[error("writing the map {map}: {source}")]
    Map {
        /// The map.
        map: &'static str,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// A setting could not be read or written.
    #[error("changing {path}: {source}; the firewall needs root, and a /proc/sys that can be written")]
    Setting {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// No file descriptors or threads left.
    #[error("starting to follow the kernel's routes: {0}")]
    Thread(std::io::Error),
    /// More Ethernet addresses than one interface may have here.
    #[error(
        "interface {ifindex} takes frames for more than {most} Ethernet addresses, with its bridge and the interfaces on top \
         of it: none of the new ones is known, remove some"
    )]
    Addresses {
        /// Its number.
        ifindex: u32,
        /// How many it may have.
        most: usize,
    },
    /// No random numbers.
    #[error("reading /dev/urandom: {0}")]
    Random(std::io::Error),
}

/// The maps of `bpf/firewall/route.h` and `answer.h` that this module writes; nobody else does.
#[derive(Debug)]
pub struct RouteMaps {
    /// `forwarding`
    pub forwarding: MapHandle,
    /// `local_addresses`
    pub local_addresses: MapHandle,
    /// `own_addresses`
    pub own_addresses: MapHandle,
    /// `link_addresses`, to which [`crate::Ports`] adds interfaces.
    pub link_addresses: LinkAddresses,
}

/// The interfaces of the calling thread's network namespace.
///
/// # Errors
/// What the kernel refuses.
pub fn interfaces() -> Result<Vec<Interface>, RoutesError> {
    Queries::open()?.interfaces()
}

/// Makes an interface of this network namespace receive frames for other machines, or not any more. What programs that look on want of it stays.
///
/// # Errors
/// There is no such interface, or the kernel does not let its flags be changed.
pub fn receive_all(index: u32, receives: bool) -> Result<(), RoutesError> {
    Queries::open()?.receive_all(index, receives)
}

/// Has the kernel of this network namespace take packets of transparent gateways for its own: of IPv4, of IPv6. What it does already stays.
///
/// # Errors
/// The kernel does not let rules and routes be changed.
pub fn take_for_gateways(v4: bool, v6: bool) -> Result<(), RoutesError> {
    let mut queries = Queries::open()?;
    queries.take_for_gateways(true, v4)?;
    queries.take_for_gateways(false, v6)
}

/// How many answers a core may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLimits {
    /// TCP resets a second; 0 is no limit.
    pub resets_per_second: u32,
    /// ICMP errors a second; 0 is no limit.
    pub errors_per_second: u32,
}

impl Default for AnswerLimits {
    /// Resets cost less than the segments they stop; for errors the same as Linux's `icmp_msgs_per_sec`.
    fn default() -> Self {
        Self { resets_per_second: 10_000, errors_per_second: 1_000 }
    }
}

/// An idle core has saved up answers for so long.
const BURST_NS: u32 = 100_000_000;

impl AnswerLimits {
    /// Nanoseconds of a core's time that each answer uses up: resets, errors.
    fn intervals(self) -> [u32; 2] {
        let interval = |per_second: u32| 1_000_000_000_u32.checked_div(per_second).unwrap_or(0);
        [self.resets_per_second, self.errors_per_second].map(interval)
    }
}

/// What [`Routes::follow`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// What the data plane remembered is old from now on: flows may go elsewhere.
    pub routes: bool,
    /// The firewall's own addresses were written again.
    pub addresses: bool,
    /// Neighbours that the kernel was asked to look after.
    pub asked_again: u32,
}

/// The kernel's routes as the data plane sees them, of the network namespace in which it was started.
#[derive(Debug)]
pub struct Routes {
    maps: RouteMaps,
    events: Events,
    queries: Queries,
    interfaces: Vec<u32>,
    local: BTreeMap<IpAddr, LocalKind>,
    own: BTreeMap<u32, Own>,
    /// The Ethernet addresses of neighbours that may be used.
    neighbours: HashMap<(u32, IpAddr), Vec<u8>>,
    settings: Vec<Setting>,
}

impl Routes {
    /// Fills the maps and begins to listen, in the calling thread's network namespace. To be called before the programs
    /// are attached. `interfaces` are the numbers of those that belong to zones: neighbours elsewhere are the kernel's business.
    ///
    /// # Errors
    /// Not root, or what the kernel refuses.
    pub fn start(maps: RouteMaps, interfaces: &[u32], limits: AnswerLimits) -> Result<Self, RoutesError> {
        let mut settings = vec![
            Setting::change("/proc/sys/net/ipv4/conf/lo/forwarding", ON)?,
            Setting::change("/proc/sys/net/ipv6/conf/lo/forwarding", ON)?,
            // What the kernel is to fragment comes in by there, and has an address of this machine as its source once a
            // masquerade has translated it.
            Setting::change("/proc/sys/net/ipv4/conf/lo/accept_local", ON)?,
        ];
        // The greater of both counts: loose is more than strict.
        if [OF_LOOPBACK, OF_ALL].iter().any(|path| std::fs::read(path).is_ok_and(|is| is.starts_with(STRICT)))
        {
            settings.push(Setting::change(OF_LOOPBACK, LOOSE)?);
        }
        let mark = random_mark()?;
        let mut routes = Self {
            maps,
            // Before the first question, so that no change falls between.
            events: Events::open()?,
            queries: Queries::open()?,
            interfaces: interfaces.to_vec(),
            local: BTreeMap::new(),
            own: BTreeMap::new(),
            neighbours: HashMap::new(),
            settings,
        };
        routes.learn_what_is_written();
        routes.change(|words| {
            // One that an earlier firewall wrote stays: packets that carry it may be on their way.
            if words[MARK..MARK + 2] == [0; 2] {
                words[MARK..MARK + 2].copy_from_slice(&mark);
            }
            words[ANSWER_INTERVAL..ANSWER_INTERVAL + 2].copy_from_slice(&limits.intervals());
            words[ANSWER_BURST..ANSWER_BURST + 2].copy_from_slice(&[BURST_NS; 2]);
        })?;
        routes.learn_everything()?;
        Ok(routes)
    }

    /// The settings stay as they are when this is dropped, or not: without them a firewall that goes on without its daemon would
    /// find no routes.
    pub fn outlive(&mut self, outlives: bool) {
        self.settings.iter_mut().for_each(|setting| setting.stays = outlives);
    }

    /// An earlier firewall, which did not put them back, changed the settings.
    pub fn take_over_settings(&mut self) {
        self.settings.iter_mut().for_each(|setting| setting.before = OFF);
    }

    /// Other interfaces belong to zones from now on.
    ///
    /// # Errors
    /// As the kernel refuses.
    pub fn set_interfaces(&mut self, interfaces: &[u32]) -> Result<(), RoutesError> {
        self.interfaces = interfaces.to_vec();
        let neighbours = self.queries.neighbours()?;
        self.ask_again(&neighbours).map(drop)
    }

    /// Reads what the kernel has announced and brings the maps up to date. Does not wait: poll [`AsFd`] for input.
    ///
    /// # Errors
    /// As the kernel or the maps refuse; what was read is then lost, and the next call learns everything anew.
    pub fn follow(&mut self) -> Result<Changes, RoutesError> {
        let announced = self.events.read()?;
        let changes = self.take(&announced);
        if changes.is_err() {
            self.events.lose();
        }
        changes
    }

    /// Says that somebody follows: to be called about once a second. Whoever stops leaves programs that ask the kernel again every second.
    ///
    /// # Errors
    /// As the map or the clock refuses.
    pub fn attend(&self) -> Result<(), RoutesError> {
        let now =
            clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(|error| RoutesError::Thread(error.into()))?;
        let attended = forwarding::attend(&self.maps.forwarding, now.into());
        attended.map_err(|source| RoutesError::Map { map: "forwarding", source })
    }

    /// Makes the data plane ask the kernel for every route again.
    ///
    /// # Errors
    /// As the map refuses.
    pub fn forget_routes(&self) -> Result<(), RoutesError> {
        self.change(|_| {})
    }

    fn change(&self, words: impl FnOnce(&mut [u32; WORDS])) -> Result<(), RoutesError> {
        let changed = forwarding::change(&self.maps.forwarding, words);
        changed.map_err(|source| RoutesError::Map { map: "forwarding", source })
    }

    fn take(&mut self, announced: &Announced) -> Result<Changes, RoutesError> {
        if announced.lost {
            self.learn_everything()?;
            return Ok(Changes { routes: true, addresses: true, asked_again: 0 });
        }
        let mut changes =
            Changes { routes: announced.routes, addresses: announced.addresses, asked_again: 0 };
        for neighbour in &announced.neighbours {
            changes.routes |= self.note(neighbour);
        }
        changes.asked_again = self.ask_again(&announced.neighbours)?;
        if announced.links {
            self.maps.link_addresses.refresh(&mut self.queries)?;
        }
        if announced.addresses {
            self.learn_addresses()?;
        }
        if changes.routes || changes.addresses {
            self.forget_routes()?;
        }
        Ok(changes)
    }

    fn learn_everything(&mut self) -> Result<(), RoutesError> {
        self.learn_addresses()?;
        self.maps.link_addresses.refresh(&mut self.queries)?;
        let neighbours = self.queries.neighbours()?;
        self.neighbours.clear();
        for neighbour in &neighbours {
            self.note(neighbour);
        }
        self.ask_again(&neighbours)?;
        self.forget_routes()
    }

    /// Asks for those that the kernel doubts. Returns how many they are.
    fn ask_again(&mut self, neighbours: &[Neighbour]) -> Result<u32, RoutesError> {
        let mut asked = 0;
        for neighbour in neighbours.iter().filter(|n| n.is_doubted && self.interfaces.contains(&n.ifindex)) {
            self.queries.use_neighbour(neighbour)?;
            asked += 1;
        }
        Ok(asked)
    }

    /// Keeps a neighbour's address. Returns whether the data plane may have remembered another one: a neighbour that was
    /// of no use before was not remembered.
    fn note(&mut self, neighbour: &Neighbour) -> bool {
        let key = (neighbour.ifindex, neighbour.address);
        match &neighbour.link_address {
            Some(now) => self.neighbours.insert(key, now.clone()).is_some_and(|before| before != *now),
            None => self.neighbours.remove(&key).is_some(),
        }
    }

    /// The addresses in the maps, which an earlier firewall may have written: those that are gone are to be deleted.
    fn learn_what_is_written(&mut self) {
        let map = &self.maps.local_addresses;
        let local = |key: Vec<u8>| {
            let value = map.lookup(&key, MapFlags::ANY).ok()??;
            Some((
                forwarding::local_address(&key)?,
                LocalKind::of(u32::from_ne_bytes(*value.first_chunk()?))?,
            ))
        };
        self.local = map.keys().filter_map(local).collect();
        let interface = |key: Vec<u8>| Some((u32::from_ne_bytes(*key.first_chunk()?), Own::default()));
        self.own = self.maps.own_addresses.keys().filter_map(interface).collect();
    }

    fn learn_addresses(&mut self) -> Result<(), RoutesError> {
        let local = self.queries.local_addresses()?;
        let gone: Vec<_> =
            self.local.keys().filter(|a| !local.contains_key(a)).map(|a| local_key(*a)).collect();
        let new = local.iter().filter(|(address, kind)| self.local.get(address) != Some(kind));
        let new = new.map(|(address, kind)| (local_key(*address), kind.number().to_ne_bytes()));
        replace(&self.maps.local_addresses, "local_addresses", &gone, new)?;
        self.local = local;
        let own = own::own_addresses(&self.queries.addresses()?);
        let gone: Vec<_> =
            self.own.keys().filter(|i| !own.contains_key(i)).map(|i| i.to_ne_bytes()).collect();
        let now = own.iter().map(|(ifindex, own)| (ifindex.to_ne_bytes(), own::own(*own)));
        replace(&self.maps.own_addresses, "own_addresses", &gone, now)?;
        self.own = own;
        Ok(())
    }
}

impl AsFd for Routes {
    /// Readable when there is something to [`Routes::follow`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// Writes what is there now before it deletes what is not: an address that moved is never missing.
fn replace<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    map: &MapHandle,
    name: &'static str,
    gone: &[K],
    now: impl Iterator<Item = (K, V)>,
) -> Result<(), RoutesError> {
    let failed = |source| RoutesError::Map { map: name, source };
    for (key, value) in now {
        map.update(key.as_ref(), value.as_ref(), MapFlags::ANY).map_err(failed)?;
    }
    gone.iter().try_for_each(|key| map.delete(key.as_ref())).map_err(failed)
}

/// Eight bytes that begin an Ethernet header, as words: a destination that is no group and was made here, and a part of the
/// source.
fn random_mark() -> Result<[u32; 2], RoutesError> {
    let mut mark = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut mark))
        .map_err(RoutesError::Random)?;
    mark[0] = mark[0] & 0xfc | 0x02;
    let word = |at: usize| u32::from_ne_bytes([mark[at], mark[at + 1], mark[at + 2], mark[at + 3]]);
    Ok([word(0), word(4)])
}

/// Values of settings.
const OFF: &[u8] = b"0";
const ON: &[u8] = b"1";
/// Of the reverse-path filter (`rp_filter`).
const STRICT: &[u8] = b"1";
const LOOSE: &[u8] = b"2";
const OF_LOOPBACK: &str = "/proc/sys/net/ipv4/conf/lo/rp_filter";
const OF_ALL: &str = "/proc/sys/net/ipv4/conf/all/rp_filter";

/// A setting of the kernel that is put back. The open file belongs to the network namespace that it was opened in.
#[derive(Debug)]
struct Setting {
    file: File,
    before: &'static [u8],
    now: &'static [u8],
    stays: bool,
}

impl Setting {
    fn change(path: &'static str, now: &'static [u8]) -> Result<Self, RoutesError> {
        let attempt = || -> std::io::Result<Self> {
            let mut file = File::options().read(true).write(true).open(path)?;
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            let known = [OFF, ON, LOOSE].into_iter().find(|value| text.trim_ascii() == *value);
            let before = known.unwrap_or(OFF);
            if before != now {
                file.rewind()?;
                file.write_all(now)?;
            }
            Ok(Self { file, before, now, stays: false })
        };
        attempt().map_err(|source| RoutesError::Setting { path, source })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if self.before != self.now && !self.stays {
            // The namespace may be on its way out; then there is nothing to put back.
            let _ = self.file.rewind().and_then(|()| self.file.write_all(self.before));
        }
    }
}
