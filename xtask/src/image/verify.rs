//! `cargo xtask image --verify`: compares an image with a build of this commit.

use std::{fs, str::FromStr};

use anyhow::{Context, Result, bail, ensure};

use super::{build_archive, packages::Packages, platform::Platform, toolchain::toolchain};

/// Digest of an image in the notation of registries.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Digest(String);

impl FromStr for Digest {
    type Err = anyhow::Error;

    /// Parses a digest, alone or at the end of an image reference.
    fn from_str(text: &str) -> Result<Self> {
        let digest = text.rsplit('@').next().unwrap_or(text);
        let digits = digest.strip_prefix("sha256:").unwrap_or_default();
        let is_digest =
            digits.len() == 64 && digits.chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f'));
        ensure!(is_digest, "a digest consists of sha256: and 64 hexadecimal digits in lower case");
        Ok(Self(digest.to_owned()))
    }
}

/// Builds the image in a new folder, and compares its digest.
///
/// # Errors
/// Returns an error if the digest differs, or if the build fails.
pub(super) fn run(Digest(expected): &Digest, builds: &[(Platform, Packages)]) -> Result<()> {
    let target = builds.iter().map(|(_, packages)| &packages.target_folder).next();
    let target = target.context("no platform is selected")?;
    fs::create_dir_all(target).with_context(|| format!("cannot create {}", target.display()))?;
    let folder = tempfile::Builder::new()
        .prefix("verify-")
        .tempdir_in(target)
        .context("cannot create a temporary folder")?;
    let built = build_archive(builds, Some(folder.path()))?.digest;
    if built == *expected {
        println!("verified: this commit builds {built}");
        return Ok(());
    }
    let toolchains = builds.iter().map(|(platform, _)| toolchain(*platform)).collect::<Result<Vec<_>>>()?;
    bail!(difference(expected, &built, &toolchains))
}

fn difference(expected: &str, built: &str, toolchains: &[String]) -> String {
    format!(
        "the image differs from the build of this commit:\n  expected {expected}\n  built    {built}\n\
         Possible causes are another commit, changed files, other platforms (--platform), or another toolchain. \
         If you exclude them, do not trust the image. Its history contains its toolchain (skopeo inspect --config). \
         The toolchain of this machine is:\n  {}",
        toolchains.join("\n  ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_digest_alone_or_in_reference() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(digest.parse::<Digest>().unwrap().0, digest);
        assert_eq!(format!("registry.example.com/ensemble@{digest}").parse::<Digest>().unwrap().0, digest);
        for wrong in
            ["", "ensemble:0.1.0", "sha256:0a", &digest.to_uppercase(), &digest.replace("sha256", "sha512")]
        {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn difference_has_digests_and_toolchain() {
        let text = difference("sha256:expected", "sha256:built", &["rustc 1.0".to_owned()]);
        for part in ["sha256:expected", "sha256:built", "rustc 1.0"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
