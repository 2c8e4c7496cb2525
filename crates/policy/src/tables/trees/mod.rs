//! A short series of decision trees that leads from a packet's fields to the first matching row.
//!
//! A tree cuts one field at up to 13 values at a time. A rule that would have to be copied to too many sides of a cut goes to the
//! next tree instead. Trees are in the order of the best row in each, so a look-up ends when neither the rest of a
//! tree nor a later tree can hold a better row. How many lines a look-up can read is known when the trees are built. `docs/design/tables.md`
//! describes method and layout; `bpf/firewall/trees.h` does exactly what [`Trees::look_up`] does.

mod build;
mod cut;
mod lines;
mod pieces;

pub use build::Limits;
pub(super) use build::{Lines, series_of};
pub(super) use lines::NO_ROW;

use crate::form::Form;
use crate::interpret::Packet;
use lines::{EMPTY, INNER, Inner, Line};
use std::net::IpAddr;

/// Words of a line: 64 bytes, a line of the cache.
pub const LINE_WORDS: usize = 16;
/// The most lines that a look-up may read. The data plane's search takes no more steps.
pub const MOST_LINES: u32 = 64;

/// Nodes and leaves of all trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trees {
    /// Inner nodes and leaves; numbers of lines count from 0.
    pub lines: Vec<[u32; LINE_WORDS]>,
    /// Of IPv4 and of IPv6 packets.
    pub series: [Series; 2],
}

/// The trees of a family, at least one. Their roots are inner nodes that lie one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Series {
    /// The line of the first root.
    pub first: u32,
    /// How many trees there are.
    pub trees: u32,
    /// The most lines that a look-up reads.
    pub bound: u32,
}

/// Values of a packet's fields: the words of source and destination (IPv4: the first of four), then the service's key, the
/// source port, and the zones from and to.
pub(super) type Keys = [u32; 12];

impl Trees {
    /// The trees of a form; `None` when a look-up might read more than [`MOST_LINES`], or the trees would take too much memory or time.
    pub(super) fn of(form: &Form, limits: &Limits) -> Option<Self> {
        build::build(form, limits)
    }

    /// The deciding row and 1, or 0; and how many lines it took.
    pub(super) fn look_up(&self, packet: &Packet) -> (u32, u32) {
        let (found, loads) = search(&self.lines, 0, &self.series, packet, NO_ROW);
        (if found == NO_ROW { 0 } else { found + 1 }, loads)
    }

    /// The most lines that a look-up of each family reads.
    pub(super) fn bounds(&self) -> [u32; 2] {
        self.series.map(|series| series.bound)
    }

    /// Bytes of all lines.
    pub fn bytes(&self) -> usize {
        self.lines.len() * LINE_WORDS * 4
    }
}

/// The first row of the trees of a packet's family that is better than what was found, or else what was found; and how many lines it took. The
/// first of the lines has a number.
pub(super) fn search(
    lines: &[Line],
    first: u32,
    series: &[Series; 2],
    packet: &Packet,
    mut found: u32,
) -> (u32, u32) {
    let (family, keys) = keys_of(packet);
    let series = series[family];
    let mut loads = 0;
    for tree in 0..series.trees {
        let root = series.first - first + tree;
        if Inner(&lines[root as usize]).best() >= found {
            // The trees after it are no better.
            loads += 1;
            break;
        }
        let (row, read) = search_tree(lines, (first, root), family, &keys, found);
        found = found.min(row);
        loads += read;
    }
    (found, loads)
}

/// The row of a tree that is better than what was found, or [`NO_ROW`]; and how many lines it took. `root` is its place among the lines.
fn search_tree(
    lines: &[Line],
    (first, root): (u32, u32),
    family: usize,
    keys: &Keys,
    found: u32,
) -> (u32, u32) {
    let (mut at, mut kind, mut loads) = (root, INNER, 0);
    loop {
        let line = &lines[at as usize];
        loads += 1;
        if kind == INNER {
            if Inner(line).best() >= found {
                return (NO_ROW, loads);
            }
            let child = Inner(line).child(keys);
            if child.0 == EMPTY {
                return (NO_ROW, loads);
            }
            (kind, at) = (child.0, child.1 - first);
        } else {
            let (row, ends) = lines::search_leaf(line, family, keys, found);
            if ends {
                return (row, loads);
            }
            at += 1;
        }
    }
}

fn keys_of(packet: &Packet) -> (usize, Keys) {
    let mut keys = [0; 12];
    let family = match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            keys[0] = source.into();
            keys[4] = destination.into();
            0
        }
        (source, destination) => {
            keys[..4].copy_from_slice(&words(source));
            keys[4..8].copy_from_slice(&words(destination));
            1
        }
    };
    keys[8] = crate::service::key(packet.protocol, packet.selector);
    keys[9] = packet.source_port.into();
    keys[10] = packet.from.into();
    keys[11] = packet.to.into();
    (family, keys)
}

fn words(address: IpAddr) -> [u32; 4] {
    match address {
        IpAddr::V6(v6) => pieces::words(v6.into()),
        // Both addresses of a packet are of one family.
        IpAddr::V4(v4) => [v4.into(), 0, 0, 0],
    }
}
