! The messages of messages.f90 between 3 ranks, which are threads, and on one rank.
module threads_of_messages
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_null_ptr, c_ptr
  use haloport
  use messages_of_rank
  implicit none
  private
  public :: participant, participate

  type :: participant
    type(hp_comm) :: comm
    integer :: failures = 0
  end type

contains

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
  use, intrinsic :: iso_c_binding, only: c_funloc, c_funptr, c_int, c_intptr_t, c_loc, c_null_ptr, c_ptr
  use haloport
  use messages_of_rank
  use threads_of_messages
  implicit none

  ! Of POSIX; a pthread_t is a number.
  interface
    integer(c_int) function pthread_create(thread, options, body, argument) bind(c)
      import
      integer(c_intptr_t), intent(out) :: thread
      type(c_ptr), value :: options
      type(c_funptr), value :: body
      type(c_ptr), value :: argument
    end function
    integer(c_int) function pthread_join(thread, nothing) bind(c)
      import
      integer(c_intptr_t), value :: thread
      type(c_ptr), value :: nothing
    end function
  end interface

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
end program
