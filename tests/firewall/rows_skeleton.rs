//! The generated skeleton of `bpf/forward_rows.bpf.c`.

#[allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    unused_imports,
    dead_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/forward_rows.skel.rs"));
}

pub(crate) use generated::{ForwardRowsSkel, ForwardRowsSkelBuilder};
