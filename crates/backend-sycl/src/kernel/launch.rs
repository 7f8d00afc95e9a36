//! Kernels, and kernels with their arguments.

use std::sync::Arc;

use haloport_core::device::{DeviceError, KernelArgument, KernelSource, LaunchConfig};

use super::program;
use crate::driver::{Kernel, NdRange, Program};
use crate::opened::Opened;
use crate::stream::SyclStream;

/// The largest number of threads in a group, if the author of a kernel does not choose one.
///
/// The driver is not left to choose: PoCL compiles a kernel again for each group size, and would choose another size
/// for every number of indices; with the choice of Intel's CPU runtime, planes with one index along axis 0 took four
/// times as long.
const GROUP_THREADS: usize = 64;

/// A compiled kernel.
#[derive(Debug, Clone)]
pub struct SyclKernel {
    opened: Arc<Opened>,
    program: Arc<Program>,
    source: KernelSource,
}

/// A kernel with its arguments, which are stored in the kernel object, so each launch has its own.
#[derive(Debug)]
pub struct SyclLaunch {
    /// Keeps the device open.
    _opened: Arc<Opened>,
    kernel: Kernel,
    source: KernelSource,
    /// `None` if there is nothing to compute.
    range: Option<NdRange>,
}

impl SyclKernel {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        program: Arc<Program>,
        source: &KernelSource,
    ) -> Result<SyclKernel, DeviceError> {
        let kernel = program::kernel(opened, &program, source.name)?;
        let expected = source.parameters.len();
        let found = kernel.parameters();
        if found != expected {
            let log = format!("its source has {found} parameters, its declaration {expected}");
            return Err(DeviceError::Compile { kernel: source.name.into(), device: opened.id(), log });
        }
        Ok(SyclKernel { opened: Arc::clone(opened), program, source: *source })
    }

    /// The binary of the kernel, for [`SyclDevice::load`](crate::SyclDevice::load).
    ///
    /// # Errors
    /// [`DeviceError::Driver`].
    pub fn binary(&self) -> Result<Vec<u8>, DeviceError> {
        self.program.binary()
    }

    pub(crate) fn bind(
        &self,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<SyclLaunch, DeviceError> {
        self.source.check(arguments)?;
        let kernel = program::kernel(&self.opened, &self.program, self.source.name)?;
        let mut launch = SyclLaunch {
            _opened: Arc::clone(&self.opened),
            kernel,
            source: self.source,
            range: range_of(config),
        };
        arguments.iter().enumerate().try_for_each(|(index, argument)| launch.set(index, *argument))?;
        Ok(launch)
    }
}

impl SyclLaunch {
    /// The address of the `cl_kernel` with the bound arguments, or of the `sycl::kernel`, alive as long as the launch.
    pub fn handle(&self) -> usize {
        self.kernel.handle()
    }

    pub(crate) fn rebind(&mut self, index: usize, argument: KernelArgument) -> Result<(), DeviceError> {
        self.source.check_one(index, &argument)?;
        self.set(index, argument)
    }

    /// # Safety
    /// As for [`Device::launch`](haloport_core::device::Device::launch).
    pub(crate) unsafe fn run(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        match self.range {
            // SAFETY: the caller's promise.
            Some(range) => unsafe { enqueue(&self.kernel, range, stream) },
            None => Ok(()),
        }
    }

    fn set(&mut self, index: usize, argument: KernelArgument) -> Result<(), DeviceError> {
        let kernel = &mut self.kernel;
        match argument {
            KernelArgument::Pointer(pointer) => {
                kernel.set_address(index, pointer, "setting an address as a kernel argument")
            }
            KernelArgument::I32(value) => kernel.set_value(index, &value),
            KernelArgument::I64(value) => kernel.set_value(index, &value),
            KernelArgument::F32(value) => kernel.set_value(index, &value),
            KernelArgument::F64(value) => kernel.set_value(index, &value),
        }
    }
}

/// Whole groups that hold all indices; some threads may be past the end. `None` if there are no indices.
pub(crate) fn range_of(config: LaunchConfig) -> Option<NdRange> {
    let mut global = config.global;
    if global.contains(&0) {
        return None;
    }
    let group = config.group.unwrap_or_else(|| {
        let mut left = GROUP_THREADS;
        global.map(|indices| {
            let threads = indices.next_power_of_two().min(left);
            left /= threads;
            threads
        })
    });
    for (indices, threads) in global.iter_mut().zip(group) {
        *indices = indices.next_multiple_of(threads.max(1));
    }
    Some(NdRange { global, group })
}

/// Puts a kernel into a stream.
///
/// # Safety
/// As for [`Device::launch`](haloport_core::device::Device::launch).
pub(crate) unsafe fn enqueue(
    kernel: &Kernel,
    range: NdRange,
    stream: &SyclStream,
) -> Result<(), DeviceError> {
    // SAFETY: all arguments are set, and the caller promised that the kernel may run.
    stream.put(|queue| unsafe { queue.launch(kernel, range) })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn groups_are_of_few_sizes_and_hold_all_indices() {
        let mut sizes = HashSet::new();
        for x in [1, 2, 3, 5, 64, 65, 1000] {
            for y in 1..300 {
                for z in [1, 7] {
                    let indices = [x, y, z];
                    let NdRange { global, group } =
                        range_of(LaunchConfig { global: indices, group: None }).unwrap();
                    assert!(group.iter().product::<usize>() <= GROUP_THREADS, "{indices:?}: {group:?}");
                    for axis in 0..3 {
                        assert_eq!(global[axis], indices[axis].next_multiple_of(group[axis]), "{indices:?}");
                    }
                    sizes.insert(group);
                }
            }
        }
        // There are 84 triples of powers of two whose product is at most 64.
        assert!(sizes.len() <= 84, "kernels would be compiled {} times", sizes.len());
        assert!(range_of(LaunchConfig::plane(4, 0)).is_none());
        let asked = range_of(LaunchConfig { global: [100, 3, 1], group: Some([32, 2, 1]) }).unwrap();
        assert_eq!((asked.global, asked.group), ([128, 4, 1], [32, 2, 1]));
    }
}
