//! NVRTC, CUDA's run-time compiler.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::OnceLock;

use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};
use haloport_core::device::dialect::CUDA_OPTIONS;
use haloport_core::device::{DeviceError, DeviceId};

use crate::driver::functions::{ANY, version_text};
use crate::driver::library::{file_of, functions, load};

/// A program in CUDA C++ to be compiled for a compute capability.
pub(crate) struct Request<'a> {
    /// For error messages.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// 10 times the major number plus the minor.
    pub(crate) capability: c_int,
    pub(crate) device: DeviceId,
}

functions! {
    /// The functions of NVRTC that the backend calls.
    Nvrtc of cudarc::nvrtc::sys;
    checked {
        nvrtcVersion(*mut c_int, *mut c_int) -> nvrtcResult;
        nvrtcGetNumSupportedArchs(*mut c_int) -> nvrtcResult;
        nvrtcGetSupportedArchs(*mut c_int) -> nvrtcResult;
        nvrtcCreateProgram(
            *mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
        ) -> nvrtcResult;
        nvrtcDestroyProgram(*mut nvrtcProgram) -> nvrtcResult;
        nvrtcCompileProgram(nvrtcProgram, c_int, *const *const c_char) -> nvrtcResult;
        nvrtcGetCUBINSize(nvrtcProgram, *mut usize) -> nvrtcResult;
        nvrtcGetCUBIN(nvrtcProgram, *mut c_char) -> nvrtcResult;
        nvrtcGetPTXSize(nvrtcProgram, *mut usize) -> nvrtcResult;
        nvrtcGetPTX(nvrtcProgram, *mut c_char) -> nvrtcResult;
        nvrtcGetProgramLogSize(nvrtcProgram, *mut usize) -> nvrtcResult;
        nvrtcGetProgramLog(nvrtcProgram, *mut c_char) -> nvrtcResult;
    }
    own {
        nvrtcGetErrorString(u32) -> *const c_char;
    }
    optional {}
}

/// The loaded compiler.
pub(crate) struct Compiler {
    nvrtc: Nvrtc,
    /// Name and version, such as `NVRTC 12.9`.
    pub(crate) version: String,
    /// The same with the file, for the kernel cache: NVRTC does not tell its patch level.
    pub(crate) identity: String,
    major: c_int,
    /// The compute capabilities that it knows: 10 times the major number plus the minor, lowest first.
    known: Vec<c_int>,
}

/// The form that a program is compiled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The machine code of this compute capability.
    Machine(c_int),
    /// PTX for this one. The driver compiles it for a device that is newer than the compiler.
    Ptx(c_int),
}

/// The compiler, loaded once per process. Of several compilers, the one that suits a driver of CUDA `driver_major`
/// best.
pub(crate) fn compiler(driver_major: c_int) -> Result<&'static Compiler, DeviceError> {
    static COMPILER: OnceLock<Result<Compiler, DeviceError>> = OnceLock::new();
    COMPILER.get_or_init(|| Compiler::new(driver_major)).as_ref().map_err(Clone::clone)
}

impl Compiler {
    fn new(driver_major: c_int) -> Result<Compiler, DeviceError> {
        const ADVICE: &str = "install the package libnvrtc of a CUDA toolkit of the driver's version (or the Python \
                              package nvidia-cuda-nvrtc); if the loader does not find the file, name it in \
                              HALOPORT_NVRTC";
        let not_found = |what: &str, looked_for| DeviceError::NotFound {
            what: what.into(),
            looked_for,
            advice: ADVICE.into(),
        };
        let what = "NVRTC, the run-time compiler of CUDA,";
        let library = load(&names(driver_major)).map_err(|looked_for| not_found(what, looked_for))?;
        let nvrtc = Nvrtc::load(library)
            .map_err(|symbol| not_found(what, format!("a library with the function {symbol}")))?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the calls write to local variables, and as many capabilities as the second call returns.
        let known = unsafe {
            nvrtc.checked("nvrtcVersion", (nvrtc.nvrtcVersion)(&raw mut major, &raw mut minor))?;
            nvrtc.checked("nvrtcGetNumSupportedArchs", (nvrtc.nvrtcGetNumSupportedArchs)(&raw mut count))?;
            let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
            nvrtc.checked("nvrtcGetSupportedArchs", (nvrtc.nvrtcGetSupportedArchs)(known.as_mut_ptr()))?;
            known
        };
        let version = format!("NVRTC {major}.{minor}");
        let file = file_of(nvrtc.nvrtcVersion as *const ()).map(|file| format!(", {file}"));
        let identity = version.clone() + &file.unwrap_or_default();
        Ok(Compiler { nvrtc, version, identity, major, known })
    }

