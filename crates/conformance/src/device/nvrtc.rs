//! CUDA's run-time compiler: what it makes of kernels of the portable dialect. No GPU is needed.
//!
//! `HALOPORT_NVRTC` names its library (several with `:` between them); `scripts/opencl --install` gets it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use haloport_core::device::dialect::{CUDA_OPTIONS, cuda};
use libloading::{Library, Symbol};

use crate::drawn;

type Program = *mut c_void;
type Status = c_int;

/// The compute capabilities to compile for, if the compiler knows them: Turing, Ampere, Hopper, Blackwell.
const CAPABILITIES: [c_int; 4] = [75, 80, 90, 100];

/// A compiler that `HALOPORT_NVRTC` names.
#[derive(Debug)]
pub struct Nvrtc {
    path: String,
    library: Library,
}

/// The target of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// PTX, as text, for this compute capability: 10 times the major number plus the minor.
    Ptx(c_int),
    /// Machine code for this compute capability, with a log of the resources of each function.
    Cubin(c_int),
}

/// A compiled program, and the log of the compiler.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// Machine code, or text without a zero at its end.
    pub code: Vec<u8>,
    /// Warnings; for machine code also the resources of each function.
    pub log: String,
}

/// The compilers that `HALOPORT_NVRTC` names; if it names none, prints that and returns none.
///
/// # Errors
/// The error of a library that cannot be loaded.
pub fn compilers() -> Result<Vec<Nvrtc>, String> {
    let Ok(paths) = std::env::var("HALOPORT_NVRTC") else {
        eprintln!("skipped: HALOPORT_NVRTC names no libnvrtc.so; scripts/opencl --install gets one");
        return Ok(Vec::new());
    };
    let open = |path: &str| {
        // SAFETY: loading the library runs nothing but its initialisers.
        let library = unsafe { Library::new(path) }.map_err(|error| format!("{path}: {error}"))?;
        Ok(Nvrtc { path: path.into(), library })
    };
    paths.split(':').map(open).collect()
}

impl Nvrtc {
    /// The path of the library.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Compiles a source in the portable dialect.
    ///
    /// # Errors
    /// The log of the compiler if it refuses the source.
    pub fn compile(&self, source: &str, target: Target) -> Result<Compiled, String> {
        compile(&self.library, &cuda(source), target)
    }
}

/// Compiles every source, given with its name, by every compiler that `HALOPORT_NVRTC` names, to machine code of compute
/// capabilities of a list from 7.5 to 10.0 that the compiler knows: one in the default set of tests ([`drawn`]). Prints the number of kernels, or that no
/// compiler is named. Warnings are errors, and so are spills of registers to memory.
///
/// # Errors
/// The log of the first source that a compiler refuses, or the error of a library that cannot be loaded.
pub fn compile_all(sources: &[(&str, &str)]) -> Result<(), String> {
    for compiler in compilers()? {
        let path = compiler.path();
        let known = known(&compiler.library)?;
        let capabilities = CAPABILITIES.into_iter().filter(|capability| known.contains(capability));
        let capabilities: Vec<c_int> = capabilities.collect();
        if capabilities.is_empty() {
            return Err(format!(
                "{path} knows none of the compute capabilities {CAPABILITIES:?}, but {known:?}"
            ));
        }
        let chosen = drawn(&capabilities);
        for (name, source) in sources {
            for capability in chosen {
                let made = compiler.compile(source, Target::Cubin(*capability));
                made.and_then(|made| without_spills(made.log)).map_err(|log| {
                    format!("`{name}` does not compile for sm_{capability} with {path}:\n{log}")
                })?;
            }
        }
        let wrong = "KERNEL void wrong(GLOBAL nothing *x) {}";
        if compiler.compile(wrong, Target::Cubin(capabilities[0])).is_ok() {
            return Err(format!("{path} compiles a program with an unknown type"));
        }
        eprintln!("{} kernels compiled for {chosen:?} with {path}, without spills", sources.len());
    }
    Ok(())
}

/// The compute capabilities that a compiler knows.
fn known(nvrtc: &Library) -> Result<Vec<c_int>, String> {
    let missing = |error: libloading::Error| error.to_string();
    // SAFETY: the symbols have the types of nvrtc.h, and write a number and as many as that says.
    unsafe {
        let count: Symbol<unsafe extern "C" fn(*mut c_int) -> Status> =
            nvrtc.get(b"nvrtcGetNumSupportedArchs").map_err(missing)?;
        let list: Symbol<unsafe extern "C" fn(*mut c_int) -> Status> =
            nvrtc.get(b"nvrtcGetSupportedArchs").map_err(missing)?;
        let mut number = 0;
        count(&mut number);
        let mut known = vec![0; number as usize];
        list(known.as_mut_ptr());
        Ok(known)
    }
}

