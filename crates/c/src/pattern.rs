//! Patterns: which cells each rank owns.

use std::ffi::c_char;
use std::mem::offset_of;

use haloport::domain::{Connectivity, Pivot, Points};
use haloport::{Communicator, Grid, Halo, HaloCells, IndexBox, IndexSet, Pattern, Split};

use crate::arguments::{Struct, check_beyond, check_place, check_row, clear, count, make, sized, slice};
use crate::boxes::{AXES, CBox};
use crate::comm::{agree, communicator, rank};
use crate::describe;
use crate::domains::{AnyPattern, any_of_handle, of_handle};
use crate::handle::Handle;
use crate::status::{Failure, Status, call};

/// `HP_SPLIT` of the header.
pub(crate) const SPLIT: i32 = -1;

// SAFETY: numbers, and a handle that may be null.
unsafe impl Struct for CGrid {
    const FIRST: usize = offset_of!(CGrid, fold);
}
// SAFETY: numbers, and pointers that may be null.
unsafe impl Struct for CIds {}
// SAFETY: as above.
unsafe impl Struct for CList {}

/// `HP_FOLD_...` of the header.
pub(crate) const FOLDS: [(i32, Pivot); 2] = [(1, Pivot::Cell), (2, Pivot::Corner)];
/// `HP_POINTS_...` of the header.
pub(crate) const POINTS: [(i32, Points); 4] =
    [(0, Points::Cells), (1, Points::EastEdges), (2, Points::NorthEdges), (3, Points::Corners)];

/// `hp_grid` of the header.
#[repr(C)]
pub(crate) struct CGrid {
    pub(crate) size: u32,
    pub(crate) axes: i32,
    pub(crate) cells: [i64; AXES],
    pub(crate) periodic: [i32; AXES],
    pub(crate) halo_lower: [i32; AXES],
    pub(crate) halo_upper: [i32; AXES],
    pub(crate) faces_only: i32,
    pub(crate) cubed_sphere: i32,
    pub(crate) parts: [i32; AXES],
    pub(crate) fold: i32,
    pub(crate) points: i32,
    pub(crate) clipped: i32,
    pub(crate) like: Handle<AnyPattern>,
}

/// `hp_ids` of the header.
#[repr(C)]
pub(crate) struct CIds {
    pub(crate) size: u32,
    pub(crate) cells: i64,
    pub(crate) ids: *const i64,
    pub(crate) owned: *const u8,
    pub(crate) owners: *const i32,
}

