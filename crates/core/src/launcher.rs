//! What MPI launchers tell the processes that they start, by environment variables.
//!
//! But for [`launched_by`], the functions take a lookup instead of reading the environment: MPI itself may change it.

/// The variables with the number of the job's processes on this node: by Open MPI's launcher, by that of MPICH and Intel
/// MPI, by MVAPICH2's.
pub const LOCAL_SIZES: [&str; 3] =
    ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"];

/// The variables with the size of the job: by Open MPI's launcher, by those that use PMI (MPICH, Intel MPI, `srun
/// --mpi=pmi2`, Flux), by MVAPICH2's.
pub const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];

/// The variable with the number of this process within its job, by launchers that use PMIx.
pub const PMIX_RANK: &str = "PMIX_RANK";

/// Set by Slurm for the processes of a step and for the processes that they start: also for an `mpirun` and its
/// processes.
pub const STEP_TASKS: &str = "SLURM_STEP_NUM_TASKS";

/// Steps of Slurm from this number on are batch scripts, interactive shells and the like: always one process.
const FIRST_SPECIAL_STEP: u64 = 0xffff_fff0;

/// The environment variable that shows that a launcher of MPI processes, such as `mpirun`, has started this process;
/// `None` if none is set.
///
/// A program can so run its ranks as processes or, without a launcher, as threads.
pub fn launched_by() -> Option<&'static str> {
    let set = SIZES.into_iter().chain([PMIX_RANK]).find(|name| std::env::var_os(name).is_some());
    // Slurm sets it around a single shell, too: only a number above 1 counts.
    let several = || number(|name| std::env::var(name).ok(), STEP_TASKS).is_some_and(|tasks| tasks > 1);
    set.or_else(|| several().then_some(STEP_TASKS))
}

/// The value of a variable; `None` if it is not set or is no number.
pub fn number(variable: impl Fn(&str) -> Option<String>, name: &str) -> Option<u64> {
    variable(name)?.trim().parse().ok()
}

/// The number of tasks of the Slurm step that this process is a task of.
pub fn step_tasks(variable: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let is_task = number(&variable, "SLURM_STEP_ID").is_some_and(|step| step < FIRST_SPECIAL_STEP)
        && number(&variable, "SLURM_PROCID").is_some()
        // Not a shell at a terminal, which is one of the tasks: programs are started in it by hand.
        && variable("SLURM_PTY_PORT").is_none();
    number(&variable, STEP_TASKS).filter(|_| is_task)
}

/// Whether this process is one of several of its job on this node, by the variables of its launcher. If the launcher
/// sets none of [`LOCAL_SIZES`], all processes of the job count as being on this node. In a job of one process, Slurm's
/// variables may be those of the launcher's daemons, and do not count.
pub fn several_on_node(variable: impl Fn(&str) -> Option<String>) -> bool {
    let largest = |names: [&str; 3]| names.into_iter().filter_map(|name| number(&variable, name)).max();
    let processes = largest(LOCAL_SIZES).or_else(|| largest(SIZES)).or_else(|| step_tasks(&variable));
    processes.is_some_and(|processes| processes > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_on_a_node_are_counted_by_the_nearest_variable() {
        let task = [("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4")];
        let table: [(&[(&str, &str)], bool); 15] = [
            (&[], false),
            (&[("OMPI_COMM_WORLD_LOCAL_SIZE", "2"), ("OMPI_COMM_WORLD_SIZE", "8")], true),
            (&[("MPI_LOCALNRANKS", "4"), ("PMI_SIZE", "4")], true),
            (&[("MV2_COMM_WORLD_LOCAL_SIZE", "2")], true),
            // One process on each node.
            (&[("OMPI_COMM_WORLD_LOCAL_SIZE", "1"), ("OMPI_COMM_WORLD_SIZE", "8")], false),
            (&[("MPI_LOCALNRANKS", "1"), ("PMI_SIZE", "8"), task[0], task[1], task[2]], false),
            // A job of one process within each process of another job.
            (&[("OMPI_COMM_WORLD_LOCAL_SIZE", "1"), ("MPI_LOCALNRANKS", "4")], true),
            (&[("OMPI_COMM_WORLD_SIZE", "2")], true),
            (&[("PMI_SIZE", " 3 ")], true),
            (&[("MV2_COMM_WORLD_SIZE", "1")], false),
            (&[("PMI_SIZE", "many"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "")], false),
            (&task, true),
            (&[task[0], task[1], ("SLURM_STEP_NUM_TASKS", "1")], false),
            // A shell at a terminal, and an `mpirun` of one process.
            (&[task[0], task[1], task[2], ("SLURM_PTY_PORT", "41234")], false),
            (&[task[0], task[1], task[2], ("PMI_SIZE", "1")], false),
        ];
        for (environment, expected) in table {
            let variable = |name: &str| {
                environment.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.to_string())
            };
            assert_eq!(several_on_node(variable), expected, "{environment:?}");
        }
    }
}
