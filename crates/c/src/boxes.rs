//! The cells of a domain, as boxes.

use haloport::IndexBox;

use crate::arguments::{count, write};
use crate::domains::{AnyPattern, Domains, of_handle};
use crate::handle::Handle;
use crate::status::{Failure, Status, call};

/// The most axes of a pattern.
pub(crate) const AXES: usize = 4;

/// `hp_box` of the header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CBox {
    pub(crate) lower: [i64; AXES],
    pub(crate) upper: [i64; AXES],
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_pattern_domain(
    pattern: Handle<AnyPattern>,
    domains: *mut i32,
    domain: i32,
    owned: *mut CBox,
    with_halo: *mut CBox,
    interior: *mut CBox,
) -> Status {
    call("hp_pattern_domain", || {
        // SAFETY: by the contract of the header, here and below. After a failure there are no cells.
        unsafe {
            write(domains, 0);
            for place in [owned, with_halo, interior] {
                write(place, CBox::EMPTY);
            }
        }
        let Domains { pattern, cells } = of_handle(pattern)?;
        // SAFETY: as above.
        unsafe { write(domains, cells.len() as i32) };
        if owned.is_null() && with_halo.is_null() && interior.is_null() {
            return Ok(());
        }
        let domain = checked(domain, cells.len())?;
        let found = &cells[domain];
        let interior_box = match pattern.regions(domain) {
            Some(regions) => regions.interior,
            None => pattern.interior(domain),
        };
        let inner =
            interior_box.unwrap_or_else(|| IndexBox::new(found.owned().lower(), found.owned().lower()));
        // SAFETY: as above.
        unsafe {
            write(owned, CBox::of(&found.owned()));
            write(with_halo, CBox::of(&found.with_halo()));
            write(interior, CBox::of(&inner));
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_pattern_boundary(
    pattern: Handle<AnyPattern>,
    domain: i32,
    boxes: *mut i32,
    boundary: *mut CBox,
) -> Status {
    call("hp_pattern_boundary", || {
        // SAFETY: by the contract of the header, here and below. After a failure there are no boxes.
        unsafe { write(boxes, 0) };
        let Domains { pattern, cells } = of_handle(pattern)?;
        let Some(found) = pattern.regions(checked(domain, cells.len())?) else {
            return Err(Failure::argument(
                "pattern: expected a pattern of a grid, found one of a mesh or of lists",
            ));
        };
        if boxes.is_null() || boundary.is_null() {
            return Err(Failure::argument("boxes, boundary: expected a place for each, found null"));
        }
        // SAFETY: as above: there is room for two boxes for each axis, and there are no more.
        unsafe {
            write(boxes, found.boundary.len() as i32);
            for (place, cells) in found.boundary.iter().enumerate() {
                write(boundary.add(place), CBox::of(cells));
            }
        }
        Ok(())
    })
}

impl CBox {
    const EMPTY: CBox = CBox { lower: [0; AXES], upper: [0; AXES] };

    fn of(cells: &IndexBox) -> CBox {
        let mut made = CBox::EMPTY;
        made.lower[..cells.axes()].copy_from_slice(cells.lower());
        made.upper[..cells.axes()].copy_from_slice(cells.upper());
        made
    }
}

/// The number of a domain of this rank, which has that many.
fn checked(domain: i32, domains: usize) -> Result<usize, Failure> {
    let domain = count(domain, "domain")?;
    if domain < domains {
        return Ok(domain);
    }
    Err(Failure::argument(format!(
        "domain: expected one of the {domains} domains of this rank, found {domain}"
    )))
}
