//! Builds the trees of each family, "cut and kick": a list of pieces is cut in one field, and a piece that would be copied to too many
//! children goes to the next tree.

use super::cut::{Cut, Space, best};
use super::lines::{EMPTY, INNER, Inner, LEAF, Line, NO_ROW, leaf};
use super::pieces::{Family, NUMBERS_V4, NUMBERS_V6, Piece, drop_shadowed, pieces_v4, pieces_v6};
use super::{LINE_WORDS, MOST_LINES, Series, Trees};
use crate::form::Form;
use crate::tables::PROMISED_LINES;

/// What trees may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pieces of all rows of a family.
    pub pieces: usize,
    /// Lines of both families together.
    pub lines: usize,
    /// Pieces that are put into a child while building, in vain attempts too.
    pub work: usize,
}

impl Limits {
    /// What suits a number of rules: building stays within the time that is promised for them.
    pub fn for_rows(rows: usize) -> Self {
        Self { pieces: (1 << 18) + 4 * rows, lines: (1 << 18) + 8 * rows, work: (1 << 21) + 200 * rows }
    }

    /// Whatever can be searched, and built in some seconds.
    pub const WIDE: Limits = Limits { pieces: 1 << 22, lines: 1 << 23, work: 1 << 29 };
}

/// How a family's trees are built.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// How willingly pieces are copied: the greatest product of the children that a piece reaches into and the pieces that a child has on
    /// the average. More are fewer trees and more memory.
    pub(super) copies: usize,
    /// How much worse it is to leave some pieces to the next tree than to have as many in one child.
    pub(super) kick_weight: f64,
}

/// The first that keeps the promise is taken, or else the one with the least bound. `docs/design/tables.md` says on which sets they were
/// chosen, and on which they were tried.
const WAYS: [Way; 4] = [
    Way { copies: 2048, kick_weight: 1.0 },
    Way { copies: 2048, kick_weight: 0.3 },
    Way { copies: 512, kick_weight: 0.3 },
    Way { copies: 128, kick_weight: 0.3 },
];
/// Rules of a leaf.
const LEAF_PIECES: usize = 4;
/// In lists up to this, pieces that an earlier one shadows are dropped: it takes the square of their number.
const FEW: usize = 64;
/// Trees of a family at most: the last one copies what it has to.
const MOST_TREES: usize = 16;

pub(super) fn build(form: &Form, limits: &Limits) -> Option<Trees> {
    let mut lines = Lines { first: 0, lines: Vec::new() };
    let series = series_of(form, &|_| true, limits, &mut limits.work.clone(), &mut lines)?;
    Some(Trees { lines: lines.lines, series })
}

/// The lines so far, of which the first has a number.
pub(in crate::tables) struct Lines {
    pub(in crate::tables) first: u32,
    pub(in crate::tables) lines: Vec<Line>,
}

impl Lines {
    fn next(&self) -> u32 {
        self.first + self.lines.len() as u32
    }
}

/// The trees of some rows of a form, behind the lines that are there.
pub(in crate::tables) fn series_of(
    form: &Form,
    takes: &dyn Fn(usize) -> bool,
    limits: &Limits,
    work: &mut usize,
    lines: &mut Lines,
) -> Option<[Series; 2]> {
    if form.rules.len() >= NO_ROW as usize {
        return None;
    }
    let v4 = Builder::family(
        pieces_v4(form, takes, limits.pieces)?,
        Space::of(form),
        (Family::V4, NUMBERS_V4),
        PROMISED_LINES[0],
        limits.lines,
        work,
        lines,
    )?;
    let v6 = Builder::family(
        pieces_v6(form, takes, limits.pieces)?,
        Space::of(form),
        (Family::V6, NUMBERS_V6),
        PROMISED_LINES[1],
        limits.lines,
        work,
        lines,
    )?;
    Some([v4, v6])
}

/// A node whose children are in their place, and which is not in its own yet.
struct Node {
    kind: u32,
    /// Of a leaf 1 to 4.
    lines: Vec<Line>,
    best: u32,
    /// Lines from here to the last leaf.
    depth: u32,
}

impl Node {
    const NOTHING: Node = Node { kind: EMPTY, lines: Vec::new(), best: NO_ROW, depth: 0 };
}

struct Builder<'b, const F: usize> {
    pieces: &'b [Piece<F>],
    /// All packets of the family.
    space: Space<F>,
    family: Family,
    /// Of the fields, among a packet's keys.
    numbers: [u32; F],
    way: Way,
    most_lines: usize,
    work: &'b mut usize,
    lines: &'b mut Lines,
    kicked: Vec<u32>,
}

impl<'b, const F: usize> Builder<'b, F> {
    /// The trees of a family, behind the lines that are there.
    fn family(
        mut pieces: Vec<Piece<F>>,
        space: Space<F>,
        (family, numbers): (Family, [u32; F]),
        promised: u32,
        most_lines: usize,
        work: &mut usize,
        lines: &mut Lines,
    ) -> Option<Series> {
        drop_shadowed(&mut pieces);
        let start = lines.lines.len();
        let mut best: Option<(Series, Vec<Line>)> = None;
        for way in WAYS {
            let (pieces, work, lines) = (pieces.as_slice(), &mut *work, &mut *lines);
            let mut builder =
                Builder { pieces, space, family, numbers, way, most_lines, work, lines, kicked: Vec::new() };
            let found = builder.series().filter(|series| series.bound <= MOST_LINES);
            let is_out_of_work = *builder.work == 0;
            let built = lines.lines.split_off(start);
            if let Some(series) = found
                && best.as_ref().is_none_or(|(other, _)| series.bound < other.bound)
            {
                best = Some((series, built));
            }
            if is_out_of_work || best.as_ref().is_some_and(|(series, _)| series.bound <= promised) {
                break;
            }
        }
        let (series, built) = best?;
        lines.lines.extend(built);
        Some(series)
    }

