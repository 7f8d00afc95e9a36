! Finite elements: Poisson's equation on the unit square with linear triangles, whose parts have ragged borders:
! mpirun -n 4 ./poisson
!
! Each rank computes with its own triangles. It adds to vertices that other ranks own, so these sums go from halos to their owners.
program poisson
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use haloport
  implicit none
  real(real64), parameter :: pi = acos(-1.0_real64)
  type(hp_comm) :: comm
  type(hp_pattern) :: pattern
  type(hp_plan) :: to_owners, to_halos
  integer :: rank, ranks, owned ! vertices that this rank owns, which come first
  integer, allocatable :: corners(:, :)
  real(real64), allocatable :: points(:, :), sums(:), values(:)
  logical, allocatable :: inner(:)
  real(real64) :: order

  call MPI_Init()
  call hp_comm_create(comm, MPI_COMM_WORLD%MPI_VAL)
  rank = comm%rank()
  ranks = comm%size()
  order = log(error_of(16)/error_of(32))/log(2.0_real64)
  if (rank == 0) print '(i0, a, f5.2)', ranks, ' ranks: the error falls by order', order
  call comm%free()
  if (order < 1.8_real64 .or. order > 2.2_real64) error stop 'expected order 2'
  call MPI_Finalize()

contains

  ! The vertices of a triangle of n by n squares, two in each.
  pure function corners_of(n, triangle) result(vertices)
    integer, intent(in) :: n, triangle
    integer :: vertices(3), square
    square = (triangle - 1)/2
    vertices = square/n*(n + 1) + mod(square, n) + 1
    if (mod(triangle, 2) == 1) then
      vertices = vertices + [0, n + 1, n + 2]
    else
      vertices = vertices + [0, n + 2, 1]
    end if
  end function

  pure function point_of(n, vertex) result(point)
    integer, intent(in) :: n, vertex
    real(real64) :: point(2)
    point = [real((vertex - 1)/(n + 1), real64), real(mod(vertex - 1, n + 1), real64)]/n
  end function

  ! The rank of a triangle: that of the nearest of some points.
  integer function rank_of(n, triangle)
    integer, intent(in) :: n, triangle
    real(real64) :: distances(0:ranks - 1), centre(2), seed(2)
    integer :: vertices(3), one
    vertices = corners_of(n, triangle)
    centre = (point_of(n, vertices(1)) + point_of(n, vertices(2)) + point_of(n, vertices(3)))/3
    do one = 0, ranks - 1
      seed = modulo(0.5_real64 + [0.754877666_real64, 0.569840291_real64]*one, 1.0_real64)
      distances(one) = sum((seed - centre)**2)
    end do
    rank_of = minloc(distances, 1) - 1
  end function

  ! Makes the part of this rank. A vertex belongs to the lowest rank of its triangles, and is in the halo of the others.
  subroutine make(n)
    integer, intent(in) :: n
    integer :: owner((n + 1)**2), place((n + 1)**2), all_vertices((n + 1)**2), of_triangle(2*n*n), triangle, k
    logical :: touched((n + 1)**2)
    integer, allocatable :: ids(:)
    owner = ranks; touched = .false.
    do triangle = 1, 2*n*n
      of_triangle(triangle) = rank_of(n, triangle)
      owner(corners_of(n, triangle)) = min(owner(corners_of(n, triangle)), of_triangle(triangle))
      if (of_triangle(triangle) == rank) touched(corners_of(n, triangle)) = .true.
    end do
    all_vertices = [(k, k=1, size(owner))]
    allocate (ids(count(touched)))
    ids = [pack(all_vertices, owner == rank), pack(all_vertices, owner /= rank .and. touched)]
    owned = count(owner == rank)
    place(ids) = [(k, k=1, size(ids))]
    corners = reshape([(place(corners_of(n, triangle)), triangle=1, 2*n*n)], [3, 2*n*n])
    corners = corners(:, pack([(triangle, triangle=1, 2*n*n)], of_triangle == rank))
    points = reshape([(point_of(n, ids(k)), k=1, size(ids))], [2, size(ids)])
    inner = [(all(points(:, k) > 0 .and. points(:, k) < 1), k=1, owned)] ! the solution is 0 on the boundary
    sums = [(0.0_real64, k=1, size(ids))]
    values = sums

    ! A vertex in the halo has a sum of its own on each rank that has a triangle of it.
    call hp_pattern_create(pattern, comm, ids, [(k <= owned, k=1, size(ids))])
    call hp_plan_create(to_owners, pattern, sums, accumulate='sum', zero_halo=.true.)
    call hp_plan_create(to_halos, pattern, values)
  end subroutine

  ! The edge of a triangle opposite each of its vertices.
  pure function edges_of(triangle) result(edges)
    integer, intent(in) :: triangle
    real(real64) :: edges(2, 3)
    edges = cshift(points(:, corners(:, triangle)), -1, 2) - cshift(points(:, corners(:, triangle)), 1, 2)
  end function

  pure real(real64) function area_of(edges)
    real(real64), intent(in) :: edges(2, 3)
    area_of = abs(edges(1, 1)*edges(2, 2) - edges(2, 1)*edges(1, 2))/2
  end function

  ! Takes the sums of all triangles to the owners of vertices: those of inner vertices.
  function assembled() result(total)
    real(real64) :: total(owned)
    call to_owners%update(sums)
    total = merge(sums(:owned), 0.0_real64, inner)
    sums = 0
  end function

  ! The product of the stiffness matrix and a vector.
  function applied(vector) result(product)
    real(real64), intent(in) :: vector(:)
    real(real64) :: product(size(vector)), edges(2, 3)
    integer :: triangle
    values(:owned) = vector
    call to_halos%update(values)
    do triangle = 1, size(corners, 2)
      edges = edges_of(triangle)
      associate (at => corners(:, triangle))
        sums(at) = sums(at) + matmul(matmul(transpose(edges), edges), values(at))/(4*area_of(edges))
      end associate
    end do
    product = assembled()
  end function

  elemental real(real64) function exact(x, y)
    real(real64), intent(in) :: x, y
    exact = sin(pi*x)*sin(pi*y)
  end function

  ! The largest error of the solution on n by n squares.
  real(real64) function error_of(n) result(error)
    integer, intent(in) :: n
    real(real64), allocatable :: u(:), residual(:), direction(:), product(:)
    real(real64) :: first, square, before, step
    integer :: triangle, iterations
    call make(n)
    allocate (u(owned), residual(owned), direction(owned), product(owned))
    do triangle = 1, size(corners, 2)
      associate (at => corners(:, triangle))
        sums(at) = sums(at) + 2*pi**2*sum(exact(points(1, at), points(2, at)))/3*area_of(edges_of(triangle))/3
      end associate
    end do
    residual = assembled()
    direction = residual
    u = 0
    first = comm%sum_exact(residual, weights=residual)
    square = first
    iterations = 0
    do while (square > 1e-20_real64*first)
      product = applied(direction)
      step = square/comm%sum_exact(direction, weights=product)
      u = u + step*direction
      residual = residual - step*product
      before = square
      square = comm%sum_exact(residual, weights=residual)
      direction = residual + square/before*direction
      iterations = iterations + 1
    end do
    error = maxval([0.0_real64, abs(u - exact(points(1, :owned), points(2, :owned)))])
    call comm%all_reduce(error, 'max')
    if (rank == 0) then
      print '(2(i0, a), es8.2, a, i0, a)', n, ' by ', n, ' squares: error ', error, ' after ', iterations, ' iterations'
    end if
    call to_owners%free(); call to_halos%free(); call pattern%free()
  end function

end program
