//! Copies that combine what they read with what is at their targets.

use serde::{Deserialize, Serialize};

use super::CopyItem;
use crate::device::DeviceError;
use crate::element::ElementType;

/// How a value that arrives is combined with the one that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// The sum; of integers modulo 2 to the power of their bits.
    Sum,
    /// The smaller one; a NaN of either makes the result a NaN. Not of complex numbers.
    Min,
    /// The larger one; a NaN of either makes the result a NaN. Not of complex numbers.
    Max,
    /// The one that arrives, of elements of any type.
    Replace,
}

/// One entry of a list of copies that combine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CombineItem {
    /// What is read, and with what it is combined. If it changes signs, it does so before they are combined.
    pub copy: CopyItem,
    /// How the two are combined; defined for `element`.
    pub combine: Combine,
    /// The type of the elements, which are aligned at both ends as their type is.
    pub element: ElementType,
}

impl CombineItem {
    /// Checks that whole elements are combined, by an operation that they have and that is no ordinary copy.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`].
    pub fn check(&self) -> Result<(), DeviceError> {
        const WHAT: &str = "a copy that combines";
        let CombineItem { copy, combine, element } = self;
        let run_bytes = match copy {
            CopyItem::Box(copy) => copy.run_bytes(),
            CopyItem::Indexed(copy) => copy.row().run_bytes(),
        };
        if !run_bytes.is_multiple_of(element.bytes()) {
            let expected = format!("runs of whole elements of {} bytes", element.bytes());
            return Err(DeviceError::invalid(WHAT, expected, format!("{run_bytes} bytes")));
        }
        if *combine == Combine::Replace || !combine.is_defined_for(*element) {
            let expected = format!("elements that have the operation `{}`", combine.name());
            return Err(DeviceError::invalid(WHAT, expected, element));
        }
        Ok(())
    }
}

impl Combine {
    /// The name in lower case, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Combine::Sum => "sum",
            Combine::Min => "min",
            Combine::Max => "max",
            Combine::Replace => "replace",
        }
    }

    /// Whether elements of this type can be combined so.
    pub fn is_defined_for(self, element: ElementType) -> bool {
        use ElementType::{Bytes, Complex32, Complex64};
        match self {
            Combine::Sum => !matches!(element, Bytes(_)),
            Combine::Min | Combine::Max => !matches!(element, Bytes(_) | Complex32 | Complex64),
            Combine::Replace => true,
        }
    }
}
