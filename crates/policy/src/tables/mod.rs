//! A policy as flat arrays of u32 and u64: the deciding rule of a packet by array loads alone, with a bounded number of
//! them. The BPF program does exactly what [`Tables::look_up`] does. `docs/design/tables.md` describes the layout.

mod address;
mod blocks;
mod classed;
mod classes;
mod combine;
mod counters;
mod listed;
mod trees;
mod vectors;

pub use address::{DEEPER, MAX_LEVELS, NODE_KEYS, Tree6, Trie4, WHOLE};
pub use blocks::{BLOCK_CLASSES, Blocks};
pub use classed::{AddressTables, BY_PORT, Classed};
pub use combine::{BitVectors, Blocked, ClassLimits, Combination, Crossed, Part};
pub use counters::Counters;
pub use listed::{Listed, ListedSeries, MAX_SERIES as MAX_LISTED_SERIES};
pub use trees::{LINE_WORDS, Limits as TreeLimits, MOST_LINES, Series, Trees};
pub use vectors::{BLOCK_BITS, BLOCK_CHUNKS, CHUNK_BITS, CHUNK_WORDS};

pub(crate) use classes::{Segments, address_classes, classes_of, service_classes};
pub(crate) use vectors::{Store, Vectors};

use crate::form::Form;
use crate::interpret::{Decider, Packet, Verdict};
use crate::lists::OnLists;
use crate::model::{Action, Policy};
use jiff::Timestamp;

/// The most lines that a look-up shall read: of IPv4 and of IPv6.
pub const PROMISED_LINES: [u32; 2] = [24, 32];

/// The tables of a policy at a moment; they hold until [`Policy::next_change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Number of zones.
    pub zones: u32,
    /// From a packet to the deciding row.
    pub method: Method,
    /// The same of the rows that ask for lists of addresses, which the method does not know.
    pub listed: Listed,
    /// For each row, the place of the rule in the policy.
    pub rules: Vec<u32>,
    /// For each row, the action: its place in [`Action::NAMES`].
    pub actions: Vec<u32>,
    /// At `from * zones + to`: the action where no rule matches.
    pub defaults: Vec<u32>,
}

/// How the deciding row is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// By a series of decision trees.
    Trees(Trees),
    /// By the classes of each field.
    Classed(Box<Classed>),
}

impl Method {
    /// For people: "decision trees".
    pub const fn words(&self) -> &'static str {
        match self {
            Method::Trees(_) => "decision trees",
            Method::Classed(classed) => match classed.combination {
                Combination::Crossed(_) => "dense tables",
                Combination::Blocked(_) => "tables in blocks",
                Combination::Vectors(_) => "bit vectors",
            },
        }
    }

    /// Short identifier: `trees`, `tables`, `blocks` or `vectors`.
    pub const fn name(&self) -> &'static str {
        match self {
            Method::Trees(_) => "trees",
            Method::Classed(classed) => match classed.combination {
                Combination::Crossed(_) => "tables",
                Combination::Blocked(_) => "blocks",
                Combination::Vectors(_) => "vectors",
            },
        }
    }

    /// The most lines that a look-up of each family reads, without that of the action.
    fn bounds(&self) -> [u32; 2] {
        match self {
            Method::Trees(trees) => trees.bounds(),
            Method::Classed(classed) => classed.bounds(),
        }
    }
}

/// What each method may cost. The first that stays within its limits is taken; bit vectors have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of trees; `None` is no trees.
    pub trees: Option<TreeLimits>,
    /// Of tables by classes.
    pub classes: ClassLimits,
}

impl Limits {
    /// What suits a number of rules.
    pub fn for_rows(rows: usize) -> Self {
        Self { trees: Some(TreeLimits::for_rows(rows)), classes: ClassLimits::for_rows(rows) }
    }

    /// Trees wherever they can be built and searched at all.
    pub const TREES: Limits = Limits { trees: Some(TreeLimits::WIDE), classes: ClassLimits::NONE };
    /// Bit vectors.
    pub const VECTORS: Limits = Limits { trees: None, classes: ClassLimits::NONE };
    /// Tables in blocks wherever they fit into 64 MiB.
    pub const BLOCKS: Limits = Limits { trees: None, classes: ClassLimits::BLOCKS };
    /// Dense tables wherever they fit into 16 MiB each.
    pub const DENSE: Limits = Limits { trees: None, classes: ClassLimits::DENSE };
}

/// Why tables cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Zone pairs times services are too many.
    #[error(
        "the rules tell {pairs} kinds of zone pairs and {services} kinds of services (and of source ports) apart: together more \
         than {} combinations; use fewer zones, fewer rules with `source_port`, or group services that the same rules name",
        classed::PAIR_SERVICE_LIMIT
    )]
    TooManyServices {
        /// Classes of zone pairs.
        pairs: usize,
        /// Classes of services.
        services: usize,
    },
    /// The rules that ask for lists are too many, or too tangled.
    #[error(
        "the rules that name lists of addresses overlap too much to be searched: name fewer lists, or fewer addresses and services beside them"
    )]
    TooManyListed,
}

impl Tables {
    /// Builds the tables of a policy at a moment.
    ///
    /// # Errors
    /// [`BuildError`]: zone pairs and services that cannot be combined within bounds.
    pub fn build(policy: &Policy, at: Timestamp) -> Result<Self, BuildError> {
        let form = Form::of(policy, at);
        let limits = Limits::for_rows(form.rules.len());
        Self::of_form(policy, form, limits)
    }

