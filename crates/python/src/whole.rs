//! The owned cells of all ranks as one array on one rank, and back.

use haloport::Reduction;
use haloport::pattern::DEFAULT_SLAB_BYTES;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::{count_or, shown, type_name};
use crate::arrays::described::Place;
use crate::arrays::expected::named;
use crate::arrays::numpy::as_array;
use crate::arrays::{describe::describe, element::element_of};
use crate::claims::{Addresses, Footprint, first_overlap};
use crate::comm::{Communicator, pickled, unpickled};
use crate::domains::Domains;
use crate::error::OrRaise;
use crate::memory::address;
use crate::payload;
use crate::slabs::{CellType, Direction, Ends, from_corner, move_cells, view};

/// What the arrays of a field have in common: their dtype and the extents of the axes beyond those of the grid.
struct Kind<'py> {
    dtype: Bound<'py, PyAny>,
    further: Vec<usize>,
}

/// A kind as ranks send it: the dtype by ``pickle``, and the extents.
type Packed = (Vec<u8>, Vec<usize>);

/// The owned cells of each array of a field, as NumPy shows them, and the kind of the arrays.
type Owned<'py> = (Vec<Bound<'py, PyAny>>, Option<(Kind<'py>, Packed)>);

/// The options of `Grid.gather` and `Grid.scatter`, as they are passed.
pub(crate) struct Options<'a, 'py> {
    pub(crate) root: Option<&'a Bound<'py, PyAny>>,
    pub(crate) into: Option<&'a Bound<'py, PyAny>>,
    pub(crate) limit: Option<&'a Bound<'py, PyAny>>,
}

impl Options<'_, '_> {
    /// The rank `root`, and the limit of a slab in bytes.
    fn numbers(&self, comm: &Communicator) -> PyResult<(usize, usize)> {
        Ok((comm.root(self.root)?, count_or(self.limit, "limit", DEFAULT_SLAB_BYTES)?))
    }
}

/// Collective: see `Grid.gather`. `shape` is that of the whole grid.
pub(crate) fn gather<'py>(
    domains: &Domains,
    shape: &[usize],
    field: &Bound<'py, PyAny>,
    options: Options<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, comm) = (field.py(), &domains.comm);
    let show = |array: &Bound<'py, PyAny>, name: &str| on_host(array, name, comm);
    let checked = options
        .numbers(comm)
        .and_then(|numbers| Ok((numbers, owned_of(domains, (field, "field"), shape.len(), show)?)));
    let (numbers, (owned, own)) = comm.agree(py, checked)?;
    let (is_root, into) = (comm.get()?.rank() == numbers.0, options.into);

    let packed = common_kind(py, comm, own.as_ref())?;
    let prepared = (|| {
        let kind = Kind::unpacked(py, &packed)?;
        if let Some((own, _)) = &own {
            own.check_like(&kind, "field", "on other ranks and in other domains")?;
        }
        let whole = match (is_root, into) {
            (false, _) => None,
            (true, None) => Some(kind.new_array("empty", &kind.extents(shape))?),
            (true, Some(into)) => {
                let shown = writable(into, "into")?;
                kind.check_whole(&shown, shape)?;
                check_apart(&owned, std::slice::from_ref(&shown))?;
                Some(shown)
            }
        };
        Ok((kind.cell_type()?, whole))
    })();
    let (cell, whole) = comm.agree(py, prepared)?;

    let ends = Ends { owned: &owned, whole: whole.as_ref() };
    move_cells(py, domains, numbers, cell, &ends, Direction::ToRoot)?;
    Ok(into.filter(|_| is_root).cloned().or(whole))
}

