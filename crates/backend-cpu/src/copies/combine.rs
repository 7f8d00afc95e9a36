//! Copies that combine what they read with what is at their targets.

use std::collections::HashMap;

use half::{bf16, f16};
use haloport_core::ElementType;
use haloport_core::device::{BoxCopy, Combine, CombineItem, CopyItem, DeviceError, IndexedCopy, Pointer};
use num_complex::Complex;

use crate::copies::combine_loops::{Twin, combine_box, combine_rows};
use crate::copies::numbers::{Max, Min, Number, Operation, Sum};

/// A copy that combines, on one thread.
#[derive(Debug)]
pub(crate) struct CombineCopy {
    copy: CopyItem,
    /// A box of the same form that is combined in the same sweep.
    twin: Option<Twin>,
    loops: Loops,
}

/// The loops for elements of one type and one operation: over a box or two, between the addresses of the first element in
/// the source and in the target; and over listed rows.
#[derive(Debug, Clone, Copy)]
struct Loops {
    of_box: unsafe fn(&BoxCopy, (Pointer, Pointer), Option<Twin>),
    of_rows: unsafe fn(&IndexedCopy, (Pointer, Pointer)),
}

impl Loops {
    fn of<T: Number, O: Operation<T>>() -> Loops {
        Loops { of_box: combine_box::<T, O>, of_rows: combine_rows::<T, O> }
    }
}

impl CombineCopy {
    /// The copies of `items`, of which no two have a target in common; short boxes of one form are joined in pairs.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for elements that cannot be combined so.
    pub(crate) fn all(items: Vec<CombineItem>) -> Result<Vec<CombineCopy>, DeviceError> {
        let mut waiting = HashMap::new();
        let mut all: Vec<CombineCopy> = Vec::with_capacity(items.len());
        for item in items {
            item.check()?;
            let CombineItem { copy, combine, element } = item;
            let loops = run_of(combine, element).ok_or_else(|| {
                DeviceError::invalid("a copy that combines", "a known type of elements", element)
            })?;
            if let CopyItem::Box(copy) = &copy
                && let Some(form) = Twin::form(copy).map(|form| (form, combine, element))
            {
                if let Some(first) = waiting.remove(&form)
                    && let CombineCopy { copy: CopyItem::Box(first), twin, .. } = &mut all[first]
                {
                    *twin = Some(Twin::new(first, copy));
                    continue;
                }
                waiting.insert(form, all.len());
            }
            all.push(CombineCopy { copy, twin: None, loops });
        }
        Ok(all)
    }

    /// Runs the copy on the calling thread. Block `k`, to which it is anchored, begins at `bases[k]`.
    ///
    /// # Safety
    /// As for [`List::run`](crate::copies::list::List::run). In addition, targets are readable, and both ends are aligned for
    /// the elements: the caller of [`Device::run_copies`](haloport_core::device::Device::run_copies) promises that for lists of
    /// [`Combining`](haloport_core::device::Combining).
    pub(crate) unsafe fn run(&self, bases: &[Pointer]) {
        // SAFETY: the caller's promise; the loops are those of the type of the elements, and a twin has the same form.
        unsafe {
            match &self.copy {
                CopyItem::Box(copy) => (self.loops.of_box)(copy, copy.ends(bases), self.twin),
                CopyItem::Indexed(copy) => (self.loops.of_rows)(copy, copy.row().ends(bases)),
            }
        }
    }
}

/// The loops that combine these elements; `None` if they cannot be combined so.
fn run_of(combine: Combine, element: ElementType) -> Option<Loops> {
    macro_rules! of_type {
        ($number:ty) => {
            match combine {
                Combine::Sum => Loops::of::<$number, Sum>(),
                Combine::Min => Loops::of::<$number, Min>(),
                Combine::Max => Loops::of::<$number, Max>(),
                Combine::Replace => return None,
            }
        };
    }
    macro_rules! of_complex {
        ($number:ty) => {
            match combine {
                Combine::Sum => Loops::of::<Complex<$number>, Sum>(),
                _ => return None,
            }
        };
    }
    Some(match element {
        ElementType::I8 => of_type!(i8),
        ElementType::I16 => of_type!(i16),
        ElementType::I32 => of_type!(i32),
        ElementType::I64 => of_type!(i64),
        ElementType::I128 => of_type!(i128),
        ElementType::U8 => of_type!(u8),
        ElementType::U16 => of_type!(u16),
        ElementType::U32 => of_type!(u32),
        ElementType::U64 => of_type!(u64),
        ElementType::U128 => of_type!(u128),
        ElementType::F16 => of_type!(f16),
        ElementType::Bf16 => of_type!(bf16),
        ElementType::F32 => of_type!(f32),
        ElementType::F64 => of_type!(f64),
        ElementType::Complex32 => of_complex!(f32),
        ElementType::Complex64 => of_complex!(f64),
        _ => return None,
    })
}
