//! The nodes, triangles and quadrangles of a surface in Gmsh's files of version 4.1.
//!
//! The format: <https://gmsh.info/doc/texinfo/gmsh.html#MSH-file-format>. Every entry is a line of numbers. The size
//! that a section promises is compared with its lines; no memory is allocated for a promise.

use super::GmshProblem;

/// The nodes of a file, in its order.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) tags: Vec<u64>,
    pub(super) positions: Vec<[f64; 3]>,
}

/// The cells of a file, in its order.
#[derive(Debug, Default)]
pub(super) struct Cells {
    pub(super) tags: Vec<u64>,
    /// The tags of the corners of each.
    pub(super) corners: Vec<Vec<u64>>,
}

/// The names of the types of elements by their numbers, from 1 on. Each name ends with the number of nodes.
const TYPES: [&str; 31] = [
    "Lin2", "Tri3", "Qua4", "Tet4", "Hex8", "Pri6", "Pyr5", "Lin3", "Tri6", "Qua9", "Tet10", "Hex27",
    "Pri18", "Pyr14", "Pnt1", "Qua8", "Hex20", "Pri15", "Pyr13", "Tri9", "Tri10", "Tri12", "Tri15", "Tri15I",
    "Tri21", "Lin4", "Lin5", "Lin6", "Tet20", "Tet35", "Tet56",
];

/// Reads the nodes and the cells of a file.
pub(super) fn read(content: &[u8]) -> Result<(Nodes, Cells), GmshProblem> {
    check_format(content)?;
    let text = String::from_utf8_lossy(content);
    let [nodes, elements] = sections(&text)?;
    let cells = elements.map_or(Ok(Cells::default()), cells)?;
    if cells.tags.is_empty() {
        return Err(GmshProblem::NoCells);
    }
    Ok((self::nodes(nodes.ok_or(GmshProblem::NoSection("Nodes"))?)?, cells))
}

fn check_format(content: &[u8]) -> Result<(), GmshProblem> {
    let mut lines = content.split(|&byte| byte == b'\n').map(|line| String::from_utf8_lossy(line));
    let mut next = || lines.next().map(|line| line.trim().to_string()).unwrap_or_default();
    if next() != "$MeshFormat" {
        return Err(GmshProblem::NotGmsh);
    }
    let format = next();
    match format.split_whitespace().collect::<Vec<_>>()[..] {
        [] => Err(GmshProblem::Truncated("MeshFormat".to_string())),
        ["4.1", "0", "4" | "8"] => Ok(()),
        ["4.1", "1", _] => Err(GmshProblem::Binary),
        [version, _, _] if version.parse::<f64>().is_ok() => Err(GmshProblem::Version(shown(version))),
        _ => Err(GmshProblem::NotGmsh),
    }
}

/// The sections `$Nodes` and `$Elements`. A section that begins within another one does not end it: the other one is
/// cut off, which is found at the end.
fn sections(text: &str) -> Result<[Option<Lines<'_>>; 2], GmshProblem> {
    let mut found = [None, None];
    let mut open: Option<(&str, usize, usize)> = None;
    let mut at = 0;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let (begin, word) = (at, line.trim());
        at += line.len();
        let Some(name) = word.strip_prefix('$') else { continue };
        match open {
            Some((section, first, number)) if name.strip_prefix("End") == Some(section) => {
                if let Some(place) = ["Nodes", "Elements"].iter().position(|known| *known == section) {
                    let lines = Lines { rest: &text[first..begin], number };
                    if found[place].replace(lines).is_some() {
                        let what = format!("a second section ${section}");
                        return Err(GmshProblem::Content { line: number, what });
                    }
                }
                open = None;
            }
            Some(_) => {}
            None => open = Some((name, at, number)),
        }
    }
    open.map_or(Ok(found), |(section, ..)| Err(GmshProblem::Truncated(shown(section))))
}

fn nodes(mut lines: Lines<'_>) -> Result<Nodes, GmshProblem> {
    let mut nodes = Nodes::default();
    let [blocks, promised, _, _] = lines.numbers::<u64, 4>("the size of the section $Nodes")?;
    for _ in 0..blocks {
        let [_, _, parametric, count] = lines.numbers::<i64, 4>("a block of nodes")?;
        for _ in 0..count {
            nodes.tags.push(lines.numbers::<u64, 1>("the tag of a node")?[0]);
        }
        for _ in 0..count {
            let position = match parametric {
                0 => lines.numbers::<f64, 3>("the position of a node")?,
                _ => lines.first_numbers::<f64, 3>("the position of a node")?,
            };
            nodes.positions.push(position);
        }
    }
    lines.end(promised, nodes.tags.len())?;
    Ok(nodes)
}