/// Collective: see `Grid.scatter`. `shape` is that of the whole grid.
pub(crate) fn scatter<'py>(
    domains: &Domains,
    shape: &[usize],
    whole: &Bound<'py, PyAny>,
    options: Options<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, comm) = (whole.py(), &domains.comm);
    let core = comm.get()?;
    let given = |into| owned_of(domains, (into, "into"), shape.len(), writable);
    let checked = options.numbers(comm).and_then(|numbers| {
        let given = options.into.map(given).transpose()?;
        if numbers.0 != core.rank() {
            return Ok((numbers, given, Packed::default(), None));
        }
        let whole = whole_of(whole, shape, comm)?;
        let packed = Kind::of(&whole, shape.len())?.packed()?;
        Ok((numbers, given, packed, Some(whole)))
    });
    let (numbers, given, packed, whole) = comm.agree(py, checked)?;

    let packed = py.detach(|| core.broadcast(numbers.0, &packed)).or_raise()?;
    let made = Kind::unpacked(py, &packed).and_then(|kind| {
        let (owned, field) = match (given, options.into) {
            (Some((owned, own)), Some(into)) => {
                if let Some((own, _)) = own {
                    own.check_like(&kind, "into", "in `whole` on rank `root`")?;
                }
                check_apart(whole.as_slice(), &owned)?;
                (owned, into.clone())
            }
            _ => {
                let (blocks, field) = domains.zeros(py, &kind.dtype, &kind.further)?;
                (owned_cells(domains, &blocks)?, field)
            }
        };
        Ok((kind.cell_type()?, owned, field))
    });
    let (cell, owned, field) = comm.agree(py, made)?;

    let ends = Ends { owned: &owned, whole: whole.as_ref() };
    move_cells(py, domains, numbers, cell, &ends, Direction::FromRoot)?;
    Ok(field)
}

impl<'py> Kind<'py> {
    /// That of an array whose first `axes` axes are those of the grid.
    fn of(array: &Bound<'py, PyAny>, axes: usize) -> PyResult<Kind<'py>> {
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        Ok(Kind { dtype: array.getattr("dtype")?, further: shape[axes..].to_vec() })
    }

    fn packed(&self) -> PyResult<Packed> {
        Ok((pickled(&self.dtype)?, self.further.clone()))
    }

    fn unpacked(py: Python<'py>, (dtype, further): &Packed) -> PyResult<Kind<'py>> {
        Ok(Kind { dtype: unpickled(py, dtype)?, further: further.clone() })
    }

    /// Checks that an array, `name` in errors, is of the kind that arrays have `elsewhere`.
    fn check_like(&self, expected: &Kind<'py>, name: &str, elsewhere: &str) -> PyResult<()> {
        if self.dtype.eq(&expected.dtype)? && self.further == expected.further {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "{name}: expected elements of dtype {} and further axes of extents {:?} as {elsewhere}, found {} and {:?}",
            expected.dtype, expected.further, self.dtype, self.further
        )))
    }

    /// Checks that the argument `into` is for the cells of a whole grid of this shape.
    fn check_whole(&self, into: &Bound<'py, PyAny>, shape: &[usize]) -> PyResult<()> {
        check_shape(into, shape, "into", "the cells of the whole grid")?;
        Kind::of(into, shape.len())?.check_like(self, "into", "in the field")
    }

    fn cell_type(&self) -> PyResult<CellType> {
        Ok(CellType { element: element_of(&self.dtype)?, elements: self.further.iter().product() })
    }

    /// The extents of an array for cells of these extents.
    fn extents(&self, cells: &[usize]) -> Vec<usize> {
        cells.iter().chain(&self.further).copied().collect()
    }

    /// An array by this function of NumPy.
    fn new_array(&self, function: &str, extents: &[usize]) -> PyResult<Bound<'py, PyAny>> {
        let py = self.dtype.py();
        py.import("numpy")?.call_method1(function, (PyTuple::new(py, extents)?, &self.dtype))
    }
}

/// Collective: the kind of the fields of the lowest rank that has domains.
fn common_kind(py: Python<'_>, comm: &Communicator, own: Option<&(Kind<'_>, Packed)>) -> PyResult<Packed> {
    let core = comm.get()?;
    let packed = own.map(|(_, packed)| packed.clone());
    let mine = if packed.is_some() { core.rank() } else { core.size() - 1 };
    py.detach(|| {
        let root = core.all_reduce(mine as u64, Reduction::Min)? as usize;
        core.broadcast(root, &packed.unwrap_or_default())
    })
    .or_raise()
}

