//! The outputs of commands: files, links, pipes and devices.
#![cfg(unix)]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use haloport_conformance::drawn;

use crate::common::Haloport;

const BENCH: &str = "--local 8,8 --ranks 2 --samples 2";

fn is_trace(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains("traceEvents"))
}

/// A pipe or a device in the file system; `None`, with a message, if this system or user may not make one.
fn made(path: &Path, by: &str, arguments: &[&str]) -> Option<()> {
    let status = Command::new(by).arg(path).args(arguments).stderr(std::process::Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) {
        return Some(());
    }
    eprintln!("skipped: `{by}` makes no {}", path.display());
    None
}

#[test]
fn a_link_stays_and_the_file_that_it_names_is_written() {
    let bench = Haloport::new("bench exchange");
    fs::create_dir(bench.path("far")).unwrap();
    fs::write(bench.path("far/old.json"), "old").unwrap();
    // Links to a file, through another link, and to a file that does not exist yet.
    for (link, named) in [("one", "far/old.json"), ("two", "one"), ("new", "far/new.json")] {
        symlink(named, bench.path(link)).unwrap();
    }
    for (link, file) in [("two", "far/old.json"), ("new", "far/new.json")] {
        bench.json(&format!("{BENCH} --trace {link}"));
        assert!(bench.path(link).symlink_metadata().unwrap().is_symlink(), "{link}");
        assert!(is_trace(&bench.path(file)), "{file}");
    }
    assert_eq!(fs::read_dir(bench.path("far")).unwrap().count(), 2, "nothing is left behind");
    let line = bench.refusal(&format!("{BENCH} --trace no/t.json"));
    assert_eq!(
        line,
        "--trace: expected a file that can be written, found no/t.json: No such file or directory (os error 2)"
    );
    symlink("round", bench.path("round")).unwrap();
    let line = bench.refusal(&format!("{BENCH} --trace round"));
    assert!(
        line.contains("--trace: expected a file that can be written, found round: more than 40 links"),
        "{line}"
    );
}

#[test]
fn a_pipe_and_a_device_are_written_to_and_stay() {
    let bench = Haloport::new("bench exchange");
    if made(&bench.path("pipe"), "mkfifo", &[]).is_some() {
        let pipe = bench.path("pipe");
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            fs::File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        bench.json(&format!("{BENCH} --trace pipe"));
        assert!(bench.path("pipe").symlink_metadata().unwrap().file_type().is_fifo());
        assert!(reader.join().unwrap().contains("traceEvents"));
    }
    // The same device as /dev/null.
    if made(&bench.path("null"), "mknod", &["c", "1", "3"]).is_some() {
        bench.json(&format!("{BENCH} --trace null"));
        assert!(bench.path("null").symlink_metadata().unwrap().file_type().is_char_device());
    }
    let output = bench.run(&format!("{BENCH} --trace /dev/stderr"));
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("traceEvents"));
}

#[test]
fn every_output_is_written_in_the_same_way() {
    let any = Haloport::new("");
    for (arguments, name) in drawn(&[
        ("mesh partition icosahedral:2 --parts 2 --out parts", "parts"),
        ("run rolling --ranks 1 --out means", "means/rolling.csv"),
        ("run tsunami --refine 1 --hours 0.01 --ranks 1 --out sea", "sea/gauges.csv"),
        ("run advection --mesh icosahedral:4 --days 1 --ranks 1 --out globe", "globe/globe.png"),
    ]) {
        let (file, target) = (any.path(name), any.path("target"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&target, "old").unwrap();
        symlink(&target, &file).unwrap();
        any.run(arguments);
        assert!(file.symlink_metadata().unwrap().is_symlink(), "{arguments}");
        assert!(fs::read(&target).unwrap() != b"old", "{arguments}");
    }
}

#[test]
fn the_ending_of_a_name_says_what_is_written() {
    let any = Haloport::new("");
    for (arguments, name, expected) in [
        (
            format!("bench exchange {BENCH} --trace"),
            "t.svg",
            "--trace <FILE>': expected a name that ends in .json, found .svg",
        ),
        (
            "mesh partition icosahedral:2 --parts 2 --out".into(),
            "parts.json",
            "expected a name that ends in .txt, found .json",
        ),
    ] {
        let line = any.refusal(&format!("{arguments} {name}"));
        assert!(line.contains(expected), "{line}");
        assert!(!any.path(name).exists(), "{name}");
    }
    // Parts are often named by their number.
    any.out("mesh partition icosahedral:2 --parts 2 --out mesh.part.2");
}

#[test]
fn a_file_keeps_its_rights_and_one_that_may_not_be_written_is_not_replaced() {
    let mesh = Haloport::new("mesh partition");
    let write = |rights: u32| {
        fs::write(mesh.path("parts"), "mine").unwrap();
        fs::set_permissions(mesh.path("parts"), fs::Permissions::from_mode(rights)).unwrap();
        mesh.run("icosahedral:1 --parts 2 --out parts")
    };
    assert!(write(0o600).status.success());
    assert_eq!(mesh.path("parts").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let output = write(0o400);
    if fs::read_to_string("/proc/self/status").is_ok_and(|text| text.contains("\nUid:\t0\t")) {
        return eprintln!("skipped: root may write every file");
    }
    assert_eq!(
        crate::common::refusal(&output, 1),
        "--out: cannot write parts: Permission denied (os error 13)"
    );
    assert_eq!(fs::read(mesh.path("parts")).unwrap(), b"mine");
}
