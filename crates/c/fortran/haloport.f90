! Haloport for Fortran 2018. docs/fortran.md is the tutorial.
!
!   call hp_comm_create(comm, MPI_COMM_WORLD%MPI_VAL)
!   call hp_pattern_create(cells, comm, ids, owned)
!   call hp_plan_create(plan, cells, u, w, axes='cells levels')
!   call plan%update(u, w)
!   call plan%start(u, w);  call interior();  call plan%finish(u, w)
!
! A plan with `in_flight=2` can have two exchanges between `start` and `finish`. Each start then gives a ticket for its `finish`:
!
!   call plan%start(u, w, ticket=one);  call plan%start(v, x, ticket=two);  call plan%finish(v, x, ticket=two)
!
! Every call names its arrays, also `finish`: a compiler may keep an array that a call does not name in registers. Arrays may be
! of any type, kind and rank, and sections. They are passed without their bounds, so a plan counts from their first element.
! gfortran passes copies of members of all elements, such as `swarm%mass`, and of pointers to them: exchange those with `update`,
! and not in plans that are `fixed`.
!
! Objects live until `free`; a variable that ends does not free its object. An assignment, such as `model%comm = comm`, makes no second
! object: after `free` of one of the variables, calls of the other one are refused. The types have no final procedures, since gfortran
! 12 calls those of components that are arrays at wrong addresses.
!
! All procedures but `hp_on` have `stat` and `errmsg`, as statements of Fortran do: `hp_ok`, 0, for success, otherwise one of the
! statuses below, and its text. Without `stat`, a failure ends the program. After a failure, results are empty: rank -1, 0 ranks, not
! ready, no cells.
module haloport
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_f_pointer, c_float, c_int, c_int8_t, &
    c_int32_t, c_int64_t, c_intptr_t, c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private
  public :: hp_comm, hp_line, hp_memory, hp_pattern, hp_plan, hp_sparse, hp_stream, hp_ticket
  public :: hp_allocate, hp_comm_create, hp_comm_threads, hp_line_create, hp_pattern_create, hp_plan_create, hp_sparse_create, &
    hp_describe, hp_reprosum_calc
  public :: hp_log, hp_log_error, hp_log_warning, hp_set_log
  public :: hp_default, hp_block, hp_on
  public :: hp_ok, hp_argument, hp_refused, hp_transport, hp_time_limit, hp_device, hp_no_memory, hp_wrong_thread, hp_in_flight, &
    hp_poisoned, hp_panic

  ! The values of `stat`: success, and the statuses of haloport.h, which describes them.
  integer, parameter :: hp_ok = 0
  integer, parameter :: hp_argument = 1 ! an argument is wrong
  integer, parameter :: hp_refused = 2 ! the ranks disagree, or another rank has a wrong argument
  integer, parameter :: hp_transport = 3 ! another rank failed, or MPI is missing or not running
  integer, parameter :: hp_time_limit = 4 ! other ranks did not answer in time
  integer, parameter :: hp_device = 5 ! a device or its driver failed, or is missing
  integer, parameter :: hp_no_memory = 6
  integer, parameter :: hp_wrong_thread = 7 ! MPI was initialised for calls by another thread only; nothing has changed
  integer, parameter :: hp_in_flight = 8 ! an exchange was not finished, none was started, or another thread uses the handle
  integer, parameter :: hp_poisoned = 9 ! an exchange, or a round of messages, has failed; make the handle again, on all ranks
  integer, parameter :: hp_panic = 10 ! a defect of Haloport

  ! The levels of lines that `hp_set_log` passes to a procedure.
  integer, parameter :: hp_log_error = 1, hp_log_warning = 2

  abstract interface
    ! Takes a line of the library, without an end of line.
    subroutine hp_log(level, text)
      integer, intent(in) :: level
      character(*), intent(in) :: text
    end subroutine
  end interface

  ! The procedure of the program that takes lines.
  procedure(hp_log), pointer, save :: logger => null()

  ! The ranks of a program, seen from one of them.
  type :: hp_comm
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: rank => comm_rank
    procedure :: size => comm_size
    procedure :: barrier => comm_barrier
    procedure :: set_time_limit => comm_set_time_limit
    procedure :: set_warn_after => comm_set_warn_after
    procedure :: set_progress => comm_set_progress
    procedure, private :: reduce_int32, reduce_int64, reduce_real32, reduce_real64
    generic :: all_reduce => reduce_int32, reduce_int64, reduce_real32, reduce_real64
    procedure, private :: sum_exact_real32, sum_exact_real64, sum_exact_real32_of_bool, sum_exact_real64_of_bool
    generic :: sum_exact => sum_exact_real32, sum_exact_real64, sum_exact_real32_of_bool, sum_exact_real64_of_bool
    procedure, private :: sums_exact_of_logical, sums_exact_of_bool
    generic :: sums_exact => sums_exact_of_logical, sums_exact_of_bool
    procedure :: broadcast => comm_broadcast
    procedure :: gather => comm_gather
    procedure :: free => comm_free
  end type

  ! Which cells each rank owns; or a redistribution from one pattern to another.
  type :: hp_pattern
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(c_int32_t) :: axes = 0 ! of the grid; 0 on a mesh
    integer(c_int32_t) :: domains = 1 ! of this rank
    integer(c_int32_t) :: sides = 1 ! arrays of each field: one for each domain, of a redistribution for those of both patterns
    integer(c_int32_t) :: target_axes = 0, target_sides = 0 ! of the target of a redistribution
    integer(c_int32_t) :: no_domains = 0 ! 1 if this rank has none; of a redistribution 1 if its source has none, plus 2 if its target has
  contains
    procedure :: owned => pattern_owned
    procedure :: with_halo => pattern_with_halo
    procedure :: interior => pattern_interior
    procedure :: boundary => pattern_boundary
    procedure :: free => pattern_free
  end type

  ! An exchange, prepared for arrays of certain layouts.
  type :: hp_plan
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: update => plan_update
    procedure :: start => plan_start
    procedure :: finish => plan_finish
    procedure :: ready => plan_ready
    procedure :: describe => plan_describe
    procedure :: free => plan_free
  end type

  ! Memory from which neighbours on this node copy straight, of an array that `hp_allocate` makes.
  type :: hp_memory
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: free => memory_free
  end type

  ! Messages of any size between ranks that change from round to round.
  type :: hp_sparse
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: exchange => sparse_exchange
    procedure :: start => sparse_start
    procedure :: finish => sparse_finish
    procedure :: ready => sparse_ready
    procedure :: take => sparse_take
    procedure :: free => sparse_free
  end type

  ! Ranks along a line, each of which passes payloads of any size to the ranks before and after it.
  type :: hp_line
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: items_32, items_64
    generic :: items => items_32, items_64
    procedure :: left => line_left
    procedure :: right => line_right
    procedure :: exchange => line_exchange
    procedure :: start => line_start
    procedure :: finish => line_finish
    procedure :: ready => line_ready
    procedure :: take => line_take
    procedure :: free => line_free
  end type

  ! Names an exchange that was started, until it is finished.
  type :: hp_ticket
    private
    integer(c_int64_t) :: number = 0
  end type

  ! The stream with which an exchange is ordered.
  type :: hp_stream
    private
    integer(c_int32_t) :: kind = 0
    integer(c_intptr_t) :: handle = 0
  end type

  ! The default stream of each device.
  type(hp_stream), parameter :: hp_default = hp_stream(0, 0)
  ! No stream: the caller has waited for its work, and the call returns when the halos are in place.
  type(hp_stream), parameter :: hp_block = hp_stream(1, 0)

  interface hp_reprosum_calc
    module procedure reprosum_of_comm, reprosum_of_mpi
  end interface

  interface hp_pattern_create
    module procedure pattern_of_ids_32, pattern_of_ids_64, pattern_of_grid, pattern_of_domains, pattern_of_lists, &
      redistribution_of_patterns
  end interface

  interface hp_line_create
    module procedure line_even_32, line_even_64, line_of_items_32, line_of_items_64
  end interface

  interface hp_allocate
    module procedure allocate_real64_1, allocate_real64_2, allocate_real64_3, allocate_real64_4, &
      allocate_real32_1, allocate_real32_2, allocate_real32_3, allocate_real32_4
  end interface

  ! In haloport_fortran.c and haloport.h.
  interface
    integer(c_int) function hpf_comm_create(mpi, comm) bind(c)
      import
      integer(c_int64_t), value :: mpi
      type(c_ptr), intent(out) :: comm
    end function
    integer(c_int) function hpf_comm_threads(ranks, comms) bind(c, name='hp_comm_threads')
      import
      integer(c_int32_t), value :: ranks
      type(c_ptr), intent(out) :: comms(*)
    end function
    integer(c_int) function hp_comm_rank(comm, rank) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int32_t), intent(out) :: rank
    end function
    integer(c_int) function hp_comm_size(comm, ranks) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int32_t), intent(out) :: ranks
    end function
    integer(c_int) function hp_comm_barrier(comm) bind(c)
      import
      type(c_ptr), value :: comm
    end function
    integer(c_int) function hp_comm_set_time_limit(comm, seconds) bind(c)
      import
      type(c_ptr), value :: comm
      real(c_double), value :: seconds
    end function
    integer(c_int) function hp_comm_set_warn_after(comm, seconds) bind(c)
      import
      type(c_ptr), value :: comm
      real(c_double), value :: seconds
    end function
    integer(c_int) function hpf_set_progress(comm, word) bind(c)
      import
      type(c_ptr), value :: comm
      character(kind=c_char), intent(in) :: word(*)
    end function
    integer(c_int) function hpf_all_reduce(comm, reduction, bytes, is_real, value) bind(c)
      import
      type(c_ptr), value :: comm, value
      character(kind=c_char), intent(in) :: reduction(*)
      integer(c_int32_t), value :: bytes, is_real
    end function
    integer(c_int) function hpf_sum_exact(comm, sum, values, weights, mask) bind(c)
      import
      type(c_ptr), value :: comm
      real(c_double), intent(out) :: sum
      type(*), intent(in) :: values(..)
      type(*), intent(in), optional :: weights(..), mask(..)
    end function
    integer(c_int) function hpf_sums_exact(comm, sums, room, weights, mask, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20) bind(c)
      import
      type(c_ptr), value :: comm
      real(c_double), intent(inout) :: sums(*)
      integer(c_int64_t), value :: room
      type(*), intent(in), optional :: weights(..), mask(..)
      type(*), intent(in) :: a1(..)
      type(*), intent(in), optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
        a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    end function
    integer(c_int) function hpf_reprosum(comm, of_mpi, of_all, mpi, values, sums, summands, columns, fields, takes_not_finite, &
      with_largest, largest, most, differences) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int32_t), value :: of_mpi, of_all, takes_not_finite, with_largest
      integer(c_int64_t), value :: mpi, summands, columns, fields
      real(c_double), intent(in) :: values(*)
      real(c_double), intent(inout) :: sums(*)
      real(c_double), intent(inout), optional :: largest(*), differences(*)
      integer(c_int64_t), intent(out) :: most
    end function
    integer(c_int) function hpf_broadcast(comm, root, values) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int64_t), value :: root
      type(*), intent(inout) :: values(..)
    end function
    integer(c_int) function hpf_gather(comm, root, values, all) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int64_t), value :: root
      type(*), intent(in) :: values(..)
      type(*), intent(inout), optional :: all(..)
    end function
    integer(c_int) function hp_comm_free(comm) bind(c)
      import
      type(c_ptr), value :: comm
    end function
    integer(c_int) function hp_pattern_free(pattern) bind(c)
      import
      type(c_ptr), value :: pattern
    end function
    integer(c_int) function hpf_plan_free(plan) bind(c)
      import
      type(c_ptr), value :: plan
    end function
    integer(c_int) function hpf_memory_create(pattern, grid_axes, bytes, rank, extents, memory, address) bind(c)
      import
      type(c_ptr), value :: pattern
      integer(c_int32_t), value :: grid_axes, bytes, rank
      integer(c_int64_t), intent(in) :: extents(*)
      type(c_ptr), intent(out) :: memory, address
    end function
    integer(c_int) function hp_memory_free(memory) bind(c)
      import
      type(c_ptr), value :: memory
    end function
    integer(c_int) function hpf_describe(of_machine, plan, text, bytes) bind(c)
      import
      integer(c_int32_t), value :: of_machine
      type(c_ptr), value :: plan
      character(kind=c_char), intent(out) :: text(*)
      integer(c_size_t), intent(inout) :: bytes
    end function
    integer(c_int) function hpf_ready(plan, has_ticket, ticket, ready) bind(c)
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: has_ticket
      integer(c_int64_t), value :: ticket
      integer(c_int32_t), intent(out) :: ready
    end function
    integer(c_int) function hpf_pattern_ids(comm, domains, cells, ids, owned, owners, has_owners, pattern) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int32_t), value :: domains
      integer(c_int64_t), intent(in) :: cells(*), ids(*)
      integer(c_int8_t), intent(in) :: owned(*)
      integer(c_int32_t), intent(in) :: owners(*)
      integer(c_int), value :: has_owners
      type(c_ptr), intent(out) :: pattern
    end function
    integer(c_int) function hpf_pattern_lists(comm, cells, sends, send_ranks, send_cells, send_at, receives, receive_ranks, &
      receive_cells, receive_at, pattern) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int64_t), value :: cells
      integer(c_int32_t), value :: sends, receives
      integer(c_int32_t), intent(in) :: send_ranks(*), send_at(*), receive_ranks(*), receive_at(*)
      integer(c_int64_t), intent(in) :: send_cells(*), receive_cells(*)
      type(c_ptr), intent(out) :: pattern
    end function
    integer(c_int) function hpf_pattern_grid(comm, axes, cells, halo, periodic, parts, faces_only, sphere, fold, points, clipped, &
      like, boxes, lower, upper, pattern) bind(c)
      import
      type(c_ptr), value :: comm, like
      integer(c_int32_t), value :: axes, faces_only, sphere, fold, points, clipped, boxes
      integer(c_int64_t), intent(in) :: cells(*), lower(4, *), upper(4, *)
      integer(c_int32_t), intent(in) :: halo(2, *), periodic(*), parts(*)
      type(c_ptr), intent(out) :: pattern
    end function
    integer(c_int) function hpf_pattern_redistribution(source, target, fill_halo, pattern) bind(c)
      import
      type(c_ptr), value :: source, target
      integer(c_int32_t), value :: fill_halo
      type(c_ptr), intent(out) :: pattern
    end function
    integer(c_int) function hpf_refuse(text) bind(c)
      import
      character(kind=c_char), intent(in) :: text(*)
    end function
    subroutine hpf_complain(text) bind(c)
      import
      character(kind=c_char), intent(in) :: text(*)
    end subroutine
    integer(c_int) function hpf_pattern_box(pattern, axes, which, domain, lower, upper) bind(c)
      import
      type(c_ptr), value :: pattern
      integer(c_int32_t), value :: axes, which, domain
      integer(c_int64_t), intent(out) :: lower(*), upper(*)
    end function
    integer(c_int) function hpf_pattern_boundary(pattern, axes, domain, boxes, lower, upper) bind(c)
      import
      type(c_ptr), value :: pattern
      integer(c_int32_t), value :: axes, domain
      integer(c_int32_t), intent(out) :: boxes
      integer(c_int64_t), intent(inout) :: lower(4, *), upper(4, *)
    end function
    integer(c_int) function hpf_plan_create(pattern, sides, grid_axes, target_sides, target_axes, no_domains, fields, of, &
      of_sides, of_axes, of_no_domains, axes, vector, origin, fixed, share, in_flight, path, accumulate, zero_halo, plan, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20) bind(c)
      import
      type(c_ptr), value :: pattern
      integer(c_int32_t), value :: sides, grid_axes, target_sides, target_axes, no_domains, fields, fixed, share, in_flight, &
        zero_halo
      type(c_ptr), intent(in) :: of(*)
      integer(c_int32_t), intent(in) :: of_sides(*), of_axes(*), of_no_domains(*)
      character(kind=c_char), intent(in) :: axes(*), vector(*), path(*), accumulate(*)
      integer(c_int64_t), intent(in) :: origin(*)
      type(c_ptr), intent(out) :: plan
      type(*), intent(inout), asynchronous :: a1(..)
      type(*), intent(inout), asynchronous, optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
        a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    end function
    integer(c_int) function hpf_call(plan, call, kind, stream, has_ticket, ticket, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20) bind(c)
      import
      type(c_ptr), value :: plan
      integer(c_int32_t), value :: call, kind, has_ticket
      integer(c_intptr_t), value :: stream
      integer(c_int64_t), intent(inout) :: ticket
      type(*), intent(inout), asynchronous :: a1(..)
      type(*), intent(inout), asynchronous, optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
        a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    end function
    integer(c_int) function hpf_sparse_create(comm, is_fixed, source_count, sources, destination_count, destinations, &
      sparse) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int32_t), value :: is_fixed, source_count, destination_count
      integer(c_int32_t), intent(in) :: sources(*), destinations(*)
      type(c_ptr), intent(out) :: sparse
    end function
    integer(c_int) function hpf_sparse_start(sparse, messages, destinations, counts, values) bind(c)
      import
      type(c_ptr), value :: sparse
      integer(c_int64_t), value :: messages
      integer(c_int32_t), intent(in) :: destinations(*)
      integer(c_int64_t), intent(in) :: counts(*)
      type(*), intent(in) :: values(..)
    end function
    integer(c_int) function hpf_sparse_ready(sparse, ready) bind(c)
      import
      type(c_ptr), value :: sparse
      integer(c_int32_t), intent(out) :: ready
    end function
    integer(c_int) function hpf_sparse_finish(sparse, messages) bind(c)
      import
      type(c_ptr), value :: sparse
      integer(c_int64_t), intent(out) :: messages
    end function
    subroutine hpf_sparse_list(sparse, sources, bytes) bind(c)
      import
      type(c_ptr), value :: sparse
      integer(c_int32_t), intent(out) :: sources(*)
      integer(c_int64_t), intent(out) :: bytes(*)
    end subroutine
    integer(c_int) function hpf_sparse_take(sparse, is_one, message, array) bind(c)
      import
      type(c_ptr), value :: sparse
      integer(c_int32_t), value :: is_one
      integer(c_int64_t), value :: message
      type(*), intent(inout) :: array(..)
    end function
    integer(c_int) function hpf_sparse_free(sparse) bind(c)
      import
      type(c_ptr), value :: sparse
    end function
    integer(c_int) function hpf_line_create(comm, is_even, lower, upper, line) bind(c)
      import
      type(c_ptr), value :: comm
      integer(c_int32_t), value :: is_even
      integer(c_int64_t), value :: lower, upper
      type(c_ptr), intent(out) :: line
    end function
    integer(c_int) function hpf_line_items(line, lower, upper) bind(c)
      import
      type(c_ptr), value :: line
      integer(c_int64_t), intent(out) :: lower, upper
    end function
    integer(c_int) function hpf_line_neighbours(line, left, right) bind(c)
      import
      type(c_ptr), value :: line
      integer(c_int32_t), intent(out) :: left, right
    end function
    integer(c_int) function hpf_line_start(line, left, right) bind(c)
      import
      type(c_ptr), value :: line
      type(*), intent(in), optional :: left(..), right(..)
    end function
    integer(c_int) function hpf_line_ready(line, ready) bind(c)
      import
      type(c_ptr), value :: line
      integer(c_int32_t), intent(out) :: ready
    end function
    integer(c_int) function hpf_line_finish(line, left_bytes, right_bytes) bind(c)
      import
      type(c_ptr), value :: line
      integer(c_int64_t), intent(out) :: left_bytes, right_bytes
    end function
    integer(c_int) function hpf_line_take(line, left, right) bind(c)
      import
      type(c_ptr), value :: line
      type(*), intent(inout), optional :: left(..), right(..)
    end function
    integer(c_int) function hpf_line_free(line) bind(c)
      import
      type(c_ptr), value :: line
    end function
    integer(c_int) function hpf_set_log(has_log) bind(c)
      import
      integer(c_int32_t), value :: has_log
    end function
    subroutine hpf_message(text, length) bind(c)
      import
      character(kind=c_char), intent(out) :: text(*)
      integer(c_int), value :: length
    end subroutine
  end interface

