//! The way that the library's contestant goes: by the model, by a trial, or as it was kept in a file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use haloport::exchange::{Choice, Origin};
use haloport::{BindOptions, Communicator, Exchange, FieldSet, Pattern, Trial};

use crate::failure::Failure;
use crate::output;

/// Whether there is a trial, and where its result is kept.
#[derive(Debug, Clone, Args)]
pub(super) struct TrialArgs {
    /// Find the quickest way by a short trial among those that are left open, and show what it found
    #[arg(long)]
    trial: bool,
    /// Take what an earlier trial found from this JSON file; if it is not there, run the trial and add it. With --trial it
    /// is found anew
    #[arg(long, value_name = "FILE")]
    plan_file: Option<PathBuf>,
}

impl TrialArgs {
    /// Collective: binds fields with these and other options.
    ///
    /// # Errors
    /// [`Failure::BadInput`], on every rank, for a file that holds something else or cannot be written;
    /// [`Failure::Run`] where the fields cannot be bound.
    pub(super) fn bind<F: FieldSet>(
        &self,
        pattern: &Pattern,
        fields: F,
        mut options: BindOptions,
    ) -> Result<Exchange<F>, Failure> {
        let comm = pattern.comm();
        if self.trial || self.plan_file.is_some() {
            options = options.trial(Trial::default());
        }
        let mut kept = Vec::new();
        if let Some(path) = &self.plan_file {
            kept = on_first(comm, || read(path))?.unwrap_or_default();
            if !self.trial {
                options = options.kept(kept.iter().cloned());
            }
        }
        let exchange = pattern.bind_with(fields, options)?;
        let choice = exchange.choice();
        if let Some(path) = self.plan_file.as_ref().filter(|_| choice.origin == Origin::Trial) {
            kept.retain(|other| other.fingerprint != choice.fingerprint);
            kept.push(choice.clone());
            on_first(comm, || write(path, &kept))?;
        }
        Ok(exchange)
    }
}

/// Collective: what `call` gives on rank 0, and there alone; its complaint on every rank.
fn on_first<R>(comm: &Communicator, call: impl FnOnce() -> Result<R, String>) -> Result<Option<R>, Failure> {
    let mine = if comm.rank() == 0 { call().map(Some) } else { Ok(None) };
    let complaint = comm.broadcast(0, &mine.as_ref().err().cloned())?;
    complaint.map_or(Ok(()), |text| Err(Failure::BadInput(text)))?;
    Ok(mine.ok().flatten())
}

/// The choices in a file; none where it is not there.
fn read(path: &Path) -> Result<Vec<Choice>, String> {
    let refuse = |error: &dyn std::fmt::Display| {
        format!("--plan-file: expected a file of an earlier trial, found {}: {error}", path.display())
    };
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| refuse(&error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(refuse(&error)),
    }
}

fn write(path: &Path, choices: &[Choice]) -> Result<(), String> {
    let bytes = serde_json::to_vec_pretty(choices).map_err(|error| error.to_string())?;
    output::write(path, &bytes)
        .map_err(|error| format!("--plan-file: cannot write {}: {error}", path.display()))
}
