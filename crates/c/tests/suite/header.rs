//! The header beside the crate: a program in C prints what the compiler makes of it.

use std::process::Command;

use haloport_c::layout::{layouts, numbers};

/// The folder of the header.
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// The module of Fortran.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fortran/haloport.f90");

#[test]
fn structs_and_numbers_are_those_of_the_header() {
    let (mut program, mut expected) = (String::new(), Vec::new());
    for (name, number) in numbers() {
        program += &format!("    say(\"{name}\", (long long){name});\n");
        expected.push(format!("{name} {number}"));
    }
    for layout in layouts() {
        let kind = layout.name;
        program += &format!("    say(\"{kind}\", sizeof({kind}));\n");
        expected.push(format!("{kind} {}", layout.bytes));
        for (member, offset) in layout.members {
            program += &format!("    say(\"{kind}.{member}\", offsetof({kind}, {member}));\n");
            expected.push(format!("{kind}.{member} {offset}"));
        }
    }
    let program = format!(
        "#include <haloport.h>\n#include <stdio.h>\n\
         static void say(const char *name, long long number) {{ printf(\"%s %lld\\n\", name, number); }}\n\
         int main(void) {{\n{program}    return 0;\n}}\n"
    );

    let folder = std::env::current_exe().expect("the path of this test").with_extension("header");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, compiled) = (folder.join("layouts.c"), folder.join("layouts"));
    std::fs::write(&source, program).expect("a source file");
    let compiler = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", INCLUDE, "-o"])
        .args([&compiled, &source])
        .output();
    let Ok(compiler) = compiler else { return println!("skipped: no cc") };
    assert!(compiler.status.success(), "{}", String::from_utf8_lossy(&compiler.stderr));
    let said = Command::new(&compiled).output().expect("the program runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn kinds_of_streams_in_fortran_are_those_of_the_header() {
    let module = std::fs::read_to_string(MODULE).expect("the module of Fortran");
    for (name, of) in [
        ("HP_DEFAULT", "hp_default = hp_stream"),
        ("HP_BLOCK", "hp_block = hp_stream"),
        ("HP_ON", "    stream = hp_stream"),
    ] {
        let (_, number) =
            numbers().into_iter().find(|(known, _)| *known == name).expect("a number of the header");
        let expected = format!("{of}({number}, ");
        assert!(module.contains(&expected), "expected `{expected}` in haloport.f90 for {name}");
    }
}

#[test]
fn statuses_in_fortran_are_those_of_the_header() {
    let module = std::fs::read_to_string(MODULE).expect("the module of Fortran");
    let statuses: Vec<(&str, i64)> =
        numbers().into_iter().skip_while(|(name, _)| *name != "HP_OK").take(11).collect();
    assert_eq!(statuses.last().map(|(name, _)| *name), Some("HP_PANIC"));
    for (name, number) in statuses {
        let expected = format!("integer, parameter :: {} = {number}", name.to_lowercase());
        let found = module.lines().any(|line| line.split(" !").next().map(str::trim) == Some(&expected));
        assert!(found, "expected `{expected}` in haloport.f90");
    }
}

/// The names of docs/languages.md are those of the sources.
#[test]
fn the_table_of_languages_names_what_there_is() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| {
        std::fs::read_to_string(format!("{root}/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let [header, cpp] = ["haloport.h", "haloport.hpp"].map(|name| read(&format!("crates/c/include/{name}")));
    let rust: String = ["src", "crates/core/src", "crates/transport-mpi/src"]
        .iter()
        .map(|folder| rust_in(format!("{root}/{folder}").as_ref()))
        .collect();
    let python = ["python/haloport/_haloport.pyi", "python/haloport/_ranks.py", "src/layout.rs"]
        .map(|name| read(&format!("crates/python/{name}")))
        .concat();
    let fortran = read("crates/c/fortran/haloport.f90") + &read("crates/c/fortran/haloport_fortran.c");
    let sources = [rust, python, header.clone(), cpp + &header, fortran];
    let table = read("docs/languages.md");
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.contains("---")).skip(1);
    let mut names = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        assert_eq!(cells.len(), 1 + sources.len(), "{row}");
        for (cell, source) in cells[1..].iter().zip(&sources) {
            for name in cell.split('`').skip(1).step_by(2) {
                let is_part = |character: char| character.is_alphanumeric() || character == '_';
                let found = source.match_indices(name).any(|(at, _)| {
                    let before = source[..at].chars().next_back().is_some_and(is_part);
                    let after = source[at + name.len()..].chars().next().is_some_and(is_part);
                    !before && !after
                });
                assert!(found, "{}: found no `{name}` in the sources of a language", cells[0]);
                names += 1;
            }
        }
    }
    assert!(names > 150, "{names} names");
}

/// All Rust in a folder.
fn rust_in(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            text += &rust_in(&path);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text += &std::fs::read_to_string(&path).expect("a source");
        }
    }
    text
}
