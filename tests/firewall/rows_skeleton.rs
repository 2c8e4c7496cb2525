//! The generated skeleton of `bpf/forward_rows.bpf.c`.

include!(concat!(env!("OUT_DIR"), "/forward_rows.skel.rs"));

pub(crate) use generated::{ForwardRowsSkel, ForwardRowsSkelBuilder};
