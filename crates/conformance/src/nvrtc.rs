//! CUDA's run-time compiler, to see whether it takes kernels of the portable dialect; no GPU is needed.
//!
//! `HALOPORT_NVRTC` names its library (several with `:` between them); `scripts/opencl --install` gets it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use haloport_core::device::dialect::{CUDA_OPTIONS, cuda};
use libloading::{Library, Symbol};

type Program = *mut c_void;
type Status = c_int;

/// Compiles every source, with its name, with every compiler that `HALOPORT_NVRTC` names. Says how many there were, and
/// says so where none is named. Warnings are errors.
///
/// # Errors
/// The compiler's log of the first source that it refuses, and a library that cannot be loaded.
pub fn compile_all(sources: &[(&str, &str)]) -> Result<(), String> {
    let Ok(paths) = std::env::var("HALOPORT_NVRTC") else {
        eprintln!("skipped: HALOPORT_NVRTC names no libnvrtc.so; scripts/opencl --install gets one");
        return Ok(());
    };
    for path in paths.split(':') {
        // SAFETY: loading the library runs nothing but its initialisers.
        let nvrtc = unsafe { Library::new(path) }.map_err(|error| format!("{path}: {error}"))?;
        for (name, source) in sources {
            compile(&nvrtc, &cuda(source))
                .map_err(|log| format!("`{name}` does not compile with {path}:\n{log}"))?;
        }
        if compile(&nvrtc, &cuda("KERNEL void wrong(GLOBAL nothing *x) {}")).is_ok() {
            return Err(format!("{path} compiles what is no program"));
        }
        eprintln!("{} kernels compiled with {path}", sources.len());
    }
    Ok(())
}

/// Compiles a program, or gives the compiler's log, with warnings too.
fn compile(nvrtc: &Library, source: &str) -> Result<(), String> {
    let in_c = |text: &str| CString::new(text).map_err(|error| error.to_string());
    let missing = |error: libloading::Error| error.to_string();
    let source = in_c(source)?;
    let options = CUDA_OPTIONS.into_iter().chain(["--gpu-architecture=compute_80"]).map(in_c);
    let options: Vec<CString> = options.collect::<Result<_, _>>()?;
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let no_names = std::ptr::null::<*const c_char>();
    // SAFETY: the symbols have the types of nvrtc.h; all strings and lists live until the calls have returned, and the
    // program is destroyed once, in the end.
    unsafe {
        let create: Symbol<
            unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> Status,
        > = nvrtc.get(b"nvrtcCreateProgram").map_err(missing)?;
        let build: Symbol<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status> =
            nvrtc.get(b"nvrtcCompileProgram").map_err(missing)?;
        let log_size: Symbol<unsafe extern "C" fn(Program, *mut usize) -> Status> =
            nvrtc.get(b"nvrtcGetProgramLogSize").map_err(missing)?;
        let log_text: Symbol<unsafe extern "C" fn(Program, *mut c_char) -> Status> =
            nvrtc.get(b"nvrtcGetProgramLog").map_err(missing)?;
        let destroy: Symbol<unsafe extern "C" fn(*mut Program) -> Status> =
            nvrtc.get(b"nvrtcDestroyProgram").map_err(missing)?;

        let mut program = std::ptr::null_mut();
        let made = create(&mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, no_names, no_names);
        if made != 0 {
            return Err(format!("nvrtcCreateProgram failed with {made}"));
        }
        let status = build(program, options.len() as c_int, options.as_ptr());
        let mut size = 0;
        log_size(program, &mut size);
        let mut log = vec![0u8; size.max(1)];
        log_text(program, log.as_mut_ptr().cast());
        destroy(&mut program);
        let log = CStr::from_bytes_until_nul(&log).map(|log| log.to_string_lossy().into_owned());
        let log = log.unwrap_or_default();
        if status == 0 && log.trim().is_empty() { Ok(()) } else { Err(log) }
    }
}