    /// Why a driver of CUDA `driver_version` may refuse what this compiler makes; `None` if there is no such reason.
    pub(crate) fn mismatch(&self, driver_version: c_int) -> Option<String> {
        let driver_major = driver_version / 1000;
        (self.major > driver_major).then(|| {
            format!(
                "it was compiled by {}, which is newer than the driver, of CUDA {}: install NVRTC {driver_major} (the \
                 package libnvrtc of a toolkit of CUDA {driver_major}, or nvidia-cuda-nvrtc-cu{driver_major} for \
                 Python), or a driver for CUDA {}",
                self.version,
                version_text(driver_version),
                self.major
            )
        })
    }

    /// The options for the compute capability of a request.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] if the capability is older than all that the compiler knows.
    pub(crate) fn options(&self, request: &Request<'_>) -> Result<Vec<String>, DeviceError> {
        let architecture = match self.target(request)? {
            Target::Machine(capability) => format!("--gpu-architecture=sm_{capability}"),
            Target::Ptx(capability) => format!("--gpu-architecture=compute_{capability}"),
        };
        Ok(CUDA_OPTIONS.iter().map(ToString::to_string).chain([architecture]).collect())
    }

    /// Compiles a program to an image that the driver loads: a cubin, or PTX that ends with a zero byte.
    pub(crate) fn compile(&self, request: &Request<'_>) -> Result<Vec<u8>, DeviceError> {
        let wrong =
            |log: String| DeviceError::Compile { kernel: request.name.into(), device: request.device, log };
        let in_c =
            |text: &str| CString::new(text).map_err(|_| wrong("expected a text without zero bytes".into()));
        let (text, name) = (in_c(request.text)?, in_c(request.name)?);
        let options =
            self.options(request)?.iter().map(|option| in_c(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();

        let mut program = NvrtcProgram { nvrtc: &self.nvrtc, raw: ptr::null_mut() };
        let (no_count, none) = (0, ptr::null());
        let nvrtc = &self.nvrtc;
        // SAFETY: the texts end with a zero and outlive the program; the number of options is that of the list.
        let status = unsafe {
            let create = nvrtc.nvrtcCreateProgram;
            let status = create(&raw mut program.raw, text.as_ptr(), name.as_ptr(), no_count, none, none);
            nvrtc.checked("nvrtcCreateProgram", status)?;
            (nvrtc.nvrtcCompileProgram)(program.raw, options.len() as c_int, options.as_ptr())
        };
        if status != 0 {
            let (size, content) = (nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog);
            let log = program.output(size, content, "nvrtcGetProgramLog").unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            return Err(wrong(format!("{}\n{}", nvrtc.text(status), log.trim_matches(['\0', '\n', ' ']))));
        }
        match self.target(request)? {
            Target::Machine(_) => {
                program.output(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, "nvrtcGetCUBIN")
            }
            Target::Ptx(_) => program.output(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, "nvrtcGetPTX"),
        }
    }

    fn target(&self, request: &Request<'_>) -> Result<Target, DeviceError> {
        if self.known.contains(&request.capability) {
            return Ok(Target::Machine(request.capability));
        }
        let below = self.known.iter().filter(|known| **known < request.capability).max();
        below.map(|known| Target::Ptx(*known)).ok_or_else(|| DeviceError::Compile {
            kernel: request.name.into(),
            device: request.device,
            log: format!(
                "the device has compute capability {}, and {} knows only {:?}: an older CUDA toolkit compiles for it",
                request.capability, self.version, self.known
            ),
        })
    }
}

/// A program of NVRTC, destroyed on drop.
struct NvrtcProgram<'a> {
    nvrtc: &'a Nvrtc,
    raw: nvrtcProgram,
}

impl NvrtcProgram<'_> {
    /// The output of the function `content`, whose length the function `size` returns.
    fn output(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> u32,
        content: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> u32,
        call: &'static str,
    ) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = 0;
        // SAFETY: the program is live, and the second call writes as many bytes as the first returns.
        unsafe {
            self.nvrtc.checked(call, size(self.raw, &raw mut bytes))?;
            let mut output = vec![0u8; bytes];
            self.nvrtc.checked(call, content(self.raw, output.as_mut_ptr().cast()))?;
            Ok(output)
        }
    }
}

