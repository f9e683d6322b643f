// Buffers from the communicator: that they reduce without stages, to the same bits as other memory, and that
// programs need not care where they do not.
#include "collectives/shm/shm_backend.hpp"

#include <cstring>
#include <vector>

#include "collectives/session/bootstrap.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fold.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

// A communicator in shared memory, and what tells how it reduced.
struct Shared {
    Communicator& comm;
    const ShmBackend& backend;
};

void run_shared(int world_size, const std::function<void(const Shared&)>& body) {
    const auto data = std::make_shared<MemoryStoreData>();
    run_ranks(world_size, [&](int rank) {
        auto session =
            open_session(std::make_shared<MemoryStore>(data), "127.0.0.1",
                         {rank, world_size, -1, -1, 0, Transport::automatic}, CommunicatorOptions{});
        const auto& backend = dynamic_cast<const ShmBackend&>(session->executor->backend());
        Communicator comm(std::move(session));
        body({comm, backend});
    });
}

// Bytes that are numbers of the type: small ones, so that no result is infinite or NaN.
std::vector<std::byte> numbers(DataType type, std::size_t salt, int rank, std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(value_of<int>(salt, rank, i) % 128);
    std::vector<std::byte> bytes(count * size_of(type));
    for (std::size_t i = 0; i < count; ++i) {
        std::byte* place = bytes.data() + i * size_of(type);
        const auto put = [&](auto value) { std::memcpy(place, &value, sizeof(value)); };
        switch (type) {
            case DataType::f32: put(values[i]); break;
            case DataType::f64: put(static_cast<double>(values[i])); break;
            case DataType::f16: put(Float16(values[i])); break;
            case DataType::bf16: put(BFloat16(values[i])); break;
            case DataType::i8:
            case DataType::u8: put(static_cast<std::int8_t>(values[i])); break;
            case DataType::i32:
            case DataType::u32: put(static_cast<std::int32_t>(values[i])); break;
            case DataType::i64:
            case DataType::u64: put(static_cast<std::int64_t>(values[i])); break;
        }
    }
    return bytes;
}

// Of this rank's elements `first` on, in two buffers; compared with other memory.
void check_same_bits(const Shared& shared, std::span<unsigned char> a, std::span<unsigned char> b,
                     const Call& call) {
    Communicator& comm = shared.comm;
    const std::size_t bytes = call.count * size_of(call.type);
    const std::size_t first = static_cast<std::size_t>(comm.rank()) * 5 * size_of(call.type);
    const auto mine = numbers(call.type, call.count, comm.rank(), call.count);
    std::vector<std::byte> expected(bytes);
    comm.all_reduce(mine.data(), expected.data(), call.count, call.type, call.reduce);

    const std::uint64_t before = shared.backend.direct_reductions();
    std::memcpy(a.data() + first, mine.data(), bytes);
    comm.all_reduce(a.data() + first, b.data(), call.count, call.type, call.reduce);
    expect(std::memcmp(b.data(), expected.data(), bytes) == 0, "out of place: " + describe(call));
    expect(std::memcmp(a.data() + first, mine.data(), bytes) == 0, "the input stays: " + describe(call));
    comm.all_reduce(a.data() + first, a.data() + first, call.count, call.type, call.reduce);
    expect(std::memcmp(a.data() + first, expected.data(), bytes) == 0, "in place: " + describe(call));
    const bool large = bytes >= std::size_t{64} << 10;
    expect(!large || shared.backend.direct_reductions() == before + 2, "without stages: " + describe(call));
}

}  // namespace

TEST_CASE("buffers of one allocation reduce without stages, to the same bits as other memory",
          "[shm][area]") {
    constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::f16, DataType::bf16,
                                   DataType::i8,  DataType::u8,  DataType::i32, DataType::u32,
                                   DataType::i64, DataType::u64};
    for (const int n : {2, 3, 5}) {
        run_shared(n, [&](const Shared& shared) {
            const auto a = shared.comm.allocate<unsigned char>(2'000'000);
            const auto b = shared.comm.allocate<unsigned char>(2'000'000);
            for (const DataType type : kTypes) {
                for (const std::size_t count : {std::size_t{1}, std::size_t{65'539}}) {
                    for (const ReduceOp op : {ReduceOp::max, ReduceOp::avg})
                        check_same_bits(shared, a.span(), b.span(),
                                        {Operation::all_reduce, type, op, -1, count});
                }
            }
            check_same_bits(shared, a.span(), b.span(),
                            {Operation::all_reduce, DataType::u32, ReduceOp::bxor, -1, 100'000});
        });
    }
}

TEST_CASE("memory from the communicator and other memory work together", "[shm][area]") {
    constexpr std::size_t kCount = 200'000;
    run_shared(3, [](const Shared& shared) {
        Communicator& comm = shared.comm;
        const auto a = comm.allocate<float>(kCount);
        const auto b = comm.allocate<float>(kCount);
        const int rank = comm.rank();
        const auto expected = reduced<float>(1, 3, 0, kCount, ReduceOp::sum);
        const auto check = [&](std::span<float> in, std::span<float> out) {
            const auto mine = input<float>(1, rank, kCount);
            std::copy(mine.begin(), mine.end(), in.begin());
            comm.all_reduce(in, out, ReduceOp::sum);
            expect(same<float>(out, expected), "sum");
        };
        std::vector<float> own(kCount);
        check(rank == 1 ? std::span(own) : a.span(), rank == 1 ? std::span(own) : a.span());
        check(a.span(), own);
        check(own, a.span());
        check(rank == 2 ? b.span() : a.span(), rank == 2 ? b.span() : a.span());
        check(rank == 0 ? a.span() : b.span(), b.span());
        expect(shared.backend.direct_reductions() == 0, "all ranks took the stages");
        check(a.span(), b.span());
        check(b.span(), b.span());
        expect(shared.backend.direct_reductions() == 2, "none did");
    });
}

TEST_CASE("a rank's buffer may end before those of others, or after the communicator", "[shm][area]") {
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
          "[shm][area]") {
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

TEST_CASE("allocations of different sizes are a mismatch", "[shm][area]") {
    run_shared(2, [](const Shared& shared) {
        const auto error = expect_error(Code::mismatch, {0, 1}, [&] {
            static_cast<void>(shared.comm.allocate<float>(shared.comm.rank() == 0 ? 1000 : 1001));
        });
        expect(std::string(error.what()).find("allocate(400") != std::string::npos, error.what());
    });
}
