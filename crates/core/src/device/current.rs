//! The current stream of a thread: the stream in which it works unless it names another one.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;

use super::{AnyStream, Device, Stream};

thread_local! {
    static CURRENT: RefCell<Streams> = const { RefCell::new(Streams { next: 0, scopes: Vec::new() }) };
}

/// The streams that are current in a thread, each with the number of its scope; the latest last.
struct Streams {
    next: u64,
    scopes: Vec<(u64, Box<dyn AnyStream>)>,
}

/// A scope in which a stream is the current one of its device in this thread; from [`make_current`]. It ends on drop.
#[must_use = "the stream is current only until this is dropped"]
#[derive(Debug)]
pub struct CurrentStream {
    number: u64,
    /// Not `Send`: each thread has its own current streams.
    of_this_thread: PhantomData<*const ()>,
}

/// Makes `stream` the current stream of its device in this thread, until the returned scope is dropped; then the
/// earlier one is current again. Other devices and other threads keep their current streams. On the CPU nothing
/// changes.
///
/// [`Schedule::Current`](crate::Schedule::Current) orders exchanges with it; calls that take a stream can take
/// [`current_stream`].
///
/// ```
/// use haloport_core::device::{Device, Priority, Stream, current_stream, make_current};
///
/// fn work<D: Device>(device: &D) -> Result<(), haloport_core::device::DeviceError> {
///     let stream = device.create_stream(Priority::Normal)?;
///     {
///         let _scope = make_current(&stream);
///         assert_eq!(current_stream(device).handle(), stream.handle());
///     }
///     assert_eq!(current_stream(device).handle(), device.default_stream().handle());
///     Ok(())
/// }
/// # work(&haloport_cpu::CpuDevice::with_threads(1)?)?;
/// # Ok::<(), haloport_core::device::DeviceError>(())
/// ```
pub fn make_current<S: Stream>(stream: &S) -> CurrentStream {
    let number = CURRENT.with_borrow_mut(|streams| {
        streams.next += 1;
        streams.scopes.push((streams.next, Box::new(stream.clone())));
        streams.next
    });
    CurrentStream { number, of_this_thread: PhantomData }
}

/// The current stream of `device` in this thread: that of the latest scope of [`make_current`], otherwise the
/// default stream.
pub fn current_stream<D: Device>(device: &D) -> D::Stream {
    let found = CURRENT.with_borrow(|streams| {
        let mut latest_first = streams.scopes.iter().rev();
        let (_, stream) = latest_first.find(|(_, stream)| stream.device_id() == device.id())?;
        let stream: &dyn Any = stream.as_any();
        stream.downcast_ref::<D::Stream>().cloned()
    });
    found.unwrap_or_else(|| device.default_stream())
}

impl Drop for CurrentStream {
    fn drop(&mut self) {
        // At the end of a thread, its streams may be gone already. The stream is dropped after the borrow has ended.
        let ended = CURRENT.try_with(|streams| {
            let scopes = &mut streams.borrow_mut().scopes;
            let position = scopes.iter().position(|(number, _)| *number == self.number)?;
            Some(scopes.remove(position))
        });
        drop(ended);
    }
}
