//! Texts for people and programs: JSON objects.

use std::collections::BTreeMap;
use std::ffi::c_char;

use haloport::Communicator;
use haloport::comm::TransportInfo;
use haloport::device::BackendReport;
use haloport::exchange::Description;
use haloport::pattern::Piece;
use serde::Serialize;

use crate::status::{Failure, Status, call};

/// What `hp_describe` writes.
#[derive(Serialize)]
struct Machine {
    version: &'static str,
    backends: Vec<BackendReport>,
}

#[derive(Serialize)]
struct OfPattern {
    ranks: usize,
    transport: TransportInfo,
    /// Of a redistribution, those of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_domains: Option<usize>,
    domains: usize,
    neighbours: Vec<usize>,
}

#[derive(Serialize)]
struct OfPlan {
    devices: Vec<String>,
    #[serde(flatten)]
    exchange: Description,
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_describe(text: *mut c_char, bytes: *mut usize) -> Status {
    call("hp_describe", || {
        let machine = Machine { version: env!("CARGO_PKG_VERSION"), backends: haloport::device::backends() };
        // SAFETY: by the contract of the header.
        unsafe { write(&json(&machine), text, bytes) }
    })
}

/// Describes a pattern or a redistribution, which has a second number of domains before that of its target.
pub(crate) fn pattern(
    comm: &Communicator,
    (source_domains, domains): (Option<usize>, usize),
    pieces: [&BTreeMap<usize, Vec<Piece>>; 2],
) -> String {
    let mut neighbours: Vec<usize> = pieces.iter().flat_map(|pieces| pieces.keys()).copied().collect();
    neighbours.sort_unstable();
    neighbours.dedup();
    json(&OfPattern { ranks: comm.size(), transport: comm.info(), source_domains, domains, neighbours })
}

/// Describes a plan.
pub(crate) fn plan(exchange: Description, devices: Vec<String>) -> String {
    json(&OfPlan { devices, exchange })
}

/// Writes a text into the caller's memory. `bytes` holds the size of that memory before, and the size of the text
/// after; a text that does not fit is not written.
///
/// # Safety
/// As the header says of texts.
pub(crate) unsafe fn write(found: &str, text: *mut c_char, bytes: *mut usize) -> Result<(), Failure> {
    if bytes.is_null() {
        return Err(Failure::argument("bytes: expected the address of a number, found null"));
    }
    let needed = found.len() + 1;
    // SAFETY: the caller's promise.
    unsafe {
        let room = bytes.replace(needed);
        if !text.is_null() && room >= needed {
            text.copy_from_nonoverlapping(found.as_ptr().cast(), found.len());
            text.add(found.len()).write(0);
        }
    }
    Ok(())
}

/// A JSON object. Names and numbers can always be written.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"error\":{:?}}}", error.to_string()))
}
