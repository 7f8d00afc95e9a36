//! Pointers and numbers that callers pass.

use std::ffi::{CStr, c_char};

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

/// A struct of the header, which begins with its size.
///
/// # Safety
/// As for [`one`].
pub(crate) unsafe fn sized<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise, of the first member alone.
    let size = *unsafe { one(pointer.cast::<u32>(), name) }? as usize;
    if size != size_of::<T>() {
        return Err(Failure::argument(format!(
            "{name}.size: expected {}, found {size}; initialise the struct by its macro, and compile with the header of \
             the library",
            size_of::<T>()
        )));
    }
    // SAFETY: the caller's promise.
    unsafe { one(pointer, name) }
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

/// A number that counts things.
pub(crate) fn count(
    number: impl TryInto<usize> + std::fmt::Display + Copy,
    name: &str,
) -> Result<usize, Failure> {
    number
        .try_into()
        .map_err(|_| Failure::argument(format!("{name}: expected a number of 0 or more, found {number}")))
}
