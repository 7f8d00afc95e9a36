// Two exchanges of a plan are in flight between two ranks, and finished in the other order, by `finish` and by destructors: each
// `pending` finishes its own.
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "expect.hpp"

namespace {

constexpr std::size_t CELLS = 6;

// An array of a rank of the ring: its cells, and one of the halo at each end.
struct values {
    static constexpr int rank = 1;
    mutable double cells[CELLS];
    double *data() const { return cells; }
    std::size_t extent(int) const { return CELLS; }
    std::size_t stride(int) const { return 1; }

    void fill(int owner, double step) {
        for (std::size_t cell = 0; cell < CELLS; cell++)
            cells[cell] = cell > 0 && cell < CELLS - 1 ? step + 10 * owner + static_cast<double>(cell) : -1;
    }
    // Both neighbours on the ring are the other rank.
    bool are_filled(int owner, double step) const {
        const double other = step + 10 * (1 - owner);
        return cells[0] == other + CELLS - 2 && cells[CELLS - 1] == other + 1;
    }
};

template <class Error, class Call>
bool throws(Call call) {
    try {
        call();
    } catch (const Error &) {
        return true;
    }
    return false;
}

void rank(haloport::communicator comm) {
    const int me = comm.rank();
    haloport::grid grid;
    grid.shape = {2 * (CELLS - 2)}, grid.periodic = true;
    auto pattern = haloport::pattern::split(comm, grid);
    values u{}, v{};
    haloport::options with;
    with.in_flight = 2;
    haloport::plan update(pattern, with, u);
    // Rank 1 starts late, so that an exchange that its neighbour does not finish has not arrived there by chance.
    const auto start = [&](const values &of) {
        if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return update.start(of);
    };
    const auto fill = [&](double step) { u.fill(me, step), v.fill(me, step + 100); };

    fill(1000);
    {
        auto a = start(u);
        auto b = start(v);
        b.finish();
        EXPECT(v.are_filled(me, 1100));
        b.finish(); // does nothing: `a` is still in flight
        EXPECT(b.ready());
        while (!a.ready()) std::this_thread::yield();
        a.finish();
        EXPECT(u.are_filled(me, 1000));
    }

    // The destructor of a `pending` finishes its own exchange, that of one that was moved from none.
    fill(2000);
    {
        std::optional<haloport::plan::pending> a, b, moved;
        a.emplace(start(u));
        b.emplace(start(v));
        moved.emplace(std::move(*b));
        EXPECT(throws<haloport::error>([&] { b->finish(); }) && throws<haloport::error>([&] { b->ready(); }));
        b.reset();
        moved.reset();
        EXPECT(v.are_filled(me, 2100));
        a->finish();
        EXPECT(u.are_filled(me, 2000));
    }

    // A stream that is refused leaves the exchange to be finished.
    fill(3000);
    auto a = start(u);
    auto b = start(v);
    EXPECT(throws<haloport::error>([&] { b.finish(hp_stream{99, 0, 0}); }));
    EXPECT(throws<haloport::error>([&] { auto third = update.start(u); }));
    b.finish();
    EXPECT(v.are_filled(me, 3100));
    a.finish();
    EXPECT(u.are_filled(me, 3000));

    // After an error, nothing is ready: here since the plan was freed, which ends the exchange.
    fill(4000);
    std::optional<haloport::plan> freed;
    freed.emplace(pattern, u);
    auto left = freed->start(u);
    freed.reset();
    EXPECT(throws<haloport::error>([&] { left.ready(); }) && throws<haloport::error>([&] { left.finish(); }));
    EXPECT(throws<haloport::error>([&] { left.ready(); }));
}

} // namespace

int main() {
    std::vector<std::thread> threads;
    for (auto &comm : haloport::communicator::threads(2)) threads.emplace_back(rank, std::move(comm));
    for (auto &thread : threads) thread.join();
    return 0;
}
