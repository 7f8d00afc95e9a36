//! Plans: exchanges of arrays, prepared once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use haloport::comm::{Reach, TransportError};
use haloport::exchange::{Combine, Description, FieldLayout, OfPattern, SourceTarget};
use haloport::{AnyDevice, AnyField, BindOptions, DataPath, Exchange, Passed as PassedFields, Reduction};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde::Serialize;

use crate::arguments::type_name;
use crate::arguments::{count_or, counts, entries, flag_or, is_iterable, number, shown};
use crate::arrays::describe::describe;
use crate::arrays::described::Keep;
use crate::arrays::expected::Expected;
use crate::arrays::expected::named;
use crate::arrays::numpy::as_array;
use crate::arrays::torch::{is_tensor, mark_changed};
use crate::claims::Addresses;
use crate::comm::Agreed;
use crate::device::Device;
use crate::domains::{ArrayDomains, DomainCounts, Domains, GridsOfFields};
use crate::error::OrRaise;
use crate::exchanges::{Exchanges, Passed};
use crate::layout::{Layout, axes_of};
use crate::memory::address;
use crate::order::Order;
use crate::pending::Pending;
use crate::prepared::{FieldTypes, PlanOptions, Prepared, PreparedField, changed};
use crate::process;

/// An exchange, prepared for arrays of certain layouts: what `plan` of a grid, a mesh or a redistribution returns.
///
/// ``plan(*fields, stream=None)`` fills the halos of these arrays, accumulates them, or redistributes cells. It blocks until that
/// is done; on asynchronous devices, until the end of the exchange is in the stream. A call is local: each rank may pass other
/// arrays of these layouts each time. All ranks call the plans of a communicator in the same order.
///
/// Parameters of a call
/// --------------------
/// *fields : arrays
///     As many as the plan was made for, of these layouts, in the same order; of a fixed plan none, or the same ones.
///     On a rank with several domains each is a sequence of arrays.
/// stream : stream-like, optional
///     The stream with which the exchange is ordered: of CuPy, PyTorch, Numba, cuda.core, a ``SyclQueue``, a
///     `Stream`, the handle of a CUDA stream, `DEFAULT` or `BLOCK`; by default the `Stream` of a ``with`` block around
///     the call, otherwise that of the arrays' package, as for `DEFAULT`. Arrays in host memory take any.
///     On a CPU of SYCL, calls wait for a queue first, and then until the halos are in place.
///
/// Exceptions of a call
/// --------------------
/// TypeError, BufferError
///     For objects that are no arrays, and arrays that cannot be written where they are.
/// ValueError
///     For arrays of other layouts, or that overlap.
/// InFlightError
///     If an array is in flight, or the plan is.
/// TimeLimitError, ExchangeError
///     If other ranks fail.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Plan {
    fields: Vec<Field>,
    /// The expected layout of the block of each domain of each field.
    expected: Vec<Expected>,
    domains: DomainCounts,
    /// Whether arrays are sources and targets in turn.
    in_pairs: bool,
    /// Of a fixed plan, the first array that is not in memory of the host: its package names the order of work.
    ordering: Option<(Py<PyAny>, Device)>,
    /// Of a fixed plan, the arrays that are tensors of PyTorch.
    tensors: Vec<Py<PyAny>>,
    exchanges: Arc<Exchanges>,
}

/// What `describe` returns.
#[derive(Serialize)]
struct Described<'p> {
    devices: Vec<String>,
    #[serde(flatten)]
    exchange: &'p Description,
}

/// The description of a field.
struct Field {
    device: Device,
    layouts: Vec<Layout>,
}

#[pymethods]
impl Plan {
    /// The descriptions of the arrays, in their order; on a rank with several domains, all those of a field together.
    #[getter]
    fn layouts(&self) -> Vec<Layout> {
        self.fields.iter().flat_map(|field| field.layouts.iter().cloned()).collect()
    }

