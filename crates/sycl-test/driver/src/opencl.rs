//! Intel's OpenCL runtime for CPUs, which builds and runs kernels.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::settings::settings;
use crate::status::{
    DEPENDENCY_UNAVAILABLE, DEVICE_LOST, INVALID_ARGUMENT_SIZE, INVALID_KERNEL_NAME, MODULE_BUILD_FAILURE,
    Status,
};

type Object = *mut c_void;

/// The runtime, with its device in a context.
#[derive(Debug)]
pub(crate) struct Runtime {
    functions: Functions,
    device: Object,
    context: Object,
    pub(crate) half_precision: bool,
}

/// A program that was built.
#[derive(Debug)]
pub(crate) struct Program(Object);

/// A kernel, whose arguments belong to the next launch.
#[derive(Debug)]
pub(crate) struct Kernel(Object);

/// A queue that is in order.
#[derive(Debug)]
pub(crate) struct Queue(Object);

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    Address(usize),
    Value(Vec<u8>),
    /// That number of bytes of local memory.
    Local(usize),
}

/// Numbers of threads, and of threads in a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) offset: [usize; 3],
    pub(crate) global: [usize; 3],
    pub(crate) group: [usize; 3],
}

// SAFETY: objects of OpenCL belong to no thread; a kernel's arguments are set under a lock.
unsafe impl Send for Runtime {}
// SAFETY: as above.
unsafe impl Sync for Runtime {}
// SAFETY: as above.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}
// SAFETY: as above.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Send for Queue {}

macro_rules! functions {
    ($($name:ident = $symbol:literal($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of `cl.h` that are used.
        #[derive(Debug)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Functions, String> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: the function of this name has the declared type.
                        *unsafe { library.get($symbol.as_bytes()) }.map_err(|error| error.to_string())?
                    },)*
                })
            }
        }
    };
}

functions! {
    platforms = "clGetPlatformIDs"(u32, *mut Object, *mut u32) -> c_int;
    devices = "clGetDeviceIDs"(Object, u64, u32, *mut Object, *mut u32) -> c_int;
    device_info = "clGetDeviceInfo"(Object, u32, usize, *mut c_void, *mut usize) -> c_int;
    create_context =
        "clCreateContext"(*const isize, u32, *const Object, *const c_void, *const c_void, *mut c_int) -> Object;
    create_queue = "clCreateCommandQueueWithProperties"(Object, Object, *const u64, *mut c_int) -> Object;
    release_queue = "clReleaseCommandQueue"(Object) -> c_int;
    create_program = "clCreateProgramWithIL"(Object, *const c_void, usize, *mut c_int) -> Object;
    build = "clBuildProgram"(Object, u32, *const Object, *const c_char, *const c_void, *const c_void) -> c_int;
    build_info = "clGetProgramBuildInfo"(Object, Object, u32, usize, *mut c_void, *mut usize) -> c_int;
    release_program = "clReleaseProgram"(Object) -> c_int;
    create_kernel = "clCreateKernel"(Object, *const c_char, *mut c_int) -> Object;
    kernel_info = "clGetKernelWorkGroupInfo"(Object, Object, u32, usize, *mut c_void, *mut usize) -> c_int;
    set_argument = "clSetKernelArg"(Object, u32, usize, *const c_void) -> c_int;
    set_address = "clSetKernelArgSVMPointer"(Object, u32, *const c_void) -> c_int;
    set_execution = "clSetKernelExecInfo"(Object, u32, usize, *const c_void) -> c_int;
    release_kernel = "clReleaseKernel"(Object) -> c_int;
    launch = "clEnqueueNDRangeKernel"(
        Object, Object, u32, *const usize, *const usize, *const usize, u32, *const Object, *mut Object
    ) -> c_int;
    finish = "clFinish"(Object) -> c_int;
}

