//! Compiles the firewall `xdp-redirect`, and what keeps frames from the kernel's stack where a firewall has them from sockets.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::{Product, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    compile("redirect", &Product::Skeleton)?;
    compile("sockets_alone", &Product::Skeleton)
}