/// Returns the log as an error if it has anything but properties of functions, or if those have spills.
fn without_spills(log: String) -> Result<(), String> {
    let spills = |line: &str| {
        // `288 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads`
        let numbers = line.split(',').filter(|part| part.contains("spill"));
        numbers.into_iter().any(|part| !part.trim().starts_with("0 bytes"))
    };
    let (told, properties): (Vec<&str>, Vec<&str>) = log
        .lines()
        .filter(|line| !line.trim().is_empty())
        .partition(|line| !(line.starts_with("ptxas info") || line.starts_with("ptxas   ")));
    let stacks = properties.iter().filter(|line| line.contains("spill stores")).count();
    if stacks == 0 || !told.is_empty() || properties.iter().any(|line| spills(line)) {
        Err(log)
    } else {
        Ok(())
    }
}

type CreateProgram = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Status;
type SizeOf = unsafe extern "C" fn(Program, *mut usize) -> Status;
type TextOf = unsafe extern "C" fn(Program, *mut c_char) -> Status;

/// Compiles a program in CUDA C++; the error is the compiler's log if it refuses the program.
fn compile(nvrtc: &Library, source: &str, target: Target) -> Result<Compiled, String> {
    let in_c = |text: &str| CString::new(text).map_err(|error| error.to_string());
    let missing = |error: libloading::Error| error.to_string();
    let source = in_c(source)?;
    // The assembler within the compiler logs the resources of each function.
    let more = match target {
        Target::Ptx(capability) => vec![format!("--gpu-architecture=compute_{capability}")],
        Target::Cubin(capability) => {
            vec![format!("--gpu-architecture=sm_{capability}"), "--ptxas-options=-v".into()]
        }
    };
    let options = CUDA_OPTIONS.into_iter().chain(more.iter().map(String::as_str)).map(in_c);
    let options: Vec<CString> = options.collect::<Result<_, _>>()?;
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let no_names = std::ptr::null::<*const c_char>();
    let (code_size, code_text): (&[u8], &[u8]) = match target {
        Target::Ptx(_) => (b"nvrtcGetPTXSize", b"nvrtcGetPTX"),
        Target::Cubin(_) => (b"nvrtcGetCUBINSize", b"nvrtcGetCUBIN"),
    };
    // SAFETY: the symbols have the types of nvrtc.h; all strings and lists live until the calls have returned, and the
    // program is destroyed once, in the end. Each text has the size that the compiler says.
    unsafe {
        let create: Symbol<CreateProgram> = nvrtc.get(b"nvrtcCreateProgram").map_err(missing)?;
        let build: Symbol<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status> =
            nvrtc.get(b"nvrtcCompileProgram").map_err(missing)?;
        let destroy: Symbol<unsafe extern "C" fn(*mut Program) -> Status> =
            nvrtc.get(b"nvrtcDestroyProgram").map_err(missing)?;
        let text_of = |program, size: &[u8], text: &[u8]| -> Result<Vec<u8>, String> {
            let size_of: Symbol<SizeOf> = nvrtc.get(size).map_err(missing)?;
            let text_of: Symbol<TextOf> = nvrtc.get(text).map_err(missing)?;
            let mut size = 0;
            size_of(program, &mut size);
            let mut bytes = vec![0u8; size];
            text_of(program, bytes.as_mut_ptr().cast());
            Ok(bytes)
        };

        let mut program = std::ptr::null_mut();
        let made = create(&mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, no_names, no_names);
        if made != 0 {
            return Err(format!("nvrtcCreateProgram failed with {made}"));
        }
        let status = build(program, options.len() as c_int, options.as_ptr());
        let log = text_of(program, b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog");
        let code = if status == 0 { text_of(program, code_size, code_text) } else { Ok(Vec::new()) };
        destroy(&mut program);
        let log = CStr::from_bytes_until_nul(&log?).map(|log| log.to_string_lossy().into_owned());
        let (log, mut code) = (log.unwrap_or_default(), code?);
        if status != 0 {
            return Err(log);
        }
        if matches!(target, Target::Ptx(_)) {
            code.pop();
        }
        Ok(Compiled { code, log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_and_warnings_are_found_in_a_log() {
        let log = |stores, more| {
            format!(
                "ptxas info    : Function properties for f\n\
                 ptxas         .     288 bytes stack frame, {stores} bytes spill stores, 0 bytes spill loads\n\
                 ptxas info    : Used 90 registers, used 0 barriers, 592 bytes cmem[0]\n{more}"
            )
        };
        without_spills(log(0, "")).unwrap();
        assert!(without_spills(log(8, "")).is_err());
        assert!(without_spills(log(10, "")).is_err());
        assert!(
            without_spills(log(
                0,
                "k.cu(3): warning #177-D: variable \"x\" was declared but never referenced"
            ))
            .is_err()
        );
        assert!(without_spills(String::new()).is_err(), "nothing was told");
    }
}
