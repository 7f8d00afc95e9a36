"""Patterns, communication objects and handles of exchanges, for structured grids and for meshes."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from haloport._haloport import BLOCK, DEFAULT, Device, Grid, Mesh
from haloport._layouts import Indices, InFlight, LaidOutPlan, Way
from haloport.ghex.util import Architecture
from haloport.typing import StreamLike

F = TypeVar("F", bound="FieldDescriptor")


class FieldDescriptor:
    """An array, and the domain to which it belongs.

    Attributes
    ----------
    domain_id : int
        The domain.
    array : array
        The array.
    arch : Architecture
        Where its memory is.
    """

    def __init__(self, domain_id: int, array: Any, arch: Architecture) -> None:
        self.domain_id = domain_id
        self.array = array
        self.arch = arch


class BufferInfo:
    """A field descriptor together with its pattern: what an exchange takes.

    Attributes
    ----------
    array : array
        The cells of the domain and of its halo.
    kind : tuple
        What all ranks have in common for this field.
    key : tuple
        `kind`, and what they have not: the domain, the shape and the strides.
    """

    __slots__ = ("array", "arch", "domain", "key", "kind", "pattern")

    def __init__(self, pattern: "PatternContainer[Any]", domain: int, array: Any, arch: Architecture) -> None:
        self.pattern = pattern
        self.domain = domain
        self.array = array
        self.arch = arch
        self.kind = (arch, array.dtype, pattern.kind_of(array))
        self.key = (pattern, domain, arch.value, array.dtype, array.shape, array.strides)


class PatternContainer(Generic[F]):
    """The patterns of the domains of a rank.

    Parameters
    ----------
    domains : Grid or Mesh
        Where the cells of the halos come from.
    ids : sequence of int
        The id of each domain of this rank.
    halos : sequence of sequences of indices
        For each domain, the elements of its arrays that an exchange fills.
    cells : callable
        Returns the cells of a field, given its descriptor and the number of its domain on this rank.
    grid_type : str
        The name of the type of the grid in GHEX.
    """

    domain_id_type = "int"

    def __init__(
        self,
        domains: Grid | Mesh,
        ids: Sequence[int],
        halos: Sequence[Sequence[Indices]],
        cells: Callable[[F, int], Any],
        grid_type: str,
    ) -> None:
        if not ids:
            raise NotImplementedError("make_pattern: haloport.ghex needs at least one domain on each rank, found none")
        self.grid_type = grid_type
        self.halos = halos
        self.domain_count = len(ids)
        self._domains = domains
        self._numbers = {id_: number for number, id_ in enumerate(ids)}
        self._cells = cells
        if len(self._numbers) < len(ids):
            raise ValueError(f"make_pattern: expected domains with different ids, found {list(ids)}")

    def __call__(self, field: F) -> BufferInfo:
        """Joins a field with the pattern of its domain."""
        number = self._numbers.get(field.domain_id)
        if number is None:
            raise RuntimeError(
                f"field incompatible with available domains! It belongs to the domain {field.domain_id}, the pattern has "
                f"{list(self._numbers)}"
            )
        return BufferInfo(self, number, self._cells(field, number), field.arch)

    def kind_of(self, array: Any) -> tuple[int, ...]:
        """Returns what all ranks have in common of the shape of an array: the levels of a field on a mesh."""
        return tuple(array.shape[1:]) if isinstance(self._domains, Mesh) else ()

    def plan(self, fields: Sequence[Any]) -> LaidOutPlan:
        """Makes a plan for fields. Collective."""
        return LaidOutPlan(self._domains.plan(*fields), fields, self.halos)


class _Part:
    """The fields of one pattern in an exchange."""

    def __init__(self, way: Way, order: list[Any]) -> None:
        self._way = way
        self._order = order

    def start(self, infos: Sequence[BufferInfo], stream: StreamLike) -> InFlight:
        return self._way.start(*_fields(infos, self._order), stream=stream)


class CommunicationObject:
    """Exchanges the halos of fields."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._plans: dict[tuple[Any, ...], LaidOutPlan] = {}
        self._parts: dict[tuple[Any, ...], list[_Part]] = {}
        self._scheduled: Handle | None = None

    def exchange(self, *patterns: Any) -> "Handle":
        """Starts an exchange. The data is sent at once: a GPU has finished its work on the fields.

        Parameters
        ----------
        *patterns : BufferInfo, or one sequence of them
            The results of calling patterns with field descriptors.

        Returns
        -------
        Handle
            Call its ``wait`` before the halos are used.
        """
        return self._start(patterns, BLOCK)

    def schedule_exchange(self, stream: StreamLike, *patterns: Any, **named: Any) -> "Handle":
        """Starts an exchange, as ``exchange``, once the work is done that was put into `stream` before.

        Parameters
        ----------
        stream : stream or None
            ``None`` is the default stream.
        *patterns
            As for ``exchange``; a sequence also by the name ``patterns``.
        """
        return self._start((*patterns, *named.values()), DEFAULT if stream is None else stream)

    def has_scheduled_exchange(self) -> bool:
        """Returns whether an exchange ends on a stream, and its handle's ``wait`` was not called."""
        return self._scheduled is not None

    def __repr__(self) -> str:
        return f"<ghex.{self._name}>"

    def _start(self, patterns: tuple[Any, ...], stream: StreamLike) -> "Handle":
        infos = patterns
        if len(patterns) == 1 and not isinstance(patterns[0], BufferInfo):
            infos = patterns[0]
        try:
            key = tuple([info.key for info in infos])
        except (AttributeError, TypeError):
            raise TypeError(
                f"exchange: expected what patterns return for field descriptors, or one list of that, found {patterns}"
            ) from None
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = self._find(infos)
        self._scheduled = None
        return Handle([part.start(infos, stream) for part in parts], infos, self)

    def _find(self, infos: Sequence[BufferInfo]) -> list[_Part]:
        """Finds the way for the fields of each pattern. Collective if their kind is new."""
        positions: dict[PatternContainer[Any], list[list[int]]] = {}
        for position, info in enumerate(infos):
            of_domains = positions.setdefault(info.pattern, [[] for _ in range(info.pattern.domain_count)])
            of_domains[info.domain].append(position)
        parts = []
        for pattern, of_domains in positions.items():
            counts = [len(of_domain) for of_domain in of_domains]
            if len(set(counts)) > 1:
                raise NotImplementedError(
                    f"exchange: haloport.ghex takes as many fields of each domain of a rank, found {counts}"
                )
            kinds = [[infos[position].kind for position in of_domain] for of_domain in of_domains]
            if any(of_domain != kinds[0] for of_domain in kinds):
                raise ValueError(
                    f"exchange: expected fields of the same types and levels in each domain of a rank, found {kinds}"
                )
            order: list[Any] = of_domains[0] if len(of_domains) == 1 else [list(one) for one in zip(*of_domains)]
            fields = _fields(infos, order)
            kind = (pattern, *kinds[0])
            plan = self._plans.get(kind)
            if plan is None:
                plan = self._plans[kind] = pattern.plan(fields)
            parts.append(_Part(plan.way(fields), order))
        return parts


