//! Libraries that are loaded at run time, and tables of their functions.

use std::error::Error;

use libloading::Library;

/// The first library that can be loaded of some names; else what was said of each.
pub(crate) fn load<S: AsRef<str>>(names: &[S]) -> Result<Library, String> {
    let mut said = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        // SAFETY: loading runs the initialisers of a driver or a compiler, which ask nothing of who loads them.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(error) => said.push(format!("{name} ({})", reason(&error, name))),
        }
    }
    Err(said.join(", "))
}

/// What the system's loader said, without the name that it begins with.
fn reason(error: &libloading::Error, name: &str) -> String {
    let text = error.source().unwrap_or(error).to_string();
    text.strip_prefix(name).map_or(&*text, |rest| rest.trim_start_matches([':', ' '])).to_string()
}

/// Declares the functions that are called of a library, as a structure of function pointers with a function `load`.
///
/// The types of `$sys` are those of cudarc, and the compiler compares each declaration under `checked` with cudarc's. Its
/// functions themselves are not called: they panic where a library lacks a symbol, and give the status as an enumeration,
/// of which a later driver has values that this one does not know. Here, a status is a number, and a symbol that is
/// missing is an error. Under `own` stand those that take a status, too; under `optional` those that some libraries lack.
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
            /// Keeps the functions where they are.
            _library: libloading::Library,
        }

        impl $name {
            /// The functions of `library`, or the name of the first that it lacks.
            pub(crate) fn load(library: libloading::Library) -> Result<$name, &'static str> {
                use $sys as sys;
                $(const _: unsafe fn($($type),*) -> $status = sys::$checked;)*
                Ok($name {
                    $($checked: {
                        // SAFETY: the symbol has this type, as cudarc declares it; its status is an enumeration of C.
                        *unsafe { library.get(concat!(stringify!($checked), "\0").as_bytes()) }
                            .map_err(|_| stringify!($checked))?
                    },)*
                    $($own: {
                        // SAFETY: the symbol has this type in the library's header; enumerations of C are numbers.
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
