//! The search for an MPI library. In this order:
//!
//! 1. The file that the variable `HALOPORT_MPI` names.
//! 2. A library that this process has loaded, in whatever way; of several, one that is initialised.
//! 3. The library that the system's loader finds under a known name. The names of the launcher's MPI come first.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use haloport_core::launcher::SIZES;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL};

use super::abi::Abi;
use super::gtl;
use super::loader::{loaded_files, refusal, said};
use super::mpi::{LINK, Mpi, MpiState, Origin, file_of};

/// The variable that names the library.
const VARIABLE: &str = "HALOPORT_MPI";

/// A family of libraries, with the names of their files.
struct Family {
    members: &'static str,
    files: &'static [&'static str],
}

const OPEN_MPI: Family = Family { members: "Open MPI", files: &["libmpi.so.40"] };
const MPICH: Family = Family {
    members: "MPICH and MPIs derived from it",
    files: &["libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"],
};
const STANDARD: Family =
    Family { members: "the standard ABI of MPI 5", files: &["libmpi_abi.so.1", "libmpi_abi.so.0"] };
const OTHERS: Family = Family { members: "any of these", files: &["libmpi.so"] };

/// The ABI of the MPI whose launcher tells the size of a job in each of [`SIZES`].
const LAUNCHERS: [Abi; 3] = [Abi::OpenMpi, Abi::Mpich, Abi::Mpich];

/// Finds an MPI library. `variable` reads the environment.
///
/// # Errors
/// A text: what was looked for, what was found, and what to do.
pub(super) fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Mpi, String> {
    if let Some(named) = variable(VARIABLE).filter(|named| !named.is_empty()) {
        return open(&named, &variable, Origin::Named).map_err(|why| {
            let why = why.unwrap_or_else(|| "there is no such file, nor a library of this name".into());
            format!(
                "{VARIABLE}={named}: {why}. Set it to the file or the name of an MPI library, such as libmpi.so.40, or \
                 unset it"
            )
        });
    }
    let mut unusable = Vec::new();
    if let Some(mpi) = best(loaded(&mut unusable)) {
        return Ok(mpi);
    }
    if !unusable.is_empty() && is_initialized_in_process() {
        return Err(unusable_in_process(&unusable));
    }
    let of_process = Origin::Searched(unusable.clone());
    let launcher = launcher(&variable);
    let families = families(launcher.map(|(_, abi)| abi));
    for file in families.iter().flat_map(|family| family.files) {
        match open(file, &variable, of_process.clone()) {
            Ok(mpi) => return Ok(mpi),
            Err(why) => unusable.extend(why),
        }
    }
    Err(nothing_found(launcher.map(|(name, _)| name), &families, &unusable))
}

/// The library that is initialised, among those that this process has loaded.
pub(super) fn running() -> Option<Mpi> {
    best(loaded(&mut Vec::new())).filter(|mpi| mpi.state() == MpiState::Running)
}

/// Makes the symbols of a library visible to the whole process: plug-ins of some MPIs look for them there. Not before the
/// library is chosen: others that the process loads later would find them instead of those of their own MPI.
pub(super) fn publish(mpi: &Mpi) {
    // SAFETY: the library is loaded already.
    let library = unsafe { Library::open(Some(&mpi.file), RTLD_LAZY | RTLD_GLOBAL | libc::RTLD_NOLOAD) };
    // If there is no such file, the library is part of the program, and nothing is to be done.
    std::mem::forget(library);
}

/// A library that runs comes first, and of those one with the standard ABI: it may be a layer above another one that is
/// loaded for it alone.
fn best(mut loaded: Vec<Mpi>) -> Option<Mpi> {
    loaded.sort_by_key(|mpi| (mpi.state() != MpiState::Running, mpi.abi != Abi::Standard));
    loaded.into_iter().next()
}

/// The files of the libraries that Haloport itself has loaded, and in which way.
static LOADED: Mutex<Vec<(String, Origin)>> = Mutex::new(Vec::new());

/// Opens a library; the error is `None` if there is no such file. If the process has not loaded it, it is of this origin.
fn open(
    name: &str,
    variable: &impl Fn(&str) -> Option<String>,
    origin: Origin,
) -> Result<Mpi, Option<String>> {
    let is_loaded = is_loaded(name);
    gtl::prepare(name, variable);
    // SAFETY: loading an MPI library runs its initialisers, which require nothing of the caller.
    match unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL) } {
        Ok(library) => {
            let mpi = Mpi::load(library.into()).map_err(|why| Some(said(name, &why)))?;
            if !is_loaded {
                LOADED.lock().unwrap_or_else(PoisonError::into_inner).push((mpi.file.clone(), origin));
            }
            Ok(with_origin(mpi))
        }
        Err(error) => Err(refusal(name, &error)),
    }
}

