//! Opaque handles for callers. A use of a freed handle is noticed, until its slot has been used 65,536 times more.
//!
//! A handle is the address of a slot and, in its high 16 bits, the number of times that the slot was used before. Slots are
//! never freed, but used again, so that looking at the one of a freed handle is safe.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use haloport::log;

use crate::status::{Failure, Status};

/// A type of objects that handles stand for.
pub(crate) trait Kind: Sized + Send + 'static {
    /// The name of its type in the header.
    const NAME: &'static str;
    /// A number of its own.
    const NUMBER: u16;

    fn slots() -> &'static Mutex<Slots<Self>>;
}

/// The slots of a kind.
pub(crate) struct Slots<T: 'static> {
    /// All of them: tools that look for leaks do not recognise a handle as an address.
    all: Vec<&'static Slot<T>>,
    /// The next handle of each that is free.
    free: Vec<Handle<T>>,
}

impl<T> Slots<T> {
    pub(crate) const NONE: Slots<T> = Slots { all: Vec::new(), free: Vec::new() };
}

/// A handle as C passes it: a pointer to a type that the header does not define.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Handle<T>(usize, PhantomData<*mut T>);

/// The value of a handle, and the bits that tell whether the handle is still valid.
#[repr(C)]
pub(crate) struct Slot<T> {
    kind: AtomicU16,
    used: AtomicU16,
    value: Mutex<Option<T>>,
}

/// The bits of an address in user space.
const ADDRESS: usize = (1 << 48) - 1;

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: a handle is a number; what it stands for is behind a lock, and may be sent to other threads.
unsafe impl<T: Send> Send for Handle<T> {}

impl<T: Kind> Handle<T> {
    /// A handle to `value`.
    pub(crate) fn new(value: T) -> Handle<T> {
        let mut slots = T::slots().lock().unwrap_or_else(PoisonError::into_inner);
        let handle = slots.free.pop().unwrap_or_else(|| {
            let slot: &'static Slot<T> = Box::leak(Box::new(Slot {
                kind: AtomicU16::new(T::NUMBER),
                used: AtomicU16::new(0),
                value: Mutex::new(None),
            }));
            slots.all.push(slot);
            Handle(std::ptr::from_ref(slot).expose_provenance(), PhantomData)
        });
        drop(slots);
        if let Some(slot) = handle.slot() {
            *slot.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }
        handle
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Whether both are the same handle.
    pub(crate) fn is(self, other: Handle<T>) -> bool {
        self.0 == other.0
    }

    /// The value, locked for one call at a time.
    pub(crate) fn get(self) -> Result<Held<T>, Failure> {
        let slot = self.found()?;
        match slot.value.try_lock() {
            // A panic leaves it as some call before has.
            Ok(value) => Held::of(value),
            Err(TryLockError::Poisoned(poisoned)) => Held::of(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Failure {
                status: Status::InFlight,
                text: format!("the {} is in use by another thread; give each thread its own", T::NAME),
            }),
        }
    }

    /// Takes the value out; later uses of the handle report it as freed. `None` for null.
    pub(crate) fn take(self) -> Result<Option<T>, Failure> {
        self.take_if(|_| Ok(()))
    }

    /// As [`take`](Handle::take), if `check` allows it. Otherwise the handle is as before, and the error is also logged:
    /// destructors of C++ cannot return it.
    pub(crate) fn take_if(self, check: impl FnOnce(&T) -> Result<(), Failure>) -> Result<Option<T>, Failure> {
        if self.is_null() {
            return Ok(None);
        }
        let slot = self.found()?;
        let mut held = self.get()?;
        if let Err(failure) = held.with(|value| check(value)) {
            log::error(format_args!("an {} was not freed, and is as before: {}", T::NAME, failure.text));
            return Err(failure);
        }
        let value = held.0.take();
        let used = slot.used.load(Ordering::Relaxed).wrapping_add(1);
        slot.used.store(used, Ordering::Relaxed);
        drop(held);
        let next = Handle(self.0 & ADDRESS | usize::from(used) << 48, PhantomData);
        T::slots().lock().unwrap_or_else(PoisonError::into_inner).free.push(next);
        Ok(value)
    }

    fn found(self) -> Result<&'static Slot<T>, Failure> {
        if self.is_null() {
            return Err(Failure::argument(format!("expected a {}, found null", T::NAME)));
        }
        self.slot().ok_or_else(|| {
            Failure::argument(format!("expected a {}, found one that was freed, or another handle", T::NAME))
        })
    }

    /// The slot, if the handle is still good.
    fn slot(self) -> Option<&'static Slot<T>> {
        let address = self.0 & ADDRESS;
        // SAFETY: a handle comes from `new`, by the contract of the header: its address is that of a slot, which lives for
        // ever. A slot of another kind begins with the same two numbers, and the rest is looked at only if the kind is right.
        let (kind, used) = unsafe {
            let slot = std::ptr::with_exposed_provenance::<[AtomicU16; 2]>(address);
            ((*slot)[0].load(Ordering::Relaxed), (*slot)[1].load(Ordering::Relaxed))
        };
        let good = kind == T::NUMBER && usize::from(used) == self.0 >> 48;
        // SAFETY: as above; it is a slot of this kind.
        good.then(|| unsafe { &*std::ptr::with_exposed_provenance::<Slot<T>>(address) })
    }
}

/// The value of a handle, locked for the time of a call.
pub(crate) struct Held<T: 'static>(MutexGuard<'static, Option<T>>);

impl<T: Kind> Held<T> {
    fn of(value: MutexGuard<'static, Option<T>>) -> Result<Held<T>, Failure> {
        match value.is_some() {
            true => Ok(Held(value)),
            false => Err(Failure::argument(format!("expected a {}, found one that was freed", T::NAME))),
        }
    }

    /// Calls `body` with the value.
    pub(crate) fn with<R>(&mut self, body: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
        match &mut *self.0 {
            Some(value) => body(value),
            None => Err(Failure::argument(format!("expected a {}, found one that was freed", T::NAME))),
        }
    }
}

/// Makes a type one that handles stand for.
macro_rules! kind {
    ($type:ty, $name:literal, $number:literal) => {
        impl $crate::handle::Kind for $type {
            const NAME: &'static str = $name;
            const NUMBER: u16 = $number;

            fn slots() -> &'static std::sync::Mutex<$crate::handle::Slots<Self>> {
                static SLOTS: std::sync::Mutex<$crate::handle::Slots<$type>> =
                    std::sync::Mutex::new($crate::handle::Slots::NONE);
                &SLOTS
            }
        }
    };
}
pub(crate) use kind;
