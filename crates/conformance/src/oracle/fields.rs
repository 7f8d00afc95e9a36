//! Fields of any element type, in memory of their own and in memory that is lent.

use haloport_core::device::Device;
use haloport_core::{BlockLayout, BorrowedField, Element, Field};

use super::values::{compare, for_each_cell, image, untouched, value};
use super::{CaseField, Oracle};
use crate::Failure;

pub(super) struct Owned<'m, O, T, D: Device> {
    pub(super) number: usize,
    pub(super) oracle: &'m O,
    pub(super) field: Field<T, D>,
}

pub(super) struct Borrowed<'m, O, T, D> {
    pub(super) number: usize,
    pub(super) oracle: &'m O,
    pub(super) field: BorrowedField<'m, T, D>,
    pub(super) layouts: Vec<BlockLayout>,
}

haloport_core::field_set!(impl['m, O, T: Element, D: Device] for Owned<'m, O, T, D> { field });
haloport_core::field_set!(impl['m, O, T: Element, D: Device] for Borrowed<'m, O, T, D> { field });

impl<O: Oracle, T: Element, D: Device> CaseField for Owned<'_, O, T, D> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        for domain in 0..self.field.domains() {
            let image = image(self.oracle, self.number, round, domain, self.field.layout(domain)?, false);
            self.field.copy_from(domain, &image)?;
        }
        Ok(())
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        for domain in 0..self.field.domains() {
            let layout = self.field.layout(domain)?;
            let expected = image::<T>(self.oracle, self.number, round, domain, layout, after);
            compare(&self.field.to_vec(domain)?, &expected, self.number, domain, layout)?;
        }
        Ok(())
    }
}

impl<O: Oracle, T: Element, D: Device> CaseField for Borrowed<'_, O, T, D> {
    fn prepare(&mut self, round: u64) -> Result<(), Failure> {
        let seed = self.oracle.seed(self.number, round);
        for (domain, layout) in self.layouts.iter().enumerate() {
            self.field.view_mut(domain)?.fill_with(|cell, component| {
                let name = self.oracle.name(domain, layout, cell, false);
                name.map_or_else(untouched, |name| value(seed, &name, component))
            });
        }
        Ok(())
    }

    fn verify(&self, round: u64, after: bool) -> Result<(), Failure> {
        for (domain, layout) in self.layouts.iter().enumerate() {
            let view = self.field.view(domain)?;
            let expected = image::<T>(self.oracle, self.number, round, domain, layout, after);
            let mut found = vec![untouched::<T>(); expected.len()];
            for_each_cell(&layout.allocated(), |cell| {
                for component in 0..layout.components() {
                    if let (Some(offset), Some(value)) =
                        (layout.offset(cell, component), view.component(cell, component))
                    {
                        found[offset as usize] = value;
                    }
                }
            });
            compare(&found, &expected, self.number, domain, layout)?;
        }
        Ok(())
    }
}
