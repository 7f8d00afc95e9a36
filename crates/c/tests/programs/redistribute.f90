! From rows to columns, to one rank and back with the halo, and a mesh; exact sums of arrays; halos that are accumulated: on 1 to 3 ranks,
! which are threads.
module redistribute_of_rank
  use, intrinsic :: iso_c_binding, only: c_bool, c_f_pointer, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  use haloport
  implicit none
  private
  public :: participant, participate

  integer, parameter :: nx = 7, ny = 5, levels = 3

  type :: participant
    type(hp_comm) :: comm
    integer :: number = 0, ranks = 1, failures = 0
  end type

  ! The cells of a rank in the order of its arrays: the rank that owns each, or -1 less that rank for a cell of the halo.
  type :: part
    integer, allocatable :: ids(:), owners(:)
  end type

contains

  recursive function participate(argument) bind(c) result(nothing)
    type(c_ptr), value :: argument
    type(c_ptr) :: nothing
    type(participant), pointer :: me
    nothing = c_null_ptr
    call c_f_pointer(argument, me)
    call grids(me)
    call mesh(me)
    call domains_of_a_mesh(me)
    call domains(me)
    call wrong(me)
    call numbered(me)
    call sums(me)
    call masks(me)
    call reproducible_sums(me)
    call accumulated(me)
  end function

  ! The value of a cell.
  elemental real(real64) function value(i, j, k)
    integer, intent(in) :: i, j, k
    value = 1000*k + 10*i + j
  end function

  ! Whether all values are those that are expected.
  recursive logical function same(found, expected)
    real(real64), intent(in) :: found(:, :), expected(:, :)
    same = .not. any(abs(found - expected) > 0)
  end function

  recursive subroutine grids(me)
    type(participant), intent(inout) :: me
    type(hp_pattern) :: rows, columns, whole, to_columns, gather, scatter
    type(hp_plan) :: transpose, collect, spread
    real(real64), allocatable :: u(:, :, :), t(:, :, :), all(:, :, :), back(:, :)
    real(real64), allocatable :: plane(:, :), t_plane(:, :)
    integer :: low(2), high(2), first(2), last(2), i, j, k, end(2)
    call hp_pattern_create(rows, me%comm, [nx, ny], halo=[0], parts=[me%ranks, 1])
    call hp_pattern_create(columns, me%comm, [nx, ny], halo=[0], parts=[1, me%ranks])
    ! Rank 0 has all cells.
    end = merge([nx, ny], [0, 0], me%number == 0)
    call hp_pattern_create(whole, me%comm, [nx, ny], halo=[0], lower=[1, 1], upper=end)
    call rows%owned(low, high)
    call columns%owned(first, last)

    call hp_pattern_create(to_columns, rows, columns)
    allocate (u(low(1):high(1), low(2):high(2), levels), t(levels, first(2):last(2), first(1):last(1)))
    allocate (plane(low(1):high(1), low(2):high(2)), t_plane(first(1):last(1), first(2):last(2)))
    do k = 1, levels
      do j = low(2), high(2)
        do i = low(1), high(1)
          u(i, j, k) = value(i, j, k)
        end do
      end do
    end do
    plane = u(:, :, 2)
    t = -1; t_plane = -1
    call hp_plan_create(transpose, to_columns, u, t, plane, t_plane, axes='x y levels; levels y x; x y; x y')
    call transpose%start(u, t, plane, t_plane)
    call transpose%finish(u, t, plane, t_plane)
    do k = 1, levels
      do j = first(2), last(2)
        do i = first(1), last(1)
          call check(me, abs(t(k, j, i) - value(i, j, k)) <= 0, 'a transposed cell')
          call check(me, abs(t_plane(i, j) - value(i, j, 2)) <= 0, 'a cell of a plane')
        end do
      end do
    end do

    call hp_pattern_create(gather, columns, whole)
    allocate (all(levels, end(2), end(1)))
    all = -1
    call hp_plan_create(collect, gather, t, all, axes='levels y x', fixed=.true.)
    call collect%update(t, all)
    do i = 1, end(1)
      do j = 1, end(2)
        call check(me, same(all(:, j:j, i), reshape(value(i, j, [1, 2, 3]), [levels, 1])), 'a cell on one rank')
      end do
    end do
    call collect%free(); call gather%free(); call transpose%free(); call rows%free()

    ! Back, into an array with its halo.
    call hp_pattern_create(rows, me%comm, [nx, ny], halo=[1], parts=[me%ranks, 1])
    call rows%with_halo(low, high)
    allocate (back(low(1):high(1), low(2):high(2)))
    back = -1
    call hp_pattern_create(scatter, columns, rows, fill_halo=.true.)
    call hp_plan_create(spread, scatter, t_plane, back)
    call spread%update(t_plane, back)
    do j = low(2), high(2)
      do i = low(1), high(1)
        if (i >= 1 .and. i <= nx .and. j >= 1 .and. j <= ny) then
          call check(me, abs(back(i, j) - value(i, j, 2)) <= 0, 'a cell with the halo')
        else
          call check(me, back(i, j) < 0, 'a cell beyond the grid')
        end if
      end do
    end do
    call spread%free(); call scatter%free(); call rows%free(); call columns%free(); call whole%free()
    call to_columns%free()
  end subroutine

  ! Two cells of each rank come to the last rank, in the other order.
  recursive subroutine mesh(me)
    type(participant), intent(inout) :: me
    type(hp_pattern) :: parts, whole, gather
    type(hp_plan) :: plan
    real(real32) :: here(2)
    real(real32), allocatable :: there(:)
    integer :: i, last
    last = merge(2*me%ranks, 0, me%number == me%ranks - 1)
    call hp_pattern_create(parts, me%comm, [2*me%number + 1, 2*me%number + 2], [.true., .true.])
    call hp_pattern_create(whole, me%comm, [(i, i=last, 1, -1)], [(.true., i=1, last)])
    call hp_pattern_create(gather, parts, whole)
    allocate (there(last))
    there = -1
    here = [2*me%number + 1, 2*me%number + 2]
    call hp_plan_create(plan, gather, here, there)
    call plan%update(here, there)
    do i = 1, last
      call check(me, abs(there(i) - real(last + 1 - i, real32)) <= 0, 'a cell of a mesh on one rank')
    end do
    call plan%free(); call gather%free(); call whole%free(); call parts%free()
  end subroutine

  ! A ring of cells, of which each rank but the last of three has two domains; the halo comes first in each.
  recursive subroutine domains_of_a_mesh(me)
    type(participant), intent(inout) :: me
    integer, parameter :: each = 3
    type(hp_pattern) :: ring, none
    type(hp_plan) :: plan
    real(real64) :: u(0:each + 1, 2), w(0:each + 1, 2)
    integer, allocatable :: ids(:), owners(:), counts(:), low(:, :), high(:, :)
    logical, allocatable :: owned(:)
    integer :: parts, cells, domain, i, stat
    character(300) :: text
    parts = min(me%ranks, 2)
    cells = 2*each*parts
    allocate (ids(0), owners(0), counts(0), owned(0))
    u = -1; w = -1
    if (me%number < parts) then
      do domain = 1, 2
        ids = [ids, modulo([(2*each*me%number + each*(domain - 1) + i, i=0, each + 1)] - 1, cells) + 1]
        owned = [owned, .false., spread(.true., 1, each), .false.]
      end do
      counts = [each + 2, each + 2]
      owners = (ids - 1)/(2*each)
      u = merge(reshape(real(ids, real64), shape(u)), -1.0_real64, reshape(owned, shape(u)))
      w = 10*u
    end if
    call hp_pattern_create(ring, me%comm, ids, owned, owners, counts)
    if (me%number < parts) then
      call hp_plan_create(plan, ring, u(:, 1), u(:, 2), w(:, 1), w(:, 2))
      call plan%update(u(:, 1), u(:, 2), w(:, 1), w(:, 2))
      call check(me, all(nint(u) == reshape(ids, shape(u))) .and. all(nint(w) == 10*reshape(ids, shape(w))), 'domains of a mesh')
    else
      call hp_plan_create(plan, ring, u(:, 1), w(:, 1))
      call plan%update(u(:, 1), w(:, 1))
      call check(me, all(nint(u) == -1), 'no domain of a mesh')
    end if
    call ring%boundary(low, high, stat=stat, errmsg=text)
    call check(me, stat == hp_argument .and. size(low) == 0 .and. size(high) == 0, 'the boundary of a mesh')
    if (me%number < parts) call check(me, index(text, 'found one of a mesh') > 0, 'a text: '//trim(text))
    if (me%number >= parts) call check(me, index(text, 'expected a rank with domains') > 0, 'a text: '//trim(text))
    call plan%free(); call ring%free()
    if (me%number == 0) counts(2) = each
    call hp_pattern_create(none, me%comm, ids, owned, owners, counts, stat, text)
    call check(me, stat == merge(hp_argument, hp_refused, me%number == 0), 'domains that do not add up: '//trim(text))
    if (me%number == 0) call check(me, index(text, 'ids: expected this number of values: 8, found 10') > 0, 'a text: '//trim(text))
    if (me%number == 0) counts = [2*each + 5, -1]
    call hp_pattern_create(none, me%comm, ids, owned, owners, counts, stat, text)
    call check(me, stat == merge(hp_argument, hp_refused, me%number == 0), 'a negative number of cells: '//trim(text))
    if (me%number == 0) call check(me, index(text, 'counts: expected numbers from 0, found -1') > 0, 'a text: '//trim(text))
  end subroutine

  ! Two ranks have two strips each, or one has all four; a third rank has none. Strips are exchanged, and come to rank 0.
  recursive subroutine domains(me)
    type(participant), intent(inout) :: me
    integer, parameter :: width = 3, strips = 4
    type(hp_pattern) :: grid, whole, gather, none
    type(hp_plan) :: plan, collect
    type(hp_memory) :: memory
    real(real64), pointer :: array(:, :)
    real(real64), allocatable :: u1(:, :), u2(:, :), u3(:, :), u4(:, :), all(:, :)
    real(real32), allocatable :: w1(:, :, :), w2(:, :, :), w3(:, :, :), w4(:, :, :)
    integer, allocatable :: lower(:, :), upper(:, :)
    integer :: i, j, k, own(strips), count, low(2), high(2), end(2), stat
    character(200) :: text
    count = 0
    do i = 1, strips
      if (mod(i, min(me%ranks, 2)) /= me%number) cycle
      count = count + 1
      own(count) = i
    end do
    allocate (lower(2, count), upper(2, count))
    do i = 1, count
      lower(:, i) = [1, width*(own(i) - 1) + 1]
      upper(:, i) = [nx, width*own(i)]
    end do
    call hp_pattern_create(grid, me%comm, [nx, width*strips], halo=[1], lower=lower, upper=upper, periodic=[.false., .true.])
    do i = 1, count
      call grid%owned(low, high, domain=i)
      call check(me, sum(abs(low - lower(:, i))) + sum(abs(high - upper(:, i))) == 0, 'the cells of a domain')
    end do
    call strip(1, u1, w1); call strip(2, u2, w2); call strip(3, u3, w3); call strip(4, u4, w4)
    select case (count)
    case (4)
      call hp_plan_create(plan, grid, u1, u2, u3, u4, w1, w2, w3, w4, axes='x y levels')
      call plan%update(u1, u2, u3, u4, w1, w2, w3, w4)
    case (2)
      call hp_plan_create(plan, grid, u1, u2, w1, w2, axes='x y levels')
      call plan%start(u1, u2, w1, w2)
      call plan%finish(u1, u2, w1, w2)
    case default
      call hp_plan_create(plan, grid, u1, w1, axes='x y levels')
      call plan%update(u1, w1)
    end select
    call filled(1, u1, w1); call filled(2, u2, w2); call filled(3, u3, w3); call filled(4, u4, w4)

    end = merge([nx, width*strips], [0, 0], me%number == 0)
    call hp_pattern_create(whole, me%comm, [nx, width*strips], halo=[0], lower=[1, 1], upper=end)
    call hp_pattern_create(gather, grid, whole)
    allocate (all(end(1), end(2)))
    all = -1
    select case (count)
    case (4)
      call hp_plan_create(collect, gather, u1, u2, u3, u4, all)
      call collect%update(u1, u2, u3, u4, all)
    case (2)
      call hp_plan_create(collect, gather, u1, u2, all)
      call collect%update(u1, u2, all)
    case default
      call hp_plan_create(collect, gather, u1, all)
      call collect%update(u1, all)
    end select
    do j = 1, end(2)
      call check(me, same(all(:, j:j), reshape(value([(i, i=1, nx)], j, 0), [nx, 1])), 'a cell of a domain on one rank')
    end do
    call collect%free(); call gather%free(); call whole%free(); call plan%free()
    call evenly()

    call grid%owned(low, high, domain=count + 1, stat=stat, errmsg=text)
    if (count > 0) call refused(me, stat == hp_argument, text, 'domain: expected a domain of this rank, from 1 to')
    call hp_allocate(memory, grid, array, stat=stat, errmsg=text)
    if (count > 0) call refused(me, stat == hp_argument, text, 'pattern: expected domains on this rank: at most 1, found')
    call hp_pattern_create(none, me%comm, [nx, 4], halo=[0], lower=reshape([1, 1, 1, 1], [2, 2]), upper=reshape([nx, 4], [2, 1]), &
      stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'upper: expected')
    call hp_plan_create(plan, grid, u1, u2, w1, stat=stat, errmsg=text)
    call check(me, stat /= hp_ok, 'a plan without an array for each domain')
    call grid%free()

  contains

    ! From the strips to equal parts, which all ranks have, and other values back; and halos of both in one exchange.
    recursive subroutine evenly()
      type(hp_pattern) :: even, there, back, wide, alike
      type(hp_plan) :: deal, collect
      real(real64), allocatable :: part(:, :), ring(:, :)
      real(real32), allocatable :: stack(:, :, :)
      call hp_pattern_create(even, me%comm, [nx, width*strips], halo=[0], parts=[1, me%ranks])
      call hp_pattern_create(there, grid, even)
      call hp_pattern_create(back, even, grid)
      call even%owned(low, high)
      allocate (part(low(1):high(1), low(2):high(2)), stack(low(1):high(1), low(2):high(2), levels))
      part = -1
      select case (count)
      case (4)
        call hp_plan_create(deal, there, u1, u2, u3, u4, part)
        call deal%update(u1, u2, u3, u4, part)
      case (2)
        call hp_plan_create(deal, there, u1, u2, part, fixed=.true.)
        call deal%start(u1, u2, part)
        call deal%finish(u1, u2, part)
      case default
        call hp_plan_create(deal, there, u1, part, fixed=.true.)
        call deal%start(u1, part)
        call deal%finish(u1, part)
      end select
      do j = low(2), high(2)
        call check(me, same(part(:, j:j), reshape(value([(i, i=1, nx)], j, 0), [nx, 1])), 'a cell of an equal part')
        part(:, j) = -part(:, j)
        do i = 1, nx
          stack(i, j, :) = real(-value(i, j, [1, 2, 3]), real32)
        end do
      end do
      select case (count)
      case (4)
        call hp_plan_create(collect, back, part, u1, u2, u3, u4, stack, w1, w2, w3, w4, axes='x y levels')
        call collect%update(part, u1, u2, u3, u4, stack, w1, w2, w3, w4)
      case (2)
        call hp_plan_create(collect, back, part, u1, u2, stack, w1, w2, axes='x y levels')
        call collect%update(part, u1, u2, stack, w1, w2)
      case default
        call hp_plan_create(collect, back, part, u1, stack, w1, axes='x y levels')
        call collect%update(part, u1, stack, w1)
      end select
      call turned(1, u1, w1); call turned(2, u2, w2); call turned(3, u3, w3); call turned(4, u4, w4)
      call deal%free(); call collect%free(); call there%free(); call back%free(); call even%free()

      call hp_pattern_create(wide, me%comm, [nx, width*strips], halo=[1], parts=[1, me%ranks], periodic=[.false., .true.])
      call wide%with_halo(low, high)
      allocate (ring(low(1):high(1), low(2):high(2)))
      ring = -1
      do j = low(2) + 1, high(2) - 1
        ring(1:nx, j) = value([(i, i=1, nx)], j, 0)
      end do
      call beside(grid, wide, ring)
      ! As many domains as the strips have.
      call hp_pattern_create(alike, me%comm, [nx, width*strips], halo=[1], periodic=[.false., .true.], like=grid)
      ring(:, low(2)) = -1; ring(:, high(2)) = -1
      call beside(alike, wide, ring)
      call alike%free(); call wide%free()
    end subroutine

    ! The halos of strips and of equal parts in one exchange.
    recursive subroutine beside(pattern, wide, ring)
      type(hp_pattern), intent(in) :: pattern, wide
      real(real64), intent(inout) :: ring(:, :)
      type(hp_plan) :: both
      integer :: first(2), last(2)
      call wide%with_halo(first, last)
      select case (count)
      case (4)
        call hp_plan_create(both, wide, u1, u2, u3, u4, ring, patterns=[pattern, wide])
        call both%update(u1, u2, u3, u4, ring)
      case (2)
        call hp_plan_create(both, wide, u1, u2, ring, patterns=[pattern, wide])
        call both%update(u1, u2, ring)
      case default
        call hp_plan_create(both, wide, u1, ring, patterns=[pattern, wide])
        call both%update(u1, ring)
      end select
      do j = first(2), last(2)
        i = j - first(2) + 1
        call check(me, same(ring(2:nx + 1, i:i), reshape(value([(k, k=1, nx)], modulo(j - 1, width*strips) + 1, 0), [nx, 1])), &
          'a cell of equal parts with the halo')
      end do
      call both%free()
    end subroutine

    ! Checks that the owned cells of a domain have the other sign.
    recursive subroutine turned(k, u, w)
      integer, intent(in) :: k
      real(real64), intent(in) :: u(0:, :)
      real(real32), intent(in) :: w(0:, :, :)
      integer :: i, j, at
      if (k > count) return
      do j = lower(2, k), upper(2, k)
        at = j - lower(2, k) + 2
        do i = 1, nx
          call check(me, abs(u(i, at) + value(i, j, 0)) <= 0, 'a cell that came back to a domain')
          call check(me, maxval(abs(w(i, at, :) + real(value(i, j, [1, 2, 3]), real32))) <= 0, 'levels that came back')
        end do
      end do
    end subroutine

    ! Arrays of a domain, whose owned cells have their values.
    recursive subroutine strip(k, u, w)
      integer, intent(in) :: k
      real(real64), allocatable, intent(out) :: u(:, :)
      real(real32), allocatable, intent(out) :: w(:, :, :)
      integer :: i, j
      if (k > count) then
        allocate (u(0, 0), w(0, 0, levels))
        return
      end if
      allocate (u(0:nx + 1, lower(2, k) - 1:upper(2, k) + 1), w(0:nx + 1, lower(2, k) - 1:upper(2, k) + 1, levels))
      u = -1; w = -1
      do j = lower(2, k), upper(2, k)
        do i = 1, nx
          u(i, j) = value(i, j, 0)
          w(i, j, :) = real(value(i, j, [1, 2, 3]), real32)
        end do
      end do
    end subroutine

    ! Checks all cells of the arrays of a domain: y is periodic, and nothing fills the halo beyond the walls of x.
    recursive subroutine filled(k, u, w)
      integer, intent(in) :: k
      real(real64), intent(in) :: u(0:, :)
      real(real32), intent(in) :: w(0:, :, :)
      integer :: i, j, from
      if (k > count) return
      do j = 1, size(u, 2)
        from = modulo(lower(2, k) + j - 3, width*strips) + 1
        do i = 1, nx
          call check(me, abs(u(i, j) - value(i, from, 0)) <= 0, 'a cell of a domain')
          call check(me, maxval(abs(w(i, j, :) - real(value(i, from, [1, 2, 3]), real32))) <= 0, 'levels of a domain')
        end do
        call check(me, max(u(0, j), u(nx + 1, j)) < 0, 'a cell beyond a wall')
      end do
    end subroutine

  end subroutine

  recursive subroutine wrong(me)
    type(participant), intent(inout) :: me
    type(hp_pattern) :: grid, other, made, none
    type(hp_plan) :: plan
    type(hp_memory) :: memory
    real(real64) :: u(nx, ny), three(nx, ny, 3), four(nx, ny, 4)
    real(real64), pointer :: array(:, :)
    character(300) :: text
    integer :: stat, low(2), high(2)
    call hp_pattern_create(grid, me%comm, [nx, ny*me%ranks], halo=[0], parts=[1, me%ranks])
    call hp_pattern_create(other, me%comm, [nx, ny*me%ranks + 1], halo=[0], parts=[1, me%ranks])
    call hp_pattern_create(made, grid, other, stat=stat, errmsg=text)
    call refused(me, stat == hp_refused, text, 'pass two patterns of the same cells')
    call hp_pattern_create(made, grid, none, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'hp_pattern_create: target: expected a hp_pattern, found null')
    call hp_pattern_create(made, grid, grid)
    call made%owned(low, high, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'found a redistribution')
    call check(me, all(high == 0), 'cells after a failure')
    call hp_allocate(memory, made, array, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'pass its source or its target')
    call hp_plan_create(plan, made, u, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'array 1: expected as many arrays of each field as it has domains')
    call hp_plan_create(plan, made, u, three, stat=stat, errmsg=text)
    call refused(me, stat == hp_refused, text, 'array 2 has 3 axes here and 2 in its source, array 1')
    call hp_plan_create(plan, made, three, four, stat=stat, errmsg=text)
    call refused(me, stat == hp_refused, text, 'array 2 has 4 exchanged levels along axis 3 here and 3 in its source, array 1')
    call made%free(); call grid%free(); call other%free()
  end subroutine

  ! A grid of 4 cells along its first axis, and a mesh of the same cells in descending order, dealt to the ranks in turn.
  recursive subroutine numbered(me)
    type(participant), intent(inout) :: me
    type(hp_pattern) :: grid, mesh, to_mesh, to_grid
    type(hp_plan) :: there, back
    real(real64), allocatable :: u(:, :), w(:, :, :), ids(:), levels(:, :)
    integer(int64) :: cells(12)
    integer :: number, i, j, low(2), high(2)
    cells = [(int(me%ranks*number - 1 - me%number, int64), number = 12, 1, -1)]
    call hp_pattern_create(grid, me%comm, [4, 3*me%ranks], halo=[1], parts=[1, me%ranks])
    call hp_pattern_create(mesh, me%comm, cells, spread(.true., 1, size(cells)))
    call grid%owned(low, high)
    allocate (u(0:5, 0:4), w(0:5, 0:4, 2), ids(size(cells)), levels(size(cells), 2))
    u = -1; w = -1; ids = -1; levels = -1
    do j = 1, 3
      do i = 1, 4
        u(i, j) = i - 1 + 4*(low(2) + j - 2)
        w(i, j, :) = 10*u(i, j) + [1, 2]
      end do
    end do
    call hp_pattern_create(to_mesh, grid, mesh)
    call hp_pattern_create(to_grid, mesh, grid)
    call hp_plan_create(there, to_mesh, u, ids, w, levels, lower=[0, 0])
    call there%update(u, ids, w, levels)
    call check(me, all(abs(ids - real(cells, real64)) <= 0), 'the cells of a grid in a mesh')
    call check(me, all(abs(levels(:, 2) - 10*ids - 2) <= 0), 'levels of a grid in a mesh')
    call hp_plan_create(back, to_grid, ids, u, levels, w, halo=[1, 1])
    u = -1; w = -1
    call back%update(ids, u, levels, w)
    do j = 1, 3
      do i = 1, 4
        call check(me, abs(u(i, j) - (i - 1) - 4*(low(2) + j - 2)) <= 0, 'the cells of a mesh in a grid')
        call check(me, all(abs(w(i, j, :) - 10*u(i, j) - [1, 2]) <= 0), 'levels of a mesh in a grid')
      end do
    end do
    call check(me, maxval(u(0, :)) < 0 .and. maxval(w(:, 4, :)) < 0, 'the halo of a grid')
    call there%free(); call back%free(); call to_mesh%free(); call to_grid%free(); call grid%free(); call mesh%free()
  end subroutine

  ! Sums that are known, of shares of any size; and sums that are those of one rank.
  recursive subroutine sums(me)
    type(participant), intent(inout) :: me
    real(real64) :: x(4, 6), w(4, 6), columns(5, 2), of_columns(2), total
    real(real64), parameter :: terms(6) = [1e100_real64, 1.0_real64, 2.0_real64**(-53), -1e100_real64, 2.0_real64**(-600), &
      0.0_real64]
    real(real32) :: narrow(3)
    character(300) :: text
    integer :: stat, i, first, last
    x = 0; w = 2
    first = 1 + me%number*(6/me%ranks)
    last = first + 6/me%ranks - 1
    x(3, first:last) = terms(first:last)
    total = me%comm%sum_exact(x(3, first:last))
    call check(me, abs(total - (1 + epsilon(1.0_real64))) <= 0, 'the sum of a section')
    total = me%comm%sum_exact(x, weights=w)
    call check(me, abs(total - 2*(1 + epsilon(1.0_real64))) <= 0, 'the sum of products')
    total = me%comm%sum_exact(x(:2, :), w(3:, :))
    call check(me, abs(total) <= 0, 'the sum of zeros')
    total = me%comm%sum_exact(x(1, :0))
    call check(me, abs(total) <= 0, 'the sum of nothing')
    total = me%comm%sum_exact(1.0_real64)
    call check(me, abs(total - me%ranks) <= 0, 'the sum of scalars')
    narrow = 0.1_real32
    total = me%comm%sum_exact(narrow)
    call check(me, abs(total - 3*me%ranks*real(0.1_real32, real64)) <= 0, 'the sum of reals of 4 bytes')
    columns = reshape([(real(i, real64), i=1, 10)], [5, 2])
    call hp_reprosum_calc(columns, of_columns, 4, 5, 2, commid=me%comm)
    call check(me, abs(of_columns(1) - 10*me%ranks) <= 0, 'the sum of column 1')
    call check(me, abs(of_columns(2) - 30*me%ranks) <= 0, 'the sum of column 2')
    total = me%comm%sum_exact(x, w(:, :5), stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'weights: expected as many as values, 24, found 20')
    call check(me, .not. abs(total) <= huge(total), 'a NaN after a failure')
    call hp_reprosum_calc(columns, of_columns, 6, 5, 2, commid=me%comm, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'nsummands from 0 to dsummands')
  end subroutine

  ! Under a mask, nothing is added: neither a NaN nor an infinity, of which a weight of 0 makes a NaN. Several sums in one message.
  recursive subroutine masks(me)
    type(participant), intent(inout) :: me
    real(real64) :: heat(4, 3), salt(3, 4), area(4, 3), found(3), total, nan
    real(real32) :: narrow(12), narrow_area(12)
    logical :: wet(4, 3)
    logical(c_bool) :: bytes(8, 3)
    character(300) :: text
    integer :: stat
    nan = 0; nan = nan/nan
    wet = reshape([.true., .true., .false., .true., .false., .true., .true., .true., .true., .true., .true., .false.], [4, 3])
    bytes = .true.
    bytes(::2, :) = wet
    heat = merge(me%number + 1.0_real64, nan, wet)
    salt = merge(0.5_real64, huge(1.0_real64), reshape(wet, [3, 4]))
    salt(3, 1) = infinity()
    area = merge(2.0_real64, 0.0_real64, wet)
    narrow = real(reshape(heat, [12]), real32); narrow_area = 4
    total = me%comm%sum_exact(heat, weights=area)
    call check(me, .not. abs(total) <= huge(total), 'a weight of 0 of a NaN is a NaN')
    total = me%comm%sum_exact(heat, mask=wet)
    call check(me, abs(total - 9*triangle(me)) <= 0, 'a sum with a mask')
    total = me%comm%sum_exact(heat, area, wet)
    call check(me, abs(total - 18*triangle(me)) <= 0, 'a sum of products with a mask')
    total = me%comm%sum_exact(heat(:, 2), mask=bytes(::2, 2))
    call check(me, abs(total - 3*triangle(me)) <= 0, 'a sum with a section of a mask of bytes')
    total = me%comm%sum_exact(narrow, mask=reshape(wet, [12]))
    call check(me, abs(total - 9*triangle(me)) <= 0, 'a sum of reals of 4 bytes with a mask')
    total = me%comm%sum_exact(narrow, narrow_area, reshape(bytes(::2, :), [12]))
    call check(me, abs(total - 36*triangle(me)) <= 0, 'products of reals of 4 bytes with a mask of bytes')
    total = me%comm%sum_exact(nan, mask=me%number < 0)
    call check(me, abs(total) <= 0, 'a scalar that a mask leaves out')
    call me%comm%sums_exact(found, heat, salt, area, mask=wet)
    call check(me, all(abs(found - [9*triangle(me), 4.5_real64*me%ranks, 18.0_real64*me%ranks]) <= 0), 'sums with a mask')
    call me%comm%sums_exact(found(:2), heat, salt, weights=area, mask=bytes(::2, :))
    call check(me, all(abs(found(:2) - [18*triangle(me), 9.0_real64*me%ranks]) <= 0), 'sums of products with a mask of bytes')
    call me%comm%sums_exact(found(:1), narrow, mask=reshape(wet, [12]))
    call check(me, abs(found(1) - 9*triangle(me)) <= 0, 'one of several sums')
    total = me%comm%sum_exact(heat, mask=wet(:2, :), stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'sum_exact: mask: expected as many as values, 12, found 6')
    call me%comm%sums_exact(found(:2), heat, area(:, :2), mask=wet, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'array 2: mask: expected as many as values, 8, found 12')
    call check(me, .not. any(abs(found(:2)) <= huge(total)), 'NaNs after a failure')
    call me%comm%sums_exact(found(:2), heat, area, weights=area(:3, :), stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'array 1: weights: expected as many as values, 12, found 9')
    call me%comm%sums_exact(found, heat, area, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'sums: expected as many elements as there are arrays, 2, found 3')
    call me%comm%sums_exact(found(:2), heat, narrow, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'array 2: expected the type of the first array')
    call me%comm%sums_exact(found(:1), wet, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'expected reals of 4 or 8 bytes')
    call me%comm%sums_exact(found(:1), heat, weights=narrow, stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'weights: expected the type of values')
    call me%comm%sums_exact(found(:1), heat, weights='', stat=stat, errmsg=text)
    call refused(me, stat == hp_argument, text, 'weights: expected the type of values')
  end subroutine

  recursive real(real64) function infinity()
    infinity = huge(infinity)
    infinity = 2*infinity
  end function

  ! 1 + 2 + ... + ranks.
  recursive real(real64) function triangle(me)
    type(participant), intent(in) :: me
    triangle = me%ranks*(me%ranks + 1)/2
  end function

  ! Calls as programs have them that used `shr_reprosum_calc`. Terms of up to 4e17 cancel and leave 110.
  recursive subroutine reproducible_sums(me)
    type(participant), intent(inout) :: me
    integer, parameter :: terms = 60, most = 64
    real(real64), parameter :: large = 2.0_real64**54
    real(real64) :: all_terms(terms), budget(most, 3), sums(3), largest(3), differences(2, 3), bounds(3)
    integer :: levels(3), stats(6), share, most_of_a_rank, j, stat
    character(300) :: text
    do j = 1, 20
      all_terms(j) = large*j
      all_terms(20 + j) = 0.5_real64*j + 0.25_real64
      all_terms(40 + j) = -large*j
    end do
    ! Shares of different sizes.
    share = merge(terms - 7*(me%ranks - 1), 7, me%number == 0)
    j = merge(0, terms - 7*(me%ranks - me%number), me%number == 0)
    budget = 2*large
    budget(:share, 1) = all_terms(j + 1:j + share)
    budget(:share, 2) = -all_terms(j + 1:j + share)/large
    budget(:share, 3) = 1
    stats = 10; bounds = 1; levels = 0
    call hp_reprosum_calc(budget, sums, share, most, 3, gbl_count=terms, commid=me%comm)
    call check(me, abs(sums(1) - 110) <= 0 .and. abs(sums(2) + 110/large) <= 0 .and. nint(sums(3)) == terms, &
      'exact sums of columns')
    sums = 0
    call hp_reprosum_calc(budget, sums, share, most, 3, allow_infnan=.false., ddpdd_sum=.true., arr_gbl_max=bounds, &
      arr_gbl_max_out=largest, arr_max_levels=[1, 1, 1], arr_max_levels_out=levels, gbl_max_nsummands=1, &
      gbl_max_nsummands_out=most_of_a_rank, gbl_count=1, repro_sum_validate=.false., repro_sum_stats=stats, &
      rel_diff=differences, commid=me%comm)
    call check(me, abs(sums(1) - 110) <= 0 .and. abs(sums(2) + 110/large) <= 0 .and. nint(sums(3)) == terms, &
      'sums with all arguments')
    call check(me, all(abs(largest - [20*large, 20.0_real64, 1.0_real64]) <= 0), 'the largest magnitudes')
    call check(me, most_of_a_rank == terms - 7*(me%ranks - 1), 'the largest number of summands')
    call check(me, all(levels == 135), 'the levels')
    call check(me, all(stats == [11, 10, 10, 11, 11, 10]), 'the counts of calls')
    call check(me, all(differences(:, 3) <= 0), 'no difference of a sum of ones')
    ! Floats lose the small terms.
    call check(me, differences(2, 1) > 1 .and. all(differences(:, 1) <= differences(2, 1)), 'differences from a sum of floats')
    call check(me, abs(differences(1, 1)*110 - differences(2, 1)) < 1e-9_real64 .or. differences(2, 1) >= 110, &
      'a relative difference')
    call hp_reprosum_calc(budget, sums, share, most, 3, arr_gbl_max_out=largest, repro_sum_stats=stats, commid=me%comm)
    call check(me, all(stats == [12, 10, 10, 11, 12, 10]) .and. abs(largest(2) - 20) <= 0, 'the largest magnitudes alone')

    ! A NaN and an infinity on the last rank.
    if (me%number == me%ranks - 1) then
      budget(2, 2) = infinity()
      budget(3, 3) = budget(2, 2) - budget(2, 2)
    end if
    call hp_reprosum_calc(budget, sums, share, most, 3, commid=me%comm, stat=stat, errmsg=text)
    if (me%number == me%ranks - 1) then
      call refused(me, stat == hp_argument, text, 'hp_reprosum_calc: arr(2, 2): expected a number, found an infinity')
    else
      call refused(me, stat == hp_refused, text, 'out of step')
    end if
    call check(me, .not. any(abs(sums) <= huge(large)), 'NaNs after a failure')
    call hp_reprosum_calc(budget, sums, share, most, 3, allow_infnan=.true., rel_diff=differences, commid=me%comm)
    call check(me, abs(sums(1) - 110) <= 0 .and. sums(2) > huge(large) .and. .not. abs(sums(3)) >= 0, &
      'NaN and infinities are summands')
    call check(me, all(differences(:, 2:) <= 0), 'no difference of sums that are not finite')
  end subroutine

  ! Halo cells go to their owners in each combination, of boxes, meshes and lists. Without `is_single`, cells are in several halos.
  recursive subroutine accumulated(me)
    type(participant), intent(inout) :: me
    type(hp_pattern) :: boxes, mesh, lists
    type(part) :: parts(0:me%ranks - 1)
    integer :: rank, columns, number
    logical :: is_single
    do number = 1, 2
      is_single = number == 1
      columns = merge(5, 8, is_single)
      parts = [(box_of(rank, me%ranks, is_single), rank=0, me%ranks - 1)]
      call hp_pattern_create(boxes, me%comm, [5, 4*me%ranks], halo=[merge([0, 0], [2, 1], is_single), 1, 2], &
        periodic=[.true., .true.], parts=[1, me%ranks])
      call combine_all(me, boxes, parts, columns, 7, is_single)
      call make_lists(me, lists, parts)
      call combine_all(me, lists, parts, 7*columns, 1, is_single)
      call boxes%free(); call lists%free()
      parts = [(part_of_mesh(rank, me%ranks, is_single), rank=0, me%ranks - 1)]
      associate (mine => parts(me%number))
        call hp_pattern_create(mesh, me%comm, mine%ids, mine%owners == me%number)
        call combine_all(me, mesh, parts, size(mine%ids), 1, is_single)
        call make_lists(me, lists, parts)
        call combine_all(me, lists, parts, size(mine%ids), 1, is_single)
      end associate
      call mesh%free(); call lists%free()
    end do
  end subroutine

  ! Columns of a periodic grid with 4 of them on each rank, a halo of one below and two above, and perhaps of cells in a column.
  recursive function box_of(rank, ranks, is_single) result(made)
    integer, intent(in) :: rank, ranks
    logical, intent(in) :: is_single
    type(part) :: made
    integer :: i, j, below, above, column
    below = merge(0, 2, is_single)
    above = merge(0, 1, is_single)
    allocate (made%ids(0), made%owners(0))
    do j = -1, 5
      do i = -below, 4 + above
        column = modulo(4*rank + j, 4*ranks)
        made%ids = [made%ids, 5*column + modulo(i, 5)]
        made%owners = [made%owners, merge(rank, -1 - column/4, j >= 0 .and. j < 4 .and. i >= 0 .and. i < 5)]
      end do
    end do
  end function

  ! Ragged parts, with cells of the halo among owned ones.
  recursive function part_of_mesh(rank, ranks, is_single) result(made)
    integer, intent(in) :: rank, ranks
    logical, intent(in) :: is_single
    type(part) :: made
    integer :: id, owner
    logical :: in_halo
    allocate (made%ids(0), made%owners(0))
    do id = 7*ranks + 2, 0, -1
      owner = modulo(id*id/3 + id, ranks)
      in_halo = merge(modulo(owner + 1, ranks) == rank .and. modulo(id, 2) == 1, modulo(id + rank, 3) /= 0, is_single)
      if (owner /= rank .and. .not. in_halo) cycle
      made%ids = [made%ids, id]
      made%owners = [made%owners, merge(rank, -1 - owner, owner == rank)]
    end do
  end function

  ! The lists of cells that this rank sends to each rank, and receives from it.
  recursive subroutine make_lists(me, lists, parts)
    type(participant), intent(in) :: me
    type(hp_pattern), intent(out) :: lists
    type(part), intent(in) :: parts(0:)
    integer, allocatable :: sent(:), received(:)
    integer :: counts(0:me%ranks - 1, 2), rank, at, place
    allocate (sent(0), received(0))
    counts = 0
    associate (mine => parts(me%number))
      do rank = 0, me%ranks - 1
        do at = 1, size(parts(rank)%ids)
          if (parts(rank)%owners(at) /= -1 - me%number) cycle
          counts(rank, 1) = counts(rank, 1) + 1
          do place = 1, size(mine%ids)
            if (mine%ids(place) == parts(rank)%ids(at) .and. mine%owners(place) == me%number) sent = [sent, place]
          end do
        end do
        do at = 1, size(mine%ids)
          if (mine%owners(at) /= -1 - rank) cycle
          counts(rank, 2) = counts(rank, 2) + 1
          received = [received, at]
        end do
      end do
      call hp_pattern_create(lists, me%comm, size(mine%ids), [(rank, rank=0, me%ranks - 1)], counts(:, 1), sent, &
        [(rank, rank=0, me%ranks - 1)], counts(:, 2), received)
    end associate
  end subroutine

  recursive subroutine combine_all(me, pattern, parts, nx, ny, is_single)
    type(participant), intent(inout) :: me
    type(hp_pattern), intent(in) :: pattern
    type(part), intent(in) :: parts(0:)
    integer, intent(in) :: nx, ny
    logical, intent(in) :: is_single
    character(7), parameter :: combinations(4) = [character(7) :: 'sum', 'min', 'max', 'replace']
    type(hp_plan) :: plan
    real(real64) :: u(nx, ny)
    integer(int32) :: w(nx, ny)
    integer :: before(nx*ny), after(nx*ny), number, place, zeroes
    before = [(halves_of(me%number, place), place=1, nx*ny)]
    do number = 1, merge(4, 3, is_single)
      do zeroes = 0, 1
        u = 0.5_real64*reshape(before, [nx, ny]); w = reshape(before, [nx, ny])
        call hp_plan_create(plan, pattern, u, w, accumulate=combinations(number), zero_halo=zeroes == 1)
        call plan%update(u, w)
        after = [(value_after(parts, me%number, place, combinations(number), zeroes == 1), place=1, nx*ny)]
        call check(me, all(w == reshape(after, [nx, ny])) .and. all(abs(2*u - w) <= 0), &
          'halos that are combined: '//combinations(number))
        if (number == 1 .and. (ny > 1 .or. me%ranks > 1)) &
          call check(me, any(after /= before .and. parts(me%number)%owners >= 0), 'no halo is combined')
        call plan%free()
      end do
    end do
  end subroutine

  ! Twice the value at a place before: halves, so that sums of reals are exact.
  elemental integer function halves_of(rank, place)
    integer, intent(in) :: rank, place
    halves_of = modulo(rank*7919 + place*1543, 2003) - 1000
  end function

  ! Twice the value at a place afterwards, worked out from those of all ranks.
  recursive integer function value_after(parts, rank, place, how, zero_halo) result(value)
    type(part), intent(in) :: parts(0:)
    integer, intent(in) :: rank, place
    character(*), intent(in) :: how
    logical, intent(in) :: zero_halo
    integer :: other, at
    value = halves_of(rank, place)
    if (parts(rank)%owners(place) < 0) then
      if (zero_halo) value = 0
      return
    end if
    do other = 0, ubound(parts, 1)
      do at = 1, size(parts(other)%ids)
        if (parts(other)%owners(at) >= 0 .or. parts(other)%ids(at) /= parts(rank)%ids(place)) cycle
        select case (how)
        case ('sum'); value = value + halves_of(other, at)
        case ('min'); value = min(value, halves_of(other, at))
        case ('max'); value = max(value, halves_of(other, at))
        case ('replace'); value = halves_of(other, at)
        end select
      end do
    end do
  end function

  recursive subroutine refused(me, right, text, word)
    type(participant), intent(inout) :: me
    logical, intent(in) :: right
    character(*), intent(in) :: text, word
    call check(me, right .and. index(text, word) > 0, 'expected a failure with "'//word//'": '//trim(text))
  end subroutine

  recursive subroutine check(me, right, what)
    type(participant), intent(inout) :: me
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    me%failures = me%failures + 1
    write (error_unit, '(2(a, i0), 2a)') 'rank ', me%number, ' of ', me%ranks, ', wrong: ', what
  end subroutine

end module

program redistribute
  use, intrinsic :: iso_c_binding, only: c_funloc, c_int, c_intptr_t, c_loc, c_null_ptr
  use haloport
  use redistribute_of_rank
  use posix_threads, only: pthread_create, pthread_join
  implicit none

  type(participant), target :: participants(0:2)
  type(hp_comm), allocatable :: comms(:)
  integer(c_intptr_t) :: threads(0:2)
  integer(c_int) :: code
  integer :: rank, ranks
  do ranks = 1, 3
    allocate (comms(ranks))
    call hp_comm_threads(comms)
    do rank = 0, ranks - 1
      participants(rank)%comm = comms(rank + 1)
      participants(rank)%number = rank
      participants(rank)%ranks = ranks
      code = pthread_create(threads(rank), c_null_ptr, c_funloc(participate), c_loc(participants(rank)))
      if (code /= 0) error stop 'no thread'
    end do
    do rank = 0, ranks - 1
      code = pthread_join(threads(rank), c_null_ptr)
      if (code /= 0) error stop 'a thread was lost'
      call participants(rank)%comm%free()
    end do
    deallocate (comms)
  end do
  if (any(participants%failures > 0)) error stop 1
end program
