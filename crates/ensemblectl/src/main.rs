//! Entry point of `ensemblectl`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ensemblectl::main()
}
