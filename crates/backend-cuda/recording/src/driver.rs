//! The driver's functions, as `cuda.h` declares them.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the driver's functions of these names"
)]
#![allow(clippy::too_many_arguments, reason = "the functions are the driver's")]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::copies::{Copy2D, Copy3D, copy_planes, fill};
use crate::memory::IpcHandle;
use crate::objects::{Object, Work};
use crate::state::{CONTEXTS, State, current, setting, state};
use crate::status::{
    CAPTURE_UNSUPPORTED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NO_DEVICE,
    NOT_FOUND, OUT_OF_MEMORY, SUCCESS, Status,
};

/// The memory that each device reports, in bytes.
const MEMORY_BYTES: usize = 1 << 30;

/// Records a call with its arguments, and executes it unless it is to fail.
fn call(name: &str, arguments: String, work: impl FnOnce(&mut State) -> Result<(), Status>) -> Status {
    let mut state = state();
    status(state.record(name, &arguments).and_then(|()| work(&mut state)))
}

/// As [`call`], for calls that release something: they are executed even if they are to fail, because they also report
/// the errors of earlier work.
fn give_back(name: &str, arguments: String, work: impl FnOnce(&mut State) -> Result<(), Status>) -> Status {
    let mut state = state();
    let recorded = state.record(name, &arguments);
    let done = work(&mut state);
    status(recorded.and(done))
}

fn status(result: Result<(), Status>) -> Status {
    result.err().unwrap_or(SUCCESS)
}

fn devices() -> c_int {
    setting("HALOPORT_RECORDING_DEVICES", 1)
}

fn device(ordinal: c_int) -> Result<(), Status> {
    if (0..devices()).contains(&ordinal) { Ok(()) } else { Err(INVALID_DEVICE) }
}

/// Declares functions of the driver: how each is recorded, and its effect.
macro_rules! functions {
    ($($how:ident $name:ident($($argument:ident: $type:ty),* $(,)?) |$state:ident| $work:block)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> Status {
                #[allow(unused_mut, reason = "some take no argument")]
                let mut arguments = String::new();
                $(arguments += &format!("{}={} ", stringify!($argument), show($argument as u64));)*
                // SAFETY: the block follows only addresses that the caller of the driver's function vouches for.
                #[allow(unused_unsafe, unused_variables, reason = "some follow no address, some do not use the state")]
                $how(stringify!($name), arguments, |$state| unsafe { $work })
            }
        )*
    };
}

/// Formats small numbers in decimal, handles and addresses in hexadecimal.
fn show(number: u64) -> String {
    if number < 0x1000 { number.to_string() } else { format!("{number:#x}") }
}

/// Apart from the others, because it takes its handle by value.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuIpcOpenMemHandle_v2(
    address: *mut u64,
    handle: IpcHandle,
    flags: u32,
) -> Status {
    call("cuIpcOpenMemHandle_v2", format!("flags={flags}"), |state| {
        state.in_context()?;
        let imported = state.import(handle)?;
        // SAFETY: the caller of the driver's function vouches for the address.
        unsafe { *address = imported };
        Ok(())
    })
}

