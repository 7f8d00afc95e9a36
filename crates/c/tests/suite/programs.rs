//! Programs in C, C++ and Fortran that use the library: compiled with warnings as errors, linked to the shared library, and run.

use std::process::Command;

use haloport_conformance::{drawn, usual};

use crate::compilers::{Fortran, HERE, compiled, compiled_as, compiled_fortran, has, libraries, run};

/// The number of the random case `place`: `HALOPORT_TEST_SEED`, a date, gives different cases each day.
fn case(place: u64) -> String {
    let seed =
        std::env::var("HALOPORT_TEST_SEED").map_or(0, |text| text.parse().expect("HALOPORT_TEST_SEED"));
    (seed % 10_000_u64 * 1000 + place).to_string()
}

/// The number of random cases: a sixth of `all` in the default set of tests.
fn cases(all: u32) -> String {
    usual(all.div_ceil(6), all).to_string()
}

#[test]
fn random_cases_match_an_oracle_in_c() {
    if has("cc") {
        for (standard, first) in [("c99", 0), ("c11", 300)] {
            let program = compiled("cc", standard, "tests/programs/cases.c", &[]);
            let count = cases(300);
            let said =
                run(Command::new(program).args([&case(first), &count]).env("HALOPORT_TIME_LIMIT", "20"));
            assert!(said.starts_with(&format!("{count} cases, ")), "{said}");
        }
    }
}

#[test]
fn tripolar_grids_are_folded() {
    if has("cc") {
        let program = compiled("cc", "c99", "tests/programs/fold.c", &[]);
        let said = run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
        assert!(said.ends_with(" cases\n"), "{said}");
    }
}

#[test]
fn bad_calls_are_refused_with_a_text() {
    if has("cc") {
        let program = compiled("cc", "c99", "tests/programs/bad_calls.c", &[]);
        print!("{}", run(Command::new(&program).env("HALOPORT_TIME_LIMIT", "20")));
        if cfg!(target_os = "linux") {
            // With 2 GB of addresses.
            let limited = "ulimit -v 2000000 && exec \"$@\"";
            print!("{}", run(Command::new("sh").args(["-c", limited, "sh"]).arg(&program).arg("claims")));
        }
    }
}

