//! Plans: exchanges of arrays, prepared once.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haloport::device::Pointer;
use haloport::{
    Begun, BindOptions, BlockLayout, ElementType, Exchange, ExchangeError, FieldLayout, FieldSet,
    Plan as CorePlan, Schedule,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

use crate::arrays::described::{Keep, type_name};
use crate::arrays::expected::named;
use crate::arrays::{Described, Expected, describe};
use crate::claims::{Addresses, Claim, Footprint, first_overlap};
use crate::device::Device;
use crate::domains::Domains;
use crate::error::{InFlightError, IntoException, OrRaise};
use crate::layout::{Axis, Layout, Spec};
use crate::memory::{Array, address};
use crate::order::Order;
use crate::pending::Pending;
use crate::process::{self, Held};
use crate::retired::Retired;

/// An exchange, prepared for arrays of certain layouts: what `plan` of a grid or a mesh returns. Calling it is local:
/// each rank may pass other arrays of these layouts each time. All ranks call the plans of a communicator in the same
/// order.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Plan {
    fields: Vec<Field>,
    /// What the block of each domain of each field must be like.
    expected: Vec<Expected>,
    footprints: Arc<[Footprint]>,
    /// The number of domains of this rank.
    domains: usize,
    /// The addresses that cannot change, of a fixed plan.
    fixed: Option<Addresses>,
    /// The devices of the fields, each once, that of the first field first.
    devices: Vec<Device>,
    state: Mutex<State>,
}

/// What a field is like.
struct Field {
    device: Device,
    specs: Vec<Spec>,
}

/// The options of a plan.
pub(crate) struct PlanOptions {
    pub(crate) axes: Option<Vec<Axis>>,
    pub(crate) fixed: bool,
    pub(crate) in_flight: usize,
}

/// The arguments of a plan, checked on this rank.
pub(crate) struct Prepared {
    fields: Vec<PreparedField>,
    expected: Vec<Expected>,
    footprints: Vec<Footprint>,
    addresses: Addresses,
    options: PlanOptions,
}

struct PreparedField {
    device: Device,
    element: ElementType,
    specs: Vec<Spec>,
    blocks: Vec<BlockLayout>,
    /// The arrays of a fixed plan.
    memory: Vec<Memory>,
}

/// An array that a fixed plan keeps.
struct Memory {
    first: Pointer,
    host_accessible: bool,
    /// The array of Haloport whose memory it shows.
    own: Option<Py<Array>>,
    /// What keeps the memory alive.
    _kept: (Py<PyAny>, Option<Keep>),
}

struct State {
    /// Dropped before the arrays of flights.
    run: Held<Run>,
    flights: Vec<Flight>,
    retired: Vec<Retired>,
    started: u64,
    /// Addresses that were found not to overlap.
    apart: Addresses,
}

/// A plan or an exchange of the core.
enum Run {
    Passing(CorePlan),
    Fixed(Exchange<Vec<Box<dyn FieldSet + Send>>>),
}

/// An exchange that was started and not finished.
struct Flight {
    number: u64,
    begun: Option<Begun>,
    abandoned: Arc<AtomicBool>,
    /// That of its start.
    order: Order,
    _claim: Claim,
    kept: Kept,
}

/// The arrays of an exchange.
pub(crate) struct Kept {
    _arrays: Py<PyTuple>,
    _keep: SmallVec<[Keep; 2]>,
}

impl Kept {
    pub(crate) fn new(arrays: &Bound<'_, PyTuple>, keep: SmallVec<[Keep; 2]>) -> Kept {
        Kept { _arrays: arrays.clone().unbind(), _keep: keep }
    }
}

/// The arrays of a call.
struct Passed {
    addresses: Addresses,
    keep: SmallVec<[Keep; 2]>,
    /// The order of work that the protocol of the first array names.
    order: Option<Order>,
}

/// Why an exchange did not start or end.
enum Failure {
    Busy,
    Overlap(usize, usize),
    Claimed(usize),
    Raised(PyErr),
    Exchange(ExchangeError),
}

#[pymethods]
impl Plan {
    /// What the arrays are like, in their order; of several domains, all those of a field together.
    #[getter]
    fn layouts(&self, py: Python<'_>) -> PyResult<Vec<Layout>> {
        let specs =
            self.fields.iter().flat_map(|field| field.specs.iter().map(move |spec| (spec, &field.device)));
        specs
            .map(|(spec, device)| {
                let device = (!device.is_cpu()).then(|| device.clone());
                Layout::of_spec(py, spec.clone(), device)
            })
            .collect()
    }

