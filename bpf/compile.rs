//! Compiles the objects of this folder and derives the Rust types of their maps and globals. A part of the build scripts of
//! the crates that load them, so that all objects are built alike.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compilers in the order of preference. clang 14, Debian 12's default, is too old.
const CLANGS: [&str; 5] = ["clang-19", "clang-18", "clang-17", "clang-16", "clang"];
const OLDEST_CLANG: u32 = 16;

/// What an object becomes.
pub(crate) enum Product {
    /// `$OUT_DIR/STEM.skel.rs`, which takes `$OUT_DIR/STEM.bpf.o` in.
    Skeleton,
    /// `$OUT_DIR/STEM.bpf.o` alone.
    #[allow(dead_code, reason = "only the crate with test objects makes them")]
    Object,
}

/// Compiles `bpf/NAME.bpf.c`; `name` may lead through folders, and its last part is the stem of what is made.
pub(crate) fn compile(name: &str, product: &Product) -> Result<(), Box<dyn Error>> {
    let bpf = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../bpf").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let stem = name.rsplit('/').next().unwrap_or(name);
    let mut builder = SkeletonBuilder::new();
    builder.source(bpf.join(format!("{name}.bpf.c"))).clang(clang()?).clang_args(arguments(name, &bpf));
    match product {
        Product::Skeleton => {
            let file = out.join(format!("{stem}.skel.rs"));
            // A million bytes written out as numbers would take rustc ten seconds each time that it reads them.
            builder.obj(out.join(format!("{stem}.bpf.o"))).reference_obj(true).build_and_generate(&file)?;
            set_apart(&file, name)?;
        }
        Product::Object => builder.obj(out.join(format!("{stem}.bpf.o"))).build()?,
    }
    println!("cargo:rerun-if-changed={}", bpf.display());
    Ok(())
}

/// Puts what was generated into a module `generated`, of which our lints ask nothing. Tests may have the firewall's load
/// another object (`cargo xtask mutants`): the crate's function `object` says which.
fn set_apart(file: &Path, name: &str) -> std::io::Result<()> {
    const LINTS: &str = "missing_docs, unsafe_code, unreachable_pub, unused_imports, dead_code, clippy::all, \
                         clippy::undocumented_unsafe_blocks, clippy::unwrap_used, clippy::panic";
    let mut text = fs::read_to_string(file)?;
    if name == "firewall" {
        text =
            text.replace("ConfigBuilder::new(&DATA)", "ConfigBuilder::new(crate::skeleton::object(&DATA))");
    }
    fs::write(file, format!("#[allow({LINTS})]\nmod generated {{\n{text}\n}}\n"))
}

fn clang() -> Result<&'static str, String> {
    CLANGS
        .into_iter()
        .find(|name| version(name).is_some_and(|version| version >= OLDEST_CLANG))
        .ok_or_else(|| format!("no clang {OLDEST_CLANG} or newer found: `make prepare` installs one"))
}

/// The major version of a compiler, if it is there.
fn version(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split('.').next()?.trim().parse().ok()
}

fn arguments(name: &str, bpf: &Path) -> Vec<OsString> {
    // v3: atomics that return a value, and 32-bit jumps; Linux 5.12 and newer.
    let mut arguments: Vec<OsString> =
        ["-O2", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"].map(OsString::from).to_vec();
    // Linux 6.1 refuses loops that are gone on with by falling through into their head ("back-edge"), as this pass lays them out.
    if name == "firewall" {
        arguments.extend(["-mllvm", "-disable-block-placement"].map(OsString::from));
    }
    // The second has asm/types.h in Debian's multiarch layout, which -target bpf does not search.
    let multiarch = PathBuf::from(format!("/usr/include/{}-linux-gnu", env::consts::ARCH));
    for folder in [bpf.join("include"), multiarch] {
        arguments.extend(["-I".into(), folder.into_os_string()]);
    }
    arguments
}
