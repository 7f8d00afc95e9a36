//! Programs and their kernels.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the driver's functions of these names"
)]
#![allow(clippy::too_many_arguments, reason = "the functions are the driver's")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use haloport_cuda_ptx::{Grid, Kernel, kernels};

use crate::api::{call, functions, show};
use crate::objects::{Module, Object};
use crate::settings::{Fault, settings};
use crate::status::{INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NOT_FOUND, Status};
use crate::work::job::Work;

/// `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
const LOG: [u32; 2] = [5, 6];

/// The most blocks of a grid along each axis, and the most threads of a block.
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const MOST_THREADS: [u32; 3] = [1024, 1024, 64];

functions! {
    call cuModuleLoadDataEx(
        module: *mut usize, image: *const c_char, count: u32, options: *mut u32, values: *mut *mut c_void,
    ) |state| {
        state.outside_of_captures()?;
        let context = state.in_context()?.handle;
        let text = CStr::from_ptr(image).to_string_lossy();
        let loaded = match load(&text) {
            Ok(loaded) => loaded,
            Err(why) => {
                write_log(&why, count, options, values);
                return Err(INVALID_PTX);
            }
        };
        *module = state.make(Object::Module { module: Arc::new(loaded), context });
        Ok(())
    }
    give_back cuModuleUnload(module: usize) |state| {
        state.objects.retain(|_, object| !matches!(object, Object::Function { module: of, .. } if *of == module));
        state.destroy(module, "module")
    }
    call cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) |state| {
        state.in_context()?;
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        let Some(Object::Module { module: loaded, context }) = state.objects.get(&module) else {
            return Err(INVALID_HANDLE);
        };
        let mut later = state.objects.range(module..);
        let known = later.find(|(_, object)| {
            matches!(object, Object::Function { module: of, name: known, .. } if *of == module && *known == name)
        });
        if let Some((known, _)) = known {
            *function = *known;
            return Ok(());
        }
        let kernel = match &**loaded {
            Module::Source(text) if text.contains(&format!(" void {name}(")) => None,
            Module::Source(_) => return Err(NOT_FOUND),
            Module::Kernels(kernels) => {
                Some(Arc::clone(kernels.iter().find(|kernel| kernel.name() == name).ok_or(NOT_FOUND)?))
            }
        };
        let context = *context;
        *function = state.make(Object::Function { module, context, name, kernel });
        Ok(())
    }
    call cuFuncLoad(function: usize) |state| {
        state.outside_of_captures()?;
        match state.objects.get(&function) {
            Some(Object::Function { .. }) => Ok(()),
            _ => Err(INVALID_HANDLE),
        }
    }
    call cuFuncGetAttribute(value: *mut c_int, attribute: u32, function: usize) |state| {
        let most_threads_per_block = 0;
        let Some(Object::Function { kernel, .. }) = state.objects.get(&function) else { return Err(INVALID_HANDLE) };
        let most = kernel.as_ref().map_or(MOST_THREADS[0], |kernel| kernel.most_threads());
        *value = if attribute == most_threads_per_block { most as c_int } else { 0 };
        Ok(())
    }
}

/// The address of the parameters of a launch.
type Places = *mut *mut c_void;

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
    places: Places,
    _extra: Places,
) -> Status {
    let found = crate::state::state().objects.get(&function).cloned();
    let Some(Object::Function { context, name, kernel, .. }) = found else { return INVALID_HANDLE };
    let grid = Grid { blocks: [x, y, z], threads: [threads_x, threads_y, threads_z] };
    let arguments = || {
        let grid = format!("{x}x{y}x{z} of {threads_x}x{threads_y}x{threads_z}");
        format!("kernel={name} grid={grid} stream={}", show(stream as u64))
    };
    call("cuLaunchKernel", arguments, |state| {
        if state.stream(stream)?.lane.context.handle != context {
            return Err(INVALID_HANDLE);
        }
        let most = kernel.as_ref().map_or(MOST_THREADS[0], |kernel| kernel.most_threads());
        if !fits(grid, most) || memory > 0 || places.is_null() {
            return Err(INVALID_VALUE);
        }
        let work = match kernel {
            None => Work::Nothing,
            Some(kernel) => {
                // SAFETY: the caller of the driver's function vouches for the parameters.
                let parameters = unsafe { read_parameters(&kernel, places) }.into();
                Work::Kernel { kernel, parameters, grid }
            }
        };
        state.put(stream, work)?;
        if settings().blocks_launches && !state.is_captured(stream) { state.wait_for(stream) } else { Ok(()) }
    })
}