/// The same library, with the origin that is known of its file.
fn with_origin(mpi: Mpi) -> Mpi {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    match loaded.iter().find(|(file, _)| *file == mpi.file) {
        Some((_, origin)) => mpi.with_origin(origin.clone()),
        None => mpi,
    }
}

/// The MPI libraries that this process has loaded, each once.
fn loaded(unusable: &mut Vec<String>) -> Vec<Mpi> {
    let mut found: Vec<Mpi> = Vec::new();
    for file in loaded_files().iter().filter(|file| is_mpi(file)) {
        // SAFETY: the library is loaded already: this counts one more use of it, and loads nothing.
        let library = unsafe { Library::open(Some(file), RTLD_LAZY | libc::RTLD_NOLOAD) };
        match library.map(|library| Mpi::load(library.into())) {
            Ok(Ok(mpi)) if found.iter().any(|other| other.file == mpi.file) => {}
            Ok(Ok(mpi)) => found.push(with_origin(mpi)),
            Ok(Err(why)) => unusable.push(said(file, &why)),
            Err(_) => {}
        }
    }
    if found.is_empty() {
        // A program that contains its MPI, or one under another name.
        match Mpi::load(Library::this().into()) {
            Ok(mpi) => found.push(mpi),
            Err(why) if unusable.is_empty() => unusable.extend(visible_in_process(&why)),
            Err(_) => {}
        }
    }
    found
}

/// A text for an MPI that is visible in the whole process, which cannot be used; `None` if there is none.
fn visible_in_process(why: &str) -> Option<String> {
    file_of(&Library::this().into(), c"MPI_Initialized").map(|file| said(&file, why))
}

/// Whether an MPI that is visible in the whole process is initialised.
fn is_initialized_in_process() -> bool {
    type Initialized = unsafe extern "C" fn(*mut c_int) -> c_int;
    let mut flag: c_int = 0;
    // SAFETY: the standard declares the function with this type; it may be called at any time, and writes one integer.
    let code =
        unsafe { Library::this().get::<Initialized>(c"MPI_Initialized").map(|function| function(&mut flag)) };
    code.is_ok() && flag != 0
}

