//! Haloport's own kernels as SPIR-V, for devices whose driver takes no OpenCL C.
//!
//! Made from the portable texts by clang 15 and llvm-spirv 15, as Debian 12 has them: run the test below with
//! `HALOPORT_WRITE_SPIRV=1` after a change of a text.

use haloport_core::device::dialect;

/// A kernel: its name, its text in the portable dialect, and its module with and without double precision.
struct Module {
    #[cfg(test)]
    name: &'static str,
    source: &'static str,
    double: &'static [u8],
    single: &'static [u8],
}

macro_rules! module {
    ($name:literal, $source:path, $double:literal, $single:literal) => {
        Module {
            #[cfg(test)]
            name: $name,
            source: $source,
            double: include_bytes!(concat!("../../spirv/", $double, ".spv")),
            single: include_bytes!(concat!("../../spirv/", $single, ".spv")),
        }
    };
}

static MODULES: [Module; 3] = [
    module!("copy_words", dialect::COPY_WORDS, "copy_words", "copy_words"),
    module!("combine_words", dialect::COMBINE_WORDS, "combine_words", "combine_words_single"),
    module!("fill", dialect::FILL, "fill", "fill"),
];

/// The module of a portable text, for a device with or without double precision; `None` for a text of a user.
pub(super) fn of(source: &str, double: bool) -> Option<&'static [u8]> {
    let module = MODULES.iter().find(|module| module.source == source)?;
    Some(if double { module.double } else { module.single })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Compiles the text of a kernel; `None` if there is no compiler.
    fn compiled(folder: &Path, module: &Module, double: bool) -> Option<Vec<u8>> {
        let (text, bitcode, out) =
            (folder.join("kernel.cl"), folder.join("kernel.bc"), folder.join("kernel.spv"));
        std::fs::write(&text, dialect::opencl(module.source)).unwrap();
        let mut clang = Command::new("clang-15");
        clang.args([
            "-w",
            "-x",
            "cl",
            "-cl-std=CL1.2",
            "-D__OPENCL_VERSION__=120",
            "-O2",
            "-target",
            "spir64",
            "-emit-llvm",
            "-c",
        ]);
        clang.args(["-Xclang", "-finclude-default-header"]);
        if !double {
            clang.args(["-Xclang", "-cl-ext=-cl_khr_fp64"]);
        }
        let ended = clang.current_dir(folder).args(["-o", "kernel.bc", "kernel.cl"]).status().ok()?;
        assert!(ended.success(), "clang-15 does not compile {}", module.name);
        let mut translate = Command::new("llvm-spirv-15");
        let ended =
            translate.arg("--spirv-max-version=1.2").arg("-o").args([&out, &bitcode]).status().ok()?;
        assert!(ended.success(), "llvm-spirv-15 does not translate {}", module.name);
        Some(std::fs::read(out).unwrap())
    }

    #[test]
    fn the_modules_are_those_of_the_texts() {
        let folder = tempfile::tempdir().unwrap();
        for module in &MODULES {
            for double in [true, false] {
                let Some(made) = compiled(folder.path(), module, double) else {
                    eprintln!("skipped: no clang-15 and llvm-spirv-15");
                    return;
                };
                if std::env::var_os("HALOPORT_WRITE_SPIRV").is_some() {
                    let one = module.double == module.single;
                    let name =
                        if double || one { module.name.into() } else { format!("{}_single", module.name) };
                    let file = format!("{}/spirv/{name}.spv", env!("CARGO_MANIFEST_DIR"));
                    std::fs::write(file, made).unwrap();
                } else {
                    let found = of(module.source, double).unwrap();
                    assert!(found == made, "the module of {} is not that of its text", module.name);
                }
            }
        }
        assert!(of("KERNEL void f() {}", true).is_none());
    }
}
