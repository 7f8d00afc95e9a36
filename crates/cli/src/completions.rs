//! `haloport completions`: the completion script of a shell.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::command::failure::Failure;
use crate::command::print::to_stdout;

const EXAMPLES: &str = "\
Examples:
  source <(haloport completions bash)
  haloport completions zsh > ~/.zfunc/_haloport
  haloport completions fish > ~/.config/fish/completions/haloport.fish";

/// Arguments of `haloport completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script for `command`.
///
/// # Errors
/// [`Failure::Run`] if stdout cannot be written.
pub(crate) fn run(args: &CompletionsArgs, command: &mut Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(args.shell, command, "haloport", &mut script);
    to_stdout(|out| out.write_all(&script))
}
