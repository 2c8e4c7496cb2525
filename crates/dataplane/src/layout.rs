//! How a build lays out the records of flows, as its programs' type information (BTF) says, and records of one layout as those of
//! another. Fields and states go by their names. Pure but for reading the type information.

use libbpf_rs::btf::types::{Enum, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, HasSize as _};
use std::collections::HashMap;

/// Fields without which a record is no flow.
const NEEDED: [&str; 9] =
    ["address", "address_rest", "port", "protocol", "family", "zone", "state", "initiator", "seen"];
/// And of a flow of TCP, besides.
const NEEDED_OF_TCP: [&str; 6] = ["flags", "scales", "end", "reach", "acked", "window"];

/// Where the fields of a record are, and what its states and times mean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) bytes: usize,
    /// Name, offset and size.
    pub(crate) fields: Vec<(String, usize, usize)>,
    /// Name and number.
    pub(crate) states: Vec<(String, u8)>,
    /// `TICK_SHIFT`.
    pub(crate) tick_shift: Option<u8>,
}

impl Layout {
    /// The layout of the programs of which this is one. `None` if they know no flows.
    pub(crate) fn of_program(id: u32) -> Option<Self> {
        let btf = Btf::from_prog_id(id).ok()?;
        let named = |ty: BtfType<'_>, name: &str| ty.name().is_some_and(|found| found == name);
        let flow = btf.type_by_kind::<Struct<'_>>().find(|it| named(**it, "flow"))?;
        let mut fields = Vec::new();
        for member in flow.iter() {
            let MemberAttr::Normal { offset } = member.attr else { return None };
            let name = member.name?.to_str()?.to_owned();
            fields.push((name, offset as usize / 8, size_of_type(btf.type_by_id(member.ty)?)?));
        }
        let values = |name: &str| -> Vec<(String, u8)> {
            let found = btf.type_by_kind::<Enum<'_>>().find(|it| named(**it, name));
            let members = found.iter().flat_map(|found| found.iter());
            members
                .filter_map(|it| Some((it.name?.to_str()?.to_owned(), u8::try_from(it.value).ok()?)))
                .collect()
        };
        let tick_shift =
            values("sizes").iter().find(|(name, _)| name == "TICK_SHIFT").map(|(_, shift)| *shift);
        Some(Self { bytes: flow.size(), fields, states: values("flow_state"), tick_shift })
    }

    fn field(&self, name: &str) -> Option<(usize, usize)> {
        self.fields.iter().find(|(found, _, _)| found == name).map(|(_, offset, size)| (*offset, *size))
    }

    fn byte(&self, record: &[u8], name: &str) -> Option<u8> {
        record.get(self.field(name)?.0).copied()
    }
}

/// Bytes of a member: a number, an enumeration, an array of such, whatever they are called.
fn size_of_type(ty: BtfType<'_>) -> Option<usize> {
    use libbpf_rs::btf::types::{Array, Int};
    let ty = ty.skip_mods_and_typedefs();
    if let Ok(int) = Int::try_from(ty) {
        return Some(int.size());
    }
    if let Ok(array) = Array::try_from(ty) {
        return Some(array.capacity() * size_of_type(array.contained_type())?);
    }
    Enum::try_from(ty).ok().map(|it| it.size())
}

/// From the records of one layout to those of another.
pub(crate) struct Translation {
    bytes: usize,
    /// From, to, size.
    moves: Vec<(usize, usize, usize)>,
    states: HashMap<u8, u8>,
    state: (usize, usize),
    is_whole_for_tcp: bool,
    protocol: usize,
}

const TCP: u8 = 6;

impl Translation {
    /// `None` if the layouts have too little in common.
    pub(crate) fn between(from: &Layout, to: &Layout) -> Option<Self> {
        if from.tick_shift.is_none() || from.tick_shift != to.tick_shift {
            return None;
        }
        let same = |name: &str| Some((from.field(name)?, to.field(name)?)).filter(|(a, b)| a.1 == b.1);
        if !NEEDED.iter().all(|name| same(name).is_some()) {
            return None;
        }
        let moves = to.fields.iter().filter_map(|(name, offset, size)| {
            let ((at, _), _) = same(name)?;
            Some((at, *offset, *size))
        });
        let states = from.states.iter().filter_map(|(name, number)| {
            let (_, now) = to.states.iter().find(|(found, _)| found == name)?;
            Some((*number, *now))
        });
        Some(Self {
            bytes: to.bytes,
            moves: moves.collect(),
            states: states.collect(),
            state: (from.field("state")?.0, to.field("state")?.0),
            is_whole_for_tcp: NEEDED_OF_TCP.iter().all(|name| same(name).is_some()),
            protocol: from.field("protocol")?.0,
        })
    }