    /// Whether the plan has arrays of its own, whose addresses cannot change.
    #[getter]
    fn fixed(&self) -> bool {
        self.exchanges.fixed().is_some()
    }

    /// What one exchange moves on this rank: numbers of bytes and of messages, by name.
    #[getter]
    fn traffic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        process::check()?;
        let traffic = self.exchanges.traffic()?;
        let named = PyDict::new(py);
        let items = [
            ("messages", traffic.messages),
            ("message_bytes", traffic.message_bytes),
            ("shared_bytes", traffic.shared_bytes),
            ("direct_bytes", traffic.direct_bytes),
            ("local_bytes", traffic.local_bytes),
        ];
        items.into_iter().try_for_each(|(name, value)| named.set_item(name, value))?;
        Ok(named)
    }

    /// What was settled when the plan was made: ``routes`` has for each field and each other rank the ``path`` of the cells
    /// ``from`` one rank ``to`` the other, and ``why`` they take no quicker one, a word of the documentation, or None.
    ///
    /// Returns
    /// -------
    /// dict
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        process::check()?;
        let devices = self.exchanges.devices().iter().map(Device::name).collect();
        let described = Described { devices, exchange: self.exchanges.description() };
        let text =
            serde_json::to_string(&described).map_err(|error| PyValueError::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    // Python shows no text of a slot: that of the type describes calls.
    #[pyo3(signature = (*fields, stream=None))]
    fn __call__(&self, fields: &Bound<'_, PyTuple>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        process::check()?;
        let order = self.exchanges.order(fields.py(), stream)?;
        let mut passed = Passed::default();
        self.take(fields, false, &mut passed)?;
        self.exchanges.run(fields, &mut passed, order)
    }

    /// Starts an exchange of these arrays: sends, and returns without waiting for neighbours. The arrays are kept alive
    /// until its work is done. Until it has finished, owned cells near other domains are only read, and the halo is not
    /// touched.
    ///
    /// Parameters
    /// ----------
    /// *fields, stream
    ///     As for a call of the plan.
    ///
    /// Returns
    /// -------
    /// Pending
    ///     Finish it, use it in a ``with`` block, or await it.
    #[pyo3(signature = (*fields, stream=None))]
    fn start(&self, fields: &Bound<'_, PyTuple>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<Pending> {
        process::check()?;
        let order = self.exchanges.order(fields.py(), stream)?;
        let mut passed = Passed::default();
        self.take(fields, false, &mut passed)?;
        let abandoned = Arc::new(AtomicBool::new(false));
        let number = self.exchanges.start(fields, &mut passed, order, Arc::clone(&abandoned))?;
        Ok(Pending::new(Arc::clone(&self.exchanges), number, abandoned, passed.tensors))
    }

    /// Fills the halos of copies of these arrays and returns the copies: for arrays that cannot be changed, such as those
    /// of JAX. Of a redistribution, copies of the targets, filled. Blocks until that is done.
    ///
    /// Parameters
    /// ----------
    /// *fields, stream
    ///     As for a call of the plan.
    ///
    /// Returns
    /// -------
    /// array or tuple of arrays
    ///     Of the package of each array; a tuple if there are several.
    #[pyo3(signature = (*fields, stream=None))]
    fn functional(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyTuple>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        process::check()?;
        if self.fixed() {
            return Err(PyValueError::new_err(
                "expected a plan that takes other arrays, found a fixed one; make one without fixed=True",
            ));
        }
        let copied = fields.iter().enumerate().map(|(index, field)| match self.is_source(index) {
            true => Ok(field),
            false => self.copy_of(&field, index),
        });
        let copies: Vec<Bound<'_, PyAny>> = copied.collect::<PyResult<_>>()?;
        let copies = PyTuple::new(py, copies)?;
        let order = self.exchanges.order(fields.py(), stream)?;
        let mut passed = Passed::default();
        self.take(&copies, true, &mut passed)?;
        self.exchanges.run(&copies, &mut passed, order)?;
        let filled = copies.iter().enumerate().filter(|(index, _)| !self.is_source(*index));
        let filled: Vec<Bound<'_, PyAny>> = filled.map(|(_, copy)| copy).collect();
        match &filled[..] {
            [one] => Ok(one.clone().unbind()),
            _ => Ok(PyTuple::new(py, filled)?.into_any().unbind()),
        }
    }

    fn __repr__(&self) -> String {
        let (fields, devices) =
            (self.fields.len(), self.exchanges.devices().iter().map(Device::name).collect::<Vec<_>>());
        let fixed = if self.fixed() { ", fixed" } else { "" };
        format!("<haloport.Plan: {fields} fields on {}{fixed}>", devices.join(", "))
    }
}

