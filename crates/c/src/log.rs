//! Warnings of the library, and errors that no call returns.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use haloport::log::{Level, Sink, set_sink};

use crate::status::{Status, call};

/// `hp_level` of the header.
pub(crate) const ERROR: i32 = 1;
pub(crate) const WARNING: i32 = 2;

/// The function of a program that takes lines, and what it gets with each.
struct Log {
    function: unsafe extern "C" fn(level: i32, text: *const c_char, context: *mut c_void),
    context: *mut c_void,
}

// SAFETY: by the contract of the header, the function may be called on any thread with this context.
unsafe impl Send for Log {}
// SAFETY: as above.
unsafe impl Sync for Log {}

impl Log {
    fn write(&self, level: Level, text: &str) {
        let level = match level {
            Level::Error => ERROR,
            Level::Warning => WARNING,
        };
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: by the contract of the header; the text lives until it returns.
        unsafe { (self.function)(level, text.as_ptr(), self.context) };
    }
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_set_log(
    function: Option<unsafe extern "C" fn(i32, *const c_char, *mut c_void)>,
    context: *mut c_void,
) -> Status {
    call("hp_set_log", || {
        set_sink(function.map(|function| {
            let log = Log { function, context };
            Arc::new(move |level, text: &str| log.write(level, text)) as Sink
        }));
        Ok(())
    })
}
