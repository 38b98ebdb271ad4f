//! How the values of a manifest are written in JSON.

/// Values that are texts.
pub(super) mod text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in super::super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Values that are texts, or missing.
pub(super) mod optional_text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "serde passes a reference")]
    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// Segments, as the names of their files.
pub(super) mod segment {
    use postgres_model::wal_file::{WalFileName, WalSegment};
    use serde::{Deserializer, de::Error};

    pub(in super::super) use super::text::serialize;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<WalSegment, D::Error> {
        match super::text::deserialize(deserializer)? {
            WalFileName::Segment(segment) => Ok(segment),
            other => Err(D::Error::custom(format!("{other} is not the name of a WAL segment"))),
        }
    }
}

/// Sizes of segments, as numbers of bytes.
pub(super) mod segment_size {
    use postgres_model::wal_file::SegmentSize;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(in super::super) fn serialize<S: Serializer>(
        size: &SegmentSize,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(size.bytes())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SegmentSize, D::Error> {
        SegmentSize::from_bytes(u64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
