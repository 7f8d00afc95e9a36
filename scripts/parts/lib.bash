# Functions for the parts of scripts/test, which source this file. A part fails with its first command that fails.
set -Eeuo pipefail
trap 'echo "$0: line $LINENO failed: $BASH_COMMAND" >&2' ERR
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Set if the part runs in the thorough set.
thorough=
[ "${HALOPORT_TEST_SET-}" != thorough ] || thorough=yes
# usual VALUE ALL: the value for the default set, and that for the thorough one.
usual() { if [ -z "$thorough" ]; then echo "$1"; else echo "$2"; fi; }

# The number of the first random case of programs that take it: dates give different cases each day.
first_case=$((${HALOPORT_TEST_SEED:-0} % 10000 * 1000))

# 0 or 1 each: by default, what two parts or settings have in common is tested with one of them, and another day with the other one.
# Four days have all pairs of the two.
today=$((first_case / 1000 % 2)) adapter_today=$((first_case / 2000 % 2))

target=${CARGO_TARGET_DIR:-$PWD/target}
# Compiled kernels go into this folder, not into the user's cache.
export HALOPORT_CACHE_DIR=$PWD/target/kernels
# A rank that waits for a missing one fails soon.
export HALOPORT_TIME_LIMIT=${HALOPORT_TIME_LIMIT:-60}
# Without an OpenCL driver, unless a part names one, so that `auto` is the CPU.
export OCL_ICD_VENDORS=$PWD/target/no-drivers
# Open MPI refuses to run as root without these.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# left_out TEXT: tells the runner what this part leaves out, and why.
left_out() { echo "skipped: $1"; }
# skip TEXT: ends a part that cannot run.
skip() { left_out "$1"; exit 77; }

# Everything, with every feature: one selection for all parts, so that everything is built once.
features=haloport-cli/sycl,haloport-cli/cuda,haloport-cli/metis,haloport-mesh/metis,haloport-python/abi3
tested=(--workspace --features "$features")

# build: builds all tests, examples, libraries and the command, and lists them in target/test/built, unless scripts/test has done so.
build() { [ -n "${HALOPORT_TEST_BUILT-}" ] || scripts/build-tests "${tested[@]}"; }
# built PACKAGE KIND NAME: the file of a test, an example or a program.
built() {
    local file
    file=$(awk -v wanted="$1 $2 $3" '$1 " " $2 " " $3 == wanted { print $4 }' target/test/built)
    [ -n "$file" ] || { echo "expected cargo to build the $2 $3 of $1, found none in target/test/built" >&2; return 1; }
    echo "$file"
}
# run_tests PACKAGE [ARGUMENT...]: runs the tests of a package, in its folder, by the command `by` if it is set. Fails if there are
# none, or none of that name.
by=()
run_tests() {
    local name kind file folder said=$PWD/target/test/${0##*/}.tests tests=0
    while read -r name kind _ file folder; do
        if [ "$name" = "$1" ] && [[ $kind =~ ^(lib|test|bin)$ ]] && [ -n "$folder" ]; then
            (cd "$folder" && "${by[@]}" "$file" --quiet "${@:2}" </dev/null) | tee "$said"
            # Tests that a test runs in a process of its own may be told of as well.
            tests=$((tests + $(sed -n 's/^running \([0-9]*\) tests*$/\1/p' "$said" | paste -sd + -) + 0))
        fi
    done <target/test/built
    [ "$tests" -gt 0 ] || { echo "expected tests of $*, found none" >&2; return 1; }
}

# opencl NAME: what scripts/opencl says of this driver or compiler.
opencl() { scripts/opencl | sed -n "s/^$1 //p"; }

# expect CODE COMMAND...: fails unless the command ends with that code.
expect() {
    local expected=$1 code=0
    shift
    "$@" || code=$?
    ! launcher_ended "$code" || return 0
    [ "$code" = "$expected" ] || { echo "expected exit code $expected, found $code: $*" >&2; return 1; }
}
# launcher_ended CODE: whether the runner has ended a launcher of Open MPI that hung after its ranks; then the code is not theirs.
launcher_ended() { [ "$1" = 137 ] && rm "target/test/${0##*/}.launcher" 2>/dev/null; }
# fails COMMAND...: fails unless the command ends with an error.
fails() {
    local code=0
    "$@" || code=$?
    [ "$code" != 0 ] || { echo "expected a failure, found exit code 0: $*" >&2; return 1; }
}
# tells TEXT COMMAND...: fails unless the output of the command has that text once.
tells() {
    local text=$1 out
    shift
    out=$("$@") || { echo "expected exit code 0, found another: $*" >&2; return 1; }
    [ "$(grep -cF -- "$text" <<<"$out")" = 1 ] || { echo "expected \`$text\` once, found: $out" >&2; return 1; }
}
# hash_of COMMAND...: the hash of the last fields, which a job tells. Fails if it tells none.
hash_of() { "$@" | sed -n 's/^  hash  *//p' | grep .; }
# refuses TEXT COMMAND...: fails unless the command ends with an error that has that text.
refuses() {
    local text=$1 out code=0
    shift
    out=$("$@" 2>&1) || code=$?
    [ "$code" != 0 ] || { echo "expected a failure, found exit code 0: $*" >&2; return 1; }
    grep -qF -- "$text" <<<"$out" || { echo "expected \`$text\`, found: $out" >&2; return 1; }
}
