//! Sets of fields that travel in one exchange.

use std::any::Any;
use std::sync::Arc;

use super::owned::Storage;
use super::{BlockLayout, VectorAxes};
use crate::device::{Device, MAX_COPY_AXES, Pointer};
use crate::element::ElementType;
use crate::exchange::{PartBuilder, PartFields};

/// The fields of one exchange: a field, or a tuple, an array or a vector of sets of fields. For a struct of fields,
/// [`field_set!`](crate::field_set) writes the implementation.
///
/// # Safety
/// Whoever owns the set, or borrows it exclusively, has exclusive access to its fields: a set that shares a field
/// with anybody else (`Rc`, `&`) must not implement this. [`bind`](FieldSet::bind) does nothing but call `bind` of
/// those fields, all of them, in an order that is always the same.
pub unsafe trait FieldSet {
    /// Shows every field to `binder`, in a fixed order that is the same on every rank.
    fn bind(&self, binder: &mut Binder);
}

/// Sees the fields of an exchange: once to bind them, and at each start to be sure that they are still the same.
pub struct Binder {
    purpose: Purpose,
    /// What the fields are compared with: what tells each from any other that is alive.
    identities: Arc<[usize]>,
    found: Vec<usize>,
}

enum Purpose {
    /// Collects the fields by device.
    Collect(Vec<Box<dyn PartBuilder>>),
    /// Compares; how many were right so far, `None` after one that was not.
    Compare(Option<usize>),
}

/// A field as the exchange sees it: untyped blocks.
#[derive(Debug, Clone)]
pub(crate) struct BoundField {
    pub(crate) element: ElementType,
    /// Of the element's Rust type, in bytes.
    pub(crate) alignment: usize,
    pub(crate) vector: VectorAxes,
    /// Set for memory that lives as long as this; `None` for memory that `start` and `finish` alone may touch.
    pub(crate) storage: Option<Arc<Storage>>,
    /// For each domain the address of the first element, and the layout.
    pub(crate) blocks: Vec<(Pointer, BlockLayout)>,
}

impl BoundField {
    /// The axes from the slowest to the fastest in memory, as in its largest block.
    pub(crate) fn memory_order(&self) -> [u8; MAX_COPY_AXES] {
        let largest = self.blocks.iter().max_by_key(|(_, layout)| layout.allocated().cells());
        largest.map_or(std::array::from_fn(|axis| axis as u8), |(_, layout)| layout.memory_order())
    }
}

impl Binder {
    /// The fields of `set` by device, and what tells them from others.
    pub(crate) fn collect(set: &impl FieldSet) -> (Vec<Box<dyn PartBuilder>>, Arc<[usize]>) {
        let mut binder =
            Binder { purpose: Purpose::Collect(Vec::new()), identities: Arc::default(), found: Vec::new() };
        set.bind(&mut binder);
        match binder.purpose {
            Purpose::Collect(parts) => (parts, binder.found.into()),
            Purpose::Compare(_) => (Vec::new(), binder.found.into()),
        }
    }

    /// Whether the fields of `set` are the ones that `identities` came from. Allocates nothing.
    pub(crate) fn is_same(set: &impl FieldSet, identities: &Arc<[usize]>) -> bool {
        let identities = Arc::clone(identities);
        let mut binder = Binder { purpose: Purpose::Compare(Some(0)), identities, found: Vec::new() };
        set.bind(&mut binder);
        matches!(binder.purpose, Purpose::Compare(Some(count)) if count == binder.identities.len())
    }

    pub(crate) fn add<D: Device>(&mut self, device: &D, identity: usize, field: &dyn Fn() -> BoundField) {
        match &mut self.purpose {
            Purpose::Compare(count) => {
                *count = count.filter(|&count| self.identities.get(count) == Some(&identity)).map(|n| n + 1);
            }
            Purpose::Collect(parts) => {
                let entry = (self.found.len(), field());
                self.found.push(identity);
                let known = parts.iter_mut().find_map(|part| {
                    let part: &mut dyn Any = &mut **part;
                    part.downcast_mut::<PartFields<D>>().filter(|part| part.device.id() == device.id())
                });
                match known {
                    Some(part) => part.fields.push(entry),
                    None => parts.push(Box::new(PartFields { device: device.clone(), fields: vec![entry] })),
                }
            }
        }
    }
}

/// Implements [`FieldSet`] for a struct whose named members are sets of fields.
///
/// ```
/// # use haloport_core::{Field, device::Device, field_set};
/// struct Flow<D: Device> {
///     depth: Field<f64, D>,
///     velocity: [Field<f32, D>; 2],
/// }
/// field_set!(impl[D: Device] for Flow<D> { depth, velocity });
/// ```
#[macro_export]
macro_rules! field_set {
    (impl $([$($generics:tt)*])? for $set:ty { $($member:ident),+ $(,)? }) => {
        // SAFETY: the members are owned by value and are sets of fields themselves, and all are shown in order.
        unsafe impl $(<$($generics)*>)? $crate::FieldSet for $set {
            fn bind(&self, binder: &mut $crate::Binder) {
                // Not `self.member`, which would also reach through a `Deref` to what somebody else shares.
                let Self { $($member,)+ .. } = self;
                $($crate::FieldSet::bind($member, binder);)+
            }
        }
    };
}

// SAFETY: the fields are owned by value.
unsafe impl<F: FieldSet, const N: usize> FieldSet for [F; N] {
    fn bind(&self, binder: &mut Binder) {
        self.iter().for_each(|field| field.bind(binder));
    }
}

// SAFETY: the fields are owned by value.
unsafe impl<F: FieldSet> FieldSet for Vec<F> {
    fn bind(&self, binder: &mut Binder) {
        self.iter().for_each(|field| field.bind(binder));
    }
}

// SAFETY: the fields are owned by value.
unsafe impl<F: FieldSet + ?Sized> FieldSet for Box<F> {
    fn bind(&self, binder: &mut Binder) {
        (**self).bind(binder);
    }
}

// SAFETY: the fields are borrowed exclusively for as long as the reference lives.
unsafe impl<F: FieldSet + ?Sized> FieldSet for &mut F {
    fn bind(&self, binder: &mut Binder) {
        (**self).bind(binder);
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        // SAFETY: the fields are owned by value.
        unsafe impl<$($name: FieldSet),+> FieldSet for ($($name,)+) {
            #[allow(non_snake_case, reason = "each variable is named as its type")]
            fn bind(&self, binder: &mut Binder) {
                let ($($name,)+) = self;
                $($name.bind(binder);)+
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
