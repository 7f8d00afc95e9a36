//! Starting ranks: as threads of this process or, under an MPI launcher, as the processes that it has started.

use clap::Args;
use haloport::comm::MOST_RANKS;
pub(crate) use haloport::comm::launched_by;
use haloport::{Communicator, run_ranks};

use crate::command::failure::Failure;
use crate::command::time_limits::WaitingArgs;

/// `--ranks` and the limits of waiting, for every command that runs on ranks.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct RankArgs {
    #[arg(long, value_name = "R", value_parser = rank_count, allow_negative_numbers = true, help = ranks_help())]
    ranks: Option<usize>,
    #[command(flatten)]
    waiting: WaitingArgs,
}

/// The help of `--ranks`.
fn ranks_help() -> String {
    format!(
        "Number of ranks, each a thread of this process, at most {MOST_RANKS} [default: the cores of the machine]. Under \
         mpirun, the launcher sets the number"
    )
}

/// Reads a number of ranks.
pub(crate) fn rank_count(text: &str) -> Result<usize, String> {
    let count = text.trim().parse().ok().filter(|count| (1..=MOST_RANKS).contains(count));
    count.ok_or_else(|| format!("expected 1 to {MOST_RANKS} ranks; found `{text}`"))
}

impl RankArgs {
    /// The number of ranks in the arguments, to be checked before any rank is started.
    pub(crate) fn asked(&self) -> Option<usize> {
        self.ranks
    }

    /// Returns the same choice, with `ranks` ranks unless the arguments or a launcher set the number.
    pub(crate) fn or(self, ranks: usize) -> RankArgs {
        if launched_by().is_some() { self } else { RankArgs { ranks: self.ranks.or(Some(ranks)), ..self } }
    }

    /// The number of ranks to start in this process.
    ///
    /// # Errors
    /// [`Failure::BadInput`] under a launcher of MPI processes.
    fn in_process(&self) -> Result<usize, Failure> {
        if let (Some(variable), false) = (launched_by(), cfg!(feature = "mpi")) {
            return Err(Failure::BadInput(format!(
                "this process was started by an MPI launcher ({variable} is set), but this build lacks the feature \
                 `mpi`: build with `--features mpi`, or start it without the launcher and give `--ranks`"
            )));
        }
        Ok(self.ranks.unwrap_or_else(cores))
    }
}

/// Runs `body` on every rank and returns the result of rank 0; `None` in a process that has no rank 0.
///
/// # Errors
/// As for [`RankArgs::in_process`], and the failure of the rank that failed first.
pub(crate) fn on_ranks<T, F>(choice: &RankArgs, body: F) -> Result<Option<T>, Failure>
where
    T: Send,
    F: Fn(Communicator) -> Result<T, Failure> + Sync,
{
    #[cfg(feature = "mpi")]
    if launched_by().is_some() {
        return on_processes(choice, body);
    }
    let ranks = choice.in_process()?;
    let cores = cores();
    tracing::info!(ranks, cores, "starting ranks as threads of this process");
    if ranks > cores {
        tracing::warn!(
            ranks,
            cores,
            "there are more ranks than cores: they take turns, and times say little"
        );
    }
    let body = |comm: Communicator| {
        choice.waiting.apply(&comm);
        Ok(body(comm)?)
    };
    Ok(run_ranks(ranks, body)?.into_iter().next())
}

/// Runs `body` on the one rank of this process. If any rank fails, all processes end with its exit code.
#[cfg(feature = "mpi")]
fn on_processes<T>(
    choice: &RankArgs,
    body: impl FnOnce(Communicator) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    haloport::mpi::install_abort_hook();
    let session = haloport::mpi::initialize()?;
    let comm = session.world()?;
    choice.waiting.apply(&comm);
    let (rank, size) = (comm.rank(), comm.size());
    let ended = match choice.ranks {
        Some(ranks) if ranks != size => Err(Failure::BadInput(format!(
            "--ranks: expected {size}, as many as the launcher started, or no --ranks at all, found {ranks}"
        ))),
        _ => body(comm),
    };
    match ended {
        Ok(value) => Ok((rank == 0).then_some(value)),
        Err(failure) => {
            // If all ranks fail alike, rank 0 reports for all and ends the job before the others report.
            std::thread::sleep(std::time::Duration::from_millis(if rank == 0 { 0 } else { 500 }));
            session.abort(failure.tell())
        }
    }
}

/// The number of ranks of `comm` in this process.
pub(crate) fn ranks_here(comm: &Communicator) -> usize {
    if comm.info().name == "mpi" { 1 } else { comm.size() }
}

/// The number of cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
