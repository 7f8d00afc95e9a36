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
use crate::arrays::described::Keep;
use crate::arrays::expected::named;
use crate::device::Device;
use crate::error::OrRaise;
use crate::order::Order;
use crate::process;
use crate::retired::{Kept, Retired};

/// A kernel of the program: a source for devices that compile it, and a function of Python for the CPU.
///
/// ``kernel(size, *arguments, stream=None)`` runs it for all indices below `size`: on devices in a stream, without waiting
/// for it; on the CPU before the call returns. `bind` takes the size and the arguments once, for many launches.
///
/// Parameters
/// ----------
/// name : str
///     The name of the kernel function in `source`.
/// source : str or None
///     C in the portable dialect of Haloport, which CUDA and OpenCL compile: ``KERNEL void f(GLOBAL f64 *u, i64 n)`` with
///     ``GLOBAL_INDEX(0)``. A GPU may run more threads than there are indices: compare the index with `n`. ``None`` for a
///     kernel for the CPU alone.
/// parameters : sequence of str
///     The types of the parameters: ``"pointer"``, ``"i32"``, ``"i64"``, ``"f32"`` or ``"f64"``.
/// constants : mapping of str to int or float, optional
///     Values that are compiled into the kernel, as macros of these names before the source: an int is an ``i64``, a float an
///     ``f64``, an ``np.float32`` an ``f32``. Each set of values is a kernel of its own, which is compiled once and kept on
///     disk. The function for the CPU knows them by itself.
/// host : callable, optional
///     The same computation on the CPU: called with the size, a tuple, and the arguments.
/// device : str, Device or dpctl.SyclQueue
///     The device; by default the CPU.
///
/// Raises
/// ------
/// ExchangeError
///     If the source does not compile, with the messages of the compiler.
///
/// Parameters of a call
/// --------------------
/// size : int or sequence of int
///     The number of indices along up to 3 axes; axis 0 is the fastest.
/// *arguments : arrays and numbers
///     In the order of the parameters. Arrays are in memory of the device, and are kept alive until the work is done.
/// stream : stream-like, optional
///     The stream that the kernel runs in, named as for a `Plan`; by default the `Stream` of a ``with`` block around the
///     call, otherwise that of the package of the first array. On the CPU it has no effect.
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
    #[pyo3(signature = (name, source, parameters, *, constants=None, host=None, device=None))]
    #[pyo3(text_signature = "(name, source, parameters, *, constants=None, host=None, device='cpu')")]
    fn py_new(
        py: Python<'_>,
        name: &str,
        source: Option<&str>,
        parameters: &Bound<'_, PyAny>,
        constants: Option<&Bound<'_, PyAny>>,
        host: Option<Py<PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Kernel> {
        let device = device.map_or_else(Device::plain_cpu, Device::of)?;
        const PARAMETERS: &str = "a sequence of names of types";
        let parameters: Vec<ParameterType> = entries(parameters, "parameters", PARAMETERS)?
            .map(|name| parameter(&number::<String>(&name?, "parameters", "the name of a type")?))
            .collect::<PyResult<_>>()?;
        let constants = constants.map_or(Ok(String::new()), definitions)?;
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
                let source = kernel_source(name, &(constants + portable()?), &parameters);
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

    // Python shows no text of a slot: that of the type describes calls.
    #[pyo3(signature = (size, *arguments, stream=None))]
    fn __call__(
        &self,
        py: Python<'_>,
        size: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        process::check()?;
        let size = size_of(size)?;
        // Asked before addresses are taken, as streams may be objects of the caller.
        let named = Order::of(py, stream, std::slice::from_ref(&self.device))?;
        let Given { values, keep, order, .. } = self.given(arguments)?;
        let kernel = match &self.compiled {
            Compiled::Host(host) => return call_host(host, &host_arguments(&size, arguments)?),
            Compiled::Device(kernel) => kernel,
        };
        let order = named.or(order);
        let kept = Kept::new(arguments, keep);
        py.detach(|| {
            let launch = self.device.any.bind(kernel, config_of(&size), &values)?;
            launch_in(&self.device, &launch, &order)?;
            retire(&self.retired, &self.device, &order, kept)
        })
        .or_raise()
    }

    /// Takes the size and the arguments of a call once: they are checked and bound, and launched as often as need be.
    ///
    /// Parameters
    /// ----------
    /// size, *arguments
    ///     As for a call of the kernel. Arrays are kept alive, and stay where they are.
    ///
    /// Returns
    /// -------
    /// BoundKernel
    ///     ``bound(stream=None)`` is one launch.
    #[pyo3(signature = (size, *arguments))]
    fn bind(
        slf: &Bound<'_, Self>,
        size: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<BoundKernel> {
        process::check()?;
        let (py, this) = (slf.py(), slf.get());
        let size = size_of(size)?;
        let Given { values, keep, ordering, .. } = this.given(arguments)?;
        let launch = match &this.compiled {
            Compiled::Host(_) => None,
            Compiled::Device(kernel) => {
                let bind = || this.device.any.bind(kernel, config_of(&size), &values);
                Some(Mutex::new(py.detach(bind).or_raise()?))
            }
        };
        Ok(BoundKernel {
            retired: Mutex::default(),
            launch,
            ordering,
            arguments: host_arguments(&size, arguments)?.unbind(),
            _keep: keep,
            kernel: slf.clone().unbind(),
        })
    }

    fn __repr__(&self) -> String {
        format!("<haloport.Kernel: {} on {}>", self.name, self.device.name())
    }
}

/// A kernel with its size and its arguments, which it keeps alive: what `Kernel.bind` returns.
///
/// ``bound(*, stream=None)`` launches it: on devices in a stream, without waiting for it; on the CPU it calls the function of
/// Python. Numbers among the arguments stay as they were; elements of arrays are read by each launch.
///
/// Parameters of a call
/// --------------------
/// stream : stream-like, optional
///     As for a `Kernel`.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct BoundKernel {
    /// Dropped before the arrays.
    retired: Mutex<Vec<Retired>>,
    /// `None` on the CPU.
    launch: Option<Mutex<any::Launch>>,
    /// The first array in memory of the device, if that is not the CPU: its package names the order of work.
    ordering: Option<Py<PyAny>>,
    /// The size and the arguments.
    arguments: Py<PyTuple>,
    _keep: SmallVec<[Keep; 2]>,
    kernel: Py<Kernel>,
}

#[pymethods]
impl BoundKernel {
    /// The kernel.
    #[getter]
    fn kernel(&self, py: Python<'_>) -> Py<Kernel> {
        self.kernel.clone_ref(py)
    }

    // Python shows no text of a slot: that of the type describes calls.
    #[pyo3(signature = (*, stream=None))]
    fn __call__(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        process::check()?;
        let kernel = self.kernel.get();
        let device = &kernel.device;
        let named = Order::of(py, stream, std::slice::from_ref(device))?;
        let own = match &self.ordering {
            Some(array) => Some(Order::of_place(&describe(array.bind(py), false)?.place, device)?),
            None => None,
        };
        let arguments = self.arguments.bind(py);
        let launch = match (&kernel.compiled, &self.launch) {
            (_, Some(launch)) => launch,
            (Compiled::Host(host), None) => return call_host(host, arguments),
            (Compiled::Device(_), None) => return Ok(()),
        };
        let order = named.or(own);
        let kept = Kept::new(arguments, SmallVec::new());
        py.detach(|| {
            launch_in(device, &launch.lock().unwrap_or_else(PoisonError::into_inner), &order)?;
            retire(&self.retired, device, &order, kept)
        })
        .or_raise()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let kernel = self.kernel.get();
        let size = self.arguments.bind(py).get_item(0)?;
        Ok(format!("<haloport.BoundKernel: {} of {size} on {}>", kernel.name, kernel.device.name()))
    }
}

/// The arguments of a call, checked.
struct Given {
    values: Vec<KernelArgument>,
    keep: SmallVec<[Keep; 2]>,
    /// The first array in memory of the device, if that is not the CPU.
    ordering: Option<Py<PyAny>>,
    /// The order that its package names.
    order: Option<Order>,
}

impl Kernel {
    fn given(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<Given> {
        if arguments.len() != self.parameters.len() {
            return Err(PyValueError::new_err(format!(
                "expected {} arguments, found {}",
                self.parameters.len(),
                arguments.len()
            )));
        }
        let values = Vec::with_capacity(arguments.len());
        let mut given = Given { values, keep: SmallVec::new(), ordering: None, order: None };
        for (index, (argument, parameter)) in arguments.iter().zip(&self.parameters).enumerate() {
            let value = self.argument(index, &argument, *parameter, &mut given)?;
            given.values.push(value);
        }
        Ok(given)
    }

    /// An argument for the kernel; what keeps it alive, and the order of its package, are added to `given`.
    fn argument(
        &self,
        index: usize,
        argument: &Bound<'_, PyAny>,
        parameter: ParameterType,
        given: &mut Given,
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
                if given.order.is_none() && !self.device.is_cpu() {
                    given.order = Some(Order::of_place(&described.place, &self.device)?);
                    given.ordering = Some(argument.clone().unbind());
                }
                given.keep.extend(described.keep);
                KernelArgument::Pointer(described.array.first())
            }
        })
    }
}

