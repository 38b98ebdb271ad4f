//! `cargo xtask image --verify`: whether an image is what this commit makes.

use std::{fs, str::FromStr};

use anyhow::{Context, Result, bail, ensure};

use super::{make, packages::Packages, platform::Platform, toolchain::toolchain};

/// The digest of an image, as registries write it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Digest(String);

impl FromStr for Digest {
    type Err = anyhow::Error;

    /// Takes a whole reference to an image, too.
    fn from_str(text: &str) -> Result<Self> {
        let digest = text.rsplit('@').next().unwrap_or(text);
        let digits = digest.strip_prefix("sha256:").unwrap_or_default();
        let is_digest =
            digits.len() == 64 && digits.chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f'));
        ensure!(is_digest, "a digest is sha256: and 64 hexadecimal digits");
        Ok(Self(digest.to_owned()))
    }
}

/// Builds all of it anew in a folder of its own, and compares.
///
/// # Errors
/// When it is another image, or does not build.
pub(super) fn run(Digest(wanted): &Digest, builds: &[(Platform, Packages)]) -> Result<()> {
    let target = builds.iter().map(|(_, packages)| &packages.target_folder).next();
    let target = target.context("nothing is built")?;
    fs::create_dir_all(target).with_context(|| format!("cannot make {}", target.display()))?;
    let folder =
        tempfile::Builder::new().prefix("verify-").tempdir_in(target).context("cannot make a folder")?;
    let made = make(builds, Some(folder.path()))?.digest;
    if made == *wanted {
        println!("{made} is what this commit makes");
        return Ok(());
    }
    let here = builds.iter().map(|(platform, _)| toolchain(*platform)).collect::<Result<Vec<_>>>()?;
    bail!(difference(wanted, &made, &here))
}

fn difference(wanted: &str, made: &str, here: &[String]) -> String {
    format!(
        "the image is not what is built here:\n  asked for {wanted}\n  built     {made}\nIt was made from another commit or from \
         changed files, for other machines (--platform), with another toolchain, or is not what it says. The toolchain \
         that it was made with is in its history (skopeo inspect --config); here it is:\n  {}",
        here.join("\n  ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_taken_alone_or_at_the_end_of_a_reference() {
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
    fn a_difference_names_both_digests_and_the_toolchain() {
        let said = difference("sha256:asked", "sha256:made", &["rustc 1.0".to_owned()]);
        for part in ["sha256:asked", "sha256:made", "rustc 1.0"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
