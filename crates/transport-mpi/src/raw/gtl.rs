//! The GPU transport layer (GTL) of Cray MPICH, a library of its own for each kind of GPU.
//!
//! If `MPICH_GPU_SUPPORT_ENABLED` is 1, `MPI_Init` of Cray MPICH ends the process unless it finds the functions of that
//! library. The compilers of Cray link programs to it; a process that loads MPI at run time must load it, visible to all
//! libraries. MPI may look for the functions when it is loaded, so this comes first if the library to load can be Cray's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::loader::{loaded_files, refusal};
use super::mpi::Mpi;

/// The variable that makes MPI use the library.
const SWITCH: &str = "MPICH_GPU_SUPPORT_ENABLED";

/// The variable with the folder of Cray MPICH, which Cray's module sets.
const ROOT: &str = "CRAY_MPICH_ROOTDIR";

/// The folder of the library within that of Cray MPICH.
const FOLDER: &str = "gtl/lib";

/// The number of folders above that of MPI that are searched: it lies in one for the network, the compiler, and the
/// compiler's version.
const LEVELS: usize = 5;

/// Loads the library if it is wanted and `mpi`, the name or the file of an MPI to load, can be Cray's. If there is none,
/// MPI can still be loaded; [`require`] says what is missing before MPI is initialised.
pub(super) fn prepare(mpi: &str, variable: &impl Fn(&str) -> Option<String>) {
    if is_wanted(variable) && can_be_of_cray(mpi, variable) {
        let _ = load(mpi, variable);
    }
}

/// Loads the library if MPI needs it to be initialised. To be called before that.
///
/// # Errors
/// A text: what was looked for, what was found, and what to do.
pub(super) fn require(mpi: &Mpi, variable: &impl Fn(&str) -> Option<String>) -> Result<(), String> {
    if !(is_wanted(variable) && is_of_cray(&mpi.version)) {
        return Ok(());
    }
    load(&mpi.file, variable).map_err(|attempts| attempts.text(mpi))
}

/// A search that has failed.
#[derive(Default)]
struct Attempts {
    names: Vec<String>,
    folders: Vec<String>,
    /// The files that were found, each with the reason for which it cannot be loaded.
    unusable: Vec<String>,
}

impl Attempts {
    fn text(&self, mpi: &Mpi) -> String {
        let Attempts { names, folders, unusable } = self;
        let beside = match &folders[..] {
            [] => String::new(),
            some => format!(" and in {}", some.join(", ")),
        };
        let found = match &unusable[..] {
            [] => "found none".into(),
            some => format!("found only what cannot be loaded ({})", some.join("; ")),
        };
        format!(
            "{SWITCH} is 1, so {version} ({file}) needs the library of its GPU transport layer: looked for {names} \
             where the system's loader looks{beside}, {found}. Load the modules of the GPU, or `export \
             LD_PRELOAD=FOLDER/{first}`; if MPI need not take memory of GPUs, `export {SWITCH}=0`",
            version = mpi.version,
            file = mpi.file,
            names = names.join(", "),
            first = names.first().map_or("", String::as_str),
        )
    }
}

