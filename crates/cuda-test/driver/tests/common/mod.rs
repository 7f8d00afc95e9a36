//! The driver's functions, and tests in processes of their own: settings are read once, and a fault lasts.

#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::{c_char, c_void};
use std::process::{Command, Output};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use haloport_cuda_test_driver as _;

pub(crate) type Status = u32;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const INVALID_VALUE: Status = 1;
pub(crate) const INVALID_HANDLE: Status = 400;
pub(crate) const NOT_READY: Status = 600;
pub(crate) const ILLEGAL_ADDRESS: Status = 700;
pub(crate) const MISALIGNED: Status = 716;
pub(crate) const LAUNCH_FAILED: Status = 719;
pub(crate) const CAPTURE_UNSUPPORTED: Status = 900;
pub(crate) const CAPTURE_INVALIDATED: Status = 901;

/// Handles of IPC.
pub(crate) type IpcHandle = [u64; 8];

#[repr(C)]
pub(crate) struct ByValue(pub(crate) IpcHandle);

unsafe extern "C" {
    fn cuInit(flags: u32) -> Status;
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) -> Status;
    fn cuCtxPushCurrent_v2(context: usize) -> Status;
    fn cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: i32) -> Status;
    fn cuStreamSynchronize(stream: usize) -> Status;
    fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) -> Status;
    fn cuStreamWaitValue32_v2(stream: usize, address: u64, value: u32, flags: u32) -> Status;
    fn cuEventCreate(event: *mut usize, flags: u32) -> Status;
    fn cuEventRecord(event: usize, stream: usize) -> Status;
    fn cuEventQuery(event: usize) -> Status;
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Status;
    fn cuMemFree_v2(address: u64) -> Status;
    fn cuMemHostAlloc(address: *mut u64, bytes: usize, flags: u32) -> Status;
    fn cuMemcpyAsync(target: u64, source: u64, bytes: usize, stream: usize) -> Status;
    fn cuMemsetD8Async(target: u64, value: u8, count: usize, stream: usize) -> Status;
    fn cuMemCreate(memory: *mut u64, bytes: usize, properties: *const [u32; 8], flags: u64) -> Status;
    fn cuMemAddressReserve(
        address: *mut u64,
        bytes: usize,
        alignment: usize,
        wanted: u64,
        flags: u64,
    ) -> Status;
    fn cuMemMap(address: u64, bytes: usize, offset: usize, memory: u64, flags: u64) -> Status;
    fn cuMemUnmap(address: u64, bytes: usize) -> Status;
    fn cuMemAddressFree(address: u64, bytes: usize) -> Status;
    fn cuMemRelease(memory: u64) -> Status;
    fn cuMemExportToShareableHandle(to: *mut c_void, memory: u64, kind: u32, flags: u64) -> Status;
    fn cuMemImportFromShareableHandle(memory: *mut u64, from: *mut c_void, kind: u32) -> Status;
    fn cuMemSetAccess(address: u64, bytes: usize, access: *const [u32; 3], count: usize) -> Status;
    fn cuIpcGetMemHandle(handle: *mut ByValue, address: u64) -> Status;
    fn cuIpcOpenMemHandle_v2(address: *mut u64, handle: ByValue, flags: u32) -> Status;
    fn cuModuleLoadDataEx(
        module: *mut usize,
        image: *const c_char,
        count: u32,
        options: *mut u32,
        values: *mut *mut c_void,
    ) -> Status;
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) -> Status;
    fn cuLaunchKernel(
        function: usize,
        x: u32,
        y: u32,
        z: u32,
        threads_x: u32,
        threads_y: u32,
        threads_z: u32,
        memory: u32,
        stream: usize,
        places: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Status;
    fn cuStreamBeginCapture_v2(stream: usize, mode: u32) -> Status;
    fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> Status;
}

/// The size of memory of `cuMemCreate` is a multiple of this.
pub(crate) const PAGE: usize = 2 << 20;

/// Kinds of handles.
pub(crate) const DESCRIPTOR: u32 = 1;
pub(crate) const FABRIC: u32 = 8;

/// Set in the processes of tests, to the test's name.
const MARK: &str = "HALOPORT_DRIVER_TEST";

/// Runs the body of the test `name` in a process of its own, which must pass.
pub(crate) fn alone(name: &str, variables: &[(&str, &str)], test: impl FnOnce(&Driver)) {
    let Some(output) = outcome(name, variables, test) else { return };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{name}:\n{out}{err}");
}

