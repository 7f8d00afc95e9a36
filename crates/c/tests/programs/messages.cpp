// Messages of any size and payloads along a line of ranks in C++: views that are copied or read where they lie, rounds that are
// finished by `finish` and by destructors, and what is thrown. Each rank draws what all ranks send, so it knows what comes.
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "expect.hpp"

// While it is set, this thread gets no memory from `new`.
static thread_local bool without_memory = false;

// Inlined, GCC takes it and `delete` for functions that do not belong together.
[[gnu::noinline]] void *operator new(std::size_t bytes) {
    void *made = without_memory ? nullptr : std::malloc(bytes);
    if (!made) throw std::bad_alloc();
    return made;
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

template <class Error, class Call>
bool throws(Call call, const char *text, haloport::status status = haloport::status::ok) {
    try {
        call();
    } catch (const Error &failed) {
        if constexpr (std::is_same_v<Error, haloport::error>) EXPECT(failed.status() == status);
        return std::strstr(failed.what(), text) != nullptr;
    }
    return false;
}

struct particle {
    double place;
    int tag;
};

// What a rank sends to another in a round: up to 7 particles, at times none.
std::vector<particle> particles(int round, int from, int to) {
    std::minstd_rand random(static_cast<unsigned>(1 + round * 100 + from * 10 + to));
    random.discard(5);
    std::vector<particle> made(random() % 8);
    for (particle &one : made) one = {static_cast<double>(random()), static_cast<int>(random() % 1000)};
    return made;
}

// The messages of a round: one to each rank, but to itself.
std::vector<haloport::message> messages(const std::vector<std::vector<particle>> &mine) {
    std::vector<haloport::message> made;
    for (std::size_t to = 0; to < mine.size(); to++) made.push_back({static_cast<int>(to), mine[to]});
    return made;
}

void check(const std::vector<haloport::message> &came, int round, int me, int ranks) {
    EXPECT(came.size() == static_cast<std::size_t>(ranks));
    for (int from = 0; from < ranks; from++) {
        const haloport::message &one = came[static_cast<std::size_t>(from)];
        const std::vector<particle> found = one.content.as<particle>(), expected = particles(round, from, me);
        EXPECT(one.rank == from && found.size() == expected.size() && one.content.bytes() == found.size() * sizeof(particle));
        for (std::size_t place = 0; place < found.size(); place++) {
            const auto *there = static_cast<const particle *>(one.content.data());
            EXPECT(found[place].place == expected[place].place && there[place].tag == expected[place].tag);
        }
    }
}

// A rank has no memory for what comes: it gets the exception, and the others are told.
void rows_without_memory(haloport::communicator &comm) {
    if (comm.size() == 1) return;
    const auto row = [&] { return comm.broadcast(std::vector<int>(comm.rank() == 0 ? 1000 : 0)); };
    without_memory = comm.rank() == 1;
    const bool of_row = comm.rank() == 1 ? throws<std::bad_alloc>([&] { (void)row(); }, "bad_alloc")
                                         : throws<haloport::error>([&] { (void)row(); }, "rank 1: bytes", haloport::status::refused);
    const bool of_all = comm.rank() == 1 ? throws<std::bad_alloc>([&] { (void)comm.gather(1.5, 1); }, "bad_alloc")
                                         : throws<haloport::error>([&] { (void)comm.gather(1.5, 1); }, "rank 1: bytes", haloport::status::refused);
    without_memory = false;
    EXPECT(of_row && of_all);
}

void sparse(haloport::communicator &comm) {
    const int me = comm.rank(), ranks = comm.size();
    haloport::sparse any(comm), other(comm);
    const auto mine = [&](int round) {
        std::vector<std::vector<particle>> made;
        for (int to = 0; to < ranks; to++) made.push_back(particles(round, me, to));
        return made;
    };
    check(any(messages(mine(0))), 0, me, ranks);

    // Two exchanges in flight, finished in the other order by half of the ranks.
    auto one = any.start(messages(mine(1))), two = other.start(messages(mine(2)));
    if (me % 2 == 0) {
        check(one.finish(), 1, me, ranks);
        while (!two.ready()) std::this_thread::yield();
        check(two.finish(), 2, me, ranks);
    } else {
        check(two.finish(), 2, me, ranks);
        check(one.finish(), 1, me, ranks);
    }
    EXPECT(throws<haloport::error>([&] { one.finish(); }, "was finished", haloport::status::in_flight));
    // A round that was finished is ready, also while the next one is not: the others start that behind a barrier.
    if (me > 0) comm.barrier();
    auto next = any.start({});
    EXPECT(one.ready() && (me > 0 || ranks == 1 || !next.ready()));
    if (me == 0) comm.barrier();
    EXPECT(next.finish().empty());

    // A destructor finishes its round; one that was moved from has none. What came before is valid until then.
    const auto came = any(messages(mine(3)));
    {
        auto started = any.start(messages(mine(4)));
        check(came, 3, me, ranks);
        EXPECT(throws<haloport::error>([&] { auto second = any.start({}); }, "finish it first", haloport::status::in_flight));
        auto moved = std::move(started);
        EXPECT(throws<haloport::error>([&] { started.finish(); }, "moved from", haloport::status::in_flight));
        EXPECT(throws<haloport::error>([&] { started.ready(); }, "moved from", haloport::status::in_flight));
    }
    // What has come is sent on from where it lies: each rank gets its own again.
    const auto returned = any(any(messages(mine(5))));
    for (int from = 0; from < ranks; from++) {
        const auto found = returned[static_cast<std::size_t>(from)].content.as<particle>(), expected = particles(5, me, from);
        EXPECT(found.size() == expected.size() && (found.empty() || found.back().tag == expected.back().tag));
    }

    // Without memory for the list of messages, the round has ended all the same.
    auto short_of_memory = any.start(messages(mine(7)));
    without_memory = true;
    const bool failed = throws<std::bad_alloc>([&] { short_of_memory.finish(); }, "bad_alloc");
    without_memory = false;
    EXPECT(failed && short_of_memory.ready());
    EXPECT(throws<haloport::error>([&] { short_of_memory.finish(); }, "was finished", haloport::status::in_flight));

    // Fixed neighbours; contents of other types.
    const int behind = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    haloport::sparse ring(comm, {before}, {behind});
    const std::string text = "from " + std::to_string(me);
    const auto texts = ring({{behind, text}, {behind, {}}, {behind, haloport::payload(text.data(), 4)}});
    const auto letters = texts[0].content.as<char>();
    EXPECT(texts.size() == 3 && std::string(letters.begin(), letters.end()) == "from " + std::to_string(before));
    EXPECT(texts[1].content.bytes() == 0 && texts[1].content.as<double>().empty() && texts[2].content.bytes() == 4);
    EXPECT(throws<haloport::error>([&] { texts[2].content.as<double>(); }, "expected elements of 8 bytes, found 4 bytes", haloport::status::argument));

    // Errors. A start that fails is none.
    EXPECT(throws<haloport::error>([&] { ring({{ranks, text}}); }, "destinations[0]: expected one of", haloport::status::argument));
    if (ranks > 2) EXPECT(throws<haloport::error>([&] { ring({{before, text}}); }, "is not among", haloport::status::argument));
    EXPECT(ring({}).empty());
    EXPECT(throws<haloport::error>([&] { haloport::sparse made(comm, {ranks}, {}); }, "sources[0]: expected one of the", haloport::status::argument));
    haloport::sparse moved = std::move(any);
    check(moved(messages(mine(6))), 6, me, ranks);
    // The round ends with the exchange.
    std::optional<haloport::sparse> freed(comm);
    auto left = freed->start({{behind, text}});
    freed.reset();
    EXPECT(throws<haloport::error>([&] { left.finish(); }, "freed", haloport::status::argument));
}

void line(haloport::communicator &comm) {
    const int me = comm.rank(), ranks = comm.size();
    auto even = haloport::line::even(comm, 3 * ranks + 1);
    EXPECT(even.items() == 3 * ranks + 1 && even.lower() == (me == 0 ? 0 : 3 * me + 1) && even.upper() == 3 * me + 4);
    EXPECT(even.left() == me - 1 && even.right() == (me + 1 < ranks ? me + 1 : -1));
    const auto rows = [](int rank) { return std::vector<double>(static_cast<std::size_t>(rank % 3), rank + 0.5); };

    // To the right only. An empty payload is one.
    const std::vector<double> own = rows(me);
    const haloport::payloads came = even(std::nullopt, own);
    EXPECT(!came.right && came.left.has_value() == (me > 0));
    if (me > 0) EXPECT(came.left->as<double>() == rows(me - 1));

    // Both sides, in two calls; what came before is valid until then, and passed on.
    haloport::line some(comm, me == 0 ? 0 : 2, 2); // rank 0 has all items
    EXPECT(some.items() == 2 && (some.lower() < some.upper()) == (me == 0));
    auto first = some.start(own, own);
    while (!first.ready()) std::this_thread::yield();
    const auto near = first.finish();
    auto second = some.start(near.right, near.left);
    if (near.left) EXPECT(near.left->as<double>() == rows(me - 1));
    const auto far = second.finish();
    EXPECT(far.left.has_value() == (me > 1) && far.right.has_value() == (me + 2 < ranks));
    if (far.left) EXPECT(far.left->as<double>() == rows(me - 2));
    if (far.right) EXPECT(far.right->as<double>() == rows(me + 2));

    { auto dropped = some.start({}, {}); } // its destructor finishes it
    auto pending = some.start({}, {});
    EXPECT(throws<haloport::error>([&] { some({}, {}); }, "finish it first", haloport::status::in_flight));
    pending.finish();
    EXPECT(throws<haloport::error>([&] { pending.finish(); }, "was finished", haloport::status::in_flight));
    EXPECT(throws<haloport::error>([&] { haloport::line made(comm, 2, 1); }, "ends before it begins", haloport::status::refused));
    EXPECT(throws<haloport::error>([&] { haloport::line::even(comm, -1); }, "items: expected", haloport::status::argument));
}

void rank(haloport::communicator comm) {
    rows_without_memory(comm);
    sparse(comm);
    line(comm);
}

} // namespace

int main() {
    for (int ranks : {1, 2, 4}) {
        std::vector<std::thread> threads;
        for (auto &comm : haloport::communicator::threads(ranks)) threads.emplace_back(rank, std::move(comm));
        for (auto &thread : threads) thread.join();
    }
    return 0;
}
