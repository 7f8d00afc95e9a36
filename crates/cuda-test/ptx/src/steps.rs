//! The steps of kernels, which change the registers of a thread.

use crate::memory::{Fault, Memory};
use crate::value::{Integer, Number, Value};

/// Where parameters and local memory lie among the addresses of a kernel: where no memory of a device or a process is.
pub(crate) const PARAMETERS_BEGIN: u64 = 1 << 62;
pub(crate) const LOCAL_BEGIN: u64 = 1 << 63;

/// A thread. Threads run one after the other, and each takes over the registers and the local memory of the one before: a
/// kernel reads none that it has not written.
pub(crate) struct Thread<'r> {
    pub(crate) registers: Vec<u64>,
    pub(crate) local: Vec<u8>,
    pub(crate) parameters: Vec<u8>,
    pub(crate) memory: &'r mut dyn Memory,
}

/// The step after a step.
pub(crate) enum Next {
    Step,
    /// The step at this place.
    At(u32),
    /// Nothing: the thread has ended.
    End,
}

pub(crate) type Run = fn(&Step, &mut Thread<'_>) -> Result<Next, Fault>;

/// A step: a function, the registers that it uses, and a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) run: Run,
    /// A register that must hold true, or false if the second is true.
    pub(crate) guard: Option<(u32, bool)>,
    pub(crate) target: u32,
    pub(crate) sources: [u32; 3],
    /// The offset from an address, the size of an access, the place of a branch, or a place among bits.
    pub(crate) number: i64,
    /// The line in the text of the module.
    pub(crate) line: u32,
}

impl Thread<'_> {
    fn get<T: Value>(&self, step: &Step, source: usize) -> T {
        T::of(self.registers[step.sources[source] as usize])
    }

    fn set(&mut self, step: &Step, value: impl Value) -> Result<Next, Fault> {
        self.registers[step.target as usize] = value.register();
        Ok(Next::Step)
    }

    /// Where the host finds `bytes` at an address.
    fn place(&mut self, address: u64, bytes: u32, writes: bool) -> Result<*mut u8, Fault> {
        if !address.is_multiple_of(u64::from(bytes)) {
            return Err(Fault::Misaligned { address, bytes });
        }
        let found = match address {
            ..PARAMETERS_BEGIN => self.memory.find(address, bytes, writes),
            PARAMETERS_BEGIN..LOCAL_BEGIN if writes => None,
            PARAMETERS_BEGIN..LOCAL_BEGIN => within(&mut self.parameters, address - PARAMETERS_BEGIN, bytes),
            LOCAL_BEGIN.. => within(&mut self.local, address - LOCAL_BEGIN, bytes),
        };
        found.ok_or(Fault::Address { address, bytes, writes })
    }
}

/// The place of bytes in an array.
fn within(array: &mut [u8], at: u64, bytes: u32) -> Option<*mut u8> {
    let at = usize::try_from(at).ok()?;
    Some(array.get_mut(at..at.checked_add(bytes as usize)?)?.as_mut_ptr())
}

/// Steps that compute a value of one, two or three values.
macro_rules! compute {
    ($($name:ident<$type:ident: $trait:ident>($($value:ident: $kind:ty),+) $result:expr;)+) => {
        $(pub(crate) fn $name<$type: $trait>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
            let mut sources = 0..;
            $(let $value: $kind = thread.get(step, sources.next().unwrap_or(0));)+
            thread.set(step, $result)
        })+
    };
}

compute! {
    add<T: Number>(a: T, b: T) a.add(b);
    sub<T: Number>(a: T, b: T) a.sub(b);
    mul<T: Number>(a: T, b: T) a.mul(b);
    mul_high<T: Integer>(a: T, b: T) a.mul_high(b);
    mul_add<T: Number>(a: T, b: T, c: T) a.mul_add(b, c);
    div<T: Number>(a: T, b: T) a.div(b);
    rem<T: Integer>(a: T, b: T) a.rem(b);
    min<T: Number>(a: T, b: T) a.min(b);
    max<T: Number>(a: T, b: T) a.max(b);
    neg<T: Number>(a: T) a.neg();
    abs<T: Number>(a: T) a.abs();
    shr<T: Integer>(a: T, by: u32) a.shr(by);
    equal<T: Number>(a: T, b: T) a == b;
    // Of PTX's comparisons, those without `u` are false if a value is not a number.
    unequal<T: Number>(a: T, b: T) a != b && !a.is_nan() && !b.is_nan();
    less<T: Number>(a: T, b: T) a < b;
    at_most<T: Number>(a: T, b: T) a <= b;
    greater<T: Number>(a: T, b: T) a > b;
    at_least<T: Number>(a: T, b: T) a >= b;
    equal_or_nan<T: Number>(a: T, b: T) a == b || a.is_nan() || b.is_nan();
    unequal_or_nan<T: Number>(a: T, b: T) a != b;
    less_or_nan<T: Number>(a: T, b: T) a < b || a.is_nan() || b.is_nan();
    at_most_or_nan<T: Number>(a: T, b: T) a <= b || a.is_nan() || b.is_nan();
    greater_or_nan<T: Number>(a: T, b: T) a > b || a.is_nan() || b.is_nan();
    at_least_or_nan<T: Number>(a: T, b: T) a >= b || a.is_nan() || b.is_nan();
    no_nan<T: Number>(a: T, b: T) !a.is_nan() && !b.is_nan();
    any_nan<T: Number>(a: T, b: T) a.is_nan() || b.is_nan();
}

