//! Compiles the generators of frames and of connections; for tests, the bad weather too.

#[path = "../../bpf/compile.rs"]
mod compile;

use compile::{Product, compile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for object in ["traffic/frames", "traffic/tcp"] {
        compile(object, &Product::Skeleton)?;
    }
    if std::env::var_os("CARGO_FEATURE_WEATHER").is_some() {
        for object in ["weather", "tcp_weather"] {
            compile(object, &Product::Object)?;
        }
    }
    Ok(())
}
