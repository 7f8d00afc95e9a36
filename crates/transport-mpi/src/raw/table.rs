//! The functions of an MPI library, loaded at run time.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

use super::abi::{Abi, Status};
use super::callback::{CopyFunction, DeleteFunction, call_value, do_not_copy};
use super::handle::{Handle, HandleArray, Native};

/// The functions of a library.
pub(super) enum Functions {
    /// Handles are pointers, or numbers of their size.
    Pointers(Table<*mut c_void>),
    /// Handles are of the type `int`.
    Ints(Table<c_int>),
}

impl Functions {
    /// Finds the functions of a library with this ABI; otherwise returns the name of the first that it lacks.
    pub(super) fn load(library: &Library, abi: Abi) -> Result<Functions, &'static str> {
        match abi {
            Abi::OpenMpi | Abi::Standard => Table::load(library).map(Functions::Pointers),
            Abi::Mpich => Table::load(library).map(Functions::Ints),
        }
    }

    /// An empty array of handles.
    pub(super) fn handle_array(&self) -> HandleArray {
        HandleArray::new(matches!(self, Functions::Ints(_)))
    }
}

/// The two functions of an attribute that is called when it is deleted.
pub(super) struct CallOnDelete;
/// The function that leaves an attribute out of copies.
pub(super) struct DoNotCopy;

/// An argument, with its C type in libraries whose handles are of the type `H`.
pub(super) trait Argument<H> {
    type Native;
    fn native(self) -> Self::Native;
}

impl<H: Native> Argument<H> for Handle {
    type Native = H;
    fn native(self) -> H {
        H::of(self)
    }
}

impl<H> Argument<H> for DoNotCopy {
    type Native = CopyFunction<H>;
    fn native(self) -> CopyFunction<H> {
        do_not_copy::<H>
    }
}

impl<H> Argument<H> for CallOnDelete {
    type Native = DeleteFunction<H>;
    fn native(self) -> DeleteFunction<H> {
        call_value::<H>
    }
}

/// Arguments that are alike in all libraries. A pointer to a handle is one to the library's own value (see [`Handle`]),
/// a pointer to a status one to memory that is long enough.
macro_rules! alike {
    ($($kind:ty),*) => {
        $(impl<H> Argument<H> for $kind {
            type Native = $kind;
            fn native(self) -> $kind {
                self
            }
        })*
    };
}
alike!(c_int, *mut c_int, *const c_int, *const isize, *mut i64, *const c_void, *mut c_void, *mut c_char);
alike!(*mut Handle, *mut Status, *const Status);