/// The arguments of `plan` beside the fields, as they are given.
#[derive(Clone, Copy)]
pub(crate) struct PlanArguments<'a, 'py> {
    pub(crate) axes: Option<&'a Bound<'py, PyAny>>,
    pub(crate) vector: Option<&'a Bound<'py, PyAny>>,
    pub(crate) fixed: Option<&'a Bound<'py, PyAny>>,
    pub(crate) share: Option<&'a Bound<'py, PyAny>>,
    pub(crate) in_flight: Option<&'a Bound<'py, PyAny>>,
    pub(crate) path: Option<&'a Bound<'py, PyAny>>,
    pub(crate) accumulate: Option<&'a Bound<'py, PyAny>>,
    pub(crate) zero_halo: Option<&'a Bound<'py, PyAny>>,
}

/// For each field the axes along which its first components point.
fn vectors_of(vector: &Bound<'_, PyAny>, fields: usize) -> PyResult<Vec<Vec<usize>>> {
    const EXPECTED: &str = "for each field None, an axis of the grid, or a sequence of them";
    let found = entries(vector, "vector", EXPECTED)?.take(fields + 1).map(|entry| {
        let entry = entry?;
        if entry.is_none() {
            Ok(Vec::new())
        } else if is_iterable(&entry)? {
            counts(&entry, "vector")
        } else {
            Ok(vec![number(&entry, "vector", EXPECTED)?])
        }
    });
    let found = found.collect::<PyResult<Vec<_>>>()?;
    if found.len() != fields {
        let found = if found.len() > fields { "more".into() } else { found.len().to_string() };
        return Err(PyValueError::new_err(format!(
            "vector: expected an entry for each of {fields} fields, found {found}: {}",
            shown(vector)
        )));
    }
    Ok(found)
}

fn path_of(value: &Bound<'_, PyAny>) -> PyResult<DataPath> {
    let text: String = number(value, "path", "a str such as 'direct'")?;
    text.parse::<DataPath>().map_err(|error| PyValueError::new_err(format!("path: {error}")))
}

fn combine_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Combine>> {
    const EXPECTED: &str = "None, 'sum', 'min', 'max' or 'replace'";
    if value.is_none() {
        return Ok(None);
    }
    let text: String = number(value, "accumulate", EXPECTED)?;
    let all = [Combine::Sum, Combine::Min, Combine::Max, Combine::Replace];
    let found = all.into_iter().find(|combine| combine.name() == text);
    found.map(Some).ok_or_else(|| {
        PyValueError::new_err(format!("accumulate: expected {EXPECTED}, found {}", shown(value)))
    })
}

impl PlanOptions {
    /// `in_pairs` says that fields come in pairs, with one vector for both.
    fn of(given: PlanArguments<'_, '_>, fields: usize, in_pairs: bool) -> PyResult<PlanOptions> {
        let PlanArguments { axes, vector, fixed, share, in_flight, path, accumulate, zero_halo } = given;
        let (fixed, share) = (flag_or(fixed, "fixed", false)?, flag_or(share, "share", false)?);
        if share && !fixed {
            return Err(PyValueError::new_err("share: expected a plan with fixed=True, found one without"));
        }
        let each = if in_pairs { 2 } else { 1 };
        let vectors = vector.map(|vector| vectors_of(vector, fields.div_ceil(each))).transpose()?;
        let vectors = vectors.map(|of_each| of_each.into_iter().flat_map(|one| vec![one; each]).collect());
        Ok(PlanOptions {
            axes: axes_of(axes)?,
            vectors: vectors.unwrap_or_default(),
            fixed,
            share,
            in_flight: count_or(in_flight, "in_flight", 1)?,
            path: path.map_or(Ok(DataPath::Quickest), path_of)?,
            accumulate: accumulate.map_or(Ok(None), combine_of)?,
            zero_halo: flag_or(zero_halo, "zero_halo", false)?,
        })
    }
}

