//! Writes the JSON Schema of `results.json` to `docs/schema/rampart-bench-2.json`: `cargo run -p report --example schema`.
#![allow(clippy::unwrap_used, reason = "an example that stops where it cannot go on")]

fn main() {
    let dir = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema"));
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("rampart-bench-2.json"), report::json::schema().unwrap()).unwrap();
}
