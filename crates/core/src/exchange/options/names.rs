//! Values that are written and read by name.

/// Writes `Display` and `FromStr` for an enum without data from the name of each value. What is no name is refused with
/// those that are.
macro_rules! named {
    ($kind:ty { $($value:ident => $name:literal),+ $(,)? }) => {
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(Self::$value => $name,)+ })
            }
        }

        impl std::str::FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$value),)+
                    _ => Err(format!("expected one of {}; found `{text}`", [$($name),+].join(", "))),
                }
            }
        }
    };
}

pub(crate) use named;
