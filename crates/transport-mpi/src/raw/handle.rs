//! Handles of MPI objects, of any library.

use std::ffi::{c_int, c_void};

/// A handle of a communicator, request, datatype or another object of MPI.
///
/// The library's own value, an `int` or a pointer, begins at the first byte; bytes beyond it are zero. So MPI may read
/// and write its own value at the address of a handle, and handles are equal if and only if MPI's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Handle(usize);

const _: () =
    assert!(size_of::<c_int>() <= size_of::<usize>() && size_of::<*mut c_void>() == size_of::<usize>());

impl Handle {
    /// The handle that is the address of an object, or a number of that size.
    pub(super) const fn of_pointer(value: usize) -> Handle {
        Handle(value)
    }

    pub(super) fn as_pointer(self) -> usize {
        self.0
    }

    /// The handle that is an `int`.
    pub(super) const fn of_int(value: c_int) -> Handle {
        let (mut bytes, int) = ([0; size_of::<usize>()], value.to_ne_bytes());
        let mut at = 0;
        while at < int.len() {
            bytes[at] = int[at];
            at += 1;
        }
        Handle(usize::from_ne_bytes(bytes))
    }
}

/// Handles, one after the other as the library has them.
pub(super) struct HandleArray {
    handles: Vec<Handle>,
    /// The same, if the library's handles are of the type `int`.
    ints: Option<Vec<c_int>>,
}

impl HandleArray {
    pub(super) fn new(of_ints: bool) -> HandleArray {
        HandleArray { handles: Vec::new(), ints: of_ints.then(Vec::new) }
    }

    pub(super) fn push(&mut self, handle: Handle) {
        self.handles.push(handle);
        self.ints.iter_mut().for_each(|ints| ints.push(Native::of(handle)));
    }

    pub(super) fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// The address of the handles from `first` on.
    pub(super) fn from(&mut self, first: usize) -> *mut c_void {
        match &mut self.ints {
            Some(ints) => ints.as_mut_ptr().wrapping_add(first).cast(),
            None => self.handles.as_mut_ptr().wrapping_add(first).cast(),
        }
    }
}

/// A handle of a communicator as another program has it: an `MPI_Comm` of the C interface, which is an integer in some
/// libraries and a pointer in others.
///
/// It is made `from` an integer or a pointer, such as `MPI_Comm` of any bindings, or the `handle` of a communicator of
/// mpi4py. An integer of 32 bits may have been extended to 64 in either way.
#[derive(Debug, Clone, Copy)]
pub struct RawComm(pub(super) u64);

macro_rules! from_integers {
    ($($integer:ty),*) => {
        $(impl From<$integer> for RawComm {
            fn from(handle: $integer) -> RawComm {
                RawComm(handle as u64)
            }
        })*
    };
}
from_integers!(i32, u32, i64, u64, isize, usize);

impl<T> From<*mut T> for RawComm {
    fn from(handle: *mut T) -> RawComm {
        RawComm(handle.expose_provenance() as u64)
    }
}

/// The C type of a library's handles.
pub(super) trait Native: Copy {
    fn of(handle: Handle) -> Self;
}

impl Native for *mut c_void {
    fn of(handle: Handle) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(handle.0)
    }
}

impl Native for c_int {
    fn of(handle: Handle) -> c_int {
        let mut int = [0; size_of::<c_int>()];
        int.iter_mut().zip(handle.0.to_ne_bytes()).for_each(|(to, from)| *to = from);
        c_int::from_ne_bytes(int)
    }
}
