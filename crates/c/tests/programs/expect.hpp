// What the programs of tests in C++ share.
#ifndef EXPECT_HPP
#define EXPECT_HPP

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "haloport.hpp"

inline void expect(bool right, const char *file, int line) {
    if (!right) {
        std::fprintf(stderr, "%s, line %d: %s\n", file, line, hp_message());
        std::exit(1);
    }
}
#define EXPECT(condition) expect(condition, __FILE__, __LINE__)

// Whether a call throws the one type of exceptions, with this status and this text.
template <class Call>
bool throws(Call call, haloport::status status, const char *text) {
    try {
        call();
    } catch (const haloport::error &failed) {
        return failed.status() == status && std::strstr(failed.what(), text) != nullptr;
    }
    return false;
}

// A view as those of Kokkos: a constant rank, data().
template <class T, int Rank>
struct kokkos_like {
    static constexpr int rank = Rank;
    T *first;
    std::size_t extents[Rank], strides[Rank];
    T *data() const { return first; }
    std::size_t extent(int axis) const { return extents[axis]; }
    std::size_t stride(int axis) const { return strides[axis]; }
};

#endif