    /// Whether the plan has arrays of its own, whose addresses cannot change.
    #[getter]
    fn fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// What one exchange moves on this rank: numbers of bytes and of messages, by name.
    #[getter]
    fn traffic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        process::check()?;
        let state = self.state.try_lock().map_err(|_| self.raised(Failure::Busy))?;
        let traffic = match state.run.get()? {
            Run::Passing(plan) => plan.traffic(),
            Run::Fixed(exchange) => exchange.traffic(),
        };
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

    /// Fills the halos of these arrays. Blocks until they are in place, on asynchronous devices until that is in the
    /// stream.
    ///
    /// Parameters
    /// ----------
    /// *fields : arrays
    ///     As many as the plan was made for, of these layouts, in the same order; of a fixed plan none, or the same ones.
    ///     On a rank with several domains each is a sequence of arrays.
    /// stream : stream-like, optional
    ///     The stream with which the exchange is ordered: of CuPy, PyTorch, Numba, cuda.core, a ``SyclQueue``, a
    ///     `Stream`, the handle of a CUDA stream, `DEFAULT` or `BLOCK`. Arrays in host memory take any.
    ///
    /// Raises
    /// ------
    /// TypeError, BufferError
    ///     For objects that are no arrays, and arrays that cannot be written where they are.
    /// ValueError
    ///     For arrays of other layouts, or that overlap.
    /// InFlightError
    ///     If an array is in flight, or the plan is.
    /// TimeLimitError, ExchangeError
    ///     If other ranks fail.
    #[pyo3(signature = (*fields, stream=None))]
    fn __call__(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyTuple>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        process::check()?;
        let passed = self.take(fields, false)?;
        self.run(py, fields, passed, stream)
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
    fn start(
        slf: &Bound<'_, Self>,
        fields: &Bound<'_, PyTuple>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        process::check()?;
        let (py, this) = (slf.py(), slf.get());
        let passed = this.take(fields, false)?;
        let Passed { addresses, keep, order } = passed;
        let order = this.order(stream, order)?;
        let abandoned = Arc::new(AtomicBool::new(false));
        let kept = Kept::new(fields, keep);
        let number = py.detach(|| {
            let mut state = this.state.try_lock().map_err(|_| Failure::Busy)?;
            let claim = this.prepare_start(&mut state, &addresses)?;
            let begun = match state.run.get_mut().map_err(Failure::Raised)? {
                Run::Passing(plan) => {
                    // SAFETY: as in `run`; the arrays are kept until the exchange has ended.
                    unsafe { plan.begin_at(&pointers(&addresses), order.schedule()) }.map(Some)
                }
                Run::Fixed(exchange) => exchange.begin(order.schedule()).map(|()| None),
            };
            let begun = begun.map_err(Failure::Exchange)?;
            let number = state.started;
            state.started += 1;
            let abandoned = Arc::clone(&abandoned);
            state.flights.push(Flight { number, begun, abandoned, order, _claim: claim, kept });
            Ok(number)
        });
        let number = number.map_err(|failure| this.raised(failure))?;
        Ok(Pending::new(slf.clone().unbind(), number, abandoned))
    }

    /// Fills the halos of copies of these arrays and returns the copies: for arrays that cannot be changed, such as those
    /// of JAX. Blocks until the halos are in place.
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
        if self.fixed.is_some() {
            return Err(PyValueError::new_err(
                "expected a plan that takes other arrays, found a fixed one; make one without fixed=True",
            ));
        }
        let copies: Vec<Bound<'_, PyAny>> =
            fields.iter().map(|field| self.copy_of(&field)).collect::<PyResult<_>>()?;
        let copies = PyTuple::new(py, copies)?;
        let passed = self.take(&copies, true)?;
        self.run(py, &copies, passed, stream)?;
        match copies.len() {
            1 => Ok(copies.get_item(0)?.unbind()),
            _ => Ok(copies.into_any().unbind()),
        }
    }

    fn __repr__(&self) -> String {
        let (fields, devices) =
            (self.fields.len(), self.devices.iter().map(Device::name).collect::<Vec<_>>());
        let fixed = if self.fixed.is_some() { ", fixed" } else { "" };
        format!("<haloport.Plan: {fields} fields on {}{fixed}>", devices.join(", "))
    }
}

