//! Kernels, and kernels with their arguments.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cl3::kernel::{CL_KERNEL_NUM_ARGS, get_kernel_info};
use cl3::types::cl_uint;
use haloport_core::device::{DeviceError, KernelArgument, KernelSource, LaunchConfig, Pointer};

use super::program;
use crate::opencl::handles::{KernelHandle, Program};
use crate::opencl::library::checked;
use crate::opencl::opened::Opened;
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

/// A kernel with its arguments. OpenCL stores arguments in the kernel object, so each launch has its own.
#[derive(Debug)]
pub struct SyclLaunch {
    opened: Arc<Opened>,
    kernel: KernelHandle,
    source: KernelSource,
    /// `None` if there is nothing to compute.
    range: Option<NdRange>,
}

/// The numbers of threads of a launch and of each of its groups, along three axes. Groups are whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NdRange {
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
        let expected = source.parameters.len();
        let found = get_kernel_info(kernel.raw(), CL_KERNEL_NUM_ARGS).map_or(0, cl_uint::from) as usize;
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
            range: NdRange::of(config),
        };
        arguments.iter().enumerate().try_for_each(|(index, argument)| launch.set(index, *argument))?;
        Ok(launch)
    }
}

impl SyclLaunch {
    /// The native handle: a `cl_kernel` with the bound arguments, alive as long as the launch.
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
        match self.range {
            // SAFETY: the caller's promise.
            Some(range) => unsafe { enqueue(&self.opened, &self.kernel, range, stream) },
            None => Ok(()),
        }
    }

    fn set(&mut self, index: usize, argument: KernelArgument) -> Result<(), DeviceError> {
        match argument {
            KernelArgument::Pointer(pointer) => set_address(
                &self.opened,
                &mut self.kernel,
                index,
                pointer,
                "setting an address as a kernel argument",
            ),
            KernelArgument::I32(value) => set_value(&self.opened, &mut self.kernel, index, &value),
            KernelArgument::I64(value) => set_value(&self.opened, &mut self.kernel, index, &value),
            KernelArgument::F32(value) => set_value(&self.opened, &mut self.kernel, index, &value),
            KernelArgument::F64(value) => set_value(&self.opened, &mut self.kernel, index, &value),
        }
    }
}

impl NdRange {
    /// Whole groups that hold all indices; some threads may be past the end. `None` if there are no indices.
    pub(crate) fn of(config: LaunchConfig) -> Option<NdRange> {
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
}

/// Sets an address as an argument; `call` names the call in an error.
pub(crate) fn set_address(
    opened: &Opened,
    kernel: &mut KernelHandle,
    index: usize,
    pointer: Pointer,
    call: &'static str,
) -> Result<(), DeviceError> {
    // SAFETY: the kernel is borrowed exclusively.
    let status =
        unsafe { opened.unified.set_argument(opened.library, kernel.raw(), index as cl_uint, pointer) };
    checked(status, call, opened.id())
}

/// Sets a plain value as an argument.
pub(crate) fn set_value<T: Copy>(
    opened: &Opened,
    kernel: &mut KernelHandle,
    index: usize,
    value: &T,
) -> Result<(), DeviceError> {
    let value = ptr::from_ref(value).cast::<c_void>();
    // The kernel is borrowed exclusively, and the value has the size of its type.
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
    range: NdRange,
    stream: &SyclStream,
) -> Result<(), DeviceError> {
    stream.put("clEnqueueNDRangeKernel", |queue| {
        // Queue and kernel are live, all arguments are set, and the sizes have three numbers each. The caller promised
        // that the kernel may run.
        opened.library.clEnqueueNDRangeKernel(
            queue,
            kernel.raw(),
            3,
            ptr::null(),
            range.global.as_ptr(),
            range.group.as_ptr(),
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
                    let NdRange { global, group } =
                        NdRange::of(LaunchConfig { global: indices, group: None }).unwrap();
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
        assert!(NdRange::of(LaunchConfig::plane(4, 0)).is_none());
        let asked = NdRange::of(LaunchConfig { global: [100, 3, 1], group: Some([32, 2, 1]) }).unwrap();
        assert_eq!((asked.global, asked.group), ([128, 4, 1], [32, 2, 1]));
    }
}
