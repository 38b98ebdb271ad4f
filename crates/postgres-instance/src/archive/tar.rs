//! Headers of the files in a tar stream.

/// Bytes of a block: that of a header, and what the content of a file is padded to.
pub(super) const BLOCK: usize = 512;

/// Returns the name of a file by its header.
pub(super) fn name(header: &[u8]) -> &[u8] {
    let field = header.get(..100).unwrap_or_default();
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the bytes of a file by its header: octal digits, or a binary number if it has too many.
pub(super) fn size(header: &[u8]) -> Option<u64> {
    let field = header.get(124..136)?;
    if let [0x80, binary @ ..] = field {
        let (zeros, number) = binary.split_at_checked(3)?;
        let number = number.try_into().ok().filter(|_| zeros.iter().all(|byte| *byte == 0));
        return number.map(u64::from_be_bytes);
    }
    let digits = str::from_utf8(field).ok()?.trim_matches([' ', '\0']);
    u64::from_str_radix(digits, 8).ok()
}

/// Returns a file with its header.
#[cfg(test)]
pub(super) fn entry(name: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_name_and_size() {
        let mut header = entry("base/1/1259", b"abc");
        assert_eq!((name(&header), size(&header)), (&b"base/1/1259"[..], Some(3)));
        header[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]);
        assert_eq!(size(&header), Some((2 << 32) + 1));
        header[125] = 1;
        assert_eq!(size(&header), None);
        header[124..136].copy_from_slice(b"not a number");
        assert_eq!(size(&header), None);
        assert_eq!((name(b""), size(b"")), (&b""[..], None));
    }
}
