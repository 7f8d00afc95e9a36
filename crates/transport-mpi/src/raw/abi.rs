//! The binary interfaces (ABIs) of MPI libraries: the type of handles, the layout of a status, and constants.
//!
//! The values are those of the headers `mpi.h` of Open MPI and MPICH, and of the standard's appendix "ABI". They are
//! compared with the headers in `headers`.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

use super::handle::{Handle, Native, RawComm};

/// A binary interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abi {
    /// Open MPI 4 and 5: handles are addresses of objects of the library.
    OpenMpi,
    /// MPICH from version 3 on, and libraries derived from it, such as Intel MPI: handles are of the type `int`.
    Mpich,
    /// The standard ABI of MPI 5: handles have the size of a pointer, and constants are small numbers.
    Standard,
}

/// Names that version texts of libraries with the ABI of MPICH contain.
const DERIVED_FROM_MPICH: [&str; 3] = ["MPICH", "MVAPICH", "Intel(R) MPI"];

/// The length of a buffer for texts of any library (`MPI_MAX_ERROR_STRING`, `MPI_MAX_LIBRARY_VERSION_STRING`).
pub(super) const TEXT_BYTES: usize = 8192 + 1;

/// The code of a call that has succeeded, in every ABI.
pub(super) const SUCCESS: c_int = 0;

/// The constants of a library.
#[derive(Debug, PartialEq)]
pub(super) struct Constants {
    pub(super) comm_world: Handle,
    pub(super) comm_self: Handle,
    pub(super) comm_null: Handle,
    pub(super) request_null: Handle,
    pub(super) message_null: Handle,
    pub(super) info_null: Handle,
    pub(super) errors_return: Handle,
    /// `MPI_UINT8_T`.
    pub(super) byte: Handle,
    pub(super) int64: Handle,
    pub(super) uint64: Handle,
    pub(super) max: Handle,
    pub(super) min: Handle,
    pub(super) sum: Handle,
    pub(super) bor: Handle,
    pub(super) any_source: c_int,
    pub(super) comm_type_shared: c_int,
    pub(super) tag_ub: c_int,
    pub(super) err_truncate: c_int,
    /// Single, funneled, serialized and multiple.
    pub(super) thread_levels: [c_int; 4],
    /// `MPI_STATUSES_IGNORE`, an address.
    pub(super) statuses_ignore: usize,
}

/// Memory for a status of any library.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub(crate) struct Status([c_int; 8]);

impl Abi {
    /// The ABI of a library with this version text.
    ///
    /// # Errors
    /// The reason for which the library is not supported, as text.
    pub(super) fn of(library: &Library, version: &str) -> Result<Abi, String> {
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        // SAFETY: the standard declares the function with this type.
        if let Ok(version) = unsafe { library.get::<Version>(c"MPI_Abi_get_version") } {
            let (mut major, mut minor) = (-1, -1);
            // SAFETY: may be called at any time; writes two integers, -1 in libraries with an ABI of their own.
            if unsafe { version(&mut major, &mut minor) } == SUCCESS && major > 0 {
                return Ok(Abi::Standard);
            }
        }
        // SAFETY: the symbol is not accessed, only its address is found.
        if unsafe { library.get::<*mut c_void>(c"ompi_mpi_comm_world") }.is_ok() {
            Ok(Abi::OpenMpi)
        } else if DERIVED_FROM_MPICH.iter().any(|name| version.contains(name)) {
            Ok(Abi::Mpich)
        } else {
            Err(format!(
                "expected the ABI of Open MPI, of MPICH or of the standard, found another: `{version}`"
            ))
        }
    }

    /// The handle that a caller gives.
    pub(crate) fn handle(self, comm: RawComm) -> Handle {
        match self {
            Abi::OpenMpi | Abi::Standard => Handle::of_pointer(comm.0 as usize),
            Abi::Mpich => Handle::of_int(comm.0 as c_int),
        }
    }

    /// The handle as a caller has it.
    pub(super) fn number(self, comm: Handle) -> RawComm {
        match self {
            Abi::OpenMpi | Abi::Standard => RawComm::from(comm.as_pointer()),
            Abi::Mpich => RawComm::from(c_int::of(comm)),
        }
    }

    /// The function that makes a handle of a communicator from one of Fortran; `None` if both are the same number.
    pub(super) fn fortran_conversion(self) -> Option<&'static str> {
        match self {
            Abi::OpenMpi => Some("MPI_Comm_f2c"),
            Abi::Mpich => None,
            Abi::Standard => Some("MPI_Comm_fromint"),
        }
    }

    /// The constants of a library with this ABI; otherwise the name of the first symbol that it lacks.
    pub(super) fn constants(self, library: &Library) -> Result<Constants, &'static str> {
        match self {
            Abi::OpenMpi => open_mpi(library),
            Abi::Mpich => Ok(mpich()),
            Abi::Standard => Ok(standard()),
        }
    }

    /// The rank that has sent the message of a status.
    pub(super) fn source(self, status: &Status) -> c_int {
        let [first, _, third, ..] = status.0;
        match self {
            Abi::OpenMpi | Abi::Standard => first,
            Abi::Mpich => third,
        }
    }
}

