//! The engine of a device, which exchanges the fields on it.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

/// What exchanges the fields on devices of type `D`: [`Engine::of`] makes it, and [`Device::engine`](super::Device::engine)
/// returns it. So it is compiled once, with the device, and not again with each program that exchanges fields.
pub struct Engine<D> {
    inner: Box<dyn Any + Send + Sync>,
    device: PhantomData<fn(&D)>,
}

impl<D> Engine<D> {
    pub(crate) fn new(inner: impl Any + Send + Sync) -> Engine<D> {
        Engine { inner: Box::new(inner), device: PhantomData }
    }

    /// What [`new`](Engine::new) got, if it is of this type.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.inner.downcast_ref()
    }
}

impl<D> fmt::Debug for Engine<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}
