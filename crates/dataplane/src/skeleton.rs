//! The generated skeleton of `bpf/firewall.bpf.c`: programs, maps and the Rust types of `bpf/abi/firewall.h`.

include!(concat!(env!("OUT_DIR"), "/firewall.skel.rs"));

#[cfg(feature = "testing")]
pub(crate) use generated::FirewallProgs;
pub(crate) use generated::{FirewallSkel, FirewallSkelBuilder, types};
