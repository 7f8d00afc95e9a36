! The random exchanges of cases.f90 on one rank, without MPI: cases_alone [COUNT [FIRST]]
program cases_alone
  use haloport
  use cases
  implicit none
  type(hp_comm) :: comms(1)
  call hp_comm_threads(comms)
  call run_cases(comms(1))
  call comms(1)%free()
end program
