// Memory from the communicator: how a pool hands it out, who has one, and what is left when its communicator
// is gone.
#include "collectives/shm/shm_pool.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

#include "collectives/session/bootstrap.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fold.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

// While it is set the system has no memory for a pool, as this thread sees it.
bool& no_memory() {
    thread_local bool none = false;
    return none;
}

}  // namespace

// What the library asks for, here.
extern "C" int madvise(void* memory, std::size_t size, int advice) noexcept {
    if (advice == MADV_POPULATE_WRITE && no_memory()) {
        errno = ENOMEM;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_madvise, memory, size, advice));
}

TEST_CASE("free ranges are taken from the lowest that has room, never twice, and joined again",
          "[shm][pool]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    constexpr std::size_t kSize = 64;
    FreeRanges free(kSize);
    std::vector<bool> taken(kSize, false);
    std::vector<std::pair<std::size_t, std::size_t>> blocks;
    const auto room_at = [&](std::size_t begin, std::size_t bytes) {
        if (begin + bytes > kSize) return false;
        for (std::size_t i = begin; i < begin + bytes; ++i) {
            if (taken[i]) return false;
        }
        return true;
    };
    const auto mark = [&](std::size_t begin, std::size_t bytes, bool value) {
        for (std::size_t i = begin; i < begin + bytes; ++i) taken[i] = value;
    };
    for (int step = 0; step < 20'000; ++step) {
        if (blocks.empty() || random() % 2 == 0) {
            const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? kSize : 6);
            std::size_t lowest = 0;
            while (lowest < kSize && !room_at(lowest, bytes)) ++lowest;
            const auto at = free.take(bytes);
            REQUIRE(at.value_or(kSize) == lowest);
            if (!at) continue;
            mark(*at, bytes, true);
            blocks.emplace_back(*at, bytes);
        } else {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            const auto [begin, bytes] = blocks.back();
            blocks.pop_back();
            free.give_back(begin, bytes);
            mark(begin, bytes, false);
        }
        std::size_t end = 0;
        std::size_t sum = 0;
        for (const auto& [begin, size] : free.ranges()) {
            REQUIRE((begin == 0 || begin > end));
            REQUIRE(room_at(begin, size));
            end = begin + size;
            sum += size;
        }
        REQUIRE(sum == static_cast<std::size_t>(std::count(taken.begin(), taken.end(), false)));
    }
    for (const auto& [begin, bytes] : blocks) free.give_back(begin, bytes);
    REQUIRE(free.ranges() == std::map<std::size_t, std::size_t>{{0, kSize}});
    REQUIRE_FALSE(FreeRanges(0).take(1));
}