/// The same; returns what became of the process. In the process itself, returns nothing.
pub(crate) fn outcome(name: &str, variables: &[(&str, &str)], test: impl FnOnce(&Driver)) -> Option<Output> {
    if std::env::var(MARK).is_ok_and(|running| running == name) {
        test(&Driver::new());
        return None;
    }
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(MARK, name);
    Some(process.envs(variables.iter().copied()).output().unwrap())
}

/// The driver, with the context of its first device current.
pub(crate) struct Driver;

/// Checks that a call succeeds.
fn done(status: Status) {
    assert_eq!(status, SUCCESS);
}

/// What a call that writes a value has written.
fn made<T: Default>(call: impl FnOnce(*mut T) -> Status) -> T {
    let mut value = T::default();
    done(call(&mut value));
    value
}

// SAFETY of the calls below: each passes addresses of local variables, and handles and memory that the driver made or
// refuses.
#[allow(clippy::undocumented_unsafe_blocks, reason = "see above")]
impl Driver {
    fn new() -> Driver {
        done(unsafe { cuInit(0) });
        let context = made(|context| unsafe { cuDevicePrimaryCtxRetain(context, 0) });
        done(unsafe { cuCtxPushCurrent_v2(context) });
        Driver
    }

    /// A stream that does not wait for the default stream.
    pub(crate) fn stream(&self) -> usize {
        made(|stream| unsafe { cuStreamCreateWithPriority(stream, 1, 0) })
    }

