//! Compiles Haloport's library for libsycl (`shim`), if `HALOPORT_SYCL_INCLUDE` names a folder with `sycl/sycl.hpp` of DPC++, whose
//! libraries are in `../lib`. The SYCL backend looks for it where this build has put it, after all other places.
//! `scripts/sycl-shim` makes the library for other machines.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

const VARIABLE: &str = "HALOPORT_SYCL_INCLUDE";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=shim");
    match env::var_os(VARIABLE).filter(|headers| !headers.is_empty()) {
        Some(headers) => compile(Path::new(&headers)),
        None => Ok(()),
    }
}

fn compile(headers: &Path) -> Result<(), Box<dyn Error>> {
    let major = major_version(headers)?;
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo has not named OUT_DIR")?);
    let mut command = cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .pic(true)
        .debug(false)
        .try_get_compiler()?
        .to_command();
    command.args(["-shared", "-isystem"]).arg(headers);
    for source in ["haloport_sycl.cpp", "single_threaded.cpp"] {
        command.arg(Path::new("shim").join(source));
    }
    let library = headers.join(format!("../lib/libsycl.so.{major}"));
    if !library.exists() {
        return Err(format!("expected {}, found no such file", library.display()).into());
    }
    command.arg(library).arg("-Wl,--allow-shlib-undefined");
    command.arg("-o").arg(folder.join(format!("libhaloport_sycl_{major}.so")));
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{command:?} has failed: {status}").into());
    }
    println!("cargo::rustc-env=HALOPORT_SYCL_BUILT={}", folder.display());
    Ok(())
}

/// The major version of libsycl that the headers belong to.
fn major_version(headers: &Path) -> Result<u32, Box<dyn Error>> {
    let file = headers.join("sycl/version.hpp");
    let text = fs::read_to_string(&file).map_err(|error| {
        format!("{VARIABLE} names no folder with headers of DPC++: {}: {error}", file.display())
    })?;
    let defined = text.lines().find_map(|line| line.strip_prefix("#define __LIBSYCL_MAJOR_VERSION"));
    let major = defined.and_then(|number| number.trim().parse().ok());
    Ok(major.ok_or_else(|| format!("expected __LIBSYCL_MAJOR_VERSION in {}, found none", file.display()))?)
}
