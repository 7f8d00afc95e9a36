//! Lines for terminals: they end between words.

use std::borrow::Cow;

use console::{Term, measure_text_width};

/// The columns of a terminal; `None` for a file or a pipe, and if the terminal does not tell.
pub(crate) fn columns(terminal: &Term) -> Option<usize> {
    let (_, columns) = terminal.is_term().then(|| terminal.size_checked()).flatten()?;
    Some(columns.into())
}

/// Returns text for a terminal: lines that are too long go on in the next one, below their first column of text. Text
/// for a file or a pipe stays as it is.
pub(crate) fn wrapped<'t>(text: &'t str, terminal: &Term) -> Cow<'t, str> {
    match columns(terminal) {
        Some(columns) => {
            Cow::Owned(text.split_inclusive('\n').map(|line| wrapped_line(line, columns)).collect())
        }
        None => Cow::Borrowed(text),
    }
}

/// The words of `text` that fit into `columns` columns, with an ellipsis if some are left out.
pub(crate) fn shortened(text: &str, columns: usize) -> Cow<'_, str> {
    if measure_text_width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let fits = |end: &usize| measure_text_width(&text[..*end]) < columns;
    let mut ends = text.match_indices(' ').map(|(end, _)| end).filter(fits);
    Cow::Owned(format!("{}…", &text[..ends.next_back().unwrap_or(0)]))
}

fn wrapped_line(line: &str, columns: usize) -> String {
    if measure_text_width(line.trim_end()) <= columns {
        return line.to_owned();
    }
    let indent = " ".repeat(text_column(line).min(columns / 2));
    let (mut wrapped, mut used) = (String::new(), 0);
    let mut rest = line.trim_end();
    while !rest.is_empty() {
        let word = rest.trim_start_matches(' ');
        let blanks = &rest[..rest.len() - word.len()];
        let (word, after) = word.split_at(word.find(' ').unwrap_or(word.len()));
        let width = measure_text_width(word);
        if !wrapped.is_empty() && used + blanks.len() + width > columns {
            wrapped.push('\n');
            wrapped.push_str(&indent);
            used = indent.len();
        } else {
            wrapped.push_str(blanks);
            used += blanks.len();
        }
        wrapped.push_str(word);
        used += width;
        rest = after;
    }
    wrapped.push_str(&line[line.trim_end().len()..]);
    wrapped
}

/// The column of the text of a line: after its name if two blanks or more separate them, otherwise of its first word.
fn text_column(line: &str) -> usize {
    let first = line.len() - line.trim_start_matches(' ').len();
    let Some(gap) = line[first..].find("  ") else { return first };
    let name = &line[..first + gap];
    let after = line[name.len()..].trim_start_matches(' ');
    measure_text_width(name) + line.len() - name.len() - after.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_go_on_below_their_text() {
        assert_eq!(wrapped_line("short\n", 9), "short\n");
        assert_eq!(wrapped_line("one two three\n", 9), "one two\nthree\n");
        assert_eq!(wrapped_line("  name    one two three", 18), "  name    one two\n         three");
        assert_eq!(wrapped_line("  name  one two three", 16), "  name  one two\n        three");
        assert_eq!(wrapped_line("/a/path/that/is/long here", 9), "/a/path/that/is/long\nhere");
    }

    #[test]
    fn what_is_shortened_ends_with_a_word() {
        assert_eq!(shortened("one two", 7), "one two");
        assert_eq!(shortened("one two three", 8), "one two…");
        assert_eq!(shortened("one two three", 7), "one…");
        assert_eq!(shortened("one", 2), "…");
    }
}
