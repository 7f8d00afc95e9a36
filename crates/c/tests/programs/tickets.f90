! Two exchanges of a plan are in flight between two ranks, which are threads, and finished in the other order: each time that one was
! finished, its own halo is in place. Tickets of other exchanges are refused.
module tickets_of_rank
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: real64, error_unit
  use haloport
  use posix_threads, only: usleep
  implicit none
  private
  public :: participant, participate

  integer, parameter :: n = 4

  type :: participant
    type(hp_comm) :: comm
    integer :: number = 0, failures = 0
  end type

contains

  recursive function participate(argument) bind(c) result(nothing)
    type(c_ptr), value :: argument
    type(c_ptr) :: nothing
    type(participant), pointer :: me
    nothing = c_null_ptr
    call c_f_pointer(argument, me)
    call several(me)
    call one_at_once(me)
  end function

  recursive subroutine several(me)
    type(participant), intent(inout) :: me
    type(hp_pattern) :: ring
    type(hp_plan) :: plan, other
    type(hp_ticket) :: one, two, none
    real(real64) :: u(0:n + 1), v(0:n + 1)
    character(300) :: text
    integer :: stat
    logical :: ready
    call hp_pattern_create(ring, me%comm, [2*n], halo=[1], periodic=[.true.])
    call hp_plan_create(plan, ring, u, in_flight=2)
    call hp_plan_create(other, ring, u, in_flight=2)
    call fill(u, me%comm%rank(), 1000)
    call fill(v, me%comm%rank(), 2000)
    call late(me)
    call plan%start(u, ticket=one)
    call late(me)
    call plan%start(v, ticket=two)
    call plan%finish(v, stat=stat, errmsg=text)
    call refused(me, stat, text, 'and 2 are, found none')
    call plan%finish(v, ticket=none, stat=stat, errmsg=text)
    call refused(me, stat, text, 'found none')
    call other%finish(v, ticket=two, stat=stat, errmsg=text)
    call refused(me, stat, text, 'another plan')
    ready = other%ready(two, stat=stat, errmsg=text)
    call refused(me, stat, text, 'another plan')
    call check(me, .not. ready, 'an exchange of another plan is ready')
    call plan%finish(u, ticket=two, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected the array of `start`')
    call plan%finish(v, ticket=two)
    call check(me, is_filled(v, me%comm%rank(), 2000), 'the halo of v after its finish')
    call plan%finish(v, ticket=two, stat=stat, errmsg=text)
    call refused(me, stat, text, 'was finished')
    ready = plan%ready(two, stat=stat, errmsg=text)
    call refused(me, stat, text, 'was finished')
    call check(me, .not. ready, 'an exchange that was finished is ready')
    do while (.not. plan%ready(one))
    end do
    call plan%finish(u, ticket=one)
    call check(me, is_filled(u, me%comm%rank(), 1000), 'the halo of u after its finish')
    call plan%start(u, stat=stat, errmsg=text)
    call refused(me, stat, text, 'ticket')
    call plan%free()
    call other%free()
    call ring%free()
  end subroutine

  ! With one exchange in flight at most, tickets can be left out.
  recursive subroutine one_at_once(me)
    type(participant), intent(inout) :: me
    type(hp_pattern) :: ring
    type(hp_plan) :: plan
    type(hp_ticket) :: ticket
    real(real64) :: u(0:n + 1)
    character(300) :: text
    integer :: step, stat
    logical :: ready
    call hp_pattern_create(ring, me%comm, [2*n], halo=[1], periodic=[.true.])
    call hp_plan_create(plan, ring, u)
    ready = plan%ready(stat=stat, errmsg=text)
    call refused(me, stat, text, 'found none')
    call check(me, .not. ready, 'no exchange is ready')
    do step = 1, 3
      call fill(u, me%comm%rank(), 100*step)
      if (step == 1) then
        call plan%start(u)
        do while (.not. plan%ready())
        end do
        call plan%finish(u)
      else
        call plan%start(u, ticket=ticket)
        if (step == 2) call plan%finish(u)
        if (step == 3) call plan%finish(u, ticket=ticket)
      end if
      call check(me, is_filled(u, me%comm%rank(), 100*step), 'a halo of one exchange in flight')
    end do
    call plan%free()
    ready = plan%ready(ticket, stat=stat, errmsg=text)
    call refused(me, stat, text, 'freed')
    call check(me, .not. ready, 'an exchange of a plan that was freed is ready')
    call ring%free()
  end subroutine

  ! Rank 1 starts late, so that an exchange that its neighbour does not finish has not arrived there by chance.
  recursive subroutine late(me)
    type(participant), intent(in) :: me
    integer(c_int) :: code
    code = 0
    if (me%number == 1) code = usleep(50000_c_int)
    if (code /= 0) error stop 'usleep failed'
  end subroutine

  recursive subroutine fill(x, rank, step)
    real(real64), intent(out) :: x(0:)
    integer, intent(in) :: rank, step
    integer :: i
    x = -1
    do i = 1, n
      x(i) = step + 10*rank + i
    end do
  end subroutine

  ! Both neighbours on the ring are the other rank.
  recursive logical function is_filled(x, rank, step)
    real(real64), intent(in) :: x(0:)
    integer, intent(in) :: rank, step
    integer :: other
    other = step + 10*(1 - rank)
    is_filled = nint(x(0)) == other + n .and. nint(x(n + 1)) == other + 1
  end function

  recursive subroutine refused(me, stat, text, word)
    type(participant), intent(inout) :: me
    integer, intent(in) :: stat
    character(*), intent(in) :: text, word
    call check(me, stat /= 0 .and. index(text, word) > 0, 'expected a failure with "'//word//'": '//trim(text))
  end subroutine

  recursive subroutine check(me, right, what)
    type(participant), intent(inout) :: me
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    me%failures = me%failures + 1
    write (error_unit, '(a, i0, 2a)') 'rank ', me%number, ', wrong: ', what
  end subroutine

end module

program tickets
  use, intrinsic :: iso_c_binding, only: c_funloc, c_intptr_t, c_loc, c_null_ptr
  use haloport
  use tickets_of_rank
  use posix_threads, only: pthread_create, pthread_join
  implicit none

  type(participant), target :: participants(0:1)
  type(hp_comm) :: comms(0:1)
  integer(c_intptr_t) :: threads(0:1)
  integer :: rank
  call hp_comm_threads(comms)
  do rank = 0, 1
    participants(rank)%comm = comms(rank)
    participants(rank)%number = rank
    if (pthread_create(threads(rank), c_null_ptr, c_funloc(participate), c_loc(participants(rank))) /= 0) error stop 'no thread'
  end do
  do rank = 0, 1
    if (pthread_join(threads(rank), c_null_ptr) /= 0) error stop 'a thread was lost'
    call participants(rank)%comm%free()
  end do
  if (any(participants%failures > 0)) error stop 1
end program