/// The first line of a library's version text.
pub(super) fn version(library: &Library) -> Option<String> {
    type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: the standard declares the function with this type.
    let version = unsafe { library.get::<Version>(c"MPI_Get_library_version") }.ok()?;
    let (mut text, mut length) = (vec![0u8; TEXT_BYTES], 0);
    // SAFETY: may be called at any time; the text has the length that MPI requires.
    let code = unsafe { version(text.as_mut_ptr().cast(), &mut length) };
    text.truncate(if code == SUCCESS { usize::try_from(length).unwrap_or(0) } else { 0 });
    let text = String::from_utf8_lossy(&text);
    let words = text.lines().next().unwrap_or_default().split(|c: char| c.is_whitespace() || c == '\0');
    Some(words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

fn open_mpi(library: &Library) -> Result<Constants, &'static str> {
    // A program that is linked to the library has copies of objects that it names (copy relocations), which the library then
    // uses instead of its own. Only a lookup in the whole process finds the copies.
    let process: Library = libloading::os::unix::Library::this().into();
    let objects = if is_found_first(&process, library) { &process } else { library };
    let handle = |name: &'static str| {
        // SAFETY: the symbol is an object, whose address is the handle. It is not accessed.
        let found = unsafe { objects.get::<*mut c_void>(name) };
        found.map(|address| Handle::of_pointer(address.expose_provenance())).map_err(|_| name)
    };
    Ok(Constants {
        comm_world: handle("ompi_mpi_comm_world")?,
        comm_self: handle("ompi_mpi_comm_self")?,
        comm_null: handle("ompi_mpi_comm_null")?,
        request_null: handle("ompi_request_null")?,
        message_null: handle("ompi_message_null")?,
        info_null: handle("ompi_mpi_info_null")?,
        errors_return: handle("ompi_mpi_errors_return")?,
        byte: handle("ompi_mpi_uint8_t")?,
        int64: handle("ompi_mpi_int64_t")?,
        uint64: handle("ompi_mpi_uint64_t")?,
        max: handle("ompi_mpi_op_max")?,
        min: handle("ompi_mpi_op_min")?,
        sum: handle("ompi_mpi_op_sum")?,
        bor: handle("ompi_mpi_op_bor")?,
        any_source: -1,
        comm_type_shared: 0,
        tag_ub: 0,
        err_truncate: 15,
        thread_levels: [0, 1, 2, 3],
        statuses_ignore: 0,
    })
}

/// Whether a lookup in the whole process finds this library, before any other MPI.
fn is_found_first(process: &Library, library: &Library) -> bool {
    // Functions whose address hardly a program takes: that might be one within the program.
    [c"MPI_Get_library_version", c"MPI_Get_version"].into_iter().any(|name| {
        // SAFETY: the functions are not called, only their addresses are found.
        let addresses = unsafe { (process.get::<*mut c_void>(name), library.get::<*mut c_void>(name)) };
        matches!(addresses, (Ok(one), Ok(other)) if *one == *other)
    })
}

fn mpich() -> Constants {
    let handle = Handle::of_int;
    Constants {
        comm_world: handle(0x4400_0000),
        comm_self: handle(0x4400_0001),
        comm_null: handle(0x0400_0000),
        request_null: handle(0x2c00_0000),
        message_null: handle(0x2c00_0000),
        info_null: handle(0x1c00_0000),
        errors_return: handle(0x5400_0001),
        byte: handle(0x4c00_013b),
        int64: handle(0x4c00_083a),
        uint64: handle(0x4c00_083e),
        max: handle(0x5800_0001),
        min: handle(0x5800_0002),
        sum: handle(0x5800_0003),
        bor: handle(0x5800_0008),
        any_source: -2,
        comm_type_shared: 1,
        tag_ub: 0x6440_0001,
        err_truncate: 14,
        thread_levels: [0, 1, 2, 3],
        statuses_ignore: 1,
    }
}

fn standard() -> Constants {
    let handle = Handle::of_pointer;
    Constants {
        comm_world: handle(0x101),
        comm_self: handle(0x102),
        comm_null: handle(0x100),
        request_null: handle(0x180),
        message_null: handle(0x128),
        info_null: handle(0x130),
        errors_return: handle(0x143),
        byte: handle(0x241),
        int64: handle(0x258),
        uint64: handle(0x259),
        max: handle(0x23),
        min: handle(0x22),
        sum: handle(0x21),
        bor: handle(0x29),
        any_source: -1,
        comm_type_shared: 221,
        tag_ub: 501,
        err_truncate: 15,
        thread_levels: [0, 1024, 2048, 4096],
        statuses_ignore: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_communicators_are_taken_however_the_caller_has_extended_them() {
        let of_int = Abi::Mpich.handle(RawComm::from(-0x7bff_ffff_i32));
        for comm in [
            RawComm::from(0x8400_0001_u32),
            RawComm::from(0x8400_0001_u64),
            RawComm::from(-0x7bff_ffff_i64),
            RawComm::from(std::ptr::without_provenance_mut::<c_void>(0x8400_0001)),
        ] {
            assert_eq!(Abi::Mpich.handle(comm), of_int);
            assert_eq!(c_int::of(Abi::Mpich.handle(comm)), -0x7bff_ffff);
        }
        for abi in [Abi::OpenMpi, Abi::Standard] {
            let comm = abi.handle(RawComm::from(0x7fff_8400_0001_u64));
            assert_eq!(<*mut c_void>::of(comm).addr(), 0x7fff_8400_0001);
            assert_eq!(abi.handle(abi.number(comm)), comm);
        }
        assert_eq!(Abi::Mpich.handle(Abi::Mpich.number(of_int)), of_int);
    }
}
