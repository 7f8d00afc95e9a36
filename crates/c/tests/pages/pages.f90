! The code of the pages in Fortran: scripts/pages puts it in place of the comments that name it. Runs on 3 ranks of MPI.
module rank_of_pages
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08, only: MPI_Abort, MPI_COMM_WORLD
  use haloport
  implicit none
  integer :: rank = 0

  interface interior
    procedure interior_of_two
  end interface

contains

  subroutine require(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    write (error_unit, '(a, i0, 2a)') 'rank ', rank, ': expected ', what
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

  subroutine interior_of_two(u, w)
    real(real64), intent(in) :: u(:), w(:, :)
    call require(size(u) == size(w, 1), 'arrays of the same cells')
  end subroutine

  ! Cell 2 of each rank is a copy of cell 1 of the next one.
  subroutine meshes()
    real(real64) :: u(2), w(2, 3), v(2)
    integer :: ids(2)
    logical :: owned(2)
    ids = [rank, mod(rank + 1, 3)]
    owned = [.true., .false.]
    u = rank; w = rank; v = rank
    block
      ! page: docs/fortran.md 1
      call require(abs(u(2) - ids(2)) + maxval(abs(w(2, :) - ids(2))) <= 0, 'the values of the next rank')
      call plan%free()
      u(2) = -1
      block
        ! page: docs/fortran.md 3
        call require(abs(u(2) - ids(2)) + abs(v(2) - ids(2)) <= 0, 'values of two exchanges')
      end block
      call plan%free(); call cells%free(); call comm%free()
    end block
  end subroutine

  ! Cell 1 goes to the rank before, cell 2 comes from the next one.
  subroutine lists(comm)
    type(hp_comm), intent(in) :: comm
    type(hp_pattern) :: cells
    type(hp_plan) :: plan
    real(real64) :: u(2)
    integer :: send_to(1), send_counts(1), send_cells(1), receive_from(1), receive_counts(1), receive_cells(1)
    u = rank
    send_to = modulo(rank - 1, 3); send_counts = 1; send_cells = 1
    receive_from = mod(rank + 1, 3); receive_counts = 1; receive_cells = 2
    ! page: docs/fortran.md 7
    call hp_plan_create(plan, cells, u)
    call plan%update(u)
    call require(abs(u(2) - mod(rank + 1, 3)) <= 0, 'the value of the next rank')
    call plan%free(); call cells%free()
  end subroutine

  subroutine particles(comm)
    type(hp_comm), intent(in) :: comm
    integer :: destinations(2), counts(2), moved(3), place
    integer, allocatable :: came(:)
    destinations = [2, 0]; counts = [2, 1]; moved = rank
    block
      ! page: docs/fortran.md 4
      place = 0
      if (rank /= 1) place = merge(2, 1, rank == 2)
      call require(size(sources) == merge(0, 3, rank == 1) .and. size(came) == 3*place, 'a message of each rank')
      if (place > 0) call require(all(came == [spread(0, 1, place), spread(1, 1, place), spread(2, 1, place)]), 'their numbers')
      call messages%free()
    end block
  end subroutine

  subroutine rows_of_a_table(comm)
    type(hp_comm), intent(in) :: comm
    integer, parameter :: rows = 30, last = 4
    real(real64) :: table(3, last), row_before(3)
    table = rank
    row_before = -1
    block
      ! page: docs/fortran.md 5
      call require(all(abs(row_before - (rank - 1)) <= 0), 'the row of the rank before')
      call line%free()
    end block
  end subroutine

  subroutine grids(comm)
    type(hp_comm), intent(in) :: comm
    integer, parameter :: nx = 12, ny = 9
    type(hp_pattern) :: grid, tiles
    type(hp_plan) :: plan
    real(real64), allocatable :: u(:, :), u_1(:, :), u_2(:, :), w_1(:, :), w_2(:, :)
    integer :: low(2), high(2), first(2, 2), last(2, 2)
    ! page: docs/fortran.md 6
    u = rank
    call plan%update(u)
    call require(any(abs(u - rank) > 0), 'a halo')
    call plan%free()
    block
      ! page: docs/fortran.md 2
      call require(all(shape(w) == [shape(u), 75]), 'arrays with their halo')
      u = rank; w = rank
      call plan%update(u, w)
      call require(any(abs(u - rank) > 0) .and. any(abs(w - rank) > 0), 'halos in the memory of the library')
      call plan%free(); call of_u%free(); call of_w%free()
    end block
    call grid%free()

    ! Each rank has rows of cells, in two tiles side by side.
    first(:, 1) = [1, 3*rank + 1]; last(:, 1) = [nx/2, 3*rank + 3]
    first(:, 2) = [nx/2 + 1, 3*rank + 1]; last(:, 2) = [nx, 3*rank + 3]
    allocate (u_1(0:nx/2 + 1, 5), w_1(0:nx/2 + 1, 5), u_2(0:nx/2 + 1, 5), w_2(0:nx/2 + 1, 5))
    u_1 = 2*rank; w_1 = 2*rank; u_2 = 2*rank + 1; w_2 = 2*rank + 1
    ! page: docs/fortran.md 8
    call require(low(1) == nx/2 .and. high(1) == nx + 1, 'the columns of the second tile and its halo')
    call plan%update(u_1, u_2, w_1, w_2)
    call require(all(abs(u_1(nx/2 + 1, 2:4) - (2*rank + 1)) + abs(w_2(0, 2:4) - 2*rank) <= 0), 'the values of the other tile')
    call plan%free(); call tiles%free()
  end subroutine

  ! Arrays have to be there before the pages make their patterns: patterns that are cut alike tell their sizes.
  subroutine staggered(comm)
    type(hp_comm), intent(in) :: comm
    integer, parameter :: nx = 12, ny = 9
    type(hp_pattern) :: eastward, tracers, cells, nodes, probe
    type(hp_plan) :: plan
    real(real64), allocatable :: u(:, :, :), salt(:, :), velocity(:, :)
    integer :: low(2), high(2)
    call hp_pattern_create(probe, comm, [nx, ny], halo=[1], fold='corner', points='east-edges')
    call probe%with_halo(low, high)
    allocate (u(low(1):high(1), low(2):high(2), 2))
    u = rank
    call probe%free()
    ! page: docs/fields.md 1
    call plan%update(u)
    call require(any(abs(u - rank) > 0), 'a halo on a tripolar grid')
    call plan%free()

    call hp_pattern_create(tracers, comm, [nx, ny], halo=[1], fold='corner')
    call tracers%with_halo(low, high)
    allocate (salt(low(1):high(1), low(2):high(2)))
    salt = rank; u = rank
    ! page: docs/fields.md 3
    call require(any(abs(u - rank) > 0) .and. any(abs(salt - rank) > 0), 'halos of two kinds of points')
    call plan%free(); call tracers%free(); call eastward%free()

    call hp_pattern_create(probe, comm, [nx, ny], halo=[2], clipped=.true.)
    call probe%owned(low, high)
    allocate (velocity(-1:high(1) - low(1) + 4, -1:high(2) - low(2) + 4))
    velocity = rank
    call probe%free()
    ! page: docs/fields.md 2
    call plan%update(velocity)
    call require(any(abs(velocity - rank) > 0), 'a halo of nodes')
    call plan%free(); call nodes%free(); call cells%free()
  end subroutine

  subroutine sums(comm)
    type(hp_comm), intent(in) :: comm
    integer, parameter :: nsummands = 2, dsummands = 3, nflds = 2
    real(real64) :: volume, height(2), area(2), heat(2), salt(2), budget(2), arr(dsummands, nflds), arr_gsum(nflds)
    logical :: wet(2)
    height = [1e30_real64, real(rank, real64)]
    area = [real(merge(1, merge(-1, 0, rank == 1), rank == 0), real64), 2.0_real64]
    arr(:, 1) = [height(1)*area(1), 1.0_real64, -1e6_real64]
    arr(:, 2) = rank
    heat = [0.0_real64, 0.5_real64]
    heat(1) = heat(1)/heat(1)
    salt = [huge(1.0_real64), 0.25_real64]
    wet = [.false., .true.]
    ! page: docs/exact-sums.md 3
    call require(abs(volume - 6) <= 0, 'an exact volume')
    call require(all(abs(budget - [3.0_real64, 1.5_real64]) <= 0), 'exact sums with a mask')
    call require(all(abs(arr_gsum - [3, 6]) <= 0), 'exact sums of columns')
    call as_before()
  contains
    subroutine as_before()
      ! page: docs/exact-sums.md 4
      call shr_reprosum_calc(arr, arr_gsum, nsummands, dsummands, nflds, commid=MPI_COMM_WORLD%MPI_VAL)
      call require(all(abs(arr_gsum - [3, 6]) <= 0), 'sums of a call of E3SM')
    end subroutine
  end subroutine

  subroutine one_picture(comm)
    type(hp_comm), intent(in) :: comm
    integer, parameter :: nx = 12, ny = 9
    type(hp_pattern) :: probe
    real(real64), allocatable :: u(:, :), picture(:, :)
    integer :: low(2), high(2), i, j
    call hp_pattern_create(probe, comm, [nx, ny], halo=[1])
    call probe%with_halo(low, high)
    call probe%free()
    allocate (u(low(1):high(1), low(2):high(2)))
    do j = low(2), high(2)
      do i = low(1), high(1)
        u(i, j) = 100*j + i
      end do
    end do
    block
      ! page: docs/redistribute.md 2
      do j = 1, last(2)
        call require(all(abs(picture(:, j) - [(100*j + i, i=1, nx)]) <= 0), 'all cells on one rank')
      end do
      call plan%free(); call gather%free(); call parts%free(); call whole%free()
    end block
  end subroutine

end module

program pages
  use mpi_f08, only: MPI_Comm_rank, MPI_COMM_WORLD, MPI_Finalize, MPI_Init
  use haloport
  use rank_of_pages
  implicit none
  type(hp_comm) :: comm
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call hp_comm_create(comm, MPI_COMM_WORLD%MPI_VAL)
  call meshes()
  call lists(comm)
  call particles(comm)
  call rows_of_a_table(comm)
  call grids(comm)
  call staggered(comm)
  call sums(comm)
  call one_picture(comm)
  call comm%free()
  call MPI_Finalize()
end program
