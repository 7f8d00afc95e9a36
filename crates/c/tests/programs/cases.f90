! Random exchanges against an oracle, through the module `haloport` alone. A case is a grid or a mesh, with a few fields of any
! kind and rank in one plan: sections, pointers and members, in any order of axes, at other addresses at each call. Every element
! of the memory is compared, also those between the cells and around them.
!
! cases_mpi.f90 and cases_alone.f90 are the programs.

! Numbers that are the same on all ranks: those that cases are drawn with, and the values of cells.
module case_values
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  private
  public :: random, seeded, value_of, nobody

  ! Lehmer's generator.
  integer(int64), parameter :: prime = 2147483647, factor = 48271
  type :: random
    private
    integer(int64) :: state = 1
  contains
    procedure :: between
    procedure :: one_in
    procedure :: shuffled
  end type

contains

  ! A generator for a rank in a case; `rank` is -1 for the one that all ranks share.
  pure function seeded(seed, number, rank) result(made)
    integer, intent(in) :: seed, number, rank
    type(random) :: made
    made%state = max(1_int64, mixed(mixed(mixed(1_int64, seed), number), rank))
  end function

  ! A number from `low` to `high`.
  integer function between(self, low, high)
    class(random), intent(inout) :: self
    integer, intent(in) :: low, high
    self%state = mod(self%state*factor, prime)
    between = low + int(mod(shiftr(self%state, 7), int(high - low + 1, int64)))
  end function

  ! True once in `times`.
  logical function one_in(self, times)
    class(random), intent(inout) :: self
    integer, intent(in) :: times
    one_in = self%between(1, times) == 1
  end function

  ! The same numbers in another order.
  function shuffled(self, numbers) result(found)
    class(random), intent(inout) :: self
    integer, intent(in) :: numbers(:)
    integer :: found(size(numbers)), place, other, kept
    found = numbers
    do place = size(found), 2, -1
      other = self%between(1, place)
      kept = found(place); found(place) = found(other); found(other) = kept
    end do
  end function

  ! The value of a field in an exchange, at a cell and a layer.
  elemental function value_of(field, exchange, cell, layer) result(bits)
    integer, intent(in) :: field, exchange, cell, layer
    integer(int64) :: bits
    bits = mixed(mixed(mixed(mixed(1_int64, field), exchange), cell), layer)
    bits = shiftl(bits, 31) + mixed(bits, 0)
  end function

  ! What the memory of a field has at a place that no exchange fills.
  elemental function nobody(field, place) result(bits)
    integer, intent(in) :: field, place
    integer(int64) :: bits
    bits = value_of(field, 0, 0, place)
  end function

  elemental function mixed(hash, part)
    integer(int64), intent(in) :: hash
    integer, intent(in) :: part
    integer(int64) :: mixed
    mixed = mod((hash + part + 1)*factor, prime)
  end function

end module

! Fields of any kind and rank: their memory, and how they are passed to procedures of a plan.
module case_fields
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use haloport
  use case_values
  implicit none
  private
  public :: field, request, pass, allocate_memory, put, holds
  public :: most_fields, most_axes, kinds, kinds_in_place, kind_names, is_column
  public :: to_create, to_update, to_start, to_finish

  integer, parameter :: most_fields = 6, most_axes = 5
  integer, parameter :: to_create = 1, to_update = 2, to_start = 3, to_finish = 4

  ! What the elements of a field are. Of a column it is an allocatable member. The last two are members of all elements of an
  ! array, of which compilers may pass copies, so that they cannot be left to an exchange between `start` and `finish`.
  integer, parameter :: kinds = 14, kinds_in_place = 12
  integer, parameter :: is_int8 = 1, is_int16 = 2, is_int32 = 3, is_int64 = 4, is_real32 = 5, is_real64 = 6, is_complex32 = 7, &
    is_complex64 = 8, is_logical = 9, is_particle = 10, is_text = 11, is_column = 12, is_mass = 13, is_tag = 14
  character(*), parameter :: kind_names(kinds) = [character(13) :: 'int8', 'int16', 'int32', 'int64', 'real32', 'real64', &
    'complex32', 'complex64', 'logical', 'particle', 'character', 'column%real32', 'particle%mass', 'particle%tag']

  type :: particle
    real(real64) :: mass = 0
    integer(int32) :: tag = 0
    character(5) :: name = ''
  end type

  type :: column
    real(real32), allocatable :: r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
  end type

  ! The memory of a field, of which one array is allocated.
  type :: memory_of_field
    integer(int8), allocatable :: bytes(:)
    integer(int16), allocatable :: shorts(:)
    integer(int32), allocatable :: integers(:)
    integer(int64), allocatable :: longs(:)
    real(real32), allocatable :: singles(:)
    real(real64), allocatable :: doubles(:)
    complex(real32), allocatable :: complexes(:)
    complex(real64), allocatable :: wides(:)
    logical, allocatable :: flags(:)
    type(particle), allocatable :: swarm(:)
    character(5), allocatable :: texts(:)
    type(column) :: column
    real(real32), pointer :: depths(:) => null() ! of the column
  end type

  ! A field of a rank. The indices of axes and of memory count from 0.
  type :: field
    integer :: kind = 0
    integer :: layers(3) = 1   ! extents of the axes of levels
    integer :: level_axes = 0
    integer :: components = 0  ! 0: no such axis
    ! The array, a section of a larger one.
    integer :: rank = 0
    integer :: role(most_axes) = 0
    integer :: extent(most_axes) = 1, before(most_axes) = 0 ! with the room before the halo
    integer :: whole(most_axes) = 1, from(most_axes) = 0, to(most_axes) = 0, by(most_axes) = 1 ! of the larger array
    integer :: bound(most_axes) = 1 ! lower bounds, of a pointer or a column
    logical :: is_pointer = .false.
    ! For each element of the larger array: its cell, or 0, and its layer there.
    integer, allocatable :: cell(:), layer(:)
    integer(int64), allocatable :: expected(:)
    type(memory_of_field) :: memory
  end type

  ! A call of a procedure of a plan. What is not allocated is absent.
  type :: request
    integer :: call = 0
    type(hp_plan) :: plan
    type(hp_stream) :: stream = hp_default
    type(hp_ticket) :: ticket
    ! Of to_create.
    type(hp_pattern) :: pattern
    character(:), allocatable :: axes
    integer, allocatable :: halo(:), lower(:)
    logical :: fixed = .false., may_copy = .false.
    integer :: in_flight = 1
    ! How it ended.
    integer :: stat = 0
    character(300) :: text = ''
  end type

