//! A program at an interface, attached in the ways that outlive the process: in the driver by netlink, behind it in the chain of tcx,
//! and as a filter of clsact where the kernel has no tcx. The programs that are attached hold each other's maps: flows, policy and
//! counters live as long as one interface has the firewall, whatever became of the daemon
//! (`docs/decisions/0013-what-a-dead-firewall-leaves.md`).
//!
//! Takes the place of programs of our own in one step, and never that of anybody else's.

use super::programs::{self, Direction, Listed};
use crate::DataplaneError;
use crate::shared::Program;
use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHookBuilder, Xdp, XdpFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Our program in drivers, as the kernel lists it: names have 15 characters there.
const IN_DRIVER: &str = "firewall_xdp";
/// Our programs behind the driver: where packets come in, and where they go out.
const BEHIND: [&str; 4] = ["firewall_tc", "resolve", "firewall_out", "way_back"];

/// A program at an interface. It stays when this is dropped.
pub(super) struct Attachment {
    program: OwnedFd,
    /// The kernel's number of the program.
    id: u32,
    index: u32,
    at: At,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Driver,
    /// In the chain of tcx.
    Chain(Direction),
    /// As a filter of clsact.
    Filter(Direction),
}

/// Why a program cannot be in the driver.
pub(super) enum DriverError {
    /// Somebody else's is there.
    Occupied(String),
    /// The driver, or the kernel, does not take it.
    Refused(libbpf_rs::Error),
}

impl From<io::Error> for DriverError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error.into())
    }
}

/// Whether a program is where it was attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is.
    InPlace,
    /// Somebody took it away.
    Gone,
    /// Somebody else's program sees packets first.
    Behind(String),
    /// Somebody else's program is in its place.
    Replaced(String),
}

impl Attachment {
    /// Attaches a program to the interface's driver.
    pub(super) fn driver(program: &Program, index: u32) -> Result<Self, DriverError> {
        let xdp = Xdp::new(program.as_fd());
        let own = number(program).map_err(DriverError::Refused)?;
        match number_in_driver(program.as_fd(), index) {
            0 => xdp
                .attach(index as i32, XdpFlags::DRV_MODE | XdpFlags::UPDATE_IF_NOEXIST)
                .map_err(DriverError::Refused)?,
            there if there == own => {}
            there => {
                let before = earlier(there, |it| it.name == IN_DRIVER);
                let before = before.ok_or_else(|| DriverError::Occupied(named(there)))?;
                xdp.replace(index as i32, before.as_fd()).map_err(DriverError::Refused)?;
            }
        }
        Self::of(program, index, At::Driver).map_err(DriverError::Refused)
    }

    /// Attaches a program behind the driver: at the head of the chain of tcx, so that programs of others see what it lets pass; on
    /// a kernel without tcx as the first filter of clsact. It takes the place of one of `siblings`, which are the firewall's own, or of
    /// an earlier firewall's program.
    pub(super) fn behind(
        program: &Program,
        siblings: &[&Program],
        index: u32,
        direction: Direction,
        name: &str,
    ) -> Result<Self, DataplaneError> {
        let doing = || format!("putting the firewall on `{name}` (TC)");
        let chain = programs::chain(index, direction).map_err(DataplaneError::system(doing()))?;
        let Some(chain) = chain else { return Self::filter(program, siblings, index, direction, name) };
        let own = number(program).map_err(DataplaneError::bpf(doing()))?;
        // A program cannot take its own place.
        if !chain.contains(&own) {
            let before = chain.iter().find_map(|id| ours_behind(*id, siblings));
            programs::attach(program.as_fd(), index, direction, before.as_ref().map(AsFd::as_fd))
                .map_err(DataplaneError::system(doing()))?;
        }
        // One of an earlier version, which knew no tcx.
        take_filter(program.as_fd(), index, direction);
        Self::of(program, index, At::Chain(direction)).map_err(DataplaneError::bpf(doing()))
    }

    fn filter(
        program: &Program,
        siblings: &[&Program],
        index: u32,
        direction: Direction,
        name: &str,
    ) -> Result<Self, DataplaneError> {
        let doing = || format!("putting the firewall on `{name}` (TC)");
        make_clsact(program.as_fd(), index).map_err(DataplaneError::bpf(doing()))?;
        let there = number_in_filter(program.as_fd(), index, direction);
        let is_ours = || number(program).ok() == Some(there) || ours_behind(there, siblings).is_some();
        if there != 0 && !is_ours() {
            return Err(DataplaneError::Occupied { interface: name.to_owned(), who: named(there) });
        }
        let mut builder = filter(program.as_fd(), index);
        builder.replace(there != 0);
        let done = builder.hook(point(direction)).attach();
        done.and_then(|_| Self::of(program, index, At::Filter(direction)))
            .map_err(DataplaneError::bpf(doing()))
    }

