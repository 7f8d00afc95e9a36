! Messages of any size and payloads along a line of ranks: arrays of several kinds and ranks, sections, members and scalars; wrong
! arguments. Each rank computes what all ranks send, so it knows what comes.
!
! messages_threads.f90 and cases_mpi.f90 are the programs.
module messages_of_rank
  use, intrinsic :: iso_fortran_env, only: compiler_version, error_unit, int32, int64, real64
  use haloport
  implicit none
  private
  public :: run_messages

  type :: particle
    integer(int64) :: place = 0
    integer(int32) :: tag = 0
  end type

  ! This rank, and how many checks have failed on it.
  type :: observer
    integer :: rank = 0, ranks = 0, failures = 0
  end type

contains

  ! Returns the number of failures.
  recursive integer function run_messages(comm)
    type(hp_comm), intent(in) :: comm
    type(observer) :: me
    me%rank = comm%rank()
    me%ranks = comm%size()
    call any_ranks(me, comm)
    call columns(me, comm)
    call members(me, comm)
    call fixed_neighbours(me, comm)
    call even_line(me, comm)
    call line_of_items(me, comm)
    call wrong_messages(me, comm)
    call wrong_payloads(me, comm)
    call values_of_one_rank(me, comm)
    call wrong_values(me, comm)
    run_messages = me%failures
  end function

  ! The number of values in message `which` of a rank to another one in a round; there are `messages_of` of them.
  elemental integer function count_of(round, from, to, which)
    integer, intent(in) :: round, from, to, which
    count_of = mod(mixed(round, from, to, which), 40)
    if (mod(count_of, 5) == 0) count_of = 0
    if (count_of == 39) count_of = 20000
  end function

  elemental integer function messages_of(round, from, to)
    integer, intent(in) :: round, from, to
    messages_of = mod(mixed(round, from, to, 77), 3)
  end function

  elemental integer function mixed(a, b, c, d)
    integer, intent(in) :: a, b, c, d
    integer(int64), parameter :: factor = 48271, prime = 2147483647
    integer(int64) :: hash
    hash = mod((a + 11)*factor, prime)
    hash = mod((hash + b + 1)*factor, prime)
    hash = mod((hash + c + 1)*factor, prime)
    hash = mod((hash + d + 1)*factor, prime)
    mixed = int(hash/8)
  end function

  recursive function values_of(round, from, to, which) result(values)
    integer, intent(in) :: round, from, to, which
    integer(int64), allocatable :: values(:)
    integer :: i
    values = [(mixed(round, from, to, which) + int(i, int64), i=1, count_of(round, from, to, which))]
  end function

  ! Random messages between all ranks, in one call and in two.
  recursive subroutine any_ranks(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    type(hp_sparse) :: messages
    integer, allocatable :: to(:), counts(:), from(:)
    integer(int64), allocatable :: values(:), found(:), bytes(:), expected(:)
    integer :: round, rank, which, next
    call hp_sparse_create(messages, comm)
    do round = 1, 12
      to = [integer ::]
      counts = [integer ::]
      values = [integer(int64) ::]
      do rank = 0, me%ranks - 1
        do which = 1, messages_of(round, me%rank, rank)
          to = [to, rank]
          counts = [counts, count_of(round, me%rank, rank, which)]
          values = [values, values_of(round, me%rank, rank, which)]
        end do
      end do
      if (mod(round + me%rank, 3) == 0) then
        call messages%exchange(to, counts, values, from, bytes)
      else
        call messages%start(to, counts, values)
        values = -1 ! they were copied
        if (mod(round + me%rank, 3) == 1) then
          do while (.not. messages%ready())
          end do
        end if
        call messages%finish(from, bytes)
      end if
      next = 0
      expected = [integer(int64) ::]
      do rank = 0, me%ranks - 1
        do which = 1, messages_of(round, rank, me%rank)
          next = next + 1
          if (next > size(from)) cycle
          call check(me, from(next) == rank .and. bytes(next) == 8*count_of(round, rank, me%rank, which), 'the list of messages')
          allocate (found(bytes(next)/8))
          call messages%take(found, message=next)
          call check(me, same(found, values_of(round, rank, me%rank, which)), 'a message')
          expected = [expected, found]
          deallocate (found)
        end do
      end do
      call check(me, next == size(from) .and. next == size(bytes), 'the number of messages')
      allocate (found(sum(bytes)/8))
      call messages%take(found)
      call check(me, same(found, expected), 'all messages in one array')
      deallocate (found)
    end do
    call messages%free()
  end subroutine

  recursive logical function same(found, expected)
    integer(int64), intent(in) :: found(:), expected(:)
    same = size(found) == size(expected)
    if (same) same = all(found == expected)
  end function

  ! Counts are along the last axis, also of a section, and a message is taken into a section, or into a scalar.
  recursive subroutine columns(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    type(hp_sparse) :: messages
    integer, allocatable :: from(:)
    integer(int64), allocatable :: bytes(:)
    integer(int32) :: sent(5, 2, 6), taken(7, 2, 4), one
    integer :: next, before, i, j, k
    next = mod(me%rank + 1, me%ranks)
    before = mod(me%rank + me%ranks - 1, me%ranks)
    do k = 1, 6
      do j = 1, 2
        do i = 1, 5
          sent(i, j, k) = 1000*me%rank + 100*i + 10*j + k
        end do
      end do
    end do
    taken = -1
    call hp_sparse_create(messages, comm)
    ! Rows 1, 3, 5 of columns 2, 4, 6: two of them, then one.
    call messages%exchange([next, next], [2, 1], sent(::2, :, 2::2), from, bytes)
    call check(me, all(from == before) .and. all(bytes == [48_int64, 24_int64]), 'the list of columns')
    call messages%take(taken(2:6:2, :, 4:3:-1), message=1)
    call messages%take(taken(2:6:2, :, 1:1), message=2)
    do j = 1, 2
      do i = 1, 3
        call check(me, taken(2*i, j, 4) == 1000*before + 100*(2*i - 1) + 10*j + 2, 'the first column')
        call check(me, taken(2*i, j, 3) == 1000*before + 100*(2*i - 1) + 10*j + 4, 'the second column')
        call check(me, taken(2*i, j, 1) == 1000*before + 100*(2*i - 1) + 10*j + 6, 'the third column')
      end do
    end do
    call check(me, all(taken(1::2, :, :) == -1) .and. all(taken(:, :, 2) == -1), 'beside a section')
    taken = -1
    call messages%take(taken(3:7:2, :, :3))
    call check(me, all(taken(3:7:2, 2, 3) == [120, 320, 520] + 1000*before + 6) .and. all(taken(:2, :, :) == -1), &
      'all messages in a section')
    call messages%exchange([next], [1], me%rank + 7_int32, from, bytes)
    call messages%take(one)
    call check(me, one == before + 7, 'a scalar')
    call messages%free()
  end subroutine

  ! Derived types, and members of all elements, of which a compiler may pass copies.
  recursive subroutine members(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    type(hp_sparse) :: messages
    type(particle) :: swarm(9), came(9)
    integer, allocatable :: from(:)
    integer(int64), allocatable :: bytes(:)
    integer :: i, other
    other = me%ranks - 1 - me%rank
    do i = 1, 9
      swarm(i) = particle(100_int64*me%rank + i, -i)
    end do
    call hp_sparse_create(messages, comm)
    call messages%exchange([other], [9], swarm, from, bytes)
    call check(me, all(from == other) .and. sum(bytes) == 9*storage_size(swarm)/8, 'the size of records')
    call messages%take(came)
    call check(me, all(came%place == 100_int64*other + [(i, i=1, 9)]) .and. all(came%tag == [(-i, i=1, 9)]), 'records')
    call messages%exchange([other, other], [3, 6], swarm%tag, from, bytes)
    came%place = 5
    came%tag = 0
    call messages%take(came%tag)
    call check(me, all(came%tag == [(-i, i=1, 9)]) .and. all(came%place == 5), 'members')
    call messages%free()
  end subroutine

  ! A ring. Reals, and texts.
  recursive subroutine fixed_neighbours(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    type(hp_sparse) :: ring
    real(real64) :: sent(4), came(4)
    character(3) :: word
    integer, allocatable :: from(:)
    integer(int64), allocatable :: bytes(:)
    integer :: next, before, i, round
    next = mod(me%rank + 1, me%ranks)
    before = mod(me%rank + me%ranks - 1, me%ranks)
    call hp_sparse_create(ring, comm, sources=[before], destinations=[next])
    do round = 1, 3
      sent = [(me%rank + i/8.0_real64, i=1, 4)]
      call ring%start([next], [4], sent)
      sent = -1
      call ring%finish(from, bytes)
      call ring%take(came)
      call check(me, all(abs(came - [(before + i/8.0_real64, i=1, 4)]) < 1e-9_real64) .and. all(from == before), 'reals')
    end do
    call ring%exchange([next], [1], ['abc'], from, bytes)
    call ring%take(word)
    call check(me, word == 'abc', 'a text')
    call ring%exchange([integer ::], [integer ::], [integer ::], from, bytes)
    call check(me, size(from) == 0 .and. size(bytes) == 0, 'a round without messages')
    call ring%free()
  end subroutine

  ! Payloads to one side, to both and to none.
  recursive subroutine even_line(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    type(hp_line) :: line
    integer(int64) :: left_bytes, right_bytes, low, high
    integer :: lower, upper, rows(2, 4), before(2, 1), behind(2, 2), empty(0), i
    call hp_line_create(line, comm, 3*me%ranks + 1)
    call line%items(lower, upper)
    call line%items(low, high)
    call check(me, lower == 3*me%rank + merge(1, 2, me%rank == 0) .and. upper == 3*me%rank + 4, 'the items of an even line')
    call check(me, low == lower .and. high == upper, 'items of 64 bits')
    call check(me, line%left() == me%rank - 1, 'the rank on the left')
    call check(me, line%right() == merge(me%rank + 1, -1, me%rank + 1 < me%ranks), 'the rank on the right')
    do i = 1, 4
      rows(:, i) = [100*me%rank + i, -i]
    end do
    call line%start(left=rows(:, 1:2), right=rows(:, 4))
    rows = -9
    do while (.not. line%ready())
    end do
    call line%finish(left_bytes, right_bytes)
    call check(me, left_bytes == merge(8, -1, me%rank > 0), 'the size from the left')
    call check(me, right_bytes == merge(16, -1, me%rank + 1 < me%ranks), 'the size from the right')
    before = 0
    behind = 0
    if (left_bytes > 0 .and. right_bytes > 0) then
      call line%take(before, behind)
    else if (left_bytes > 0) then
      call line%take(left=before)
    else if (right_bytes > 0) then
      call line%take(right=behind)
    end if
    if (me%rank > 0) call check(me, all(before(:, 1) == [100*(me%rank - 1) + 4, -4]), 'the payload from the left')
    if (me%rank + 1 < me%ranks) then
      call check(me, all(behind(:, 2) == [100*(me%rank + 1) + 2, -2]), 'the payload from the right')
    end if
    ! An array without elements is a payload.
    call line%exchange(right=empty, left_bytes=left_bytes, right_bytes=right_bytes)
    call check(me, left_bytes == merge(0, -1, me%rank > 0) .and. right_bytes == -1, 'an empty payload')
    call line%exchange(right_bytes=right_bytes)
    call check(me, right_bytes == -1, 'no payload')
    call line%free()
  end subroutine

  ! Rank 0 has all items. What has come is passed on.
  recursive subroutine line_of_items(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    type(hp_line) :: line
    integer(int64) :: bytes, items(2)
    integer :: lower, upper, step
    integer, allocatable :: passed(:)
    items = [merge(1, 6, me%rank == 0), 5]
    if (mod(me%rank, 2) == 0) call hp_line_create(line, comm, items)
    if (mod(me%rank, 2) == 1) call hp_line_create(line, comm, int(items, int32))
    call line%items(lower, upper)
    call check(me, lower == items(1) .and. upper == items(2), 'the items of a line')
    allocate (passed(me%rank + 1))
    passed = me%rank
    do step = 1, me%ranks
      if (allocated(passed)) then
        call line%exchange(right=passed, left_bytes=bytes)
        deallocate (passed)
      else
        call line%exchange(left_bytes=bytes)
      end if
      call check(me, bytes == merge(4*(me%rank - step + 1), -1, me%rank >= step), 'the size of what is passed on')
      if (bytes > 0) then
        allocate (passed(bytes/4))
        call line%take(left=passed)
        call check(me, all(passed == me%rank - step), 'what is passed on')
      end if
    end do
    call line%free()
  end subroutine

  recursive subroutine wrong_messages(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    type(hp_sparse) :: messages, none
    integer, allocatable :: from(:), nobody(:)
    integer(int64), allocatable :: bytes(:)
    integer, allocatable :: missing(:)
    integer :: values(6), three(3), stat
    character(300) :: text
    logical :: ready
    ! A fault of rank 0 is a failure on all ranks.
    allocate (nobody(0))
    if (me%rank == 0) then
      call hp_sparse_create(none, comm, destinations=[0], stat=stat, errmsg=text)
      call refused(me, stat, text, 'expected both, or neither', 1)
    else
      call hp_sparse_create(none, comm, sources=nobody, destinations=nobody, stat=stat, errmsg=text)
      call refused(me, stat, text, 'rank 0: ', 2)
    end if
    call hp_sparse_create(none, comm, sources=[me%rank], destinations=[me%rank, me%rank], stat=stat, errmsg=text)
    call refused(me, stat, text, 'twice', 1)
    call none%start([0], [1], 5, stat=stat, errmsg=text)
    call refused(me, stat, text, 'start: expected an hp_sparse, found one that was not made', 1)
    ready = none%ready(stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected an hp_sparse', 1)
    call check(me, .not. ready, 'a round that was not made is ready')
    call none%finish(from, bytes, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected an hp_sparse', 1)
    call check(me, size(from) == 0 .and. size(bytes) == 0, 'messages of no exchange')
    call none%take(values, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected an hp_sparse', 1)
    call none%free()

    values = [1, 2, 3, 4, 5, 6]
    call hp_sparse_create(messages, comm)
    call messages%finish(from, bytes, stat=stat, errmsg=text)
    call refused(me, stat, text, 'start one first', 8)
    call messages%start([0, 0], [6], values, stat=stat, errmsg=text)
    call refused(me, stat, text, 'counts: expected this number of values: 2, found 1', 1)
    call messages%start([0, 0], [3, 2], values, stat=stat, errmsg=text)
    call refused(me, stat, text, 'counts: expected a sum of 6', 1)
    call messages%start([0, 0], [7, -1], values, stat=stat, errmsg=text)
    call refused(me, stat, text, 'counts: expected numbers of 0 or more', 1)
    call messages%exchange([0, me%ranks], [3, 3], values, from, bytes, stat=stat, errmsg=text)
    call refused(me, stat, text, 'exchange: destinations 2: expected one of', 1)
    call check(me, size(from) == 0 .and. size(bytes) == 0, 'messages of a round that was refused')
    ! No round was started.
    call messages%start([me%rank, me%rank], [2, 4], values)
    call messages%start([me%rank], [6], values, stat=stat, errmsg=text)
    call refused(me, stat, text, 'finish it first', 8)
    call messages%finish(from, bytes)
    call check(me, size(from) == 2, 'the messages of a rank to itself')
    call messages%take(three, message=1, stat=stat, errmsg=text)
    call refused(me, stat, text, 'take: array: expected an array of 8 bytes, found one of 12 bytes', 1)
    call messages%take(three, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected an array of 24 bytes', 1)
    call messages%take(three, message=3, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected one of the 2 that have come', 1)
    call messages%take(three, message=0, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected one of the 2 that have come, counted from 1, found 0', 1)
    allocate (missing(6), source=0)
    deallocate (missing)
    ! flang passes it as an array without elements.
    call messages%take(missing, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected an array', 1)
    if (index(compiler_version(), 'GCC') > 0) call refused(me, stat, text, 'found one that is not allocated', 1)
    call messages%exchange([me%rank], [6], missing, from, bytes, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected a', 1)
    values = 0
    call messages%take(values)
    call check(me, all(values == [1, 2, 3, 4, 5, 6]), 'messages after calls that were refused')
    call messages%free()
    call messages%start([me%rank], [6], values, stat=stat, errmsg=text)
    call refused(me, stat, text, 'was freed', 1)
  end subroutine

  recursive subroutine wrong_payloads(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    type(hp_line) :: line
    integer(int64) :: left_bytes, right_bytes, low, high
    integer(int32) :: small, smaller
    integer :: values(3), lower, upper, stat
    character(300) :: text
    call hp_line_create(line, comm, [1, 2, 3], stat=stat, errmsg=text)
    call refused(me, stat, text, 'items: expected this number of values: 2, found 3', 1)
    call hp_line_create(line, comm, [0, 4], stat=stat, errmsg=text)
    call refused(me, stat, text, 'items: expected numbers from 1 on, found 0', 1)
    call hp_line_create(line, comm, merge(-1, 5, me%rank == 0), stat=stat, errmsg=text)
    call refused(me, stat, text, 'items: expected', merge(1, 2, me%rank == 0))
    call hp_line_create(line, comm, [2, 5], stat=stat, errmsg=text)
    call refused(me, stat, text, 'should begin at 0', 2)
    call line%items(lower, upper, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected an hp_line, found one that was not made', 1)
    call check(me, lower == 1 .and. upper == 0, 'items of a line that was not made')
    lower = line%left(stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected an hp_line', 1)
    call check(me, lower == -1, 'a rank beside a line that was not made')
    call line%start(left=values, stat=stat, errmsg=text)
    call refused(me, stat, text, 'expected an hp_line', 1)
    call hp_line_create(line, comm, 5000000000_int64*me%ranks)
    call line%items(low, high)
    call check(me, low == 5000000000_int64*me%rank + 1 .and. high == 5000000000_int64*(me%rank + 1), 'many items')
    call line%items(small, smaller, stat=stat, errmsg=text)
    call refused(me, stat, text, 'items: expected numbers up to 2147483647, the largest of these integers, found ', 1)
    call check(me, small == 1 .and. smaller == 0, 'items that integers of 4 bytes have no room for')
    call line%free()
    call hp_line_create(line, comm, 8_int64)
    call line%finish(left_bytes, right_bytes, stat=stat, errmsg=text)
    call refused(me, stat, text, 'start one first', 8)
    call check(me, left_bytes == -1 .and. right_bytes == -1, 'payloads of no round')
    values = me%rank
    call line%exchange(left=values, left_bytes=left_bytes, right_bytes=right_bytes)
    call line%take(left=values, stat=stat, errmsg=text)
    call refused(me, stat, text, 'left: expected a payload', 1)
    if (right_bytes > 0) then
      call line%take(right=lower, stat=stat, errmsg=text)
      call refused(me, stat, text, 'right: expected an array of 12 bytes, found one of 4 bytes', 1)
      call line%take(right=values)
      call check(me, all(values == me%rank + 1), 'a payload after calls that were refused')
    end if
    call line%start()
    call line%start(stat=stat, errmsg=text)
    call refused(me, stat, text, 'finish it first', 8)
    call line%free() ! in flight
    call line%exchange(stat=stat, errmsg=text)
    call refused(me, stat, text, 'was freed', 1)
  end subroutine

  ! Values of one rank on all, and those of all ranks on one: scalars, texts, types, arrays and sections.
  recursive subroutine values_of_one_rank(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    real(real64) :: table(6), whole(2, me%ranks), wide(4, me%ranks)
    integer(int32) :: number
    logical :: flag
    character(12) :: name
    type(particle) :: one, many(me%ranks)
    integer :: root, i
    root = me%ranks - 1
    number = me%rank
    call comm%broadcast(number, root)
    flag = me%rank == 0
    call comm%broadcast(flag, 0)
    name = merge('heat.nml    ', '            ', me%rank == root)
    call comm%broadcast(name, root)
    call check(me, number == root .and. flag .and. name == 'heat.nml', 'scalars of one rank')
    table = [(10*me%rank + i, i=1, 6)]
    call comm%broadcast(table(2:6:2), root)
    call check(me, all(nint(table) == [(10*merge(root, me%rank, mod(i, 2) == 0) + i, i=1, 6)]), 'a section of one rank')
    call comm%broadcast(table(1:0), root)
    whole = -1; wide = -1
    if (me%rank == root) then
      call comm%gather([real(real64) :: me%rank, -me%rank], root, whole)
      call comm%gather(table(1:2), root, wide(1:3:2, :))
    else
      call comm%gather([real(real64) :: me%rank, -me%rank], root)
      call comm%gather(table(1:2), root)
    end if
    call check(me, me%rank /= root .or. &
      all([(nint(whole(1, i)) == i - 1 .and. nint(whole(2, i)) == 1 - i, i=1, me%ranks)]), 'arrays of all ranks')
    call check(me, me%rank /= root .or. all([(nint(wide(1, i)) == 10*i - 9 .and. nint(wide(3, i)) == 10*root + 2 .and. &
      nint(sum(wide(2::2, i))) == -2, i=1, me%ranks)]), 'a section of all ranks')
    one = particle(place=100 + me%rank, tag=me%rank)
    call comm%gather(one, 0, many)
    if (me%rank == 0) call check(me, all(many%place == [(99 + i, i=1, me%ranks)]), 'a type of all ranks')
  end subroutine

  ! Rank 0 is refused, and the others are told.
  recursive subroutine wrong_values(me, comm)
    type(observer), intent(inout) :: me
    type(hp_comm), intent(in) :: comm
    real(real64) :: value, whole(me%ranks + 1)
    integer :: stat
    character(300) :: text
    value = me%rank
    call comm%gather(value, 0, whole, stat, text)
    call told(me, stat, text, 'all: expected an array of ')
    call comm%gather(value, 0, stat=stat, errmsg=text)
    call told(me, stat, text, 'those of all ranks, found 0')
    call comm%broadcast(value, merge(-1, 0, me%rank == 0), stat, text)
    call told(me, stat, text, 'root: expected one of the ')
    call check(me, nint(value) == me%rank, 'a value that was refused')
  end subroutine

  ! The text of rank 0 has this word, that of the others is of rank 0.
  recursive subroutine told(me, stat, text, word)
    type(observer), intent(inout) :: me
    integer, intent(in) :: stat
    character(*), intent(in) :: text, word
    if (me%rank == 0) call refused(me, stat, text, word, hp_argument)
    if (me%rank /= 0) call refused(me, stat, text, 'rank 0: ', hp_refused)
  end subroutine

  recursive subroutine refused(me, stat, text, word, expected)
    type(observer), intent(inout) :: me
    integer, intent(in) :: stat, expected
    character(*), intent(in) :: text, word
    call check(me, stat == expected .and. index(text, word) > 0, 'expected a failure with "'//word//'": '//trim(text))
  end subroutine

  recursive subroutine check(me, right, what)
    type(observer), intent(inout) :: me
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    me%failures = me%failures + 1
    write (error_unit, '(a, i0, 2a)') 'rank ', me%rank, ', wrong: ', what
  end subroutine

end module
