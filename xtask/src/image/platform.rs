//! Platforms of images.

use std::{
    env::consts::{ARCH, OS},
    path::PathBuf,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use object::Architecture;

use super::toolchain::first_line;

/// Platform in the notation of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Platform {
    #[value(name = "linux/amd64")]
    Amd64,
    #[value(name = "linux/arm64")]
    Arm64,
}

impl Platform {
    /// Returns the platform of this machine.
    ///
    /// # Errors
    /// Returns an error if images for this machine's architecture are not supported.
    pub(super) fn host() -> Result<Self> {
        let all = Self::value_variants().iter();
        let host = all.copied().find(|platform| platform.is_host());
        host.with_context(|| {
            format!("images for {ARCH} are not supported; choose a platform with --platform")
        })
    }

    /// Returns whether this is the platform of this machine.
    pub(super) fn is_host(self) -> bool {
        self.machine() == ARCH
    }

    pub(super) fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the target of cargo.
    ///
    /// It is passed to cargo even for this machine, so that its flags do not apply to build scripts
    /// and procedural macros, which cannot be static.
    pub(super) fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.machine())
    }

    /// Returns the C compiler, which is also the linker.
    pub(super) fn compiler(self) -> String {
        if self.is_host() { "cc".to_owned() } else { format!("{}-linux-gnu-gcc", self.machine()) }
    }

    pub(super) fn object_architecture(self) -> Architecture {
        match self {
            Self::Amd64 => Architecture::X86_64,
            Self::Arm64 => Architecture::Aarch64,
        }
    }

    /// Checks that this machine can build programs for the platform.
    ///
    /// # Errors
    /// Returns an error that says what to install.
    pub(super) fn check(self) -> Result<()> {
        ensure!(OS == "linux", "cannot build images on {OS}; use Linux");
        let target = self.target();
        let libraries =
            first_line(Command::new("rustc").args(["--print=target-libdir", "--target", &target]))?;
        ensure!(
            PathBuf::from(libraries).is_dir(),
            "the Rust standard library for {target} is not installed; run `rustup target add {target}`"
        );
        let compiler = self.compiler();
        first_line(Command::new(&compiler).arg("--version")).map(drop).with_context(|| {
            format!(
                "the C compiler for linux/{}, {compiler}, is not installed; on Debian and Ubuntu, run `apt-get install {}`",
                self.architecture(),
                self.packages()
            )
        })
    }

    /// Returns the Debian packages of the compiler and the C library.
    fn packages(self) -> String {
        if self.is_host() {
            return "gcc libc6-dev".to_owned();
        }
        let machine = self.machine().replace('_', "-");
        format!("gcc-{machine}-linux-gnu libc6-dev-{}-cross", self.architecture())
    }

    /// Returns the architecture in the notation of Rust.
    fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// Returns the environment variables with which cargo uses the platform's compiler.
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
    fn other_platforms_use_cross_compilers() {
        let host = Platform::host().unwrap();
        host.check().unwrap();
        assert_eq!(host.compiler(), "cc");
        for platform in Platform::value_variants().iter().filter(|platform| **platform != host) {
            let compiler = platform.compiler();
            assert!(platform.target().starts_with(compiler.strip_suffix("-linux-gnu-gcc").unwrap()));
            assert!(platform.packages().contains(platform.architecture()), "{}", platform.packages());
            let set = variables(*platform);
            assert!(set.iter().all(|(name, value)| *value == compiler && !name.contains('-')), "{set:?}");
        }
    }
}
