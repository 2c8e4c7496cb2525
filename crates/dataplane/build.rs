//! Compiles the firewall's data plane.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::{Product, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    compile("firewall", &Product::Skeleton)
}
