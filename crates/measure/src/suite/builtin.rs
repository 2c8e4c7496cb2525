//! The suites that ship: the files of `suites/`, carried in the program so that a name is enough.

const SUITES: &[(&str, &str)] = &[
    ("demo", include_str!("../../../../suites/demo.toml")),
    ("rfc2544", include_str!("../../../../suites/rfc2544.toml")),
    ("eantc-ip", include_str!("../../../../suites/eantc-ip.toml")),
    ("tolly-udp", include_str!("../../../../suites/tolly-udp.toml")),
    ("tolly-http", include_str!("../../../../suites/tolly-http.toml")),
    ("eantc-tcp", include_str!("../../../../suites/eantc-tcp.toml")),
    ("poliwall", include_str!("../../../../suites/poliwall.toml")),
    ("rfc3511", include_str!("../../../../suites/rfc3511.toml")),
    ("under-load", include_str!("../../../../suites/under-load.toml")),
    ("core", include_str!("../../../../suites/core.toml")),
    ("kernel-forwarding", include_str!("../../../../suites/kernel-forwarding.toml")),
    ("layer-2", include_str!("../../../../suites/layer-2.toml")),
    ("classbench", include_str!("../../../../suites/classbench.toml")),
    ("checkpoint", include_str!("../../../../suites/checkpoint.toml")),
    ("nstl", include_str!("../../../../suites/nstl.toml")),
    ("nstl-http", include_str!("../../../../suites/nstl-http.toml")),
    ("nstl-runs", include_str!("../../../../suites/nstl-runs.toml")),
    ("nstl-gateway-runs", include_str!("../../../../suites/nstl-gateway-runs.toml")),
    ("rfc9411", include_str!("../../../../suites/rfc9411.toml")),
];

/// The text of a suite that ships.
pub fn builtin(name: &str) -> Option<&'static str> {
    SUITES.iter().find(|(known, _)| *known == name).map(|&(_, text)| text)
}

/// The names of the suites that ship, in the order in which `list` shows them.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|&(name, _)| name)
}
