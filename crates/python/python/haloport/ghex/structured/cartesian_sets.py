"""Sets of integers and of indices of cells, as ``ghex.structured.cartesian_sets``.

A set is a range (``UnitRange``), a box (``ProductSet``), or a union of either, whose parts do not overlap. Ends of ranges
may be ``math.inf``. Sets are equal if they have the same elements.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import itertools
import math
from typing import Any, Self, TypeAlias
import warnings

__all__ = [
    "CartesianSet",
    "IndexSpace",
    "IntegerSet",
    "ProductSet",
    "Set",
    "UnionCartesian",
    "UnionRange",
    "UnitRange",
    "is_integer_like",
    "union",
]

Integer: TypeAlias = int | float
"""An integer, or plus or minus infinity."""
Ends: TypeAlias = tuple[tuple[Integer, Integer], ...]
"""The ends of a box: along each axis its first index, and the one past its last."""


def is_integer_like(val: Any) -> bool:
    """Returns whether `val` is an integer, or plus or minus infinity."""
    return isinstance(val, int) or val in (math.inf, -math.inf)


class Set:
    """A set that consists of boxes."""

    def elements(self) -> Sequence[Any]:
        """Returns the ranges or boxes of the set; none of them overlap."""
        raise NotImplementedError

    def _ends(self) -> list[Ends]:
        """Returns the ends of the boxes that are not empty."""
        return [one._box() for one in self.elements() if not one.empty]

    def _of(self, boxes: Sequence[Ends], simplify: bool = False) -> Any:
        """Makes a set of the same kind from boxes that do not overlap."""
        raise NotImplementedError

    @property
    def empty(self) -> bool:
        """Whether the set has no elements."""
        return not self._ends()

    @property
    def size(self) -> Integer:
        """The number of elements."""
        return sum(math.prod(stop - start for start, stop in box) for box in self._ends())

    def union(self, *others: "Set") -> Any:
        """Returns the elements of this set and the others."""
        return union(self, *others)

    def intersect(self, other: "Set") -> Any:
        """Returns the elements that both sets have."""
        common = (_common(one, two) for one in self._ends() for two in other._ends())
        return self._of([box for box in common if box is not None])

    def without(self, *others: "Set", simplify: bool = True) -> Any:
        """Returns the elements that none of the others has."""
        rest = self._ends()
        for other in others:
            for box in other._ends():
                rest = [part for one in rest for part in _without(one, box)]
        return self._of(rest, simplify)

    def complement(self, other: "Set | None" = None, simplify: bool = True) -> Any:
        """Returns the elements of the other set, by default of all, that this one has not."""
        return (self.universe() if other is None else other).without(self, simplify=simplify)

    def universe(self) -> Any:
        """Returns the set of all elements."""
        raise NotImplementedError

    def simplify(self) -> Any:
        """Returns the same elements in fewer boxes, if some have a side in common."""
        return self._of(self._ends(), simplify=True)

    def issubset(self, arg: "Set") -> bool:
        """Returns whether the other set has all elements of this one."""
        return not self.without(arg, simplify=False)._ends()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Set) and self.issubset(other) and other.issubset(self)

    def __hash__(self) -> int:
        return hash((self.size, _bounds(self._ends())))


class IntegerSet(Set):
    """A set of integers."""

    @staticmethod
    def empty_set() -> "UnitRange":
        """Returns the range without elements."""
        return UnitRange(0, 0)

    def universe(self) -> "UnitRange":
        """Returns the range of all integers."""
        return UnitRange(-math.inf, math.inf)

    @property
    def bounds(self) -> "UnitRange":
        """The smallest range with all elements."""
        bounds = _bounds(self._ends())
        return UnitRange(*bounds[0]) if bounds else UnitRange(0, 0)

    def translate(self, arg: int) -> Any:
        """Returns the set with `arg` added to each element."""
        return self._of([((start + arg, stop + arg),) for ((start, stop),) in self._ends()])

    def __contains__(self, arg: Integer) -> bool:
        return any(start <= arg < stop for ((start, stop),) in self._ends())

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(_range(start, stop) for ((start, stop),) in self._ends())

    def _of(self, boxes: Sequence[Ends], simplify: bool = False) -> "IntegerSet":
        ranges = [UnitRange(*box[0]) for box in (_simplified(boxes) if simplify else boxes)]
        if len(ranges) > 1:
            return UnionRange(*ranges, disjoint=True)
        return ranges[0] if ranges else UnitRange(0, 0)


class UnitRange(IntegerSet):
    """The integers from `start` to below `stop`."""

    def __init__(self, start: Integer, stop: Integer) -> None:
        if stop < start:
            raise ValueError(f"UnitRange: expected a stop of {start} or above, found {stop}")
        self.start, self.stop = (start, stop) if start < stop else (0, 0)

    def elements(self) -> Sequence["UnitRange"]:
        """Returns the range itself."""
        return [self]

    @property
    def empty(self) -> bool:
        """Whether the range has no elements."""
        return self.start >= self.stop

    def extend(self, arg: int | tuple[int, int]) -> "UnitRange":
        """Returns the range with more integers below and above; an empty one stays empty."""
        low, high = (arg, arg) if isinstance(arg, int) else arg
        return self if self.empty else UnitRange(self.start - low, self.stop + high)

    def as_tuple(self) -> tuple[Integer, Integer]:
        """Returns the start and the stop."""
        return self.start, self.stop

    def __getitem__(self, arg: Any) -> Any:
        """Returns the element at a position, or the range at a slice of positions. Negative ones count from the stop."""
        if isinstance(arg, int):
            found = arg + (self.start if arg >= 0 else self.stop)
            if found not in self:
                raise IndexError(f"{self}: expected a position from {-self.size} to {self.size - 1}, found {arg}")
            return found
        if isinstance(arg, slice) and arg.step in (1, None):
            start = self.start if arg.start is None else arg.start + (self.start if arg.start >= 0 else self.stop)
            stop = self.stop if arg.stop is None else arg.stop + (self.start if arg.stop >= 0 else self.stop)
            return UnitRange(start, stop)
        raise ValueError(f"UnitRange: expected an integer or a slice of step 1, found {arg}")

    def __mul__(self, other: Set) -> Any:
        """Returns the product of the sets: the tuples of one element of each."""
        return _product(self, other)

    def __repr__(self) -> str:
        return f"UnitRange({self.start}, {self.stop})"

    def _box(self) -> Ends:
        return ((self.start, self.stop),)


class CartesianSet(Set):
    """A set of indices: tuples of integers, one for each axis."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """The number of axes. Deprecated: use ``ndim``."""
        warnings.warn("`dim` is deprecated, use `ndim` instead.", DeprecationWarning, stacklevel=2)
        return self.ndim

    @classmethod
    def from_range(cls, rng: IntegerSet) -> Any:
        """Returns the indices along one axis with these integers."""
        return _box_set([(ends,) for (ends,) in rng._ends()], 1)

    def empty_set(self) -> "ProductSet":
        """Returns the box without elements."""
        return ProductSet(*[UnitRange(0, 0)] * self.ndim)

    def universe(self) -> "ProductSet":
        """Returns the box of all indices."""
        return ProductSet(*[UnitRange(-math.inf, math.inf)] * self.ndim)

    @property
    def bounds(self) -> "ProductSet":
        """The smallest box with all elements."""
        bounds = _bounds(self._ends())
        return ProductSet(*(UnitRange(*ends) for ends in bounds)) if bounds else self.empty_set()

    def translate(self, *args: int) -> Any:
        """Returns the set moved by `args` cells along the axes."""
        moved = [tuple((start + by, stop + by) for (start, stop), by in zip(box, args)) for box in self._ends()]
        return self._of(moved)

    def __contains__(self, arg: Sequence[Integer]) -> bool:
        if len(arg) != self.ndim:
            raise ValueError(f"expected an index of {self.ndim} axes, found {arg}")
        return any(all(start <= at < stop for at, (start, stop) in zip(arg, box)) for box in self._ends())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        boxes = self._ends()
        return itertools.chain.from_iterable(itertools.product(*(_range(*ends) for ends in box)) for box in boxes)

    def _of(self, boxes: Sequence[Ends], simplify: bool = False) -> Any:
        return _box_set(_simplified(boxes) if simplify else boxes, self.ndim)


class ProductSet(CartesianSet):
    """A box: the tuples of one element of each range."""

    def __init__(self, *args: UnitRange) -> None:
        if not args or not all(isinstance(arg, UnitRange) for arg in args):
            raise ValueError(f"ProductSet: expected one UnitRange or more, found {args}")
        self.args = args

    def elements(self) -> Sequence["ProductSet"]:
        """Returns the box itself."""
        return [self]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.args)

    @property
    def bounds(self) -> "ProductSet":
        """The box itself."""
        return self

    @property
    def shape(self) -> tuple[Integer, ...]:
        """The number of cells along each axis."""
        return tuple(arg.size for arg in self.args)

    @property
    def empty(self) -> bool:
        """Whether the box has no elements."""
        return any(arg.empty for arg in self.args)

    def extend(self, *args: int | tuple[int, int]) -> "ProductSet":
        """Returns the box with more cells below and above along each axis; an empty one stays empty."""
        if self.empty:
            return self
        return ProductSet(*(one.extend(arg) for one, arg in zip(self.args, args, strict=True)))

    def translate(self, *args: int) -> "ProductSet":
        """Returns the box moved by `args` cells along the axes."""
        moved = (UnitRange(one.start + arg, one.stop + arg) for one, arg in zip(self.args, args, strict=True))
        return ProductSet(*moved)

    def as_tuple(self) -> tuple[tuple[Integer, Integer], ...]:
        """Returns the start and the stop along each axis."""
        return tuple(arg.as_tuple() for arg in self.args)

    def __getitem__(self, args: Any) -> Any:
        """Returns the index at a position along each axis, or the box at a slice of positions along each."""
        found = [one[arg] for one, arg in zip(self.args, args, strict=True)]
        return ProductSet(*found) if isinstance(args[0], slice) else tuple(found)

    def __mul__(self, other: Set) -> Any:
        """Returns the product of the sets: the indices of this one with one more axis, or more."""
        return _product(self, other)

    def __repr__(self) -> str:
        return " * ".join(map(repr, self.args))

    def _box(self) -> Ends:
        return tuple(arg.as_tuple() for arg in self.args)


class _Union(Set):
    """Two or more parts."""

    _part: type[Any]

    def __init__(self, *args: Any, disjoint: bool = False) -> None:
        if len(args) < 2 or not all(isinstance(arg, self._part) and not arg.empty for arg in args):
            raise ValueError(
                f"{type(self).__name__}: expected two {self._part.__name__} or more that are not empty, found {args}; "
                "`union` takes any sets"
            )
        self.args: Sequence[Any] = args if disjoint else _disjoint(args)
        self.disjoint = True

    def elements(self) -> Sequence[Any]:
        """Returns the parts."""
        return self.args

    def make_disjoint(self) -> Self:
        """Returns the set itself, whose parts do not overlap."""
        return self

    def __mul__(self, other: Set) -> Any:
        """Returns the product of the sets."""
        return _product(self, other)

    def __repr__(self) -> str:
        return f"union({', '.join(map(repr, self.args))})"


class UnionRange(_Union, IntegerSet):
    """A union of ranges."""

    _part = UnitRange


class UnionCartesian(_Union, CartesianSet):
    """A union of boxes."""

    _part = ProductSet

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self.args[0].ndim)


def union(*args: Set, simplify: bool = True, disjoint: bool = False) -> Any:
    """Returns the set of all elements of the sets.

    Parameters
    ----------
    *args : Set
        One or more sets of the same kind.
    simplify : bool, optional
        Whether boxes with a side in common are joined.
    disjoint : bool, optional
        Whether the caller knows that the sets do not overlap.
    """
    if not args:
        raise ValueError("union: expected one set or more, found none")
    parts = [one for arg in args for one in arg.elements() if not one.empty]
    kept = parts if disjoint else _disjoint(parts)
    return args[0]._of([one._box() for one in kept], simplify)


class IndexSpace:
    """Sets of indices with labels, one of which is ``"definition"``."""

    def __init__(self, subset: Mapping[Any, CartesianSet]) -> None:
        if "definition" not in subset:
            raise ValueError(f"IndexSpace: expected a set 'definition', found {list(subset)}")
        self.subset: dict[Any, Any] = dict(subset)

    @classmethod
    def from_sizes(cls, *shape: int) -> "IndexSpace":
        """Returns the box of all indices from 0 to below `shape`."""
        return cls({"definition": ProductSet(*(UnitRange(0, size) for size in shape))})

    def __getitem__(self, arg: Any) -> Any:
        """Returns the index or the box at these positions in the definition."""
        return self.subset["definition"][arg]

    def transform(self, transformer: Callable[[Any], CartesianSet]) -> "IndexSpace":
        """Returns the results of a function for all sets."""
        return IndexSpace({label: transformer(one) for label, one in self.subset.items()})

    def intersect(self, mask: ProductSet) -> "IndexSpace":
        """Returns what all sets have in common with `mask`; of its three axes, a line takes the last, a plane the others."""
        axes = {1: mask.args[2:], 2: mask.args[:2]}.get(self.ndim, mask.args)
        return self.transform(lambda one: one.intersect(ProductSet(*axes)))

    def translate(self, *args: int) -> "IndexSpace":
        """Returns all sets moved by `args` cells along the axes."""
        return self.transform(lambda one: one.translate(*args))

    def prune(self) -> "IndexSpace":
        """Returns the sets that are not empty, and the definition."""
        kept = {label: one.simplify() for label, one in self.subset.items()}
        return IndexSpace({label: one for label, one in kept.items() if not one.empty or label == "definition"})

    def decompose(self, parts_per_dim: Sequence[int]) -> dict[tuple[int, ...], "IndexSpace"]:
        """Splits the space into boxes.

        Parameters
        ----------
        parts_per_dim : sequence of int
            The number of parts along each axis. Parts have the same number of cells, rounded down, and the last one
            along each axis those that are left.

        Returns
        -------
        dict
            The parts by their numbers along each axis.
        """
        cuts = [
            [number * int(size / parts) for number in range(parts)] + [int(size)]
            for parts, size in zip(parts_per_dim, self.shape)
        ]
        return {
            at: self.transform(
                lambda one, at=at: one[tuple(slice(cut[k], cut[k + 1]) for cut, k in zip(cuts, at))]  # type: ignore[misc]
            )
            for at in itertools.product(*(range(parts) for parts in parts_per_dim))
        }

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self.subset["definition"].ndim)

    @property
    def dim(self) -> int:
        """The number of axes. Deprecated: use ``ndim``."""
        warnings.warn("`dim` is deprecated, use `ndim` instead.", DeprecationWarning, stacklevel=2)
        return self.ndim

    @property
    def covering(self) -> Any:
        """The union of all sets."""
        return union(*self.subset.values(), simplify=False)

    @property
    def bounds(self) -> Any:
        """The smallest box with all sets."""
        return self.covering.bounds

    @property
    def shape(self) -> tuple[Integer, ...]:
        """The number of cells of that box along each axis."""
        return tuple(one.size for one in self.bounds.args)

    @property
    def default_origin(self) -> tuple[Integer, ...]:
        """The lowest index of the definition along each axis."""
        return tuple(one.start for one in self.subset["definition"].bounds.args)

    @property
    def empty(self) -> bool:
        """Whether all sets are empty."""
        return all(one.empty for one in self.subset.values())

    def __str__(self) -> str:
        lines = [f"    {label}: {one}" for label, one in self.subset.items()]
        return "\n".join([repr(self), "  subsets:", *lines, ""])


def _common(one: Ends, two: Ends) -> Ends | None:
    """Returns the box that two boxes have in common."""
    ends = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, two, strict=True))
    return ends if all(start < stop for start, stop in ends) else None


def _without(box: Ends, hole: Ends) -> list[Ends]:
    """Returns the parts of a box outside of another one."""
    common = _common(box, hole)
    if common is None:
        return [box]
    parts = []
    for axis, ((start, stop), (first, past)) in enumerate(zip(box, common)):
        before, after = box[:axis], box[axis + 1 :]
        if start < first:
            parts.append((*before, (start, first), *after))
        if past < stop:
            parts.append((*before, (past, stop), *after))
        box = (*before, (first, past), *after)
    return parts


def _disjoint(parts: Sequence[Any]) -> list[Any]:
    """Returns boxes with the elements of the parts that do not overlap."""
    found: list[Any] = []
    for part in parts:
        found.extend(part.without(*found, simplify=False).elements() if found else [part])
    return [one for one in found if not one.empty]


def _simplified(boxes: Sequence[Ends]) -> list[Ends]:
    """Joins boxes with a side in common, until there are none."""
    found = sorted(boxes)
    joined = True
    while joined:
        joined = False
        for (i, one), (k, two) in itertools.combinations(enumerate(found), 2):
            whole = _joined(one, two)
            if whole is not None:
                found = sorted([*found[:i], whole, *found[i + 1 : k], *found[k + 1 :]])
                joined = True
                break
    return found


def _joined(one: Ends, two: Ends) -> Ends | None:
    """Returns the box of two boxes that have a side in common."""
    differ = [axis for axis, (a, b) in enumerate(zip(one, two)) if a != b]
    if len(differ) != 1:
        return None
    (axis,) = differ
    (a, b), (c, d) = one[axis], two[axis]
    if b != c and d != a:
        return None
    return (*one[:axis], (min(a, c), max(b, d)), *one[axis + 1 :])


def _bounds(boxes: Sequence[Ends]) -> Ends | None:
    """Returns the smallest box with all boxes."""
    if not boxes:
        return None
    return tuple((min(start for start, _ in ends), max(stop for _, stop in ends)) for ends in zip(*boxes))


def _box_set(boxes: Sequence[Ends], ndim: int) -> Any:
    """Makes a set of boxes that do not overlap."""
    found = [ProductSet(*(UnitRange(*ends) for ends in box)) for box in boxes]
    if len(found) > 1:
        return UnionCartesian(*found, disjoint=True)
    return found[0] if found else ProductSet(*[UnitRange(0, 0)] * ndim)


def _product(one: Set, two: Set) -> Any:
    """Returns the product of two sets."""
    if not isinstance(two, Set):
        raise ValueError(f"expected a set, found {two}")
    axes = sum(int(getattr(part, "ndim", 1)) for part in (one, two))
    return _box_set([(*a, *b) for a in one._ends() for b in two._ends()], axes)


def _range(start: Integer, stop: Integer) -> range:
    """Returns the integers of a range with finite ends."""
    if math.inf in (abs(start), abs(stop)):
        raise ValueError(f"expected a range with finite ends, found {start} to {stop}")
    return range(int(start), int(stop))
