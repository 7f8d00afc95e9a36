//! The fields of an entry, bound to an exchange.

use std::ffi::c_int;

use haloport::cpu::CpuDevice;
use haloport::device::Pointer;
use haloport::{AnyField, BindOptions, BorrowedField, ElementType, Exchange, Field};
use memmap2::{Advice, MmapMut};

use crate::Contestant;
use crate::problem::{Failure, Problem};

/// Where the fields lie.
pub(crate) enum Memory {
    /// In memory that the library chooses.
    Own,
    /// In memory of the library that no other process can reach.
    Private,
    /// In memory that the caller has allocated, for which it has requested huge pages, as NumPy does.
    Callers,
    /// In such memory, whose pages the exchange moves so that the neighbour can map it.
    Shared,
}

enum Fields {
    Own(Exchange<Vec<Field<f64, CpuDevice>>>),
    Callers(Exchange<Vec<BorrowedField<'static, f64, CpuDevice>>>),
    Shared(Exchange<Vec<AnyField<CpuDevice>>>),
}

/// An exchange and where its fields begin.
pub(crate) struct Bound {
    /// Dropped before the memory that it borrows.
    fields: Fields,
    begins: Vec<*mut f64>,
    _memory: Vec<MmapMut>,
}

impl Bound {
    /// Collective: binds the fields of a problem.
    ///
    /// # Safety
    /// `comm` is a valid handle, and the pointers of the problem are valid.
    ///
    /// # Errors
    /// Where Haloport refuses.
    pub(crate) unsafe fn new<P: Problem>(
        comm: c_int,
        problem: &P,
        memory: Memory,
        options: BindOptions,
    ) -> Result<Bound, Failure> {
        // SAFETY: the caller's promise.
        let comm = unsafe { haloport::mpi::from_fortran(comm)? };
        // SAFETY: the caller's promise.
        let pattern = unsafe { problem.pattern(&comm)? };
        let device = CpuDevice::with_threads(1)?; // every rank has a core of its own
        let layout = problem.layout(&device, &pattern)?;
        let (mut begins, mut mapped) = (Vec::new(), Vec::new());
        let fields = match memory {
            Memory::Own | Memory::Private => {
                let mut fields = Vec::new();
                for _ in 0..problem.fields() {
                    let builder = problem.builder(&pattern);
                    let field = builder.node_shared(matches!(memory, Memory::Own)).build(&device)?;
                    begins.push(field.pointer(0)?.as_ptr().cast());
                    fields.push(field);
                }
                Fields::Own(pattern.bind_with(fields, options)?)
            }
            Memory::Callers => {
                let mut fields = Vec::new();
                for _ in 0..problem.fields() {
                    let values = layout.span().1.unsigned_abs();
                    let (begin, map) = callers_memory(values)?;
                    // SAFETY: the mapping is as long, and lives longer than the exchange, which is dropped first. Between
                    // two exchanges the benchmark reads and writes the fields through the same address.
                    let slice = unsafe { std::slice::from_raw_parts_mut(begin, values) };
                    fields.push(BorrowedField::new(&device, vec![(slice, layout.clone())])?);
                    begins.push(begin);
                    mapped.push(map);
                }
                Fields::Callers(pattern.bind_with(fields, options)?)
            }
            Memory::Shared => {
                let mut fields = Vec::new();
                for _ in 0..problem.fields() {
                    let (begin, map) = callers_memory(layout.span().1.unsigned_abs())?;
                    let blocks = vec![(Pointer::new(begin.cast()), layout.clone())];
                    // SAFETY: as above; nothing uses the memory while the exchange is made and dropped.
                    fields.push(unsafe {
                        AnyField::from_raw_movable(&device, ElementType::F64, blocks, true, Box::new(()))
                    });
                    begins.push(begin);
                    mapped.push(map);
                }
                Fields::Shared(pattern.bind_with(fields, options)?)
            }
        };
        Ok(Bound { fields, begins, _memory: mapped })
    }
}

/// Memory of the caller for that many values, all 0, on huge pages where there are any; and where it begins.
fn callers_memory(values: usize) -> Result<(*mut f64, MmapMut), Failure> {
    let mut map = MmapMut::map_anon(values * size_of::<f64>())?;
    // Refused where there are no huge pages: then there are small ones.
    let _ = map.advise(Advice::HugePage);
    map.fill(0);
    Ok((bytemuck::cast_slice_mut::<u8, f64>(&mut map).as_mut_ptr(), map))
}

impl Contestant for Bound {
    fn run(&mut self, batch: c_int) -> Result<(), Failure> {
        for _ in 0..batch {
            match &mut self.fields {
                Fields::Own(exchange) => exchange.run_blocking()?,
                Fields::Callers(exchange) => exchange.run_blocking()?,
                Fields::Shared(exchange) => exchange.run_blocking()?,
            }
        }
        Ok(())
    }

    fn field(&self, number: usize) -> *mut f64 {
        self.begins.get(number).copied().unwrap_or(std::ptr::null_mut())
    }

    fn path(&self) -> String {
        match &self.fields {
            Fields::Own(exchange) => exchange.traffic().path(),
            Fields::Callers(exchange) => exchange.traffic().path(),
            Fields::Shared(exchange) => exchange.traffic().path(),
        }
    }
}
