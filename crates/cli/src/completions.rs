//! `haloport completions`: what a shell needs to complete the command's arguments.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::Cli;
use crate::failure::Failure;
use crate::print::to_stdout;

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

/// Prints the script.
///
/// # Errors
/// [`Failure::Run`] where stdout cannot be written.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "haloport", &mut script);
    to_stdout(|out| out.write_all(&script))
}
