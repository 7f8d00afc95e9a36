! The contestant Haloport from Fortran: meshes in arrays of the caller, in the shapes that models use.
module peers_fortran
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_funloc, c_funptr, c_int, c_int32_t, c_int64_t, c_loc, &
    c_null_char, c_null_funptr, c_null_ptr, c_ptr, c_size_t
  use haloport
  implicit none
  private
  public :: peers_mesh_strategies

  ! `struct peers_mesh`.
  type, bind(c) :: peers_mesh
    integer(c_int32_t) :: owned, halo, levels, nproma, fields, sends
    type(c_ptr) :: ids, send, source
  end type

  ! `struct peers_strategy`.
  type, bind(c) :: peers_strategy
    type(c_ptr) :: name = c_null_ptr
    type(c_funptr) :: create = c_null_funptr, run = c_null_funptr, field = c_null_funptr, load = c_null_funptr, &
      store = c_null_funptr, destroy = c_null_funptr
    integer(c_int) :: stand_in = 0
  end type

  integer, parameter :: most_fields = 4

  ! An array of the model: cells and levels, or blocks of cells with levels.
  type :: array
    type(c_ptr) :: memory
    real(c_double), pointer :: flat(:, :) => null(), blocked(:, :, :) => null()
  end type

  type :: state
    type(hp_plan) :: plan
    type(array) :: u(most_fields)
    integer :: fields = 0
    logical :: blocked = .false.
  end type

  type(peers_strategy), target :: list(2)
  character(kind=c_char, len=:), allocatable, target :: name

  ! Of strategies/memory.c: private memory, in huge pages.
  interface
    type(c_ptr) function private_new(bytes) bind(c)
      import
      integer(c_size_t), value :: bytes
    end function
    subroutine free(memory) bind(c)
      import
      type(c_ptr), value :: memory
    end subroutine
  end interface

contains

  type(c_ptr) function peers_mesh_strategies() bind(c)
    name = 'Haloport from Fortran: the caller''s memory'//c_null_char
    list(1) = peers_strategy(c_loc(name), c_funloc(create), c_funloc(run), c_funloc(field), c_null_funptr, c_null_funptr, &
      c_funloc(destroy), 0)
    peers_mesh_strategies = c_loc(list)
  end function

  type(c_ptr) function create(comm, problem) bind(c)
    integer(c_int), value :: comm
    type(c_ptr), value :: problem
    type(peers_mesh), pointer :: mesh
    type(state), pointer :: made
    integer(c_int64_t), pointer :: ids(:)
    type(hp_comm) :: ranks
    type(hp_pattern) :: pattern
    character(:), allocatable :: axes
    character(200) :: text
    integer :: number, stat, cells, blocks, place
    create = c_null_ptr
    call c_f_pointer(problem, mesh)
    cells = mesh%owned + mesh%halo
    call c_f_pointer(mesh%ids, ids, [cells])
    if (mesh%fields /= 1 .and. mesh%fields /= most_fields) return
    allocate (made)
    made%fields = mesh%fields
    made%blocked = mesh%nproma > 1 .and. mesh%nproma < cells
    blocks = (cells + mesh%nproma - 1)/mesh%nproma
    axes = merge('levels cells', 'cells levels', mesh%nproma == 1)
    if (made%blocked) axes = 'nproma levels blocks'
    do number = 1, mesh%fields
      made%u(number)%memory = private_new(8_c_size_t*mesh%nproma*mesh%levels*blocks)
      if (made%blocked) then
        call c_f_pointer(made%u(number)%memory, made%u(number)%blocked, [mesh%nproma, mesh%levels, blocks])
      else if (mesh%nproma == 1) then
        call c_f_pointer(made%u(number)%memory, made%u(number)%flat, [mesh%levels, cells])
      else
        call c_f_pointer(made%u(number)%memory, made%u(number)%flat, [cells, mesh%levels])
      end if
    end do
    call hp_comm_create(ranks, comm, stat=stat, errmsg=text)
    if (stat == 0) then
      call hp_pattern_create(pattern, ranks, ids, [(place <= mesh%owned, place=1, cells)], stat=stat, errmsg=text)
    end if
    if (stat == 0) then
      associate (u => made%u)
        if (made%blocked .and. made%fields == 1) then
          call hp_plan_create(made%plan, pattern, u(1)%blocked, axes=axes, stat=stat, errmsg=text)
        else if (made%blocked) then
          call hp_plan_create(made%plan, pattern, u(1)%blocked, u(2)%blocked, u(3)%blocked, u(4)%blocked, axes=axes, stat=stat, &
            errmsg=text)
        else if (made%fields == 1) then
          call hp_plan_create(made%plan, pattern, u(1)%flat, axes=axes, stat=stat, errmsg=text)
        else
          call hp_plan_create(made%plan, pattern, u(1)%flat, u(2)%flat, u(3)%flat, u(4)%flat, axes=axes, stat=stat, errmsg=text)
        end if
      end associate
    end if
    if (stat /= 0) then
      print '(a)', 'Haloport from Fortran takes no part: '//trim(text)
      return
    end if
    call pattern%free()
    call ranks%free()
    create = c_loc(made)
  end function

  integer(c_int) function run(made, batch) bind(c)
    type(c_ptr), value :: made
    integer(c_int), value :: batch
    type(state), pointer :: self
    integer :: exchange, stat
    call c_f_pointer(made, self)
    run = 0
    do exchange = 1, batch
      associate (u => self%u)
        if (self%blocked .and. self%fields == 1) then
          call self%plan%update(u(1)%blocked, stat=stat)
        else if (self%blocked) then
          call self%plan%update(u(1)%blocked, u(2)%blocked, u(3)%blocked, u(4)%blocked, stat=stat)
        else if (self%fields == 1) then
          call self%plan%update(u(1)%flat, stat=stat)
        else
          call self%plan%update(u(1)%flat, u(2)%flat, u(3)%flat, u(4)%flat, stat=stat)
        end if
      end associate
      if (stat /= 0) run = int(stat, c_int)
    end do
  end function

  type(c_ptr) function field(made, number) bind(c)
    type(c_ptr), value :: made
    integer(c_int), value :: number
    type(state), pointer :: self
    call c_f_pointer(made, self)
    field = self%u(number + 1)%memory
  end function

  subroutine destroy(made) bind(c)
    type(c_ptr), value :: made
    type(state), pointer :: self
    integer :: number
    call c_f_pointer(made, self)
    call self%plan%free()
    do number = 1, self%fields
      call free(self%u(number)%memory)
    end do
    deallocate (self)
  end subroutine

end module
