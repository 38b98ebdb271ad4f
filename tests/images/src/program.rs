//! Static programs, compiled from C.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// Flags of the C compiler.
pub(crate) const C_FLAGS: [&str; 3] = ["-static", "-Os", "-s"];

/// Compiles a C source in a directory for temporary files, and returns the path of the program.
///
/// # Errors
/// Returns an error with the compiler's output, or if there is no compiler.
pub(crate) fn compile_c(source: &str, work: &Path) -> Result<PathBuf> {
    let (input, program) = (work.join("program.c"), work.join("program"));
    fs::write(&input, source).with_context(|| format!("write {}", input.display()))?;
    let mut compiler = Command::new("cc");
    compiler.args(C_FLAGS).arg("-o").arg(&program).arg(&input);
    run(&mut compiler, "install a C compiler and a static C library, on Debian gcc and libc6-dev")?;
    Ok(program)
}

/// Runs a command to its end, and returns its standard output.
///
/// # Errors
/// Returns an error with the command's output and the remedy if the command fails.
pub(crate) fn run(command: &mut Command, remedy: &str) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("run {name}; {remedy}"))?;
    if !output.status.success() {
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("{name} failed with {}; {remedy}:\n{stdout}{stderr}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_output_and_remedy() {
        let script = "echo out; echo cause >&2; exit 3";
        let error = run(Command::new("sh").args(["-c", script]), "do this").unwrap_err().to_string();
        assert!(error.contains("cause") && error.contains("do this") && error.contains('3'), "{error}");
        let error = run(&mut Command::new("/nonexistent"), "install it").unwrap_err().to_string();
        assert!(error.contains("/nonexistent; install it"), "{error}");
    }
}
