// Every operation × type × reduction of the NCCL backend, on NCCL's stand-in. Ranks are threads.
#include <cstring>
#include <deque>

#include "apps/ddpbench/operation.hpp"
#include "collectives/group.hpp"
#include "tests/collectives/nccl/nccl_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

constexpr DataType kTypes[] = {DataType::i8,  DataType::u8,  DataType::i32,  DataType::u32, DataType::i64,
                               DataType::u64, DataType::f16, DataType::bf16, DataType::f32, DataType::f64};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min,
                             ReduceOp::max, ReduceOp::avg,  ReduceOp::premul_sum};

struct Case {
    const TimedOperation& operation;
    DataType type;
    ReduceOp op;
    std::size_t count;
    bool in_place;
    int root;
};

std::string describe(const Case& test, const Communicator& comm) {
    return std::string(test.operation.name) + '(' + std::string(name_of(test.op)) + ", " +
           std::to_string(test.count) + ' ' + std::string(name_of(test.type)) +
           (test.in_place ? ", in place" : "") + ", root " + std::to_string(test.root) + ") on rank " +
           std::to_string(comm.rank()) + " of " + std::to_string(comm.world_size());
}

void check(Communicator& comm, const Case& test) {
    const TimedOperation& operation = test.operation;
    const int ranks = comm.world_size();
    const std::size_t part = test.count * size_of(test.type);
    const std::size_t whole = part * static_cast<std::size_t>(ranks);
    const std::size_t own = part * static_cast<std::size_t>(comm.rank());
    const std::size_t in_bytes = operation.in_has_parts ? whole : part;
    const std::size_t out_bytes = operation.out_has_parts ? whole : part;
    CudaMemory in(standin_context(), whole);
    CudaMemory out(standin_context(), whole);
    OperationCall call{.count = test.count, .type = test.type, .reduction = test.op, .root = test.root};
    if (test.op == ReduceOp::premul_sum) call.reduction = premul_sum(0.5);
    std::vector<std::byte> host(in_bytes);
    fill_input(operation, call, host.data(), comm.rank(), ranks, 7);
    call.in = in.data();
    call.out = out.data();
    if (test.in_place) {
        const bool same = operation.in_has_parts == operation.out_has_parts;
        call.in = in.data() + (operation.out_has_parts && !same ? own : 0);
        call.out = in.data() + (operation.in_has_parts && !same ? own : 0);
    }
    const CudaMemory& result = test.in_place ? in : out;
    const auto offset = [&](const void* place) {
        return static_cast<std::size_t>(static_cast<const std::byte*>(place) - result.data());
    };
    // A broadcast has its input where its output comes.
    if (operation.out_of_place) {
        in.copy_from(host.data(), host.size(), test.in_place ? offset(call.in) : 0);
    } else {
        in.copy_from(host.data(), host.size());
    }
    operation.run(comm, call);
    std::vector<std::byte> read(out_bytes);
    result.copy_to(read.data(), read.size(), offset(call.out));
    OperationCall seen = call;
    seen.out = read.data();
    expect(count_wrong(operation, seen, comm.rank(), ranks, 7) == 0, "wrong data: " + describe(test, comm));
}

void check_all(Communicator& comm, const TimedOperation& operation, std::size_t count) {
    // NCCL has no messages by tag.
    if (operation.min_ranks > comm.world_size() || operation.name == "pingpong") return;
    for (const DataType type : kTypes) {
        if (kIsSanitized && type != DataType::f32 && type != DataType::bf16)
            continue;  // their way is the same
        for (const ReduceOp op : kOps) {
            if (operation.reduces ? !is_defined(op, type) : op != ReduceOp::sum) continue;
            const int root = operation.has_root ? comm.world_size() - 1 : 0;
            if (operation.out_of_place) check(comm, {operation, type, op, count, false, root});
            if (operation.in_place) check(comm, {operation, type, op, count, true, root});
        }
    }
}

void check_everything(const std::vector<int>& world_sizes) {
    for (const int ranks : world_sizes) {
        for (const TimedOperation& operation : operations()) {
            run_communicators(ranks, [&](Communicator& comm) {
                check_all(comm, operation, 1);
                check_all(comm, operation, 1009);
            });
        }
    }
}

}  // namespace

TEST_CASE("NCCL moves and reduces every type by every operation") {
    const StandIn standin;
    check_everything({1, 2, 4});
}

TEST_CASE("NCCL before 2.28 has no all_to_all, gather and scatter: they are made of sends") {
    const StandIn standin("version:22703", DDPRUN_STANDIN_NCCL_BEFORE_2_28);
    check_everything({3});
}

TEST_CASE("operations without elements synchronise") {
    const StandIn standin;
    run_communicators(3, [](Communicator& comm) {
        comm.barrier();
        comm.all_reduce(nullptr, nullptr, 0, DataType::f32, ReduceOp::sum);
        comm.all_to_all(nullptr, nullptr, 0, DataType::f32);
        comm.broadcast(nullptr, 0, DataType::f64, 1);
        if (comm.rank() == 0) comm.send(nullptr, 0, DataType::f64, 1);
        if (comm.rank() == 1) comm.recv(nullptr, 0, DataType::f64, 0);
    });
}

