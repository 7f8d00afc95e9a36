//! Memory from which neighbours copy straight.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use haloport::cpu::CpuDevice;
use haloport::device::Pointer;
use haloport::field::BlockLayout;
use haloport::{AnyDevice, AnyField, ElementType};

use crate::arguments::{check_row, clear, make, sized};
use crate::array::{CArray, device_name, element_of, shape_of};
use crate::domains::{AnyPattern, Domains, of_handle};
use crate::handle::{Handle, kind};
use crate::status::{Failure, Status, call};

/// Memory of a field.
pub(crate) struct Memory {
    number: usize,
}

kind!(Memory, "hp_memory", 0x486d);

/// All memory that was made and not freed, by number, so that plans find what addresses belong to.
static MADE: Mutex<Vec<(usize, AnyField<AnyDevice>)>> = Mutex::new(Vec::new());

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_memory_create(
    pattern: Handle<AnyPattern>,
    like: *const CArray,
    made: *mut Handle<Memory>,
    data: *mut *mut c_void,
) -> Status {
    call("hp_memory_create", || {
        // SAFETY: by the contract of the header, here and below.
        unsafe { clear(made) };
        let domains = of_handle(pattern)?;
        // SAFETY: as above.
        let (element, layouts) = unsafe { layouts(&domains, like)? };
        if data.is_null() {
            return Err(Failure::argument(
                "data: expected a place for an address of each domain, found null",
            ));
        }
        let device = AnyDevice::from(CpuDevice::with_threads(1)?);
        let field = AnyField::for_pattern(&domains.pattern, &device, element, layouts)?;
        for domain in 0..domains.cells.len() {
            // SAFETY: as above.
            unsafe { data.add(domain).write(field.pointer(domain)?.as_ptr().cast()) };
        }
        // SAFETY: as above.
        unsafe { make(made, || Ok(Memory::new(field))) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_memory_free(memory: Handle<Memory>) -> Status {
    call("hp_memory_free", || memory.take().map(drop))
}

/// The field whose memory and layout these blocks are, for a fixed plan; `None` for other memory, and for blocks without
/// elements: their address is that of any memory without elements, of other fields and ranks, too.
pub(crate) fn shared(
    blocks: &[(Pointer, BlockLayout)],
    element: ElementType,
    vector: &[usize],
) -> Result<Option<AnyField<AnyDevice>>, Failure> {
    let has_elements = |layout: &BlockLayout| layout.span().0 < layout.span().1;
    if !blocks.iter().any(|(_, layout)| has_elements(layout)) {
        return Ok(None);
    }
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it = |field: &AnyField<AnyDevice>| {
        field.element() == element
            && field.domain_count() == blocks.len()
            && blocks.iter().enumerate().all(|(domain, (first, layout))| {
                field.pointer(domain).is_ok_and(|own| own == *first)
                    && field.layout(domain).is_ok_and(|own| own == layout)
            })
    };
    let Some((_, field)) = made.iter().find(|(_, field)| is_it(field)) else { return Ok(None) };
    // SAFETY: C has no views of Haloport's: what programs do with the memory is by the contract of the header.
    let shared = unsafe { field.share() };
    Ok(Some(shared.with_vector(vector)?))
}

impl Memory {
    fn new(field: AnyField<AnyDevice>) -> Memory {
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = made.last().map_or(0, |(number, _)| number + 1);
        made.push((number, field));
        Memory { number }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = made.iter().position(|(number, _)| *number == self.number);
        let field = place.map(|place| made.remove(place));
        // Freed without the lock.
        drop(made);
        drop(field);
    }
}

/// # Safety
/// `like` is as the header says.
unsafe fn layouts(
    domains: &Domains,
    like: *const CArray,
) -> Result<(ElementType, Vec<BlockLayout>), Failure> {
    let arrays = domains.cells.len().max(1);
    check_row(like, arrays, "like")?;
    // SAFETY: the caller's promise.
    let first = unsafe { sized(like, 0, "like[0]")? };
    let element = element_of(&first, "like[0]")?;
    let own = domains.cells.first().map_or(0, |cells| cells.owned().axes());
    let blocks = domains.cells.iter().enumerate().map(|(domain, cells)| {
        let name = format!("like[{domain}]");
        // SAFETY: as above.
        let array = unsafe { sized(like, domain, &name)? };
        // SAFETY: as above.
        if let Some(device) = unsafe { device_name(&array, &name)? } {
            return Err(Failure::argument(format!(
                "{name}.device: expected null, memory of the host, found {device:?}"
            )));
        }
        if !array.of.is_null() {
            return Err(Failure::argument(format!(
                "{name}.of: expected null, as memory is for its pattern, found one"
            )));
        }
        if element_of(&array, &name)? != element {
            return Err(Failure::argument(format!(
                "{name}.type: expected {}, as of like[0], found another",
                element.in_words()
            )));
        }
        let shape = shape_of(&array, own, domains.pattern.grid().is_some(), &name)?;
        let fitted = shape.block(cells);
        fitted.map(|(block, _)| block).map_err(|error| Failure::argument(format!("{name}: {error}")))
    });
    Ok((element, blocks.collect::<Result<_, _>>()?))
}