    fn series(&mut self) -> Option<Series> {
        let mut list: Vec<u32> = (0..self.pieces.len() as u32).collect();
        let mut roots: Vec<Node> = Vec::new();
        // One tree at least, so that a search need not ask whether there is any.
        while roots.is_empty() || !list.is_empty() {
            if roots.len() + 1 == MOST_TREES {
                self.way.copies = usize::MAX;
            }
            let root = self.node(list, &self.space.clone())?;
            roots.push(self.as_root(root));
            list = std::mem::take(&mut self.kicked);
            list.sort_unstable();
        }
        roots.sort_by_key(|root| root.best);
        // Behind the last tree nothing is read; the line of a tree that cannot win any more is.
        let bound = roots.iter().map(|root| root.depth).sum();
        let series = Series { first: self.lines.next(), trees: roots.len() as u32, bound };
        self.lines.lines.extend(roots.into_iter().flat_map(|root| root.lines));
        Some(series)
    }

    /// A root is an inner node, even above a single leaf.
    fn as_root(&mut self, node: Node) -> Node {
        if node.kind == INNER {
            return node;
        }
        let (best, depth) = (node.best, node.depth + 1);
        let (kinds, base, shift) = self.place(vec![node]);
        Node { kind: INNER, lines: vec![Inner::of(0, &kinds, base, shift, best, &[])], best, depth }
    }

    /// The node for the pieces of a list, in order, in a space; `None` when it takes more than the limits.
    fn node(&mut self, mut list: Vec<u32>, space: &Space<F>) -> Option<Node> {
        *self.work = self.work.saturating_sub(list.len() + 1);
        if *self.work == 0 || self.lines.lines.len() > self.most_lines {
            return None;
        }
        self.drop_hidden(&mut list, space);
        let Some(first) = list.first() else { return Some(Node::NOTHING) };
        let best_row = self.pieces[*first as usize].row;
        if list.len() <= LEAF_PIECES {
            return Some(self.leaf(&list, best_row));
        }
        // Of two pieces the first does not cover the space, so it ends inside.
        let cut = best(self.pieces, &list, space, self.way)?;
        let lists = self.distribute(&list, &cut);
        drop(list);
        let mut children = Vec::with_capacity(lists.len());
        for (number, list) in lists.into_iter().enumerate() {
            children.push(self.node(list, &space.child(&cut, number))?);
        }
        let best_row = children.iter().map(|child| child.best).min().unwrap_or(NO_ROW);
        let depth = 1 + children.iter().map(|child| child.depth).max().unwrap_or(0);
        let (kinds, base, shift) = self.place(children);
        let line = Inner::of(self.numbers[cut.field], &kinds, base, shift, best_row, &cut.separators);
        Some(Node { kind: INNER, lines: vec![line], best: best_row, depth })
    }

    /// Drops the pieces that never decide in a space: those after one that covers it and, if there are few, those that one earlier piece
    /// shadows.
    fn drop_hidden(&self, list: &mut Vec<u32>, space: &Space<F>) {
        let pieces = self.pieces;
        if let Some(covering) = list.iter().position(|number| space.is_within(&pieces[*number as usize])) {
            list.truncate(covering + 1);
        }
        if list.len() > FEW {
            return;
        }
        let mut kept: Vec<u32> = Vec::with_capacity(list.len());
        for number in list.iter() {
            let piece = &pieces[*number as usize];
            if !kept.iter().any(|other| space.is_shadowed(piece, &pieces[*other as usize])) {
                kept.push(*number);
            }
        }
        *list = kept;
    }

    /// The list of each child.
    fn distribute(&mut self, list: &[u32], cut: &Cut) -> Vec<Vec<u32>> {
        let mut lists = vec![Vec::new(); cut.children()];
        let kicked = self.kicked.len();
        let mut copies = self.way.copies;
        loop {
            for number in list {
                let (first, last) = cut.children_of(&self.pieces[*number as usize]);
                if cut.kicks(last - first + 1, list.len(), copies) {
                    self.kicked.push(*number);
                } else {
                    lists[first..=last].iter_mut().for_each(|list| list.push(*number));
                }
            }
            if self.kicked.len() - kicked < list.len() {
                return lists;
            }
            // A tree must hold something, or the next one would be the same.
            self.kicked.truncate(kicked);
            copies = usize::MAX;
        }
    }

    fn leaf(&self, list: &[u32], best: u32) -> Node {
        let lines = leaf(list.iter().map(|number| self.pieces[*number as usize]), self.family);
        Node { kind: LEAF, depth: lines.len() as u32, lines, best }
    }

    /// Puts children into lines that follow each other: what each is, the first line, and the logarithm of the lines of each.
    fn place(&mut self, children: Vec<Node>) -> (Vec<u32>, u32, u32) {
        let most = children.iter().map(|child| child.lines.len()).max().unwrap_or(0);
        let shift = most.max(1).next_power_of_two().trailing_zeros();
        let (start, base) = (self.lines.lines.len(), self.lines.next());
        let kinds = children.iter().map(|child| child.kind).collect();
        for (number, child) in (1..).zip(children) {
            self.lines.lines.extend(child.lines);
            self.lines.lines.resize(start + (number << shift), [0; LINE_WORDS]);
        }
        (kinds, base, shift)
    }
}
