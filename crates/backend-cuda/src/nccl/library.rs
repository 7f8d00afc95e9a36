//! NCCL, the library that moves messages between GPUs.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::sync::OnceLock;

use cudarc::nccl::sys::{cudaStream_t, ncclComm_t, ncclConfig_t, ncclDataType_t, ncclResult_t, ncclUniqueId};
use haloport_core::device::{DeviceError, DeviceId};

use crate::driver::functions::ANY;
use crate::driver::library::{functions, load};

/// The status of a call: a code of [`ncclResult_t`], or one that only a later library has.
pub(crate) type NcclStatus = u32;

pub(crate) const SUCCESS: NcclStatus = ncclResult_t::ncclSuccess as NcclStatus;
pub(crate) const IN_PROGRESS: NcclStatus = ncclResult_t::ncclInProgress as NcclStatus;

functions! {
    /// The functions of NCCL that the backend calls.
    Functions of cudarc::nccl::sys;
    checked {
        ncclGetVersion(*mut c_int) -> ncclResult_t;
        ncclGetUniqueId(*mut ncclUniqueId) -> ncclResult_t;
        ncclCommInitRankConfig(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t) -> ncclResult_t;
        ncclCommFinalize(ncclComm_t) -> ncclResult_t;
        ncclCommDestroy(ncclComm_t) -> ncclResult_t;
        ncclCommAbort(ncclComm_t) -> ncclResult_t;
        ncclGroupStart() -> ncclResult_t;
        ncclGroupEnd() -> ncclResult_t;
        ncclSend(*const c_void, usize, ncclDataType_t, c_int, ncclComm_t, cudaStream_t) -> ncclResult_t;
        ncclRecv(*mut c_void, usize, ncclDataType_t, c_int, ncclComm_t, cudaStream_t) -> ncclResult_t;
    }
    own {
        ncclCommGetAsyncError(ncclComm_t, *mut NcclStatus) -> NcclStatus;
        ncclGetErrorString(NcclStatus) -> *const c_char;
    }
    optional {}
}

/// The loaded library.
pub(crate) struct Nccl {
    functions: Functions,
    /// Its version, such as `2.27.5`.
    pub(crate) version: String,
}

/// The oldest supported version. Before, what a group of calls leaves behind lies in memory of its thread: another thread
/// cannot abort it safely, nor can its own thread make a second communicator (the release notes of 2.26.2 and 2.27.3).
const OLDEST: c_int = 22_703;

const ADVICE: &str = "install NCCL 2.27.3 or newer, for the CUDA of the driver (or the Python package nvidia-nccl-cu12 or \
                      nvidia-nccl-cu13); if the loader does not find the file, name it in HALOPORT_NCCL";

/// The library, loaded once per process.
pub(crate) fn nccl() -> Result<&'static Nccl, DeviceError> {
    static NCCL: OnceLock<Result<Nccl, DeviceError>> = OnceLock::new();
    NCCL.get_or_init(Nccl::new).as_ref().map_err(Clone::clone)
}

impl Nccl {
    fn new() -> Result<Nccl, DeviceError> {
        let not_found = |what: &str, looked_for| DeviceError::NotFound {
            what: what.into(),
            looked_for,
            advice: ADVICE.into(),
        };
        let what = "NCCL, NVIDIA's library for messages between GPUs,";
        let library = load(&names()).map_err(|looked_for| not_found(what, looked_for))?;
        let functions = Functions::load(library)
            .map_err(|symbol| not_found(what, format!("a library with the function {symbol}")))?;
        let mut nccl = Nccl { functions, version: String::new() };
        let mut version = 0;
        // SAFETY: the call writes to a local variable.
        let status = unsafe { (nccl.ncclGetVersion)(&raw mut version) };
        nccl.checked("ncclGetVersion", status, ANY)?;
        nccl.version = version_text(version);
        if version >= OLDEST {
            return Ok(nccl);
        }
        let found = format!("version {} or newer, and found {}", version_text(OLDEST), nccl.version);
        Err(not_found("an NCCL that is new enough", found))
    }

    /// Turns the status of a call into a result.
    pub(crate) fn checked(
        &self,
        call: &'static str,
        status: NcclStatus,
        device: DeviceId,
    ) -> Result<(), DeviceError> {
        if status == SUCCESS { Ok(()) } else { Err(self.failed(call, status, device)) }
    }

    /// The error of a failed call.
    #[cold]
    pub(crate) fn failed(&self, call: &'static str, status: NcclStatus, device: DeviceId) -> DeviceError {
        // Not `ncclGetLastError`: NCCL's threads write its text while it is read.
        // SAFETY: for every number, the function returns a static text or null.
        let name = unsafe {
            let text = (self.ncclGetErrorString)(status);
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        let message = format!(
            "{} (NCCL {}, error {status}); with NCCL_DEBUG=WARN, NCCL prints the reason",
            name.trim(),
            self.version
        );
        DeviceError::Driver { call, device, message }
    }
}

impl Deref for Nccl {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

/// The names under which the library is looked for: those of the user, then those that the loader finds, among them that
/// of a library which the process has loaded.
fn names() -> Vec<String> {
    let named = std::env::var("HALOPORT_NCCL").unwrap_or_default();
    let named = named.split(':').filter(|name| !name.is_empty()).map(str::to_string);
    named.chain(["libnccl.so.2".into(), "libnccl.so".into()]).collect()
}

/// The text of a version, which NCCL has as one number (`NCCL_VERSION` in `nccl.h`).
fn version_text(version: c_int) -> String {
    let thousands = if version < 10_000 { 1_000 } else { 10_000 };
    format!("{}.{}.{}", version / thousands, version % thousands / 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_nccl_writes_them() {
        assert_eq!(
            [2_708, 21_805, 22_200, 23_007].map(version_text),
            ["2.7.8", "2.18.5", "2.22.0", "2.30.7"]
        );
    }
}
