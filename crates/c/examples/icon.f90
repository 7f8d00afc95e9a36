! A tracer spreads between the triangles of a doubly periodic plane, in arrays (nproma, nlev, nblk): mpirun -n 4 ./icon
!
! As in ICON, each rank numbers its own cells first, then those of its halo, and lays them into blocks of nproma cells. A field
! with levels and one without travel in one exchange.
program icon
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use haloport
  implicit none
  integer, parameter :: nproma = 32, nlev = 10, nx = 24, ny = 20, steps = 50
  integer, parameter :: all_cells = 2*nx*ny ! two triangles for each square
  type(hp_comm) :: comm
  type(hp_pattern) :: cells
  type(hp_plan) :: plan
  real(real64), allocatable :: tracer(:, :, :), next(:, :, :), rain(:, :)
  integer, allocatable :: ids(:), neighbour_idx(:, :, :), neighbour_blk(:, :, :)
  integer :: place_of(all_cells), first, last, owned, nblk, place, side, lev, step, jb, jc
  real(real64) :: mass, rained

  call MPI_Init()
  call hp_comm_create(comm, MPI_COMM_WORLD%MPI_VAL)

  ! This rank owns a range of the ids, which count from 1; its halo are the neighbours of those cells.
  first = all_cells*comm%rank()/comm%size() + 1
  last = all_cells*(comm%rank() + 1)/comm%size()
  owned = last - first + 1
  ids = [(place, place=first, last)]
  place_of = 0
  place_of(first:last) = [(place, place=1, owned)]
  do place = 1, owned
    do side = 1, 3
      associate (id => neighbour(ids(place), side))
        if (place_of(id) > 0) cycle
        ids = [ids, id]
        place_of(id) = size(ids)
      end associate
    end do
  end do
  call hp_pattern_create(cells, comm, ids, [(place <= owned, place=1, size(ids))])

  nblk = (size(ids) + nproma - 1)/nproma
  allocate (tracer(nproma, nlev, nblk), next(nproma, nlev, nblk), rain(nproma, nblk), source=0.0_real64)
  allocate (neighbour_idx(nproma, nblk, 3), neighbour_blk(nproma, nblk, 3), source=1)
  do place = 1, owned
    do side = 1, 3
      associate (other => place_of(neighbour(ids(place), side)))
        neighbour_idx(idx(place), blk(place), side) = idx(other)
        neighbour_blk(idx(place), blk(place), side) = blk(other)
      end associate
    end do
    if (ids(place) == all_cells/2) tracer(idx(place), :, blk(place)) = [(1000.0_real64*lev, lev=1, nlev)]
  end do

  call hp_plan_create(plan, cells, tracer, rain, axes='nproma levels blocks')
  do step = 1, steps
    call plan%update(tracer, rain)
    do jb = 1, blk(owned)
      do lev = 1, nlev
        do jc = 1, merge(idx(owned), nproma, jb == blk(owned))
          next(jc, lev, jb) = 0.25_real64*(tracer(jc, lev, jb) &
            + tracer(neighbour_idx(jc, jb, 1), lev, neighbour_blk(jc, jb, 1)) &
            + tracer(neighbour_idx(jc, jb, 2), lev, neighbour_blk(jc, jb, 2)) &
            + tracer(neighbour_idx(jc, jb, 3), lev, neighbour_blk(jc, jb, 3)))
        end do
      end do
    end do
    tracer = next
    do place = 1, owned
      rain(idx(place), blk(place)) = rain(idx(place), blk(place)) + 1e-3_real64*sum(tracer(idx(place), :, blk(place)))
    end do
  end do

  ! With a wrong halo, some would be lost.
  mass = 0; rained = 0
  do place = 1, owned
    mass = mass + sum(tracer(idx(place), :, blk(place)))
    rained = rained + rain(idx(place), blk(place))
  end do
  call MPI_Allreduce(MPI_IN_PLACE, mass, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allreduce(MPI_IN_PLACE, rained, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  if (comm%rank() == 0) then
    print '(i0, a, i0, a, i0, a, f0.6, a, f0.6)', comm%size(), ' ranks, ', all_cells, ' cells: after ', steps, &
      ' steps the tracer is ', mass, ', the rain ', rained
  end if
  if (abs(mass - 55000) > 1e-6_real64 .or. abs(rained - 2750) > 1e-6_real64) error stop 'expected 55000 and 2750'
  call plan%free()
  call cells%free()
  call comm%free()
  call MPI_Finalize()

contains

  ! The place of a cell within its block, and its block.
  elemental integer function idx(place)
    integer, intent(in) :: place
    idx = mod(place - 1, nproma) + 1
  end function

  elemental integer function blk(place)
    integer, intent(in) :: place
    blk = (place - 1)/nproma + 1
  end function

  ! The cell beyond one of three sides. Odd ids are lower triangles of their squares, even ids upper ones.
  elemental integer function neighbour(id, side)
    integer, intent(in) :: id, side
    integer :: i, j, step
    i = mod((id - 1)/2, nx)
    j = (id - 1)/(2*nx)
    step = merge(-1, 1, mod(id, 2) == 1)
    if (side == 2) i = modulo(i + step, nx)
    if (side == 3) j = modulo(j + step, ny)
    neighbour = 2*(j*nx + i) + merge(2, 1, mod(id, 2) == 1)
  end function

end program