/// Loads PTX. Texts with functions of C are sources that the driver's own compiler has returned: their kernels do nothing.
fn load(text: &str) -> Result<Module, String> {
    let [compiler, version] = [settings().compiler, settings().version].map(|version| version / 1000);
    if compiler > version {
        return Err(format!("the PTX is of CUDA {compiler}, and the driver of CUDA {version}"));
    }
    if !text.lines().any(|line| line.starts_with(".version")) {
        let is_source = text.contains(" void ");
        return if is_source {
            Ok(Module::Source(text.into()))
        } else {
            Err("expected PTX, found none".into())
        };
    }
    let text = if settings().has(Fault::Axis) { backwards(text) } else { text.into() };
    let kernels = kernels(&text).map_err(|refused| refused.to_string())?;
    Ok(Module::Kernels(kernels.into_iter().map(Arc::new).collect()))
}

/// The same kernels, but the distances that `copy_words` computes from an index and a stride point backwards: products of two
/// registers, while those of a register and a number are addresses in tables.
fn backwards(text: &str) -> String {
    let Some(begin) = text.find("copy_words(") else { return text.into() };
    let (before, kernel) = text.split_at(begin);
    let turned = |line: &str| {
        let operands =
            line.trim().strip_prefix("mul.lo.s64")?.trim_end_matches(';').split(',').map(str::trim);
        match operands.collect::<Vec<_>>()[..] {
            [target, _, factor] if factor.starts_with('%') => {
                Some(format!("{line}\n\tneg.s64 {target}, {target};"))
            }
            _ => None,
        }
    };
    let lines = kernel.lines().map(|line| turned(line).unwrap_or_else(|| line.into()));
    format!("{before}{}\n", lines.collect::<Vec<_>>().join("\n"))
}

fn fits(grid: Grid, most_threads: u32) -> bool {
    let within = |of: [u32; 3], most: [u32; 3]| of.iter().zip(most).all(|(n, most)| (1..=most).contains(n));
    let threads: u64 = grid.threads.iter().map(|n| u64::from(*n)).product();
    within(grid.blocks, MOST_BLOCKS)
        && within(grid.threads, MOST_THREADS)
        && threads <= u64::from(most_threads)
}

/// The parameters of a launch, laid out as the kernel says.
///
/// # Safety
/// `places` holds the address of each parameter.
unsafe fn read_parameters(kernel: &Kernel, places: Places) -> Vec<u8> {
    let mut parameters = vec![0; kernel.parameter_bytes()];
    for (number, parameter) in kernel.parameters().iter().enumerate() {
        let to = &mut parameters[parameter.offset..parameter.offset + parameter.bytes];
        // SAFETY: the caller's promise.
        let from = unsafe { places.add(number).read().cast::<u8>() };
        // SAFETY: the caller's promise; the range has that length.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
    }
    parameters
}

/// Writes a message where the options say, cut off if it is too long.
///
/// # Safety
/// There are this many options and values; the log of the options has the length that they say.
unsafe fn write_log(why: &str, count: u32, options: *mut u32, values: *mut *mut c_void) {
    // SAFETY: the caller's promise.
    let all = (0..count as usize).map(|at| unsafe { (options.add(at).read(), values.add(at).read()) });
    let all: Vec<(u32, *mut c_void)> = all.collect();
    let value = |option: u32| all.iter().find(|(of, _)| *of == option).map(|(_, value)| *value);
    if let [Some(log), Some(length)] = LOG.map(value) {
        let bytes = why.len().min(length.addr().saturating_sub(1));
        // SAFETY: the caller's promise.
        unsafe {
            log.cast::<u8>().copy_from_nonoverlapping(why.as_ptr(), bytes);
            log.cast::<u8>().add(bytes).write(0);
        }
    }
}
