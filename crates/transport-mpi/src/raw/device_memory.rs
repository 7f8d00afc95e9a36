//! The device memory that an MPI library takes, by its own answers: functions beside the standard, whose names differ.
//!
//! Open MPI has `MPIX_Query_cuda_support`, and from version 5 on `MPIX_Query_rocm_support`. MPICH has
//! `MPIX_GPU_query_support`, which takes the number of a kind, and from version 4 on a function for each kind. Libraries
//! derived from an older MPICH, such as Cray's, may have `MPIX_GPU_query_support` alone.

use std::ffi::{CStr, c_int, c_void};

use libloading::Library;

use super::abi::SUCCESS;

/// A kind of device memory.
struct Kind {
    /// The name of its backend in [`DeviceId`](haloport_core::device::DeviceId).
    backend: &'static str,
    /// The functions that return 1 if the library takes it.
    functions: &'static [&'static CStr],
    /// Its number in `MPIX_GPU_query_support`: `MPIX_GPU_SUPPORT_CUDA`, `_ZE` and `_HIP`.
    number: c_int,
    /// Whether every library that has `MPIX_GPU_query_support` knows the number: others end the job if they are asked.
    always_known: bool,
}

const KINDS: [Kind; 3] = [
    Kind { backend: "cuda", functions: &[c"MPIX_Query_cuda_support"], number: 0, always_known: true },
    Kind { backend: "level_zero", functions: &[c"MPIX_Query_ze_support"], number: 1, always_known: true },
    Kind {
        backend: "hip",
        functions: &[c"MPIX_Query_hip_support", c"MPIX_Query_rocm_support"],
        number: 2,
        always_known: false,
    },
];

/// The backends whose memory the library takes, as it says by any of its functions.
///
/// # Safety
/// MPI is running, and this thread may call it.
pub(super) unsafe fn taken(library: &Library) -> Vec<&'static str> {
    // SAFETY: the symbol is not accessed, only its address is found.
    let find = |name: &CStr| unsafe { library.get::<*mut c_void>(name) }.ok().map(|address| *address);
    // SAFETY: libraries that have these functions declare them with these types; the caller's promise.
    unsafe { answered(find) }
}

/// The same, with the functions that `find` finds.
///
/// # Safety
/// The functions have the types of those of MPI with their names, and may be called.
unsafe fn answered(find: impl Fn(&CStr) -> Option<*mut c_void>) -> Vec<&'static str> {
    type Ask = unsafe extern "C" fn() -> c_int;
    type AskFor = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    let takes = |kind: &Kind| {
        let own: Vec<_> = kind.functions.iter().filter_map(|name| find(name)).collect();
        // SAFETY: by the contract; the functions have no arguments.
        if own.iter().any(|function| unsafe { std::mem::transmute::<*mut c_void, Ask>(*function)() } == 1) {
            return true;
        }
        let any_kind =
            if kind.always_known || !own.is_empty() { find(c"MPIX_GPU_query_support") } else { None };
        any_kind.is_some_and(|function| {
            let mut answer: c_int = 0;
            // SAFETY: by the contract; the function writes one integer.
            let code =
                unsafe { std::mem::transmute::<*mut c_void, AskFor>(function)(kind.number, &mut answer) };
            code == SUCCESS && answer != 0
        })
    };
    KINDS.iter().filter(|kind| takes(kind)).map(|kind| kind.backend).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn yes() -> c_int {
        1
    }

    extern "C" fn no() -> c_int {
        0
    }

    /// Takes all kinds.
    extern "C" fn all(_kind: c_int, answer: *mut c_int) -> c_int {
        // SAFETY: the caller passes the address of an integer.
        unsafe { *answer = 1 };
        SUCCESS
    }

    /// Knows CUDA and Level Zero, and takes the first.
    extern "C" fn cuda_alone(kind: c_int, answer: *mut c_int) -> c_int {
        assert!(kind < 2, "asked for kind {kind}, which ends the job");
        // SAFETY: as above.
        unsafe { *answer = c_int::from(kind == 0) };
        SUCCESS
    }

    /// Fails, having written an answer.
    extern "C" fn failing(_kind: c_int, answer: *mut c_int) -> c_int {
        // SAFETY: as above.
        unsafe { *answer = 1 };
        SUCCESS + 1
    }

    const YES: *mut c_void = yes as *mut c_void;
    const NO: *mut c_void = no as *mut c_void;

    /// The answers of a library with these functions.
    fn of(functions: &[(&CStr, *mut c_void)]) -> Vec<&'static str> {
        let find = |name: &CStr| functions.iter().find(|(known, _)| *known == name).map(|(_, at)| *at);
        // SAFETY: the functions above have the types of those with their names.
        unsafe { answered(find) }
    }

    #[test]
    fn each_name_is_asked() {
        assert_eq!(of(&[]), [""; 0]);
        assert_eq!(of(&[(c"MPIX_Query_cuda_support", YES)]), ["cuda"]);
        assert_eq!(of(&[(c"MPIX_Query_cuda_support", NO)]), [""; 0]);
        assert_eq!(of(&[(c"MPIX_Query_ze_support", YES)]), ["level_zero"]);
        assert_eq!(of(&[(c"MPIX_Query_hip_support", YES)]), ["hip"]);
        // Open MPI 5.
        assert_eq!(of(&[(c"MPIX_Query_cuda_support", NO), (c"MPIX_Query_rocm_support", YES)]), ["hip"]);
        // A library derived from MPICH 3.4.
        assert_eq!(of(&[(c"MPIX_GPU_query_support", cuda_alone as *mut c_void)]), ["cuda"]);
        assert_eq!(of(&[(c"MPIX_GPU_query_support", failing as *mut c_void)]), [""; 0]);
        // MPICH 4.
        let mpich = [
            (c"MPIX_GPU_query_support", all as *mut c_void),
            (c"MPIX_Query_cuda_support", NO),
            (c"MPIX_Query_hip_support", NO),
        ];
        assert_eq!(of(&mpich), ["cuda", "level_zero", "hip"]);
    }
}
