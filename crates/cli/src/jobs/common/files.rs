//! Fields in files: the options `--save` and `--restart`.

use std::path::PathBuf;

use clap::Args;

use crate::command::failure::Failure;
use crate::command::values::at_least;

/// Where fields are saved, and where they come from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FileArgs {
    /// Folder for the fields: every 10 simulated minutes (tsunami), after each quarter of the run (advection). Format: Zarr 3,
    /// which xarray opens. There is nothing of that name yet
    #[arg(long, value_name = "F.zarr")]
    pub(crate) save: Option<PathBuf>,
    /// Go on from the last fields of an earlier `--save`, which ranks in any number have written
    #[arg(long, value_name = "F.zarr")]
    pub(crate) restart: Option<PathBuf>,
    /// Ranks that write `--save` and read `--restart`, each of which holds its share of the fields; the files are the same
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least::<usize, 1>, allow_negative_numbers = true)]
    pub(crate) writers: usize,
}

impl FileArgs {
    /// Whether fields are saved or read.
    pub(crate) fn any(&self) -> bool {
        self.save.is_some() || self.restart.is_some()
    }

    /// Checks that there is nothing of the name `--save`, so that no earlier run is overwritten.
    ///
    /// # Errors
    /// [`Failure::BadInput`].
    pub(crate) fn check_new(&self) -> Result<(), Failure> {
        match &self.save {
            Some(path) if path.symlink_metadata().is_ok() => Err(Failure::BadInput(format!(
                "--save: expected a name of which there is no file or folder yet, found {}",
                path.display()
            ))),
            _ => Ok(()),
        }
    }
}
