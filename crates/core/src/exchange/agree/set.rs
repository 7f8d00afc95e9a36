//! Sets of fields, which travel in one exchange.

use std::sync::Arc;

use super::layouts::{LayoutSet, PassedFields};
use crate::device::{Device, DeviceId};
use crate::element::Element;
use crate::exchange::options::ExchangeError;
use crate::exchange::ways::{PartFields, part_device};
use crate::field::{AnyField, BorrowedField, BoundField, Field, FieldRef};

/// The fields of one exchange: a field, or a tuple, an array or a vector of sets of fields. For a struct of fields,
/// [`field_set!`](crate::field_set) writes the implementation.
///
/// # Safety
/// The owner of the set, or of an exclusive borrow of it, has exclusive access to its fields: a set that shares a field
/// (`Rc`, `&`) must not implement this. Which fields a set has changes only through an exclusive borrow of it.
/// [`bind`](FieldSet::bind) calls `bind` of all those fields, always in the same order, and does nothing else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of fields to which the exchange has exclusive access",
    label = "neither fields nor a tuple, an array or a vector of sets of fields",
    note = "tuples have at most 8 entries: put tuples into tuples, fields of one type into a `Vec`, or fields into a struct \
            with `field_set!`",
    note = "shared fields, behind `&`, `Rc` or `Arc`, cannot be bound: pass the field itself, or `&mut`"
)]
pub unsafe trait FieldSet {
    /// Passes every field to `binder`, in a fixed order that is the same on every rank.
    fn bind(&self, binder: &mut Binder);
}

/// Visits the fields of an exchange: once to bind them, and at each start to learn their addresses, for a plan, or to
/// check that they are still the same, if they were lent for writing.
pub struct Binder {
    mode: Mode,
    /// The number of the pattern to which the next fields belong: see [`OfPattern`].
    pattern: usize,
}

enum Mode {
    /// Collects the fields by device, and their identities: numbers that differ from those of all other live fields.
    Collect { parts: Vec<PartFields>, identities: Vec<usize> },
    /// Collects the layouts by device.
    CollectLayouts(LayoutSet),
    /// Compares with identities; `count` is the number of equal ones so far, `None` after a different one.
    Compare { identities: Arc<[usize]>, count: Option<usize> },
    /// Compares with the layouts of a plan, and collects addresses.
    Pass(PassedFields),
}

impl Binder {
    fn new(mode: Mode) -> Binder {
        Binder { mode, pattern: 0 }
    }

    /// Collects the fields of `set` by device, and their identities.
    pub(crate) fn collect(set: &impl FieldSet) -> (Vec<PartFields>, Arc<[usize]>) {
        let mut binder = Binder::new(Mode::Collect { parts: Vec::new(), identities: Vec::new() });
        set.bind(&mut binder);
        let Mode::Collect { parts, identities } = binder.mode else { return Default::default() };
        (parts, identities.into())
    }

    pub(crate) fn collect_layouts(set: &impl FieldSet) -> LayoutSet {
        let mut binder = Binder::new(Mode::CollectLayouts(LayoutSet::default()));
        set.bind(&mut binder);
        let Mode::CollectLayouts(layouts) = binder.mode else { return LayoutSet::default() };
        layouts
    }

    /// Whether the fields of `set` are those with these identities. Allocates nothing.
    pub(crate) fn is_same(set: &impl FieldSet, identities: &Arc<[usize]>) -> bool {
        let expected = identities.len();
        let compare = Mode::Compare { identities: Arc::clone(identities), count: Some(0) };
        let mut binder = Binder::new(compare);
        set.bind(&mut binder);
        matches!(binder.mode, Mode::Compare { count: Some(count), .. } if count == expected)
    }

    /// Collects the fields of `set` into `passed`, for the next exchange. Allocates only if `passed` has no room yet.
    fn pass(set: &impl FieldSet, passed: &mut PassedFields) {
        passed.begin();
        let mut binder = Binder::new(Mode::Pass(std::mem::take(passed)));
        set.bind(&mut binder);
        if let Mode::Pass(filled) = binder.mode {
            *passed = filled;
        }
    }

