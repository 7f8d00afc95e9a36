//! An MPI library that this process has loaded.

use std::ffi::{CStr, c_int, c_void};

use haloport_core::TransportError;
use libloading::Library;

use super::abi::{Abi, Constants, version};
use super::device_memory;
use super::handle::Handle;
use super::table::Functions;
use crate::error::failed;

/// An MPI library: its ABI and its functions.
pub(crate) struct Mpi {
    pub(super) functions: Functions,
    pub(super) constants: Constants,
    pub(crate) abi: Abi,
    /// The file that it was loaded from, as the system's loader names it.
    pub(crate) file: String,
    /// The first line of its version text.
    pub(crate) version: String,
    origin: Origin,
    library: Library,
}

/// How a library has come into the process.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// The program has it: it is linked to it, or has loaded it.
    Program,
    /// Haloport has loaded it, since the variable `HALOPORT_MPI` names it.
    Named,
    /// Haloport has loaded it, since the program has none that can be used: the texts say why.
    Searched(Vec<String>),
}

/// The advice if a program contains its MPI and does not show all functions of the MPI.
pub(super) const LINK: &str = "link the program with the shared library of MPI, or with `-rdynamic -Wl,--whole-archive`, \
                               the static library of MPI and `-Wl,--no-whole-archive`, which make all its functions visible";

/// Whether MPI is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MpiState {
    NotInitialized,
    Running,
    Finalized,
}

impl Mpi {
    /// Finds everything that Haloport calls; the error says what the library is, or which symbol it lacks.
    pub(super) fn load(library: Library) -> Result<Mpi, String> {
        let no_mpi = |symbol| format!("it is no MPI library: it lacks {symbol}");
        let version = version(&library).ok_or_else(|| no_mpi("MPI_Get_library_version"))?;
        let file = file_of(&library, c"MPI_Comm_dup").ok_or_else(|| no_mpi("MPI_Comm_dup"))?;
        let abi = Abi::of(&library, &version)?;
        let lacks = |symbol| format!("{version} in {file} lacks {symbol}");
        let constants = abi.constants(&library).map_err(lacks)?;
        let functions = Functions::load(&library, abi).map_err(lacks)?;
        Ok(Mpi { functions, constants, abi, file, version, origin: Origin::Program, library })
    }

    /// The same library with this origin.
    pub(super) fn with_origin(self, origin: Origin) -> Mpi {
        Mpi { origin, ..self }
    }

    /// Leaves the library loaded until the process ends: one that is unloaded may leave threads behind, and functions to call
    /// at exit.
    pub(super) fn stay_loaded(self) {
        std::mem::forget(self.library);
    }

    /// Whether it is running. May be called at any time, from any thread.
    pub(crate) fn state(&self) -> MpiState {
        let (mut initialized, mut finalized): (c_int, c_int) = (0, 0);
        // SAFETY: both may be called at any time, and write one integer.
        unsafe {
            let _ = self.functions.MPI_Initialized(&mut initialized);
            let _ = self.functions.MPI_Finalized(&mut finalized);
        }
        match (initialized != 0, finalized != 0) {
            (_, true) => MpiState::Finalized,
            (false, _) => MpiState::NotInitialized,
            _ => MpiState::Running,
        }
    }

    /// Returns an error of `call` if MPI is not running.
    pub(crate) fn require_running(&self, call: &'static str) -> Result<(), TransportError> {
        match self.state() {
            MpiState::NotInitialized => Err(failed(call, self.not_initialized())),
            MpiState::Running => Ok(()),
            MpiState::Finalized => Err(failed(call, "MPI was finalised")),
        }
    }

    fn not_initialized(&self) -> String {
        let file = &self.file;
        match &self.origin {
            Origin::Program => format!("MPI is not initialised ({file}): initialise it first"),
            Origin::Named => format!(
                "MPI is not initialised: Haloport has loaded {file}, which HALOPORT_MPI names. Initialise this MPI first, \
                 or unset HALOPORT_MPI if the program uses another one"
            ),
            Origin::Searched(unusable) => {
                let unusable = match &unusable[..] {
                    [] => String::new(),
                    some => format!(" that can be used ({})", some.join("; ")),
                };
                format!(
                    "MPI is not initialised: Haloport has found no MPI in this process{unusable}, and has loaded {file}. \
                     Initialise MPI first. If the program has done so, it contains an MPI of its own that is not visible, \
                     probably linked in statically: {LINK}"
                )
            }
        }
    }

    /// The handle of a communicator that Fortran has as `comm`; `None` if the library lacks the function to convert it.
    ///
    /// # Safety
    /// MPI is running.
    pub(crate) unsafe fn comm_from_fortran(&self, comm: c_int) -> Option<Handle> {
        type Convert = unsafe extern "C" fn(c_int) -> *mut c_void;
        let Some(name) = self.abi.fortran_conversion() else { return Some(Handle::of_int(comm)) };
        // SAFETY: in ABIs that have it, the function has this type.
        let convert = unsafe { self.library.get::<Convert>(name) }.ok()?;
        // SAFETY: MPI is running, by the contract.
        Some(Handle::of_pointer(unsafe { convert(comm) }.expose_provenance()))
    }

    /// The backends whose device memory the library says it takes.
    ///
    /// # Safety
    /// MPI is running, and this thread may call it.
    pub(super) unsafe fn device_memory(&self) -> Vec<&'static str> {
        // SAFETY: the caller's promise.
        unsafe { device_memory::taken(&self.library) }
    }
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi").field("abi", &self.abi).field("file", &self.file).finish_non_exhaustive()
    }
}

/// The file that defines a function of MPI, which is `library` or one that it needs.
pub(super) fn file_of(library: &Library, function: &CStr) -> Option<String> {
    // SAFETY: the symbol is not accessed, only its address is found.
    let address = unsafe { *library.get::<*mut c_void>(function).ok()? };
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` takes any address, and writes a structure of pointers, which was zeroed before.
    let found = unsafe {
        if libc::dladdr(address, found.as_mut_ptr()) == 0 {
            return None;
        }
        found.assume_init()
    };
    if found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a file that is loaded, which ends with a zero byte.
    Some(unsafe { CStr::from_ptr(found.dli_fname) }.to_string_lossy().into_owned())
}