const DEVICE_TYPE_CPU: u64 = 1 << 1;
const DEVICE_EXTENSIONS: u32 = 0x1030;
const PROGRAM_BUILD_LOG: u32 = 0x1183;
const KERNEL_WORK_GROUP_SIZE: u32 = 0x11b0;
const KERNEL_LOCAL_MEM_SIZE: u32 = 0x11b2;
const KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM: u32 = 0x11b7;

/// The runtime of this process.
pub(crate) fn runtime() -> Result<&'static Runtime, Status> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let found = RUNTIME.get_or_init(|| {
        Runtime::open()
            .inspect_err(|error| {
                eprintln!("the Level Zero driver for tests: {}: {error}", settings().opencl);
            })
            .ok()
    });
    found.as_ref().ok_or(DEPENDENCY_UNAVAILABLE)
}

impl Runtime {
    fn open() -> Result<Runtime, String> {
        // SAFETY: the runtime may be loaded at any time.
        let library = unsafe { Library::open(Some(&settings().opencl), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| error.to_string())?;
        let functions = Functions::of(&library)?;
        // Its threads run until the process ends.
        std::mem::forget(library);
        let (mut platform, mut device) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the addresses are those of local variables.
        let context = unsafe {
            checked((functions.platforms)(1, &raw mut platform, ptr::null_mut()))?;
            checked((functions.devices)(platform, DEVICE_TYPE_CPU, 1, &raw mut device, ptr::null_mut()))?;
            made(|code| {
                (functions.create_context)(ptr::null(), 1, &raw const device, ptr::null(), ptr::null(), code)
            })?
        };
        let mut extensions = vec![0_u8; 1 << 16];
        // SAFETY: the text is written into that many bytes.
        checked(unsafe {
            (functions.device_info)(
                device,
                DEVICE_EXTENSIONS,
                extensions.len(),
                extensions.as_mut_ptr().cast(),
                ptr::null_mut(),
            )
        })?;
        let half_precision = String::from_utf8_lossy(&extensions).contains("cl_khr_fp16");
        Ok(Runtime { functions, device, context, half_precision })
    }

    /// Builds a SPIR-V module; the error is the compiler's log.
    pub(crate) fn build(&self, module: &[u8]) -> Result<Program, (Status, String)> {
        // SAFETY: the module has that many bytes.
        let raw = made(|code| unsafe {
            (self.functions.create_program)(self.context, module.as_ptr().cast(), module.len(), code)
        })
        .map_err(|error| (MODULE_BUILD_FAILURE, format!("clCreateProgramWithIL: {error}")))?;
        let program = Program(raw);
        // SAFETY: the program is alive.
        let code = unsafe {
            (self.functions.build)(raw, 1, &raw const self.device, c"".as_ptr(), ptr::null(), ptr::null())
        };
        checked(code)
            .map(|()| program)
            .map_err(|error| (MODULE_BUILD_FAILURE, format!("{}{error}", self.log(raw))))
    }

    fn log(&self, program: Object) -> String {
        let mut text = vec![0_u8; 1 << 16];
        // SAFETY: the text is written into that many bytes.
        unsafe {
            (self.functions.build_info)(
                program,
                self.device,
                PROGRAM_BUILD_LOG,
                text.len() - 1,
                text.as_mut_ptr().cast(),
                ptr::null_mut(),
            );
        }
        CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
    }

    fn queue(&self) -> Result<Queue, Status> {
        // SAFETY: the context is alive.
        let made = made(|code| unsafe {
            (self.functions.create_queue)(self.context, self.device, ptr::null(), code)
        });
        made.map(Queue).map_err(|_| DEVICE_LOST)
    }
}

impl Program {
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, Status> {
        let runtime = runtime()?;
        let name = CString::new(name).map_err(|_| INVALID_KERNEL_NAME)?;
        // SAFETY: the program is alive, and the name ends with 0.
        let raw = made(|code| unsafe { (runtime.functions.create_kernel)(self.0, name.as_ptr(), code) })
            .map_err(|_| INVALID_KERNEL_NAME)?;
        let yes: u32 = 1;
        // Kernels follow addresses that they find in memory. A runtime that does not take this may do so anyway.
        // SAFETY: the number is alive.
        unsafe {
            (runtime.functions.set_execution)(
                raw,
                KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM,
                size_of::<u32>(),
                (&raw const yes).cast(),
            );
        }
        Ok(Kernel(raw))
    }
}

impl Kernel {
    /// Runs the kernel, and waits for its end. The queue is made if there is none.
    pub(crate) fn enqueue(
        &self,
        queue: &mut Option<Queue>,
        arguments: &[Argument],
        range: Range,
    ) -> Result<(), Status> {
        let runtime = runtime()?;
        let queue = match queue {
            Some(queue) => queue,
            None => queue.insert(runtime.queue()?),
        };
        for (number, argument) in arguments.iter().enumerate() {
            self.set(runtime, number as u32, argument)?;
        }
        // SAFETY: the program answers for the arguments and the memory that the kernel reaches.
        let code = unsafe {
            (runtime.functions.launch)(
                queue.0,
                self.0,
                3,
                range.offset.as_ptr(),
                range.global.as_ptr(),
                range.group.as_ptr(),
                0,
                ptr::null(),
                ptr::null_mut(),
            )
        };
        checked(code).map_err(|error| lost("a launch", &error))
    }