contains

  ! Passes the arrays of `fields` up to number `last`, and then these arrays, to the procedure of the plan.
  recursive subroutine pass(ask, fields, last, a1, a2, a3, a4, a5, a6)
    type(request), intent(inout) :: ask
    type(field), intent(inout), target :: fields(:)
    integer, intent(in) :: last
    type(*), intent(inout), asynchronous, optional :: a1(..), a2(..), a3(..), a4(..), a5(..), a6(..)
    type(field), pointer :: it
    integer, dimension(most_axes) :: top, low, from, to, by
    if (last == 0) then
      if (.not. present(a1)) error stop 'expected an array, found none'
      select case (ask%call)
      case (to_create)
        call hp_plan_create(ask%plan, ask%pattern, a1, a2, a3, a4, a5, a6, axes=ask%axes, halo=ask%halo, lower=ask%lower, &
          fixed=ask%fixed, in_flight=ask%in_flight, stat=ask%stat, errmsg=ask%text)
      case (to_update)
        call ask%plan%update(a1, a2, a3, a4, a5, a6, stream=ask%stream, stat=ask%stat, errmsg=ask%text)
      case (to_start)
        call ask%plan%start(a1, a2, a3, a4, a5, a6, stream=ask%stream, ticket=ask%ticket, stat=ask%stat, errmsg=ask%text)
      case (to_finish)
        call ask%plan%finish(a1, a2, a3, a4, a5, a6, stream=ask%stream, ticket=ask%ticket, stat=ask%stat, errmsg=ask%text)
      end select
      return
    end if
    it => fields(last)
    top = it%whole - 1; low = it%bound; from = it%from; to = it%to; by = it%by
    select case (it%kind)
    case (is_int8)
      block
        integer(int8), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        integer(int8), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%bytes
        include 'cases_ranks.f90'
      end block
    case (is_int16)
      block
        integer(int16), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        integer(int16), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%shorts
        include 'cases_ranks.f90'
      end block
    case (is_int32)
      block
        integer(int32), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        integer(int32), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%integers
        include 'cases_ranks.f90'
      end block
    case (is_int64)
      block
        integer(int64), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        integer(int64), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%longs
        include 'cases_ranks.f90'
      end block
    case (is_real32)
      block
        real(real32), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        real(real32), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%singles
        include 'cases_ranks.f90'
      end block
    case (is_real64)
      block
        real(real64), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        real(real64), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%doubles
        include 'cases_ranks.f90'
      end block
    case (is_complex32)
      block
        complex(real32), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        complex(real32), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%complexes
        include 'cases_ranks.f90'
      end block
    case (is_complex64)
      block
        complex(real64), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        complex(real64), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%wides
        include 'cases_ranks.f90'
      end block
    case (is_logical)
      block
        logical, pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        logical, pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%flags
        include 'cases_ranks.f90'
      end block
    case (is_particle)
      block
        type(particle), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        type(particle), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%swarm
        include 'cases_ranks.f90'
      end block
    case (is_text)
      block
        character(5), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        character(5), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%texts
        include 'cases_ranks.f90'
      end block
    case (is_mass)
      ! A member of all elements of a section.
      block
        type(particle), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        memory => it%memory%swarm
        select case (it%rank)
        case (1)
          r1(0:top(1)) => memory
          call pass(ask, fields, last - 1, r1(from(1):to(1):by(1))%mass, a1, a2, a3, a4, a5)
        case (2)
          r2(0:top(1), 0:top(2)) => memory
          call pass(ask, fields, last - 1, r2(from(1):to(1):by(1), from(2):to(2):by(2))%mass, a1, a2, a3, a4, a5)
        case (3)
          r3(0:top(1), 0:top(2), 0:top(3)) => memory
          call pass(ask, fields, last - 1, r3(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3))%mass, &
            a1, a2, a3, a4, a5)
        case (4)
          r4(0:top(1), 0:top(2), 0:top(3), 0:top(4)) => memory
          call pass(ask, fields, last - 1, &
            r4(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3), from(4):to(4):by(4))%mass, a1, a2, a3, a4, a5)
        case (5)
          r5(0:top(1), 0:top(2), 0:top(3), 0:top(4), 0:top(5)) => memory
          call pass(ask, fields, last - 1, &
            r5(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3), from(4):to(4):by(4), from(5):to(5):by(5))%mass, &
            a1, a2, a3, a4, a5)
        end select
      end block
    case (is_tag)
      ! A pointer to a member of all elements of a section.
      block
        type(particle), pointer :: memory(:), r1(:), r2(:, :), r3(:, :, :), r4(:, :, :, :), r5(:, :, :, :, :)
        integer(int32), pointer :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :), p5(:, :, :, :, :)
        memory => it%memory%swarm
        select case (it%rank)
        case (1)
          r1(0:top(1)) => memory
          p1(low(1):) => r1(from(1):to(1):by(1))%tag
          call pass(ask, fields, last - 1, p1, a1, a2, a3, a4, a5)
        case (2)
          r2(0:top(1), 0:top(2)) => memory
          p2(low(1):, low(2):) => r2(from(1):to(1):by(1), from(2):to(2):by(2))%tag
          call pass(ask, fields, last - 1, p2, a1, a2, a3, a4, a5)
        case (3)
          r3(0:top(1), 0:top(2), 0:top(3)) => memory
          p3(low(1):, low(2):, low(3):) => r3(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3))%tag
          call pass(ask, fields, last - 1, p3, a1, a2, a3, a4, a5)
        case (4)
          r4(0:top(1), 0:top(2), 0:top(3), 0:top(4)) => memory
          p4(low(1):, low(2):, low(3):, low(4):) => &
            r4(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3), from(4):to(4):by(4))%tag
          call pass(ask, fields, last - 1, p4, a1, a2, a3, a4, a5)
        case (5)
          r5(0:top(1), 0:top(2), 0:top(3), 0:top(4), 0:top(5)) => memory
          p5(low(1):, low(2):, low(3):, low(4):, low(5):) => &
            r5(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3), from(4):to(4):by(4), from(5):to(5):by(5))%tag
          call pass(ask, fields, last - 1, p5, a1, a2, a3, a4, a5)
        end select
      end block
    case (is_column)
      select case (it%rank)
      case (1)
        call pass(ask, fields, last - 1, it%memory%column%r1, a1, a2, a3, a4, a5)
      case (2)
        call pass(ask, fields, last - 1, it%memory%column%r2, a1, a2, a3, a4, a5)
      case (3)
        call pass(ask, fields, last - 1, it%memory%column%r3, a1, a2, a3, a4, a5)
      case (4)
        call pass(ask, fields, last - 1, it%memory%column%r4, a1, a2, a3, a4, a5)
      case (5)
        call pass(ask, fields, last - 1, it%memory%column%r5, a1, a2, a3, a4, a5)
      end select
    end select
  end subroutine

  ! Allocates the memory of a field whose shape is known; all elements are those of nobody.
  subroutine allocate_memory(it, number)
    type(field), intent(inout), target :: it
    integer, intent(in) :: number
    integer :: last, place
    last = product(it%whole(:it%rank)) - 1
    select case (it%kind)
    case (is_int8); allocate (it%memory%bytes(0:last))
    case (is_int16); allocate (it%memory%shorts(0:last))
    case (is_int32); allocate (it%memory%integers(0:last))
    case (is_int64); allocate (it%memory%longs(0:last))
    case (is_real32); allocate (it%memory%singles(0:last))
    case (is_real64); allocate (it%memory%doubles(0:last))
    case (is_complex32); allocate (it%memory%complexes(0:last))
    case (is_complex64); allocate (it%memory%wides(0:last))
    case (is_logical); allocate (it%memory%flags(0:last))
    case (is_particle, is_mass, is_tag); allocate (it%memory%swarm(0:last))
    case (is_text); allocate (it%memory%texts(0:last))
    case (is_column); call allocate_column(it%memory%column, it%memory%depths, it%rank, it%bound, it%bound + it%whole - 1)
    end select
    allocate (it%expected(0:last))
    do place = 0, last
      it%expected(place) = nobody(number, place)
      call put(it, number, place, it%expected(place))
    end do
  end subroutine

  ! Allocates the member of this rank; `all` are its elements.
  subroutine allocate_column(it, all, rank, l, u)
    type(column), intent(inout), target :: it
    real(real32), pointer, intent(out) :: all(:)
    integer, intent(in) :: rank, l(most_axes), u(most_axes)
    integer :: last
    last = product(u(:rank) - l(:rank) + 1) - 1
    select case (rank)
    case (1)
      allocate (it%r1(l(1):u(1)))
      all(0:last) => it%r1
    case (2)
      allocate (it%r2(l(1):u(1), l(2):u(2)))
      all(0:last) => it%r2
    case (3)
      allocate (it%r3(l(1):u(1), l(2):u(2), l(3):u(3)))
      all(0:last) => it%r3
    case (4)
      allocate (it%r4(l(1):u(1), l(2):u(2), l(3):u(3), l(4):u(4)))
      all(0:last) => it%r4
    case (5)
      allocate (it%r5(l(1):u(1), l(2):u(2), l(3):u(3), l(4):u(4), l(5):u(5)))
      all(0:last) => it%r5
    end select
  end subroutine

  ! Makes an element of field `number` that of a value.
  subroutine put(it, number, place, bits)
    type(field), intent(inout) :: it
    integer, intent(in) :: number, place
    integer(int64), intent(in) :: bits
    select case (it%kind)
    case (is_int8); it%memory%bytes(place) = int(low(bits, 8), int8)
    case (is_int16); it%memory%shorts(place) = int(low(bits, 16), int16)
    case (is_int32); it%memory%integers(place) = int(low(bits, 32), int32)
    case (is_int64); it%memory%longs(place) = bits
    case (is_real32); it%memory%singles(place) = real(low(bits, 24), real32)
    case (is_real64); it%memory%doubles(place) = real(low(bits, 53), real64)
    case (is_complex32); it%memory%complexes(place) = complex_of(bits)
    case (is_complex64); it%memory%wides(place) = wide_of(bits)
    case (is_logical); it%memory%flags(place) = btest(bits, 20)
    case (is_particle, is_mass, is_tag); it%memory%swarm(place) = particle_of(it%kind, number, place, bits)
    case (is_text); it%memory%texts(place) = text_of(bits)
    case (is_column); it%memory%depths(place) = real(low(bits, 24), real32)
    end select
  end subroutine

  ! Whether an element of field `number` is that of a value, bit by bit.
  logical function holds(it, number, place, bits)
    type(field), intent(in) :: it
    integer, intent(in) :: number, place
    integer(int64), intent(in) :: bits
    type(particle) :: found, wanted
    holds = .false.
    select case (it%kind)
    case (is_int8); holds = it%memory%bytes(place) == int(low(bits, 8), int8)
    case (is_int16); holds = it%memory%shorts(place) == int(low(bits, 16), int16)
    case (is_int32); holds = it%memory%integers(place) == int(low(bits, 32), int32)
    case (is_int64); holds = it%memory%longs(place) == bits
    case (is_real32); holds = bits_of(it%memory%singles(place)) == bits_of(real(low(bits, 24), real32))
    case (is_real64); holds = transfer(it%memory%doubles(place), bits) == transfer(real(low(bits, 53), real64), bits)
    case (is_complex32); holds = transfer(it%memory%complexes(place), bits) == transfer(complex_of(bits), bits)
    case (is_complex64); holds = all(transfer(it%memory%wides(place), [bits]) == transfer(wide_of(bits), [bits]))
    case (is_logical); holds = it%memory%flags(place) .eqv. btest(bits, 20)
    case (is_particle, is_mass, is_tag)
      found = it%memory%swarm(place)
      wanted = particle_of(it%kind, number, place, bits)
      holds = transfer(found%mass, bits) == transfer(wanted%mass, bits) .and. found%tag == wanted%tag .and. &
        found%name == wanted%name
    case (is_text); holds = it%memory%texts(place) == text_of(bits)
    case (is_column); holds = bits_of(it%memory%depths(place)) == bits_of(real(low(bits, 24), real32))
    end select
  end function

  ! The lowest bits as a number of either sign.
  elemental integer(int64) function low(bits, width)
    integer(int64), intent(in) :: bits
    integer, intent(in) :: width
    low = shifta(shiftl(bits, 64 - width), 64 - width)
  end function

  elemental integer(int32) function bits_of(number)
    real(real32), intent(in) :: number
    bits_of = transfer(number, 0_int32)
  end function

  elemental function complex_of(bits) result(made)
    integer(int64), intent(in) :: bits
    complex(real32) :: made
    made = cmplx(low(bits, 24), low(shiftr(bits, 24), 24), real32)
  end function

  elemental function wide_of(bits) result(made)
    integer(int64), intent(in) :: bits
    complex(real64) :: made
    made = cmplx(low(bits, 31), low(shiftr(bits, 31), 31), real64)
  end function

  elemental function text_of(bits) result(made)
    integer(int64), intent(in) :: bits
    character(5) :: made
    integer :: place
    do place = 1, 5
      made(place:place) = achar(64 + int(low(shiftr(bits, 6*place), 7)))
    end do
  end function

  ! If a member alone is exchanged, the others are those of nobody.
  elemental function particle_of(kind, number, place, bits) result(made)
    integer, intent(in) :: kind, number, place
    integer(int64), intent(in) :: bits
    type(particle) :: made
    integer(int64) :: others
    others = merge(bits, nobody(number, place), kind == is_particle)
    made%mass = real(low(merge(others, bits, kind == is_tag), 53), real64)
    made%tag = int(low(merge(others, bits, kind == is_mass), 32), int32)
    made%name = text_of(others)
  end function