/// Steps on the bits of registers, in which values take their low bits.
macro_rules! bits {
    ($($name:ident($($value:ident),+) $result:expr;)+) => {
        $(pub(crate) fn $name<T: Value>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
            let mut sources = 0..;
            $(let $value: u64 = thread.get(step, sources.next().unwrap_or(0));)+
            thread.set(step, T::of($result))
        })+
    };
}

bits! {
    copy(a) a;
    and(a, b) a & b;
    or(a, b) a | b;
    xor(a, b) a ^ b;
    not(a) !a;
    select(a, b, choice) if choice != 0 { a } else { b };
}

/// Inserts the lowest bits of the first value into the second. The number of the step has the place of the lowest one, and in
/// its lowest byte their count.
pub(crate) fn insert<T: Value>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let (inserted, into): (u64, u64) = (thread.get(step, 0), thread.get(step, 1));
    let (begin, count) = ((step.number >> 8) as u32, (step.number & 0xff) as u32);
    let mask = u64::MAX.checked_shr(64 - count).unwrap_or(0).checked_shl(begin).unwrap_or(0);
    thread.set(step, T::of(into & !mask | inserted.checked_shl(begin).unwrap_or(0) & mask))
}

/// By the size of the type or more: 0.
pub(crate) fn shl<T: Value>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let (value, by): (u64, u32) = (thread.get(step, 0), thread.get(step, 1));
    thread.set(step, T::of(value.checked_shl(by).unwrap_or(0)))
}

/// The upper half of two 32-bit words, the second above the first, shifted left by the third modulo 32.
pub(crate) fn funnel_left(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let (low, high, by): (u32, u32, u32) = (thread.get(step, 0), thread.get(step, 1), thread.get(step, 2));
    let both = u64::from(high) << 32 | u64::from(low);
    thread.set(step, (both << (by % 32) >> 32) as u32)
}

/// The lower half, shifted right.
pub(crate) fn funnel_right(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let (low, high, by): (u32, u32, u32) = (thread.get(step, 0), thread.get(step, 1), thread.get(step, 2));
    let both = u64::from(high) << 32 | u64::from(low);
    thread.set(step, (both >> (by % 32)) as u32)
}

/// The product of 32-bit numbers in 64 bits, and a third 64-bit number.
pub(crate) fn mul_wide<T: Value + Into<W>, W: Number>(
    step: &Step,
    thread: &mut Thread<'_>,
) -> Result<Next, Fault> {
    let (a, b): (T, T) = (thread.get(step, 0), thread.get(step, 1));
    thread.set(step, a.into().mul(b.into()))
}

pub(crate) fn mul_add_wide<T: Value + Into<W>, W: Number>(
    step: &Step,
    thread: &mut Thread<'_>,
) -> Result<Next, Fault> {
    let (a, b, c): (T, T, W) = (thread.get(step, 0), thread.get(step, 1), thread.get(step, 2));
    thread.set(step, a.into().mul(b.into()).add(c))
}

/// Two 32-bit words as one of 64 bits, the second above the first.
pub(crate) fn join(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let (low, high): (u32, u32) = (thread.get(step, 0), thread.get(step, 1));
    thread.set(step, u64::from(high) << 32 | u64::from(low))
}

pub(crate) fn upper_half(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let value: u64 = thread.get(step, 0);
    thread.set(step, value >> 32)
}

/// A number of another type: an integer cut off or extended by its sign, or the nearest floating-point number; of a
/// floating-point number the integer next to it towards 0, or the end of the type.
pub(crate) fn convert<From: Number, To: Number>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let value: From = thread.get(step, 0);
    thread.set(step, value.to::<To>())
}

pub(crate) fn square_root<T: Number>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let value: T = thread.get(step, 0);
    // Of 32-bit numbers, a root that is rounded twice is right.
    thread.set(step, T::of_f64(value.to_f64().sqrt()))
}

pub(crate) fn reciprocal<T: Number>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let value: T = thread.get(step, 0);
    thread.set(step, T::of_f64(1.0).div(value))
}

/// Reads the value at an address.
pub(crate) fn load<T: Value>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let address = thread.get::<u64>(step, 0).wrapping_add_signed(step.number);
    let place = thread.place(address, size_of::<T>() as u32, false)?;
    // SAFETY: `place` has found memory of this size, which may be read; any alignment will do.
    let value = unsafe { place.cast::<T>().read_unaligned() };
    thread.set(step, value)
}

/// Writes the second source at the address that is the first.
pub(crate) fn store<T: Value>(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let (address, value): (u64, T) = (thread.get(step, 0), thread.get(step, 1));
    let place = thread.place(address.wrapping_add_signed(step.number), size_of::<T>() as u32, true)?;
    // SAFETY: `place` has found memory of this size, which may be written; any alignment will do.
    unsafe { place.cast::<T>().write_unaligned(value) };
    Ok(Next::Step)
}

/// Checks that an address is a multiple of a size, which is that of the target's number.
pub(crate) fn check_alignment(step: &Step, thread: &mut Thread<'_>) -> Result<Next, Fault> {
    let address = thread.get::<u64>(step, 0).wrapping_add_signed(step.number);
    let bytes = step.target;
    match address.is_multiple_of(u64::from(bytes)) {
        true => Ok(Next::Step),
        false => Err(Fault::Misaligned { address, bytes }),
    }
}

pub(crate) fn branch(step: &Step, _: &mut Thread<'_>) -> Result<Next, Fault> {
    Ok(Next::At(step.number as u32))
}

pub(crate) fn end(_: &Step, _: &mut Thread<'_>) -> Result<Next, Fault> {
    Ok(Next::End)
}
