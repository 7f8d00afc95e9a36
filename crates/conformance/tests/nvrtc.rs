//! All kernels of the portable dialect are compiled by CUDA's run-time compiler, for which no GPU is needed.
//!
//! `HALOPORT_NVRTC` names the library (several with `:` between them); `scripts/opencl --install` gets it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use haloport_conformance::device::kernel_sources;
use haloport_core::device::dialect::{COPIES, CUDA_OPTIONS, FILL, cuda};
use libloading::{Library, Symbol};

type Program = *mut c_void;
type Status = c_int;

#[test]
fn cudas_compiler_takes_every_kernel() {
    let Ok(paths) = std::env::var("HALOPORT_NVRTC") else {
        eprintln!("skipped: HALOPORT_NVRTC names no libnvrtc.so; scripts/opencl --install gets one");
        return;
    };
    for path in paths.split(':') {
        // SAFETY: loading the library runs nothing but its initialisers.
        let nvrtc = unsafe { Library::new(path) }.unwrap();
        let kernels = kernel_sources();
        let sources = kernels.iter().filter_map(|kernel| Some((kernel.name, kernel.portable?)));
        let mut compiled = 0;
        for (name, source) in sources.chain([("copies", COPIES), ("fill", FILL)]) {
            if let Err(log) = compile(&nvrtc, &cuda(source)) {
                panic!("`{name}` does not compile with {path}:\n{log}");
            }
            compiled += 1;
        }
        assert!(compiled > 18, "only {compiled} kernels were compiled");
        assert!(compile(&nvrtc, &cuda("KERNEL void wrong(GLOBAL nothing *x) {}")).is_err());
        eprintln!("{compiled} kernels compiled with {path}");
    }
}

/// Compiles a program, or gives the compiler's log, with warnings too.
fn compile(nvrtc: &Library, source: &str) -> Result<(), String> {
    let source = CString::new(source).unwrap();
    let options: Vec<CString> = CUDA_OPTIONS
        .into_iter()
        .chain(["--gpu-architecture=compute_80"])
        .map(|option| CString::new(option).unwrap())
        .collect();
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
        > = nvrtc.get(b"nvrtcCreateProgram").unwrap();
        let build: Symbol<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status> =
            nvrtc.get(b"nvrtcCompileProgram").unwrap();
        let log_size: Symbol<unsafe extern "C" fn(Program, *mut usize) -> Status> =
            nvrtc.get(b"nvrtcGetProgramLogSize").unwrap();
        let log_text: Symbol<unsafe extern "C" fn(Program, *mut c_char) -> Status> =
            nvrtc.get(b"nvrtcGetProgramLog").unwrap();
        let destroy: Symbol<unsafe extern "C" fn(*mut Program) -> Status> =
            nvrtc.get(b"nvrtcDestroyProgram").unwrap();

        let mut program = std::ptr::null_mut();
        assert_eq!(create(&mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, no_names, no_names), 0);
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
