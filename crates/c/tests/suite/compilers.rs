//! Compilers of C, C++ and Fortran, and the programs that they make of sources of the tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

/// The folder of `haloport-c`.
pub(crate) const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder of the shared library and of this test.
pub(crate) fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("a folder").to_owned()
}

/// Whether there is such a command. If not, says that the test is skipped; panics if `HALOPORT_REQUIRED` lists it.
pub(crate) fn has(command: &str) -> bool {
    let found = Command::new(command).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        let required = std::env::var("HALOPORT_REQUIRED").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name == command),
            "HALOPORT_REQUIRED has {command}; found none"
        );
        println!("skipped: no {command}");
    }
    found.is_ok()
}

/// Runs a command; panics with its output if it fails.
pub(crate) fn run(command: &mut Command) -> String {
    // Cargo puts folders into it in which another build of the library may be.
    let output =
        command.env_remove("LD_LIBRARY_PATH").output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

/// Compiles a program beside the test, and returns its path.
pub(crate) fn compiled(compiler: &str, standard: &str, source: &str, options: &[&str]) -> PathBuf {
    compiled_as("c", compiler, standard, source, options)
}

/// The same; the name of the program begins with `kind`.
pub(crate) fn compiled_as(
    kind: &str,
    compiler: &str,
    standard: &str,
    source: &str,
    options: &[&str],
) -> PathBuf {
    let stem = Path::new(source).file_stem().expect("a name").to_string_lossy().into_owned();
    let program = libraries().join(format!("{kind}-{stem}-{compiler}-{standard}"));
    let folder = libraries();
    run(Command::new(compiler)
        .args([&format!("-std={standard}"), "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(Path::new(HERE).join(source))
        .args(["-I", &format!("{HERE}/include"), "-L"])
        .arg(&folder)
        .args([&format!("-Wl,-rpath,{}", folder.display()), "-lhaloport_c", "-lpthread"])
        .args(options));
    name_library();
    program
}

/// Gives the library the name that it is installed under, by which programs look for it.
fn name_library() {
    let installed = libraries().join("libhaloport.so.1");
    if !installed.exists() {
        // Another test may have been quicker.
        let _ = std::os::unix::fs::symlink("libhaloport_c.so", &installed);
    }
}

/// A compiler of Fortran.
pub(crate) struct Fortran {
    pub(crate) command: &'static str,
    /// The folder of its ISO_Fortran_binding.h, if gcc does not look for it there.
    pub(crate) include: Option<PathBuf>,
    pub(crate) warnings: &'static [&'static str],
}

impl Fortran {
    /// gfortran, if there is one.
    pub(crate) fn gnu() -> Option<Fortran> {
        let found = has("gcc") && has("gfortran");
        let warnings = &["-std=f2018", "-Wall", "-Wextra", "-Werror"];
        found.then_some(Fortran { command: "gfortran", include: None, warnings })
    }

    /// flang, if there is one. It has no `-Wall`; it warns by default.
    pub(crate) fn llvm() -> Option<Fortran> {
        const COMMAND: &str = "flang-22";
        if !(has("gcc") && has(COMMAND)) {
            return None;
        }
        let said = run(Command::new("sh").args(["-c", "readlink -f \"$(command -v \"$0\")\"", COMMAND]));
        let include = Path::new(said.trim()).parent()?.join("../include/flang");
        Some(Fortran { command: COMMAND, include: Some(include), warnings: &["-Werror"] })
    }
}

/// Compiles a program of Fortran with the module, in a folder of its own, and returns its path.
pub(crate) fn compiled_fortran(
    fortran: &Fortran,
    program: &str,
    sources: &[&str],
    options: &[&str],
) -> PathBuf {
    let module = module_of_fortran(fortran, options);
    // Modules of Fortran are files beside the objects.
    let folder = libraries().join(format!("{}-{program}{}", fortran.command, options.concat()));
    std::fs::create_dir_all(&folder).expect("a folder");
    run(Command::new(fortran.command)
        .current_dir(&folder)
        .args(["-o", program, &format!("-I{}", module.display())])
        .args(["haloport_fortran.o", "haloport.o"].map(|object| module.join(object)))
        .args(sources.iter().map(|source| format!("{HERE}/tests/programs/{source}")))
        .args(["-L", &libraries().display().to_string(), "-lhaloport_c"])
        .arg(format!("-Wl,-rpath,{}", libraries().display()))
        .args(fortran.warnings)
        .args(options));
    name_library();
    folder.join(program)
}

/// Compiles the module with these options of a program, once for all programs that have the same, and returns its folder.
fn module_of_fortran(fortran: &Fortran, options: &[&str]) -> PathBuf {
    static MADE: Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());
    let options: Vec<&str> = options.iter().copied().filter(|option| !option.starts_with("-l")).collect();
    let name = format!("module-{}{}", fortran.command, options.concat());
    let made = Arc::clone(MADE.lock().expect("no test panics here").entry(name.clone()).or_default());
    let make = || {
        let folder = libraries().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        run(Command::new("gcc")
            .current_dir(&folder)
            .args(["-c", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror"])
            .args(fortran.include.iter().map(|include| format!("-I{}", include.display())))
            .args([&format!("-I{HERE}/include"), &format!("{HERE}/fortran/haloport_fortran.c")]));
        run(Command::new(fortran.command)
            .current_dir(&folder)
            .args(["-c", &format!("{HERE}/fortran/haloport.f90")])
            .args(fortran.warnings)
            .args(options));
        folder
    };
    made.get_or_init(make).clone()
}
