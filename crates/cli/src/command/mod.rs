//! Shared by all commands: ranks, limits, memory, values of options, names of files, failures, log lines and output.

pub(crate) mod device;
pub(crate) mod endings;
pub(crate) mod environment;
pub(crate) mod failure;
pub(crate) mod launch;
pub(crate) mod logs;
pub(crate) mod memory;
pub(crate) mod output;
pub(crate) mod print;
pub(crate) mod text;
pub(crate) mod time_limits;
pub(crate) mod values;
pub(crate) mod wrap;
