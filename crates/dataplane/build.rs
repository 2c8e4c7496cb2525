//! Compiles the firewall's data plane, and names what came of it.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::{Product, compile};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    compile("firewall", &Product::Skeleton)?;
    let object = PathBuf::from(std::env::var("OUT_DIR")?).join("firewall.bpf.o");
    println!("cargo:rustc-env=FIREWALL_BUILD={:016x}", fnv1a(&std::fs::read(object)?));
    Ok(())
}

/// Distinguishes builds (FNV-1a, 64 bits): a firewall takes the maps of an earlier one over as they are only if both are of
/// the same object.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
