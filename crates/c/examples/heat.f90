! Heat spreads over a plate with walls at the ends of one axis: mpirun -n 4 ./heat
program heat
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use haloport
  implicit none
  integer, parameter :: nx = 64, ny = 96, steps = 200
  type(hp_comm) :: comm
  type(hp_pattern) :: pattern
  type(hp_plan) :: plan
  real(real64), allocatable :: u(:, :), next(:, :)
  real(real64) :: highest
  integer :: low(2), high(2), inner_low(2), inner_high(2), i, j, step

  call MPI_Init()
  call hp_comm_create(comm, MPI_COMM_WORLD%MPI_VAL)
  call hp_pattern_create(pattern, comm, [nx, ny], halo=[1], periodic=[.false., .true.])
  call pattern%owned(low, high)
  call pattern%interior(inner_low, inner_high)
  allocate (u(low(1) - 1:high(1) + 1, low(2) - 1:high(2) + 1), source=0.0_real64)
  allocate (next, source=u)
  do concurrent(i=low(1):high(1), j=low(2):high(2))
    if (i > 20 .and. i <= 40 .and. j > 30 .and. j <= 50) u(i, j) = 100
  end do

  call hp_plan_create(plan, pattern, u)
  do step = 1, steps
    call plan%start(u)
    call compute(inner_low, inner_high) ! while halos travel
    call plan%finish(u)
    call compute(low, [high(1), inner_low(2) - 1])
    call compute([low(1), inner_high(2) + 1], high)
    call compute([low(1), inner_low(2)], [inner_low(1) - 1, inner_high(2)])
    call compute([inner_high(1) + 1, inner_low(2)], [high(1), inner_high(2)])
    u(low(1):high(1), low(2):high(2)) = next(low(1):high(1), low(2):high(2))
  end do

  highest = maxval(u(low(1):high(1), low(2):high(2)))
  call MPI_Allreduce(MPI_IN_PLACE, highest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
  if (comm%rank() == 0) then
    print '(i0, a, i0, a, f0.4)', comm%size(), ' ranks: the highest temperature after ', steps, ' steps is ', highest
  end if
  if (abs(highest - 54.1210_real64) > 1e-4_real64) error stop 'expected 54.1210'
  call plan%free()
  call pattern%free()
  call comm%free()
  call MPI_Finalize()

contains

  subroutine compute(from, to)
    integer, intent(in) :: from(2), to(2)
    integer :: i, j
    do j = from(2), to(2)
      do i = from(1), to(1)
        next(i, j) = u(i, j) + 0.2_real64*(u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1) - 4*u(i, j))
      end do
    end do
  end subroutine

end program
