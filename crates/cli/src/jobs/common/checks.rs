//! The results of `--verify`: figures and their bounds.

use std::io::{self, Write};
use std::time::Duration;

use haloport::{AnyDevice, Communicator};
use serde::Serialize;

use crate::command::failure::Failure;

/// The number of steps after which fields of another device are compared with those of the CPU backend.
pub(crate) const STEPS_AS_ON_CPU: usize = 100;

/// How long other ranks wait while rank 0 computes alone.
const ALONE_LIMIT: Duration = Duration::from_secs(3600);

/// A figure and its bound.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) what: String,
    pub(crate) value: f64,
    /// `<`, `>=` or `==`.
    pub(crate) relation: &'static str,
    pub(crate) bound: f64,
    pub(crate) unit: &'static str,
    pub(crate) ok: bool,
}

impl Check {
    pub(crate) fn below(name: &'static str, what: &str, value: f64, bound: f64, unit: &'static str) -> Check {
        Check { name, what: what.into(), value, relation: "<", bound, unit, ok: value < bound }
    }

    pub(crate) fn at_least(
        name: &'static str,
        what: &str,
        value: f64,
        bound: f64,
        unit: &'static str,
    ) -> Check {
        Check { name, what: what.into(), value, relation: ">=", bound, unit, ok: value >= bound }
    }

    pub(crate) fn same_fields(differing: usize, what: String) -> Check {
        let value = differing as f64;
        Check { name: "ranks", what, value, relation: "==", bound: 0.0, unit: "", ok: differing == 0 }
    }
}

/// Collective: runs `compute` on rank 0 alone, while the others wait.
///
/// # Errors
/// Errors of `compute`; [`Failure::Run`] if the ranks cannot wait for each other.
pub(crate) fn on_rank_0<T>(
    comm: &Communicator,
    compute: impl FnOnce() -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let limit = comm.time_limit();
    comm.set_time_limit(Some(ALONE_LIMIT));
    let alone = if comm.rank() == 0 { Some(compute()?) } else { None };
    comm.barrier()?;
    comm.set_time_limit(limit);
    Ok(alone)
}

/// Collective: compares fields after [`STEPS_AS_ON_CPU`] steps, which rank 0 has gathered, with those that `on_cpu`
/// computes there. `difference` is the largest difference over the largest value.
///
/// # Errors
/// Errors of `on_cpu`; [`Failure::Run`], also if this build has no CPU backend.
pub(crate) fn as_on_cpu<T>(
    comm: &Communicator,
    here: Option<T>,
    on_cpu: impl FnOnce(&AnyDevice) -> Result<T, Failure>,
    difference: impl FnOnce(&T, &T) -> f64,
) -> Result<Check, Failure> {
    let alone = on_rank_0(comm, || {
        let cpu = AnyDevice::select("cpu").map_err(|error| Failure::Run(format!("--verify: {error}")))?;
        on_cpu(&cpu)
    })?;
    let difference = here.zip(alone).map_or(0.0, |(here, alone)| difference(&here, &alone));
    let what = format!(
        "fields are those of the CPU backend after {STEPS_AS_ON_CPU} steps: largest difference, as a part of the \
         field's maximum"
    );
    Ok(Check::below("cpu", &what, difference, 1e-12, ""))
}

/// Returns an error if a check has failed.
///
/// # Errors
/// [`Failure::Check`], which names the checks that failed.
pub(crate) fn conclude(checks: &[Check]) -> Result<(), Failure> {
    let failed: Vec<&str> = checks.iter().filter(|check| !check.ok).map(|check| check.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Check(format!("{} of {} checks failed: {}", failed.len(), checks.len(), failed.join(", "))))
}

/// Writes one line for each check.
///
/// # Errors
/// Errors of `out`.
pub(crate) fn write_checks(out: &mut impl Write, checks: &[Check]) -> io::Result<()> {
    writeln!(out, "\n  checks")?;
    for check in checks {
        let verdict = if check.ok { "ok" } else { "FAILED" };
        let Check { what, value, relation, bound, unit, .. } = check;
        let figure = format!("{} {relation} {} {unit}", figure(*value), figure(*bound));
        writeln!(out, "  {verdict:<8}{figure:<24}{what}")?;
    }
    Ok(())
}

/// A figure of a check; small and large ones have an exponent.
fn figure(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        let digits = format!("{value:.3}");
        digits.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        let rounded = format!("{value:.1e}");
        rounded.replace(".0e", "e")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_is_named_and_no_number_holds_no_bound() {
        let held = Check::below("volume", "", 1e-16, 1e-12, "");
        assert!(conclude(std::slice::from_ref(&held)).is_ok());
        let failed = [
            held,
            Check::below("rest", "", f64::NAN, 1e-10, "m/s"),
            Check::at_least("depth", "", -1e-300, 0.0, "m"),
        ];
        let Err(Failure::Check(text)) = conclude(&failed) else { panic!("two checks fail") };
        assert_eq!(text, "2 of 3 checks failed: rest, depth");
    }

    #[test]
    fn figures_are_short() {
        let shown = [0.0, -1.0, 2.024349, 1.8, 1e-12, 1.77e-16, 40.0, f64::NAN].map(figure);
        assert_eq!(shown, ["0", "-1", "2.024", "1.8", "1e-12", "1.8e-16", "40", "NaN"]);
    }
}
