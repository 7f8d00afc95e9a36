//! The terms that all ranks must agree on when they bind a pattern, and in words why a rank cannot bind.

use serde::{Deserialize, Serialize};

use crate::exchange::cells::FieldSignature;
use crate::exchange::options::{BindOptions, DataPath, HaloOrder};
use crate::exchange::ways::PartFields;
use crate::exchange::ways::accumulate::cannot_combine;
use crate::pattern::{Pattern, Reversal};

/// Maximum number of devices of one exchange. Every exchange takes this many tags per axis, so that all ranks take
/// equally many.
pub(super) const MAX_PARTS: usize = 16;

/// The options and fields that must be the same on all ranks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Terms {
    pub(super) path: DataPath,
    pub(super) order: HaloOrder,
    pub(super) chunk: usize,
    pub(super) in_flight: usize,
    pub(super) fields: Vec<Vec<FieldSignature>>,
    pub(super) names: Vec<String>,
    pub(super) reversal: Option<Reversal>,
}

/// Describes in words why this rank cannot bind its fields, given the terms of rank 0.
pub(super) fn complaint(
    mine: &Terms,
    first: &Terms,
    pattern: &Pattern,
    parts: &[PartFields],
    options: &BindOptions,
    most_in_flight: usize,
) -> Option<String> {
    let (found, in_flight) = (parts.len(), mine.in_flight);
    if let Some(text) = disagreement(mine, first) {
        return Some(text);
    }
    if found > MAX_PARTS {
        return Some(format!("the fields are on {found} devices, expected at most {MAX_PARTS}"));
    }
    if in_flight == 0 || in_flight > most_in_flight {
        return Some(format!(
            "the number of exchanges in flight is {in_flight}, expected 1 to {most_in_flight}"
        ));
    }
    if in_flight > 1 && options.on_complete.is_some() {
        return Some(format!(
            "`on_complete` is set for {in_flight} exchanges in flight, expected 1 with a callback"
        ));
    }
    if options.zero_halo && options.accumulate.is_none() {
        return Some("the option `zero_halo` is set without `accumulate`; set both or none".into());
    }
    if pattern.is_redistribution() && options.accumulate.is_some() {
        return Some(
            "the option `accumulate` is set for a redistribution, which accumulates no halo; leave it out"
                .into(),
        );
    }
    let misfit = parts.iter().find_map(|part| part.misfit(pattern));
    misfit.or_else(|| cannot_combine(pattern, parts, pattern.reversal()?))
}

/// Describes in words how the terms of this rank differ from those of rank 0.
fn disagreement(mine: &Terms, first: &Terms) -> Option<String> {
    if mine == first {
        return None;
    }
    let differs = |option: &str, here: String, there: String| {
        Some(format!(
            "the option `{option}` is {here} here and {there} on rank 0; pass the same on every rank"
        ))
    };
    if mine.path != first.path {
        return differs("path", format!("{:?}", mine.path), format!("{:?}", first.path));
    }
    if mine.order != first.order {
        return differs("order", format!("{:?}", mine.order), format!("{:?}", first.order));
    }
    if mine.in_flight != first.in_flight {
        return differs("in_flight", mine.in_flight.to_string(), first.in_flight.to_string());
    }
    if mine.chunk != first.chunk {
        return differs("staging_chunk", format!("{} bytes", mine.chunk), format!("{} bytes", first.chunk));
    }
    let combine = |terms: &Terms| terms.reversal.map_or("not set", |it| it.combine.name()).to_string();
    if combine(mine) != combine(first) {
        return differs("accumulate", combine(mine), combine(first));
    }
    let zeroes = |terms: &Terms| terms.reversal.is_some_and(|it| it.zero_halo);
    if mine.reversal != first.reversal {
        return differs("zero_halo", zeroes(mine).to_string(), zeroes(first).to_string());
    }
    if mine.fields == first.fields {
        return different_name(&mine.names, &first.names);
    }
    let show = |parts: &Vec<Vec<FieldSignature>>| {
        let mut fields: Vec<(usize, String)> = parts
            .iter()
            .enumerate()
            .flat_map(|(part, fields)| {
                fields.iter().map(move |FieldSignature { number, element, vector, pattern }| {
                    let of = if *pattern > 0 { format!(", pattern {pattern}") } else { String::new() };
                    (*number, format!("{}{vector} (device {part}{of})", element.in_words()))
                })
            })
            .collect();
        fields.sort();
        let fields: Vec<String> = fields.into_iter().map(|(_, text)| text).collect();
        format!("[{}]", fields.join(", "))
    };
    let (here, there) = (show(&mine.fields), show(&first.fields));
    Some(format!("the fields are {here} here and {there} on rank 0; bind the same fields on every rank"))
}

/// Describes in words the first field whose elements have another name here than on rank 0.
fn different_name(mine: &[String], first: &[String]) -> Option<String> {
    let name = |names: &[String], field: usize| names.get(field).cloned().unwrap_or_default();
    let field = (0..mine.len().max(first.len())).find(|&field| name(mine, field) != name(first, field))?;
    let shown = |names| match name(names, field) {
        name if name.is_empty() => "without a name".into(),
        name => format!("named {name}"),
    };
    let (here, there) = (shown(mine), shown(first));
    Some(format!(
        "the elements of field {field} are {here} here and {there} on rank 0; bind fields of the same elements on every rank"
    ))
}
