//! Kernels, and kernels with their arguments.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cl3::kernel::{CL_KERNEL_NUM_ARGS, get_kernel_data};
use cl3::types::cl_uint;
use haloport_core::device::{DeviceError, KernelArgument, KernelSource, LaunchConfig};

use crate::driver::{checked, number};
use crate::handles::{KernelHandle, Program};
use crate::open::Opened;
use crate::program;
use crate::queue::SyclStream;

/// The most threads of a group, where the author of a kernel says nothing.
///
/// The choice is not left to the driver. PoCL compiles a kernel again for each size of its groups, and would choose another
/// one for every number of indices; by the choice of Intel's CPU runtime, planes with one index along axis 0 took four times
/// as long.
const GROUP_THREADS: usize = 64;

/// A compiled kernel.
#[derive(Debug, Clone)]
pub struct SyclKernel {
    opened: Arc<Opened>,
    program: Arc<Program>,
    source: KernelSource,
}

/// A kernel with its arguments. Arguments belong to the kernel's OpenCL object, so each launch has its own.
#[derive(Debug)]
pub struct SyclLaunch {
    opened: Arc<Opened>,
    kernel: KernelHandle,
    source: KernelSource,
    /// `None` where there is nothing to compute.
    grid: Option<Grid>,
}

/// The threads of a launch, in whole groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) global: [usize; 3],
    pub(crate) group: [usize; 3],
}

impl SyclKernel {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        program: Arc<Program>,
        source: &KernelSource,
    ) -> Result<SyclKernel, DeviceError> {
        let kernel = program::kernel(opened, &program, source.name)?;
        let (expected, found) =
            (source.parameters.len(), number(get_kernel_data(kernel.raw(), CL_KERNEL_NUM_ARGS)));
        if found != expected as u64 {
            let log = format!("its source has {found} parameters, its declaration {expected}");
            return Err(DeviceError::Compile { kernel: source.name.into(), device: opened.id(), log });
        }
        Ok(SyclKernel { opened: Arc::clone(opened), program, source: *source })
    }

    /// The kernel as its driver keeps it, for [`SyclDevice::load`](crate::SyclDevice::load).
    ///
    /// # Errors
    /// What the driver says.
    pub fn binary(&self) -> Result<Vec<u8>, DeviceError> {
        program::binary(&self.opened, &self.program)
    }

    pub(crate) fn bind(
        &self,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<SyclLaunch, DeviceError> {
        self.source.check(arguments)?;
        let kernel = program::kernel(&self.opened, &self.program, self.source.name)?;
        let mut launch = SyclLaunch {
            opened: Arc::clone(&self.opened),
            kernel,
            source: self.source,
            grid: Grid::of(config),
        };
        arguments.iter().enumerate().try_for_each(|(index, argument)| launch.set(index, *argument))?;
        Ok(launch)
    }
}

impl SyclLaunch {
    /// The native handle: a `cl_kernel` with the arguments that are bound, alive as long as this is.
    pub fn handle(&self) -> usize {
        self.kernel.raw().addr()
    }

    pub(crate) fn rebind(&mut self, index: usize, argument: KernelArgument) -> Result<(), DeviceError> {
        self.source.check_one(index, &argument)?;
        self.set(index, argument)
    }

    /// # Safety
    /// As for [`Device::launch`](haloport_core::device::Device::launch).
    pub(crate) unsafe fn run(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        match self.grid {
            // SAFETY: the caller's promise.
            Some(grid) => unsafe { enqueue(&self.opened, &self.kernel, grid, stream) },
            None => Ok(()),
        }
    }

    fn set(&mut self, index: usize, argument: KernelArgument) -> Result<(), DeviceError> {
        match argument {
            KernelArgument::Pointer(pointer) => {
                // SAFETY: `self` is borrowed exclusively, and nobody else has the kernel.
                let status = unsafe {
                    self.opened.unified.set_argument(
                        self.opened.library,
                        self.kernel.raw(),
                        index as cl_uint,
                        pointer,
                    )
                };
                checked(status, "setting an address as a kernel argument", self.opened.id())
            }
            KernelArgument::I32(value) => set_value(&self.opened, &mut self.kernel, index, &value),
            KernelArgument::I64(value) => set_value(&self.opened, &mut self.kernel, index, &value),
            KernelArgument::F32(value) => set_value(&self.opened, &mut self.kernel, index, &value),
            KernelArgument::F64(value) => set_value(&self.opened, &mut self.kernel, index, &value),
        }
    }
}

impl Grid {
    /// Whole groups that hold all indices, so that some threads may be past the end; `None` where there are none.
    pub(crate) fn of(config: LaunchConfig) -> Option<Grid> {
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
        Some(Grid { global, group })
    }
}

/// Sets a plain value as an argument.
pub(crate) fn set_value<T: Copy>(
    opened: &Opened,
    kernel: &mut KernelHandle,
    index: usize,
    value: &T,
) -> Result<(), DeviceError> {
    let value = ptr::from_ref(value).cast::<c_void>();
    // The kernel is borrowed exclusively, and the value is as long as it says.
    let status = opened.library.clSetKernelArg(kernel.raw(), index as cl_uint, size_of::<T>(), value);
    checked(status, "clSetKernelArg", opened.id())
}

/// Puts a kernel into a stream.
///
/// # Safety
/// As for [`Device::launch`](haloport_core::device::Device::launch).
pub(crate) unsafe fn enqueue(
    opened: &Opened,
    kernel: &KernelHandle,
    grid: Grid,
    stream: &SyclStream,
) -> Result<(), DeviceError> {
    stream.put("clEnqueueNDRangeKernel", |queue| {
        // Queue and kernel are live, its arguments are set, and the sizes have three numbers each. What the kernel does is
        // the caller's promise.
        opened.library.clEnqueueNDRangeKernel(
            queue,
            kernel.raw(),
            3,
            ptr::null(),
            grid.global.as_ptr(),
            grid.group.as_ptr(),
            0,
            ptr::null(),
            ptr::null_mut(),
        )
    })
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
                    let Grid { global, group } =
                        Grid::of(LaunchConfig { global: indices, group: None }).unwrap();
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
        assert!(Grid::of(LaunchConfig::plane(4, 0)).is_none());
        let asked = Grid::of(LaunchConfig { global: [100, 3, 1], group: Some([32, 2, 1]) }).unwrap();
        assert_eq!((asked.global, asked.group), ([128, 4, 1], [32, 2, 1]));
    }
}
