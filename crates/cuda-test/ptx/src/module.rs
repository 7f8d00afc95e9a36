//! Modules of PTX and their kernels.

use std::fmt;

use crate::builder::Builder;
use crate::decode::decode;
use crate::statement::Statement;
use crate::steps::Step;
use crate::value::Kind;

/// A kernel of a module.
#[derive(Debug)]
pub struct Kernel {
    name: String,
    parameters: Vec<Parameter>,
    most_threads: u32,
    pub(crate) steps: Vec<Step>,
    /// The registers of a thread at its start: those of its place, its own, and constants.
    pub(crate) registers: Vec<u64>,
    /// The bytes of memory that each thread has to itself.
    pub(crate) local_bytes: usize,
}

/// A parameter of a kernel, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its distance from the first one.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
}

/// PTX that cannot be run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPtx {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// What was expected, and what was found.
    pub why: String,
}

impl fmt::Display for RefusedPtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for RefusedPtx {}

/// Reads the kernels of a module, as NVRTC writes it.
///
/// # Errors
/// [`RefusedPtx`] for a text that is no module, and for kernels with instructions that do not exist here.
pub fn kernels(text: &str) -> Result<Vec<Kernel>, RefusedPtx> {
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("").trim()).collect();
    for part in [".version", ".target"] {
        if !lines.iter().any(|line| line.starts_with(part)) {
            return Err(RefusedPtx { line: 1, why: format!("expected a module with {part}, found none") });
        }
    }
    let mut kernels = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].contains(".entry") {
            at += 1;
            continue;
        }
        let begin = find(&lines, at, "{")?;
        let end = find(&lines, begin, "}")?;
        let head = lines[at..begin].join(" ");
        let numbered = (begin + 2..).zip(lines[begin + 1..end].iter().copied());
        kernels.push(Kernel::of(&head, at + 1, numbered)?);
        at = end + 1;
    }
    Ok(kernels)
}

/// The next line that is this bracket.
fn find(lines: &[&str], from: usize, bracket: &str) -> Result<usize, RefusedPtx> {
    let found = lines[from..].iter().position(|line| *line == bracket);
    found.map(|place| from + place).ok_or_else(|| RefusedPtx {
        line: from + 1,
        why: format!("expected a line {bracket} after it, found none"),
    })
}

impl Kernel {
    /// The name of the entry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters, in their order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The bytes of all parameters.
    pub fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// The most threads of a block.
    pub fn most_threads(&self) -> u32 {
        self.most_threads
    }

    /// The number of instructions, as far as each is one step.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    fn of<'t>(
        head: &'t str,
        line: usize,
        body: impl Iterator<Item = (usize, &'t str)>,
    ) -> Result<Kernel, RefusedPtx> {
        let refused = |line: usize| move |why: String| RefusedPtx { line, why };
        let (_, after) = head.split_once(".entry").unwrap_or(("", head));
        let (name, rest) = after.split_once('(').unwrap_or((after, ")"));
        let (list, directives) = rest.rsplit_once(')').unwrap_or((rest, ""));
        let mut builder = Builder::new();
        let mut parameters: Vec<Parameter> = Vec::new();
        for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let end = parameters.last().map_or(0, |last| last.offset + last.bytes);
            let (parameter, name) = Parameter::of(text, end).map_err(refused(line))?;
            builder.add_parameter(name, parameter.offset);
            parameters.push(parameter);
        }
        for (line, text) in body {
            builder.begin_line(line);
            read_line(&mut builder, text)
                .map_err(|why| RefusedPtx { line, why: format!("{text}: {why}") })?;
        }
        let (steps, registers, local_bytes) = builder.end().map_err(refused(line))?;
        let most_threads = most_threads(directives);
        Ok(Kernel { name: name.trim().into(), parameters, most_threads, steps, registers, local_bytes })
    }
}

impl Parameter {
    /// Reads `.param [.align N] .TYPE [.ptr .global] NAME[SIZE]`, behind the parameter that ends at `end`; returns the name,
    /// too.
    fn of(text: &str, end: usize) -> Result<(Parameter, &str), String> {
        let expected = || format!("expected .param .TYPE NAME, found {text}");
        let mut words = text.split_whitespace();
        let name = words.next_back().ok_or_else(expected)?;
        let (mut kind, mut alignment) = (None, None);
        while let Some(word) = words.next() {
            match word.strip_prefix('.') {
                // Behind the type, it is that of the memory that a pointer points to.
                Some("align") if kind.is_none() => {
                    alignment = words.next().and_then(|word| word.parse::<usize>().ok())
                }
                Some(word) => kind = kind.or(Kind::named(word)),
                None => {}
            }
        }
        let size = kind.ok_or_else(expected)?.bytes() as usize;
        let (name, count) = match name.split_once('[') {
            Some((name, count)) => {
                (name, count.trim_end_matches(']').parse::<usize>().map_err(|_| expected())?)
            }
            None => (name, 1),
        };
        let offset = end.next_multiple_of(alignment.unwrap_or(size).max(1));
        Ok((Parameter { offset, bytes: size * count }, name))
    }
}

/// The most threads of a block: the product of `.maxntid`, or 1024.
fn most_threads(directives: &str) -> u32 {
    let mut parts = directives.split(".maxntid");
    let Some(sizes) = parts.nth(1) else {
        return 1024;
    };
    let sizes = sizes.split('.').next().unwrap_or(sizes);
    let product: u32 = sizes.split(',').filter_map(|size| size.trim().parse::<u32>().ok()).product();
    if product == 0 { 1024 } else { product.min(1024) }
}

/// Reads a line of the body of a kernel.
fn read_line<'t>(builder: &mut Builder<'t>, line: &'t str) -> Result<(), String> {
    if line.is_empty() || line == "{" || line == "}" {
        return Ok(());
    }
    if let Some(label) = line.strip_suffix(':') {
        return builder.add_label(label);
    }
    let Some(rest) = line.strip_suffix(';') else {
        return if line.starts_with('.') {
            Ok(())
        } else {
            Err("expected an instruction that ends with ;".into())
        };
    };
    let mut words = rest.split_whitespace();
    match words.next() {
        Some(".reg") => builder.add_registers(rest),
        Some(".local") => builder.add_local(rest),
        Some(word) if [".pragma", ".loc", ".file"].contains(&word) => Ok(()),
        Some(word) if word.starts_with('.') => {
            Err("expected registers or local memory, found another directive".into())
        }
        _ => {
            let statement = Statement::of(line).ok_or("expected an instruction")?;
            decode(&statement, builder)
        }
    }
}
