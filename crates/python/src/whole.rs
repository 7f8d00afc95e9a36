//! The owned cells of all ranks as one array on one rank, and back.

use haloport::Reduction;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice, PyTuple};

use crate::arguments::shown;
use crate::arrays::described::Place;
use crate::arrays::expected::named;
use crate::arrays::{describe::describe, element::element_of};
use crate::comm::{Communicator, pickled, unpickled};
use crate::domains::Domains;
use crate::error::OrRaise;
use crate::payload;

/// What the arrays of a field have in common: their dtype and the extents of the axes beyond those of the grid.
struct Kind<'py> {
    dtype: Bound<'py, PyAny>,
    further: Vec<usize>,
}

/// A kind as ranks send it: the dtype by ``pickle``, and the extents.
type Packed = (Vec<u8>, Vec<usize>);

/// The arrays of a field, as NumPy shows them, and their kind.
type Blocks<'py> = (Vec<Bound<'py, PyAny>>, Option<(Kind<'py>, Packed)>);

/// The lower and the upper corner of an owned box.
type Corners = (Vec<i64>, Vec<i64>);

/// Collective: see `Grid.gather`. `shape` is that of the whole grid.
pub(crate) fn gather<'py>(
    domains: &Domains,
    shape: &[usize],
    field: &Bound<'py, PyAny>,
    root: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, comm) = (field.py(), &domains.comm);
    let checked = comm.root(root).and_then(|root| Ok((root, blocks_of(domains, field, shape.len())?)));
    let (root, (blocks, own)) = comm.agree(py, checked)?;
    let core = comm.get()?;
    let is_root = core.rank() == root;

    let packed = common_kind(py, comm, own.as_ref())?;
    let prepared = (|| {
        let kind = Kind::unpacked(py, &packed)?;
        if let Some((own, _)) = &own {
            own.check_like(&kind)?;
        }
        let mut bytes = Vec::new();
        for (domain, block) in blocks.iter().enumerate() {
            bytes.extend_from_slice(&bytes_of(&block.get_item(owned_slices(py, domains, domain)?)?)?);
        }
        let whole = if is_root { Some(kind.new_array("empty", &kind.extents(shape))?) } else { None };
        Ok((kind, bytes, whole))
    })();
    let (kind, bytes, whole) = comm.agree(py, prepared)?;

    let (boxes, came) = py.detach(|| {
        let boxes = core.gather(root, &corners_of(domains)).or_raise()?;
        Ok::<_, PyErr>((boxes, core.sparse_exchange_bytes(vec![(root, bytes)]).or_raise()?))
    })?;
    let (Some(boxes), Some(whole)) = (boxes, whole) else { return Ok(None) };
    for (sender, bytes) in came {
        let (bytes, mut first) = (PyBytes::new(py, &bytes), 0);
        for (lower, upper) in &boxes[sender] {
            let cells = slices(py, lower, upper)?;
            first = kind.put(&bytes, first, &whole, &cells, &extents_of(lower, upper))?;
        }
    }
    Ok(Some(whole))
}

/// Collective: see `Grid.scatter`. `shape` is that of the whole grid.
pub(crate) fn scatter<'py>(
    domains: &Domains,
    shape: &[usize],
    whole: &Bound<'py, PyAny>,
    root: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, comm) = (whole.py(), &domains.comm);
    let core = comm.get()?;
    let checked = comm.root(root).and_then(|root| match root == core.rank() {
        true => {
            let whole = whole_of(whole, shape, comm)?;
            let packed = Kind::of(&whole, shape.len())?.packed()?;
            Ok((root, packed, Some(whole)))
        }
        false => Ok((root, Packed::default(), None)),
    });
    let (root, packed, whole) = comm.agree(py, checked)?;

    let packed = py.detach(|| core.broadcast(root, &packed)).or_raise()?;
    let made = Kind::unpacked(py, &packed)
        .and_then(|kind| Ok((domains.zeros(py, &kind.dtype, &kind.further)?, kind)));
    let ((blocks, field), kind) = comm.agree(py, made)?;

    let boxes = py.detach(|| core.gather(root, &corners_of(domains))).or_raise()?;
    let messages = match (&boxes, &whole) {
        (Some(boxes), Some(whole)) => cut(whole, boxes),
        _ => Ok(Vec::new()),
    };
    let messages = comm.agree(py, messages)?;
    let came = py.detach(|| core.sparse_exchange_bytes(messages)).or_raise()?;
    for (_, bytes) in came {
        let (bytes, mut first) = (PyBytes::new(py, &bytes), 0);
        for (domain, block) in blocks.iter().enumerate() {
            let (lower, upper) = &corners_of(domains)[domain];
            let cells = owned_slices(py, domains, domain)?;
            first = kind.put(&bytes, first, block, &cells, &extents_of(lower, upper))?;
        }
    }
    Ok(field)
}

