//! Texts in OpenCL C, which other programs compile to SPIR-V.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Compiles a text with the options of a caller; the error is the compiler's log.
pub(crate) fn spirv_of(text: &[u8], options: &str) -> Result<Vec<u8>, String> {
    let folder = Folder::new()?;
    std::fs::write(folder.0.join("main.cl"), text).map_err(|error| error.to_string())?;
    let mut clang = Command::new("clang-15");
    clang.args(["-x", "cl", "-cl-std=CL1.2", "-D__OPENCL_VERSION__=120", "-O2", "-target", "spir64"]);
    clang.args(["-Xclang", "-finclude-default-header", "-emit-llvm", "-c", "-o", "main.bc", "main.cl"]);
    clang.args(options.split_whitespace());
    run(clang, &folder.0)?;
    let mut translate = Command::new("llvm-spirv-15");
    translate.args(["--spirv-max-version=1.2", "-o", "main.spv", "main.bc"]);
    run(translate, &folder.0)?;
    std::fs::read(folder.0.join("main.spv")).map_err(|error| error.to_string())
}

fn run(mut command: Command, folder: &Path) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Libraries of the program under test are not those of the compiler.
    match command.current_dir(folder).env_remove("LD_LIBRARY_PATH").output() {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(Output { stderr, .. }) => Err(String::from_utf8_lossy(&stderr).into_owned()),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);

        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("haloport-ocloc-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody uses what may stay.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