    /// Adds a field. `field` is called unless fields are only compared.
    #[inline]
    pub(crate) fn add<'f, D: Device>(
        &mut self,
        device: &D,
        identity: usize,
        field: impl FnOnce() -> FieldRef<'f>,
    ) {
        match &mut self.mode {
            Mode::Compare { identities, count } => *count = next_if_same(identities, *count, identity),
            Mode::Pass(passed) => passed.take(device.id(), identity, &field()),
            Mode::Collect { parts, identities } => {
                let bound = BoundField { pattern: self.pattern, ..field().bound() };
                PartFields::add(parts, part_device(device), identities.len(), bound);
                identities.push(identity);
            }
            Mode::CollectLayouts(layouts) => layouts.add(device, &field(), self.pattern),
        }
    }

    /// Adds two fields: cells are read from `source`, which is on a device of its own, and arrive in `target`.
    pub(crate) fn add_pair<D: Device>(
        &mut self,
        device: &D,
        (from_device, from_identity, from): (DeviceId, usize, FieldRef<'_>),
        (identity, to): (usize, FieldRef<'_>),
    ) {
        let same_device = device.id() == from_device;
        match &mut self.mode {
            Mode::Collect { parts, identities } => {
                identities.extend([from_identity, identity]);
                let bound = to.bound_from(from, to.misfit_of(&from, same_device));
                let bound = BoundField { pattern: self.pattern, ..bound };
                PartFields::add(parts, part_device(device), identities.len() - 1, bound);
            }
            Mode::CollectLayouts(layouts) => {
                layouts.add_pair(device, (from_device, &from), &to, self.pattern);
            }
            Mode::Compare { identities, count } => {
                for identity in [from_identity, identity] {
                    *count = next_if_same(identities, *count, identity);
                }
            }
            Mode::Pass(passed) => {
                passed.take(from_device, from_identity, &from);
                passed.take(device.id(), identity, &to);
            }
        }
    }
}

/// The number of equal identities with the next one; `None` after a different one.
#[inline]
fn next_if_same(identities: &[usize], count: Option<usize>, identity: usize) -> Option<usize> {
    count.filter(|&count| identities.get(count) == Some(&identity)).map(|count| count + 1)
}

impl PassedFields {
    /// Takes the fields of the next exchange.
    ///
    /// # Errors
    /// [`ExchangeError::FieldCount`] and [`ExchangeError::FieldDiffers`].
    pub(crate) fn take_fields(&mut self, set: &impl FieldSet) -> Result<(), ExchangeError> {
        Binder::pass(set, self);
        self.end()
    }
}

/// Implements [`FieldSet`] for a struct whose named members are sets of fields.
///
/// ```
/// # use haloport::device::Device;
/// # use haloport::{Field, field_set};
/// struct Flow<D: Device> {
///     depth: Field<f64, D>,
///     velocity: [Field<f32, D>; 2],
/// }
/// field_set!(impl[D: Device] for Flow<D> { depth, velocity });
/// ```
#[macro_export]
macro_rules! field_set {
    (impl $([$($generics:tt)*])? for $set:ty { $($member:ident),+ $(,)? }) => {
        // SAFETY: the members are owned by value and are sets of fields themselves, and all are passed in order.
        unsafe impl $(<$($generics)*>)? $crate::FieldSet for $set {
            fn bind(&self, binder: &mut $crate::Binder) {
                // Not `self.member`, which would also reach shared fields through a `Deref`.
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

/// Two fields of one exchange: cells are read from `source` and arrive in the halo of `target`, for programs whose
/// arrays to send and to receive differ. The two may have different layouts; device, element type, components, levels
/// and vector components are the same. The halo of `source` and the owned cells of `target` are not touched. A
/// [redistribution](crate::Redistribution) reads the owned cells of `source`, a field of one pattern, and fills those of
/// `target`, a field of another.
///
/// ```
/// use haloport::cpu::CpuDevice;
/// use haloport::exchange::SourceTarget;
/// use haloport::{Field, Grid, Halo, Pattern, Split, run_ranks};
///
/// run_ranks(2, |comm| {
///     let grid = Grid::new([8])?.periodic([true])?;
///     let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
///     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
///     let device = CpuDevice::with_threads(1)?;
///     let mut old = Field::<f64, _>::new(&device, &pattern)?;
///     old.view_mut(0)?.fill_with(|cell, _| cell[0] as f64);
///     let new = Field::<f64, _>::new(&device, &pattern)?;
///     let mut exchange = pattern.bind(SourceTarget { source: old, target: new })?;
///     exchange.run()?;
///     let below = mine.lower()[0] - 1;
///     assert_eq!(exchange.fields().target.view(0)?[[below]], below.rem_euclid(8) as f64);
///     Ok(())
/// })?;
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
#[derive(Debug)]
pub struct SourceTarget<S, T> {
    /// The field from which cells are read.
    pub source: S,
    /// The field whose cells are filled.
    pub target: T,
}

// SAFETY: both fields are owned by value, or borrowed exclusively, and passed in order.
unsafe impl<S: OneField, T: OneField<Device = S::Device>> FieldSet for SourceTarget<S, T> {
    fn bind(&self, binder: &mut Binder) {
        let SourceTarget { source, target } = self;
        let from = (source.on().id(), source.number(), source.untyped());
        binder.add_pair(target.on(), from, (target.number(), target.untyped()));
    }
}

/// Fields of one pattern of a [`PatternSet`](crate::PatternSet), which travel in one exchange with fields of the others. Where fields
/// are passed to each start of a plan, they need not be wrapped: their order says which they are.
#[derive(Debug)]
pub struct OfPattern<F> {
    /// The number of the pattern in the set, from 0. Fields that are not wrapped are those of pattern 0.
    pub pattern: usize,
    /// The fields.
    pub fields: F,
}

// SAFETY: the fields are owned by value.
unsafe impl<F: FieldSet> FieldSet for OfPattern<F> {
    fn bind(&self, binder: &mut Binder) {
        let before = std::mem::replace(&mut binder.pattern, self.pattern);
        self.fields.bind(binder);
        binder.pattern = before;
    }
}

/// A single field, for [`SourceTarget`]: a [`Field`], an [`AnyField`] or a [`BorrowedField`], or an exclusive borrow of
/// one.
///
/// The trait is sealed.
#[allow(private_interfaces, reason = "sealed: only the fields of this crate implement it")]
pub trait OneField: FieldSet + sealed::Sealed {
    /// The type of its device.
    type Device: Device;
    #[doc(hidden)]
    fn on(&self) -> &Self::Device;
    #[doc(hidden)]
    fn number(&self) -> usize;
    #[doc(hidden)]
    fn untyped(&self) -> FieldRef<'_>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! one_field {
    ($([$($generics:tt)*] $field:ty),*) => {$(
        // SAFETY: a field has exclusive access to its storage, except for exchanges, which mark it as in flight, and for
        // other handles, whose makers promise not to use them meanwhile (`AnyField::share`). A borrowed field borrows its
        // slices exclusively.
        unsafe impl<$($generics)*> FieldSet for $field {
            fn bind(&self, binder: &mut Binder) {
                binder.add(self.device(), self.identity(), || self.as_ref());
            }
        }

        impl<$($generics)*> sealed::Sealed for $field {}
        #[allow(private_interfaces, reason = "sealed")]
        impl<$($generics)*> OneField for $field {
            type Device = D;
            fn on(&self) -> &D {
                self.device()
            }
            fn number(&self) -> usize {
                self.identity()
            }
            fn untyped(&self) -> FieldRef<'_> {
                self.as_ref()
            }
        }
    )*};
}

one_field!(
    [T: Element, D: Device] Field<T, D>,
    [D: Device] AnyField<D>,
    ['m, T: Element, D: Device] BorrowedField<'m, T, D>
);

impl<F: OneField> sealed::Sealed for &mut F {}
#[allow(private_interfaces, reason = "sealed")]
impl<F: OneField> OneField for &mut F {
    type Device = F::Device;
    fn on(&self) -> &F::Device {
        (**self).on()
    }
    fn number(&self) -> usize {
        (**self).number()
    }
    fn untyped(&self) -> FieldRef<'_> {
        (**self).untyped()
    }
}