end module

! Grids and meshes, and what an exchange must do with the cells of a rank.
module case_domains
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use haloport
  use case_values
  implicit none
  private
  public :: domain, create_grid, create_mesh
  public :: is_owned, is_filled, is_left

  ! What a cell is: owned, in the halo with an owner, or in the halo without one.
  integer, parameter :: is_owned = 1, is_filled = 2, is_left = 3

  ! The cells of a rank, those of a grid with the fastest axis first.
  type :: domain
    logical :: on_grid = .false., faces_only = .false.
    integer :: axes = 1
    integer :: cells = 0
    integer :: extent(4) = 1, below(4) = 0 ! with the halo; the width of the halo below
    integer, allocatable :: number(:)      ! in the grid or mesh
    integer, allocatable :: part(:)
    logical, allocatable :: is_inner(:)    ! may be written while an exchange is in flight
    character(200) :: wrong = ''           ! what the pattern says and should not
  end type

contains

  ! Draws a grid, and makes its pattern.
  subroutine create_grid(pattern, comm, draw, home, stat, text)
    type(hp_pattern), intent(out) :: pattern
    type(hp_comm), intent(in) :: comm
    type(random), intent(inout) :: draw
    type(domain), intent(out) :: home
    integer, intent(out) :: stat
    character(*), intent(inout) :: text
    integer, parameter :: most_cells(4) = [14, 8, 5, 4], most_halo(4) = [3, 3, 3, 1], axes_of(6) = [1, 2, 2, 3, 3, 4]
    integer, allocatable :: cells(:), halo(:), parts(:), lower(:), upper(:)
    logical, allocatable :: periodic(:)
    integer :: widths(2, 4), axis
    home%on_grid = .true.
    home%axes = axes_of(draw%between(1, size(axes_of)))
    home%faces_only = draw%one_in(3)
    cells = [(draw%between(1, most_cells(home%axes)), axis=1, home%axes)]
    if (.not. draw%one_in(5)) periodic = [(draw%one_in(2), axis=1, home%axes)]
    call draw_halo(draw, home%axes, most_halo(home%axes), halo, widths)
    select case (draw%between(1, 3))
    case (1)
      call draw_parts(draw, home%axes, comm%size(), parts)
    case (2)
      call draw_boxes(draw, cells, comm%size(), comm%rank(), lower, upper)
    end select
    call hp_pattern_create(pattern, comm, cells, halo, periodic, parts, lower, upper, home%faces_only, stat=stat, errmsg=text)
    if (stat /= 0) return
    if (.not. allocated(periodic)) periodic = [(.false., axis=1, home%axes)]
    call read_grid(pattern, cells, widths(:, :home%axes), periodic, home, lower, upper)
  end subroutine

  ! Draws the widths of the halo, in one of the three forms: one for all axes, one for each, or below and above.
  subroutine draw_halo(draw, axes, most, halo, widths)
    type(random), intent(inout) :: draw
    integer, intent(in) :: axes, most
    integer, allocatable, intent(out) :: halo(:)
    integer, intent(out) :: widths(2, 4)
    integer :: axis, form
    form = draw%between(1, 3)
    select case (form)
    case (1); halo = [draw%between(0, most)]
    case (2); halo = [(draw%between(0, most), axis=1, axes)]
    case (3); halo = [(draw%between(0, most), axis=1, 2*axes)]
    end select
    widths = 0
    do axis = 1, axes
      select case (form)
      case (1); widths(:, axis) = halo(1)
      case (2); widths(:, axis) = halo(axis)
      case (3); widths(:, axis) = halo(2*axis - 1:2*axis)
      end select
    end do
  end subroutine

  ! Draws the number of parts along each axis.
  subroutine draw_parts(draw, axes, ranks, parts)
    type(random), intent(inout) :: draw
    integer, intent(in) :: axes, ranks
    integer, allocatable, intent(out) :: parts(:)
    integer :: rest, factor, axis
    allocate (parts(axes), source=1)
    rest = ranks
    factor = 2
    do while (rest > 1)
      if (mod(rest, factor) == 0) then
        axis = draw%between(1, axes)
        parts(axis) = parts(axis)*factor
        rest = rest/factor
      else
        factor = factor + 1
      end if
    end do
  end subroutine

  ! Cuts the grid into a box for each rank, some of which may be empty. Box 0 is the grid in the beginning.
  subroutine draw_boxes(draw, cells, ranks, rank, lower, upper)
    type(random), intent(inout) :: draw
    integer, intent(in) :: cells(:), ranks, rank
    integer, allocatable, intent(out) :: lower(:), upper(:)
    integer :: low(size(cells), 0:ranks - 1), high(size(cells), 0:ranks - 1), order(ranks), box, from, axis, cut
    low = 1
    high = 0
    high(:, 0) = cells
    do box = 1, ranks - 1
      from = draw%between(0, box - 1)
      axis = draw%between(1, size(cells))
      if (high(axis, from) <= low(axis, from)) cycle
      cut = draw%between(low(axis, from) + 1, high(axis, from))
      low(:, box) = low(:, from)
      high(:, box) = high(:, from)
      high(axis, from) = cut - 1
      low(axis, box) = cut
    end do
    order = draw%shuffled([(box, box=0, ranks - 1)])
    lower = low(:, order(rank + 1))
    upper = high(:, order(rank + 1))
  end subroutine

  ! The cells of this rank of a grid.
  subroutine read_grid(pattern, cells, widths, periodic, home, lower, upper)
    type(hp_pattern), intent(in) :: pattern
    integer, intent(in) :: cells(:), widths(:, :)
    logical, intent(in) :: periodic(:)
    type(domain), intent(inout) :: home
    integer, intent(in), optional :: lower(:), upper(:)
    integer, dimension(size(cells)) :: low, high, first, last, inner_low, inner_high, at
    integer, allocatable :: edge_low(:, :), edge_high(:, :)
    integer :: cell, axis, outside, rest, box, boxes
    logical :: is_in_grid, waits
    call pattern%owned(low, high)
    call pattern%with_halo(first, last)
    call pattern%interior(inner_low, inner_high)
    call pattern%boundary(edge_low, edge_high)
    if (any(high < low)) then
      if (all(last >= first)) home%wrong = 'a halo around no cells'
      last = first - 1
    else if (any(first /= low - widths(1, :)) .or. any(last /= high + widths(2, :))) then
      home%wrong = 'another box with the halo'
    else if (any(inner_high >= inner_low .and. (inner_low < low .or. inner_high > high))) then
      home%wrong = 'an interior that is not owned'
    else if (present(lower)) then
      if (any(low /= lower .or. high /= upper)) home%wrong = 'other owned cells than `lower` and `upper` say'
    end if
    home%below(:home%axes) = widths(1, :)
    home%extent(:home%axes) = last - first + 1
    home%cells = product(home%extent(:home%axes))
    allocate (home%number(home%cells), home%part(home%cells), home%is_inner(home%cells))
    do cell = 1, home%cells
      rest = cell - 1
      outside = 0
      is_in_grid = .true.
      home%number(cell) = 0
      do axis = 1, home%axes
        at(axis) = first(axis) + mod(rest, home%extent(axis))
        rest = rest/home%extent(axis)
        if (at(axis) < low(axis) .or. at(axis) > high(axis)) outside = outside + 1
        is_in_grid = is_in_grid .and. (periodic(axis) .or. (at(axis) >= 1 .and. at(axis) <= cells(axis)))
        home%number(cell) = home%number(cell)*100 + modulo(at(axis) - 1, cells(axis)) + 1
      end do
      boxes = count([(all(at >= edge_low(:, box) .and. at <= edge_high(:, box)), box=1, size(edge_low, 2))])
      waits = outside == 0 .and. any(at < inner_low .or. at > inner_high)
      if (boxes /= merge(1, 0, waits)) home%wrong = 'a boundary that is not the rest of the interior'
      ! Neighbours read as far from an end of the domain as their halo on the other side is wide.
      home%is_inner(cell) = all(at >= inner_low) .and. all(at <= inner_high) .and. all(widths(1, :) == widths(2, :) .or. &
        (at - low >= widths(2, :) .and. high - at >= widths(1, :)))
      if (outside == 0) then
        home%part(cell) = is_owned
      else if (is_in_grid .and. (outside == 1 .or. .not. home%faces_only)) then
        home%part(cell) = is_filled
      else
        home%part(cell) = is_left
      end if
    end do
  end subroutine

  ! Draws a mesh, and makes its pattern. `draw` is shared by all ranks; with `mine` a rank draws which cells it reads.
  subroutine create_mesh(pattern, comm, draw, mine, home, stat, text)
    type(hp_pattern), intent(out) :: pattern
    type(hp_comm), intent(in) :: comm
    type(random), intent(inout) :: draw, mine
    type(domain), intent(out) :: home
    integer, intent(out) :: stat
    character(*), intent(inout) :: text
    integer, allocatable :: owner(:), label(:), owners(:)
    logical, allocatable :: owned(:)
    integer :: cells, cell, spread, rank
    integer(int64) :: base
    logical :: is_long, has_owners
    cells = draw%between(0, 60)
    spread = draw%between(1, 3)
    is_long = draw%one_in(2)
    base = draw%between(0, 1)
    if (draw%one_in(2)) base = merge(2_int64**40, 2_int64**30, is_long)
    has_owners = draw%one_in(2)
    label = draw%shuffled([(cell, cell=1, cells)])
    owner = [(draw%between(0, comm%size() - 1), cell=1, cells)]
    if (draw%one_in(3)) owner = [((cell - 1)*comm%size()/max(cells, 1), cell=1, cells)]
    rank = comm%rank()
    call draw_cells(mine, owner == rank, home)
    owned = home%part == is_owned
    if (has_owners) owners = owner(home%number)
    if (is_long) then
      call hp_pattern_create(pattern, comm, base + int(spread, int64)*(label(home%number) - 1), owned, owners, &
        stat=stat, errmsg=text)
    else
      call hp_pattern_create(pattern, comm, int(base, int32) + spread*(label(home%number) - 1), owned, owners, &
        stat=stat, errmsg=text)
    end if
  end subroutine

  ! Draws the halo of a rank, in which there may be cells twice, and cells that it owns itself, and the order of its cells.
  subroutine draw_cells(mine, owned, home)
    type(random), intent(inout) :: mine
    logical, intent(in) :: owned(:)
    type(domain), intent(out) :: home
    integer, allocatable :: numbers(:), parts(:), order(:)
    integer :: cell, reads, rarer, part
    reads = mine%between(2, 6)
    rarer = merge(1, 4, mine%one_in(2))
    numbers = pack([(cell, cell=1, size(owned))], owned)
    parts = [(is_owned, cell=1, size(numbers))]
    do part = 1, 2
      do cell = 1, size(owned)
        if (.not. mine%one_in(merge(rarer*reads, reads, owned(cell) .or. part == 2))) cycle
        numbers = [numbers, cell]
        parts = [parts, is_filled]
      end do
    end do
    home%cells = size(numbers)
    home%extent(1) = home%cells
    order = [(cell, cell=1, home%cells)]
    if (.not. mine%one_in(4)) order = mine%shuffled(order)
    home%number = numbers(order)
    home%part = parts(order)
    allocate (home%is_inner(home%cells), source=.false.)
  end subroutine

