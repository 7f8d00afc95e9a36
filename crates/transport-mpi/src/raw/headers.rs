//! Compares constants and layouts with the headers of the MPI that this test is built for, as rsmpi's bindings have them.

use std::ffi::{c_int, c_void};

use mpi::ffi;

use super::abi::{Abi, Constants, SUCCESS, Status, TEXT_BYTES};
use super::chosen::chosen;
use super::handle::{Handle, RawComm};

#[test]
fn constants_are_those_of_the_header() {
    let found = &chosen().unwrap().constants;
    // SAFETY: constants of the library, set when it was loaded.
    let header = unsafe {
        Constants {
            comm_world: handle(ffi::RSMPI_COMM_WORLD.0),
            comm_self: handle(ffi::RSMPI_COMM_SELF.0),
            comm_null: handle(ffi::RSMPI_COMM_NULL.0),
            request_null: handle(ffi::RSMPI_REQUEST_NULL.0),
            message_null: handle(ffi::RSMPI_MESSAGE_NULL.0),
            info_null: handle(ffi::RSMPI_INFO_NULL.0),
            errors_return: handle(ffi::RSMPI_ERRORS_RETURN.0),
            byte: handle(ffi::RSMPI_UINT8_T.0),
            int64: handle(ffi::RSMPI_INT64_T.0),
            uint64: handle(ffi::RSMPI_UINT64_T.0),
            max: handle(ffi::RSMPI_MAX.0),
            min: handle(ffi::RSMPI_MIN.0),
            sum: handle(ffi::RSMPI_SUM.0),
            bor: handle(ffi::RSMPI_BOR.0),
            any_source: ffi::RSMPI_ANY_SOURCE,
            comm_type_shared: ffi::RSMPI_COMM_TYPE_SHARED,
            tag_ub: ffi::MPI_TAG_UB as c_int,
            err_truncate: ffi::MPI_ERR_TRUNCATE as c_int,
            thread_levels: [
                ffi::RSMPI_THREAD_SINGLE,
                ffi::RSMPI_THREAD_FUNNELED,
                ffi::RSMPI_THREAD_SERIALIZED,
                ffi::RSMPI_THREAD_MULTIPLE,
            ],
            statuses_ignore: ffi::RSMPI_STATUSES_IGNORE.addr(),
        }
    };
    assert_eq!(*found, header, "{:?}", chosen());
    assert_eq!(SUCCESS, ffi::MPI_SUCCESS as c_int);
    // SAFETY: as above.
    let version_bytes = unsafe { ffi::RSMPI_MAX_LIBRARY_VERSION_STRING } as usize;
    assert!(TEXT_BYTES >= version_bytes && TEXT_BYTES > ffi::MPI_MAX_ERROR_STRING as usize);
}

#[test]
fn a_status_has_the_layout_of_the_header() {
    assert!(size_of::<Status>() >= size_of::<ffi::MPI_Status>());
    assert!(align_of::<Status>() >= align_of::<ffi::MPI_Status>());
    let mut status = Status::default();
    // SAFETY: the memory is as long and aligned as a status, which consists of integers.
    unsafe { (*(&raw mut status).cast::<ffi::MPI_Status>()).MPI_SOURCE = 7 };
    assert_eq!(chosen().unwrap().abi.source(&status), 7);
}

#[test]
fn types_have_the_size_of_the_headers() {
    let handle = match chosen().unwrap().abi {
        Abi::Mpich => size_of::<c_int>(),
        Abi::OpenMpi | Abi::Standard => size_of::<*mut c_void>(),
    };
    assert_eq!(handle, size_of::<ffi::MPI_Comm>());
    assert_eq!(size_of::<isize>(), size_of::<ffi::MPI_Aint>());
    assert_eq!(size_of::<i64>(), size_of::<ffi::MPI_Count>());
}

#[test]
fn the_library_that_the_program_is_linked_with_is_chosen() {
    let mpi = chosen().unwrap();
    assert_eq!(mpi.version, {
        let linked = mpi::environment::library_version().unwrap();
        let line = linked.lines().next().unwrap().trim_end_matches('\0').to_string();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    });
}

fn handle(of_header: impl Into<RawComm>) -> Handle {
    chosen().expect("the library that this test is linked with").abi.handle(of_header.into())
}
