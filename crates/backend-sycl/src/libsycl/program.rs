//! Programs, and kernels with their arguments.

use std::ffi::{CString, c_int};
use std::fmt;
use std::ptr;
use std::sync::Arc;

use haloport_core::device::{DeviceError, KernelCache, Pointer};

use super::handles::{KernelHandle, ProgramHandle};
use super::place::Place;
use super::shim::{self, Argument, NO_MEMORY, NOT_BUILT, NOT_SUPPORTED, Object};
use super::spirv;
use crate::opencl;

/// A program that was built.
#[derive(Debug)]
pub(crate) struct Program {
    place: Arc<Place>,
    built: Built,
}

#[derive(Debug)]
enum Built {
    BySycl(ProgramHandle),
    ByOpenCl(opencl::program::Program),
}

/// A kernel with its arguments, which are kept here: SYCL takes them with each launch.
pub(crate) struct Kernel {
    place: Arc<Place>,
    kernel: KernelHandle,
    arguments: Vec<Argument>,
    /// The values that the arguments point to.
    values: Vec<Box<[u8]>>,
}

// SAFETY: the arguments point to values that the kernel owns, or are addresses that nothing here follows.
unsafe impl Send for Kernel {}
// SAFETY: as for `Send`; they change only by an exclusive borrow.
unsafe impl Sync for Kernel {}

impl Program {
    /// The program of a source in the portable dialect: a module of this crate for its own kernels, else compiled from
    /// the text in OpenCL C, by the OpenCL driver, otherwise by the compiler that SYCL finds.
    pub(crate) fn of_source(
        place: &Arc<Place>,
        name: &str,
        source: &str,
        text: &str,
    ) -> Result<Program, DeviceError> {
        if let Some(module) = spirv::of(source, place.info().double_precision) {
            return Program::of_spirv(place, name, module);
        }
        if let Some(opencl) = &place.opencl {
            let program = opencl::program::cached(KernelCache::of_process(), opencl, name, text)?;
            return Ok(Program::of_opencl(place, program));
        }
        let text = CString::new(text).map_err(|_| {
            let log = "its text has a zero byte".into();
            DeviceError::Compile { kernel: name.into(), device: place.id(), log }
        })?;
        // SAFETY: the place is live, and the texts end with 0.
        Program::build(place, name, |out| unsafe {
            (place.functions().program_of_opencl_c)(place.raw(), text.as_ptr(), c"-w".as_ptr(), out)
        })
    }

    /// The program of a SPIR-V module.
    pub(crate) fn of_spirv(place: &Arc<Place>, name: &str, module: &[u8]) -> Result<Program, DeviceError> {
        // SAFETY: the place is live, and the module has that length.
        Program::build(place, name, |out| unsafe {
            (place.functions().program_of_spirv)(place.raw(), module.as_ptr().cast(), module.len(), out)
        })
    }

    /// The program of a binary of the OpenCL driver.
    pub(crate) fn of_binary(place: &Arc<Place>, name: &str, binary: &[u8]) -> Result<Program, DeviceError> {
        let Some(opencl) = &place.opencl else {
            return Err(DeviceError::Unsupported { what: "binaries, except by OpenCL", device: place.id() });
        };
        Ok(Program::of_opencl(place, opencl::program::from_binary(opencl, name, binary)?))
    }

    fn build(
        place: &Arc<Place>,
        name: &str,
        build: impl FnOnce(*mut Object) -> c_int,
    ) -> Result<Program, DeviceError> {
        let mut raw = ptr::null_mut();
        let status = build(&raw mut raw);
        if matches!(status, NO_MEMORY | NOT_BUILT | NOT_SUPPORTED) {
            let log = place.functions().text();
            return Err(DeviceError::Compile { kernel: name.into(), device: place.id(), log });
        }
        place.functions().checked(status, "building a program of SYCL", place.id())?;
        // SAFETY: the call has made the program for its caller.
        Ok(Program::built(place, unsafe { ProgramHandle::own(place.functions(), raw) }))
    }

    fn built(place: &Arc<Place>, program: ProgramHandle) -> Program {
        Program { place: Arc::clone(place), built: Built::BySycl(program) }
    }

    fn of_opencl(place: &Arc<Place>, program: opencl::program::Program) -> Program {
        Program { place: Arc::clone(place), built: Built::ByOpenCl(program) }
    }

    /// The binary of the program, if OpenCL has built it.
    pub(crate) fn binary(&self) -> Result<Vec<u8>, DeviceError> {
        match &self.built {
            Built::ByOpenCl(program) => program.binary(),
            Built::BySycl(_) => {
                Err(DeviceError::Unsupported { what: "binaries, except by OpenCL", device: self.place.id() })
            }
        }
    }

    /// A kernel of the program, without arguments; `None` if it holds none of that name.
    pub(crate) fn kernel(&self, name: &str) -> Option<Kernel> {
        let functions = self.place.functions();
        let mut raw: Object = ptr::null_mut();
        let status = match &self.built {
            Built::BySycl(program) => {
                let name = CString::new(name).ok()?;
                // SAFETY: the program is live, and the name ends with 0.
                unsafe { (functions.kernel_of)(program.raw(), name.as_ptr(), &raw mut raw) }
            }
            Built::ByOpenCl(program) => {
                let kernel = program.kernel(name)?;
                // SAFETY: the kernel is live and of the place's context.
                unsafe { (functions.kernel_of_opencl)(self.place.raw(), kernel.raw(), &raw mut raw) }
            }
        };
        if status != shim::OK {
            return None;
        }
        // SAFETY: the call has made the kernel for its caller.
        let kernel = unsafe { KernelHandle::own(functions, raw) };
        let place = Arc::clone(&self.place);
        Some(Kernel { place, kernel, arguments: Vec::new(), values: Vec::new() })
    }
}

impl Kernel {
    pub(super) fn raw(&self) -> Object {
        self.kernel.raw()
    }

    /// The arguments that were set, in order.
    pub(super) fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// The address of the `sycl::kernel`.
    pub(crate) fn handle(&self) -> usize {
        // SAFETY: the kernel is live.
        unsafe { (self.place.functions().kernel_handle)(self.raw()) }.addr()
    }

    /// The number of its parameters; 0 if SYCL does not know it.
    pub(crate) fn parameters(&self) -> usize {
        let mut count = 0;
        // SAFETY: the kernel is live.
        let status = unsafe { (self.place.functions().kernel_parameters)(self.raw(), &raw mut count) };
        if status == shim::OK { count as usize } else { 0 }
    }

    /// Sets an address as an argument.
    pub(crate) fn set_address(&mut self, index: usize, pointer: Pointer) {
        let value = pointer.as_ptr().cast_const().cast();
        self.set(index, Argument { value, bytes: 0 });
    }

    /// Sets a plain value as an argument.
    pub(crate) fn set_value(&mut self, index: usize, value: &[u8]) {
        if self.values.len() <= index {
            self.values.resize_with(index + 1, Box::default);
        }
        // In its place, if there is one: lists of copies set their addresses at each start.
        match self.values[index].len() == value.len() {
            true => self.values[index].copy_from_slice(value),
            false => self.values[index] = value.into(),
        }
        let value = &self.values[index];
        self.set(index, Argument { value: value.as_ptr().cast(), bytes: value.len() });
    }

    fn set(&mut self, index: usize, argument: Argument) {
        if self.arguments.len() <= index {
            self.arguments.resize(index + 1, Argument { value: ptr::null(), bytes: 0 });
        }
        self.arguments[index] = argument;
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({:?} with {} arguments)", self.kernel, self.arguments.len())
    }
}
