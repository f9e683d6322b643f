// Operations on memory from the communicator: that they use it without stages, to the same bits as other
// memory, and that programs need not care where they do not.
#include "collectives/shm/shm_backend.hpp"

#include <cstring>
#include <random>
#include <vector>

#include "collectives/session/bootstrap.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fold.hpp"
#include "tests/support/memory_store.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

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

    const std::uint64_t before = shared.backend.direct_operations();
    std::memcpy(a.data() + first, mine.data(), bytes);
    comm.all_reduce(a.data() + first, b.data(), call.count, call.type, call.reduce);
    expect(std::memcmp(b.data(), expected.data(), bytes) == 0, "out of place: " + describe(call));
    expect(std::memcmp(a.data() + first, mine.data(), bytes) == 0, "the input stays: " + describe(call));
    comm.all_reduce(a.data() + first, a.data() + first, call.count, call.type, call.reduce);
    expect(std::memcmp(a.data() + first, expected.data(), bytes) == 0, "in place: " + describe(call));
    const bool large = bytes >= std::size_t{64} << 10;
    expect(!large || shared.backend.direct_operations() == before + 2, "without stages: " + describe(call));
}

// Runs the operation out of place on a rank's data, in memory that `place(bytes)` gives; returns what it has
// afterwards.
using PlaceOf = std::function<std::byte*(std::size_t)>;
std::vector<std::byte> result_of(Communicator& comm, const Call& call, const PlaceOf& in_place,
                                 const PlaceOf& out_place) {
    const auto n = static_cast<std::size_t>(comm.world_size());
    const OperationTraits traits = traits_of(call.operation);
    const auto mine = numbers(call.type, call.count, comm.rank(), call.count * (traits.whole_in ? n : 1));
    const std::size_t out_bytes = call.count * size_of(call.type) * (traits.whole_out ? n : 1);
    std::byte* in = in_place(mine.size());
    std::byte* out = call.operation == Operation::broadcast ? in : out_place(out_bytes);
    std::memcpy(in, mine.data(), mine.size());
    if (out != in) std::memset(out, 0, out_bytes);
    comm.async()
        .submit({.operation = call.operation,
                 .in = in,
                 .out = out,
                 .count = call.count,
                 .type = call.type,
                 .reduction = call.reduce,
                 .peer = call.root})
        .wait();
    expect(out == in || std::memcmp(in, mine.data(), mine.size()) == 0, "the input stays: " + describe(call));
    std::vector<std::byte> result(out, out + out_bytes);
    // Whoever still reads it or writes there is found out.
    std::memset(in, 0x55, mine.size());
    std::memset(out, 0x55, out_bytes);
    return result;
}

// Every operation, of sizes on both sides of where stages begin and of rounds.
std::vector<Call> all_calls(int n, std::mt19937& random) {
    std::vector<Call> calls;
    for (const Operation operation :
         {Operation::all_reduce, Operation::reduce, Operation::reduce_scatter, Operation::broadcast,
          Operation::all_gather, Operation::gather, Operation::scatter, Operation::all_to_all}) {
        for (const std::size_t count :
             {std::size_t{1}, std::size_t{100'000}, std::size_t{1} + random() % 300'000}) {
            const int root = has_root(operation) ? static_cast<int>(random() % static_cast<unsigned>(n)) : -1;
            calls.push_back(
                {operation, random() % 2 == 0 ? DataType::f32 : DataType::bf16, ReduceOp::sum, root, count});
        }
    }
    std::shuffle(calls.begin(), calls.end(), random);
    return calls;
}

}  // namespace

