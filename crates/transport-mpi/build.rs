//! Refuses an `MPICC` that cannot be run: else the bindings would be made for any other MPI that is found.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MPICC");
    // With these, the bindings do not use it.
    let chosen_otherwise = ["MPI_PKG_CONFIG", "CRAY_MPICH_DIR"];
    chosen_otherwise.iter().for_each(|name| println!("cargo::rerun-if-env-changed={name}"));
    if cfg!(windows) || chosen_otherwise.iter().any(|name| env::var_os(name).is_some()) {
        return;
    }
    let Some(mpicc) = env::var_os("MPICC") else { return };
    if let Err(error) = Command::new(&mpicc).arg("-show").output() {
        println!(
            "cargo::error=MPICC={mpicc:?} cannot be run: {error}: set it to the compiler wrapper of the MPI to build for, \
             such as mpicc.openmpi or mpicc.mpich, or unset it for `mpicc`"
        );
    }
}
