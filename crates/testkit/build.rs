//! Compiles the BPF objects that only tests load.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::{Product, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    compile("test/forward_rows", &Product::Skeleton)?;
    for object in
        ["test/weather", "test/tcp_weather", "test/lying_tcp", "test/lies", "test/hidden_work", "test/pass"]
    {
        compile(object, &Product::Object)?;
    }
    Ok(())
}