    fn of(program: &Program, index: u32, at: At) -> Result<Self, libbpf_rs::Error> {
        let id = number(program)?;
        let program = program.as_fd().try_clone_to_owned().map_err(libbpf_rs::Error::from)?;
        Ok(Self { program, id, index, at })
    }

    /// Whether it is in the driver.
    pub(super) fn is_driver(&self) -> bool {
        self.at == At::Driver
    }

    /// Whether it is behind the driver, where packets come in.
    pub(super) fn is_where_packets_come_in(&self) -> bool {
        matches!(self.at, At::Chain(Direction::In) | At::Filter(Direction::In))
    }

    /// In words, for people.
    pub(super) fn place(&self) -> &'static str {
        match self.at {
            At::Driver => "in the driver (XDP)",
            At::Chain(Direction::In) | At::Filter(Direction::In) => "where packets come in (TC)",
            At::Chain(Direction::Out) | At::Filter(Direction::Out) => "where packets go out (TC)",
        }
    }

    /// Looks whether it is still there.
    pub(super) fn standing(&self) -> io::Result<Standing> {
        let program = self.program.as_fd();
        let only = |there: u32| match there {
            0 => Standing::Gone,
            there if there == self.id => Standing::InPlace,
            there => Standing::Replaced(named(there)),
        };
        Ok(match self.at {
            At::Driver => only(number_in_driver(program, self.index)),
            At::Filter(direction) => only(number_in_filter(program, self.index, direction)),
            At::Chain(direction) => {
                let chain = programs::chain(self.index, direction)?.unwrap_or_default();
                match chain.iter().position(|id| *id == self.id) {
                    None => Standing::Gone,
                    Some(0) => Standing::InPlace,
                    Some(_) => Standing::Behind(named(chain[0])),
                }
            }
        })
    }

    /// Puts it back where it was.
    pub(super) fn put_back(&self) -> io::Result<()> {
        let program = self.program.as_fd();
        match self.at {
            At::Driver => Xdp::new(program)
                .attach(self.index as i32, XdpFlags::DRV_MODE | XdpFlags::UPDATE_IF_NOEXIST)
                .map_err(io::Error::other),
            At::Chain(direction) => programs::attach(program, self.index, direction, None),
            At::Filter(direction) => {
                make_clsact(program, self.index).map_err(io::Error::other)?;
                filter(program, self.index)
                    .hook(point(direction))
                    .attach()
                    .map(drop)
                    .map_err(io::Error::other)
            }
        }
    }

    /// Takes it away. The interface may be gone, and the program with it.
    pub(super) fn detach(self) {
        let program = self.program.as_fd();
        match self.at {
            At::Driver => drop(Xdp::new(program).detach(self.index as i32, XdpFlags::DRV_MODE)),
            At::Chain(direction) => drop(programs::detach(program, self.index, direction)),
            At::Filter(direction) => {
                let _ = filter(program, self.index).hook(point(direction)).detach();
            }
        }
    }
}

/// The firewall's programs at an interface, whoever attached them.
pub(crate) fn ours(index: u32) -> Vec<Listed> {
    let mut found: Vec<Listed> = Vec::new();
    let standard_input = io::stdin();
    // Asking names no program; any descriptor does.
    let none = standard_input.as_fd();
    found.extend(in_driver(none, index).ok().flatten().filter(|it| it.name == IN_DRIVER));
    for direction in Direction::BOTH {
        let chain = programs::chain(index, direction).ok().flatten().unwrap_or_default();
        found.extend(chain.iter().filter_map(|id| Listed::of(*id).ok()).filter(is_behind));
        found.extend(in_filter(none, index, direction).filter(is_behind));
    }
    found
}

/// Takes the firewall's programs away from an interface, whoever attached them.
pub(crate) fn take_ours(index: u32) -> Result<(), libbpf_rs::Error> {
    take_driver(index)?;
    Direction::BOTH.into_iter().try_for_each(|direction| take_behind(index, direction))
}

