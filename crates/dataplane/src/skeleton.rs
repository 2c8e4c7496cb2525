//! The generated skeleton of `bpf/firewall.bpf.c`: programs, maps and the Rust types of `bpf/abi/firewall.h`.

#[allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    unused_imports,
    dead_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    clippy::panic
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/firewall.skel.rs"));
}

pub(crate) use generated::{FirewallSkel, FirewallSkelBuilder, types};
