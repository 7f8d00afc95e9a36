//! The arguments of a grid: its shape, how it is cut, and its halo.

use std::sync::Arc;

use haloport::domain::{Connectivity, Pivot, Points};
use haloport::{Grid as CoreGrid, Halo, IndexBox, Split};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::arguments::{count, counts, entries, flag_or, is_iterable, number, numbers, one_of, pair, shown};
use crate::comm::{Cartesian, Communicator};
use crate::domains::Domains;
use crate::error::OrRaise;

/// The arguments of a grid, checked on this rank.
pub(crate) struct Checked {
    pub(crate) grid: CoreGrid,
    pub(crate) halo: Halo,
    pub(crate) widths: Vec<(usize, usize)>,
    pub(crate) periodic: Vec<bool>,
    pub(crate) boxes: Vec<IndexBox>,
}

/// The shape of a grid. `more`: arguments by position that follow, as in ``Grid(64, 48)``.
pub(crate) fn one_shape(shape: &Bound<'_, PyAny>, more: &Bound<'_, PyTuple>) -> PyResult<Vec<usize>> {
    if more.is_empty() {
        return counts(shape, "shape");
    }
    let found = more.len() + 1;
    Err(PyTypeError::new_err(format!(
        "shape: expected one tuple, as in Grid((64, 48)), found {found} arguments by position; pass all others by name"
    )))
}

/// Three optional arguments.
type Three<'a, 'py> =
    (Option<&'a Bound<'py, PyAny>>, Option<&'a Bound<'py, PyAny>>, Option<&'a Bound<'py, PyAny>>);

impl Checked {
    pub(crate) fn new(
        comm: &Communicator,
        grid: CoreGrid,
        (halo, corners, clipped): Three<'_, '_>,
        periodic: Vec<bool>,
        (parts, domains): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
        like: Option<Arc<Domains>>,
    ) -> PyResult<Checked> {
        let axes = grid.axes();
        let widths = widths(halo, axes)?;
        let mut core = Halo::per_side(&widths);
        if !flag_or(corners, "corners", true)? {
            core = core.with_connectivity(Connectivity::Faces);
        }
        if flag_or(clipped, "clipped", false)? {
            core = core.clipped();
        }
        let boxes = match (parts, domains, like) {
            (None, Some(domains), None) => boxes(domains, axes)?,
            (None, None, Some(like)) => like.pattern()?.boxes_on(&grid).or_raise()?,
            (parts, None, None) => {
                let ranks = comm.get()?.size();
                let split = match parts {
                    None => Split::balanced(&grid, ranks).or_raise()?,
                    Some(parts) => Split::even(&grid, parts_per_axis(parts, axes)?).or_raise()?,
                };
                if split.parts() != ranks {
                    return Err(PyValueError::new_err(format!(
                        "parts: expected one for each of {ranks} ranks, found {} ({:?})",
                        split.parts(),
                        split.parts_per_axis()
                    )));
                }
                split.part(comm.get()?.rank()).into_iter().collect()
            }
            _ => {
                return Err(PyValueError::new_err(
                    "expected one of `parts`, `domains` and `like`, found several; leave the others out",
                ));
            }
        };
        Ok(Checked { grid, halo: core, widths, periodic, boxes })
    }
}

/// The decomposition of a Cartesian communicator along the axes of a grid.
pub(crate) struct CutAxes<'py> {
    pub(crate) parts: Bound<'py, PyList>,
    pub(crate) periodic: Bound<'py, PyList>,
}

impl<'py> CutAxes<'py> {
    /// Along the first axes of a grid with `axes` axes; the others are not cut.
    pub(crate) fn of(cart: &Cartesian, py: Python<'py>, axes: usize) -> PyResult<CutAxes<'py>> {
        let Cartesian { mut parts, mut periodic } = cart.clone();
        if parts.len() > axes {
            return Err(PyValueError::new_err(format!(
                "comm: expected a Cartesian communicator of at most {axes} dimensions, as the grid has axes, found {}",
                parts.len()
            )));
        }
        parts.resize(axes, 1);
        periodic.resize(axes, false);
        Ok(CutAxes { parts: PyList::new(py, parts)?, periodic: PyList::new(py, periodic)? })
    }
}

/// The grid, and along which axes it is periodic.
pub(crate) fn core_grid(
    shape: &[usize],
    periodic: Option<&Bound<'_, PyAny>>,
    cubed_sphere: Option<&Bound<'_, PyAny>>,
    (fold, points): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
) -> PyResult<(CoreGrid, Vec<bool>)> {
    const PIVOTS: [(&str, Pivot); 2] = [("cell", Pivot::Cell), ("corner", Pivot::Corner)];
    const POINTS: [(&str, Points); 4] = [
        ("cells", Points::Cells),
        ("east-edges", Points::EastEdges),
        ("north-edges", Points::NorthEdges),
        ("corners", Points::Corners),
    ];
    let axes = shape.len();
    let mut periodic = periodic_axes(periodic, axes)?;
    let grid = if flag_or(cubed_sphere, "cubed_sphere", false)? {
        match *shape {
            [6, one, other] if one == other => CoreGrid::cubed_sphere(one),
            [6, levels, one, other] if one == other => CoreGrid::cubed_sphere_with_levels(one, levels),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "shape: expected 6 tiles, perhaps levels, and twice the cells along an edge, for a cubed sphere, found \
                     {shape:?}"
                )));
            }
        }
    } else {
        CoreGrid::new(shape)
    };
    let grid = grid.and_then(|grid| grid.periodic(&periodic)).or_raise()?;
    let points = points.map_or(Ok(Points::Cells), |points| one_of(points, "points", &POINTS))?;
    let Some(fold) = fold else {
        if points != Points::Cells {
            return Err(PyValueError::new_err(
                "points: expected 'cells' on a grid without a fold, where all points have the same halos",
            ));
        }
        return Ok((grid, periodic));
    };
    let pivot = one_of(fold, "fold", &PIVOTS)?;
    if axes < 2 {
        return Err(PyValueError::new_err(format!(
            "shape: expected 2 axes or more with a fold, found {axes}"
        )));
    }
    let grid = grid.folded([axes - 2, axes - 1], pivot).and_then(|grid| grid.at(points)).or_raise()?;
    periodic[axes - 1] = true;
    Ok((grid, periodic))
}

