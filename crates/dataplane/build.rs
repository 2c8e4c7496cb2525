//! Compiles the firewall's data plane; for tests, forwarding and answering by themselves too.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::{Product, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    compile("firewall", &Product::Skeleton)?;
    if std::env::var_os("CARGO_FEATURE_ROWS").is_some() {
        compile("forward_rows", &Product::Skeleton)?;
    }
    Ok(())
}
