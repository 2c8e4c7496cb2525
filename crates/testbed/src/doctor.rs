//! What this machine can and cannot do for the bench, and how to fix it. Looks, and tries small things in namespaces of its
//! own; changes nothing. Renders nothing: the command line prints [`Check`]s.

use crate::dut::{DRIVERS, Requirement, xdp_redirect};
use crate::error::TestbedError;
use crate::priority::Standing;
use crate::{environment, netns, placement, program, quota, tables};
use std::fs;
use std::path::Path;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Good,
    /// The bench runs, but less can be measured, or figures are less certain.
    Limited,
    /// The bench cannot run.
    Fatal,
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it means for measurements; empty when good.
    pub effect: String,
    /// What to do about it; empty when good.
    pub remedy: String,
}

/// Looks at everything, the most fundamental first. Takes a few tenths of a second.
pub fn examine() -> Vec<Check> {
    let mut checks = vec![root(), kernel(), bpf_jit(), btf(), namespaces(), native_xdp()];
    checks.extend(programs());
    checks.extend([
        tracing(),
        cores(),
        quota(quota::allowed_cores()),
        memory(),
        memory_for_lists(),
        locked_memory(),
        connections(),
    ]);
    checks.extend([strict_connections(), nft_sets(), ipset_sets(), token_bucket()]);
    checks.extend([isolated(), governor(), session(&Standing::now(), is_root()), load(), stolen()]);
    checks.extend(
        DRIVERS
            .iter()
            .flat_map(|driver| driver.requirements().iter().filter_map(|r| kernel_feature(driver.name(), r))),
    );
    checks
}

fn good(what: &'static str, found: impl Into<String>) -> Check {
    Check {
        what,
        found: found.into(),
        severity: Severity::Good,
        effect: String::new(),
        remedy: String::new(),
    }
}

impl Check {
    fn limited(mut self, effect: &str, remedy: &str) -> Self {
        self.severity = Severity::Limited;
        (self.effect, self.remedy) = (effect.to_owned(), remedy.to_owned());
        self
    }

