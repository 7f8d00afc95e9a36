//! Payloads of messages: bytes of the caller, in memory of the host or of CUDA.

use std::ffi::c_void;

use haloport::AnyDevice;
use haloport::device::{Device as _, Pointer};

use crate::arguments::{count, slice};
use crate::device::{Place, check_address};
use crate::status::{Failure, Status};

/// Copies payloads, and keeps the devices open that some were on.
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
        let at = Pointer::new(first.cast_mut().cast());
        if let Some(place @ Place::Cuda(_)) = Place::of(None, None, (bytes > 0).then_some(at))? {
            let device = self.device(place, name)?;
            check_address(device, at, 0..bytes as isize)?;
            let mut copy = room(bytes, name)?;
            copy.resize(bytes, 0);
            // SAFETY: the bytes are in memory of the device, and nothing writes them meanwhile.
            unsafe { device.read(at, &mut copy, &device.default_stream())? };
            return Ok(copy);
        }
        // SAFETY: the caller's promise; what is not in memory of CUDA is in that of the host.
        let found = unsafe { slice(first.cast::<u8>(), bytes, name)? };
        let mut copy = room(bytes, name)?;
        copy.extend_from_slice(found);
        Ok(copy)
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

/// Memory for a copy of that many bytes.
fn room(bytes: usize, name: &str) -> Result<Vec<u8>, Failure> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes).map_err(|_| Failure {
        status: Status::NoMemory,
        text: format!("{name}: expected memory for a copy of {bytes} bytes, found none"),
    })?;
    Ok(copy)
}