impl Plan {
    /// Checks the arguments of a plan on this rank.
    pub(crate) fn prepare(
        domains: &Domains,
        fields: &Bound<'_, PyTuple>,
        options: PlanOptions,
    ) -> PyResult<Prepared> {
        if options.fixed && options.in_flight != 1 {
            return Err(PyValueError::new_err(format!(
                "in_flight: expected 1 for a fixed plan, which has one set of arrays, found {}",
                options.in_flight
            )));
        }
        if fields.is_empty() {
            return Err(PyValueError::new_err("expected one field or more, found none"));
        }
        let mut prepared = Prepared {
            fields: Vec::with_capacity(fields.len()),
            expected: Vec::new(),
            footprints: Vec::new(),
            addresses: Addresses::new(),
            options,
        };
        for (index, field) in fields.iter().enumerate() {
            prepared.add(domains, &field, &format!("field {index}"))?;
        }
        if prepared.options.fixed
            && let Some((one, other)) = first_overlap(&prepared.addresses, &prepared.footprints)
        {
            let blocks = domains.count().max(1);
            return Err(overlap(one / blocks, other / blocks));
        }
        Ok(prepared)
    }

    /// Collective: makes the plan.
    pub(crate) fn make(py: Python<'_>, domains: &Domains, prepared: Prepared) -> PyResult<Plan> {
        let pattern = domains.pattern()?;
        let Prepared { fields, expected, footprints, addresses, options } = prepared;
        let mut devices: Vec<Device> = Vec::new();
        for PreparedField { device, .. } in &fields {
            if devices.iter().all(|known| known.id() != device.id()) {
                devices.push(device.clone());
            }
        }
        let bind = BindOptions::default().in_flight(options.in_flight);
        let described =
            fields.iter().map(|field| Field { device: field.device.clone(), specs: field.specs.clone() });
        let described: Vec<Field> = described.collect();
        let run = if options.fixed {
            let sets: Vec<Box<dyn FieldSet + Send>> =
                fields.into_iter().map(|field| field.into_set(py)).collect::<PyResult<_>>()?;
            Run::Fixed(py.detach(|| pattern.bind_with(sets, bind)).or_raise()?)
        } else {
            let layouts: Vec<FieldLayout> = fields
                .into_iter()
                .map(|field| field.device.field_layout(field.element, field.blocks))
                .collect();
            Run::Passing(py.detach(|| pattern.plan_layouts(&layouts, bind)).or_raise()?)
        };
        let state = State {
            run: Held::new(run),
            flights: Vec::new(),
            retired: Vec::new(),
            started: 0,
            apart: addresses.clone(),
        };
        Ok(Plan {
            fields: described,
            expected,
            footprints: footprints.into(),
            domains: domains.count(),
            fixed: options.fixed.then_some(addresses),
            devices,
            state: Mutex::new(state),
        })
    }

    /// Ends the exchange with this number, in order with `stream`, or with the stream of its start. Does nothing if it has
    /// ended.
    pub(crate) fn finish(
        &self,
        py: Python<'_>,
        number: u64,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        process::check()?;
        let order = stream.map(|stream| self.order(Some(stream), None)).transpose()?;
        let ended = py.detach(|| {
            let mut state = self.state.try_lock().map_err(|_| Failure::Busy)?;
            let Some(place) = state.flights.iter().position(|flight| flight.number == number) else {
                return Ok(());
            };
            let flight = state.flights.swap_remove(place);
            self.end(&mut state, flight, order)
        });
        ended.map_err(|failure| self.raised(failure))
    }

    /// Makes progress; returns whether `finish` would not wait for a neighbour.
    pub(crate) fn is_ready(&self, py: Python<'_>, number: u64) -> PyResult<bool> {
        process::check()?;
        py.detach(|| {
            // Another thread may be at it.
            let Ok(state) = self.state.try_lock() else { return Ok(false) };
            let Some(flight) = state.flights.iter().find(|flight| flight.number == number) else {
                return Ok(true);
            };
            Ok(match (state.run.get()?, flight.begun) {
                (Run::Passing(plan), Some(begun)) => plan.is_ready(begun),
                (Run::Passing(_), None) => true,
                (Run::Fixed(exchange), _) => exchange.is_ready(),
            })
        })
    }