    fn fatal(mut self, effect: &str, remedy: &str) -> Self {
        self = self.limited(effect, remedy);
        self.severity = Severity::Fatal;
        self
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn root() -> Check {
    if is_root() {
        return good("root", "yes");
    }
    good("root", "no").fatal("namespaces and BPF programs cannot be made", "run with sudo")
}

/// Live frames came with Linux 5.18 (commit b530e9e1063e).
fn kernel() -> Check {
    let release = environment::kernel_release();
    let check = good("kernel", release.clone());
    if kernel_at_least(&release, 5, 18) {
        return check;
    }
    check.fatal("the generator needs BPF live frames (Linux 5.18)", "boot a newer kernel")
}

pub(crate) fn kernel_at_least(release: &str, major: u32, minor: u32) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (major, minor)
}

fn bpf_jit() -> Check {
    match read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Some("1" | "2") => good("BPF JIT", "on"),
        Some(_) => good("BPF JIT", "off").limited(
            "generator, sink and xdp-redirect are interpreted and several times slower",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        None => good("BPF JIT", "unknown: the kernel shows no setting").limited(
            "generator and sink may be interpreted and several times slower",
            "use a kernel with CONFIG_BPF_JIT",
        ),
    }
}

fn btf() -> Check {
    if Path::new("/sys/kernel/btf/vmlinux").exists() {
        return good("BTF", "yes");
    }
    good("BTF", "no").limited("lost frames have no reasons", "use a kernel with CONFIG_DEBUG_INFO_BTF")
}

/// Makes a namespace with a veth pair that runs NAPI, as a bed does.
fn namespaces() -> Check {
    if !is_root() {
        return good("namespaces and veth", "not tried without root")
            .limited("nothing can be said about them", "run doctor with sudo");
    }
    match netns::in_a_new_one(|| {
        program::run("ip", &["link", "add", "doctor0", "type", "veth", "peer", "name", "doctor1"])?;
        program::run("ethtool", &["-K", "doctor0", "gro", "on"]).map(drop)
    }) {
        Ok(()) => good("namespaces and veth", "yes"),
        Err(error) => good("namespaces and veth", error.to_string()).fatal(
            "no test bed can be built",
            "install iproute2 and ethtool; use a kernel with network namespaces and veth, outside a container",
        ),
    }
}

/// Loads the smallest program of the bench and puts it on a veth end.
fn native_xdp() -> Check {
    let what = "XDP on veth";
    if !is_root() {
        return good(what, "not tried without root")
            .limited("nothing can be said about it", "run doctor with sudo");
    }
    let tried = netns::in_a_new_one(|| {
        program::run("ip", &["link", "add", "doctor0", "type", "veth", "peer", "name", "doctor1"])?;
        let ifindex = nix::net::if_::if_nametoindex("doctor0")
            .map_err(|source| TestbedError::System { action: "find a new interface".to_owned(), source })?;
        xdp_redirect::features_with_a_program(ifindex).map(drop)
    });
    match tried {
        Ok(()) => good(what, "yes"),
        Err(error) => good(what, error.to_string()).fatal(
            "neither generator nor sink can run",
            "use a kernel with BPF and XDP, and allow bpf() (no lockdown, no container)",
        ),
    }
}

fn token_bucket() -> Check {
    let what = "rate-limited links (TBF)";
    if !is_root() {
        return good(what, "not tried without root")
            .limited("nothing can be said about them", "run doctor with sudo");
    }
    let tried = netns::in_a_new_one(|| {
        program::run("ip", &["link", "add", "doctor0", "type", "veth", "peer", "name", "doctor1"])?;
        program::run("tc", &["qdisc", "add", "dev", "doctor0", "ingress"])?;
        let mut filter: Vec<&str> =
            "filter add dev doctor0 parent ffff: protocol all u32".split(' ').collect();
        filter.extend("match u32 0 0 action mirred egress redirect dev doctor1".split(' '));
        program::run("tc", &filter)?;
        let bucket = "qdisc add dev doctor1 root tbf rate 10mbit burst 4kb latency 50ms overhead 24 mpu 84";
        program::run("tc", &bucket.split(' ').collect::<Vec<_>>()).map(drop)
    });
    match tried {
        Ok(()) => good(what, "yes"),
        Err(error) => good(what, error.to_string()).limited(
            "links of 10 and 100 Mbit/s cannot be built",
            "use a kernel with NET_SCH_TBF, NET_SCH_INGRESS, NET_CLS_U32 and NET_ACT_MIRRED",
        ),
    }
}

/// A set of each kind that policies use, and a rule that looks at state.
fn nft_sets() -> Check {
    const TABLE: &str = "add table inet doctor\n\
                         add set inet doctor listed { type ipv4_addr; size 16; }\n\
                         add set inet doctor countries { type ipv4_addr; flags interval; }\n\
                         add chain inet doctor forward { type filter hook forward priority filter; }\n\
                         add rule inet doctor forward ip saddr @listed drop\n\
                         add rule inet doctor forward ip saddr != @countries drop\n\
                         add rule inet doctor forward ct state invalid drop\n";
    let tried = || program::run_with_input("nft", &["-f", "-"], TABLE).map(drop);
    attempt(
        "nftables: state and sets",
        tried,
        "policies cannot be loaded into nftables",
        "install nftables; use a kernel with NF_TABLES_INET, NFT_CT and NF_CONNTRACK",
    )
}

fn ipset_sets() -> Check {
    const SETS: &str = "create doctor_list hash:ip\ncreate doctor_table hash:net\n\
                        destroy doctor_list\ndestroy doctor_table\n";
    attempt(
        "ipset: hash:ip and hash:net",
        || program::run_with_input("ipset", &["restore"], SETS).map(drop),
        "lists and country tables cannot be loaded into ipset",
        "install ipset; use a kernel with IP_SET_HASH_IP, IP_SET_HASH_NET and NETFILTER_XT_SET",
    )
}

/// Tries something in a namespace without which less can be measured.
fn attempt(
    what: &'static str,
    work: impl FnOnce() -> Result<(), TestbedError> + Send,
    effect: &str,
    remedy: &str,
) -> Check {
    if !is_root() {
        return good(what, "not tried without root")
            .limited("nothing can be said about it", "run doctor with sudo");
    }
    match netns::in_a_new_one(work) {
        Ok(()) => good(what, "yes"),
        Err(error) => good(what, error.to_string()).limited(effect, remedy),
    }
}

fn programs() -> Vec<Check> {
    let rows: [(&'static str, &str, bool); 9] = [
        ("ip", "no test bed can be built", true),
        ("ethtool", "no test bed can be built, and losses on links cannot be read", true),
        ("tc", "links of 10 and 100 Mbit/s cannot be built", false),
        ("nft", "nftables cannot be tested", false),
        ("iptables-restore", "iptables cannot be tested", false),
        ("ipset", "ipset cannot be tested", false),
        ("ovs-vswitchd", "ovs cannot be tested", false),
        ("conntrack", "firewalls with state cannot be reset (RFC 2544 section 26.6)", false),
        ("iperf3", "bulk transfers cannot be measured (suite checkpoint)", false),
    ];
    let check = |(name, effect, needed): (&'static str, &str, bool)| {
        let remedy = program::package_of(name).map_or_else(String::new, |it| format!("apt-get install {it}"));
        match (program::find(name), needed) {
            (Some(path), _) => good(name, path.display().to_string()),
            (None, true) => good(name, "not installed").fatal(effect, &remedy),
            (None, false) => good(name, "not installed").limited(effect, &remedy),
        }
    };
    rows.map(check).into()
}

/// Losses that no counter explains are named by a program on the kernel's tracepoint, from its own symbols.
fn tracing() -> Check {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let named = symbols
        .lines()
        .any(|line| !line.starts_with("0000000000000000 ") && line.ends_with("kfree_skb_reason"))
        || symbols
            .lines()
            .any(|line| !line.starts_with("0000000000000000 ") && line.contains(" sk_skb_reason_drop"));
    if named {
        return good("reasons of lost frames", "given by the kernel");
    }
    good("reasons of lost frames", "the kernel's symbols cannot be read").limited(
        "frames lost in the stack are counted, but not by reason and place",
        "run as root with kernel.kptr_restrict below 2, on Linux 5.17 or newer",
    )
}

fn cores() -> Check {
    let count = placement::cores_online().len();
    let check = good("cores", count.to_string());
    if count >= 2 {
        return check;
    }
    check.limited("firewalls cannot be measured on more than one core", "use a machine with more cores")
}

/// What control groups allow of the cores' time: a container or a service may have less than the machine.
fn quota(allowed_cores: Option<f64>) -> Check {
    let what = "quota of processor time";
    let Some(allowed) = allowed_cores else { return good(what, "none") };
    let check = good(what, format!("the time of {allowed:.2} cores"));
    let least = quota::cores_for(1);
    if allowed < least {
        return check.fatal(
            &format!("no run begins: one generating core and the bench take the time of {least:.0}"),
            quota::WITHOUT,
        );
    }
    check.limited(
        "runs need the time of one core more than they use (--cores), and trials that the quota stops are marked",
        quota::WITHOUT,
    )
}

/// What the generator and the connection table take at 4 million flows, with room for the firewalls.
fn memory() -> Check {
    const ENOUGH: u64 = 4 << 30;
    let bytes = environment::memory_bytes();
    let check = good("memory", format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)));
    if bytes >= ENOUGH {
        return check;
    }
    check.limited("tests with millions of flows or list entries may fail", "use a machine with 4 GiB or more")
}

