//! The functions of Intel's compiler, `libocloc.so`, as its `ocloc_api.h` declares them.

use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::compiler::spirv_of;

/// The version of the interface: 1.0.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn oclocVersion() -> c_int {
    1 << 16
}

/// Compiles the first source, or answers a question about the device.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn oclocInvoke(
    arguments: u32,
    argument: *const *const c_char,
    sources: u32,
    source: *const *const u8,
    source_bytes: *const u64,
    _source_name: *const *const c_char,
    _headers: u32,
    _header: *const *const u8,
    _header_bytes: *const u64,
    _header_name: *const *const c_char,
    outputs: *mut u32,
    output: *mut *mut *mut u8,
    output_bytes: *mut *mut u64,
    output_name: *mut *mut *mut c_char,
) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller gives arrays of these lengths, with texts that end with 0.
        let words: Vec<String> = (0..arguments as usize)
            .map(|number| unsafe { CStr::from_ptr(*argument.add(number)) }.to_string_lossy().into_owned())
            .collect();
        if words.iter().any(|word| word == "query") {
            return (0, vec![("stdout.log", ANSWER.as_bytes().to_vec())]);
        }
        let options = words.iter().skip_while(|word| *word != "-options").nth(1).cloned().unwrap_or_default();
        if sources == 0 {
            return (1, vec![("stdout.log", b"expected a source, found none".to_vec())]);
        }
        // SAFETY: the same.
        let text = unsafe { std::slice::from_raw_parts(*source, *source_bytes as usize) };
        let text = text.strip_suffix(&[0]).unwrap_or(text);
        match spirv_of(text, &options) {
            Ok(module) => (0, vec![("main.spv", module)]),
            Err(log) => (1, vec![("stdout.log", log.into_bytes())]),
        }
    }));
    let (code, files) = done.unwrap_or((1, Vec::new()));
    // SAFETY: the caller gives places for the numbers and the arrays.
    unsafe {
        *outputs = files.len() as u32;
        *output_bytes = leaked(files.iter().map(|(_, bytes)| bytes.len() as u64).collect());
        *output_name = leaked(
            files.iter().map(|(name, _)| CString::new(*name).unwrap_or_default().into_raw()).collect(),
        );
        *output = leaked(files.into_iter().map(|(_, bytes)| leaked(bytes)).collect());
    }
    code
}

/// Frees what the compiler gave.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn oclocFreeOutput(
    outputs: *mut u32,
    output: *mut *mut *mut u8,
    output_bytes: *mut *mut u64,
    output_name: *mut *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller gives back what `oclocInvoke` has leaked, once.
    unsafe {
        let count = *outputs as usize;
        let sizes = taken_back(*output_bytes, count);
        for (bytes, size) in taken_back(*output, count).iter().zip(&sizes) {
            drop(taken_back(*bytes, *size as usize));
        }
        for name in taken_back(*output_name, count) {
            drop(CString::from_raw(name));
        }
        *outputs = 0;
        (*output, *output_bytes, *output_name) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    }
    0
}

/// The versions of the language that the device takes.
const ANSWER: &str = r#""OpenCL C":1.0.0 "OpenCL C":1.1.0 "OpenCL C":1.2.0 "#;

fn leaked<T>(values: Vec<T>) -> *mut T {
    Box::into_raw(values.into_boxed_slice()).cast()
}

/// # Safety
/// The address came from [`leaked`], for that number of values, and is not used again.
unsafe fn taken_back<T>(start: *mut T, count: usize) -> Vec<T> {
    // SAFETY: the caller's promise.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, count)) }.into_vec()
}
