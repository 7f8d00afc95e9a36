//! The folder of a job's results.

use std::path::{Path, PathBuf};

use haloport::Communicator;

use crate::command::failure::Failure;
use crate::command::output;

/// A folder that rank 0 can write to.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Collective: makes the folder and checks that rank 0 can write to it.
    ///
    /// # Errors
    /// [`Failure::BadInput`], on every rank, if rank 0 cannot.
    pub(crate) fn agree(comm: &Communicator, path: &Path) -> Result<Folder, Failure> {
        let complaint = if comm.rank() == 0 { try_out(path).err() } else { None };
        match comm.broadcast(0, &complaint)? {
            None => Ok(Folder(path.to_owned())),
            Some(complaint) => Err(Failure::BadInput(complaint)),
        }
    }

    /// Writes a file, complete or not at all.
    ///
    /// # Errors
    /// [`Failure::Run`].
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.0.join(name);
        output::write(&path, bytes)
            .map_err(|error| Failure::Run(format!("cannot write {}: {error}", path.display())))?;
        Ok(path)
    }
}

/// Makes the folder, and creates and deletes a file there.
fn try_out(path: &Path) -> Result<(), String> {
    let refuse = |error: std::io::Error| {
        format!("--out: expected a folder that can be written to, found {}: {error}", path.display())
    };
    std::fs::create_dir_all(path).map_err(refuse)?;
    output::new_file(path).map(drop).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        haloport::run_ranks(2, |comm| {
            let folder = Folder::agree(&comm, &path)?;
            if comm.rank() == 0 {
                folder.write("one", b"first")?;
                folder.write("one", b"second")?;
                assert!(folder.write("no/such/folder", b"").is_err());
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(std::fs::read(path.join("one")).unwrap(), b"second");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        assert!(try_out(&path.join("one")).unwrap_err().starts_with("--out: expected a folder"));
    }
}
