//! Kernels and their launches.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use haloport_core::device::{DeviceError, KernelArgument, KernelSource, LaunchConfig, ParameterType};

use crate::driver::context::call;
use crate::driver::functions::SUCCESS;
use crate::opened::Opened;
use crate::program::loaded::{Function, Program};
use crate::streams::stream::CudaStream;

/// The threads of a group if the author of a kernel does not choose: a group of this size fits on every GPU even if
/// each thread uses the most registers that it can have.
const GROUP_THREADS: usize = 256;

/// The most groups along the axes, and the most threads of one group along axis 2: "CUDA C++ Programming Guide", table
/// of technical specifications per compute capability.
const MOST_GROUPS: [usize; 3] = [i32::MAX as usize, 65_535, 65_535];
const MOST_THREADS_ALONG_2: usize = 64;

/// A compiled kernel.
#[derive(Debug, Clone)]
pub struct CudaKernel {
    opened: Arc<Opened>,
    function: Function,
    source: KernelSource,
}

/// A kernel with its arguments.
#[derive(Debug)]
pub struct CudaLaunch {
    function: Function,
    source: KernelSource,
    arguments: Arguments,
    /// `None` if there are no indices.
    grid: Option<Grid>,
}

/// The groups of a launch, and the threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) groups: [usize; 3],
    pub(crate) threads: [usize; 3],
}

/// The values of arguments and their addresses, in the driver's form.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// One argument each; its bytes come first.
    values: Vec<u64>,
    addresses: Vec<*mut c_void>,
}

// SAFETY: the addresses are those of the values, which the structure owns.
unsafe impl Send for Arguments {}
// SAFETY: shared, the addresses are only read.
unsafe impl Sync for Arguments {}

impl CudaKernel {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        program: Arc<Program>,
        source: &KernelSource,
    ) -> Result<CudaKernel, DeviceError> {
        let function = Function::new(&opened.context, program, source.name)?;
        let kernel = CudaKernel { opened: Arc::clone(opened), function, source: *source };
        kernel.check_parameters()?;
        Ok(kernel)
    }

    /// The compiled kernel, for [`CudaDevice::load`](crate::CudaDevice::load): a cubin, or PTX if the compiler does not
    /// know the device.
    pub fn binary(&self) -> &[u8] {
        &self.function.program.image
    }

    pub(crate) fn bind(
        &self,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<CudaLaunch, DeviceError> {
        self.source.check(arguments)?;
        Ok(CudaLaunch {
            function: self.function.clone(),
            source: self.source,
            arguments: Arguments::new(arguments.iter().map(|argument| value(*argument)).collect()),
            grid: Grid::of(config, self.function.most_threads)?,
        })
    }

    /// Checks, if the driver can tell, that the compiled kernel has the parameters of its declaration: a launch reads
    /// as many arguments as the kernel has parameters.
    fn check_parameters(&self) -> Result<(), DeviceError> {
        let context = &self.opened.context;
        let Some(information) = context.driver.cuFuncGetParamInfo else { return Ok(()) };
        let _entered = context.enter()?;
        let size_of = |index: usize| {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: the function is live; the call writes to local variables, or refuses an index past the last.
            let status = unsafe { information(self.function.raw, index, &raw mut offset, &raw mut bytes) };
            (status == SUCCESS).then_some(bytes)
        };
        let expected: Vec<usize> =
            self.source.parameters.iter().map(|parameter| bytes_of(*parameter)).collect();
        let found: Vec<usize> = (0..=expected.len()).map_while(size_of).collect();
        if found == expected {
            return Ok(());
        }
        let log = format!(
            "its declaration has parameters of {expected:?} bytes; its source has parameters of {found:?} bytes \
             (checked up to one past the last)"
        );
        Err(DeviceError::Compile { kernel: self.source.name.into(), device: self.opened.id(), log })
    }
}

impl CudaLaunch {
    pub(crate) fn rebind(&mut self, index: usize, argument: KernelArgument) -> Result<(), DeviceError> {
        self.source.check_one(index, &argument)?;
        self.arguments.set(index, value(argument));
        Ok(())
    }

    /// # Safety
    /// As for [`Device::launch`](haloport_core::device::Device::launch).
    pub(crate) unsafe fn run(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        match self.grid {
            // SAFETY: the caller's promise.
            Some(grid) => unsafe { enqueue(&self.function, grid, &self.arguments, stream) },
            None => Ok(()),
        }
    }
}

impl Grid {
    /// Groups that cover all indices; `None` if there are none.
    fn of(config: LaunchConfig, most_threads: usize) -> Result<Option<Grid>, DeviceError> {
        if config.global.contains(&0) {
            return Ok(None);
        }
        let threads = config.group.unwrap_or_else(|| group_of(config.global, most_threads));
        if threads.contains(&0) || threads.iter().product::<usize>() > most_threads {
            return Err(DeviceError::invalid(
                "the threads of a group",
                format!("1 to {most_threads}"),
                format!("{threads:?}"),
            ));
        }
        let groups: [usize; 3] = std::array::from_fn(|axis| config.global[axis].div_ceil(threads[axis]));
        if let Some(axis) = (0..3).find(|axis| groups[*axis] > MOST_GROUPS[*axis]) {
            return Err(DeviceError::invalid(
                "the indices of a launch",
                format!("at most {} groups along axis {axis}", MOST_GROUPS[axis]),
                format!("{} of {} threads each", groups[axis], threads[axis]),
            ));
        }
        Ok(Some(Grid { groups, threads }))
    }
}

