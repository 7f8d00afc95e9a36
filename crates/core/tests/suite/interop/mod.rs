//! Arrays and streams of other programs: reading, refusals, and exporting them again.

mod arrays;
mod cuda_array;
mod dlpack;
mod fields;
mod streams;
mod sycl_usm;
mod typestrs;

use std::fmt::Debug;

use haloport_core::interop::{ArrayDescription, InteropError, Protocol, PythonException};

pub(crate) use PythonException::{BufferError, TypeError, ValueError};

/// Asserts that the protocol's `field` was refused, by this exception, in a message that shows `found`.
#[track_caller]
pub(crate) fn refused<T: Debug>(
    result: Result<T, InteropError>,
    protocol: Protocol,
    field: &str,
    exception: PythonException,
    found: &str,
) {
    let error = result.expect_err(field);
    assert_eq!((error.protocol, error.field, error.exception), (protocol, field, exception), "{error}");
    assert!(error.found.contains(found), "{error}");
    let said = error.to_string();
    for part in [field, &protocol.to_string(), &error.expected, &error.found, error.advice] {
        assert!(!part.is_empty() && said.contains(part), "{said}");
    }
}

/// The offset in elements from the first one, and the address, of every element in C order.
pub(crate) fn places(array: &ArrayDescription) -> Vec<(isize, usize)> {
    let mut offsets = vec![0];
    for (&extent, &stride) in array.shape().iter().zip(array.strides()) {
        offsets = offsets
            .into_iter()
            .flat_map(|offset| (0..extent as isize).map(move |place| offset + place * stride))
            .collect();
    }
    let first = array.first().as_ptr().addr();
    let bytes = array.element().bytes() as isize;
    offsets.into_iter().map(|offset| (offset, first.wrapping_add_signed(offset * bytes))).collect()
}