    /// Builds tables with limits of one's own: what [`Tables::build`] chooses suits most.
    ///
    /// # Errors
    /// As [`Tables::build`].
    pub fn build_within(policy: &Policy, at: Timestamp, limits: Limits) -> Result<Self, BuildError> {
        Self::of_form(policy, Form::of(policy, at), limits)
    }

    fn of_form(policy: &Policy, form: Form, limits: Limits) -> Result<Self, BuildError> {
        let others = form.has_listed().then(|| form.clone().without_listed());
        let method = choose(others.as_ref().unwrap_or(&form), limits)?;
        let first_line = match &method {
            Method::Trees(trees) => trees.lines.len() as u32,
            Method::Classed(_) => 0,
        };
        let listed = Listed::of(&form, first_line).ok_or(BuildError::TooManyListed)?;
        let action = |rule: &u32| action_number(policy.rules[*rule as usize].effect.action);
        Ok(Self {
            zones: form.zones as u32,
            method,
            listed,
            actions: form.rules.iter().map(action).collect(),
            rules: form.rules,
            defaults: policy.defaults.iter().map(|default| action_number(default.action)).collect(),
        })
    }

    /// The verdict on a packet, and how many memory accesses it took: a number, or 64 bytes that lie together (a node, a
    /// chunk), is one.
    pub fn look_up(&self, packet: &Packet) -> (Verdict, u32) {
        self.look_up_listed(packet, OnLists::default())
    }

    /// The same of a packet whose ends are on some lists. What lists are bound to is not asked.
    pub fn look_up_listed(&self, packet: &Packet, on: OnLists) -> (Verdict, u32) {
        let (row, loads) = self.row(packet, on);
        let pair = usize::from(packet.from) * self.zones as usize + usize::from(packet.to);
        let (decider, action) = match row.checked_sub(1) {
            Some(row) => (Decider::Rule(self.rules[row as usize] as usize), self.actions[row as usize]),
            None => (Decider::Default, self.defaults[pair]),
        };
        // The action at the end.
        (Verdict { decider, action: Action::NAMES[action as usize].1 }, loads + 1)
    }

    /// The deciding row and 1, or 0; and how many memory accesses it took.
    fn row(&self, packet: &Packet, on: OnLists) -> (u32, u32) {
        let pair = usize::from(packet.from) * self.zones as usize + usize::from(packet.to);
        let (row, loads) = match &self.method {
            Method::Trees(trees) => trees.look_up(packet),
            Method::Classed(classed) => classed.look_up(packet, pair),
        };
        let (row, more) = self.listed.look_up(packet, on, row);
        (row, loads + more)
    }

    /// The lists on which the rule that decides found the source and the destination of a packet, as places in the policy.
    pub fn asked_by_decider(&self, packet: &Packet, on: OnLists) -> [Option<u8>; 2] {
        let (row, _) = self.row(packet, on);
        row.checked_sub(1).map_or([None; 2], |row| self.listed.asked_by(row))
    }

    /// The most memory accesses that a look-up of an IPv4 packet and of an IPv6 packet takes.
    pub fn bounds(&self) -> [u32; 2] {
        let (bounds, listed) = (self.method.bounds(), self.listed.bounds());
        [bounds[0] + listed[0] + 1, bounds[1] + listed[1] + 1]
    }

    /// Whether no look-up reads more lines than are promised.
    pub fn keeps_promise(&self) -> bool {
        // The line of the action is not the look-up's.
        are_kept(self.bounds().map(|bound| bound - 1))
    }

    /// The same if no rule asked for lists.
    pub fn keeps_promise_without_lists(&self) -> bool {
        are_kept(self.method.bounds())
    }

    /// What each table takes, in bytes.
    pub fn sizes(&self) -> Vec<(&'static str, usize)> {
        let mut sizes = match &self.method {
            Method::Trees(trees) => vec![("trees", trees.bytes())],
            Method::Classed(classed) => classed.sizes(),
        };
        if !self.listed.lines.is_empty() {
            sizes.push(("trees of rules with lists", self.listed.lines.len() * LINE_WORDS * 4));
        }
        sizes.push(("rules", (self.rules.len() + self.actions.len() + self.defaults.len()) * 4));
        sizes
    }
}

fn are_kept(bounds: [u32; 2]) -> bool {
    bounds.iter().zip(PROMISED_LINES).all(|(bound, promised)| *bound <= promised)
}

/// Rules beyond which tables by classes are not tried if there are trees: they rarely fit then, and take seconds to try.
const LARGE: usize = 2_000;

/// Trees if they keep the promise, else tables by classes, unless those come down to vectors and trees can be searched at all.
fn choose(form: &Form, limits: Limits) -> Result<Method, BuildError> {
    let trees = limits.trees.and_then(|limits| Trees::of(form, &limits));
    let keeps_promise = |trees: &Trees| are_kept(trees.bounds());
    let is_large = form.rules.len() > LARGE;
    let trees = match trees {
        Some(trees) if is_large || keeps_promise(&trees) => return Ok(Method::Trees(trees)),
        other => other,
    };
    let classed = Classed::of(form, limits.classes);
    match (classed, trees) {
        (Ok(Classed { combination: Combination::Vectors(_), .. }) | Err(_), Some(trees)) => {
            Ok(Method::Trees(trees))
        }
        (Ok(classed), _) => Ok(Method::Classed(Box::new(classed))),
        (Err(many), None) => Err(BuildError::TooManyServices { pairs: many.pairs, services: many.services }),
    }
}

fn action_number(action: Action) -> u32 {
    (0..).zip(Action::NAMES).find(|(_, (_, a))| *a == action).map_or(0, |(i, _)| i)
}
