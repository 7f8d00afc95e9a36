//! Launchers of MPI processes, by the variables that they set.

/// Variables that launchers set for the processes that they start.
const LAUNCHED: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE"];

/// As [`LAUNCHED`], but its launcher sets it around a single shell, too: only a number above 1 counts.
const LAUNCHED_SEVERAL: &str = "SLURM_STEP_NUM_TASKS";

/// The environment variable that shows that a launcher of MPI processes, such as `mpirun`, has started this process;
/// `None` if none is set.
///
/// A program can so run its ranks as processes or, without a launcher, as threads.
pub fn launched_by() -> Option<&'static str> {
    let several =
        std::env::var(LAUNCHED_SEVERAL).ok().and_then(|tasks| tasks.parse().ok()).is_some_and(|n: u64| n > 1);
    let set = LAUNCHED.into_iter().find(|variable| std::env::var_os(variable).is_some());
    set.or(several.then_some(LAUNCHED_SEVERAL))
}