/// Whether this process has loaded a library with this name.
fn is_loaded(name: &str) -> bool {
    // SAFETY: this loads nothing; at most it counts a use of the library, which ends at once.
    unsafe { Library::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok()
}

/// Whether a file is the C library of an MPI, by its name: not one for another language, nor one of longer integers.
fn is_mpi(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    // Packages of other programs add a hash: libmpi-0f1e2d3c.so.40.
    let (stem, rest) = name.split_at(name.find(['-', '.']).unwrap_or(name.len()));
    let of_vendor = ["cray", "gnu", "intel", "nvidia", "amd", "aocc", "ibm", "abi"];
    let is_stem = matches!(stem, "libmpi" | "libmpich")
        || stem.strip_prefix("libmpi_").is_some_and(|rest| {
            let mut words = rest.split('_');
            // Cray's have the version of the compiler: libmpi_gnu_123.so.12.
            words.next().is_some_and(|word| of_vendor.contains(&word))
                && words.all(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
        });
    is_stem && rest.contains(".so")
}

/// The launcher that started this process: its variable, and the ABI of its MPI. If launchers are nested, a job of one
/// process is the outer one.
fn launcher(variable: &impl Fn(&str) -> Option<String>) -> Option<(&'static str, Abi)> {
    let size = |name: &str| variable(name).map(|text| text.trim().parse::<u64>().unwrap_or(1));
    let set = || SIZES.into_iter().zip(LAUNCHERS).filter_map(|(name, abi)| Some((size(name)?, name, abi)));
    let found = set().find(|(size, ..)| *size > 1).or_else(|| set().next());
    found.map(|(_, name, abi)| (name, abi))
}

/// The families in the order in which they are looked for. Of a launcher's MPI, its own ABI comes first: Intel MPI, for
/// one, ends the process in some errors if it is called through the standard one.
fn families(launcher: Option<Abi>) -> [Family; 4] {
    match launcher {
        None => [OPEN_MPI, MPICH, STANDARD, OTHERS],
        Some(Abi::Mpich) => [MPICH, STANDARD, OPEN_MPI, OTHERS],
        Some(_) => [OPEN_MPI, STANDARD, MPICH, OTHERS],
    }
}

/// Beside an MPI that runs, no other one is loaded: each might call functions of the other.
fn unusable_in_process(unusable: &[String]) -> String {
    format!(
        "this process has initialised an MPI that cannot be used: {}. If it is linked in statically, {LINK}",
        unusable.join("; ")
    )
}

fn nothing_found(launcher: Option<&str>, families: &[Family], unusable: &[String]) -> String {
    let names = |family: &Family| format!("{} ({})", family.files.join(", "), family.members);
    let names = families.iter().map(names).collect::<Vec<_>>().join(", ");
    let order = launcher.map_or("no launcher of MPI has started it".into(), |name| format!("{name} is set"));
    let unusable = match unusable {
        [] => String::new(),
        some => format!("; cannot be used: {}", some.join("; ")),
    };
    format!(
        "no MPI library was found: {VARIABLE} is not set, the process has loaded none ({order}), and the system's loader \
         finds none of {names}{unusable}. Install an MPI, add the folder of its libraries to LD_LIBRARY_PATH, or set \
         {VARIABLE} to the file of its C library. If the program contains an MPI, linked in statically, {LINK}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'v>(variables: &'v [(&'v str, &'v str)]) -> impl Fn(&str) -> Option<String> + 'v {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    }

    #[test]
    fn c_libraries_of_mpi_are_told_from_others_by_name() {
        for file in [
            "/usr/lib/x86_64-linux-gnu/libmpi.so.40",
            "libmpich.so.12.2.2",
            "/opt/mpi/lib/libmpi_abi.so.1.0",
            "/opt/cray/pe/lib64/libmpi_cray.so.12",
            "/opt/cray/pe/lib64/libmpi_gnu_123.so.12",
            "/wheel.libs/libmpi-0f1e2d3c.so.40.30.4",
            "libmpi.so",
        ] {
            assert!(is_mpi(file), "{file}");
        }
        for file in [
            "",
            "/usr/lib/libmpi_cxx.so.40",
            "libmpi_mpifh.so.40",
            "libmpi_usempif08.so.40",
            "libmpi_usempi_ignore_tkr.so.40",
            "libmpi_java.so.40",
            "libmpi_ilp64.so.4",
            "libmpi_intel_ilp64.so.4",
            "libmpicxx.so.12",
            "libmpichfort.so.12",
            "libmpifort.so.12",
            "libmpifort_abi.so.1",
            "libmpi_shm_heap_proxy.so",
            "/opt/libmpi.so/program",
            "libmpi.a",
        ] {
            assert!(!is_mpi(file), "{file}");
        }
    }

    #[test]
    fn the_names_of_the_launchers_mpi_come_first() {
        let first = |variables: &[_]| families(launcher(&read(variables)).map(|(_, abi)| abi))[0].members;
        assert_eq!(first(&[]), OPEN_MPI.members);
        assert_eq!(first(&[("OMPI_COMM_WORLD_SIZE", "2")]), OPEN_MPI.members);
        assert_eq!(first(&[("PMI_SIZE", "2")]), MPICH.members);
        assert_eq!(first(&[("PMI_SIZE", "1")]), MPICH.members);
        assert_eq!(first(&[("MV2_COMM_WORLD_SIZE", "2")]), MPICH.members);
        // One launcher under another.
        assert_eq!(first(&[("OMPI_COMM_WORLD_SIZE", "1"), ("PMI_SIZE", "2")]), MPICH.members);
        assert_eq!(first(&[("OMPI_COMM_WORLD_SIZE", "2"), ("PMI_SIZE", "1")]), OPEN_MPI.members);
    }

    #[test]
    fn a_variable_that_names_no_library_of_mpi_is_an_error() {
        let error = |value| find(read(&[(VARIABLE, value)])).unwrap_err();
        let missing = error("/nonexistent/libmpi.so");
        assert!(missing.contains("HALOPORT_MPI=/nonexistent/libmpi.so: there is no such file"), "{missing}");
        assert!(missing.contains("or unset it"), "{missing}");
        let of_c = error("libc.so.6");
        assert!(of_c.contains("libc.so.6: it is no MPI library: it lacks MPI_Get_library_version"), "{of_c}");
    }

    #[test]
    fn an_error_lists_what_was_looked_for() {
        let families = families(Some(Abi::Mpich));
        let text =
            nothing_found(Some("PMI_SIZE"), &families, &["libmpi.so.12: libfabric.so.1 is missing".into()]);
        for part in [
            "HALOPORT_MPI is not set",
            "PMI_SIZE is set",
            "libmpi.so.12, libmpich.so.12",
            "libmpi_abi.so.1",
            "libmpi.so.40 (Open MPI)",
            "cannot be used: libmpi.so.12: libfabric.so.1 is missing",
            "LD_LIBRARY_PATH",
            "-rdynamic",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
