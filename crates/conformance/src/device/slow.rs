//! A slow kernel, gates that hold a stream back, and waiting for events without blocking.

use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{
    Buffer, Device, DeviceError, KernelArgument, KernelSource, LaunchConfig, ParameterType, Priority,
};

use super::bytes::{floats, read_on, upload};
use crate::Failure;

/// Writes `result` after `rounds` multiplications, each of which depends on the one before.
pub(super) const SPIN: KernelSource = KernelSource {
    name: "spin",
    portable: Some(
        "KERNEL void spin(GLOBAL double *value, long rounds, double result) {\n\
               \x20   if (GLOBAL_INDEX(0) > 0) return;\n\
               \x20   double x = 1.0;\n\
               \x20   for (long i = 0; i < rounds; i++) x = x * 0.999999 + 0.0000001;\n\
               \x20   value[0] = x > 2.0 ? x : result;\n\
               }\n",
    ),
    host: |_, arguments| {
        let [KernelArgument::Pointer(value), KernelArgument::I64(rounds), KernelArgument::F64(result)] =
            arguments
        else {
            return;
        };
        let x = (0..*rounds).fold(1.0, |x, _| x * 0.999999 + 0.0000001);
        // SAFETY: the launch promised one value.
        unsafe { *value.as_ptr().cast::<f64>() = if x > 2.0 { x } else { *result } };
    },
    parameters: &[ParameterType::Pointer, ParameterType::I64, ParameterType::F64],
};

/// The least time that the slow kernel takes.
const SLOW: Duration = Duration::from_millis(60);

/// The part of this time for which kernels run while their number of rounds is sought, and how often each.
const PARTS: u32 = 8;
const ATTEMPTS: usize = 6;

/// The number that the slow kernel writes.
pub(super) const RESULT: f64 = 42.0;

/// A slow kernel, which sets a value in device memory from 0 to [`RESULT`].
pub(crate) struct Slow<'a, D: Device> {
    device: &'a D,
    value: D::Buffer,
    copy: D::Buffer,
    launch: D::Launch,
}

impl<'a, D: Device> Slow<'a, D> {
    pub(super) fn new(device: &'a D) -> Result<Slow<'a, D>, Failure> {
        Slow::lasting(device, SLOW)
    }

    /// A kernel that takes at least `time` on an asynchronous device, and longer if that does other work.
    pub(crate) fn lasting(device: &'a D, time: Duration) -> Result<Slow<'a, D>, Failure> {
        let (value, copy) = (upload(device, &[0.0])?, upload(device, &[-1.0])?);
        let kernel = device.compile(&SPIN)?;
        let stream = device.create_stream(Priority::Normal)?;
        let bound = |rounds, result| {
            let arguments = [
                KernelArgument::Pointer(value.pointer()),
                KernelArgument::I64(rounds),
                KernelArgument::F64(result),
            ];
            device.bind(&kernel, LaunchConfig::linear(1), &arguments)
        };
        // The least of some short runs: other work on the machine may slow down any of them.
        let quickest = |rounds| {
            let attempt = bound(rounds, 0.0)?;
            let mut least = Duration::MAX;
            for _ in 0..ATTEMPTS {
                let begin = Instant::now();
                // SAFETY: the value lives until the stream is synchronised.
                unsafe { device.launch(&attempt, &stream)? };
                device.synchronize(&stream)?;
                least = least.min(begin.elapsed());
            }
            Ok::<_, DeviceError>(least)
        };
        let of_launch = quickest(1)?;
        for shift in 12..40 {
            // A synchronous device does all work in the call, so any kernel will do.
            if !device.info().asynchronous || quickest(1 << shift)? >= of_launch + time / PARTS {
                let launch = bound(i64::from(PARTS) << shift, RESULT)?;
                return Ok(Slow { device, value, copy, launch });
            }
        }
        Err("no number of rounds makes a kernel slow".into())
    }

    pub(crate) fn start(&self, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: every test keeps the value until the work is done, and reads it in order.
        unsafe { self.device.launch(&self.launch, stream) }
    }

    /// Puts a copy of the value into `stream`, for [`seen`](Slow::seen).
    pub(super) fn look(&self, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: both hold a number, and every test keeps them until the work is done.
        unsafe { self.device.copy(self.value.pointer(), self.copy.pointer(), 8, stream) }
    }

    /// The value that the last look in `stream` found.
    pub(super) fn seen(&self, stream: &D::Stream) -> Result<f64, Failure> {
        Ok(floats(&read_on(self.device, self.copy.pointer(), 8, stream)?)[0])
    }
}

/// Holds `stream` back if the device has gates. On others only slow kernels hold it back, and nothing is measured.
pub(super) fn hold<D: Device>(device: &D, stream: &D::Stream) -> Result<Option<Opener>, DeviceError> {
    device.gates().map(|gates| gates.gate(stream)).transpose()
}

pub(super) type Opener = Box<dyn FnOnce() + Send>;

/// Whether an event is reached within 30 s, while the host makes no call that waits.
pub(super) fn is_reached_soon<D: Device>(device: &D, event: &D::Event) -> Result<bool, DeviceError> {
    let begin = Instant::now();
    while !device.query(event)? {
        if begin.elapsed() > Duration::from_secs(30) {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(true)
}
