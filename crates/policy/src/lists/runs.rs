//! Runs of addresses that the same lists have.

use crate::ranges::Point;

/// Shows every run of addresses that the same lists have, in order: first, last, and the lists. What is on no list is left out.
pub(super) fn runs<T: Point>(lists: &[&[(T, T)]], mut each: impl FnMut(T, T, u32)) {
    let mut rests: Vec<Rest<'_, T>> =
        lists.iter().enumerate().filter_map(|(list, ranges)| Rest::of(1 << list, ranges)).collect();
    while let Some(first) = rests.iter().map(|rest| rest.first).min() {
        let (mut mask, mut last) = (0, T::MAX);
        for rest in &rests {
            if rest.first == first {
                mask |= rest.mask;
                last = last.min(rest.last);
            } else {
                // It is above another, so there is one before it.
                last = last.min(rest.first.previous().unwrap_or(T::MIN));
            }
        }
        each(first, last, mask);
        let mut is_over = false;
        for rest in rests.iter_mut().filter(|rest| rest.mask & mask != 0) {
            is_over |= !rest.go_behind(last);
        }
        if is_over {
            rests.retain(|rest| rest.first > last);
        }
    }
}

/// What of a list is still to be shown: the addresses from `first` to `last`, and the ranges behind them.
struct Rest<'a, T> {
    mask: u32,
    first: T,
    last: T,
    behind: std::slice::Iter<'a, (T, T)>,
}

impl<'a, T: Point> Rest<'a, T> {
    fn of(mask: u32, ranges: &'a [(T, T)]) -> Option<Self> {
        let mut behind = ranges.iter();
        let &(first, last) = behind.next()?;
        Some(Self { mask, first, last, behind })
    }

    /// Leaves out what is not above an address of the first range. Whether anything is left.
    fn go_behind(&mut self, shown: T) -> bool {
        if let Some(first) = shown.next().filter(|_| shown < self.last) {
            self.first = first;
        } else if let Some(&(first, last)) = self.behind.next() {
            (self.first, self.last) = (first, last);
        } else {
            return false;
        }
        true
    }
}
