// What shared pointers of libstdc++ take from glibc 2.32 on, so that the library runs with older ones as well: whether the process
// has one thread alone. It never says so, and nobody else sees the name.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
