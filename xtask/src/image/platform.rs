//! The machines that images are made for.

use std::{
    env::consts::{ARCH, OS},
    path::PathBuf,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use object::Architecture;

use super::toolchain::said;

/// A machine, as images name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Platform {
    #[value(name = "linux/amd64")]
    Amd64,
    #[value(name = "linux/arm64")]
    Arm64,
}

impl Platform {
    /// This machine.
    ///
    /// # Errors
    /// When no images are made for machines like this one.
    pub(super) fn here() -> Result<Self> {
        let all = Self::value_variants().iter();
        let here = all.copied().find(|platform| platform.machine() == ARCH);
        here.with_context(|| format!("no image is made for {ARCH}; choose a machine by --platform"))
    }

    pub(super) fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As cargo names it. It is named to cargo even where it is this machine: so build scripts and procedural macros,
    /// which cannot be static, are built as ever.
    pub(super) fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.machine())
    }

    /// The program that compiles what is written in C, and links.
    pub(super) fn compiler(self) -> String {
        if self.machine() == ARCH { "cc".to_owned() } else { format!("{}-linux-gnu-gcc", self.machine()) }
    }

    pub(super) fn object_architecture(self) -> Architecture {
        match self {
            Self::Amd64 => Architecture::X86_64,
            Self::Arm64 => Architecture::Aarch64,
        }
    }

    /// Whether programs for it can be built here.
    ///
    /// # Errors
    /// Say what to install.
    pub(super) fn check(self) -> Result<()> {
        ensure!(OS == "linux", "an image is built on Linux; this is {OS}");
        let target = self.target();
        let libraries = said(Command::new("rustc").args(["--print=target-libdir", "--target", &target]))?;
        ensure!(
            PathBuf::from(libraries).is_dir(),
            "Rust's standard library for {target} is not installed; run: rustup target add {target}"
        );
        let compiler = self.compiler();
        said(Command::new(&compiler).arg("--version")).map(drop).with_context(|| {
            format!(
                "there is no C compiler for linux/{}, {compiler}; on Debian and Ubuntu: apt-get install {}",
                self.architecture(),
                self.packages()
            )
        })
    }

    /// What Debian calls the compiler and the C library.
    fn packages(self) -> String {
        if self.machine() == ARCH {
            return "gcc libc6-dev".to_owned();
        }
        let machine = self.machine().replace('_', "-");
        format!("gcc-{machine}-linux-gnu libc6-dev-{}-cross", self.architecture())
    }

    /// As Rust names it.
    fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// The variables that make cargo use the compiler of another machine.
pub(super) fn variables(platform: Platform) -> Vec<(String, String)> {
    let (target, compiler) = (platform.target().replace('-', "_"), platform.compiler());
    vec![
        (format!("CARGO_TARGET_{}_LINKER", target.to_uppercase()), compiler.clone()),
        (format!("CC_{target}"), compiler),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_has_a_compiler_of_its_own_and_this_one_has_the_usual() {
        let here = Platform::here().unwrap();
        here.check().unwrap();
        assert_eq!(here.compiler(), "cc");
        for platform in Platform::value_variants().iter().filter(|platform| **platform != here) {
            let compiler = platform.compiler();
            assert!(platform.target().starts_with(compiler.strip_suffix("-linux-gnu-gcc").unwrap()));
            assert!(platform.packages().contains(platform.architecture()), "{}", platform.packages());
            let set = variables(*platform);
            assert!(set.iter().all(|(name, value)| *value == compiler && !name.contains('-')), "{set:?}");
        }
    }
}