functions! {
    call cuInit(flags: u32) |state| { if devices() > 0 { Ok(()) } else { Err(NO_DEVICE) } }
    call cuDriverGetVersion(version: *mut c_int) |state| {
        *version = setting("HALOPORT_RECORDING_VERSION", 12_000);
        Ok(())
    }
    call cuDeviceGetCount(count: *mut c_int) |state| { *count = devices(); Ok(()) }
    call cuDeviceGet(handle: *mut c_int, ordinal: c_int) |state| { *handle = ordinal; device(ordinal) }
    call cuDeviceGetName(name: *mut c_char, length: c_int, of: c_int) |state| {
        let text = c"a recording";
        name.copy_from_nonoverlapping(text.as_ptr(), text.count_bytes() + 1);
        device(of)
    }
    call cuDeviceTotalMem_v2(bytes: *mut usize, of: c_int) |state| { *bytes = MEMORY_BYTES; device(of) }
    call cuDeviceGetAttribute(value: *mut c_int, attribute: u32, of: c_int) |state| {
        *value = match attribute {
            16 => 4, // multiprocessors
            75 | 76 => 9, // compute capability
            78 | 89 | 115 => 1, // priorities of streams, shared memory, pools
            _ => 0,
        };
        device(of)
    }
    call cuDevicePrimaryCtxRetain(context: *mut usize, of: c_int) |state| {
        device(of)?;
        let known = state.objects.iter_mut().find_map(|(handle, object)| match object {
            Object::Context { device, retained } if *device == of => Some((*handle, retained)),
            _ => None,
        });
        *context = match known {
            Some((handle, retained)) => {
                *retained += 1;
                handle
            }
            None => state.make(Object::Context { device: of, retained: 1 }),
        };
        Ok(())
    }
    give_back cuDevicePrimaryCtxRelease_v2(of: c_int) |state| {
        let known = state.objects.iter_mut().find_map(|(handle, object)| match object {
            Object::Context { device, retained } if *device == of => {
                *retained -= 1;
                Some((*handle, *retained))
            }
            _ => None,
        });
        match known {
            Some((handle, 0)) => state.destroy(handle, "context"),
            Some(_) => Ok(()),
            None => Err(INVALID_DEVICE),
        }
    }
    call cuCtxGetCurrent(context: *mut usize) |state| { *context = current(); Ok(()) }
    call cuCtxPushCurrent_v2(context: usize) |state| {
        if !matches!(state.objects.get(&context), Some(Object::Context { .. })) {
            return Err(INVALID_HANDLE);
        }
        CONTEXTS.with_borrow_mut(|contexts| contexts.push(context));
        Ok(())
    }
    give_back cuCtxPopCurrent_v2(context: *mut usize) |state| {
        *context = CONTEXTS.with_borrow_mut(Vec::pop).unwrap_or(0);
        Ok(())
    }
    call cuCtxSynchronize() |state| {
        state.outside_of_captures()
    }
    call cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) |state| {
        state.in_context()?;
        (*least, *greatest) = (0, -5);
        Ok(())
    }
    call cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: c_int) |state| {
        let context = state.in_context()?;
        *stream = state.make(Object::Stream { context });
        Ok(())
    }
    give_back cuStreamDestroy_v2(stream: usize) |state| {
        state.captures.remove(&stream);
        state.destroy(stream, "stream")
    }
    call cuStreamSynchronize(stream: usize) |state| {
        state.stream(stream)?;
        state.outside_of_captures()
    }
    call cuStreamWaitEvent(stream: usize, event: usize, flags: u32) |state| { state.wait_for_event(stream, event) }
    call cuStreamGetCtx(stream: usize, context: *mut usize) |state| {
        match state.objects.get(&stream) {
            Some(Object::Stream { context: of, .. }) => *context = *of,
            _ => return Err(INVALID_HANDLE),
        }
        Ok(())
    }
    call cuStreamWaitValue32_v2(stream: usize, address: u64, value: u32, flags: u32) |state| {
        takes_numbers(state, stream)?;
        state.holds(address, 4)?;
        state.put(stream, Vec::new())
    }
    call cuStreamWriteValue32_v2(stream: usize, address: u64, value: u32, flags: u32) |state| {
        takes_numbers(state, stream)?;
        state.put(stream, vec![Work::Number { target: address, number: value }])
    }
    call cuEventCreate(event: *mut usize, flags: u32) |state| {
        state.in_context()?;
        *event = state.make(Object::Event { timing: flags & 2 == 0, recorded: false, captured: None });
        Ok(())
    }
    give_back cuEventDestroy_v2(event: usize) |state| { state.destroy(event, "event") }
    call cuEventRecord(event: usize, stream: usize) |state| { state.record_event(event, stream) }
    call cuEventQuery(event: usize) |state| { state.ask_for_event(event) }
    call cuEventSynchronize(event: usize) |state| { state.ask_for_event(event) }
    call cuEventElapsedTime(milliseconds: *mut f32, begin: usize, end: usize) |state| {
        for event in [begin, end] {
            if !matches!(state.event(event)?, (true, true)) {
                return Err(INVALID_HANDLE);
            }
        }
        *milliseconds = 1.0;
        Ok(())
    }
    call cuMemAlloc_v2(address: *mut u64, bytes: usize) |state| {
        state.outside_of_captures()?;
        if bytes > MEMORY_BYTES {
            return Err(OUT_OF_MEMORY);
        }
        *address = state.allocate(bytes, "cuMemFree")? as u64;
        Ok(())
    }
    call cuMemAllocManaged(address: *mut u64, bytes: usize, flags: u32) |state| {
        state.outside_of_captures()?;
        *address = state.allocate(bytes, "cuMemFree")? as u64;
        if let Some(block) = state.blocks.get_mut(&(*address as usize)) {
            block.managed = true;
        }
        Ok(())
    }
    call cuPointerGetAttributes(count: u32, attributes: *const u32, values: *mut *mut u64, address: u64) |state| {
        for number in 0..count as usize {
            let value: *mut u64 = values.add(number).read();
            value.write(state.attribute(attributes.add(number).read(), address));
        }
        Ok(())
    }
    call cuMemHostAlloc(address: *mut usize, bytes: usize, flags: u32) |state| {
        state.outside_of_captures()?;
        *address = state.allocate(bytes, "cuMemFreeHost")?;
        Ok(())
    }
    call cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize) |state| {
        state.stream(stream)?;
        *address = state.allocate(bytes, "cuMemFreeAsync")? as u64;
        Ok(())
    }
    call cuIpcGetMemHandle(handle: *mut IpcHandle, address: u64) |state| {
        state.in_context()?;
        *handle = state.export(address)?;
        Ok(())
    }
    give_back cuIpcCloseMemHandle(address: u64) |state| { state.free(address as usize, "cuIpcCloseMemHandle") }
    call cuDeviceCanAccessPeer(can: *mut c_int, of: c_int, peer: c_int) |state| {
        device(of)?;
        device(peer)?;
        *can = c_int::from(of != peer && setting("HALOPORT_RECORDING_PEERS", 1) != 0);
        Ok(())
    }
    call cuCtxEnablePeerAccess(peer: usize, flags: u32) |state| {
        let own = state.in_context()?;
        match state.objects.get(&peer) {
            Some(Object::Context { .. }) if peer != own => Ok(()),
            _ => Err(INVALID_CONTEXT),
        }
    }
    give_back cuMemFree_v2(address: u64) |state| { state.free(address as usize, "cuMemFree") }
    give_back cuMemFreeHost(address: usize) |state| { state.free(address, "cuMemFreeHost") }
    give_back cuMemFreeAsync(address: u64, stream: usize) |state| { state.free(address as usize, "cuMemFreeAsync") }
    call cuMemcpyAsync(target: u64, source: u64, bytes: usize, stream: usize) |state| {
        state.put(stream, vec![Work::Copy { source, target, bytes }])
    }
    call cuMemcpy2DAsync_v2(copy: *const Copy2D, stream: usize) |state| {
        let Copy2D { source, target, row_bytes, rows } = copy.read();
        state.put(stream, copy_planes(&source.planes(rows), &target.planes(rows), [row_bytes, rows, 1])?)
    }
    call cuMemcpy3DAsync_v2(copy: *const Copy3D, stream: usize) |state| {
        let Copy3D { source, target, row_bytes, rows, planes } = copy.read();
        state.put(stream, copy_planes(&source, &target, [row_bytes, rows, planes])?)
    }
    call cuMemsetD8Async(target: u64, value: u8, count: usize, stream: usize) |state| {
        state.put(stream, fill(target, &value.to_ne_bytes(), count)?)
    }
    call cuMemsetD16Async(target: u64, value: u16, count: usize, stream: usize) |state| {
        state.put(stream, fill(target, &value.to_ne_bytes(), count)?)
    }
    call cuMemsetD32Async(target: u64, value: u32, count: usize, stream: usize) |state| {
        state.put(stream, fill(target, &value.to_ne_bytes(), count)?)
    }
    call cuModuleLoadDataEx(
        module: *mut usize, image: *const c_char, count: u32, options: *mut u32, values: *mut *mut c_void,
    ) |state| {
        state.in_context()?;
        let text = CStr::from_ptr(image).to_string_lossy().into_owned();
        *module = state.make(Object::Module { text });
        Ok(())
    }
    give_back cuModuleUnload(module: usize) |state| {
        state.objects.retain(|_, object| !matches!(object, Object::Function { module: of, .. } if *of == module));
        state.destroy(module, "module")
    }
    call cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) |state| {
        state.in_context()?;
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        match state.objects.get(&module) {
            Some(Object::Module { text }) if text.contains(&format!(" void {name}(")) => {}
            Some(_) => return Err(NOT_FOUND),
            None => return Err(INVALID_HANDLE),
        }
        *function = state.make(Object::Function { module, name });
        Ok(())
    }
    call cuStreamBeginCapture_v2(stream: usize, mode: u32) |state| {
        state.in_context()?;
        state.begin_capture(stream)
    }
    give_back cuStreamEndCapture(stream: usize, graph: *mut usize) |state| {
        let work = state.end_capture(stream)?;
        *graph = state.make(Object::Graph { work });
        Ok(())
    }
    call cuGraphInstantiateWithFlags(ready: *mut usize, graph: usize, flags: u64) |state| {
        let Some(Object::Graph { work }) = state.objects.get(&graph) else { return Err(INVALID_HANDLE) };
        let work = work.clone();
        *ready = state.make(Object::ReadyGraph { work });
        Ok(())
    }
    call cuGraphLaunch(graph: usize, stream: usize) |state| {
        state.stream(stream)?;
        match state.objects.get(&graph) {
            Some(Object::ReadyGraph { work }) => state.perform(work),
            _ => Err(INVALID_HANDLE),
        }
    }
    give_back cuGraphDestroy(graph: usize) |state| { state.destroy(graph, "graph") }
    give_back cuGraphExecDestroy(graph: usize) |state| { state.destroy(graph, "ready graph") }
    call cuFuncGetAttribute(value: *mut c_int, attribute: u32, function: usize) |state| {
        *value = 1024;
        Ok(())
    }
}

