//! A line of PTX in parts.

/// `@guard name.modifiers operands;`
#[derive(Debug)]
pub(crate) struct Statement<'t> {
    /// The register that says whether the statement is done, and whether it must be false.
    pub(crate) guard: Option<(&'t str, bool)>,
    pub(crate) name: &'t str,
    pub(crate) modifiers: Vec<&'t str>,
    pub(crate) operands: Vec<&'t str>,
}

impl<'t> Statement<'t> {
    /// Reads a statement; `None` if it is none.
    pub(crate) fn of(line: &'t str) -> Option<Statement<'t>> {
        let line = line.trim().strip_suffix(';')?.trim();
        let (guard, rest) = match line.strip_prefix('@') {
            Some(rest) => {
                let (guard, rest) = rest.split_once(char::is_whitespace)?;
                let inverse = guard.strip_prefix('!');
                (Some((inverse.unwrap_or(guard), inverse.is_some())), rest.trim())
            }
            None => (None, line),
        };
        let (words, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let mut words = words.split('.');
        let name = words.next()?;
        Some(Statement { guard, name, modifiers: words.collect(), operands: parts(operands) })
    }
}

/// The parts of a list at the commas that are in no brackets.
fn parts(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = list.split(|c| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The elements of a vector `{a, b}`, or the one operand.
pub(crate) fn elements(operand: &str) -> Vec<&str> {
    match operand.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) => inner.split(',').map(str::trim).collect(),
        None => vec![operand],
    }
}
