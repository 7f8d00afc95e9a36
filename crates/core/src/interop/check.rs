//! The checks that all protocols share. Sums and products have 128 bits, and each is bounded before it enters the next
//! one, so that nothing overflows.

use super::array::{ArrayDescription, ArrayDevice};
use super::{InteropError, Protocol};
use crate::device::Pointer;
use crate::element::ElementType;

/// The maximum number of axes of an array, as in NumPy 2.
pub const MAX_ARRAY_AXES: usize = 64;

/// An array as a protocol describes it.
#[derive(Debug)]
pub(super) struct Unchecked<'a> {
    protocol: Protocol,
    element: ElementType,
    pointer: *mut u8,
    shape: &'a [i64],
    strides: Option<&'a [i64]>,
    /// The unit of the strides, in bytes.
    stride_unit: i128,
    /// The name of the member with the offset, and the offset of the first element from the pointer in bytes.
    offset: (&'static str, i128),
    device: ArrayDevice,
}

impl ArrayDescription {
    /// The array whose element `[0, 0, …]` has the address `first`. `shape` and `strides` have one entry for each axis;
    /// strides are in elements, of either sign.
    ///
    /// # Errors
    /// An [`InteropError`] for each violation of the guarantees of [`ArrayDescription`], and for a wrong number of
    /// strides.
    pub fn new(
        element: ElementType,
        first: Pointer,
        shape: &[i64],
        strides: &[i64],
        device: ArrayDevice,
    ) -> Result<ArrayDescription, InteropError> {
        Unchecked::new(Protocol::Description, element, first.as_ptr(), shape, device)
            .strides_in_elements(Some(strides))
            .check()
    }
}