    /// The addresses of the arrays of a call.
    fn take(&self, fields: &Bound<'_, PyTuple>, fresh: bool) -> PyResult<Passed> {
        let mut passed = Passed { addresses: Addresses::new(), keep: SmallVec::new(), order: None };
        if fields.is_empty()
            && let Some(fixed) = &self.fixed
        {
            passed.addresses = fixed.clone();
            return Ok(passed);
        }
        if fields.len() != self.fields.len() {
            return Err(PyValueError::new_err(format!(
                "expected {} fields, found {}; pass as many as the plan was made for, in the same order",
                self.fields.len(),
                fields.len()
            )));
        }
        for (index, field) in fields.iter().enumerate() {
            if self.domains == 1 {
                self.take_block(&mut passed, index, &field, fresh, || format!("field {index}"))?;
                continue;
            }
            let blocks = self.blocks(&field, index)?;
            for (domain, block) in blocks.iter().enumerate() {
                let name = || format!("field {index}, domain {domain}");
                self.take_block(&mut passed, index * self.domains + domain, block, fresh, name)?;
            }
        }
        match &self.fixed {
            Some(fixed) if *fixed != passed.addresses => Err(PyValueError::new_err(
                "expected the arrays that the fixed plan was made for, found others; call it without arrays, or make a \
                 plan without fixed=True",
            )),
            _ => Ok(passed),
        }
    }

