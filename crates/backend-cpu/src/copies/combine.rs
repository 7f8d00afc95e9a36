//! Copies that combine what they read with what is at their targets.

use half::{bf16, f16};
use haloport_core::ElementType;
use haloport_core::device::{BoxCopy, Combine, CombineItem, CopyItem, DeviceError, Pointer};
use num_complex::Complex;

use crate::copies::lines::{for_each_line, step};

/// A copy that combines, on one thread.
#[derive(Debug)]
pub(crate) struct CombineCopy {
    copy: CopyItem,
    run: RunBox,
}

/// Combines a box, between these addresses of its first element in the source and in the target.
type RunBox = unsafe fn(&BoxCopy, (Pointer, Pointer));

impl CombineCopy {
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for elements that cannot be combined so.
    pub(crate) fn new(item: CombineItem) -> Result<CombineCopy, DeviceError> {
        item.check()?;
        let CombineItem { copy, combine, element } = item;
        let run = run_of(combine, element).ok_or_else(|| {
            DeviceError::invalid("a copy that combines", "a known type of elements", element)
        })?;
        Ok(CombineCopy { copy, run })
    }

    /// Runs the copy on the calling thread. Block `k`, to which it is anchored, begins at `bases[k]`.
    ///
    /// # Safety
    /// As for [`List::run`](crate::copies::list::List::run). In addition, targets are readable, and both ends are aligned for
    /// the elements: the caller of [`Device::run_copies`](haloport_core::device::Device::run_copies) promises that for lists of
    /// [`Combining`](haloport_core::device::Combining).
    pub(crate) unsafe fn run(&self, bases: &[Pointer]) {
        match &self.copy {
            // SAFETY: the caller's promise; the function is that of the type of the elements.
            CopyItem::Box(copy) => unsafe { (self.run)(copy, copy.ends(bases)) },
            CopyItem::Indexed(copy) => {
                let (sources, targets) = (copy.source(), copy.target());
                let ends = copy.row().ends(bases);
                for position in 0..copy.rows() {
                    let source = ends.0.offset(sources.index(position) as isize * sources.stride);
                    let target = ends.1.offset(targets.index(position) as isize * targets.stride);
                    // SAFETY: as above, for every row.
                    unsafe { (self.run)(copy.row(), (source, target)) };
                }
            }
        }
    }
}

/// A type of numbers.
trait Number: Copy {
    fn sum(self, other: Self) -> Self;
    /// With the sign of each part changed.
    fn negated(self) -> Self;
}

/// A type of numbers that have an order.
trait Ordered: Number + PartialOrd {
    fn is_nan(self) -> bool;

    fn smaller(self, other: Self) -> Self {
        if other < self || other.is_nan() { other } else { self }
    }

    fn larger(self, other: Self) -> Self {
        if other > self || other.is_nan() { other } else { self }
    }
}

macro_rules! integers {
    ($($number:ty),+) => {
        $(
            impl Number for $number {
                fn sum(self, other: $number) -> $number {
                    self.wrapping_add(other)
                }

                fn negated(self) -> $number {
                    self.wrapping_neg()
                }
            }

            impl Ordered for $number {
                fn is_nan(self) -> bool {
                    false
                }
            }
        )+
    };
}

macro_rules! floats {
    ($($number:ty),+) => {
        $(
            impl Number for $number {
                fn sum(self, other: $number) -> $number {
                    self + other
                }

                fn negated(self) -> $number {
                    -self
                }
            }

            impl Ordered for $number {
                fn is_nan(self) -> bool {
                    <$number>::is_nan(self)
                }
            }
        )+
    };
}

integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128);
floats!(f16, bf16, f32, f64);

impl<T: Number> Number for Complex<T> {
    fn sum(self, other: Complex<T>) -> Complex<T> {
        Complex { re: self.re.sum(other.re), im: self.im.sum(other.im) }
    }

    fn negated(self) -> Complex<T> {
        Complex { re: self.re.negated(), im: self.im.negated() }
    }
}

/// The function that combines boxes of these elements; `None` if they cannot be combined so.
fn run_of(combine: Combine, element: ElementType) -> Option<RunBox> {
    macro_rules! of_type {
        ($number:ty) => {
            match combine {
                Combine::Sum => combine_box::<$number, Sum> as RunBox,
                Combine::Min => combine_box::<$number, Min>,
                Combine::Max => combine_box::<$number, Max>,
                Combine::Replace => return None,
            }
        };
    }
    macro_rules! of_complex {
        ($number:ty) => {
            match combine {
                Combine::Sum => combine_box::<Complex<$number>, Sum> as RunBox,
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

/// An operation on the value at the target and the one that arrives.
trait Operation<T> {
    fn apply(there: T, arrived: T) -> T;
}

struct Sum;
struct Min;
struct Max;

impl<T: Number> Operation<T> for Sum {
    #[inline(always)]
    fn apply(there: T, arrived: T) -> T {
        there.sum(arrived)
    }
}

impl<T: Ordered> Operation<T> for Min {
    #[inline(always)]
    fn apply(there: T, arrived: T) -> T {
        there.smaller(arrived)
    }
}

impl<T: Ordered> Operation<T> for Max {
    #[inline(always)]
    fn apply(there: T, arrived: T) -> T {
        there.larger(arrived)
    }
}

/// Combines a box of numbers.
///
/// # Safety
/// As for [`CombineCopy::run`].
unsafe fn combine_box<T: Number, O: Operation<T>>(copy: &BoxCopy, ends: (Pointer, Pointer)) {
    let numbers = copy.run_bytes() / size_of::<T>();
    let negated = copy.sign_change().is_some();
    for_each_line(copy, ends, |source, target, line| {
        for point in 0..line.extent {
            let (source, target) = step(source, target, line, point);
            let (from, to) = (source.as_ptr().cast::<T>(), target.as_ptr().cast::<T>());
            for number in 0..numbers {
                // SAFETY: both lie in the run of numbers at this point, which are aligned.
                unsafe {
                    let (from, to) = (from.add(number), to.add(number));
                    let arrived = if negated { from.read().negated() } else { from.read() };
                    to.write(O::apply(to.read(), arrived));
                }
            }
        }
    });
}
