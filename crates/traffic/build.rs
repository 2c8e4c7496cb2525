//! Compiles the generators of frames and of connections.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::{Product, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for object in ["traffic/frames", "traffic/tcp"] {
        compile(object, &Product::Skeleton)?;
    }
    Ok(())
}