impl Plan {
    /// Collective: a plan for fields of these domains, or of those that the argument `grids` names.
    pub(crate) fn of_fields(
        own: &Domains,
        grids: Option<&Bound<'_, PyAny>>,
        fields: &Bound<'_, PyTuple>,
        given: PlanArguments<'_, '_>,
    ) -> PyResult<Plan> {
        let Some(grids) = grids else { return Plan::new(&ArrayDomains::alike(own), fields, given) };
        let grids = GridsOfFields::of(own, grids, fields.len())?;
        Plan::new(&ArrayDomains::of_grids(&grids), fields, given)
    }

    /// Collective: a plan for these fields; see `Grid.plan` and `Redistribution.plan`.
    pub(crate) fn new(
        domains: &ArrayDomains<'_>,
        fields: &Bound<'_, PyTuple>,
        given: PlanArguments<'_, '_>,
    ) -> PyResult<Plan> {
        let py = fields.py();
        let options = || PlanOptions::of(given, fields.len(), domains.redistribution.is_some());
        let prepared = options().and_then(|options| Prepared::of(domains, fields, options));
        // A rank with an invalid argument tells the others, which would wait for it.
        let prepared = match domains.comm().agree_unless(py, prepared, Prepared::is_untyped)? {
            Agreed::Value(prepared) => prepared,
            Agreed::Unless(prepared) => Plan::typed(py, domains, prepared, fields.len())?,
        };
        Plan::make(py, domains, prepared)
    }

    /// Collective: gives fields of ranks without domains, if they are empty lists, their types: those of the lowest rank that knows
    /// them. `count` is the number of fields on this rank.
    fn typed(
        py: Python<'_>,
        domains: &ArrayDomains<'_>,
        prepared: PyResult<Prepared>,
        count: usize,
    ) -> PyResult<Prepared> {
        let comm = domains.comm().get()?;
        let mine = prepared.as_ref().map(Prepared::types).unwrap_or_default();
        let types = py.detach(|| {
            let most = comm.all_reduce(count as u64, Reduction::Max)?;
            let knows = |field: usize| mine.get(field).is_some_and(Option::is_some);
            let rank_if = |known: bool| if known { comm.rank() as u64 } else { u64::MAX };
            let mut first: Vec<u64> = (0..most as usize).map(|field| rank_if(knows(field))).collect();
            comm.all_reduce(&mut first, Reduction::Min)?;
            let mut types: FieldTypes = vec![None; first.len()];
            for rank in first.iter().copied().filter(|rank| *rank != u64::MAX).collect::<BTreeSet<_>>() {
                let of_rank: FieldTypes = comm.broadcast(rank as usize, &mine)?;
                let those = types.iter_mut().zip(of_rank).zip(&first).filter(|(_, first)| **first == rank);
                those.for_each(|((field, found), _)| *field = found);
            }
            Ok::<_, TransportError>(types)
        });
        let types = types.or_raise()?;
        domains.comm().agree(py, prepared.and_then(|prepared| prepared.take_types(&types)))
    }