/// What 30 million listed addresses take in nftables, the larger of the two (docs/design/kernel-facts.md), with room for
/// `nft` itself and for the list that takes another's place.
fn memory_for_lists() -> Check {
    const ENOUGH: u64 = 6 << 30;
    let what = "memory for 30 million listed addresses";
    let Some(bytes) = available_bytes() else {
        return good(what, "unknown: /proc/meminfo has no MemAvailable");
    };
    let check = good(what, format!("{:.1} GiB available", bytes as f64 / f64::from(1 << 30)));
    if bytes >= ENOUGH {
        return check;
    }
    check.limited(
        "the longest lists may not fit, least of all where one replaces another",
        "use a machine with 6 GiB or more to spare, or test with shorter lists",
    )
}

fn available_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let row = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(row.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Since Linux 5.11 BPF memory is charged to the control group, and the limit does not matter.
fn locked_memory() -> Check {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or("unknown")
        .to_owned();
    good("locked memory", format!("{limit} (not needed since Linux 5.11)"))
}

fn connections() -> Check {
    match tables::conntrack_max() {
        Some(max) => good("connection table", format!("{max} entries; raised for tests that need more")),
        None => good("connection table", "not there")
            .limited("firewalls with state cannot be tested", "modprobe nf_conntrack"),
    }
}

/// What policies for TCP need of connection tracking: that it can be made not to take up connections in the middle.
fn strict_connections() -> Check {
    let what = "strict TCP connections";
    if Path::new("/proc/sys/net/netfilter/nf_conntrack_tcp_loose").exists() {
        return good(what, "possible");
    }
    good(what, "nf_conntrack_tcp_loose is not there")
        .limited("stateful policies for TCP cannot be tested", "modprobe nf_conntrack")
}

fn isolated() -> Check {
    let what = "isolated placement";
    if placement::cores_online().len() < 2 {
        return good(what, "no: one core").limited(
            "overload and loss cannot be measured with the firewall on cores of its own",
            "use a machine with at least two cores",
        );
    }
    if !kernel_at_least(&environment::kernel_release(), 5, 12) {
        return good(what, "no: the kernel has no threaded NAPI")
            .limited("the firewall cannot have cores of its own", "boot Linux 5.12 or newer");
    }
    good(what, "possible")
}

fn governor() -> Check {
    let what = "frequency governor";
    match read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => good(what, "none (a virtual machine, or fixed)"),
        Some(name) if name == "performance" => good(what, name),
        Some(name) => good(what, name).limited(
            "the processor's speed changes while measuring",
            "cpupower frequency-set -g performance",
        ),
    }
}

