//! Names the shared library, and keeps it in memory.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhaloport.so.1");
        // Threads that have used it run code of it as they end, which dlclose must not have unmapped.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