    /// Collective: makes the plan.
    fn make(py: Python<'_>, domains: &ArrayDomains<'_>, prepared: Prepared) -> PyResult<Plan> {
        let Prepared { fields, expected, footprints, addresses, ordering, tensors, options } = prepared;
        let mut devices: Vec<Device> = Vec::new();
        for PreparedField { device, .. } in &fields {
            if devices.iter().all(|known| known.id() != device.id()) {
                devices.push(device.clone());
            }
        }
        let names = fields.iter().map(|field| field.meaning.clone());
        let bind = BindOptions::default().in_flight(options.in_flight).path(options.path);
        let bind = bind.element_names(names).zero_halo(options.zero_halo);
        let bind = options.accumulate.into_iter().fold(bind, BindOptions::accumulate);
        let described =
            fields.iter().map(|field| Field { device: field.device.clone(), layouts: field.layouts.clone() });
        let described: Vec<Field> = described.collect();
        let exchange = match options.fixed {
            true => bound(py, domains, (fields, options.share), bind)?,
            false => planned(py, domains, fields, bind)?,
        };
        let fixed = options.fixed.then_some(addresses);
        let comm = domains.comm().get()?;
        let has_threads = comm.size() > 1 && comm.info().reach == Reach::Process;
        let exchanges =
            Exchanges::new(exchange, (footprints.into(), domains.counts()), devices, fixed, has_threads);
        Ok(Plan {
            fields: described,
            expected,
            domains: domains.counts(),
            in_pairs: domains.redistribution.is_some(),
            ordering,
            tensors,
            exchanges: Arc::new(exchanges),
        })
    }

    /// Fills `passed` with the arrays of a call, and tells PyTorch that its tensors change.
    fn take(&self, fields: &Bound<'_, PyTuple>, fresh: bool, passed: &mut Passed) -> PyResult<()> {
        self.take_arrays(fields, fresh, passed)?;
        let py = fields.py();
        passed.tensors.extend(self.tensors.iter().map(|tensor| tensor.clone_ref(py)));
        mark_changed(py, &passed.tensors)
    }

    fn take_arrays(&self, fields: &Bound<'_, PyTuple>, fresh: bool, passed: &mut Passed) -> PyResult<()> {
        if fields.is_empty() && self.fixed() {
            if let Some((array, device)) = &self.ordering {
                let described = describe(array.bind(fields.py()), false)?;
                passed.order = Some(Order::of_place(&described.place, device)?);
            }
            return Ok(());
        }
        if fields.len() != self.fields.len() {
            return Err(PyValueError::new_err(format!(
                "expected {} fields, found {}; pass as many as the plan was made for, in the same order",
                self.fields.len(),
                fields.len()
            )));
        }
        // Whether code of other packages, or of the caller, ran since the first address was taken.
        let mut ran = false;
        if self.domains.are_one() {
            for (index, field) in fields.iter().enumerate() {
                ran |= self.take_block(passed, index, &field, fresh, || format!("field {index}"))?;
            }
            if ran {
                self.check_unchanged(&passed.addresses, fields.iter())?;
            }
        } else {
            let mut all = Vec::with_capacity(self.expected.len());
            for (index, field) in fields.iter().enumerate() {
                all.extend(self.blocks(&field, index)?);
            }
            for (place, block) in all.iter().enumerate() {
                let name = || {
                    let (field, domain) = self.domains.locate(place);
                    format!("field {field}, domain {domain}")
                };
                ran |= self.take_block(passed, place, block, fresh, name)?;
            }
            if ran {
                self.check_unchanged(&passed.addresses, all.iter().cloned())?;
            }
            // The caller may hold an iterator alone.
            passed.keep.extend(all.into_iter().map(|block| Keep::Object { _object: block.unbind() }));
        }
        match self.exchanges.fixed() {
            Some(fixed) if *fixed != passed.addresses => Err(PyValueError::new_err(
                "expected the arrays that the fixed plan was made for, found others; call it without arrays, or make a \
                 plan without fixed=True",
            )),
            _ => Ok(()),
        }
    }

    /// Whether the array or the list of arrays with this number is the source of a redistribution, which is only read.
    fn is_source(&self, index: usize) -> bool {
        self.in_pairs && index.is_multiple_of(2)
    }

