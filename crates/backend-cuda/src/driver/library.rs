//! Libraries that are loaded at run time, with tables of their functions.

use std::error::Error;

use libloading::Library;

/// Loads the first library of these names that can be loaded; otherwise returns the loader's message for each name.
pub(crate) fn load<S: AsRef<str>>(names: &[S]) -> Result<Library, String> {
    let mut failures = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        // SAFETY: loading runs the initialisers of a driver or a compiler, which require nothing of the caller.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(error) => failures.push(format!("{name} ({})", reason(&error, name))),
        }
    }
    Err(failures.join(", "))
}

/// The library of this name, if the process has loaded it.
#[cfg(unix)]
pub(crate) fn loaded(name: &str) -> Option<Library> {
    use libloading::os::unix;
    // SAFETY: with RTLD_NOLOAD nothing is loaded, so no code of the library runs.
    let library = unsafe { unix::Library::open(Some(name), unix::RTLD_NOW | libc::RTLD_NOLOAD) };
    library.ok().map(Library::from)
}

/// The library of this name, if the process has loaded it.
#[cfg(windows)]
pub(crate) fn loaded(name: &str) -> Option<Library> {
    libloading::os::windows::Library::open_already_loaded(name).ok().map(Library::from)
}

/// Name, size in bytes and time of change in seconds of the file that the code at an address was loaded from, without links
/// to it; `None` if the system does not tell.
#[cfg(unix)]
pub(crate) fn file_of(code: *const ()) -> Option<String> {
    use std::ffi::{CStr, OsStr};
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;
    use std::time::UNIX_EPOCH;

    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the call takes any address and writes to a local variable, whose zeros are valid.
    let found = unsafe { (libc::dladdr(code.cast(), found.as_mut_ptr()) != 0).then(|| found.assume_init()) }?;
    if found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the text lives as long as the library is loaded.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes())).canonicalize().ok()?;
    let about = path.metadata().ok()?;
    let changed = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(format!("{} of {} bytes, changed at {changed} s", path.file_name()?.to_string_lossy(), about.len()))
}

/// As on Unix.
#[cfg(not(unix))]
pub(crate) fn file_of(_code: *const ()) -> Option<String> {
    None
}

/// The message of the system's loader, without the leading name.
fn reason(error: &libloading::Error, name: &str) -> String {
    let text = error.source().unwrap_or(error).to_string();
    text.strip_prefix(name).map_or(&*text, |rest| rest.trim_start_matches([':', ' '])).to_string()
}

/// Declares the functions of a library as a structure of function pointers with a function `load`.
///
/// `$sys` is the module of cudarc with the types, and the compiler compares each declaration under `checked` with
/// cudarc's. cudarc's functions themselves are not called: they panic if a library lacks a symbol, and return the
/// status as an enum, which lacks the values of later drivers. Here a status is a number, and a missing symbol is an
/// error. `own` lists the functions whose parameters contain a status, `optional` those that some libraries lack.
macro_rules! functions {
    (
        $(#[$doc:meta])*
        $name:ident of $sys:path;
        checked { $($checked:ident($($type:ty),* $(,)?) -> $status:ty;)* }
        own { $($own:ident($($own_type:ty),* $(,)?) -> $own_result:ty;)* }
        optional { $($optional:ident($($optional_type:ty),* $(,)?) -> $optional_result:ty;)* }
    ) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the names are the library's own")]
        pub(crate) struct $name {
            $(pub(crate) $checked: unsafe extern "C" fn($($type),*) -> u32,)*
            $(pub(crate) $own: unsafe extern "C" fn($($own_type),*) -> $own_result,)*
            $(pub(crate) $optional: Option<unsafe extern "C" fn($($optional_type),*) -> $optional_result>,)*
            /// Keeps the functions loaded.
            _library: libloading::Library,
        }

        impl $name {
            /// Finds the functions in `library`; otherwise returns the name of the first that it lacks.
            pub(crate) fn load(library: libloading::Library) -> Result<$name, &'static str> {
                use $sys as sys;
                $(const _: unsafe fn($($type),*) -> $status = sys::$checked;)*
                Ok($name {
                    $($checked: {
                        // SAFETY: cudarc declares the symbol with this type; its status is an enum of C.
                        *unsafe { library.get(concat!(stringify!($checked), "\0").as_bytes()) }
                            .map_err(|_| stringify!($checked))?
                    },)*
                    $($own: {
                        // SAFETY: the library's header declares the symbol with this type; enums of C are numbers.
                        *unsafe { library.get(concat!(stringify!($own), "\0").as_bytes()) }
                            .map_err(|_| stringify!($own))?
                    },)*
                    $($optional: {
                        // SAFETY: as above.
                        unsafe { library.get(concat!(stringify!($optional), "\0").as_bytes()) }
                            .ok()
                            .map(|function| *function)
                    },)*
                    _library: library,
                })
            }
        }
    };
}

pub(crate) use functions;