    fn set(&self, runtime: &Runtime, number: u32, argument: &Argument) -> Result<(), Status> {
        let functions = &runtime.functions;
        // SAFETY: values are read here; addresses are not followed.
        let code = unsafe {
            match argument {
                Argument::Address(address) => {
                    (functions.set_address)(self.0, number, ptr::with_exposed_provenance(*address))
                }
                Argument::Value(bytes) => {
                    (functions.set_argument)(self.0, number, bytes.len(), bytes.as_ptr().cast())
                }
                Argument::Local(bytes) => (functions.set_argument)(self.0, number, *bytes, ptr::null()),
            }
        };
        checked(code).map_err(|error| {
            lost(&format!("argument {number}, {argument:?}"), &error);
            INVALID_ARGUMENT_SIZE
        })
    }

    /// The largest group.
    pub(crate) fn max_group(&self) -> u32 {
        self.number(KERNEL_WORK_GROUP_SIZE) as u32
    }

    /// The bytes of local memory.
    pub(crate) fn local_memory(&self) -> u32 {
        self.number(KERNEL_LOCAL_MEM_SIZE) as u32
    }

    fn number(&self, what: u32) -> u64 {
        let Ok(runtime) = runtime() else { return 0 };
        let mut number = 0_u64;
        // SAFETY: the number has that many bytes.
        unsafe {
            (runtime.functions.kernel_info)(
                self.0,
                runtime.device,
                what,
                size_of::<u64>(),
                (&raw mut number).cast(),
                ptr::null_mut(),
            );
        }
        number
    }
}

impl Queue {
    /// Waits until all launches have ended.
    pub(crate) fn finish(&self) -> Result<(), Status> {
        // SAFETY: the queue is alive.
        let code = unsafe { (runtime()?.functions.finish)(self.0) };
        checked(code).map_err(|error| lost("clFinish", &error))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Ok(runtime) = runtime() {
            // SAFETY: it is released once.
            unsafe { (runtime.functions.release_queue)(self.0) };
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(runtime) = runtime() {
            // SAFETY: it is released once.
            unsafe { (runtime.functions.release_program)(self.0) };
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if let Ok(runtime) = runtime() {
            // SAFETY: it is released once.
            unsafe { (runtime.functions.release_kernel)(self.0) };
        }
    }
}

fn lost(what: &str, error: &str) -> Status {
    eprintln!("the Level Zero driver for tests: {what}: {error}");
    DEVICE_LOST
}

fn checked(code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("OpenCL's error {code}")) }
}

fn made(make: impl FnOnce(*mut c_int) -> Object) -> Result<Object, String> {
    let mut code = 0;
    let object = make(&raw mut code);
    checked(code).map(|()| object)
}
