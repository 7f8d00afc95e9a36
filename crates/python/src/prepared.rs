//! The arguments of a plan, checked on this rank alone.

use haloport::device::Pointer;
use haloport::exchange::Combine;
use haloport::field::{AxisRole, BlockLayout, FittedAxis};
use haloport::{AnyDevice, AnyField, DataPath, ElementType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::arrays::describe::describe;
use crate::arrays::described::Described;
use crate::arrays::described::Keep;
use crate::arrays::element::{dtype_name, meant_name};
use crate::arrays::expected::named;
use crate::arrays::expected::{Expected, ExpectedAxis};
use crate::arrays::torch::is_tensor;
use crate::claims::{Addresses, Footprint, first_overlap};
use crate::device::Device;
use crate::domains::{ArrayDomains, Domains};
use crate::layout::{Layout, Spec};
use crate::memory::{Array, address};

/// The options of a plan.
pub(crate) struct PlanOptions {
    pub(crate) axes: Option<Vec<AxisRole>>,
    /// For each field the axes along which its first components point; empty if all are scalars.
    pub(crate) vectors: Vec<Vec<usize>>,
    pub(crate) fixed: bool,
    /// Whether neighbours may map the arrays of a fixed plan.
    pub(crate) share: bool,
    pub(crate) in_flight: usize,
    pub(crate) path: DataPath,
    /// How halo cells are combined with those of their owners; `None`: halos are filled.
    pub(crate) accumulate: Option<Combine>,
    pub(crate) zero_halo: bool,
}

/// The arguments of a plan, checked on this rank.
pub(crate) struct Prepared {
    pub(crate) fields: Vec<PreparedField>,
    pub(crate) expected: Vec<Expected>,
    pub(crate) footprints: Vec<Footprint>,
    pub(crate) addresses: Addresses,
    /// Of a fixed plan, the first array that is not in memory of the host, and its device.
    pub(crate) ordering: Option<(Py<PyAny>, Device)>,
    /// Of a fixed plan, the arrays that are tensors of PyTorch.
    pub(crate) tensors: Vec<Py<PyAny>>,
    pub(crate) options: PlanOptions,
}

/// A field of a plan.
pub(crate) struct PreparedField {
    pub(crate) device: Device,
    pub(crate) element: ElementType,
    /// The meaning of the elements beyond their type.
    pub(crate) meaning: String,
    /// The axes along which its first components point.
    pub(crate) vector: Vec<usize>,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) blocks: Vec<BlockLayout>,
    /// The arrays of a fixed plan.
    memory: Vec<Memory>,
    /// Whether the type is not known: of an empty list, on a rank without domains.
    is_untyped: bool,
}

/// The element type of each field, and what its elements mean; `None` of a field whose type is not known.
pub(crate) type FieldTypes = Vec<Option<(ElementType, String)>>;

/// An array that a fixed plan keeps.
struct Memory {
    first: Pointer,
    host_accessible: bool,
    /// The array of Haloport whose memory it shows.
    own: Option<Py<Array>>,
    /// The objects that keep the memory alive.
    kept: (Py<PyAny>, Option<Keep>),
}

impl Prepared {
    /// Checks the arguments of a plan on this rank.
    pub(crate) fn of(
        domains: &ArrayDomains<'_>,
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
        if domains.redistribution.is_some() && fields.len() % 2 == 1 {
            return Err(PyValueError::new_err(format!(
                "expected an array of the source and one of the target, in turn, found {} arrays",
                fields.len()
            )));
        }
        let mut prepared = Prepared {
            fields: Vec::with_capacity(fields.len()),
            expected: Vec::new(),
            footprints: Vec::new(),
            addresses: Addresses::new(),
            ordering: None,
            tensors: Vec::new(),
            options,
        };
        for (index, field) in fields.iter().enumerate() {
            let is_source = domains.redistribution.is_some() && index.is_multiple_of(2);
            prepared.add((domains.of(index), is_source), &field, index)?;
        }
        if domains.redistribution.is_some() {
            prepared.fields.chunks_exact_mut(2).for_each(PreparedField::complete_pair);
            prepared.check_pairs()?;
        }
        if domains.grids.is_some() {
            prepared.place_with_others();
        }
        prepared.check_unchanged(fields.py())?;
        if prepared.options.fixed
            && let Some((one, other)) = first_overlap(&prepared.addresses, &prepared.footprints)
        {
            let counts = domains.counts();
            return Err(overlap_error(counts.locate(one).0, counts.locate(other).0));
        }
        Ok(prepared)
    }

