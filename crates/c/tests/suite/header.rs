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

/// The names of docs/languages.md are those of the sources, and programs of the tests use each.
#[test]
fn the_table_of_languages_names_what_there_is() {
    let c = ["crates/c/include/haloport.h"];
    let sources = [
        texts(&["src", "crates/core/src", "crates/transport-mpi/src"], ".rs"),
        texts(&["crates/python/python/haloport"], ".pyi")
            + &texts(&["crates/python/python/haloport"], ".py")
            + &texts(&["crates/python/src/layout.rs"], ".rs"),
        texts(&c, ".h"),
        texts(&["crates/c/include/haloport.hpp"], ".hpp") + &texts(&c, ".h"),
        texts(&["crates/c/fortran"], ".f90") + &texts(&["crates/c/fortran"], ".c"),
    ];
    let rust = [
        "tests",
        "docs/rust.md",
        "crates/core/tests",
        "crates/conformance/src",
        "crates/transport-mpi/tests",
    ];
    let of_c = ["crates/c/tests", "crates/c/examples"];
    let programs = [
        texts(&rust, ".rs") + &texts(&rust, ".md"),
        texts(&["crates/python/tests", "crates/python/examples"], ".py"),
        texts(&of_c, ".c"),
        texts(&of_c, ".cpp"),
        texts(&of_c, ".f90"),
    ];
    let table = texts(&["docs/languages.md"], ".md");
    let names = table.split("## Defaults").next().expect("the table of names");
    let rows = names.lines().filter(|line| line.starts_with("| ") && !line.contains("---")).skip(1);
    let mut names = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        assert_eq!(cells.len(), 1 + sources.len(), "{row}");
        for (language, cell) in cells[1..].iter().enumerate() {
            let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty(), "{}: language {language} has none", cells[0]);
            for name in named {
                let what = cells[0];
                assert!(has_word(&sources[language], name), "{what}: no source has `{name}`");
                // A call without a name of its own.
                let is_called = !matches!(name, "__call__" | "operator()");
                assert!(
                    !is_called || has_word(&programs[language], name),
                    "{what}: no program uses `{name}`"
                );
                names += 1;
            }
        }
    }
    assert!(names > 150, "{names} names");
}

/// Whether a text has a name that is no part of a longer one.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let after = text[at + name.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