TEST_CASE("every operation gives the same bits wherever each rank's memory lies", "[shm][pool]") {
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int n : {2, 3, 5}) {
        if (kIsSanitized && n != 3) continue;  // other numbers of ranks are in the other cases
        run_shared(n, [&](const Shared& shared) {
            Communicator& comm = shared.comm;
            std::mt19937 alike(seed);
            std::mt19937 own(seed + static_cast<unsigned>(comm.rank()) + 1);
            SharedBuffer<unsigned char> buffers[2];
            std::vector<std::byte> vectors[2];
            const auto mapped = [&](std::size_t i) -> PlaceOf {
                return [&, i](std::size_t bytes) {
                    if (buffers[i].size() < bytes) buffers[i] = comm.allocate<unsigned char>(bytes);
                    expect(comm.owns(buffers[i].data()), "is in the pool");
                    return reinterpret_cast<std::byte*>(buffers[i].data() +
                                                        (buffers[i].size() - bytes) / 64 * 64);
                };
            };
            const auto ordinary = [&](std::size_t i) -> PlaceOf {
                return [&, i](std::size_t bytes) {
                    vectors[i].resize(bytes);
                    return vectors[i].data();
                };
            };
            const auto any = [&](std::size_t i) { return own() % 2 == 0 ? mapped(i) : ordinary(i); };
            for (const Call& call : all_calls(n, alike)) {
                const bool writes =
                    traits_of(call.operation).out == Where::everywhere || call.root == comm.rank();
                const auto same_as = [&](const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
                    expect(!writes || a == b, describe(call) + ", seed " + std::to_string(seed));
                };
                const auto expected = result_of(comm, call, ordinary(0), ordinary(1));
                const std::uint64_t before = shared.backend.direct_operations();
                same_as(result_of(comm, call, mapped(0), mapped(1)), expected);
                const bool reads = call.operation != Operation::broadcast &&
                                   traits_of(call.operation).in == Where::everywhere;
                if (call.count >= 100'000 && (reads || call.root == comm.rank()))
                    expect(shared.backend.direct_operations() == before + 1,
                           "went without a stage: " + describe(call));
                for (int i = 0; i < 2; ++i) same_as(result_of(comm, call, any(0), any(1)), expected);
            }
        });
    }
}

TEST_CASE("operations in place are right where each rank's memory lies anywhere", "[shm][pool]") {
    constexpr std::size_t kCount = 150'000;
    const auto seed = std::random_device{}();
    INFO("seed " << seed);
    run_shared(3, [&](const Shared& shared) {
        Communicator& comm = shared.comm;
        const int rank = comm.rank();
        std::mt19937 own(seed + static_cast<unsigned>(rank));
        const auto memory = comm.allocate<int>(3 * kCount);
        std::vector<int> vector(3 * kCount);
        const auto part = [&](std::span<int> whole, int i) {
            return whole.subspan(static_cast<std::size_t>(i) * kCount, kCount);
        };
        for (int round = 0; round < (kIsSanitized ? 4 : 12); ++round) {
            const std::span<int> data = round == 0 || own() % 2 == 0 ? memory.span() : std::span(vector);
            const auto fill = [&] { std::ranges::copy(input<int>(9, rank, 3 * kCount), data.begin()); };
            fill();
            comm.all_to_all(data, data);
            for (int from = 0; from < 3; ++from) {
                const auto whole = input<int>(9, from, 3 * kCount);
                expect(same<int>(part(data, from),
                                 part(std::span(const_cast<int*>(whole.data()), whole.size()), rank)),
                       "all_to_all, seed " + std::to_string(seed));
            }
            fill();
            comm.all_gather(std::span<const int>(part(data, rank)), data);
            for (int from = 0; from < 3; ++from) {
                const auto whole = input<int>(9, from, 3 * kCount);
                expect(std::equal(whole.begin() + from * static_cast<std::ptrdiff_t>(kCount),
                                  whole.begin() + (from + 1) * static_cast<std::ptrdiff_t>(kCount),
                                  part(data, from).begin()),
                       "all_gather, seed " + std::to_string(seed));
            }
            fill();
            comm.reduce_scatter(std::span<const int>(data), part(data, rank), ReduceOp::sum);
            expect(same<int>(part(data, rank), reduced<int>(9, 3, static_cast<std::size_t>(rank) * kCount,
                                                            kCount, ReduceOp::sum)),
                   "reduce_scatter, seed " + std::to_string(seed));
        }
    });
}

TEST_CASE("ranks allocate what and when they like", "[shm][pool]") {
    run_shared(2, [](const Shared& shared) {
        Communicator& comm = shared.comm;
        const int rank = comm.rank();
        std::vector<SharedBuffer<float>> held;
        for (int i = 0; i < 3 * rank; ++i)
            held.push_back(comm.allocate<float>(1000 + 5'000 * static_cast<std::size_t>(i)));
        const auto data = comm.allocate<float>(100'000);
        std::fill(data.span().begin(), data.span().end(), 1.0F);
        comm.all_reduce(data.span(), ReduceOp::sum);
        expect(data.data()[99'999] == 2, "sum");
        expect(shared.backend.direct_operations() == 1, "without stages, from different places of the pools");
    });
}

TEST_CASE("buffers of the communicator reduce without stages, to the same bits as other memory",
          "[shm][pool]") {
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

TEST_CASE("memory from the communicator and other memory work together", "[shm][pool]") {
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
        expect(shared.backend.direct_operations() == 0, "all ranks took the stages");
        check(rank == 2 ? b.span() : a.span(), rank == 2 ? b.span() : a.span());
        check(rank == 0 ? a.span() : b.span(), b.span());
        check(b.span(), b.span());
        expect(shared.backend.direct_operations() == 3, "none did");
    });
}