    /// Checks a field, and adds it.
    fn add(
        &mut self,
        (domains, is_source): (&Domains, bool),
        field: &Bound<'_, PyAny>,
        index: usize,
    ) -> PyResult<()> {
        let name = &format!("field {index}");
        let vector = self.options.vectors.get(index).cloned().unwrap_or_default();
        let blocks = match domains.count() {
            0 => vec![field.clone()],
            _ => domains.blocks(field, name)?,
        };
        if domains.count() == 0 && is_empty_list(field)? {
            self.fields.push(PreparedField::untyped(Device::cpu(&domains.comm)?, vector));
            return Ok(());
        }
        let mut made: Option<PreparedField> = None;
        for (domain, block) in blocks.iter().enumerate() {
            let (layout, device, memory) = self.block(domains, block, is_source, name)?;
            let (spec, meaning) = (&layout.spec, layout.meaning(field.py())?);
            let field = made.get_or_insert_with(|| PreparedField {
                device: device.clone(),
                element: spec.element,
                meaning: meaning.clone(),
                vector: vector.clone(),
                layouts: Vec::new(),
                blocks: Vec::new(),
                memory: Vec::new(),
                is_untyped: false,
            });
            if (field.element, field.device.id()) != (spec.element, device.id()) {
                return Err(PyValueError::new_err(format!(
                    "{name}, domain {domain}: expected elements of dtype {} on {}, found {} on {}",
                    dtype_name(field.element),
                    field.device.name(),
                    dtype_name(spec.element),
                    device.name()
                )));
            }
            if field.meaning != meaning {
                return Err(PyValueError::new_err(format!(
                    "{name}, domain {domain}: expected elements of the dtype of domain 0, {}, found {meaning}",
                    field.meaning
                )));
            }
            if domains.count() == 0 {
                continue;
            }
            let fitted = spec.shape.block(domains.cells(domain));
            let (block_layout, axes) = fitted
                .map_err(|error| PyValueError::new_err(format!("{name}{}, {error}", domains.name(domain))))?;
            let bytes = spec.element.bytes() as isize;
            // Along axes of one element it may be anything.
            let axes = axes.into_iter().map(|FittedAxis { extent, or_more, stride }| ExpectedAxis {
                extent,
                or_more,
                stride: stride.wrapping_mul(bytes),
            });
            let axes: Vec<ExpectedAxis> = axes.collect();
            let sizes = axes.iter().map(|axis| (axis.extent, axis.stride));
            self.footprints.push(Footprint::new(spec.element.bytes(), sizes, is_source));
            self.expected.push(Expected::new((spec.element, meaning), axes, device.is_cpu(), is_source));
            if let Some(memory) = &memory {
                self.addresses.push(address(memory.first));
                if !is_source && is_tensor(block)? {
                    self.tensors.push(block.clone().unbind());
                }
                if self.ordering.is_none() && !device.is_cpu() {
                    self.ordering = Some((block.clone().unbind(), device.clone()));
                }
            }
            field.layouts.push(layout);
            field.blocks.push(block_layout);
            field.memory.extend(memory);
        }
        if let Some(PreparedField { device, element, vector, blocks, .. }) = &made {
            device
                .field_layout(*element, vector, blocks.clone())
                .map_err(|error| named(field.py(), error, name))?;
        }
        self.fields.extend(made);
        Ok(())
    }

