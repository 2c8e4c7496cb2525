//! Compiled lists that are long enough for two cores.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use policy::address::AddressSet;
use policy::lists::{Contents, compiled};
use policy::ranges::RangeSet;

#[test]
fn a_long_compiled_list_comes_back_and_damage_in_it_is_found() {
    let ranges = (0..700_000u32).map(|place| (place * 8, place * 8 + 1 + place % 5));
    let list: Contents = AddressSet { v4: RangeSet::of(ranges), v6: RangeSet::default() }.into();
    let mut bytes = compiled::encode(&list);
    assert!(bytes.len() > 5 << 20, "{}", bytes.len());
    assert!(compiled::decode(&bytes).as_ref() == Ok(&list));
    for place in [bytes.len() / 2, bytes.len() - 1] {
        bytes[place] ^= 1;
        assert_eq!(compiled::decode(&bytes).unwrap_err(), compiled::Damaged::Checksum, "byte {place}");
        bytes[place] ^= 1;
    }
}
