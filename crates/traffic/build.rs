//! Compiles `bpf/traffic.bpf.c` and `bpf/tcp.bpf.c` and derives the Rust types of their maps and globals; for tests,
//! `bpf/weather.bpf.c` too.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bpf = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../bpf").canonicalize()?;
    for object in ["traffic", "tcp"] {
        let out = PathBuf::from(env::var("OUT_DIR")?).join(format!("{object}.skel.rs"));
        SkeletonBuilder::new()
            .source(bpf.join(format!("{object}.bpf.c")))
            .clang(clang()?)
            .clang_args(clang_args(&bpf))
            .build_and_generate(&out)?;
    }
    if env::var_os("CARGO_FEATURE_WEATHER").is_some() {
        SkeletonBuilder::new()
            .source(bpf.join("weather.bpf.c"))
            .obj(PathBuf::from(env::var("OUT_DIR")?).join("weather.bpf.o"))
            .clang(clang()?)
            .clang_args(clang_args(&bpf))
            .build()?;
    }
    for folder in ["traffic.bpf.c", "tcp.bpf.c", "weather.bpf.c", "traffic", "net", "abi", "include"] {
        println!("cargo:rerun-if-changed={}", bpf.join(folder).display());
    }
    Ok(())
}

/// The newest clang that compiles our objects: clang 14, Debian 12's default, is too old.
fn clang() -> Result<&'static str, String> {
    ["clang-19", "clang-18", "clang-17", "clang-16", "clang"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
        .ok_or_else(|| "no clang found: install clang-16 or newer (`make prepare` does)".to_owned())
}

fn clang_args(bpf: &Path) -> Vec<OsString> {
    let triple = format!("{}-linux-gnu", env::consts::ARCH);
    vec![
        "-O2".into(),
        // Atomics that return a value, and 32-bit jumps; Linux 5.12 and newer.
        "-mcpu=v3".into(),
        "-Wall".into(),
        "-Wextra".into(),
        "-Werror".into(),
        "-I".into(),
        bpf.join("include").into(),
        // asm/types.h of Debian's multiarch layout, which -target bpf does not search.
        "-I".into(),
        format!("/usr/include/{triple}").into(),
    ]
}
