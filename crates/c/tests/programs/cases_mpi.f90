! The random exchanges of cases.f90, and the messages of messages.f90, under MPI: mpirun -n 4 cases_mpi COUNT FIRST WORLD
!
! WORLD is the number of MPI_COMM_WORLD in Fortran. So the program needs no module of MPI, which some MPIs do not have.
program cases_mpi
  use, intrinsic :: iso_c_binding, only: c_int, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: real64
  use haloport
  use cases
  use messages_of_rank
  implicit none
  interface
    integer(c_int) function c_init(count, arguments) bind(c, name='MPI_Init')
      import
      type(c_ptr), value :: count, arguments
    end function
    integer(c_int) function c_finalize() bind(c, name='MPI_Finalize')
      import
    end function
  end interface
  type(hp_comm) :: comm
  character(20) :: text
  integer :: world
  call get_command_argument(3, text)
  read (text, *) world
  if (c_init(c_null_ptr, c_null_ptr) /= 0) error stop 'MPI_Init failed'
  call hp_comm_create(comm, world)
  call run_cases(comm)
  call straight(comm)
  call check_shared(comm)
  call check_sums(comm, world)
  if (run_messages(comm) > 0) error stop 'wrong messages'
  call comm%free()
  if (c_finalize() /= 0) error stop 'MPI_Finalize failed'

contains

  ! Neighbours on the same node reach arrays of `hp_allocate`: they copy straight from these, unless packing is quicker.
  subroutine straight(comm)
    type(hp_comm), intent(in) :: comm
    integer, parameter :: cells = 64
    type(hp_pattern) :: row
    type(hp_memory) :: memory
    type(hp_plan) :: plan
    real(real64), pointer :: u(:, :)
    integer :: low(2), high(2)
    character(:), allocatable :: found
    call hp_pattern_create(row, comm, [cells, cells*comm%size()], halo=[0, 1], periodic=[.false., .true.], parts=[1, comm%size()])
    call hp_allocate(memory, row, u)
    call row%owned(low, high)
    u(:, low(2):high(2)) = comm%rank()
    call hp_plan_create(plan, row, u, fixed=.true.)
    call plan%update(u)
    if (any(abs(u(:, low(2) - 1) - modulo(comm%rank() - 1, comm%size())) > 0.1)) error stop 'the halo below'
    if (any(abs(u(:, high(2) + 1) - modulo(comm%rank() + 1, comm%size())) > 0.1)) error stop 'the halo above'
    found = plan%describe()
    if (comm%size() > 1 .and. index(found, '"path":"direct"') == 0 .and. index(found, '"why":"quicker"') == 0 &
        .and. index(found, '"why":"apart"') == 0) then
      print '(a)', found
      error stop 'neighbours do not reach the array'
    end if
    call plan%free()
    call memory%free()
    call row%free()
  end subroutine

  ! Neighbours copy straight from an array of the program.
  subroutine check_shared(comm)
    type(hp_comm), intent(in) :: comm
    integer, parameter :: cells = 2000
    type(hp_pattern) :: row
    type(hp_plan) :: plan
    real(real64), allocatable, target :: u(:, :)
    integer :: below, above, turn
    character(:), allocatable :: found
    call hp_pattern_create(row, comm, [cells, 4*comm%size()], halo=[0, 2], periodic=[.false., .true.], parts=[1, comm%size()])
    allocate (u(cells, 8))
    below = modulo(comm%rank() - 1, comm%size())
    above = modulo(comm%rank() + 1, comm%size())
    call hp_plan_create(plan, row, u, fixed=.true., share=.true.)
    do turn = 1, 3
      u = -1
      u(:, 3:6) = comm%rank() + 100*turn
      call plan%update(u)
      if (any(abs(u(:, :2) - below - 100*turn) > 0.1)) error stop 'the halo below an array of the program'
      if (any(abs(u(:, 7:) - above - 100*turn) > 0.1)) error stop 'the halo above an array of the program'
    end do
    found = plan%describe()
    if (comm%size() > 1 .and. index(found, '"path":"direct"') == 0 .and. index(found, '"why":"quicker"') == 0 &
        .and. index(found, '"why":"apart"') == 0) then
      print '(a)', found
      error stop 'neighbours do not reach an array of the program'
    end if
    call plan%free()
    if (any(abs(u(:, 3:6) - comm%rank() - 300) > 0.1)) error stop 'the array has other values after the plan was freed'
    call row%free()
  end subroutine

  ! Calls of `shr_reprosum_calc`, whose module has another name: on a communicator of MPI by its number, or on all ranks of the job.
  subroutine check_sums(comm, mpicom)
    use haloport, only: shr_reprosum_calc => hp_reprosum_calc
    type(hp_comm), intent(in) :: comm
    integer, intent(in) :: mpicom
    integer, parameter :: n = 3
    real(real64) :: fluxes(n, 2), expected(2), sums(2), rel_diff(2, 2)
    integer :: stats(6), call
    ! 1e17 and -1e17 cancel, and leave 0.25 for each rank.
    fluxes(:, 1) = [1e17_real64, 0.25_real64, -1e17_real64]
    fluxes(:, 2) = [0.1_real64, 0.2_real64, 0.3_real64]*(comm%rank() + 1)
    call shr_reprosum_calc(fluxes, expected, n, n, 2, commid=comm)
    if (abs(expected(1) - 0.25_real64*comm%size()) > 0) error stop 'the exact sum of fluxes'
    stats = 0
    do call = 1, 20
      sums = -1
      call shr_reprosum_calc(fluxes, sums, n, n, 2, commid=mpicom, repro_sum_stats=stats, gbl_count=n*comm%size())
      if (any(abs(sums - expected) > 0)) error stop 'sums on a communicator of MPI'
      sums = -1
      call shr_reprosum_calc(fluxes, sums, n, n, 2, rel_diff=rel_diff)
      if (any(abs(sums - expected) > 0)) error stop 'sums of all ranks of the job'
    end do
    if (stats(1) /= 20 .or. any(stats(2:) /= 0)) error stop 'counts of calls'
    if (rel_diff(2, 1) < 0.2_real64 .or. rel_diff(2, 2) > 1e-12_real64) error stop 'differences from a sum of floats'
  end subroutine
end program
