//! The examples of finite elements, in C, Fortran and Python: how many of their lines call Haloport.

/// The most lines that docs/accumulate.md promises.
const MOST_LINES: usize = 15;

/// The text of a file of the repository.
fn text(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn is_part_of_a_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The names in a line, each with what is before it and what follows.
fn names(line: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let starts = move |&at: &usize| {
        let [before, after] = [line[..at].chars().next_back(), line[at..].chars().next()];
        after.is_some_and(is_part_of_a_name) && !before.is_some_and(is_part_of_a_name)
    };
    line.char_indices().map(|(at, _)| at).filter(starts).map(move |at| {
        let end =
            line[at..].find(|character| !is_part_of_a_name(character)).map_or(line.len(), |end| at + end);
        (&line[..at], &line[at..end], &line[end..])
    })
}

/// Fails if there are too many lines, or so few that calls were not found.
fn check(example: &str, lines: &[&str]) {
    let listed = lines.join("\n");
    assert!(lines.len() <= MOST_LINES, "{example}: {} lines of communication:\n{listed}", lines.len());
    assert!(lines.len() > 10, "{example}: found only these lines of communication:\n{listed}");
}

/// Lines that call a function of the header, or that make or fill a struct of it; and those on which such statements go on.
#[test]
fn finite_elements_in_c_take_few_lines_of_communication() {
    let source = text("crates/c/examples/poisson.c");
    let (mut structs, mut goes_on, mut counted) = (Vec::new(), false, Vec::new());
    for line in source.lines() {
        let mut begins = false;
        for (_, name, after) in names(line) {
            let is_made = name.starts_with("hp_") && after.contains('=');
            let is_call = name.starts_with("hp_") && after.starts_with('(') && name != "hp_message";
            begins |= is_made || is_call || (structs.contains(&name) && after.starts_with(['.', '[']));
            if is_made {
                structs.extend(names(after).map(|(_, name, _)| name).next());
            }
        }
        if begins || goes_on {
            counted.push(line);
            goes_on = !line.contains(';');
        }
    }
    check("poisson.c", &counted);
}

/// Lines that call a procedure of the module, and those on which such statements go on.
#[test]
fn finite_elements_in_fortran_take_few_lines_of_communication() {
    let source = text("crates/c/examples/poisson.f90");
    let module = text("crates/c/fortran/haloport.f90");
    let is_bound = |line: &str| line.contains("procedure :: ") || line.contains("generic :: ");
    let bound: Vec<&str> = module
        .lines()
        .filter(|line| is_bound(line))
        .filter_map(|line| line.split(":: ").nth(1)?.split(' ').next())
        .collect();
    assert!(bound.contains(&"update") && bound.contains(&"sum_exact"), "{bound:?}");
    let mut goes_on = false;
    let is_counted = |line: &&str| {
        let begins = names(line).any(|(before, name, after)| {
            let is_bound = before.ends_with('%') && bound.contains(&name);
            after.starts_with('(') && (is_bound || name.starts_with("hp_"))
        });
        let is_counted = goes_on || begins;
        goes_on = is_counted && line.trim_end().ends_with('&');
        is_counted
    };
    check("poisson.f90", &source.lines().filter(is_counted).collect::<Vec<_>>());
}

/// Lines that call the package, one of its objects or a method of one, and those on which such statements go on.
#[test]
fn finite_elements_in_python_take_few_lines_of_communication() {
    let source = text("crates/python/examples/poisson.py");
    let (mut objects, mut open) = (vec!["hp", "comm"], 0);
    let mut counted = Vec::new();
    for line in source.lines() {
        let begins = names(line).any(|(before, name, after)| {
            let method = after.strip_prefix('.').map(|after| after.trim_start_matches(is_part_of_a_name));
            let is_called = method.unwrap_or(after).starts_with('(');
            is_called
                && objects.contains(&name)
                && !before.ends_with(['.', '"'])
                && !before.trim_end().ends_with("def")
        });
        if !begins && open == 0 {
            continue;
        }
        counted.push(line);
        // What such a call makes may be called as well.
        if let Some((made, _)) = line.split_once(" = ") {
            objects.push(made.trim());
        }
        let [opened, closed] = [['(', '['], [')', ']']].map(|brackets| line.matches(brackets).count());
        open = (open + opened).saturating_sub(closed);
    }
    assert!(objects.contains(&"to_owners") && objects.contains(&"mesh"), "{objects:?}");
    check("poisson.py", &counted);
}
