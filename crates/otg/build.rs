//! Compiles the API's protobuf model into the descriptors that `grpc::model` reads, without protoc.

use std::path::Path;

const MODEL: &str = "src/grpc/model.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={MODEL}");
    let mut compiler = protox::Compiler::new(["src/grpc"])?;
    compiler.include_source_info(false).open_file("model.proto")?;
    let out = Path::new(&std::env::var("OUT_DIR")?).join("model.bin");
    std::fs::write(out, compiler.encode_file_descriptor_set())?;
    Ok(())
}