/// The argument `size` of a call: 1 to 3 extents.
fn size_of(size: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let size: Vec<usize> = match is_iterable(size)? {
        true => counts(size, "size")?,
        false => vec![number(size, "size", "a whole number from 0 on, or up to 3")?],
    };
    if size.is_empty() || size.len() > 3 {
        return Err(PyValueError::new_err(format!("size: expected 1 to 3 axes, found {}", size.len())));
    }
    Ok(size)
}

fn config_of(size: &[usize]) -> LaunchConfig {
    let mut global = [1; 3];
    global[..size.len()].copy_from_slice(size);
    LaunchConfig { global, group: None }
}

/// The arguments of the function for the CPU: the size, a tuple, and those of the call.
fn host_arguments<'py>(size: &[usize], arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
    let py = arguments.py();
    let all = [PyTuple::new(py, size)?.into_any()].into_iter().chain(arguments.iter());
    PyTuple::new(py, all.collect::<Vec<_>>())
}

/// Calls the function for the CPU with the size and the arguments.
fn call_host(host: &Py<PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
    host.bind(arguments.py()).call1(arguments).map(drop)
}

fn launch_in(device: &Device, launch: &any::Launch, order: &Order) -> Result<(), DeviceError> {
    let device = &device.any;
    let stream = order.stream(device);
    // SAFETY: the arrays are memory of the device and live until the work is done; what the kernel does with them is the
    // program's affair, as its source is.
    unsafe { device.launch(launch, &stream)? };
    match order {
        Order::Block => device.synchronize(&stream),
        _ => Ok(()),
    }
}

