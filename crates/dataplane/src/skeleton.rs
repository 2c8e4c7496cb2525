//! The generated skeleton of `bpf/firewall.bpf.c`: programs, maps and the Rust types of `bpf/abi/firewall.h`.

include!(concat!(env!("OUT_DIR"), "/firewall.skel.rs"));

pub(crate) use generated::{FirewallProgs, FirewallSkel, FirewallSkelBuilder, OpenFirewallSkel, types};
