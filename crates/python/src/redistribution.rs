//! Redistributions: from the owners of cells in one grid or mesh to their owners in another one.

use std::sync::Arc;

use haloport::Redistribution as CoreRedistribution;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::flag_or;
use crate::domains::{ArrayDomains, Domains, OwnedDomains};
use crate::error::OrRaise;
use crate::plan::{Plan, PlanArguments};
use crate::process::Held;

/// The cells that move from their owners in one grid or mesh, the source, to their owners in another one, the target: what
/// `redistribute` of a grid or a mesh returns.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Redistribution {
    source: Arc<Domains>,
    target: Arc<Domains>,
    core: Held<CoreRedistribution>,
}

#[pymethods]
impl Redistribution {
    /// Prepares an exchange that takes cells from arrays of the source to arrays of the target. Collective.
    ///
    /// Parameters
    /// ----------
    /// *arrays : arrays or Layout
    ///     An array of the source and one of the target, in turn: ``plan(u, new_u, v, new_v)``. The two of a pair have the same
    ///     dtype, levels and device, and any strides: ``new_u.T`` of an array with its axes in another order makes it a
    ///     transpose. On a rank with several domains on a side, that array is a sequence of arrays; without domains there, an
    ///     array of `empty`, or an empty list.
    /// axes, fixed, share, in_flight, path
    ///     As for `Grid.plan`. ``axes`` holds for all arrays: between a grid and a mesh, leave it out, and pass views whose levels
    ///     are last, as of ``numpy.moveaxis``.
    /// vector : sequence, optional
    ///     As for `Grid.plan`, with an entry for each pair.
    ///
    /// Returns
    /// -------
    /// Plan
    ///     It is called with as many arrays, in the same order. Until a call has finished, the program
    ///     writes no owned cells of the source, and leaves the target alone. Arrays of the source may be read-only, or of JAX,
    ///     and may be passed more than once; no array of the target has elements in common with another one.
    #[pyo3(
        signature = (*arrays, axes=None, vector=None, fixed=None, share=None, in_flight=None, path=None),
        text_signature = "($self, *arrays, axes=None, vector=None, fixed=False, share=False, in_flight=1, path='quickest')"
    )]
    #[expect(clippy::too_many_arguments, reason = "Python passes each by its name")]
    fn plan(
        &self,
        arrays: &Bound<'_, PyTuple>,
        axes: Option<&Bound<'_, PyAny>>,
        vector: Option<&Bound<'_, PyAny>>,
        fixed: Option<&Bound<'_, PyAny>>,
        share: Option<&Bound<'_, PyAny>>,
        in_flight: Option<&Bound<'_, PyAny>>,
        path: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Plan> {
        let given =
            PlanArguments { axes, vector, fixed, share, in_flight, path, accumulate: None, zero_halo: None };
        let domains = ArrayDomains::in_turn(&self.source, &self.target, self.core.get()?);
        Plan::new(&domains, arrays, given)
    }

    fn __repr__(&self) -> PyResult<String> {
        let comm = self.source.comm.get()?;
        let (from, to, rank, ranks) = (self.source.count(), self.target.count(), comm.rank(), comm.size());
        Ok(format!("<haloport.Redistribution: domains here {from} to {to}, rank {rank} of {ranks}>"))
    }
}

/// Collective: see `Grid.redistribute`.
pub(crate) fn redistribute(
    source: &Arc<Domains>,
    target: &Bound<'_, PyAny>,
    fill_halo: Option<&Bound<'_, PyAny>>,
) -> PyResult<Redistribution> {
    let py = target.py();
    let checked = OwnedDomains::of(target, "target")
        .and_then(|target| Ok((target, flag_or(fill_halo, "fill_halo", false)?)));
    let (target, fill_halo) = source.comm.agree(py, checked)?;
    let (from, to) = (source.pattern()?, target.pattern()?);
    let core = py.detach(|| match fill_halo {
        true => from.redistribute_with_halo(to),
        false => from.redistribute(to),
    });
    Ok(Redistribution { source: Arc::clone(source), core: Held::new(core.or_raise()?), target })
}
