//! Where a node cuts: which field, and at which values.

use super::build::Way;
use super::lines::SEPARATORS;
use super::pieces::Piece;
use crate::form::Form;
use crate::service::LAST_KEY;

/// Pieces that are looked at to choose among the fields; more are sampled evenly.
const SAMPLE: usize = 1024;

/// A part of the space of all packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space<const F: usize> {
    pub(super) first: [u32; F],
    pub(super) last: [u32; F],
}

impl<const F: usize> Space<F> {
    /// All packets of a family.
    pub(super) fn of(form: &Form) -> Self {
        let mut last = [u32::MAX; F];
        last[F - 4..].copy_from_slice(&[
            LAST_KEY,
            u32::from(u16::MAX),
            form.zones as u32 - 1,
            form.zones as u32 - 1,
        ]);
        Self { first: [0; F], last }
    }

    /// Whether a piece has every packet of the space.
    pub(super) fn is_within(&self, piece: &Piece<F>) -> bool {
        (0..F).all(|field| piece.first[field] <= self.first[field] && self.last[field] <= piece.last[field])
    }

    /// Whether a piece has every packet of the space that another one has.
    pub(super) fn is_shadowed(&self, piece: &Piece<F>, by: &Piece<F>) -> bool {
        (0..F).all(|field| {
            by.first[field] <= piece.first[field].max(self.first[field])
                && piece.last[field].min(self.last[field]) <= by.last[field]
        })
    }

    /// The part of a child.
    pub(super) fn child(&self, cut: &Cut, child: usize) -> Self {
        let mut space = *self;
        if child > 0 {
            space.first[cut.field] = cut.separators[child - 1] + 1;
        }
        if let Some(last) = cut.separators.get(child) {
            space.last[cut.field] = *last;
        }
        space
    }
}

/// A cut of a space in one field.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    pub(super) field: usize,
    /// The last value of each child but the last, in order.
    pub(super) separators: Vec<u32>,
    cost: f64,
}

impl Cut {
    pub(super) fn children(&self) -> usize {
        self.separators.len() + 1
    }

    /// The first and the last child that a piece reaches into.
    pub(super) fn children_of<const F: usize>(&self, piece: &Piece<F>) -> (usize, usize) {
        let below = |value: u32| self.separators.iter().filter(|separator| **separator < value).count();
        (below(piece.first[self.field]), below(piece.last[self.field]))
    }

    /// Whether a piece that reaches into more than one child goes to the next tree.
    pub(super) fn kicks(&self, span: usize, pieces: usize, copies: usize) -> bool {
        span > 1 && span * pieces / self.children() > copies
    }
}

/// The best cut of a space for some pieces: the children shall hold few pieces, and few shall be kicked. `None` when no piece ends inside
/// of the space.
pub(super) fn best<const F: usize>(
    pieces: &[Piece<F>],
    list: &[u32],
    space: &Space<F>,
    way: Way,
) -> Option<Cut> {
    let step = list.len().div_ceil(SAMPLE);
    let sample: Vec<&Piece<F>> = list.iter().step_by(step).map(|number| &pieces[*number as usize]).collect();
    let cuts = (0..F).filter_map(|field| {
        let mut cut = Cut { field, separators: separators(&sample, space, field)?, cost: 0.0 };
        cut.cost = cost(&cut, &sample, list.len(), way);
        Some(cut)
    });
    let best = cuts.min_by(|a, b| a.cost.total_cmp(&b.cost));
    // A sample may miss what all pieces show.
    if best.is_none() && step > 1 { exact(pieces, list, space) } else { best }
}

fn exact<const F: usize>(pieces: &[Piece<F>], list: &[u32], space: &Space<F>) -> Option<Cut> {
    let all: Vec<&Piece<F>> = list.iter().map(|number| &pieces[*number as usize]).collect();
    (0..F).find_map(|field| Some(Cut { field, separators: separators(&all, space, field)?, cost: 0.0 }))
}

/// Values at which pieces begin and end inside of the space: all of them if they are few, else so that as many lie between two.
fn separators<const F: usize>(sample: &[&Piece<F>], space: &Space<F>, field: usize) -> Option<Vec<u32>> {
    let (start, end) = (space.first[field], space.last[field]);
    let mut ends: Vec<u32> = Vec::with_capacity(sample.len() * 2);
    for piece in sample {
        if piece.first[field] > start {
            ends.push(piece.first[field] - 1);
        }
        if piece.last[field] < end {
            ends.push(piece.last[field]);
        }
    }
    if ends.is_empty() {
        return None;
    }
    ends.sort_unstable();
    let mut different = ends.clone();
    different.dedup();
    if different.len() <= SEPARATORS {
        return Some(different);
    }
    let mut chosen: Vec<u32> =
        (1..=SEPARATORS).map(|part| ends[part * ends.len() / (SEPARATORS + 1)]).collect();
    chosen.dedup();
    Some(chosen)
}

fn cost<const F: usize>(cut: &Cut, sample: &[&Piece<F>], pieces: usize, way: Way) -> f64 {
    let mut counts = [0u32; SEPARATORS + 1];
    let mut kicked = 0u32;
    for piece in sample {
        let (first, last) = cut.children_of(piece);
        if cut.kicks(last - first + 1, pieces, way.copies) {
            kicked += 1;
        } else {
            counts[first..=last].iter_mut().for_each(|count| *count += 1);
        }
    }
    let square = |count: u32| f64::from(count) * f64::from(count);
    counts.into_iter().map(square).sum::<f64>() + way.kick_weight * square(kicked)
}
