//! The types of devices.

use std::fmt;
use std::str::FromStr;

/// The types of devices, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Gpu,
    Accelerator,
    Cpu,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Gpu => "gpu",
            Kind::Accelerator => "accelerator",
            Kind::Cpu => "cpu",
        })
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Kind, ()> {
        match text {
            "gpu" => Ok(Kind::Gpu),
            "accelerator" | "acc" => Ok(Kind::Accelerator),
            "cpu" => Ok(Kind::Cpu),
            _ => Err(()),
        }
    }
}