    /// The arrays of a field of several domains, or of none.
    fn blocks<'py>(&self, field: &Bound<'py, PyAny>, index: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let domains = self.domains.of(index);
        match domains {
            0 => return Ok(Vec::new()),
            1 => return Ok(vec![field.clone()]),
            _ => {}
        }
        let expected = format!("a sequence of {domains} arrays, one for each domain");
        let entries = entries(field, &format!("field {index}"), &expected)?;
        let blocks: Vec<Bound<'py, PyAny>> = entries.take(domains + 1).collect::<PyResult<_>>()?;
        if blocks.len() != domains {
            return Err(PyValueError::new_err(format!(
                "field {index}: expected {domains} arrays, one for each domain, found {}",
                if blocks.len() > domains { "more".into() } else { blocks.len().to_string() }
            )));
        }
        Ok(blocks)
    }

    /// Checks that arrays of NumPy are where they were when their addresses were taken.
    fn check_unchanged<'py>(
        &self,
        addresses: &Addresses,
        arrays: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        for ((place, array), address) in arrays.enumerate().zip(addresses) {
            if !self.expected[place].is_still_at(*address, &array) {
                return Err(changed(self.domains.locate(place).0));
            }
        }
        Ok(())
    }

    /// Adds the address of an array; returns whether code of other packages, or of the caller, may have run.
    #[inline]
    fn take_block(
        &self,
        passed: &mut Passed,
        place: usize,
        array: &Bound<'_, PyAny>,
        fresh: bool,
        name: impl Fn() -> String,
    ) -> PyResult<bool> {
        let expected = &self.expected[place];
        if let Some(address) = expected.quick_address(array) {
            passed.addresses.push(address);
            return Ok(false);
        }
        let described = expected.check(array, fresh, &name())?;
        let device = &self.fields[self.domains.locate(place).0].device;
        device.check_memory(&described).map_err(|error| named(array.py(), error, &name()))?;
        if passed.order.is_none() && !device.is_cpu() {
            passed.order = Some(Order::of_place(&described.place, device)?);
        }
        passed.addresses.push(address(described.array.first()));
        passed.keep.extend(described.keep);
        if !self.fixed() && !self.is_source(self.domains.locate(place).0) && is_tensor(array)? {
            passed.tensors.push(array.clone().unbind());
        }
        Ok(true)
    }

    /// A copy of an array by its own package.
    fn copy_of<'py>(&self, field: &Bound<'py, PyAny>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let domains = self.domains.of(index);
        if domains != 1 {
            let blocks = entries(field, "fields", "a sequence of arrays, one for each domain")?;
            // `blocks` says if there are too many.
            let blocks = blocks.take(domains + 1).map(|block| copy(&block?));
            let blocks: Vec<Bound<'py, PyAny>> = blocks.collect::<PyResult<_>>()?;
            return Ok(PyTuple::new(field.py(), blocks)?.into_any());
        }
        copy(field)
    }
}

/// Collective: an exchange of the arrays of a fixed plan; if `share` is set, neighbours may map them.
fn bound(
    py: Python<'_>,
    domains: &ArrayDomains<'_>,
    (fields, share): (Vec<PreparedField>, bool),
    options: BindOptions,
) -> PyResult<Exchange<PassedFields>> {
    let fields = fields.into_iter().map(|field| field.into_field(py, share)).collect::<PyResult<Vec<_>>>()?;
    if let Some(GridsOfFields { numbers, set, .. }) = domains.grids {
        let of_pattern = |(fields, &pattern)| OfPattern { pattern, fields };
        let fields: Vec<_> = fields.into_iter().zip(numbers).map(of_pattern).collect();
        return py.detach(|| set.bind_with(fields, options)).or_raise()?.into_passed().or_raise();
    }
    let Some(redistribution) = domains.redistribution else {
        let pattern = domains.of(0).pattern()?;
        return py.detach(|| pattern.bind_with(fields, options)).or_raise()?.into_passed().or_raise();
    };
    let pairs: Vec<SourceTarget<AnyField<AnyDevice>, AnyField<AnyDevice>>> =
        pairs(fields).map(|(source, target)| SourceTarget { source, target }).collect();
    py.detach(|| redistribution.bind_with(pairs, options)).or_raise()?.into_passed().or_raise()
}