#[test]
fn exchanges_in_flight_are_finished_in_any_order() {
    if has("cc") {
        let program = compiled("cc", "c99", "tests/programs/tickets.c", &[]);
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
    if has("c++") {
        let program = compiled("c++", "c++17", "tests/programs/tickets.cpp", &[]);
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
    for fortran in drawn(&[Fortran::gnu(), Fortran::llvm()]).iter().flatten() {
        let program = compiled_fortran(
            fortran,
            "tickets",
            &["posix_threads.f90", "tickets.f90"],
            &["-O1", "-lpthread"],
        );
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
}

#[test]
fn redistributions_match_an_oracle() {
    if has("cc") {
        let program = compiled("cc", "c99", "tests/programs/redistribute.c", &[]);
        let count = cases(600);
        let said = run(Command::new(program).args([&case(0), &count]).env("HALOPORT_TIME_LIMIT", "20"));
        assert_eq!(said, format!("{count} cases\n"));
    }
    if has("c++") {
        let program = compiled("c++", "c++17", "tests/programs/redistribute.cpp", &[]);
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
    for fortran in drawn(&[Fortran::gnu(), Fortran::llvm()]).iter().flatten() {
        let program = compiled_fortran(
            fortran,
            "redistribute",
            &["posix_threads.f90", "redistribute.f90"],
            &["-O1", "-lpthread"],
        );
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
}

/// In C++ the program of patterns has such cases, in Fortran that of redistributions.
#[test]
fn halo_cells_are_combined_at_their_owners() {
    if has("cc") {
        let program = compiled("cc", "c99", "tests/programs/accumulate.c", &[]);
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
}

/// In C++ and Fortran, the programs of redistributions have some.
#[test]
fn exact_sums_are_the_same_on_any_number_of_ranks() {
    if has("cc") {
        let program = compiled("cc", "c99", "tests/programs/exact.c", &["-lm"]);
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
}

#[test]
fn messages_of_any_size_come_as_they_were_sent() {
    if has("cc") {
        let program = compiled("cc", "c99", "tests/programs/messages.c", &[]);
        let count = cases(300);
        let said = run(Command::new(program).args([&case(0), &count]).env("HALOPORT_TIME_LIMIT", "20"));
        assert_eq!(said, format!("{count} cases of messages\n"));
    }
    if has("c++") {
        for standard in drawn(&["c++17", "c++20"]) {
            let program = compiled("c++", standard, "tests/programs/messages.cpp", &[]);
            run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
        }
    }
    for fortran in drawn(&[Fortran::gnu(), Fortran::llvm()]).iter().flatten() {
        let program = compiled_fortran(fortran, "messages", &MESSAGES_OF_FORTRAN, &["-O2", "-lpthread"]);
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
}

#[test]
fn warnings_go_to_standard_error_or_to_the_program() {
    if !has("cc") {
        return;
    }
    let program = compiled("cc", "c99", "tests/programs/log.c", &[]);
    let said = |arguments: &[&str], level: &str| {
        run(Command::new(&program)
            .args(arguments)
            .env("HALOPORT_WARN_AFTER", "0.05")
            .env("HALOPORT_LOG", level))
    };
    for (arguments, begin) in [(&[][..], "haloport: warning: "), (&["own"][..], "level 2: ")] {
        let text = said(arguments, "");
        assert!(
            text.starts_with(&format!("{begin}rank 0 has waited 0.")) && text.lines().count() == 1,
            "{text}"
        );
        assert_eq!(said(arguments, "off"), "");
        assert_eq!(said(arguments, "error"), "");
    }
    let text = said(&[], "loud");
    assert!(text.contains("HALOPORT_LOG: expected warn, error or off, found `loud`"), "{text}");
}

#[test]
fn warnings_go_to_a_procedure_of_fortran() {
    for fortran in drawn(&[Fortran::gnu(), Fortran::llvm()]).iter().flatten() {
        let program =
            compiled_fortran(fortran, "log", &["posix_threads.f90", "log.f90"], &["-O1", "-lpthread"]);
        let said = |level: &str| {
            run(Command::new(&program).env("HALOPORT_WARN_AFTER", "0.05").env("HALOPORT_LOG", level))
        };
        let text = said("");
        let waits = |begin: &str| {
            text.lines().filter(|line| line.starts_with(&format!("{begin}rank 0 has waited 0."))).count()
        };
        assert_eq!([waits("level 2: "), waits("haloport: warning: ")], [1, 1], "{text}");
        assert_eq!(said("off"), "");
    }
}

#[test]
fn programs_are_clean_under_asan_and_ubsan() {
    // Without optimisation, which takes three times as long with these checks.
    let options = ["-g", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let check = |compiler, standard, source: &str, arguments: &[&str]| {
        if has(compiler) {
            let program = compiled_as("checked", compiler, standard, source, &options);
            run(Command::new(program).args(arguments).env("HALOPORT_TIME_LIMIT", "20"));
        }
    };
    check("cc", "c99", "tests/programs/cases.c", &[&case(600), &cases(200)]);
    check("cc", "c99", "tests/programs/bad_calls.c", &[]);
    check("cc", "c99", "tests/programs/tickets.c", &[]);
    check("cc", "c99", "tests/programs/messages.c", &[&case(600), &cases(60)]);
    check("cc", "c99", "tests/programs/redistribute.c", &[&case(600), &cases(60)]);
    for program in drawn(&["tickets", "views", "messages", "redistribute", "patterns"]) {
        check("c++", "c++17", &format!("tests/programs/{program}.cpp"), &[]);
    }
    if let Some(fortran) = Fortran::gnu() {
        // They pass arrays that are not allocated.
        let options = [&options[..], &["-fno-sanitize=null", "-lpthread"]].concat();
        for (program, sources) in
            drawn(&[("arrays", &["arrays.f90"][..]), ("messages", &MESSAGES_OF_FORTRAN)])
        {
            run(&mut Command::new(compiled_fortran(&fortran, program, sources, &options)));
        }
    }
}

#[test]
fn programs_are_clean_under_valgrind() {
    if !(has("valgrind") && has("cc")) {
        return;
    }
    let leaks = [
        "--leak-check=full",
        "--show-leak-kinds=definite,indirect",
        "--errors-for-leak-kinds=definite,indirect",
    ];
    // Threads that spin take turns there, so there are few cases.
    for (source, arguments) in [
        ("tests/programs/cases.c", &[&case(900), &cases(15)][..]),
        ("tests/programs/messages.c", &[&case(900), &cases(6)]),
        ("tests/programs/bad_calls.c", &[]),
    ] {
        let program = compiled_as("traced", "cc", "c99", source, &["-g"]);
        run(Command::new("valgrind")
            .args(["-q", "--error-exitcode=9"])
            .args(leaks)
            .arg(program)
            .args(arguments));
    }
}

#[test]
fn patterns_of_each_kind_are_made_in_cpp() {
    if has("c++") {
        let program = compiled("c++", "c++17", "tests/programs/patterns.cpp", &[]);
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
}

#[test]
fn the_library_can_be_closed_while_threads_that_used_it_live() {
    if has("cc") {
        let program = compiled("cc", "c99", "tests/programs/unload.c", &["-ldl"]);
        run(Command::new(program).arg(libraries().join("libhaloport_c.so")));
    }
}

#[test]
fn headers_and_views_are_those_of_cpp() {
    if has("c++") {
        for standard in drawn(&["c++17", "c++20"]) {
            for source in ["tests/programs/header.cpp", "tests/programs/views.cpp"] {
                let program = compiled("c++", standard, source, &[]);
                run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
            }
        }
    }
}

/// The program of messages in Fortran.
const MESSAGES_OF_FORTRAN: [&str; 3] = ["posix_threads.f90", "messages.f90", "messages_threads.f90"];

#[test]
fn arrays_of_fortran_are_exchanged_or_refused() {
    for fortran in drawn(&[Fortran::gnu(), Fortran::llvm()]).iter().flatten() {
        for level in usual(&["-O0"][..], &["-O0", "-O2"]) {
            let program = compiled_fortran(fortran, "arrays", &["arrays.f90"], &[level]);
            run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
        }
    }
}

#[test]
fn the_module_of_fortran_takes_default_integers_of_8_bytes() {
    // gfortran warns of integers of 8 bytes that become reals in the program, flang of its own iso_fortran_env.
    let gnu = Fortran::gnu().map(|gnu| (gnu, "-Wno-conversion"));
    let llvm = Fortran::llvm().map(|llvm| (Fortran { warnings: &[], ..llvm }, "-w"));
    for (fortran, quiet) in drawn(&[llvm, gnu]).iter().flatten() {
        let options = ["-O1", "-fdefault-integer-8", quiet];
        let program = compiled_fortran(fortran, "arrays", &["arrays.f90"], &options);
        run(Command::new(program).env("HALOPORT_TIME_LIMIT", "20"));
    }
}

#[test]
fn random_cases_match_an_oracle_in_fortran() {
    let check = |fortran: &Option<Fortran>, options: &[&str], first| {
        let Some(fortran) = fortran else { return };
        let program = compiled_fortran(fortran, "cases", &["cases.f90", "cases_alone.f90"], options);
        let count = cases(300);
        let said = run(Command::new(program).args([&count, &case(first)]).env("HALOPORT_TIME_LIMIT", "20"));
        assert!(said.starts_with(&format!("cases {count}, ranks 1, ")), "{said}");
    };
    let [gnu, llvm] = [Fortran::gnu(), Fortran::llvm()];
    // The compiler copies members of derived types, of which it would warn.
    let checked = &["-O1", "-fcheck=all,no-array-temps"][..];
    for &(compiler, options, first) in
        drawn(&[(&gnu, &["-O2"][..], 1), (&gnu, checked, 1), (&llvm, &["-O1"][..], 301)])
    {
        check(compiler, options, first);
    }
}

#[test]
fn the_library_exports_the_functions_of_the_header_alone() {
    if !has("nm") {
        return;
    }
    let said =
        run(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries().join("libhaloport_c.so")));
    let mut exported: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(format!("{HERE}/include/haloport.h")).expect("the header");
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| {
            ["hp_status ", "uint32_t hp_", "const char *hp_"].iter().any(|start| line.starts_with(start))
        })
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .collect();
    declared.sort_unstable();
    assert_eq!(exported, declared);
}
