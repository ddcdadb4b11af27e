//! What makes a release smaller, where the linker and the loader of this machine can do it.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Functions that came out the same are kept once; addresses that only move with the program take a bit each and not 24 bytes.
const SMALLER: [&str; 2] = ["-Wl,--icf=all", "-Wl,-z,pack-relative-relocs"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = env::var("PROFILE")? == "release";
    // What another machine will run cannot be tried out on this one.
    if !is_release || env::var("HOST")? != env::var("TARGET")? {
        return Ok(());
    }
    let (rustc, out) =
        (env::var_os("RUSTC").ok_or("no RUSTC")?, PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?));
    for argument in SMALLER {
        if runs_linked_with(&rustc, &out, argument)? {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
    Ok(())
}

/// Whether a program linked like this starts.
fn runs_linked_with(rustc: &OsStr, out: &Path, argument: &str) -> Result<bool, Box<dyn Error>> {
    let (source, program) = (out.join("probe.rs"), out.join("probe"));
    fs::write(&source, "fn main() {}")?;
    let mut compile = Command::new(rustc);
    compile.arg(&source).arg("-o").arg(&program).arg(format!("-Clink-arg={argument}"));
    let is_linked = compile.output()?.status.success();
    Ok(is_linked && Command::new(&program).output().is_ok_and(|ran| ran.status.success()))
}
