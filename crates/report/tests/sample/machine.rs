//! The machine of the sample runs, and how it was found to be.

use measure::results::{Calibration, Environment, Tick, TickStatus};
use std::collections::BTreeMap;

pub(super) fn environment() -> Environment {
    let map = |rows: &[(&str, &str)]| -> BTreeMap<String, String> {
        rows.iter().map(|&(k, v)| (k.into(), v.into())).collect()
    };
    Environment {
        cpu: "Sample CPU (made up, nothing was measured)".into(),
        cores: 2,
        memory_bytes: 8 << 30,
        kernel: "6.18.5 #1 SMP PREEMPT_DYNAMIC".into(),
        clock: "tsc".into(),
        virtualization: "kvm".into(),
        mitigations: map(&[
            (
                "spectre_v2",
                "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; PBRSB-eIBRS: SW sequence",
            ),
            ("meltdown", "Not affected"),
            ("retbleed", "Not affected"),
        ]),
        versions: map(&[
            ("rampart-bench", "0.1.0"),
            ("nft", "1.0.6"),
            ("iptables", "1.8.9 (nf_tables)"),
            ("clang", "16.0.6"),
        ]),
        settings: map(&[("net.netfilter.nf_conntrack_max", "4194304"), ("net.core.bpf_jit_enable", "1")]),
        load_before: 1.42,
        load_after: 2.61,
        stolen: 0.012,
        remarks: vec!["Other work ran beside the bench: expect about 10 % of noise.".into()],
    }
}

pub(super) fn calibration() -> Vec<Calibration> {
    let row = |name: &str, value: f64, unit: &str, target: Option<f64>, met: Option<bool>| Calibration {
        name: name.into(),
        value,
        unit: unit.into(),
        target,
        met,
    };
    vec![
        row("bare live-frame loop, 64 bytes, 1 core", 15.0e6, "frames/s", None, None),
        row("generator and sink, 64 bytes, 1 M flows, 1 core", 11.4e6, "frames/s", Some(10.5e6), Some(true)),
        row("gaps within 5 µs of the schedule at 100 k frames/s", 0.982, "ratio", Some(0.99), Some(false)),
    ]
}

pub(super) fn tick_sheet() -> Vec<Tick> {
    let row = |section: &str, asks: &str, status: TickStatus, detail: &str| Tick {
        section: section.into(),
        asks: asks.into(),
        status,
        detail: detail.into(),
    };
    vec![
        row(
            "RFC 2544 section 26.1",
            "Throughput",
            TickStatus::Met,
            "zero loss, MLRsearch with the rfc2544 preset",
        ),
        row(
            "RFC 2544 section 24",
            "Trials of at least 60 s",
            TickStatus::Deviated,
            "1 s in the quick profile",
        ),
        row("RFC 2544 section 26.5", "System recovery", TickStatus::NotRun, "not part of this suite"),
    ]
}
