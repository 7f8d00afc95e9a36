//! Kernels of the program on any device.

use std::sync::{Mutex, PoisonError};

use haloport::AnyDevice;
use haloport::device::{
    Device as _, DeviceError, KernelArgument, KernelSource, LaunchConfig, ParameterType, any,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use crate::arguments::{counts, entries, is_iterable, number, shown};
use crate::arrays::describe::describe;
use crate::arrays::expected::named;
use crate::device::Device;
use crate::error::OrRaise;
use crate::order::Order;
use crate::process;
use crate::retired::{Kept, Retired};

/// A kernel of the program: a source for devices that compile it, and a function of Python for the CPU.
///
/// Parameters
/// ----------
/// name : str
///     The name of the kernel function in `source`.
/// source : str or None
///     C in the portable dialect of Haloport, which CUDA and OpenCL compile: ``KERNEL void f(GLOBAL f64 *u, long n)`` with
///     ``GLOBAL_INDEX(0)``. ``None`` for a kernel for the CPU alone.
/// parameters : sequence of str
///     The types of the parameters: ``"pointer"``, ``"i32"``, ``"i64"``, ``"f32"`` or ``"f64"``.
/// host : callable, optional
///     The same computation on the CPU: called with the size, a tuple, and the arguments.
/// device : str, Device or dpctl.SyclQueue
///     The device; by default the CPU.
///
/// Raises
/// ------
/// ExchangeError
///     If the source does not compile, with the messages of the compiler.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Kernel {
    name: String,
    device: Device,
    parameters: Vec<ParameterType>,
    compiled: Compiled,
    retired: Mutex<Vec<Retired>>,
}

enum Compiled {
    Host(Py<PyAny>),
    Device(any::Kernel),
}

