# Functions for the parts that test the Python package, which source this file behind lib.bash.

# use_python NAME: sets `python` to that of the environment NAME. In the default set it has the module of the tests' build, in the
# thorough one the wheel, as users get it.
use_python() {
    if [ -z "$thorough" ]; then
        build
        python=$(scripts/python linked "$1" "$target/debug/lib_haloport.so")
    else
        scripts/python wheel >/dev/null
        python=$(scripts/python environment "$1")
    fi
    # The modules of the linked package are those of the sources, which stay as they are; packages are installed without bytecode,
    # and the many interpreters of the tests would compile them each time.
    export PYTHONPYCACHEPREFIX=$PWD/target/python/bytecode PYTHONDONTWRITEBYTECODE=
    # mypy looks at packages once.
    export MYPY_CACHE_DIR=$PWD/target/python/mypy
    export HALOPORT_TIME_LIMIT=20 OCL_ICD_VENDORS=$PWD/target/python/$1/vendors
    "$python" --version
}

# test_python [LAUNCHER...]: runs the tests, which run the examples, too.
test_python() { "$@" "$python" -m pytest --color=no -rs crates/python; }
