//! Test frames that the kernel frees on their way, by its own reason and place, for the loss ledger.
//!
//! The sink frees every frame that reaches it as a socket buffer, and tracing each of those would cost kernel firewalls
//! a few per cent and XDP ones nothing. So counting is off unless a trial asks for it.

use super::engine::Engine;
use crate::TrafficError;
use libbpf_rs::btf::types::{Enum, Enum64};
use libbpf_rs::btf::{Btf, TypeId};
use libbpf_rs::{Link, MapCore, MapFlags};
use std::collections::BTreeMap;

/// Counts drops while it lives.
#[derive(Debug)]
pub struct DropCount {
    _tracepoint: Link,
}

impl Engine {
    /// Begins counting freed test frames from zero: those of the trial that runs, by their stamps.
    ///
    /// # Errors
    /// This kernel has no raw tracepoint `kfree_skb`.
    pub fn count_drops(&mut self) -> Result<DropCount, TrafficError> {
        let skel = &self.skel;
        for key in skel.maps.drops.keys() {
            skel.maps.drops.delete(&key).map_err(TrafficError::bpf("clearing the drop counters"))?;
        }
        let link = skel
            .progs
            .count_drop
            .attach_raw_tracepoint("kfree_skb")
            .map_err(TrafficError::bpf("attaching to the tracepoint kfree_skb"))?;
        Ok(DropCount { _tracepoint: link })
    }

    /// Test frames freed since `count` began, by `REASON at function`. What the sink frees itself is left out.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn drops(&self, _count: &DropCount) -> Result<BTreeMap<String, u64>, TrafficError> {
        let reasons = drop_reasons();
        let symbols = Symbols::read();
        let mut named = BTreeMap::new();
        let map = &self.skel.maps.drops;
        for key in map.keys() {
            let value =
                map.lookup(&key, MapFlags::ANY).map_err(TrafficError::bpf("reading the drop counters"))?;
            let (location, reason, frames) = (word(&key, 0), word(&key, 1), value.map_or(0, |v| word(&v, 0)));
            let place = symbols.name(location);
            if place.starts_with("veth_xdp_rcv") {
                continue;
            }
            let reason = reasons.get(&(reason as i64)).cloned().unwrap_or_else(|| format!("reason {reason}"));
            *named.entry(format!("{reason} at {place}")).or_default() += frames;
        }
        Ok(named)
    }
}

fn word(bytes: &[u8], number: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[number * 8..number * 8 + 8]);
    u64::from_ne_bytes(word)
}

/// The running kernel's `enum skb_drop_reason`, from its BTF; empty where there is none.
fn drop_reasons() -> BTreeMap<i64, String> {
    let Ok(btf) = Btf::from_vmlinux() else { return BTreeMap::new() };
    let strip =
        |name: &str| name.trim_start_matches("SKB_DROP_REASON_").trim_start_matches("SKB_").to_owned();
    let named = |name: Option<&std::ffi::OsStr>| name.and_then(|n| n.to_str()).map(strip).unwrap_or_default();
    for number in 1..btf.len() as u32 {
        let id = TypeId::from(number);
        if let Some(found) = btf.type_by_id::<Enum<'_>>(id)
            && found.name().is_some_and(|n| n == "skb_drop_reason")
        {
            return found.iter().map(|m| (m.value, named(m.name))).collect();
        }
        if let Some(found) = btf.type_by_id::<Enum64<'_>>(id)
            && found.name().is_some_and(|n| n == "skb_drop_reason")
        {
            return found.iter().map(|m| (m.value as i64, named(m.name))).collect();
        }
    }
    BTreeMap::new()
}

/// The kernel's functions by address.
struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        Self(text.lines().filter_map(Self::line).collect())
    }

    fn line(line: &str) -> Option<(u64, String)> {
        let mut fields = line.split_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok().filter(|a| *a != 0)?;
        let kind = fields.next()?;
        kind.eq_ignore_ascii_case("t").then(|| Some((address, fields.next()?.to_owned())))?
    }

    fn name(&self, address: u64) -> String {
        self.0.range(..=address).next_back().map_or_else(|| format!("{address:#x}"), |(_, name)| name.clone())
    }
}
