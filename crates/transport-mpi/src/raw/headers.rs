//! Compares constants and layouts with the header of an MPI: `HALOPORT_TEST_HEADER` names the library that its compiler
//! has made of `headers.c`, as `scripts/parts/headers` does for each MPI.

use std::ffi::{c_int, c_void};

use libloading::Library;

use super::abi::{Abi, SUCCESS, Status, TEXT_BYTES};
use super::chosen::chosen;

#[test]
fn constants_and_layouts_are_those_of_the_header() {
    let Some(file) = std::env::var_os("HALOPORT_TEST_HEADER") else {
        eprintln!("skipped: HALOPORT_TEST_HEADER names no library");
        return;
    };
    // SAFETY: it has no initialisers but those of MPI, with which it is linked.
    let header = unsafe { Library::new(file) }.expect("the library of the header");
    let mut values = [0u64; 64];
    // SAFETY: the types are those of headers.c; the function writes at most 64 values.
    let count = unsafe {
        let write =
            header.get::<unsafe extern "C" fn(*mut u64) -> c_int>(c"haloport_header").expect("a function");
        write(values.as_mut_ptr())
    };
    let mut status = Status::default();
    // SAFETY: as above; a status of the header is at most as large, which the last assertion repeats.
    unsafe {
        let set = header
            .get::<unsafe extern "C" fn(*mut Status, c_int)>(c"haloport_set_source")
            .expect("a function");
        assert!(values[27] as usize <= size_of::<Status>(), "a status of {} bytes", values[27]);
        set(&mut status, 7);
    }

    // The MPI that the process has loaded.
    let mpi = chosen().expect("the MPI that the library is linked with");
    let found = &mpi.constants;
    let handles = [
        ("MPI_COMM_WORLD", found.comm_world),
        ("MPI_COMM_SELF", found.comm_self),
        ("MPI_COMM_NULL", found.comm_null),
        ("MPI_REQUEST_NULL", found.request_null),
        ("MPI_MESSAGE_NULL", found.message_null),
        ("MPI_INFO_NULL", found.info_null),
        ("MPI_ERRORS_RETURN", found.errors_return),
        ("MPI_UINT8_T", found.byte),
        ("MPI_INT64_T", found.int64),
        ("MPI_UINT64_T", found.uint64),
        ("MPI_MAX", found.max),
        ("MPI_MIN", found.min),
        ("MPI_SUM", found.sum),
        ("MPI_BOR", found.bor),
    ];
    let [single, funneled, serialized, multiple] = found.thread_levels;
    let handle_bytes = match mpi.abi {
        Abi::Mpich => size_of::<c_int>(),
        Abi::OpenMpi | Abi::Standard => size_of::<*mut c_void>(),
    };
    let numbers = [
        ("MPI_ANY_SOURCE", i64::from(found.any_source)),
        ("MPI_COMM_TYPE_SHARED", i64::from(found.comm_type_shared)),
        ("MPI_TAG_UB", i64::from(found.tag_ub)),
        ("MPI_ERR_TRUNCATE", i64::from(found.err_truncate)),
        ("MPI_THREAD_SINGLE", i64::from(single)),
        ("MPI_THREAD_FUNNELED", i64::from(funneled)),
        ("MPI_THREAD_SERIALIZED", i64::from(serialized)),
        ("MPI_THREAD_MULTIPLE", i64::from(multiple)),
        ("MPI_STATUSES_IGNORE", found.statuses_ignore as i64),
        ("MPI_SUCCESS", i64::from(SUCCESS)),
        ("sizeof(MPI_Comm)", handle_bytes as i64),
        ("sizeof(MPI_Aint)", size_of::<isize>() as i64),
        ("sizeof(MPI_Count)", size_of::<i64>() as i64),
    ];
    let expected = handles.map(|(name, handle)| (name, handle.as_pointer() as u64));
    let expected = expected.into_iter().chain(numbers.map(|(name, number)| (name, number as u64)));
    let differing: Vec<_> = expected.zip(values).filter(|((_, ours), header)| ours != header).collect();
    assert!(differing.is_empty(), "(name, here), header: {differing:x?} of {}", mpi.version);

    assert_eq!(count, 31);
    let [status_bytes, status_alignment, version_bytes, error_bytes] =
        [27, 28, 29, 30].map(|at: usize| values[at] as usize);
    assert!(size_of::<Status>() >= status_bytes && align_of::<Status>() >= status_alignment);
    assert!(TEXT_BYTES >= version_bytes && TEXT_BYTES > error_bytes);
    assert_eq!(mpi.abi.source(&status), 7);
}
