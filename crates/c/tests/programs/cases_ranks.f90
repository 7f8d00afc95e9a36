! Part of the procedure `pass` in cases.f90, which includes it once for each type: passes the array of rank `it%rank` that lies
! in `memory`, as a section of a larger array, or as a pointer with bounds to that.
select case (it%rank)
case (1)
  r1(0:top(1)) => memory
  p1(low(1):) => r1(from(1):to(1):by(1))
  if (it%is_pointer) then
    call pass(ask, fields, last - 1, p1, a1, a2, a3, a4, a5)
  else
    call pass(ask, fields, last - 1, r1(from(1):to(1):by(1)), a1, a2, a3, a4, a5)
  end if
case (2)
  r2(0:top(1), 0:top(2)) => memory
  p2(low(1):, low(2):) => r2(from(1):to(1):by(1), from(2):to(2):by(2))
  if (it%is_pointer) then
    call pass(ask, fields, last - 1, p2, a1, a2, a3, a4, a5)
  else
    call pass(ask, fields, last - 1, r2(from(1):to(1):by(1), from(2):to(2):by(2)), a1, a2, a3, a4, a5)
  end if
case (3)
  r3(0:top(1), 0:top(2), 0:top(3)) => memory
  p3(low(1):, low(2):, low(3):) => r3(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3))
  if (it%is_pointer) then
    call pass(ask, fields, last - 1, p3, a1, a2, a3, a4, a5)
  else
    call pass(ask, fields, last - 1, r3(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3)), a1, a2, a3, a4, a5)
  end if
case (4)
  r4(0:top(1), 0:top(2), 0:top(3), 0:top(4)) => memory
  p4(low(1):, low(2):, low(3):, low(4):) => &
    r4(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3), from(4):to(4):by(4))
  if (it%is_pointer) then
    call pass(ask, fields, last - 1, p4, a1, a2, a3, a4, a5)
  else
    call pass(ask, fields, last - 1, &
      r4(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3), from(4):to(4):by(4)), a1, a2, a3, a4, a5)
  end if
case (5)
  r5(0:top(1), 0:top(2), 0:top(3), 0:top(4), 0:top(5)) => memory
  p5(low(1):, low(2):, low(3):, low(4):, low(5):) => &
    r5(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3), from(4):to(4):by(4), from(5):to(5):by(5))
  if (it%is_pointer) then
    call pass(ask, fields, last - 1, p5, a1, a2, a3, a4, a5)
  else
    call pass(ask, fields, last - 1, &
      r5(from(1):to(1):by(1), from(2):to(2):by(2), from(3):to(3):by(3), from(4):to(4):by(4), from(5):to(5):by(5)), &
      a1, a2, a3, a4, a5)
  end if
end select
