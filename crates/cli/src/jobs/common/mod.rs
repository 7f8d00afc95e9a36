//! Shared by the jobs: inputs, parts of meshes, checks, speed, progress, fields in files, the output folder.

pub(crate) mod checks;
pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod inputs;
pub(crate) mod parts;
pub(crate) mod performance;
pub(crate) mod progress;
