//! The tool's entry point.

use std::process::ExitCode;

fn main() -> ExitCode {
    ensemblectl::main()
}
