//! The fields of a plan: their arrays, checked.

use std::ffi::c_void;
use std::ops::Range;

use haloport::device::{DeviceError, Pointer};
use haloport::exchange::FieldLayout;
use haloport::field::{ArrayCells, BlockLayout};
use haloport::{AnyDevice, AnyField, ElementType};

use crate::arguments::{check_row, sized, slice};
use crate::array::{CArray, device_name, element_of, shape_of, vector_of};
use crate::device::{self, Place};
use crate::domains::{AnyPattern, Domains, FieldPatterns};
use crate::handle::Handle;
use crate::memory;
use crate::status::Failure;
use crate::stream::Queue;

/// A field of a plan; of a redistribution, one of the source and one of the target.
pub(crate) struct Field {
    pub(crate) device: AnyDevice,
    pub(crate) element: ElementType,
    /// The axes along which its first components point.
    vector: Vec<usize>,
    /// The blocks of each side.
    sides: Vec<Vec<BlockLayout>>,
}

/// An array of a field: the cells of its domain, if its side has domains on this rank, and its place among the addresses
/// of the field.
struct Member<'a> {
    side: usize,
    cells: Option<(usize, &'a ArrayCells)>,
}

impl Field {
    /// The blocks of all sides, one after the other.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &BlockLayout> {
        self.sides.iter().flatten()
    }

    /// The layout; of a redistribution that of the target, with its source.
    pub(crate) fn layout(&self) -> Result<FieldLayout, Failure> {
        let Field { device, element, vector, sides } = self;
        let mut layouts = sides.iter().map(|blocks| device::layout(device, *element, vector, blocks.clone()));
        let first = layouts.next().unwrap_or_else(|| device::layout(device, *element, vector, Vec::new()))?;
        layouts.try_fold(first, |source, layout| Ok(layout?.with_source(source)))
    }

    /// The field of each side, in memory at these addresses, which it takes from the list. If `share` is set, neighbours may map its pages.
    ///
    /// # Safety
    /// The memory is as the header says of a fixed plan, and lives as long as the fields.
    pub(crate) unsafe fn at(
        self,
        addresses: &mut impl Iterator<Item = Pointer>,
        share: bool,
    ) -> Result<Vec<AnyField<AnyDevice>>, Failure> {
        let Field { device, element, vector, sides } = self;
        let made = sides.into_iter().map(|blocks| {
            // Blocks end first, so that no address is taken and lost.
            let at: Vec<(Pointer, BlockLayout)> =
                blocks.into_iter().zip(addresses.by_ref()).map(|(block, at)| (at, block)).collect();
            match memory::shared(&at, element, &vector)? {
                Some(shared) => Ok(shared),
                // SAFETY: the caller's promise.
                None => unsafe { device::field_at(&device, element, &vector, at, share) },
            }
        });
        made.collect()
    }
}

/// The patterns of the fields that `like` describes, and the number of their addresses.
///
/// # Safety
/// `like` is as the header says of `hp_plan_create`.
pub(crate) unsafe fn patterns_of(
    (handle, pattern): (Handle<AnyPattern>, &AnyPattern),
    fields: usize,
    like: *const CArray,
) -> Result<(FieldPatterns, usize), Failure> {
    let mut patterns = FieldPatterns::new(handle, pattern);
    let (mut arrays, mut addresses): (usize, usize) = (0, 0);
    for _ in 0..fields {
        let name = format!("like[{arrays}]");
        check_row(like, arrays.saturating_add(1), "like")?;
        // SAFETY: the caller's promise.
        let of = unsafe { sized(like, arrays, &name)? }.of;
        let sides = patterns
            .add(of)
            .map_err(|Failure { status, text }| Failure { status, text: format!("{name}.of: {text}") })?;
        arrays = arrays.saturating_add(members(sides).len());
        addresses = addresses.saturating_add(addresses_of(sides));
    }
    check_row(like, arrays, "like")?;
    Ok((patterns, addresses))
}

/// The fields that `like` describes, each with an array for each domain of each side of its pattern; for a side without domains on
/// this rank with one array, of which only the type and the device count. `data` has no addresses for these; it may be empty.
///
/// # Safety
/// The pointers are as the header says of `hp_plan_create`.
pub(crate) unsafe fn fields_of(
    patterns: &FieldPatterns,
    fields: usize,
    like: *const CArray,
    data: &[*mut c_void],
    (queue, threads): (Option<&Queue>, usize),
) -> Result<Vec<Field>, Failure> {
    let (mut first, mut first_of_data) = (0, 0);
    let mut made: Vec<Field> = Vec::new();
    for number in 0..fields {
        let sides = patterns.sides(number);
        let members = members(sides);
        let data = data.get(first_of_data..).unwrap_or(&[]);
        let row = Row { like, first, data, first_of_data };
        // SAFETY: the caller's promise.
        let field = unsafe { row.field(sides, &members, queue, threads)? };
        field.layout().map_err(|Failure { text, .. }| Failure::argument(format!("like[{first}]: {text}")))?;
        made.push(field);
        first += members.len();
        first_of_data += addresses_of(sides);
    }
    Ok(made)
}

/// The number of addresses of a field.
fn addresses_of(sides: &[Domains]) -> usize {
    sides.iter().map(|side| side.cells.len()).sum()
}

fn members(sides: &[Domains]) -> Vec<Member<'_>> {
    let (mut made, mut place) = (Vec::new(), 0);
    for (side, domains) in sides.iter().enumerate() {
        if domains.cells.is_empty() {
            made.push(Member { side, cells: None });
        }
        for cells in &domains.cells {
            made.push(Member { side, cells: Some((place, cells)) });
            place += 1;
        }
    }
    made
}

