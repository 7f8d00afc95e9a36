//! Pointers and numbers that callers pass.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use crate::handle::{Handle, Kind};
use crate::status::Failure;

/// The elements of an array of the caller; none may be there if their number is 0.
///
/// # Safety
/// Unless it is null, `first` is the address of that many elements, which nothing writes while the result lives.
pub(crate) unsafe fn slice<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Failure::argument(format!("{name}: expected an array of {count} elements, found null")));
    }
    if !first.is_aligned() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::argument(format!("{name}: expected an array in memory, found {first:?}")));
    }
    // SAFETY: the caller's promise; not null, aligned, and not larger than memory.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// As [`slice`], to be written.
///
/// # Safety
/// As for [`slice`], and nobody else uses the elements while the result lives.
pub(crate) unsafe fn slice_mut<'a, T>(
    first: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T], Failure> {
    // SAFETY: the caller's promise.
    let found = unsafe { slice(first, count, name)? };
    if found.is_empty() {
        return Ok(&mut []);
    }
    // SAFETY: `slice` has checked it, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, count) })
}

/// The value that a pointer of the caller points to.
///
/// # Safety
/// As for [`slice`], with one element.
pub(crate) unsafe fn one<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { slice(pointer, 1, name) }.map(|found| &found[0])
}

/// A struct of the header, which starts with its size.
///
/// # Safety
/// It consists of numbers and pointers, and 0 is a value of each.
pub(crate) unsafe trait Struct: Sized {
    /// Its size in bytes in the first header that had it.
    const FIRST: usize = size_of::<Self>();
}

/// Checks that a row of structs may be in memory.
pub(crate) fn check_row<T: Struct>(first: *const T, count: usize, name: &str) -> Result<(), Failure> {
    if count > 0 && first.is_null() {
        return Err(Failure::argument(format!("{name}: expected an array of {count} elements, found null")));
    }
    if !first.is_aligned() || count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::argument(format!("{name}: expected an array in memory, found {first:?}")));
    }
    Ok(())
}

/// Struct `index` of a row of structs. Programs that were compiled with an earlier header have shorter ones: what these lack
/// is 0. All structs of a row have the same size.
///
/// # Safety
/// Unless it is null, `first` is the address of a row of at least `index + 1` structs of the size that the first one says,
/// which nothing writes meanwhile.
pub(crate) unsafe fn sized<T: Struct>(first: *const T, index: usize, name: &str) -> Result<T, Failure> {
    // SAFETY: the caller's promise, of the first member alone.
    let of_first = *unsafe { one(first.cast::<u32>(), name) }? as usize;
    let wrong = |expected: String, found: usize| {
        Failure::argument(format!(
            "{name}.size: expected {expected}, found {found}; initialise the struct by its macro, and compile with the \
             header of the library, or an earlier one"
        ))
    };
    let (most, multiple) = (size_of::<T>(), align_of::<T>());
    if !(T::FIRST..=most).contains(&of_first) || !of_first.is_multiple_of(multiple) {
        let expected = if T::FIRST == most { most.to_string() } else { format!("{} to {most}", T::FIRST) };
        return Err(wrong(expected, of_first));
    }
    let this = first.cast::<u8>().wrapping_add(index * of_first);
    // SAFETY: the caller's promise: there is one more struct of that size.
    let size = *unsafe { one(this.cast::<u32>(), name) }? as usize;
    if size != of_first {
        return Err(wrong(format!("{of_first}, as of the first one"), size));
    }
    let mut made = MaybeUninit::<T>::zeroed();
    // SAFETY: `size` bytes are there by the caller's promise, and fit into `made`, which is a value of `T` then: its numbers
    // and pointers are those of the caller, or 0.
    Ok(unsafe {
        made.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(this, size);
        made.assume_init()
    })
}

/// A text; `None` if it is null.
///
/// # Safety
/// Unless it is null, `text` ends with a null, and nothing writes it while the result lives.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    let found = text.to_str();
    found
        .map(Some)
        .map_err(|_| Failure::argument(format!("{name}: expected a text in UTF-8, found {text:?}")))
}

/// Writes a result, unless the caller passes null for it.
///
/// # Safety
/// Unless it is null, `to` may be written.
pub(crate) unsafe fn write<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise; the memory may hold anything.
        unsafe { to.write_unaligned(value) };
    }
}

/// Checks that there is a place for the handle that a collective call makes, before other ranks wait for this one.
pub(crate) fn check_place<T: Kind>(made: *mut Handle<T>) -> Result<(), Failure> {
    match made.is_null() {
        true => Err(Failure::argument(format!(
            "{}: expected a place for it, found null",
            T::NAME.trim_start_matches("hp_")
        ))),
        false => Ok(()),
    }
}

/// Writes null to the place of the handle that a call makes, so that the caller finds no handle if the call fails.
///
/// # Safety
/// Unless it is null, `to` may be written.
pub(crate) unsafe fn clear<T: Kind>(to: *mut Handle<T>) {
    if !to.is_null() {
        // SAFETY: the caller's promise; a handle is a number.
        unsafe { to.cast::<usize>().write(0) };
    }
}

/// Makes what a handle stands for, and writes the handle; null if that fails.
///
/// # Safety
/// Unless it is null, `to` may be written.
pub(crate) unsafe fn make<T: Kind>(
    to: *mut Handle<T>,
    body: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::argument(format!("expected a place for the {}, found null", T::NAME)));
    }
    // SAFETY: the caller's promise.
    unsafe { clear(to) };
    let made = Handle::new(body()?);
    // SAFETY: as above.
    unsafe { to.write(made) };
    Ok(())
}

/// Checks an array of the header that has a value for each of `axes` axes: there is none beyond them. `counted` is the name of
/// the number of axes.
pub(crate) fn check_beyond<T: PartialEq + Default + std::fmt::Display>(
    values: &[T],
    (counted, axes): (&str, usize),
    name: &str,
) -> Result<(), Failure> {
    let mut beyond = values.iter().enumerate().skip(axes);
    match beyond.find(|(_, value)| **value != T::default()) {
        None => Ok(()),
        Some((place, value)) => Err(Failure::argument(format!(
            "{name}[{place}]: expected 0, as {counted} is {axes}, found {value}"
        ))),
    }
}

/// Members without a meaning are 0, so that they can have one later.
pub(crate) fn expect_zero(unused: i32, name: &str) -> Result<(), Failure> {
    match unused {
        0 => Ok(()),
        found => Err(Failure::argument(format!("{name}: expected 0, found {found}"))),
    }
}

/// A number that counts things.
pub(crate) fn count(
    number: impl TryInto<usize> + std::fmt::Display + Copy,
    name: &str,
) -> Result<usize, Failure> {
    number
        .try_into()
        .map_err(|_| Failure::argument(format!("{name}: expected a number of 0 or more, found {number}")))
}
