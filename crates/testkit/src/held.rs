//! What a process and the kernel hold of BPF, by name and number: to see that nothing is left over.
//!
//! The kernel does not say which process an object belongs to once that process is gone. But all programs and maps that were loaded
//! from one object file share its type information (BTF), so a family of such numbers, which grows with each process that is looked at,
//! finds what any of them left, and nothing of anybody else's.

use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// How many of each name.
pub type Counts = BTreeMap<String, usize>;

/// Numbers of the type information that some processes loaded.
#[derive(Debug, Clone, Default)]
pub struct Family(BTreeSet<u32>);

impl Family {
    /// Adds what a process has loaded.
    pub fn add(&mut self, pid: u32) {
        let held = program_ids(pid);
        let programs = ProgInfoIter::default().filter(|program| held.contains(&program.id));
        self.0.extend(programs.map(|program| program.btf_id).filter(|btf| *btf != 0));
    }

    /// The programs in the kernel.
    pub fn programs(&self) -> Counts {
        let of_family = ProgInfoIter::default().filter(|program| self.0.contains(&program.btf_id));
        counted(of_family.map(|program| program.name.to_string_lossy().into_owned()))
    }

    /// The maps in the kernel, but for kinds that have no type information: device maps, rings, maps of maps.
    pub fn maps(&self) -> Counts {
        let of_family = MapInfoIter::default().filter(|map| self.0.contains(&map.btf_id));
        counted(of_family.map(|map| map.name.to_string_lossy().into_owned()))
    }
}

/// Maps of this name in the kernel, whoever made them.
pub fn maps_called(name: &str) -> usize {
    MapInfoIter::default().filter(|map| map.name == name).count()
}

/// The descriptors of a process by what they lead to, numbers left out.
pub fn descriptors(pid: u32) -> Counts {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    // One that was closed meanwhile leads nowhere.
    let targets = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    counted(targets.map(|target| {
        let target = target.to_string_lossy().into_owned();
        target.split(":[").next().unwrap().to_owned()
    }))
}

/// Memory of a process that it has written to, in KiB. The kernel counts it page by page when it is asked; what it says of all resident
/// memory depends on what of the program's file was read, and is off by a hundred KiB for each core.
pub fn written_kib(pid: u32) -> u64 {
    field(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap(), "Anonymous:").unwrap()
}

fn program_ids(pid: u32) -> BTreeSet<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.filter_map(|text| field(&text, "prog_id:")).map(|id| id as u32).collect()
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn counted(names: impl Iterator<Item = String>) -> Counts {
    names.fold(Counts::new(), |mut counts, name| {
        *counts.entry(name).or_default() += 1;
        counts
    })
}