TEST_CASE("a pool grows page by page, gives pages back, and hands out zeros again", "[shm][pool]") {
    constexpr std::size_t kPages = 64;
    const std::size_t kPage = page_size();
    auto mapping = ShmMapping::create("ddprun-pool-test", kPages * kPage);
    REQUIRE(mapping);
    const auto shared = std::make_shared<const ShmMapping>(std::move(*mapping));
    auto pool = std::make_shared<ShmPool>(shared, shared->base(), kPages * kPage);
    const auto pages_there = [&] {
        std::vector<unsigned char> there(kPages);
        REQUIRE(::mincore(shared->base(), kPages * kPage, there.data()) == 0);
        return std::count_if(there.begin(), there.end(), [](unsigned char one) { return (one & 1) != 0; });
    };
    REQUIRE(pages_there() == 0);
    SharedMemory first = pool->allocate(3 * kPage - 1);
    REQUIRE(first.size() == 3 * kPage - 1);
    REQUIRE(pages_there() == 3);
    SharedMemory second = pool->allocate(1);
    REQUIRE(pages_there() == 4);
    std::memset(first.data(), 7, first.size());
    std::memset(second.data(), 8, 1);
    std::byte* const place = first.data();
    first = {};
    REQUIRE(pages_there() == 1);
    REQUIRE(second.data()[0] == std::byte{8});
    first = pool->allocate(3 * kPage);
    REQUIRE(first.data() == place);
    REQUIRE(std::count(first.data(), first.data() + first.size(), std::byte{0}) ==
            static_cast<std::ptrdiff_t>(3 * kPage));
    // What has no room, or no memory, leaves the pool as it was.
    REQUIRE(pool->allocate((kPages - 4) * kPage + 1).size() == 0);
    REQUIRE(pool->allocate(std::numeric_limits<std::size_t>::max()).size() == 0);
    no_memory() = true;
    REQUIRE(pool->allocate(kPage).size() == 0);
    no_memory() = false;
    REQUIRE(pages_there() == 4);
    SharedMemory rest = pool->allocate((kPages - 4) * kPage);
    REQUIRE(rest.data() == shared->base() + 4 * kPage);
    REQUIRE(pool->owns(rest.data(), rest.size()));
    REQUIRE_FALSE(pool->owns(rest.data(), rest.size() + 1));
    REQUIRE_FALSE(pool->owns(shared->base() - 1, 1));
    REQUIRE_FALSE(pool->owns(&pool, 1));
    // A locked page is none that the system takes back.
    if (::mlock(rest.data(), kPage) == 0) {
        std::memset(rest.data(), 9, rest.size());
        rest = {};
        rest = pool->allocate((kPages - 4) * kPage);
        REQUIRE(std::count(rest.data(), rest.data() + rest.size(), std::byte{0}) ==
                static_cast<std::ptrdiff_t>(rest.size()));
    }
    // Blocks are all that keeps a pool.
    pool.reset();
    rest.data()[0] = std::byte{1};
    rest = {};
}

TEST_CASE("blocks are whole pages, however large these are", "[shm][pool]") {
    constexpr std::size_t kPage = std::size_t{64} << 10;
    auto mapping = ShmMapping::create("ddprun-pool-test", 8 * kPage);
    REQUIRE(mapping);
    const auto shared = std::make_shared<const ShmMapping>(std::move(*mapping));
    const auto pool = std::make_shared<ShmPool>(shared, shared->base(), 8 * kPage, kPage);
    const SharedMemory first = pool->allocate(1);
    REQUIRE(first.data() == shared->base());
    REQUIRE(pool->allocate(kPage).data() == shared->base() + kPage);
    REQUIRE(pool->allocate(kPage + 1).data() == shared->base() + kPage);
    REQUIRE(pool->allocate(7 * kPage + 1).size() == 0);
    REQUIRE(pool->allocate(7 * kPage).size() == 7 * kPage);
}

