//! The generated skeleton of `bpf/firewall.bpf.c`: programs, maps and the Rust types of `bpf/abi/firewall.h`.

include!(concat!(env!("OUT_DIR"), "/firewall.skel.rs"));

pub(crate) use generated::{FirewallProgs, FirewallSkel, FirewallSkelBuilder, OpenFirewallSkel, types};

#[cfg(feature = "testing")]
use crate::testing::object;

/// The object that is loaded is the one that was built.
#[cfg(not(feature = "testing"))]
const fn object(built: &'static [u8]) -> &'static [u8] {
    built
}