    /// The arrays of a field of several domains, or of none.
    fn blocks<'py>(&self, field: &Bound<'py, PyAny>, index: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if self.domains == 0 {
            return Ok(Vec::new());
        }
        let blocks: Vec<Bound<'py, PyAny>> = field
            .try_iter()
            .map_err(|_| {
                PyTypeError::new_err(format!(
                    "field {index}: expected a sequence of {} arrays, one for each domain, found {}",
                    self.domains,
                    type_name(field)
                ))
            })?
            .collect::<PyResult<_>>()?;
        if blocks.len() != self.domains {
            return Err(PyValueError::new_err(format!(
                "field {index}: expected {} arrays, one for each domain, found {}",
                self.domains,
                blocks.len()
            )));
        }
        Ok(blocks)
    }

    #[inline]
    fn take_block(
        &self,
        passed: &mut Passed,
        place: usize,
        array: &Bound<'_, PyAny>,
        fresh: bool,
        name: impl Fn() -> String,
    ) -> PyResult<()> {
        let expected = &self.expected[place];
        if let Some(address) = expected.quick_address(array) {
            passed.addresses.push(address);
            return Ok(());
        }
        let described = expected.check(array, fresh, &name())?;
        let device = &self.fields[place / self.domains].device;
        device.check_memory(&described).map_err(|error| named(array.py(), error, &name()))?;
        if passed.order.is_none() && !device.is_cpu() {
            passed.order = Some(Order::of_place(&described.place, device)?);
        }
        passed.addresses.push(address(described.array.first()));
        passed.keep.extend(described.keep);
        Ok(())
    }

    /// The order of a call: that of its stream if it names one, else that of the package of its arrays.
    fn order(&self, stream: Option<&Bound<'_, PyAny>>, own: Option<Order>) -> PyResult<Order> {
        let named = match (stream, self.devices.first()) {
            (Some(stream), Some(device)) => Order::of(Some(stream), device)?,
            _ => Order::Default,
        };
        Ok(match (named, own) {
            (Order::Default, Some(own)) => own,
            (named, _) => named,
        })
    }

    /// Starts and ends an exchange.
    fn run(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyTuple>,
        passed: Passed,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Passed { addresses, keep, order } = passed;
        let order = self.order(stream, order)?;
        let asynchronous = self.devices.iter().any(|device| device.any.info().asynchronous);
        let kept = asynchronous.then(|| Kept::new(fields, SmallVec::new()));
        let ended = py.detach(|| {
            let mut state = self.state.try_lock().map_err(|_| Failure::Busy)?;
            let _claim = self.prepare_start(&mut state, &addresses)?;
            let ended = match state.run.get_mut().map_err(Failure::Raised)? {
                // SAFETY: the arrays are alive, as the caller has them; their layouts were checked, so each block is
                // valid memory over its span; no two of this call overlap, nor any that is in flight, which `claim`
                // holds against other exchanges. What the program itself does meanwhile, in other threads or on
                // streams, is its own affair, as with any array of NumPy.
                Run::Passing(plan) => unsafe { plan.run_at(&pointers(&addresses), order.schedule()) },
                Run::Fixed(exchange) => exchange.run(order.schedule()),
            };
            ended.map_err(Failure::Exchange)?;
            if let Some(kept) = kept {
                self.retire(&mut state, kept, &order)?;
            }
            Ok(())
        });
        drop(keep);
        ended.map_err(|failure| self.raised(failure))
    }

    /// Makes ready for an exchange of blocks at these addresses, and claims their memory.
    fn prepare_start(&self, state: &mut State, addresses: &Addresses) -> Result<Claim, Failure> {
        state.retired.retain(|retired| !retired.is_done());
        while let Some(place) =
            state.flights.iter().position(|flight| flight.abandoned.load(Ordering::Relaxed))
        {
            let flight = state.flights.swap_remove(place);
            self.end(state, flight, Some(Order::Block))?;
        }
        if state.apart != *addresses {
            if let Some((one, other)) = first_overlap(addresses, &self.footprints) {
                return Err(Failure::Overlap(one, other));
            }
            state.apart.clone_from(addresses);
        }
        Claim::new(addresses, &self.footprints).map_err(Failure::Claimed)
    }

    fn end(&self, state: &mut State, flight: Flight, order: Option<Order>) -> Result<(), Failure> {
        let Flight { begun, kept, order: own, .. } = flight;
        let order = order.unwrap_or(own);
        let ended = match (state.run.get_mut().map_err(Failure::Raised)?, begun) {
            (Run::Passing(plan), Some(begun)) => plan.end(begun, order.schedule()),
            (Run::Passing(_), None) => Ok(()),
            (Run::Fixed(exchange), _) => exchange.end(order.schedule()),
        };
        ended.map_err(Failure::Exchange)?;
        self.retire(state, kept, &order)
    }

    /// Keeps arrays until the work of an exchange that has ended is done.
    fn retire(&self, state: &mut State, kept: Kept, order: &Order) -> Result<(), Failure> {
        if matches!(order.schedule(), Schedule::Blocking) {
            return Ok(());
        }
        if let Some(retired) =
            Retired::new(&self.devices, order, kept).map_err(|error| Failure::Exchange(error.into()))?
        {
            state.retired.push(retired);
        }
        Ok(())
    }

    /// A copy of an array by its own package.
    fn copy_of<'py>(&self, field: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.domains != 1 {
            let blocks: Vec<Bound<'py, PyAny>> =
                field.try_iter()?.map(|block| copy(&block?)).collect::<PyResult<_>>()?;
            return Ok(PyTuple::new(field.py(), blocks)?.into_any());
        }
        copy(field)
    }

    #[cold]
    fn raised(&self, failure: Failure) -> PyErr {
        let blocks = self.domains.max(1);
        match failure {
            Failure::Busy => {
                InFlightError::new_err("the plan is in use by another thread; make a plan for each thread")
            }
            Failure::Overlap(one, other) => overlap(one / blocks, other / blocks),
            Failure::Claimed(block) => InFlightError::new_err(format!(
                "field {}: the array is in flight in another exchange; finish that one first",
                block / blocks
            )),
            Failure::Raised(error) => error,
            Failure::Exchange(error) => error.exception(),
        }
    }
}

impl Prepared {
    /// Checks a field, and adds it.
    fn add(&mut self, domains: &Domains, field: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let py = field.py();
        let blocks = match domains.count() {
            0 => vec![field.clone()],
            _ => domains.blocks(field, name)?,
        };
        let mut made: Option<PreparedField> = None;
        for (domain, block) in blocks.iter().enumerate() {
            let (spec, device, memory) = self.block(domains, block, name)?;
            let field = made.get_or_insert_with(|| PreparedField {
                device: device.clone(),
                element: spec.element,
                specs: Vec::new(),
                blocks: Vec::new(),
                memory: Vec::new(),
            });
            if (field.element, field.device.id()) != (spec.element, device.id()) {
                return Err(PyValueError::new_err(format!(
                    "{name}, domain {domain}: expected elements of type {} on {}, found {} on {}",
                    field.element,
                    field.device.name(),
                    spec.element,
                    device.name()
                )));
            }
            if domains.count() == 0 {
                continue;
            }
            let fitted = spec.block(&domains.cells(domain));
            let (layout, axes) = fitted.map_err(|text| PyValueError::new_err(format!("{name}, {text}")))?;
            let sizes = axes.iter().map(|axis| (axis.extent, axis.stride));
            self.footprints.push(Footprint::new(spec.element.bytes(), sizes));
            self.expected.push(Expected::new(spec.element, axes, device.is_cpu()));
            if let Some(memory) = &memory {
                self.addresses.push(address(memory.first));
            }
            field.specs.push(spec);
            field.blocks.push(layout);
            field.memory.extend(memory);
        }
        let _ = py;
        self.fields.extend(made);
        Ok(())
    }

