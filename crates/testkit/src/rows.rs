//! The skeleton of `bpf/test/forward_rows.bpf.c`: forwarding and answering by themselves.

include!(concat!(env!("OUT_DIR"), "/forward_rows.skel.rs"));

pub use generated::{ForwardRowsSkel, ForwardRowsSkelBuilder};
