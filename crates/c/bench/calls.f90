! Fortran's side of `calls.rs`: updates of arrays of 4³ cells, of one rank with itself.
module calls
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: real64
  use haloport
  implicit none
  private
  public :: calls_prepare, calls_one, calls_twenty, calls_are_right

  integer, parameter :: n = 4

  type :: field
    real(real64), allocatable :: u(:, :, :)
  end type

  type(hp_comm) :: comms(1)
  type(hp_pattern) :: grid
  type(hp_plan) :: one, twenty
  type(field) :: f(20)

contains

  subroutine calls_prepare() bind(c)
    integer :: number
    call hp_comm_threads(comms)
    call hp_pattern_create(grid, comms(1), [n, n, n], halo=[1], periodic=[.true., .true., .true.])
    do number = 1, size(f)
      allocate (f(number)%u(0:n + 1, 0:n + 1, 0:n + 1), source=-1.0_real64)
      call fill(f(number)%u)
    end do
    call hp_plan_create(one, grid, f(1)%u)
    call hp_plan_create(twenty, grid, f(1)%u, f(2)%u, f(3)%u, f(4)%u, f(5)%u, f(6)%u, f(7)%u, f(8)%u, f(9)%u, f(10)%u, &
      f(11)%u, f(12)%u, f(13)%u, f(14)%u, f(15)%u, f(16)%u, f(17)%u, f(18)%u, f(19)%u, f(20)%u)
  end subroutine

  subroutine calls_one(batch) bind(c)
    integer(c_int), value :: batch
    integer :: call_number
    do call_number = 1, batch
      call one%update(f(1)%u)
    end do
  end subroutine

  subroutine calls_twenty(batch) bind(c)
    integer(c_int), value :: batch
    integer :: call_number
    do call_number = 1, batch
      call twenty%update(f(1)%u, f(2)%u, f(3)%u, f(4)%u, f(5)%u, f(6)%u, f(7)%u, f(8)%u, f(9)%u, f(10)%u, &
        f(11)%u, f(12)%u, f(13)%u, f(14)%u, f(15)%u, f(16)%u, f(17)%u, f(18)%u, f(19)%u, f(20)%u)
    end do
  end subroutine

  ! 1 if all halos have their values, else 0.
  integer(c_int) function calls_are_right() bind(c)
    integer :: number, x, y, z
    calls_are_right = 1
    do number = 1, size(f)
      do z = 0, n + 1
        do y = 0, n + 1
          do x = 0, n + 1
            if (f(number)%u(x, y, z) /= cell(inside(x), inside(y), inside(z))) calls_are_right = 0
          end do
        end do
      end do
    end do
  end function

  subroutine fill(u)
    real(real64), intent(inout) :: u(0:, 0:, 0:)
    integer :: x, y, z
    do z = 1, n
      do y = 1, n
        do x = 1, n
          u(x, y, z) = cell(x, y, z)
        end do
      end do
    end do
  end subroutine

  elemental real(real64) function cell(x, y, z)
    integer, intent(in) :: x, y, z
    cell = real((z*16 + y)*16 + x, real64)
  end function

  elemental integer function inside(at)
    integer, intent(in) :: at
    inside = modulo(at - 1, n) + 1
  end function

end module