fn periodic_axes(periodic: Option<&Bound<'_, PyAny>>, axes: usize) -> PyResult<Vec<bool>> {
    const EXPECTED: &str = "True, False or one of them for each axis";
    let Some(periodic) = periodic else { return Ok(vec![false; axes]) };
    // MPI's Cartesian communicators have 0 and 1.
    let flag = |one: &Bound<'_, PyAny>| match one.extract::<u8>() {
        Ok(number @ 0..=1) => Ok(number == 1),
        _ => number(one, "periodic", EXPECTED),
    };
    if !is_iterable(periodic)? {
        return Ok(vec![number(periodic, "periodic", EXPECTED)?; axes]);
    }
    let found = entries(periodic, "periodic", EXPECTED)?;
    let found: Vec<bool> = found.take(axes + 1).map(|one| flag(&one?)).collect::<PyResult<_>>()?;
    check_length(found.len(), axes, periodic, "periodic")?;
    Ok(found)
}

fn widths(halo: Option<&Bound<'_, PyAny>>, axes: usize) -> PyResult<Vec<(usize, usize)>> {
    const EXPECTED: &str = "a width, or for each axis a width or two, for the lower and the upper side";
    let Some(halo) = halo else { return Ok(vec![(1, 1); axes]) };
    let width = |found: &Bound<'_, PyAny>| {
        let width = count(found, "halo")?;
        if width >= 1 << 31 {
            return Err(PyValueError::new_err(format!("halo: expected a width below 2^31, found {width}")));
        }
        Ok(width)
    };
    if !is_iterable(halo)? {
        let width = width(halo)?;
        return Ok(vec![(width, width); axes]);
    }
    let side = |side: Bound<'_, PyAny>| match is_iterable(&side)? {
        false => width(&side).map(|width| (width, width)),
        true => match pair(&side)? {
            Some([below, above]) => Ok((width(&below)?, width(&above)?)),
            None => Err(PyTypeError::new_err(format!("halo: expected {EXPECTED}, found {}", shown(halo)))),
        },
    };
    let found = entries(halo, "halo", EXPECTED)?;
    let found: Vec<(usize, usize)> = found.take(axes + 1).map(|one| side(one?)).collect::<PyResult<_>>()?;
    check_length(found.len(), axes, halo, "halo")?;
    Ok(found)
}

fn parts_per_axis(parts: &Bound<'_, PyAny>, axes: usize) -> PyResult<Vec<usize>> {
    const EXPECTED: &str = "a number of parts, or one for each axis";
    if !is_iterable(parts)? {
        return Ok(vec![number(parts, "parts", EXPECTED)?; axes]);
    }
    let found = entries(parts, "parts", EXPECTED)?;
    let found: Vec<usize> =
        found.take(axes + 1).map(|one| number(&one?, "parts", EXPECTED)).collect::<PyResult<_>>()?;
    check_length(found.len(), axes, parts, "parts")?;
    Ok(found)
}

/// Checks the length of a list of which at most one entry more than there are axes was read. One value for all axes is no list.
fn check_length(found: usize, axes: usize, list: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    if found == axes {
        return Ok(());
    }
    let found = if found > axes { "more".into() } else { found.to_string() };
    Err(PyValueError::new_err(format!(
        "{name}: expected one value for all axes, or one for each of {axes}, found {found}: {}",
        shown(list)
    )))
}

fn boxes(domains: &Bound<'_, PyAny>, axes: usize) -> PyResult<Vec<IndexBox>> {
    const EXPECTED: &str = "a sequence of boxes (lower, upper), each two lists of indices";
    let mut boxes = Vec::new();
    for domain in entries(domains, "domains", EXPECTED)? {
        let domain = domain?;
        let Some([lower, upper]) = pair(&domain)? else {
            return Err(PyTypeError::new_err(format!(
                "domains: expected {EXPECTED}, found {} in place of a box",
                shown(&domain)
            )));
        };
        if !is_iterable(&lower)? {
            return Err(PyTypeError::new_err(format!(
                "domains: expected {EXPECTED}, found {} in place of a box; one box is a list, too: [(lower, upper)]",
                shown(&domain)
            )));
        }
        let indices = |list| numbers::<i64>(list, "domains", "an index");
        let (lower, upper) = (indices(&lower)?, indices(&upper)?);
        if lower.len() != axes || upper.len() != axes {
            return Err(PyValueError::new_err(format!(
                "domains: expected an index for each of {axes} axes, found {lower:?} and {upper:?}"
            )));
        }
        if lower.iter().zip(&upper).any(|(lower, upper)| lower > upper) {
            return Err(PyValueError::new_err(format!(
                "domains: expected a first cell before one past the last, found {lower:?} and {upper:?}"
            )));
        }
        boxes.push(IndexBox::new(lower, upper));
    }
    Ok(boxes)
}
