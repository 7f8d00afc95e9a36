//! The job that the launcher of this process describes, compared with the ranks that MPI has found.
//!
//! Under the launcher of another MPI, a program would run as n jobs of one rank, all doing the same work.

use haloport_core::TransportError;
use haloport_core::launcher::{PMIX_RANK, SIZES, STEP_TASKS, number, step_tasks};

/// The job according to the environment of the process. MPI itself may change the environment.
#[derive(Debug, Default)]
pub(crate) struct Launchers {
    sizes: [Option<u64>; SIZES.len()],
    /// The number of tasks of the Slurm step that this process is a task of.
    step_tasks: Option<u64>,
    /// The number of this process within its job.
    pmix_rank: Option<u64>,
}

impl Launchers {
    /// Reads the environment through `variable`. A value that is no number counts as not set.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Launchers {
        Launchers {
            sizes: SIZES.map(|name| number(&variable, name)),
            step_tasks: step_tasks(&variable),
            pmix_rank: number(&variable, PMIX_RANK),
        }
    }

    /// Whether a launcher has started several processes, by its variables.
    pub(crate) fn say_several(&self) -> bool {
        self.sizes.into_iter().chain([self.step_tasks]).flatten().any(|size| size > 1)
    }

    /// Compares the variables with the number of ranks that MPI has found.
    ///
    /// Several ranks have found each other through their launcher, so other variables come from an outer job. One rank
    /// is a job of its own if the launcher of its MPI says so, or if no variable says that there are more.
    ///
    /// # Errors
    /// [`TransportError::WrongLauncher`].
    pub(crate) fn check(&self, ranks: usize, library: &str) -> Result<(), TransportError> {
        if ranks > 1 {
            return Ok(());
        }
        let is_open_mpi = library.starts_with("Open MPI");
        let sizes = || SIZES.into_iter().zip(self.sizes).filter_map(|(name, size)| Some((name, size?)));
        if sizes().any(|(name, size)| size == 1 && is_open_mpi == (name == SIZES[0])) {
            return Ok(());
        }
        let more = match sizes().find(|(_, size)| *size > 1) {
            Some(more) => Some(more),
            // Below an `mpirun` of one process, the variables of Slurm and PMIx may be those of its daemons.
            None if sizes().next().is_some() => None,
            None => {
                let several = self.step_tasks.filter(|tasks| *tasks > 1).map(|tasks| (STEP_TASKS, tasks));
                several.or(self.pmix_rank.filter(|rank| *rank > 0).map(|rank| (PMIX_RANK, rank)))
            }
        };
        more.map_or(Ok(()), |(variable, value)| {
            let library = library.split(',').next().unwrap_or(library).to_string();
            Err(TransportError::WrongLauncher { library, ranks, variable, value })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_MPI: &str = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
    const MPICH: &str = "MPICH Version: 4.0.2";

    /// The variable in the error, or `None` if there is no error.
    fn refusal(ranks: usize, library: &str, environment: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            environment.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.to_string())
        };
        match Launchers::read(variable).check(ranks, library) {
            Ok(()) => None,
            Err(TransportError::WrongLauncher { variable, value, .. }) => Some(format!("{variable}={value}")),
            Err(other) => Some(other.to_string()),
        }
    }

    fn refused(library: &str, environment: &[(&str, &str)], by: &str) {
        assert_eq!(refusal(1, library, environment).as_deref(), Some(by), "{library}, {environment:?}");
    }

    fn healthy(ranks: usize, library: &str, environment: &[(&str, &str)]) {
        assert_eq!(refusal(ranks, library, environment), None, "{ranks} ranks, {library}, {environment:?}");
    }

    #[test]
    fn programs_under_the_launcher_of_another_mpi_are_refused() {
        let open_mpi = [("OMPI_COMM_WORLD_SIZE", "3"), ("PMIX_RANK", "0")];
        refused(MPICH, &open_mpi, "OMPI_COMM_WORLD_SIZE=3");
        refused(OPEN_MPI, &[("PMI_SIZE", "3"), ("PMI_RANK", "0")], "PMI_SIZE=3");
        refused(OPEN_MPI, &[("MV2_COMM_WORLD_SIZE", "2")], "MV2_COMM_WORLD_SIZE=2");
        // The launcher of another installation of the same MPI.
        refused(OPEN_MPI, &open_mpi, "OMPI_COMM_WORLD_SIZE=3");
        refused(MPICH, &[("PMI_SIZE", "4")], "PMI_SIZE=4");
        // The launcher of another MPI under one of one process.
        refused(
            MPICH,
            &[("OMPI_COMM_WORLD_SIZE", "3"), ("SLURM_STEP_NUM_TASKS", "1")],
            "OMPI_COMM_WORLD_SIZE=3",
        );
    }

    #[test]
    fn programs_under_srun_that_do_not_find_each_other_are_refused() {
        let task = |rank| [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", rank)];
        refused(OPEN_MPI, &task("0"), "SLURM_STEP_NUM_TASKS=4");
        refused(MPICH, &task("3"), "SLURM_STEP_NUM_TASKS=4");
        let pmi2 = [&task("0")[..], &[("PMI_SIZE", "4")]].concat();
        refused(OPEN_MPI, &pmi2, "PMI_SIZE=4");
        let pmix = [&task("0")[..], &[("PMIX_RANK", "0")]].concat();
        refused(MPICH, &pmix, "SLURM_STEP_NUM_TASKS=4");
        // A launcher that sets only the number of the process.
        refused(MPICH, &[("PMIX_RANK", "2")], "PMIX_RANK=2");
    }

    #[test]
    fn jobs_that_found_each_other_run_whatever_outer_jobs_say() {
        healthy(3, OPEN_MPI, &[("OMPI_COMM_WORLD_SIZE", "3"), ("PMIX_RANK", "2")]);
        healthy(3, MPICH, &[("PMI_SIZE", "3")]);
        healthy(2, MPICH, &[("PMI_SIZE", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "3")]);
        healthy(2, OPEN_MPI, &[("PMI_SIZE", "4"), ("OMPI_COMM_WORLD_SIZE", "2")]);
        // Spawned jobs, whose variables may be those of the job that spawned them.
        healthy(2, MPICH, &[("PMI_SIZE", "3")]);
    }

    #[test]
    fn programs_that_are_meant_to_run_alone_do() {
        healthy(1, OPEN_MPI, &[]);
        healthy(1, MPICH, &[("OMPI_COMM_WORLD_SIZE", "many"), ("PMI_SIZE", "")]);
        healthy(1, OPEN_MPI, &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")]);
        healthy(1, MPICH, &[("PMI_SIZE", "1")]);
        // One process under any launcher.
        healthy(1, MPICH, &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMIX_RANK", "0")]);
        healthy(1, OPEN_MPI, &[("PMI_SIZE", "1")]);
        // An `mpirun` of one process within a larger job of another MPI.
        healthy(1, OPEN_MPI, &[("OMPI_COMM_WORLD_SIZE", "1"), ("PMI_SIZE", "4")]);
        healthy(1, MPICH, &[("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "3"), ("PMI_SIZE", "1")]);
    }

    #[test]
    fn an_allocation_of_slurm_is_no_step() {
        // A script of sbatch, a shell of salloc.
        let batch = [("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "17")];
        healthy(1, OPEN_MPI, &batch);
        healthy(1, MPICH, &[&batch[..], &[("SLURM_STEP_ID", "4294967291")]].concat());
        let shell = [("SLURM_STEP_ID", "4294967290"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "0")];
        healthy(1, MPICH, &shell);
        let at_terminal = [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "0")];
        healthy(1, MPICH, &[&at_terminal[..], &[("SLURM_PTY_PORT", "41234")]].concat());
        healthy(1, OPEN_MPI, &[("SLURM_STEP_NUM_TASKS", "4")]);
        healthy(1, OPEN_MPI, &[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")]);
        // An `mpirun` in an allocation, which starts its daemons by srun, one on each node.
        let daemons = [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")];
        healthy(1, OPEN_MPI, &[&daemons[..], &[("OMPI_COMM_WORLD_SIZE", "1")]].concat());
        healthy(1, MPICH, &[&daemons[..], &[("PMI_SIZE", "1")]].concat());
        healthy(8, MPICH, &[&daemons[..], &[("PMI_SIZE", "8")]].concat());
    }
}