/// The arrays of a field, and their addresses.
struct Row<'a> {
    like: *const CArray,
    first: usize,
    data: &'a [*mut c_void],
    first_of_data: usize,
}

impl Row<'_> {
    /// # Safety
    /// `like` and `data` are as the header says.
    unsafe fn field(
        &self,
        sides: &[Domains],
        members: &[Member<'_>],
        queue: Option<&Queue>,
        threads: usize,
    ) -> Result<Field, Failure> {
        let name = |place: usize| format!("like[{}]", self.first + place);
        // SAFETY: the caller's promise, here and below.
        let array = |place: usize| unsafe { sized(self.like, self.first + place, &name(place)) };
        // The first array of a domain, or an array in its stead.
        let first = members.iter().position(|member| member.cells.is_some()).unwrap_or(0);
        let (element, vector) =
            (element_of(&array(first)?, &name(first))?, vector_of(&array(first)?, &name(first))?);
        // SAFETY: as above.
        let there = unsafe { self.place_of(members, queue)? };
        let device = there.open(queue, threads, &name(0))?;
        let mut made = Field { device, element, vector, sides: vec![Vec::new(); sides.len()] };
        for (place, member) in members.iter().enumerate() {
            let (name, array) = (name(place), array(place)?);
            let found = element_of(&array, &name)?;
            if found != element {
                return Err(Failure::argument(format!(
                    "{name}.type: expected {}, as of like[{}], found {}",
                    element.in_words(),
                    self.first + first,
                    found.in_words()
                )));
            }
            let Some((address, cells)) = member.cells else { continue };
            let vector = vector_of(&array, &name)?;
            if vector != made.vector {
                return Err(Failure::argument(format!(
                    "{name}.vector: expected the axes {:?}, as of like[{}], found {vector:?}",
                    made.vector,
                    self.first + first
                )));
            }
            let pattern = &sides[member.side].pattern;
            let shape = shape_of(&array, cells.owned().axes(), pattern.grid().is_some(), &name)?;
            let (block, _) =
                shape.block(cells).map_err(|error| Failure::argument(format!("{name}: {error}")))?;
            if let Some(at) = address_in(self.data, address) {
                device::check_first_address(&made.device, at, span_of(&block, element))
                    .map_err(|error| wrong_address(self.first_of_data + address, error))?;
            }
            made.sides[member.side].push(block);
        }
        Ok(made)
    }

    /// Where the arrays are. Arrays without a device or an address are where the others are, or in memory of the host.
    ///
    /// # Safety
    /// `like` is as the header says, and nothing writes it while the result lives.
    unsafe fn place_of<'a>(
        &self,
        members: &[Member<'_>],
        queue: Option<&Queue>,
    ) -> Result<Place<'a>, Failure> {
        let mut known = None;
        for (place, member) in members.iter().enumerate() {
            let name = format!("like[{}]", self.first + place);
            // SAFETY: the caller's promise.
            let device = unsafe { device_name(&sized(self.like, self.first + place, &name)?, &name)? };
            let address = member.cells.map(|(address, _)| address);
            let this = Place::of(device, queue, address.and_then(|address| address_in(self.data, address)));
            let this =
                this.map_err(|error| wrong_address(self.first_of_data + address.unwrap_or_default(), error))?;
            match (known, this) {
                (Some(known), Some(this)) if known != this => {
                    return Err(Failure::argument(format!(
                        "{name}: expected an array {known}, as the others of the field, found one {this}"
                    )));
                }
                _ => known = known.or(this),
            }
        }
        Ok(known.unwrap_or(Place::Host))
    }
}

/// The addresses of a call, or none of a plan that is not fixed.
///
/// # Safety
/// `data` is as the header says.
pub(crate) unsafe fn data_of<'a>(
    data: *const *mut c_void,
    count: usize,
    fixed: bool,
) -> Result<&'a [*mut c_void], Failure> {
    match data.is_null() && !fixed {
        true => Ok(&[]),
        // SAFETY: the caller's promise.
        false => unsafe { slice(data, count, "data") },
    }
}

/// Whether each block has no element, and so any address.
pub(crate) fn empty(fields: &[Field]) -> Vec<bool> {
    fields.iter().flat_map(Field::blocks).map(|block| block.allocated().is_empty()).collect()
}

/// Adds the addresses of a call to `to`. Those of blocks that are `empty` may be null.
pub(crate) fn take(data: &[*mut c_void], empty: &[bool], to: &mut Vec<Pointer>) -> Result<(), Failure> {
    for place in 0..data.len() {
        match address_in(data, place) {
            Some(first) => to.push(first),
            None if empty.get(place) == Some(&true) => to.push(Pointer::new(std::ptr::null_mut())),
            None => {
                return Err(Failure::argument(format!("data[{place}]: expected an address, found null")));
            }
        }
    }
    Ok(())
}

/// An address of a call; `None` if it is null, or not passed.
fn address_in(data: &[*mut c_void], place: usize) -> Option<Pointer> {
    data.get(place).filter(|first| !first.is_null()).map(|first| Pointer::new(first.cast()))
}

/// The bytes of a block, from the address of its first element on.
pub(crate) fn span_of(block: &BlockLayout, element: ElementType) -> Range<isize> {
    let (low, high) = block.span();
    let bytes = element.bytes() as isize;
    low.saturating_mul(bytes)..high.saturating_mul(bytes)
}

/// The failure for an address that is not in memory of the plan's device.
pub(crate) fn wrong_address(place: usize, error: DeviceError) -> Failure {
    let Failure { status, text } = error.into();
    Failure { status, text: format!("data[{place}]: {text}") }
}
