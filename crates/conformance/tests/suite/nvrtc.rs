//! CUDA's run-time compiler compiles all kernels of core and of the suites.

use haloport_conformance::device::kernel_sources;
use haloport_conformance::nvrtc::compile_all;
use haloport_core::device::dialect::{COMBINE_WORDS, COPY_WORDS, FILL};

#[test]
fn cudas_compiler_takes_every_kernel() {
    let kernels = kernel_sources();
    let sources = kernels.iter().filter_map(|kernel| Some((kernel.name, kernel.portable?)));
    let lists = [("copy_words", COPY_WORDS), ("combine_words", COMBINE_WORDS), ("fill", FILL)];
    let sources: Vec<_> = sources.chain(lists).collect();
    assert!(sources.len() > 19, "there are only {} kernels", sources.len());
    compile_all(&sources).unwrap();
}
