//! The text of a file before `mshio` sees it, and what `mshio` says, in one line.

use mshio::MshParserError;
use mshio::error::MshParserErrorKind;

use super::GmshProblem;

/// Checks what `mshio` takes for granted (it would panic), and makes it keep all tags: it drops the tags of nodes where
/// the header of their section says that none is left out, although they may be in any order. So the header says that
/// some are.
pub(super) fn prepare(content: &[u8]) -> Result<String, GmshProblem> {
    check_format(content)?;
    let text = String::from_utf8_lossy(content);
    let mut prepared = String::with_capacity(text.len() + 32);
    let mut section: Option<String> = None;
    let mut header = false;
    for line in text.lines() {
        let word = line.trim();
        let is_header = std::mem::take(&mut header);
        match (word.strip_prefix('$'), &section) {
            (Some(name), Some(open)) if name.strip_prefix("End") == Some(open) => section = None,
            // A section that begins within another: the other was cut off.
            (Some(_), Some(open)) => return Err(GmshProblem::Truncated(open.clone())),
            (Some(name), None) => {
                header = matches!(name, "Nodes" | "Elements");
                section = Some(name.to_string());
            }
            (None, Some(open)) if is_header => {
                prepared.push_str(&section_header(open, word)?);
                prepared.push('\n');
                continue;
            }
            _ => {}
        }
        prepared.push_str(line);
        prepared.push('\n');
    }
    section.map_or(Ok(prepared), |open| Err(GmshProblem::Truncated(open)))
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
        [version, _, _] if version.parse::<f64>().is_ok() => Err(GmshProblem::Version(version.to_string())),
        _ => Err(GmshProblem::NotGmsh),
    }
}

/// The header of `$Nodes` or `$Elements`, whose numbers are blocks, items, lowest tag and highest tag, such that tags
/// are kept.
fn section_header(section: &str, line: &str) -> Result<String, GmshProblem> {
    let counts: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    match counts.as_deref() {
        Some([_, 0, ..]) => Err(GmshProblem::NoCells),
        Some([blocks, items, lowest, _]) if section == "Nodes" => {
            Ok(format!("{blocks} {items} {} {}", (*lowest).max(1), u64::MAX))
        }
        _ => Ok(line.to_string()),
    }
}

/// The place and the innermost contexts of an error of `mshio`, whose own text has many lines.
pub(super) fn explain(text: &str, error: &MshParserError<&[u8]>) -> GmshProblem {
    let rest = error.backtrace.first().map_or(0, |(rest, _)| rest.len());
    let read = &text.as_bytes()[..text.len().saturating_sub(rest)];
    let line = 1 + read.iter().filter(|&&byte| byte == b'\n').count();
    let told = |kind: &MshParserErrorKind| match kind.context() {
        Some(context) => context.to_string(),
        None => kind.to_string(),
    };
    let known = error.backtrace.iter().map(|(_, kind)| kind).filter(|kind| !kind.is_nom_error());
    let mut what: Vec<String> = known.map(told).take(3).collect();
    if what.is_empty() {
        what.push("expected a section of the MSH format".to_string());
    }
    GmshProblem::Content { line, what: what.join(", in ").replace('\n', " ") }
}
