//! Compiles the firewall `xdp-redirect`.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::{Product, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    compile("redirect", &Product::Skeleton)
}
