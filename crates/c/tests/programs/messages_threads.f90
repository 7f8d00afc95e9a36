! The messages of messages.f90 between 3 ranks, which are threads, and on one rank.
module threads_of_messages
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int64
  use haloport
  use messages_of_rank
  implicit none
  private
  public :: participant, participate, busy, wait_in_finish

  type :: participant
    type(hp_comm) :: comm
    integer :: failures = 0
  end type

  ! The exchange of a rank whose thread waits, so that the other thread finds it in use.
  type(hp_sparse) :: busy

contains

  ! Starts a round on rank 1, and waits for the other rank in `finish`.
  recursive function wait_in_finish(argument) bind(c) result(nothing)
    type(c_ptr), value :: argument
    type(c_ptr) :: nothing
    type(participant), pointer :: me
    integer, allocatable :: from(:)
    integer(int64), allocatable :: bytes(:)
    integer :: stat
    nothing = c_null_ptr
    call c_f_pointer(argument, me)
    call hp_sparse_create(busy, me%comm)
    call busy%start([0], [1], 7)
    call me%comm%barrier()
    do
      call busy%finish(from, bytes, stat=stat)
      if (stat /= hp_in_flight) exit
    end do
    if (stat /= 0 .or. size(from) /= 1) me%failures = 1
  end function

  recursive function participate(argument) bind(c) result(nothing)
    type(c_ptr), value :: argument
    type(c_ptr) :: nothing
    type(participant), pointer :: me
    nothing = c_null_ptr
    call c_f_pointer(argument, me)
    me%failures = run_messages(me%comm)
    call me%comm%free()
  end function

end module

program messages_threads
  use, intrinsic :: iso_c_binding, only: c_funloc, c_intptr_t, c_loc, c_null_ptr
  use, intrinsic :: iso_fortran_env, only: int64
  use haloport
  use messages_of_rank
  use threads_of_messages
  use posix_threads, only: pthread_create, pthread_join
  implicit none

  type(participant), target :: participants(0:2)
  type(hp_comm) :: comms(0:2), alone(1)
  integer(c_intptr_t) :: threads(0:2)
  integer :: rank
  call hp_comm_threads(comms)
  do rank = 0, 2
    participants(rank)%comm = comms(rank)
    if (pthread_create(threads(rank), c_null_ptr, c_funloc(participate), c_loc(participants(rank))) /= 0) error stop 'no thread'
  end do
  do rank = 0, 2
    if (pthread_join(threads(rank), c_null_ptr) /= 0) error stop 'a thread was lost'
  end do
  if (any(participants%failures > 0)) error stop 1
  call hp_comm_threads(alone)
  if (run_messages(alone(1)) > 0) error stop 1
  call alone(1)%free()
  call free_in_use()

contains

  ! An exchange that another thread uses is not freed, and can be used, and freed, later.
  subroutine free_in_use()
    type(participant), target :: other
    type(hp_comm) :: pair(0:1)
    type(hp_sparse) :: mine
    integer, allocatable :: from(:)
    integer(int64), allocatable :: bytes(:)
    integer :: stat, came
    logical :: ready
    call hp_comm_threads(pair)
    other%comm = pair(1)
    if (pthread_create(threads(0), c_null_ptr, c_funloc(wait_in_finish), c_loc(other)) /= 0) error stop 'no thread'
    call hp_sparse_create(mine, pair(0))
    call pair(0)%barrier()
    stat = 0
    do while (stat /= hp_in_flight)
      ready = busy%ready(stat=stat)
    end do
    call busy%free(stat=stat)
    if (stat /= hp_in_flight) error stop 'an exchange in use was freed'
    call mine%exchange([1], [1], 8, from, bytes)
    if (pthread_join(threads(0), c_null_ptr) /= 0) error stop 'a thread was lost'
    if (other%failures > 0) error stop 'a round that another thread could not end has failed'
    call busy%take(came)
    if (came /= 8) error stop 'the message of an exchange that was not freed'
    call busy%free()
    call mine%free()
    call pair(0)%free()
    call pair(1)%free()
  end subroutine
end program
