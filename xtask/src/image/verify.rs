//! `cargo xtask image --verify`: compares an image with a build of this commit.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use images::Digest;

use super::{Profile, build_archive, packages::Packages, platform::Platform, toolchain::toolchain};

/// Parses a digest, alone or at the end of an image reference.
pub(super) fn parse_digest(text: &str) -> Result<Digest> {
    text.rsplit('@').next().unwrap_or(text).parse()
}

/// Builds the image in a new folder, and compares its digest.
///
/// # Errors
/// Returns an error if the digest differs, or if the build fails.
pub(super) fn run(
    expected: &Digest,
    builds: &[(Platform, [Packages; 3])],
    recorded: Option<&Path>,
) -> Result<()> {
    let target = builds.iter().map(|(_, [packages, ..])| &packages.target_folder).next();
    let target = target.context("no platform is selected")?;
    fs::create_dir_all(target).with_context(|| format!("cannot create {}", target.display()))?;
    let folder = tempfile::Builder::new()
        .prefix("verify-")
        .tempdir_in(target)
        .context("cannot create a temporary folder")?;
    let built = build_archive(builds, Profile::Release, recorded, Some(folder.path()))?.digest;
    if built == *expected {
        println!("verified: this commit builds {built}");
        return Ok(());
    }
    let toolchains: Vec<_> =
        builds.iter().map(|(platform, _)| toolchain(*platform, recorded)).collect::<Result<_>>()?;
    bail!(difference(expected, &built, &toolchains))
}

fn difference(expected: &Digest, built: &Digest, toolchains: &[String]) -> String {
    format!(
        "the image differs from the build of this commit:\n  expected {expected}\n  built    {built}\n\
         Possible causes are another commit, changed files, other platforms (--platform), another toolchain, or \
         another profile (--profile). \
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
        assert_eq!(parse_digest(&digest).unwrap().to_string(), digest);
        let reference = format!("registry.example.com/ensemble@{digest}");
        assert_eq!(parse_digest(&reference).unwrap().to_string(), digest);
        for wrong in
            ["", "ensemble:0.1.0", "sha256:0a", &digest.to_uppercase(), &digest.replace("sha256", "sha512")]
        {
            assert!(parse_digest(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn difference_has_digests_and_toolchain() {
        let (expected, built) = (Digest::of(b"expected"), Digest::of(b"built"));
        let text = difference(&expected, &built, &["rustc 1.0".to_owned()]);
        for part in [expected.to_string(), built.to_string(), "rustc 1.0".to_owned()] {
            assert!(text.contains(&part), "{text}");
        }
    }
}
