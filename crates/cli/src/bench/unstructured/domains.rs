//! The domains of the ranks, read from a file.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use haloport::IndexSet;

use crate::command::failure::Failure;
use haloport_demos::npz::{NpyType, Npz, Wanted};

/// Two halves of an icosahedral mesh; `data/README.md` has their provenance.
const SPHERE: &[u8] = include_bytes!("../../../../../data/sphere.npz");

/// The number of domains in [`SPHERE`].
pub(super) const RANKS: usize = 2;

/// Reads the domain of `rank`, one of `ranks`.
///
/// # Errors
/// [`Failure::BadInput`] if the file cannot be read, or does not have the arrays of exactly `ranks` ranks.
pub(super) fn read(path: Option<&Path>, rank: usize, ranks: usize) -> Result<IndexSet, Failure> {
    let name = path.map_or("the mesh that comes with the command".into(), |path| path.display().to_string());
    let bad = |problem: String| Failure::BadInput(format!("--domains: {name}: {problem}"));
    let bytes = match path {
        Some(path) => fs::read(path).map_err(|error| bad(error.to_string()))?,
        None => SPHERE.to_vec(),
    };
    let mut file = Npz::new(Cursor::new(bytes)).map_err(|error| bad(format!("no .npz file: {error}")))?;
    let names = file.names();
    let found = names.iter().filter(|name| name.starts_with("owned_")).count();
    if found != ranks {
        return Err(bad(format!(
            "it has the domains of {found} ranks, and there are {ranks}: run it on {found}, or give --domains for {ranks}"
        )));
    }
    let wanted = Wanted { types: &[NpyType::I64], axes: 1, most: u32::MAX as usize };
    let mut ids = |kind: &str| {
        let name = format!("{kind}_{rank}");
        let array = file
            .array(&name, wanted)
            .map_err(|error| bad(format!("expected 64-bit integers as `{name}`: {error}")))?;
        Ok::<_, Failure>(array.integers().unwrap_or_default())
    };
    Ok(IndexSet::new(&ids("owned")?, &ids("halo")?))
}