TEST_CASE("what the pool has not is other memory", "[shm][pool]") {
    run_communicators(2, [](Communicator& comm) {
        const auto data = comm.allocate<float>(100'000);
        no_memory() = true;
        const auto other = comm.allocate<float>(100'000);
        no_memory() = false;
        expect(!comm.owns(other.data()) && comm.owns(data.data()), "other memory");
        std::fill(other.span().begin(), other.span().end(), 1.0F);
        comm.all_reduce(other.span(), ReduceOp::sum);
        expect(other.data()[99'999] == 2, "sum");
    });
}

TEST_CASE("a process that may not have so many addresses shares memory without pools", "[shm][pool]") {
    struct Limited {
        explicit Limited(rlim_t most) {
            ::getrlimit(RLIMIT_FSIZE, &before);
            const rlimit now{most, before.rlim_max};
            ::setrlimit(RLIMIT_FSIZE, &now);
        }
        ~Limited() { ::setrlimit(RLIMIT_FSIZE, &before); }
        rlimit before{};
    };
    const Limited limited(rlim_t{1} << 30);
    run_communicators(2, [](Communicator& comm) {
        const auto data = comm.allocate<float>(100'000);
        expect(data.size() == 100'000 && !comm.owns(data.data()), "other memory");
        std::fill(data.span().begin(), data.span().end(), 1.0F);
        comm.all_reduce(data.span(), ReduceOp::sum);
        expect(data.data()[99'999] == 2, "sum");
    });
}

TEST_CASE("a communicator of some ranks has pools of its own, and takes others' memory as any",
          "[shm][pool]") {
    run_communicators(3, [](Communicator& comm) {
        const auto whole = comm.allocate<float>(100'000);
        auto part = comm.split(comm.rank() == 1 ? -1 : 0);
        if (!part) return;
        const auto own = part->allocate<float>(100'000);
        expect(part->owns(own.data()) && !part->owns(whole.data()) && !comm.owns(own.data()), "whose it is");
        for (const auto data : {whole.span(), own.span()}) {
            std::fill(data.begin(), data.end(), 1.0F);
            part->all_reduce(data, ReduceOp::sum);
            expect(data[99'999] == 2, "sum");
        }
    });
}

TEST_CASE("after a failure memory is such that nobody may still write to", "[shm][pool]") {
    run_communicators(2, [](Communicator& comm) {
        auto data = comm.allocate<float>(100'000);
        comm.barrier();
        if (comm.rank() == 0) comm.abort("enough");
        static_cast<void>(expect_error([&] {
            while (true) comm.all_reduce(data.span(), ReduceOp::sum);
        }));
        data = {};
        data = comm.allocate<float>(100'000);
        expect(!comm.owns(data.data()), "other memory");
    });
}

TEST_CASE("a rank's buffer may end before those of others, or after the communicator", "[shm][pool]") {
    constexpr std::size_t kCount = 100'000;
    run_ranks(2, [data = std::make_shared<MemoryStoreData>()](int rank) {
        SharedBuffer<float> last;
        {
            Communicator comm(open_session(std::make_shared<MemoryStore>(data), "127.0.0.1",
                                           {rank, 2, -1, -1, 0, Transport::automatic},
                                           CommunicatorOptions{}));
            for (std::size_t salt = 1; salt <= 20; ++salt) {
                auto first = comm.allocate<float>(kCount);
                last = comm.allocate<float>(kCount + salt);
                if (rank == 0) first = SharedBuffer<float>();
                std::vector<float> own(kCount);
                const auto data_of_turn = first.size() > 0 ? first.span() : std::span(own);
                const auto mine = input<float>(salt, rank, kCount);
                for (const auto place : {data_of_turn, last.span().first(kCount)}) {
                    std::copy(mine.begin(), mine.end(), place.begin());
                    comm.all_reduce(place, ReduceOp::sum);
                    expect(same<float>(place, reduced<float>(salt, 2, 0, kCount, ReduceOp::sum)), "sum");
                }
            }
        }
        expect(last.size() == kCount + 20 && last.data()[kCount + 19] == 0, "still there");
        last.data()[0] = 5;
    });
}

TEST_CASE("allocations begin as zeros, and of no size, alone and over TCP are allocations too",
          "[shm][pool]") {
    const auto check = [](Communicator& comm) {
        expect(comm.allocate<double>(0).size() == 0, "nothing");
        const auto data = comm.allocate<double>(10'000);
        expect(data.size() == 10'000, "size");
        expect(std::all_of(data.span().begin(), data.span().end(), [](double x) { return x == 0; }), "zeros");
        std::fill(data.span().begin(), data.span().end(), 1.5);
        comm.all_reduce(data.span(), ReduceOp::sum);
        expect(data.data()[9'999] == 1.5 * comm.world_size(), "sum");
        const auto error = expect_error(Code::invalid_argument, {}, [&] {
            static_cast<void>(comm.allocate<double>(std::numeric_limits<std::size_t>::max() / 2));
        });
        expect(std::string(error.what()).find("larger than any memory") != std::string::npos, error.what());
    };
    run_communicators(1, check);
    run_communicators(3, check);
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(2, [&](int rank) {
        Communicator comm(open_session(std::make_shared<MemoryStore>(data), "127.0.0.1",
                                       {rank, 2, -1, -1, 0, Transport::tcp}, CommunicatorOptions{}));
        check(comm);
    });
}