TEST_CASE("groups on NCCL exchange with all at the same time") {
    for (const char* faults : {"", "connects"}) {
        const StandIn standin(faults);
        for (const int n : {2, 3, 4}) {
            run_communicators(n, [n](Communicator& comm) {
                Group group(comm);
                group.run();
                // Two messages to each other rank, the second of another size, and one without elements.
                std::deque<DeviceVector<std::int32_t>> sent;
                std::deque<DeviceVector<std::int32_t>> received;
                for (const bool started : {false, true}) {
                    for (int i = 1; i < n; ++i) {
                        const int peer = (comm.rank() + i) % n;
                        for (const int size : {3, 1000}) {
                            const auto count = static_cast<std::size_t>(size);
                            sent.emplace_back(std::vector<std::int32_t>(count, 10 * comm.rank() + size));
                            received.emplace_back(std::vector<std::int32_t>(count));
                            group.recv(received.back().span(), peer);
                            group.send(sent.back().span(), peer);
                        }
                        group.send(nullptr, 0, DataType::f64, peer);
                        group.recv(nullptr, 0, DataType::f64, peer);
                    }
                    started ? group.start().wait() : group.run();
                    for (int i = 1; i < n; ++i) {
                        for (const int size : {3, 1000}) {
                            const std::int32_t value = 10 * ((comm.rank() + i) % n) + size;
                            const auto count = static_cast<std::size_t>(size);
                            expect(received.front().host() == std::vector<std::int32_t>(count, value),
                                   "received");
                            received.pop_front();
                        }
                    }
                }
            });
        }
    }
}

TEST_CASE("a group on NCCL takes its place in the caller's stream, and fits plain calls") {
    const StandIn standin;
    run_communicators(2, [](Communicator& comm) {
        const auto context = standin_context();
        const CudaScope scope(*context);
        CudaStream stream = nullptr;
        expect(context->driver().stream_create(&stream, 0) == CudaResult::success, "stream");
        DeviceVector<float> mine({1.0F + static_cast<float>(comm.rank())});
        DeviceVector<float> theirs({0});
        const int peer = 1 - comm.rank();
        comm.async(stream).all_reduce(mine.span(), ReduceOp::sum);
        if (comm.rank() == 0) {
            Group group(comm);
            group.recv(theirs.span(), peer);
            group.send(mine.span(), peer);
            group.start(stream).wait();
        } else {
            comm.async(stream).send(mine.span(), peer);
            comm.async(stream).recv(theirs.span(), peer).wait();
        }
        expect(theirs.host()[0] == 3, "what the all_reduce before it left");
        context->driver().stream_destroy(stream);
    });
}

TEST_CASE("reductions of bits are refused, and the communicator goes on") {
    const StandIn standin;
    run_communicators(2, [](Communicator& comm) {
        DeviceVector<std::int32_t> data({1, 2});
        const auto error = expect_error(CollectiveErrorCode::invalid_argument, {},
                                        [&] { comm.all_reduce(data.span(), ReduceOp::bxor); });
        expect(std::string(error.what()).find("bxor is not among NCCL's operations") != std::string::npos,
               error.what());
        comm.all_reduce(data.span(), ReduceOp::sum);
        expect(data.host() == std::vector<std::int32_t>{2, 4}, "sum");
    });
}

TEST_CASE("operations take their places in the caller's streams") {
    const StandIn standin;
    run_communicators(2, [](Communicator& comm) {
        const auto context = standin_context();
        const CudaScope scope(*context);
        CudaStream first = nullptr;
        CudaStream second = nullptr;
        expect(context->driver().stream_create(&first, 0) == CudaResult::success, "stream");
        expect(context->driver().stream_create(&second, 0) == CudaResult::success, "stream");
        DeviceVector<float> a({1, 2});
        DeviceVector<float> b({static_cast<float>(comm.rank()), 5});
        std::vector<Work> works;
        for (int i = 0; i < 50; ++i) {
            works.push_back(comm.async(first).all_reduce(a.span(), ReduceOp::avg));
            works.push_back(comm.async(second).all_to_all(b.span(), b.span()));
        }
        for (const Work& work : works) work.wait();
        expect(works.back().test() && !works.back().error(), "ended well");
        expect(a.host() == std::vector<float>{1, 2}, "averages");
        // An even number of exchanges puts everything back.
        expect(b.host() == std::vector<float>{static_cast<float>(comm.rank()), 5}, "exchanged in place");
        context->driver().stream_destroy(first);
        context->driver().stream_destroy(second);
    });
}

TEST_CASE("a split communicator has an NCCL communicator of its own") {
    const StandIn standin("connects");
    run_communicators(4, [](Communicator& comm) {
        auto half = comm.split(comm.rank() % 2);
        DeviceVector<std::int64_t> data({comm.rank()});
        half->all_reduce(data.span(), ReduceOp::sum);
        expect(data.host()[0] == (comm.rank() % 2 == 0 ? 2 : 4), "the sum of a half");
        auto alone = comm.split(comm.rank());
        alone->all_reduce(data.span(), ReduceOp::max);
        comm.all_reduce(data.span(), ReduceOp::sum);
        expect(data.host()[0] == 12, "the sum of all");
    });
}