/// The owned cells of each array of a field, as `show` shows the arrays, and their kind; `None` on a rank without domains.
fn owned_of<'py>(
    domains: &Domains,
    (field, name): (&Bound<'py, PyAny>, &str),
    axes: usize,
    show: impl Fn(&Bound<'py, PyAny>, &str) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Owned<'py>> {
    if domains.count() == 0 {
        return Ok((Vec::new(), None));
    }
    let (mut blocks, mut kind): (Vec<_>, Option<Kind<'py>>) = (Vec::new(), None);
    for (domain, block) in domains.blocks(field, name)?.iter().enumerate() {
        let name = format!("{name}{}", domains.name(domain));
        let array = show(block, &name)?;
        let cells = domains.cells(domain).with_halo();
        let expected: Vec<usize> = (0..axes).map(|axis| cells.extent(axis)).collect();
        check_shape(&array, &expected, &name, "this rank's cells and their halo")?;
        let found = Kind::of(&array, axes)?;
        match &kind {
            Some(kind) => found.check_like(kind, &name, "in other domains")?,
            None => kind = Some(found),
        }
        blocks.push(array);
    }
    let kind = kind.map(|kind| Ok::<_, PyErr>((kind.packed()?, kind))).transpose()?;
    Ok((owned_cells(domains, &blocks)?, kind.map(|(packed, kind)| (kind, packed))))
}

/// The owned cells of the arrays of all domains, as views of them.
fn owned_cells<'py>(domains: &Domains, blocks: &[Bound<'py, PyAny>]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let blocks = blocks.iter().enumerate();
    blocks
        .map(|(domain, array)| {
            let cells = domains.cells(domain);
            view(array, &from_corner(&cells.owned(), &cells.with_halo()))
        })
        .collect()
}

fn whole_of<'py>(
    whole: &Bound<'py, PyAny>,
    shape: &[usize],
    comm: &Communicator,
) -> PyResult<Bound<'py, PyAny>> {
    if whole.is_none() {
        return Err(PyTypeError::new_err("whole: expected an array on rank `root`, found None"));
    }
    let array = on_host(whole, "whole", comm)?;
    check_shape(&array, shape, "whole", "the cells of the whole grid")?;
    Ok(array)
}

/// An array in memory of the host, as NumPy shows it, or a copy of one on a device; see [`payload::copied`].
fn on_host<'py>(array: &Bound<'py, PyAny>, name: &str, comm: &Communicator) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let shown = describe(array, true).and_then(|described| match described.place {
        Place::Host => py.import("numpy")?.call_method1("asarray", (array,)),
        _ => payload::copied(array, &described, comm),
    });
    shown
        .and_then(|array| element_of(&array.getattr("dtype")?).map(|_| array))
        .map_err(|error| named(py, error, name))
}

/// An array of NumPy that can be filled, as one of no derived class.
fn writable<'py>(array: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    if as_array(array).is_none() {
        let found = type_name(array);
        return Err(PyTypeError::new_err(format!("{name}: expected an array of NumPy, found {found}")));
    }
    let checked = describe(array, false).and_then(|described| described.check_writable());
    checked.map_err(|error| named(py, error, name))?;
    py.import("numpy")?.call_method1("asarray", (array,))
}

/// Checks that the arrays that are filled have no elements in common with each other, or with those that are read.
fn check_apart(read: &[Bound<'_, PyAny>], filled: &[Bound<'_, PyAny>]) -> PyResult<()> {
    let (mut addresses, mut footprints) = (Addresses::new(), Vec::new());
    for (arrays, is_read) in [(read, true), (filled, false)] {
        for array in arrays {
            let array = describe(array, true)?.array;
            let bytes = array.element().bytes();
            let strides = array.strides().iter().map(|stride| stride * bytes as isize);
            addresses.push(address(array.first()));
            footprints.push(Footprint::new(bytes, array.shape().iter().copied().zip(strides), is_read));
        }
    }
    match first_overlap(&addresses, &footprints) {
        None => Ok(()),
        Some(_) => Err(PyValueError::new_err(
            "into: expected memory of its own, found elements in common with another array of the call",
        )),
    }
}

/// Checks the extents of the first axes of an array.
fn check_shape(array: &Bound<'_, PyAny>, expected: &[usize], name: &str, what: &str) -> PyResult<()> {
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    if shape.starts_with(expected) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{name}: expected a shape that begins with {expected:?}, for {what}, found {}; if its axes are in another order, pass \
         a view of it, such as `u.transpose(1, 2, 0)`",
        shown(&array.getattr("shape")?)
    )))
}
