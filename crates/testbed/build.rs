//! Compiles `bpf/redirect.bpf.c` and derives the Rust types of its maps and globals.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bpf = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../bpf").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("redirect.skel.rs");
    SkeletonBuilder::new()
        .source(bpf.join("redirect.bpf.c"))
        .clang(clang()?)
        .clang_args(clang_args(&bpf))
        .build_and_generate(&out)?;
    for path in ["redirect.bpf.c", "net", "include"] {
        println!("cargo:rerun-if-changed={}", bpf.join(path).display());
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
    let folders = [bpf.join("include"), PathBuf::from(format!("/usr/include/{triple}"))];
    let mut args: Vec<OsString> =
        ["-O2", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"].map(OsString::from).to_vec();
    for folder in folders {
        args.extend(["-I".into(), folder.into_os_string()]);
    }
    args
}