/// `hp_list` of the header.
#[repr(C)]
pub(crate) struct CList {
    pub(crate) size: u32,
    pub(crate) rank: i32,
    pub(crate) cells: i64,
    pub(crate) at: *const i32,
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_pattern_grid(
    comm: Handle<Communicator>,
    grid: *const CGrid,
    domains: i32,
    boxes: *const CBox,
    made: *mut Handle<AnyPattern>,
) -> Status {
    call("hp_pattern_grid", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let comm = communicator(comm)?;
        // SAFETY: as above.
        let checked = unsafe { checked_grid(&comm, grid, domains, boxes, made) };
        let (grid, halo, boxes) = agree(&comm, checked)?;
        // SAFETY: as above.
        unsafe { make(made, || Ok(AnyPattern::new(Pattern::structured(&comm, &grid, &boxes, &halo)?))) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_pattern_ids(
    comm: Handle<Communicator>,
    domains: i32,
    ids: *const CIds,
    made: *mut Handle<AnyPattern>,
) -> Status {
    call("hp_pattern_ids", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let comm = communicator(comm)?;
        // SAFETY: as above.
        let sets = agree(&comm, unsafe { index_sets(&comm, domains, ids, made) })?;
        // SAFETY: as above.
        unsafe { make(made, || Ok(AnyPattern::new(Pattern::unstructured(&comm, &sets, &HaloCells::All)?))) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_pattern_lists(
    comm: Handle<Communicator>,
    cells: i64,
    sends: i32,
    send: *const CList,
    receives: i32,
    receive: *const CList,
    made: *mut Handle<AnyPattern>,
) -> Status {
    call("hp_pattern_lists", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let comm = communicator(comm)?;
        let checked = || {
            check_place(made)?;
            // SAFETY: as above.
            let (send, receive) =
                unsafe { (lists(&comm, sends, send, "send")?, lists(&comm, receives, receive, "receive")?) };
            Ok((count(cells, "cells")?, send, receive))
        };
        let (cells, send, receive) = agree(&comm, checked())?;
        // SAFETY: as above.
        unsafe { make(made, || Ok(AnyPattern::new(Pattern::from_lists(&comm, cells, &send, &receive)?))) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_pattern_redistribution(
    source: Handle<AnyPattern>,
    target: Handle<AnyPattern>,
    fill_halo: i32,
    made: *mut Handle<AnyPattern>,
) -> Status {
    call("hp_pattern_redistribution", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let of = |handle, name: &str| {
            let named = |Failure { status, text }| Failure { status, text: format!("{name}: {text}") };
            of_handle(handle).map_err(named)
        };
        // Either of the two suffices to tell other ranks that the other one is wrong.
        let either = any_of_handle(source).or_else(|_| any_of_handle(target));
        let sides = || {
            let sides = [of(source, "source")?, of(target, "target")?];
            check_place(made).map(|()| sides)
        };
        let [from, to] = match &either {
            Ok(any) => agree(any.comm(), sides())?,
            Err(_) => sides()?,
        };
        let redistribute = || {
            let redistribution = match fill_halo {
                0 => from.pattern.redistribute(&to.pattern)?,
                _ => from.pattern.redistribute_with_halo(&to.pattern)?,
            };
            Ok(AnyPattern::Redistribution(redistribution, [from, to]))
        };
        // SAFETY: as above.
        unsafe { make(made, redistribute) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_pattern_describe(
    pattern: Handle<AnyPattern>,
    text: *mut c_char,
    bytes: *mut usize,
) -> Status {
    call("hp_pattern_describe", || {
        let described = any_of_handle(pattern)?.describe();
        // SAFETY: by the contract of the header.
        unsafe { describe::write(&described, text, bytes) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_pattern_free(pattern: Handle<AnyPattern>) -> Status {
    call("hp_pattern_free", || pattern.take().map(drop))
}

impl CGrid {
    /// Checks that there is no value for an axis beyond those of the grid.
    fn check_beyond(&self, axes: usize) -> Result<(), Failure> {
        let of = ("grid.axes", axes);
        check_beyond(&self.cells, of, "grid.cells")?;
        for (values, name) in [
            (&self.periodic, "grid.periodic"),
            (&self.halo_lower, "grid.halo_lower"),
            (&self.halo_upper, "grid.halo_upper"),
            (&self.parts, "grid.parts"),
        ] {
            check_beyond(values, of, name)?;
        }
        Ok(())
    }
}

/// # Safety
/// The pointers are as the header says.
unsafe fn checked_grid(
    comm: &Communicator,
    grid: *const CGrid,
    domains: i32,
    boxes: *const CBox,
    made: *mut Handle<AnyPattern>,
) -> Result<(Grid, Halo, Vec<IndexBox>), Failure> {
    check_place(made)?;
    // SAFETY: the caller's promise.
    let found = &unsafe { sized(grid, 0, "grid")? };
    let axes = match usize::try_from(found.axes) {
        Ok(axes @ 1..=AXES) => axes,
        _ => {
            return Err(Failure::argument(format!("grid.axes: expected 1 to {AXES}, found {}", found.axes)));
        }
    };
    found.check_beyond(axes)?;
    let cells = found.cells[..axes].iter().map(|&cells| count(cells, "grid.cells"));
    let cells: Vec<usize> = cells.collect::<Result<_, _>>()?;
    let grid = match found.cubed_sphere != 0 {
        true => cubed_sphere(&cells)?,
        false => Grid::new(&cells)?,
    };
    let periodic: Vec<bool> = found.periodic[..axes].iter().map(|&periodic| periodic != 0).collect();
    let grid = folded(grid.periodic(periodic)?, found)?;
    let width = |widths: &[i32; AXES], axis: usize| count(widths[axis], "the width of the halo");
    let widths = (0..axes).map(|axis| Ok((width(&found.halo_lower, axis)?, width(&found.halo_upper, axis)?)));
    let mut halo = Halo::per_side(widths.collect::<Result<Vec<_>, Failure>>()?);
    if found.faces_only != 0 {
        halo = halo.with_connectivity(Connectivity::Faces);
    }
    if found.clipped != 0 {
        halo = halo.clipped();
    }
    let boxes = match domains == SPLIT {
        true if !found.like.is_null() => boxes_like(found, &grid)?,
        true => split(comm, &grid, &found.parts[..axes])?,
        // SAFETY: the caller's promise.
        false => unsafe { owned_boxes(found, axes, domains, boxes)? },
    };
    Ok((grid, halo, boxes))
}

/// The boxes of this rank if the grid is split as that of another pattern is.
fn boxes_like(found: &CGrid, grid: &Grid) -> Result<Vec<IndexBox>, Failure> {
    if found.parts.iter().any(|&parts| parts != 0) {
        return Err(Failure::argument("grid.parts: expected 0 for each axis beside grid.like, found others"));
    }
    let named = |Failure { status, text }| Failure { status, text: format!("grid.like: {text}") };
    let like = of_handle(found.like).map_err(named)?.pattern;
    if like.grid().is_none() {
        return Err(Failure::argument(
            "grid.like: expected the pattern of a grid, found one of a mesh or of lists",
        ));
    }
    like.boxes_on(grid).map_err(|error| Failure::argument(format!("grid.like: {error}")))
}

/// The boxes of this rank on a grid with this many axes.
///
/// # Safety
/// The pointers are as the header says.
unsafe fn owned_boxes(
    grid: &CGrid,
    axes: usize,
    domains: i32,
    boxes: *const CBox,
) -> Result<Vec<IndexBox>, Failure> {
    if grid.parts.iter().any(|&parts| parts != 0) {
        return Err(Failure::argument(format!(
            "grid.parts: expected 0 for each axis without HP_SPLIT, found {:?}",
            &grid.parts[..axes]
        )));
    }
    if !grid.like.is_null() {
        return Err(Failure::argument("grid.like: expected null without HP_SPLIT, found a pattern"));
    }
    // SAFETY: the caller's promise.
    let boxes = unsafe { slice(boxes, count(domains, "domains")?, "boxes")? };
    let made = boxes.iter().enumerate().map(|(number, cells)| {
        for (ends, name) in [(&cells.lower, "lower"), (&cells.upper, "upper")] {
            check_beyond(ends, ("grid.axes", axes), &format!("boxes[{number}].{name}"))?;
        }
        let (lower, upper) = (&cells.lower[..axes], &cells.upper[..axes]);
        match lower.iter().zip(upper).all(|(lower, upper)| lower <= upper) {
            true => Ok(IndexBox::new(lower, upper)),
            false => Err(Failure::argument(format!(
                "boxes[{number}]: expected a first cell before one past the last, found {lower:?} and {upper:?}"
            ))),
        }
    });
    made.collect()
}

/// The grid with the fold that `found` asks for.
fn folded(grid: Grid, found: &CGrid) -> Result<Grid, Failure> {
    let wrong = |name: &str, known: &str, found: i32| {
        Failure::argument(format!("grid.{name}: expected {known}, found {found}"))
    };
    let points = POINTS.iter().find(|(number, _)| *number == found.points);
    let (_, points) = points.ok_or_else(|| wrong("points", "one of HP_POINTS_...", found.points))?;
    if found.fold == 0 {
        let is_default = *points == Points::default();
        let known = "HP_POINTS_CELLS on a grid without a fold, where all points have the same pattern";
        return if is_default { Ok(grid) } else { Err(wrong("points", known, found.points)) };
    }
    let pivot = FOLDS.iter().find(|(number, _)| *number == found.fold);
    let (_, pivot) = pivot.ok_or_else(|| wrong("fold", "0, HP_FOLD_CELL or HP_FOLD_CORNER", found.fold))?;
    match grid.axes() {
        0 | 1 => Err(wrong("axes", "2 or more on a grid with a fold", found.axes)),
        axes => Ok(grid.folded([axes - 2, axes - 1], *pivot)?.at(*points)?),
    }
}

fn cubed_sphere(cells: &[usize]) -> Result<Grid, Failure> {
    match *cells {
        [6, one, other] if one == other => Ok(Grid::cubed_sphere(one)?),
        [6, levels, one, other] if one == other => Ok(Grid::cubed_sphere_with_levels(one, levels)?),
        _ => Err(Failure::argument(format!(
            "grid.cells: expected 6 tiles, perhaps levels, and twice the cells along an edge, found {cells:?}"
        ))),
    }
}

/// The box of this rank if the grid is split evenly.
fn split(comm: &Communicator, grid: &Grid, parts: &[i32]) -> Result<Vec<IndexBox>, Failure> {
    let split = match parts.iter().all(|&parts| parts == 0) {
        true => Split::balanced(grid, comm.size())?,
        false => {
            let found = parts;
            let parts = parts.iter().map(|&parts| count(parts, "grid.parts"));
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            if parts.contains(&0) {
                return Err(Failure::argument(format!(
                    "grid.parts: expected 1 or more along each axis, or 0 along all, found {found:?}"
                )));
            }
            Split::even(grid, parts)?
        }
    };
    if split.parts() != comm.size() {
        return Err(Failure::argument(format!(
            "grid.parts: expected one for each of {} ranks, found {} ({:?})",
            comm.size(),
            split.parts(),
            split.parts_per_axis()
        )));
    }
    Ok(split.part(comm.rank()).into_iter().collect())
}

/// # Safety
/// The pointers are as the header says.
unsafe fn index_sets(
    comm: &Communicator,
    domains: i32,
    ids: *const CIds,
    made: *mut Handle<AnyPattern>,
) -> Result<Vec<IndexSet>, Failure> {
    check_place(made)?;
    let domains = count(domains, "domains")?;
    let set = |domain: usize| {
        check_row(ids, domains, "ids")?;
        // SAFETY: the caller's promise.
        let found = unsafe { sized(ids, domain, &format!("ids[{domain}]"))? };
        let cells = count(found.cells, "ids.cells")?;
        // SAFETY: the caller's promise.
        let (ids, owned) =
            unsafe { (slice(found.ids, cells, "ids.ids")?, slice(found.owned, cells, "ids.owned")?) };
        let set = IndexSet::in_order(ids, owned.iter().map(|&owned| owned != 0).collect::<Vec<_>>());
        if found.owners.is_null() {
            return Ok(set);
        }
        // SAFETY: the caller's promise.
        let owners = unsafe { slice(found.owners, cells, "ids.owners")? };
        let of_halo = owners.iter().zip(owned).enumerate().filter(|(_, (_, owned))| **owned == 0);
        let owners = of_halo.map(|(cell, (&owner, _))| {
            rank(owner, comm.size(), format_args!("ids[{domain}].owners[{cell}]"))
        });
        Ok(set.with_owners(owners.collect::<Result<Vec<_>, Failure>>()?))
    };
    (0..domains).map(set).collect()
}

/// # Safety
/// The pointers are as the header says.
unsafe fn lists(
    comm: &Communicator,
    number: i32,
    first: *const CList,
    name: &str,
) -> Result<Vec<(usize, Vec<u32>)>, Failure> {
    let number = count(number, &format!("the number of lists to {name}"))?;
    let list = |index: usize| {
        check_row(first, number, name)?;
        // SAFETY: the caller's promise.
        let found = unsafe { sized(first, index, &format!("{name}[{index}]"))? };
        // SAFETY: the caller's promise.
        let at =
            unsafe { slice(found.at, count(found.cells, &format!("{name}.cells"))?, &format!("{name}.at"))? };
        let at: Result<Vec<u32>, _> = at.iter().map(|&cell| u32::try_from(cell)).collect();
        let at = at.map_err(|_| {
            Failure::argument(format!(
                "{name}[{index}].at: expected local indices from 0, found a negative one"
            ))
        })?;
        Ok((rank(found.rank, comm.size(), format_args!("{name}[{index}].rank"))?, at))
    };
    (0..number).map(list).collect()
}
