//! Names of runs.

use std::{fmt, str::FromStr};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::class::Class;

/// Name of a run: controller, workload, fault class, and point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId {
    /// The controller.
    pub controller: String,
    /// The workload.
    pub workload: String,
    /// The fault class.
    pub class: Class,
    /// The point of the fault.
    pub point: String,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.controller, self.workload, self.class, self.point)
    }
}

impl FromStr for RunId {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.splitn(4, '/').map(str::to_owned);
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let mut read = || Some((part()?, part()?, part()?, part()?));
        let (controller, workload, class, point) = read()
            .with_context(|| format!("{text:?} is not the name of a run such as podset/create/F1/w1"))?;
        Ok(Self { controller, workload, class: class.parse()?, point })
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format!("{error:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_round_trips() {
        let text = "podset/scale-up/F1/w7";
        assert_eq!(text.parse::<RunId>().unwrap().to_string(), text);
        for wrong in ["", "podset", "podset/scale-up/F1", "podset/scale-up/F99/w1"] {
            assert!(wrong.parse::<RunId>().is_err(), "{wrong}");
        }
    }
}
