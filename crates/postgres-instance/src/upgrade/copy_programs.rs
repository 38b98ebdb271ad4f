//! Copies the programs of PostgreSQL, with what they need, to a container with another version.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::programs::folder_in_path;

/// Libraries of the C library. They fit only to the loader of the same version, so those of the other container are
/// used, which must not be older.
const C_LIBRARY: [&str; 10] = [
    "ld-",
    "libc.",
    "libdl.",
    "libm.",
    "libnsl.",
    "libpthread.",
    "libresolv.",
    "librt.",
    "libutil.",
    "linux-vdso",
];
/// What PostgreSQL needs to compile queries. It is large, and an upgrade works without it.
const COMPILER: [&str; 3] = ["bitcode", "llvmjit.so", "llvmjit_types.bc"];
/// Programs that `pg_upgrade` runs of the former version, and those that tell about its data.
const PROGRAMS: [&str; 4] = ["pg_controldata", "pg_ctl", "pg_resetwal", "postgres"];

/// Copies the programs of PostgreSQL in PATH into a folder. `bin` in it then has a command for each program.
///
/// PostgreSQL finds its files relative to its programs, so they keep their paths below the folder.
///
/// # Errors
/// Returns an error if PATH has no programs of PostgreSQL, a library is missing, or a file cannot be copied.
pub(crate) fn copy_programs(folder: &Path) -> Result<()> {
    let programs = folder_in_path()?;
    let libraries = folder_of(&programs, "--pkglibdir")?;
    let share = folder_of(&programs, "--sharedir")?;
    for tree in [&programs, &libraries, &share] {
        copy_tree(tree, &below(folder, tree))?;
    }
    let binaries = [&programs, &libraries].map(|tree| files(&below(folder, tree)));
    let binaries: Vec<_> = binaries.into_iter().collect::<Result<Vec<_>>>()?.concat();
    let needed = needed_libraries(binaries)?;
    let shared = folder.join("lib");
    fs::create_dir_all(&shared).with_context(|| format!("cannot create {}", shared.display()))?;
    for (name, path) in needed {
        copy(&path, &shared.join(name))?;
    }
    write_commands(folder, &below(folder, &programs), &shared)
}

/// Writes a command for each program, which runs it with the libraries that were copied.
fn write_commands(folder: &Path, programs: &Path, libraries: &Path) -> Result<()> {
    let commands = folder.join("bin");
    fs::create_dir_all(&commands).with_context(|| format!("cannot create {}", commands.display()))?;
    for program in PROGRAMS {
        let (command, program) = (commands.join(program), programs.join(program));
        ensure!(program.exists(), "the image has no {}", program.display());
        let script = format!(
            "#!/bin/sh\nexport LD_LIBRARY_PATH='{}'\nexec '{}' \"$@\"\n",
            libraries.display(),
            program.display()
        );
        let written = fs::write(&command, script)
            .and_then(|()| fs::set_permissions(&command, fs::Permissions::from_mode(0o755)));
        written.with_context(|| format!("cannot write {}", command.display()))?;
    }
    Ok(())
}

/// Returns a folder of this installation of PostgreSQL.
fn folder_of(programs: &Path, option: &str) -> Result<PathBuf> {
    let printed = output(Command::new(programs.join("pg_config")).arg(option))?;
    Ok(PathBuf::from(printed.trim()))
}

/// Returns the libraries that these files need by their names, apart from the C library.
fn needed_libraries(files: Vec<PathBuf>) -> Result<BTreeMap<String, PathBuf>> {
    let printed = Command::new("ldd").args(files).env("LC_ALL", "C").output();
    // Its exit code is 1 if one of the files has no libraries, as scripts have none.
    let printed = printed.context("cannot run ldd, which the image must have")?;
    let text = String::from_utf8_lossy(&printed.stdout);
    let missing: BTreeSet<_> =
        text.lines().filter(|line| line.trim_end().ends_with("=> not found")).collect();
    let missing: Vec<_> = missing.into_iter().map(str::trim).collect();
    ensure!(missing.is_empty(), "libraries are missing in the image: {}", missing.join(", "));
    Ok(text.lines().filter_map(library).collect())
}

/// Reads a line of `ldd`, such as `libz.so.1 => /lib/libz.so.1 (0x00007f)`.
fn library(line: &str) -> Option<(String, PathBuf)> {
    let (name, path) = line.trim().split_once(" => ")?;
    let (path, _) = path.rsplit_once(" (")?;
    let is_needed = path.starts_with('/') && !C_LIBRARY.iter().any(|known| name.starts_with(known));
    is_needed.then(|| (name.to_owned(), PathBuf::from(path)))
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("cannot run {}", name.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", name.display(), errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the place of an absolute path below a folder.
fn below(folder: &Path, path: &Path) -> PathBuf {
    folder.join(path.strip_prefix("/").unwrap_or(path))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot list {}", from.display()))?;
        if COMPILER.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy_tree(&path, &target)? } else { copy(&path, &target)? }
    }
    Ok(())
}

/// Copies a file. One that was copied before the container started again is replaced.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = match fs::copy(from, to) {
        // A link to nothing is not needed either.
        Err(error) if error.kind() == ErrorKind::NotFound && !from.exists() => Ok(()),
        result => result.map(drop),
    };
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Returns the files of a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let paths: io::Result<Vec<_>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let paths = paths.with_context(|| format!("cannot list {}", folder.display()))?;
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::CHILDREN;

    #[test]
    fn libraries_are_read_from_the_output_of_ldd() {
        let found = |line| library(line).map(|(name, path)| (name, path.display().to_string()));
        let zlib = "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f826b0d0000)";
        let expected = ("libz.so.1".to_owned(), "/lib/x86_64-linux-gnu/libz.so.1".to_owned());
        assert_eq!(found(zlib), Some(expected));
        for line in [
            "/usr/lib/postgresql/15/bin/postgres:",
            "\tlinux-vdso.so.1 (0x00007f826bd6e000)",
            "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f826a220000)",
            "\t/lib64/ld-linux-x86-64.so.2 (0x00007f826bd70000)",
            "\tnot a dynamic executable",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn commands_run_programs_with_the_libraries() {
        let root = tempfile::tempdir().unwrap();
        let programs = root.path().join("usr/bin");
        fs::create_dir_all(&programs).unwrap();
        for program in PROGRAMS {
            // Prints the environment.
            std::os::unix::fs::symlink("/usr/bin/env", programs.join(program)).unwrap();
        }
        write_commands(root.path(), &programs, &root.path().join("lib")).unwrap();
        let _children = CHILDREN.blocking_lock();
        let printed = output(Command::new("sh").arg(root.path().join("bin/pg_ctl"))).unwrap();
        let expected = format!("LD_LIBRARY_PATH={}", root.path().join("lib").display());
        assert!(printed.lines().any(|line| line == expected), "{printed}");
    }
}