fn load(mpi: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<(), Attempts> {
    if let Some(loaded) = loaded_files().into_iter().find(|file| is_layer(file)) {
        // Another library may have loaded it for itself alone. An error leaves that as it is.
        let _ = open(&loaded);
        return Ok(());
    }
    let folders = folders(mpi, variable);
    let mut attempts = Attempts::default();
    for name in names() {
        // The one beside MPI is of the same version.
        let beside = folders.iter().map(|folder| folder.join(&name)).filter(|file| file.is_file());
        let beside = beside.map(|file| file.to_string_lossy().into_owned());
        for file in beside.chain([name.clone(), format!("{name}.0")]) {
            match open(&file) {
                Ok(()) => return Ok(()),
                Err(why) => attempts.unusable.extend(why),
            }
        }
        attempts.names.push(name);
    }
    attempts.folders.extend(folders.iter().map(|folder| folder.to_string_lossy().into_owned()));
    Err(attempts)
}

/// Loads a file for the whole process, for as long as that lives; the error is `None` if there is no such file.
fn open(file: &str) -> Result<(), Option<String>> {
    // SAFETY: its initialisers require nothing of the caller: they run in every program that is linked to it.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) };
    library.map(std::mem::forget).map_err(|error| refusal(file, &error))
}

/// The names of the library for each kind of GPU, those of this machine first.
fn names() -> [String; 3] {
    let amd = Path::new("/dev/kfd").exists() && !Path::new("/dev/nvidiactl").exists();
    let kinds = if amd { ["hsa", "cuda", "ze"] } else { ["cuda", "hsa", "ze"] };
    kinds.map(|kind| format!("libmpi_gtl_{kind}.so"))
}

/// Whether a file is the library for a kind of GPU.
fn is_layer(file: &str) -> bool {
    file.rsplit('/').next().is_some_and(|name| name.starts_with("libmpi_gtl_"))
}

/// The folders in which the library may lie if MPI is the file `mpi`, without those that do not exist; of a name without
/// a folder, that of the variable alone.
fn folders(mpi: &str, variable: &impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let file = Some(Path::new(mpi)).filter(|_| mpi.contains('/'));
    let real = file.and_then(|file| file.canonicalize().ok());
    let above = |file: &Path| {
        let folder = file.parent().map(Path::to_path_buf);
        let above: Vec<_> = file.ancestors().skip(2).take(LEVELS).map(|folder| folder.join(FOLDER)).collect();
        folder.into_iter().chain(above)
    };
    let root = variable(ROOT).filter(|root| !root.is_empty()).map(|root| Path::new(&root).join(FOLDER));
    let all = real.as_deref().into_iter().chain(file).flat_map(above).chain(root);
    let mut known = BTreeSet::new();
    all.filter(|folder| folder.is_dir() && known.insert(folder.clone())).collect()
}

fn is_wanted(variable: &impl Fn(&str) -> Option<String>) -> bool {
    variable(SWITCH).is_some_and(|value| value.trim() == "1")
}

/// Whether a version text is that of Cray MPICH, such as `MPI VERSION : CRAY MPICH version 8.1.29.4 (ANL base 3.4a2)`.
fn is_of_cray(version: &str) -> bool {
    version.to_ascii_uppercase().contains("CRAY MPICH")
}

/// Whether the MPI with this name or file can be Cray's, before it is loaded.
fn can_be_of_cray(mpi: &str, variable: &impl Fn(&str) -> Option<String>) -> bool {
    const OF_COMPILERS: [&str; 6] = ["cray", "gnu", "intel", "nvidia", "amd", "aocc"];
    let name = mpi.rsplit('/').next().unwrap_or(mpi);
    // Those of Open MPI and with the standard ABI are not.
    let of_others = name.starts_with("libmpi.so.40") || name.starts_with("libmpi_abi");
    let compiler = name.strip_prefix("libmpi_").unwrap_or_default();
    !of_others
        && (mpi.contains("cray")
            || OF_COMPILERS.iter().any(|known| compiler.starts_with(known))
            || variable(ROOT).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'v>(variables: &'v [(&'v str, &'v str)]) -> impl Fn(&str) -> Option<String> + 'v {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    }

    #[test]
    fn cray_mpich_is_known_by_its_version_text() {
        assert!(is_of_cray("MPI VERSION : CRAY MPICH version 8.1.29.4 (ANL base 3.4a2)"));
        assert!(is_of_cray("MPI VERSION : CRAY MPICH version 9.0.0.113 (ANL base 4.1.2)"));
        assert!(!is_of_cray("MPICH Version: 4.0.2"));
        assert!(!is_of_cray("Open MPI v4.1.4, package: Debian OpenMPI"));
    }

    #[test]
    fn the_layer_is_wanted_if_the_switch_is_1() {
        assert!(is_wanted(&read(&[(SWITCH, "1")])));
        for variables in [&[][..], &[(SWITCH, "0")], &[(SWITCH, "")]] {
            assert!(!is_wanted(&read(variables)), "{variables:?}");
        }
    }

    #[test]
    fn files_of_cray_are_known_before_they_are_loaded() {
        let module = [(ROOT, "/opt/cray/pe/mpich/8.1.29")];
        for (mpi, variables, expected) in [
            ("libmpi_cray.so.12", &[][..], true),
            ("libmpi_gnu_123.so.12", &[], true),
            ("/opt/cray/pe/mpich/8.1.29/ofi/gnu/12.3/lib/libmpi.so", &[], true),
            ("libmpi.so.12", &module, true),
            ("libmpi.so.12", &[], false),
            ("libmpi.so.40", &module, false),
            ("libmpi_abi.so.1", &module, false),
        ] {
            assert_eq!(can_be_of_cray(mpi, &read(variables)), expected, "{mpi}, {variables:?}");
        }
    }

    #[test]
    fn the_folder_of_the_layer_is_found_from_that_of_mpi() {
        let root = std::env::temp_dir().join(format!("haloport-gtl-{}", std::process::id()));
        let (mpi, layer) = (root.join("ofi/cray/17.0/lib"), root.join(FOLDER));
        std::fs::create_dir_all(&mpi).unwrap();
        std::fs::create_dir_all(&layer).unwrap();
        let file = mpi.join("libmpi_cray.so.12");
        std::fs::write(&file, "").unwrap();
        let real = |folder: &Path| folder.canonicalize().unwrap();
        let by_file = folders(file.to_str().unwrap(), &read(&[]));
        let by_module = folders("libmpi_cray.so.12", &read(&[(ROOT, root.to_str().unwrap())]));
        let expected = [real(&mpi), real(&layer)];
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(by_file, expected);
        assert_eq!(by_module, [layer]);
    }
}