/// The threads of a group: as many along the fastest axis as there are indices, then along the next. If that makes too
/// many groups along a later axis, threads move there.
fn group_of(global: [usize; 3], most_threads: usize) -> [usize; 3] {
    let mut left = GROUP_THREADS.min(most_threads.max(1));
    left = 1 << left.ilog2();
    let mut threads = [1; 3];
    for (axis, most) in [usize::MAX, usize::MAX, MOST_THREADS_ALONG_2].into_iter().enumerate() {
        threads[axis] = global[axis].min(left).next_power_of_two().min(left).min(most);
        left /= threads[axis];
    }
    for axis in [1, 2] {
        while global[axis].div_ceil(threads[axis]) > MOST_GROUPS[axis] && threads[axis] < MOST_THREADS_ALONG_2
        {
            match (0..axis).find(|before| threads[*before] > 1) {
                Some(before) => threads[before] /= 2,
                None => break,
            }
            threads[axis] *= 2;
        }
    }
    threads
}

impl Arguments {
    pub(crate) fn new(values: Vec<u64>) -> Arguments {
        let mut arguments = Arguments { values, addresses: Vec::new() };
        arguments.find_addresses();
        arguments
    }

    fn set(&mut self, index: usize, value: u64) {
        self.values[index] = value;
        self.find_addresses();
    }

    fn find_addresses(&mut self) {
        let first = self.values.as_mut_ptr();
        self.addresses = (0..self.values.len()).map(|index| first.wrapping_add(index).cast()).collect();
    }
}

/// The bytes of an argument; those of a shorter one come first.
fn value(argument: KernelArgument) -> u64 {
    match argument {
        KernelArgument::Pointer(pointer) => pointer.as_ptr().expose_provenance() as u64,
        KernelArgument::I32(value) => u64::from(value as u32),
        KernelArgument::I64(value) => value as u64,
        KernelArgument::F32(value) => u64::from(value.to_bits()),
        KernelArgument::F64(value) => value.to_bits(),
    }
}

fn bytes_of(parameter: ParameterType) -> usize {
    match parameter {
        ParameterType::I32 | ParameterType::F32 => 4,
        ParameterType::Pointer | ParameterType::I64 | ParameterType::F64 => 8,
    }
}

/// Puts a kernel into a stream.
///
/// # Safety
/// As for [`Device::launch`](haloport_core::device::Device::launch).
pub(crate) unsafe fn enqueue(
    function: &Function,
    grid: Grid,
    arguments: &Arguments,
    stream: &CudaStream,
) -> Result<(), DeviceError> {
    // The driver only reads the list.
    let addresses = arguments.addresses.as_ptr().cast_mut();
    // SAFETY: function and stream are live, and there are as many arguments as parameters. The caller promised the
    // memory that the kernel accesses.
    unsafe { enqueue_at(function, grid, addresses, stream) }
}

/// As [`enqueue`], with the addresses of the arguments.
///
/// # Safety
/// As for [`enqueue`]; `addresses` points to the addresses of all arguments, each of its parameter's type.
pub(crate) unsafe fn enqueue_at(
    function: &Function,
    Grid { groups, threads }: Grid,
    addresses: *mut *mut c_void,
    stream: &CudaStream,
) -> Result<(), DeviceError> {
    let ([x, y, z], [tx, ty, tz]) = (groups.map(|n| n as c_uint), threads.map(|n| n as c_uint));
    let (no_memory, no_extra) = (0, ptr::null_mut());
    // SAFETY: the caller's promise; the driver copies the arguments before it returns.
    unsafe {
        call!(
            stream.context(),
            cuLaunchKernel(function.raw, x, y, z, tx, ty, tz, no_memory, stream.raw(), addresses, no_extra)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_all_indices_within_the_limits_of_a_grid() {
        let wide = 70_000_000;
        for global in [
            [1, 1, 1],
            [1000, 1, 1],
            [33, 7, 5],
            [1 << 33, 1, 1],
            [256, wide / 300, 1],
            [1000, wide / 70, 9],
            [3, 5, wide / 20],
        ] {
            let grid = Grid::of(LaunchConfig { global, group: None }, 1024).unwrap().unwrap();
            assert!(grid.threads.iter().product::<usize>() <= GROUP_THREADS, "{grid:?}");
            for (axis, indices) in global.into_iter().enumerate() {
                assert!(grid.groups[axis] <= MOST_GROUPS[axis], "{grid:?}");
                assert!(grid.groups[axis] * grid.threads[axis] >= indices, "{grid:?}");
            }
        }
        let of = |global, group| Grid::of(LaunchConfig { global, group }, 1024);
        assert_eq!(of([100, 0, 1], None).unwrap(), None);
        let asked = of([100, 3, 1], Some([32, 2, 1])).unwrap().unwrap();
        assert_eq!(asked, Grid { groups: [4, 2, 1], threads: [32, 2, 1] });
        for group in [[0, 1, 1], [1024, 2, 1]] {
            assert!(of([100, 1, 1], Some(group)).is_err());
        }
        assert!(of([1, usize::MAX / 2, 1], None).is_err());
    }
}