fn cells(mut lines: Lines<'_>) -> Result<Cells, GmshProblem> {
    let mut cells = Cells::default();
    let [blocks, promised, _, _] = lines.numbers::<u64, 4>("the size of the section $Elements")?;
    let mut elements = 0;
    for _ in 0..blocks {
        let [dimension, _, kind, count] = lines.numbers::<i64, 4>("a block of elements")?;
        for _ in 0..count {
            elements += 1;
            match (dimension, kind) {
                (..2, _) => drop(lines.next("an element")?),
                (_, 2) => cells.add(lines.numbers::<u64, 4>("a triangle: its tag and three nodes")?),
                (_, 3) => cells.add(lines.numbers::<u64, 5>("a quadrangle: its tag and four nodes")?),
                _ => return Err(lines.unsupported(dimension, kind)),
            }
        }
    }
    lines.end(promised, elements)?;
    Ok(cells)
}

impl Cells {
    /// Adds a cell, given its tag and those of its corners.
    fn add<const N: usize>(&mut self, numbers: [u64; N]) {
        self.tags.push(numbers[0]);
        self.corners.push(numbers[1..].to_vec());
    }
}

/// The lines of a section.
#[derive(Debug, Clone, Copy)]
struct Lines<'t> {
    rest: &'t str,
    /// The number of the last line that was read.
    number: usize,
}

impl<'t> Lines<'t> {
    /// The next line that is not empty.
    fn next(&mut self, expected: &str) -> Result<&'t str, GmshProblem> {
        while !self.rest.is_empty() {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            self.number += 1;
            if !line.trim().is_empty() {
                return Ok(line);
            }
        }
        self.number += 1;
        Err(self.problem(format!("expected {expected}, found the end of the section")))
    }

    /// The numbers of the next line, which has exactly `N`.
    fn numbers<T: std::str::FromStr, const N: usize>(
        &mut self,
        expected: &str,
    ) -> Result<[T; N], GmshProblem> {
        let line = self.next(expected)?;
        let numbers = numbers_of(line, N).and_then(|numbers| numbers.try_into().ok());
        numbers.ok_or_else(|| self.no_numbers(expected, N, line))
    }

    /// The first `N` numbers of the next line, which may have more.
    fn first_numbers<T: std::str::FromStr, const N: usize>(
        &mut self,
        expected: &str,
    ) -> Result<[T; N], GmshProblem> {
        let line = self.next(expected)?;
        let mut words = line.split_whitespace().map(|word| word.parse().ok());
        let numbers: Option<Vec<T>> = words.by_ref().take(N).collect();
        let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
        numbers.ok_or_else(|| self.no_numbers(expected, N, line))
    }

    /// Checks that the section has been read to its end, and that it has the promised number of entries.
    fn end(mut self, promised: u64, found: usize) -> Result<(), GmshProblem> {
        if promised != found as u64 {
            return Err(
                self.problem(format!("the section promises {promised} entries, and its blocks {found}"))
            );
        }
        match self.next("") {
            Ok(line) => {
                Err(self.problem(format!("expected the end of the section, found `{}`", shown(line))))
            }
            Err(_) => Ok(()),
        }
    }

    fn unsupported(&self, dimension: i64, number: i64) -> GmshProblem {
        let name = number.checked_sub(1).and_then(|place| TYPES.get(usize::try_from(place).ok()?));
        match name {
            Some(name) => GmshProblem::ElementType { name: name.to_string(), number, dimension },
            None => self.problem(format!("unknown element type {number}")),
        }
    }

    fn no_numbers(&self, expected: &str, count: usize, line: &str) -> GmshProblem {
        let plural = if count == 1 { "number" } else { "numbers" };
        self.problem(format!("expected {expected} ({count} {plural}), found `{}`", shown(line)))
    }

    fn problem(&self, what: String) -> GmshProblem {
        GmshProblem::Content { line: self.number, what }
    }
}

/// The numbers of a line; `None` unless the line has exactly `count`.
fn numbers_of<T: std::str::FromStr>(line: &str, count: usize) -> Option<Vec<T>> {
    let mut words = line.split_whitespace();
    let numbers = words.by_ref().take(count).map(|word| word.parse().ok()).collect();
    words.next().map_or(numbers, |_| None)
}

/// The beginning of a text from a file, in one line.
fn shown(text: &str) -> String {
    text.trim().chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