/// The cells of each rank, as messages.
fn cut(whole: &Bound<'_, PyAny>, boxes: &[Vec<Corners>]) -> PyResult<Vec<(usize, Vec<u8>)>> {
    let message = |(rank, boxes): (usize, &Vec<Corners>)| {
        let mut bytes = Vec::new();
        for (lower, upper) in boxes {
            bytes.extend_from_slice(&bytes_of(&whole.get_item(slices(whole.py(), lower, upper)?)?)?);
        }
        Ok((rank, bytes))
    };
    boxes.iter().enumerate().map(message).collect()
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

    fn check_like(&self, expected: &Kind<'py>) -> PyResult<()> {
        if self.dtype.eq(&expected.dtype)? && self.further == expected.further {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "field: expected elements of dtype {} and further axes of extents {:?} as on other ranks and in other domains, \
             found {} and {:?}",
            expected.dtype, expected.further, self.dtype, self.further
        )))
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

    /// Puts a box of cells of these extents, whose bytes begin at `first`, into `array[cells]`; returns where they end.
    fn put(
        &self,
        bytes: &Bound<'py, PyBytes>,
        first: usize,
        array: &Bound<'py, PyAny>,
        cells: &Bound<'py, PyTuple>,
        extents: &[usize],
    ) -> PyResult<usize> {
        let (py, extents) = (bytes.py(), self.extents(extents));
        let size: usize = extents.iter().product();
        if size > 0 {
            let shown = (PyTuple::new(py, &extents)?, &self.dtype, bytes, first);
            array.set_item(cells, py.import("numpy")?.call_method1("ndarray", shown)?)?;
        }
        Ok(first + size * self.dtype.getattr("itemsize")?.extract::<usize>()?)
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

/// The arrays of a field, as NumPy shows them, and their kind; `None` on a rank without domains.
fn blocks_of<'py>(domains: &Domains, field: &Bound<'py, PyAny>, axes: usize) -> PyResult<Blocks<'py>> {
    if domains.count() == 0 {
        return Ok((Vec::new(), None));
    }
    let (mut blocks, mut kind): (Vec<_>, Option<Kind<'py>>) = (Vec::new(), None);
    for (domain, block) in domains.blocks(field, "field")?.iter().enumerate() {
        let name = format!("field{}", domains.name(domain));
        let array = on_host(block, &name, &domains.comm)?;
        let cells = domains.cells(domain).with_halo();
        let expected: Vec<usize> = (0..axes).map(|axis| cells.extent(axis)).collect();
        check_shape(&array, &expected, &name, "this rank's cells and their halo")?;
        let found = Kind::of(&array, axes)?;
        match &kind {
            Some(kind) => found.check_like(kind)?,
            None => kind = Some(found),
        }
        blocks.push(array);
    }
    let kind = kind.map(|kind| Ok::<_, PyErr>((kind.packed()?, kind))).transpose()?;
    Ok((blocks, kind.map(|(packed, kind)| (kind, packed))))
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

/// The corners of the boxes that this rank owns.
fn corners_of(domains: &Domains) -> Vec<Corners> {
    let owned = (0..domains.count()).map(|domain| domains.cells(domain).owned());
    owned.map(|cells| (cells.lower().to_vec(), cells.upper().to_vec())).collect()
}

fn extents_of(lower: &[i64], upper: &[i64]) -> Vec<usize> {
    lower.iter().zip(upper).map(|(lower, upper)| (upper - lower).max(0) as usize).collect()
}

fn slices<'py>(py: Python<'py>, lower: &[i64], upper: &[i64]) -> PyResult<Bound<'py, PyTuple>> {
    let slices = lower.iter().zip(upper).map(|(&lower, &upper)| {
        let upper = upper.max(lower);
        PySlice::new(py, lower as isize, upper as isize, 1)
    });
    PyTuple::new(py, slices)
}

/// The slices of a domain's array with the cells that this rank owns.
fn owned_slices<'py>(py: Python<'py>, domains: &Domains, domain: usize) -> PyResult<Bound<'py, PyTuple>> {
    let cells = domains.cells(domain);
    let (owned, first) = (cells.owned(), cells.with_halo());
    let from_first = |corner: &[i64]| -> Vec<i64> {
        corner.iter().zip(first.lower()).map(|(index, first)| index - first).collect()
    };
    slices(py, &from_first(owned.lower()), &from_first(owned.upper()))
}

/// The bytes of an array in C order.
fn bytes_of(array: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    array.call_method0("tobytes")?.extract()
}