/// Takes the firewall's programs away behind the driver, whoever attached them.
pub(super) fn take_behind(index: u32, direction: Direction) -> Result<(), libbpf_rs::Error> {
    for id in programs::chain(index, direction)?.unwrap_or_default() {
        if Listed::of(id).is_ok_and(|it| is_behind(&it)) {
            let program = libbpf_rs::Program::fd_from_id(id)?;
            programs::detach(program.as_fd(), index, direction)?;
        }
    }
    take_filter(io::stdin().as_fd(), index, direction);
    Ok(())
}

/// Takes the firewall's program out of the driver, whoever attached it.
pub(super) fn take_driver(index: u32) -> Result<(), libbpf_rs::Error> {
    let standard_input = io::stdin();
    let none = standard_input.as_fd();
    if in_driver(none, index)?.is_some_and(|it| it.name == IN_DRIVER) {
        Xdp::new(none).detach(index as i32, XdpFlags::DRV_MODE)?;
    }
    Ok(())
}

/// The kernel's number of a program.
fn number(program: &Program) -> Result<u32, libbpf_rs::Error> {
    libbpf_rs::Program::id_from_fd(program.as_fd())
}

/// A program by its number, if it is one of `siblings` or of an earlier firewall.
fn ours_behind(id: u32, siblings: &[&Program]) -> Option<OwnedFd> {
    let sibling = siblings.iter().find(|sibling| number(sibling).ok() == Some(id));
    sibling.map_or_else(|| earlier(id, is_behind), |sibling| sibling.as_fd().try_clone_to_owned().ok())
}

/// A program by its number, if it is like that. Looking takes CAP_SYS_ADMIN, which a daemon gives up once it runs: whatever an earlier
/// firewall left is found before that.
fn earlier(id: u32, is_wanted: impl Fn(&Listed) -> bool) -> Option<OwnedFd> {
    let listed = Listed::of(id).ok()?;
    is_wanted(&listed).then(|| libbpf_rs::Program::fd_from_id(id).ok()).flatten()
}

fn is_behind(program: &Listed) -> bool {
    BEHIND.contains(&program.name.as_str())
}

/// What is in the driver, in whichever mode.
fn in_driver(any: BorrowedFd<'_>, index: u32) -> Result<Option<Listed>, libbpf_rs::Error> {
    let id = number_in_driver(any, index);
    if id == 0 { Ok(None) } else { Ok(Some(Listed::of(id)?)) }
}

/// The same by its number; 0 is none.
fn number_in_driver(any: BorrowedFd<'_>, index: u32) -> u32 {
    Xdp::new(any).query_id(index as i32, XdpFlags::NONE).unwrap_or(0)
}

/// What is in the firewall's place among the filters of clsact.
fn in_filter(any: BorrowedFd<'_>, index: u32, direction: Direction) -> Option<Listed> {
    let id = number_in_filter(any, index, direction);
    if id == 0 { None } else { Listed::of(id).ok() }
}

/// The same by its number; 0 is none.
fn number_in_filter(any: BorrowedFd<'_>, index: u32, direction: Direction) -> u32 {
    let print = libbpf_rs::set_print(None);
    let id = filter(any, index).hook(point(direction)).query().unwrap_or(0);
    libbpf_rs::set_print(print);
    id
}

fn take_filter(any: BorrowedFd<'_>, index: u32, direction: Direction) {
    if in_filter(any, index, direction).is_some_and(|it| is_behind(&it)) {
        let _ = filter(any, index).hook(point(direction)).detach();
    }
}

/// Adds clsact to an interface. It stays, and costs nothing as long as no filter is in it.
fn make_clsact(program: BorrowedFd<'_>, index: u32) -> Result<(), libbpf_rs::Error> {
    let mut builder = TcHookBuilder::new(program);
    // libbpf complains on standard error about a clsact that is there already, which is as good.
    let print = libbpf_rs::set_print(None);
    let made = builder.ifindex(index as i32).hook(TC_INGRESS | TC_EGRESS).create();
    libbpf_rs::set_print(print);
    made.map(drop)
}

/// The same place for every firewall, so that one takes the place of the one before.
fn filter(program: BorrowedFd<'_>, index: u32) -> TcHookBuilder<'_> {
    let mut builder = TcHookBuilder::new(program);
    builder.ifindex(index as i32).handle(1).priority(1);
    builder
}

fn point(direction: Direction) -> TcAttachPoint {
    match direction {
        Direction::In => TC_INGRESS,
        Direction::Out => TC_EGRESS,
    }
}

fn named(id: u32) -> String {
    Listed::of(id).map_or_else(
        |_| format!("the program number {id} (`bpftool prog show id {id}`)"),
        |it| it.to_string(),
    )
}