impl<'a> Unchecked<'a> {
    /// An array in C order that begins at `pointer`, for reading and writing.
    pub(super) fn new(
        protocol: Protocol,
        element: ElementType,
        pointer: *mut u8,
        shape: &'a [i64],
        device: ArrayDevice,
    ) -> Unchecked<'a> {
        Unchecked {
            protocol,
            element,
            pointer,
            shape,
            strides: None,
            stride_unit: 1,
            offset: ("data", 0),
            device,
        }
    }

    pub(super) fn strides_in_elements(self, strides: Option<&'a [i64]>) -> Unchecked<'a> {
        Unchecked { strides, stride_unit: self.element.bytes() as i128, ..self }
    }

    pub(super) fn strides_in_bytes(self, strides: Option<&'a [i64]>) -> Unchecked<'a> {
        Unchecked { strides, stride_unit: 1, ..self }
    }

    pub(super) fn offset_in_bytes(self, field: &'static str, bytes: i128) -> Unchecked<'a> {
        Unchecked { offset: (field, bytes), ..self }
    }

    pub(super) fn check(self) -> Result<ArrayDescription, InteropError> {
        let shape = self.checked_shape()?;
        let strides = self.checked_strides(&shape)?;
        let span = self.checked_span(&shape, &strides)?;
        let first = self.checked_first(span)?;
        let (element, device) = (self.element, self.device);
        Ok(ArrayDescription { element, shape, strides, first, span, device, read_only: false, copied: false })
    }

    fn checked_shape(&self) -> Result<Vec<usize>, InteropError> {
        let fault = self.protocol.fault("shape");
        if self.shape.len() > MAX_ARRAY_AXES {
            let expected = format!("at most {MAX_ARRAY_AXES} axes");
            return Err(fault.value(expected, self.shape.len(), "reshape the array to fewer axes"));
        }
        let shape: Vec<usize> =
            self.shape.iter().map(|&extent| usize::try_from(extent)).collect::<Result<_, _>>().map_err(
                |_| fault.value("extents from 0 on", format!("{:?}", self.shape), "correct the producer"),
            )?;
        let elements = shape.iter().try_fold(1_i64, |elements, &extent| elements.checked_mul(extent as i64));
        if elements.is_none() && !shape.contains(&0) {
            let expected = "a number of elements that an address space can hold";
            return Err(fault.value(expected, format!("{shape:?}"), "correct the producer"));
        }
        Ok(shape)
    }

    /// The strides in elements; strides without effect become 1.
    fn checked_strides(&self, shape: &[usize]) -> Result<Vec<isize>, InteropError> {
        let fault = self.protocol.fault("strides");
        let Some(given) = self.strides else { return Ok(contiguous(shape)) };
        if given.len() != shape.len() {
            let expected = format!("one for each of {} axes", shape.len());
            return Err(fault.value(expected, format!("{given:?}"), "correct the producer"));
        }
        let empty = shape.contains(&0);
        let size = self.element.bytes() as i128;
        let in_elements = |(&stride, &extent): (&i64, &usize)| {
            if empty || extent == 1 {
                return Ok(1);
            }
            let bytes = i128::from(stride) * self.stride_unit;
            if bytes % size != 0 {
                let expected = format!("multiples of the {size} bytes of an element");
                return Err(fault.buffer(
                    expected,
                    format!("{given:?}"),
                    "copy the array to a contiguous one",
                ));
            }
            isize::try_from(bytes / size).map_err(|_| {
                fault.value("strides within the address space", format!("{given:?}"), "correct the producer")
            })
        };
        given.iter().zip(shape).map(in_elements).collect()
    }

    /// As [`ArrayDescription::span`].
    fn checked_span(&self, shape: &[usize], strides: &[isize]) -> Result<(isize, isize), InteropError> {
        if shape.contains(&0) {
            return Ok((0, 0));
        }
        let size = self.element.bytes() as i128;
        let (mut low, mut high) = (0_i128, 1_i128);
        for (&extent, &stride) in shape.iter().zip(strides) {
            let reach = (extent as i128 - 1) * stride as i128;
            low += reach.min(0);
            high += reach.max(0);
            if high - low > isize::MAX as i128 / size {
                return Err(self.protocol.fault("strides").value(
                    "an array that an address space can hold",
                    format!("the strides {strides:?} of the shape {shape:?} in elements of {size} bytes"),
                    "correct the producer",
                ));
            }
        }
        Ok((low as isize, high as isize))
    }

    fn checked_first(&self, (low, high): (isize, isize)) -> Result<Pointer, InteropError> {
        let size = self.element.bytes() as i128;
        let address = self.pointer.addr() as i128;
        let fault = self.protocol.fault("data");
        if low == high {
            // Nothing follows the address of an empty array.
            return Ok(Pointer::new(self.pointer.wrapping_offset(self.offset.1 as isize)));
        }
        if address == 0 {
            return Err(fault.value("the address of the elements", "null", "correct the producer"));
        }
        let (field, offset) = self.offset;
        let first = address + offset;
        let within = |address: i128| (1..=usize::MAX as i128).contains(&address);
        if !within(first) {
            let found = format!("{offset} bytes from the address {address:#x}");
            let expected = "an offset within the address space";
            return Err(self.protocol.fault(field).value(expected, found, "correct the producer"));
        }
        if !within(first + low as i128 * size) || !within(first + high as i128 * size) {
            let found =
                format!("from {low} to {high} elements of {size} bytes around the address {first:#x}");
            return Err(fault.value("elements within the address space", found, "correct the producer"));
        }
        let alignment = self.element.alignment();
        if first % alignment as i128 != 0 {
            let expected = format!("an address aligned to {alignment} bytes for {}", self.element.in_words());
            return Err(fault.buffer(expected, format!("{first:#x}"), "copy the array to an aligned one"));
        }
        Ok(Pointer::new(self.pointer.wrapping_offset(offset as isize)))
    }
}

/// The strides of an array in C order, in elements. The number of elements has been checked.
fn contiguous(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    if !shape.contains(&0) {
        let mut next = 1_usize;
        for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
            if extent > 1 {
                *stride = next as isize;
                next *= extent;
            }
        }
    }
    strides
}
