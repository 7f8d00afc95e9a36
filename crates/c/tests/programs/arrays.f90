! Arrays of Fortran in exchanges of one rank with itself: kinds, ranks, sections, pointers, members, blocks, and wrong arguments.
program arrays
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64, compiler_version, error_unit
  use haloport
  implicit none

  type :: particle
    real(real64) :: mass
    integer :: kind
  end type
  type :: column
    real(real32), allocatable :: depth(:, :)
  end type

  integer, parameter :: nx = 5, ny = 4
  type(hp_comm) :: comms(1)
  type(hp_pattern) :: grid, mesh
  integer :: failures = 0

  call hp_comm_threads(comms)
  call hp_pattern_create(grid, comms(1), [nx, ny], halo=[1, 2], periodic=[.true., .true.])
  call kinds()
  call sections()
  call members()
  call registers()
  call blocks()
  call wrong()
  call lengths()
  call lists()
  call unallocated()
  call counting()
  call sphere()
  call memory_of_the_library()
  call staggered()
  call reductions()
  call exact_sums()
  call accumulated()
  call tripolar()
  call described()
  call several_patterns()
  call assigned()
  call grid%free()
  call comms(1)%free()
  if (failures > 0) error stop 1

contains

  subroutine check(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    failures = failures + 1
    write (error_unit, '(a)') 'wrong: '//what
  end subroutine

  ! The number of the cell at these indices, across the ends.
  elemental integer function cell(i, j)
    integer, intent(in) :: i, j
    cell = 10*(modulo(i - 1, nx) + 1) + modulo(j - 1, ny) + 1
  end function

  ! Every kind in one exchange; the halo is one cell along axis 1 and two along axis 2.
  subroutine kinds()
    type(hp_plan) :: plan
    integer(int8) :: a(0:nx + 1, -1:ny + 2)
    integer(int16) :: b(0:nx + 1, -1:ny + 2, 3)
    integer(int64) :: c(0:nx + 1, -1:ny + 2, 2, 2)
    real(real32) :: d(0:nx + 1, -1:ny + 2)
    complex(real64) :: e(0:nx + 1, -1:ny + 2)
    logical :: f(0:nx + 1, -1:ny + 2)
    character(3) :: g(0:nx + 1, -1:ny + 2)
    type(particle) :: h(0:nx + 1, -1:ny + 2)
    real(real64) :: k(0:nx + 1, -1:ny + 2, 2, 1, 2)
    integer :: i, j
    a = 0; b = 0; c = 0; d = 0; e = 0; f = .false.; g = '   '; h = particle(0, 0); k = 0
    do j = 1, ny
      do i = 1, nx
        a(i, j) = int(cell(i, j), int8); b(i, j, :) = int(cell(i, j), int16); c(i, j, :, :) = cell(i, j)
        d(i, j) = cell(i, j); e(i, j) = cmplx(cell(i, j), -cell(i, j), real64); f(i, j) = mod(cell(i, j), 3) == 0
        write (g(i, j), '(i3)') cell(i, j)
        h(i, j) = particle(cell(i, j), -cell(i, j)); k(i, j, :, :, :) = cell(i, j)
      end do
    end do
    call hp_plan_create(plan, grid, a, b, c, d, e, f, g, h, k)
    call plan%update(a, b, c, d, e, f, g, h, k)
    do j = -1, ny + 2
      do i = 0, nx + 1
        call check(a(i, j) == cell(i, j) .and. all(b(i, j, :) == cell(i, j)) .and. all(c(i, j, :, :) == cell(i, j)), 'integers')
        call check(nint(d(i, j)) == cell(i, j) .and. nint(real(e(i, j))) == cell(i, j), 'reals')
        call check(nint(aimag(e(i, j))) == -cell(i, j), 'complex numbers')
        call check(f(i, j) .eqv. mod(cell(i, j), 3) == 0, 'logicals')
        call check(h(i, j)%kind == -cell(i, j) .and. all(nint(k(i, j, :, :, :)) == cell(i, j)), 'records, rank 5')
        call check(g(i, j)(2:3) == text(cell(i, j)), 'characters')
      end do
    end do
    call plan%free()
  end subroutine

  function text(number)
    integer, intent(in) :: number
    character(2) :: text
    write (text, '(i2)') number
  end function

  ! A section of a larger array, from its end; the axes the other way round; a pointer with bounds; room around the halo.
  subroutine sections()
    type(hp_plan) :: plan
    real(real64), target :: all_of(3, 2*(ny + 4), nx + 2), roomy(-3:nx + 5, -4:ny + 5)
    real(real64), pointer :: u(:, :)
    integer :: i, j
    all_of = -1
    u(-1:, 0:) => all_of(2, ubound(all_of, 2):1:-2, :)
    do j = 1, ny
      do i = 1, nx
        u(j, i) = cell(i, j)
      end do
    end do
    call hp_plan_create(plan, grid, u, axes='y x')
    call plan%update(u)
    do j = -1, ny + 2
      do i = 0, nx + 1
        call check(nint(u(j, i)) == cell(i, j), 'a section')
      end do
    end do
    call check(all(nint(all_of(1, :, :)) == -1) .and. all(nint(all_of(2, 1::2, :)) == -1), 'beside a section')
    call plan%free()

    roomy = -1
    do j = 1, ny
      do i = 1, nx
        roomy(i, j) = cell(i, j)
      end do
    end do
    call hp_plan_create(plan, grid, roomy, lower=lbound(roomy))
    call plan%start(roomy)
    do while (.not. plan%ready())
    end do
    call plan%finish(roomy)
    do j = -4, ny + 5
      do i = -3, nx + 5
        if (i >= 0 .and. i <= nx + 1 .and. j >= -1 .and. j <= ny + 2) then
          call check(nint(roomy(i, j)) == cell(i, j), 'an array with room')
        else
          call check(nint(roomy(i, j)) == -1, 'the room around an array')
        end if
      end do
    end do
    call plan%free()
  end subroutine

  ! Lists with one value stand for all axes; those of other lengths are refused, with what was found.
  subroutine lengths()
    type(hp_pattern) :: made
    type(hp_plan) :: plan
    real(real64) :: x(0:5, 0:5)
    integer :: one(1), two(2), stat
    character(300) :: text
    call hp_pattern_create(made, comms(1), [4, 4], halo=[1], periodic=[.true.], parts=[1])
    x = -1
    x(1:4, 1:4) = 7
    call hp_plan_create(plan, made, x)
    call plan%update(x)
    call check(all(nint(x) == 7), 'one value for all axes')
    call plan%free()
    call hp_plan_create(plan, made, x, halo=[1, 1, 1], stat=stat, errmsg=text)
    call refused(stat, text, 'hp_plan_create: halo: expected 1 value, or one for each axis, 2, found 3')
    call hp_plan_create(plan, made, x, lower=[0, 5], stat=stat, errmsg=text)
    call refused(stat, text, 'hp_plan_create: lower: expected bounds of at most 1')
    call hp_plan_create(plan, made, x, halo=[1], lower=[0], stat=stat, errmsg=text)
    call refused(stat, text, 'halo, lower: expected one of them, found both')
    call hp_plan_create(plan, mesh, x, halo=[1], axes='cells levels', stat=stat, errmsg=text)
    call refused(stat, text, 'halo, lower: expected neither for arrays on a mesh, found one')
    call made%owned(one, two, stat=stat, errmsg=text)
    call refused(stat, text, 'owned: lower: expected this number of values: 2, found 1')
    call made%free()
    call hp_pattern_create(made, comms(1), [4, 4], halo=[1, 2, 3], stat=stat, errmsg=text)
    call refused(stat, text, 'hp_pattern_create: halo: expected 1 value, one for each axis, or two for each of them, 2, found 3')
    call hp_pattern_create(made, comms(1), [4, 4], halo=[1], periodic=[.true., .true., .true.], stat=stat, errmsg=text)
    call refused(stat, text, 'periodic: expected 1 value, or one for each axis, 2, found 3')
    call hp_pattern_create(made, comms(1), [4, 4, 4], halo=[1], parts=[1, 1], stat=stat, errmsg=text)
    call refused(stat, text, 'parts: expected 1 value, or one for each axis, 3, found 2')
    call hp_pattern_create(made, comms(1), [4, 4], halo=[1], lower=[1, 1], stat=stat, errmsg=text)
    call refused(stat, text, 'lower, upper: expected both, or neither, found one of them')
    call hp_pattern_create(made, comms(1), [0, 1], [.true.], stat=stat, errmsg=text)
    call refused(stat, text, 'hp_pattern_create: owned: expected this number of values: 2, found 1')
    ! The next call is as it was.
    call hp_pattern_create(made, comms(1), [4, 4], halo=[1])
    call made%free()
  end subroutine

  ! Lists that the program has made: cells 5 and 6 are copies of cells 2 and 4.
  subroutine lists()
    type(hp_pattern) :: made
    type(hp_plan) :: plan
    real(real64) :: x(6)
    integer :: low(1), high(1), stat
    character(300) :: text
    call hp_pattern_create(made, comms(1), 6, send_to=[0], send_counts=[2], send_cells=[2, 4], receive_from=[0], &
      receive_counts=[2], receive_cells=[5, 6])
    call made%with_halo(low, high)
    call check(low(1) == 1 .and. high(1) == 6, 'the cells of lists')
    call hp_plan_create(plan, made, x)
    x = [1, 2, 3, 4, -1, -1]
    call plan%update(x)
    call check(all(nint(x) == [1, 2, 3, 4, 2, 4]), 'lists')
    call plan%free()
    call made%free()
    call hp_pattern_create(made, comms(1), 6, [0], [3], [2, 4], [0], [2], [5, 6], stat=stat, errmsg=text)
    call refused(stat, text, 'send_cells: expected this number of values: 3, found 2')
    call hp_pattern_create(made, comms(1), 6, [0], [2], [2, 4], [0, 0], [2], [5, 6], stat=stat, errmsg=text)
    call refused(stat, text, 'receive_counts: expected this number of values: 2, found 1')
    call hp_pattern_create(made, comms(1), 6, [0], [1], [7], [0], [1], [5], stat=stat, errmsg=text)
    call refused(stat, text, 'include 7, but the domain has 6 cells')
    call hp_pattern_create(made, comms(1), 6, [0], [1], [5], [0], [1], [5], stat=stat, errmsg=text)
    call refused(stat, text, 'the cell 5 is sent to rank 0 and also received')
    call hp_pattern_create(made, comms(1), 6, [1], [1], [1], [1], [1], [5], stat=stat, errmsg=text)
    call refused(stat, text, 'send_to 1, rank: expected one of the 1 ranks')
    call hp_pattern_create(made, comms(1), -1, [0], [1], [1], [0], [1], [5], stat=stat, errmsg=text)
    call refused(stat, text, 'cells')
  end subroutine

  ! Arrays without memory, which a program has forgotten to allocate.
  subroutine unallocated()
    type(hp_plan) :: plan, fixed
    real(real64), allocatable :: u(:, :), w(:, :)
    real(real64), pointer :: p(:, :)
    real(real64) :: v(0:nx + 1, -1:ny + 2)
    integer :: stat
    character(300) :: text
    ! The shape of an array stays in its descriptor.
    allocate (u(0:nx + 1, -1:ny + 2), w(0:nx + 1, -1:ny + 2), p(0:nx + 1, -1:ny + 2))
    v = 0; u = 0; w = 0; p = 0
    call hp_plan_create(plan, grid, u, w)
    call plan%update(u, w)
    deallocate (u, w)
    call plan%update(v, v)
    call plan%update(u, v, stat=stat, errmsg=text)
    call without_memory(stat, text, 'update: array 1: expected an array, found one that is not allocated')
    call plan%start(u, v, stat=stat, errmsg=text)
    call without_memory(stat, text, 'start: array 1: expected an array, found one that is not allocated')
    ! gfortran and flang pass one that may be absent as absent.
    call plan%update(v, w, stat=stat, errmsg=text); call refused(stat, text, 'not allocated')
    call plan%update(v, w, v, stat=stat, errmsg=text)
    call refused(stat, text, 'update: array 2: expected an array, found')
    call plan%free()
    call hp_plan_create(fixed, grid, u, fixed=.true., stat=stat, errmsg=text)
    call without_memory(stat, text, 'array 1: expected an array, found one that is not allocated')
    call hp_plan_create(plan, grid, u, stat=stat, errmsg=text)
    call without_memory(stat, text, 'array 1: expected an array, found one that is not allocated')
    call hp_plan_create(plan, grid, v, w, v, stat=stat, errmsg=text)
    call refused(stat, text, 'array 2: expected an array, found')
    deallocate (p)
    call hp_plan_create(plan, grid, p, stat=stat, errmsg=text); call without_memory(stat, text, 'pointer to none')
  end subroutine

  ! flang passes such arrays as ones without elements, whose shape is another.
  subroutine without_memory(stat, text, word)
    integer, intent(in) :: stat
    character(*), intent(in) :: text, word
    call refused(stat, text, trim(merge(word, repeat(' ', len(word)), index(compiler_version(), 'GCC') > 0)))
  end subroutine

  ! Texts count arrays and axes from 1, and axes from the fastest one.
  subroutine counting()
    type(hp_plan) :: plan
    type(hp_pattern) :: made
    real(real64) :: u(0:nx + 1, -1:ny + 2), longer(0:nx + 1, -1:ny + 3)
    real(real64), allocatable :: few(:, :)
    integer :: stat, number
    character(300) :: text
    u = 0; longer = 0
    call hp_plan_create(plan, grid, u, longer, stat=stat, errmsg=text)
    call refused(stat, text, 'array 2: axis 2: expected extent 8 (the cells with their halo), found 9')
    call hp_plan_create(plan, grid, longer, u, stat=stat, errmsg=text)
    call refused(stat, text, 'array 1: axis 2: expected extent 8 (the cells with their halo), found 9')
    call hp_plan_create(plan, grid, u, axes='x x', stat=stat, errmsg=text)
    call refused(stat, text, 'array 1: axes: expected axis 2 of the grid once, found it 0 times')
    call hp_plan_create(plan, grid, u, in_flight=-1, stat=stat, errmsg=text)
    call refused(stat, text, 'hp_plan_create: in_flight: expected')
    call hp_plan_create(plan, grid, u)
    call plan%finish(u, stat=stat, errmsg=text)
    call refused(stat, text, 'finish: expected an exchange that was started, found none; call start first')
    call plan%free()
    call hp_pattern_create(made, comms(1), [3, 0, 4], halo=[1], stat=stat, errmsg=text)
    call refused(stat, text, 'axis 2 of the grid has 0 cells')
    call hp_pattern_create(made, comms(1), [3, 0], halo=[1], stat=stat, errmsg=text)
    call refused(stat, text, 'axis 2 of the grid has 0 cells')
    call hp_pattern_create(made, comms(1), [7, 4], halo=[1], fold='cell', stat=stat, errmsg=text)
    call refused(stat, text, 'joins 7 cells along axis 1, expected an even number')
    call hp_pattern_create(mesh, comms(1), [(number, number=101, 110)], [(.true., number=1, 10)])
    allocate (few(4, 2), source=0.0_real64)
    call hp_plan_create(plan, mesh, few, axes='nproma blocks', stat=stat, errmsg=text)
    call refused(stat, text, 'array 1: axis 2: expected 3 blocks or more, found 2')
    call mesh%free()
  end subroutine

  ! Six tiles, whose edges meet: every halo cell but those of corners holds an owned cell of another tile.
  subroutine sphere()
    integer, parameter :: n = 4
    type(hp_pattern) :: made
    type(hp_plan) :: plan
    integer :: x(0:n + 1, 0:n + 1, 6), levels(0:n + 1, 0:n + 1, 2, 6), low(3), high(3), tile, stat
    character(300) :: text
    call hp_pattern_create(made, comms(1), [n, n, 6], halo=[1, 1, 0], cubed_sphere=.true.)
    call made%owned(low, high)
    call check(all(low == 1) .and. all(high == [n, n, 6]), 'the cells of a sphere')
    x = -1
    do tile = 1, 6
      x(1:n, 1:n, tile) = tile
    end do
    call hp_plan_create(plan, made, x)
    call plan%update(x)
    do tile = 1, 6
      call check(neighbour(x(0, 1:n, tile)) /= tile, 'the tile before along x')
      call check(neighbour(x(n + 1, 1:n, tile)) /= tile, 'the tile behind along x')
      call check(neighbour(x(1:n, 0, tile)) /= tile, 'the tile before along y')
      call check(neighbour(x(1:n, n + 1, tile)) /= tile, 'the tile behind along y')
    end do
    call plan%free()
    call made%free()
    call hp_pattern_create(made, comms(1), [n, n, 2, 6], halo=[1, 1, 0, 0], cubed_sphere=.true.)
    levels = -1
    do tile = 1, 6
      levels(1:n, 1:n, 1, tile) = tile; levels(1:n, 1:n, 2, tile) = 10*tile
    end do
    call hp_plan_create(plan, made, levels)
    call plan%update(levels)
    call check(all(levels(:, :, 1, :) == x) .and. all(levels(:, :, 2, :) == merge(-1, 10*x, x < 0)), 'levels of a sphere')
    call plan%free()
    call made%free()
    call hp_pattern_create(made, comms(1), [n, n, 5], halo=[1, 1, 0], cubed_sphere=.true., stat=stat, errmsg=text)
    call refused(stat, text, 'tiles')
  end subroutine

  ! The tile that all of an edge come from; 0 if they come from several, or from none.
  integer function neighbour(edge)
    integer, intent(in) :: edge(:)
    neighbour = 0
    if (all(edge == edge(1)) .and. edge(1) >= 1 .and. edge(1) <= 6) neighbour = edge(1)
    if (neighbour == 0) call check(.false., 'an edge of a sphere')
  end function

  ! Arrays in memory of the library, in a plan that keeps them.
  subroutine memory_of_the_library()
    type(hp_memory) :: first, second, third
    type(hp_plan) :: plan
    real(real64), pointer :: u(:, :), wrong_rank(:)
    real(real32), pointer :: w(:, :, :)
    integer :: i, j, stat
    character(300) :: text
    call hp_allocate(first, grid, u)
    call hp_allocate(second, grid, w, levels=3)
    call check(all(lbound(u) == [0, -1]) .and. all(ubound(u) == [nx + 1, ny + 2]), 'bounds of memory')
    call check(all(lbound(w) == [0, -1, 1]) .and. all(ubound(w) == [nx + 1, ny + 2, 3]), 'bounds of memory with levels')
    call check(all(nint(u) == 0) .and. all(nint(w) == 0), 'memory of zeros')
    do j = 1, ny
      do i = 1, nx
        u(i, j) = cell(i, j); w(i, j, :) = -real(cell(i, j), real32)
      end do
    end do
    call hp_plan_create(plan, grid, u, w, fixed=.true.)
    call plan%update(u, w)
    do j = -1, ny + 2
      do i = 0, nx + 1
        call check(nint(u(i, j)) == cell(i, j) .and. all(nint(w(i, j, :)) == -cell(i, j)), 'memory of the library')
      end do
    end do
    call plan%free()
    call hp_allocate(third, grid, wrong_rank, stat=stat, errmsg=text)
    call refused(stat, text, 'expected an axis for each of the pattern')
    call check(.not. associated(wrong_rank), 'an array without memory')
    call hp_allocate(third, grid, u, levels=3, stat=stat, errmsg=text); call refused(stat, text, '3, found 2')
    call third%free()
    call first%free()
    call second%free()
    call first%free()
  end subroutine

  ! The cells of a chunk of a C grid, and the nodes around them, in arrays that have two cells, or nodes, on each side.
  subroutine staggered()
    integer, parameter :: first = 1, last = 5, depth = 2
    type(hp_pattern) :: cells, nodes
    type(hp_plan) :: of_cells, of_nodes
    real(real64) :: density(first - depth:last + depth, first - depth:last + depth)
    real(real64) :: velocity(first - depth:last + 1 + depth, first - depth:last + 1 + depth)
    integer :: low(2), high(2), stat
    character(300) :: text
    call hp_pattern_create(cells, comms(1), [last, last], halo=[depth], clipped=.true.)
    call hp_pattern_create(nodes, comms(1), [last + 1, last + 1], halo=[depth], clipped=.true., like=cells)
    call cells%with_halo(low, high)
    call check(all(low == first) .and. all(high == last), 'clipped halos of cells')
    call nodes%with_halo(low, high)
    call check(all(low == first) .and. all(high == last + 1), 'clipped halos of nodes')
    density = 1; velocity = 2
    call hp_plan_create(of_cells, cells, density, lower=lbound(density))
    call hp_plan_create(of_nodes, nodes, velocity, lower=lbound(velocity))
    call of_cells%update(density)
    call of_nodes%update(velocity)
    call check(all(nint(density) == 1) .and. all(nint(velocity) == 2), 'one chunk without neighbours')
    call of_cells%free()
    call of_nodes%free()
    call nodes%free()
    call cells%free()
    call hp_pattern_create(nodes, comms(1), [last + 1, last + 1], halo=[depth], like=cells, stat=stat, errmsg=text)
    call refused(stat, text, 'like: expected a pattern')
  end subroutine

  ! The halo is added to the cells of the other end, which own it.
  subroutine accumulated()
    type(hp_pattern) :: ring
    type(hp_plan) :: back
    real(real64) :: u(0:5)
    integer :: stat
    character(200) :: text
    call hp_pattern_create(ring, comms(1), [4], halo=[1], periodic=[.true.])
    call hp_plan_create(back, ring, u, accumulate='sum', zero_halo=.true.)
    u = [1, 2, 3, 4, 5, 6]
    call back%update(u)
    call check(all(abs(u - [0, 8, 3, 4, 6, 0]) < 0.5_real64), 'halos that are accumulated')
    call back%free()
    call hp_plan_create(back, ring, u, accumulate='mean', stat=stat, errmsg=text)
    call refused(stat, text, 'accumulate: expected sum, min, max or replace')
    call ring%free()
  end subroutine

  subroutine reductions()
    integer(int32) :: small
    integer(int64) :: large
    real(real32) :: single
    real(real64) :: double
    integer :: stat
    character(300) :: text
    small = -7; large = -8; single = 0.5; double = -0.25
    call comms(1)%all_reduce(small, 'sum')
    call comms(1)%all_reduce(large, 'min')
    call comms(1)%all_reduce(single, 'max')
    call comms(1)%all_reduce(double, 'sum')
    call check(small == -7 .and. large == -8, 'reductions of integers')
    call check(nint(100*single) == 50 .and. nint(100*double) == -25, 'reductions of reals')
    call comms(1)%all_reduce(double, 'mean', stat=stat, errmsg=text); call refused(stat, text, 'sum, min or max')
    call comms(1)%set_warn_after(-1.0_real64, stat=stat, errmsg=text); call refused(stat, text, 'seconds')
    call comms(1)%set_warn_after(60.0_real64)
    call comms(1)%set_time_limit(-1.0_real64, stat=stat, errmsg=text); call refused(stat, text, 'seconds')
    call comms(1)%set_time_limit(20.0_real64)
    call comms(1)%set_progress('mpi', stat=stat, errmsg=text); call refused(stat, text, 'auto`, `thread` or `caller')
    call comms(1)%set_progress('thread')
    call comms(1)%set_progress('auto')
  end subroutine

  ! Masks and counts of default kinds, which may have 8 bytes.
  subroutine exact_sums()
    real(real64) :: x(2, 3), sums(3), largest(3)
    integer :: stats(6), levels(3), most
    x = reshape([1e20_real64, 0.5_real64, -1e20_real64, huge(x), 0.25_real64, -huge(x)], [2, 3])
    call check(abs(comms(1)%sum_exact(x, mask=abs(x) <= 1e20_real64) - 0.75_real64) <= 0, 'an exact sum with a mask')
    stats = 1
    call hp_reprosum_calc(x, sums, 1, 2, 3, commid=comms(1), arr_gbl_max_out=largest, arr_max_levels=[1, 2, 3], &
      arr_max_levels_out=levels, gbl_max_nsummands_out=most, repro_sum_stats=stats)
    call check(all(abs(sums - x(1, :)) <= 0) .and. all(abs(largest - abs(sums)) <= 0), 'sums of columns')
    call check(all(stats == [2, 1, 1, 1, 2, 1]) .and. all(levels == 135) .and. most == 1, 'counts of sums')
  end subroutine

  ! U points of a tripolar grid about corners, with two components: (i, j) is (n - 2 - i, 2m - 1 - j), counted from 0, and both
  ! components change their signs; a scalar beside them does not.
  subroutine tripolar()
    integer, parameter :: n = 6, m = 4
    type(hp_pattern) :: made
    type(hp_plan) :: plan
    real(real64) :: u(0:n + 1, 0:m + 1, 2), scalar(0:n + 1, 0:m + 1)
    integer :: i, other, stat
    character(300) :: text
    call hp_pattern_create(made, comms(1), [n, m], halo=[1], periodic=[.true., .false.], fold='corner', points='east-edges')
    u = 0; scalar = 0
    do i = 1, n
      u(i, 1:m, 1) = i; u(i, 1:m, 2) = 10*i; scalar(i, 1:m) = i
    end do
    call hp_plan_create(plan, made, u, scalar, axes='x y components; x y', vector='x y;')
    call plan%update(u, scalar)
    do i = 0, n + 1
      other = modulo(n - 2 - (i - 1), n) + 1
      call check(nint(u(i, m + 1, 1)) == -other .and. nint(u(i, m + 1, 2)) == -10*other, 'a vector beyond the fold')
      call check(nint(scalar(i, m + 1)) == other, 'a scalar beyond the fold')
    end do
    call plan%free()
    call hp_plan_create(plan, made, scalar, vector='levels', stat=stat, errmsg=text); call refused(stat, text, 'vector')
    call hp_plan_create(plan, made, u, scalar, axes='x y components; x y', vector='x;', stat=stat, errmsg=text)
    call check(stat == 0, 'one of two components: '//trim(text))
    call plan%free()
    call made%free()
    call hp_pattern_create(made, comms(1), [n, m], halo=[1], fold='edge', stat=stat, errmsg=text)
    call refused(stat, text, 'fold: expected one of cell corner, found edge')
    call hp_pattern_create(made, comms(1), [n, m], halo=[1], points='corners', stat=stat, errmsg=text)
    call refused(stat, text, 'points')
    call hp_pattern_create(made, comms(1), [n + 1, m], halo=[1], fold='cell', stat=stat, errmsg=text)
    call refused(stat, text, 'even')
  end subroutine

  ! A grid with a wider halo, and a mesh of two domains, beside the grid of the plan.
  subroutine several_patterns()
    type(hp_pattern) :: narrow, wide, ring, unmade
    type(hp_plan) :: plan
    real(real64) :: u(0:5), w(-1:6), surface(0:3, 0:3), below(0:3, 0:3, 0:6)
    integer(int32) :: one(3), two(3)
    integer :: stat
    character(300) :: text
    call hp_pattern_create(narrow, comms(1), [4], halo=[1], periodic=[.true.])
    call hp_pattern_create(wide, comms(1), [4], halo=[2], periodic=[.true.])
    call hp_pattern_create(ring, comms(1), [1, 2, 3, 3, 4, 1], [.true., .true., .false., .true., .true., .false.], counts=[3, 3])
    u = [-1, 1, 2, 3, 4, -1]; w = [-1, -1, 10, 20, 30, 40, -1, -1]
    one = [7, 8, -1]; two = [9, 6, -1]
    call hp_plan_create(plan, narrow, w, one, two, u, patterns=[wide, ring, narrow])
    call plan%update(w, one, two, u)
    call check(all(nint(u) == [4, 1, 2, 3, 4, 1]), 'a narrow halo beside others')
    call check(all(nint(w) == [30, 40, 10, 20, 30, 40, 10, 20]), 'a wide halo beside others')
    call check(all(one == [7, 8, 9]) .and. all(two == [9, 6, 7]), 'domains of a mesh beside grids')
    call plan%free()
    call hp_plan_create(plan, narrow, u, w, patterns=[narrow, wide], fixed=.true., accumulate='sum', zero_halo=.true.)
    u = [1, 0, 0, 0, 0, 2]; w = [1, 2, 0, 0, 0, 0, 3, 4]
    call plan%update(u, w)
    call check(all(nint(u) == [0, 2, 0, 0, 1, 0]) .and. all(nint(w) == [0, 0, 3, 4, 1, 2, 0, 0]), 'two halos that are accumulated')
    call plan%free()
    call hp_plan_create(plan, narrow, u, w, patterns=[narrow], stat=stat, errmsg=text)
    call refused(stat, text, 'patterns: expected an array')
    call hp_plan_create(plan, narrow, u, one, patterns=[narrow, ring], stat=stat, errmsg=text)
    call refused(stat, text, 'patterns: expected an array')
    call hp_plan_create(plan, narrow, u, w, patterns=[narrow, unmade], stat=stat, errmsg=text)
    call refused(stat, text, 'that were made')
    call hp_plan_create(plan, narrow, w, u, patterns=[narrow, wide], stat=stat, errmsg=text)
    call refused(stat, text, 'array 1')
    call narrow%free(); call wide%free(); call ring%free()
    ! A surface and the cells below, whose first owned ones have the index 1 along each axis.
    call hp_pattern_create(narrow, comms(1), [2, 2], halo=[0])
    call hp_pattern_create(wide, comms(1), [2, 2, 4], halo=[0, 0, 1], periodic=[.false., .false., .true.])
    surface = 1; below = -1
    below(1:2, 1:2, 1:4) = reshape([(stat, stat=1, 16)], [2, 2, 4])
    call hp_plan_create(plan, narrow, surface, below, lower=[0], patterns=[narrow, wide])
    call plan%update(surface, below)
    call check(all(nint(below(1:2, 1:2, 0)) == nint(below(1:2, 1:2, 4))), 'the halo below a surface')
    call check(all(nint(below(1:2, 1:2, 5)) == nint(below(1:2, 1:2, 1))), 'the halo above a surface')
    call check(all(nint(below(1:2, 1:2, 6)) == -1), 'what is beyond the halo')
    call plan%free(); call narrow%free(); call wide%free()
  end subroutine

  subroutine described()
    type(hp_plan) :: plan, none
    real(real64) :: u(0:nx + 1, -1:ny + 2)
    integer :: stat
    character(300) :: text
    character(:), allocatable :: found
    u = 0
    call hp_plan_create(plan, grid, u, path='messages')
    found = plan%describe()
    call check(index(found, '"path":"messages"') > 0 .and. index(found, '"routes":[]') > 0, 'a description: '//found)
    call check(found(1:1) == '{' .and. found(len(found):) == '}', 'the ends of a description: '//found)
    call plan%free()
    call hp_plan_create(plan, grid, u, path='by hand', stat=stat, errmsg=text); call refused(stat, text, 'path')
    found = none%describe(stat=stat, errmsg=text); call refused(stat, text, 'plan')
    call check(len(found) == 0, 'the description of no plan')
    found = hp_describe()
    call check(index(found, '"version":') > 0 .and. index(found, '"cpu:0"') > 0, 'the devices of the machine: '//found)
  end subroutine

  ! Members of derived types, at other addresses at each call.
  subroutine members()
    type(hp_plan) :: plan
    type(column) :: both(2)
    type(particle) :: swarm(0:nx + 1, -1:ny + 2)
    integer :: i, j, one
    do one = 1, 2
      allocate (both(one)%depth(0:nx + 1, -1:ny + 2), source=0.0_real32)
    end do
    swarm = particle(0, 7)
    call hp_plan_create(plan, grid, both(1)%depth, swarm%mass)
    do one = 1, 2
      do j = 1, ny
        do i = 1, nx
          both(one)%depth(i, j) = cell(i, j)
          swarm(i, j)%mass = cell(i, j)
        end do
      end do
      call plan%update(both(one)%depth, swarm%mass)
      do j = -1, ny + 2
        do i = 0, nx + 1
          call check(nint(both(one)%depth(i, j)) == cell(i, j), 'an allocatable member')
          call check(nint(swarm(i, j)%mass) == cell(i, j) .and. swarm(i, j)%kind == 7, 'a member of each element')
        end do
      end do
    end do
    call plan%free()
  end subroutine

  ! What a compiler keeps in registers must be read again after `finish`, which names the array.
  subroutine registers()
    type(hp_pattern) :: pair
    type(hp_plan) :: plan
    real(real64) :: x(4)
    call hp_pattern_create(pair, comms(1), [2], halo=[1], periodic=[.true.])
    call hp_plan_create(plan, pair, x, fixed=.true.)
    x = [1.0_real64, 42.0_real64, 2.0_real64, 3.0_real64]
    call plan%start(x)
    call plan%finish(x)
    call check(nint(x(1)) == 2 .and. nint(x(4)) == 42, 'a halo after finish')
    x(2) = 43
    call plan%update(x)
    call check(nint(x(4)) == 43, 'a halo after update')
    call plan%free()
    call pair%free()
  end subroutine

  ! Cells in blocks of nproma, three-dimensional and surface fields in one exchange.
  subroutine blocks()
    integer, parameter :: cells = 11, levels = 3, sizes(4) = [1, 8, 32, cells]
    integer :: place, nproma, nblocks, block, within, number
    type(hp_plan) :: plan
    real(real64), allocatable :: u(:, :, :)
    real(real32), allocatable :: surface(:, :)
    call hp_pattern_create(mesh, comms(1), [(number, number=101, 100 + cells)], [(.true., number=1, cells)])
    do place = 1, size(sizes)
      nproma = sizes(place)
      nblocks = (cells + nproma - 1)/nproma
      allocate (u(nproma, levels, nblocks), source=-1.0_real64)
      allocate (surface(nproma, nblocks), source=-1.0_real32)
      do number = 1, cells
        block = (number - 1)/nproma + 1; within = mod(number - 1, nproma) + 1
        u(within, :, block) = number; surface(within, block) = number
      end do
      call hp_plan_create(plan, mesh, u, surface, axes='nproma levels blocks')
      call plan%update(u, surface)
      call check(nint(sum(surface, surface > 0)) == cells*(cells + 1)/2, 'blocks')
      call plan%free()
      call hp_plan_create(plan, mesh, surface, u, axes='nproma blocks; nproma levels blocks')
      call plan%update(surface, u)
      call plan%free()
      deallocate (u, surface)
    end do
    call mesh%free()
  end subroutine

  ! An assignment makes no second object: when it was freed through one variable, the other one is refused, also if there are newer objects.
  subroutine assigned()
    type(hp_comm) :: pair(2), comm
    type(hp_pattern) :: made, same
    type(hp_memory) :: memory, same_memory
    type(hp_plan) :: plan, same_plan, newer
    type(hp_sparse) :: messages, same_messages, newer_messages
    type(hp_line) :: line, same_line, newer_line
    real(real64), pointer :: x(:, :)
    real(real64) :: u(0:nx + 1, -1:ny + 2)
    integer, allocatable :: sources(:)
    integer(int64), allocatable :: bytes(:)
    integer :: low(2), high(2), stat
    character(300) :: text
    u = 1
    call hp_comm_threads(pair)
    comm = pair(2)
    call check(comm%rank() == 1, 'a communicator that was assigned')
    call pair(2)%free()
    call check(comm%rank(stat, text) == -1, 'a communicator that was freed'); call refused(stat, text, 'freed')
    call comm%free(stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call pair(1)%free()
    call hp_pattern_create(made, comms(1), [nx, ny], halo=[1, 2], periodic=[.true., .true.])
    same = made
    call hp_allocate(memory, made, x)
    same_memory = memory
    call memory%free()
    call same_memory%free(stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call hp_plan_create(plan, made, u)
    call made%free()
    call same%owned(low, high, stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call same%free(stat=stat, errmsg=text); call refused(stat, text, 'freed')

    same_plan = plan
    call same_plan%update(u)
    call plan%start(u)
    call same_plan%finish(u)
    call plan%free()
    call plan%free()
    call refuse_plan(same_plan)
    call hp_plan_create(newer, grid, u)
    call refuse_plan(same_plan)
    call newer%update(u)
    call newer%free()
    call refuse_plan(same_plan)

    call hp_sparse_create(messages, comms(1))
    same_messages = messages
    call same_messages%exchange([0], [1], [7], sources, bytes)
    call messages%free()
    call messages%free()
    call hp_sparse_create(newer_messages, comms(1))
    call same_messages%exchange([0], [1], [7], sources, bytes, stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call check(.not. same_messages%ready(stat=stat, errmsg=text), 'an exchange that was freed'); call refused(stat, text, 'freed')
    call same_messages%free(stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call newer_messages%exchange([0], [1], [7], sources, bytes)
    call check(size(sources) == 1, 'an exchange of messages in the place of one that was freed')
    call newer_messages%free()

    call hp_line_create(line, comms(1), 4)
    same_line = line
    call check(same_line%left() == -1, 'a line that was assigned')
    call line%free()
    call line%free()
    call hp_line_create(newer_line, comms(1), 4)
    call check(same_line%left(stat=stat, errmsg=text) == -1, 'a line that was freed'); call refused(stat, text, 'freed')
    call same_line%exchange(stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call same_line%free(stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call newer_line%exchange()
    call newer_line%free()
  end subroutine

  ! The plan was freed through another variable.
  subroutine refuse_plan(plan)
    type(hp_plan), intent(in) :: plan
    type(hp_plan) :: copy
    real(real64) :: u(0:nx + 1, -1:ny + 2)
    integer :: stat
    character(300) :: text
    copy = plan
    u = 1; text = ''
    call copy%update(u, stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call copy%start(u, stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call check(.not. copy%ready(stat=stat, errmsg=text), 'a plan that was freed'); call refused(stat, text, 'freed')
    call check(copy%describe(stat=stat, errmsg=text) == '', 'a plan that was freed'); call refused(stat, text, 'freed')
    call copy%free(stat=stat, errmsg=text); call refused(stat, text, 'freed')
  end subroutine

  ! Each is a status and a text that names what is wrong.
  subroutine wrong()
    type(hp_plan) :: plan, none
    type(hp_pattern) :: other
    type(hp_comm) :: comm
    real(real64) :: u(0:nx + 1, -1:ny + 2), small(3, 3), scalar
    real(real32) :: single(0:nx + 1, -1:ny + 2)
    integer :: stat, low(5), high(5)
    character(200) :: text
    u = 0
    call hp_plan_create(plan, other, u, stat=stat, errmsg=text); call refused(stat, text, 'expected')
    call hp_plan_create(plan, grid, small, stat=stat, errmsg=text); call refused(stat, text, 'extent')
    call hp_plan_create(plan, grid, u, axes='x z', stat=stat, errmsg=text); call refused(stat, text, 'axes')
    call hp_plan_create(plan, grid, u, axes='x y levels levels', stat=stat, errmsg=text); call refused(stat, text, 'axis')
    call hp_plan_create(plan, grid, scalar, stat=stat, errmsg=text); call refused(stat, text, 'axes')
    call hp_plan_create(plan, grid, u, in_flight=-1, stat=stat, errmsg=text); call refused(stat, text, 'in_flight')
    call hp_plan_create(plan, grid, u, halo=[9, 9], stat=stat, errmsg=text); call refused(stat, text, 'room')
    call none%update(u, stat=stat, errmsg=text); call refused(stat, text, 'plan')
    call hp_plan_create(plan, grid, u)
    call plan%update(single, stat=stat, errmsg=text); call refused(stat, text, 'type')
    call plan%update(small, stat=stat, errmsg=text); call refused(stat, text, 'shape')
    call plan%update(u(ubound(u, 1):0:-1, :), stat=stat, errmsg=text); call refused(stat, text, 'strides')
    call plan%update(u, u, stat=stat, errmsg=text); call refused(stat, text, 'as many')
    call plan%finish(u, stat=stat, errmsg=text); call refused(stat, text, 'started')
    call check(.not. plan%ready(stat=stat, errmsg=text), 'nothing is ready'); call refused(stat, text, 'started')
    call check(.not. none%ready(stat=stat, errmsg=text), 'no plan is ready'); call refused(stat, text, 'plan')
    call plan%start(u)
    call plan%update(u, stat=stat, errmsg=text); call refused(stat, text, 'not finished')
    call plan%finish(u)
    call plan%free()
    call plan%start(u, stat=stat, errmsg=text); call refused(stat, text, 'freed')
    call hp_pattern_create(other, comms(1), [1, 2, 3], [.true., .true.], stat=stat, errmsg=text); call refused(stat, text, 'owned')
    call hp_pattern_create(other, comms(1), [3, -1], halo=[1], stat=stat, errmsg=text); call refused(stat, text, 'cells')
    call hp_pattern_create(other, comms(1), [3, 3], halo=[1, 1, 1], stat=stat, errmsg=text); call refused(stat, text, 'halo')
    call hp_comm_create(comm, 0, stat=stat, errmsg=text); call refused(stat, text, 'MPI')
    call check(comm%rank(stat, text) == -1, 'a communicator that was not made'); call refused(stat, text, 'null')
    call check(comm%size(stat, text) == 0, 'a communicator that was not made'); call refused(stat, text, 'null')
    call other%owned(low(:2), high(:2), stat=stat, errmsg=text); call refused(stat, text, 'null')
    call check(all(low(:2) > high(:2)), 'cells of a pattern that was not made')
    call hp_pattern_create(other, comms(1), [2, 2, 2, 2, 2], halo=[1], stat=stat, errmsg=text); call refused(stat, text, 'axes')
    call other%owned(low, high, stat=stat, errmsg=text); call refused(stat, text, 'expected')
    call check(all(low > high), 'cells of a pattern of five axes')
  end subroutine

  subroutine refused(stat, text, word)
    integer, intent(in) :: stat
    character(*), intent(in) :: text, word
    call check(stat /= 0 .and. index(text, word) > 0, 'expected a failure with "'//word//'": '//trim(text))
  end subroutine

end program
