//! Kernels: their sources, ranges of indices and arguments.

use super::{DeviceError, Pointer};

/// A kernel as its author writes it: a Rust function for the CPU, and a source in the portable C dialect for devices
/// that compile at run time.
#[derive(Debug, Clone, Copy)]
pub struct KernelSource {
    /// The name of the kernel function in `portable`, and in error messages.
    pub name: &'static str,
    /// The source in the portable [`dialect`](super::dialect), a C dialect that both CUDA C++ and OpenCL C compile
    /// after a prelude. `None` for a kernel for devices on the host alone; others refuse to compile it.
    pub portable: Option<&'static str>,
    /// The same computation on the host.
    pub host: HostKernel,
    /// The types of the parameters, in order, against which arguments are checked when they are bound.
    pub parameters: &'static [ParameterType],
}

impl KernelSource {
    /// Checks arguments against [`parameters`](KernelSource::parameters).
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for a wrong number of arguments and for an argument of another type.
    pub fn check(&self, arguments: &[KernelArgument]) -> Result<(), DeviceError> {
        if arguments.len() != self.parameters.len() {
            return Err(DeviceError::invalid(
                "the number of kernel arguments",
                format!("{} for `{}`", self.parameters.len(), self.name),
                arguments.len(),
            ));
        }
        arguments.iter().enumerate().try_for_each(|(index, argument)| self.check_one(index, argument))
    }

    /// Checks one argument.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for an index past the last parameter and for an argument of another type.
    pub fn check_one(&self, index: usize, argument: &KernelArgument) -> Result<(), DeviceError> {
        let Some(expected) = self.parameters.get(index) else {
            return Err(DeviceError::invalid(
                "the index of a kernel argument",
                format!("below {} for `{}`", self.parameters.len(), self.name),
                index,
            ));
        };
        if argument.parameter_type() != *expected {
            return Err(DeviceError::invalid(
                "a kernel argument",
                format!("{expected:?} for argument {index} of `{}`", self.name),
                format!("{:?}", argument.parameter_type()),
            ));
        }
        Ok(())
    }
}

/// A kernel on the host: computes all indices of the range, with the bound arguments.
///
/// It is called for disjoint ranges that together make up the launch, possibly from several threads at once.
///
/// # Safety
/// The caller promises that the arguments have the types of [`KernelSource::parameters`], that pointers are valid for
/// all that the kernel reads and writes over the range, and that nothing else accesses meanwhile what it writes.
pub type HostKernel = unsafe fn(&IndexRange, &[KernelArgument]);

/// The part of a launch that one call of a [`HostKernel`] computes. Axis 0 is the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexRange {
    /// The first index along each axis.
    pub begin: [usize; 3],
    /// One past the last index along each axis.
    pub end: [usize; 3],
}

/// The indices that a launch computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchConfig {
    /// The number of indices along each axis; axis 0 is the fastest.
    pub global: [usize; 3],
    /// Threads of a group along each axis; `None` leaves them to the backend.
    pub group: Option<[usize; 3]>,
}

impl LaunchConfig {
    /// `count` indices along one axis.
    pub fn linear(count: usize) -> LaunchConfig {
        LaunchConfig { global: [count, 1, 1], group: None }
    }

    /// `x` by `y` indices, x the fastest.
    pub fn plane(x: usize, y: usize) -> LaunchConfig {
        LaunchConfig { global: [x, y, 1], group: None }
    }

    /// The total number of indices.
    pub fn indices(&self) -> usize {
        self.global.iter().product()
    }
}

/// The type of a kernel parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    /// An address in the device's memory.
    Pointer,
    /// A 32-bit signed integer.
    I32,
    /// A 64-bit signed integer.
    I64,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
}

/// A bound kernel argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KernelArgument {
    /// An address in the device's memory.
    Pointer(Pointer),
    /// A 32-bit signed integer.
    I32(i32),
    /// A 64-bit signed integer.
    I64(i64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
}

impl KernelArgument {
    /// The type of the parameter that it fits.
    pub fn parameter_type(&self) -> ParameterType {
        match self {
            KernelArgument::Pointer(_) => ParameterType::Pointer,
            KernelArgument::I32(_) => ParameterType::I32,
            KernelArgument::I64(_) => ParameterType::I64,
            KernelArgument::F32(_) => ParameterType::F32,
            KernelArgument::F64(_) => ParameterType::F64,
        }
    }
}