/// What divides the processor between the bench and other people's work.
fn session(standing: &Standing, root: bool) -> Check {
    let what = "priority of the session";
    match standing {
        Standing::Alone => good(what, "nice values of threads: sessions are not grouped"),
        Standing::Autogroup { nice, .. } if root => {
            good(what, format!("autogroup, nice {nice}; raised to -20 during runs"))
        }
        Standing::Autogroup { nice, .. } => good(what, format!("autogroup, nice {nice}")).limited(
            "it cannot be raised: on a busy machine the generator is late",
            "run as root, or sysctl kernel.sched_autogroup_enabled=0",
        ),
        Standing::ControlGroup(path) => good(what, format!("the weight of control group {path}")).limited(
            "what runs in other control groups delays the generator, whatever its priority",
            "run from the root control group, or stop what else is running",
        ),
    }
}

fn load() -> Check {
    let load = environment::load_average();
    let check = good("load", format!("{load:.2}"));
    if load < 0.5 {
        return check;
    }
    check.limited("other work takes time from the bench: figures vary more", "stop what else is running")
}

fn stolen() -> Check {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<f64> = stat
        .lines()
        .next()
        .map(|line| line.split_whitespace().skip(1).take(8).filter_map(|w| w.parse().ok()).collect())
        .unwrap_or_default();
    let all: f64 = ticks.iter().sum();
    let share = ticks.get(7).map_or(0.0, |stolen| stolen / all.max(1.0));
    let check = good("stolen time", format!("{:.2} % since boot", share * 100.0));
    if share < 0.01 {
        return check;
    }
    check.limited("the hypervisor takes time: figures vary more", "use a machine of your own")
}

fn kernel_feature(dut: &'static str, requirement: &Requirement) -> Option<Check> {
    match requirement {
        Requirement::KernelFile { feature, .. } | Requirement::NftAccepts { feature, .. }
            if !requirement.is_met() =>
        {
            Some(
                good("kernel feature", format!("{feature} is missing"))
                    .limited(&format!("{dut} cannot be tested"), "use a kernel with it, or load its module"),
            )
        }
        _ => None,
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_compared_as_numbers() {
        let rows = [
            ("6.18.44-fc", true),
            ("5.18.0", true),
            ("5.4.0-150-generic", false),
            ("5.17.9", false),
            ("10.1", true),
            ("", false),
        ];
        for (release, expected) in rows {
            assert_eq!(kernel_at_least(release, 5, 18), expected, "{release}");
        }
    }

    #[test]
    fn what_beds_need_is_found_where_beds_can_be_built() {
        if !is_root() {
            return;
        }
        for check in
            [namespaces(), native_xdp(), token_bucket(), nft_sets(), ipset_sets(), strict_connections()]
        {
            assert_eq!(check.severity, Severity::Good, "{check:?}");
        }
    }

    #[test]
    fn a_quota_is_fatal_where_no_run_would_begin() {
        for (allowed, severity) in [
            (None, Severity::Good),
            (Some(16.0), Severity::Limited),
            (Some(2.0), Severity::Limited),
            (Some(1.99), Severity::Fatal),
        ] {
            let check = quota(allowed);
            assert_eq!(
                (check.severity, check.remedy.is_empty()),
                (severity, allowed.is_none()),
                "{allowed:?}"
            );
        }
    }

    #[test]
    fn the_session_is_named_by_what_divides_the_processor() {
        let group = Standing::Autogroup { number: 3, nice: 0 };
        let rows = [
            (Standing::Alone, true, Severity::Good, "not grouped"),
            (group.clone(), true, Severity::Good, "raised to -20"),
            (group, false, Severity::Limited, "autogroup, nice 0"),
            (Standing::ControlGroup("/user.slice".to_owned()), true, Severity::Limited, "/user.slice"),
        ];
        for (standing, root, severity, found) in rows {
            let check = session(&standing, root);
            assert!(check.severity == severity && check.found.contains(found), "{check:?}");
        }
    }

    #[test]
    fn whatever_is_not_good_says_what_it_means_and_what_to_do() {
        let checks = examine();
        assert!(checks.iter().any(|check| check.what == "kernel" && !check.found.is_empty()));
        for check in checks {
            let silent = check.effect.is_empty() && check.remedy.is_empty();
            assert_eq!(check.severity == Severity::Good, silent, "{check:?}");
        }
    }
}
