! What programs with ranks that are threads need of POSIX; a pthread_t is a number.
module posix_threads
  use, intrinsic :: iso_c_binding, only: c_funptr, c_int, c_intptr_t, c_ptr
  implicit none
  private
  public :: pthread_create, pthread_join, usleep

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
    integer(c_int) function usleep(microseconds) bind(c)
      import
      integer(c_int), value :: microseconds
    end function
  end interface

end module