contains

  ! --- Streams ---

  ! A stream of a CUDA device by its native handle, a cudaStream_t, such as acc_get_cuda_stream returns.
  elemental function hp_on(handle) result(stream)
    integer(c_intptr_t), intent(in) :: handle
    type(hp_stream) :: stream
    stream = hp_stream(2, handle)
  end function

  ! --- Ranks ---

  ! The ranks of a communicator of MPI, which is duplicated: `comm%MPI_VAL` of mpi_f08, or the integer of mpi. Collective.
  subroutine hp_comm_create(comm, mpi, stat, errmsg)
    type(hp_comm), intent(out) :: comm
    integer, intent(in) :: mpi
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_comm_create(int(mpi, c_int64_t), comm%handle), 'hp_comm_create', stat, errmsg)
  end subroutine

  ! Ranks that are threads of this process, one for each element.
  subroutine hp_comm_threads(comms, stat, errmsg)
    type(hp_comm), intent(out) :: comms(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: handles(max(size(comms), 1))
    handles = c_null_ptr
    call ended(hpf_comm_threads(int(size(comms), c_int32_t), handles), 'hp_comm_threads', stat, errmsg)
    comms%handle = handles(:size(comms))
  end subroutine

  ! The number of this rank, from 0; -1 after a failure.
  integer function comm_rank(self, stat, errmsg)
    class(hp_comm), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: rank
    call ended(hp_comm_rank(self%handle, rank), 'rank', stat, errmsg)
    comm_rank = int(rank)
  end function

  ! The number of ranks; 0 after a failure.
  integer function comm_size(self, stat, errmsg)
    class(hp_comm), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: ranks
    call ended(hp_comm_size(self%handle, ranks), 'size', stat, errmsg)
    comm_size = int(ranks)
  end function

  ! Waits until all ranks have called it. Collective.
  subroutine comm_barrier(self, stat, errmsg)
    class(hp_comm), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hp_comm_barrier(self%handle), 'barrier', stat, errmsg)
  end subroutine

  ! The time in seconds after which a wait for other ranks fails; 0 for never. By default the environment variable
  ! HALOPORT_TIME_LIMIT, or 1800.
  subroutine comm_set_time_limit(self, seconds, stat, errmsg)
    class(hp_comm), intent(in) :: self
    real(c_double), intent(in) :: seconds
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hp_comm_set_time_limit(self%handle, seconds), 'set_time_limit', stat, errmsg)
  end subroutine

  ! The time in seconds after which a wait for other ranks is a warning; 0 for never. By default the environment variable
  ! HALOPORT_WARN_AFTER, or 60.
  subroutine comm_set_warn_after(self, seconds, stat, errmsg)
    class(hp_comm), intent(in) :: self
    real(c_double), intent(in) :: seconds
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hp_comm_set_warn_after(self%handle, seconds), 'set_warn_after', stat, errmsg)
  end subroutine

  ! What makes progress between the start of an exchange, or of a round of messages, and its end; for those that this rank starts from now
  ! on. 'auto', as at first: for arrays on devices with streams a thread of the library, if it may call MPI; for those of the host
  ! and for rounds the calls of the program. 'thread': that thread for all of them; it takes some of the time of a core. 'caller': the
  ! calls of the program alone. Many MPI libraries transfer large messages only within their calls. If that thread may not call MPI, as
  ! after MPI_Init, `stat` is hp_wrong_thread, and nothing has changed. Below MPI_THREAD_MULTIPLE the program calls MPI by itself only
  ! while nothing is under way.
  subroutine comm_set_progress(self, by, stat, errmsg)
    class(hp_comm), intent(in) :: self
    character(*), intent(in) :: by
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_set_progress(self%handle, trim(by)//c_null_char), 'set_progress', stat, errmsg)
  end subroutine

  ! Passes warnings, such as "rank 0 has waited 60.0 s for ...", and errors that no call returns to `log`, a procedure of a module, which
  ! is called on any thread, within calls of the library or on a thread of its own: it calls nothing of the library, and waits for no thread that does. Without
  ! `log` they go to standard error, as at first, unless the environment variable HALOPORT_LOG is `off`, or `error` for errors alone.
  subroutine hp_set_log(log, stat, errmsg)
    procedure(hp_log), optional :: log
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    ! Without `log` the one before stays, for calls that have begun.
    if (present(log)) logger => log
    call ended(hpf_set_log(merge(1_c_int32_t, 0_c_int32_t, present(log))), 'hp_set_log', stat, errmsg)
  end subroutine

  ! Calls the procedure of the program with a line of `length` characters.
  recursive subroutine hpf_log(level, text, length) bind(c)
    integer(c_int), value :: level, length
    character(kind=c_char), intent(in) :: text(*)
    character(length) :: line
    integer :: place
    do place = 1, int(length)
      line(place:place) = text(place)
    end do
    if (associated(logger)) call logger(int(level), line)
  end subroutine

  ! Replaces the value by the 'sum' of those of all ranks, the smallest, 'min', or the largest, 'max'. All ranks get the same bits, in
  ! every run. If a rank has a NaN, so is the result. `all_reduce` of a communicator. Collective.
  subroutine reduce_real64(self, value, reduction, stat, errmsg)
    class(hp_comm), intent(in) :: self
    real(c_double), intent(inout), target :: value
    character(*), intent(in) :: reduction
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_all_reduce(self%handle, trim(reduction)//c_null_char, 8_c_int32_t, 1_c_int32_t, c_loc(value)), &
      'all_reduce', stat, errmsg)
  end subroutine

  subroutine reduce_real32(self, value, reduction, stat, errmsg)
    class(hp_comm), intent(in) :: self
    real(c_float), intent(inout), target :: value
    character(*), intent(in) :: reduction
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_all_reduce(self%handle, trim(reduction)//c_null_char, 4_c_int32_t, 1_c_int32_t, c_loc(value)), &
      'all_reduce', stat, errmsg)
  end subroutine

  subroutine reduce_int64(self, value, reduction, stat, errmsg)
    class(hp_comm), intent(in) :: self
    integer(c_int64_t), intent(inout), target :: value
    character(*), intent(in) :: reduction
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_all_reduce(self%handle, trim(reduction)//c_null_char, 8_c_int32_t, 0_c_int32_t, c_loc(value)), &
      'all_reduce', stat, errmsg)
  end subroutine

  ! The sum is modulo 2^32.
  subroutine reduce_int32(self, value, reduction, stat, errmsg)
    class(hp_comm), intent(in) :: self
    integer(c_int32_t), intent(inout), target :: value
    character(*), intent(in) :: reduction
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_all_reduce(self%handle, trim(reduction)//c_null_char, 4_c_int32_t, 0_c_int32_t, c_loc(value)), &
      'all_reduce', stat, errmsg)
  end subroutine

  ! The sum of the values of all ranks, or of their products with as many weights, as that of real numbers, rounded once: the same
  ! bits on any number of ranks, however they share the values. Arrays of any rank, sections, or of no elements. A NaN, or infinities
  ! of both signs, make it a NaN, infinities of one sign that infinity; a NaN after a failure. A mask has as many elements as values, a
  ! logical of default kind or of kind c_bool each: where it is false, nothing is added, not even a NaN. `sum_exact` of a communicator.
  ! Collective.
  function sum_exact_real64(self, values, weights, mask, stat, errmsg) result(sum)
    class(hp_comm), intent(in) :: self
    real(c_double), intent(in) :: values(..)
    real(c_double), intent(in), optional :: weights(..)
    logical, intent(in), optional :: mask(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double) :: sum
    call ended(hpf_sum_exact(self%handle, sum, values, weights, mask), 'sum_exact', stat, errmsg)
  end function

  function sum_exact_real32(self, values, weights, mask, stat, errmsg) result(sum)
    class(hp_comm), intent(in) :: self
    real(c_float), intent(in) :: values(..)
    real(c_float), intent(in), optional :: weights(..)
    logical, intent(in), optional :: mask(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double) :: sum
    call ended(hpf_sum_exact(self%handle, sum, values, weights, mask), 'sum_exact', stat, errmsg)
  end function

  ! With a mask of kind c_bool.
  function sum_exact_real64_of_bool(self, values, weights, mask, stat, errmsg) result(sum)
    class(hp_comm), intent(in) :: self
    real(c_double), intent(in) :: values(..)
    real(c_double), intent(in), optional :: weights(..)
    logical(c_bool), intent(in) :: mask(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double) :: sum
    call ended(hpf_sum_exact(self%handle, sum, values, weights, mask), 'sum_exact', stat, errmsg)
  end function

  function sum_exact_real32_of_bool(self, values, weights, mask, stat, errmsg) result(sum)
    class(hp_comm), intent(in) :: self
    real(c_float), intent(in) :: values(..)
    real(c_float), intent(in), optional :: weights(..)
    logical(c_bool), intent(in) :: mask(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double) :: sum
    call ended(hpf_sum_exact(self%handle, sum, values, weights, mask), 'sum_exact', stat, errmsg)
  end function

  ! Such sums of up to 20 arrays, in one message: `sums` has an element for each of them. All are reals of 4 bytes, or all of 8, and have
  ! as many elements as weights and mask, which hold for each: call comm%sums_exact(sums, heat, salt, weights=area, mask=wet). Sums are
  ! NaN after a failure. All ranks pass as many arrays. `sums_exact` of a communicator. Collective.
  subroutine sums_exact_of_logical(self, sums, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, &
      weights, mask, stat, errmsg)
    class(hp_comm), intent(in) :: self
    real(c_double), intent(inout), contiguous :: sums(:)
    type(*), intent(in) :: a1(..)
    type(*), intent(in), optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
      a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    type(*), intent(in), optional :: weights(..)
    logical, intent(in), optional :: mask(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_sums_exact(self%handle, sums, size(sums, kind=c_int64_t), weights, mask, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20), 'sums_exact', stat, errmsg)
  end subroutine

  ! With a mask of kind c_bool.
  subroutine sums_exact_of_bool(self, sums, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, &
      weights, mask, stat, errmsg)
    class(hp_comm), intent(in) :: self
    real(c_double), intent(inout), contiguous :: sums(:)
    type(*), intent(in) :: a1(..)
    type(*), intent(in), optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
      a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    type(*), intent(in), optional :: weights(..)
    logical(c_bool), intent(in) :: mask(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_sums_exact(self%handle, sums, size(sums, kind=c_int64_t), weights, mask, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20), 'sums_exact', stat, errmsg)
  end subroutine

  ! Exact sums of `nflds` columns, in one message: `arr_gsum(k)` becomes the sum of the first `nsummands` elements of column k of all
  ! ranks; a NaN after a failure. The arguments are those of `shr_reprosum_calc`, and `stat` and `errmsg`. Collective: all ranks pass the
  ! same `nflds`. An argument of which it is said below that all ranks pass it is present on all of them, or on none.
  !
  ! A NaN or an infinity among these elements is a failure, unless `allow_infnan` is true: then the sum is as that of `sum_exact`.
  ! `arr_gbl_max_out` becomes the largest magnitude of each column, and `gbl_max_nsummands_out` the largest `nsummands` of a rank: one
  ! more message for both; all ranks pass them. `rel_diff` becomes the relative and the absolute difference from a sum of floats, the
  ! absolute one twice if the sum is smaller, and 0 if the sum is not finite: one more message; all ranks pass it. `arr_max_levels_out`
  ! becomes 135, the whole numbers of 32 bits in a sum. `repro_sum_stats` counts calls: 1 is added to element 1, to element 5 if there
  ! was a message for largest values, and to element 4 if there was one for `rel_diff`. The other arguments have no effect: they steer
  ! an algorithm with a limited number of levels, and sums here are exact.
  !
  ! `commid` is a communicator of Haloport. Or it is one of MPI, by its number, and all ranks of the job if it is absent: then each call
  ! makes a communicator of its own, which takes longer than the sum.
  subroutine reprosum_of_comm(arr, arr_gsum, nsummands, dsummands, nflds, allow_infnan, ddpdd_sum, arr_gbl_max, arr_gbl_max_out, &
      arr_max_levels, arr_max_levels_out, gbl_max_nsummands, gbl_max_nsummands_out, gbl_count, repro_sum_validate, &
      repro_sum_stats, rel_diff, commid, stat, errmsg)
    integer, intent(in) :: nsummands, dsummands, nflds
    real(c_double), intent(in) :: arr(dsummands, nflds)
    real(c_double), intent(inout) :: arr_gsum(nflds)
    logical, intent(in), optional :: allow_infnan, ddpdd_sum, repro_sum_validate
    real(c_double), intent(in), optional :: arr_gbl_max(nflds)
    real(c_double), intent(inout), optional :: arr_gbl_max_out(nflds), rel_diff(2, nflds)
    integer, intent(in), optional :: arr_max_levels(nflds), gbl_max_nsummands, gbl_count
    integer, intent(inout), optional :: arr_max_levels_out(nflds), gbl_max_nsummands_out, repro_sum_stats(6)
    type(hp_comm), intent(in) :: commid
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    ! Such arguments steer an algorithm that is not used here.
    if (any([present(ddpdd_sum), present(arr_gbl_max), present(arr_max_levels), present(gbl_max_nsummands), present(gbl_count), &
      present(repro_sum_validate)])) continue
    call reprosum(commid%handle, .false., .false., 0_c_int64_t, arr, arr_gsum, nsummands, dsummands, nflds, allow_infnan, &
      arr_gbl_max_out, arr_max_levels_out, gbl_max_nsummands_out, repro_sum_stats, rel_diff, stat, errmsg)
  end subroutine

  subroutine reprosum_of_mpi(arr, arr_gsum, nsummands, dsummands, nflds, allow_infnan, ddpdd_sum, arr_gbl_max, arr_gbl_max_out, &
      arr_max_levels, arr_max_levels_out, gbl_max_nsummands, gbl_max_nsummands_out, gbl_count, repro_sum_validate, &
      repro_sum_stats, rel_diff, commid, stat, errmsg)
    integer, intent(in) :: nsummands, dsummands, nflds
    real(c_double), intent(in) :: arr(dsummands, nflds)
    real(c_double), intent(inout) :: arr_gsum(nflds)
    logical, intent(in), optional :: allow_infnan, ddpdd_sum, repro_sum_validate
    real(c_double), intent(in), optional :: arr_gbl_max(nflds)
    real(c_double), intent(inout), optional :: arr_gbl_max_out(nflds), rel_diff(2, nflds)
    integer, intent(in), optional :: arr_max_levels(nflds), gbl_max_nsummands, gbl_count
    integer, intent(inout), optional :: arr_max_levels_out(nflds), gbl_max_nsummands_out, repro_sum_stats(6)
    integer, intent(in), optional :: commid
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: mpi
    ! Such arguments steer an algorithm that is not used here.
    if (any([present(ddpdd_sum), present(arr_gbl_max), present(arr_max_levels), present(gbl_max_nsummands), present(gbl_count), &
      present(repro_sum_validate)])) continue
    mpi = 0
    if (present(commid)) mpi = commid
    call reprosum(c_null_ptr, .true., .not. present(commid), mpi, arr, arr_gsum, nsummands, dsummands, nflds, allow_infnan, &
      arr_gbl_max_out, arr_max_levels_out, gbl_max_nsummands_out, repro_sum_stats, rel_diff, stat, errmsg)
  end subroutine

  ! `of_mpi`: on a communicator of MPI, which is that of all ranks of the job with `of_all`.
  subroutine reprosum(comm, of_mpi, of_all, mpi, arr, arr_gsum, nsummands, dsummands, nflds, allow_infnan, &
      arr_gbl_max_out, arr_max_levels_out, gbl_max_nsummands_out, repro_sum_stats, rel_diff, stat, errmsg)
    type(c_ptr), intent(in) :: comm
    logical, intent(in) :: of_mpi, of_all
    integer(c_int64_t), intent(in) :: mpi
    integer, intent(in) :: nsummands, dsummands, nflds
    real(c_double), intent(in) :: arr(dsummands, nflds)
    real(c_double), intent(inout) :: arr_gsum(nflds)
    logical, intent(in), optional :: allow_infnan
    real(c_double), intent(inout), optional :: arr_gbl_max_out(nflds), rel_diff(2, nflds)
    integer, intent(inout), optional :: arr_max_levels_out(nflds), gbl_max_nsummands_out, repro_sum_stats(6)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: most
    integer(c_int32_t) :: takes_not_finite
    logical :: with_largest
    integer(c_int) :: code
    takes_not_finite = 0
    if (present(allow_infnan)) takes_not_finite = flag(allow_infnan)
    with_largest = present(arr_gbl_max_out) .or. present(gbl_max_nsummands_out)
    code = hpf_reprosum(comm, flag(of_mpi), flag(of_all), mpi, arr, arr_gsum, int(nsummands, c_int64_t), &
      int(dsummands, c_int64_t), int(nflds, c_int64_t), takes_not_finite, flag(with_largest), arr_gbl_max_out, most, rel_diff)
    if (present(gbl_max_nsummands_out)) gbl_max_nsummands_out = int(most)
    if (present(arr_max_levels_out)) arr_max_levels_out = 135
    if (present(repro_sum_stats) .and. code == 0) repro_sum_stats = repro_sum_stats + &
      [1, 0, 0, merge(1, 0, present(rel_diff)), merge(1, 0, with_largest), 0]
    call ended(code, 'hp_reprosum_calc', stat, errmsg)
  end subroutine

  ! Replaces the values by those of rank `root`, from 0. Values are a number, a logical, a text, or a type of such components, or an array
  ! of these, of any rank, also a section: on all ranks of one type and as many elements. After a failure they are as they were.
  ! `broadcast` of a communicator. Collective.
  subroutine comm_broadcast(self, values, root, stat, errmsg)
    class(hp_comm), intent(in) :: self
    type(*), intent(inout) :: values(..)
    integer, intent(in) :: root
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_broadcast(self%handle, int(root, c_int64_t), values), 'broadcast', stat, errmsg)
  end subroutine

  ! Writes the values of each rank, in the order of the ranks, into `all` on rank `root`, from 0: an array of the same type and as many
  ! elements as the values of all ranks have together, such as one with a last axis of that many ranks. On other ranks it may be absent.
  ! Values as in `broadcast`. After a failure `all` is as it was. `gather` of a communicator. Collective.
  subroutine comm_gather(self, values, root, all, stat, errmsg)
    class(hp_comm), intent(in) :: self
    type(*), intent(in) :: values(..)
    integer, intent(in) :: root
    type(*), intent(inout), optional :: all(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_gather(self%handle, int(root, c_int64_t), values, all), 'gather', stat, errmsg)
  end subroutine

  subroutine comm_free(self, stat, errmsg)
    class(hp_comm), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = hp_comm_free(self%handle)
    if (code == 0) self%handle = c_null_ptr
    call ended(code, 'free', stat, errmsg)
  end subroutine

  ! --- Patterns ---

  ! A mesh: the global id of each cell of this rank and of its halo, from 0 or from 1, in any order; whether this rank owns the
  ! cell; and perhaps the rank that owns it, from 0. With `counts`, this rank has several domains, or none: the first `counts(1)` cells
  ! are those of domain 1, the next `counts(2)` those of domain 2, and so on. A plan then has arrays as for a grid of several domains.
  ! Collective.
  subroutine pattern_of_ids_64(pattern, comm, ids, owned, owners, counts, stat, errmsg)
    type(hp_pattern), intent(out) :: pattern
    type(hp_comm), intent(in) :: comm
    integer(c_int64_t), intent(in) :: ids(:)
    logical, intent(in) :: owned(:)
    integer, intent(in), optional :: owners(:), counts(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t), allocatable :: all_ids(:), cells(:)
    integer(c_int8_t), allocatable :: marks(:)
    integer(c_int32_t), allocatable :: ranks(:)
    integer(c_int32_t) :: domains
    allocate (cells, source=[size(ids, kind=c_int64_t), 0_c_int64_t])
    domains = 1
    if (present(counts)) then
      domains = size(counts, kind=c_int32_t)
      cells = [int(counts, c_int64_t), 0_c_int64_t]
      if (any(counts < 0)) call complain('counts', 'numbers from', 0, minval(counts))
      call check_length('ids', size(ids), total(counts))
    end if
    call check_length('owned', size(owned), size(ids))
    allocate (all_ids(size(ids) + 1), marks(size(owned) + 1), ranks(size(ids) + 1))
    all_ids(:size(ids)) = ids
    marks(:size(owned)) = merge(1_c_int8_t, 0_c_int8_t, owned)
    if (present(owners)) then
      call check_length('owners', size(owners), size(ids))
      if (size(owners) == size(ids)) ranks(:size(ids)) = narrow('owners', owners)
    end if
    call ended(hpf_pattern_ids(comm%handle, domains, cells, all_ids, marks, ranks, flag(present(owners)), pattern%handle), &
      'hp_pattern_create', stat, errmsg)
    pattern%domains = domains
    pattern%sides = max(domains, 1_c_int32_t)
    pattern%no_domains = flag(domains == 0)
  end subroutine

  subroutine pattern_of_ids_32(pattern, comm, ids, owned, owners, counts, stat, errmsg)
    type(hp_pattern), intent(out) :: pattern
    type(hp_comm), intent(in) :: comm
    integer(c_int32_t), intent(in) :: ids(:)
    logical, intent(in) :: owned(:)
    integer, intent(in), optional :: owners(:), counts(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call pattern_of_ids_64(pattern, comm, int(ids, c_int64_t), owned, owners, counts, stat, errmsg)
  end subroutine

  ! A grid of `cells` cells along each axis. `halo` has the width of the halo, or one for each axis, or two for each axis: below
  ! and above. The grid is split evenly, into `parts` along each axis if they are given, or this rank owns the cells from `lower`
  ! to `upper`, which count from 1. Each other list has one value for all axes, or one for each; other lengths are refused.
  !
  ! `clipped` halos have no cells beyond ends of the grid that are not periodic. With `like`, a pattern of another grid, this grid is cut
  ! as that one is, and ends elsewhere: so are the nodes of a staggered grid, of which there is one more than cells along an axis.
  !
  ! A cubed sphere has six tiles, its last axis; the first two axes have the same extent, and one of levels may lie between.
  !
  ! A tripolar grid has axis 2, y, folded onto itself at its upper end, along axis 1, x, which is periodic: about centres of cells,
  ! `fold='cell'` (ORCA2, ORCA025, ORCA12), or about corners, `fold='corner'` (ORCA05, ORCA1, MOM, POP). `points` are those that the
  ! pattern exchanges: 'cells' (T), the default, 'east-edges' (U), 'north-edges' (V) or 'corners' (F). Collective.
  subroutine pattern_of_grid(pattern, comm, cells, halo, periodic, parts, lower, upper, faces_only, cubed_sphere, fold, points, &
      clipped, like, stat, errmsg)
    type(hp_pattern), intent(out) :: pattern
    type(hp_comm), intent(in) :: comm
    integer, intent(in) :: cells(:), halo(:)
    logical, intent(in), optional :: periodic(:)
    integer, intent(in), optional :: parts(:), lower(:), upper(:)
    logical, intent(in), optional :: faces_only, cubed_sphere, clipped
    type(hp_pattern), intent(in), optional :: like
    character(*), intent(in), optional :: fold, points
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: first(size(cells), 1), last(size(cells), 1)
    integer(c_int32_t) :: ends(size(cells)), cuts(size(cells))
    ends = 0; cuts = 0
    if (present(periodic)) ends = narrow('periodic', of_axes('periodic', merge(1, 0, periodic), size(cells)))
    if (present(parts)) cuts = narrow('parts', of_axes('parts', parts, size(cells)))
    if (present(lower) .neqv. present(upper)) call hpf_complain( &
      'lower, upper: expected both, or neither, found one of them'//c_null_char)
    first = 1; last = 0
    if (present(lower)) first(:, 1) = of_axes('lower', lower, size(cells))
    if (present(upper)) last(:, 1) = of_axes('upper', upper, size(cells))
    call make_grid(pattern, comm, cells, halo, merge(1, -1, present(lower)), first, last, ends, cuts, faces_only, cubed_sphere, &
      fold, points, clipped, like, stat, errmsg)
    if (present(like)) then
      pattern%domains = like%domains
      pattern%sides = like%sides
      pattern%no_domains = like%no_domains
    end if
  end subroutine

  ! The same with several domains on a rank, or none: domain k has the cells from `lower(:, k)` to `upper(:, k)`. A plan of it has an
  ! array of field 1 for each domain, then those of field 2, and so on; on a rank without domains one array for each field, of which
  ! no cells are used, but the type, the rank and `vector` are as elsewhere. Arrays of `hp_allocate` are for patterns with one domain on this rank. Collective.
  subroutine pattern_of_domains(pattern, comm, cells, halo, lower, upper, periodic, faces_only, cubed_sphere, fold, points, &
      clipped, stat, errmsg)
    type(hp_pattern), intent(out) :: pattern
    type(hp_comm), intent(in) :: comm
    integer, intent(in) :: cells(:), halo(:), lower(:, :), upper(:, :)
    logical, intent(in), optional :: periodic(:)
    logical, intent(in), optional :: faces_only, cubed_sphere, clipped
    character(*), intent(in), optional :: fold, points
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: first(size(cells), size(lower, 2)), last(size(cells), size(lower, 2))
    integer(c_int32_t) :: ends(size(cells)), cuts(size(cells))
    first = 1; last = 0; ends = 0; cuts = 0
    if (present(periodic)) ends = narrow('periodic', of_axes('periodic', merge(1, 0, periodic), size(cells)))
    call check_length('lower', size(lower, 1), size(cells))
    call check_length('upper', size(upper, 1), size(cells))
    call check_length('upper', size(upper, 2), size(lower, 2))
    if (all(shape(lower) == shape(first)) .and. all(shape(upper) == shape(last))) then
      first = lower
      last = upper
    end if
    call make_grid(pattern, comm, cells, halo, size(lower, 2), first, last, ends, cuts, faces_only, cubed_sphere, fold, points, &
      clipped, stat=stat, errmsg=errmsg)
    pattern%domains = size(lower, 2, kind=c_int32_t)
    pattern%sides = max(pattern%domains, 1_c_int32_t)
    pattern%no_domains = flag(pattern%domains == 0)
  end subroutine

  ! A grid with that many `boxes` of this rank; -1: it is split. Whether each axis is periodic, and its parts, are numbers.
  subroutine make_grid(pattern, comm, cells, halo, boxes, lower, upper, periodic, parts, faces_only, cubed_sphere, fold, points, &
      clipped, like, stat, errmsg)
    type(hp_pattern), intent(out) :: pattern
    type(hp_comm), intent(in) :: comm
    integer, intent(in) :: cells(:), halo(:), boxes, lower(:, :), upper(:, :)
    integer(c_int32_t), intent(in) :: periodic(:), parts(:)
    logical, intent(in), optional :: faces_only, cubed_sphere, clipped
    type(hp_pattern), intent(in), optional :: like
    character(*), intent(in), optional :: fold, points
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: extents(4), first(4, size(lower, 2)), past(4, size(lower, 2))
    integer(c_int32_t) :: widths(2, 4), faces, sphere, pivot, kind_of_points, ends_at_walls
    type(c_ptr) :: other
    integer :: axes
    axes = size(cells)
    extents = 0; first = 0; past = 0; widths = 0; faces = 0; sphere = 0; pivot = 0
    kind_of_points = 0; ends_at_walls = 0; other = c_null_ptr
    if (axes >= 1 .and. axes <= 4) then
      extents(:axes) = int(cells, c_int64_t)
      if (size(halo) == 2*axes) then
        widths(:, :axes) = reshape(narrow('halo', halo), [2, axes])
      else
        widths(1, :axes) = narrow('halo', of_axes('halo', halo, axes))
        widths(2, :axes) = widths(1, :axes)
        if (all(size(halo) /= [1, axes])) call complain('halo', '1 value, one for each axis, or two for each of them,', axes, &
          size(halo))
      end if
      first(:axes, :) = int(lower, c_int64_t) - 1
      past(:axes, :) = int(upper, c_int64_t)
    end if
    if (present(faces_only)) faces = flag(faces_only)
    if (present(cubed_sphere)) sphere = flag(cubed_sphere)
    if (present(fold)) pivot = number_of('fold', fold, [character(12) :: 'cell', 'corner'])
    if (present(points)) kind_of_points = number_of('points', points, [character(12) :: 'cells', 'east-edges', 'north-edges', &
      'corners']) - 1_c_int32_t
    if (present(clipped)) ends_at_walls = flag(clipped)
    if (present(like)) then
      other = like%handle
      if (transfer(other, 0_c_intptr_t) == 0) call hpf_complain( &
        'like: expected a pattern, found one that was not made, or was freed'//c_null_char)
    end if
    pattern%axes = int(axes, c_int32_t)
    call ended(hpf_pattern_grid(comm%handle, int(axes, c_int32_t), extents, widths, periodic, parts, faces, sphere, pivot, &
      kind_of_points, ends_at_walls, other, int(boxes, c_int32_t), first, past, pattern%handle), 'hp_pattern_create', stat, errmsg)
  end subroutine

  ! `cells` cells on each rank, with the lists that the program has made itself: to each rank of `send_to`, counted from 0, go as
  ! many of `send_cells`, one after the other, as `send_counts` says; from each rank of `receive_from` come those of
  ! `receive_cells`. Cells count from 1, and travel in the order of the lists. Collective.
  subroutine pattern_of_lists(pattern, comm, cells, send_to, send_counts, send_cells, receive_from, receive_counts, &
      receive_cells, stat, errmsg)
    type(hp_pattern), intent(out) :: pattern
    type(hp_comm), intent(in) :: comm
    integer, intent(in) :: cells
    integer, intent(in) :: send_to(:), send_counts(:), send_cells(:), receive_from(:), receive_counts(:), receive_cells(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call check_length('send_counts', size(send_counts), size(send_to))
    call check_length('send_cells', size(send_cells), total(send_counts))
    call check_length('receive_counts', size(receive_counts), size(receive_from))
    call check_length('receive_cells', size(receive_cells), total(receive_counts))
    call ended(hpf_pattern_lists(comm%handle, int(cells, c_int64_t), &
      size(send_to, kind=c_int32_t), narrow('send_to', send_to), int(send_counts, c_int64_t), &
      narrow('send_cells', send_cells) - 1_c_int32_t, &
      size(receive_from, kind=c_int32_t), narrow('receive_from', receive_from), int(receive_counts, c_int64_t), &
      narrow('receive_cells', receive_cells) - 1_c_int32_t, pattern%handle), 'hp_pattern_create', stat, errmsg)
  end subroutine

  ! A redistribution takes the cells that `source` owns to their owners in `target`, a pattern of the same cells on the same
  ! communicator: a transpose, all cells on one rank, new parts. Between a grid and a mesh, the id of a cell of the grid is its number,
  ! counted from 0 with the first axis fastest: i - 1 + nx*(j - 1). With `fill_halo`, the halo of the target is filled too, but not
  ! from a mesh to a grid; otherwise it keeps its values. Plans of it have the arrays of the source and those of the target by turns,
  ! one for each domain, of one type, in any layouts; `halo` and `lower` hold for all of them on a grid. While an exchange is in
  ! flight, the program writes no source, and leaves the target alone. Collective.
  subroutine redistribution_of_patterns(pattern, source, target, fill_halo, stat, errmsg)
    type(hp_pattern), intent(out) :: pattern
    type(hp_pattern), intent(in) :: source, target
    logical, intent(in), optional :: fill_halo
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: fills
    fills = 0
    if (present(fill_halo)) fills = flag(fill_halo)
    pattern%axes = source%axes
    pattern%sides = source%sides + target%sides
    pattern%target_axes = target%axes
    pattern%target_sides = target%sides
    pattern%no_domains = source%no_domains + 2_c_int32_t*target%no_domains
    call ended(hpf_pattern_redistribution(source%handle, target%handle, fills, pattern%handle), 'hp_pattern_create', stat, errmsg)
  end subroutine

  ! A number of 4 bytes of each number, as haloport.h takes them. If one has no room there, the next call is refused.
  function narrow(name, numbers) result(made)
    character(*), intent(in) :: name
    integer, intent(in) :: numbers(:)
    integer(c_int32_t) :: made(size(numbers))
    integer(c_int64_t), parameter :: most = huge(1_c_int32_t)
    integer :: place
    do place = 1, size(numbers)
      if (abs(int(numbers(place), c_int64_t)) > most) then
        call complain(name, 'numbers up to', int(huge(1_c_int32_t)), numbers(place))
        made = 0
        return
      end if
      made(place) = int(numbers(place), c_int32_t)
    end do
  end function

  ! 1 for true, 0 for false.
  elemental function flag(is_set) result(number)
    logical, intent(in) :: is_set
    integer(c_int32_t) :: number
    number = merge(1_c_int32_t, 0_c_int32_t, is_set)
  end function

  ! The place of a word among those that are known. If it is none of them, the next call is refused.
  function number_of(name, word, known) result(number)
    character(*), intent(in) :: name, word, known(:)
    integer(c_int32_t) :: number
    integer :: place
    character(:), allocatable :: words
    words = ''
    do place = 1, size(known)
      number = int(place, c_int32_t)
      if (word == known(place)) return
      words = words//' '//trim(known(place))
    end do
    number = 1
    call hpf_complain(name//': expected one of'//words//', found '//trim(word)//c_null_char)
  end function

  ! The values of a list for each of `axes` axes. If the list has neither one nor that many, the next call refuses it.
  function of_axes(name, list, axes) result(values)
    character(*), intent(in) :: name
    integer, intent(in) :: list(:), axes
    integer :: values(axes)
    values = 0
    if (size(list) == axes) then
      values = list
    else if (size(list) == 1) then
      values = list(1)
    else
      call complain(name, '1 value, or one for each axis,', axes, size(list))
    end if
  end function

  ! If a list has another length, the next call refuses it.
  ! The sum of numbers of cells; that of too many is the largest number, which no size is.
  pure integer function total(counts)
    integer, intent(in) :: counts(:)
    total = int(min(sum(int(counts, c_int64_t)), int(huge(1), c_int64_t)))
  end function

  subroutine check_length(name, found, expected)
    character(*), intent(in) :: name
    integer, intent(in) :: found, expected
    if (found /= expected) call complain(name, 'this number of values:', expected, found)
  end subroutine

  subroutine complain(name, words, expected, found)
    character(*), intent(in) :: name, words
    integer, intent(in) :: expected, found
    character(200) :: text
    write (text, '(3a, 1x, i0, a, i0)') name, ': expected ', words, expected, ', found ', found
    call hpf_complain(trim(text)//c_null_char)
  end subroutine

  ! The cells of a domain of this rank, by default its first: the first and the last along each axis, from 1. After a failure there
  ! are none: 1 and 0.
  subroutine pattern_owned(self, lower, upper, domain, stat, errmsg)
    class(hp_pattern), intent(in) :: self
    integer, intent(out) :: lower(:), upper(:)
    integer, intent(in), optional :: domain
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call box(self, 0, lower, upper, domain, stat, errmsg)
  end subroutine

  ! The same with the halo.
  subroutine pattern_with_halo(self, lower, upper, domain, stat, errmsg)
    class(hp_pattern), intent(in) :: self
    integer, intent(out) :: lower(:), upper(:)
    integer, intent(in), optional :: domain
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call box(self, 1, lower, upper, domain, stat, errmsg)
  end subroutine

  ! The owned cells whose stencil, as wide as the halo, needs no cell that an exchange fills.
  subroutine pattern_interior(self, lower, upper, domain, stat, errmsg)
    class(hp_pattern), intent(in) :: self
    integer, intent(out) :: lower(:), upper(:)
    integer, intent(in), optional :: domain
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call box(self, 2, lower, upper, domain, stat, errmsg)
  end subroutine

  ! The other owned cells of a domain of a grid: box k has the cells from `lower(:, k)` to `upper(:, k)`. There are at most two boxes for
  ! each axis, which have no cells in common; those at the ends of the last axis extend over all owned cells along the others. After a
  ! failure there are none.
  subroutine pattern_boundary(self, lower, upper, domain, stat, errmsg)
    class(hp_pattern), intent(in) :: self
    integer, allocatable, intent(out) :: lower(:, :), upper(:, :)
    integer, intent(in), optional :: domain
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: first(4, 8), past(4, 8)
    integer(c_int32_t) :: boxes
    integer(c_int) :: code
    integer :: axes
    axes = int(self%axes)
    first = 0; past = 0
    code = hpf_pattern_boundary(self%handle, self%axes, int(domain_of(self, domain) - 1, c_int32_t), boxes, first, past)
    if (code == 0) code = check_range('lower, upper', maxval(past))
    if (code /= 0) boxes = 0
    allocate (lower(axes, boxes), upper(axes, boxes))
    lower = int(first(:axes, :boxes) + 1)
    upper = int(past(:axes, :boxes))
    call ended(code, 'boundary', stat, errmsg)
  end subroutine

  ! A domain of this rank, by default its first.
  integer function domain_of(pattern, domain) result(number)
    class(hp_pattern), intent(in) :: pattern
    integer, intent(in), optional :: domain
    number = 1
    if (present(domain)) number = domain
    if (pattern%domains == 0) then
      call hpf_complain('domain: expected a rank with domains, found one without'//c_null_char)
    else if (number < 1 .or. number > int(pattern%domains)) then
      call complain('domain', 'a domain of this rank, from 1 to', int(pattern%domains), number)
    end if
  end function

  subroutine box(pattern, which, lower, upper, domain, stat, errmsg)
    class(hp_pattern), intent(in) :: pattern
    integer, intent(in) :: which
    integer, intent(out) :: lower(:), upper(:)
    integer, intent(in), optional :: domain
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(9), parameter :: names(0:2) = ['owned    ', 'with_halo', 'interior ']
    integer(c_int64_t) :: first(4), past(4)
    integer(c_int) :: code
    integer :: axes, number
    axes = max(int(pattern%axes), 1)
    lower = 1; upper = 0
    call check_length('lower', size(lower), axes)
    call check_length('upper', size(upper), axes)
    number = domain_of(pattern, domain)
    code = hpf_pattern_box(pattern%handle, pattern%axes, int(which, c_int32_t), int(number - 1, c_int32_t), first, past)
    if (code == 0) code = check_range('lower, upper', maxval(past(:axes)))
    if (code == 0) then
      lower = int(first(:axes) + 1)
      upper = int(past(:axes))
    end if
    call ended(code, trim(names(which)), stat, errmsg)
  end subroutine

  ! Fails unless default integers have room for a number of 0 or more.
  integer(c_int) function check_range(name, number) result(code)
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: number
    code = 0
    if (number > huge(1)) code = too_large(name, number, int(huge(1), c_int64_t))
  end function

  ! The failure of a call whose result has no room in its integers.
  integer(c_int) function too_large(name, number, most) result(code)
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: number, most
    character(200) :: text
    write (text, '(2a, i0, a, i0, a)') name, ': expected numbers up to ', most, ', the largest of these integers, found ', number, &
      '; use integers of 8 bytes'
    code = hpf_refuse(trim(text)//c_null_char)
  end function

  subroutine pattern_free(self, stat, errmsg)
    class(hp_pattern), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = hp_pattern_free(self%handle)
    if (code == 0) self%handle = c_null_ptr
    call ended(code, 'free', stat, errmsg)
  end subroutine

  ! --- Memory ---

  ! `hp_allocate(memory, pattern, array)` makes an array of zeros on a grid or a mesh, with its halo, from which neighbours on this node
  ! copy straight in plans with `fixed`. `array` then points to it; its bounds are those of `with_halo` of the pattern, and 1 to
  ! `levels` along one more axis if it has one. It lasts until `memory` is freed, which comes after its plans. Not collective.
  ! Of more than 4 MiB, neighbours reach what their halos need alone: a redistribution of it is packed, and copied straight from
  ! other arrays in a plan with `share`.

  subroutine allocate_real64_1(memory, pattern, array, levels, stat, errmsg)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    real(c_double), pointer, intent(out) :: array(:)
    integer, intent(in), optional :: levels
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double), pointer :: all(:)
    integer :: lower(1), extents(1)
    type(c_ptr) :: address
    integer(c_int) :: code
    nullify (array)
    call make_memory(memory, pattern, 8, levels, lower, extents, address, code)
    if (code == 0) then
      call c_f_pointer(address, all, extents)
      array(lower(1):) => all
    end if
    call ended(code, 'hp_allocate', stat, errmsg)
  end subroutine

  subroutine allocate_real64_2(memory, pattern, array, levels, stat, errmsg)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    real(c_double), pointer, intent(out) :: array(:, :)
    integer, intent(in), optional :: levels
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double), pointer :: all(:, :)
    integer :: lower(2), extents(2)
    type(c_ptr) :: address
    integer(c_int) :: code
    nullify (array)
    call make_memory(memory, pattern, 8, levels, lower, extents, address, code)
    if (code == 0) then
      call c_f_pointer(address, all, extents)
      array(lower(1):, lower(2):) => all
    end if
    call ended(code, 'hp_allocate', stat, errmsg)
  end subroutine

  subroutine allocate_real64_3(memory, pattern, array, levels, stat, errmsg)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    real(c_double), pointer, intent(out) :: array(:, :, :)
    integer, intent(in), optional :: levels
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double), pointer :: all(:, :, :)
    integer :: lower(3), extents(3)
    type(c_ptr) :: address
    integer(c_int) :: code
    nullify (array)
    call make_memory(memory, pattern, 8, levels, lower, extents, address, code)
    if (code == 0) then
      call c_f_pointer(address, all, extents)
      array(lower(1):, lower(2):, lower(3):) => all
    end if
    call ended(code, 'hp_allocate', stat, errmsg)
  end subroutine

  subroutine allocate_real64_4(memory, pattern, array, levels, stat, errmsg)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    real(c_double), pointer, intent(out) :: array(:, :, :, :)
    integer, intent(in), optional :: levels
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double), pointer :: all(:, :, :, :)
    integer :: lower(4), extents(4)
    type(c_ptr) :: address
    integer(c_int) :: code
    nullify (array)
    call make_memory(memory, pattern, 8, levels, lower, extents, address, code)
    if (code == 0) then
      call c_f_pointer(address, all, extents)
      array(lower(1):, lower(2):, lower(3):, lower(4):) => all
    end if
    call ended(code, 'hp_allocate', stat, errmsg)
  end subroutine

  subroutine allocate_real32_1(memory, pattern, array, levels, stat, errmsg)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    real(c_float), pointer, intent(out) :: array(:)
    integer, intent(in), optional :: levels
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_float), pointer :: all(:)
    integer :: lower(1), extents(1)
    type(c_ptr) :: address
    integer(c_int) :: code
    nullify (array)
    call make_memory(memory, pattern, 4, levels, lower, extents, address, code)
    if (code == 0) then
      call c_f_pointer(address, all, extents)
      array(lower(1):) => all
    end if
    call ended(code, 'hp_allocate', stat, errmsg)
  end subroutine

  subroutine allocate_real32_2(memory, pattern, array, levels, stat, errmsg)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    real(c_float), pointer, intent(out) :: array(:, :)
    integer, intent(in), optional :: levels
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_float), pointer :: all(:, :)
    integer :: lower(2), extents(2)
    type(c_ptr) :: address
    integer(c_int) :: code
    nullify (array)
    call make_memory(memory, pattern, 4, levels, lower, extents, address, code)
    if (code == 0) then
      call c_f_pointer(address, all, extents)
      array(lower(1):, lower(2):) => all
    end if
    call ended(code, 'hp_allocate', stat, errmsg)
  end subroutine

  subroutine allocate_real32_3(memory, pattern, array, levels, stat, errmsg)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    real(c_float), pointer, intent(out) :: array(:, :, :)
    integer, intent(in), optional :: levels
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_float), pointer :: all(:, :, :)
    integer :: lower(3), extents(3)
    type(c_ptr) :: address
    integer(c_int) :: code
    nullify (array)
    call make_memory(memory, pattern, 4, levels, lower, extents, address, code)
    if (code == 0) then
      call c_f_pointer(address, all, extents)
      array(lower(1):, lower(2):, lower(3):) => all
    end if
    call ended(code, 'hp_allocate', stat, errmsg)
  end subroutine

  subroutine allocate_real32_4(memory, pattern, array, levels, stat, errmsg)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    real(c_float), pointer, intent(out) :: array(:, :, :, :)
    integer, intent(in), optional :: levels
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_float), pointer :: all(:, :, :, :)
    integer :: lower(4), extents(4)
    type(c_ptr) :: address
    integer(c_int) :: code
    nullify (array)
    call make_memory(memory, pattern, 4, levels, lower, extents, address, code)
    if (code == 0) then
      call c_f_pointer(address, all, extents)
      array(lower(1):, lower(2):, lower(3):, lower(4):) => all
    end if
    call ended(code, 'hp_allocate', stat, errmsg)
  end subroutine

  ! The memory of an array of reals of that many bytes, and its bounds.
  subroutine make_memory(memory, pattern, bytes, levels, lower, extents, address, code)
    type(hp_memory), intent(out) :: memory
    type(hp_pattern), intent(in) :: pattern
    integer, intent(in) :: bytes
    integer, intent(in), optional :: levels
    integer, intent(out) :: lower(:), extents(:)
    type(c_ptr), intent(out) :: address
    integer(c_int), intent(out) :: code
    integer(c_int64_t) :: first(4), past(4)
    integer :: own
    own = max(int(pattern%axes), 1)
    lower = 1; extents = 1
    address = c_null_ptr
    code = hpf_pattern_box(pattern%handle, pattern%axes, 1_c_int32_t, 0_c_int32_t, first, past)
    if (code == 0) code = check_range('array', maxval(past(:own) - first(:own)))
    if (code /= 0) return
    if (pattern%sides > 1) call complain('pattern', 'domains on this rank: at most', 1, int(pattern%sides))
    if (size(lower) /= merge(own + 1, own, present(levels))) then
      call complain('array', 'an axis for each of the pattern, and one more with `levels`:', merge(own + 1, own, present(levels)), &
        size(lower))
    else
      lower(:own) = int(first(:own) + 1)
      extents(:own) = int(past(:own) - first(:own))
      if (present(levels)) extents(own + 1) = levels
    end if
    code = hpf_memory_create(pattern%handle, pattern%axes, int(bytes, c_int32_t), int(size(lower), c_int32_t), &
      int(extents, c_int64_t), memory%handle, address)
  end subroutine

  ! Frees the memory, after the plans of its array.
  subroutine memory_free(self, stat, errmsg)
    class(hp_memory), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = hp_memory_free(self%handle)
    if (code == 0) self%handle = c_null_ptr
    call ended(code, 'free', stat, errmsg)
  end subroutine

  ! --- Plans ---

  ! Prepares exchanges of arrays like these: one for each field, or for each domain of each field. Collective.
  !
  ! `axes` has a word for each axis of an array: 'cells', or 'nproma' and 'blocks' for cells in blocks; on a grid '1' to '4', or
  ! 'x', 'y', 'z'; 'levels' for any axis along which every cell has elements; 'components'. If an array has fewer axes than there
  ! are words, 'components' is dropped first, then 'levels'. With a part for each array, separated by ';', they may differ. By
  ! default the axes of the grid, or the cells, come first, then levels.
  !
  ! Arrays on a grid begin with their halo. If they have more around their cells, `halo` says how many cells are before the first
  ! owned one along each axis, or `lower` their lower bounds, if the first owned cell has the index 1. Both have one value for all
  ! axes, or one for each.
  !
  ! `vector` has a word, as in `axes`, for each component of a vector: the axis of the grid along which it points. Across the edges of
  ! a cubed sphere and the fold of a tripolar grid, components are exchanged and change their signs. With a part for each array,
  ! separated by ';', of which those of scalars are empty, arrays may differ. By default all are scalars.
  !
  ! With `fixed`, the plan keeps these arrays, which must not move or end before it. Neighbours that are threads of this process
  ! then copy straight from them; other processes of the node do so if the arrays are those of `hp_allocate`, and with `share` from
  ! other allocated ones. The plan then moves the pages that hold nothing but an array; addresses and content stay. While the plan is
  ! made and freed, no other thread writes the arrays or what lies between their elements, and no other exchange of them is in flight.
  ! As long as it exists, no device or other library has registered their memory.
  !
  ! With `patterns`, one for each field, fields may be of several patterns of one communicator: points of a staggered grid, cells and
  ! edges of a mesh, halos of other widths. All travel in one message to each neighbour. `halo` and `lower` hold for all of their grids.
  !
  ! `in_flight` is how many exchanges can be started and not finished at once, by default 1. With more, `start`, `finish` and
  ! `ready` need tickets.
  !
  ! `path` is how data gets to other ranks: 'direct', 'shared', 'messages' or 'stream-messages', or 'quickest', the default. If a
  ! path is not possible, the call fails with the reason. `describe` of the plan tells the paths.
  !
  ! With `accumulate`, exchanges are turned round: each halo cell goes to its owner, where it is combined with what is there, in a
  ! fixed order: 'sum', 'min', 'max', or 'replace', if no cell is in two halos. The halo is 0 afterwards with `zero_halo`.
  subroutine hp_plan_create(plan, pattern, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, &
      axes, vector, halo, lower, fixed, share, in_flight, path, accumulate, zero_halo, patterns, stat, errmsg)
    type(hp_plan), intent(out) :: plan
    type(hp_pattern), intent(in) :: pattern
    type(*), intent(inout), asynchronous :: a1(..)
    type(*), intent(inout), asynchronous, optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
      a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    character(*), intent(in), optional :: axes, vector
    integer, intent(in), optional :: halo(:), lower(:)
    logical, intent(in), optional :: fixed, share
    integer, intent(in), optional :: in_flight
    character(*), intent(in), optional :: path, accumulate
    logical, intent(in), optional :: zero_halo
    type(hp_pattern), intent(in), optional :: patterns(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(:), allocatable :: words, directions, way, combine
    integer(c_int64_t) :: origin(4)
    integer(c_int32_t) :: keeps, shares, flights, zeroes, fields, side_counts(20), axis_counts(20), none(20)
    type(c_ptr) :: handles(20)
    integer :: most_axes, axis_count, field
    origin = 0; keeps = 0; shares = 0; flights = 1; words = c_null_char
    directions = c_null_char; way = c_null_char; combine = c_null_char; zeroes = 0
    most_axes = max(int(pattern%axes), int(pattern%target_axes))
    if (present(patterns)) most_axes = maxval([most_axes, int(patterns%axes)])
    axis_count = min(max(most_axes, 1), 4)
    if (present(halo)) origin(:axis_count) = int(of_axes('halo', halo, axis_count), c_int64_t)
    if (present(lower)) origin(:axis_count) = 1 - int(of_axes('lower', lower, axis_count), c_int64_t)
    if (present(lower) .and. any(origin < 0)) call hpf_complain( &
      'lower: expected bounds of at most 1, as the first owned cell has the index 1, found one above'//c_null_char)
    if (present(halo) .and. present(lower)) call hpf_complain( &
      'halo, lower: expected one of them, found both'//c_null_char)
    if (most_axes == 0 .and. (present(halo) .or. present(lower))) call hpf_complain( &
      'halo, lower: expected neither for arrays on a mesh, found one'//c_null_char)
    if (present(fixed)) keeps = flag(fixed)
    if (present(share)) shares = flag(share)
    if (present(in_flight)) flights = sum(narrow('in_flight', [in_flight]))
    if (present(axes)) words = trim(axes)//c_null_char
    if (present(vector)) directions = trim(vector)//c_null_char
    if (present(path)) way = trim(path)//c_null_char
    if (present(accumulate)) combine = trim(accumulate)//c_null_char
    if (present(zero_halo)) zeroes = flag(zero_halo)
    fields = 0; handles = c_null_ptr; side_counts = 0; axis_counts = 0; none = 0
    if (present(patterns)) then
      fields = int(min(size(patterns), size(handles)), c_int32_t)
      if (size(patterns) < 1 .or. size(patterns) > size(handles)) &
        call complain('patterns', 'one for each field, 1 to', size(handles), size(patterns))
      do field = 1, int(fields)
        handles(field) = patterns(field)%handle
        side_counts(field) = patterns(field)%sides
        axis_counts(field) = patterns(field)%axes
        none(field) = patterns(field)%no_domains
      end do
    end if
    call ended(hpf_plan_create(pattern%handle, pattern%sides, pattern%axes, pattern%target_sides, pattern%target_axes, &
      pattern%no_domains, fields, handles, side_counts, axis_counts, none, words, directions, origin, keeps, shares, flights, &
      way, combine, zeroes, plan%handle, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20), 'hp_plan_create', stat, errmsg)
  end subroutine

  ! Fills the halos of these arrays: as many as the plan was made for, of these layouts. Returns when the halos are in place; on
  ! devices, when the end of the exchange is in the stream.
  subroutine plan_update(self, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, &
      stream, stat, errmsg)
    class(hp_plan), intent(in) :: self
    type(*), intent(inout), asynchronous :: a1(..)
    type(*), intent(inout), asynchronous, optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
      a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    type(hp_stream), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(hp_stream) :: order
    integer(c_int64_t) :: number
    if (present(stream)) order = stream
    number = 0
    call ended(hpf_call(self%handle, 0_c_int32_t, order%kind, order%handle, 0_c_int32_t, number, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20), 'update', stat, errmsg)
  end subroutine

  ! Starts an exchange: sends, and returns without waiting for neighbours. Until it is finished, owned cells near those of other
  ! ranks are only read, and the halo is left alone. `ticket` names it; it may be absent if `in_flight` of the plan is 1.
  subroutine plan_start(self, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, &
      stream, ticket, stat, errmsg)
    class(hp_plan), intent(in) :: self
    type(*), intent(inout), asynchronous :: a1(..)
    type(*), intent(inout), asynchronous, optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
      a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    type(hp_stream), intent(in), optional :: stream
    type(hp_ticket), intent(out), optional :: ticket
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(hp_stream) :: order
    integer(c_int64_t) :: number
    integer(c_int) :: code
    if (present(stream)) order = stream
    number = 0
    code = hpf_call(self%handle, 1_c_int32_t, order%kind, order%handle, flag(present(ticket)), number, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20)
    if (present(ticket)) ticket%number = number
    call ended(code, 'start', stat, errmsg)
  end subroutine

  ! Finishes the exchange of these arrays, which `ticket` names; without it the one in flight, if `in_flight` of the plan is 1. Each
  ! rank finishes exchanges in any order. Waits for the start of each neighbour, and for nothing later: a neighbour may compute, or
  ! wait for this rank by MPI, before it finishes its own.
  subroutine plan_finish(self, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, &
      stream, ticket, stat, errmsg)
    class(hp_plan), intent(in) :: self
    type(*), intent(inout), asynchronous :: a1(..)
    type(*), intent(inout), asynchronous, optional :: a2(..), a3(..), a4(..), a5(..), a6(..), a7(..), a8(..), &
      a9(..), a10(..), a11(..), a12(..), a13(..), a14(..), a15(..), a16(..), a17(..), a18(..), a19(..), a20(..)
    type(hp_stream), intent(in), optional :: stream
    type(hp_ticket), intent(in), optional :: ticket
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(hp_stream) :: order
    integer(c_int64_t) :: number
    if (present(stream)) order = stream
    number = 0
    if (present(ticket)) number = ticket%number
    call ended(hpf_call(self%handle, 2_c_int32_t, order%kind, order%handle, flag(present(ticket)), number, &
      a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, &
      a11, a12, a13, a14, a15, a16, a17, a18, a19, a20), 'finish', stat, errmsg)
  end subroutine

  ! Makes progress, and tells whether `finish` of this ticket would return without waiting for a neighbour; `.false.` after a
  ! failure. Does not block.
  logical function plan_ready(self, ticket, stat, errmsg)
    class(hp_plan), intent(in) :: self
    type(hp_ticket), intent(in), optional :: ticket
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: number
    integer(c_int32_t) :: ready
    number = 0
    if (present(ticket)) number = ticket%number
    call ended(hpf_ready(self%handle, flag(present(ticket)), number, ready), 'ready', stat, errmsg)
    plan_ready = ready /= 0
  end function

  ! A JSON text of what was settled: for each neighbour and array the path, and why no quicker one; the amounts of data. Arrays and
  ! ranks count from 0 in it. docs/fields.md explains its words. Empty after a failure.
  function plan_describe(self, stat, errmsg) result(text)
    class(hp_plan), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(:), allocatable :: text
    call description(0_c_int32_t, self%handle, text, stat, errmsg)
  end function

  ! A JSON object of the version and the devices of this machine, or why there are none. Loads the drivers of CUDA and OpenCL.
  function hp_describe(stat, errmsg) result(text)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(:), allocatable :: text
    call description(1_c_int32_t, c_null_ptr, text, stat, errmsg)
  end function

  subroutine description(of_machine, plan, text, stat, errmsg)
    integer(c_int32_t), intent(in) :: of_machine
    type(c_ptr), intent(in) :: plan
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable :: found(:)
    integer(c_size_t) :: bytes, place
    integer(c_int) :: code
    text = ''
    bytes = 1
    allocate (found(1))
    code = hpf_describe(of_machine, plan, found, bytes)
    if (code == 0) then
      deallocate (found)
      allocate (found(bytes))
      code = hpf_describe(of_machine, plan, found, bytes)
    end if
    if (code == 0) then
      text = repeat(' ', int(bytes) - 1)
      do place = 1, bytes - 1
        text(place:place) = found(place)
      end do
    end if
    call ended(code, trim(merge('hp_describe', 'describe   ', of_machine == 1)), stat, errmsg)
  end subroutine

  ! Ends the exchanges in flight, and frees the plan.
  subroutine plan_free(self, stat, errmsg)
    class(hp_plan), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = hpf_plan_free(self%handle)
    if (code == 0) self%handle = c_null_ptr
    call ended(code, 'free', stat, errmsg)
  end subroutine

  ! --- Messages of any size ---

  ! An exchange of messages between ranks that change from round to round, such as particles that move to another rank. Each rank
  ! names the destinations of its messages, which need not know. All ranks go through the same number of rounds, also those that
  ! send nothing. Ranks count from 0.
  !
  ! By default each rank may send to any, also to itself, and waits for all others. With `sources` and `destinations`,
  ! messages come from the ranks `sources` alone, this rank sends to the ranks `destinations` alone, and no rank waits for distant
  ! ones. If one rank fixes them, all do. Collective.
  !
  ! A round makes progress in calls of Haloport on all ranks. Between its `start` and its `finish`, a rank must not wait for
  ! another one by other means, such as MPI: that one may wait for a message that this rank has not received. On ranks with
  ! `set_progress('thread')` a thread of the library makes progress, too.
  subroutine hp_sparse_create(sparse, comm, sources, destinations, stat, errmsg)
    type(hp_sparse), intent(out) :: sparse
    type(hp_comm), intent(in) :: comm
    integer, intent(in), optional :: sources(:), destinations(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t), allocatable :: come_from(:), go_to(:)
    allocate (come_from(0), go_to(0))
    if (present(sources)) come_from = narrow('sources', sources)
    if (present(destinations)) go_to = narrow('destinations', destinations)
    if (present(sources) .neqv. present(destinations)) call hpf_complain( &
      'sources, destinations: expected both, or neither, found one of them'//c_null_char)
    call ended(hpf_sparse_create(comm%handle, flag(present(sources)), size(come_from, kind=c_int32_t), come_from, &
      size(go_to, kind=c_int32_t), go_to, sparse%handle), 'hp_sparse_create', stat, errmsg)
  end subroutine

  ! `start` and `finish` in one call.
  subroutine sparse_exchange(self, destinations, counts, values, sources, bytes, stat, errmsg)
    class(hp_sparse), intent(in) :: self
    integer, intent(in) :: destinations(:), counts(:)
    type(*), intent(in) :: values(..)
    integer, allocatable, intent(out) :: sources(:)
    integer(c_int64_t), allocatable, intent(out) :: bytes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = start_messages(self, destinations, counts, values)
    if (code == 0) then
      call finish_messages(self, sources, bytes, code)
    else
      allocate (sources(0), bytes(0))
    end if
    call ended(code, 'exchange', stat, errmsg)
  end subroutine

  ! Starts a round: to each rank of `destinations` go as many elements of `values`, one after the other along its last axis, as `counts`
  ! says. `values` is an array of any type, kind and rank, or a section; a rank without messages passes one without elements. It
  ! is copied, and may change afterwards. Messages for one rank come in their order here. Does not wait.
  subroutine sparse_start(self, destinations, counts, values, stat, errmsg)
    class(hp_sparse), intent(in) :: self
    integer, intent(in) :: destinations(:), counts(:)
    type(*), intent(in) :: values(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(start_messages(self, destinations, counts, values), 'start', stat, errmsg)
  end subroutine

  ! Finishes the round: waits until it is complete, and makes lists of the sources of the messages that have come, and of their
  ! sizes in bytes: in the order of the sources, and those of one source in order. `take` copies the messages, until the next
  ! round is finished.
  subroutine sparse_finish(self, sources, bytes, stat, errmsg)
    class(hp_sparse), intent(in) :: self
    integer, allocatable, intent(out) :: sources(:)
    integer(c_int64_t), allocatable, intent(out) :: bytes(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    call finish_messages(self, sources, bytes, code)
    call ended(code, 'finish', stat, errmsg)
  end subroutine

  integer(c_int) function start_messages(sparse, destinations, counts, values)
    class(hp_sparse), intent(in) :: sparse
    integer, intent(in) :: destinations(:), counts(:)
    type(*), intent(in) :: values(..)
    call check_length('counts', size(counts), size(destinations))
    start_messages = hpf_sparse_start(sparse%handle, size(destinations, kind=c_int64_t), &
      narrow('destinations', destinations), &
      int(counts, c_int64_t), values)
  end function

  subroutine finish_messages(sparse, sources, bytes, code)
    class(hp_sparse), intent(in) :: sparse
    integer, allocatable, intent(out) :: sources(:)
    integer(c_int64_t), allocatable, intent(out) :: bytes(:)
    integer(c_int), intent(out) :: code
    integer(c_int32_t), allocatable :: ranks(:)
    integer(c_int64_t) :: messages
    code = hpf_sparse_finish(sparse%handle, messages)
    allocate (ranks(messages), bytes(messages))
    if (messages > 0) call hpf_sparse_list(sparse%handle, ranks, bytes)
    sources = int(ranks)
  end subroutine

  ! Makes progress, and tells whether `finish` would return without waiting for another rank; `.false.` after a failure. Does not
  ! block.
  logical function sparse_ready(self, stat, errmsg)
    class(hp_sparse), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: ready
    call ended(hpf_sparse_ready(self%handle, ready), 'ready', stat, errmsg)
    sparse_ready = ready /= 0
  end function

  ! Copies a message that has come into an array of its size, of any type, kind and rank: the one at this place in the lists of
  ! `finish`, or by default all messages, one after the other.
  subroutine sparse_take(self, array, message, stat, errmsg)
    class(hp_sparse), intent(in) :: self
    type(*), intent(inout) :: array(..)
    integer, intent(in), optional :: message
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: place
    place = 0
    if (present(message)) place = int(message, c_int64_t)
    call ended(hpf_sparse_take(self%handle, flag(present(message)), place, array), 'take', stat, errmsg)
  end subroutine

  ! Waits for a round in flight, discards its messages, and frees the exchange.
  subroutine sparse_free(self, stat, errmsg)
    class(hp_sparse), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = hpf_sparse_free(self%handle)
    if (code == 0) self%handle = c_null_ptr
    call ended(code, 'free', stat, errmsg)
  end subroutine

  ! `hp_line_create(line, comm, items)` makes a line of ranks, in their order: each owns consecutive items, or none, such as rows
  ! of a sorted table, and passes payloads of any size to the rank before it, its left, and to the rank after it, its right.
  ! `items` is the number of items of all ranks, which then have equal shares; or the first and the last item of this rank, which
  ! follow those of the rank before, `[1, 0]` for none on the first rank. Items count from 1. All ranks go through the same number
  ! of rounds, which make progress as those of `hp_sparse` do. Collective.

  subroutine line_even_64(line, comm, items, stat, errmsg)
    type(hp_line), intent(out) :: line
    type(hp_comm), intent(in) :: comm
    integer(c_int64_t), intent(in) :: items
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_line_create(comm%handle, 1_c_int32_t, 1_c_int64_t, items, line%handle), 'hp_line_create', stat, errmsg)
  end subroutine

  subroutine line_even_32(line, comm, items, stat, errmsg)
    type(hp_line), intent(out) :: line
    type(hp_comm), intent(in) :: comm
    integer(c_int32_t), intent(in) :: items
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call line_even_64(line, comm, int(items, c_int64_t), stat, errmsg)
  end subroutine

  subroutine line_of_items_64(line, comm, items, stat, errmsg)
    type(hp_line), intent(out) :: line
    type(hp_comm), intent(in) :: comm
    integer(c_int64_t), intent(in) :: items(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: ends(2)
    ends = 1
    call check_length('items', size(items), 2)
    if (size(items) == 2) ends = items
    call ended(hpf_line_create(comm%handle, 0_c_int32_t, ends(1), ends(2), line%handle), 'hp_line_create', stat, errmsg)
  end subroutine

  subroutine line_of_items_32(line, comm, items, stat, errmsg)
    type(hp_line), intent(out) :: line
    type(hp_comm), intent(in) :: comm
    integer(c_int32_t), intent(in) :: items(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call line_of_items_64(line, comm, int(items, c_int64_t), stat, errmsg)
  end subroutine

  ! `items(lower, upper)` of a line: the first and the last item of this rank, from 1. If there are none, `upper` is one less than
  ! `lower`, 1 and 0 after a failure.
  subroutine items_64(self, lower, upper, stat, errmsg)
    class(hp_line), intent(in) :: self
    integer(c_int64_t), intent(out) :: lower, upper
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_line_items(self%handle, lower, upper), 'items', stat, errmsg)
  end subroutine

  subroutine items_32(self, lower, upper, stat, errmsg)
    class(hp_line), intent(in) :: self
    integer(c_int32_t), intent(out) :: lower, upper
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: first, last
    integer(c_int) :: code
    lower = 1; upper = 0
    code = hpf_line_items(self%handle, first, last)
    if (code == 0 .and. max(first, last) > huge(1_c_int32_t)) &
      code = too_large('items', max(first, last), int(huge(1_c_int32_t), c_int64_t))
    if (code == 0) then
      lower = int(first, c_int32_t)
      upper = int(last, c_int32_t)
    end if
    call ended(code, 'items', stat, errmsg)
  end subroutine

  ! The rank before this one, which may own no items; -1 if there is none, and after a failure.
  integer function line_left(self, stat, errmsg)
    class(hp_line), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: left, right
    call ended(hpf_line_neighbours(self%handle, left, right), 'left', stat, errmsg)
    line_left = int(left)
  end function

  ! The rank after this one, which may own no items; -1 if there is none, and after a failure.
  integer function line_right(self, stat, errmsg)
    class(hp_line), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: left, right
    call ended(hpf_line_neighbours(self%handle, left, right), 'right', stat, errmsg)
    line_right = int(right)
  end function

  ! `start` and `finish` in one call.
  subroutine line_exchange(self, left, right, left_bytes, right_bytes, stat, errmsg)
    class(hp_line), intent(in) :: self
    type(*), intent(in), optional :: left(..), right(..)
    integer(c_int64_t), intent(out), optional :: left_bytes, right_bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: sizes(2)
    integer(c_int) :: code
    sizes = -1
    code = hpf_line_start(self%handle, left, right)
    if (code == 0) code = hpf_line_finish(self%handle, sizes(1), sizes(2))
    if (present(left_bytes)) left_bytes = sizes(1)
    if (present(right_bytes)) right_bytes = sizes(2)
    call ended(code, 'exchange', stat, errmsg)
  end subroutine

  ! Starts a round: sends `left` to the rank before this one and `right` to the rank after it: arrays of any type, kind and rank,
  ! or sections. They are copied, and may change afterwards. An array without elements is a payload; without the argument there is
  ! none. At the ends of the line they are dropped. Does not wait.
  subroutine line_start(self, left, right, stat, errmsg)
    class(hp_line), intent(in) :: self
    type(*), intent(in), optional :: left(..), right(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_line_start(self%handle, left, right), 'start', stat, errmsg)
  end subroutine

  ! Finishes the round: waits for the two ranks beside this one alone, and tells the sizes in bytes of the payloads that have come
  ! from there; -1 for none. `take` copies them, until the next round is finished.
  subroutine line_finish(self, left_bytes, right_bytes, stat, errmsg)
    class(hp_line), intent(in) :: self
    integer(c_int64_t), intent(out), optional :: left_bytes, right_bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: sizes(2)
    integer(c_int) :: code
    code = hpf_line_finish(self%handle, sizes(1), sizes(2))
    if (present(left_bytes)) left_bytes = sizes(1)
    if (present(right_bytes)) right_bytes = sizes(2)
    call ended(code, 'finish', stat, errmsg)
  end subroutine

  ! Makes progress, and tells whether `finish` would return without waiting for a neighbour; `.false.` after a failure. Does not
  ! block.
  logical function line_ready(self, stat, errmsg)
    class(hp_line), intent(in) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: ready
    call ended(hpf_line_ready(self%handle, ready), 'ready', stat, errmsg)
    line_ready = ready /= 0
  end function

  ! Copies the payload that has come from the left, or from the right, or both, into arrays of their sizes, of any type, kind and
  ! rank.
  subroutine line_take(self, left, right, stat, errmsg)
    class(hp_line), intent(in) :: self
    type(*), intent(inout), optional :: left(..), right(..)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call ended(hpf_line_take(self%handle, left, right), 'take', stat, errmsg)
  end subroutine

  ! Waits for a round in flight, discards its payloads, and frees the line.
  subroutine line_free(self, stat, errmsg)
    class(hp_line), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = hpf_line_free(self%handle)
    if (code == 0) self%handle = c_null_ptr
    call ended(code, 'free', stat, errmsg)
  end subroutine

  ! --- Errors ---

  ! Passes the result of a call to its caller. If the caller does not take `stat`, a failure ends the program. `name` is that of the
  ! procedure, as programs call it.
  subroutine ended(code, name, stat, errmsg)
    integer(c_int), intent(in) :: code
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(len=1000) :: text
    if (present(stat)) stat = int(code)
    if (code == 0) return
    call hpf_message(text, int(len(text), c_int))
    text = name//': '//text
    if (present(errmsg)) errmsg = text
    if (.not. present(stat)) then
      write (error_unit, '(a)') trim(text)
      error stop 1
    end if
  end subroutine

end module
