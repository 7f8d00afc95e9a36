! The random exchanges of cases.f90 under MPI: mpirun -n 4 cases_mpi COUNT FIRST WORLD
!
! WORLD is the number of MPI_COMM_WORLD in Fortran. So the program needs no module of MPI, which some MPIs do not have.
program cases_mpi
  use, intrinsic :: iso_c_binding, only: c_int, c_null_ptr, c_ptr
  use haloport
  use cases
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
  call comm%free()
  if (c_finalize() /= 0) error stop 'MPI_Finalize failed'
end program
