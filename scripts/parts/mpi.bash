# Functions for the parts that run under an MPI, which source this file behind lib.bash.
build
suite=$(built haloport-mpi test mpi)
endings=$(built haloport-mpi test endings)
command=$(built haloport-cli bin haloport)
heat=$(built haloport example heat)
libraries=$target/debug
# A tsunami, by default on a small part of the sea.
read -ra sea <<<"run tsunami --refine 1 $(usual "--bathymetry data/topobathy-small.npz" "")"

# use NAME: sets `launcher`, `library`, and `world`, the number of its world in Fortran, for Debian's openmpi or mpich.
use() {
    case $1 in
        openmpi) launcher=(mpirun.openmpi --oversubscribe) library=libmpi.so.40 world=0 ;;
        mpich) launcher=(mpirun.mpich) library=libmpich.so.12 world=$((0x44000000)) ;;
    esac
}

# If possible, jobs that lose ranks have a /dev/shm and a /tmp of their own, in which nothing may be left.
contained=(scripts/contained 50%)
"${contained[@]}" true 2>/dev/null || contained=()

# lost COMMAND...: of 3 ranks one is lost. Fails unless the other two notice, and nothing is left of the job. They exit with
# code 3; but the launcher of Open MPI, if it goes on without a rank, exits with 0 in any case, so their output is searched.
lost() {
    local out code=0
    out=$("${contained[@]}" "$@" 2>&1) || code=$?
    [ "$code" != 76 ] || { echo "exit code $code: $*: $out" >&2; return 1; }
    [ "$code" = 3 ] || grep -qF "found on every path that rank 1 is missing" <<<"$out" ||
        { echo "expected ranks that find rank 1 missing, found exit code $code: $*: $out" >&2; return 1; }
}

# without_room COMMAND...: fails if the command ends by a bus error (memory without room).
without_room() {
    local out code=0
    out=$("$@" 2>&1) || code=$?
    case $code in 76 | 135) echo "exit code $code: $*: $out" >&2; return 1 ;; esac
    ! grep -qiE 'bus error|signal:? 7|SIGBUS' <<<"$out" || { echo "a bus error: $*: $out" >&2; return 1; }
}

# in_c NAME MPICC RANKS: programs in C and C++ that are linked to an MPI: an example, random cases, messages, and what calls return on
# each thread level and after the end of MPI. The launcher is `launcher`.
in_c() {
    local name=$1 mpicc=$2 program n level
    mkdir -p target/in-c
    for program in cases messages mpi; do
        "$mpicc" -std=c99 -O1 -Wall -Wextra -pedantic -Werror -DWITH_MPI -I crates/c/include "crates/c/tests/programs/$program.c" \
            -o "target/in-c/$program-$name" -L "$libraries" -lhaloport_c -lpthread "-Wl,-rpath,$libraries"
    done
    local -x MPICC=$mpicc MPICXX=${mpicc/mpicc/mpicxx} MPIEXEC=${launcher[*]} HALOPORT_LIBRARY=$libraries
    crates/c/examples/run poisson.c 4
    for n in $3; do
        crates/c/examples/run heat.c "$n"
        "${launcher[@]}" -n "$n" "target/in-c/cases-$name" $((first_case + 100 * n)) "$(usual 40 100)"
        "${launcher[@]}" -n "$n" "target/in-c/messages-$name" $((first_case + 100 * n)) "$(usual 15 60)"
    done
    [ -z "$thorough" ] || crates/c/examples/run views.cpp 4
    for level in $(usual "funneled multiple" "single funneled multiple"); do "${launcher[@]}" -n 2 "target/in-c/mpi-$name" "$level"; done
}