impl Drop for NvrtcProgram<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the program is live and destroyed once. An error needs no action.
            unsafe { (self.nvrtc.nvrtcDestroyProgram)(&raw mut self.raw) };
        }
    }
}

impl Nvrtc {
    fn checked(&self, call: &'static str, status: u32) -> Result<(), DeviceError> {
        match status {
            0 => Ok(()),
            _ => Err(DeviceError::Driver { call, device: ANY, message: self.text(status) }),
        }
    }

    fn text(&self, status: u32) -> String {
        // SAFETY: for every number, the function returns a static C string or null.
        let text = unsafe {
            let text = (self.nvrtcGetErrorString)(status);
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        text.map_or_else(|| format!("error {status}"), |text| text.to_string_lossy().into_owned())
    }
}

/// The names under which the compiler is looked for: those of the user, then those that the loader finds, then those in
/// the folder of a toolkit. A driver loads the output of a compiler of its own major version or an earlier one, so the
/// driver's version comes first.
fn names(driver_major: c_int) -> Vec<String> {
    let named = std::env::var("HALOPORT_NVRTC").unwrap_or_default();
    let mut names: Vec<String> =
        named.split(':').filter(|name| !name.is_empty()).map(str::to_string).collect();
    let mut majors = [13, 12];
    majors.sort_by_key(|major| (*major > driver_major, -*major));
    if cfg!(windows) {
        names.extend(majors.map(|major| format!("nvrtc64_{major}0_0.dll")));
        return names;
    }
    names.extend(majors.map(|major| format!("libnvrtc.so.{major}")));
    names.push("libnvrtc.so".into());
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(|name| std::env::var(name).ok());
    names.extend(toolkits.chain(["/usr/local/cuda".into()]).map(|folder| folder + "/lib64/libnvrtc.so"));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_of_the_drivers_version_comes_first() {
        let first = |major| {
            let names = names(major);
            names.into_iter().find(|name| name.starts_with("libnvrtc.so.")).unwrap()
        };
        assert_eq!([12, 13, 14].map(first), ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.13"]);
    }

    #[test]
    fn devices_that_the_compiler_does_not_know_take_ptx_if_they_are_newer() {
        let Ok(compiler) = compiler(13) else {
            eprintln!("skipped: no NVRTC");
            return;
        };
        let request = |capability| Request {
            name: "f",
            text: "extern \"C\" __global__ void f(int *x) { *x = 1; }",
            capability,
            device: ANY,
        };
        let newest = *compiler.known.last().unwrap();
        assert!(compiler.compile(&request(newest)).unwrap().starts_with(b"\x7fELF"));
        let ptx = compiler.compile(&request(newest + 70)).unwrap();
        assert!(String::from_utf8_lossy(&ptx).contains(&format!(".target sm_{newest}")));
        let error = compiler.compile(&request(20)).unwrap_err().to_string();
        assert!(error.contains("an older CUDA toolkit compiles for it"), "{error}");
        let error =
            compiler.compile(&Request { text: "nothing", ..request(newest) }).unwrap_err().to_string();
        assert!(error.contains("nothing"), "{error}");
    }
}
