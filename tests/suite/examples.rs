//! Every example runs and prints the right result.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn heat() {
    assert!(printed("heat").contains("rank 0: mean of "));
}

#[test]
fn several_fields() {
    assert!(printed("several_fields").starts_with("right in all cells"));
}

#[test]
fn mesh() {
    assert!(printed("mesh").starts_with("mean heat "));
}

#[test]
fn kernel() {
    assert_eq!(printed("kernel"), "100 steps on `cpu:threads=1`: the same on 1 and on 4 ranks\n");
}

#[test]
fn deep_halo() {
    let text = printed("deep_halo");
    assert!(text.contains(" 48 exchanges\n") && text.contains(" 12 exchanges\n"), "{text}");
}

#[test]
fn particles() {
    assert!(printed("particles").starts_with("10000 particles are where they should be; "));
}

#[test]
fn each_example_is_short() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(&folder).expect("the folder of the examples");
    let files: Vec<PathBuf> = files.map(|file| file.expect("a file of the folder").path()).collect();
    assert!(files.len() >= 6, "found {} files in {}", files.len(), folder.display());
    for file in files {
        let lines = std::fs::read_to_string(&file).expect("a text").lines().count();
        assert!(lines < 100, "{} has {lines} lines, expected fewer than 100", file.display());
    }
}

/// The output of an example. Cargo builds examples with tests, into a folder beside those of the tests.
fn printed(example: &str) -> String {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("the folder of the build");
    let program: PathBuf = folder.join("examples").join(example);
    let output = Command::new(&program).output().unwrap_or_else(|error| {
        panic!("{} cannot be run: {error}; `cargo build --examples` makes it", program.display())
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example} ended with {}: {text}{error}", output.status);
    text
}
