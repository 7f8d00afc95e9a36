! A rank that waits long for another one warns, by a procedure of the program. Run with HALOPORT_WARN_AFTER=0.05.
module log_of_rank
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_null_ptr, c_ptr
  use haloport
  use posix_threads, only: usleep
  implicit none
  private
  public :: late, said, take

  integer :: said = 0

contains

  recursive subroutine take(level, text)
    integer, intent(in) :: level
    character(*), intent(in) :: text
    said = said + merge(1, 100, level == hp_log_warning)
    write (*, '(a, 1x, i0, 2a)') 'level', level, ': ', text
  end subroutine

  recursive function late(argument) bind(c) result(nothing)
    type(c_ptr), value :: argument
    type(c_ptr) :: nothing
    type(hp_comm), pointer :: comm
    nothing = c_null_ptr
    call c_f_pointer(argument, comm)
    if (usleep(300000_c_int) /= 0) error stop 'no pause'
    call comm%barrier()
  end function

end module

program log
  use, intrinsic :: iso_c_binding, only: c_funloc, c_intptr_t, c_loc, c_null_ptr
  use haloport
  use log_of_rank
  use posix_threads, only: pthread_create, pthread_join
  implicit none

  type(hp_comm), target :: comms(2)
  integer(c_intptr_t) :: thread
  integer :: time

  call hp_comm_threads(comms)
  ! By a procedure, then on standard error.
  call hp_set_log(take)
  do time = 1, 2
    if (pthread_create(thread, c_null_ptr, c_funloc(late), c_loc(comms(2))) /= 0) error stop 'no thread'
    call comms(1)%barrier()
    if (pthread_join(thread, c_null_ptr) /= 0) error stop 'a thread was lost'
    call hp_set_log()
  end do
  call comms(1)%free(); call comms(2)%free()
  if (said > 1) error stop 'expected one warning'
end program