    /// Checks that elements of a source mean the same as those of its target; the core compares their types.
    fn check_pairs(&self) -> PyResult<()> {
        for (number, pair) in self.fields.chunks_exact(2).enumerate() {
            let [source, target] = pair else { continue };
            let known = !source.is_untyped && !target.is_untyped;
            if known && source.element == target.element && source.meaning != target.meaning {
                let shown = |field: &PreparedField| meant_name(&field.meaning, field.element);
                return Err(PyValueError::new_err(format!(
                    "fields {} and {}: expected elements of one dtype, found {} in the source and {} in the target",
                    2 * number,
                    2 * number + 1,
                    shown(source),
                    shown(target)
                )));
            }
        }
        Ok(())
    }

    /// Whether the types of some fields are not known.
    pub(crate) fn is_untyped(&self) -> bool {
        self.fields.iter().any(|field| field.is_untyped)
    }

    /// The types of the fields, as far as this rank knows them.
    pub(crate) fn types(&self) -> FieldTypes {
        let known = |field: &PreparedField| (field.element, field.meaning.clone());
        self.fields.iter().map(|field| (!field.is_untyped).then(|| known(field))).collect()
    }

    /// Gives the fields whose types are not known those of other ranks' fields.
    pub(crate) fn take_types(mut self, types: &FieldTypes) -> PyResult<Prepared> {
        for (index, field) in self.fields.iter_mut().enumerate().filter(|(_, field)| field.is_untyped) {
            let Some((element, meaning)) = types.get(index).cloned().flatten() else {
                return Err(PyTypeError::new_err(format!(
                    "field {index}: expected an array on some rank, found none; pass as many fields on all ranks, and on those \
                     without domains an array of `empty`, which has a type"
                )));
            };
            field.device.field_layout(element, &field.vector, Vec::new())?;
            (field.element, field.meaning, field.is_untyped) = (element, meaning, false);
        }
        Ok(self)
    }

    /// Puts fields without domains on this rank beside the others of a plan of several grids: on other ranks, they share a device.
    fn place_with_others(&mut self) {
        let placed = self.fields.iter().find(|field| !field.blocks.is_empty());
        if let Some(device) = placed.map(|field| field.device.clone()) {
            let without = self.fields.iter_mut().filter(|field| field.blocks.is_empty());
            without.for_each(|field| field.device = device.clone());
        }
    }

    /// Checks that the arrays of a fixed plan are where they were when their addresses were taken: code of Python that
    /// ran since, of other fields, may have changed them.
    fn check_unchanged(&self, py: Python<'_>) -> PyResult<()> {
        let memory = self.fields.iter().enumerate();
        let memory = memory.flat_map(|(index, field)| field.memory.iter().map(move |memory| (index, memory)));
        for ((index, memory), expected) in memory.zip(&self.expected) {
            if !expected.is_still_at(address(memory.first), memory.kept.0.bind(py)) {
                return Err(changed(index));
            }
        }
        Ok(())
    }

    /// The layout of an array or a `Layout`, its device, and of a fixed plan its memory. One that `is_source` is only read.
    fn block(
        &self,
        domains: &Domains,
        block: &Bound<'_, PyAny>,
        is_source: bool,
        name: &str,
    ) -> PyResult<(Layout, Device, Option<Memory>)> {
        let py = block.py();
        if let Ok(layout) = block.cast::<Layout>() {
            let mut layout = layout.get().clone();
            if self.options.fixed {
                return Err(PyTypeError::new_err(format!(
                    "{name}: expected an array, whose address a fixed plan keeps, found a Layout"
                )));
            }
            if layout.spec.shape.roles.is_none() {
                layout.spec.shape.roles = self.options.axes.clone();
            }
            let device = match layout.chosen_device() {
                Some(device) if !device.is_cpu() => device.clone(),
                _ => Device::cpu(&domains.comm)?,
            };
            return Ok((layout, device, None));
        }
        let found = describe(block, is_source).and_then(|described| {
            described.check_use(is_source)?;
            let device = match block.cast::<Array>() {
                Ok(own) => own.get().own_device().clone(),
                Err(_) => Device::of_array(&described, &domains.comm)?,
            };
            Ok((described, device))
        });
        let (described, device) = found.map_err(|error| named(py, error, name))?;
        let spec = Spec::of_array(&described, self.options.axes.clone());
        let memory = match self.options.fixed {
            true => Some(Memory::of(block, described, &device)?),
            false => None,
        };
        let chosen = (!device.is_cpu()).then(|| device.clone());
        Ok((Layout::of_array(block, spec, chosen)?, device, memory))
    }
}

