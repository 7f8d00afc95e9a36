! Heat spreads over a plate, computed by OpenACC: mpirun -n 4 ./acc
!
! With a compiler for GPUs the arrays of `host_data` are those of the GPU: the plan knows them by their addresses, and exchanges
! are ordered with OpenACC's queue 1, so the host does not wait. Without OpenACC, or without a GPU, the same program runs on the CPU.
program acc
  use, intrinsic :: iso_c_binding, only: c_int, c_intptr_t
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use haloport
  implicit none
#ifdef _OPENACC
  interface
    integer(c_intptr_t) function acc_get_cuda_stream(queue) bind(c)
      import
      integer(c_int), value :: queue
    end function
  end interface
#endif
  integer, parameter :: nx = 64, ny = 96, steps = 200
  type(hp_comm) :: comm
  type(hp_pattern) :: pattern
  type(hp_plan) :: plan
  real(real64), allocatable :: u(:, :), next(:, :)
  real(real64) :: highest
  integer :: low(2), high(2), i, j

  call MPI_Init()
  call hp_comm_create(comm, MPI_COMM_WORLD%MPI_VAL)
  call hp_pattern_create(pattern, comm, [nx, ny], halo=[1], periodic=[.false., .true.])
  call pattern%owned(low, high)
  allocate (u(low(1) - 1:high(1) + 1, low(2) - 1:high(2) + 1), source=0.0_real64)
  allocate (next, source=u)
  do concurrent(i=low(1):high(1), j=low(2):high(2))
    if (i > 20 .and. i <= 40 .and. j > 30 .and. j <= 50) u(i, j) = 100
  end do

  call run(u, next)

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

  subroutine run(u, next)
    real(real64), intent(inout), dimension(low(1) - 1:high(1) + 1, low(2) - 1:high(2) + 1) :: u, next
    type(hp_stream) :: stream
    integer :: i, j, step
    stream = hp_default
#ifdef _OPENACC
    stream = hp_on(acc_get_cuda_stream(1_c_int))
#endif
    !$acc data copy(u) copyin(next)
    !$acc host_data use_device(u)
    call hp_plan_create(plan, pattern, u)
    !$acc end host_data
    do step = 1, steps
      !$acc host_data use_device(u)
      call plan%update(u, stream=stream)
      !$acc end host_data
      !$acc parallel loop collapse(2) present(u, next) async(1)
      do j = low(2), high(2)
        do i = low(1), high(1)
          next(i, j) = u(i, j) + 0.2_real64*(u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1) - 4*u(i, j))
        end do
      end do
      !$acc parallel loop collapse(2) present(u, next) async(1)
      do j = low(2), high(2)
        do i = low(1), high(1)
          u(i, j) = next(i, j)
        end do
      end do
    end do
    !$acc wait(1)
    !$acc end data
  end subroutine

end program
