//! Programs, and kernels with their arguments.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex};

use crate::lock::locked;
use crate::opencl::{self, Argument, Program, Queue, Range, runtime};
use crate::spirv::{self, Parameter};
use crate::status::{
    INVALID_ARGUMENT, INVALID_ARGUMENT_INDEX, INVALID_ARGUMENT_SIZE, INVALID_GROUP_SIZE, INVALID_KERNEL_NAME,
    INVALID_NATIVE_BINARY, Status,
};

/// The largest group of threads.
pub(crate) const MAX_GROUP: u32 = 1024;

/// A program.
#[derive(Debug)]
pub(crate) struct Module {
    /// The module itself, which also is its binary.
    pub(crate) spirv: Vec<u8>,
    kernels: HashMap<String, Vec<Parameter>>,
    /// The names of the kernels.
    names: Vec<CString>,
    program: Program,
}

/// A kernel, and what the next launch takes.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    next: Mutex<Next>,
    built: Arc<Mutex<opencl::Kernel>>,
}

#[derive(Debug, Clone)]
struct Next {
    arguments: Vec<Option<Argument>>,
    group: [u32; 3],
    offset: [u32; 3],
    indirect: u32,
}

/// A launch of a kernel.
#[derive(Debug)]
pub(crate) struct Launch {
    kernel: Arc<Mutex<opencl::Kernel>>,
    arguments: Vec<Argument>,
    range: Range,
}

impl Module {
    /// Builds a SPIR-V module; an error has the compiler's log.
    pub(crate) fn new(spirv: &[u8]) -> Result<Module, (Status, String)> {
        let kernels = spirv::kernels(spirv)
            .ok_or_else(|| (INVALID_NATIVE_BINARY, "expected a SPIR-V module, found other bytes".into()))?;
        let runtime = runtime().map_err(|status| (status, String::new()))?;
        let program = runtime.build(spirv)?;
        let names = kernels.keys().filter_map(|name| CString::new(name.as_str()).ok()).collect();
        Ok(Module { spirv: spirv.to_vec(), kernels, names, program })
    }

    /// The names of the kernels, as texts that live as long as the module.
    pub(crate) fn names(&self) -> Vec<*const c_char> {
        self.names.iter().map(|name| name.as_ptr()).collect()
    }

    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, Status> {
        let parameters = self.kernels.get(name).ok_or(INVALID_KERNEL_NAME)?.clone();
        let built = Arc::new(Mutex::new(self.program.kernel(name)?));
        let arguments = vec![None; parameters.len()];
        let next = Mutex::new(Next { arguments, group: [1; 3], offset: [0; 3], indirect: 0 });
        Ok(Kernel { name: name.into(), parameters, next, built })
    }
}

impl Kernel {
    /// Sets an argument to a value, or to nothing: a null address, zeros, or that number of bytes of local memory.
    pub(crate) fn set(&self, number: usize, bytes: usize, value: Option<&[u8]>) -> Result<(), Status> {
        let argument = match (self.parameters.get(number).ok_or(INVALID_ARGUMENT_INDEX)?, value) {
            (Parameter::Address, None) => Argument::Address(0),
            (Parameter::Address, Some(value)) => {
                let address = value.try_into().map_err(|_| INVALID_ARGUMENT_SIZE)?;
                Argument::Address(usize::from_le_bytes(address))
            }
            (Parameter::Local, _) => Argument::Local(bytes),
            (Parameter::Value(expected), value) if *expected == 0 || *expected == bytes => {
                // DPC++ gives nothing for 8 bytes of 0, which might be an address.
                Argument::Value(value.map_or_else(|| vec![0; bytes], <[u8]>::to_vec))
            }
            (Parameter::Value(_), _) => return Err(INVALID_ARGUMENT_SIZE),
        };
        locked(&self.next).arguments[number] = Some(argument);
        Ok(())
    }

    /// Sets an argument to the value at an address, whose size the parameter tells. For local memory, it is the size.
    ///
    /// # Safety
    /// The address is null or that of such a value.
    pub(crate) unsafe fn set_from(&self, number: usize, value: *const c_void) -> Result<(), Status> {
        let bytes = match self.parameters.get(number).ok_or(INVALID_ARGUMENT_INDEX)? {
            Parameter::Address => 8,
            Parameter::Value(0) => return Err(INVALID_ARGUMENT_SIZE),
            Parameter::Value(bytes) => *bytes,
            // SAFETY: the caller's promise.
            Parameter::Local if !value.is_null() => return self.set(number, unsafe { *value.cast() }, None),
            Parameter::Local => return Err(INVALID_ARGUMENT),
        };
        // SAFETY: the same.
        let value = (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value.cast(), bytes) });
        self.set(number, bytes, value)
    }

    pub(crate) fn set_group(&self, group: [u32; 3]) -> Result<(), Status> {
        if group.contains(&0)
            || group.iter().map(|side| u64::from(*side)).product::<u64>() > u64::from(MAX_GROUP)
        {
            return Err(INVALID_GROUP_SIZE);
        }
        locked(&self.next).group = group;
        Ok(())
    }

    pub(crate) fn set_offset(&self, offset: [u32; 3]) {
        locked(&self.next).offset = offset;
    }

    /// The kinds of memory that it reaches through addresses in memory.
    pub(crate) fn indirect(&self) -> u32 {
        locked(&self.next).indirect
    }

    pub(crate) fn set_indirect(&self, kinds: u32) {
        locked(&self.next).indirect = kinds;
    }

    /// A launch of that number of groups with the present arguments.
    pub(crate) fn launch(&self, groups: [u32; 3]) -> Result<Launch, Status> {
        let next = locked(&self.next).clone();
        let arguments: Option<Vec<_>> = next.arguments.into_iter().collect();
        let sizes = |side: usize| groups[side] as usize * next.group[side] as usize;
        let range = Range {
            offset: next.offset.map(|offset| offset as usize),
            global: [sizes(0), sizes(1), sizes(2)],
            group: next.group.map(|side| side as usize),
        };
        Ok(Launch {
            kernel: Arc::clone(&self.built),
            arguments: arguments.ok_or(INVALID_ARGUMENT_INDEX)?,
            range,
        })
    }

    pub(crate) fn max_group(&self) -> u32 {
        locked(&self.built).max_group().min(MAX_GROUP)
    }

    pub(crate) fn local_memory(&self) -> u32 {
        locked(&self.built).local_memory()
    }
}

impl Launch {
    /// Runs the kernel, and waits for its end.
    pub(crate) fn run(&self, queue: &mut Option<Queue>) -> Result<(), Status> {
        if self.range.global.contains(&0) {
            return Ok(());
        }
        // Other launches of the kernel set its arguments, too.
        locked(&self.kernel).enqueue(queue, &self.arguments, self.range)?;
        queue.as_ref().map_or(Ok(()), Queue::finish)
    }
}
