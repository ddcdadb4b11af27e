//! What makes a release smaller, where the linker and the loader of this machine can do it; and which commit it is of.

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
    tell_commit(is_release);
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

/// Tells the program the commit it is built of and that commit's date: what the builder says, else what git says. Git is asked for
/// releases only: otherwise each commit would have everything built anew.
fn tell_commit(is_release: bool) {
    for (name, format) in [("CROFT_COMMIT", "%H"), ("CROFT_COMMIT_DATE", "%cd")] {
        println!("cargo::rerun-if-env-changed={name}");
        let given = env::var(name).ok().filter(|text| !text.is_empty());
        let told = given.or_else(|| if is_release { of_git(format) } else { None });
        println!("cargo::rustc-env={name}={}", told.unwrap_or_default());
    }
    if is_release {
        heads().for_each(|head| println!("cargo::rerun-if-changed={head}"));
    }
}

/// Something about the commit that is checked out, unless this folder is not that repository's own.
fn of_git(format: &str) -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    git(&["show", "--no-patch", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", &format!("--format={format}"), "HEAD"])
}

/// The files that change with what is checked out. One that is missing would count as changed every time.
fn heads() -> impl Iterator<Item = String> {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD".to_owned(), "packed-refs".to_owned()].into_iter().chain(branch);
    names.filter_map(|name| git(&["rev-parse", "--git-path", &name])).filter(|path| Path::new(path).exists())
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).env("TZ", "UTC").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
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