/// Keeps the arrays of a launch until its work is done.
fn retire(list: &Mutex<Vec<Retired>>, device: &Device, order: &Order, kept: Kept) -> Result<(), DeviceError> {
    let retired = Retired::new(std::slice::from_ref(device), order, kept)?;
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    list.retain(|retired| !retired.is_done());
    list.extend(retired);
    Ok(())
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

/// The lines of C that define constants.
fn definitions(constants: &Bound<'_, PyAny>) -> PyResult<String> {
    const EXPECTED: &str = "an int below 2^63 in size, or a finite float";
    let mut lines = String::new();
    let items = constants.call_method0("items").map_err(|_| {
        PyTypeError::new_err(format!(
            "constants: expected a mapping of names to numbers, found {}",
            shown(constants)
        ))
    })?;
    for item in items.try_iter()? {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        let name: String = number(&name, "constants", "names of constants")?;
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if !name.chars().all(is_letter) || name.chars().next().is_none_or(|first| first.is_ascii_digit()) {
            return Err(PyValueError::new_err(format!("constants: expected a name of C, found {name:?}")));
        }
        let place = format!("constants[{name:?}]");
        let text = if value.hasattr("__index__")? {
            match number(&value, &place, EXPECTED)? {
                // No literal of C.
                i64::MIN => format!("(i64)(-{}L - 1)", i64::MAX),
                value => format!("(i64){value}L"),
            }
        } else {
            let number: f64 = number(&value, &place, EXPECTED)?;
            let is_single = value.getattr("dtype").is_ok_and(|dtype| dtype.eq("float32").unwrap_or(false));
            match number.is_finite() {
                true if is_single => format!("{:?}f", number as f32),
                true => format!("{number:?}"),
                false => {
                    return Err(PyValueError::new_err(format!(
                        "{place}: expected {EXPECTED}, found {}",
                        shown(&value)
                    )));
                }
            }
        };
        lines += &format!("#define {name} ({text})\n");
    }
    Ok(lines)
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