    /// The layout of an array or a `Layout`, its device, and of a fixed plan its memory.
    fn block(
        &self,
        domains: &Domains,
        block: &Bound<'_, PyAny>,
        name: &str,
    ) -> PyResult<(Spec, Device, Option<Memory>)> {
        let py = block.py();
        if let Ok(layout) = block.cast::<Layout>() {
            let layout = layout.get();
            if self.options.fixed {
                return Err(PyTypeError::new_err(format!(
                    "{name}: expected an array, whose address a fixed plan keeps, found a Layout"
                )));
            }
            let mut spec = layout.spec.clone();
            if spec.axes.is_none() {
                spec.axes = self.options.axes.clone();
            }
            let device = match layout.chosen_device() {
                Some(device) if !device.is_cpu() => device.clone(),
                _ => Device::cpu(&domains.comm)?,
            };
            return Ok((spec, device, None));
        }
        let found = describe(block, false).and_then(|described| {
            described.check_writable()?;
            let device = Device::of_array(&described, &domains.comm)?;
            Ok((described, device))
        });
        let (described, device) = found.map_err(|error| named(py, error, name))?;
        let spec = Spec::of_array(&described, self.options.axes.clone());
        let memory = match self.options.fixed {
            true => Some(Memory::of(block, described, &device)?),
            false => None,
        };
        Ok((spec, device, memory))
    }
}

impl Memory {
    fn of(array: &Bound<'_, PyAny>, described: Described, device: &Device) -> PyResult<Memory> {
        let host_accessible = device.check_memory(&described)?;
        let own = Array::behind(array, &described.array)?.map(Bound::unbind);
        let kept = (array.clone().unbind(), described.keep);
        Ok(Memory { first: described.array.first(), host_accessible, own, _kept: kept })
    }
}

impl PreparedField {
    /// The field of a fixed plan: memory of Haloport itself, which neighbours can map, if the arrays show all of it.
    fn into_set(self, py: Python<'_>) -> PyResult<Box<dyn FieldSet + Send>> {
        let PreparedField { device, element, blocks, memory, .. } = self;
        let own: Option<Vec<&Array>> =
            memory.iter().map(|memory| Some(memory.own.as_ref()?.bind(py).get())).collect();
        if let Some(own) = own
            && let Some(first) = own.first()
        {
            let is_whole = own.iter().enumerate().all(|(domain, array)| {
                array.is_of_same_field(first) && array.domain() == domain && array.has_layout(&blocks[domain])
            });
            if is_whole && first.element() == element {
                // SAFETY: as for `start` of a plan: cells in flight are the program's affair; other exchanges of the
                // same memory are refused by the claims and by the core. Python objects own the memory until the end.
                return unsafe { first.share() };
            }
        }
        let host_accessible = memory.iter().all(|memory| memory.host_accessible);
        let at = memory.iter().map(|memory| memory.first).zip(blocks).collect();
        // SAFETY: the memory is as described, and checked to be the device's; its owner lives as long as the field; no
        // two blocks overlap, as was checked.
        Ok(unsafe { device.field_at(element, at, host_accessible, Box::new(memory)) })
    }
}

/// Another array with the same elements.
fn copy<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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

fn overlap(one: usize, other: usize) -> PyErr {
    PyValueError::new_err(format!(
        "fields {one} and {other}: expected memory of their own, found elements in common"
    ))
}

fn pointers(addresses: &Addresses) -> SmallVec<[Pointer; 24]> {
    addresses.iter().map(|&address| Pointer::new(std::ptr::with_exposed_provenance_mut(address))).collect()
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Run::Passing(_) => "Passing",
            Run::Fixed(_) => "Fixed",
        })
    }
}