/// The defaults of docs/languages.md are those of the crate, the stubs, the header and the module, and one for each argument.
#[test]
fn the_table_of_languages_has_the_defaults_that_there_are() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    // In one line, whatever it is: a value may be behind the end of a line.
    let read = |path: &str| {
        let text = std::fs::read_to_string(format!("{root}/{path}"));
        let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
        text.split_whitespace()
            .filter(|word| !matches!(*word, "///" | "!" | "*"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let header = read("crates/c/include/haloport.h");
    let cpp = read("crates/c/include/haloport.hpp");
    let module = read("crates/c/fortran/haloport.f90");
    let stubs = read("crates/python/python/haloport/_haloport.pyi");
    let waits = read("crates/python/src/communicator.rs");
    let bind = read("crates/core/src/exchange/agree/bind.rs");
    let on_grid = read("crates/core/src/pattern/on_grid.rs");
    // The word behind a text, which is there.
    let after = |source: &str, start: &str| -> String {
        let at = source.find(start).unwrap_or_else(|| panic!("found no `{start}`"));
        let rest = &source[at + start.len()..];
        let end = rest.find(|character: char| !(character.is_alphanumeric() || "-.".contains(character)));
        match rest[..end.unwrap_or(rest.len())].trim_end_matches('.') {
            "False" | ".false" | "false" => "no".into(),
            "True" | "true" => "yes".into(),
            word => word.into(),
        }
    };
    let flag = |is_set: bool| if is_set { "yes" } else { "no" }.to_string();
    // Structs of the header are 0, but for their size.
    let zero = |member: &str| {
        assert!(header.contains(&format!("int32_t {member}")), "found no `{member}` in the header");
        assert!(header.contains("#define HP_INIT(type) {.size = sizeof(type)}"));
        "no".to_string()
    };
    let needed = || "–".to_string();
    // Not those of a communicator: the environment of the tests has limits of its own.
    let seconds = |time: std::time::Duration| time.as_secs().to_string();
    let grid = haloport::Grid::new([4, 4]).unwrap();
    let halo = haloport::Halo::from(1);
    let (corners, not_corners) = (haloport::domain::Connectivity::All, "faces = 0;");
    assert!(module.contains(not_corners) && module.contains("integer, intent(in) :: cells(:), halo(:)"));
    zero("faces_only");
    let rows = [
        (
            "width of the halo",
            [
                after(&on_grid, "halo: Halo::uniform("),
                after(&stubs, "tuple[SupportsIndex, SupportsIndex]] = "),
                "0".into(),
                after(&cpp, "per_axis<halo_width> halo = "),
                needed(),
            ],
        ),
        (
            "periodic axes",
            [
                flag(grid.is_periodic(0)),
                after(&stubs, "periodic: FlagsLike = "),
                zero("periodic[4]"),
                after(&cpp, "per_axis<bool> periodic = "),
                flag(after(&module, "cuts(size(cells)) ends = ") != "0"),
            ],
        ),
        (
            "edges and corners of the halo",
            [
                flag(halo.connectivity() == corners),
                after(&stubs, "corners: bool = "),
                "yes".into(),
                after(&cpp, "bool corners = "),
                "yes".into(),
            ],
        ),
        (
            "halo clipped at walls",
            [
                flag(halo == halo.clone().clipped()),
                after(&stubs, "clipped: bool = "),
                zero("clipped"),
                after(&cpp, "bool clipped = "),
                flag(after(&module, "ends_at_walls = ") != "0"),
            ],
        ),
        (
            "points of a tripolar grid",
            [
                serde_json::to_value(haloport::domain::Points::default()).unwrap().as_str().unwrap().into(),
                after(&stubs, "Literal[\"cells\", \"east-edges\", \"north-edges\", \"corners\"] = \""),
                after(&header, "enum { HP_POINTS_").to_lowercase(),
                after(&cpp, "haloport::points points = haloport::points::"),
                after(&module, "pattern exchanges: '"),
            ],
        ),
        (
            "plan keeps its arrays",
            [
                needed(),
                after(&stubs, "fixed: bool = "),
                zero("fixed"),
                after(&cpp, "with.given("),
                flag(after(&module, "origin = 0; keeps = ") != "0"),
            ],
        ),
        (
            "neighbours may map arrays of a fixed plan",
            [
                needed(),
                after(&stubs, "share: bool = "),
                zero("share"),
                after(&cpp, "bool share = "),
                flag(after(&module, "keeps = 0; shares = ") != "0"),
            ],
        ),
        (
            "exchanges in flight",
            [
                after(&bind, "options.in_flight.unwrap_or("),
                after(&stubs, "in_flight: SupportsIndex = "),
                after(&header, "up to 64; 0: "),
                after(&cpp, "int in_flight = "),
                after(&module, "shares = 0; flights = "),
            ],
        ),
        (
            "path",
            [
                haloport::DataPath::default().to_string(),
                after(&stubs, "path: _Path = \""),
                after(&header, "null or \""),
                after(&cpp, "std::string path = \""),
                after(&module, "'stream-messages', or '"),
            ],
        ),
        (
            "warning about a wait, in seconds",
            [
                seconds(haloport::comm::DEFAULT_WARN_AFTER),
                after(&waits, "``HALOPORT_WARN_AFTER``, or "),
                after(&header, "HALOPORT_WARN_AFTER, or "),
                after(&header, "HALOPORT_WARN_AFTER, or "),
                after(&module, "HALOPORT_WARN_AFTER, or "),
            ],
        ),
        (
            "limit of waits, in seconds",
            [
                seconds(haloport::comm::DEFAULT_TIME_LIMIT),
                after(&waits, "``HALOPORT_TIME_LIMIT``, or "),
                after(&header, "HALOPORT_TIME_LIMIT, or "),
                after(&header, "HALOPORT_TIME_LIMIT, or "),
                after(&module, "HALOPORT_TIME_LIMIT, or "),
            ],
        ),
    ];
    let table = std::fs::read_to_string(format!("{root}/docs/languages.md")).expect("the table");
    for (argument, values) in rows {
        let row = format!("| {argument} | {} |", values.join(" | "));
        assert!(table.lines().any(|line| line == row), "expected in docs/languages.md: {row}");
        let mut given: Vec<&String> = values.iter().filter(|value| **value != needed()).collect();
        given.dedup();
        assert!(given.len() == 1 || argument == "width of the halo", "expected one default: {row}");
    }
}

/// The text of all files with this ending in folders of the repository, or of files.
fn texts(places: &[&str], ending: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    places.iter().map(|place| text_of(format!("{root}/{place}").as_ref(), ending)).collect()
}

fn text_of(place: &std::path::Path, ending: &str) -> String {
    let readable = |error: std::io::Error| -> String { panic!("{}: {error}", place.display()) };
    if place.is_dir() {
        let entries = std::fs::read_dir(place).expect("a folder");
        return entries.map(|entry| text_of(&entry.expect("an entry").path(), ending)).collect();
    }
    let has_ending = place.to_string_lossy().ends_with(ending);
    if has_ending { std::fs::read_to_string(place).unwrap_or_else(readable) } else { String::new() }
}
