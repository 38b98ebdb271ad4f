//! Digests of blobs.

use std::{
    fmt::{self, Write as _},
    fs::File,
    io::{self, Read as _, Write},
    path::Path,
    str::FromStr,
};

use anyhow::{Context as _, Result, ensure};
use ring::digest::{Context, SHA256};

const PREFIX: &str = "sha256:";
/// Number of bytes that are read at once.
const BUFFER: usize = 64 << 10;

/// SHA-256 digest in the notation of registries: `sha256:` and 64 hexadecimal digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// Returns the digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        Self::finish(context)
    }

    /// Returns the digest of a file's content.
    pub(crate) fn of_file(path: &Path) -> Result<Self> {
        let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let mut context = Context::new(&SHA256);
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = file.read(&mut buffer).with_context(|| format!("read {}", path.display()))?;
            if count == 0 {
                return Ok(Self::finish(context));
            }
            context.update(buffer.get(..count).unwrap_or_default());
        }
    }

    /// Returns the hexadecimal digits.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or_default()
    }

    fn finish(context: Context) -> Self {
        Self(context.finish().as_ref().iter().fold(PREFIX.to_owned(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.strip_prefix(PREFIX).unwrap_or_default();
        let is_digest =
            digits.len() == 64 && digits.chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f'));
        ensure!(is_digest, "a digest consists of sha256: and 64 hexadecimal digits in lower case");
        Ok(Self(text.to_owned()))
    }
}

/// Writer that computes the digest and the size of what it passes on.
pub(crate) struct DigestWriter<W> {
    inner: W,
    context: Context,
    size: u64,
}

impl<W: Write> DigestWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, context: Context::new(&SHA256), size: 0 }
    }

    /// Flushes the writer, and returns the digest and the size.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        self.inner.flush()?;
        Ok((Digest::finish(self.context), self.size))
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.context.update(bytes.get(..count).unwrap_or_default());
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_empty_content_is_known() {
        let expected = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), expected);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Digest::of_file(file.path()).unwrap().to_string(), expected);
    }

    #[test]
    fn parses_only_complete_digests_in_lower_case() {
        let digest = Digest::of(b"a").to_string();
        assert_eq!(digest.parse::<Digest>().unwrap().to_string(), digest);
        let traversal = format!("sha256:{}", "../".repeat(21) + "a");
        for wrong in ["", "latest", "sha256:0a", &digest.to_uppercase(), &format!("{digest}0"), &traversal] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn writer_computes_digest_and_size() {
        let mut writer = DigestWriter::new(Vec::new());
        writer.write_all(b"ab").unwrap();
        writer.write_all(b"c").unwrap();
        assert_eq!(writer.finish().unwrap(), (Digest::of(b"abc"), 3));
    }
}
