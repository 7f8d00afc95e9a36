//! The system's loader: the files that it has loaded, and its errors.

use std::error::Error as _;
use std::ffi::{CStr, c_int, c_void};

/// The files that this process has loaded.
pub(super) fn loaded_files() -> Vec<String> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, names: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid structure, and the address that `dl_iterate_phdr` was given.
        let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<String>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: a text of the loader, which ends with a zero byte.
            names.push(unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy().into_owned());
        }
        0
    }
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the function has the required type, and gets the address of the list, which it alone uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names
}

/// The reason for which the loader cannot load the library `name`; `None` if there is no such file.
pub(super) fn refusal(name: &str, error: &libloading::Error) -> Option<String> {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    // If a library that `name` needs is missing, the message begins with the name of the missing one.
    let missing = text.starts_with(name) && text.ends_with("No such file or directory");
    (!missing).then(|| said(name, &text))
}

/// A message that names the library.
pub(super) fn said(name: &str, why: &str) -> String {
    if why.contains(name) { why.into() } else { format!("{name}: {why}") }
}
