//! The `haloport` command: see `haloport_cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    haloport_cli::main()
}