end module

! The cases.
module cases
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use haloport
  use case_values
  use case_fields
  use case_domains
  implicit none
  private
  public :: run_cases

  integer, parameter :: seed = 20261123, most_sets = 3, most_exchanges = 5
  ! What an axis of an array is: 1 to 4 are those of the grid, 1 the cells of a mesh.
  integer, parameter :: blocks = 5, levels = 6, components = 7
  character(*), parameter :: words_of_grid(4, 2) = reshape(['1', '2', '3', '4', 'x', 'y', 'z', '4'], [4, 2])

  ! What was run.
  type :: counts
    integer :: grids = 0, blocked = 0, fixed = 0, arrays = 0, exchanges = 0
    integer :: of_kind(kinds) = 0, of_rank(most_axes) = 0
    integer(int64) :: filled = 0
  end type

  ! For the texts of failures.
  integer :: this_case = 0, this_rank = 0

contains

  ! Runs the cases that the command line says: their number, by default 300, and the first one, by default 1. Collective.
  subroutine run_cases(comm)
    type(hp_comm), intent(in) :: comm
    type(counts) :: done
    integer :: count, first
    count = argument(1, 300)
    first = argument(2, 1)
    this_rank = comm%rank()
    do this_case = first, first + count - 1
      call run_case(comm, done)
    end do
    call check(done%filled > 0 .or. count < 10, 'no cell of a halo was filled')
    call comm%barrier()
    if (this_rank /= 0) return
    print '(*(a, 1x, i0, :, ", "))', 'cases', count, 'ranks', comm%size(), 'on grids', done%grids, 'fixed', done%fixed, &
      'exchanges', done%exchanges, 'arrays', done%arrays, 'in blocks', done%blocked, 'elements of halos of rank 0', done%filled
    print '(a, *(1x, a, 1x, i0))', 'kinds:', (trim(kind_names(first)), done%of_kind(first), first=1, kinds)
    print '(a, *(1x, i0, 1x, i0))', 'ranks:', (first, done%of_rank(first), first=1, most_axes)
  end subroutine

  ! A number of the command line.
  integer function argument(number, otherwise)
    integer, intent(in) :: number, otherwise
    character(20) :: text
    integer :: stat
    argument = otherwise
    if (command_argument_count() < number) return
    call get_command_argument(number, text)
    read (text, *, iostat=stat) argument
    call check(stat == 0, 'expected numbers in the command line, found '//text)
  end function

  subroutine run_case(comm, done)
    type(hp_comm), intent(in) :: comm
    type(counts), intent(inout) :: done
    type(random) :: shared, mine
    type(domain) :: home
    type(request) :: ask
    type(field), allocatable :: fields(:, :)
    integer :: sets, set, number
    shared = seeded(seed, this_case, -1)
    mine = seeded(seed, this_case, comm%rank())
    if (shared%one_in(2)) then
      call create_grid(ask%pattern, comm, shared, home, ask%stat, ask%text)
      done%grids = done%grids + 1
    else
      call create_mesh(ask%pattern, comm, shared, mine, home, ask%stat, ask%text)
    end if
    call check(ask%stat == 0, ask%text)
    call check(home%wrong == '', home%wrong)

    ask%may_copy = shared%one_in(3)
    ask%fixed = shared%one_in(3) .and. .not. ask%may_copy
    ask%in_flight = merge(1, shared%between(1, 2), ask%fixed)
    sets = merge(1, mine%between(2, most_sets), ask%fixed)
    allocate (fields(shared%between(1, most_fields), sets))
    call draw_fields(shared, mine, home, fields(:, 1), ask)
    do number = 1, size(fields, 1)
      done%blocked = done%blocked + count(fields(number, 1)%role == blocks)
      done%of_kind(fields(number, 1)%kind) = done%of_kind(fields(number, 1)%kind) + 1
      done%of_rank(fields(number, 1)%rank) = done%of_rank(fields(number, 1)%rank) + 1
      call chart(fields(number, 1), home)
      do set = 2, sets
        fields(number, set) = fields(number, 1)
      end do
      do set = 1, sets
        call allocate_memory(fields(number, set), number)
      end do
    end do
    done%arrays = done%arrays + size(fields, 1)
    done%fixed = done%fixed + merge(1, 0, ask%fixed)

    call do_call(ask, to_create, fields(:, mine%between(1, sets)))
    call exchange(ask, shared%between(2, most_exchanges), mine, home, fields, done)
    ! In any order.
    if (mine%one_in(2)) call ask%pattern%free()
    call ask%plan%free()
    call ask%pattern%free()
  end subroutine

  ! --- Exchanges ---

  ! Runs `exchanges` of a plan. Each rank chooses for itself of which arrays, and how.
  subroutine exchange(ask, exchanges, mine, home, fields, done)
    type(request), intent(inout) :: ask
    integer, intent(in) :: exchanges
    type(random), intent(inout) :: mine
    type(domain), intent(in) :: home
    type(field), intent(inout), target :: fields(:, :)
    type(counts), intent(inout) :: done
    type(hp_ticket) :: ticket, other_ticket
    integer :: ended, one, other
    ended = 0
    do while (ended < exchanges)
      one = mine%between(1, size(fields, 2))
      other = mod(one, size(fields, 2)) + 1
      ask%stream = hp_default
      if (mine%one_in(3)) ask%stream = hp_block
      call fill(fields(:, one), home, ended + 1, done)
      if (mine%one_in(3) .or. ask%may_copy) then
        call do_call(ask, to_update, fields(:, one))
        ended = ended + 1
      else if (mine%one_in(2) .and. ask%in_flight == 2 .and. ended + 2 <= exchanges) then
        call do_call(ask, to_start, fields(:, one))
        ticket = ask%ticket
        call fill(fields(:, other), home, ended + 2, done)
        call do_call(ask, to_start, fields(:, other))
        if (mine%one_in(2)) call compute_interior(fields(:, one), home, ended + 1)
        if (mine%one_in(2)) then
          call do_call(ask, to_finish, fields(:, other))
          call compare(fields(:, other:other), home, ended + 2)
          ask%ticket = ticket
          call do_call(ask, to_finish, fields(:, one))
        else
          other_ticket = ask%ticket
          ask%ticket = ticket
          call do_call(ask, to_finish, fields(:, one))
          ask%ticket = other_ticket
          call do_call(ask, to_finish, fields(:, other))
        end if
        ended = ended + 2
      else
        call do_call(ask, to_start, fields(:, one))
        if (mine%one_in(2)) call compute_interior(fields(:, one), home, ended + 1)
        if (mine%one_in(2)) call await(ask%plan, ask%ticket)
        if (mine%one_in(4) .and. other /= one) call finish_others(ask, fields(:, other))
        call do_call(ask, to_finish, fields(:, one))
        ended = ended + 1
      end if
      call compare(fields, home, ended)
    end do
    done%exchanges = done%exchanges + exchanges
  end subroutine

  subroutine do_call(ask, call, fields)
    type(request), intent(inout) :: ask
    integer, intent(in) :: call
    type(field), intent(inout), target :: fields(:)
    ask%call = call
    call pass(ask, fields, size(fields))
    call check(ask%stat == 0, ask%text)
  end subroutine

  ! Names other arrays than those that an exchange was started with, which is refused.
  subroutine finish_others(ask, fields)
    type(request), intent(inout) :: ask
    type(field), intent(inout), target :: fields(:)
    ask%call = to_finish
    call pass(ask, fields, size(fields))
    call check(ask%stat /= 0 .and. index(ask%text, 'start') > 0, 'arrays that were not started were finished: '//ask%text)
  end subroutine

  ! Waits until an exchange is ready, but not forever: `finish` has a time limit.
  subroutine await(plan, ticket)
    type(hp_plan), intent(in) :: plan
    type(hp_ticket), intent(in) :: ticket
    integer :: times
    do times = 1, 100000
      if (plan%ready(ticket)) return
    end do
  end subroutine

  ! Fills a set of arrays before an exchange: owned cells with their values, all others with those of nobody.
  subroutine fill(fields, home, exchange, done)
    type(field), intent(inout), target :: fields(:)
    type(domain), intent(in) :: home
    integer, intent(in) :: exchange
    type(counts), intent(inout) :: done
    type(field), pointer :: it
    integer :: number, place
    integer(int64) :: before, after
    do number = 1, size(fields)
      it => fields(number)
      do place = 0, size(it%cell) - 1
        before = nobody(number, place)
        after = before
        if (it%cell(place) > 0) then
          if (home%part(it%cell(place)) /= is_left) after = value_of(number, exchange, home%number(it%cell(place)), it%layer(place))
          if (home%part(it%cell(place)) == is_owned) before = after
          if (home%part(it%cell(place)) == is_filled) done%filled = done%filled + 1
        end if
        call put(it, number, place, before)
        it%expected(place) = after
      end do
    end do
  end subroutine

  ! Writes cells that need no halo and that no other rank reads, while an exchange is in flight.
  subroutine compute_interior(fields, home, exchange)
    type(field), intent(inout), target :: fields(:)
    type(domain), intent(in) :: home
    integer, intent(in) :: exchange
    type(field), pointer :: it
    integer :: number, place
    do number = 1, size(fields)
      it => fields(number)
      do place = 0, size(it%cell) - 1
        if (it%cell(place) == 0) cycle
        if (.not. home%is_inner(it%cell(place))) cycle
        it%expected(place) = value_of(number, exchange + most_exchanges, home%number(it%cell(place)), it%layer(place))
        call put(it, number, place, it%expected(place))
      end do
    end do
  end subroutine

  ! Compares all elements of all sets, also of those that were not exchanged.
  subroutine compare(fields, home, exchange)
    type(field), intent(in), target :: fields(:, :)
    type(domain), intent(in) :: home
    integer, intent(in) :: exchange
    type(field), pointer :: it
    integer :: number, set, place
    do set = 1, size(fields, 2)
      do number = 1, size(fields, 1)
        it => fields(number, set)
        do place = 0, size(it%cell) - 1
          if (.not. holds(it, number, place, it%expected(place))) call differs(it, home, number, set, exchange, place)
        end do
      end do
    end do
  end subroutine

  subroutine differs(it, home, number, set, exchange, place)
    type(field), intent(in) :: it
    type(domain), intent(in) :: home
    integer, intent(in) :: number, set, exchange, place
    character(300) :: text
    character(40) :: what
    what = 'changed beside its cells'
    if (it%cell(place) > 0) then
      select case (home%part(it%cell(place)))
      case (is_owned); what = 'changed in an owned cell'
      case (is_left); what = 'changed in a halo cell without owner'
      case (is_filled); what = 'is wrong in a halo cell'
      end select
    end if
    write (text, '(a, 3(a, i0), 2a, 4(a, i0))') trim(merge('grid', 'mesh', home%on_grid)), ', exchange ', exchange, ', field ', &
      number, ' of set ', set, ', which is ', trim(kind_names(it%kind)), ' of rank ', it%rank, ', '//trim(what)//': element ', &
      place, ' of its memory, cell ', it%cell(place), ', layer ', it%layer(place)
    call check(.false., text)
  end subroutine

  ! Ends the program if something is wrong.
  subroutine check(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    character(500) :: text
    if (right) return
    write (text, '(3(a, i0), 2a)') 'case ', this_case, ', seed ', seed, ', rank ', this_rank, ': ', trim(what)
    write (error_unit, '(a)') trim(text)
    error stop 1
  end subroutine

  ! --- Drawing fields ---

  ! Draws fields and their arrays, and for `ask` the words of their axes and the room around their halos. What `shared` draws is
  ! the same on all ranks; the order of axes, blocks and strides are each rank's own.
  subroutine draw_fields(shared, mine, home, fields, ask)
    type(random), intent(inout) :: shared, mine
    type(domain), intent(in) :: home
    type(field), intent(inout) :: fields(:)
    type(request), intent(inout) :: ask
    integer :: room(home%axes), number
    call draw_room(mine, home, room, ask)
    select case (shared%between(1, 3))
    case (1)
      call draw_without_words(shared, home, fields)
    case (2)
      call draw_with_words(shared, mine, home, fields, ask)
    case (3)
      call draw_with_parts(shared, mine, home, fields, ask)
    end select
    do number = 1, size(fields)
      fields(number)%kind = shared%between(1, merge(kinds, kinds_in_place, ask%may_copy))
      call draw_array(mine, home, room, fields(number))
    end do
  end subroutine

  ! Draws the room before the halo along each axis; -1 if there is none, and none after it.
  subroutine draw_room(mine, home, room, ask)
    type(random), intent(inout) :: mine
    type(domain), intent(in) :: home
    integer, intent(out) :: room(:)
    type(request), intent(inout) :: ask
    integer :: axis, origin(size(room))
    room = -1
    if (mine%one_in(2) .or. .not. home%on_grid) return
    origin = [(home%below(axis) + mine%between(0, 2), axis=1, home%axes)]
    ! Zeros stand for the widths of the halo.
    if (any(origin > 0)) room = origin - home%below(:home%axes)
    if (mine%one_in(2)) then
      ask%halo = origin
    else
      ask%lower = 1 - origin
    end if
  end subroutine

  ! The axes of the grid, or the cells, come first, then levels; an axis after the fourth one has components.
  subroutine draw_without_words(shared, home, fields)
    type(random), intent(inout) :: shared
    type(domain), intent(in) :: home
    type(field), intent(inout) :: fields(:)
    integer :: number
    do number = 1, size(fields)
      associate (it => fields(number))
        it%level_axes = shared%between(0, 4 - home%axes)
        call draw_layers(shared, it%layers)
        if (shared%one_in(2) .and. home%axes + it%level_axes == 4) it%components = shared%between(1, 3)
        call set_roles(it, roles_of(home%axes, .false., it%level_axes, it%components > 0))
      end associate
    end do
  end subroutine

  ! One list of words for all arrays, of which those of lower rank have no components, then not the last levels.
  subroutine draw_with_words(shared, mine, home, fields, ask)
    type(random), intent(inout) :: shared, mine
    type(domain), intent(in) :: home
    type(field), intent(inout) :: fields(:)
    type(request), intent(inout) :: ask
    integer, allocatable :: roles(:), some(:)
    integer :: level_axes, layers(3), further, number, places(most_axes)
    level_axes = shared%between(0, 4 - home%axes)
    call draw_layers(shared, layers)
    further = shared%between(0, 2)
    roles = roles_of(home%axes, draw_blocks(mine, home, level_axes, further > 0), level_axes, further > 0)
    roles = mine%shuffled(roles)
    ask%axes = words(mine, roles, home%on_grid)
    places = [(number, number=1, most_axes)]
    do number = 1, size(fields)
      associate (it => fields(number))
        it%layers = layers
        it%level_axes = level_axes
        it%components = further
        some = roles
        if (shared%one_in(2)) then
          it%components = 0
          some = pack(some, some /= components)
          if (shared%one_in(2) .and. level_axes > 0) then
            it%level_axes = level_axes - 1
            some = pack(some, places(:size(some)) /= findloc(some, levels, dim=1, back=.true.))
          end if
        end if
        call set_roles(it, some)
      end associate
    end do
  end subroutine

  ! A list of words for each array.
  subroutine draw_with_parts(shared, mine, home, fields, ask)
    type(random), intent(inout) :: shared, mine
    type(domain), intent(in) :: home
    type(field), intent(inout) :: fields(:)
    type(request), intent(inout) :: ask
    logical :: is_blocked
    integer :: number
    ask%axes = ''
    do number = 1, size(fields)
      associate (it => fields(number))
        it%level_axes = shared%between(0, 4 - home%axes)
        call draw_layers(shared, it%layers)
        it%components = max(0, shared%between(-2, 3))
        is_blocked = draw_blocks(mine, home, it%level_axes, it%components > 0)
        call set_roles(it, mine%shuffled(roles_of(home%axes, is_blocked, it%level_axes, it%components > 0)))
        if (number > 1) ask%axes = ask%axes//'; '
        ask%axes = ask%axes//words(mine, it%role(:it%rank), home%on_grid)
      end associate
    end do
  end subroutine

  subroutine draw_layers(shared, layers)
    type(random), intent(inout) :: shared
    integer, intent(out) :: layers(3)
    integer :: axis
    layers = [(shared%between(1, 3), axis=1, 3)]
  end subroutine

  ! Whether the cells lie in blocks; an array has no more than five axes.
  logical function draw_blocks(mine, home, level_axes, has_components)
    type(random), intent(inout) :: mine
    type(domain), intent(in) :: home
    integer, intent(in) :: level_axes
    logical, intent(in) :: has_components
    draw_blocks = mine%one_in(2) .and. .not. home%on_grid .and. 2 + level_axes + merge(1, 0, has_components) <= most_axes
  end function

  ! The axes of an array, in the order that is the default.
  function roles_of(axes, has_blocks, level_axes, has_components) result(roles)
    integer, intent(in) :: axes, level_axes
    logical, intent(in) :: has_blocks, has_components
    integer, allocatable :: roles(:)
    integer :: axis
    roles = [(axis, axis=1, axes), (levels, axis=1, level_axes)]
    if (has_blocks) roles = [roles, blocks]
    if (has_components) roles = [roles, components]
  end function

  subroutine set_roles(it, roles)
    type(field), intent(inout) :: it
    integer, intent(in) :: roles(:)
    it%rank = size(roles)
    it%role(:it%rank) = roles
  end subroutine

  ! The words of these axes.
  function words(mine, roles, on_grid) result(text)
    type(random), intent(inout) :: mine
    integer, intent(in) :: roles(:)
    logical, intent(in) :: on_grid
    character(:), allocatable :: text
    integer :: axis
    text = ''
    do axis = 1, size(roles)
      if (axis > 1) text = text//repeat(' ', mine%between(1, 2))
      select case (roles(axis))
      case (blocks); text = text//'blocks'
      case (levels); text = text//'levels'
      case (components); text = text//'components'
      case default
        if (on_grid) then
          text = text//words_of_grid(roles(axis), mine%between(1, 2))
        else if (any(roles == blocks)) then
          text = text//'nproma'
        else
          text = text//'cells'
        end if
      end select
    end do
  end function

  ! Draws the extents of an array, and the larger array of which it is a section. A column is one as a whole.
  subroutine draw_array(mine, home, room, it)
    type(random), intent(inout) :: mine
    type(domain), intent(in) :: home
    integer, intent(in) :: room(:)
    type(field), intent(inout) :: it
    integer :: nproma, axis, level
    logical :: is_whole
    nproma = max(1, home%cells)
    if (.not. mine%one_in(4)) nproma = merge(merge(1, 8, mine%one_in(2)), 32, mine%one_in(2))
    is_whole = mine%one_in(4) .or. it%kind == is_column
    it%is_pointer = mine%one_in(2)
    level = 0
    do axis = 1, it%rank
      select case (it%role(axis))
      case (blocks)
        it%extent(axis) = (home%cells + nproma - 1)/nproma + mine%between(0, 1)
      case (levels)
        level = level + 1
        it%extent(axis) = it%layers(level)
      case (components)
        it%extent(axis) = it%components
      case default
        if (home%on_grid) then
          it%before(axis) = max(0, room(it%role(axis)))
          it%extent(axis) = it%before(axis) + home%extent(it%role(axis))
          if (room(1) >= 0) it%extent(axis) = it%extent(axis) + mine%between(0, 2)
        else if (any(it%role == blocks)) then
          it%extent(axis) = nproma
        else
          it%extent(axis) = home%cells + mine%between(0, 2)
        end if
      end select
      it%bound(axis) = mine%between(-3, 3)
      call draw_section(mine, is_whole, it%extent(axis), it%whole(axis), it%from(axis), it%to(axis), it%by(axis))
      ! Cells in blocks have no negative strides.
      if (any(it%role == blocks) .and. it%role(axis) <= blocks .and. it%by(axis) < 0) then
        call turn(it%from(axis), it%to(axis), it%by(axis))
      end if
    end do
  end subroutine

  ! Draws an axis of `whole` elements, from 0, of which every `by`th one from `from` to `to` is of a section of `extent`.
  subroutine draw_section(mine, is_whole, extent, whole, from, to, by)
    type(random), intent(inout) :: mine
    logical, intent(in) :: is_whole
    integer, intent(in) :: extent
    integer, intent(out) :: whole, from, to, by
    integer, parameter :: strides(8) = [1, 1, 1, 1, -1, -1, 2, -2]
    integer :: reach
    by = 1
    from = 0
    whole = extent
    if (.not. is_whole) then
      by = strides(mine%between(1, size(strides)))
      reach = max(0, abs(by)*(extent - 1))
      from = mine%between(0, 1)
      whole = from + reach + min(1, extent) + mine%between(0, 1)
      if (by < 0) from = from + reach
    end if
    to = from + by*(extent - 1)
  end subroutine

  ! The same section, from its other end.
  subroutine turn(from, to, by)
    integer, intent(inout) :: from, to, by
    integer :: first
    first = from
    from = to
    to = first
    by = -by
  end subroutine

  ! Finds out which cell and layer each element of a field is.
  subroutine chart(it, home)
    type(field), intent(inout) :: it
    type(domain), intent(in) :: home
    integer :: element, place, cell, layer
    allocate (it%cell(0:product(it%whole(:it%rank)) - 1), source=0)
    allocate (it%layer(0:ubound(it%cell, 1)), source=0)
    do element = 0, product(it%extent(:it%rank)) - 1
      call find(it, home, element, place, cell, layer)
      it%cell(place) = cell
      it%layer(place) = layer
    end do
  end subroutine

  ! The place in memory of an element of a section, its cell, or 0, and its layer.
  subroutine find(it, home, element, place, cell, layer)
    type(field), intent(in) :: it
    type(domain), intent(in) :: home
    integer, intent(in) :: element
    integer, intent(out) :: place, cell, layer
    integer :: axis, rest, index, stride, at(4), nproma, block_of, component
    rest = element
    place = 0
    stride = 1
    layer = 0
    at = 0
    nproma = 0
    block_of = 0
    component = 0
    do axis = 1, it%rank
      index = mod(rest, it%extent(axis))
      rest = rest/it%extent(axis)
      place = place + (it%from(axis) + it%by(axis)*index)*stride
      stride = stride*it%whole(axis)
      select case (it%role(axis))
      case (blocks); block_of = index
      case (levels); layer = 4*layer + index + 1
      case (components); component = index
      case default
        at(it%role(axis)) = index - it%before(axis)
        nproma = it%extent(axis)
      end select
    end do
    layer = 4*layer + component
    if (.not. home%on_grid) at(1) = at(1) + nproma*block_of
    cell = 0
    if (any(at < 0 .or. at >= home%extent)) return
    do axis = home%axes, 1, -1
      cell = cell*home%extent(axis) + at(axis)
    end do
    cell = cell + 1
  end subroutine

end module
