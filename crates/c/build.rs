//! Names the shared library, and keeps it in memory.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhaloport.so.1");
        // Threads that have used it run code of it as they end, which dlclose must not have unmapped.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        link_unwinder();
    }
}

/// Links the library that unwinds stacks, if `HALOPORT_UNWINDER` names its file, before any other of that kind. Zig would link a
/// copy of LLVM's, which crashes if the C library unwinds a thread that ends within a call of Haloport by means of GCC's.
fn link_unwinder() {
    println!("cargo::rerun-if-env-changed=HALOPORT_UNWINDER");
    if let Ok(file) = std::env::var("HALOPORT_UNWINDER") {
        println!("cargo::rustc-cdylib-link-arg={file}");
    }
}