/// Collective: an exchange to which arrays of these layouts are passed.
fn planned(
    py: Python<'_>,
    domains: &ArrayDomains<'_>,
    fields: Vec<PreparedField>,
    options: BindOptions,
) -> PyResult<Exchange<PassedFields>> {
    let layouts: Vec<FieldLayout> = fields
        .into_iter()
        .map(|field| field.device.field_layout(field.element, &field.vector, field.blocks))
        .collect::<PyResult<_>>()?;
    if let Some(GridsOfFields { numbers, set, .. }) = domains.grids {
        let of_pattern = |(layout, &pattern): (FieldLayout, &usize)| layout.of_pattern(pattern);
        let layouts: Vec<FieldLayout> = layouts.into_iter().zip(numbers).map(of_pattern).collect();
        return py.detach(|| set.plan_layouts(&layouts, options)).or_raise();
    }
    let Some(redistribution) = domains.redistribution else {
        let pattern = domains.of(0).pattern()?;
        return py.detach(|| pattern.plan_layouts(&layouts, options)).or_raise();
    };
    let layouts: Vec<FieldLayout> =
        pairs(layouts).map(|(source, target)| target.with_source(source)).collect();
    py.detach(|| redistribution.plan_layouts(&layouts, options)).or_raise()
}

/// A source and a target, in turn.
fn pairs<T>(all: Vec<T>) -> impl Iterator<Item = (T, T)> {
    let mut all = all.into_iter();
    std::iter::from_fn(move || Some((all.next()?, all.next()?)))
}

/// Another array with the same elements in the same layout.
fn copy<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if as_array(array).is_some() {
        return copy_of_numpy(array);
    }
    // PyTorch: `clone` closes the gaps between elements.
    if array.hasattr("new_empty_strided")? {
        let layout = (array.getattr("shape")?, array.call_method0("stride")?);
        return array.call_method1("new_empty_strided", layout)?.call_method1("copy_", (array,));
    }
    for name in ["copy", "clone"] {
        if array.hasattr(name)? {
            let copy = array.call_method0(name)?;
            // JAX computes it in the background.
            if copy.hasattr("block_until_ready")? {
                copy.call_method0("block_until_ready")?;
            }
            return Ok(copy);
        }
    }
    Err(PyTypeError::new_err(format!(
        "expected an array with a method `copy` or `clone`, found {}",
        type_name(array)
    )))
}

/// A copy of an array of NumPy, which has the same strides.
fn copy_of_numpy<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let copy = array.call_method1("copy", ("K",))?;
    let (shape, strides) = (array.getattr("shape")?, array.getattr("strides")?);
    if copy.getattr("strides")?.eq(&strides)? || array.getattr("size")?.extract::<usize>()? == 0 {
        return Ok(copy);
    }
    // NumPy closes the gaps between elements, and turns axes that run backwards.
    let (numpy, dtype) = (array.py().import("numpy")?, array.getattr("dtype")?);
    let axes: Vec<(isize, isize)> =
        shape.extract::<Vec<isize>>()?.into_iter().zip(strides.extract::<Vec<isize>>()?).collect();
    let reach = |(extent, stride): &(isize, isize)| (extent - 1) * stride;
    let first = -axes.iter().map(reach).filter(|reach| *reach < 0).sum::<isize>();
    let bytes = axes.iter().map(|axis| reach(axis).abs()).sum::<isize>()
        + dtype.getattr("itemsize")?.extract::<isize>()?;
    let memory = numpy.call_method1("empty", (bytes, "u1"))?;
    let made = numpy.call_method1("ndarray", (shape, dtype, memory, first, strides))?;
    numpy.call_method1("copyto", (&made, array))?;
    made.call_method1("view", (array.get_type(),))
}