/// Checks that a stream may write and wait for numbers: some drivers refuse that in streams that capture.
fn takes_numbers(state: &mut State, stream: usize) -> Result<(), Status> {
    let takes = setting("HALOPORT_RECORDING_NUMBERS", 1) != 0 || state.capture_of(stream).is_none();
    if takes { Ok(()) } else { Err(CAPTURE_UNSUPPORTED) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuLaunchKernel(
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
    _extra: *mut *mut c_void,
) -> Status {
    let mut state = state();
    let name = match state.objects.get(&function) {
        Some(Object::Function { name, .. }) => name.clone(),
        _ => return INVALID_HANDLE,
    };
    let grid = format!("{x}x{y}x{z} of {threads_x}x{threads_y}x{threads_z}");
    let arguments = format!("kernel={name} grid={grid} stream={}", show(stream as u64));
    let empty = [x, y, z, threads_x, threads_y, threads_z].contains(&0) || memory > 0 || places.is_null();
    let fits = || if empty { Err(INVALID_VALUE) } else { Ok(()) };
    status(
        state
            .record("cuLaunchKernel", &arguments)
            .and_then(|()| fits())
            // SAFETY: it changes no memory.
            .and_then(|()| unsafe { state.put(stream, Vec::new()) }),
    )
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuStreamAddCallback(
    stream: usize,
    callback: Option<unsafe extern "C" fn(usize, Status, *mut c_void)>,
    with: *mut c_void,
    _flags: u32,
) -> Status {
    let status =
        call("cuStreamAddCallback", format!("stream={}", show(stream as u64)), |state| state.stream(stream));
    if let (SUCCESS, Some(callback)) = (status, callback) {
        // SAFETY: the caller's promise; the work before is done.
        unsafe { callback(stream, SUCCESS, with) };
    }
    status
}