impl Memory {
    fn of(array: &Bound<'_, PyAny>, described: Described, device: &Device) -> PyResult<Memory> {
        let host_accessible = device.check_memory(&described)?;
        let own = Array::behind(array, &described.array)?.map(Bound::unbind);
        let kept = (array.clone().unbind(), described.keep);
        Ok(Memory { first: described.array.first(), host_accessible, own, kept })
    }
}

impl PreparedField {
    /// A field of a rank without domains. The type is that of another rank's field.
    fn untyped(device: Device, vector: Vec<usize>) -> PreparedField {
        PreparedField {
            device,
            element: ElementType::U8,
            meaning: String::new(),
            vector,
            layouts: Vec::new(),
            blocks: Vec::new(),
            memory: Vec::new(),
            is_untyped: true,
        }
    }

    /// Gives the side of a redistribution without arrays on this rank the type and the device of the other side.
    fn complete_pair(pair: &mut [PreparedField]) {
        let [source, target] = pair else { return };
        let lacks = |side: &PreparedField, other: &PreparedField| {
            side.blocks.is_empty() && !other.is_untyped && (side.is_untyped || !other.blocks.is_empty())
        };
        if lacks(source, target) {
            source.take_side(target);
        } else if lacks(target, source) {
            target.take_side(source);
        }
    }

    fn take_side(&mut self, other: &PreparedField) {
        self.device = other.device.clone();
        if self.is_untyped {
            (self.element, self.meaning, self.is_untyped) = (other.element, other.meaning.clone(), false);
        }
    }

    /// The field of a fixed plan: memory of Haloport itself, which neighbours can map, if the arrays show all of it; otherwise
    /// memory that they may map if `share` is set.
    pub(crate) fn into_field(self, py: Python<'_>, share: bool) -> PyResult<AnyField<AnyDevice>> {
        let PreparedField { device, element, vector, blocks, memory, .. } = self;
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
                return unsafe { first.share(&vector) };
            }
        }
        let host_accessible = memory.iter().all(|memory| memory.host_accessible);
        let at = memory.iter().map(|memory| memory.first).zip(blocks).collect();
        // SAFETY: the memory is as described, and checked to be the device's; its owner lives as long as the field; no
        // two blocks overlap, as was checked, but those of sources, which are only read. If they are shared, the program leaves
        // them alone meanwhile, as the argument says.
        unsafe {
            match share {
                true => device.movable_field_at(element, &vector, at, host_accessible, Box::new(memory)),
                false => device.field_at(element, &vector, at, host_accessible, Box::new(memory)),
            }
        }
    }
}

/// Whether a field is a list or a tuple without arrays.
fn is_empty_list(field: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_list = field.is_instance_of::<PyList>() || field.is_instance_of::<PyTuple>();
    Ok(is_list && field.len()? == 0)
}

/// The exception for two fields of a call that have an element in common.
pub(crate) fn overlap_error(one: usize, other: usize) -> PyErr {
    PyValueError::new_err(format!(
        "fields {one} and {other}: expected memory of their own, found elements in common"
    ))
}

/// The exception for an array that changed while the arrays of a call were taken.
pub(crate) fn changed(field: usize) -> PyErr {
    PyValueError::new_err(format!(
        "field {field}: expected an array that stays as it is, found one that changed while the arrays were taken; change \
         no array in methods that a protocol calls"
    ))
}
