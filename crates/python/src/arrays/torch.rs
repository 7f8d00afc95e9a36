//! Tensors of PyTorch: what DLPack does not say of them, and the counter of their changes.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::package::is_of_package;

/// Whether an object is a tensor of PyTorch.
pub(crate) fn is_tensor(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    is_of_package(object, "torch")
}

/// Refuses a tensor whose memory does not hold its elements as they are, or that must not change behind autograd's back.
pub(super) fn check(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let refuse = |expected: &str, found: &str, hint: &str| {
        Err(PyBufferError::new_err(format!("expected {expected}, found {found}; pass {hint}")))
    };
    let says = |name: &str| match tensor.getattr_opt(name)? {
        Some(method) if method.is_callable() => method.call0()?.is_truthy(),
        Some(value) => value.is_truthy(),
        None => Ok(false),
    };
    if let Some(layout) = tensor.getattr_opt("layout")?
        && layout.str()? != "torch.strided"
    {
        return refuse("a dense tensor", &format!("one of layout {layout}"), "tensor.to_dense()");
    }
    if says("is_meta")? {
        return refuse(
            "a tensor with memory",
            "one on the device meta, which has none",
            "a tensor of zeros like it",
        );
    }
    if says("is_conj")? {
        return refuse(
            "a tensor whose memory holds its elements",
            "a conjugate that is not computed yet",
            "tensor.resolve_conj()",
        );
    }
    if says("is_neg")? {
        return refuse(
            "a tensor whose memory holds its elements",
            "a negative that is not computed yet",
            "tensor.resolve_neg()",
        );
    }
    if says("requires_grad")? {
        return refuse(
            "a tensor that can be changed in place",
            "one that requires gradients",
            "tensor.detach()",
        );
    }
    Ok(())
}

/// The error of a tensor that DLPack does not describe, with what to pass if its elements have no name here.
pub(super) fn explained(tensor: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let name = tensor.getattr("dtype").and_then(|dtype| dtype.str()).map(|name| name.to_string());
    match name {
        Ok(name) if name.starts_with("torch.float8") || name.starts_with("torch.float4") => {
            PyBufferError::new_err(format!(
                "expected elements of a type with a name here, found {name}; pass tensor.view(torch.uint8), which shows \
                 the same memory"
            ))
        }
        _ => error,
    }
}

/// Tells autograd that tensors are changed: a graph that has kept one of them for its gradients refuses to use it then.
///
/// # Errors
/// What PyTorch raises.
pub(crate) fn mark_changed(py: Python<'_>, tensors: &[Py<PyAny>]) -> PyResult<()> {
    static INCREMENT: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();
    if tensors.is_empty() {
        return Ok(());
    }
    // PyTorch has it since version 2.1.
    let increment = INCREMENT.get_or_try_init(py, || -> PyResult<_> {
        let Ok(graph) = py.import("torch.autograd.graph") else { return Ok(None) };
        Ok(graph.getattr_opt("increment_version")?.map(Bound::unbind))
    })?;
    let Some(increment) = increment else { return Ok(()) };
    for tensor in tensors {
        // Tensors that were made for inference alone have no such counter.
        if !tensor.bind(py).call_method0("is_inference")?.is_truthy()? {
            increment.bind(py).call1((tensor,))?;
        }
    }
    Ok(())
}