/// Declares the functions: as fields of a table, and as unsafe methods of [`Functions`].
macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// The functions of a library whose handles are of the type `H`.
        #[allow(non_snake_case, reason = "the names are the library's own")]
        pub(super) struct Table<H: Native> {
            $($name: unsafe extern "C" fn($(<$kind as Argument<H>>::Native),*) -> c_int,)*
        }

        impl<H: Native> Table<H> {
            fn load(library: &Library) -> Result<Table<H>, &'static str> {
                Ok(Table {
                    $($name: {
                        // SAFETY: the standard declares the function with these types, and handles are of the type `H`.
                        *unsafe { library.get(stringify!($name)) }.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }

        /// Each calls the function of MPI with its name.
        ///
        /// # Safety
        /// That of MPI's function.
        #[allow(non_snake_case, reason = "the names are the library's own")]
        #[allow(clippy::too_many_arguments, reason = "as many as the library's functions have")]
        impl Functions {
            $(pub(super) unsafe fn $name(&self, $($argument: $kind),*) -> c_int {
                match self {
                    // SAFETY: the caller's promise, with handles as the library has them.
                    Functions::Pointers(table) => unsafe {
                        (table.$name)($(Argument::<*mut c_void>::native($argument)),*)
                    },
                    // SAFETY: as above.
                    Functions::Ints(table) => unsafe {
                        (table.$name)($(Argument::<c_int>::native($argument)),*)
                    },
                }
            })*
        }
    };
}

// Arrays of handles are `*mut c_void`, those of a `HandleArray`.
functions! {
    MPI_Initialized(flag: *mut c_int);
    MPI_Finalized(flag: *mut c_int);
    MPI_Init_thread(argc: *mut c_int, argv: *mut c_void, wanted: c_int, provided: *mut c_int);
    MPI_Query_thread(provided: *mut c_int);
    MPI_Is_thread_main(flag: *mut c_int);
    MPI_Error_string(code: c_int, text: *mut c_char, length: *mut c_int);
    MPI_Error_class(code: c_int, class: *mut c_int);
    MPI_Abort(comm: Handle, code: c_int);
    MPI_Finalize();
    MPI_Comm_create_keyval(copy: DoNotCopy, delete: CallOnDelete, keyval: *mut c_int, extra: *mut c_void);
    MPI_Comm_set_attr(comm: Handle, keyval: c_int, value: *mut c_void);
    MPI_Comm_get_attr(comm: Handle, keyval: c_int, value: *mut c_void, found: *mut c_int);
    MPI_Comm_rank(comm: Handle, rank: *mut c_int);
    MPI_Comm_size(comm: Handle, size: *mut c_int);
    MPI_Comm_test_inter(comm: Handle, flag: *mut c_int);
    MPI_Comm_dup(comm: Handle, copy: *mut Handle);
    MPI_Comm_split(comm: Handle, colour: c_int, key: c_int, part: *mut Handle);
    MPI_Comm_split_type(comm: Handle, kind: c_int, key: c_int, info: Handle, part: *mut Handle);
    MPI_Comm_set_errhandler(comm: Handle, handler: Handle);
    MPI_Comm_free(comm: *mut Handle);
    MPI_Allreduce(from: *const c_void, to: *mut c_void, count: c_int, datatype: Handle, op: Handle, comm: Handle);
    MPI_Allgather(
        from: *const c_void, sent: c_int, sent_type: Handle,
        to: *mut c_void, received: c_int, received_type: Handle, comm: Handle
    );
    MPI_Alltoall(
        from: *const c_void, sent: c_int, sent_type: Handle,
        to: *mut c_void, received: c_int, received_type: Handle, comm: Handle
    );
    MPI_Ibarrier(comm: Handle, request: *mut Handle);
    MPI_Ibcast(
        memory: *mut c_void, count: c_int, datatype: Handle, root: c_int, comm: Handle, request: *mut Handle
    );
    MPI_Iallreduce(
        from: *const c_void, to: *mut c_void, count: c_int, datatype: Handle, op: Handle, comm: Handle,
        request: *mut Handle
    );
    MPI_Send_init(
        from: *const c_void, count: c_int, datatype: Handle, peer: c_int, tag: c_int, comm: Handle,
        request: *mut Handle
    );
    MPI_Recv_init(
        to: *mut c_void, count: c_int, datatype: Handle, peer: c_int, tag: c_int, comm: Handle,
        request: *mut Handle
    );
    MPI_Issend(
        from: *const c_void, count: c_int, datatype: Handle, peer: c_int, tag: c_int, comm: Handle,
        request: *mut Handle
    );
    MPI_Improbe(
        peer: c_int, tag: c_int, comm: Handle, found: *mut c_int, message: *mut Handle, status: *mut Status
    );
    MPI_Imrecv(to: *mut c_void, count: c_int, datatype: Handle, message: *mut Handle, request: *mut Handle);
    MPI_Start(request: *mut Handle);
    MPI_Startall(count: c_int, requests: *mut c_void);
    MPI_Waitall(count: c_int, requests: *mut c_void, statuses: *mut c_void);
    MPI_Test(request: *mut Handle, complete: *mut c_int, status: *mut Status);
    MPI_Cancel(request: *mut Handle);
    MPI_Request_free(request: *mut Handle);
    MPI_Get_elements_x(status: *const Status, datatype: Handle, count: *mut i64);
    MPI_Type_contiguous(count: c_int, datatype: Handle, made: *mut Handle);
    MPI_Type_create_struct(
        blocks: c_int, lengths: *const c_int, offsets: *const isize, datatypes: *mut c_void, made: *mut Handle
    );
    MPI_Type_commit(datatype: *mut Handle);
    MPI_Type_free(datatype: *mut Handle);
}