#[pymethods]
impl Kernel {
    #[new]
    #[pyo3(signature = (name, source, parameters, *, host=None, device=None))]
    #[pyo3(text_signature = "(name, source, parameters, *, host=None, device='cpu')")]
    fn py_new(
        py: Python<'_>,
        name: &str,
        source: Option<&str>,
        parameters: &Bound<'_, PyAny>,
        host: Option<Py<PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Kernel> {
        let device = device.map_or_else(Device::plain_cpu, Device::of)?;
        const PARAMETERS: &str = "a sequence of names of types";
        let parameters: Vec<ParameterType> = entries(parameters, "parameters", PARAMETERS)?
            .map(|name| parameter(&number::<String>(&name?, "parameters", "the name of a type")?))
            .collect::<PyResult<_>>()?;
        let portable = || {
            source.ok_or_else(|| {
                PyValueError::new_err(format!("source: expected one for {}, found None", device.name()))
            })
        };
        let compiled = match &device.any {
            AnyDevice::Cpu(_) => match host {
                Some(host) if host.bind(py).is_callable() => Compiled::Host(host),
                Some(host) => {
                    return Err(PyTypeError::new_err(format!(
                        "host: expected a function, found {}",
                        shown(host.bind(py))
                    )));
                }
                None => {
                    return Err(PyValueError::new_err("host: expected a function for the CPU, found None"));
                }
            },
            AnyDevice::Cuda(_) | AnyDevice::Sycl(_) => {
                let source = kernel_source(name, portable()?, &parameters);
                Compiled::Device(py.detach(|| device.any.compile(&source)).or_raise()?)
            }
        };
        Ok(Kernel { name: name.into(), device, parameters, compiled, retired: Mutex::default() })
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The device.
    #[getter]
    fn device(&self) -> Device {
        self.device.clone()
    }

    /// Runs the kernel for all indices below `size`, on devices in a stream, without waiting for it.
    ///
    /// Parameters
    /// ----------
    /// size : int or sequence of int
    ///     The number of indices along up to 3 axes; axis 0 is the fastest.
    /// *arguments : arrays and numbers
    ///     In the order of the parameters. Arrays are in memory of the device, and are kept alive until the work is done.
    /// stream : stream-like, optional
    ///     As for a plan.
    #[pyo3(signature = (size, *arguments, stream=None))]
    fn __call__(
        &self,
        py: Python<'_>,
        size: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        process::check()?;
        let size: Vec<usize> = match is_iterable(size)? {
            true => counts(size, "size")?,
            false => vec![number(size, "size", "a whole number from 0 on, or up to 3")?],
        };
        if size.is_empty() || size.len() > 3 {
            return Err(PyValueError::new_err(format!("size: expected 1 to 3 axes, found {}", size.len())));
        }
        if arguments.len() != self.parameters.len() {
            return Err(PyValueError::new_err(format!(
                "expected {} arguments, found {}",
                self.parameters.len(),
                arguments.len()
            )));
        }
        let mut global = [1; 3];
        global[..size.len()].copy_from_slice(&size);
        // Asked before addresses are taken, as streams may be objects of the caller.
        let named = Order::of(py, stream, std::slice::from_ref(&self.device))?;
        let mut bound = Vec::with_capacity(arguments.len());
        let mut keep = SmallVec::new();
        let mut order = None;
        for (index, (argument, parameter)) in arguments.iter().zip(&self.parameters).enumerate() {
            bound.push(self.argument(index, &argument, *parameter, (&mut keep, &mut order))?);
        }
        let kernel = match &self.compiled {
            Compiled::Host(host) => {
                let all = [PyTuple::new(py, &size)?.into_any()].into_iter().chain(arguments.iter());
                host.bind(py).call1(PyTuple::new(py, all.collect::<Vec<_>>())?)?;
                return Ok(());
            }
            Compiled::Device(kernel) => kernel,
        };
        let order = named.or(order);
        let config = LaunchConfig { global, group: None };
        let kept = Kept::new(arguments, keep);
        py.detach(|| {
            launch(&self.device.any, kernel, config, &bound, &order)?;
            let retired = Retired::new(std::slice::from_ref(&self.device), &order, kept)?;
            let mut list = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            list.retain(|retired| !retired.is_done());
            list.extend(retired);
            Ok::<(), DeviceError>(())
        })
        .or_raise()
    }

    fn __repr__(&self) -> String {
        format!("<haloport.Kernel: {} on {}>", self.name, self.device.name())
    }
}

impl Kernel {
    /// An argument for the kernel; what keeps it alive, and the order of its package, are added to `beside`.
    fn argument(
        &self,
        index: usize,
        argument: &Bound<'_, PyAny>,
        parameter: ParameterType,
        beside: (&mut SmallVec<[crate::arrays::described::Keep; 2]>, &mut Option<Order>),
    ) -> PyResult<KernelArgument> {
        let name = format!("argument {index}");
        Ok(match parameter {
            ParameterType::I32 => KernelArgument::I32(number(argument, &name, "a number of type `i32`")?),
            ParameterType::I64 => KernelArgument::I64(number(argument, &name, "a number of type `i64`")?),
            ParameterType::F32 => KernelArgument::F32(number(argument, &name, "a number of type `f32`")?),
            ParameterType::F64 => KernelArgument::F64(number(argument, &name, "a number of type `f64`")?),
            ParameterType::Pointer => {
                let described = describe(argument, false).and_then(|described| {
                    self.device.check_memory(&described)?;
                    Ok(described)
                });
                let described = described.map_err(|error| named(argument.py(), error, &name))?;
                if beside.1.is_none() && !self.device.is_cpu() {
                    *beside.1 = Some(Order::of_place(&described.place, &self.device)?);
                }
                beside.0.extend(described.keep);
                KernelArgument::Pointer(described.array.first())
            }
        })
    }
}

fn launch(
    device: &AnyDevice,
    kernel: &any::Kernel,
    config: LaunchConfig,
    arguments: &[KernelArgument],
    order: &Order,
) -> Result<(), DeviceError> {
    let stream = order.stream(device);
    let bound = device.bind(kernel, config, arguments)?;
    // SAFETY: the arrays are memory of the device and live until the work is done; what the kernel does with them is the
    // program's affair, as its source is.
    unsafe { device.launch(&bound, &stream)? };
    match order {
        Order::Block => device.synchronize(&stream),
        _ => Ok(()),
    }
}

fn parameter(name: &str) -> PyResult<ParameterType> {
    match name {
        "pointer" => Ok(ParameterType::Pointer),
        "i32" => Ok(ParameterType::I32),
        "i64" => Ok(ParameterType::I64),
        "f32" => Ok(ParameterType::F32),
        "f64" => Ok(ParameterType::F64),
        _ => Err(PyValueError::new_err(format!(
            "parameters: expected \"pointer\", \"i32\", \"i64\", \"f32\" or \"f64\", found {name:?}"
        ))),
    }
}

/// A source that lives as long as the process. Equal ones share their memory.
fn kernel_source(name: &str, portable: &str, parameters: &[ParameterType]) -> KernelSource {
    type Known = (&'static str, &'static str, &'static [ParameterType]);
    static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.iter().find(|it| **it == (name, portable, parameters)).copied();
    let (name, portable, parameters) = found.unwrap_or_else(|| {
        let made: Known = (
            Box::leak(name.to_string().into_boxed_str()),
            Box::leak(portable.to_string().into_boxed_str()),
            Box::leak(parameters.to_vec().into_boxed_slice()),
        );
        known.push(made);
        made
    });
    // The CPU runs a function of Python instead.
    KernelSource { name, portable: Some(portable), host: |_, _| {}, parameters }
}