    pub(crate) fn synchronize(&self, stream: usize) -> Status {
        unsafe { cuStreamSynchronize(stream) }
    }

    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        made(|address| unsafe { cuMemAlloc_v2(address, bytes) })
    }

    /// Memory of `cuMemCreate` on device 0, with handles of these kinds.
    pub(crate) fn create(&self, bytes: usize, kinds: u32) -> Result<u64, Status> {
        let properties = [1, kinds, 1, 0, 0, 0, 0, 0];
        let mut memory = 0;
        match unsafe { cuMemCreate(&raw mut memory, bytes, &raw const properties, 0) } {
            SUCCESS => Ok(memory),
            status => Err(status),
        }
    }

    pub(crate) fn reserve(&self, bytes: usize) -> u64 {
        made(|address| unsafe { cuMemAddressReserve(address, bytes, 0, 0, 0) })
    }

    /// Maps memory from this byte of it on.
    pub(crate) fn map(&self, address: u64, bytes: usize, offset: usize, memory: u64) -> Status {
        unsafe { cuMemMap(address, bytes, offset, memory, 0) }
    }

    pub(crate) fn unmap(&self, address: u64, bytes: usize) -> Status {
        unsafe { cuMemUnmap(address, bytes) }
    }

    pub(crate) fn free_addresses(&self, address: u64, bytes: usize) -> Status {
        unsafe { cuMemAddressFree(address, bytes) }
    }

    pub(crate) fn release(&self, memory: u64) -> Status {
        unsafe { cuMemRelease(memory) }
    }

    /// A file descriptor of memory of `cuMemCreate`.
    pub(crate) fn descriptor(&self, memory: u64) -> Result<i32, Status> {
        let mut descriptor = -1;
        match unsafe { cuMemExportToShareableHandle((&raw mut descriptor).cast(), memory, DESCRIPTOR, 0) } {
            SUCCESS => Ok(descriptor),
            status => Err(status),
        }
    }

    pub(crate) fn of_descriptor(&self, descriptor: i32) -> Result<u64, Status> {
        let (mut memory, from) = (0, std::ptr::without_provenance_mut(descriptor as usize));
        match unsafe { cuMemImportFromShareableHandle(&raw mut memory, from, DESCRIPTOR) } {
            SUCCESS => Ok(memory),
            status => Err(status),
        }
    }

    /// A fabric handle of memory of `cuMemCreate`.
    pub(crate) fn fabric_handle(&self, memory: u64) -> Result<[u64; 8], Status> {
        let mut handle = [0; 8];
        match unsafe { cuMemExportToShareableHandle((&raw mut handle).cast(), memory, FABRIC, 0) } {
            SUCCESS => Ok(handle),
            status => Err(status),
        }
    }

    pub(crate) fn of_fabric_handle(&self, mut handle: [u64; 8]) -> Result<u64, Status> {
        let mut memory = 0;
        match unsafe { cuMemImportFromShareableHandle(&raw mut memory, (&raw mut handle).cast(), FABRIC) } {
            SUCCESS => Ok(memory),
            status => Err(status),
        }
    }

    /// Memory of 2 MiB from `cuMemCreate`, mapped at addresses of its own; nothing has access to it.
    pub(crate) fn create_mapped(&self) -> u64 {
        let memory = self.create(PAGE, 0).unwrap();
        let address = self.reserve(PAGE);
        done(self.map(address, PAGE, 0, memory));
        address
    }

    /// Lets device 0 reach such memory.
    pub(crate) fn give_access(&self, address: u64) {
        // For reading and writing.
        let access = [1, 0, 3];
        done(unsafe { cuMemSetAccess(address, PAGE, &raw const access, 1) });
    }

    pub(crate) fn free(&self, address: u64) {
        done(unsafe { cuMemFree_v2(address) });
    }

    /// A word of pinned memory, with its address.
    pub(crate) fn word(&self) -> (&'static AtomicU32, u64) {
        let address = made(|address| unsafe { cuMemHostAlloc(address, 4, 0) });
        let word = unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address as usize)) };
        word.store(0, Ordering::Release);
        (word, address)
    }

    /// Holds a stream back until a word is 1.
    pub(crate) fn hold(&self, stream: usize, word: u64) {
        done(unsafe { cuStreamWaitValue32_v2(stream, word, 1, 0) });
    }

    pub(crate) fn fill(&self, address: u64, byte: u8, count: usize, stream: usize) -> Status {
        unsafe { cuMemsetD8Async(address, byte, count, stream) }
    }

    pub(crate) fn copy(&self, target: u64, source: u64, bytes: usize, stream: usize) -> Status {
        unsafe { cuMemcpyAsync(target, source, bytes, stream) }
    }

    /// Bytes of device memory, in the order of a stream.
    pub(crate) fn read(&self, address: u64, bytes: usize, stream: usize) -> Vec<u8> {
        let mut read = vec![0_u8; bytes];
        done(self.copy(read.as_mut_ptr().expose_provenance() as u64, address, bytes, stream));
        read
    }

    pub(crate) fn event(&self) -> usize {
        made(|event| unsafe { cuEventCreate(event, 0) })
    }

    pub(crate) fn record(&self, event: usize, stream: usize) {
        done(unsafe { cuEventRecord(event, stream) });
    }

    pub(crate) fn wait(&self, stream: usize, event: usize) {
        done(unsafe { cuStreamWaitEvent(stream, event, 0) });
    }

    pub(crate) fn query(&self, event: usize) -> Status {
        unsafe { cuEventQuery(event) }
    }

    pub(crate) fn export(&self, address: u64) -> IpcHandle {
        let mut handle = ByValue([0; 8]);
        done(unsafe { cuIpcGetMemHandle(&raw mut handle, address) });
        handle.0
    }

    pub(crate) fn import(&self, handle: IpcHandle) -> Result<u64, Status> {
        let mut address = 0;
        match unsafe { cuIpcOpenMemHandle_v2(&raw mut address, ByValue(handle), 1) } {
            SUCCESS => Ok(address),
            status => Err(status),
        }
    }

    /// A kernel `put` that writes a number of 32 bits to an address.
    pub(crate) fn put_kernel(&self) -> usize {
        let text = c".version 8.0
.target sm_90
.address_size 64
.visible .entry put(
	.param .u64 address,
	.param .u32 number
)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [address];
	ld.param.u32 %r1, [number];
	st.global.u32 [%rd1], %r1;
	ret;
}
";
        let (none, no_values) = (ptr::null_mut(), ptr::null_mut());
        let module = made(|module| unsafe { cuModuleLoadDataEx(module, text.as_ptr(), 0, none, no_values) });
        made(|function| unsafe { cuModuleGetFunction(function, module, c"put".as_ptr()) })
    }

    /// Launches `put`.
    pub(crate) fn put(&self, kernel: usize, mut address: u64, mut number: u32, stream: usize) -> Status {
        let mut places = [(&raw mut address).cast::<c_void>(), (&raw mut number).cast()];
        let extra = ptr::null_mut();
        unsafe { cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, places.as_mut_ptr(), extra) }
    }

    /// Begins a capture, during which this thread makes no call that is not allowed.
    pub(crate) fn begin_capture(&self, stream: usize) {
        done(unsafe { cuStreamBeginCapture_v2(stream, 1) });
    }

    pub(crate) fn end_capture(&self, stream: usize) -> Status {
        let mut graph = 0;
        unsafe { cuStreamEndCapture(stream, &raw mut graph) }
    }
}
