//! Hit counters follow a rule's name from one generation of tables to the next.

use rustc_hash::FxHashMap;

/// Which counter belongs to which rule, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    slots: FxHashMap<String, u32>,
    /// Slots in use and free together: a map of counters needs this many.
    size: u32,
}

impl Counters {
    /// Counters for the rules of a new generation. A name that was there keeps its slot; a new name gets the least free
    /// one. Second: the slots that must be set to zero before the new generation counts, in order.
    ///
    /// Slots of names that are gone are free at once, so set them to zero only when the old generation no longer counts.
    pub fn follow<'a>(&self, names: impl IntoIterator<Item = &'a str> + Clone) -> (Self, Vec<u32>) {
        let mut taken: Vec<bool> = vec![false; self.size as usize];
        for name in names.clone() {
            if let Some(slot) = self.slots.get(name) {
                taken[*slot as usize] = true;
            }
        }
        let size = self.size.max(names.clone().into_iter().count() as u32);
        let mut free = (0..size).filter(|slot| !taken.get(*slot as usize).copied().unwrap_or(false));
        let mut fresh = Vec::new();
        let mut slots = FxHashMap::default();
        let mut count = 0;
        for name in names {
            let kept = self.slots.get(name).copied();
            // As many slots as names, so a name that has none finds one free.
            let slot = kept.or_else(|| free.next().inspect(|slot| fresh.push(*slot)));
            if let Some(slot) = slot {
                count = count.max(slot + 1);
                slots.insert(name.to_owned(), slot);
            }
        }
        (Self { slots, size: self.size.max(count) }, fresh)
    }

    /// The slots of rules as they were given out before, with the size that goes with them.
    pub fn of(slots: impl IntoIterator<Item = (String, u32)>, size: u32) -> Self {
        let slots: FxHashMap<String, u32> = slots.into_iter().collect();
        let used = slots.values().map(|slot| slot.saturating_add(1)).max().unwrap_or(0);
        Self { slots, size: size.max(used) }
    }

    /// The slot of a rule.
    pub fn slot(&self, name: &str) -> Option<u32> {
        self.slots.get(name).copied()
    }

    /// Each name with its slot, in no order.
    pub fn names(&self) -> impl Iterator<Item = (&str, u32)> {
        self.slots.iter().map(|(name, slot)| (name.as_str(), *slot))
    }

    /// Slots that a map of counters must have.
    pub fn size(&self) -> u32 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_slot_and_a_new_one_starts_at_zero() {
        let (first, fresh) = Counters::default().follow(["a", "b", "c"]);
        assert_eq!((first.slot("a"), first.slot("c"), fresh), (Some(0), Some(2), vec![0, 1, 2]));
        let (second, fresh) = first.follow(["c", "new", "a", "newer"]);
        assert_eq!((second.slot("c"), second.slot("a")), (Some(2), Some(0)));
        assert_eq!((second.slot("new"), second.slot("newer"), fresh), (Some(1), Some(3), vec![1, 3]));
        assert_eq!(second.slot("b"), None);
        let (third, fresh) = second.follow(["b"]);
        assert_eq!(
            (third.slot("b"), fresh, third.size()),
            (Some(0), vec![0], 4),
            "a name that comes back starts anew"
        );
    }
}