# in_fortran NAME MPICC WORLD RANKS: random cases and messages in Fortran, in a program that is linked to an MPI by its C compiler.
in_fortran() {
    local name=$1 mpicc=$2 world=$3 n folder=target/in-fortran/$1 source
    mkdir -p "$folder"
    gcc -c -std=c11 -O1 -Wall -Wextra -Werror -I crates/c/include crates/c/fortran/haloport_fortran.c -o "$folder/descriptors.o"
    for source in fortran/haloport tests/programs/cases tests/programs/messages tests/programs/cases_mpi; do
        gfortran -c -std=f2018 -O1 -Wall -Wextra -Werror -J "$folder" "crates/c/$source.f90" -o "$folder/${source##*/}.o"
    done
    "$mpicc" "$folder"/*.o -o "$folder/cases" -L "$libraries" -lhaloport_c "-Wl,-rpath,$libraries" -lgfortran -lm
    for n in $4; do "${launcher[@]}" -n "$n" "$folder/cases" "$(usual 60 150)" $((first_case + 150 * n)) "$world"; done
}

# pages NAME: the code of the documentation in C, C++ and Fortran, on 3 ranks.
pages() {
    local folder=target/pages/$1 language link=(-L "$libraries" -lhaloport_c -lpthread "-Wl,-rpath,$libraries" -I crates/c/include)
    scripts/pages "$folder"
    "mpicc.$1" -std=c99 -O1 -Wall -Werror "$folder/pages.c" -o "$folder/in-c" "${link[@]}"
    "mpicxx.$1" -std=c++17 -O1 -Wall -Werror "$folder/pages.cpp" -o "$folder/in-cpp" "${link[@]}"
    gfortran -c -O1 -J "$folder" crates/c/fortran/haloport.f90 -o "$folder/haloport.o"
    "mpifort.$1" -std=f2018 -O1 -Wall -Wextra -Werror -I "$folder" -J "$folder" "$folder"/{pages.f90,haloport.o} \
        "target/in-fortran/$1/descriptors.o" -o "$folder/in-fortran" "${link[@]}"
    for language in c cpp fortran; do "${launcher[@]}" -n 3 "$folder/in-$language"; done
}

# languages NAME RANKS: the programs in C, C++ and Fortran under Debian's openmpi or mpich.
languages() {
    use "$1"
    in_c "$1" "mpicc.$1" "$2"
    in_fortran "$1" "mpicc.$1" "$world" "$2"
    local -x MPIFC=mpifort.$1 MPIEXEC=${launcher[*]} HALOPORT_LIBRARY=$libraries
    for n in $2; do crates/c/examples/run heat.f90 "$n"; done
    crates/c/examples/run icon.f90 4
    crates/c/examples/run poisson.f90 3
    crates/c/examples/run acc.F90 2
    pages "$1"
}

# suites NAME RANKS CASES SPARSE: the suites and random exchanges under Debian's openmpi or mpich. CASES are pairs RANKS:COUNT of
# random exchanges; SPARSE is the number of random sparse exchanges.
suites() {
    local name=$1 n pair level other
    use "$name"
    for n in $2; do
        pair=$(tr ' ' '\n' <<<"$3" | sed -n "s/^$n://p")
        "${launcher[@]}" -n "$n" "$suite" suite -- sparse "$4" ${pair:+-- cases "$pair"}
    done
    "${launcher[@]}" -n 2 "$suite" repeated "$(usual 1000 20000)"
    [ -z "$thorough" ] || for n in 2 4; do "${launcher[@]}" -n "$n" "$suite" large-fields 4; done
    # Of the levels of threads, the lower one is the stricter.
    for level in $(usual funneled "funneled serialized"); do
        [ -z "$thorough" ] && [ "$name" = mpich ] || "${launcher[@]}" -n 2 "$suite" $level
    done
    "${launcher[@]}" -n 3 "$heat"
    # Programs that have loaded and initialised MPI, also beside the library of another one.
    other=$([ "$name" = openmpi ] && echo libmpich.so.12 || echo libmpi.so.40)
    [[ $(ldconfig -p) = *"$other"* ]] || other=
    # shellcheck disable=SC2086
    "${launcher[@]}" -n 2 "$suite" loaded "$library" "$world" $other
    [ -z "$thorough" ] || "${launcher[@]}" -n 2 "$suite" loaded "$library" "$world"
}

# ends NAME: how jobs end under Debian's openmpi or mpich: by errors, panics, ranks that are killed or stopped.
ends() {
    use "$1"
    "${launcher[@]}" -n 2 "$endings" finalize-first
    expect 3 "${launcher[@]}" -n 2 "$endings" time-limit
    expect 101 "${launcher[@]}" -n 2 "$endings" panic
    fails "${launcher[@]}" -n 3 "$endings" exit
    # First the launcher ends the job; then it is kept from that, and the other ranks notice by themselves.
    fails "${launcher[@]}" -n 3 "$endings" killed
    [ ${#contained[@]} -gt 0 ] || left_out "files that lost ranks leave in /dev/shm and /tmp: no mount namespaces"
    lost "${launcher[@]}" -n 3 "$endings" stopped
    if [ "$1" = openmpi ]; then
        lost "${launcher[@]}" --enable-recovery -n 3 "$endings" killed
    else
        # The launcher sends the other ranks a signal, which would end them, and ends the job if a rank exits with an error.
        lost "${launcher[@]}" -disable-auto-cleanup -n 3 sh -c 'trap "" USR1; "$@"; exit 0' sh "$endings" killed
    fi
    under_another_launcher "$1"
}

# under_another_launcher NAME: programs that a launcher of the other MPI of Debian starts are refused.
under_another_launcher() {
    local other
    other=$([ "$1" = openmpi ] && echo mpirun.mpich || echo "mpirun.openmpi --oversubscribe")
    command -v "${other%% *}" >/dev/null || { left_out "the launcher of another MPI: no ${other%% *}"; return 0; }
    local -x HALOPORT_MPI=$library
    refuses "says that the launcher has started more" $other -n 2 "$endings"
    refuses "=2 says that the launcher has started more" $other -n 2 "$command" run rolling --out target/refused
    [ ! -e target/refused ] || { echo "expected no output of a refused rank, found target/refused" >&2; return 1; }
    $other -n 1 "$endings"
    "$endings"
    # MPI initialised by the program: with a handle of Fortran, and in C.
    refuses "=2 says that the launcher has started more" $other -n 2 "$suite" loaded "$library" "$world"
    mkdir -p target/in-c
    ln -sf libhaloport_c.so "$libraries/libhaloport.so.1"
    "mpicc.$1" -std=c99 -O1 -I crates/c/include crates/c/tests/programs/mpi.c -o "target/in-c/other-$1" \
        -L "$libraries" -lhaloport_c -lpthread "-Wl,-rpath,$libraries"
    refuses "hp_comm_mpi: " $other -n 2 "target/in-c/other-$1" multiple
    refuses "=2 says that the launcher has started more" $other -n 2 "target/in-c/other-$1" multiple
    unset HALOPORT_MPI
    $other -n 1 "${launcher[@]}" -n 2 "$endings"
}

# little_room NAME: Open MPI avoids a /dev/shm with little room, MPICH fails to start. Memory that ranks of Haloport share lies
# elsewhere.
little_room() {
    use "$1"
    [ ${#contained[@]} -gt 0 ] || { left_out "little room in /dev/shm: no mount namespaces"; return 0; }
    local narrow
    for narrow in "scripts/contained 64k" "scripts/contained 16m scripts/in-full-shm"; do
        if [ "$1" = openmpi ]; then
            tells "3 ranks, 2 near rank 0" $narrow "${launcher[@]}" -n 3 "$suite" cases 6
        else
            without_room $narrow "${launcher[@]}" -n 3 "$suite" cases 6
        fi
    done
    [ "$1" != mpich ] || refuses "/dev/shm is full" $narrow "${launcher[@]}" -n 3 "$suite"
}

# commands NAME RANKS: the command and its jobs under Debian's openmpi or mpich.
commands() {
    local name=$1 n fields=target/test/fields-$1 tsunami advection
    use "$name"
    tells "ranks of one node: straight from the neighbour's field, else packed" "${launcher[@]}" -n 2 "$command" devices
    tells '"reach":{"node":{"ranks":2,"apart":null}}' "${launcher[@]}" -n 2 "$command" devices --json
    tells "no shared memory: there is no other rank" "${launcher[@]}" -n 1 "$command" devices
    # A file size limit of 0, which holds for files in memory, too: ranks cannot share memory.
    tells "no shared memory: posix_fallocate: File too large" \
        bash -c "ulimit -f 0; exec '$command' devices"
    if [ "$name" = openmpi ]; then
        # The signal would end the rank in Open MPI, which makes files of its own.
        tells "no shared memory: rank 1 was refused it: posix_fallocate: File too large" "${launcher[@]}" -n 2 \
            bash -c "[ \$OMPI_COMM_WORLD_RANK = 0 ] || { trap '' XFSZ; ulimit -f 0; }; exec '$command' devices"
    fi
    expect 2 "${launcher[@]}" -n 2 "$command" bench exchange --ranks 3
    "${launcher[@]}" -n 2 "$command" bench exchange --local 16,16,16 --samples 3 --trace "target/trace-$name.json" --json
    tells "2 ranks, " "$command" trace summary "target/trace-$name.json"
    "${launcher[@]}" -n 2 "$command" bench unstructured --levels 3 --fields 2 --samples 3 --json
    # What jobs save is the same on any ranks, and so is the hash, in one go and from what 3 threads have saved after 10 minutes.
    rm -rf "$fields"
    tsunami=$(hash_of "$command" "${sea[@]}" --hours 0.2 --ranks 1 --out "$fields/out" --save "$fields/tsunami.zarr")
    advection=$(hash_of "$command" run advection --mesh icon:R2B2 --days 1 --ranks 1 --out "$fields/out" \
        --save "$fields/advection.zarr")
    "$command" "${sea[@]}" --hours 0.16666666666666666 --ranks 3 --out "$fields/out" --save "$fields/begun.zarr"
    for n in $2; do
        "${launcher[@]}" -n "$n" "$command" run rolling --verify --window 3650d --out "target/rolling-$name-$n"
        tells "  hash          $tsunami" "${launcher[@]}" -n "$n" "$command" "${sea[@]}" --verify --hours 0.2 \
            --out "target/tsunami-$name-$n" --save "$fields/tsunami-$n.zarr"
        diff -r "$fields/tsunami.zarr" "$fields/tsunami-$n.zarr"
        tells "  hash          $tsunami" "${launcher[@]}" -n "$n" "$command" "${sea[@]}" --hours 0.2 \
            --out "target/tsunami-$name-$n" --restart "$fields/begun.zarr"
        tells "  hash          $advection" "${launcher[@]}" -n "$n" "$command" run advection --verify --mesh icon:R2B2 --days 1 \
            --out "target/advection-$name-$n" --save "$fields/advection-$n.zarr"
        diff -r "$fields/advection.zarr" "$fields/advection-$n.zarr"
        "${launcher[@]}" -n "$n" "$command" run poisson --verify --mesh icosahedral:12 --degree 3
    done
}

# under LIBRARY WORLD LAUNCHER...: the same binaries under another MPI, also with MPI loaded and initialised by the test.
under() {
    local library=$1 world=$2 n
    launcher=("${@:3}")
    for n in $(usual 2 "2 4"); do
        HALOPORT_MPI=$library "${launcher[@]}" -n "$n" "$suite" suite -- cases 12
    done
    "${launcher[@]}" -n 2 "$suite" loaded "$library" "$world"
    HALOPORT_MPI=$library tells "ranks in this job: 2" "${launcher[@]}" -n 2 "$command" devices
}
