//! Payloads of messages and values of sums: memory of the caller, on the host or of CUDA.

use std::borrow::Cow;
use std::ffi::c_void;

use haloport::device::{Device as _, Pointer};
use haloport::{AnyDevice, Element};

use crate::arguments::{count, slice};
use crate::device::{Place, check_address};
use crate::status::{Failure, Status};

/// Reads what the caller passes, and keeps the devices open that some were on.
#[derive(Default)]
pub(crate) struct Reader {
    opened: Vec<(Place<'static>, AnyDevice)>,
}

impl Reader {
    /// A copy of bytes of the caller. The arguments have their names. What is in memory of CUDA is read after the work in the
    /// default stream of its device, and the call blocks until that is done.
    ///
    /// # Safety
    /// Unless it is null, `first` is the address of that many bytes, which nothing writes meanwhile.
    pub(crate) unsafe fn copied(
        &mut self,
        (bytes, name_of_bytes): (i64, &str),
        (first, name): (*const c_void, &str),
    ) -> Result<Vec<u8>, Failure> {
        let bytes = count(bytes, name_of_bytes)?;
        // SAFETY: the caller's promise.
        match unsafe { self.values(bytes, first.cast::<u8>(), name)? } {
            Cow::Owned(copy) => Ok(copy),
            Cow::Borrowed(found) => {
                let mut copy = room(bytes, name)?;
                copy.extend_from_slice(found);
                Ok(copy)
            }
        }
    }

    /// Values of the caller: those in memory of the host, or a copy of those in memory of CUDA, which are read as bytes are.
    ///
    /// # Safety
    /// Unless it is null, `first` is the address of that many values, which nothing writes during `'a`.
    pub(crate) unsafe fn values<'a, T: Element>(
        &mut self,
        number: usize,
        first: *const T,
        name: &str,
    ) -> Result<Cow<'a, [T]>, Failure> {
        let at = Pointer::new(first.cast_mut().cast());
        let Some(place @ Place::Cuda(_)) = Place::of(None, None, (number > 0).then_some(at))? else {
            // SAFETY: the caller's promise; what is not in memory of CUDA is in that of the host.
            return Ok(Cow::Borrowed(unsafe { slice(first, number, name)? }));
        };
        let device = self.device(place, name)?;
        let mut copy = room(number, name)?;
        copy.resize(number, T::zeroed());
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut copy);
        check_address(device, at, 0..bytes.len() as isize)?;
        // SAFETY: the bytes are in memory of the device, and nothing writes them meanwhile.
        unsafe { device.read(at, bytes, &device.default_stream())? };
        Ok(Cow::Owned(copy))
    }

    fn device(&mut self, place: Place<'static>, name: &str) -> Result<&AnyDevice, Failure> {
        let known = self.opened.iter().position(|(other, _)| *other == place);
        let at = match known {
            Some(at) => at,
            None => {
                self.opened.push((place, place.open(None, 1, name)?));
                self.opened.len() - 1
            }
        };
        Ok(&self.opened[at].1)
    }
}

/// Memory for a copy of that many values.
pub(crate) fn room<T>(number: usize, name: &str) -> Result<Vec<T>, Failure> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(number).map_err(|_| Failure {
        status: Status::NoMemory,
        text: format!(
            "{name}: expected memory for a copy of {} bytes, found none",
            number.saturating_mul(size_of::<T>())
        ),
    })?;
    Ok(copy)
}
