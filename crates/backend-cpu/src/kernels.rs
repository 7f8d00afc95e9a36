//! Kernels as Rust functions.

use haloport_core::device::{IndexRange, KernelArgument, KernelSource, LaunchConfig};

/// Below this many indices a kernel stays on the calling thread.
///
/// Measured by `cargo bench -p haloport-cpu` (see `docs/measurements/2026-11-21-cpu-backend.md`): waking and joining
/// the pool costs about 15 µs. Two threads are faster from 65536 indices on for a kernel of 2 ns per index, and from a
/// million on for one of 0.2 ns; for one of 30 ns, such as a stage of the tsunami, that makes a few thousand.
pub const KERNEL_INLINE_INDICES: usize = 1 << 15;

/// A kernel, which on the CPU is its Rust function.
#[derive(Debug, Clone, Copy)]
pub struct CpuKernel {
    pub(crate) source: KernelSource,
}

/// A kernel with its arguments and the ranges of indices that its threads compute.
#[derive(Debug)]
pub struct CpuLaunch {
    pub(crate) source: KernelSource,
    pub(crate) arguments: Vec<KernelArgument>,
    pub(crate) ranges: Vec<IndexRange>,
}

impl CpuLaunch {
    pub(crate) fn new(
        source: KernelSource,
        config: LaunchConfig,
        arguments: &[KernelArgument],
        threads: usize,
    ) -> CpuLaunch {
        let pieces = if threads == 1 || config.indices() < KERNEL_INLINE_INDICES { 1 } else { 4 * threads };
        CpuLaunch { source, arguments: arguments.to_vec(), ranges: split(config.global, pieces) }
    }

    /// Runs the kernel over one of the launch's ranges.
    ///
    /// # Safety
    /// As for the host kernel: the pointers among the arguments are valid for all that it reads and writes.
    pub(crate) unsafe fn run(&self, range: &IndexRange) {
        // SAFETY: the types were checked when the arguments were bound; the rest is the caller's promise.
        unsafe { (self.source.host)(range, &self.arguments) }
    }
}

/// Cuts the index space along its slowest axis that has more than one index.
fn split(global: [usize; 3], pieces: usize) -> Vec<IndexRange> {
    if global.contains(&0) {
        return Vec::new();
    }
    let axis = (0..3).rev().find(|&axis| global[axis] > 1).unwrap_or(0);
    let extent = global[axis];
    let pieces = pieces.min(extent);
    (0..pieces)
        .map(|piece| {
            let mut range = IndexRange { begin: [0; 3], end: global };
            range.begin[axis] = extent * piece / pieces;
            range.end[axis] = extent * (piece + 1) / pieces;
            range
        })
        .collect()
}