    /// A record in the other layout; `None` for one that is free, or that the other layout cannot hold.
    pub(crate) fn apply(&self, record: &[u8]) -> Option<Vec<u8>> {
        let state = *self.states.get(record.get(self.state.0)?)?;
        if state == 0 || (*record.get(self.protocol)? == TCP && !self.is_whole_for_tcp) {
            return None;
        }
        let mut out = vec![0; self.bytes];
        for (from, to, size) in &self.moves {
            out.get_mut(*to..to + size)?.copy_from_slice(record.get(*from..from + size)?);
        }
        out[self.state.1] = state;
        Some(out)
    }
}

/// Whether a record of this layout holds a flow.
pub(crate) fn is_in_use(layout: &Layout, record: &[u8]) -> bool {
    layout.byte(record, "state").is_some_and(|state| state != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(fields: &[(&str, usize)], states: &[(&str, u8)]) -> Layout {
        let mut at = 0;
        let fields = fields.iter().map(|(name, size)| {
            at += size;
            ((*name).to_owned(), at - size, *size)
        });
        let fields: Vec<_> = fields.collect();
        let states = states.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
        Layout { bytes: at, fields, states, tick_shift: Some(20) }
    }

    const FIELDS: [(&str, usize); 15] = [
        ("address", 8),
        ("port", 4),
        ("protocol", 1),
        ("family", 1),
        ("zone", 2),
        ("seen", 4),
        ("state", 1),
        ("flags", 1),
        ("initiator", 1),
        ("scales", 1),
        ("end", 8),
        ("reach", 8),
        ("acked", 8),
        ("window", 8),
        ("address_rest", 24),
    ];
    const STATES: [(&str, u8); 3] = [("FLOW_FREE", 0), ("FLOW_ONE_WAY", 1), ("FLOW_ESTABLISHED", 6)];

    #[test]
    fn fields_and_states_go_by_their_names() {
        let old = layout(&FIELDS, &STATES);
        let mut moved = FIELDS;
        moved.reverse();
        let mut more: Vec<(&str, usize)> = vec![("new", 16)];
        more.extend(moved);
        let new = layout(&more, &[("FLOW_FREE", 0), ("FLOW_ESTABLISHED", 9), ("FLOW_ONE_WAY", 2)]);
        let mut record: Vec<u8> = (0..old.bytes as u8).map(|byte| byte | 128).collect();
        let at = |layout: &Layout, name: &str| layout.field(name).unwrap().0;
        record[at(&old, "state")] = 6;
        record[at(&old, "protocol")] = TCP;
        let out = Translation::between(&old, &new).unwrap().apply(&record).unwrap();
        for (name, size) in FIELDS {
            let (from, to) = (at(&old, name), at(&new, name));
            if name == "state" {
                assert_eq!(out[to], 9, "by the state's name");
            } else {
                assert_eq!(out[to..to + size], record[from..from + size], "{name}");
            }
        }
        assert_eq!(out[..16], [0; 16], "what the old layout did not have");
        for (state, is_carried) in [(0, false), (1, true), (6, true), (7, false)] {
            record[at(&old, "state")] = state;
            let carried = Translation::between(&old, &new).unwrap().apply(&record);
            assert_eq!(carried.is_some(), is_carried, "state {state}");
        }
    }

    #[test]
    fn layouts_with_too_little_in_common_carry_nothing() {
        let old = layout(&FIELDS, &STATES);
        for (left_out, what) in
            [("zone", "no zones"), ("address_rest", "half an address"), ("seen", "no time")]
        {
            let fields: Vec<_> = FIELDS.into_iter().filter(|(name, _)| *name != left_out).collect();
            assert!(Translation::between(&old, &layout(&fields, &STATES)).is_none(), "{what}");
            assert!(Translation::between(&layout(&fields, &STATES), &old).is_none(), "{what}");
        }
        let wide = FIELDS.map(|(name, size)| (name, if name == "window" { 16 } else { size }));
        let partial = Translation::between(&old, &layout(&wide, &STATES)).unwrap();
        let mut record = vec![1; old.bytes];
        record[old.field("protocol").unwrap().0] = TCP;
        assert!(partial.apply(&record).is_none(), "TCP without its windows would be dropped");
        record[old.field("protocol").unwrap().0] = 17;
        assert!(partial.apply(&record).is_some(), "UDP has none");
        let slow = Layout { tick_shift: Some(21), ..layout(&FIELDS, &STATES) };
        assert!(Translation::between(&old, &slow).is_none(), "other clocks");
        assert!(partial.apply(&[]).is_none(), "no record at all");
    }
}
