#include "apps/ddpbench/operation.hpp"

#include <array>

#include "collectives/group.hpp"

namespace ddprun::inline app {
namespace {

double whole(int) { return 1; }
double without_own(int ranks) { return static_cast<double>(ranks - 1) / ranks; }
double there_and_back(int ranks) { return 2 * without_own(ranks); }

// Each rank sends to the next.
void run_sendrecv(Communicator& communicator, const OperationCall& call) {
    const int ranks = communicator.world_size();
    const int next = (communicator.rank() + 1) % ranks;
    const int before = (communicator.rank() + ranks - 1) % ranks;
    Group group(communicator);
    group.send(call.in, call.count, call.type, next);
    group.recv(call.out, call.count, call.type, before);
    group.run();
}

constexpr std::array kOperations{
    TimedOperation{.name = "all_reduce",
                   .reduces = true,
                   .bus_factor = there_and_back,
                   .run =
                       [](Communicator& communicator, const OperationCall& call) {
                           communicator.all_reduce(call.in, call.out, call.count, call.type, call.reduction);
                       }},
    TimedOperation{.name = "all_gather",
                   .out_has_parts = true,
                   .bus_factor = without_own,
                   .run =
                       [](Communicator& communicator, const OperationCall& call) {
                           communicator.all_gather(call.in, call.out, call.count, call.type);
                       }},
    TimedOperation{.name = "reduce_scatter",
                   .reduces = true,
                   .in_has_parts = true,
                   .bus_factor = without_own,
                   .run =
                       [](Communicator& communicator, const OperationCall& call) {
                           communicator.reduce_scatter(call.in, call.out, call.count, call.type,
                                                       call.reduction);
                       }},
    TimedOperation{.name = "broadcast",
                   .has_root = true,
                   .out_of_place = false,
                   .bus_factor = whole,
                   .run =
                       [](Communicator& communicator, const OperationCall& call) {
                           communicator.broadcast(call.out, call.count, call.type, call.root);
                       }},
    TimedOperation{.name = "reduce",
                   .reduces = true,
                   .has_root = true,
                   .out_at_root_only = true,
                   .bus_factor = whole,
                   .run =
                       [](Communicator& communicator, const OperationCall& call) {
                           communicator.reduce(call.in, call.out, call.count, call.type, call.reduction,
                                               call.root);
                       }},
    TimedOperation{.name = "gather",
                   .has_root = true,
                   .out_at_root_only = true,
                   .out_has_parts = true,
                   .bus_factor = without_own,
                   .run =
                       [](Communicator& communicator, const OperationCall& call) {
                           communicator.gather(call.in, call.out, call.count, call.type, call.root);
                       }},
    TimedOperation{.name = "scatter",
                   .has_root = true,
                   .in_has_parts = true,
                   .bus_factor = without_own,
                   .run =
                       [](Communicator& communicator, const OperationCall& call) {
                           communicator.scatter(call.in, call.out, call.count, call.type, call.root);
                       }},
    TimedOperation{.name = "all_to_all",
                   .in_has_parts = true,
                   .out_has_parts = true,
                   .bus_factor = without_own,
                   .run =
                       [](Communicator& communicator, const OperationCall& call) {
                           communicator.all_to_all(call.in, call.out, call.count, call.type);
                       }},
    TimedOperation{
        .name = "sendrecv", .in_place = false, .min_ranks = 2, .bus_factor = whole, .run = run_sendrecv},
};

}  // namespace

std::span<const TimedOperation> operations() { return kOperations; }

const TimedOperation* find_operation(std::string_view name) {
    constexpr std::string_view kEnding = "_perf";
    if (name.ends_with(kEnding)) name.remove_suffix(kEnding.size());
    for (const TimedOperation& operation : kOperations) {
        if (operation.name == name) return &operation;
    }
    return nullptr;
}

}  // namespace ddprun::inline app
