//! The machine that figures belong to, read from `/proc` and `/sys`.

use crate::dut::Driver;
use crate::{placement, program};
use measure::results::Environment;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Kernel settings that change what is measured.
const SETTINGS: [&str; 6] = [
    "net/core/bpf_jit_enable",
    "net/core/bpf_jit_harden",
    "net/core/netdev_budget",
    "net/core/netdev_max_backlog",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_buckets",
];

/// Describes the machine before a run. The caller adds its own version, and after the run `load_after` and `stolen`
/// ([`load_average`], [`crate::cpu::CpuSnapshot::stolen_since`]).
pub fn describe(drivers: &[&dyn Driver]) -> Environment {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let virtualization = virtualization(&cpuinfo);
    let mut versions: BTreeMap<String, String> =
        drivers.iter().flat_map(|driver| driver.versions()).collect();
    versions.extend(program::version_line("ip", "-V").map(|line| ("ip".to_owned(), line)));
    let load_before = load_average();
    Environment {
        cpu: cpu_model(&cpuinfo),
        cores: placement::cores_online().len() as u32,
        memory_bytes: memory_bytes(),
        kernel: kernel(),
        clock: read("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default(),
        remarks: remarks(&virtualization, load_before),
        virtualization,
        mitigations: mitigations(Path::new("/sys/devices/system/cpu/vulnerabilities")),
        versions,
        settings: settings(),
        load_before,
        load_after: 0.0,
        stolen: 0.0,
    }
}

/// The one-minute load average; 0 where it cannot be read.
pub fn load_average() -> f64 {
    let text = read("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

pub(crate) fn kernel_release() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Bytes of memory, as `MemTotal` has it.
pub(crate) fn memory_bytes() -> u64 {
    let text = read("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kib * 1024
}

fn kernel() -> String {
    let version = read("/proc/sys/kernel/version").unwrap_or_default();
    format!("{} {version}", kernel_release())
}

fn cpu_model(cpuinfo: &str) -> String {
    // x86 and most others; ARM servers only have an implementer and a part number.
    for key in ["model name", "Model", "cpu model", "CPU part"] {
        if let Some(value) = cpuinfo_value(cpuinfo, key) {
            return value.to_owned();
        }
    }
    "unknown".to_owned()
}

fn cpuinfo_value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The hypervisor's name where the firmware tells it, `virtual machine` where only the processor does, or `none`.
fn virtualization(cpuinfo: &str) -> String {
    let vendor = read("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let product = read("/sys/class/dmi/id/product_name").unwrap_or_default();
    let hypervisor =
        cpuinfo_value(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor"));
    name_virtualization(hypervisor, &vendor, &product)
}

fn name_virtualization(hypervisor: bool, vendor: &str, product: &str) -> String {
    match (hypervisor, format!("{vendor} {product}").trim()) {
        (false, _) => "none".to_owned(),
        (true, "") => "virtual machine".to_owned(),
        (true, name) => name.to_owned(),
    }
}

fn mitigations(folder: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let state = fs::read_to_string(entry.path()).ok()?.trim().to_owned();
            Some((entry.file_name().into_string().ok()?, state))
        })
        .collect()
}

fn settings() -> BTreeMap<String, String> {
    let setting = |name: &str| Some((name.replace('/', "."), read(&format!("/proc/sys/{name}"))?));
    let mut all: BTreeMap<String, String> = SETTINGS.into_iter().filter_map(setting).collect();
    all.extend(read("/proc/cmdline").map(|line| ("kernel command line".to_owned(), line)));
    all
}

fn remarks(virtualization: &str, load: f64) -> Vec<String> {
    let mut remarks = Vec::new();
    if virtualization != "none" {
        remarks.push("A virtual machine: its host may give it more or less time at any moment.".to_owned());
    }
    if load >= 0.5 {
        remarks.push(format!("Other work was running before the start: the load average was {load:.2}."));
    }
    remarks
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let environment = describe(crate::dut::DRIVERS);
        assert!(environment.cores >= 1 && environment.memory_bytes > 1 << 20, "{environment:?}");
        assert!(environment.kernel.starts_with(char::is_numeric), "{}", environment.kernel);
        assert!(!environment.cpu.is_empty());
    }

    #[test]
    fn hypervisors_are_named_as_well_as_can_be() {
        let rows = [
            (false, "Dell Inc.", "PowerEdge", "none"),
            (true, "QEMU", "Standard PC", "QEMU Standard PC"),
            (true, "", "", "virtual machine"),
        ];
        for (hypervisor, vendor, product, expected) in rows {
            assert_eq!(name_virtualization(hypervisor, vendor, product), expected);
        }
    }

    #[test]
    fn the_processor_is_found_on_other_architectures_too() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Fast 9000\n"), "Fast 9000");
        assert_eq!(cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), "0xd0c");
        assert_eq!(cpu_model(""), "unknown");
    }
}
