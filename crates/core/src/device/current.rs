//! The current stream of a thread: the one in which it works unless it says otherwise.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;

use super::{AnyStream, Device, Stream};

thread_local! {
    static CURRENT: RefCell<Streams> = const { RefCell::new(Streams { next: 0, made: Vec::new() }) };
}

/// What was made current in a thread and is still, each with its number; the latest last.
struct Streams {
    next: u64,
    made: Vec<(u64, Box<dyn AnyStream>)>,
}

/// As long as it lives, a stream is the current one of its device in this thread. See [`make_current`].
#[must_use = "the stream is current as long as this lives"]
#[derive(Debug)]
pub struct CurrentStream {
    number: u64,
    /// Every thread has current streams of its own: this stays with it.
    of_this_thread: PhantomData<*const ()>,
}

/// Makes `stream` the current stream of its device in this thread until what this returns is dropped; then it is the one that
/// it was before. Streams of other devices, and other threads, keep theirs. On the CPU nothing changes.
///
/// [`Schedule::Current`](crate::Schedule::Current) orders exchanges with it; what takes a stream as an argument can be given
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
        streams.made.push((streams.next, Box::new(stream.clone())));
        streams.next
    });
    CurrentStream { number, of_this_thread: PhantomData }
}

/// The stream of `device` that was last [made current](make_current) in this thread and still is; its default stream where
/// there is none.
pub fn current_stream<D: Device>(device: &D) -> D::Stream {
    let found = CURRENT.with_borrow(|streams| {
        let mut latest_first = streams.made.iter().rev();
        let (_, stream) = latest_first.find(|(_, stream)| stream.device_id() == device.id())?;
        let stream: &dyn Any = stream.as_any();
        stream.downcast_ref::<D::Stream>().cloned()
    });
    found.unwrap_or_else(|| device.default_stream())
}

impl Drop for CurrentStream {
    fn drop(&mut self) {
        // At the end of a thread there may be none any more. A stream is dropped when nothing is borrowed.
        let gone = CURRENT.try_with(|streams| {
            let made = &mut streams.borrow_mut().made;
            let place = made.iter().position(|(number, _)| *number == self.number)?;
            Some(made.remove(place))
        });
        drop(gone);
    }
}