class Handle:
    """An exchange in flight. If it is dropped, the exchange is finished first."""

    def __init__(self, pending: list[InFlight], infos: Sequence[BufferInfo], made_by: CommunicationObject) -> None:
        self._pending = pending
        self._infos = infos
        self._made_by = made_by

    def wait(self) -> None:
        """Waits until the halos are in place, for the host and for all streams; further calls do nothing."""
        self._finish(BLOCK)
        if self._made_by._scheduled is self:
            self._made_by._scheduled = None
            for number in {info.array.device.id for info in self._infos if info.arch is Architecture.GPU}:
                Device(f"cuda:{number}").synchronize()

    def schedule_wait(self, stream: StreamLike) -> None:
        """Ends the exchange on a stream: work that is put into it afterwards waits for the halos.

        Parameters
        ----------
        stream : stream or None
            ``None`` is the default stream. For arrays on the host, the call waits for them.
        """
        self._finish(DEFAULT if stream is None else stream)
        self._made_by._scheduled = self

    def is_ready(self) -> bool:
        """Makes progress, and returns whether ``wait`` would return without waiting for a neighbour."""
        return all([pending.is_ready() for pending in self._pending])

    def progress(self) -> None:
        """Makes progress."""
        self.is_ready()

    def _finish(self, stream: StreamLike) -> None:
        pending, self._pending = self._pending, []
        for one in pending:
            one.finish(stream)


def _fields(infos: Sequence[BufferInfo], order: list[Any]) -> list[Any]:
    """Returns the arrays in this order; of several domains, a list of arrays for each field."""
    return [
        [infos[one].array for one in position] if isinstance(position, list) else infos[position].array
        for position in order
    ]
