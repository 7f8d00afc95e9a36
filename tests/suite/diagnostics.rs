//! The compiler's errors for common mistakes give the library's advice.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

/// Compiles a program with this build of the library. Returns the compiler's errors, `None` if it compiles.
fn compile(program: &str) -> Result<Option<String>, String> {
    let (library, folder) = library().ok_or("the compiled library is not beside this test")?;
    let out = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = out.path().join("main.rs");
    std::fs::write(&source, program).map_err(|error| error.to_string())?;
    let done = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-name=program", "--emit=metadata", "--color=never", "--out-dir"])
        .arg(out.path())
        .arg("--extern")
        .arg([OsStr::new("haloport="), library.as_os_str()].join(OsStr::new("")))
        .arg("-L")
        .arg([OsStr::new("dependency="), folder.as_os_str()].join(OsStr::new("")))
        .arg(&source)
        .output()
        .map_err(|error| format!("`rustc` cannot be run: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Ok((!done.status.success()).then_some(said))
}

/// The library that was compiled last, and its folder.
fn library() -> Option<(PathBuf, PathBuf)> {
    let folder = std::env::current_exe().ok()?.parent()?.to_path_buf();
    let is_library = |name: &str| name.starts_with("libhaloport-") && name.ends_with(".rlib");
    let entries = std::fs::read_dir(&folder).ok()?.flatten();
    let found = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_library));
    let made =
        |path: &PathBuf| path.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    Some((found.map(|entry| entry.path()).max_by_key(made)?, folder))
}

const FIELD: &str = "
    use haloport::*;
    use haloport::cpu::CpuDevice;
    fn main() {}
    type Numbers = Field<f64, CpuDevice>;
";

#[test]
fn mistakes_are_named_with_what_to_do_instead() {
    match compile(FIELD) {
        Ok(None) => {}
        Ok(Some(said)) => return println!("skipped: no program compiles with this build: {said}"),
        Err(why) => return println!("skipped: {why}"),
    }
    let mistakes: [(&str, &[&str]); 6] = [
        (
            "fn run(pattern: &Pattern, f: [Numbers; 9]) {
                let [a, b, c, d, e, f, g, h, i] = f;
                let _ = pattern.bind((a, b, c, d, e, f, g, h, i));
            }",
            &["is not a set of fields", "tuples have at most 8 entries", "field_set!"],
        ),
        (
            "fn run(pattern: &Pattern, field: Numbers) { let _ = pattern.bind(std::rc::Rc::new(field)); }",
            &["is not a set of fields", "shared fields"],
        ),
        (
            "fn run(name: &str, pattern: &Pattern) { let _ = Field::<f64, _>::new(name, pattern); }",
            &["str` is not a device", "`AnyDevice`, which holds one of them"],
        ),
        (
            "fn run(device: &CpuDevice, pattern: &Pattern) { let _ = Field::<bool, _>::new(device, pattern); }",
            &["a field cannot hold elements of `bool`", "instead of `bool` take `u8`"],
        ),
        (
            "fn run(device: &CpuDevice, pattern: &Pattern) { let _ = Field::<usize, _>::new(device, pattern); }",
            &[
                "a field cannot hold elements of `usize`",
                "instead of `usize` and `isize` take `u64` and `i64`",
            ],
        ),
        (
            "fn run(device: &CpuDevice, pattern: &Pattern) {
                let _ = Field::<[f64; 3], _>::builder(pattern).build(device);
            }",
            &["a field cannot hold elements of `[f64; 3]`", "several components"],
        ),
    ];
    for (program, expected) in mistakes {
        let said = compile(&format!("{FIELD}{program}")).unwrap().expect("it compiles");
        for text in expected {
            assert!(
                said.contains(text),
                "`{text}` is missing from the compiler's errors for {program}:\n{said}"
            );
        }
    }
}

#[test]
fn common_programs_need_no_types_of_errors() {
    let program = r#"
        fn step(now: &mut Exchange<Numbers>, next: &mut Numbers) -> Result<(), Error> {
            now.overlap(
                &mut next.view_mut(0)?,
                |pending, next| {
                    next[[0]] = pending.owned(|field| field, 0)?[[0]];
                    let _: usize = "8".parse()?;
                    Ok(())
                },
                |field, next| {
                    next[[1]] = field.view(0)?.get(&[1]).ok_or("no such cell")?;
                    Ok(())
                },
            )?;
            Ok(())
        }
        fn all() -> Result<(), Box<dyn std::error::Error>> {
            run_ranks(2, |comm| {
                let grid = Grid::new([8])?;
                let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
                let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
                let device = CpuDevice::with_threads(1)?;
                let mut next = Field::new(&device, &pattern)?;
                let mut now = pattern.bind(Field::new(&device, &pattern)?)?;
                step(&mut now, &mut next)?;
                now.overlap(&mut (), |_, ()| Ok(()), |_, ()| Ok(()))?;
                Ok(())
            })?;
            Ok(())
        }
    "#;
    if let Ok(None) = compile(FIELD) {
        assert_eq!(compile(&format!("{FIELD}{program}")), Ok(None));
    } else {
        println!("skipped: no program compiles with this build");
    }
}
